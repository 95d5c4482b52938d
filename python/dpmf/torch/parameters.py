# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained, and whether they still are the ones that the noise was made for."""

from __future__ import annotations

from typing import Any, Dict, Tuple

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
