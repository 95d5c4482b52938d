#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DP-FedAvg with torch on made-up users: each trains a copy of the model on its own data, and only noisy sums leave a round.

    examples/federated_torch.py [FOLDER]     run it again after an interruption: it resumes where it stopped
"""

import pathlib
import sys

import torch

import dpmf
import dpmf.torch

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
torch.manual_seed(1)
truth = torch.randn(20, 4)


def user(count):  # inputs and classes
    x = torch.randn(count, 20)
    return x, (x @ truth + torch.randn(count, 4)).argmax(1)


users = {"device-%d" % i: user(10 + i % 30) for i in range(1000)}
test = user(2000)

model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)  # the server's

# Every user takes part in at most 4 of 40 rounds, every tenth: 10 groups of 100 users in turn.
mechanism = dpmf.design(steps=40, epochs=4, epsilon=8, delta=1e-5, workload="momentum:0.9", unit="user")
sampler = dpmf.torch.BatchSampler("cyclic:100", users, mechanism=mechanism)
federated = dpmf.torch.make_federated(
    model, optimizer, mechanism, 0.3, users, sampler=sampler, local_steps=5, local_rate=0.2, local_batch=8, key=folder / "run.key"
)

saved = folder / "run.pt"
if saved.exists():
    state = torch.load(saved, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print("resumed at round", federated.rounds_taken)
else:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)  # before the first round too

for report in federated:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "new.pt")
    (folder / "new.pt").replace(saved)
    if report.round % 10 == 9:
        right = (model(test[0]).argmax(1) == test[1]).float().mean()
        print("round %d: test accuracy %.1f %%" % (report.round + 1, 100 * right))

print(federated.statement(), end="")
