# SPDX-License-Identifier: Apache-2.0
"""This library's clipping, noise and state in the place of a DPOptimizer's own."""

from __future__ import annotations

import types
from typing import Any, Dict, List, Optional

import torch
from opacus.optimizers import DPOptimizer
from opacus.optimizers.ddpoptimizer_fast_gradient_clipping import DistributedDPOptimizerFastGradientClipping
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping

from .. import errors
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..privacy import unit_name
from ..torch import randomness
from ..torch.clipping import EXACT, ROUNDED
from ..torch.ghost import check_width, factors
from ..torch.group import Group
from ..torch.noise import Rows, make_stream, shard_of
from ..torch.parameters import Untouched
from ..torch.private import NOTHING_LOADED, STATE, said_by_run
from ..torch.sums import ExactSum
from .accountants import Accountant

#: What is said beside EXACT.
TOGETHER = (
    "Opacus computes a batch at once: where its size is random, one example can change how the gradients of the others round.\n"
)
GHOST = (DPOptimizerFastGradientClipping, DistributedDPOptimizerFastGradientClipping)


class Attached:
    """What `attach` put on an optimizer; `detach` takes it off."""

    def __init__(
        self,
        optimizer: DPOptimizer,
        mechanism: Mechanism,
        key: KeyLike,
        taken: Any,
        options: Dict[str, Any],
        module: Any = None,
    ):
        self.optimizer, self.mechanism, self._taken = optimizer, mechanism, taken
        self.accountant = Accountant(mechanism, taken)
        self._params: List[Any] = list(optimizer.params)
        kinds = {(p.dtype, p.device) for p in self._params}
        if len(kinds) != 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
            raise errors.ArgumentError(
                "parameters of %s: one device, and float32 or float64, are accepted" % sorted(map(str, kinds))
            )
        dtype, device = kinds.pop()
        dim = sum(p.numel() for p in self._params)
        self._group = Group(None if getattr(optimizer, "world_size", 1) > 1 else False, device)
        self._shard = shard_of(dim, self._group.rank, self._group.world)
        self._sum = ExactSum(dim, optimizer.max_grad_norm, taken.capacity, device)
        self.noise = make_stream(mechanism, dim, optimizer.max_grad_norm, key, dtype, self._group, options)
        self._rows = Rows(self.noise, device)
        self._group.same({"mechanism": mechanism.digest, "key": self.noise._commitment, "clip norm": optimizer.max_grad_norm})
        self._group.same(taken.identity())
        # Masks of the whole batch come from torch's generator: a function of the key and the step, so that a resumed run
        # has them again and no checkpoint needs them.
        self._secret = randomness.secret_of(key, b"dpmf random numbers under opacus 1")
        randomness.seed_for(self._secret, self.noise.step)
        self._lost = self._group.worst(self.noise.reserved)
        self._before = (optimizer.noise_multiplier, optimizer.step_hook)
        # The standard deviation of the seeds over the clip norm; nothing here is computed from it.
        self._multiplier = optimizer.noise_multiplier = (mechanism.sigma or 1.0) * mechanism.sensitivity.value
        optimizer.attach_step_hook(lambda _: self.accountant.step(noise_multiplier=self._multiplier, sample_rate=0.0))
        self.ghost = isinstance(optimizer, GHOST)
        self._module, self._pending = module, -1
        self._ended: Optional[int] = None  # the steps of a run that is over
        model = getattr(module, "_module", module)  # Opacus' wrapper, or its hooks on the model itself
        self._untouched = None if model is None else Untouched(model, ())
        self._begins = None if model is None else model.register_forward_pre_hook(self._begin)
        self._names = ["accumulate" if self.ghost else "clip_and_accumulate", "add_noise", "state_dict", "load_state_dict"]
        for name in self._names:
            setattr(optimizer, name, getattr(self, name))
        self._inside = self._noisy = False
        self._own_step = optimizer.__dict__.get("step")  # a learning-rate scheduler has put it there
        optimizer.step = types.MethodType(guarded(optimizer.step, self), optimizer)  # type: ignore[method-assign]
        self._disarmed = optimizer.original_optimizer.register_step_pre_hook(self._refuse_raw)
        optimizer.original_optimizer._dpmf_attached = self
        if self.ghost:
            module.get_clipping_coef = self._factors
        optimizer._dpmf_attached = self

    def _refuse_raw(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Before every step of the optimizer that Opacus wrapped, which still is the caller's object."""
        if not (self._inside and self._noisy):
            raise errors.StateError(
                "this optimizer would take a step without noise: step() is for the optimizer that Opacus gave (`optimizer` of what "
                "make_private returned), which wraps this one"
            )
        self._noisy = False

    def _leave(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if getattr(optimizer, "_dpmf_attached", None) is None:  # steps of a second attach have their own epsilon
            self.accountant.steps_after = True

    def _begin(self, module: Any, _inputs: Any) -> None:
        """A forward pass in training mode begins: it must leave the buffers as they are."""
        if module.training and self._untouched is not None and not self._untouched.begun:
            self._untouched.begin()

    # ---- in the place of DPOptimizer's own ----

    def clip_and_accumulate(self) -> None:
        """Clipped gradients on a grid, their sum in integers: Opacus' own sums round, and NaN goes through them."""
        self._check()
        samples = self.optimizer.grad_samples
        for p in self._params:
            if any(getattr(part, "_processed", False) for part in as_list(p.grad_sample)):
                raise errors.ArgumentError("these gradients have been used: call zero_grad() between steps")
        real = self._taken.take(self.noise.step, len(samples[0]), [], None, None)
        if all(p.summed_grad is None for p in self._params):
            self._sum.zero_()
        self._sum.add([g[:real] for g in samples])  # padding of capped batches is behind
        for p in self._params:
            p.summed_grad = self._sum.sum[:0]  # Opacus asks only whether there is one
            for part in as_list(p.grad_sample):
                part._processed = True

    def _factors(self) -> torch.Tensor:
        """In the place of the ghost module's own: between its two backward passes."""
        for p in self._params:  # autocast around the model makes them bfloat16
            check_width(getattr(p, "_norm_sample", p).dtype, "the norm of a gradient")
        norms = self._module.get_norm_sample()
        self._pending = len(norms)
        return factors(norms.double(), float(self.optimizer.max_grad_norm)).to(norms)

    def accumulate(self) -> None:
        """Ghost clipping: the sum of a physical batch, clipped already."""
        self._check()
        if self._pending < 0:
            raise errors.StateError(
                "there are no clipped gradients since the last step: criterion(model(x), y).backward(), with the criterion "
                "that Opacus gave, comes before every step"
            )
        self._taken.take(self.noise.step, self._pending, [], None, None)
        if all(p.summed_grad is None for p in self._params):
            self._sum.zero_()
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        if all(bool(torch.isfinite(g).all()) for g in found):
            self._sum.add_sum(found, self._pending)
        self._pending = -1
        for p in self._params:
            p.summed_grad = self._sum.sum[:0]

    def add_noise(self) -> None:
        """A row of correlated noise for all parameters."""
        self._check()
        step = self.noise.step
        self._group.add_up_(self._sum.sum)
        row, refused = None, None
        try:
            row = self._rows.next(self._sum.digest)
        except Exception as error:  # in one process: the others must not wait for it
            refused = error
        self._group.raise_together(refused)
        assert row is not None
        part = self._sum.noisy(self._shard[0], row, 1.0, row.dtype)
        self._sum.zero_()
        self._taken.close_step(step)
        randomness.seed_for(self._secret, self.noise.step)
        whole = part
        if self._group.world > 1:  # Opacus adds the processes up: each has its own shard, and zeros
            whole = torch.zeros(self.noise.dim, dtype=part.dtype, device=part.device)
            whole[self._shard[0] : self._shard[0] + self._shard[1]] = part
        for p, noisy in zip(self._params, whole.split([p.numel() for p in self._params])):
            p.grad = noisy.view_as(p)
        self._noisy = True

    def _check(self) -> None:
        optimizer = self.optimizer
        if self._untouched is not None:
            self._untouched.check()
        if self._lost:
            raise errors.StateError(NOTHING_LOADED % (self._lost, self.mechanism.steps))
        if self.noise.step >= self.mechanism.steps:
            raise errors.ArgumentError(
                "the mechanism has %d steps, and all have been taken: the run is over" % self.mechanism.steps
            )
        if optimizer.max_grad_norm != self.noise.clip_norm:
            raise errors.StateError(
                "max_grad_norm = %s, and the noise was made for %s" % (optimizer.max_grad_norm, self.noise.clip_norm)
            )
        if optimizer.noise_multiplier != self._multiplier:
            raise errors.StateError(
                "noise_multiplier = %s, and the mechanism has %s" % (optimizer.noise_multiplier, self._multiplier)
            )
        known = {id(p) for p in self._params}
        now = [p for group in optimizer.param_groups for p in group["params"]]
        if [id(p) for p in optimizer.params] != [id(p) for p in self._params] or any(
            id(p) not in known and (p.requires_grad or p.grad is not None) for p in now
        ):
            raise errors.StateError(
                "the optimizer's parameters are not those that the noise was made for: some would be stepped without noise"
            )

    def statement(self, unit: Optional[str] = None) -> str:
        """The guarantee in sentences, and how gradients were clipped; the unit as for dpmf.torch's Private."""
        if unit is not None:
            unit_name(unit)
        self.accountant.check()
        found = self._taken.privacy(None)
        if found is None:
            return "No example has taken part yet.\n"
        clip = float(self.optimizer.max_grad_norm)
        done = self.noise.step if self._ended is None else self._ended
        return said_by_run(self.mechanism, found, unit, clip, done) + (ROUNDED if self.ghost else EXACT + TOGETHER)

    # ---- checkpoints ----

    def state_dict(self) -> Dict[str, Any]:
        """The optimizer's state with the noise state in it."""
        if self._lost:
            raise errors.StateError(NOTHING_LOADED % (self._lost, self.mechanism.steps))
        own = {
            "noise": self.noise.state_dict(),
            "taken": self._taken.state_dict(),
        }
        return {**self.optimizer.original_optimizer.state_dict(), STATE: own}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if STATE not in state or not isinstance(state[STATE], dict) or "noise" not in state[STATE]:
            raise errors.StateError(
                "this optimizer state has no noise state: a run resumed from it would use rows of noise again"
            )
        own = state[STATE]
        self._taken.check_state(own["taken"])
        self.noise.load_state_dict({**own["noise"], "offset": self._shard[0], "count": self._shard[1]})
        self._sum.zero_()
        self._taken.load_state_dict(own["taken"], self.noise.step, self.noise.reserved)
        self.accountant._steps = self.noise.step
        self.optimizer.original_optimizer.load_state_dict({name: part for name, part in state.items() if name != STATE})
        randomness.seed_for(self._secret, self.noise.step)
        self._lost = 0

    def detach(self) -> None:
        """Opacus' own clipping and noise again. Steps that the optimizer takes then are not in the epsilon, which is refused."""
        self._disarmed.remove()
        self.optimizer.original_optimizer.register_step_pre_hook(self._leave)
        self.optimizer.original_optimizer.__dict__.pop("_dpmf_attached", None)
        for name in [*self._names, "_dpmf_attached", "step"]:
            self.optimizer.__dict__.pop(name, None)
        if self._own_step is not None:
            self.optimizer.step = self._own_step
        if self.ghost:
            self._module.__dict__.pop("get_clipping_coef", None)
        if self._begins is not None:
            self._begins.remove()
        self.optimizer.noise_multiplier, self.optimizer.step_hook = self._before
        if self._ended is None:
            self._ended = self.noise.step
        self.noise.close()


def guarded(step: Any, attached: Attached) -> Any:
    """A step of Opacus' optimizer, in which the one that it wraps may step, once noise was added."""

    def guarded_step(_optimizer: Any, closure: Any = None) -> Any:
        attached._inside, attached._noisy = True, False
        try:
            return step(closure)
        finally:
            attached._inside = attached._noisy = False

    guarded_step.__dict__.update(getattr(step, "__dict__", {}))  # the mark of a learning-rate scheduler
    return guarded_step


def as_list(sample: Any) -> List[Any]:
    return sample if isinstance(sample, list) else [sample]
