# SPDX-License-Identifier: Apache-2.0
"""The exact release from Python: rows, counters and training are whole multiples of a grid, and what cannot be is refused."""

import unittest

import numpy as np
from support import KEY, Case

import dpmf

try:
    import torch
except ImportError:
    torch = None


class Rows(Case):
    def stream(self, family="toeplitz", **options):
        return dpmf.NoiseStream(dpmf.evaluate(family, 12, sigma=1.5), 40, 2.0, KEY, **options)

    def test_rows_are_whole_multiples_of_the_grid(self):
        for family in ("identity", "toeplitz", "bsr", "blt"):
            options = {"bands": 3} if family == "bsr" else {}
            stream = dpmf.NoiseStream(dpmf.evaluate(family, 12, sigma=1.5, **options) if family != "blt"
                                      else dpmf.optimize("blt", 12, sigma=1.5), 40, 2.0, KEY, exact=True)
            row = stream.next()
            self.assertEqual(row.dtype, np.float64)
            steps = row / stream.grid
            self.assertTrue((steps == np.rint(steps)).all())
            self.assertGreaterEqual(stream.sensitivity, stream.mechanism.sensitivity.value)

    def test_integers_get_the_same_row(self):
        first, second = self.stream(exact=True), self.stream(exact=True)
        sums = np.arange(40, dtype=np.int64)
        first.add_whole_(sums)
        self.assertTrue((sums * first.grid == second.next() + np.arange(40) * first.grid).all())

    def test_floats_are_refused(self):
        with self.assertRaisesRegex(dpmf.errors.UnsupportedError, "floating point"):
            self.stream(exact=True).add_(np.zeros(40))
        with self.assertRaisesRegex(dpmf.errors.UnsupportedError, "exact"):
            self.stream("tree", exact=True)


class Counts(Case):
    def test_counts_are_exact_unless_the_mechanism_has_no_exact_release(self):
        mechanism = dpmf.evaluate("toeplitz", 12, sigma=1.0)
        counter = dpmf.Counter(mechanism, key=KEY)
        total, _ = counter.add(3)
        self.assertEqual(total % counter.grid, 0)
        self.assertIsNone(dpmf.Counter(mechanism, key=KEY, release="plain").grid)
        tree = dpmf.evaluate("tree", 12, sigma=1.0)
        self.assertIsNone(dpmf.Counter(tree, key=KEY).grid)
        with self.assertRaisesRegex(dpmf.errors.UnsupportedError, "exact"):
            dpmf.Counter(tree, key=KEY, release="exact")


@unittest.skipIf(torch is None, "torch is not installed")
class Training(Case):
    def test_a_step_releases_whole_multiples_of_the_grid(self):
        import dpmf.torch

        torch.manual_seed(1)
        model = torch.nn.Linear(3, 2).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        private = dpmf.torch.make_private(model, optimizer, dpmf.evaluate("toeplitz", 5, sigma=1.0), 1.0, 4, key=KEY,
                                          exact=True)
        private.step(torch.randn(4, 3).double(), torch.tensor([0, 1, 1, 0]), units=[0, 1, 2, 3])
        for parameter in model.parameters():
            steps = parameter.grad.double() * 4 / private.noise.grid
            self.assertTrue(bool((steps == steps.round()).all()))


if __name__ == "__main__":
    unittest.main()
