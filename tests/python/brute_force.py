#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The best loss of each family for prefix sums of 64 steps, by dense optimization that shares nothing with the library.

    brute_force.py --write tests/data/brute_force.csv        all of it, some minutes on one core (needs numpy)
    brute_force.py --check K tests/data/brute_force.csv      recompute K of the lines and compare to 1e-5

Lines:  FAMILY;BANDS;BUFFERS;PARTICIPATION;LOSS;VALUE     0 where a family has no bands or buffers

A strategy is a dense matrix C, or X = C'C, that a vector of free parameters makes; B = A C^-1 is computed by LAPACK,
the loss s |B|_F/sqrt(n) or s max |B[t,:]| from its definition, and the gradient is pulled back by hand. Constraints are
part of the parametrization, so that every point is feasible and its loss is one that the family reaches:

  dense, banded          the diagonal of X is that of the participation: ones; a part of 1 for each step of a class
                         (cyclic); or a mixture of the indicators of windows of b steps and of the constant 1/k
                         (min-separation: by linear programming duality these, and anything below them, are the
                         diagonals whose sum over every pattern is at most 1). X vanishes between the steps of one unit.
  banded-toeplitz        C[t,u] = c[t-u]; the columns that one unit touches do not overlap: the sum of their squares
    ...-normalized       every column divided by its norm
  toeplitz, blt          single: the first column; else the norm of the sum of the columns 0, b, 2b, ..., for c
                         non-negative (cyclic: a later pattern has a part of that sum) and non-increasing
                         (min-separation: Pillutla et al. 2025, Eq. 3.25)

Minimized by limited-memory BFGS. The maximum over steps is treated by the exponential method of multipliers: minimize
ln(sum of w_t e_t^p)/p in the parameters, then w_t <- w_t e_t^p; where that rests, the points are those of the minimax
problem. Families that are not convex start from several points. What is printed is the loss at the best point found.
"""
import argparse
import itertools
import sys

import numpy as np

N = 64
A = np.tril(np.ones((N, N)))
PARTICIPATIONS = {"single": (1, N), "cyclic:4,16": (4, 16), "minsep:4,16": (4, 16)}


# ---- minimization ----

def lbfgs(f, x, steps=6000, pairs=25, small=1e-9):
    """f gives (value, gradient), or (inf, None) outside its domain."""
    value, g = f(x)
    past, history = [], [value]
    for _ in range(steps):
        q, alphas = g.copy(), []
        for s, y, r in reversed(past):
            alphas.append(r * (s @ q))
            q -= alphas[-1] * y
        if past:
            q *= (past[-1][0] @ past[-1][1]) / (past[-1][1] @ past[-1][1])
        else:
            q *= min(1, 0.1 / np.linalg.norm(q))
        for (s, y, r), a in zip(past, reversed(alphas)):
            q += (a - r * (y @ q)) * s
        slope = -(g @ q)
        if slope >= 0:
            past, q, slope = [], g.copy(), -(g @ g)
        low, high, step = 0.0, np.inf, 1.0
        for _ in range(40):  # weak Wolfe by bisection
            new, h = f(x - step * q)
            if not new <= value + 1e-4 * step * slope:
                high = step
            elif -(h @ q) < 0.9 * slope:
                low = step
            else:
                break
            step = 2 * step if high == np.inf else (low + high) / 2
        if not new < value:
            if not past:
                return x, value
            past = []
            continue
        s, y = -step * q, h - g
        if s @ y > 1e-14 * np.linalg.norm(s) * np.linalg.norm(y):
            past = past[-pairs + 1:] + [(s, y, 1 / (s @ y))]
        x, value, g = x + s, new, h
        history.append(value)
        if np.linalg.norm(g) < small or (len(history) > 60 and history[-60] - value < 1e-11):
            break
    return x, value


def minimize(model, x, loss, power=10.0):
    """model(x) gives (ln of sens^2 |B[t,:]|^2, pull back) with pull back: weights of them -> gradient.

    The loss and x; a high first power stays near the start.
    """
    def smooth(weights, power):
        def of(y):
            made = model(y)
            if made is None:
                return np.inf, None
            logs, pull = made
            z = np.log(weights) + power * logs
            top = z.max()
            e = np.exp(z - top)
            return (top + np.log(e.sum())) / power, pull(e / e.sum())
        return of

    if loss == "rms":
        x, value = lbfgs(smooth(np.ones(N) / N, 1.0), x)
        return np.exp(value / 2), x
    weights, best = np.ones(N) / N, np.inf
    for _ in range(50):
        x, _ = lbfgs(smooth(weights, power), x)
        logs = model(x)[0]
        best = min(best, logs.max())
        weights = weights * np.exp(power * (logs - logs.max()))
        weights /= weights.sum()
        gap = logs.max() - weights @ logs
        weights = np.maximum(weights, 1e-30)
        if gap < 1e-8:
            break
        power = min(1.5 * power, 3e4)
    if gap > 1e-6:
        print(f"brute_force: multipliers have not settled, {gap:.1e}", file=sys.stderr)
    return np.exp(best / 2), x


# ---- from C, or X, to the rows of B ----

def rows_of(c):
    """ln |B[t,:]|^2 and the map from weights of them to the gradient in C."""
    try:
        inverse = np.linalg.inv(c)
    except np.linalg.LinAlgError:
        return None
    b = A @ inverse
    with np.errstate(over="ignore"):
        e = (b * b).sum(1)
    if not np.isfinite(e).all():
        return None
    return np.log(e), lambda w: -2 * (b.T * (w / e)) @ b @ inverse.T


def rows_of_gram(x):
    try:
        np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return None
    right = np.linalg.solve(x, A.T)  # X^-1 A'
    e = (A * right.T).sum(1)
    return np.log(e), lambda w: -(right * (w / e)) @ right.T


# ---- diagonals of X that a participation allows ----

def windows(count, width):
    """Indicators of the windows of `width` steps, and a constant; and what each costs."""
    m = [((np.arange(N) >= s) & (np.arange(N) < s + width)).astype(float) for s in range(N - width + 1)] + [np.ones(N)]
    return np.array(m).T, np.array([1.0] * (len(m) - 1) + [float(count)])


class Diagonal:
    """d(u) with sensitivity 1, and the pull back of a gradient in d."""

    def __init__(self, participation):
        self.kind = participation.split(":")[0]
        count, width = PARTICIPATIONS[participation]
        if self.kind == "cyclic":
            self.classes = (np.arange(N)[:, None] % width == np.arange(N)[None, :] % width).astype(float)
            self.start = np.ones(N)
        elif self.kind == "minsep":
            self.windows, self.cost = windows(count, width)
            self.start = np.ones(len(self.cost))
        else:
            self.start = np.ones(0)

    def __call__(self, u):
        y = u * u
        if self.kind == "single":
            return np.ones(N), lambda g: np.zeros(0)
        if self.kind == "cyclic":
            total = self.classes @ y
            return y / total, lambda g: 2 * u * (g / total - self.classes @ (g * y / total ** 2))
        total = self.cost @ y
        d = self.windows @ y / total
        return d, lambda g: 2 * u * (self.windows.T @ g - self.cost * (g @ d)) / total


# ---- the families: each gives (model, starts) ----

def square_root(count):
    c = np.ones(count)
    for i in range(1, count):
        c[i] = c[i - 1] * (2 * i - 1) / (2 * i)
    return c


def toeplitz(c):
    out = np.zeros((N, N))
    for j, value in enumerate(c):
        out[np.arange(j, N), np.arange(N - j)] = value
    return out


def diagonals(g, count):
    """The transpose of toeplitz."""
    return np.array([np.trace(g, -j) for j in range(count)])


def scaled_columns(lower, d):
    """C with the directions of these columns and squared norms d; pull back to both."""
    norms = np.sqrt((lower * lower).sum(0))
    scale = np.sqrt(d) / norms
    c = lower * scale

    def pull(g):
        along = (c * g).sum(0)
        return (g - c * (along / d)) * scale, along / (2 * d)
    return c, pull


def banded(bands, participation):
    """X of this many bands is C'C with as many."""
    diagonal, at = Diagonal(participation), np.nonzero(np.tril(np.triu(np.ones((N, N)), 1 - bands)))
    size = len(at[0])

    def model(x):
        lower = np.zeros((N, N))
        lower[at] = x[:size]
        d, pull_d = diagonal(x[size:])
        c, pull_c = scaled_columns(lower, d)
        made = rows_of(c)
        if made is None:
            return None
        logs, pull = made

        def back(w):
            gl, gd = pull_c(pull(w))
            return np.concatenate([gl[at], pull_d(gd)])
        return logs, back
    return model, [np.concatenate([toeplitz(square_root(bands))[at], diagonal.start])]


def dense(participation):
    kind = participation.split(":")[0]
    count, width = PARTICIPATIONS[participation]
    if kind != "cyclic":  # min-separation: X vanishes from `width` steps apart on
        return banded(width, participation)
    diagonal = Diagonal(participation)
    gap = np.arange(N)[:, None] - np.arange(N)[None, :]
    at = np.nonzero((gap > 0) & (gap % width != 0))
    size = len(at[0])

    def model(x):
        r = np.eye(N)
        r[at] = x[:size]
        r.T[at] = x[:size]
        d, pull_d = diagonal(x[size:])
        root = np.sqrt(d)
        made = rows_of_gram(root[:, None] * r * root)
        if made is None:
            return None
        logs, pull = made

        def back(w):
            g = pull(w)
            gr = 2 * g * root[:, None] * root
            return np.concatenate([gr[at], pull_d((g * r) @ root / root)])
        return logs, back
    c = toeplitz(square_root(width))
    start = c.T @ c / np.sqrt(np.outer((c * c).sum(0), (c * c).sum(0)))
    return model, [np.concatenate([start[at], diagonal.start])]


def sensitivity_of_columns(c, participation, overlap):
    """ln sens^2 and its gradient for columns that fall along the steps; overlap: their inner products, >= 0, count."""
    count, width = PARTICIPATIONS[participation]
    steps = np.arange(count) * width
    g = np.zeros((N, N))
    if overlap:
        total = c[:, steps].sum(1)
        square = total @ total
        g[:, steps] = 2 * total[:, None]
    else:
        square = (c[:, steps] ** 2).sum()
        g[:, steps] = 2 * c[:, steps]
    return np.log(square), g / square


def toeplitz_model(coefficients, participation, overlap):
    """coefficients(x) gives (c, pull back)."""
    def model(x):
        first, pull_first = coefficients(x)
        if first is None:
            return None
        c = toeplitz(first)
        made = rows_of(c)
        if made is None:
            return None
        logs, pull = made
        log_square, gs = sensitivity_of_columns(c, participation, overlap)
        return logs + log_square, lambda w: pull_first(diagonals(pull(w) + w.sum() * gs, len(first)))
    return model


def varied(x, count):
    """This start and others near it, always the same ones."""
    random = np.random.default_rng(7)
    return [x] + [x * (1 + 0.2 * random.standard_normal(len(x))) for _ in range(count)]


def banded_toeplitz(bands, participation):
    return toeplitz_model(lambda x: (x, lambda g: g), participation, False), varied(square_root(bands), 3)


def normalized(bands, participation):
    count = PARTICIPATIONS[participation][0]

    def model(x):
        c, pull_c = scaled_columns(toeplitz(x), np.full(N, 1.0 / count))  # k columns that do not overlap: 1 together
        made = rows_of(c)
        if made is None:
            return None
        logs, pull = made
        return logs, lambda w: diagonals(pull_c(pull(w))[0], bands)
    return model, varied(square_root(bands), 3)


def whole_toeplitz(participation):
    if participation == "single":
        return toeplitz_model(lambda x: (x, lambda g: g), participation, False), varied(square_root(N), 1)

    def non_negative(u):
        return u * u, lambda g: 2 * u * g

    def falling(u):
        return np.cumsum((u * u)[::-1])[::-1], lambda g: 2 * u * np.cumsum(g)
    c = square_root(N) * 0.99 ** np.arange(N)
    if participation.startswith("cyclic"):
        return toeplitz_model(non_negative, participation, True), varied(np.sqrt(c), 2)
    return toeplitz_model(falling, participation, True), varied(np.sqrt(c - np.append(c[1:], 0)), 2)


def blt(buffers, participation):
    """c[0] = 1, c[t] = sum of alpha_i lambda_i^(t-1), alpha = exp(x) > 0, lambda = 1/(1 + exp(-y)) in (0, 1)."""
    t = np.arange(N - 1)

    def coefficients(x):
        alpha, lam = np.exp(x[:buffers]), 1 / (1 + np.exp(-x[buffers:]))
        if participation.startswith("minsep") and alpha.sum() > 1:  # c would rise from step 0 to step 1
            return None, None
        powers = lam[:, None] ** t
        slopes = np.where(t > 0, t * lam[:, None] ** np.maximum(t - 1, 0), 0.0)

        def pull(g):
            return np.concatenate([alpha * (powers @ g[1:]), alpha * lam * (1 - lam) * (slopes @ g[1:])])
        return np.append(1.0, alpha @ powers), pull
    # under several participations the best lambda can be 0 or 1: start from every choice of these, and twice
    starts = []
    for places in itertools.combinations((-4.0, 0.0, 2.0, 4.0, 8.0), buffers):
        for fall in (0.0, 0.4):
            share = np.exp(-fall * np.maximum(places, 0))
            starts.append(np.concatenate([np.log(0.5 * share / share.sum()), places]))
    return toeplitz_model(coefficients, participation, participation != "single"), starts


def merged_start(buffers, participation, loss):
    """The best weights of many fixed lambdas, neighbours merged until `buffers` are left."""
    lam = np.concatenate([[0.0], 1 - np.geomspace(1, 1e-3, 30)[1:], [1.0]])
    powers = lam[:, None] ** np.arange(N - 1)

    def coefficients(x):
        if participation.startswith("minsep") and x @ x > 1:
            return None, None
        return np.append(1.0, (x * x) @ powers), lambda g: 2 * x * (powers @ g[1:])
    model = toeplitz_model(coefficients, participation, participation != "single")
    x = minimize(model, np.full(len(lam), 0.12), loss)[1]
    atoms = [[w, w * place, i] for i, (w, place) in enumerate(zip(x * x, lam)) if w > 1e-6]
    while len(atoms) > buffers:
        i = min(range(len(atoms) - 1), key=lambda k: atoms[k + 1][2] - atoms[k][2])
        last = atoms.pop(i + 1)
        atoms[i] = [atoms[i][0] + last[0], atoms[i][1] + last[1], (atoms[i][2] + last[2]) / 2]
    while len(atoms) < buffers:
        atoms.append([1e-4, 0.5e-4, 0])
    weights, places = np.array([a[0] for a in atoms]), np.clip([a[1] / a[0] for a in atoms], 1e-4, 1 - 1e-6)
    return np.concatenate([np.log(weights), np.log(places / (1 - places))])


def problems():
    """(family, bands, buffers, participation, loss), families from the fullest to the smallest."""
    for participation in PARTICIPATIONS:
        for loss in ("rms", "max"):
            yield "dense", 0, 0, participation, loss
            for family in ("banded", "banded-toeplitz-normalized", "banded-toeplitz"):
                for bands in (16, 8):
                    yield family, bands, 0, participation, loss
            yield "toeplitz", 0, 0, participation, loss
            for buffers in (2, 3):
                yield "blt", 0, buffers, participation, loss


def solve(family, bands, buffers, participation, loss):
    if family == "dense":
        model, starts = dense(participation)
    elif family == "banded":
        model, starts = banded(bands, participation)
    elif family == "banded-toeplitz":
        model, starts = banded_toeplitz(bands, participation)
    elif family == "banded-toeplitz-normalized":
        model, starts = normalized(bands, participation)
    elif family == "toeplitz":
        model, starts = whole_toeplitz(participation)
    else:
        model, starts = blt(buffers, participation)
    values = [minimize(model, start, loss)[0] for start in starts]
    if family == "blt":
        values.append(minimize(model, merged_start(buffers, participation, loss), loss, 3e3)[0])
    return min(values), max(values) / min(values) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", type=int, default=0, metavar="K")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("file")
    options = parser.parse_args()
    if options.write:
        lines = []
        for problem in problems():
            value, spread = solve(*problem)
            lines.append(";".join(str(p) for p in problem) + f";{value:.9f}\n")
            if options.verbose:
                print(lines[-1].strip(), f"spread {spread:.1e}", flush=True)
        with open(options.file, "w", encoding="ascii") as file:
            file.writelines(lines)
        return
    with open(options.file, encoding="ascii") as file:
        known = dict(line.strip().rsplit(";", 1) for line in file)
    everything = list(problems())
    if len(known) != len(everything):
        sys.exit(f"brute_force: {len(known)} lines, {len(everything)} problems")
    for i in np.random.default_rng(1).permutation(len(everything))[:options.check]:
        name, value = ";".join(str(p) for p in everything[i]), solve(*everything[i])[0]
        if abs(value / float(known[name]) - 1) > 1e-5:
            sys.exit(f"brute_force: {name}: {value:.9f}, in the file {known[name]}")


if __name__ == "__main__":
    main()
