# SPDX-License-Identifier: Apache-2.0
"""Sums of clipped gradients that do not round.

A batch sum in floating point depends on the order of its terms, and a rounding that one example tips over moves the sum by
more than that example's gradient: whole clip norms for batches of ten thousands. So every example's gradient g is put on a
grid xi, a power of two of about clip 2^-32, and clipped there: what is added is the integers q = rint(s g) with

    s = min(1 / xi, (N - sqrt(d)/2 - 1) (1 - d 2^-49) / |g|),    N = floor(clip / xi),

d the number of parameters, |g| in double. Rounding moves each coordinate by at most 1/2, hence |q| <= s |g| + sqrt(d)/2 plus
the roundings of products and norm, which the 1 and the factor cover: |q| <= N. That is checked on the integers themselves,
fl(sum q^2) (1 + d 2^-50) <= N^2, where the factor covers what a sum of d positive doubles can lose in any order (d 2^-52 of
itself); an example that fails is scaled down and tried again. Normalised contributions (dpmf/_contribution.py) have
s = (N - sqrt(d)/2 - 1) (1 - d 2^-49) / (|g| + gamma) for every length, and the same bound. Sums of integers are exact, so that with or without one
example they differ by at most N xi <= clip: in any order, by any number of threads, chunks and processes.

A gradient whose norm is not a finite double adds 0 silently: an error, a count or a log line would reveal that the
example was there. A norm in double is finite for all finite single-precision gradients.

The sums stay below 2^53: doubles hold them exactly, and what is rounded to the parameters' type is the sum with its noise.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from .. import errors
from .._contribution import SENTENCE, rule_of
from .._library import abi, c, run_options

#: Units that one sum may hold at the finest grid; samplers whose batches can be larger get a coarser one.
UNITS = 1 << 20
#: Numbers that are worked on at a time where the library's own kernels cannot be used (GPUs).
BLOCK = 1 << 22
#: Numbers whose temporaries in double stay in a core's cache, where a whole row is gone through.
STRIP = 1 << 16
#: Times that an example which fails its check is scaled down, each time by more, before it adds nothing.
TRIES = 64

PRECISIONS = {torch.float32: abi.dpmf_precision.DPMF_FLOAT32, torch.float64: abi.dpmf_precision.DPMF_FLOAT64}


def norms(gradients: List[torch.Tensor]) -> torch.Tensor:
    """Of every example, over all parameters."""
    return torch.stack([g.double().flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()


class ExactSum:
    """The sum of one step's clipped gradients, in integers.

    dim     numbers of a gradient
    clip    their norm's bound, 2^-100 to 2^100
    units   the most examples that one step can have, in all processes
    gamma   0: gradients are clipped; else they are normalised, clip g / (|g| + gamma)
    """

    #: Coordinates of the row behind those of the gradients (AdaptiveSum's count).
    extra = 0

    def __init__(self, dim: int, clip: float, units: int, device: Any, gamma: float = 0.0):
        self.gamma = gamma
        self.units, self.added = max(units, UNITS), 0
        self.whole = torch.zeros(dim + self.extra, dtype=torch.int64, device=device)
        self.sum = self.whole[:dim]
        self.set_clip(clip)

    def set_clip(self, clip: float, grid: Optional[float] = None) -> None:
        """The bound from the next example on, and the grid that goes with it, or a given one."""
        own, dim = ctypes.c_double(), self.sum.numel()
        c.dpmf_clip_grid(clip, self.units, ctypes.byref(own))
        self.clip, self.grid = float(clip), own.value if grid is None else grid
        self._most = math.floor(self.clip / self.grid)
        self._limit = (self._most - math.sqrt(dim) / 2 - 1) * (1 - dim * 2.0**-49)
        self._slack = 1 + dim * 2.0**-50
        if not self._limit > 0:
            raise errors.ArgumentError("%d parameters are too many for a grid of %g" % (dim, self.grid))

    def zero_(self) -> None:
        self.whole.zero_()
        self.added = 0

    def count(self, norms: Callable[[], torch.Tensor]) -> None:
        """Receives the norms of the examples that are added; the base class ignores them."""

    def fresh(self) -> "ExactSum":
        """An empty sum under the same rule."""
        return ExactSum(self.sum.numel(), self.clip, self.units, self.sum.device, self.gamma)

    def shortened(self, whole: List[torch.Tensor]) -> torch.Tensor:
        """Which of these examples are made shorter? Gradients as for `add`."""
        return self.shortened_by(norms(whole).detach())

    def shortened_by(self, lengths: torch.Tensor) -> torch.Tensor:
        """The same from the norms of their gradients."""
        return ~(lengths + self.gamma <= self.clip)

    def add(self, gradients: Sequence[torch.Tensor]) -> None:
        """Adds examples: tensors of (examples, ...) that together hold `dim` numbers of each."""
        count = len(gradients[0])
        if self.added + count > self.units:
            raise errors.ArgumentError("more than %d examples in a step" % self.units)
        self.added += count
        if count == 0:
            return
        flat = [g.detach().reshape(count, -1) for g in gradients]
        kind = torch.float64 if any(g.dtype == torch.float64 for g in flat) else torch.float32
        flat = [g.to(kind).contiguous() for g in flat]
        if self.sum.device.type == "cpu":
            self._add_by_library(flat, kind)
        else:
            self._add_by_torch(flat)

    def add_sum(self, gradients: Sequence[torch.Tensor], count: int) -> None:
        """Adds a sum of `count` examples that were clipped elsewhere; what rounds there stays rounded."""
        if self.added + count > self.units:
            raise errors.ArgumentError("more than %d examples in a step" % self.units)
        self.added += count
        most = float(count * self._most)
        for g, part in zip(gradients, self.sum.split([g.numel() for g in gradients])):
            for some, sums in zip(g.detach().reshape(-1).split(STRIP), part.split(STRIP)):
                sums.add_(some.double().mul_(1 / self.grid).round_().clamp_(-most, most).to(torch.int64))

    def _add_by_library(self, flat: List[torch.Tensor], kind: torch.dtype) -> None:
        parts = (abi.dpmf_segment * len(flat))(*[abi.dpmf_segment(g.data_ptr(), g.shape[1]) for g in flat])
        sums = ctypes.cast(self.sum.data_ptr(), ctypes.POINTER(ctypes.c_int64))
        with run_options(torch.get_num_threads()) as run:
            c.dpmf_clip_add(
                self.clip, self.gamma, self.grid, PRECISIONS[kind], len(flat[0]), len(flat), parts, sums, ctypes.byref(run)
            )

    # ---- the same in torch operations, for other devices ----

    def _blocks(self, flat: List[torch.Tensor]) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        """(gradients of some columns, their part of the sum), small enough for temporaries in double."""
        width = max(1, BLOCK // len(flat[0]))
        for g, part in zip(flat, self.sum.split([g.shape[1] for g in flat])):
            yield from zip(g.split(width, 1), part.split(width))

    def _add_by_torch(self, flat: List[torch.Tensor]) -> None:
        squares = torch.zeros(len(flat[0]), dtype=torch.float64, device=self.sum.device)
        for g, _ in self._blocks(flat):
            squares += g.double().square().sum(1)
        norms = squares.sqrt()
        scale = self._limit / (norms + self.gamma) if self.gamma else (self._limit / norms).clamp(max=1 / self.grid)
        scale = torch.where(torch.isfinite(norms), scale, torch.zeros_like(scale))
        found = self._put(flat, scale, 1)
        for t in range(TRIES + 1):
            failed = ~(found * self._slack <= float(self._most) ** 2)
            if not bool(failed.any()):
                return
            again = [g[failed] for g in flat]
            self._put(again, scale[failed], -1)
            scale[failed] = scale[failed] * (1 - 2.0 ** min(t - 20, -1)) if t < TRIES else 0.0
            found[failed] = self._put(again, scale[failed], 1)

    def _put(self, flat: List[torch.Tensor], scale: torch.Tensor, sign: int) -> torch.Tensor:
        """Adds or takes out; gives the squared norms of the integers. Sums of a column in double are exact: below 2^53."""
        squares, used = torch.zeros_like(scale), scale > 0
        for g, part in self._blocks(flat):
            q = (g.double() * scale[:, None]).round_()
            q.masked_fill_(~used[:, None], 0.0)
            squares += q.square().sum(1)
            part.add_(q.sum(0).to(torch.int64), alpha=sign)
        return squares

    # ---- what becomes of it ----

    def digest(self) -> bytes:
        """SHA-256 of the sum: what a row of noise is bound to."""
        return hashlib.sha256(memoryview(self.whole.cpu().numpy()).cast("B")).digest()

    def noisy(
        self,
        first: int,
        row: torch.Tensor,
        divisor: float,
        dtype: torch.dtype,
        grid: Optional[float] = None,
        factor: float = 1.0,
    ) -> torch.Tensor:
        """(sum from coordinate `first` on + factor x row) / divisor, added in double and rounded once.

        An exact row is whole multiples of the grid, and is added as integers: what follows is a function of that sum.
        """
        if grid is not None and (grid != self.grid or factor != 1.0):
            raise errors.ArgumentError("the noise is on the grid %g, the sums on %g" % (grid, self.grid))
        out = torch.empty(row.numel(), dtype=dtype, device=self.sum.device)
        parts = self.sum[first : first + row.numel()].split(STRIP)
        for part, some, to in zip(parts, row.split(STRIP), out.split(STRIP)):
            if grid is not None:
                to.copy_((part + (some / grid).to(torch.int64)).to(torch.float64).mul_(grid).div_(divisor))
                continue
            to.copy_(part.to(torch.float64).mul_(self.grid).add_(some, alpha=factor).div_(divisor))
        return out

    # ---- what distinguishes it from a sum of clipped gradients, and what a sum with a norm of its own has more (AdaptiveSum) ----

    def binding(self) -> str:
        """A text by which the noise is bound to how gradients become contributions; empty: they are clipped."""
        return rule_of(self.gamma)

    def stated_clip(self) -> float:
        """The bound for the sentences of the guarantee; 0: it is not one norm for all steps and coordinates."""
        return self.clip

    def released(self, noisy: torch.Tensor) -> torch.Tensor:
        """The gradients among the released numbers."""
        return noisy

    def sentence(self, unit: str) -> str:
        return SENTENCE % (unit, self.clip, self.gamma, self.clip) if self.gamma else ""

    def identity(self) -> Dict[str, Any]:
        return {"normalize": self.gamma} if self.gamma else {}

    def state_dict(self) -> Dict[str, Any]:
        return {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        pass
