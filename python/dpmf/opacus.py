# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for Opacus: its clipping and data loading, this library's noise and accounting.

    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader,
                                                   noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False)
    dpmf.opacus.attach(optimizer, mechanism, key="run.key", privacy_engine=engine)

The noise multiplier handed to Opacus is replaced by the mechanism's. Batches must be drawn as the mechanism assumes
(`mechanism.participation`, `mechanism.sampling`): a loader in a fixed order for cyclic participation, for one.
"""

from __future__ import annotations

from typing import Any, Dict

import torch
from opacus.accountants import IAccountant
from opacus.optimizers import DPOptimizer

from . import errors
from .keys import KeyLike
from .mechanism import Mechanism
from .noise import NoiseStream
from .torch.noise import HostNoise, shard_of, shard_views
from .torch.private import STATE

__all__ = ["Accountant", "Attached", "attach"]


class Accountant(IAccountant):
    """Reports the guarantee of the whole run, whatever part of it is done: correlated noise is one release."""

    def __init__(self, mechanism: Mechanism):
        self.history: Any = []
        self._mechanism, self._steps = mechanism, 0

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        self._steps += 1

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        return self._mechanism.privacy(delta).epsilon

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


class Attached:
    """What `attach` put on an optimizer; `detach` takes it off."""

    def __init__(self, optimizer: DPOptimizer, mechanism: Mechanism, key: KeyLike, options: Dict[str, Any]):
        self.optimizer, self.mechanism = optimizer, mechanism
        self.accountant = Accountant(mechanism)
        params = optimizer.params
        kinds = {(p.dtype, p.device) for p in params}
        if len(kinds) != 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
            raise errors.ArgumentError(
                "parameters of %s: one device, and float32 or float64, are accepted" % sorted(map(str, kinds))
            )
        dtype, device = kinds.pop()
        dim = sum(p.numel() for p in params)
        # Opacus adds up the gradients of its processes after the noise: each adds the noise of its shard.
        self._shard = shard_of(dim, getattr(optimizer, "rank", 0), getattr(optimizer, "world_size", 1))
        if options.get("state") is not None:
            options.setdefault("replay", True)
        stream = NoiseStream(
            mechanism,
            dim,
            optimizer.max_grad_norm,
            key,
            dtype=str(dtype).replace("torch.", ""),
            offset=self._shard[0],
            count=self._shard[1],
            **options,
        )
        self.noise: Any = stream if device.type == "cpu" else HostNoise(stream, dtype, device.type == "cuda")
        self._before = (optimizer.noise_multiplier, optimizer.step_hook)
        # The standard deviation of the seeds over the clip norm; nothing here is computed from it.
        self._multiplier = optimizer.noise_multiplier = (mechanism.sigma or 1.0) * mechanism.sensitivity.value
        optimizer.attach_step_hook(lambda _: self.accountant.step(noise_multiplier=self._multiplier, sample_rate=0.0))
        optimizer.add_noise, optimizer.state_dict = self.add_noise, self.state_dict
        optimizer.load_state_dict = self.load_state_dict

    def add_noise(self) -> None:
        """In place of DPOptimizer.add_noise: a row of correlated noise for all parameters, in one call."""
        optimizer = self.optimizer
        if optimizer.max_grad_norm != self.noise.clip_norm:
            raise errors.StateError(
                "max_grad_norm = %s, and the noise was made for %s" % (optimizer.max_grad_norm, self.noise.clip_norm)
            )
        if optimizer.noise_multiplier != self._multiplier:
            raise errors.StateError(
                "noise_multiplier = %s, and the mechanism has %s" % (optimizer.noise_multiplier, self._multiplier)
            )
        sums = []
        for p in optimizer.params:
            if getattr(p.summed_grad, "_processed", False):
                raise errors.ArgumentError("these gradients have been used: call zero_grad() between steps")
            sums.append(p.summed_grad.contiguous().view_as(p))
        self.noise.add_(shard_views(sums, *self._shard))
        for p, total in zip(optimizer.params, sums):
            p.grad = total
            p.summed_grad._processed = True

    def state_dict(self) -> Dict[str, Any]:
        """The optimizer's state with the noise state in it."""
        return {**self.optimizer.original_optimizer.state_dict(), STATE: self.noise.state_dict()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if STATE not in state:
            raise errors.StateError(
                "this optimizer state has no noise state: a run resumed from it would use rows of noise again"
            )
        noise = {**state[STATE], "offset": self._shard[0], "count": self._shard[1]}
        self.noise.load_state_dict(noise)
        self.accountant._steps = self.noise.step
        self.optimizer.original_optimizer.load_state_dict({name: part for name, part in state.items() if name != STATE})

    def detach(self) -> None:
        """Opacus' own noise again."""
        for name in ("add_noise", "state_dict", "load_state_dict"):
            self.optimizer.__dict__.pop(name, None)
        self.optimizer.noise_multiplier, self.optimizer.step_hook = self._before
        self.noise.close()


def attach(
    optimizer: DPOptimizer, mechanism: Mechanism, key: KeyLike = None, *, privacy_engine: Any = None, **options: Any
) -> Attached:
    """Puts the mechanism's noise in the place of Opacus' own, and the whole run's epsilon in that of its accountant.

    options: of NoiseStream (state, label, prefetch, threads, ...). The noise state is in optimizer.state_dict() from then
    on, and loading one without it is an error.
    """
    if not isinstance(optimizer, DPOptimizer):
        raise errors.ArgumentError("%s is not a DPOptimizer of Opacus" % type(optimizer).__name__)
    if not isinstance(optimizer.max_grad_norm, (int, float)):
        raise errors.UnsupportedError("clipping layer by layer has no one clip norm: flat clipping is accepted")
    if mechanism.sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
    if getattr(optimizer, "world_size", 1) > 1 and key is None:
        raise errors.ArgumentError("key: %d processes need the same one" % optimizer.world_size)
    attached = Attached(optimizer, mechanism, key, options)
    if privacy_engine is not None:
        privacy_engine.accountant = attached.accountant
    return attached
