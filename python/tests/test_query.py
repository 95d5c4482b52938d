# SPDX-License-Identifier: Apache-2.0
"""Questions on a released stream: their figures are those of the matrices, and their refusals are raised."""

import unittest

import numpy as np
from support import Case

import dpmf


class Questions(Case):
    def setUp(self):
        self.mechanism = dpmf.evaluate("unbounded", 60, sigma=1.5)
        strategy = self.mechanism.strategy
        self.inverse = np.stack([strategy.solve(row) for row in np.eye(60)], axis=1)
        self.scale = 2.0 * 1.5 * self.mechanism.sensitivity.value
        self.totals = np.cumsum(np.random.default_rng(1).normal(3, 5, 50))

    def test_the_deviation_of_a_difference_of_ranges_is_that_of_the_matrix(self):
        answer = dpmf.query(self.mechanism, self.totals, range=(11, 20), minus=(1, 10), level=0.9, clip=2.0)
        weights = np.concatenate([-np.ones(10), np.ones(10), np.zeros(40)])
        self.assertAlmostEqual(answer.deviation, self.scale * np.linalg.norm(weights @ self.inverse), places=9)
        self.assertAlmostEqual(answer.estimate, self.totals[19] - 2 * self.totals[9], places=9)
        self.assertAlmostEqual(answer.upper - answer.estimate, 1.6448536269514722 * answer.deviation, places=9)
        self.assertAlmostEqual(dpmf.deviation(self.mechanism, weights, clip=2.0), answer.deviation, places=9)

    def test_bands_have_the_deviations_of_the_totals(self):
        found = dpmf.bands(self.mechanism, self.totals, clip=2.0)
        sums = np.tril(np.ones((60, 60))) @ self.inverse
        np.testing.assert_allclose(found["deviation"], self.scale * np.linalg.norm(sums, axis=1)[:50], rtol=1e-10)
        np.testing.assert_array_equal(found["estimate"], self.totals)
        alone = dpmf.bands(self.mechanism, self.totals, clip=2.0, together=False)
        self.assertTrue(np.all(alone["upper"] < found["upper"]))

    def test_monotone_totals_do_not_fall(self):
        found = dpmf.bands(self.mechanism, self.totals, clip=2.0, monotone=True)
        for name in ("estimate", "lower", "upper"):
            self.assertTrue(np.all(np.diff(found[name]) >= 0) and found[name][0] >= 0)

    def test_ranges_outside_the_stream_are_refused(self):
        self.refused(dpmf.ArgumentError, "1 <= A <= B <= 50", dpmf.query, self.mechanism, self.totals, (0, 5))
        self.refused(dpmf.ArgumentError, "1 <= A <= B <= 50", dpmf.query, self.mechanism, self.totals, (5, 51))
        self.refused(dpmf.ArgumentError, "1 to 60", dpmf.bands, self.mechanism, np.ones(61))
        self.refused(dpmf.ArgumentError, "level", dpmf.query, self.mechanism, self.totals, (1, 5), level=1.0)
        other = dpmf.evaluate("identity", 60, workload="momentum:0.9")
        self.refused(dpmf.UnsupportedError, "prefix", dpmf.query, other, self.totals, (1, 5))


if __name__ == "__main__":
    unittest.main()
