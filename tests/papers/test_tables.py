# SPDX-License-Identifier: Apache-2.0
"""papers/reproduce.py, the tables of Denisov et al. 2022, Choquette-Choo et al. 2023 and Pillutla et al. 2025."""
import json
import unittest

import cases
from cases import CHOQUETTE_CHOO, DENISOV, PILLUTLA_MAX, PILLUTLA_RMS, column_of, run, wrong_program
from harness import Case


class Tables(cases.Figures):
    NAMED = [DENISOV, CHOQUETTE_CHOO, PILLUTLA_MAX, PILLUTLA_RMS]

    def test_an_exact_sensitivity_is_no_worse(self):
        for name in ["FFT", "FFT Optimal Decoder"]:
            bound, exact = ([cell["ours"] for cell in self.cells if column_of(cell) == (CHOQUETTE_CHOO, name + more)]
                            for more in ["", ", exact sensitivity"])
            self.assertTrue(all(one <= other * (1 + 1e-12) for one, other in zip(exact, bound)))
            self.assertLess(exact[0], bound[0])

    def test_figures_say_whether_they_are_bounds(self):
        for cell in self.cells:
            bounded = column_of(cell) in [(CHOQUETTE_CHOO, "FFT"), (CHOQUETTE_CHOO, "FFT Optimal Decoder")]
            if column_of(cell) != (CHOQUETTE_CHOO, "MF, for its epochs"):  # exact only up to rounding of zeros
                self.assertEqual(cell["kind"], "upper bound" if bounded else "exact", cell)


class Wrong(Case):
    def test_every_family_that_is_off_by_one_percent_is_seen(self):
        for name, expected in [(PILLUTLA_MAX, {"Identity", "Workload", "Toeplitz", "Col-Norm. Toep.", "BLT", "Dense"}),
                               (PILLUTLA_RMS, {"Streaming H2", "Full H2", "Toeplitz", "Col-Norm. Toep.", "BLT", "Dense"})]:
            code, out, err = run(name, "--json", program=wrong_program(self))
            self.assertEqual((code, err), (3, ""), name)
            found = json.loads(out)
            self.assertIs(found["ok"], False)
            self.assertLessEqual(expected, {cell["column"] for cell in found["cells"] if cell["ok"] is False})


if __name__ == "__main__":
    unittest.main()
