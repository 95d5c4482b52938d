#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From a training run to a private model: demo.py PROGRAM DIRECTORY

States a run on Fashion-MNIST and lets `design` choose the mechanism; verifies its file; trains with it and with DP-SGD at
the same privacy, each with the learning rate that does best on held-out training images; prints the test accuracy of both
beside (epsilon, delta); and writes the report page to DIRECTORY.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

DATA = "/usr/share/datasets/fashion-mnist"
EPSILON, DELTA = "8", "1e-5"
EPOCHS, STEPS = 10, 1000  # batches of 600 of the 60 000 images
CLIP = "2"
RATES = ("0.5", "1", "2")
MODEL = ("--model", "softmax")
TOGETHER = 2  # commands at once; each uses several threads where it can


def dpmf(*arguments, expect=0):
    """Runs the program and prints the command if it fails."""
    command = [sys.argv[1], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != expect:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def indented(text):
    return "  " + text.rstrip().replace("\n", "\n  ")


def train(path, rate, *more):
    return json.loads(dpmf("train", path, "--data", DATA, *MODEL, "--clip", CLIP, "--learning-rate", rate, "--json", *more))


def tuned(path):
    """The learning rate that does best on 10 000 held-out training images, and the test accuracy with it."""
    held = {rate: train(path, rate, "--hold-out", "10000")["test_accuracy"] for rate in RATES}
    rate = max(held, key=held.get)
    return rate, train(path, rate)


def main():
    place = sys.argv[2]
    os.makedirs(place, exist_ok=True)
    best, sgd, page = (os.path.join(place, name) for name in ("best.dpmf", "dp-sgd.dpmf", "report.html"))
    run = ("--steps", str(STEPS), "--epochs", str(EPOCHS), "--epsilon", EPSILON, "--delta", DELTA, "--dim", "7850",
           "--sampling", "block-cyclic")
    print(f"A run of {EPOCHS} epochs in {STEPS} steps at epsilon = {EPSILON}, delta = {DELTA}. `dpmf design` says:\n")
    print(indented(dpmf("design", *run, "-o", best)))
    dpmf("design", *run, "--families", "identity", "-o", sgd)
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        compare(pool, best, sgd, page)


def compare(pool, best, sgd, page):
    """Runs the commands on the two files; those that are independent of each other run side by side."""
    verified = pool.submit(dpmf, "verify", best)
    trained = [pool.submit(tuned, path) for path in (best, sgd)]
    noiseless = pool.submit(dpmf, "train", "--data", DATA, *MODEL, "--noiseless", "--epochs", str(EPOCHS), "--steps", str(STEPS),
                            "--clip", CLIP, "--learning-rate", RATES[-1], "--json")
    reported = pool.submit(dpmf, "report", best, "-o", page)

    print("\n`dpmf verify` computes what the file claims again:\n")
    print(indented("\n".join(line[:110] for line in verified.result().splitlines())))

    print(f"\nSoftmax regression on Fashion-MNIST, clip norm {CLIP}, learning rate from {', '.join(RATES)} by accuracy on "
          "held-out images:\n")
    print(f"  {'mechanism':<34}{'epsilon':>9}{'delta':>8}{'sigma':>9}{'rate':>6}{'test accuracy':>15}")
    for name, future in zip(("the chosen one", "DP-SGD with Poisson sampling"), trained):
        rate, found = future.result()
        label = f"{name} ({found['family']})" if future is trained[0] else name
        print(f"  {label:<34}{found['epsilon']:>9.4g}{found['delta']:>8.0e}{found['sigma']:>9.4g}{rate:>6}"
              f"{100 * found['test_accuracy']:>13.2f} %")
    accuracy = json.loads(noiseless.result())["test_accuracy"]
    print(f"  {'without privacy':<34}{'-':>9}{'-':>8}{'-':>9}{RATES[-1]:>6}{100 * accuracy:>13.2f} %")

    reported.result()
    print(f"\nThe report page: {page} ({os.path.getsize(page)} bytes)")


if __name__ == "__main__":
    main()
