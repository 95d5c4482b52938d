# SPDX-License-Identifier: Apache-2.0
"""One of two processes: samplers.py FOLDER RANK tries samplers that differ between the processes, and prints what was accepted."""

import sys
import warnings

from story import KEY, Inner, dpmf, inner_loss, torch

warnings.simplefilter("ignore")
folder, rank = sys.argv[1], int(sys.argv[2])
torch.distributed.init_process_group("gloo", init_method="file://%s/store" % folder, rank=rank, world_size=2)
m = dpmf.evaluate("identity", 10, sampling="poisson:0.3", epsilon=2, delta=1e-5)
x = torch.randn(200, 6, generator=torch.Generator().manual_seed(1))


def sampler(key=KEY, units=200, **options):
    return dpmf.torch.BatchSampler("poisson:0.3", units, key, mechanism=m, **options)


def train(batches):
    """Gives the participations of an example that was in the step already, in the other process."""
    model = Inner(6)
    private = dpmf.torch.make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), m, 1.0, 60.0, sampler=batches, key=KEY, loss=inner_loss
    )
    twice = 0
    for batch in batches:
        both = [None, None]
        torch.distributed.all_gather_object(both, list(batch))
        twice += len(both[0] + both[1]) - len(set(both[0] + both[1]))
        private.step(x[batch], torch.zeros(len(batch)), drawn_for=batch.step)
    private.close()
    return twice


def attach(batches):
    from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer

    import dpmf.opacus

    p = torch.nn.Parameter(torch.zeros(6))
    optimizer = DistributedDPOptimizer(
        torch.optim.SGD([p], lr=0.1), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=60
    )
    dpmf.opacus.attach(optimizer, m, KEY, loader=batches)
    return "attached"


def attempt(what, route, batches):
    try:
        found = route(batches)
    except dpmf.StateError as error:
        found = str(error).partition(" (")[0]
    print("%s: %s" % (what, found), flush=True)


for route in [train] + ([attach] if "opacus" in sys.argv else []):
    attempt("own keys", route, sampler(dpmf.testing_key(100 + rank)))
    attempt("own labels", route, sampler(label="process %d" % rank))
    attempt("other data", route, sampler(units=200 + rank))
    attempt("the same", route, sampler())
torch.distributed.destroy_process_group()
