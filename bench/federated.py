# SPDX-License-Identifier: Apache-2.0
"""Cost of a federated round at the server: clipping and adding updates, the row of noise, and all of `finish`.

    bench/federated.py [--dim 10000000] [--clients 100] [--threads 1]

Seconds of the wall clock, the least of several (other programs may use the machine), for independent noise and others.
"""

import argparse
import time

import numpy as np

import dpmf
from dpmf.federated import Rounds

ROUNDS, USES = 200, 2
REPEATS = 11


def mechanisms():
    participation = "cyclic:%d,%d" % (USES, ROUNDS // USES)
    given = {"epsilon": 8.0, "delta": 1e-6}
    yield "independent", dpmf.evaluate("identity", ROUNDS, "momentum:0.9", participation, **given)
    yield "BLT, 3 buffers", dpmf.optimize("blt", ROUNDS, "momentum:0.9", participation, buffers=3, **given)
    yield "TV-BLT, 4 buffers", dpmf.optimize("tvblt", ROUNDS, "momentum:0.9", participation, buffers=4, **given)
    yield "banded Toeplitz, 32 bands", dpmf.optimize("banded-toeplitz", ROUNDS, "momentum:0.9", participation, bands=32, **given)


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--dim", type=int, default=10_000_000)
    asked.add_argument("--clients", type=int, default=100)
    asked.add_argument("--threads", type=int, default=1)
    asked = asked.parse_args()
    update = np.random.default_rng(1).normal(size=asked.dim).astype(np.float32)
    rounds = Rounds(dpmf.evaluate("identity", 40, sigma=1.0), asked.dim, 1.0, divisor=1, threads=asked.threads)
    adds = [seconds(lambda: rounds.add(i, update)) for i in range(REPEATS)]
    each = min(adds)
    print("one update: %.3f s; %d of them: %.2f s" % (each, asked.clients, each * asked.clients))
    for name, mechanism in mechanisms():
        rounds = Rounds(mechanism, asked.dim, 1.0, divisor=1, threads=asked.threads, key=dpmf.testing_key(1))
        row = np.empty(asked.dim, np.float32)
        rows = mechanism.noise(asked.dim, 1.0, dpmf.testing_key(2), threads=asked.threads)
        made, finished = [], []
        for _ in range(REPEATS if mechanism.bands < 32 else 32 + REPEATS):  # a band at a time is filled
            made.append(seconds(lambda: rows.fill_(row)))
        for _ in range(5):
            finished.append(seconds(rounds.finish))
        made, finished = min(made[-REPEATS:]), min(finished)
        print("%-26s row %.3f s (%4.1f %% of adding %d updates), finish %.3f s, buffers %.0f MB" % (
            name, made, 100 * made / (each * asked.clients), asked.clients, finished, mechanism.noise_memory(asked.dim)[1] / 1e6))


if __name__ == "__main__":
    main()
