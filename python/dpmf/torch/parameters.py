# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained, whether they still are the ones that the noise was made for, and what else a model holds."""

from __future__ import annotations

import fnmatch
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .. import errors

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
    """Layers that mix the examples of a batch have no per-example gradient."""
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


class Untouched:
    """Buffers and parameters of a model while gradients are formed: a pass that writes into one would publish raw data.

    state_dict() holds buffers, and nothing adds noise to what a layer writes there (running statistics, say). Buffers are
    compared by their bytes, parameters by torch's count of writes.

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
        self._writes: List[Tuple[str, int, int]] = []
        #: Those of the public ones that a pass has changed.
        self.changed: List[str] = []

    def _buffers(self) -> Dict[str, torch.Tensor]:
        return {
            prefix + name: b.to_local() if is_sharded(b) else b  # type: ignore[attr-defined]
            for prefix, module in self._modules
            for name, b in module._buffers.items()
            if b is not None
        }

    def _counts(self) -> List[Tuple[str, int, int]]:
        return [
            (prefix + name, id(p), p._version)
            for prefix, module in self._modules
            for name, p in module._parameters.items()
            if p is not None
        ]

    @property
    def begun(self) -> bool:
        """A pass is under way that has not been checked yet."""
        return self._before is not None

    def begin(self) -> None:
        self._before = {name: b.detach().clone() for name, b in self._buffers().items()}
        self._writes = self._counts()

    def check(self) -> None:
        """Raises if a pass has changed one of them, which is as it was before then."""
        if self._before is None:
            return
        now, found = self._buffers(), []
        for name, before in self._before.items():
            if name in now and same_bytes(before, now[name]):
                continue
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self._public):
                self.changed += [name] if name not in self.changed else []
                continue
            found.append(name)
            if name in now and now[name].shape == before.shape:
                with torch.no_grad():
                    now[name].copy_(before)
        found += [name for name in now if name not in self._before]
        found += [name for (name, *was), (_, *now_) in zip(self._writes, self._counts()) if was != now_]
        self._before = None
        if found:
            raise errors.UnsupportedError(
                "the model writes into %s while it computes the gradients: data would be in its state_dict() without noise. "
                "Accepted: a layer without running statistics (GroupNorm, eval mode), or public_buffers=[%r], where what is "
                "written depends on no example" % (", ".join(found), found[0])
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
