# SPDX-License-Identifier: Apache-2.0
"""Gradients of examples of a sharded model: a twin without its sharding, whose parameters are whole for the length of a step.

A norm of an example's gradient is over all parameters, and fully_shard and tensor parallelism run their collectives in hooks,
which torch.func cannot map over examples. So every process gathers the parameters once for a step, forms and clips the
gradients of its own part of the batch on a plain copy of the model, as an unsharded process does, and the exact sums of all
processes are added up in integers. Of the noisy sum each process keeps what its shards cover: the optimizer, its state and
its checkpoints stay sharded. What it costs is memory for one whole set of parameters and one of sums during a step; results
are those of one process, for any placements.

The twin has the same layers, the attributes that they had when it was made, and no hook of torch.distributed; hooks of others
and shared modules and parameters are kept.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any, Dict

import torch
import torch.distributed

from .. import errors
from .parameters import is_sharded

try:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import distribute_tensor
except ImportError:  # a torch without them has no such models
    FSDPModule = ()  # type: ignore[assignment, misc]

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def has_shards(model: torch.nn.Module) -> bool:
    reshard(model)
    return any(is_sharded(p) for p in model.parameters())


def reshard(model: torch.nn.Module) -> None:
    """After a forward pass without a backward pass fully_shard leaves the whole parameters in place of the shards."""
    if FSDPModule != ():
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def check_sharding(model: torch.nn.Module) -> None:
    """Raises, with the name of the parameter or module, unless the twin would compute what the model does."""
    for name, p in model.named_parameters():
        if is_sharded(p) and any(placement.is_partial() for placement in p.placements):
            raise errors.UnsupportedError("%s is placed as Partial: Shard and Replicate are accepted" % name)
    for name, module in model.named_modules():
        if FSDPModule != () and isinstance(module, FSDPModule):
            policy = getattr(module._get_fsdp_state(), "_mp_policy", None)
            if getattr(policy, "param_dtype", None) is not None or getattr(policy, "output_dtype", None) is not None:
                raise errors.UnsupportedError(
                    "%s has a MixedPrecisionPolicy of fully_shard: gradients of examples are formed in the parameters' own "
                    "type, so that a policy without param_dtype and output_dtype is accepted" % (name or "the model")
                )


def gathered(tensor: torch.Tensor) -> torch.Tensor:
    """All of it; every process must ask."""
    return tensor.full_tensor().detach() if is_sharded(tensor) else tensor.detach()  # type: ignore[attr-defined]


def placed(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Values that every process has, as a tensor that is sharded as another is; nothing is sent."""
    if not is_sharded(like):
        return values
    return distribute_tensor(values, like.device_mesh, like.placements, src_data_rank=None)  # type: ignore[attr-defined]


class Twin:
    """A plain copy of a sharded model: `trained` and `others` by name, empty outside of fill() ... empty().

    model      what it was made from
    trained    those parameters that get gradients, by name
    """

    def __init__(self, model: torch.nn.Module, trained: Dict[str, Any]):
        self._of = model
        self.model = plain_copy(model)
        mine = dict(self.model.named_parameters())
        self.trained = {name: mine[name] for name in trained}
        self.others = {name: p for name, p in mine.items() if name not in trained}
        self.others.update(self.model.named_buffers())
        for name, p in mine.items():
            p.requires_grad_(name in trained)
        self._full = False

    def fill(self) -> None:
        """Gathers the parameters, where that has not been done for this step; in all processes."""
        for module, own in zip(self._of.modules(), self.model.modules()):
            own.training = module.training
        if self._full:
            return
        mine = dict(self.model.named_parameters())
        for name, p in self._of.named_parameters():
            mine[name].data = gathered(p)
        for name, buffer in self._of.named_buffers():
            if is_sharded(buffer):
                self.others[name].data = gathered(buffer)
        self._full = True

    def digest(self) -> str:
        """Of the whole parameters, which must be the same in all processes: meshes need not hold all of them."""
        self.fill()
        digest = hashlib.sha256()
        for p in self.model.parameters():
            digest.update(memoryview(p.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()))
        self.empty()
        return digest.hexdigest()

    def empty(self) -> None:
        for p in self.model.parameters():
            p.data = p.data.new_empty(0)
        self._full = False


def plain_copy(model: torch.nn.Module) -> torch.nn.Module:
    """The same modules as classes without sharding; parameters are empty, buffers that are not sharded are the same."""
    memo: Dict[int, Any] = {}
    for module in model.modules():
        memo[id(module)] = object.__new__(plain_class(module))
        for p in module.parameters(recurse=False):
            like = p.to_local() if is_sharded(p) else p
            memo[id(p)] = torch.nn.Parameter(like.detach().new_empty(0), requires_grad=p.requires_grad)
        for buffer in module.buffers(recurse=False):
            memo[id(buffer)] = buffer.to_local().new_empty(0) if is_sharded(buffer) else buffer
    for name, module in model.named_modules():
        own = memo[id(module)].__dict__
        for attribute, value in module.__dict__.items():
            if attribute.startswith("__composable_api"):  # what fully_shard knows of its shards
                continue
            if attribute in HOOKS:
                own[attribute] = type(value)((i, hook) for i, hook in value.items() if not of_sharding(hook))
                continue
            try:
                own[attribute] = copy.deepcopy(value, memo)
            except Exception as error:  # the attribute's own copying may raise anything
                raise errors.UnsupportedError(
                    "%s.%s cannot be copied, which gradients of examples of a sharded model need: %s"
                    % (name or "the model", attribute, error)
                ) from None
    return memo[id(model)]


def plain_class(module: torch.nn.Module) -> type:
    """Of a module of fully_shard: what it was before."""
    kind = type(module)
    if FSDPModule == () or not isinstance(module, FSDPModule):
        return kind
    return next(base for base in kind.__bases__ if not issubclass(base, FSDPModule))


def of_sharding(hook: Any) -> bool:
    """A hook of fully_shard or of a tensor-parallel style."""
    hook = getattr(hook, "func", hook)
    return str(getattr(hook, "__module__", "")).startswith("torch.distributed.")
