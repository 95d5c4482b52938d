# SPDX-License-Identifier: Apache-2.0
"""Attacks on a ledger from Python: runs that cost nothing because a run of their name is in it."""

import unittest
import warnings

from story import Case, dpmf, mechanism

try:
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    import dpmf.opacus
except ImportError:
    LedgerAccountant = None
else:
    LedgerAccountant = dpmf.opacus.LedgerAccountant

SMALL = {"noise_multiplier": 10.0, "sample_rate": 0.01, "steps": 10}


class Names(Case):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "ledger.json"

    def test_another_run_under_the_same_name(self):
        """A small run is entered under a name, and then a large one under the same name.

        Before, a name that was in the ledger was a run that is resumed, for any noise and steps: with a budget of 1 the
        ledger said 0.0102 of runs whose epsilon is 23 770. Now sigma, sampling, steps and times are compared.
        """
        ledger = dpmf.Ledger(self.path, budget=(1.0, 1e-6))
        same = {"name": "model", "sampling": "poisson:0.01", "steps": 10}
        self.assertTrue(ledger.enter_account(10.0, **same))
        self.assertFalse(ledger.enter_account(10.0, **same))
        spent = ledger.epsilon().epsilon
        for sigma, other in (
            (0.3, {}),
            (10.0, {"steps": 10000}),
            (10.0, {"sampling": "poisson:0.5"}),
            (10.0, {"sampling": "none"}),
            (10.0, {"times": 1000}),
        ):
            self.refused(dpmf.ArgumentError, "another name", ledger.enter_account, sigma, **{**same, **other})
        self.refused(dpmf.ArgumentError, "adjacency", ledger.enter_account, 10.0, **same, adjacency="replace-one")
        self.assertEqual((len(ledger), ledger.epsilon().epsilon), (1, spent))

    def test_more_runs_of_one_mechanism_and_key(self):
        """The same with a mechanism, whose key and digest are the name: one run, and then a hundred for nothing."""
        ledger, m, key = dpmf.Ledger(self.path), mechanism("toeplitz", 16, sigma=None, epsilon=1.0, delta=1e-6), dpmf.create_key()
        self.assertTrue(ledger.enter(m, key))
        self.refused(dpmf.ArgumentError, "100 times", ledger.enter, m, key, times=100)
        self.assertFalse(ledger.enter(m, key))


@unittest.skipIf(LedgerAccountant is None, "opacus is not installed")
class Steps(Case):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "ledger.json"

    def take(self, accountant, steps):
        for _ in range(steps):
            accountant.step(noise_multiplier=10.0, sample_rate=0.01)

    def test_the_same_cell_three_times(self):
        """A notebook's cell reserves 10 steps, and is run three times. Before, 30 steps were allowed, and 10 were in the ledger."""
        accountant = LedgerAccountant(self.path, budget=(1.0, 1e-6))
        self.assertEqual([accountant.reserve(name="run", **SMALL) for _ in range(3)], [True, False, False])
        self.take(accountant, 10)
        self.refused(dpmf.StateError, "step 11", self.take, accountant, 1)
        self.assertTrue(accountant.reserve(**SMALL))  # a separate run, which is entered
        self.take(accountant, 10)
        self.assertEqual(sum(e["compositions"] for e in dpmf.Ledger(self.path).entries), 20)

    def test_a_louder_run_under_the_same_name(self):
        """Before, 10 000 steps of noise 0.3 at rate 0.5 were taken under the name of 10 quiet ones, and cost nothing."""
        LedgerAccountant(self.path, budget=(1.0, 1e-6)).reserve(name="model", **SMALL)
        other = LedgerAccountant(self.path)
        for changed in ({"noise_multiplier": 0.3, "sample_rate": 0.5, "steps": 10000}, {"steps": 11}):
            self.refused(dpmf.ArgumentError, "another name", other.reserve, name="model", **{**SMALL, **changed})
        self.refused(dpmf.StateError, "not reserved", other.step, noise_multiplier=0.3, sample_rate=0.5)

    def test_a_run_that_begins_again_under_its_name(self):
        """A script is run a second time, from nothing: Opacus draws other noise, so that it is a second run.

        Before, it was taken for the first one, resumed, and all its steps were free. Now a run that is in the ledger takes
        steps after its state is loaded, and only those that are left.
        """
        first = LedgerAccountant(self.path)
        first.reserve(name="run", **SMALL)
        self.take(first, 7)
        again = LedgerAccountant(self.path)
        self.assertFalse(again.reserve(name="run", **SMALL))
        self.refused(dpmf.StateError, "no state of it is loaded", self.take, again, 1)
        again.load_state_dict(first.state_dict())
        self.take(again, 3)
        self.refused(dpmf.StateError, "step 11", self.take, again, 1)
        third = LedgerAccountant(self.path)
        third.load_state_dict(first.state_dict())  # before reserve: the same
        self.assertFalse(third.reserve(name="run", **SMALL))
        self.take(third, 3)
        self.refused(dpmf.StateError, "step 11", self.take, third, 1)
        other = LedgerAccountant(self.path)  # the state of another run says nothing about this one
        other.reserve(name="other", **SMALL)
        second = LedgerAccountant(self.path)
        second.load_state_dict(other.state_dict())
        second.reserve(name="run", **SMALL)
        self.refused(dpmf.StateError, "no state of it is loaded", self.take, second, 1)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
