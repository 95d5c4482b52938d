# SPDX-License-Identifier: Apache-2.0
"""Private training with PyTorch: clipped per-example gradients, summed, correlated noise, one step.

    private = dpmf.torch.make_private(model, optimizer, mechanism, clip_norm=1.0, sampler=sampler, key="run.key")
    for x, y in dpmf.torch.data_loader(data, sampler):
        private.step(x, y)

    federated = dpmf.torch.make_federated(model, optimizer, mechanism, 1.0, users, sampler=sampler, local_steps=10, local_rate=0.1)
    for report in federated:                  # rounds of DP-FedAvg
        print(report.round)

The noise state travels in optimizer.state_dict(), and a state without it is refused.
"""

from .adaptive import AdaptiveClip
from .batches import BatchSampler, data_loader
from .federated import Federated, RoundReport, make_federated
from .groups import GroupClip
from .make import make_private
from .moments import Adam, JointMoments
from .noise import Recursion, shard_of, shard_views
from .precondition import SecondMoments
from .private import Private, StepReport
from .sharded import ShardedNoise
from .sparse import SparseEmbedding

__all__ = [
    "Adam",
    "AdaptiveClip",
    "BatchSampler",
    "Federated",
    "GroupClip",
    "JointMoments",
    "Private",
    "Recursion",
    "RoundReport",
    "SecondMoments",
    "ShardedNoise",
    "SparseEmbedding",
    "StepReport",
    "data_loader",
    "make_federated",
    "make_private",
    "shard_of",
    "shard_views",
]
