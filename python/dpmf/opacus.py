# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for Opacus: its hooks and data loading, this library's clipping, noise and accounting.

    made = dpmf.opacus.make_private(model, optimizer, loader, mechanism, clip_norm=1.0, key="run.key")

or, where PrivacyEngine.make_private is called already, beside it:

    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader,
                                                   noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False)
    dpmf.opacus.attach(optimizer, mechanism, key="run.key", loader=loader, privacy_engine=engine)

The noise multiplier handed to Opacus is replaced by the mechanism's. Batches must be drawn as the mechanism assumes
(`mechanism.participation`, `mechanism.sampling`): a loader in a fixed order for cyclic participation, for one. The loader is
held against that; one that cannot be is counted, and the epsilon that is reported is that of the run that happened.

Ghost clipping (grad_sample_mode="ghost") is accepted with a weaker statement, `Attached.statement`: norms and sums are
Opacus' own, in floating point. An example whose gradient is not finite has the factor 0; where its NaN gets into the sum of
its physical batch nevertheless, that sum is left out, because releasing it or refusing it would tell of the example. What is
left out is then more than one example's part, so that the guarantee holds for data without such values only; dpmf.torch's
own ghost route computes such batches again without the example.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import torch
from opacus import PrivacyEngine
from opacus.accountants import IAccountant
from opacus.optimizers import DPOptimizer
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer
from opacus.optimizers.ddpoptimizer_fast_gradient_clipping import DistributedDPOptimizerFastGradientClipping
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping

from . import errors
from ._library import real
from .keys import KeyLike
from .ledger import Ledger
from .mechanism import Mechanism
from .torch import randomness
from .torch.batches import BatchSampler
from .torch.clipping import EXACT, ROUNDED
from .torch.ghost import factors
from .torch.group import Group
from .torch.make import check_arguments, check_part
from .torch.noise import Rows, make_stream, shard_of
from .torch.private import NOTHING_LOADED, STATE
from .torch.sums import ExactSum
from .torch.taken import taken_of

__all__ = ["Accountant", "Attached", "LedgerAccountant", "Made", "attach", "make_private"]

GHOST = (DPOptimizerFastGradientClipping, DistributedDPOptimizerFastGradientClipping)


class Accountant(IAccountant):
    """Reports the guarantee of the whole run, whatever part of it is done: correlated noise is one release.

    Where the loader could not be checked (`counted`): of the run that happened so far, by the participations of every
    example.
    """

    def __init__(self, mechanism: Mechanism, taken: Any):
        self.history: Any = []
        self._mechanism, self._taken, self._steps = mechanism, taken, 0

    @property
    def counted(self) -> bool:
        return self._taken.counted

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        self._steps += 1

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        found = self._taken.privacy(delta)
        return 0.0 if found is None else found.epsilon

    def __len__(self) -> int:
        return self._steps

    @classmethod
    def mechanism(cls) -> str:
        return "dpmf"

    def state_dict(self, destination: Any = None) -> Any:
        destination = {} if destination is None else destination
        destination.update(mechanism=self.mechanism(), history=[], steps=self._steps, digest=self._mechanism.digest)
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        if state_dict.get("digest") != self._mechanism.digest:
            raise errors.StateError(
                "the accountant's state belongs to the mechanism %s, and this one is %s"
                % (state_dict.get("digest"), self._mechanism.digest)
            )
        self._steps = state_dict["steps"]


class LedgerAccountant(IAccountant):
    """Opacus' own runs (Poisson-sampled, independent noise) in a ledger, beside everything else on the same data.

        accountant = LedgerAccountant("ledger.json", budget=(8.0, 1e-6))
        accountant.reserve(noise_multiplier=1.1, sample_rate=0.01, steps=1000)
        optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=0.01))

    `reserve` enters the run before it begins, and raises when the budget would be passed; a `name` that is in the ledger
    already is a run that goes on, and is not entered again. A step that was not reserved raises before the optimizer moves.
    `get_epsilon` is of everything in the ledger together, reserved runs in full, in the certified engine.
    """

    def __init__(self, ledger: Any, budget: Any = None):
        self.history: Any = []
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, budget)
        self._reserved: Dict[Any, int] = {}

    def reserve(self, *, noise_multiplier: float, sample_rate: float, steps: int, name: Any = None) -> bool:
        """Enters `steps` steps; False: a run of that name is in the ledger already."""
        entered = self._ledger.enter_account(
            noise_multiplier, name=name, what="opacus", sampling="poisson:%r" % sample_rate, steps=steps
        )
        kind = (noise_multiplier, sample_rate)
        self._reserved[kind] = self._reserved.get(kind, 0) + steps
        return entered

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        kind = (noise_multiplier, sample_rate)
        taken = sum(n for s, q, n in self.history if (s, q) == kind)
        if taken >= self._reserved.get(kind, 0):
            raise errors.StateError(
                "step %d with noise %g and rate %g was not reserved: reserve() enters it in the ledger first"
                % (taken + 1, noise_multiplier, sample_rate)
            )
        if self.history and self.history[-1][:2] == kind:
            self.history[-1] = (*kind, self.history[-1][2] + 1)
        else:
            self.history.append((*kind, 1))

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        return self._ledger.epsilon(delta).epsilon

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "dpmf-ledger"


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
        self._lost = self._group.worst(self.noise.reserved)
        self._before = (optimizer.noise_multiplier, optimizer.step_hook)
        # The standard deviation of the seeds over the clip norm; nothing here is computed from it.
        self._multiplier = optimizer.noise_multiplier = (mechanism.sigma or 1.0) * mechanism.sensitivity.value
        optimizer.attach_step_hook(lambda _: self.accountant.step(noise_multiplier=self._multiplier, sample_rate=0.0))
        self.ghost = isinstance(optimizer, GHOST)
        self._module, self._pending = module, -1
        self._names = ["accumulate" if self.ghost else "clip_and_accumulate", "add_noise", "state_dict", "load_state_dict"]
        for name in self._names:
            setattr(optimizer, name, getattr(self, name))
        if self.ghost:
            module.get_clipping_coef = self._factors
        optimizer._dpmf_attached = self

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
            if self.noise.keeps_state:
                self.noise.bind_sum(self._sum.digest())
            row = self._rows.next()
        except Exception as error:  # in one process: the others must not wait for it
            refused = error
        self._group.raise_together(refused)
        assert row is not None
        part = self._sum.noisy(self._shard[0], row, 1.0, row.dtype)
        self._sum.zero_()
        self._taken.close_step(step)
        whole = part
        if self._group.world > 1:  # Opacus adds the processes up: each has its own shard, and zeros
            whole = torch.zeros(self.noise.dim, dtype=part.dtype, device=part.device)
            whole[self._shard[0] : self._shard[0] + self._shard[1]] = part
        for p, noisy in zip(self._params, whole.split([p.numel() for p in self._params])):
            p.grad = noisy.view_as(p)

    def _check(self) -> None:
        optimizer = self.optimizer
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

    def statement(self, unit: str = "example") -> str:
        """The guarantee in sentences, and how gradients were clipped."""
        found = self._taken.privacy(None)
        if found is None:
            return "Nobody has taken part yet.\n"
        return found.statement(unit) + (ROUNDED if self.ghost else EXACT)

    # ---- checkpoints ----

    def state_dict(self) -> Dict[str, Any]:
        """The optimizer's state with the noise state in it."""
        if self._lost:
            raise errors.StateError(NOTHING_LOADED % (self._lost, self.mechanism.steps))
        own = {
            "noise": self.noise.state_dict(),
            "random": randomness.states(),
            "taken": self._taken.state_dict(),
        }
        return {**self.optimizer.original_optimizer.state_dict(), STATE: own}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if STATE not in state or not isinstance(state[STATE], dict) or "random" not in state[STATE]:
            raise errors.StateError(
                "this optimizer state has no noise state: a run resumed from it would use rows of noise again"
            )
        own = state[STATE]
        self.noise.load_state_dict({**own["noise"], "offset": self._shard[0], "count": self._shard[1]})
        self._sum.zero_()
        self._taken.load_state_dict(own["taken"], self.noise.step)
        self.accountant._steps = self.noise.step
        self.optimizer.original_optimizer.load_state_dict({name: part for name, part in state.items() if name != STATE})
        randomness.restore(own["random"])
        self._lost = 0

    def detach(self) -> None:
        """Opacus' own clipping and noise again."""
        for name in [*self._names, "_dpmf_attached"]:
            self.optimizer.__dict__.pop(name, None)
        if self.ghost:
            self._module.__dict__.pop("get_clipping_coef", None)
        self.optimizer.noise_multiplier, self.optimizer.step_hook = self._before
        self.noise.close()


def as_list(sample: Any) -> List[Any]:
    return sample if isinstance(sample, list) else [sample]


def attach(
    optimizer: DPOptimizer,
    mechanism: Mechanism,
    key: KeyLike = None,
    *,
    loader: Any = None,
    privacy_engine: Any = None,
    module: Any = None,
    state: Any = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    lookahead: int = 0,
    scratch: Any = None,
    threads: int = 0,
) -> Attached:
    """Puts the mechanism's noise in the place of Opacus' own, and the epsilon of the run in that of its accountant.

    loader     what batches come from: the DataLoader that Opacus gave, or a dpmf.torch.BatchSampler. A BatchSampler, and a
               loader in the data's own order, are held against the mechanism. The participations in any other are counted:
               `attached.accountant.counted`, and the epsilon is that of the run that happened so far
    module     for ghost clipping: the module that Opacus gave, whose clipping factors are computed here
    state, label, prefetch, lookahead, scratch, threads    as for NoiseStream. The noise state is in optimizer.state_dict() from then
               on, and loading one without it is an error
    """
    if not isinstance(mechanism, Mechanism):
        raise errors.ArgumentTypeError("mechanism is a %s, a Mechanism is accepted" % type(mechanism).__name__)
    if not isinstance(optimizer, DPOptimizer):
        raise errors.ArgumentTypeError("optimizer: %s is not a DPOptimizer of Opacus" % type(optimizer).__name__)
    if type(optimizer) not in (DPOptimizer, DistributedDPOptimizer, *GHOST):
        raise errors.UnsupportedError(
            "%s: one clip norm for all layers and all steps, and whole parameters, are accepted (DPOptimizer, ghost clipping)"
            % type(optimizer).__name__
        )
    if type(optimizer) in GHOST and not hasattr(module, "get_norm_sample"):
        raise errors.ArgumentError("module: ghost clipping needs the module that Opacus gave")
    if getattr(optimizer, "_dpmf_attached", None) is not None:
        raise errors.ArgumentError("this optimizer has its noise already: detach it first")
    if mechanism.sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
    options = {
        "state": state,
        "label": label,
        "prefetch": prefetch,
        "lookahead": lookahead,
        "scratch": scratch,
        "threads": threads,
    }
    mechanism.confirm()
    if loader is None:
        raise errors.ArgumentError(
            "loader: without the loader nobody knows who takes part, and any epsilon would be a guess. Give the DataLoader "
            "that Opacus gave, or a dpmf.torch.BatchSampler"
        )
    rank, world = getattr(optimizer, "rank", 0), getattr(optimizer, "world_size", 1)
    if world > 1 and key is None:
        raise errors.ArgumentError("key: %d processes need the same one" % world)
    batches = loader if isinstance(loader, BatchSampler) else getattr(loader, "batch_sampler", None)
    check_part(batches, rank, world)
    attached = Attached(optimizer, mechanism, key, taken_of(mechanism, loader), options, module)
    if isinstance(batches, BatchSampler):
        batches.follow(lambda: attached.noise.step)
        # Opacus takes the loader's batches for one epoch, and these are those of all epochs.
        optimizer.expected_batch_size = batches.expected_batch / world
    if privacy_engine is not None:
        privacy_engine.accountant = attached.accountant
    return attached


class Made(NamedTuple):
    """What make_private gives; to be used in the places of those that it was given."""

    model: Any
    optimizer: DPOptimizer
    criterion: Any
    loader: Any
    engine: PrivacyEngine
    attached: Attached


def make_private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: torch.utils.data.DataLoader,
    mechanism: Mechanism,
    clip_norm: float,
    *,
    key: KeyLike = None,
    criterion: Any = None,
    clipping: str = "per-example",
    privacy_engine: Optional[PrivacyEngine] = None,
    wrap_model: bool = True,
    state: Any = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    lookahead: int = 0,
    scratch: Any = None,
    threads: int = 0,
) -> Made:
    """PrivacyEngine.make_private and `attach` in one call.

    loader      a DataLoader in the data's own order, dpmf.torch.data_loader(data, sampler), or any other, which is counted
    criterion   for ghost clipping, a module such as torch.nn.CrossEntropyLoss() (None): losses go through what is returned,
                criterion(model(x), y).backward()
    clipping    "per-example": gradients of Opacus' hooks, clipped and summed exactly; "ghost": its two backward passes
    wrap_model  False: hooks on the model itself, which stays what it is (for models of HuggingFace)
    state, label, prefetch, lookahead, scratch, threads    as for NoiseStream
    """
    modes = {"per-example": "hooks", "ghost": "ghost"}
    if clipping not in modes:
        raise errors.ArgumentError("clipping = %r, accepted: %s" % (clipping, ", ".join(modes)))
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise errors.ArgumentError("loader: a %s, a torch DataLoader is accepted" % type(loader).__name__)
    check_arguments(model, optimizer, mechanism)
    clip_norm = real(clip_norm, "clip_norm")
    if not 2.0**-100 <= clip_norm <= 2.0**100:
        raise errors.ArgumentError("clip_norm = %g, accepted: 2^-100 to 2^100" % clip_norm)
    engine = PrivacyEngine() if privacy_engine is None else privacy_engine
    criterion = torch.nn.CrossEntropyLoss() if criterion is None else criterion
    found = engine.make_private(
        module=model,
        optimizer=optimizer,
        criterion=criterion,
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=clip_norm,
        poisson_sampling=False,
        grad_sample_mode=modes[clipping],
        wrap_model=wrap_model,
    )
    module, private = found[0], found[1]
    if clipping == "ghost":
        criterion = found[2]
    try:
        attached = attach(
            private,
            mechanism,
            key,
            loader=found[-1],
            privacy_engine=engine,
            module=module,
            state=state,
            label=label,
            prefetch=prefetch,
            lookahead=lookahead,
            scratch=scratch,
            threads=threads,
        )
    except Exception:
        module.cleanup() if hasattr(module, "cleanup") else None
        raise
    return Made(module if wrap_model else model, private, criterion, found[-1], engine, attached)
