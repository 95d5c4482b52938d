# SPDX-License-Identifier: Apache-2.0
"""The least RMS loss of all mechanisms under cyclic participation, for tests/data/bound.csv.

Nothing is assumed of X = C'C: the sensitivity is that of vectors, whose square is at most 1 exactly when every unit c has
numbers y >= 0 with sum 1 and X_cc <= diag(y) (the dual of the largest tr(V X_cc) over correlation matrices V). So

    minimise tr(A'A X^-1) over X and y,   X_cc <= diag(y_c), sum y_c = 1,

a semidefinite program, which a general solver solves. Needs numpy and cvxpy with Clarabel.
    python3 reference_bound.py > ../data/bound.csv
"""
import cvxpy as cp
import numpy as np

CASES = [(n, w, k) for n, k in ((4, 2), (6, 2), (6, 3), (8, 4), (9, 3), (10, 2), (12, 3))
         for w in ("prefix", "momentum:0.9", "nesterov:0.5")][:20]


def workload(name, n):
    lower = np.tril(np.ones((n, n)))
    kind, _, value = name.partition(":")
    if kind == "prefix":
        return lower
    beta = float(value)
    powers = np.array([[beta ** (i - j) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    return lower @ powers if kind == "momentum" else lower + beta * lower @ powers


def least(a, k):
    n = len(a)
    b = n // k
    x, y = cp.Variable((n, n), PSD=True), cp.Variable(n)
    limits = []
    for i in range(b):
        at = list(range(i, n, b))
        limits += [cp.sum(y[at]) == 1, cp.diag(y[at]) - x[at, :][:, at] >> 0]
    error = cp.Variable((n, n), symmetric=True)
    limits.append(cp.bmat([[error, a], [a.T, x]]) >> 0)  # error >= A X^-1 A'
    problem = cp.Problem(cp.Minimize(cp.trace(error)), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    return np.sqrt(problem.value / n)


if __name__ == "__main__":
    print("# steps;workload;participation;least RMS loss (tests/python/reference_bound.py)")
    for n, name, k in CASES:
        print(f"{n};{name};cyclic:{k},{n // k};{least(workload(name, n), k):.9f}", flush=True)
