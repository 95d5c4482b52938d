# SPDX-License-Identifier: Apache-2.0
"""Scale, then privatize: gradients are scaled coordinate by coordinate before they are clipped (Ganesh, McMahan and Thakurta 2025).

Noise is equal in all coordinates, and an optimizer such as Adam divides by the size that each coordinate usually has: in those where
gradients are small it multiplies the noise. With a scale s_t > 0 for every coordinate, an example adds clip(s_t * g) instead, and the
noisy sum is divided by s_t before the optimizer sees it. Noise then has the shape of the gradients. With correlated noise, rows cancel in
the coordinates in which the optimizer adds its updates up.

Privacy. s_t is a function of what was released before step t: of the optimizer's second moments, which are made of noisy sums. So the
contribution of an example to step t is a function of the example and of earlier releases, of norm at most the clip norm: the same
that is true of a gradient, which depends on weights that were released before. Every account that holds for gradients holds for it, for
correlated noise by the theorem on adaptive streams (Denisov et al. 2022, Theorem 2.1). Dividing by s_t is post-processing.
The scale of a step is computed once, before its first example, and is the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from .. import errors
from .._library import real

#: Where an optimizer of torch keeps the squares of what it has seen, by kind.
MOMENTS: Tuple[Tuple[Any, str], ...] = (
    ((torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam), "exp_avg_sq"),
    ((torch.optim.RMSprop,), "square_avg"),
    ((torch.optim.Adagrad,), "sum"),
)
NO_GHOST = "gradients are scaled before they are clipped, and ghost clipping forms none of an example"

Scale = Callable[[torch.optim.Optimizer, Dict[str, Any]], Dict[str, torch.Tensor]]

OWN = (
    "Gradients were scaled coordinate by coordinate before they were clipped, by second moments of what earlier steps released: noisy sums "
    "alone.\n"
)
CALLERS = (
    "Gradients were scaled coordinate by coordinate before they were clipped, by a function of the caller: the guarantee holds if it sees "
    "numbers that were released before, and nothing else of the data.\n"
)


@dataclass(frozen=True)
class SecondMoments:
    """For make_private's precondition: the scale of an adaptive optimizer's own second moments v (Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad).

    floor   f > 0. The scale is (1 + f) / ((v / mean(v))^(1/2) + f): coordinates with v far below its mean are not scaled up further than
            (1 + f) / f, and a large f leaves all as they are

    It is 1 in the first step. A gradient whose squares are v keeps about its norm, so that a clip norm means the same as without.
    """

    floor: float = 0.1

    def __post_init__(self) -> None:
        floor = real(self.floor, "floor")
        if not 2.0**-20 <= floor <= 2.0**20:
            raise errors.ArgumentError("floor = %g, accepted: 2^-20 to 2^20" % floor)

    def moments_of(self, optimizer: torch.optim.Optimizer) -> str:
        from .moments import Adam

        for kinds, name in (*MOMENTS, (Adam, "exp_avg_sq")):
            if isinstance(optimizer, kinds):
                return name
        raise errors.UnsupportedError(
            "precondition: a %s has no second moments; Adam, AdamW, NAdam, RAdam, RMSprop and Adagrad are accepted, or a function of your "
            "own" % type(optimizer).__name__
        )

    def __call__(self, optimizer: torch.optim.Optimizer, parameters: Dict[str, Any]) -> Dict[str, torch.Tensor]:
        name = self.moments_of(optimizer)
        found = {of: optimizer.state.get(p, {}).get(name) for of, p in parameters.items()}
        if any(v is None for v in found.values()):  # before the first step
            return {of: torch.ones_like(p, dtype=wide(p)) for of, p in parameters.items()}
        count = sum(v.numel() for v in found.values())
        mean = sum(float(v.double().sum()) for v in found.values()) / count
        if not mean > 0:
            return {of: torch.ones_like(p, dtype=wide(p)) for of, p in parameters.items()}
        return {of: (1 + self.floor) / ((v.to(wide(v)) / mean).sqrt() + self.floor) for of, v in found.items()}

    def __str__(self) -> str:
        return "second moments, floor %r" % float(self.floor)


def wide(tensor: torch.Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


class Preconditioner:
    """The scale of the step that is under way."""

    def __init__(self, rule: Scale, optimizer: torch.optim.Optimizer, parameters: Dict[str, Any]):
        if not callable(rule):
            raise errors.ArgumentTypeError("precondition is a %s, a function or SecondMoments is accepted" % type(rule).__name__)
        if isinstance(rule, SecondMoments):
            rule.moments_of(optimizer)
        self.rule, self._optimizer, self._parameters = rule, optimizer, parameters
        self.scales: Optional[Dict[str, torch.Tensor]] = None

    @property
    def name(self) -> str:
        return str(self.rule) if isinstance(self.rule, SecondMoments) else "a function of the caller"

    @property
    def sentence(self) -> str:
        return OWN if isinstance(self.rule, SecondMoments) else CALLERS

    def begin(self) -> Dict[str, torch.Tensor]:
        """Computes the scales of a step, once."""
        if self.scales is None:
            with torch.no_grad():
                found = self.rule(self._optimizer, dict(self._parameters))
            self.scales = {name: self._checked(name, found, p) for name, p in self._parameters.items()}
        return self.scales

    @staticmethod
    def _checked(name: str, found: Any, p: Any) -> torch.Tensor:
        scale = found.get(name) if isinstance(found, dict) else None
        if not isinstance(scale, torch.Tensor) or scale.shape != p.shape or scale.device != p.device:
            raise errors.ArgumentError("precondition: no scale of shape %s for %s; a dict of tensors by the names of parameters is accepted"
                                       % (tuple(p.shape), name))  # fmt: skip
        scale = scale.detach().to(wide(p), copy=True)
        if not bool((torch.isfinite(scale) & (scale > 0)).all()):
            raise errors.NumericalError("precondition: the scale of %s has a number that is not finite and above 0" % name)
        return scale

    def end(self) -> None:
        self.scales = None


def scaled(gradients: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Of every example, coordinate by coordinate: what becomes of one depends on no other.

    A new tensor: torch gives one gradient for all examples, or for two parameters, where they are equal.
    """
    return gradients.to(scale.dtype) * scale
