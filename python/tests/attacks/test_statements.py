# SPDX-License-Identifier: Apache-2.0
"""Statements that claim more than what was computed: of runs that are not covered, of arithmetic, of units."""

import pickle
import unittest

from story import KEY, Case, Inner, dpmf, inner_loss, mechanism, torch

WHOLE = "All noisy outputs of the run together"


def calibrated(**options):
    return mechanism("toeplitz", 20, sigma=None, epsilon=1.0, delta=1e-6, **options)


class Scopes(Case):
    def said(self, privacy):
        """The statement, which pickle keeps."""
        text = privacy.statement("user")
        self.assertEqual(pickle.loads(pickle.dumps(privacy)).statement("user"), text)
        self.assertIn("Privacy unit: one user.", text)
        return text

    def test_the_best_of_several_runs(self):
        """Somebody publishes all runs of a search under the statement of best_of.

        Before, it claimed its epsilon for "all noisy outputs of the run", and that the choice of hyper-parameters was not
        accounted for, which is the one thing that it is about. Now it says that only the best run is covered, and on what condition.
        """
        text = self.said(dpmf.best_of("negative-binomial:1,0.1", of=calibrated(), delta=1e-6))
        self.assertNotIn(WHOLE, text)
        self.assertIn("all noisy outputs of the best of a random number of runs (negative-binomial:1,0.1)", text)
        self.assertIn("the outputs and scores of the other runs, and the number of runs, must not be released", text)
        self.assertIn("the choice among these settings is accounted for", text)
        self.assertNotIn("hyper-parameters chosen on the same data are not accounted for", text)

    def test_the_first_steps(self):
        """The guarantee of the first 8 of 20 steps, printed after all 20: before, its statement was about the whole run."""
        m = calibrated()
        text = self.said(m.first(8))
        self.assertNotIn(WHOLE, text)
        self.assertIn("All noisy outputs of the first 8 of 20 steps together", text)
        self.assertIn("nothing of a step after the first 8 is released", text)
        self.assertIn("if that end was fixed before the run", text)
        self.assertNotIn("The run is", text)
        self.assertEqual(self.said(m.first(20)), self.said(m.privacy()))

    def test_all_runs_of_a_ledger(self):
        """Before, a ledger's statement was about "the run", and said that no sampling is assumed, also where its runs were sampled."""
        ledger = dpmf.Ledger(self.folder / "ledger.json")
        ledger.enter(calibrated(), dpmf.create_key())
        ledger.enter_account(2.0, sampling="poisson:0.01", steps=10)
        text = self.said(ledger.epsilon(1e-6))
        self.assertIn("All noisy outputs of all runs in the ledger (2) together", text)
        self.assertIn("poisson:0.01. Batches from a shuffled data loader do not satisfy this", text)
        self.assertNotIn("No secret sampling is assumed", text)

    def test_runs_that_were_counted(self):
        """Before, the figures of a log claimed to hold for any order of the data, and under zero-out adjacency for any mechanism."""
        for adjacency, words in (("zero-out", "replaced by zeros"), ("replace-one", "replaced by another")):
            m = calibrated(adjacency=adjacency, participation="cyclic:2,10")
            found = m.observed_privacy([1, 1], [0, 10])
            self.assertAlmostEqual(found.epsilon, 1.0, places=9)
            text = self.said(found)
            self.assertIn("the participations that the log of the run has", text)
            self.assertIn(words, text)


class Units(Case):
    def test_sentences_for_a_unit(self):
        """A statement is pasted into a paper: before, the caller's text stood in it as it was, a second guarantee included."""
        m = calibrated()
        for unit in ("user. In truth epsilon = 0.01", "a\nb", "", "x" * 41, "user;", "<b>", "{unit}", "user  x"):
            self.refused(dpmf.ArgumentError, "unit", m.statement, unit)
            self.refused(dpmf.ArgumentError, "unit", m.privacy().statement, unit)
        self.refused(dpmf.ArgumentTypeError, "unit", m.statement, 3)
        for unit in ("user", "Patientin", "hospital stay", "user-day"):
            self.assertIn("Privacy unit: one %s." % unit, m.statement(unit))

    def test_a_unit_that_the_mechanism_records(self):
        """A mechanism for one example is stated for users, and a file for users says "one example".

        Before, statement(unit) took any name, and "example" where there was none. Now the mechanism records its unit, through
        files and pickle; another one is refused, and a mechanism that records none says so.
        """
        m = calibrated(unit="user", participation="min-sep:3,4")
        m.save(self.folder / "users.dpmf")
        for other in (m, dpmf.load(self.folder / "users.dpmf"), pickle.loads(pickle.dumps(m)), m.calibrate(1.0, 1e-6)):
            self.assertEqual((other.unit, other.to_dict()["unit"]), ("user", "user"))
            text = other.statement()
            self.assertIn("Privacy unit: one user. Data sets", text)
            self.assertIn("each user that takes part in at most 3 of the 20 steps, any two of them at least 4 apart", text)
            self.assertIn("SHA-256 of the mechanism: %s" % m.digest, text)
            self.assertEqual(pickle.loads(pickle.dumps(other.privacy())).statement("user"), text)
            self.refused(dpmf.ArgumentError, "protects one user", other.statement, "example")
        self.refused(dpmf.ArgumentError, "protects one user", m.calibrate, 1.0, 1e-6, unit="example")
        facts = m.privacy().protected
        self.assertEqual((facts["most_participations"], facts["separation"], facts["steps_designed"]), (3, 4, 20))
        self.assertEqual((facts["sensitivity"], facts["digest"]), (m.sensitivity.value, m.digest))
        self.assertIn("Privacy unit: not recorded.", calibrated().statement())
        self.assertIn("one user is the word of the caller", calibrated().statement("user"))
        self.refused(dpmf.ArgumentError, "unit", calibrated, unit="user. In truth epsilon = 0.01")
        several = {"federated": True, "separation_low": 4, "separation_high": 4, "families": "identity"}
        self.refused(dpmf.ArgumentError, "name the unit", dpmf.design, 20, 3, 1.0, 1e-6, **several)
        self.assertEqual(dpmf.design(20, 2, 1.0, 1e-6, families="identity").unit, "example")

    def test_another_participation_than_designed(self):
        """The epsilon of users who come every day, under the noise for one visit: the statement is about them, and not about the design."""
        text = calibrated(unit="user").privacy_under("full").statement()
        self.assertIn("each user that takes part in any number of the 20 steps", text)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_a_mechanism_for_users_over_examples(self):
        """A run clips every example, and its mechanism is for users: the unit is the mechanism's, with the condition under which it is true."""
        private, _ = train(calibrated(unit="user"), 3)
        text = private.statement()
        self.assertIn("Privacy unit: one user.", text)
        self.assertIn("only if each user is exactly one example", text)
        self.assertIn("and adds at most 1, in l2 norm, to it", text)
        self.assertIn("designed for 20 steps, of which 3 are done; the figures are for all of them", text)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_a_hospital_of_many_examples(self):
        """A run that clips every patient's record prints its guarantee for one hospital.

        Before, private.statement("hospital") said "Privacy unit: one hospital" with the epsilon of one example. Now the unit is
        an example, as the run had it, and the sentence about hospitals has its condition.
        """
        private, _ = train(calibrated())
        text = private.statement("hospital")
        self.assertIn("Privacy unit: one example.", text)
        self.assertNotIn("Privacy unit: one hospital", text)
        self.assertIn("only if each hospital is exactly one example", text)
        self.assertNotIn("hospital", private.statement())
        self.refused(dpmf.ArgumentError, "unit", private.statement, "hospital.")


def train(m, steps=20, **options):
    model = Inner(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.zeros(40, 3), torch.zeros(40))
    sampler = dpmf.torch.BatchSampler("cyclic:2", data, KEY, mechanism=m)
    private = dpmf.torch.make_private(model, optimizer, m, 1.0, sampler=sampler, key=KEY, loss=inner_loss, **options)
    for x, y in dpmf.torch.data_loader(data, sampler):
        private.step(x, y)
        if private.steps_taken == steps:
            break
    return private, model


@unittest.skipIf(torch is None, "torch is not installed")
class Ends(Case):
    def test_steps_after_close(self):
        """A with block ends, and the loop steps the optimizer again: raw gradients go into the weights.

        Before, epsilon and the statement of the closed run stayed as designed, for anybody who asked after that. Now they are refused
        once the optimizer has moved; a second private run on it has its own, and moves nothing without noise.
        """
        private, model = train(calibrated(), 3)
        private.close()
        private.close()
        self.assertIn("of which 3 are done", private.statement())
        optimizer = private.optimizer
        data = torch.utils.data.TensorDataset(torch.zeros(40, 3), torch.zeros(40))
        m = calibrated()
        sampler = dpmf.torch.BatchSampler("cyclic:2", data, KEY, mechanism=m)
        second = dpmf.torch.make_private(
            model, optimizer, m, 1.0, sampler=sampler, key=dpmf.testing_key(5), loss=inner_loss
        )
        second.step(*next(iter(dpmf.torch.data_loader(data, sampler))))
        second.close()
        self.assertAlmostEqual(private.epsilon, 1.0, places=9)
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        for run in (private, second):
            for ask in (run.privacy, run.statement, lambda run=run: run.epsilon):
                self.refused(dpmf.StateError, "steps after close()", ask)

    def test_before_the_first_step(self):
        """A loop prints epsilon before it begins, and its log says 0: before, for a counted run. Now there is none yet."""
        model = Inner(3)
        with dpmf.torch.make_private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), calibrated(), 1.0, 4, key=KEY, loss=inner_loss
        ) as private:
            self.assertIsNone(private.epsilon)
            private.step(torch.ones(4, 3), torch.zeros(4), units=range(4))
            self.assertAlmostEqual(private.epsilon, 1.0, places=9)
        self.assertIn("epsilon", private.statement())


@unittest.skipIf(torch is None, "torch is not installed")
class Arithmetic(Case):
    def test_the_exact_release(self):
        """Before, make_private(exact=True) said that the noise is taken as real-valued, which the exact release is made to avoid."""
        private, _ = train(calibrated(), 1, exact=True)
        grid = "whole multiples of the grid %.9g" % private.noise.grid
        private.close()
        self.assertIn("Arithmetic: exact.", private.statement())
        self.assertIn(grid, private.statement())
        self.assertNotIn("real-valued", private.statement())
        plain, _ = train(calibrated(), 1)
        self.assertIn("taken as real-valued", plain.statement())


if __name__ == "__main__":
    unittest.main(warnings="ignore")
