# SPDX-License-Identifier: Apache-2.0
"""A clip norm that follows a quantile of the norms of gradients (Andrew, Thakkar, McMahan and Ramaswamy 2021).

At every step the number of examples whose gradient has a norm of at most C is released with noise, and C moves towards the
norm that a part gamma of the examples stays within:

    b = 1/2 + (sum over examples of ([|g| <= C] - 1/2) + sigma_b N(0, 1)) / expected batch,    C <- C exp(-rate (b - gamma)).

One example moves the sum of clipped gradients by at most C and that sum of halves by at most 1/2. Let z be the noise
multiplier that the mechanism has for every step (sigma x sensitivity). With noise of C z_g on the gradients and sigma_b on
the count, both together are one Gaussian release of multiplier z exactly if

    1 / z^2 = 1 / z_g^2 + 1 / (2 sigma_b)^2        (their Theorem 1):

z_g is taken from this, so that the run keeps the epsilon that its mechanism states, and gradients get a little more noise. The
gradients over C, and the count, are an adaptively chosen stream of vectors of norm 1, and every C is computed from what has been
released. So this holds for every assumption of the account about batches.

Independent noise only. Rows of correlated noise take back a part of earlier rows, which they do at one scale: under a clip
norm that moves, the design's error does not hold, nor does the paper's analysis.

The count is one more coordinate of the sum and of the row of noise: it is in the sum's digest, is added up over the processes
with it, and its noise has the key's randomness.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

import torch

from .. import errors
from .._library import real
from ..mechanism import Mechanism
from .sums import ExactSum

SENTENCE = (
    "The clip norm followed the %g quantile of the gradients' norms. The counts that it was computed from had noise of standard "
    "deviation %.6g, and the gradients noise of multiplier %.6g in the place of %.6g, which together are one release of that "
    "multiplier at every step: the guarantee above includes the counts and the clip norms.\n"
)
LEAST, MOST = 2.0**-100, 2.0**100


@dataclass(frozen=True)
class AdaptiveClip:
    """For make_private's clip_norm, with independent noise: a norm that follows a quantile of the gradients' norms.

    start         the norm of the first step
    quantile      the part of the examples that is to stay unclipped, between 0 and 1
    rate          how fast the norm moves: by a factor of exp(-rate) at most where no example is clipped
    count_noise   the standard deviation of the noise of the counts. None: a twentieth of the expected batch, as the paper has
                  it; below half of the noise multiplier there is no budget left for the gradients, and it is refused
    """

    start: float = 0.1
    quantile: float = 0.5
    rate: float = 0.2
    count_noise: Optional[float] = None

    def __post_init__(self) -> None:
        start, quantile, rate = (real(getattr(self, name), name) for name in ("start", "quantile", "rate"))
        if not LEAST <= start <= MOST:
            raise errors.ArgumentError("start = %g, accepted: 2^-100 to 2^100" % start)
        if not 0 < quantile < 1:
            raise errors.ArgumentError("quantile = %g, accepted: between 0 and 1" % quantile)
        if not 0 < rate <= 10:
            raise errors.ArgumentError("rate = %g, accepted: above 0, up to 10" % rate)
        noise = real(self.count_noise, "count_noise", optional=True)
        if noise is not None and not (noise > 0 and math.isfinite(noise)):
            raise errors.ArgumentError("count_noise = %g, accepted: a finite number above 0" % noise)

    def check(self, mechanism: Mechanism) -> None:
        if mechanism.family != "identity":
            raise errors.UnsupportedError(
                "clip_norm is adaptive, and the mechanism is %s: rows of correlated noise take back earlier rows at one scale, so "
                "that under a norm that moves the design's error does not hold. Independent noise is accepted (identity), or "
                "a clip norm that stays" % mechanism.family
            )


def gradient_multiplier(multiplier: float, count_noise: float) -> float:
    """z_g with 1/z^2 = 1/z_g^2 + 1/(2 sigma_b)^2.

    >>> z = gradient_multiplier(1.0, 5.0)
    >>> round(1 / z**2 + 1 / (2 * 5.0) ** 2, 12)
    1.0
    """
    if not 2 * count_noise > multiplier:
        raise errors.ArgumentError(
            "count_noise = %g, accepted: above %g, half of the noise multiplier of a step; less would take the whole budget "
            "for the counts" % (count_noise, multiplier / 2)
        )
    return multiplier / math.sqrt((1 - multiplier / (2 * count_noise)) * (1 + multiplier / (2 * count_noise)))


class AdaptiveSum(ExactSum):
    """The exact sum at the norm of the step, and, as one more coordinate, twice the sum of [|g| <= C] - 1/2.

    multiplier    z: the standard deviation of the rows, made for the clip norm 1
    """

    extra = 1

    def __init__(self, dim: int, rule: AdaptiveClip, multiplier: float, expected_batch: float, units: int, device: Any):
        super().__init__(dim, rule.start, units, device)
        self.rule, self.multiplier = rule, multiplier
        self.count_noise = expected_batch / 20 if rule.count_noise is None else rule.count_noise
        self.gradients = gradient_multiplier(multiplier, self.count_noise)

    def count(self, norms: Callable[[], torch.Tensor]) -> None:
        within = norms().detach() <= self.clip
        self.whole[-1] += 2 * int(within.sum()) - len(within)

    def digest(self) -> bytes:
        return hashlib.sha256(super().digest() + self.clip.hex().encode()).digest()

    def noisy(
        self,
        first: int,
        row: torch.Tensor,
        divisor: float,
        dtype: torch.dtype,
        grid: Optional[float] = None,
        factor: float = 1.0,
    ) -> torch.Tensor:
        last = first + len(row) == len(self.whole)
        gradients = row[:-1] if last else row
        out = super().noisy(first, gradients, divisor, dtype, grid, self.clip * self.gradients / self.multiplier)
        if not last:
            return out
        halves = float(self.whole[-1]) / 2 + float(row[-1]) * self.count_noise / self.multiplier
        return torch.cat([out, out.new_tensor([halves / divisor])])

    def released(self, noisy: torch.Tensor) -> torch.Tensor:
        """Takes the count off the released numbers and moves the norm by it."""
        part = 0.5 + float(noisy[-1])
        moved = self.clip * math.exp(max(-50.0, min(50.0, -self.rule.rate * (part - self.rule.quantile))))
        self.set_clip(max(LEAST, min(MOST, moved)))
        return noisy[:-1]

    def stated_clip(self) -> float:
        return 0.0

    def sentence(self, unit: str) -> str:
        return SENTENCE % (self.rule.quantile, self.count_noise, self.gradients, self.multiplier)

    def identity(self) -> Dict[str, Any]:
        return {"adaptive": [self.rule.start, self.rule.quantile, self.rule.rate, self.count_noise]}

    def state_dict(self) -> Dict[str, Any]:
        return {"clip": self.clip}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.set_clip(float(state["clip"]))
