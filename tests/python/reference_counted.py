# SPDX-License-Identifier: Apache-2.0
"""Writes tests/support/counted_reference.h: hockey sticks of a group's step under Poisson sampling, by quadrature with 40 digits.

P = sum_j Bin(G, q)(j) N(j, s^2) against Q = N(0, s^2), removing and adding, or against the mirror image of P (replace). Needs mpmath:
    python3 tests/python/reference_counted.py > tests/support/counted_reference.h
"""
import mpmath as mp

mp.mp.dps = 45  # of which 40 are the integrals'


def density(weights, s, sign):
    norm = 1 / (s * mp.sqrt(2 * mp.pi))
    return lambda x: norm * mp.fsum(w * mp.exp(-((x - sign * j) / s) ** 2 / 2) for j, w in enumerate(weights))


def hockey(p, q, a, s, group):
    """The integral of (p - a q)_+, between the one root of p = a q and the end where p is larger."""
    difference = lambda x: p(x) - a * q(x)
    low, high = -group - 45 * s, group + 45 * s
    up = difference(high) > 0 or (difference(high) == 0 and difference(low) < 0)
    left, right = mp.mpf(low), mp.mpf(high)
    if (difference(left) > 0) == (difference(right) > 0):
        return mp.mpf(0)
    for _ in range(150):
        middle = (left + right) / 2
        if (difference(middle) > 0) == up:
            right = middle
        else:
            left = middle
    ends = (right, right + group + 30 * s) if up else (right - group - 30 * s, right)
    # panels that double in width from the root on: far out the integrand falls within s^2/|root|
    root, far = (ends[0], ends[1]) if up else (ends[1], ends[0])
    parts, width = [root], (far - root) / mp.mpf(2) ** 14
    while abs(parts[-1] - root) < abs(far - root):
        parts.append(root + width)
        width *= 2
    return abs(mp.quad(difference, parts))


def settings():
    made = []
    for i in range(40):
        group = [2, 3, 4, 5, 8, 10, 16, 32][i % 8]
        q = [0.001, 0.01, 0.05, 0.2, 0.5][i % 5]
        sigma = [0.7, 1.0, 2.0, 5.0, 10.0, 0.5, 3.0][i % 7]
        epsilon = [0.0, 0.1, 0.5, 1.0, 2.0, 4.0][i % 6]
        if sigma >= 3:
            epsilon /= 8  # where more would be below every double
        made.append((group, q, sigma, epsilon, i % 4 == 3))
    return made


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Written by tests/python/reference_counted.py: integrals with 40 digits, rounded to doubles. */")
    print("#ifndef DPMF_TESTS_SUPPORT_COUNTED_REFERENCE_H")
    print("#define DPMF_TESTS_SUPPORT_COUNTED_REFERENCE_H\n")
    print("#include <stdint.h>\n")
    print("typedef struct counted_reference {")
    print("    int64_t group;\n    double q, sigma, epsilon;\n    int replace;\n    double remove, add;\n} counted_reference;\n")
    print("static const counted_reference COUNTED_REFERENCE[] = {")
    for group, q, sigma, epsilon, replace in settings():
        exact_q, s, a = mp.mpf(q), mp.mpf(sigma), mp.exp(mp.mpf(epsilon))
        weights = [mp.binomial(group, j) * exact_q**j * (1 - exact_q) ** (group - j) for j in range(group + 1)]
        with_group = density(weights, s, 1)
        without = density(weights, s, -1) if replace else density([mp.mpf(1)], s, 1)
        remove = hockey(with_group, without, a, s, group)
        add = hockey(without, with_group, a, s, group)
        print("    {%d, %r, %r, %r, %d, %s, %s}," % (group, q, sigma, epsilon, replace, mp.nstr(remove, 17), mp.nstr(add, 17)))
    print("};\n\n#endif")


main()
