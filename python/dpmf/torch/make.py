# SPDX-License-Identifier: Apache-2.0
"""From a model, its optimizer and a mechanism to a private step: what is given is checked here."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Callable, Optional, Sequence, Union

import torch

from .. import errors
from .._contribution import GHOST_LEAST, NO_GHOST as NO_SMALL_GHOST, checked_gamma
from .._library import flag, integer, real, select
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..noise import STREAM
from ..users import bound_label, check_unit, checked_gradient
from .adapters import check_adapters, plain_optimizer
from .adaptive import AdaptiveClip
from .batches import KEYLESS, BatchSampler, users_of
from .group import rank_of
from .groups import NO_GHOST, GroupClip
from .moments import NO_GHOST as NO_JOINT_GHOST, Adam, JointMoments
from .parameters import check_layers, is_sharded, trained_parameters
from .precondition import NO_GHOST as NO_SCALED_GHOST, Scale
from .private import Private
from .participation import participation_tracker
from .users import why_not_ghost
from .unshard import check_sharding, reshard


def make_private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    mechanism: Mechanism,
    clip_norm: Union[float, AdaptiveClip, GroupClip, "Mapping[str, float]", Sequence[float]],
    expected_batch: Optional[float] = None,
    *,
    loss: Optional[Callable[..., torch.Tensor]] = None,
    clipping: str = "per-example",
    tell: Any = (),
    sampler: Any = None,
    key: KeyLike = None,
    chunk: Optional[int] = None,
    process_group: Any = None,
    noise: str = "host",
    state: Any = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    lookahead: int = 0,
    scratch: Any = None,
    threads: int = 0,
    exact: bool = False,
    public_buffers: Sequence[str] = (),
    fixed_shapes: bool = True,
    unit: str = "example",
    users: Any = None,
    user_gradient: str = "mean",
    returning: str = "refuse",
    normalize: Optional[float] = None,
    precondition: Optional[Scale] = None,
    squares: Optional[JointMoments] = None,
) -> Private:
    """A private training step for a model and its optimizer.

    mechanism        must be calibrated (have a sigma); a file's claims are computed again
    clip_norm        the l2 norm to which every example's gradient, over all trained parameters, is clipped: 2^-100 to 2^100.
                     With independent noise (identity) also an AdaptiveClip: it then follows a quantile of the norms. A norm for
                     each group of parameters: a mapping from names, a sequence for the optimizer's groups, or a GroupClip
    expected_batch   what sums are divided by; None: the sampler's. With add-remove adjacency the number of examples is secret, and
                     so is the sampler's: a number that does not depend on it must be given
    loss             loss(outputs, *targets) of a batch of one example, one number. None: the .loss that the model itself gives,
                     as models of HuggingFace do, or else the cross entropy of its outputs or their .logits
    clipping         "per-example": every example's gradient, clipped and summed exactly. "ghost": by Opacus, in two backward
                     passes, for models whose gradients of a batch do not fit; its bound holds up to rounding. "auto": ghost
                     where it is possible and the gradients of a batch are above 2^26 numbers; `clipping` and
                     `clipping_reason` of the result tell which and why, and so does its statement
    tell             what `step` gives beside: "loss", the mean loss of this process's examples, "clipped", the part of them whose
                     gradients were clipped, or both. Neither is private, and the statement says so
    sampler          the source of batches. A BatchSampler, or a loader over one: it is checked against the mechanism, and
                     resumes where the noise does. Any other DataLoader: its participations are counted, and the guarantee
                     is that of the run that happened. None: the same, by units= at every step
    key              32 bytes, or the path of a key file, beside which its state file lies; None: a new one, and the run
                     cannot be resumed
    chunk            examples that are worked on at once. None: as many as a quarter of the free memory holds (a run that is
                     resumed takes those of its checkpoint); ghost: all that `accumulate` is given
    process_group    for several processes (None: the default group where there is one; False: this process alone): sums are
                     added up exactly, each process makes the noise of its shard, and the first keeps the state file. Every
                     process needs the same key and a BatchSampler, and must call `step` for its part of every batch
    noise            "host": rows are made by the library on the CPU, for any device. "cuda", "opencl", or one of them with
                     a number as in "cuda:1": made on that device, the same bits (dpmf.device); "opencl" is for models on the CPU
    state, label, prefetch, lookahead, scratch, threads    as for NoiseStream
    exact            the exact release (docs/exactness.md): noise on the grid of the sums, added in integers, with a proof for the
                     numbers that leave; needs clipping="per-example"
    public_buffers   names of buffers that the model itself may write while it computes gradients (counters of steps, say),
                     because what it writes depends on no example. A model that writes into any other is refused
    fixed_shapes     False: examples may have other shapes in other batches. Padding to the longest example of a batch changes
                     what the others are, so that this is for models whose mask keeps padding out of every gradient; the
                     statement says so
    unit             "example", or the name of a unit with many examples: "user". Then a step adds up the gradients of each
                     user's examples and clips them together, and participations are those of users (docs/users.md). The ids come
                     from BatchSampler(users=) (or owners=), for another DataLoader from users=, and else from units= at every step
    users            for a DataLoader that is not over a BatchSampler: the id of the user of every example of its data
    user_gradient    what of a user is clipped: the "mean" of the gradients of its examples in the step, or their "sum"
    returning        without a BatchSampler: "refuse" a user in a step where the mechanism's participation does not allow it, before
                     its gradient is computed; or "count" it, and account for what happened
    normalize        None: gradients g are clipped, g min(1, clip_norm / |g|). A number gamma from 2^-100 to 2^100, 0.01 for example:
                     they are normalised, clip_norm g / (|g| + gamma) (AUTO-S: Bu et al. 2023). Then no clip norm has to be searched:
                     give 1.0, and tune the learning rate. The bound and the guarantee are the same
    precondition     None; SecondMoments(), for Adam and its like; or your own function of (optimizer, parameters by name) that gives a
                     tensor of positive scales for each name: every example's gradient is multiplied by it before it is clipped, and the
                     noisy sum divided by it (Ganesh et al. 2025). A function may use what was released before, such as the optimizer's
                     state, and nothing else of the data
    squares          JointMoments(): the squares of gradients' coordinates are released too, with noise of their own under one sensitivity
                     (Kalinin et al. 2025), for dpmf.torch.Adam or, as `squares` of the result, for an optimizer of your own
    """
    options = select(STREAM, locals())
    if noise != "host" and str(noise).partition(":")[0] not in ("cuda", "opencl"):
        raise errors.ArgumentError("noise = %r, accepted: host, cuda, opencl, or one of those two with a number" % noise)
    if noise != "host":
        options["device"] = noise
    if exact and noise != "host":
        raise errors.UnsupportedError("exact=True and noise=%r: exact rows are made by the library itself, noise='host'" % noise)
    options["exact"] = bool(flag(exact, "exact"))
    optimizer = plain_optimizer(optimizer)
    check_arguments(model, optimizer, mechanism)
    if isinstance(clip_norm, (Mapping, list, tuple)):
        clip_norm = GroupClip(clip_norm)
    if not isinstance(clip_norm, (AdaptiveClip, GroupClip)):
        clip_norm = real(clip_norm, "clip_norm")
        if not 2.0**-100 <= clip_norm <= 2.0**100:
            raise errors.ArgumentError("clip_norm = %g, accepted: 2^-100 to 2^100" % clip_norm)
    elif normalize is not None and isinstance(clip_norm, AdaptiveClip):
        raise errors.ArgumentError("normalize = %s with an AdaptiveClip: normalised gradients need no norm that follows them" % normalize)
    gamma = checked_gamma(normalize)
    chunk = integer(chunk, "chunk", optional=True)
    if loss is not None and not callable(loss):
        raise errors.ArgumentTypeError("loss is a %s, a function is accepted" % type(loss).__name__)
    mechanism.confirm()
    if chunk is not None and chunk < 1:
        raise errors.ArgumentError("chunk = %d, accepted: 1 or more" % chunk)
    rank, world = rank_of(process_group)
    if world > 1 and key is None:
        raise errors.ArgumentError("key: %d processes need the same one" % world)
    batches = sampler if isinstance(sampler, BatchSampler) else getattr(sampler, "batch_sampler", None)
    check_part(batches, rank, world, key)
    taken, digest, no_ghost = by_units(mechanism, sampler, unit, users, clipping, returning)
    if precondition is not None:
        no_ghost = no_ghost or NO_SCALED_GHOST
        if clipping == "ghost":
            raise errors.UnsupportedError("clipping='ghost' with precondition=: %s" % NO_SCALED_GHOST)
    if 0 < gamma < GHOST_LEAST:
        no_ghost = no_ghost or NO_SMALL_GHOST
        if clipping == "ghost":
            raise errors.UnsupportedError("clipping='ghost' with normalize = %g: %s" % (gamma, NO_SMALL_GHOST))
    if squares is not None:
        no_ghost = no_ghost or NO_JOINT_GHOST
        check_squares(squares, clip_norm, clipping, exact)
    if isinstance(optimizer, Adam) and not isinstance(clip_norm, float):
        raise errors.UnsupportedError("dpmf.torch.Adam takes one clip norm: with %s the noise differs between coordinates or steps" % type(clip_norm).__name__)
    if isinstance(clip_norm, GroupClip):
        no_ghost = no_ghost or NO_GHOST
        if clipping == "ghost":
            raise errors.UnsupportedError("clipping='ghost' with a clip norm for each group: %s" % NO_GHOST)
    if unit != "example":
        options["label"] = bound_label(label, key, unit, digest)
    user_gradient = checked_gradient(user_gradient)
    expected_batch = check_divisor(mechanism, expected_batch)
    if expected_batch is None and isinstance(batches, BatchSampler):
        expected_batch = batches.expected_batch
    if expected_batch is None:
        raise errors.ArgumentError("expected_batch: it is not given, and there is no BatchSampler to take it from")
    hide_units(mechanism, taken, expected_batch)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    check_layers(model)
    reshard(model)
    check_sharding(model)
    check_adapters(model, trained_parameters(model, optimizer)[0])

    private = Private(
        model, optimizer, mechanism, clip_norm, expected_batch, loss, clipping if no_ghost is None or clipping != "auto" else "per-example", tell, chunk, process_group, taken, key, options,
        (public_buffers,) if isinstance(public_buffers, str) else public_buffers,
        fixed_shapes, unit, user_gradient, gamma, precondition, squares,
    )
    if clipping == "auto" and no_ghost is not None:
        private.clipping_reason = "ghost clipping is not possible: " + no_ghost
    if isinstance(batches, BatchSampler):
        batches.follow(private.noise, private._may_go_on)
    private._group.broadcast_([t for t in [*model.parameters(), *model.buffers()] if not is_sharded(t)])
    private._check_shards()
    return private


def check_squares(squares: Any, clip_norm: Any, clipping: str, exact: bool) -> None:
    """What a second stream for the squares does not go with."""
    if not isinstance(squares, JointMoments):
        raise errors.ArgumentTypeError("squares is a %s, JointMoments is accepted" % type(squares).__name__)
    if not isinstance(clip_norm, float):
        raise errors.UnsupportedError("squares with %s: one clip norm is accepted" % type(clip_norm).__name__)
    if clipping == "ghost":
        raise errors.UnsupportedError("clipping='ghost' with squares: %s" % NO_JOINT_GHOST)
    if exact:
        raise errors.UnsupportedError("exact=True with squares: the exact release is proven for one stream")


def by_units(mechanism: Mechanism, source: Any, unit: str, users: Any, clipping: str, returning: str) -> Any:
    """(the tracker of participations, the digest of the ids, why not ghost clipping), for the unit of the run."""
    check_unit(mechanism, unit)
    if returning not in ("refuse", "count"):
        raise errors.ArgumentError("returning = %r, accepted: refuse, count" % (returning,))
    batches = source if isinstance(source, BatchSampler) else getattr(source, "batch_sampler", None)
    digest = batches.digest if isinstance(batches, BatchSampler) else None
    if unit == "example":
        if users is not None or digest is not None:
            raise errors.ArgumentError("unit = 'example', and there are ids of users: unit='user' is accepted with them")
        return participation_tracker(mechanism, source), "", None
    if isinstance(batches, BatchSampler):
        if users is not None:
            raise errors.ArgumentError("users: there is a BatchSampler, which has the ids")
        if digest is None:
            raise errors.ArgumentError("unit = %r: the sampler draws examples; give BatchSampler users=, one id for each example" % unit)
        taken = participation_tracker(mechanism, source, True)
    else:
        if source is not None and users is None:
            raise errors.ArgumentError("unit = %r: users= is not given, the id of the user of every example of the loader's data" % unit)
        users = None if users is None else users_of(users)
        digest = "" if users is None else users.digest
        taken = participation_tracker(mechanism, source, True, users, returning == "refuse")
    reason = None if taken.users is None else why_not_ghost(batches.most if isinstance(batches, BatchSampler) else None)
    if clipping == "ghost" and reason is not None:
        raise errors.UnsupportedError("clipping='ghost' with unit=%r: %s" % (unit, reason))
    return taken, digest, reason


def check_arguments(model: Any, optimizer: Any, mechanism: Any) -> None:
    """Raises unless they are what their names say, and the mechanism has its sigma."""
    for name, value, kind in (
        ("model", model, torch.nn.Module),
        ("optimizer", optimizer, torch.optim.Optimizer),
        ("mechanism", mechanism, Mechanism),
    ):
        if not isinstance(value, kind):
            raise errors.ArgumentTypeError("%s is a %s, a %s is accepted" % (name, type(value).__name__, kind.__name__))
    if mechanism.sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
    for name, p in model.named_parameters():
        if p.is_meta:
            raise errors.ArgumentError("%s is on the meta device: give the model its memory first (to_empty)" % name)


def check_divisor(mechanism: Mechanism, expected_batch: Optional[float]) -> Optional[float]:
    """What sums are divided by, as it was given. Raises if it would follow from a number of examples that is secret."""
    expected_batch = real(expected_batch, "expected_batch", optional=True)
    if expected_batch is not None and not (expected_batch > 0 and math.isfinite(expected_batch)):
        raise errors.ArgumentError("expected_batch = %s, accepted: a finite number above 0" % expected_batch)
    if expected_batch is None and mechanism.adjacency == "add-remove":
        raise errors.ArgumentError(
            "expected_batch: the mechanism's adjacency is add-remove, which hides the number of examples, and the expected size of a "
            "batch, which sums are divided by, would reveal it. Give a number that does not depend on the data (a round guess is "
            "fine), or use a mechanism for zero-out or replace-one adjacency"
        )
    return expected_batch


def hide_units(mechanism: Mechanism, taken: Any, expected_batch: float) -> None:
    """Where the number of examples is secret, the grid of the sums follows from the divisor, which is public."""
    if mechanism.adjacency == "add-remove":
        taken.capacity = 1 << math.ceil(math.log2(max(2.0**20, 16.0 * expected_batch)))


def check_part(batches: Any, rank: int, world: int, key: KeyLike) -> None:
    """Raises unless the sampler gives this process its own part of every batch, and can be made again where the noise can."""
    if isinstance(key, (str, os.PathLike)) and isinstance(batches, BatchSampler) and batches.by_key and batches.sampler._ephemeral:
        raise errors.ArgumentError("sampler: the noise has a key file, and " + KEYLESS)
    if not isinstance(batches, BatchSampler):
        if world > 1:
            raise errors.ArgumentError(
                "sampler: %d processes need a BatchSampler, which gives each its part of every batch: the same examples in "
                "two processes would count twice" % world
            )
    elif (batches.rank, batches.world) != (rank, world):
        raise errors.ArgumentError(
            "the sampler is for process %d of %d, and this is process %d of %d"
            % (batches.rank, batches.world, rank, world)
        )
