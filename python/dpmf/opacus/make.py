# SPDX-License-Identifier: Apache-2.0
"""From Opacus' optimizer, or from a model, an optimizer and a loader, to this library's noise in Opacus."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer

from .. import errors
from .._library import real, select
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..noise import STREAM
from ..torch.batches import BatchSampler
from ..torch.make import check_arguments, check_divisor, check_part, hide_units
from ..torch.participation import participation_tracker
from .accountants import LedgerAccountant
from .attached import GHOST, Attached

ONE_NORM = "one clip norm for all layers and all steps is accepted (DPOptimizer, ghost clipping)"
#: Optimizers of Opacus that are refused for another reason.
WHY_NOT = {
    "FSDPOptimizerFastGradientClipping": "in Opacus' sharded modes (ghost_fsdp, ghost_tp) the sums of all processes are formed "
    "inside the backward pass, in floating point and before anybody can see whether an example's gradient is finite. "
    "dpmf.torch.make_private takes models under fully_shard and tensor-parallel ones, with clipping='ghost' too",
}


def attach(
    optimizer: DPOptimizer,
    mechanism: Mechanism,
    key: KeyLike = None,
    *,
    loader: Any = None,
    privacy_engine: Any = None,
    module: Any = None,
    expected_batch: Optional[float] = None,
    state: Any = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    lookahead: int = 0,
    scratch: Any = None,
    threads: int = 0,
) -> Attached:
    """Puts the mechanism's noise in the place of Opacus' own, and the epsilon of the run in that of its accountant.

    loader     what batches come from: the DataLoader that Opacus gave, or a dpmf.torch.BatchSampler. A BatchSampler, and a
               loader in the data's own order, are checked against the mechanism. The participations in any other are counted:
               `attached.accountant.counted`, and the epsilon is that of the actual run so far. A warning has the epsilon that the whole
               run can come to, where that is above the mechanism's
    privacy_engine   whose get_epsilon is that of this run from then on; an accountant of it that has steps is refused
    module     for ghost clipping: the module that Opacus gave, whose clipping factors are computed here
    expected_batch   what sums are divided by. None: the sampler's, or what Opacus took from the loader, which both follow from
               the number of examples. With add-remove adjacency that number is secret, and a number that does not depend on it
               must be given
    state, label, prefetch, lookahead, scratch, threads    as for NoiseStream. The noise state is in optimizer.state_dict() from then
               on, and loading one without it is an error
    """
    options = select(STREAM, locals())
    if not isinstance(mechanism, Mechanism):
        raise errors.ArgumentTypeError("mechanism is a %s, a Mechanism is accepted" % type(mechanism).__name__)
    if not isinstance(optimizer, DPOptimizer):
        raise errors.ArgumentTypeError("optimizer: %s is not a DPOptimizer of Opacus" % type(optimizer).__name__)
    if type(optimizer) not in (DPOptimizer, DistributedDPOptimizer, *GHOST):
        name = type(optimizer).__name__
        raise errors.UnsupportedError("%s: %s" % (name, WHY_NOT.get(name, ONE_NORM)))
    if type(optimizer) in GHOST and not hasattr(module, "get_norm_sample"):
        raise errors.ArgumentError("module: ghost clipping needs the module that Opacus gave")
    if any(getattr(one, "_dpmf_attached", None) is not None for one in (optimizer, optimizer.original_optimizer)):
        raise errors.ArgumentError("this optimizer has its noise already: detach it first")
    if mechanism.sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
    mechanism.confirm()
    check_engine(privacy_engine)
    if loader is None:
        raise errors.ArgumentError(
            "loader: without the loader it is not known which examples take part, and any epsilon would be a guess. Give the DataLoader "
            "that Opacus gave, or a dpmf.torch.BatchSampler"
        )
    rank, world = getattr(optimizer, "rank", 0), getattr(optimizer, "world_size", 1)
    if world > 1 and key is None:
        raise errors.ArgumentError("key: %d processes need the same one" % world)
    batches = loader if isinstance(loader, BatchSampler) else getattr(loader, "batch_sampler", None)
    check_part(batches, rank, world, key)
    expected_batch = check_divisor(mechanism, expected_batch)
    taken = participation_tracker(mechanism, loader)
    if expected_batch is not None:
        hide_units(mechanism, taken, expected_batch)
    attached = Attached(optimizer, mechanism, key, taken, options, module)
    if isinstance(batches, BatchSampler):
        batches.follow(attached.noise)
        # Opacus takes the loader's batches for one epoch, and these are those of all epochs.
        optimizer.expected_batch_size = batches.expected_batch / world
    if expected_batch is not None:
        optimizer.expected_batch_size = expected_batch / world
    if privacy_engine is not None:
        attached.accountant.replaced, privacy_engine.accountant = privacy_engine.accountant, attached.accountant
    return attached


def check_engine(engine: Any) -> None:
    """Raises if the engine's accountant has something to tell: the one that takes its place would forget it."""
    if engine is None:
        return
    if not isinstance(engine, PrivacyEngine):
        raise errors.ArgumentTypeError("privacy_engine is a %s, a PrivacyEngine is accepted" % type(engine).__name__)
    if isinstance(engine.accountant, LedgerAccountant) or len(engine.accountant) > 0:
        raise errors.ArgumentError(
            "privacy_engine: its accountant %s, which the epsilon of this run would not have in it. Give a new PrivacyEngine(), or none, "
            "and enter the mechanism in a dpmf.Ledger, which adds runs up"
            % ("has a ledger" if isinstance(engine.accountant, LedgerAccountant) else "has steps already")
        )


class Made(NamedTuple):
    """What make_private gives; to be used in the places of those that it was given."""

    model: Any
    optimizer: DPOptimizer
    criterion: Any
    loader: Any
    engine: PrivacyEngine
    attached: Attached


def make_private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: torch.utils.data.DataLoader,
    mechanism: Mechanism,
    clip_norm: float,
    *,
    key: KeyLike = None,
    criterion: Any = None,
    clipping: str = "per-example",
    privacy_engine: Optional[PrivacyEngine] = None,
    wrap_model: bool = True,
    expected_batch: Optional[float] = None,
    state: Any = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    lookahead: int = 0,
    scratch: Any = None,
    threads: int = 0,
) -> Made:
    """PrivacyEngine.make_private and `attach` in one call.

    loader      a DataLoader in the data's own order, dpmf.torch.data_loader(data, sampler), or any other, which is counted
    criterion   for ghost clipping, a module such as torch.nn.CrossEntropyLoss() (None): losses go through what is returned,
                criterion(model(x), y).backward()
    clipping    "per-example": gradients of Opacus' hooks, clipped and summed exactly; "ghost": its two backward passes
    wrap_model  False: hooks on the model itself, which stays what it is (for models of HuggingFace)
    expected_batch   as for attach
    state, label, prefetch, lookahead, scratch, threads    as for NoiseStream
    """
    options = select(STREAM, locals())
    modes = {"per-example": "hooks", "ghost": "ghost"}
    if clipping not in modes:
        raise errors.ArgumentError("clipping = %r, accepted: %s" % (clipping, ", ".join(modes)))
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise errors.ArgumentError("loader: a %s, a torch DataLoader is accepted" % type(loader).__name__)
    check_arguments(model, optimizer, mechanism)
    check_divisor(mechanism, expected_batch)
    clip_norm = real(clip_norm, "clip_norm")
    if not 2.0**-100 <= clip_norm <= 2.0**100:
        raise errors.ArgumentError("clip_norm = %g, accepted: 2^-100 to 2^100" % clip_norm)
    check_engine(privacy_engine)
    engine = PrivacyEngine() if privacy_engine is None else privacy_engine
    criterion = torch.nn.CrossEntropyLoss() if criterion is None else criterion
    if clipping == "ghost" and not hasattr(criterion, "reduction"):
        raise errors.ArgumentTypeError(
            "criterion is a %s; a loss module with a reduction is accepted, such as torch.nn.CrossEntropyLoss()"
            % type(criterion).__name__
        )
    found = engine.make_private(
        module=model,
        optimizer=optimizer,
        criterion=criterion,
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=clip_norm,
        poisson_sampling=False,
        grad_sample_mode=modes[clipping],
        wrap_model=wrap_model,
    )
    module, private = found[0], found[1]
    if clipping == "ghost":
        criterion = found[2]
    try:
        attached = attach(
            private,
            mechanism,
            key,
            loader=found[-1],
            privacy_engine=engine,
            module=module,
            expected_batch=expected_batch,
            **options,
        )
    except Exception:
        module.cleanup() if hasattr(module, "cleanup") else None
        raise
    return Made(module if wrap_model else model, private, criterion, found[-1], engine, attached)
