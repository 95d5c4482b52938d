#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From a data set and a budget to a private model: demo.py PROGRAM DIRECTORY

Plans a run of two epochs on Fashion-MNIST, which chooses batch size and mechanism; verifies the file; trains a linear model on scattering
features with it and with DP-SGD at the same privacy, each with the batch size and learning rate that do best on held-out training images,
after the same number of trials; prints the test accuracy of three runs of each with 95 % intervals; and writes the report page to DIRECTORY.
"""
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import sys

DATA = "/usr/share/datasets/fashion-mnist"
UNITS, EPOCHS, EPSILON, DELTA = 60000, 2, "8", "1e-5"
MODEL = ("--features", "scattering", "--model", "softmax", "--clip", "0.5")
RATES = ("200", "400")
PER_EPOCH = (100, 200)  # DP-SGD: its noise grows with the steps, so it may choose; the plan has chosen for the other
HELD_OUT, SEEDS = "10000", 3
STUDENT = {2: 4.303, 3: 3.182, 4: 2.776}  # 97.5 % points by degrees of freedom


def dpmf(*arguments):
    """Runs the program and prints the command if it fails."""
    command = [sys.argv[1], *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def indented(text):
    return "  " + text.rstrip().replace("\n", "\n  ")


def train(path, rate, *more, threads=1):
    return json.loads(dpmf("train", path, "--data", DATA, *MODEL, "--learning-rate", rate, "--threads", threads, "--json", *more))


def interval(values):
    """(mean, half of its 95 % interval)."""
    return statistics.mean(values), STUDENT[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


def gain(ours, theirs):
    """(difference of the means, half of its 95 % interval, Welch's)."""
    a, b = (statistics.variance(values) / len(values) for values in (ours, theirs))
    freedom = (a + b) ** 2 / (a**2 / (len(ours) - 1) + b**2 / (len(theirs) - 1)) if a + b > 0 else 2
    return statistics.mean(ours) - statistics.mean(theirs), STUDENT[max(2, min(4, math.floor(freedom)))] * math.sqrt(a + b)


def finals(pool, points):
    """The point that is best on held-out images, and the test accuracies there, in per cent."""
    held = list(pool.map(lambda point: train(*point, "--hold-out", HELD_OUT)["test_accuracy"], points))
    best = points[held.index(max(held))]
    found = list(pool.map(lambda _: train(*best), range(SEEDS)))
    return best, found[0], [100 * one["test_accuracy"] for one in found]


def main():
    place = sys.argv[2]
    os.makedirs(place, exist_ok=True)
    best, page = (os.path.join(place, name) for name in ("best.dpmf", "report.html"))
    print(f"{UNITS} images, {EPOCHS} epochs, epsilon = {EPSILON}, delta = {DELTA}. `dpmf plan` compares batch sizes:\n")
    plan = dpmf("plan", "--units", UNITS, "--epochs", EPOCHS, "--epsilon", EPSILON, "--delta", DELTA, "--dim", 51850, "-o", best)
    print(indented(plan.partition("Privacy of the recommended run")[0]))
    files = []
    for per_epoch in PER_EPOCH:
        files.append(os.path.join(place, f"dp-sgd-{per_epoch}.dpmf"))
        dpmf("design", "--steps", EPOCHS * per_epoch, "--epochs", EPOCHS, "--epsilon", EPSILON, "--delta", DELTA, "--dim", 51850,
             "--families", "identity", "--sampling", "poisson", "-o", files[-1])
    print("\n`dpmf verify` computes what the file claims again:\n")
    print(indented("\n".join(line[:110] for line in dpmf("verify", best).splitlines())))

    print("\nTraining a linear model on scattering features (the first run computes them and keeps them) ...", flush=True)
    train(best, RATES[0], threads=2)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        compare(pool, best, files)
    dpmf("report", best, "-o", page)
    print(f"\nThe report page: {page} ({os.path.getsize(page)} bytes)")


def compare(pool, best, files):
    """Trains both, each with the same number of trials on held-out images."""
    rates = (str(float(RATES[0]) / 2), *RATES, str(2 * float(RATES[-1])))
    ours = finals(pool, [(best, rate) for rate in rates])
    theirs = finals(pool, [(path, rate) for path in files for rate in RATES])
    without = json.loads(dpmf("train", "--data", DATA, *MODEL, "--learning-rate", RATES[-1], "--noiseless", "--epochs", EPOCHS, "--batch",
                              "75", "--sampling", "poisson", "--json"))
    print(f"\n  {'noise':<42}{'steps':>7}{'rate':>7}{'sigma':>9}{'test accuracy, ' + str(SEEDS) + ' runs':>26}")
    for name, (point, found, values) in ((f"planned: {ours[1]['family']}, {ours[1]['sampler']}", ours), ("DP-SGD with Poisson sampling", theirs)):
        mean, half = interval(values)
        print(f"  {name:<42}{found['steps']:>7}{point[1]:>7}{found['sigma']:>9.4g}{mean:>17.2f} ± {half:.2f} %")
    print(f"  {'no noise, not private':<42}{without['steps']:>7}{RATES[-1]:>7}{'-':>9}{100 * without['test_accuracy']:>17.2f} %")
    more, half = gain(ours[2], theirs[2])
    clear = "beyond the 95 % interval" if abs(more) > half else "no clear difference: within the 95 % interval"
    print(f"\n  The planned run is {more:+.2f} ± {half:.2f} points from DP-SGD at the same epsilon ({clear}).")


if __name__ == "__main__":
    main()
