# SPDX-License-Identifier: Apache-2.0
"""What takes the place of Opacus' accountant: the guarantee of a whole run, or a ledger for runs of Opacus itself."""

from __future__ import annotations

from typing import Any, Dict

from opacus.accountants import IAccountant

from .. import errors
from ..ledger import Ledger
from ..mechanism import Mechanism


class Accountant(IAccountant):
    """Reports the guarantee of the whole run, at any point of it: correlated noise is one release.

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
    already is a resumed run, and is not entered again. A step that was not reserved raises before the optimizer moves.
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
