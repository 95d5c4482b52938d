# SPDX-License-Identifier: Apache-2.0
"""dpmf calibrate, and the --epsilon and --delta of evaluate and optimize: sigma into a file, and its account."""
import os
import unittest

from harness import Case, npy


class Calibrate(Case):
    def saved(self, name="plain.dpmf", *options):
        path = self.path(name)
        self.ok("evaluate", "--steps", 64, "--family", "bsr", "--bands", 4, *options, "-o", path)
        return path

    def test_a_file_gets_the_sigma_of_the_closed_form(self):
        out = self.path("out.dpmf")
        found = self.json("calibrate", self.saved(), "--epsilon", 1, "--delta", 1e-5, "-o", out)
        self.near(found["sigma"], 3.73063163481594183, 1e-12)
        self.assertEqual(found["kind"], "exact")
        held = self.json("inspect", out)
        self.assertEqual((held["sigma"], held["epsilon"], held["delta"]), (found["sigma"], 1, 1e-5))
        self.assertEqual(held["digest"], found["digest"])
        self.assertTrue(self.json("verify", out)["ok"])

    def test_ones_own_matrix_is_calibrated(self):
        matrix = self.write("c.npy", npy([1.0, 0, 0, 0.5, 1, 0, 0.25, 0.5, 1], (3, 3)))
        self.ok("evaluate", "--steps", 3, "--family", "dense", "--parameters", matrix, "--participation", "cyclic:3,1",
                "-o", self.path("own.dpmf"))
        found = self.json("calibrate", self.path("own.dpmf"), "--epsilon", 2, "--delta", 1e-6, "-o", self.path("out.dpmf"))
        self.assertEqual(found["family"], "dense")
        self.assertTrue(self.json("verify", self.path("out.dpmf"))["ok"])

    def test_under_sampling_the_claim_is_printed_with_the_recomputed_value_beside_it(self):
        out = self.path("out.dpmf")
        found = self.json("calibrate", self.saved(), "--epsilon", 8, "--delta", 1e-6, "--sampling",
                          "block-cyclic:0.0625,4", "-o", out)
        self.assertEqual(found["sensitivity"]["of"], "column")
        told = self.json("account", out)
        self.assertEqual(told["epsilon"], 8)
        self.assertLess(told["epsilon_recomputed"], 8)
        self.assertGreater(told["epsilon_recomputed"], 7.99)
        self.assertIn("epsilon = 8 ", told["statement"])
        table = self.ok("account", out)
        self.assertRegex(table, r"epsilon +8 +as the file claims\nrecomputed +7\.99\d+ +upper bound\n")
        other = self.json("account", out, "--delta", 1e-7)  # another question has its own answer
        self.assertNotIn("epsilon_recomputed", other)
        self.assertGreater(other["epsilon"], 8)
        back = self.json("calibrate", out, "--epsilon", 8, "--delta", 1e-6, "--sampling", "none")
        self.near(back["sigma"], self.json("account", "--epsilon", 8, "--delta", 1e-6)["sigma"], 1e-12)
        self.assertEqual(back["sensitivity"]["of"], "participation")

    def test_what_is_written_is_accepted_by_every_verb(self):
        """Calibration certifies delta at epsilon, and the other verbs asked for epsilon at delta, a bound with a slack of its own: they
        refused one file in six under balls in bins, "its noise is too small"."""
        for steps, bins in ((12, 3), (20, 10), (64, 16)):
            plain, out = self.path("%d.dpmf" % bins), self.path("out.dpmf")
            self.ok("evaluate", "--family", "identity", "--steps", steps, "--participation", "cyclic:%d,%d" % (steps // bins, bins),
                    "-o", plain)
            for sampling in ("balls-in-bins:%d", "allocation:1,%d"):
                for epsilon in (0.5, 2):
                    for delta in (1e-5, 1e-7):
                        self.ok("calibrate", plain, "--epsilon", epsilon, "--delta", delta, "--sampling", sampling % bins, "-o", out)
                        told = self.json("account", out)
                        self.assertEqual(told["epsilon"], epsilon)
                        self.assertLessEqual(told["epsilon_recomputed"], epsilon)
        self.assertTrue(self.json("verify", out)["ok"])

    def test_a_calibrated_file_is_calibrated_anew(self):
        first = self.path("first.dpmf")
        self.ok("calibrate", self.saved(), "--epsilon", 1, "--delta", 1e-5, "-o", first)
        again = self.json("calibrate", first, "--epsilon", 2, "--delta", 1e-5)
        direct = self.json("calibrate", self.saved(), "--epsilon", 2, "--delta", 1e-5)
        self.assertEqual(again["sigma"], direct["sigma"])

    def test_the_same_as_evaluate_and_optimize_with_a_guarantee(self):
        out = self.path("out.dpmf")
        found = self.json("evaluate", "--steps", 64, "--family", "bsr", "--bands", 4, "--epsilon", 1, "--delta", 1e-5,
                          "-o", out)
        self.ok("calibrate", self.saved(), "--epsilon", 1, "--delta", 1e-5, "-o", self.path("two.dpmf"))
        with open(out, "rb") as one, open(self.path("two.dpmf"), "rb") as two:
            self.assertEqual(one.read(), two.read())
        self.near(found["noise_rms"], found["sigma"] * found["rms_loss"], 1e-15)
        best = self.json("optimize", "--steps", 16, "--family", "banded-toeplitz", "--bands", 2, "--epsilon", 1, "--delta",
                         1e-5, "-o", out)
        self.assertEqual(self.json("inspect", out)["sigma"], best["sigma"])
        self.near(best["sigma"], found["sigma"], 1e-12)

    def test_refusals_leave_nothing(self):
        plain, out = self.saved(), self.path("out.dpmf")
        self.refused(2, "calibrate", plain, "--epsilon", 1, says="--delta")
        self.refused(2, "calibrate", says="FILE")
        self.refused(2, "calibrate", plain, "--epsilon", 1, "--delta", 1e-5, "--sampling", "block-cyclic:0.1,3", "-o", out,
                     says="4 bands")
        self.refused(2, "calibrate", plain, "--epsilon", 0, "--delta", 1e-5, "-o", out, says="epsilon 0")
        self.refused(1, "calibrate", self.path("none"), "--epsilon", 1, "--delta", 1e-5, "-o", out)
        self.refused(2, "evaluate", "--steps", 8, "--family", "identity", "--epsilon", 1, says="--delta")
        self.refused(2, "optimize", "--steps", 8, "--family", "dense", "--delta", 1e-5, says="--epsilon")
        self.assertFalse(os.path.exists(out))


class First(Case):
    def calibrated(self, *options):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--epsilon", 1, "--delta", 1e-6, *options, "-o", path)
        return path

    def test_independent_noise_is_that_of_fewer_steps(self):
        path = self.calibrated("--steps", 100, "--family", "identity", "--participation", "full")
        sigma = self.json("inspect", path)["sigma"]
        found = self.json("account", path, "--first", 25)
        plain = self.json("account", "--sigma", repr(2 * sigma), "--delta", 1e-6)
        self.near(found["epsilon"], plain["epsilon"], 1e-12)
        self.assertEqual((found["first"], found["whole"]), (25, 100))
        self.assertIn("fixed before the run", found["statement"])
        self.assertIn("whole run", found["statement"])

    def test_it_rises_with_the_steps_to_the_whole(self):
        for options in (("--family", "toeplitz"), ("--family", "bsr", "--bands", 5), ("--family", "tree-online"),
                        ("--family", "fft-opt"), ("--family", "bisr", "--bands", 3),
                        ("--family", "toeplitz", "--normalize", "after")):
            with self.subTest(options=options):
                path = self.calibrated("--steps", 32, "--participation", "cyclic:4,8", *options)
                found = [self.json("account", path, "--first", m)["epsilon"] for m in (1, 8, 9, 20, 31)]
                self.assertEqual(found, sorted(found))
                self.assertLessEqual(found[-1], 1 + 1e-9)
                self.near(self.json("account", path, "--first", 32)["epsilon"], 1, 1e-9)

    def test_under_sampling_there_are_fewer_compositions(self):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--steps", 100, "--family", "identity", "-o", self.path("plain.dpmf"))
        self.ok("calibrate", self.path("plain.dpmf"), "--epsilon", 1, "--delta", 1e-6, "--sampling", "poisson:0.05",
                "-o", path)
        sigma = self.json("inspect", path)["sigma"]
        found = self.json("account", path, "--first", 30)
        plain = self.json("account", "--sigma", repr(sigma), "--delta", 1e-6, "--sampling", "poisson:0.05",
                          "--compositions", 30)
        self.assertEqual(found["epsilon"], plain["epsilon"])

    def test_what_is_refused(self):
        path = self.calibrated("--steps", 16, "--family", "toeplitz")
        self.refused(2, "account", "--sigma", 1, "--delta", 1e-6, "--first", 3, says="FILE")
        self.refused(2, "account", path, "--first", 17, says="1 to 16")
        self.refused(2, "account", path, "--first", 3, "--epsilon", 1, "--delta", 1e-6, says="not both")
        self.refused(2, "account", path, "--first", 3, "--sigma", 2, "--delta", 1e-6, says="--sigma")


class Risks(Case):
    def test_a_file_is_calibrated_for_a_largest_risk(self):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--steps", 16, "--family", "bsr", "--bands", 2, "-o", self.path("plain.dpmf"))
        for target in (("--advantage", 0.1), ("--tpr", 0.05, "--fpr", 0.01)):
            made = self.json("calibrate", self.path("plain.dpmf"), "--delta", 1e-6, *target, "-o", path)
            found = self.json("account", path, "--risk", *target[2:])
            self.assertEqual(found["epsilon"], made["epsilon"])
            value = found["risk"]["advantage"] if target[0] == "--advantage" else found["risk"]["rates"][0]["tpr"]
            self.assertLessEqual(value, target[1])
            self.assertGreater(value, 0.999 * target[1])
            self.assertIn("Risk for one unit", made["statement"])
        self.refused(2, "calibrate", path, "--delta", 1e-6, "--epsilon", 1, "--advantage", 0.1, says="one of")
        self.refused(2, "calibrate", path, "--delta", 1e-6, says="one of")


class Tuning(Case):
    def test_the_best_of_a_random_number_of_runs(self):
        # Base epsilon 1 at delta 1e-6; by an independent program, to four digits.
        sigma = repr(self.json("account", "--epsilon", 1, "--delta", 1e-6)["sigma"])
        for law, expected in (("negative-binomial:1,0.1", 2.150), ("poisson:10", 1.925)):
            found = self.json("account", "--sigma", sigma, "--delta", 1e-6, "--tuning", law)
            self.assertAlmostEqual(found["epsilon"], expected, delta=1e-3)
            self.near(found["expected_runs"], 10, 1e-12)
            self.near(found["epsilon_one_run"], 1, 1e-9)
            self.assertEqual(found["kind"], "upper bound")
            self.assertIn("best of a random number", found["statement"])

    def test_one_run_is_the_run(self):
        at = ["account", "--sigma", 1, "--delta", 1e-6, "--sampling", "poisson:0.01", "--compositions", 100]
        found = self.json(*at, "--tuning", "negative-binomial:1,1")
        self.assertEqual(found["epsilon"], self.json(*at)["epsilon"])
        self.assertGreater(self.json(*at, "--tuning", "poisson:3")["epsilon"], found["epsilon"])

    def test_what_is_refused(self):
        at = ["account", "--sigma", 1, "--delta", 1e-6]
        for law in ("poisson", "poisson:0", "negative-binomial:-1,0.5", "negative-binomial:1,0", "negative-binomial:1",
                    "best:3"):
            self.refused(2, *at, "--tuning", law, says="poisson:MEAN")
        self.refused(2, "account", "--sigma", 1, "--epsilon", 1, "--tuning", "poisson:3", says="--delta")
        self.refused(1, *at, "--sampling", "allocation:1,10", "--tuning", "poisson:3", says="Renyi")


if __name__ == "__main__":
    unittest.main()
