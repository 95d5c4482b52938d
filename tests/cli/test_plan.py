# SPDX-License-Identifier: Apache-2.0
"""plan: rows against design, the rule recomputed from the table, parts of an epoch, the saved file, refusals."""
import math
import unittest

from harness import Case, run

BUDGET = ["--epsilon", "3", "--delta", "1e-5", "--dim", "1000"]
PLAN = ["plan", "--units", "1200", *BUDGET, "--epochs", "2..4", "--batch", "30..120", "--sampling", "block-cyclic"]
KEYS = {"epochs", "steps", "batch", "family", "bands", "sampling", "noise_rms", "noise_per_epoch",
        "independent_noise_per_epoch", "memory_bytes", "seconds_per_step", "independent_sampling"}


def walk(rows, column, within):
    """The rule for one number of epochs, from its words."""
    at = 0
    while at + 1 < len(rows):
        allowed = (1 + within * 1000 / rows[at + 1]["steps"]) ** math.log2(rows[at + 1]["steps"] / rows[at]["steps"])
        if rows[at + 1][column] > rows[at][column] * allowed * (1 + 1e-12):
            break
        at += 1
    return rows[at]


def by_epochs(points):
    groups = {}
    for row in points:
        groups.setdefault(row["epochs"], []).append(row)
    return [sorted(rows, key=lambda row: row["steps"]) for rows in groups.values()]


class Points(Case):
    def design(self, row, *more):
        return self.json_once("design", "--steps", row["steps"], "--epochs", int(row["epochs"]), *BUDGET, *more)

    def test_every_row_has_the_figures_of_design(self):
        found = self.json_once(*PLAN)
        self.assertEqual([(p["epochs"], p["steps"]) for p in found["points"]],
                         [(2, 20), (2, 40), (2, 80), (4, 40), (4, 80), (4, 160)])
        for row in found["points"]:
            self.assertLessEqual(KEYS, set(row))
            chosen = self.design(row, "--sampling", "block-cyclic")["chosen"]
            for key in ("family", "bands", "buffers", "sampling", "memory_bytes"):
                self.assertEqual(row[key], chosen[key], key)
            for key in ("sigma", "noise_rms", "noise_max", "overhead"):
                self.near(row[key], chosen[key], 1e-9)
            self.near(row["noise_per_epoch"], chosen["noise_rms"] / row["epochs"], 1e-9)
            self.near(row["batch"], row["epochs"] * 1200 / row["steps"], 1e-12)

    def test_the_column_of_dp_sgd_is_design_with_independent_noise_and_poisson_sampling(self):
        for row in self.json_once(*PLAN)["points"]:
            found = self.design(row, "--sampling", "poisson", "--families", "identity")
            sgd, = [c for c in found["candidates"] if c["sampling"].startswith("poisson")]
            self.near(row["independent_noise_per_epoch"], sgd["noise_rms"] / row["epochs"], 1e-9)
            self.assertEqual(row["independent_sampling"], sgd["sampling"])

    def test_sampling_is_any_unless_another_is_named(self):
        line = ["plan", "--units", "120", *BUDGET, "--epochs", "2", "--batch", "20"]
        row, = self.parsed(run(*line, "--json")[1])["points"]  # both may take long enough for a line of progress
        found = run("design", "--steps", row["steps"], "--epochs", 2, *BUDGET, "--sampling", "any", "--json")[1]
        chosen = self.parsed(found)["chosen"]
        self.assertEqual((row["family"], row["sampling"]), (chosen["family"], chosen["sampling"]))
        self.near(row["noise_rms"], chosen["noise_rms"], 1e-9)
        row, = self.json(*line, "--sampling", "none")["points"]
        self.assertEqual(row["sampling"], "none")

    def test_a_limit_on_memory_holds_for_every_point(self):
        for row in self.json(*PLAN, "--memory", "40k")["points"]:
            self.assertLessEqual(row["memory_bytes"], 40000)


class Rule(Case):
    def check(self, *more, within=0.3):
        found = self.json_once(*PLAN, *more)
        best = [walk(rows, "noise_per_epoch", within) for rows in by_epochs(found["points"])]
        self.assertEqual([p for p in found["points"] if p["best_of_epochs"]], best)
        self.assertEqual(found["recommended"], min(best, key=lambda row: row["noise_per_epoch"]))
        self.near(found["within"], within)
        return found

    def test_the_recommendation_obeys_the_rule(self):
        found = self.check()
        self.assertIn("DP-SGD", found["why"])
        self.assertIn("30 %", found["rule"])

    def test_a_stricter_rule_takes_fewer_steps(self):
        strict = self.check("--within", "0", within=0)
        self.assertLessEqual(strict["recommended"]["steps"], self.json_once(*PLAN)["recommended"]["steps"])
        self.assertEqual(strict["recommended"]["steps"], 40)

    def test_the_text_shows_the_table_the_rule_and_dp_sgd(self):
        text = self.ok_once(*PLAN)
        found = self.json_once(*PLAN)
        marked = [line for line in text.splitlines() if line.startswith(">")]
        self.assertEqual(len(marked), 1)
        self.assertIn(" %d " % found["recommended"]["steps"], marked[0])
        shown = float(marked[0][2:].split()[6])
        self.assertGreaterEqual(shown, found["recommended"]["noise_per_epoch"])  # rounded to the safe side
        self.near(shown, found["recommended"]["noise_per_epoch"], 1e-3)
        self.assertIn("DP-SGD", text)


class Part(Case):
    def test_half_an_epoch_draws_each_unit_with_probability_one_half_in_all(self):
        found = self.json("plan", "--units", "1200", *BUDGET, "--epochs", "0.5", "--batch", "20",
                          "--sampling", "poisson", "--families", "identity", "-o", self.path("half.dpmf"))
        row = found["recommended"]
        self.assertEqual((row["steps"], row["batch"]), (30, 20))
        self.assertEqual(row["independent_sampling"], "poisson:%.17g" % (0.5 / 30))
        account = self.json("account", "--sigma", repr(row["independent_sigma"]), "--delta", "1e-5",
                            "--sampling", row["independent_sampling"], "--compositions", "30")
        self.assertLessEqual(account["epsilon"], 3)
        self.assertGreater(account["epsilon"], 2.99)
        self.assertTrue(self.json("verify", self.path("half.dpmf"))["ok"])

    def test_half_an_epoch_in_a_fixed_order_is_one_pass_of_its_steps(self):
        found = self.json("plan", "--units", "1200", *BUDGET, "--epochs", "0.5", "--batch", "20", "--sampling", "none",
                          "-o", self.path("fixed.dpmf"))
        design = self.json("design", "--steps", "30", "--epochs", "1", *BUDGET, "-o", self.path("design.dpmf"))
        self.near(found["recommended"]["noise_per_epoch"], 2 * design["chosen"]["noise_rms"], 1e-9)
        self.assertEqual(found["digest"], design["digest"])

    def test_epochs_from_a_part_to_several_are_doubled(self):
        found = self.json("plan", "--units", "1200", *BUDGET, "--epochs", "0.5..3", "--batch", "100",
                          "--sampling", "none", "--families", "identity,blt")
        self.assertEqual([p["epochs"] for p in found["points"]], [0.5, 1, 2, 3])


class Saved(Case):
    def test_the_file_is_the_one_of_design_and_verifies(self):
        found = self.json(*PLAN, "-o", self.path("plan.dpmf"))
        row = found["recommended"]
        design = self.json("design", "--steps", row["steps"], "--epochs", int(row["epochs"]), *BUDGET,
                           "--sampling", "block-cyclic", "-o", self.path("design.dpmf"))
        self.assertEqual(found["digest"], design["digest"])
        self.assertEqual(self.json("inspect", self.path("plan.dpmf"))["digest"], design["digest"])
        self.assertTrue(self.json("verify", self.path("plan.dpmf"))["ok"])
        self.assertEqual(found["statement"], design["statement"])


class Refused(Case):
    def check(self, line, *parts):
        self.refused(2, "plan", *line, says=parts)

    def test_ranges_are_refused_by_name(self):
        units = ["--units", "1000", *BUDGET]
        for line, value in (
            (["--batch", "500..100"], "--batch 500..100"),
            (["--batch", "0"], "--batch 0"),
            (["--batch", "10..2000"], "1000 (the units)"),
            (["--batch", "10.5"], "--batch 10.5"),
            (["--batch", "10.."], "--batch 10.."),
            (["--batch", "..10"], "--batch ..10"),
            (["--epochs", "0"], "--epochs 0"),
            (["--epochs", "1.5"], "--epochs 1.5"),
            (["--epochs", "4..2"], "--epochs 4..2"),
            (["--epochs", "-1"], "--epochs -1"),
            (["--epochs", "nan"], "--epochs nan"),
            (["--epochs", "1..x"], "--epochs 1..x"),
            (["--within", "-1"], "--within -1"),
            (["--sampling", "poisson:0.1"], "--sampling poisson:0.1"),
            (["--epsilon=0"], "twice"),
        ):
            self.check([*units, *line], value)
        self.check(["--units", "0", *BUDGET], "--units 0")

    def test_what_is_needed_is_named(self):
        self.check(["--epsilon", "1", "--delta", "1e-5"], "--units")
        self.check(["--units", "100", "--delta", "1e-5"], "--epsilon")
        self.check(["--units", "100", "--epsilon", "1"], "--delta")
        self.check(["--units", "100", "--epsilon", "0", "--delta", "1e-5"], "--epsilon 0")

    def test_options_of_other_verbs_are_refused(self):
        self.check(["--units", "100", *BUDGET, "--steps", "10"], "--steps is not an option of plan")


if __name__ == "__main__":
    unittest.main()
