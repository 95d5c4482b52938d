# SPDX-License-Identifier: Apache-2.0
"""This library's clipping, noise and state in the place of a DPOptimizer's own."""

from __future__ import annotations

import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

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
from ..torch.ghost import check_width, factors, norms_of
from ..torch.group import Group
from ..torch.noise import Rows, make_stream, shard_of
from ..torch.parameters import Untouched, not_finite
from ..torch.private import NOT_FINITE, NOTHING_LOADED, STATE, said_by_run
from ..torch.pytree import flatten
from ..torch.sums import ExactSum
from .accountants import Accountant

#: What is said beside EXACT.
TOGETHER = (
    "Opacus computes a batch at once: where its size is random, one example can change how the gradients of the others round.\n"
)
#: What is said beside ROUNDED.
LEFT_OUT = (
    "Holds for data whose gradients are finite numbers: Opacus adds a physical batch up at once, and where an example makes that sum "
    "NaN or infinite, the whole of it is left out, which is more than one example's part.\n"
)
#: What is said of a run with an optimizer that has had another.
EARLIER = (
    "The optimizer has taken steps in an earlier run, which are not in this epsilon: a dpmf.Ledger adds the runs up.\n"
)
OF_NO_USE = "A parameter of the model is NaN or infinite: the guarantee holds all the same, and the model is of no use.\n"
#: Where a node of autograd's graph has the parameters that it uses inside of their layer.
USES = "dpmf_uses"
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
        self._clipped: List[torch.Tensor] = []  # of ghost clipping: the gradients of _pending examples
        self._ended: Optional[int] = None  # the steps of a run that is over
        self._earlier = getattr(optimizer.original_optimizer, "_dpmf_ran", False)
        model = getattr(module, "_module", module)  # Opacus' wrapper, or its hooks on the model itself
        own = {"%d of the optimizer" % i: p for i, p in enumerate(self._params)}
        self._named: Dict[str, Any] = own if model is None else dict(model.named_parameters())
        self._ids = {id(p) for p in self._params}
        self._finite: List[int] = []  # counts of writes to parameters that were looked at
        self._untouched = None if model is None else Untouched(model, ())
        self._begins = None if model is None else model.register_forward_pre_hook(self._begin)
        self._names = ["accumulate" if self.ghost else "clip_and_accumulate", "add_noise", "scale_grad", "state_dict", "load_state_dict"]
        for name in self._names:
            setattr(optimizer, name, getattr(self, name))
        self._inside = self._noisy = False
        self._own_step = optimizer.__dict__.get("step")  # a learning-rate scheduler has put it there
        optimizer.step = types.MethodType(guarded(optimizer.step, self), optimizer)  # type: ignore[method-assign]
        self._disarmed = optimizer.original_optimizer.register_step_pre_hook(self._refuse_raw)
        optimizer.original_optimizer._dpmf_attached = self
        self._marks: List[Any] = []
        if self.ghost:
            module.get_clipping_coef = self._factors
            self._marks = [m.register_forward_hook(mark_uses, with_kwargs=True) for m in model.modules() if m._parameters]
        optimizer._dpmf_attached = self

    def _refuse_raw(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Before every step of the optimizer that Opacus wrapped, which still is the caller's object."""
        if not (self._inside and self._noisy):
            raise errors.StateError(
                "this optimizer would take a step without noise: step() is for the optimizer that Opacus gave (`optimizer` of what "
                "make_private returned), which wraps this one"
            )
        self._noisy = False

    def _leave(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Before every step after detach(), those of a second attach() too: their epsilon is not this one."""
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

    def _factors(self) -> "Factors":
        """In the place of the ghost module's own: between its two backward passes."""
        seen = [p for p in self._module.trainable_parameters if getattr(p, "_norm_sample", None) is not None]
        for p in seen:  # autocast around the model makes them bfloat16
            check_width(p._norm_sample.dtype, "the norm of a gradient")
        norms = self._module.per_sample_gradient_norms = norms_of(seen)
        for p in seen:
            p._norm_sample = None  # a layer that the next batch does not use must not have the norms of this one
        self._pending = len(norms)
        return Factors(factors(norms, float(self.optimizer.max_grad_norm)).to(self._params[0].dtype), self._clip)

    def _clip(self, loss: torch.Tensor) -> None:
        """The second backward pass, whose gradients are kept where no other loss can add to them."""
        outside = used_outside(loss, {name: p for name, p in self._named.items() if id(p) in self._ids})
        if outside is not None:
            self._pending = -1
            raise errors.UnsupportedError(
                "the parameter %s is used without a call of its layer in training mode, where the hooks of Opacus do not see it: that part "
                "of its gradient would not be clipped. Accepted: dpmf.torch with clipping='per-example'; for a penalty on the weights, the optimizer's "
                "weight_decay" % outside
            )
        for p in self._params:
            p.grad = None
        self._module.disable_hooks()
        try:
            loss.backward()
        finally:
            self._module.enable_hooks()
        self._clipped = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        for p in self._params:
            p.grad = None

    def accumulate(self) -> None:
        """Ghost clipping: the sum of a physical batch, clipped already."""
        self._check()
        if self._pending < 0:
            raise errors.StateError(
                "there are no clipped gradients since the last step: criterion(model(x), y).backward(), with the criterion "
                "that Opacus gave, comes before every step"
            )
        if any(p.grad is not None for p in self._params):
            raise errors.StateError(
                "there are gradients beside the clipped ones: since criterion(model(x), y).backward() another backward(), or code of "
                "yours, has written into .grad, and nothing clips that. Add the losses of each example up, in one criterion"
            )
        self._taken.take(self.noise.step, self._pending, [], None, None)
        if all(p.summed_grad is None for p in self._params):
            self._sum.zero_()
        if all(bool(torch.isfinite(g).all()) for g in self._clipped):
            self._sum.add_sum(self._clipped, self._pending)
        self._pending, self._clipped = -1, []
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

    def scale_grad(self) -> None:
        """By the expected batch alone: Opacus divides by the number of backward passes too, which tells how large a secret batch was."""
        if self.optimizer.loss_reduction == "mean":
            for p in self._params:
                p.grad /= self.optimizer.expected_batch_size

    def _check(self) -> None:
        optimizer = self.optimizer
        if self._untouched is not None:
            self._untouched.check()
        if self._lost:
            raise errors.StateError(NOTHING_LOADED % (self._lost, self.mechanism.steps))
        self._check_finite("before step %d" % self.noise.step)
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
        now = [p for group in optimizer.param_groups for p in group["params"]]
        if [id(p) for p in optimizer.params] != [id(p) for p in self._params] or any(
            id(p) not in self._ids and (p.requires_grad or p.grad is not None) for p in now
        ):
            raise errors.StateError(
                "the optimizer's parameters are not those that the noise was made for: some would be stepped without noise"
            )

    def _check_finite(self, when: str) -> None:
        """Raises if a parameter is not finite: all gradients would be NaN, and each of them adds 0."""
        writes = [p._version for p in self._named.values()]
        if writes == self._finite:
            return
        found = not_finite(self._named)
        if found is not None:
            self.discard()
            raise errors.NumericalError(NOT_FINITE % (found, when))
        self._finite = writes

    def discard(self) -> None:
        """Forgets the gradients that are in no step yet, and the batches that the loader has given for them."""
        self._sum.zero_()
        self._taken.forget()
        self._pending, self._clipped = -1, []
        for p in self._params:
            p.grad = p.grad_sample = p.summed_grad = None

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
        said = said_by_run(self.mechanism, found, unit, clip, done) + (ROUNDED + LEFT_OUT if self.ghost else EXACT + TOGETHER)
        return said + (EARLIER if self._earlier else "") + (OF_NO_USE if not_finite(self._named) is not None else "")

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
        self.discard()
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
            for hook in self._marks:
                hook.remove()
        if self._begins is not None:
            self._begins.remove()
        self.optimizer.noise_multiplier, self.optimizer.step_hook = self._before
        if self._ended is None:
            self._ended = self.noise.step
        if self._ended > 0:
            self.optimizer.original_optimizer._dpmf_ran = True
        self.noise.close()


class Factors:
    """What Opacus multiplies the losses of a batch with.

    The product, which torch would broadcast, and its gradient are formed here: what Opacus gets is a 0.
    """

    def __init__(self, factors: torch.Tensor, clip: Callable[[torch.Tensor], None]):
        self._factors, self._clip = factors, clip

    def to(self, *_: Any) -> "Factors":
        return self

    def __mul__(self, losses: torch.Tensor) -> torch.Tensor:
        count = len(self._factors)
        if losses.dim() < 1 or tuple(losses.shape) != (count,) + (1,) * (losses.dim() - 1):
            raise errors.ArgumentError(
                "criterion: losses of shape %s for %d examples, accepted: one loss for each example, (%d,) or (%d, 1). Other losses "
                "cannot be clipped by example: add up those of an example first; for sequences, Opacus' criterion takes shape="
                % (tuple(losses.shape), count, count, count)
            )
        self._clip(self.scaled(losses.reshape(count)).sum())
        return torch.zeros((), requires_grad=True)

    def scaled(self, losses: torch.Tensor) -> torch.Tensor:
        return self._factors.to(losses.device) * losses


def guarded(step: Any, attached: Attached) -> Any:
    """A step of Opacus' optimizer, in which the one that it wraps may step, once noise was added."""

    def guarded_step(_optimizer: Any, closure: Any = None) -> Any:
        attached._inside, attached._noisy = True, False
        before = attached.noise.step
        try:
            result = step(closure)
        finally:
            attached._inside = attached._noisy = False
        if attached.noise.step > before:  # the weights have their noise: that one of them is not finite reveals nothing else
            attached._finite = []
            attached._check_finite("after step %d" % before)
        return result

    guarded_step.__dict__.update(getattr(step, "__dict__", {}))  # the mark of a learning-rate scheduler
    return guarded_step


def mark_uses(module: Any, positional: Any, named: Any, outputs: Any) -> None:
    """After a forward pass of a layer: notes in autograd's nodes that they use its parameters inside of it."""
    if not (module.training and torch.is_grad_enabled()):
        return  # Opacus' hooks look away too
    own = {id(p) for p in module._parameters.values() if p is not None}
    stop = {t.grad_fn for t in flatten((positional, named))[0] if t.grad_fn is not None}
    for node, parameter in uses([t.grad_fn for t in flatten(outputs)[0] if t.grad_fn is not None], stop):
        if id(parameter) in own:
            node.metadata.setdefault(USES, set()).add(id(parameter))


def used_outside(loss: torch.Tensor, parameters: Dict[str, Any]) -> Optional[str]:
    """The name of a trained parameter that the loss depends on by another way than its layer; None: there is none."""
    names = {id(p): name for name, p in parameters.items()}
    for node, parameter in uses([loss.grad_fn], set()):
        if id(parameter) in names and id(parameter) not in node.metadata.get(USES, ()):
            return names[id(parameter)]
    return None


def uses(nodes: List[Any], stop: Set[Any]) -> Iterator[Tuple[Any, Any]]:
    """(node, parameter) of every use of a leaf in autograd's graph, from these nodes on and not beyond `stop`."""
    nodes, seen = [node for node in nodes if node not in stop], set(stop)
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if type(following).__name__ == "AccumulateGrad":
                yield node, following.variable
            elif following is not None and following not in seen:
                nodes.append(following)


def as_list(sample: Any) -> List[Any]:
    return sample if isinstance(sample, list) else [sample]
