# SPDX-License-Identifier: Apache-2.0
"""What takes the place of Opacus' accountant: the guarantee of a whole run, or a ledger for runs of Opacus itself."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Set, Tuple

from opacus.accountants import IAccountant

from .. import errors
from .._library import integer, real
from ..ledger import Ledger
from ..mechanism import Mechanism

#: (noise multiplier, sampling rate, steps) of a run that is reserved.
Run = Tuple[float, float, int]


class Accountant(IAccountant):
    """Reports the guarantee of the whole run, at any point of it: correlated noise is one release.

    Where the loader could not be checked (`counted`): of the actual run so far, by the participations of every example; before
    the first step that is an error.

    replaced    the accountant in whose place this one is, if there is one: there is no epsilon once that one has steps
    """

    def __init__(self, mechanism: Mechanism, taken: Any):
        self.history: Any = []
        self.replaced: Optional[IAccountant] = None
        self._mechanism, self._taken, self._steps = mechanism, taken, 0
        self.steps_after = False  # the optimizer went on, without this library's noise or in another run

    def check(self) -> None:
        """Raises if the run has steps that no figure here covers."""
        if self.steps_after:
            raise errors.StateError(
                "the optimizer took steps after detach(), which are not of this run: no epsilon here covers them. Ask before them, or "
                "account for the rest separately"
            )

    @property
    def counted(self) -> bool:
        return self._taken.counted

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        self._steps += 1

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        self.check()
        replaced = self.replaced
        while replaced is not None:
            if len(replaced) > 0:
                raise errors.StateError(
                    "an accountant that this one has replaced in its PrivacyEngine has steps, of another optimizer: no epsilon here "
                    "covers them. Give each optimizer an engine of its own, and add the runs up in a dpmf.Ledger"
                )
            replaced = getattr(replaced, "replaced", None)
        found = self._taken.privacy(delta)
        if found is None:
            most = self._taken.foreseen(delta)
            raise errors.StateError(
                "no example has taken part yet, and the loader is counted, so that there is no epsilon to report: 0 would be that of "
                "a run that does not begin. %s"
                % ("It is reported from the first step on" if most is None else
                   "All %d steps with this loader come to %.4g at most" % (self._mechanism.steps, most.epsilon))
            )
        return found.epsilon

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

    `reserve` enters the run before it begins, and raises when the budget would be passed. A `name` that is in the ledger already
    is a resumed run: it must have the same noise, rate and steps, is not entered again, and its steps count once. In another
    process it takes steps only after its state is loaded (load_state_dict, or PrivacyEngine.load_checkpoint), which holds the number of
    those that were taken: a run that begins again from nothing needs another name. A step that was not reserved raises before the
    optimizer moves.
    `get_epsilon` is of everything in the ledger together, reserved runs in full, in the certified engine.

    Opacus' noise is new in every process. Steps that were taken after the loaded checkpoint are taken again with other noise:
    nothing that they gave the first time may be released.
    """

    def __init__(self, ledger: Any, budget: Any = None):
        self.history: Any = []
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger, budget)
        self._reserved: Dict[str, Run] = {}
        self._known: Set[str] = set()  # runs whose state is loaded

    def reserve(self, *, noise_multiplier: float, sample_rate: float, steps: int, name: Any = None) -> bool:
        """Enters `steps` steps; False: this run is in the ledger already."""
        run = (real(noise_multiplier, "noise_multiplier"), real(sample_rate, "sample_rate"), integer(steps, "steps"))
        called = os.urandom(16).hex() if name is None else name
        if run[2] < 1:
            raise errors.ArgumentError("steps = %d, accepted: 1 or more" % run[2])
        entered = self._ledger.enter_account(
            run[0], name=called, what="opacus", sampling="poisson:%r" % run[1], steps=run[2]
        )
        if entered:
            self._known.add(called)
        self._reserved[called] = run
        return entered

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        kind = (noise_multiplier, sample_rate)
        waiting = sorted(name for name in set(self._reserved) - self._known if self._reserved[name][:2] == kind)
        if waiting:
            raise errors.StateError(
                "the ledger has the run %r already, and no state of it is loaded: it is not known how many of its steps were taken. "
                "Load its checkpoint (load_state_dict), or reserve a new run under another name" % waiting[0]
            )
        taken = sum(n for s, q, n in self.history if (s, q) == kind)
        reserved = sum(n for s, q, n in self._reserved.values() if (s, q) == kind)
        if taken >= reserved:
            raise errors.StateError(
                "step %d with noise %g and rate %g was not reserved: reserve() enters it in the ledger first"
                % (taken + 1, noise_multiplier, sample_rate)
            )
        if self.history and self.history[-1][:2] == kind:
            self.history[-1] = (*kind, self.history[-1][2] + 1)
        else:
            self.history.append((*kind, 1))

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self.history = [tuple(row) for row in self.history]
        self._known.update(state_dict.get("reserved", self._reserved))  # a state of an older version has no names

    def state_dict(self, destination: Any = None) -> Any:
        destination = super().state_dict(destination)
        destination["reserved"] = sorted(self._reserved)
        return destination

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        return self._ledger.epsilon(delta).epsilon

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "dpmf-ledger"
