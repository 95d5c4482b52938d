# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a whole private run through torch.distributed.checkpoint: model, optimizer, noise state.

Tensors go by the names of their parameters, so that another number of processes, or other placements, can resume. An optimizer
that has not taken a step has no state yet; torch would make it by a step of rate 0, which counts, so nothing is saved then, and
nothing is asked for in reading such a checkpoint. On the way back that step is the way to tensors to read into: everything that
it changed is overwritten.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Dict, Union

import torch
import torch.distributed.checkpoint as distributed
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from .. import errors

if TYPE_CHECKING:
    from .private import Private

PathLike = Union[str, "os.PathLike[str]"]


def packed(nest: Any) -> bytes:
    """In one piece, which torch.distributed.checkpoint leaves as it is."""
    memory = io.BytesIO()
    torch.save(nest, memory)
    return memory.getvalue()


def unpacked(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=True)


def parts_of(private: "Private", with_state: bool, own: bytes) -> Dict[str, Any]:
    """What is saved, or read into."""
    parts: Dict[str, Any] = {"model": get_model_state_dict(private.model), "dpmf": own}
    if with_state:
        parts["optimizer"] = get_optimizer_state_dict(private.model, private.optimizer)
    return parts


def save(private: "Private", folder: PathLike) -> None:
    own = private._own_state()
    with_state = bool(private.optimizer.state) or private.steps_taken > 0
    with private._by_torch():
        parts = parts_of(private, with_state, packed(own))
    distributed.save(parts, checkpoint_id=os.fspath(folder), no_dist=private._group.world == 1)


def load(private: "Private", folder: PathLike) -> None:
    reader = distributed.FileSystemReader(os.fspath(folder))
    try:
        known = reader.read_metadata().state_dict_metadata
    except Exception as error:  # a missing or broken folder may raise anything there
        raise errors.StateError("folder: there is no checkpoint in %s (%s)" % (folder, error)) from None
    if "dpmf" not in known:
        raise errors.StateError("folder: the checkpoint in %s has no noise state" % folder)
    with_state = any(name.startswith("optimizer.") for name in known)
    with private._by_torch():
        parts = parts_of(private, with_state, b"")
        distributed.load(parts, storage_reader=reader, no_dist=private._group.world == 1)
        set_model_state_dict(private.model, parts["model"])
        if with_state:
            set_optimizer_state_dict(private.model, private.optimizer, parts["optimizer"])
    private._take(unpacked(parts["dpmf"]))
