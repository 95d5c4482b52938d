#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A linear model on scattering features by `dpmf train`: linear.py PROGRAM TASK [options]. Methods and search: protocol.py.

    linear.py build/dpmf fashion                                     Fashion-MNIST of Debian's dataset-fashion-mnist
    linear.py build/dpmf cifar-pink --data DIR --epochs 2 20         CIFAR-10 in its binary format
    linear.py build/dpmf cifar --data DIR --epochs 2 20              the same with features that are normalised in groups

The features are fixed: 2D scattering of order 2, normalised for each image. Softmax regression, SGD without momentum, clip norm 0.5,
a rate that falls linearly to 0. The last 10 000 training images are held out in the search. The keys come from seeds that anybody
can compute, so that the runs can be repeated: the weights are not private.
"""
import json
import os
import subprocess
import sys
import tempfile

import protocol

CLIP = 0.5
TASKS = {  # default data, features x classes + classes, first point of the search, features
    "fashion": ("/usr/share/datasets/fashion-mnist", (81 * 64 + 1) * 10, (200, 50.0), "scattering"),
    "cifar": (None, (243 * 64 + 1) * 10, (200, 50.0), "scattering"),
    "cifar-pink": (None, (243 * 64 + 1) * 10, (50, 12.5), "scattering:2,8,pink"),
}
RATES = tuple(50.0 * 2.0**power for power in range(-4, 8))


class Linear:
    """The task as protocol.py wants it."""

    def __init__(self, given, directory):
        self.name, self.program, self.directory = given.task, given.program, directory
        data, self.dim, self.start, features = TASKS[given.task]
        self.data, self.hold_out, self.features = given.data or data, given.hold_out, given.features or features
        self.per_epoch, self.rates, self.clip = protocol.PER_EPOCH, RATES, given.clip
        self.stage_prefix = "" if given.clip == CLIP else f"clip-{given.clip:g}-"

    def call(self, *words):
        done = subprocess.run([self.program, *map(str, words), "--json"], capture_output=True, text=True, check=False,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr.strip()}")
        return json.loads(done.stdout)

    def mechanism(self, cell, steps):
        """(file, its figures); each is made once."""
        made = cell.method.removesuffix("-constant").removesuffix("-momentum")  # which the mechanism does not depend on
        path = os.path.join(self.directory, f"{made}-{steps}-{cell.epochs}-{cell.epsilon}.dpmf")
        if not os.path.exists(path + ".json"):
            found = self.call(*protocol.design_words(cell.method, steps, cell.epochs, cell.epsilon, self.dim), "--threads", 1, "-o", path)
            found = found.get("chosen") or found.get("recommended") or found
            kept = {"noise_rms": found.get("noise_rms") or found["sigma"] * found["rms_loss"]}
            kept.update((name, found.get(name)) for name in ("family", "bands", "buffers", "sampling", "sigma"))
            with open(path + ".json", "w", encoding="utf-8") as file:
                json.dump(kept, file)
        with open(path + ".json", encoding="utf-8") as file:
            return path, json.load(file)

    def train(self, cell, stage, per_epoch, rate, seed):
        steps = per_epoch * cell.epochs
        words = ["--data", self.data, "--features", self.features, "--model", "softmax", "--clip", self.clip, "--learning-rate", rate,
                 "--schedule", "constant" if cell.method.endswith("-constant") else "linear", "--testing-seed", seed, "--threads", 1]
        if cell.method.endswith(("-momentum", "-own")):
            words += ["--momentum", 0.9]
        if stage.endswith("tune"):
            words += ["--hold-out", self.hold_out]
        if cell.method.startswith("noiseless"):
            found = self.call("train", *words, "--noiseless", "--steps", steps, "--epochs", cell.epochs, "--sampling", "poisson")
            figures = {"sigma": 0, "noise_rms": 0, "family": "identity", "sampling": found["sampler"]}
        else:
            path, figures = self.mechanism(cell, steps)
            found = self.call("train", path, *words)
        return {**figures, "score": "%.3f" % (100 * found["test_accuracy"]), "loss": "%.5f" % found["test_loss"], "seconds": "%.1f" % found["seconds"]}


def main():
    parser = protocol.options(protocol.HERE / "linear.csv")
    parser.description = __doc__
    parser.add_argument("program")
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data")
    parser.add_argument("--features")
    parser.add_argument("--clip", type=float, default=CLIP, help="rows of another clip norm have stages of their own, which no table of the page reads")
    parser.add_argument("--hold-out", type=int, default=10000)
    parser.add_argument("--mechanisms", help="a directory that keeps the mechanism files for the next call")
    given = parser.parse_args()
    if given.data is None and TASKS[given.task][0] is None:
        parser.error(f"{given.task} needs --data DIR")
    with tempfile.TemporaryDirectory() as directory:
        if given.mechanisms:
            os.makedirs(given.mechanisms, exist_ok=True)
        protocol.run_cells(Linear(given, given.mechanisms or directory), given)


if __name__ == "__main__":
    main()
