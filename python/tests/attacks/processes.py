# SPDX-License-Identifier: Apache-2.0
"""One of several processes: processes.py FOLDER RANK WORLD trains, and prints a digest of the weights."""

import hashlib
import sys

from story import KEY, Inner, inner_loss, mechanism, torch

import dpmf
import dpmf.torch

folder, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
if world > 1:
    torch.distributed.init_process_group("gloo", init_method="file://%s/store" % folder, rank=rank, world_size=world)
m = mechanism("bsr", 5)
data = torch.utils.data.TensorDataset(torch.randn(20, 7, generator=torch.Generator().manual_seed(1)), torch.zeros(20))


def make(sampler, **options):
    model = Inner(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, dpmf.torch.make_private(
        model, optimizer, m, 1.0, sampler=sampler, key=KEY, loss=inner_loss, **options
    )


def refused(function):
    try:
        function()
    except dpmf.ArgumentError:
        print("refused")


if world > 1:
    refused(lambda: dpmf.torch.BatchSampler("cyclic:4", data, KEY, mechanism=m, rank=rank, world=3))
    refused(lambda: make(None, expected_batch=4))
    refused(lambda: make(dpmf.torch.BatchSampler("cyclic:4", data, KEY, mechanism=m, process_group=False)))
sampler = dpmf.torch.BatchSampler("cyclic:4", data, KEY, mechanism=m)
model, private = make(sampler)
for x, y in dpmf.torch.data_loader(data, sampler):
    private.step(x, y)
print(hashlib.sha256(model.w.detach().numpy().tobytes()).hexdigest())
if world > 1:
    torch.distributed.destroy_process_group()
