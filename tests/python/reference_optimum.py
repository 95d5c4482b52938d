#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimal losses and phi to 30 digits, by 50-digit arithmetic that shares nothing with the library.

    reference_optimum.py > tests/data/optimum.csv     all of it, some minutes (needs numpy and mpmath)
    reference_optimum.py check tests/data/optimum.csv recompute some lines and compare

A is built from its definition and the workload's doubles. phi comes from a dense singular value decomposition of
W = P^1/2 A V^1/2 in 50 digits. The optimum is found in double precision (a fixed point, or for max loss an interior
point method that finds which weights vanish), then corrected by Newton steps whose residual has 50 digits and whose
Jacobian is a double's; it is accepted when the duality gap, in 50 digits, is below 1e-25, and the lower bound, which is
off by the square of that error at most, is printed.

Lines:  optimum;WORKLOAD;STEPS;rms or max;VALUE
        phi;WORKLOAD;STEPS;CASE;STEP;V;P;COLUMN;ROW      columns and rows of phi at the weights v and p
"""
import sys

import numpy as np
from mpmath import matrix, mp, mpf, nstr, sqrt, svd_r

mp.dps = 50
WORKLOADS = {
    "prefix": (0.0, False, 0.0, None),
    "decay:0.05": (0.0, False, 0.05, None),
    "cooldown:0.5:0.001": (0.0, False, 0.0, (0.5, 0.001)),
    "momentum:0.9": (0.9, False, 0.0, None),
    "momentum:0.999": (0.999, False, 0.0, None),
    "momentum:0.95,cooldown:0.25:0.05": (0.95, False, 0.0, (0.25, 0.05)),
    "nesterov:0.9": (0.9, True, 0.0, None),
    "nesterov:0.9,decay:0.01,cooldown:0.5:0.1": (0.9, True, 0.01, (0.5, 0.1)),
}
RMS_STEPS, MAX_STEPS, PHI_STEPS = (1, 2, 3, 5, 8, 16, 32, 64), (1, 2, 3, 5, 8, 16, 32), (1, 2, 7, 33)


def workload(n, beta, nesterov, decay, cooldown):
    """A in 50 digits from the doubles that the library works with."""
    rates = [1.0] * n
    if cooldown:
        m = int(np.floor(cooldown[0] * n + 0.5))
        for j in range(1, m + 1):
            rates[n - m + j - 1] *= 1 - (1 - cooldown[1]) * float(j) / float(m)
    a = matrix(n, n)
    for u in range(n):
        m = o = mpf(0)
        for t in range(n):
            g = mpf(1 if t == u else 0)
            m = mpf(beta) * m + g
            o = mpf(1 - rates[t] * decay) * o + mpf(rates[t]) * (g + mpf(beta) * m if nesterov else m)
            a[t, u] = o
    return a


def phi(a, v, p):
    """diag of (W'W)^1/2 and of (W W')^1/2 in 50 digits."""
    n = a.rows
    w = matrix(n, n)
    for t in range(n):
        for u in range(t + 1):
            w[t, u] = sqrt(p[t]) * a[t, u] * sqrt(v[u])
    left, s, right = svd_r(w)
    return ([mp.fsum(s[k] * right[k, i] ** 2 for k in range(n)) for i in range(n)],
            [mp.fsum(s[k] * left[i, k] ** 2 for k in range(n)) for i in range(n)])


def phi_double(a, v, p):
    left, s, right = np.linalg.svd(np.sqrt(p)[:, None] * a * np.sqrt(v))
    return (right ** 2).T @ s, left ** 2 @ s


def jacobian(residual, x):
    columns = []
    for i in range(len(x)):
        step = np.zeros(len(x))
        step[i] = 1e-5
        columns.append((residual(x + step) - residual(x - step)) / 2e-5)
    return np.array(columns).T


def solve(j, r):
    """Least squares: scaling all of v, or of p, changes nothing."""
    return np.linalg.lstsq(j, r, rcond=1e-8)[0]


def newton(residual, x, steps, limit=1e-11):
    """Damped, in double precision."""
    for _ in range(steps):
        r = residual(x)
        if np.abs(r).max() < limit:
            break
        step = solve(jacobian(residual, x), -r)
        x = x + step * min(1, 2 / np.abs(step).max())
    return x


def refine(residual, residual_exact, x):
    """Newton with a double's Jacobian and a residual of 50 digits: six more digits per step, three steps."""
    j = jacobian(residual, x)
    exact = [mpf(t) for t in x]
    for _ in range(4):
        r = residual_exact(exact)
        step = solve(j, -np.array([float(t * mpf(10) ** 30) for t in r]))
        exact = [t + mpf(s) / mpf(10) ** 30 for t, s in zip(exact, step)]
    return exact


def rms(a):
    n, double, one = a.rows, np.array(a.tolist(), dtype=float), np.ones(a.rows)

    def residual(x):
        return np.log(phi_double(double, np.exp(x), one)[0]) - x

    x = np.zeros(n)
    for _ in range(50):
        x = x + residual(x)
    exact = refine(residual, lambda y: [mp.log(c) - t for c, t in zip(phi(a, [mp.exp(t) for t in y], one)[0], y)],
                   newton(residual, x, 50))
    v = [mp.exp(t) for t in exact]
    c = phi(a, v, one)[0]
    lower, upper = sum(c) ** 2 / sum(v), sum(c) * max(i / j for i, j in zip(c, v))
    assert upper / lower - 1 < mpf(10) ** -25, nstr(upper / lower - 1, 5)
    return sqrt(lower / n)


def max_residual(log, sum_, columns, rows, v, p, live, barrier):
    """The equations c_j/q_j = r_i/p_i = their mean for the weights that live, with a barrier."""
    total, n = sum_(columns), len(v)
    each = barrier * total / n
    return ([log((c + each) / (total * (1 + barrier)) / x) for c, x, k in zip(columns, v, live[:n]) if k] +
            [log((r + each) / (total * (1 + barrier)) / x) for r, x, k in zip(rows, p, live[n:]) if k])


def max_loss(a):
    n, double = a.rows, np.array(a.tolist(), dtype=float)

    def weights(x, live, exp, zero):
        full = [zero] * (2 * n)
        for i, t in zip(np.flatnonzero(live), x):
            full[i] = exp(t)
        v, p = full[:n], full[n:]
        return [t / sum(v) for t in v], [t / sum(p) for t in p]

    def residual(live, barrier):
        def of(x):
            v, p = weights(x, live, np.exp, 0.0)
            values = phi_double(double, np.array(v), np.array(p))
            return np.array(max_residual(np.log, sum, *values, v, p, live, barrier))
        return of

    def residual_exact(live):
        def of(x):
            v, p = weights(x, live, mp.exp, mpf(0))
            return max_residual(mp.log, sum, *phi(a, v, p), v, p, live, 0)
        return of

    def finish(near):
        """The value, and the gap, if the weights that vanish are those with a slack near this point."""
        values = phi_double(double, *np.array(near))
        live = 1 - np.concatenate(values) / np.concatenate(near) / values[0].sum() < 1e-4
        x = newton(residual(live, 0.0), np.log(np.concatenate(near)[live]), 60)
        v, p = weights(refine(residual(live, 0.0), residual_exact(live), x), live, mp.exp, mpf(0))
        lower = sum(phi(a, v, p)[0])
        # given a little, in the proportions that the barrier found, their ratios stay below the others'
        v, p = [[s if s > 0 else mpf(t) * mpf(10) ** -20 for s, t in zip(w, part)] for w, part in zip((v, p), near)]
        c, r = phi(a, v, p)
        return lower, sqrt(max(i / j for i, j in zip(c, v)) * max(i / j for i, j in zip(r, p))) / lower - 1

    x, barrier, everything = np.full(2 * n, -np.log(n)), 0.3, np.ones(2 * n, dtype=bool)
    while barrier > 1e-12:
        x = newton(residual(everything, barrier), x, 60, 1e-9)
        if barrier < 1e-6:
            lower, gap = finish(weights(x, everything, np.exp, 0.0))
            if abs(gap) < mpf(10) ** -20:
                return lower
        barrier *= 0.1
    return None  # double precision does not find the weights that vanish


def random_weights(n, seed):
    """Doubles over six decades, by the generator of tests/support/check.c."""
    out = []
    for _ in range(n):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        out.append(10.0 ** (3 * ((seed >> 11) * 2.0 ** -52 - 1)))
    return out


def optimum_line(text, n, loss):
    """None where the optimum was not found to 1e-20."""
    value = (rms if loss == "rms" else max_loss)(workload(n, *WORKLOADS[text]))
    return None if value is None else f"optimum;{text};{n};{loss};{nstr(value, 30)}"


def phi_lines(text, n, case):
    v = [1.0] * n if case == 0 else random_weights(n, 1000 * n + case)
    p = [1.0] * n if case < 2 else random_weights(n, 2000 * n + case)
    c, r = phi(workload(n, *WORKLOADS[text]), [mpf(t) for t in v], [mpf(t) for t in p])
    return [f"phi;{text};{n};{case};{i};{v[i]!r};{p[i]!r};{nstr(c[i], 30)};{nstr(r[i], 30)}" for i in range(n)]


def main():
    if sys.argv[1:2] == ["check"]:
        with open(sys.argv[2], encoding="ascii") as file:
            known = {line.strip() for line in file}
        for text in WORKLOADS:
            lines = [optimum_line(text, 5, "rms"), optimum_line(text, 3, "max")] + phi_lines(text, 7, 2)
            for line in lines:
                if line is not None and line not in known:
                    sys.exit(f"reference_optimum: not in the file: {line}")
        return
    for text in WORKLOADS:
        for loss, sizes in (("rms", RMS_STEPS), ("max", MAX_STEPS)):
            for n in sizes:
                line = optimum_line(text, n, loss)
                if line is not None:
                    print(line, flush=True)
        for n in PHI_STEPS:
            for case in range(3):
                print("\n".join(phi_lines(text, n, case)), flush=True)


if __name__ == "__main__":
    main()
