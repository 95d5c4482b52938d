# SPDX-License-Identifier: Apache-2.0
"""Adam with second moments that know their noise, and a second stream for the squares.

Adam divides by the root of v, a mean of the squares of gradients. A noisy gradient has the square of its noise in it, which for
small gradients is nearly all of v, and Adam is then SGD with momentum. There are two ways out.

Correction (Tang, Shpilevskiy and Lecuyer 2024). Row t of the noise has the deviation clip x sigma x sensitivity x |W[t,:]| in every
coordinate, exactly: this number, over the divisor, squared, is taken off the square of the released gradient.

Joint moments (Kalinin, Upadhyay and Lampert 2025). The squares are released as well. An example whose clipped gradient is x, of norm at most
c, adds x and sqrt(w) x o x / c to a sum of twice the size, and rows of the same mechanism, twice as long, are added to it: two streams,
one key, one state. Their joint sensitivity is proven in src/sensitivity/joint.c for any matrix and number of uses:

    zero-out, add-remove    sqrt(1 + w) times that of x alone: the norm of what an example adds is at most sqrt(1 + w) c
    replace-one             the same as of x alone up to w = 1/2 (opposite gradients have equal squares); sqrt(2 + 2 w + 1/(2 w)) / 2 times it above

The noise is made for that multiple of c, so sigma, epsilon and all accounts stay. Under sampling it is the first line for all.

In integers. x is clipped to (1 - m) c, and (x, sqrt(w) x o x / c) is put on the sum's grid g by rounding alone, which moves the difference of two
examples by at most sqrt(2 d) g. All the real bounds above shrink by at least 1 - m with x, so m c = sqrt(2 d) g + 2^-20 c keeps them.

v is a mean of these, and noise may make it negative: a coordinate's v is never taken below `floor` times the standard deviation of v's own
noise, computed as if the rows were independent. It is a heuristic of post-processing, which touches no guarantee.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch

from .. import errors
from .._library import abi, c, doubles, real, run_options
from ..mechanism import Mechanism
from ..problem import Workload
from .groups import root_above
from .sums import ExactSum, norms

#: Numbers whose temporaries in double are held at a time.
BLOCK = 1 << 21
NO_GHOST = "the squares of an example's gradient are added too, and ghost clipping forms none of an example"
SAID = (
    "Gradients x were clipped to %r, and the squares of their coordinates were added too, times sqrt(%r)/%r, with noise of their own. The noise is "
    "made for both together, for the norm %r: the guarantee includes the squares.\n"
)


@dataclass(frozen=True)
class JointMoments:
    """For make_private's squares: the squares of gradients' coordinates are released too, as a second stream under one sensitivity.

    weight   w, 2^-20 to 2^20: the squares have noise in proportion to 1/sqrt(w), and all noise is sqrt(1 + w) times as large; with
             replace-one adjacency and without sampling no larger up to w = 1/2
    """

    weight: float = 0.5

    def __post_init__(self) -> None:
        weight = real(self.weight, "weight")
        if not 2.0**-20 <= weight <= 2.0**20:
            raise errors.ArgumentError("weight = %g, accepted: 2^-20 to 2^20" % weight)

    def factor(self, mechanism: Mechanism) -> float:
        """The joint sensitivity over that of gradients alone, for the noise of this mechanism."""
        from ..make import evaluate

        free = mechanism.adjacency == "replace-one" and mechanism.sampling == "none"
        one = evaluate("identity", 1, adjacency="replace-one" if free else "zero-out")
        return max(1.0, one.joint_sensitivity(self.weight).value / one.sensitivity.value)


class JointSum(ExactSum):
    """The sum of clipped gradients x, and behind it that of sqrt(w) x o x / c."""

    def __init__(self, dim: int, clip: float, rule: JointMoments, factor: float, units: int, device: Any, gamma: float = 0.0):
        root = math.sqrt(rule.weight)
        super().__init__(2 * dim, root_above([clip, root * clip]), units, device)
        self.own_clip, self.rule, self.factor, self._root, self._gamma = clip, rule, factor, root, gamma
        #: That the noise is made for.
        self.noise_clip = factor * clip * (1 + 2.0**-50)
        margin = math.sqrt(2 * dim) * self.grid / clip + 2.0**-20
        if not margin <= 0.01:
            raise errors.ArgumentError("%d parameters are too many for squares on a grid of %g" % (dim, self.grid))
        self._bound = (1 - margin) * clip
        self.squares: Optional[torch.Tensor] = None

    def fresh(self) -> "JointSum":
        return JointSum(self.sum.numel() // 2, self.own_clip, self.rule, self.factor, self.units, self.sum.device, self._gamma)

    def shortened_by(self, lengths: torch.Tensor) -> torch.Tensor:
        return ~(lengths + self._gamma <= self.own_clip)

    def add(self, gradients: Sequence[torch.Tensor]) -> None:
        count = len(gradients[0])
        flat = [g.detach().reshape(count, -1) for g in gradients]
        rows = max(1, BLOCK // self.sum.numel())
        for first in range(0, max(count, 1), rows):
            some = torch.cat([g[first : first + rows].double() for g in flat], dim=1)
            lengths = norms([some])[:, None]
            scale = self._bound / (lengths + self._gamma) if self._gamma else (self._bound / lengths).clamp(max=1.0)
            x = torch.where(torch.isfinite(lengths), some, torch.zeros_like(some)) * torch.where(torch.isfinite(scale), scale, torch.zeros_like(scale))
            super().add([x, x.square() * (self._root / self.own_clip)])

    def add_sum(self, gradients: Sequence[torch.Tensor], count: int) -> None:
        raise errors.UnsupportedError(NO_GHOST)

    def released(self, noisy: torch.Tensor) -> torch.Tensor:
        first, second = noisy.chunk(2)
        self.squares = second * (self.own_clip / self._root)
        return first

    def binding(self) -> str:
        return "joint moments %r %r %r" % (self.rule.weight, self.own_clip, self._gamma)

    def stated_clip(self) -> float:
        return 0.0

    def sentence(self, unit: str) -> str:
        return SAID % (self.own_clip, self.rule.weight, self.own_clip, self.noise_clip)

    def identity(self) -> Dict[str, Any]:
        return {"squares": self.rule.weight, **({"normalize": self._gamma} if self._gamma else {})}


class Released(NamedTuple):
    """What of a step an optimizer may know besides the gradient; all of it is public.

    variance   of the noise of a released gradient's coordinate: one number, or a tensor
    squares    released means of squares, and the variance of their noise; None: there is no second stream
    """

    variance: Any
    squares: Optional[torch.Tensor]
    squares_variance: Any


class Moments:
    """Gives the optimizer what it may know of each step."""

    def __init__(self, optimizer: Any, sums: ExactSum, parameters: Dict[str, Any], mechanism: Mechanism, scale: float, divisor: float):
        self._optimizer, self._sum, self._parameters = optimizer, sums, parameters
        self.by_name: Optional[Dict[str, torch.Tensor]] = None
        self._deviation = scale / divisor
        self._rows = row_norms(mechanism) if isinstance(optimizer, Adam) else None

    def give(self, step: int, scales: Optional[Dict[str, torch.Tensor]]) -> None:
        found: Dict[str, torch.Tensor] = {}
        squares = getattr(self._sum, "squares", None)
        if squares is not None:
            parts = squares.split([p.numel() for p in self._parameters.values()])
            found = {name: part.view(p.shape) for (name, p), part in zip(self._parameters.items(), parts)}
            if scales is not None:
                found = {name: part / scales[name] ** 2 for name, part in found.items()}
            self.by_name = found
        if self._rows is None:
            return
        own = (self._deviation * float(self._rows[step])) ** 2
        of_squares = own * self._sum.own_clip**2 / self._sum.rule.weight if isinstance(self._sum, JointSum) else 0.0
        self._optimizer.released = {
            p: Released(own if scales is None else own / scales[name] ** 2, found.get(name), of_squares if scales is None else of_squares / scales[name] ** 4)
            for name, p in self._parameters.items()
        }


def row_norms(mechanism: Mechanism) -> np.ndarray:
    """|W[t,:]| of every step: the deviation of row t for noise of deviation 1."""
    out, identity = np.empty(mechanism.steps), Workload("identity", mechanism.steps)
    with run_options() as run:
        c.dpmf_error_compute(identity._handle, c.dpmf_mechanism_get(mechanism._handle).strategy, ctypes.byref(run), doubles(out))
    return out


class Adam(torch.optim.Optimizer):
    """Adam, or with `decoupled` AdamW, whose second moments know the noise of make_private; without it, it is torch's.

    correct   True: the known variance of the noise is taken off the squares of released gradients. With make_private's squares=JointMoments()
              the released squares are used instead, which have no such bias
    floor     v is never below this many standard deviations of its own noise; a large one is SGD with momentum
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0, *, decoupled: bool = False, correct: bool = False, floor: float = 1.0):  # fmt: skip
        values = [real(x, name) for x, name in ((lr, "lr"), (betas[0], "betas"), (betas[1], "betas"), (eps, "eps"), (weight_decay, "weight_decay"), (floor, "floor"))]
        if not (lr >= 0 and 0 <= betas[0] < 1 and 0 <= betas[1] < 1 and eps >= 0 and weight_decay >= 0 and floor >= 0 and all(map(math.isfinite, values))):
            raise errors.ArgumentError("Adam: lr, eps, weight_decay and floor of 0 or more and betas from 0 to below 1 are accepted")
        self.released: Dict[Any, Released] = {}
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "decoupled": bool(decoupled), "correct": bool(correct), "floor": floor})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step_of(p, group)
        self.released = {}
        return loss

    def _step_of(self, p: Any, group: Dict[str, Any]) -> None:
        state, (first, second) = self.state[p], group["betas"]
        if not state:
            zeros: List[Any] = [torch.zeros_like(p) for _ in range(4)]
            state["step"] = torch.zeros((), dtype=torch.float64)
            state["exp_avg"], state["mean_of_squares"], state["variance"], state["exp_avg_sq"] = zeros
        state["step"] += 1
        t = float(state["step"])
        g = p.grad if group["decoupled"] else p.grad.add(p, alpha=group["weight_decay"])
        known = self.released.get(p)
        squares, variance = g.square(), 0.0
        if known is not None and known.squares is not None:
            squares, variance = known.squares.to(g.dtype), known.squares_variance
        elif known is not None and group["correct"]:
            squares, variance = squares.sub(known.variance), 2 * known.variance**2
        state["exp_avg"].lerp_(g, 1 - first)
        state["mean_of_squares"].lerp_(squares, 1 - second)
        state["variance"].mul_(second**2).add_((1 - second) ** 2 * variance)
        least = group["floor"] * state["variance"].sqrt()
        state["exp_avg_sq"] = torch.maximum(state["mean_of_squares"], least)
        if group["decoupled"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        root = (state["exp_avg_sq"] / (1 - second**t)).sqrt().add_(group["eps"])
        p.addcdiv_(state["exp_avg"], root, value=-group["lr"] / (1 - first**t))
