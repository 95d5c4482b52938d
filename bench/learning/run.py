#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do correlated mechanisms help on real data? Softmax regression on Fashion-MNIST: run.py PROGRAM [--processes P]

For every mechanism, number of epochs and epsilon: the learning rate and the clip norm are chosen from one grid, the same
for all, by accuracy on the last 10 000 training images after training on the first 50 000 (100 batches of 500 an epoch); then five
runs with other keys on all 60 000 (100 batches of 600) are evaluated on the test images.
Each run is a line of runs.csv, written when it is done; a run that is there is not made again. delta = 1e-5.

The keys come from seeds that anybody can compute, so that the runs can be repeated: the weights are not private.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = os.path.join(HERE, "runs.csv")
DATA = "/usr/share/datasets/fashion-mnist"
FIELDS = ["stage", "mechanism", "epochs", "epsilon", "learning_rate", "clip", "seed", "accuracy", "loss", "sigma",
          "family", "bands", "buffers", "sampling", "noise_rms"]

DELTA = "1e-5"
EPSILONS = (1, 2, 4, 8)
EPOCHS = (1, 10)
STEPS_PER_EPOCH = 100
LEARNING_RATES = (0.05, 0.1, 0.2, 0.5, 1, 2)
CLIPS = (0.5, 2)
TUNE_SEED = 1000
FINAL_SEEDS = (1, 2, 3, 4, 5)

# name -> (options of design, numbers of epochs where it applies). Over ten epochs TV-BLT replays seeds.
MECHANISMS = {
    "dp-sgd": (["--families", "identity"], EPOCHS),
    "dp-sgd, amplified": (["--families", "identity", "--sampling", "block-cyclic"], EPOCHS),
    "tree-online": (["--families", "tree-online"], EPOCHS),
    "blt": (["--families", "blt"], EPOCHS),
    "tv-blt": (["--families", "tvblt"], EPOCHS),
    "bandmf": (["--families", "banded,banded-toeplitz"], EPOCHS),
    "bandmf, amplified": (["--families", "banded,banded-toeplitz", "--sampling", "block-cyclic"], EPOCHS),
}


def call(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                          env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


class Evidence:
    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.lock = threading.Lock()
        self.done = {}
        if os.path.exists(RUNS):
            with open(RUNS, encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    self.done[self.name(row)] = row
        else:
            with open(RUNS, "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow(FIELDS)

    @staticmethod
    def name(row):
        return tuple(str(row[key]) for key in FIELDS[:7])

    def mechanism(self, name, epochs, epsilon):
        """The mechanism's file and what the design says of it."""
        path = os.path.join(self.directory, f"{name}-{epochs}-{epsilon}.dpmf".replace(" ", ""))
        if not os.path.exists(path):
            found = call(self.program, "design", "--steps", STEPS_PER_EPOCH * epochs, "--epochs", epochs, "--epsilon",
                         epsilon, "--delta", DELTA, "--dim", 7850, "--no-bench", "--json", "-o", path,
                         *MECHANISMS[name][0])
            with open(path + ".json", "w", encoding="utf-8") as file:
                json.dump(found["chosen"], file)
        with open(path + ".json", encoding="utf-8") as file:
            return path, json.load(file)

    def run(self, stage, name, epochs, epsilon, rate, clip, seed):
        row = dict(zip(FIELDS, (stage, name, epochs, epsilon, rate, clip, seed)))
        if self.name(row) in self.done:
            return self.done[self.name(row)]
        with self.lock:
            path, chosen = self.mechanism(name, epochs, epsilon)
        tuning = stage == "tune"
        found = call(self.program, "train", path, "--data", DATA, "--model", "softmax", "--clip", clip,
                     "--learning-rate", rate, "--testing-seed", seed, "--threads", 1, "--json",
                     *(["--hold-out", 10000] if tuning else []))
        row.update(accuracy=found["test_accuracy"], loss=found["test_loss"], sigma=found["sigma"],
                   family=found["family"], bands=chosen["bands"], buffers=chosen["buffers"],
                   sampling=chosen["sampling"], noise_rms=chosen["noise_rms"])
        with self.lock:
            self.done[self.name(row)] = row
            with open(RUNS, "a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, FIELDS).writerow(row)
        return row

    def setting(self, name, epochs, epsilon):
        trials = [self.run("tune", name, epochs, epsilon, rate, clip, TUNE_SEED)
                  for clip in CLIPS for rate in LEARNING_RATES]
        best = max(trials, key=lambda row: float(row["accuracy"]))
        for seed in FINAL_SEEDS:
            self.run("final", name, epochs, epsilon, best["learning_rate"], best["clip"], seed)
        return name, epochs, epsilon


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    settings = [(name, epochs, epsilon) for epochs in EPOCHS for epsilon in EPSILONS
                for name, (_, applies) in MECHANISMS.items() if epochs in applies]
    with tempfile.TemporaryDirectory() as directory:
        evidence = Evidence(given.program, directory)
        with concurrent.futures.ThreadPoolExecutor(given.processes) as pool:
            for done, each in enumerate(concurrent.futures.as_completed(
                    [pool.submit(evidence.setting, *setting) for setting in settings]), 1):
                print(f"{done}/{len(settings)}", *each.result(), file=sys.stderr)


if __name__ == "__main__":
    main()
