# SPDX-License-Identifier: Apache-2.0
"""True positive rates of the best test, to 30 digits, as tests/data/risk.csv: python3 tests/python/reference_risk.py > tests/data/risk.csv

One to three steps of the Poisson-subsampled Gaussian. The best test says "with" where the loss is above t (Neyman and Pearson), so that
a threshold gives both rates, without a search:

    remove   P = ((1-q) N(0) + q N(1))^n, Q = N(0)^n,      rates P[L > t], Q[L > t], L the sum of ln(1 - q + q e^((2x-1)/(2 sigma^2)))
    add      the same sum; the test says "with" where it is below t

The probability of the last step's event is a normal tail in closed form. The steps before it are integrated by tanh-sinh rules, split
where the last step's event becomes certain. No code of the library is used.
"""
import mpmath as mp

mp.mp.dps = 36
ZERO, ONE, INF = mp.mpf(0), mp.mpf(1), mp.inf


def tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def loss(x, s, q):
    return mp.log1p(q * mp.expm1((2 * x - 1) / (2 * s * s)))


def place(value, s, q):
    """The x with this loss; -inf where every x has a larger one."""
    inside = mp.expm1(value) / q + 1
    return -INF if inside <= 0 else s * s * mp.log(inside) + mp.mpf(1) / 2


def last(value, s, q, with_unit):
    """Probability that one step's loss is above the value."""
    c = place(value, s, q)
    if c == -INF:
        return ONE
    rest = tail(c / s)
    return (1 - q) * rest + q * tail((c - 1) / s) if with_unit else rest


def above(t, n, s, q, with_unit):
    """Probability that the sum of n losses is above t."""
    if n == 1:
        return last(t, s, q, with_unit)
    least = (n - 1) * mp.log1p(-q)

    def inner(x):
        density = mp.exp(-x * x / (2 * s * s))
        if with_unit:
            density = (1 - q) * density + q * mp.exp(-(x - 1) ** 2 / (2 * s * s))
        return density * above(t - loss(x, s, q), n - 1, s, q, with_unit)

    ends = [-13 * s, -4 * s, ZERO, 4 * s, 13 * s + 1]
    # where the other steps are above for certain, and where one of them alone has to be far out
    for level in (t - least, t):
        edge = place(level, s, q)
        if ends[0] < edge < ends[-1]:
            ends.append(edge)
    return mp.quad(inner, sorted(ends)) / (s * mp.sqrt(2 * mp.pi))


def main():
    print("direction,sigma,probability,steps,fpr,tpr")
    for n, digits, cases in ((1, 36, [("0.5", "0.1"), ("1", "0.01"), ("1", "0.3"), ("2", "0.05"), ("0.8", "0.5")]),
                             (2, 36, [("0.7", "0.1"), ("1", "0.02"), ("2", "0.3")]),
                             (3, 20, [("1", "0.1")])):
        mp.mp.dps = digits
        for s, q in cases:
            sigma, probability = mp.mpf(s), mp.mpf(q)
            for level in ("-0.05", "0.01", "0.1", "0.4", "1", "2", "3.5"):
                if n == 3 and level not in ("0.1", "1"):
                    continue
                t = mp.mpf(level)
                if t < 0:
                    t = n * mp.log1p(-probability) / 2
                found = above(t, n, sigma, probability, True), above(t, n, sigma, probability, False)
                rates = {"remove": (found[1], found[0]), "add": (1 - found[0], 1 - found[1])}
                for direction, (fpr, tpr) in rates.items():
                    if mp.mpf("1e-60") < fpr < 1 - mp.mpf("1e-10"):
                        print(",".join([direction, s, q, str(n), mp.nstr(fpr, 30), mp.nstr(tpr, 30)]), flush=True)


main()
