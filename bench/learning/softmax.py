#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Softmax regression on Fashion-MNIST by `dpmf train`, mechanisms at equal privacy: softmax.py PROGRAM [--epochs 10] [--epsilons 1 2 4 8]

For every mechanism, number of epochs and epsilon a learning rate and a clip norm are searched with one key, by accuracy on the last
10 000 training images after training on the first 50 000 (100 batches of 500 an epoch): a grid first, then every neighbour of the best
point, until the best has no neighbour that was not tried: it never lies at the edge of what was tried. Five runs with other keys on all
60 000 (100 batches of 600) are then evaluated on the test images, which nothing before has read. delta = 1e-5.

Each run is a line of softmax.csv, written when it is done; a run that is there is not made again, unless the design of its mechanism has
changed since. The keys come from seeds that anybody can compute, so that the runs can be repeated: the weights are not private.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DATA = "/usr/share/datasets/fashion-mnist"
FIELDS = ["stage", "mechanism", "epochs", "epsilon", "learning_rate", "clip", "seed", "accuracy", "loss", "sigma",
          "family", "bands", "buffers", "sampling", "noise_rms"]
DELTA = "1e-5"
STEPS_PER_EPOCH = 100
RATES = [0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16]
CLIPS = [0.03, 0.125, 0.5, 2, 8, 32]
FIRST = [(rate, clip) for clip in (0.5, 2) for rate in (0.5, 1, 2)]
TUNE_SEED = 1000
FINAL_SEEDS = (1, 2, 3, 4, 5)

# name -> options of design. Over ten epochs TV-BLT replays seeds.
MECHANISMS = {
    "dp-sgd, amplified": ["--families", "identity", "--sampling", "block-cyclic"],
    "blt": ["--families", "blt"],
    "tv-blt": ["--families", "tvblt"],
    "banded toeplitz": ["--families", "banded-toeplitz"],
    "bandmf": ["--families", "banded,banded-toeplitz", "--sampling", "block-cyclic"],
    "dp-sgd": ["--families", "identity"],
    "tree-online": ["--families", "tree-online"],
}


def call(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                          env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def read(path):
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    """Writes the complete file or nothing."""
    with open(f"{path}.new", "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, FIELDS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    os.replace(f"{path}.new", path)


def neighbours(rate, clip):
    """One step on each ladder, and a larger clip norm with a smaller rate: together they keep the length of a clipped step."""
    at, clip_at = RATES.index(rate), CLIPS.index(clip)
    for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1), (-1, 1)):
        if 0 <= at + a < len(RATES) and 0 <= clip_at + b < len(CLIPS):
            yield RATES[at + a], CLIPS[clip_at + b]


class Setting:
    """One mechanism, number of epochs and epsilon."""

    def __init__(self, given, directory, name, epochs, epsilon):
        self.given, self.name, self.epochs, self.epsilon = given, name, epochs, epsilon
        self.file = os.path.join(directory, f"{name}-{epochs}-{epsilon}.dpmf".replace(" ", ""))
        self.chosen = call(given.program, "design", "--steps", STEPS_PER_EPOCH * epochs, "--epochs", epochs, "--epsilon",
                           epsilon, "--delta", DELTA, "--dim", 7850, "--max-overhead", 1e5, "--json", "-o", self.file,
                           *MECHANISMS[name])["chosen"]
        rows = read(given.output)
        kept = [row for row in rows if not self.owns(row) or
                abs(float(row["noise_rms"]) / self.chosen["noise_rms"] - 1) < 1e-6]
        if len(kept) < len(rows):
            write(given.output, kept)

    def owns(self, row):
        return (row["mechanism"], int(row["epochs"]), float(row["epsilon"])) == (self.name, self.epochs, self.epsilon)

    def rows(self, stage):
        return {(float(row["learning_rate"]), float(row["clip"]), int(row["seed"])): float(row["accuracy"])
                for row in read(self.given.output) if row["stage"] == stage and self.owns(row)}

    def train(self, stage, rate, clip, seed):
        found = call(self.given.program, "train", self.file, "--data", self.given.data, "--model", "softmax", "--clip", clip,
                     "--learning-rate", rate, "--schedule", "constant", "--testing-seed", seed, "--threads", 1, "--json",
                     *(["--hold-out", self.given.hold_out] if stage == "tune" else []))
        row = dict(zip(FIELDS, (stage, self.name, self.epochs, self.epsilon, rate, clip, seed)))
        row.update(accuracy=found["test_accuracy"], loss=found["test_loss"], sigma=found["sigma"], family=found["family"],
                   bands=self.chosen["bands"], buffers=self.chosen["buffers"], sampling=self.chosen["sampling"],
                   noise_rms=self.chosen["noise_rms"])
        write(self.given.output, read(self.given.output) + [row])

    def search(self):
        """The best rate and clip norm on held-out images."""
        while True:
            tried = {(rate, clip): accuracy for (rate, clip, _), accuracy in self.rows("tune").items()}
            missing = [point for point in FIRST if point not in tried]
            if not missing:
                best = max(tried, key=tried.get)
                missing = [point for point in neighbours(*best) if point not in tried]
                if not missing:
                    return best
            self.train("tune", *missing[0], TUNE_SEED)

    def run(self):
        rate, clip = self.search()
        for seed in FINAL_SEEDS[: self.given.seeds]:
            if (rate, clip, seed) not in self.rows("final"):
                self.train("final", rate, clip, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "softmax.csv")
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--hold-out", type=int, default=10000)
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 1])
    parser.add_argument("--epsilons", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--seeds", type=int, default=len(FINAL_SEEDS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for epochs in given.epochs:
            for epsilon in given.epsilons:
                for name in given.mechanisms:
                    Setting(given, directory, name, epochs, epsilon).run()
                    print("done:", name, epochs, epsilon, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
