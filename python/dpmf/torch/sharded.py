# SPDX-License-Identifier: Apache-2.0
"""Noise for models whose parameters are sharded: fully_shard (FSDP2) and other DTensors.

A row has a number for every coordinate of all parameters, laid end to end as one process has them. What a process holds of a
parameter is a box of it; the rows of that box are one range of coordinates, and a stream of the library makes that range and
nothing else, because every coordinate's noise is a function of the key and the coordinate. Where the box is narrower than
the parameter (sharded in another dimension than the first) the rest of the range is made and not used.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed

from .. import errors
from .._library import real
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..noise import NO_STATE, NoiseStream
from ..checkpoint import check_salt
from .group import Group
from .noise import Sums, with_one_salt
from .parameters import is_sharded

try:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
except ImportError:  # a torch without it has no such parameters
    pass


class Box(NamedTuple):
    """What this process holds of one parameter: a range of the row, and where in it the numbers are."""

    first: int
    count: int
    shape: Tuple[int, ...]  # of the range
    part: Tuple[slice, ...]  # of that, the box

    @property
    def whole(self) -> bool:
        return all(s.start == 0 and s.stop == n for s, n in zip(self.part, self.shape))


def local(tensor: Any) -> torch.Tensor:
    return tensor.to_local() if is_sharded(tensor) else tensor


def box_of(name: str, tensor: Any, at: int) -> Box:
    """Of a parameter that begins at coordinate `at`."""
    shape = tuple(tensor.shape)
    if not is_sharded(tensor):
        return Box(at, tensor.numel(), shape, tuple(slice(0, n) for n in shape))
    for placement in tensor.placements:
        if not (placement.is_replicate() or type(placement).__name__ == "Shard"):
            raise errors.UnsupportedError("%s is placed as %s: Shard and Replicate are accepted" % (name, placement))
    size, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    if tuple(size) != tuple(local(tensor).shape):
        raise errors.UnsupportedError(
            "%s: this process holds %s of it, but its placements require %s" % (name, tuple(local(tensor).shape), tuple(size))
        )
    if 0 in size:
        return Box(at, 0, tuple(size), tuple(slice(0, n) for n in size))
    row = tensor.numel() // shape[0]
    part = (slice(0, size[0]),) + tuple(slice(o, o + n) for o, n in zip(offset[1:], size[1:]))
    return Box(at + offset[0] * row, size[0] * row, (size[0],) + shape[1:], part)


class ShardedNoise:
    """Rows of noise of which every process makes its own part: the bytes that one process would have.

    mechanism    the mechanism of the rows; it must be calibrated
    parameters   the trained ones, in the same order in every process: DTensors, plain tensors (the same in all processes),
                 or (name, parameter) pairs, as model.named_parameters() gives them
    clip_norm    the l2 norm to which every example's gradient, over all of them, was clipped
    key          the same in every process
    state, label, prefetch, threads    as for NoiseStream; the first process keeps the state file

        noise = dpmf.torch.ShardedNoise(mechanism, model.named_parameters(), clip_norm=1.0, key="run.key")
        noise.add_([p.grad for p in model.parameters()])      # the summed clipped gradients of all processes

    `state_dict` and `load_state_dict` are what torch.distributed.checkpoint asks of an object that it saves, and the number
    of processes may be another one when it is loaded: from the step of the checkpoint on. Rows that were used after
    the checkpoint come again only for the same sums in the same number of processes.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        parameters: Iterable[Any],
        clip_norm: float,
        key: KeyLike,
        *,
        state: Any = None,
        label: Optional[str] = None,
        prefetch: bool = False,
        threads: int = 0,
        process_group: Any = None,
    ):
        if not isinstance(mechanism, Mechanism):
            raise errors.ArgumentTypeError("mechanism is a %s, a Mechanism is accepted" % type(mechanism).__name__)
        if mechanism.sigma is None:
            raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
        named = [p if isinstance(p, tuple) else ("parameter %d" % i, p) for i, p in enumerate(parameters)]
        if not named:
            raise errors.ArgumentError("parameters: there are none")
        for name, p in named:
            if not isinstance(p, torch.Tensor):
                raise errors.ArgumentTypeError("parameters: %s is a %s, a tensor is accepted" % (name, type(p).__name__))
        kinds = {(p.dtype, local(p).device.type) for _, p in named}
        if kinds not in ({(torch.float32, "cpu")}, {(torch.float64, "cpu")}):
            raise errors.UnsupportedError(
                "parameters of %s: all float32 or all float64, on the CPU, are accepted" % sorted(map(str, kinds))
            )
        clip_norm = real(clip_norm, "clip_norm")
        self._group = Group(process_group, "cpu")
        if self._group.world > 1 and key is None:
            raise errors.ArgumentError("key: %d processes need the same one" % self._group.world)
        self._boxes: List[Box] = []
        at = 0
        for name, p in named:
            self._boxes.append(box_of(name, p, at))
            at += p.numel()
        self.dim, self._shapes = at, [tuple(p.shape) for _, p in named]
        kind = str(named[0][1].dtype).replace("torch.", "")
        self._streams: List[Tuple[NoiseStream, List[int]]] = []
        files = state is not NO_STATE and (state is not None or isinstance(key, (str, os.PathLike)))
        ranges = self._ranges()

        def opened(salt: Any) -> NoiseStream:
            """The streams of all ranges; the first one of the first process keeps the state file, and all have its salt."""
            for first, count, members in ranges:
                one = files and self._group.rank == 0 and not self._streams
                stream = NoiseStream(
                    mechanism,
                    self.dim,
                    clip_norm,
                    key,
                    dtype=kind,
                    offset=first,
                    count=count,
                    state=state if one else NO_STATE,
                    replay=one,
                    whole_state=one and (first, count) != (0, self.dim),
                    salt=salt,
                    label=label,
                    prefetch=prefetch,
                    threads=threads,
                )
                salt = stream.salt
                self._streams.append((stream, members))
            if not self._streams:
                raise errors.UnsupportedError("parameters: this process holds none of them")
            return self._streams[0][0]

        with_one_salt(self._group, opened)
        self._sums = Sums(self._streams[0][0])
        self.mechanism, self._step = mechanism, 0
        self._lost = self._group.worst(self._streams[0][0].reserved)
        self._commitment = self._streams[0][0]._commitment
        self._group.same({"mechanism": mechanism.digest, "key": self._commitment, "shapes": self._shapes})

    def _ranges(self) -> List[Tuple[int, int, List[int]]]:
        """(first, count, boxes): whole neighbours together, boxes that are narrower alone."""
        out: List[Tuple[int, int, List[int]]] = []
        open_end = -1
        for i, box in enumerate(self._boxes):
            if box.count == 0:
                continue
            if box.whole and box.first == open_end:
                first, count, members = out[-1]
                out[-1] = (first, count + box.count, members + [i])
            else:
                out.append((box.first, box.count, [i]))
            open_end = box.first + box.count if box.whole else -1
        return out

    @property
    def step(self) -> int:
        """The number of the next row."""
        return self._step

    @property
    def salt(self) -> bytes:
        """Of the state file, which the first process keeps; zeros: there is none."""
        return self._streams[0][0].salt

    def add_(self, gradients: Sequence[Any]) -> None:
        """Adds the next row to the summed clipped gradients, one for each parameter and placed as it is, in place."""
        gradients = list(gradients)
        if self._lost:
            raise errors.StateError(
                "the state file has seen %d rows, and no checkpoint of that run is loaded: load_state_dict first, or begin "
                "a new run with a new key" % self._lost
            )
        found = [tuple(g.shape) for g in gradients]
        if found != self._shapes:
            raise errors.ArgumentError("gradients of shapes %s, accepted: %s" % (found, self._shapes))
        parts = [local(g) for g in gradients]
        for i, (box, part) in enumerate(zip(self._boxes, parts)):
            if tuple(part.shape) != tuple(s.stop - s.start for s in box.part):
                raise errors.ArgumentError("gradient %d is not placed as its parameter is" % i)
        rows: List[Any] = []
        refused: Optional[BaseException] = None
        digest = self._digest(parts)
        try:
            self._sums.bind(lambda: digest)
            rows = [torch.from_numpy(stream.next()) for stream, _ in self._streams]
        except Exception as error:  # in one process: the others must not wait for it
            refused = error
        self._group.raise_together(refused)
        self._step += 1
        for row, (_, members) in zip(rows, self._streams):
            for part, i in zip(row.split([self._boxes[i].count for i in members]), members):
                parts[i].add_(part.view(self._boxes[i].shape)[self._boxes[i].part])

    def _digest(self, parts: List[torch.Tensor]) -> bytes:
        """Of the sums of all processes, in their order."""
        own = hashlib.sha256()
        for part in parts:
            own.update(memoryview(part.detach().contiguous().numpy()).cast("B") if part.numel() else b"")
        mine = torch.frombuffer(bytearray(own.digest()), dtype=torch.uint8)
        return hashlib.sha256(b"".join(bytes(t.numpy()) for t in self._group.gathered(mine))).digest()

    # ---- checkpoints ----

    def _identity(self) -> Dict[str, Any]:
        own = self._streams[0][0]._identity()
        return {name: value for name, value in own.items() if name not in ("offset", "count")}

    def state_dict(self) -> Dict[str, Any]:
        """Where it is and what it is bound to; no secret, and the same in every process."""
        return {**self._identity(), "step": self._step}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to the position of a state, written by any number of processes."""
        for name, value in self._identity().items():
            if name == "salt" and name in state and state[name] != value:
                check_salt(state, value, max(self._lost, self._step))
            elif state.get(name) != value:
                raise errors.StateError("the noise state has %s = %s, and this one %s" % (name, state.get(name), value))
        step = int(state["step"])
        for stream, _ in self._streams:
            stream.seek(step)
        self._step, self._lost = step, 0

    def close(self) -> None:
        for stream, _ in self._streams:
            stream.close()

    def __enter__(self) -> "ShardedNoise":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
