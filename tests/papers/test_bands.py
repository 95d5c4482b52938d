# SPDX-License-Identifier: Apache-2.0
"""papers/reproduce.py, McKenna 2024, Figures 2, 6, 8, 10 and 11: claims agree, and the curves fit together."""
import unittest

import cases
from cases import BANDS, BEST_BANDS, COEFFICIENTS, CORRELATION, MORE_EPSILON, SAMPLING, SEPARATION, SWEEP


class Bands(cases.Figures):
    NAMED = [BANDS, BEST_BANDS, SAMPLING, CORRELATION, MORE_EPSILON, COEFFICIENTS, SEPARATION, SWEEP]

    def test_figures_6_follow_from_2a_and_8(self):
        """The last and the first point of a curve over its least one."""
        for curves, epsilon in [(BANDS, "epsilon = 1"), (MORE_EPSILON, "epsilon = 8")]:
            for epochs in [1, 8, 128]:
                column = "1 epoch" if epochs == 1 else "%d epochs" % epochs
                curve = [cell["ours"] for cell in self.cells if (cell["table"], cell["column"]) == (curves, column)]
                self.assertEqual(len(curve), (16384 // epochs).bit_length())
                for figure, point in [(SAMPLING, curve[-1]), (CORRELATION, curve[0])]:
                    self.near(self.found[figure, epsilon, str(epochs)]["ours"], point / min(curve), 1e-12)

    def test_the_rule_of_thumb_is_between_a_quarter_and_all_of_the_best(self):
        """epsilon sqrt(n)/k for n = 4096, within the possible: from a quarter of the best up to it."""
        for epsilon in [0.5, 1, 2, 4]:
            for epochs in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]:
                best = self.found[BEST_BANDS, "epsilon = %g" % epsilon, str(epochs)]["ours"]
                rule = max(1, epsilon * 64 / epochs)
                self.assertTrue(rule <= best <= 4 * rule, (epsilon, epochs, best))


if __name__ == "__main__":
    unittest.main()
