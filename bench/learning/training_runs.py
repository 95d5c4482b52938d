# SPDX-License-Identifier: Apache-2.0
"""Shared by cnn.py and text.py: mechanisms at equal (epsilon, delta), learning rates from held-out data, seeds, and the table of runs.

The workload is SGD with momentum at a constant rate. Every mechanism of a task takes the same number of steps and the same (expected)
batch, except those that see each example once: they take smaller batches.

    dpsgd      independent noise, Poisson batches, amplified: DP-SGD
    blt        buffered linear Toeplitz, batches in a fixed order
    tvblt      time-varying BLT with replayed seeds, batches in a fixed order
    toeplitz   normalized banded Toeplitz, batches in a fixed order
    bandmf     banded or banded Toeplitz; block-cyclic sampling where `design` finds that it lowers the noise
    tvblt-1    TV-BLT of 4 nodes, one epoch of as many steps, each example once
    dpsgd-1    independent noise, one epoch of as many steps, each example once

The rate: each of a grid with the first seed; while the best of them is the smallest or the largest, one more beyond it. "Best" is by the
score on held-out training data, never by the test data. That choice is not accounted for in epsilon. All other seeds take that rate.

One row for each run; a run that is in the file is not made again, so that it can be stopped at any time.
"""

import csv
import dataclasses
import functools
import os
import pathlib
import time
from typing import Any, Callable

import torch

import dpmf
import dpmf.torch

DELTA, CLIP, MOMENTUM = 1e-5, 1.0, 0.9
HEADER = (
    "mechanism epsilon seed rate epochs steps family bands buffers sigma noise_rms held_out test seconds".split()
)
# Each has a number, which is part of its testing key: adding one changes no other's runs.
MECHANISMS = {"dpsgd": 0, "blt": 5, "tvblt": 6, "toeplitz": 2, "bandmf": 1, "tvblt-1": 3, "dpsgd-1": 4}
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # a grid is three neighbours here, and those beyond on demand


@dataclasses.dataclass
class Task:
    """A model and its data; `score` is better when it is larger."""

    train: Any  # (inputs, targets), as the others
    held_out: Any
    test: Any
    make_model: Callable[[], torch.nn.Module]
    score: Callable[[torch.nn.Module, Any], float]
    epochs: int
    batch: int
    first_rates: Callable[[str], tuple]
    loss: Any = None


@functools.lru_cache(maxsize=None)
def make_mechanism(name, epsilon, units, epochs, batch):
    """(mechanism, its sampler in words)."""
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
        return m, m.sampling if m.sampling != "none" else "cyclic:%d" % batch
    if name in ("blt", "tvblt", "toeplitz"):
        family = "banded-toeplitz" if name == "toeplitz" else name
        return dpmf.design(steps, epochs, workload=workload, families=family, **privacy), "cyclic:%d" % batch
    small = -(-units // steps)
    steps = -(-units // small)
    if name == "tvblt-1":
        return dpmf.optimize("tvblt", steps, workload, buffers=4, **privacy), "cyclic:%d" % small
    return dpmf.evaluate("identity", steps, workload, **privacy), "cyclic:%d" % small


def key_of(name, epsilon, seed):
    """A testing key: these are figures, not releases."""
    return dpmf.testing_key(MECHANISMS[name] * 1000003 + int(epsilon * 1000) * 101 + seed)


def run(task, name, epsilon, seed, rate):
    """One training run: its row."""
    start = time.time()
    units = len(task.train[1])
    mechanism, words = make_mechanism(name, epsilon, units, task.epochs, task.batch)
    order = torch.randperm(units, generator=torch.Generator().manual_seed(1000 + seed))
    data = torch.utils.data.TensorDataset(task.train[0][order], task.train[1][order])
    torch.manual_seed(seed)
    model, key = task.make_model(), key_of(name, epsilon, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    sampler = dpmf.torch.BatchSampler(words, data, key, mechanism=mechanism)
    with dpmf.torch.make_private(
        model, optimizer, mechanism, CLIP, loss=task.loss, sampler=sampler, key=key, threads=1
    ) as private:
        for batch in sampler:
            private.step(data.tensors[0][batch], data.tensors[1][batch])
    figures = [mechanism.family, mechanism.bands, mechanism.buffers, "%.6g" % mechanism.sigma]
    figures.append("%.6g" % (mechanism.sigma * mechanism.rms_loss))
    scores = ["%.4f" % task.score(model, part) for part in (task.held_out, task.test)]
    epochs = 1 if name.endswith("-1") else task.epochs
    return [name, "%g" % epsilon, seed, "%g" % rate, epochs, mechanism.steps, *figures, *scores, "%.0f" % (time.time() - start)]


def read_rows(path):
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add_row(path, row):
    """Writes the complete file or nothing."""
    rows = [[r[name] for name in HEADER] for r in read_rows(path)] + [row]
    with open(str(path) + ".new", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER] + rows)
    os.replace(str(path) + ".new", path)


def first_seed(rows, name, epsilon):
    """{rate: score on held-out data}."""
    return {
        float(r["rate"]): float(r["held_out"])
        for r in rows
        if r["mechanism"] == name and float(r["epsilon"]) == epsilon and r["seed"] == "0"
    }


def next_rate(rows, name, epsilon, grid):
    """(a rate to try next or None, the best of those tried)."""
    tried = first_seed(rows, name, epsilon)
    missing = [rate for rate in grid if rate not in tried]
    if missing:
        return missing[0], None
    best, order = max(tried, key=tried.get), sorted(tried)
    if best == order[-1] and best < RATES[-1]:
        return RATES[RATES.index(best) + 1], best
    if best == order[0] and best > RATES[0]:
        return RATES[RATES.index(best) - 1], best
    return None, best


def make_runs(task, path, epsilons, mechanisms, seeds, say=print):
    """Makes all runs that the file lacks: rates first, then seed after seed."""

    def make(*what):
        row = run(task, *what)
        add_row(path, row)
        say(*row, flush=True)

    for epsilon in epsilons:
        for name in mechanisms:
            while True:
                rate, _ = next_rate(read_rows(path), name, epsilon, task.first_rates(name))
                if rate is None:
                    break
                make(name, epsilon, 0, rate)
    for seed in range(1, seeds):
        for epsilon in epsilons:
            for name in mechanisms:
                rows = read_rows(path)
                best = next_rate(rows, name, epsilon, task.first_rates(name))[1]
                wanted = (name, epsilon, seed, best)
                if wanted not in [(r["mechanism"], float(r["epsilon"]), int(r["seed"]), float(r["rate"])) for r in rows]:
                    make(*wanted)


def add_options(parser, output):
    parser.add_argument("--output", type=pathlib.Path, default=output)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[8.0, 2.0])
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--seeds", type=int, default=5)
