# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST: DP-SGD beside correlated noise at equal privacy. Mechanisms, rates and the file: training_runs.py.

    python bench/learning/cnn.py [--output bench/learning/cnn.csv] [--epsilons 8 2] [--mechanisms ...] [--seeds 5]

Two epochs of 110 batches of 500; 5000 training images are held out to choose the rate.
"""

import argparse
import gzip
import pathlib

import numpy as np
import torch

import training_runs as runs

HERE = pathlib.Path(__file__).resolve().parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
HELD_OUT = 5000


def load(folder, part):
    def read(name, header):
        with gzip.open(folder / ("%s-%s-ubyte.gz" % (part, name))) as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    images = torch.from_numpy(read("images-idx3", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return (images - 0.286) / 0.353, torch.from_numpy(read("labels-idx1", 8).astype(np.int64))


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 8, 2, padding=3),
        torch.nn.Tanh(),
        torch.nn.MaxPool2d(2, 1),
        torch.nn.Conv2d(16, 32, 4, 2),
        torch.nn.Tanh(),
        torch.nn.MaxPool2d(2, 1),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 10),
    )


def accuracy(model, data):
    with torch.no_grad():
        return float(torch.cat([model(part).argmax(1) for part in data[0].split(1000)]).eq(data[1]).float().mean())


def make_task(folder=DATA, examples=60000, batch=500):
    """The first `examples` images, a twelfth of them held out."""
    images, labels = (part[:examples] for part in load(folder, "train"))
    kept = examples - HELD_OUT * examples // 60000
    return runs.Task(
        train=(images[:kept], labels[:kept]),
        held_out=(images[kept:], labels[kept:]),
        test=load(folder, "t10k"),
        make_model=make_model,
        score=accuracy,
        epochs=2,
        batch=batch,
        first_rates=lambda name: (0.1, 0.3) if name.endswith("-1") else (0.3, 1.0),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    runs.add_options(parser, HERE / "cnn.csv")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    runs.make_runs(make_task(asked.data), asked.output, asked.epsilons, asked.mechanisms, asked.seeds)


if __name__ == "__main__":
    main()
