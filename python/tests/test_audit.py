# SPDX-License-Identifier: Apache-2.0
"""Audits from Python: honest runs of the library and of dpmf.torch stay below their claim, a tenth of the noise does not.

Keys are testing keys, so that answers are the same every time; with fresh keys one honest audit in 20 may accuse.
"""

import unittest

import numpy as np

import dpmf
import dpmf.audit

try:
    import torch  # noqa: F401
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

    def test_a_tenth_of_the_noise_is_noticed(self):
        loud = mechanism()
        quiet = dpmf.evaluate("bsr", 40, participation="cyclic:4,10", bands=4, sigma=0.1 * loud.sigma)
        for seed in (1, 2, 3):
            found = dpmf.audit.torch_run(quiet, key=dpmf.testing_key(seed), epsilon=EPSILON, delta=DELTA)
            self.assertFalse(found.ok, found)


if __name__ == "__main__":
    unittest.main()
