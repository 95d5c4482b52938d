#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU seconds per step of clipping by examples and by users, in turn in one process, and their ratio.

    users.py [STEPS] [MODEL...]      models: cnn (26k, batch 500), mlp (19M, batch 64), transformer (1.7M, batch 32)

The same batches: every example a unit, every example a user of its own, users with 4 examples each, and one user with all of them.
The first step of each is not counted. One thread. Batch sizes count as random for all of them, so that all have the same passes.
"""

import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python", "tests")]

WAYS = {"examples": None, "users of 1": 1, "users of 4": 4, "one user": 0}


def steps_of(name):
    """{way: a function that takes a step}, over models with the same weights."""
    import torch
    from training import make

    import dpmf.torch

    def loss(outputs, targets):
        if of_tokens:
            outputs, targets = outputs.flatten(0, 1), targets.flatten()
        return torch.nn.functional.cross_entropy(outputs, targets)

    steps = {}
    for way, size in WAYS.items():
        model, x, y, of_tokens = make(name, torch)
        count = len(x)
        m = dpmf.optimize("blt", 1000, "momentum:0.9", "full", buffers=3, sigma=1.0)
        private = dpmf.torch.make_private(
            model, torch.optim.SGD(model.parameters(), lr=0.01), m, 1.0, float(count), loss=loss, key=dpmf.testing_key(1), threads=1,
            chunk=16 if name == "mlp" else None, **({} if size is None else {"unit": "user"}),
        )  # fmt: skip
        units = list(range(count)) if size is None else [i // (size or count) for i in range(count)]
        steps[way] = lambda private=private, x=x, y=y, units=units: private.step(x, y, units=units)
    return steps


def main(arguments):
    import torch

    torch.set_num_threads(1)
    count = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 5
    for name in arguments or ("cnn", "transformer", "mlp"):
        steps, taken = steps_of(name), {way: [] for way in WAYS}
        for _ in range(count + 1):
            for way, step in steps.items():
                begun = time.process_time()
                step()
                taken[way].append(time.process_time() - begun)
        medians = {way: statistics.median(some[1:]) for way, some in taken.items()}
        for way, seconds in medians.items():
            print("%-12s %-12s %8.3f s  %5.2f x" % (name, way, seconds, seconds / medians["examples"]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
