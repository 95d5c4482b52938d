# SPDX-License-Identifier: Apache-2.0
"""--loss lp:P and last: figures, optima, choices and refusals."""
import unittest

from harness import Case


def power_mean(errors, p):
    return (sum(e ** p for e in errors) / len(errors)) ** (1 / p)


class Losses(Case):
    def test_the_loss_is_that_of_the_errors(self):
        words = ["evaluate", "--family", "toeplitz", "--steps", "40", "--participation", "cyclic:4,10", "--per-step"]
        for text, wanted in (("lp:4", lambda e: power_mean(e, 4)), ("lp:1", lambda e: power_mean(e, 1)),
                             ("lp:2.5", lambda e: power_mean(e, 2.5)), ("last", lambda e: e[-1])):
            found = self.json(*words, "--loss", text)
            self.assertEqual(found["loss"]["name"], text)
            self.near(found["loss"]["value"], wanted(found["per_step_error"]), 1e-12)
            bounded = text in ("lp:4", "lp:2.5")
            self.assertEqual(found["ratio"] is not None, bounded)
            if bounded:
                self.near(found["ratio"], found["loss"]["value"] / found["lower_bound"]["rms_loss"], 1e-12)
            self.assertIn("(%s)" % text, self.ok(*words, "--loss", text))
        self.assertNotIn("loss", self.json(*words))

    def test_optima_are_between_those_of_rms_and_max(self):
        words = ["optimize", "--family", "banded", "--bands", "5", "--steps", "40"]
        rms, max_ = (self.json(*words, "--loss", loss)[loss + "_loss"] for loss in ("rms", "max"))
        found = self.json(*words, "--loss", "lp:8")
        self.assertTrue(rms < found["loss"]["value"] < max_)
        self.assertLessEqual(found["loss"]["value"], found["optimum"]["lower"] * (1 + 1e-5))
        last = self.json(*words, "--loss", "last")
        self.ok(*words, "-o", self.path("rms"))
        self.assertLess(last["loss"]["value"], 0.9 * self.json("evaluate", self.path("rms"), "--loss", "last")["loss"]["value"])
        self.near(last["loss"]["value"], (40 / 5) ** 0.5, 2e-3)  # 8 columns of norm 1 apart: no C of 5 bands has less
        self.assertIsNone(last["optimum"]["scope"])

    def test_a_design_is_chosen_by_it_and_remembers(self):
        found = self.json("design", "--steps", "40", "--epochs", "1", "--epsilon", "1", "--delta", "1e-6", "--loss", "lp:6", "-o",
                          self.path("m"))
        least = min(c["noise"] for c in found["candidates"] if c["eligible"])
        self.assertLessEqual(found["chosen"]["noise"], 1.001 * least)
        self.assertEqual(self.json("inspect", self.path("m"))["designed"]["loss"], "lp:6")
        self.assertIn("least lp:6 noise", self.ok("inspect", self.path("m")))
        self.assertTrue(self.json("verify", self.path("m"))["ok"])

    def test_families_and_powers_without_sense_are_refused(self):
        for wrong in ("lp", "lp:", "lp:0.5", "lp:1001", "lp:nan", "mean", "LAST"):
            self.refused(2, "evaluate", "--family", "toeplitz", "--steps", "8", "--loss", wrong, says=("--loss", "lp:P"))
        for family, more in (("blt", ["--buffers", "2"]), ("tvblt", ["--buffers", "2"]), ("dense", []), ("bisr", ["--bands", "3"])):
            self.refused(1, "optimize", "--family", family, "--steps", "8", "--loss", "lp:4", *more,
                         says=("family " + family, "banded, toeplitz"))


if __name__ == "__main__":
    unittest.main()
