# SPDX-License-Identifier: Apache-2.0
"""A clip norm for each group of parameters, and the noise of each.

Group g of the parameters has the clip norm c_g and a scale a_g. A unit's gradient x is clipped group by group, |x_g| <= c_g, and goes
into the sum in scaled coordinates, x_g / a_g, in integers on one grid. So a unit adds a vector whose groups have norms of at most
b_g = c_g / a_g, and whose norm is at most

    clip = (sum over g of b_g^2)^(1/2),

for every gradient and in every step: one sensitivity, of all groups together. The mechanism's noise has one deviation s in all scaled
coordinates, made for that clip norm, and the guarantee is that of a run whose gradients are clipped to it. What is released, sum and
noise, is multiplied by a_g afterwards, which is post-processing: group g has noise of deviation a_g s in its own coordinates. With
a_g = 1 all coordinates have equal noise, made for (sum c_g^2)^(1/2); with a_g = c_g the noise of a group is c_g times that made for
the square root of the number of groups, and a group with a small norm has little noise (clipping by layers: McMahan et al. 2018).

That the integers are within the bound is checked for each group as sums.py checks it for the whole, and clip is rounded up so that
its square is at least the sum of the b_g^2, as exact numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence as SequenceOf
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .. import errors
from .._contribution import rule_of
from .._library import real
from .sums import ExactSum, norms

LEAST, MOST = 2.0**-100, 2.0**100
#: Numbers of gradients that are divided by a scale at a time.
BLOCK = 1 << 22
#: Of a group's bound, what rounding to the grid may give away.
AWAY = 0.01

NO_GHOST = "the groups of an example have a clip norm and a factor each, and ghost clipping multiplies its loss by one"
SAID = "Gradients were clipped by groups of parameters, each to a norm of its own: %s. "
EQUAL = "Together no %s adds more than %r in l2 norm, for which the noise is made.\n"
SCALED = (
    "Each group is divided by its scale before the sum and multiplied by it after the noise (%s): in these coordinates no %s adds more than "
    "%r in l2 norm, for which the noise is made.\n"
)

Numbers = Union["Mapping[str, float]", "Sequence[float]"]


@dataclass(frozen=True)
class GroupClip:
    """For make_private's clip_norm: a clip norm for each group of parameters.

    norms   a mapping from names to norms: of a parameter, of a module with all in it ("layers.0"), and "" for all that no other name
            covers; the longest name decides. Or a sequence: a norm for each of the optimizer's groups, in order
    noise   "equal": the same noise in every coordinate. "norms": the noise of a group is in proportion to its norm. Or numbers in the
            form of norms, to which it is in proportion

    A mapping or a sequence alone, as clip_norm, is GroupClip(norms).
    """

    norms: Numbers
    noise: Union[str, Numbers] = "equal"

    def __post_init__(self) -> None:
        checked(self.norms, "clip_norm")
        if isinstance(self.noise, str):
            if self.noise not in ("equal", "norms"):
                raise errors.ArgumentError("noise = %r, accepted: equal, norms, or a number for each group" % self.noise)
            return
        checked(self.noise, "noise")
        same = isinstance(self.norms, Mapping) == isinstance(self.noise, Mapping) and len(self.norms) == len(self.noise)
        if not same or (isinstance(self.norms, Mapping) and set(self.norms) != set(self.noise)):
            raise errors.ArgumentError("noise: %s, accepted: a number for each group of clip_norm" % (self.noise,))

    def resolve(self, parameters: Dict[str, Any], optimizer: torch.optim.Optimizer) -> "Groups":
        """The groups of these trained parameters, in their order."""
        if isinstance(self.norms, Mapping):
            names = [str(name) for name in self.norms]
            members = [by_name(name, names) for name in parameters]
        else:
            found = [[id(p) for p in group["params"]] for group in optimizer.param_groups]
            if len(found) != len(self.norms):
                raise errors.ArgumentError("clip_norm: %d norms, and the optimizer has %d groups" % (len(self.norms), len(found)))
            names = ["group %d" % g for g in range(len(found))]
            members = [next((g for g, ids in enumerate(found) if id(p) in ids), -1) for p in parameters.values()]
        left = [name for name, g in zip(parameters, members) if g < 0]
        if left:
            raise errors.ArgumentError("clip_norm: no norm for the parameter %s; the name '' covers all others" % left[0])
        unused = [name for g, name in enumerate(names) if g not in members]
        if unused:
            raise errors.ArgumentError("clip_norm: %r names no trained parameter" % unused[0])
        order = list(self.norms) if isinstance(self.norms, Mapping) else range(len(self.norms))
        bounds = [float(self.norms[g]) for g in order]  # type: ignore[index]
        scales = [1.0] * len(bounds)
        if self.noise == "norms":
            scales = list(bounds)
        elif not isinstance(self.noise, str):
            scales = [float(self.noise[g]) for g in order]  # type: ignore[index]
        return Groups(names, members, [p.numel() for p in parameters.values()], bounds, scales)


@dataclass(frozen=True)
class Groups:
    """members: the group of every parameter; sizes: its numbers; norms and scales: c_g and a_g."""

    names: List[str]
    members: List[int]
    sizes: List[int]
    norms: List[float]
    scales: List[float]

    def bounds(self) -> List[float]:
        """b_g. What is true of the run are these: c_g is b_g a_g, up to the rounding of the quotient."""
        found = [c / a for c, a in zip(self.norms, self.scales)]
        for name, bound in zip(self.names, found):
            if not LEAST <= bound <= MOST:
                raise errors.ArgumentError("clip_norm of %r over its noise = %g, accepted: 2^-100 to 2^100" % (name, bound))
        return found


def checked(numbers: Any, what: str) -> None:
    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, (Mapping, SequenceOf)):
        raise errors.ArgumentTypeError("%s is a %s, a number, a mapping or a sequence of numbers is accepted" % (what, type(numbers).__name__))
    if not len(numbers):
        raise errors.ArgumentError("%s: there are no groups" % what)
    for name in numbers if isinstance(numbers, Mapping) else range(len(numbers)):
        value = real(numbers[name], "%s[%r]" % (what, name))  # type: ignore[index]
        if not LEAST <= value <= MOST:
            raise errors.ArgumentError("%s[%r] = %g, accepted: 2^-100 to 2^100" % (what, name, value))


def by_name(parameter: str, names: Sequence[str]) -> int:
    """The place of the longest name that covers the parameter; -1: none does.

    >>> by_name("layers.10.weight", ["", "layers", "layers.1"])
    1
    """
    covers = [g for g, name in enumerate(names) if name == "" or parameter == name or parameter.startswith(name + ".")]
    return max(covers, key=lambda g: len(names[g]), default=-1)


def root_above(squares: Sequence[float]) -> float:
    """A double whose square is at least the sum of the squares of these, as exact numbers, and hardly more.

    >>> root_above([3.0, 4.0]), root_above([1.0, 1.0]) ** 2 >= 2
    (5.0, True)
    """
    wanted = sum(Fraction(b) ** 2 for b in squares)
    found = math.hypot(*squares)
    while Fraction(found) ** 2 < wanted:
        found = math.nextafter(found, math.inf)
    return found


class GroupSum(ExactSum):
    """The sum of a step in scaled coordinates, each group clipped to its own bound on the grid of all."""

    def __init__(self, groups: Groups, units: int, device: Any, gamma: float = 0.0):
        bounds = groups.bounds()
        super().__init__(sum(groups.sizes), root_above(bounds), units, device, gamma)
        self.groups = groups
        self.one_scale = all(a == 1.0 for a in groups.scales)
        self._ends = [sum(groups.sizes[: i + 1]) for i in range(len(groups.sizes))]
        self._parts: List[Tuple[List[int], float, ExactSum, bool]] = []
        for g, (name, bound, scale) in enumerate(zip(groups.names, bounds, groups.scales)):
            own = [i for i, member in enumerate(groups.members) if member == g]
            if gamma and not LEAST <= gamma / scale <= MOST:
                raise errors.ArgumentError("normalize = %g over the noise of %r = %g, accepted: 2^-100 to 2^100" % (gamma, name, gamma / scale))
            numbers = sum(groups.sizes[i] for i in own)
            part = ExactSum(0, bound, units, device, gamma / scale)
            joined = own == list(range(own[0], own[-1] + 1))
            part.sum = self.sum[self._ends[own[0]] - groups.sizes[own[0]] : self._ends[own[-1]]] if joined else self.sum.new_zeros(numbers)
            if not math.sqrt(numbers) / 2 + 1 <= AWAY * bound / self.grid:
                raise errors.ArgumentError(
                    "clip_norm of %r is %g of all groups together: too small a part of the sum's range for its %d numbers; noise='norms' gives "
                    "it coordinates of its own size" % (name, bound / self.clip, numbers)
                )
            part.set_clip(bound, self.grid)
            self._parts.append((own, scale, part, joined))

    def zero_(self) -> None:
        super().zero_()
        for _, _, part, joined in self._parts:
            if not joined:
                part.sum.zero_()

    def fresh(self) -> "GroupSum":
        return GroupSum(self.groups, self.units, self.sum.device, self.gamma)

    def add(self, gradients: Sequence[torch.Tensor]) -> None:
        count = len(gradients[0])
        if self.added + count > self.units:
            raise errors.ArgumentError("more than %d examples in a step" % self.units)
        self.added += count
        flat = [g.detach().reshape(count, -1) for g in gradients]
        for own, scale, part, joined in self._parts:
            some = [flat[i] for i in own]
            rows = max(1, BLOCK // max(1, part.sum.numel())) if scale != 1.0 else max(1, count)
            for first in range(0, count, rows):
                part.added = 0
                part.add([g[first : first + rows] if scale == 1.0 else g[first : first + rows].double() / scale for g in some])
            if not joined:
                for i, summed in zip(own, part.sum.split([self.groups.sizes[i] for i in own])):
                    self.sum[self._ends[i] - self.groups.sizes[i] : self._ends[i]] += summed
                part.sum.zero_()

    def add_sum(self, gradients: Sequence[torch.Tensor], count: int) -> None:
        raise errors.UnsupportedError(NO_GHOST)

    def shortened(self, whole: List[torch.Tensor]) -> torch.Tensor:
        """Of which examples is a group made shorter?"""
        found = torch.zeros(len(whole[0]), dtype=torch.bool, device=whole[0].device)
        for (own, _, _, _), bound in zip(self._parts, self.groups.norms):
            found |= ~(norms([whole[i].detach() for i in own]) + self.gamma <= bound)
        return found

    def noisy(
        self,
        first: int,
        row: torch.Tensor,
        divisor: float,
        dtype: torch.dtype,
        grid: Optional[float] = None,
        factor: float = 1.0,
    ) -> torch.Tensor:
        out = super().noisy(first, row, divisor, dtype, grid, factor)
        last = first + len(row)
        for member, size, end in zip(self.groups.members, self.groups.sizes, self._ends):
            scale = self.groups.scales[member]
            low, high = max(first, end - size), min(last, end)
            if scale != 1.0 and low < high:
                out[low - first : high - first] *= scale
        return out

    def stated_clip(self) -> float:
        return self.clip if self.one_scale else 0.0

    def binding(self) -> str:
        own = {name: value for name, value in self.identity().items() if name != "normalize"}
        kept = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:32]
        return "clipped by groups %s %s" % (kept, rule_of(self.gamma))

    def identity(self) -> Dict[str, Any]:
        kept = {"clip_groups": list(self.groups.members), "clip_norms": list(self.groups.norms), "noise_scales": list(self.groups.scales)}
        return {**kept, **({"normalize": self.gamma} if self.gamma else {})}

    def sentence(self, unit: str) -> str:
        each = list(zip(self.groups.names, self.groups.norms, self.groups.scales))
        said = SAID % ", ".join("%s: %r" % (name or "all others", norm) for name, norm, _ in each)
        if self.one_scale:
            said += EQUAL % (unit, self.clip)
        else:
            said += SCALED % (", ".join("%s: %r" % (name or "all others", scale) for name, _, scale in each), unit, self.clip)
        return said + (NORMALISED % (unit, self.gamma) if self.gamma else "")


NORMALISED = (
    "Each group of what one %s adds, a vector g, was normalised to its norm times g/(|g| + %r), which is never longer: the guarantee holds as for "
    "clipping.\n"
)
