# SPDX-License-Identifier: Apache-2.0
"""A small private training run, shared by the tests and by the processes that they start.

training.py distributed FOLDER RANK WORLD     one of several gloo processes; rank 0 writes FOLDER/weights.pt
training.py by_users FOLDER RANK WORLD        the same of a run by users
training.py sharded FOLDER RANK WORLD         each keeps and steps its own part of the weights
training.py resume FOLDER STOP                trains on from FOLDER/run.pt where there is one, a checkpoint every 3 steps;
                                              kills itself without a word after STOP steps (0: never)
"""

import os
import signal
import sys

import torch
import torch.nn.functional as functional
from support import KEY

import dpmf
import dpmf.torch

STEPS, EPOCHS, BATCH, EXAMPLES = 24, 3, 12, 96


def make_mechanism(**options):
    options = {"epsilon": 8.0, "delta": 1e-5, **options}
    return dpmf.optimize(
        "banded-toeplitz", STEPS, "momentum:0.9", "cyclic:%d,%d" % (EPOCHS, STEPS // EPOCHS), bands=8, **options
    )


def make_data():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(EXAMPLES, 1, 8, 8, generator=generator)
    return torch.utils.data.TensorDataset(x, torch.randint(0, 5, (EXAMPLES,), generator=generator))


def make_model(seed=5):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.GroupNorm(1, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(108, 5)
    )
    groups = [
        {"params": model[:2].parameters(), "lr": 0.05},
        {"params": model[4].parameters(), "lr": 0.2, "weight_decay": 1e-3},
    ]
    return model, torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def make_run(rank=0, world=1, **options):
    model, optimizer = make_model(5 + rank)  # what rank 0 begins with counts
    m = options.pop("mechanism", None) or make_mechanism()
    sampler = dpmf.torch.BatchSampler("cyclic:%d" % BATCH, EXAMPLES, KEY, mechanism=m, rank=rank, world=world)
    options = {"clip_norm": 0.5, "sampler": sampler, "key": KEY, "chunk": 5, **options}
    wrapped = torch.nn.parallel.DistributedDataParallel(model) if world == 3 else model  # it is unwrapped
    return model, optimizer, sampler, dpmf.torch.make_private(wrapped, optimizer, m, **options)


def train(sampler, private, steps=STEPS):
    data = make_data()
    for x, y in dpmf.torch.data_loader(data, sampler):
        if private.steps_taken >= steps:
            break
        private.step(x, y)


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def join(folder, rank, world):
    torch.distributed.init_process_group("gloo", init_method="file://%s/store" % folder, rank=rank, world_size=world)


def distributed(folder, rank, world):
    join(folder, rank, world)
    model, _, sampler, private = make_run(rank, world)
    train(sampler, private)
    everywhere = [torch.empty_like(weights(model)) for _ in range(world)]
    torch.distributed.all_gather(everywhere, weights(model))
    if not all(torch.equal(everywhere[0], other) for other in everywhere):
        sys.exit("the processes have different weights")
    if rank == 0:
        torch.save({"weights": weights(model), "optimizer": private.state_dict()}, os.path.join(folder, "weights.pt"))
    torch.distributed.destroy_process_group()


def make_users(rank=None, world=None):
    """A run by 12 users, of which four have more examples than the others."""
    model, optimizer = make_model()
    m = dpmf.evaluate("toeplitz", 12, participation="cyclic:4,3", sigma=1.0)
    ids = [i % 12 if i < 60 else i % 4 for i in range(EXAMPLES)]
    sampler = dpmf.torch.BatchSampler("cyclic:4", EXAMPLES, KEY, mechanism=m, users=ids, examples_per_user=5, rank=rank, world=world)
    private = dpmf.torch.make_private(model, optimizer, m, 0.5, sampler=sampler, key=KEY, unit="user")
    return model, sampler, private


def by_users(folder, rank, world):
    join(folder, rank, world)
    model, sampler, private = make_users(rank, world)
    train(sampler, private)
    if rank == 0:
        torch.save({"weights": weights(model)}, os.path.join(folder, "weights.pt"))
    torch.distributed.destroy_process_group()


def sharded(folder, rank, world):
    """The weights laid end to end, a part for each process, which alone has its noise and its optimizer's state."""
    join(folder, rank, world)
    model, _ = make_model()
    sizes = [p.numel() for p in model.parameters()]
    offset, count = dpmf.torch.shard_of(sum(sizes), rank, world)
    own = torch.nn.Parameter(weights(model)[offset : offset + count].clone())
    optimizer = torch.optim.SGD([own], lr=0.1, momentum=0.9)
    sampler = dpmf.torch.BatchSampler(
        "cyclic:%d" % BATCH, EXAMPLES, KEY, mechanism=make_mechanism(), rank=rank, world=world
    )
    noise = make_mechanism().noise(sum(sizes), 0.5, KEY, offset=offset, count=count)
    for x, y in dpmf.torch.data_loader(make_data(), sampler):
        sums = torch.zeros(sum(sizes))
        for i in range(len(x)):
            found = torch.autograd.grad(
                functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]), list(model.parameters())
            )
            flat = torch.cat([g.reshape(-1) for g in found])
            sums += flat * (0.5 / flat.norm().clamp(min=0.5))
        torch.distributed.all_reduce(sums)
        own.grad = sums[offset : offset + count].contiguous()
        noise.add_(own.grad)
        own.grad /= BATCH
        optimizer.step()
        whole = torch.zeros(sum(sizes))
        whole[offset : offset + count] = own.detach()
        torch.distributed.all_reduce(whole)  # each number from one process, zeros from the others
        with torch.no_grad():
            for p, part in zip(model.parameters(), whole.split(sizes)):
                p.copy_(part.view_as(p))
    if rank == 0:
        torch.save({"weights": weights(model)}, os.path.join(folder, "weights.pt"))
    torch.distributed.destroy_process_group()


def resume(folder, stop):
    """Key file, state file and checkpoints, as a real run has them."""
    path, m = os.path.join(folder, "run.pt"), make_mechanism()
    model, optimizer = make_model()
    key = os.path.join(folder, "run.key")
    sampler = dpmf.torch.BatchSampler("cyclic:%d" % BATCH, EXAMPLES, key, mechanism=m)
    private = dpmf.torch.make_private(
        model, optimizer, m, 0.5, sampler=sampler, key=key, chunk=5, state=os.path.join(folder, "run.state")
    )
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for x, y in dpmf.torch.data_loader(make_data(), sampler):
        private.step(x, y)
        if private.steps_taken % 3 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".new")
            os.replace(path + ".new", path)
        if private.steps_taken == stop:
            os.kill(os.getpid(), signal.SIGKILL)
    torch.save(weights(model), os.path.join(folder, "weights.pt"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, folder, *numbers = sys.argv[1:]
    {"by_users": by_users, "distributed": distributed, "sharded": sharded, "resume": resume}[what](folder, *map(int, numbers))
