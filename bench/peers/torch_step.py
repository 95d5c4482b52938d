# SPDX-License-Identifier: Apache-2.0
"""Noise of a private step: TV-BLT with 4 buffers beside torch's independent noise of the same size, 10M parameters, CPU.

    bench/peers/run.sh torch_step         # or: python bench/peers/torch_step.py [--parameters N] [--threads T] [--dry]

Both add a row of noise to the same summed gradients, 20 parameters of half a million floats, with the same number of threads.
torch makes its noise as DP-SGD libraries do, a normal tensor for each parameter that is then added; `in place` is the least
that torch can do, filling one buffer that exists already. Ours is one call. Rounds of all three in turn; the figures are
medians, and means over all rounds, those in which a look-ahead makes several rows included.
"""

import argparse
import statistics
import time

import results
import torch

import dpmf

PARTS, STEPS, WARM = 20, 1000, 3


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("--parameters", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument("--buffers", type=int, default=4)
    parser.add_argument("--dry", action="store_true", help="print only")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    mechanism = dpmf.optimize("tvblt", STEPS, buffers=asked.buffers, epsilon=8, delta=1e-5)
    sums = [torch.zeros(asked.parameters // PARTS) for _ in range(PARTS)]
    scale = mechanism.sigma * mechanism.sensitivity.value
    buffer = torch.empty(asked.parameters // PARTS)
    noise = mechanism.noise(sums, 1.0, threads=asked.threads)

    def independent():
        for part in sums:
            part.add_(torch.normal(0.0, scale, part.shape))

    def in_place():
        for part in sums:
            part.add_(buffer.normal_(0.0, scale))

    def ours():
        noise.add_(sums)

    times = {"ours": [], "torch": [], "in place": []}
    for _ in range(asked.rounds + WARM):
        for name, function in (("ours", ours), ("torch", independent), ("in place", in_place)):
            times[name].append(timed(function))
    rows = []
    for peer in ("torch", "in place"):
        for what, figure in (("median", statistics.median), ("mean", statistics.fmean)):
            mine, theirs = figure(times["ours"][WARM:]), figure(times[peer][WARM:])
            remark = "%s of %d; ours over it %.2f; goal <= 1.0" % (what, asked.rounds, mine / theirs)
            task = "noise of a step, TV-BLT %d buffers, %d parameters, %d threads, %s" % (
                asked.buffers,
                asked.parameters,
                asked.threads,
                what,
            )
            rows.append(
                [
                    "torch_step",
                    task,
                    "%.4f" % mine,
                    "torch i.i.d. (%s)" % ("normal + add" if peer == "torch" else "normal_ in place + add"),
                    "%.4f" % theirs,
                    "%.2f" % (theirs / mine),
                    remark,
                ]
            )
            print(
                "%s: %.1f ms, %s %.1f ms: %.2f times theirs"
                % (task, 1e3 * mine, rows[-1][3], 1e3 * theirs, mine / theirs)
            )
    print("first row (buffers and rows ahead are made): %.0f ms" % (1e3 * times["ours"][0]))
    if not asked.dry:
        results.replace("torch_step", rows)


if __name__ == "__main__":
    main()
