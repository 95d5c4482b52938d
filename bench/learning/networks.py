#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Neural networks by `dpmf.torch`: networks.py TASK [options]. Methods and search: protocol.py. Needs torch and the dpmf package.

    networks.py cnn                          the tanh CNN of Papernot et al. 2021 on Fashion-MNIST, 26 010 weights
    networks.py cifar-cnn --data DIR         a larger CNN on CIFAR-10 in its binary format
    networks.py text                         a small transformer that spells Bible verses; the score is minus the bits of a character

SGD with momentum 0.9, which is post-processing: mechanisms are made for prefix sums. Clip norm 1, a rate that falls linearly to 0. The
search trains without the held-out part of the training data, the final runs with it. The seed determines the order of the data,
the initial weights, the sampling and the noise; the keys can be computed by anybody, so that runs can be repeated. `noiseless` is
independent noise at epsilon = 100 000, 0.002 of the clip norm at every step over ten epochs.
"""
import functools
import gzip
import math
import pathlib
import time
import zlib

import numpy as np
import torch

import dpmf
import dpmf.torch
import protocol
import verses

CLIP, MOMENTUM = 1.0, 0.9
RATES = tuple(2.0**power for power in range(-8, 6))
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def load_fashion(folder, part):
    def read(name, header):
        with gzip.open(folder / f"{part}-{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    images = torch.from_numpy(read("images-idx3", 16).reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return (images - 0.286) / 0.353, torch.from_numpy(read("labels-idx1", 8).astype(np.int64))


def load_cifar(folder, names):
    raw = np.concatenate([np.fromfile(folder / f"{name}.bin", np.uint8).reshape(-1, 3073) for name in names])
    images = torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255)
    return (images - 0.5) / 0.25, torch.from_numpy(raw[:, 0].astype(np.int64))


def tanh_cnn():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 8, 2, padding=3), torch.nn.Tanh(), torch.nn.MaxPool2d(2, 1),
        torch.nn.Conv2d(16, 32, 4, 2), torch.nn.Tanh(), torch.nn.MaxPool2d(2, 1),
        torch.nn.Flatten(), torch.nn.Linear(512, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10),
    )


def cifar_cnn():
    """Three blocks of two convolutions, after Papernot et al. 2021, with half of their channels: 138 330 weights."""
    layers, before = [], 3
    for channels in (16, 32, 64):
        for inputs in (before, channels):
            layers += [torch.nn.Conv2d(inputs, channels, 3, padding=1), torch.nn.Tanh()]
        layers.append(torch.nn.AvgPool2d(2))
        before = channels
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(1024, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))


def accuracy(model, data):
    """(per cent, mean loss)."""
    with torch.no_grad():
        outputs = torch.cat([model(part) for part in data[0].split(1000)])
    return 100 * float(outputs.argmax(1).eq(data[1]).float().mean()), float(torch.nn.functional.cross_entropy(outputs, data[1]))


def bits(model, data):
    """(minus the mean bits of a character, the same as a loss)."""
    total, count = 0.0, 0
    with torch.no_grad():
        for before, after in zip(data[0].split(500), data[1].split(500)):
            known = int((after != verses.IGNORED).sum())
            total += float(verses.loss_of(model(before), after)) * known
            count += known
    return -total / count / math.log(2), total / count


class Network:
    """The task as protocol.py wants it. `train` is (inputs, targets), its last `held` examples are those that the search holds out."""

    start, stage_prefix = (100, 0.5), ""

    def __init__(self, name, train, held, test, make_model, score=accuracy, loss=None, per_epoch=protocol.PER_EPOCH, rates=RATES):
        self.name, self.data, self.held, self.test = name, train, held, test
        self.make_model, self.score, self.loss, self.per_epoch, self.rates = make_model, score, loss, per_epoch, rates
        self.dim = sum(p.numel() for p in make_model().parameters())

    @functools.lru_cache(maxsize=None)
    def mechanism(self, method, steps, epochs, epsilon):
        """The Python form of protocol.design_words."""
        privacy = {"epsilon": epsilon, "delta": protocol.DELTA}
        if method == "fft":
            return dpmf.evaluate("fft-opt", steps, "prefix", participation=f"cyclic:{epochs},{steps // epochs}", **privacy)
        if method == "noiseless":
            privacy["epsilon"] = 1e5
        families = {"dpsgd": "identity", "noiseless": "identity", "chosen": None, "blt": "blt", "tvblt": "tvblt", "tree": "tree-online"}[method]
        sampling = {"dpsgd": "poisson", "chosen": "any"}.get(method, "none")  # without noise the order of the data is no matter
        limit = {} if method == "chosen" else {"max_overhead": 1e5}
        return dpmf.design(steps, epochs, families=families, sampling=sampling, dim=self.dim, **limit, **privacy)

    def train(self, cell, stage, per_epoch, rate, seed):
        start, steps = time.process_time(), per_epoch * cell.epochs
        units = len(self.data[1]) - (self.held if stage.endswith("tune") else 0)
        order = torch.randperm(units, generator=torch.Generator().manual_seed(1000 + seed))
        data = torch.utils.data.TensorDataset(self.data[0][order], self.data[1][order])
        torch.manual_seed(seed)
        model = self.make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
        # Every run has its own key: two runs that draw the same secret batches are refused.
        key = dpmf.testing_key(zlib.crc32(repr((cell.task.name, cell.method, cell.epochs, cell.epsilon, stage, per_epoch, rate, seed)).encode()))
        mechanism = self.mechanism(cell.method, steps, cell.epochs, cell.epsilon)
        words = mechanism.sampling if mechanism.sampling != "none" else f"cyclic:{-(-units // per_epoch)}"
        sampler = dpmf.torch.BatchSampler(words, data, key, mechanism=mechanism)
        with dpmf.torch.make_private(model, optimizer, mechanism, CLIP, loss=self.loss, sampler=sampler, key=key, threads=1) as private:
            for step, batch in enumerate(sampler):
                optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
                private.step(data.tensors[0][batch], data.tensors[1][batch])
        scored = self.score(model, tuple(part[units:] for part in self.data) if stage.endswith("tune") else self.test)
        return {"score": "%.4f" % scored[0], "loss": "%.5f" % scored[1], "sigma": mechanism.sigma, "sampling": mechanism.sampling,
                "noise_rms": mechanism.sigma * mechanism.rms_loss, "family": mechanism.family, "bands": mechanism.bands,
                "buffers": mechanism.buffers, "seconds": "%.0f" % (time.process_time() - start)}


def make_cnn(folder=FASHION):
    return Network("cnn", load_fashion(folder, "train"), 10000, load_fashion(folder, "t10k"), tanh_cnn)


def make_cifar_cnn(folder):
    train = load_cifar(folder, [f"data_batch_{n}" for n in range(1, 6)])
    return Network("cifar-cnn", train, 10000, load_cifar(folder, ["test_batch"]), cifar_cnn)


def make_text(path=verses.DATA, test=2000, held=2000):
    """All verses, shuffled once; a verse is one example and one privacy unit. The test takes what is above a multiple of 2000 too, so that
    every number of steps per epoch divides the rest."""
    found = verses.read_verses(path)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(1611)).tolist()
    coded = verses.encode([found[at] for at in order])
    test += (len(found) - test) % 2000
    return Network("text", tuple(part[test:] for part in coded), held, tuple(part[:test] for part in coded), verses.Speller,
                   score=bits, loss=verses.loss_of)


def main():
    parser = protocol.options(protocol.HERE / "networks.csv")
    parser.description = __doc__
    tasks = {"cnn": make_cnn, "cifar-cnn": make_cifar_cnn, "text": make_text}
    parser.add_argument("task", choices=tasks)
    parser.add_argument("--data", type=pathlib.Path)
    given = parser.parse_args()
    if given.task == "cifar-cnn" and given.data is None:
        parser.error("cifar-cnn needs --data DIR")
    torch.set_num_threads(1)
    protocol.run_cells(tasks[given.task](*([given.data] if given.data else [])), given)


if __name__ == "__main__":
    main()
