#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists of different runs, composed by others: the values of tests/data/ledger.csv.

    reference_ledger.py > tests/data/ledger.csv      20 cases; needs mpmath and dp-accounting

A case is a Gaussian release of mu and up to three Poisson-sampled runs (sigma, q, steps). `epsilon_peer` is dp-accounting's
at delta (PLDAccountant, its default grid). `log_delta` is ln delta(epsilon) at epsilon = epsilon_peer, the larger of adding and
removing, from

    delta(epsilon) = 1/(2 pi i) integral of prod M_j(z)^n_j e^(-z epsilon) / (z (z+1)) dz,   Re z = c > 0,

with M_j(z) = E[e^(zL)] of one step by the trapezoid rule, all in 50 digits: both rules converge geometrically, and smaller
steps must not change the first 12 digits.
"""
import random
import sys

import mpmath
from mpmath import mp, mpc, mpf

mp.dps = 50


class Step:
    """exp(z L) of one sampled step as a sum over nodes of weight x exp(power x log ratio)."""

    def __init__(self, sigma, q, count, add, c, step):
        sigma, q = mpf(sigma), mpf(q)
        self.count, self.add, self.weights, self.logs = count, add, [], []
        shift = 0 if add else (c + 1) / sigma  # the integrand is a normal curve there at most
        for k in range(-int(14 / step), int((14 + shift) / step) + 1):
            u = k * mpf(step)
            self.weights.append(mpmath.exp(-u * u / 2) * step / mpmath.sqrt(2 * mp.pi))
            self.logs.append(mpmath.log(1 - q + q * mpmath.exp((2 * sigma * u - 1) / (2 * sigma * sigma))))

    def start(self, c, turn):
        power = -c if self.add else c + 1
        sign = -1 if self.add else 1
        self.now = [mpc(w * mpmath.exp(power * x)) for w, x in zip(self.weights, self.logs)]
        self.turn = [mpmath.expj(sign * turn * x) for x in self.logs]

    def next(self):
        value = sum(self.now, mpc(0)) ** self.count
        self.now = [a * b for a, b in zip(self.now, self.turn)]
        return value


def log_delta(mu, runs, add, epsilon, fineness):
    c, mu, epsilon = mpf(1), mpf(mu), mpf(epsilon)  # left of the saddle: some digits less, but the rule's error is known
    turn = 2 * mp.pi / (60 * mpf(fineness))  # the error: e^(-60 c), and e^(60 c) delta(epsilon + 60)
    steps = [Step(*run, add, c, mpf("0.25") / mpf(fineness)) for run in runs]
    for step in steps:
        step.start(c, turn)
    total, j, first = mpf(0), 0, None
    while True:
        z = c + 1j * j * turn
        value = mpmath.exp(z * (z + 1) * mu * mu / 2 - z * epsilon) / (z * (z + 1))
        for step in steps:
            value *= step.next()
        first = abs(value) if first is None else first
        total += value.real if j else value.real / 2
        if abs(value) < first * mpf(10) ** -28:
            return mpmath.log(total * turn / mp.pi)
        j += 1


def peer(mu, runs, delta):
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_event.GaussianDpEvent(1 / mu))
    for sigma, q, count in runs:
        accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma)), count)
    return accountant.get_epsilon(delta)


def cases():
    numbers = random.Random(19)
    for i in range(20):
        mu = round(numbers.uniform(0.2, 1.0), 2)
        runs = []
        for _ in range(1 + i % 3):
            sigma, q = round(numbers.uniform(0.7, 3), 2), round(10 ** numbers.uniform(-3, -0.7), 4)
            most = max(5, int(0.4 * (sigma / q) ** 2))  # losses of a size for which the contour above is the right one
            runs.append((sigma, q, min(most, int(10 ** numbers.uniform(1, 3.3)))))
        yield mu, runs, (1e-5, 1e-6, 1e-8)[i % 3]


def main():
    """All cases with their header, or FIRST to LAST-1 without."""
    chosen = list(cases())
    if len(sys.argv) == 3:
        chosen = chosen[int(sys.argv[1]) : int(sys.argv[2])]
    else:
        print("mu,runs,delta,epsilon_peer,log_delta")
    for mu, runs, delta in chosen:
        epsilon = peer(mu, runs, delta)
        coarse, add = max((log_delta(mu, runs, add, epsilon, "1"), add) for add in (False, True))
        fine = log_delta(mu, runs, add, epsilon, "1.25")
        assert abs(fine - coarse) < mpf(10) ** -12 * abs(fine), (mu, runs, coarse, fine)
        print("%r,%s,%r,%.17g,%s" % (mu, " ".join("%r:%r:%d" % run for run in runs), delta, epsilon, mpmath.nstr(fine, 20)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
