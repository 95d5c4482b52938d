# SPDX-License-Identifier: Apache-2.0
"""Correlated noise that keeps no row: its loss by normal numbers for each number, and the time of a row.

    bench/rowless.py [--steps 1000] [--epochs 10] [--normals 2,4,8,16] [--dim 2000000]

Losses are over the certified bound. A time is the processor time of one thread for a row, the least of several, over that of
independent noise in the same run; the mechanisms take turns.
"""

import argparse
import platform
import time

import numpy as np

import dpmf
from dpmf._library import c

REPEATS = 7


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def normals(mechanism, taps):
    """The means over the steps: a tap is not there before its lag."""
    return taps or c.dpmf_strategy_get(c.dpmf_mechanism_get(mechanism._handle).strategy).normals


def best(family, asked, **options):
    participation = "cyclic:%d,%d" % (asked.epochs, asked.steps // asked.epochs)
    return dpmf.optimize(family, asked.steps, participation=participation, sigma=1.0, **options)


def row_times(streams, dim):
    row, least = np.zeros(dim, np.float32), [float("inf")] * len(streams)
    for _ in range(REPEATS):
        for i, stream in enumerate(streams):
            start = time.process_time()
            stream.add_(row)
            least[i] = min(least[i], time.process_time() - start)
    return least


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--steps", type=int, default=1000)
    asked.add_argument("--epochs", type=int, default=10)
    asked.add_argument("--normals", default="2,4,8,16")
    asked.add_argument("--dim", type=int, default=2_000_000)
    asked = asked.parse_args()
    period = asked.steps // asked.epochs
    participation = "cyclic:%d,%d" % (asked.epochs, period)
    rows = [("independent", 0, 1, dpmf.evaluate("identity", asked.steps, participation=participation, sigma=1.0))]
    for taps in [int(word) for word in asked.normals.split(",")]:
        rows += [("bisr", 0, taps, best("bisr", asked, bands=taps)), ("taps", 0, taps, best("taps", asked, bands=taps))]
    rows += [("tvblt, 4 buffers", None, 0, best("tvblt", asked, buffers=4)),
             ("tvblt, 4 buffers, 1 shared seed", None, 0, best("tvblt", asked, buffers=4, shared_seeds=1))]
    streams = []
    for _, memory, _, mechanism in rows:  # past the first epochs, where a row takes fewer seeds
        streams.append(mechanism.noise(asked.dim, 1.0, dpmf.testing_key(1), memory=memory, threads=1))
        streams[-1].seek(asked.steps // 2 if memory == 0 else min(asked.steps // 2, 64))
    times = row_times(streams, asked.dim)
    print("dpmf %s, %s, %s; %d steps, %d epochs, rows of %d numbers" % (
        dpmf.__version__, time.strftime("%Y-%m-%d", time.gmtime()), cpu(), asked.steps, asked.epochs, asked.dim))
    print("%-32s %8s %9s %8s %12s %10s" % ("mechanism", "normals", "x bound", "rows", "rows/s", "x i.i.d."))
    for (name, memory, taps, mechanism), each in zip(rows, times):
        kept = mechanism.noise_memory(asked.dim)[1] // (4 * asked.dim) if memory is None else 0
        print("%-32s %8.2f %9.4f %8d %12.1f %10.2f" % (
            name, normals(mechanism, taps), mechanism.ratio, kept, 1 / each, each / times[0]))


if __name__ == "__main__":
    main()
