# SPDX-License-Identifier: Apache-2.0
"""Sizes of passes in which the place of an example, and the number of the others, change no bit of its gradient.

Kernels take a product of 3 rows by another way than one of 4, and the last rows of a batch by another way than the first:
sums run in another order and round otherwise. Where a batch has a random size, an example more or less then moves the
roundings of all others, and at a kink (ReLU) a rounding flips a gradient: sums were found to move by 128 clip norms. Which way
a kernel takes depends on shapes, alignment and threads, and not on values. So it can be seen before data is used: a pass of
equal made-up examples, under made-up parameters, has to give equal gradients in all of its places, and those of the passes
of the other sizes. A size that fails is not used: such batches are padded to one that does not, and where there is none
examples go one at a time.

Every size that is tried costs one pass, and padding to a multiple of g costs g/2 examples in each step on average. For sizes
of mean B and standard deviation at most sqrt(B) over T steps, about 6 sqrt(B)/g sizes occur; g = sqrt(12 B^1.5 / T) makes the
sum of both costs least.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

#: Rows of the pass that others are compared with, where memory allows it: enough for kernels to be past their special cases.
BASE = 64

Probe = Callable[[int], Optional[List[torch.Tensor]]]


def granule_for(batch: float, steps: int) -> int:
    """What sizes are rounded up to a multiple of."""
    best = math.sqrt(12 * batch**1.5 / max(steps, 1))
    return max(1, round(min(best, batch / 8)))


def bits(gradient: torch.Tensor) -> torch.Tensor:
    """Whole numbers of the same bits, (examples, numbers of each)."""
    kind = {8: torch.int64, 4: torch.int32, 2: torch.int16}[gradient.element_size()]
    return gradient.contiguous().view(kind).reshape(len(gradient), -1)


def made_up_parameters(parameters: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Random ones of usual sizes: those of a run may be zeros, under which every gradient is the same."""
    generator = torch.Generator().manual_seed(3)
    out = {}
    for name, p in parameters.items():
        found = torch.randn(p.shape, generator=generator)
        found = found * (p.shape[0] / p.numel()) ** 0.5 if p.dim() > 1 and p.numel() else 1 + found / 4
        out[name] = found.to(p)
    return out


class Places:
    """Which sizes of passes can be used, for one model and one shape of examples."""

    def __init__(self, granule: int):
        self._granule = granule
        self._chunk, self._base = 0, 1
        self._reference: Optional[List[torch.Tensor]] = None
        self._known: Dict[int, bool] = {}

    def rows(self, count: int, chunk: int, probe: Probe) -> Tuple[int, int]:
        """(how many of `count` examples the next pass takes, its rows).

        chunk   the most rows that memory allows
        probe   gradients of a pass of that many equal examples; None: there are none to compare
        """
        if chunk != self._chunk:
            self._begin(chunk, probe)
        want = min(count, chunk)
        rounded = min(-(-want // self._granule) * self._granule, chunk)
        for size in (rounded, min(1 << (rounded - 1).bit_length(), chunk)):
            if self._fits(size, probe):
                return want, size
        return min(want, self._base), self._base

    def _begin(self, chunk: int, probe: Probe) -> None:
        self._chunk, self._base, self._reference, self._known = chunk, 1, None, {1: True}
        size = min(BASE, chunk)
        while size > 1:
            found = probe(size)
            if found is None:
                return  # nothing to compare: one example at a time
            if all(uniform(g) for g in found):
                self._base, self._reference, self._known = size, [bits(g[:1]) for g in found], {size: True}
                return
            size //= 2

    def _fits(self, size: int, probe: Probe) -> bool:
        if size not in self._known:
            found = probe(size) if self._reference is not None else None
            self._known[size] = found is not None and all(
                uniform(g) and torch.equal(bits(g[:1]), r) for g, r in zip(found, self._reference or [])
            )
        return self._known[size]


def uniform(gradient: torch.Tensor) -> bool:
    """All rows have the same bits: each is as the one before it."""
    rows = bits(gradient)
    return torch.equal(rows[1:], rows[:-1])


def in_rows(tensors: List[torch.Tensor], first: int, last: int, rows: int) -> Any:
    """Those examples in a new tensor of that many rows, the rest of which repeats the first of them.

    New memory is aligned alike, and a part of a larger tensor is not: kernels look at that too.
    """
    out = []
    for t in tensors:
        found = torch.empty((rows, *t.shape[1:]), dtype=t.dtype, device=t.device)
        found[: last - first] = t[first:last]
        if rows > last - first:
            found[last - first :] = t[first : first + 1]
        out.append(found)
    return out
