#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adam beside SGD under equal privacy, on the small transformer: optimizers.py [options]. Writes optimizers.csv; then prints the table.

A method is an optimizer and a noise, NAME-NOISE. Optimizers: sgd (momentum 0.9), adam, corrected (the noise's variance taken off v), scaled
(gradients scaled before clipping), joint (released squares, weight 0.1). Noise: poisson (independent, batches by Poisson sampling: DP-SGD
and DP-Adam as they are used), correlated (`dpmf design` without sampling, prefix sums). Each method has its own rate, found on held-out
verses with one seed; then it is trained with each of the final seeds. 8000 verses, two epochs of 40 steps, epsilon 8.
"""
import statistics
import sys
import time
import zlib

import torch

import dpmf
import dpmf.torch
import networks
import protocol
import results

OPTIMIZERS, NOISES = ("sgd", "adam", "corrected", "scaled", "joint"), ("poisson", "correlated")
METHODS = [f"{optimizer}-{noise}" for noise in NOISES for optimizer in OPTIMIZERS]
UNITS, EPOCHS, PER_EPOCH, EPSILON = 8000, 2, 40, 8.0
START = {"sgd": 1.0}  # of the search; 2^-6 for the others


class Optimizers(networks.Network):
    def __init__(self):
        whole = networks.make_text()
        super().__init__("text-small", tuple(part[:UNITS] for part in whole.data), 1000, whole.test, whole.make_model, whole.score, whole.loss)

    def noise(self, method):
        family, sampling = ("identity", "poisson") if method.endswith("poisson") else (None, "none")
        return dpmf.design(PER_EPOCH * EPOCHS, EPOCHS, families=family, sampling=sampling, dim=self.dim, epsilon=EPSILON, delta=protocol.DELTA)

    def train(self, cell, stage, per_epoch, rate, seed):
        start, steps, name = time.process_time(), per_epoch * cell.epochs, cell.method.split("-")[0]
        units = len(self.data[1]) - (self.held if stage.endswith("tune") else 0)
        order = torch.randperm(units, generator=torch.Generator().manual_seed(1000 + seed))
        data = torch.utils.data.TensorDataset(self.data[0][order], self.data[1][order])
        torch.manual_seed(seed)
        model = self.make_model()
        if name == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=networks.MOMENTUM)
        else:
            optimizer = dpmf.torch.Adam(model.parameters(), lr=rate, betas=(0.9, 0.99), correct=name == "corrected")
        more = {"scaled": {"precondition": dpmf.torch.SecondMoments()}, "joint": {"squares": dpmf.torch.JointMoments(0.1)}}.get(name, {})
        key = dpmf.testing_key(zlib.crc32(repr((cell.task.name, cell.method, cell.epochs, cell.epsilon, stage, per_epoch, rate, seed)).encode()))
        mechanism = self.noise(cell.method)
        words = mechanism.sampling if mechanism.sampling != "none" else f"cyclic:{-(-units // per_epoch)}"
        sampler = dpmf.torch.BatchSampler(words, data, key, mechanism=mechanism)
        with dpmf.torch.make_private(model, optimizer, mechanism, networks.CLIP, loss=self.loss, sampler=sampler, key=key, threads=1, **more) as private:
            for step, batch in enumerate(sampler):
                optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
                private.step(data.tensors[0][batch], data.tensors[1][batch])
        scored = self.score(model, tuple(part[units:] for part in self.data) if stage.endswith("tune") else self.test)
        return {"score": "%.4f" % scored[0], "loss": "%.5f" % scored[1], "sigma": mechanism.sigma, "sampling": mechanism.sampling,
                "noise_rms": mechanism.sigma * mechanism.rms_loss, "family": mechanism.family, "bands": mechanism.bands,
                "buffers": mechanism.buffers, "seconds": "%.0f" % (time.process_time() - start)}


class Cell(protocol.Cell):
    """The rate alone is searched, by one seed: the first one, its neighbours, the neighbours of the best."""

    def __init__(self, task, path, method):
        super().__init__(task, path, method, EPOCHS, EPSILON, PER_EPOCH)
        self.start = (PER_EPOCH, START.get(method.split("-")[0], 2.0**-6))

    def search(self, trials=protocol.TRIALS):
        while True:
            tried = {point[:2]: score for point, score in self.rows(self.stages[0]).items()}
            following = protocol.next_point(tried, self.ladder, self.task.rates, self.start)
            if len(tried) >= trials or following is None:
                return max(tried, key=tried.get)
            self.make(self.stages[0], *following, protocol.TUNE_SEEDS[0])


def table(path):
    """The bits of a character on the test verses, mean and 95 % interval of the final seeds."""
    scores = {}
    for row in protocol.read_rows(path):
        if row["stage"] == "sweep":
            scores.setdefault(row["method"], {}).setdefault(row["rate"], []).append(-float(row["score"]))
    lines = ["| optimizer | independent noise, Poisson | correlated noise |", "|---|---|---|"]
    for optimizer in OPTIMIZERS:
        cells = []
        for noise in NOISES:
            values = max(scores.get(f"{optimizer}-{noise}", {"": []}).values(), key=len)
            half = results.STUDENT[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
            cells.append("%.3f ± %.3f" % (statistics.mean(values), half) if half else "")
        lines.append("| %s | %s | %s |" % (optimizer, *cells))
    return "\n".join(lines)


def main():
    parser = protocol.options(protocol.HERE / "optimizers.csv")
    parser.description = __doc__
    parser.set_defaults(trials=3, seeds=5)
    for action in parser._actions:
        if action.dest == "methods":
            action.choices, action.default = METHODS, METHODS
    given = parser.parse_args()
    torch.set_num_threads(1)
    task = Optimizers()
    first, workers = map(int, given.worker.split("/"))
    for method in given.methods[first::workers]:
        Cell(task, given.output, method).run(given.trials, given.seeds)
    print(table(given.output))


if __name__ == "__main__":
    sys.exit(main())
