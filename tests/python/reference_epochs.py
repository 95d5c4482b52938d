# SPDX-License-Identifier: Apache-2.0
"""Reference values for the optimum under cyclic participation, found another way than the library's.

The library maximises a dual with shifted inverses; this script varies X = C'C itself (primal), with plain dense
inverses:

    minimise  tr(A' P A X^-1)   or   max_t (A X^-1 A')_tt
    subject to  X[t,u] = 0 for two steps of one unit, sum of X[t,t] over the steps of each unit = 1.

The maximum is smoothed as (sum_t e_t^s)^(1/s) with s growing, so that what is printed is the loss of a mechanism: an
upper bound, and near the optimum. Needs numpy and scipy. The values go into tests/optimize/test_epochs.c.
"""
import numpy as np
from scipy.optimize import minimize


def workload(name, n):
    lower = np.tril(np.ones((n, n)))
    kind, _, value = name.partition(":")
    if kind == "prefix":
        return lower
    beta = float(value)
    powers = np.array([[beta ** (i - j) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    momentum = lower @ powers
    return momentum if kind == "momentum" else lower + beta * momentum


def solve(a, b, weights=None, max_loss=False, rounds=(4, 16, 64, 256, 1024, 4096, 16384)):
    n = len(a)
    t = np.arange(n)
    unit = t % b
    free = np.triu(unit[:, None] != unit[None, :], 1)
    rows, columns = np.nonzero(free)
    if weights is not None:
        a = np.sqrt(weights)[:, None] * a

    def build(z):
        y = np.zeros((n, n))
        y[rows, columns] = z[n:]
        y += y.T
        y[t, t] = np.exp(z[:n])
        traces = np.bincount(unit, np.exp(z[:n]))
        scale = 1 / np.sqrt(traces[unit])
        return y, scale, traces

    def value(z, power):
        y, scale, traces = build(z)
        x = scale[:, None] * y * scale[None, :]
        try:
            np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            return 30.0, np.zeros_like(z)  # far above any log f here, near enough for the line search to turn back
        inverse = np.linalg.inv(x)
        errors = np.einsum("ij,jk,ik->i", a, inverse, a)
        if power is None:
            f, p = errors.sum(), np.ones(n)
        else:
            top = errors.max()
            norm = ((errors / top) ** power).sum() ** (1 / power)
            f, p = top * norm, (errors / top / norm) ** (power - 1)
        dx = -inverse @ (a.T @ (p[:, None] * a)) @ inverse
        dy = scale[:, None] * dx * scale[None, :]
        gradient = np.empty_like(z)
        gradient[n:] = 2 * dy[rows, columns]
        # class traces: every row and column of the class is divided by their root
        along = (dx * x).sum(1)
        shrink = np.bincount(unit, along) / traces
        gradient[:n] = np.exp(z[:n]) * (np.diag(dy) - shrink[unit])
        return np.log(f), gradient / f

    z = np.concatenate([np.zeros(n), np.full(len(rows), 0.0)])
    for power in rounds if max_loss else (None,) * 12:
        found = minimize(value, z, args=(power,), jac=True, method="L-BFGS-B",
                         options={"maxiter": 20000, "maxfun": 40000, "maxcor": 40, "ftol": 1e-16, "gtol": 1e-10})
        z = found.x
    y, scale, _ = build(z)
    x = scale[:, None] * y * scale[None, :]
    errors = np.einsum("ij,jk,ik->i", a, np.linalg.inv(x), a)
    return np.sqrt(errors.max()) if max_loss else np.sqrt(errors.mean())


def main():
    ramp = 1 + np.arange(24) / 8
    cases = [("prefix", 6, 2, None), ("momentum:0.95", 6, 2, None), ("prefix", 12, 4, None),
             ("momentum:0.9", 11, 4, None), ("prefix", 24, 6, ramp), ("nesterov:0.9", 20, 10, None),
             ("prefix", 64, 16, None)]
    for name, n, b, weights in cases:
        print(f"{name} n={n} b={b} rms {solve(workload(name, n), b, weights):.9f}", flush=True)
    for name, n, b in [("prefix", 12, 4), ("momentum:0.9", 11, 4), ("prefix", 64, 16)]:
        print(f"{name} n={n} b={b} max {solve(workload(name, n), b, max_loss=True):.7f}", flush=True)


if __name__ == "__main__":
    main()
