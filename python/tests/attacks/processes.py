# SPDX-License-Identifier: Apache-2.0
"""One of several processes: processes.py FOLDER RANK WORLD [STOP [CHANGED]] trains, and prints a digest of the weights.

With STOP the key is a file and the run is resumed: from FOLDER/run.pt, where there is one, which is written after step 2. The
process ends without a word after STOP steps (0: never); CHANGED 1 changes an example.
"""

import hashlib
import os
import sys

from story import KEY, Inner, inner_loss, mechanism, torch

import dpmf
import dpmf.torch

folder, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
if world > 1:
    torch.distributed.init_process_group("gloo", init_method="file://%s/store" % folder, rank=rank, world_size=world)
m = mechanism("bsr", 5)
stop, changed = (int(sys.argv[i]) if len(sys.argv) > i else 0 for i in (4, 5))
key = KEY if len(sys.argv) == 4 else os.path.join(folder, "run.key")
x = torch.randn(20, 7, generator=torch.Generator().manual_seed(1))
x[9 * changed, 0] += changed
data = torch.utils.data.TensorDataset(x, torch.zeros(20))


def make(sampler, **options):
    model = Inner(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, dpmf.torch.make_private(
        model, optimizer, m, 1.0, sampler=sampler, key=key, loss=inner_loss, **options
    )


def refused(function):
    try:
        function()
    except dpmf.ArgumentError:
        print("refused")


if world > 1 and key is KEY:
    refused(lambda: dpmf.torch.BatchSampler("cyclic:4", data, KEY, mechanism=m, rank=rank, world=3))
    refused(lambda: make(None, expected_batch=4))
    refused(lambda: make(dpmf.torch.BatchSampler("cyclic:4", data, KEY, mechanism=m, process_group=False)))
sampler = dpmf.torch.BatchSampler("cyclic:4", data, key, mechanism=m)
model, private = make(sampler)
path = os.path.join(folder, "run.pt")
if key is not KEY and os.path.exists(path):
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    private.load_state_dict(saved["optimizer"])
try:
    for x, y in dpmf.torch.data_loader(data, sampler):
        private.step(x, y)
        if key is not KEY and private.steps_taken == 2 and rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": private.state_dict()}, path)
        if private.steps_taken == stop:
            os._exit(9)
except dpmf.Error:
    print("refused at step", private.steps_taken)
print(hashlib.sha256(model.w.detach().numpy().tobytes()).hexdigest())
if world > 1:
    torch.distributed.destroy_process_group()
