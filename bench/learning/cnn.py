# SPDX-License-Identifier: Apache-2.0
"""A small CNN on Fashion-MNIST at two epsilons: DP-SGD beside correlated noise, several seeds, equal privacy.

    python bench/learning/cnn.py [--output bench/learning/cnn.csv] [--epsilons 2 8] [--seeds 3] [--epochs 8] [--threads 1]
    python bench/learning/cnn.py --table          # print what the file has

One row a run; a run that is in the file is not made again, so that it can be stopped at any time. Mechanisms:

    dpsgd      independent noise, Poisson batches, amplified: DP-SGD
    bandmf     banded noise, batches by block-cyclic sampling, amplified, bands chosen by `design` for the least noise
    cyclic     the best mechanism of `design` for batches in a fixed order, nothing amplified
    tvblt      one epoch of as many steps, single participation: TV-BLT of 4 nodes (8 buffers with momentum)
    dpsgd-1    one epoch of as many steps, single participation: independent noise

Learning rates are chosen from a grid with the first seed by the accuracy on 5000 images held out of the training set, and used
for all seeds; the figures are on the test set. That choice is not accounted for in epsilon.
"""

import argparse
import csv
import gzip
import os
import pathlib
import statistics
import time

import numpy as np
import torch

import dpmf
import dpmf.torch

HERE = pathlib.Path(__file__).resolve().parent
HEADER = [
    "mechanism",
    "epsilon",
    "seed",
    "rate",
    "epochs",
    "steps",
    "family",
    "bands",
    "buffers",
    "sigma",
    "noise_rms",
    "held_out",
    "test",
    "seconds",
]
MECHANISMS = ("dpsgd", "bandmf", "cyclic", "tvblt", "dpsgd-1")
RATES = {
    "dpsgd": (0.1, 0.3, 1.0),
    "bandmf": (0.1, 0.3, 1.0),
    "cyclic": (0.1, 0.3, 1.0),
    "tvblt": (0.03, 0.1, 0.3),
    "dpsgd-1": (0.03, 0.1, 0.3),
}
HELD_OUT, DELTA, CLIP, MOMENTUM = 5000, 1e-5, 1.0, 0.9


def load(folder, part):
    def read(name, header):
        with gzip.open(folder / ("%s-%s-ubyte.gz" % (part, name))) as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    images = torch.from_numpy(read("images-idx3", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return (images - 0.286) / 0.353, torch.from_numpy(read("labels-idx1", 8).astype(np.int64))


def make_mechanism(name, epsilon, units, epochs, batch):
    """(mechanism, sampler in words). Every one has the same steps an epoch and the same expected batch, one-epoch ones a smaller."""
    per_epoch = -(-units // batch)
    steps, workload = epochs * per_epoch, "momentum:%g" % MOMENTUM
    privacy = {"epsilon": epsilon, "delta": DELTA}
    if name == "dpsgd":
        words = "poisson:%.17g" % (batch / units)
        return dpmf.evaluate("identity", steps, workload, sampling=words, **privacy), words
    if name == "bandmf":
        m = dpmf.design(
            steps, epochs, workload=workload, sampling="block-cyclic", families="banded-toeplitz,banded", **privacy
        )
        return (
            m,
            m.sampling if m.sampling != "none" else "cyclic:%d" % batch,
        )  # with few epochs nothing is gained by sampling
    if name == "cyclic":
        return dpmf.design(steps, epochs, workload=workload, **privacy), "cyclic:%d" % batch
    small = -(-units // steps)
    steps = -(-units // small)
    if name == "tvblt":
        return dpmf.optimize("tvblt", steps, workload, buffers=4, **privacy), "cyclic:%d" % small
    return dpmf.evaluate("identity", steps, workload, **privacy), "cyclic:%d" % small


def make_model(seed):
    torch.manual_seed(seed)
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


def run(name, epsilon, seed, rate, asked, train, held_out, test):
    start = time.time()
    mechanism, words = make_mechanism(name, epsilon, len(train[1]), asked.epochs, asked.batch)
    # The order of the images is a part of the seed; keys are testing keys: these are figures, not releases.
    order = torch.randperm(len(train[1]), generator=torch.Generator().manual_seed(1000 + seed))
    data = torch.utils.data.TensorDataset(train[0][order], train[1][order])
    model, key = make_model(seed), dpmf.testing_key(hash_of(name, epsilon, seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    sampler = dpmf.torch.BatchSampler(words, data, key, mechanism=mechanism)
    with dpmf.torch.make_private(
        model, optimizer, mechanism, CLIP, sampler=sampler, key=key, threads=asked.threads
    ) as private:
        for batch in sampler:
            private.step(data.tensors[0][batch], data.tensors[1][batch])
    noise = mechanism.sigma * mechanism.rms_loss
    return [
        name,
        "%g" % epsilon,
        seed,
        "%g" % rate,
        asked.epochs if not name.endswith(("tvblt", "-1")) else 1,
        mechanism.steps,
        mechanism.family,
        mechanism.bands,
        mechanism.buffers,
        "%.6g" % mechanism.sigma,
        "%.6g" % noise,
        "%.4f" % accuracy(model, held_out),
        "%.4f" % accuracy(model, test),
        "%.0f" % (time.time() - start),
    ]


def hash_of(name, epsilon, seed):
    return MECHANISMS.index(name) * 1000003 + int(epsilon * 1000) * 101 + seed


def read_rows(path):
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add_row(path, row):
    """Whole or not at all."""
    rows = [[r[name] for name in HEADER] for r in read_rows(path)] + [row]
    with open(str(path) + ".new", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER] + rows)
    os.replace(str(path) + ".new", path)


def wanted(asked):
    """Grid points of the first seed before anything else, then the best rate with the other seeds."""
    for epsilon in asked.epsilons:
        for name in asked.mechanisms:
            for rate in RATES[name]:
                yield name, epsilon, 0, rate
    for seed in range(1, asked.seeds):
        for epsilon in asked.epsilons:
            for name in asked.mechanisms:
                yield name, epsilon, seed, None


def best_rate(rows, name, epsilon):
    found = [r for r in rows if r["mechanism"] == name and float(r["epsilon"]) == epsilon and r["seed"] == "0"]
    return float(max(found, key=lambda r: float(r["held_out"]))["rate"])


def table(rows):
    print("%-8s %9s %6s %5s %10s %18s" % ("epsilon", "mechanism", "steps", "rate", "noise rms", "test accuracy"))
    for epsilon in sorted({float(r["epsilon"]) for r in rows}):
        for name in MECHANISMS:
            here = [r for r in rows if r["mechanism"] == name and float(r["epsilon"]) == epsilon]
            if not here:
                continue
            rate = best_rate(rows, name, epsilon)
            found = [r for r in here if float(r["rate"]) == rate]
            values = [float(r["test"]) for r in found]
            spread = " +- %.4f (%d seeds)" % (statistics.stdev(values), len(values)) if len(values) > 1 else ""
            print(
                "%-8g %9s %6s %5g %10s   %.4f%s"
                % (epsilon, name, found[0]["steps"], rate, found[0]["noise_rms"], statistics.fmean(values), spread)
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "cnn.csv")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[2.0, 8.0])
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--examples", type=int, default=60000, help="fewer for a trial")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        table(read_rows(asked.output))
        return
    torch.set_num_threads(asked.threads)
    images, labels = load(asked.data, "train")
    images, labels = images[: asked.examples], labels[: asked.examples]
    kept = len(labels) - HELD_OUT * len(labels) // 60000
    train, held_out, test = (images[:kept], labels[:kept]), (images[kept:], labels[kept:]), load(asked.data, "t10k")
    for name, epsilon, seed, rate in wanted(asked):
        rows = read_rows(asked.output)
        rate = best_rate(rows, name, epsilon) if rate is None else rate
        if any(
            r["mechanism"] == name
            and float(r["epsilon"]) == epsilon
            and int(r["seed"]) == seed
            and float(r["rate"]) == rate
            for r in rows
        ):
            continue
        row = run(name, epsilon, seed, rate, asked, train, held_out, test)
        add_row(asked.output, row)
        print(*row, flush=True)
    table(read_rows(asked.output))


if __name__ == "__main__":
    main()
