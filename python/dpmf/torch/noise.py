# SPDX-License-Identifier: Apache-2.0
"""Shards of a row, and noise for parameters that are not in the CPU's memory."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from .. import errors
from ..keys import KeyBuffer, KeyLike
from ..mechanism import Mechanism
from ..noise import NoiseStream
from ..problem import Strategy

# ---- shards ----


def shard_of(dim: int, rank: int, world: int) -> Tuple[int, int]:
    """(offset, count) of one of `world` nearly equal shards of `dim` coordinates.

    >>> [shard_of(10, rank, 3) for rank in range(3)]
    [(0, 4), (4, 3), (7, 3)]
    """
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


# ---- noise on a device ----


class Recursion:
    """Rows of W Z in torch operations, on any device, for every strategy that streams.

    A step is linear in (buffers, seeds): the library's own step, applied to unit vectors, gives its matrix, which is
    applied here. Buffers that the step leaves alone are left alone.
    """

    def __init__(self, strategy: Strategy, count: int, device: Any = "cpu", dtype: torch.dtype = torch.float32):
        if not strategy.streams:
            raise errors.UnsupportedError(
                "%s strategies do not stream: their rows are made by the library (noise='host')" % strategy.family
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
        kept, wanted = self.buffers.shape[0], (self.seeds(), self.buffers.shape[1])
        if self.step >= self.strategy.steps:
            raise errors.ArgumentError("the mechanism has %d steps, and no noise for more" % self.strategy.steps)
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


class DeviceNoise:
    """Noise whose seeds come from torch's generator on the device: no transfer from the CPU.

    Not the bits of NoiseStream, and not cryptographic: torch's generators can be predicted from their outputs, where the
    library's seeds are AES-256. Its state holds buffers and generator, and is as secret as the key.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        dim: int,
        clip_norm: float,
        key: KeyLike = None,
        *,
        device: Any = "cpu",
        dtype: torch.dtype = torch.float32,
        offset: int = 0,
        count: Optional[int] = None,
    ):
        self.mechanism, self.dim, self.offset, self.clip_norm = mechanism, dim, offset, float(clip_norm)
        self.count = dim - offset if count is None else count
        if clip_norm <= 0 or not 0 <= offset < dim or not 0 < self.count <= dim - offset:
            raise errors.ArgumentError(
                "clip_norm = %g, offset = %d, count = %d of %d coordinates" % (clip_norm, offset, self.count, dim)
            )
        self.scale = self.clip_norm * (mechanism.sigma or 1.0) * mechanism.sensitivity.value
        self.recursion = Recursion(mechanism.strategy, self.count, device, dtype)
        self.generator, self._ephemeral = torch.Generator(device=device), key is None
        with KeyBuffer(key) as memory:
            # One generator a shard: its seed depends on the key, the mechanism and the shard.
            told = hashlib.sha256(memoryview(memory.memory).cast("B"))
            told.update(b"dpmf device noise 1" + mechanism.digest.encode() + b"/%d" % offset)
            self.generator.manual_seed(int.from_bytes(told.digest()[:8], "little") >> 1)
            self._commitment = memory.commitment()

    @property
    def step(self) -> int:
        return self.recursion.step

    def add_(self, tensors: Union[torch.Tensor, Sequence[torch.Tensor]], factor: float = 1.0) -> None:
        """Adds factor x the next row to the tensors, in order."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        if sum(t.numel() for t in tensors) != self.count:
            raise errors.ArgumentError(
                "the tensors have %d numbers, accepted: %d" % (sum(t.numel() for t in tensors), self.count)
            )
        like = self.recursion.buffers
        seed = torch.randn(
            (self.recursion.seeds() if self.step < self.mechanism.steps else 0, self.count),
            generator=self.generator,
            device=like.device,
            dtype=like.dtype,
        )
        row, at = self.recursion.row(seed), 0
        for tensor in tensors:
            tensor.add_(row[at : at + tensor.numel()].view(tensor.shape), alpha=factor * self.scale)
            at += tensor.numel()

    def _identity(self) -> Dict[str, Any]:
        return {
            "clip_norm": self.clip_norm,
            "sigma": self.mechanism.sigma or 0.0,
            "mechanism": self.mechanism.digest,
            "dim": self.dim,
            "offset": self.offset,
            "count": self.count,
            "key": self._commitment,
            "source": "torch",
        }

    def state_dict(self, buffers: bool = True) -> Dict[str, Any]:
        """Everything, buffers and generator included: as secret as the key."""
        if self._ephemeral:
            raise errors.StateError("this noise's key was made for it alone: give key= the path of a key file")
        return {
            **self._identity(),
            "step": self.step,
            "generator": self.generator.get_state(),
            "buffers": self.recursion.buffers.detach().cpu().clone(),
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        check_identity(state, self._identity())
        self.generator.set_state(state["generator"].cpu())
        self.recursion.buffers.copy_(state["buffers"])
        self.recursion.step = int(state["step"])

    def close(self) -> None:
        self.recursion.buffers.zero_()


def check_identity(state: Any, own: Dict[str, Any]) -> None:
    if not isinstance(state, dict) or "step" not in state:
        raise errors.StateError("there is no noise state here")
    for name, value in own.items():
        if state.get(name) != value:
            raise errors.StateError("the noise state has %s = %s, and this run %s" % (name, state.get(name), value))


class HostNoise:
    """The library's rows, made on the CPU and added on a device: the same bits as on the CPU."""

    def __init__(self, stream: NoiseStream, dtype: torch.dtype, pin: bool):
        self.stream = stream
        self.row = torch.empty(stream.count, dtype=dtype, pin_memory=pin)

    def add_(self, tensors: Union[torch.Tensor, Sequence[torch.Tensor]]) -> None:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        if sum(t.numel() for t in tensors) != self.stream.count:
            raise errors.ArgumentError(
                "the tensors have %d numbers, accepted: %d" % (sum(t.numel() for t in tensors), self.stream.count)
            )
        self.stream.fill_(self.row)
        for tensor, part in zip(tensors, self.row.split([t.numel() for t in tensors])):
            tensor.add_(part.to(tensor.device).view(tensor.shape))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
