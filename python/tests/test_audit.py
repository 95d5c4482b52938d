# SPDX-License-Identifier: Apache-2.0
"""Audits from Python: honest runs of the library and of dpmf.torch stay below their claim, a tenth of the noise does not.

Keys are testing keys, so that answers are the same every time; with fresh keys one honest audit in 20 may accuse.
"""

import unittest

import numpy as np

import dpmf
import dpmf.audit

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None

EPSILON, DELTA = 3.0, 1e-5


def mechanism(adjacency="zero-out", sampling=None, participation="cyclic:4,10"):
    plain = dpmf.evaluate("bsr", 40, participation=participation, bands=4, adjacency=adjacency)
    return plain.calibrate(EPSILON, DELTA, sampling)


class Library(unittest.TestCase):
    def test_an_honest_run_passes_and_a_tenth_of_the_noise_is_noticed(self):
        m = mechanism()
        honest = dpmf.audit.run(m, key=dpmf.testing_key(4))
        self.assertTrue(honest.ok)
        self.assertGreaterEqual(honest.epsilon_lower, 0.2 * EPSILON)
        self.assertEqual(honest.scores.shape, honest.included.shape)
        weak = dpmf.audit.run(m, key=dpmf.testing_key(4), noise_factor=0.1)
        self.assertFalse(weak.ok)
        self.assertGreater(weak.tpr, honest.tpr)

    def test_a_claim_that_is_too_small_is_noticed(self):
        self.assertFalse(dpmf.audit.run(mechanism(), key=dpmf.testing_key(4), epsilon=0.1).ok)

    def test_a_run_without_any_noise_is_found(self):
        """Released sums that are those of the canaries, exactly or up to the last digits of floats: an epsilon above any claim."""
        m, random = mechanism(), np.random.default_rng(1)
        included = random.random(200) < 0.5
        taken = np.arange(200)[:, None] % 10 == np.arange(40)[None, :] % 10
        for rounding in (0.0, 1e-16):
            released = included[:, None] * taken + rounding * random.standard_normal(taken.shape)
            found = dpmf.audit.from_releases(m, included, taken, released, epsilon=100.0, delta=DELTA)
            self.assertFalse(found.ok, found)

    def test_wrong_arguments_are_refused(self):
        m = mechanism()
        with self.assertRaisesRegex(dpmf.errors.ArgumentError, "canaries"):
            dpmf.audit.run(m, canaries=3)
        with self.assertRaisesRegex(dpmf.errors.ArgumentError, "shapes"):
            dpmf.audit.from_releases(m, np.ones(30), np.ones((30, 40)), np.ones((30, 39)))


@unittest.skipIf(torch is None, "needs torch")
class Torch(unittest.TestCase):
    def check(self, m, **options):
        for seed in (1, 2, 3):
            honest = dpmf.audit.torch_run(m, key=dpmf.testing_key(seed), **options)
            self.assertTrue(honest.ok, honest)
            self.assertGreaterEqual(honest.epsilon_lower, 0.2 * EPSILON)

    def test_an_honest_run_is_below_its_claim_and_near_it(self):
        self.check(mechanism())

    def test_so_is_one_with_replaced_units(self):
        self.check(mechanism(adjacency="replace-one"))

    def test_so_is_one_that_is_sampled(self):
        self.check(mechanism(sampling="block-cyclic:0.1,4", participation="min-sep:10,4"))

    def test_so_is_one_whose_gradients_are_normalised(self):
        self.check(mechanism(), normalize=0.01)

    def test_so_is_one_whose_gradients_are_scaled(self):
        """By a function of the weights, which were released: other scales for every coordinate and step, from 1/2 to 2."""
        self.check(mechanism(), precondition=lambda _, named: {name: 2 ** torch.sin(100 * p) for name, p in named.items()})

    def test_a_tenth_of_the_noise_is_noticed(self):
        loud = mechanism()
        quiet = dpmf.evaluate("bsr", 40, participation="cyclic:4,10", bands=4, sigma=0.1 * loud.sigma)
        for seed in (1, 2, 3):
            for normalize in (None, 0.01):
                found = dpmf.audit.torch_run(quiet, key=dpmf.testing_key(seed), epsilon=EPSILON, delta=DELTA, normalize=normalize)
                self.assertFalse(found.ok, found)


@unittest.skipIf(torch is None, "needs torch")
class LeaveOut(unittest.TestCase):
    """Faults that canaries in a linear model cannot find are planted, and the audit of a batch has to find each."""

    def make(self, *layers, **options):
        torch.manual_seed(1)
        net = torch.nn.Sequential(*layers, torch.nn.Linear(30, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3))
        m = dpmf.evaluate("identity", 4, participation="full", epsilon=EPSILON, delta=DELTA)
        options = {"key": dpmf.testing_key(1), **options}
        return dpmf.torch.make_private(net, torch.optim.SGD(net.parameters(), lr=0.1), m, 0.1, 300, **options)

    def batch(self, count=300):
        generator = torch.Generator().manual_seed(2)
        return torch.randn(count, 30, generator=generator), torch.randint(0, 3, (count,), generator=generator)

    def planted(self, place, name, value):
        before = getattr(place, name)
        setattr(place, name, value)
        self.addCleanup(setattr, place, name, before)

    def test_honest_models_pass(self):
        for layers in ((), (torch.nn.Dropout(0.2),)):
            private = self.make(*layers)
            weights = private.model[-1].weight.clone()
            found = dpmf.audit.leave_out(private, *self.batch())
            self.assertTrue(found.ok, found)
            self.assertEqual((found.same, len(found.left_out), private.steps_taken), (True, 8, 0))
            self.assertTrue(torch.equal(weights, private.model[-1].weight))
            private.step(*self.batch(), units=range(300))  # the run is where it was
        with self.assertRaisesRegex(dpmf.errors.ArgumentError, "2 or more"):
            dpmf.audit.leave_out(private, *self.batch(1))

    def test_roundings_that_follow_the_size_of_the_batch(self):
        private = self.make()
        private._route._granule = None  # as if batches had fixed sizes
        found = dpmf.audit.leave_out(private, *self.batch())
        self.assertIs(found.same, False)
        self.assertFalse(found.ok)

    def test_masks_that_follow_the_order_of_the_batch(self):
        from dpmf.torch.randomness import Draws

        self.planted(Draws, "seeds", lambda _, first, count, device="cpu": torch.arange(first, first + count))
        found = dpmf.audit.leave_out(self.make(torch.nn.Dropout(0.2)), *self.batch(40), trials=2)
        self.assertFalse(found.ok)
        self.assertGreater(found.largest, 1.5)

    def test_a_layer_that_mixes_examples(self):
        def loss(outputs, targets):
            return torch.nn.functional.cross_entropy(outputs, targets) * scale[0]

        scale = [1.0]
        private = self.make(loss=loss)
        add = private._route.add

        def mixing(sums, examples, tally):  # as a loss does that is divided by the size of the batch
            scale[0] = 100 / examples.count
            add(sums, examples, tally)

        private._route.add = mixing
        self.assertFalse(dpmf.audit.leave_out(private, *self.batch()).ok)

    def test_ghost_clipping_in_few_bits(self):
        import contextlib

        try:
            from dpmf.torch import ghost

            private = self.make(clipping="ghost")
        except dpmf.errors.UnsupportedError as error:
            self.skipTest(str(error))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(dpmf.audit.leave_out(private, *self.batch()).ok)
            self.planted(ghost, "full_precision", lambda device: contextlib.nullcontext())
            self.planted(ghost, "check_width", lambda dtype, what: None)
            found = dpmf.audit.leave_out(self.make(clipping="ghost"), *self.batch())
        self.assertFalse(found.ok, found)

    def test_a_layer_that_writes_data_into_a_buffer(self):
        class RunningMean(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(30))

            def forward(self, x):
                with torch.no_grad():
                    self.mean.add_(x.mean(0))
                return x

        try:
            private = self.make(RunningMean(), clipping="ghost")
        except dpmf.errors.UnsupportedError as error:
            self.skipTest(str(error))
        found = dpmf.audit.leave_out(private, *self.batch())
        self.assertEqual((found.buffers, found.ok), (["0.mean"], False))
        self.assertEqual(private.model[0].mean.abs().sum(), 0)


if __name__ == "__main__":
    unittest.main()
