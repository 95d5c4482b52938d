# SPDX-License-Identifier: Apache-2.0
"""One of several gloo processes with a sharded model: sharding.py WHAT FOLDER RANK WORLD

rows      the noise of FSDP2 and tensor-parallel parameters, three rows; and private gradients by every kind of sharding and both
          routes of clipping; rank 0 writes what all of them together have
begin     trains six steps of ten, of private gradients and of sums by hand, with a checkpoint, and dies without a word
resume    continues from the checkpoints to the end; rank 0 writes the weights
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
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import dpmf
import dpmf.torch
import dpmf.torch.unshard as unshard

try:
    import opacus
except ImportError:
    opacus = None

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


# ---- private gradients ----


def make_data():
    generator = torch.Generator().manual_seed(3)
    return torch.utils.data.TensorDataset(
        torch.randn(40, 5, generator=generator), torch.randint(0, 3, (40,), generator=generator)
    )


class Odd(nn.Module):
    """A layer that is used twice (which ghost clipping has not), a frozen one, a buffer, modules that are in a list too."""

    def __init__(self, clipping="per-example"):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.norm = nn.Linear(5, 8), nn.LayerNorm(8)
        self.middle, self.frozen = nn.Linear(8, 8), nn.Linear(8, 8).requires_grad_(False)
        self.last = nn.Linear(8, 3)
        self.again = [self.middle, self.frozen, self.middle][: 2 if clipping == "ghost" else 3]
        self.register_buffer("scale", torch.tensor([0.5]))

    def forward(self, x):
        x = torch.tanh(self.norm(self.first(x)))
        for layer in self.again:
            x = torch.tanh(layer(x)) * self.scale
        return self.last(x)


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def make_private(model, clipping="per-example", momentum=0.9, **options):
    optimizer = torch.optim.SGD(trained(model), lr=0.5, momentum=momentum, weight_decay=1e-3)
    m = make_mechanism()
    sampler = dpmf.torch.BatchSampler.for_mechanism(m, 40, KEY)
    return sampler, dpmf.torch.make_private(model, optimizer, m, 0.5, sampler=sampler, key=KEY, clipping=clipping, **options)


def run(model, sampler, private, stop=STEPS):
    for x, y in dpmf.torch.data_loader(make_data(), sampler):
        if private.steps_taken >= stop:
            break
        private.step(x, y)
    return whole(trained(model)) if stop == STEPS else None


def layered(model, mesh):
    for layer in (model.first, model.middle):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def tensor_parallel(model, mesh):
    plan = {"first": ColwiseParallel(output_layouts=Replicate()), "last": ColwiseParallel(output_layouts=Replicate())}
    plan["middle"] = RowwiseParallel(input_layouts=Replicate())
    return parallelize_module(model, mesh, plan)


def sharded_models(world, clipping):
    """(name, model) of each kind."""
    line = init_device_mesh("cpu", (world,))
    yield "fully_shard", layered(Odd(clipping), line)
    yield "tensor parallel", tensor_parallel(Odd(clipping), line)
    if world == 4:
        plane = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        yield "replicas of shards", layered(Odd(clipping), plane)
        both = tensor_parallel(Odd(clipping), plane["tensor"])
        yield "both", fully_shard(both, mesh=plane["data"])


def refused_by_name(world):
    """Mixed precision of fully_shard, and Opacus' own mode for it."""
    model = fully_shard(Odd(), mesh=init_device_mesh("cpu", (world,)), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    try:
        make_private(model)
        sys.exit("a policy of mixed precision was accepted")
    except dpmf.UnsupportedError as error:
        assert "MixedPrecisionPolicy" in str(error), error
    if opacus is None:
        return
    from opacus.utils.fsdp_utils import FSDP2Wrapper

    from dpmf.opacus import attach

    model = FSDP2Wrapper(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)))
    made = opacus.PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=0.5,
        data_loader=torch.utils.data.DataLoader(make_data(), batch_size=4), criterion=nn.CrossEntropyLoss(),
        poisson_sampling=False, grad_sample_mode="ghost_fsdp",
    )  # fmt: skip
    try:
        attach(made[1], make_mechanism(), KEY, loader=made[3], module=made[0])
        sys.exit("Opacus' sharded mode was accepted")
    except dpmf.UnsupportedError as error:
        assert "FSDPOptimizerFastGradientClipping: in Opacus' sharded modes" in str(error), error


def private(folder, rank, world):
    found = {}
    refused_by_name(world)
    for clipping in ("per-example", "ghost")[: 2 if opacus is not None else 1]:
        for name, model in sharded_models(world, clipping):
            sampler, made = make_private(model, clipping)
            if name == "fully_shard":
                with torch.no_grad():
                    model(torch.randn(2, 5))  # leaves whole parameters in place of the root's shards
            found[name, clipping] = run(model, sampler, made)
            assert any(hasattr(p, "placements") for p in trained(model)), name
    if rank == 0:
        torch.save(found, os.path.join(folder, "private.pt"))


def train_private(folder, rank, world, what):
    model = layered(Odd(), init_device_mesh("cpu", (world,)))
    sampler, made = make_private(model, state=os.path.join(folder, "private.state"))
    if what == "begin":
        run(model, sampler, made, DIED)
        made.save(os.path.join(folder, "private"))
        return
    made.load(os.path.join(folder, "private"))
    assert made.steps_taken == DIED
    weights = run(model, sampler, made)
    if rank == 0:
        torch.save(weights, os.path.join(folder, "private.pt"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, folder, rank, world = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.distributed.init_process_group(
        "gloo", init_method="file://%s/store-%s-%d" % (folder, what, world), rank=rank, world_size=world
    )
    if what == "rows":
        rows(folder, rank, world)
        private(folder, rank, world)
    else:
        train_private(folder, rank, world, what)
        train(folder, rank, world, DIED if what == "begin" else 0)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # fully_shard keeps torch's gloo threads past this line, and one that lets go of a tensor while Python ends aborts the process
    # ("terminate called without an active exception"): so Python does not end.
    sys.stdout.flush()
    os._exit(0)
