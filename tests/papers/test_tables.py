# SPDX-License-Identifier: Apache-2.0
"""`dpmf reproduce`, the tables: every compared figure agrees, the comparison can fail, the page is up to date.

The figures are in test_figures.py and test_bands.py, a run of everything at once in test_all_long.py.
"""
import json
import math
import re
import unittest

import cases
from cases import (BANDS, CHOQUETTE_CHOO, CORNERS, DENISOV, FIGURES, MATRIX, MEMORY, MULTIPLIERS, NAMES,
                             PERTURBED, PILLUTLA_MAX, PILLUTLA_RMS, QUICK, RIVALS, SEPARATION, SETTLED, column_of,
                             compare_page, once)
from harness import Case, run


class Tables(cases.Figures):
    NAMED = [DENISOV, CHOQUETTE_CHOO, MULTIPLIERS, CORNERS, MATRIX, MEMORY, SETTLED, PILLUTLA_MAX, PILLUTLA_RMS]

    def test_an_exact_sensitivity_is_no_worse(self):
        for name in ["FFT", "FFT Optimal Decoder"]:
            bound, exact = ([cell["ours"] for cell in self.cells if column_of(cell) == (CHOQUETTE_CHOO, name + more)]
                            for more in ["", ", exact sensitivity"])
            self.assertTrue(all(one <= other * (1 + 1e-12) for one, other in zip(exact, bound)))
            self.assertLess(exact[0], bound[0])

    def test_figures_say_whether_they_are_bounds(self):
        for cell in self.cells:
            bounded = column_of(cell) in [(CHOQUETTE_CHOO, "FFT"), (CHOQUETTE_CHOO, "FFT Optimal Decoder"),
                                          (MULTIPLIERS, "DP-SGD, 6 epochs")]
            if cell["table"] in FIGURES or cell["column"] == "claim":
                continue
            if column_of(cell) != (CHOQUETTE_CHOO, "MF, for its epochs"):  # exact only up to rounding of zeros
                self.assertEqual(cell["kind"], "upper bound" if bounded else "exact", cell)

    def test_threads_do_not_change_a_table(self):
        for name in QUICK:
            self.assertEqual(self.json("reproduce", name, "--threads", 1), self.json("reproduce", name, "--threads", 3))


class Perturbed(Case):
    def test_the_comparison_can_fail(self):
        for name in PERTURBED:
            plain = json.loads(once(name, "--json")[1])["cells"]
            code, out, err = once(name, "--perturb", "1e-2", "--json")
            self.assertEqual((code, err), (3, ""))
            found = json.loads(out)
            self.assertIs(found["ok"], False)
            self.assertEqual([{key: cell[key] for key in ["table", "row", "column", "paper"]} for cell in found["cells"]],
                             [{key: cell[key] for key in ["table", "row", "column", "paper"]} for cell in plain])
            for one, other in zip(plain, found["cells"]):
                worse = -1 if one["relation"] == "at least" else 1
                self.assertGreater(worse * other["ours"], worse * one["ours"])

    def test_every_family_fails(self):
        off = {column_of(cell) for name in PERTURBED for cell in json.loads(once(name, "--perturb", "1e-2", "--json")[1])["cells"]
               if cell["ok"] is False}
        self.assertTrue({(PILLUTLA_MAX, "Identity"), (PILLUTLA_MAX, "Workload"), (PILLUTLA_MAX, "Toeplitz"),
                         (PILLUTLA_MAX, "Col-Norm. Toep."), (PILLUTLA_MAX, "BLT"), (PILLUTLA_MAX, "Dense"),
                         (PILLUTLA_RMS, "Streaming H2"), (PILLUTLA_RMS, "Full H2"), (PILLUTLA_RMS, "Toeplitz"),
                         (SETTLED, "loss / best"), (MATRIX, "C[t,t]"), (CORNERS, "momentum"), (MULTIPLIERS, "MF"),
                         (MULTIPLIERS, "DP-SGD, 6 epochs"), (RIVALS, "claim"), (BANDS, "claim")} <= off, off)
        for name in [CORNERS, MATRIX]:
            code, out, err = run("reproduce", name, "--perturb", "0.01")
            self.assertEqual((code, err), (3, ""), name)
            self.assertIn("OFF", out)
            self.assertIn("1.01", out.split("\n")[0])

    def test_a_mistake_has_its_size(self):
        """Identity: the sensitivity is the one coefficient. Square root: sensitivity^2 is the sum of c_t^2, c_0 = 1."""
        plain, perturbed = ({(cell["column"], cell["row"]): cell["ours"] for cell in json.loads(out)["cells"]}
                            for _, out, _ in [run("reproduce", PILLUTLA_MAX, "--json", *more)
                                              for more in [[], ["--perturb", "0.25"]]])
        self.near(perturbed["Identity", "64"], 1.25 * plain["Identity", "64"], 1e-12)
        squares = [math.comb(2 * t, t) ** 2 / 16 ** t for t in range(64)]
        factor = math.sqrt((1.25 ** 2 + sum(squares[1:])) / sum(squares))
        self.near(perturbed["Toeplitz", "64"], factor * plain["Toeplitz", "64"], 1e-12)
        self.near(perturbed["Streaming H2", "64"], math.sqrt((1.25 ** 2 + 6) / 7) * plain["Streaming H2", "64"], 1e-12)

    def test_nothing_is_no_mistake(self):
        self.assertEqual(self.ok("reproduce", MATRIX, "--perturb", "0"), self.ok("reproduce", MATRIX))


class Usage(Case):
    def test_unknown_names_are_refused_with_the_list(self):
        for name in ["x", "All", "denisov", "table-2.2", "pillutla-2025-table-2.2 ", "x" * 5000, "a\nb"]:
            with self.subTest(name=name):
                self.refused(2, "reproduce", name, says=["all", *NAMES])
        self.refused(2, "reproduce", says="NAME")
        self.refused(2, "reproduce", "--json", says="NAME")
        self.refused(2, "reproduce", DENISOV, CHOQUETTE_CHOO, says="only one")

    def test_reproduce_refuses_bad_options(self):
        for value in ["-0.1", "1", "x", "nan", ""]:
            self.refused(2, "reproduce", "all", "--perturb", value, says=["--perturb", "from 0 to below 1"])
        self.refused(2, "reproduce", "all", "--json", "--markdown", says=["--json", "--markdown"])
        self.refused(2, "reproduce", "all", "--steps", "8", says="--steps")

    def test_help_lists_the_names(self):
        words = " ".join(self.ok("reproduce", "--help").split())
        listed = re.search(r"NAME is all or one of ([^ ]+(?:, [^ ]+)*)\. ", words).group(1)
        self.assertEqual(listed.split(", "), NAMES)


class Forms(Case):
    def test_the_lines_for_people_have_the_figures_of_the_json(self):
        cells = json.loads(once(PILLUTLA_MAX, "--json")[1])["cells"]
        out = self.ok("reproduce", PILLUTLA_MAX)
        for line in out.split("\n"):
            self.assertEqual(line, line.rstrip())
            self.assertLessEqual(len(line), 120)
        lines = [line.split() for line in out.split("\n") if re.match(r" +\d+ +\d", line)]
        self.assertEqual(len(lines), len(cells))
        for line, cell in zip(lines, cells):
            self.assertEqual(line[0], cell["row"])
            self.near(float(line[1]), cell["ours"], 1e-6)
            self.assertEqual(float(line[2]) if cell["paper"] is not None else None, cell["paper"])
            self.assertEqual(line[4:], ["agrees"] if cell["ok"] else [])
        claimed = sum(cell["ok"] is not None for cell in cells)
        self.assertIn("%d of %d compared figures agree" % (claimed, claimed), out)

    def test_claims_are_written_for_people(self):
        out = self.ok("reproduce", SEPARATION)
        for cell in json.loads(once(SEPARATION, "--json")[1])["cells"]:
            if cell["column"] == "claim":
                self.assertIn("text: " + cell["row"] + "\n", out)
        self.assertIn("agrees (at most)", out)
        self.assertIn("agrees (at least)", out)
        for line in out.split("\n"):
            self.assertEqual(line, line.rstrip())

    def test_the_markdown_has_the_figures_of_the_json(self):
        for name in [SETTLED, MATRIX, CORNERS, MULTIPLIERS, MEMORY, SEPARATION]:
            compare_page(self, self.ok("reproduce", name, "--markdown"), json.loads(once(name, "--json")[1])["cells"])


if __name__ == "__main__":
    unittest.main()
