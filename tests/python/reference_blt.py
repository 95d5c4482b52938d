#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""BLT: losses and inverse parameters in 50 digits and more, and the best losses by brute force.

    reference_blt.py > tests/data/blt.csv      all of it, a few minutes (needs mpmath, numpy, scipy)
    reference_blt.py values                    the lines in many digits alone
    reference_blt.py search                    the best losses alone

Values come from the doubles of the parameters: the inverse from the roots of a polynomial, the sums from the lemma's
own terms (Pillutla et al. 2025, Lemma 2.29, with the sign of its linear terms put right), which cancel but not in 120
digits; and from the matrix's columns themselves where there are few. The search knows nothing of interlacing or closed
forms: it minimizes over positive scales and decays from random starts, with plain sums over coefficients, and for the
sensitivity it tries every pattern.

Lines:  losses;STEPS;K;B;SCALES;GAPS;SENSITIVITY^2;LAST ROW^2;FROBENIUS^2
        inverse;SCALES;GAPS;SCALES OF THE INVERSE;GAPS OF THE INVERSE
        best;STEPS;PARTICIPATION;rms or max;BUFFERS;LOSS
"""
import itertools
import sys

from mpmath import mp, mpf, nstr, polyroots

mp.dps = 120

# The second is a known BLT for 100 000 steps, its gaps rounded to doubles as the library reads its decays.
CASES = [
    ([0.3], [0.25]),
    ([0.0122853238, 0.1878393665], [1 - 0.9999528892, 1 - 0.9857068667]),
    ([0.008, 0.025, 0.1, 0.33], [3.3e-5, 7.5e-4, 0.013, 0.2]),
    ([0.33, 1e-4, 0.03, 0.004], [0.2, 1.1e-9, 3.3e-3, 2.2e-6]),
    ([1e-7, 2e-6, 5e-5, 7e-4, 0.01, 0.3], [1e-14, 3e-12, 1e-9, 1e-6, 2e-4, 0.3]),
    ([1e-12, 0.2, 1e-9], [0.1, 0.1000000001, 1e-5]),
    ([0.45, 0.4], [0.9, 0.5]),
]
STEPS = [1, 2, 7, 64, 1000, 10**5, 10**9, 10**10]
PATTERNS = [(64, 4, 16), (64, 4, 13), (100, 100, 1), (1000, 3, 400), (1000, 200, 5)]


def product(values):
    out = mpf(1)
    for v in values:
        out *= v
    return out


def inverse(scale, gap):
    """Gaps h and scales a > 0 with C^-1 = BLT(-a, 1 - h): 1 = sum scale/(h - gap), cleared of its denominators."""
    d = len(scale)
    coefficients = [mpf(0)] * (d + 1)

    def add(factor, roots):
        poly = [mpf(1)]
        for r in roots:
            poly = [a - r * b for a, b in zip(poly + [mpf(0)], [mpf(0)] + poly)]
        for i, c in enumerate(poly):
            coefficients[d + 1 - len(poly) + i] += factor * c

    add(mpf(1), gap)
    for i in range(d):
        add(-scale[i], gap[:i] + gap[i + 1:])
    h = sorted(r.real for r in polyroots(coefficients, maxsteps=2000, extraprec=1500))
    a = [-product(h[j] - g for g in gap) / product(h[j] - h[i] for i in range(d) if i != j) for j in range(d)]
    return h, [abs(v) for v in a]


def lemma(n, scale, gap):
    h, a = inverse(scale, gap)
    n = mpf(n)

    def geometric(x, terms):
        return (1 - x**terms) / (1 - x)

    sens = 1 + sum(scale[i] * scale[j] * geometric((1 - gap[i]) * (1 - gap[j]), n - 1)
                   for i in range(len(gap)) for j in range(len(gap)))
    # sums over t < n of x^t and of (n - t) x^t
    row = lambda x: n if x == 1 else geometric(x, n)
    all_rows = lambda x: n * (n + 1) / 2 if x == 1 else (n - x * geometric(x, n)) / (1 - x)
    out = []
    for total in row, all_rows:
        value = total(mpf(1))
        for i in range(len(h)):
            mu = 1 - h[i]
            value -= 2 * a[i] / h[i] * (total(mpf(1)) - total(mu))
            for j in range(len(h)):
                nu = 1 - h[j]
                value += a[i] * a[j] / (h[i] * h[j]) * (total(mpf(1)) - total(mu) - total(nu) + total(mu * nu))
        out.append(value)
    return [sens] + out


def columns(n, k, b, scale, gap):
    """From the first columns of C and A C^-1."""
    c = [mpf(1)] + [sum(s * (1 - g)**(t - 1) for s, g in zip(scale, gap)) for t in range(1, n)]
    w, m = [], [mpf(0)] * len(gap)
    for t in range(n):
        y = 1 - sum(s * x for s, x in zip(scale, m))
        m = [(1 - g) * x + y for g, x in zip(gap, m)]
        w.append(y)
    s = [sum(c[t - j * b] for j in range(k) if t >= j * b) for t in range(n)]
    return [sum(x * x for x in s), sum(x * x for x in w), sum((n - t) * x * x for t, x in enumerate(w))]


def text(values):
    return " ".join(repr(float(v)) for v in values)


def show(values):
    return " ".join(nstr(v, 30) for v in values)


def print_values():
    for scale, gap in CASES:
        s, g = [mpf(v) for v in scale], [mpf(v) for v in gap]
        h, a = inverse(s, g)
        print(f"inverse;{text(scale)};{text(gap)};{show(a)};{show(h)}")
        for n in STEPS:
            value = lemma(n, s, g)
            if n <= 1000:
                direct = columns(n, 1, n, s, g)
                assert all(abs(x - y) < mpf(10)**-60 * x for x, y in zip(value, direct)), (n, scale)
            print(f"losses;{n};1;{n};{text(scale)};{text(gap)};" + ";".join(nstr(v, 30) for v in value))
        for n, k, b in PATTERNS:
            value = columns(n, k, b, s, g)
            print(f"losses;{n};{k};{b};{text(scale)};{text(gap)};" + ";".join(nstr(v, 30) for v in value))


# ---- the search ----


def patterns(kind, n, k, b):
    if kind == "single":
        return [[t] for t in range(n)]
    if kind == "cyclic":
        return [list(range(j, n, b)) for j in range(b)]
    spare = n - (k - 1) * b  # k steps at least b apart: k ordered steps out of `spare`, with repetition
    return [[t + i * b for i, t in enumerate(p)] for p in itertools.combinations_with_replacement(range(spare), k)]


def print_search():
    import numpy as np
    from scipy.linalg import solve_triangular, toeplitz
    from scipy.optimize import minimize

    n = 64
    for kind, k, b in [("single", 1, n), ("cyclic", 4, 16), ("minsep", 4, 16)]:
        member = np.zeros((len(patterns(kind, n, k, b)), n))
        for i, p in enumerate(patterns(kind, n, k, b)):
            member[i, p] = 1

        @np.errstate(all="ignore")
        def loss(x, max_loss, d):
            scale, decay = np.exp(x[:d]), 1 / (1 + np.exp(-x[d:]))
            c = np.concatenate([[1.0], (scale * decay**np.arange(n - 1)[:, None]).sum(axis=1)])
            full = np.tril(toeplitz(c))
            w = solve_triangular(full, np.ones(n), lower=True)
            sens = np.einsum("ij,ij->i", member @ full.T, member @ full.T).max()
            error = np.sum(w * w) if max_loss else np.sum((n - np.arange(n)) * w * w) / n
            value = 0.5 * np.log(sens * error)
            return value if np.isfinite(value) else 1e3

        for name in "rms", "max":
            for d in 1, 2, 3:
                random = np.random.default_rng(1000 * d + k)
                best = np.inf
                for _ in range(10):
                    x = np.concatenate([random.uniform(-5, 0, d), random.uniform(-2, 5, d)])
                    for method, options in [("BFGS", {"gtol": 1e-7}),
                                            ("Nelder-Mead", {"xatol": 1e-7, "fatol": 1e-12, "maxfev": 600 * d})]:
                        found = minimize(loss, x, args=(name == "max", d), method=method, options=options)
                        x = found.x
                    best = min(best, found.fun)
                where = kind if kind == "single" else f"{kind}:{k},{b}"
                print(f"best;{n};{where};{name};{d};{np.exp(best):.9f}", flush=True)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "all"
    if mode in ("all", "values"):
        print_values()
    if mode in ("all", "search"):
        print_search()


if __name__ == "__main__":
    main()
