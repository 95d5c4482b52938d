# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained, whether they still are the ones that the noise was made for, and what else a model holds."""

from __future__ import annotations

import fnmatch
import functools
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .. import errors
from .adapters import check_changes
from .sparse import SparseEmbedding

try:
    from torch.distributed.tensor import DTensor
except ImportError:  # a torch without them has no such parameters
    DTensor = None  # type: ignore[assignment, misc]


def is_sharded(tensor: Any) -> bool:
    return DTensor is not None and isinstance(tensor, DTensor)


def trained_parameters(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """(name: parameter) of those that the optimizer steps, in the model's order, and everything else that it holds."""
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    trained = {name: p for name, p in model.named_parameters() if id(p) in wanted}
    if len(trained) != len(wanted):
        raise errors.ArgumentError(
            "the optimizer has %d parameters that the model has not" % (len(wanted) - len(trained))
        )
    if not trained:
        raise errors.ArgumentError("the optimizer has no parameters to train")
    others = {name: p for name, p in model.named_parameters() if name not in trained}
    others.update(model.named_buffers())
    return trained, others


def check_parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer, own: Dict[str, Any]) -> None:
    """Raises if the optimizer would step other parameters than those that the noise was made for."""
    now = [p for group in optimizer.param_groups for p in group["params"]]
    known = {id(p) for p in own.values()}
    for p in now:
        if id(p) not in known and (p.requires_grad or p.grad is not None):
            raise errors.StateError(
                "the optimizer has a parameter of shape %s that would be stepped without noise: parameters are what they "
                "were when make_private was called (close it and make a new one for others, with a new key)"
                % (tuple(p.shape),)
            )
    there = {id(p) for p in now if p.requires_grad}
    named = dict(model.named_parameters())
    for name, p in own.items():
        if id(p) not in there or named.get(name) is not p:
            raise errors.StateError(
                "the parameter %s is no longer the model's and trained by the optimizer: the noise was made for it" % name
            )


def one_device(parameters: Dict[str, Any]) -> torch.device:
    devices = {p.device for p in parameters.values()}
    if len(devices) > 1:
        raise errors.ArgumentError("the parameters are on %d devices, accepted: one" % len(devices))
    return devices.pop()


def row_type(parameters: Dict[str, Any]) -> torch.dtype:
    """Of the rows of noise: doubles if all parameters are, else floats."""
    return torch.float64 if all(p.dtype == torch.float64 for p in parameters.values()) else torch.float32


def check_layers(model: torch.nn.Module) -> None:
    """Layers that mix the examples of a batch have no per-example gradient; changes of a model that were not verified are refused too."""
    check_changes(model)
    for name, module in model.named_modules():
        kind = "%s is a %s" % (name or "the model", type(module).__name__)
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training:
            raise errors.UnsupportedError(
                kind + " in training mode, which mixes examples: GroupNorm, or eval mode, is accepted"
            )
        if isinstance(module, torch.nn.modules.instancenorm._InstanceNorm) and module.track_running_stats and module.training:
            raise errors.UnsupportedError(
                kind + " with running statistics, which hold the examples: track_running_stats=False is accepted"
            )
        if type(module).__name__ == "FullyShardedDataParallel":
            raise errors.UnsupportedError(kind + ", whose parameters are flat pieces: fully_shard (FSDP2) is accepted")
        if isinstance(module, SparseEmbedding):
            raise errors.UnsupportedError(
                kind + ", whose gradients are clipped by the caller, together with all others: a torch.nn.Embedding is accepted"
            )
        if isinstance(module, torch.nn.DataParallel):
            raise errors.UnsupportedError(kind + ": one process for each device is accepted, as DistributedDataParallel has it")


# ---- what a pass over examples must leave as it is ----


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN is equal to itself here."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    flat = [t.detach().reshape(-1).contiguous().view(torch.uint8) for t in (one, other)]
    return torch.equal(*flat)


#: Words that share a checksum.
STRIP = 1 << 20


@functools.lru_cache(maxsize=None)
def factors(device: torch.device) -> torch.Tensor:
    """Random ones of this process, from no generator that a run uses."""
    return torch.frombuffer(bytearray(os.urandom(8 * STRIP)), dtype=torch.int64).to(device)


def checksums(tensor: torch.Tensor) -> torch.Tensor:
    """Of the tensor's bytes, 64 bits for each strip: for parameters that are too many to be held twice.

    Sums of words times random factors, mod 2^64: other bytes have the same sum with probability 2^-32 at most.
    """
    words = tensor.detach().reshape(-1).contiguous()
    words = words.view({1: torch.uint8, 2: torch.int16}.get(words.element_size(), torch.int32))
    return torch.stack([(part * factors(words.device)[: len(part)]).sum() for part in words.split(STRIP)])


def copied(p: torch.Tensor) -> bool:
    return p.requires_grad or p.numel() <= STRIP


class Untouched:
    """Buffers and parameters of a model while gradients are formed: a pass that writes into one would publish raw data.

    state_dict() holds buffers, and nothing adds noise to what a layer writes there (running statistics, say). Neither does it to
    what a layer writes into a parameter, trained or frozen. Both are compared by their bytes, because `.data` hides writes from
    torch's count of them; and by that count, because a write that changes nothing this time (a running maximum) may change something
    when another example comes, and a refusal in that step alone would reveal it. Large frozen parameters, which may be most of a
    model, have checksums in the place of copies.

    public   names of buffers, or patterns of names as in "layers.*.steps", that the model itself may write
    """

    def __init__(self, model: torch.nn.Module, public: Sequence[str]):
        self._public = tuple(public)
        self._modules = [(prefix + "." if prefix else "", module) for prefix, module in model.named_modules()]
        known = [name for name, _ in model.named_buffers()]
        for pattern in self._public:
            if not fnmatch.filter(known, pattern):
                raise errors.ArgumentError(
                    "public_buffers: %r is no buffer of the model, which has %s" % (pattern, ", ".join(known) or "none")
                )
        self._before: Optional[Dict[str, torch.Tensor]] = None
        self._kept: Dict[str, torch.Tensor] = {}
        self._writes: Dict[str, Tuple[int, int]] = {}
        #: Those of the public ones that a pass has changed.
        self.changed: List[str] = []

    def _named(self, kind: str) -> Dict[str, Any]:
        return {
            prefix + name: t for prefix, module in self._modules for name, t in getattr(module, kind).items() if t is not None
        }

    def _buffers(self) -> Dict[str, torch.Tensor]:
        return {name: b.to_local() if is_sharded(b) else b for name, b in self._named("_buffers").items()}

    def _parameters(self) -> Dict[str, torch.Tensor]:
        return {name: p.to_local() if is_sharded(p) else p for name, p in self._named("_parameters").items()}

    def _counts(self) -> Dict[str, Tuple[int, int]]:
        both = {**self._named("_buffers"), **self._named("_parameters")}
        return {name: (id(t), t._version) for name, t in both.items()}

    @property
    def begun(self) -> bool:
        """A pass is under way that has not been checked yet."""
        return self._before is not None

    def begin(self) -> None:
        self._before = {name: b.detach().clone() for name, b in self._buffers().items()}
        self._kept = {name: p.detach().clone() if copied(p) else checksums(p) for name, p in self._parameters().items()}
        self._writes = self._counts()

    def check(self) -> None:
        """Raises if a pass has written one of them, which is as it was before then; of a large frozen one there is no copy."""
        if self._before is None:
            return
        now, counts, found, lost = self._buffers(), self._counts(), [], []
        for name, before in self._before.items():
            if name in now and counts[name] == self._writes[name] and same_bytes(before, now[name]):
                continue
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self._public):
                self.changed += [name] if name not in self.changed else []
                continue
            found.append(name)
            if name in now and now[name].shape == before.shape:
                with torch.no_grad():
                    now[name].copy_(before)
        found += [name for name in now if name not in self._before]
        for name, p in self._parameters().items():
            before = self._kept.get(name, p.new_zeros(0))
            same = same_bytes(before, p if copied(p) else checksums(p))
            if same and counts[name] == self._writes[name]:
                continue
            found.append(name)
            if not same and before.shape == p.shape and before.dtype == p.dtype:
                with torch.no_grad():
                    p.copy_(before)
            elif not same:
                lost.append(name)
        self._before, self._kept = None, {}
        if found:
            raise errors.UnsupportedError(
                "the model writes into %s while it computes the gradients: data would be in its state_dict() without noise. "
                "Accepted: a layer without running statistics (GroupNorm, eval mode), or public_buffers=[%r], where what is "
                "written depends on no example%s"
                % (", ".join(found), found[0], ". The data is still in %s: load it again" % ", ".join(lost) if lost else "")
            )


def not_finite(parameters: Dict[str, Any]) -> Optional[str]:
    """The name of a parameter that has NaN or an infinity; None: there is none."""
    parts = {n: (p.to_local() if is_sharded(p) else p).detach() for n, p in parameters.items() if p.is_floating_point()}
    parts = {name: p for name, p in parts.items() if p.numel() > 0}
    if not parts:
        return None
    # A sum of numbers that are not finite is not finite. The reverse is not true: then the numbers themselves are looked at.
    if bool(torch.isfinite(torch.stack([p.sum(dtype=torch.float32) for p in parts.values()])).all()):
        return None
    return next((name for name, p in parts.items() if not bool(torch.isfinite(p).all())), None)
