# SPDX-License-Identifier: Apache-2.0
"""Shards of a row, rows for parameters that are not in the CPU's memory, and the recursion in torch operations."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import torch

from .. import errors
from .._library import abi, integer
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..noise import NO_STATE, NoiseStream, Sums
from ..problem import Strategy
from .group import Group

# ---- shards ----


def shard_of(dim: int, rank: int, world: int) -> Tuple[int, int]:
    """(offset, count) of one of `world` nearly equal shards of `dim` coordinates.

    >>> [shard_of(10, rank, 3) for rank in range(3)]
    [(0, 4), (4, 3), (7, 3)]
    """
    dim, rank, world = integer(dim, "dim"), integer(rank, "rank"), integer(world, "world")
    if not 0 <= rank < world:
        raise errors.ArgumentError("rank = %d, accepted: 0 to %d" % (rank, world - 1))
    if dim < world:
        raise errors.ArgumentError("%d coordinates cannot be split among %d processes" % (dim, world))
    small, more = divmod(dim, world)
    return rank * small + min(rank, more), small + (rank < more)


def shard_views(tensors: Sequence[torch.Tensor], offset: int, count: int) -> List[torch.Tensor]:
    """The coordinates [offset, offset + count) of contiguous tensors laid end to end, as views of their memory."""
    views, at = [], 0
    for tensor in tensors:
        first, last = max(offset - at, 0), min(offset + count - at, tensor.numel())
        if first < last:
            views.append(tensor.view(-1)[first:last])
        at += tensor.numel()
    return views


# ---- other devices ----


class Recursion:
    """Rows of W Z in torch operations, on any device, for every strategy that streams.

    A step is linear in (buffers, seeds): the library's own step, applied to unit vectors, gives its matrix, which is
    applied here. Buffers that the step leaves alone are left alone.
    """

    def __init__(self, strategy: Strategy, count: int, device: Any = "cpu", dtype: torch.dtype = torch.float32):
        if not strategy.streams:
            raise errors.UnsupportedError(
                "%s strategies do not stream: their rows are made by the library" % strategy.family
            )
        self.strategy, self.step = strategy, 0
        self.buffers = torch.zeros((strategy.buffers, count), device=device, dtype=dtype)

    def seeds(self) -> int:
        """Rows of seeds that the next row takes."""
        return self.strategy.seeds(self.step)

    def matrix(self, t: int) -> np.ndarray:
        """(buffers after, row) from (buffers before, seeds)."""
        kept, seeds = self.buffers.shape[0], self.strategy.seeds(t)
        unit = np.eye(kept + seeds)
        state = np.ascontiguousarray(unit[:kept])
        row = self.strategy.step(t, unit[kept:], state)
        return np.concatenate([state, row[None]])

    def row(self, seed: torch.Tensor) -> torch.Tensor:
        """The next row from its seeds, a tensor of shape (seeds(), count)."""
        if self.step >= self.strategy.steps:
            raise errors.ArgumentError("the mechanism has %d steps, and no noise for more" % self.strategy.steps)
        kept, wanted = self.buffers.shape[0], (self.seeds(), self.buffers.shape[1])
        if tuple(seed.shape) != wanted:
            raise errors.ArgumentError("seed has shape %s, accepted: %s" % (tuple(seed.shape), wanted))
        matrix = self.matrix(self.step)
        changed = np.flatnonzero(np.any(matrix[:kept] != np.eye(kept, matrix.shape[1]), axis=1))
        used = torch.as_tensor(matrix[np.append(changed, kept)]).to(self.buffers)
        out = used[:, kept:] @ seed
        if kept > 0:
            out.addmm_(used[:, :kept], self.buffers)
            self.buffers[torch.as_tensor(changed, device=self.buffers.device)] = out[:-1]
        self.step += 1
        return out[-1]


def make_stream(
    mechanism: Mechanism, dim: int, clip: float, key: KeyLike, dtype: torch.dtype, group: Group, options: Dict[str, Any]
) -> NoiseStream:
    """The stream of this process's shard. The first process keeps the state file, that of the whole row, and all wait for it.

    With a state file rows may be asked for again, as resuming from a checkpoint does: for the same sums.
    """
    options = dict(options)
    state = options.get("state")
    if group.rank > 0:
        options["state"] = NO_STATE
    elif state is not NO_STATE and (state is not None or isinstance(key, (str, os.PathLike))):
        options.setdefault("replay", True)
        options["whole_state"] = group.world > 1
    offset, count = shard_of(dim, group.rank, group.world)
    kind = str(dtype).replace("torch.", "")
    make: Any = NoiseStream
    if "device" in options:
        from ..device import DeviceStream

        make = DeviceStream

    def opened(salt: Any) -> NoiseStream:
        return make(mechanism, dim, clip, key, dtype=kind, offset=offset, count=count, salt=salt, **options)

    return with_one_salt(group, opened)


def with_one_salt(group: Group, opened: Callable[[Any], NoiseStream]) -> Any:
    """opened(salt) in every process: first in the one that keeps the state file, whose salt the others get."""
    stream, salt = None, None
    for turn in range(2 if group.world > 1 else 1):
        refused: Any = None
        try:
            if turn == int(group.rank > 0):
                stream = opened(salt)
        except Exception as error:  # in one process: the others must not wait for it
            refused = error
        group.raise_together(refused)
        if turn == 0:
            salt = group.from_first(stream.salt if stream is not None else bytes(abi.DPMF_SALT_SIZE))
    return stream


class Rows:
    """The library's rows on any device: made on the CPU, the same bits everywhere.

    For a GPU a row goes through one of two pinned buffers in an asynchronous copy; a buffer is filled again only
    when its copy is over.
    """

    def __init__(self, stream: NoiseStream, device: Any):
        self.stream, self._device = stream, torch.device(device)
        dtype = torch.float64 if stream.dtype == "float64" else torch.float32
        self._there = getattr(stream, "memory", "cpu") == self._device.type != "cpu"  # the stream writes to the device itself
        pin = self._device.type == "cuda" and not self._there
        place = self._device if self._there else "cpu"
        self._room = [torch.empty(stream.count, dtype=dtype, device=place, pin_memory=pin) for _ in range(2 if pin else 1)]
        self._copied: List[Any] = [None] * len(self._room)
        self._turn = 0
        self._sums = Sums(stream)

    def next(self, digest: Callable[[], bytes]) -> torch.Tensor:
        """The next row, for the sum with this digest; it is overwritten by the one after the next."""
        self._sums.bind(digest)
        turn = self._turn
        if self._copied[turn] is not None:
            self._copied[turn].synchronize()
        self.stream.fill_(self._room[turn])
        if self._device.type == "cpu" or self._there:
            return self._room[turn]
        row = self._room[turn].to(self._device, non_blocking=True)
        if self._device.type == "cuda":
            self._copied[turn] = torch.cuda.Event()
            self._copied[turn].record(torch.cuda.current_stream(self._device))
            self._turn = 1 - turn
        return row
