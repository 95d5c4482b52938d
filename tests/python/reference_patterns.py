#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reference values for the optimum under min-separation and shuffled participation, for few steps.

    minimise  tr(A'A X^-1)   subject to   f(X_p) <= 1 for every pattern p,   f(X_p) = max { <X_p,Y> : Y psd, Y_tt = 1 }

The library adds patterns as they are violated, finds them by branch and bound and repairs X by scales. Here all
patterns are listed and all are in the dual from the start, V = sum_p nu_p Y_p; scipy climbs it. What is printed is the
lower bound at its top and the loss of X(V) over its largest f, which enclose the optimum. Needs numpy and scipy. The
values go into tests/optimize/test_patterns.c.
"""
import itertools

import numpy as np
from scipy.optimize import minimize

CASES = [(10, 2, 2, "minsep", 0.0), (10, 2, 2, "minsep", 0.9), (9, 3, 3, "minsep", 0.0), (9, 3, 3, "shuffled", 0.0)]


def workload(n, beta):
    powers = np.array([[beta ** (i - j) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    return np.tril(np.ones((n, n))) @ powers


def patterns(n, k, b, kind):
    if kind == "shuffled":
        return list(itertools.product(*[range(e * b, min(n, (e + 1) * b)) for e in range(k)]))
    found = []

    def extend(p):
        first = p[-1] + b if p else 0
        if len(p) == k or first >= n:
            found.append(p)
            return
        for t in range(first, n):
            extend(p + (t,))

    extend(())
    return found


def largest(x):
    """f by block ascent from several starts, and its vectors."""
    m, best = len(x), -np.inf
    off = x - np.diag(np.diag(x))
    for seed in range(3):
        g = np.random.default_rng(seed).normal(size=(m, m))
        g /= np.linalg.norm(g, axis=1)[:, None]
        for _ in range(500):
            for i in range(m):
                pull = off[i] @ g
                if np.linalg.norm(pull) > 0:
                    g[i] = pull / np.linalg.norm(pull)
        if np.sum(x * (g @ g.T)) > best:
            best, vectors = np.sum(x * (g @ g.T)), g
    return best, vectors


def mean(a, v):
    lower = np.linalg.cholesky(v)
    _, values, right = np.linalg.svd(a @ lower)
    y = np.sqrt(values)[:, None] * right @ np.linalg.inv(lower)
    return values.sum(), y.T @ y


def solve(n, k, b, kind, beta):
    a, listed = workload(n, beta), patterns(n, k, b, kind)
    sizes = [1 + len(p) ** 2 for p in listed]
    places = np.concatenate([[0], np.cumsum(sizes)])

    def build(x):
        v, total, parts = np.zeros((n, n)), 0.0, []
        for p, at in zip(listed, places):
            g = x[at + 1:at + 1 + len(p) ** 2].reshape(len(p), len(p))
            norms = np.linalg.norm(g, axis=1)[:, None]
            v[np.ix_(p, p)] += x[at] ** 2 * (g / norms) @ (g / norms).T
            total += x[at] ** 2
            parts.append((p, at, g / norms, norms))
        return v, total, parts

    def value(x):
        v, total, parts = build(x)
        try:
            trace, best = mean(a, v)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(x)
        slope = np.zeros_like(x)
        for p, at, g, norms in parts:
            pulled = best[np.ix_(p, p)] @ g
            along = np.sum(pulled * g, axis=1)[:, None]
            slope[at] = 2 * x[at] * (along.sum() / trace - 1 / total)
            slope[at + 1:at + 1 + g.size] = (2 * x[at] ** 2 * (pulled - along * g) / trace / norms).ravel()
        return -(2 * np.log(trace) - np.log(total)), -slope

    lower, upper = 0.0, np.inf
    x = np.concatenate([np.concatenate([[1.0], np.eye(len(p)).ravel()]) for p in listed])
    for _ in range(12):
        x = minimize(value, x, jac=True, method="L-BFGS-B",
                     options=dict(maxiter=3000, maxcor=40, ftol=1e-15, gtol=1e-11)).x
        v, total, _ = build(x)
        trace, best = mean(a, v)
        worst = [largest(best[np.ix_(p, p)]) for p in listed]
        lower = max(lower, np.sqrt(trace ** 2 / total / n))
        upper = min(upper, np.sqrt(trace * max(f for f, _ in worst) / n))
        for p, at, (f, vectors) in zip(listed, places, worst):  # nearly gone, but violated: its Y could not turn
            least = min(v[t, t] for t in p)
            if f > trace / total * (1 + 1e-9) and x[at] ** 2 < 1e-3 * least:
                x[at] = np.sqrt(0.02 * least)
                x[at + 1:at + 1 + vectors.size] = (vectors + 0.2 * np.eye(len(p))).ravel()
    return lower, upper


if __name__ == "__main__":
    for case in CASES:
        print("n = %d, %s:%d,%d, momentum %g: %.7f to %.7f" % ((case[0], case[3], case[1], case[2], case[4]) + solve(*case)))
