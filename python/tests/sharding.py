# SPDX-License-Identifier: Apache-2.0
"""One of several gloo processes with a sharded model: sharding.py rows|begin|resume FOLDER RANK WORLD

rows      the noise of FSDP2 and tensor-parallel parameters, three rows; rank 0 writes what all of them together have
begin     trains six steps of ten, with a checkpoint after each, and dies without a word
resume    goes on from the checkpoint to the end; rank 0 writes the weights
"""

import os
import signal
import sys

import torch
import torch.distributed.checkpoint as checkpoint
from support import KEY, mechanism
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import dpmf
import dpmf.torch

STEPS, DIED = 10, 6
#: Sizes that no number of processes divides, one of them smaller than four.
SHAPES = ((7, 5), (7,), (3, 7), (3,), (6, 4, 2))


def make_mechanism():
    return mechanism("tvblt", STEPS)


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def sums_of(weights):
    """In the place of clipped gradients: something that every process can compute of its own shard."""
    return [0.125 * w for w in weights]


def whole(tensors):
    parts = [t.full_tensor() if hasattr(t, "full_tensor") else t for t in tensors]
    return torch.cat([p.detach().reshape(-1) for p in parts])


def zeros_like(parameters):
    return [torch.zeros_like(p).requires_grad_(False) for p in parameters]


def placements(world):
    """Everything by rows; by columns, in whole, by two dimensions at once (four processes)."""
    line = init_device_mesh("cpu", (world,))
    yield [distribute_tensor(torch.zeros(s), line, [Shard(0)]) for s in SHAPES]
    kinds = [Shard(1), Replicate(), Shard(0), Shard(0), Shard(2)]
    yield [distribute_tensor(torch.zeros(s), line, [kind]) for s, kind in zip(SHAPES, kinds)]
    if world == 4:
        plane = init_device_mesh("cpu", (2, 2))
        kinds = [(Shard(0), Shard(1)), (Replicate(), Shard(0)), (Shard(1), Replicate()), (Shard(0), Shard(0)), (Shard(1), Shard(2))]
        yield [distribute_tensor(torch.zeros(s), plane, list(kind)) for s, kind in zip(SHAPES, kinds)]


def rows(folder, rank, world):
    model = fully_shard(make_model(), mesh=init_device_mesh("cpu", (world,)))
    found = []
    for parameters in ([*model.parameters()], *placements(world)):
        noise = dpmf.torch.ShardedNoise(make_mechanism(), parameters, 0.5, KEY)
        for _ in range(3):
            gradients = zeros_like(parameters)
            noise.add_(gradients)
            found.append(whole(gradients))
        made = sum(stream.count for stream, _ in noise._streams)
        assert made < noise.dim or world == 1, "a process makes the noise of others"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        dpmf.torch.make_private(model, optimizer, make_mechanism(), 0.5, 4, key=KEY)
        sys.exit("a sharded model was accepted")
    except dpmf.UnsupportedError as error:
        assert "0.weight is a DTensor" in str(error), error
    if rank == 0:
        torch.save(found, os.path.join(folder, "rows.pt"))


def train(folder, rank, world, stop):
    model = fully_shard(make_model(), mesh=init_device_mesh("cpu", (world,)))
    noise = dpmf.torch.ShardedNoise(
        make_mechanism(), model.named_parameters(), 0.5, KEY, state=os.path.join(folder, "run.state")
    )
    path = os.path.join(folder, "checkpoint")
    if os.path.exists(path):
        state = {"model": get_model_state_dict(model), "noise": noise}
        checkpoint.load(state, checkpoint_id=path)
        set_model_state_dict(model, state["model"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while noise.step < STEPS:
        gradients = sums_of([p.detach().clone() for p in model.parameters()])
        noise.add_(gradients)
        for p, g in zip(model.parameters(), gradients):
            p.grad = g
        optimizer.step()
        if noise.step == stop:
            checkpoint.save({"model": get_model_state_dict(model), "noise": noise}, checkpoint_id=path)
            torch.distributed.barrier()
            os.kill(os.getpid(), signal.SIGKILL)
    weights = whole([*model.parameters()])
    if rank == 0:
        torch.save(weights, os.path.join(folder, "weights.pt"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, folder, rank, world = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.distributed.init_process_group(
        "gloo", init_method="file://%s/store-%s-%d" % (folder, what, world), rank=rank, world_size=world
    )
    if what == "rows":
        rows(folder, rank, world)
    else:
        train(folder, rank, world, DIED if what == "begin" else 0)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
