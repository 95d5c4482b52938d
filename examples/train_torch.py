# SPDX-License-Identifier: Apache-2.0
"""A private CNN on Fashion-MNIST, in cells: pip install . torch, then run it whole or cell by cell.

    examples/train_torch.py [--data FOLDER] [--examples 60000] [--epochs 4] [--epsilon 8] [--folder .]

The key, its state file and the checkpoint go to --folder. Run it again after an interruption, and it continues.
"""
# %% The options
import argparse
import gzip
import os
import pathlib

import numpy as np
import torch

import dpmf
import dpmf.torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
parser.add_argument("--examples", type=int, default=60000)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch", type=int, default=500)
parser.add_argument("--epsilon", type=float, default=8.0)
parser.add_argument("--folder", type=pathlib.Path, default=".")
asked = parser.parse_args()

# %% The data: IDX files, a header of 16 or 8 bytes and then bytes
def read(name, header, shape):
    with gzip.open(asked.data / name) as file:
        return torch.from_numpy(np.frombuffer(file.read(), np.uint8, offset=header).reshape(shape).copy())


def load(part):
    images = read(part + "-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28)).float() / 255
    return (images - 0.286) / 0.353, read(part + "-labels-idx1-ubyte.gz", 8, -1).long()


images, labels = load("train")
images, labels = images[: asked.examples], labels[: asked.examples]
data = torch.utils.data.TensorDataset(images, labels)

# %% The model: no layer mixes examples
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 8, 2, padding=3), torch.nn.Tanh(), torch.nn.MaxPool2d(2, 1),
    torch.nn.Conv2d(16, 32, 4, 2), torch.nn.Tanh(), torch.nn.MaxPool2d(2, 1),
    torch.nn.Flatten(), torch.nn.Linear(512, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

# %% The mechanism: the workload is the optimizer's sum of gradients, the participation the number of uses of an example
per_epoch, saved_mechanism = -(-len(data) // asked.batch), asked.folder / "run.dpmf"
if saved_mechanism.exists():
    mechanism = dpmf.load(saved_mechanism)
else:
    mechanism = dpmf.design(steps=asked.epochs * per_epoch, epochs=asked.epochs, epsilon=asked.epsilon, delta=1e-5,
                            workload="momentum:0.9", dim=sum(p.numel() for p in model.parameters()))
    mechanism.save(saved_mechanism)
    print(mechanism.design.why)
print(mechanism)

# %% Batches in the assumed order, and the private step; one key for both
key = asked.folder / "run.key"
sampler = dpmf.torch.BatchSampler("cyclic:%d" % asked.batch, data, key, mechanism=mechanism)
private = dpmf.torch.make_private(model, optimizer, mechanism, clip_norm=1.0, sampler=sampler, key=key)

# %% Continue from a checkpoint, if there is one. The optimizer's state contains that of the noise
checkpoint = asked.folder / "run.pt"


def save():
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, str(checkpoint) + ".new")
    os.replace(str(checkpoint) + ".new", checkpoint)


if checkpoint.exists():
    saved = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    print("resumed at step", private.steps_taken)
else:
    save()  # so that a run that is killed in its first epoch can continue too


# %% Training
def accuracy(x, y):
    with torch.no_grad():
        return float(torch.cat([model(part).argmax(1) for part in x.split(1000)]).eq(y).float().mean())


test_images, test_labels = load("t10k")
for x, y in dpmf.torch.data_loader(data, sampler):
    private.step(x, y)
    if private.steps_taken % per_epoch == 0:
        save()
        print("epoch %d: test accuracy %.4f" % (private.steps_taken // per_epoch, accuracy(test_images, test_labels)), flush=True)

# %% The guarantee of the model
print(private.statement())
