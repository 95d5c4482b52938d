#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimal RMS losses to 30 digits, by arithmetic of 50 digits that shares nothing with the library.

    reference_optimum.py > tests/data/optimum.csv          (needs mpmath)

A is built from its definition; v is the fixed point of diag((V^1/2 A'A V^1/2)^1/2) by plain and then accelerated
iteration, with a dense singular value decomposition in every step; the value is enclosed by the duality gap to 1e-30.
"""
import sys

from mpmath import mp, mpf, matrix, sqrt, log, exp, svd_r

mp.dps = 50
WORKLOADS = {
    "prefix": (0, 0, 0, None),
    "momentum:0.9": ("0.9", 0, 0, None),
    "nesterov:0.9": ("0.9", 1, 0, None),
    "decay:0.05": (0, 0, "0.05", None),
    "momentum:0.95,cooldown:0.25:0.05": ("0.95", 0, 0, ("0.25", "0.05")),
}


def workload(n, beta, nesterov, decay, cooldown):
    beta, decay = mpf(float(beta)), mpf(float(decay))  # the doubles that the library reads
    rates = [mpf(1)] * n
    if cooldown:
        m = int(float(cooldown[0]) * n + 0.5)
        for j in range(1, m + 1):
            rates[n - m + j - 1] = mpf(1 - (1 - float(cooldown[1])) * j / m)
    a = matrix(n, n)
    for u in range(n):
        m = o = mpf(0)
        for t in range(n):
            g = mpf(1) if t == u else mpf(0)
            m = beta * m + g
            o = (1 - rates[t] * decay) * o + rates[t] * (g + beta * m if nesterov else m)
            a[t, u] = o
    return a


def phi(a, v):
    n = a.rows
    w = matrix(n, n)
    for t in range(n):
        for u in range(n):
            w[t, u] = a[t, u] * sqrt(v[u])
    _, s, z = svd_r(w)
    return [sum(s[k] * z[k, i] ** 2 for k in range(n)) for i in range(n)]


def accelerate(history):
    """Anderson's step from pairs (x, f), the newest last."""
    x, f = history[-1]
    k = len(history) - 1
    if k == 0:
        return [a + b for a, b in zip(x, f)]
    dx = [[p - q for p, q in zip(x, y)] for y, _ in history[:-1]]
    df = [[p - q for p, q in zip(f, g)] for _, g in history[:-1]]
    m = matrix(k, k)
    r = matrix(k, 1)
    for i in range(k):
        for j in range(k):
            m[i, j] = sum(p * q for p, q in zip(df[i], df[j]))
        m[i, i] *= 1 + mpf(10) ** -40
        r[i] = sum(p * q for p, q in zip(df[i], f))
    c = mp.lu_solve(m, r)
    return [x[i] + f[i] - sum(c[j] * (dx[j][i] + df[j][i]) for j in range(k)) for i in range(len(x))]


def optimum(a):
    n = a.rows
    x = [mpf(0)] * n
    history = []
    for _ in range(400):
        v = [exp(t) for t in x]
        p = phi(a, v)
        lower = sum(p) ** 2 / sum(v)
        upper = sum(p) * max(i / j for i, j in zip(p, v))
        if upper / lower - 1 < mpf(10) ** -30:
            break
        history = (history + [(x, [log(i / j) for i, j in zip(p, v)])])[-min(7, n + 1):]
        try:
            x = accelerate(history)
        except ZeroDivisionError:  # dependent differences: a plain step, and start again
            x = [i + j for i, j in zip(*history[-1])]
            history = []
    else:
        sys.exit("no convergence")
    return sqrt(lower / n)


print("workload;steps;rms_loss")
for text, parts in WORKLOADS.items():
    for n in (1, 2, 3, 5, 8, 16, 32):
        print(f"{text};{n};{mp.nstr(optimum(workload(n, *parts)), 30)}", flush=True)
