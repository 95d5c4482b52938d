#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds per step and peak memory of private training, side by side, each way in a separate process.

    training.py [STEPS] [MODEL...]      models: cnn (26k, batch 500), mlp (19M, batch 64), transformer (1.7M, batch 32)
    training.py one MODEL WAY STEPS     one of them, as the above starts it; prints "median seconds, peak MiB"

Ways: plain torch, Opacus with hooks, Opacus ghost, ours per example, ours ghost. The first step is not counted. One thread.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
import warnings

WAYS = ("plain", "opacus-hooks", "opacus-ghost", "ours-per-example", "ours-ghost")


def make(name, torch):
    from torch import nn

    torch.manual_seed(1)
    if name == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
            nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
        )  # fmt: skip
        return model, torch.randn(500, 1, 28, 28), torch.randint(0, 10, (500,)), False
    if name == "mlp":
        model = nn.Sequential(
            nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 3840), nn.ReLU(), nn.Linear(3840, 10)
        )
        return model, torch.randn(64, 784), torch.randint(0, 10, (64,)), False
    from models import Transformer

    ids = torch.randint(0, 1000, (32, 65))
    return Transformer(1000, 64, 192, 3, 4, copied=True), ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), True


def one(name, way, steps):
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    model, x, y, of_tokens = make(name, torch)
    count = len(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss_of_one(outputs, targets):
        if of_tokens:
            outputs, targets = outputs.flatten(0, 1), targets.flatten()
        return torch.nn.functional.cross_entropy(outputs, targets)

    if way == "plain":

        def step():
            optimizer.zero_grad()
            loss_of_one(model(x), y).backward()
            optimizer.step()

    elif way.startswith("opacus"):
        from opacus import PrivacyEngine

        mode = "ghost" if way.endswith("ghost") else "hooks"
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=count)
        model, optimizer, *rest = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0,
            poisson_sampling=False, grad_sample_mode=mode, criterion=torch.nn.CrossEntropyLoss(),
        )  # fmt: skip

        def step():
            optimizer.zero_grad()
            outputs = model(x)
            if mode == "hooks":
                loss = loss_of_one(outputs, y)
            elif of_tokens:
                loss = rest[0](outputs.flatten(0, 1), y.flatten(), shape=outputs.shape)
            else:
                loss = rest[0](outputs, y)
            loss.backward()
            optimizer.step()

    else:
        import dpmf.torch

        m = dpmf.optimize("blt", 1000, "momentum:0.9", "cyclic:10,100", buffers=3, sigma=1.0)
        private = dpmf.torch.make_private(
            model, optimizer, m, 1.0, count, loss=loss_of_one, clipping=way[5:], key=dpmf.testing_key(1), threads=1
        )

        def step():
            private.step(x, y, units=range(count))

    taken = []
    for _ in range(steps + 1):
        begun = time.process_time()
        step()
        taken.append(time.process_time() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("%.4f %.0f" % (statistics.median(taken[1:]), peak))


def main(arguments):
    steps = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 5
    here = os.path.dirname(os.path.abspath(__file__))
    path = [os.path.join(here, "..", "python"), os.path.join(here, "..", "python", "tests")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path + [os.environ.get("PYTHONPATH", "")]),
    }
    print("%-12s %-17s %18s %10s" % ("model", "way", "CPU seconds per step", "peak MiB"))
    for name in arguments or ("cnn", "mlp", "transformer"):
        for way in WAYS:
            done = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "one", name, way, str(steps)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            if done.returncode != 0:
                print("%-12s %-17s %s" % (name, way, done.stderr.decode().strip().splitlines()[-1]), flush=True)
                continue
            seconds, peak = done.stdout.decode().split()
            print("%-12s %-17s %18s %10s" % (name, way, seconds, peak), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main(sys.argv[1:])
