# SPDX-License-Identifier: Apache-2.0
"""Normal float32 numbers beside torch's normal_ and NumPy's standard_normal, one core each, in one run on one machine.

    bench/peers/run.sh noise     # makes bench/peers/venv, builds bench_seed, runs this

Ours are cryptographic (AES-256), theirs are not. Minimum of many short runs, in cache. Rows go to bench/results.csv.
"""
import subprocess
import sys
import time

import numpy as np
import torch

import results

COUNT = 1 << 16


def nanoseconds(function, repeats=300):
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best / COUNT * 1e9


def main(program):
    torch.set_num_threads(1)
    out = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(out, end="")
    lines = [line.split() for line in out.splitlines() if line and not line.startswith("set")]
    name, keystream, ours = min(((line[0], float(line[1]), float(line[2])) for line in lines), key=lambda line: line[2])
    tensor, generator = torch.empty(COUNT), np.random.default_rng(1)
    peers = {"torch normal_": (nanoseconds(tensor.normal_), 8),
             "numpy standard_normal": (nanoseconds(lambda: generator.standard_normal(COUNT, dtype=np.float32)),
                                       20 if name == "avx512" else 16)}
    rows = [["noise", "float32 normals, %s, ns per number" % name, "%.3f" % ours, peer, "%.3f" % theirs, "%.2f" % (theirs / ours),
             "goal >= %d" % goal] for peer, (theirs, goal) in peers.items()]
    rows.append(["noise", "float32 normals, %s, ns per number" % name, "%.3f" % ours, "their own AES-256 keystream",
                 "%.3f" % keystream, "%.2f" % (ours / keystream), "ours over it; goal <= 2"])
    for row in rows:
        print("%s: %s, %s %s: %s times (%s)" % (row[1], row[2], row[3], row[4], row[5], row[6]))
    results.replace("noise", rows)


if __name__ == "__main__":
    main(sys.argv[1])
