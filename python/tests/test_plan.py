# SPDX-License-Identifier: Apache-2.0
"""Plans: rows against designs, what is printed, refusals."""
import math
import pickle
import unittest

from support import Case

import dpmf

SMALL = dict(units=1200, epsilon=3.0, delta=1e-5, dim=1000, sampling="block-cyclic", families="identity,banded-toeplitz")


class Plans(Case):
    def test_a_plan_has_the_figures_of_its_designs(self):
        plan = dpmf.plan(**SMALL, epochs=(2, 4), batch=(60, 120))
        self.assertEqual([(p.epochs, p.steps) for p in plan.points], [(2, 20), (2, 40), (4, 40), (4, 80)])
        for point in plan.points:
            m = dpmf.design(
                point.steps, int(point.epochs), 3.0, 1e-5, dim=1000, sampling="block-cyclic", families=SMALL["families"]
            )
            row = m.design.candidates[m.design.chosen]
            self.assertEqual((point.family, point.sampling, point.bands), (row.family, row.sampling, row.bands))
            self.assertAlmostEqual(point.noise_per_epoch, row.noise_rms / point.epochs, delta=1e-9)
            if point == plan.recommended:
                self.assertEqual(plan.mechanism().digest, m.digest)
        least = min((p for p in plan.points if p.best_of_epochs), key=lambda p: p.noise_per_epoch)
        self.assertEqual(plan.recommended, least)

    def test_a_plan_prints_the_table_of_the_program(self):
        plan = dpmf.plan(**SMALL, epochs=2, batch=(60, 120))
        shown = str(plan)
        self.assertEqual(sum(line.startswith(">") for line in shown.splitlines()), 1)
        for words in (plan.rule.split(":")[0], "DP-SGD", "Recommended:", "noise/epoch", "epsilon = 3"):
            self.assertIn(words, shown)
        self.assertIn("%d steps" % plan.recommended.steps, repr(plan))
        self.refused(TypeError, "cannot be pickled", pickle.dumps, plan)

    def test_the_mechanism_of_a_plan_may_outlive_it(self):
        plan = dpmf.plan(**SMALL, epochs=0.5, batch=60)
        m, point = plan.mechanism(), plan.recommended
        del plan
        self.assertEqual((m.steps, point.steps, point.batch), (10, 10, 60))
        self.assertTrue(m.verify())
        path = self.folder / "plan.dpmf"
        m.save(path)
        self.assertEqual(dpmf.load(path).digest, m.digest)

    def test_bad_ranges_of_a_plan_are_refused_by_name(self):
        for words, values in (
            ("batches from 500 to 100", dict(batch=(500, 100))),
            ("<= 1200", dict(batch=2000)),
            ("1.5 epochs", dict(epochs=1.5)),
            ("0 is not accepted", dict(epochs=0)),
            ("epochs from 4 to 2", dict(epochs=(4, 2))),
            ("(low, high)", dict(batch=(1, 2, 3))),
            ("within -1", dict(within=-1.0)),
        ):
            self.refused(dpmf.ArgumentError, words, dpmf.plan, **{**SMALL, "epochs": 2, **values})
        self.refused(dpmf.ArgumentTypeError, "batch", dpmf.plan, **SMALL, batch="60")


class Designs(Case):
    def test_users_and_rounds_are_steps_and_participation(self):
        asked = {"epsilon": 8.0, "delta": 1e-6, "dim": 1000, "families": "banded-toeplitz,identity"}
        for numbers, participation in (((100, 60, 5, None), "cyclic:3,20"), ((100, 60, 5, 10), "minsep:6,10"),
                                       ((100, 60, 5, (10, 20)), "minsep:6,10"), ((100, 20, 5, None), "single")):
            users, rounds, most, apart = numbers
            found = dpmf.design(users=users, rounds=rounds, per_round=most, separation=apart, **asked)
            self.assertEqual((found.participation.text, found.steps, found.unit), (participation, rounds, "user"))
            self.assertIn("one user", found.design.statement())
        for words, more in (("users, rounds", {"steps": 300}), ("per_round = 1001", {"per_round": 1001}), ("at most 50", {"separation": 51}),
                            ("separation", {"separation": (30, 20)}), ("separation", {"separation_low": 5}), ("sampling", {"sampling": "any"})):
            given = {"users": 1000, "rounds": 300, "per_round": 20, **more}
            self.refused(dpmf.ArgumentError, words, lambda: dpmf.design(**given, **asked))
        self.refused(TypeError, "rounds", lambda: dpmf.design(users=10, per_round=2, **asked))
        self.refused(dpmf.ArgumentError, "6", lambda: dpmf.design(300, 5, 8.0, 1e-6, separation_low=50))

    def test_the_report_of_a_design_prints_the_table_of_the_program(self):
        m = dpmf.design(60, 3, 4.0, 1e-5, sampling="block-cyclic", dim=1000)
        report = m.design
        lines = str(report).splitlines()
        shown = [row for row in report.candidates if not row.is_search_point]
        self.assertEqual(sum(line.startswith(">") for line in lines), 1)
        self.assertTrue(all(line.split()[-1] == ("yes" if row.eligible else "no") for line, row in zip(lines[1:], shown)))
        for line, row in zip(lines[1:], shown):
            noise = float(line[2 + 29 :].split()[3])
            self.assertGreaterEqual(noise, row.noise_rms)  # rounded to the safe side
            self.assertTrue(math.isclose(noise, row.noise_rms, rel_tol=1e-4))
        self.assertIn("Chosen:", lines)
        self.assertEqual(str(pickle.loads(pickle.dumps(m)).design), str(report))


if __name__ == "__main__":
    unittest.main()
