# SPDX-License-Identifier: Apache-2.0
"""Stamps in optimize, evaluate FILE and design; trees with a branching factor and the smooth binary mechanism on the command line."""
import json
import os
import unittest

from harness import Case, run

# Total squared loss of the optimum for one participation in 2000 / S steps, repeated S times, under 20 epochs of 100
# (Choquette-Choo et al. 2023, Table 1).
DENSE = {2: 1365828, 10: 1829019}
CYCLIC = ["--participation", "cyclic:20,100"]


class Optimize(Case):
    def test_a_stamped_optimum_has_the_published_loss(self):
        for stamps, total in DENSE.items():
            found = self.json_once("optimize", "--family", "dense", "--steps", 2000, *CYCLIC, "--optimize-participation",
                                   "single", "--stamps", stamps, "--bound", "none")
            self.assertEqual((found["stamps"], found["steps"]), (stamps, 2000))
            self.assertAlmostEqual(found["total_squared_loss"] / total, 1, delta=2e-6)
            self.assertIsNone(found["optimum"]["lower"])  # the optimum of a stamp is not that of all

    def test_a_saved_optimum_is_repeated(self):
        # The same two ways: repeated from the file, and optimized in stamps.
        one, two = self.path("one.dpmf"), self.path("two.dpmf")
        self.ok("optimize", "--family", "dense", "--steps", 50, "-o", one)
        repeated = self.json("evaluate", one, "--stamps", 2, "--participation", "cyclic:10,10", "-o", two)
        made = self.json("optimize", "--family", "dense", "--steps", 100, "--stamps", 2, "--participation", "cyclic:10,10",
                         "--optimize-participation", "single")
        self.assertEqual(repeated["steps"], 100)
        self.assertAlmostEqual(repeated["total_squared_loss"] / made["total_squared_loss"], 1, delta=1e-12)
        self.assertEqual(self.json("evaluate", two)["total_squared_loss"], repeated["total_squared_loss"])
        self.ok("verify", two)
        self.assertEqual(self.json("evaluate", two, "--stamps", 2)["stamps"], 2)  # as the file has it
        self.refused(2, "evaluate", two, "--stamps", 4, says="contradicts")

    def test_a_repeated_file_takes_other_workloads_and_participations(self):
        one = self.path("one.dpmf")
        self.ok("evaluate", "--family", "bsr", "--bands", 5, "--steps", 20, "-o", one)
        for more in ([], ["--workload", "momentum:0.5"], ["--participation", "full", "--adjacency", "replace-one"]):
            found = self.json("evaluate", one, "--stamps", 3, *more)
            # A closed form of prefix sums, given as numbers.
            like = self.json("evaluate", "--family", "bsr", "--bands", 5, "--steps", 60, "--stamps", 3,
                             "--optimize-workload", "prefix", *more)
            self.assertAlmostEqual(found["rms_loss"] / like["rms_loss"], 1, delta=1e-12)
            self.assertEqual(found["workload"], like["workload"])

    def test_wrong_stamps_are_refused(self):
        one = self.path("one.dpmf")
        self.ok("evaluate", "--family", "bsr", "--bands", 5, "--steps", 20, "-o", one)
        self.refused(2, "evaluate", one, "--stamps", "auto", says="a number is accepted")
        self.refused(2, "evaluate", one, "--stamps", 2, "--steps", 20, says=("--steps 20", "40"))
        self.refused(2, "evaluate", one, "--stamps", 2, "--bands", 5, says="--bands")
        self.refused(2, "evaluate", one, "--stamps", 2, "--participation", "cyclic:2,10", says="40 steps")
        self.refused(2, "optimize", "--family", "blt", "--steps", 20, "--stamps", 3, says="a divisor of the 20 steps")
        self.refused(2, "optimize", "--family", "dense", "--steps", 20, "--stamps", 2, "--optimize-participation",
                     "cyclic:2,10", says="10")
        self.refused(2, "design", "--steps", 20, "--epochs", 2, "--epsilon", 1, "--delta", 1e-6, "--stamps", 3, says="20 steps")
        self.refused(2, "evaluate", "--family", "toeplitz", "--steps", 20, "--stamps", "auto", "--optimize-workload",
                     "momentum:0.5", says="--stamps auto")

    def test_auto_finds_the_best_divisor(self):
        base = ["--family", "tree-full", "--steps", 120, "--participation", "cyclic:12,10", "--bound", "none"]
        for loss in ("rms", "max"):
            found = self.json("evaluate", *base, "--loss", loss, "--stamps", "auto")
            each = {s: self.json("evaluate", *base, "--stamps", s)[loss + "_loss"] for s in range(1, 121) if 120 % s == 0}
            self.assertEqual(found["stamps"], min(each, key=each.get))
            self.assertGreater(found["stamps"], 1)
        best = self.json("optimize", "--family", "dense", "--steps", 40, "--stamps", "auto", "--participation", "cyclic:10,4",
                         "--optimize-participation", "single")
        plain = self.json("optimize", "--family", "dense", "--steps", 40, "--participation", "cyclic:10,4",
                          "--optimize-participation", "single")
        self.assertLess(best["rms_loss"], plain["rms_loss"])


class Design(Case):
    BASE = ["design", "--steps", 120, "--epochs", 12, "--epsilon", 4, "--delta", 1e-6, "--dim", 1000]

    def design(self, *more):
        code, out, err = run(*self.BASE, *more)  # a design may report its progress
        self.assertEqual(code, 0, err)
        return out

    def test_stamped_candidates_are_there_on_request(self):
        families = ["--families", "identity,tree-full,tree-online,blt", "--json"]
        plain, stamped = json.loads(self.design(*families)), json.loads(self.design(*families, "--stamps", "auto"))
        self.assertEqual({row["stamps"] for row in plain["candidates"]}, {1})
        rows = {(row["family"], row["stamps"] > 1): row for row in stamped["candidates"]}
        self.assertLess(rows["tree-full", True]["noise_rms"], rows["tree-full", False]["noise_rms"])
        self.assertLess(rows["tree-online", True]["noise_rms"], rows["tree-online", False]["noise_rms"])
        self.assertEqual((stamped["chosen"]["family"], stamped["chosen"]["stamps"]), ("blt", 1))
        self.assertIn("stamps", self.design("--families", "identity,tree-full", "--stamps", 4))
        saved = self.path("stamped.dpmf")
        self.design("--families", "identity,tree-full", "--stamps", 4, "-o", saved)
        self.assertEqual(self.json("inspect", saved)["stamps"], 4)
        self.ok("verify", saved)


class Trees(Case):
    def test_files_of_both_families_are_verified(self):
        for name, more in (("tree", ["--branching", "5"]), ("tree-online", ["--branching", "3"]),
                           ("tree-full", ["--branching", "4"]), ("smooth-binary", []),
                           ("smooth-binary", ["--decoder", "optimal"])):
            path = self.path("m.dpmf")
            found = self.json("evaluate", "--family", name, "--steps", 100, "--participation", "cyclic:4,25", *more, "-o", path)
            self.assertEqual(found["sensitivity"]["kind"], "exact")
            self.assertEqual(self.json("evaluate", path, *more)["rms_loss"], found["rms_loss"])
            self.ok("verify", path)
            os.remove(path)

    def test_options_that_contradict_a_file_are_refused(self):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--family", "tree", "--steps", 100, "--branching", 5, "-o", path)
        self.assertEqual(self.json("inspect", path)["branching"], 5)
        self.refused(2, "evaluate", path, "--branching", 4, says=("contradicts", "5"))
        self.refused(2, "evaluate", "--family", "fft", "--steps", 100, "--branching", 4, says="tree, tree-online and tree-full")
        self.refused(2, "evaluate", "--family", "tree", "--steps", 100, "--branching", 1, says="--branching 1")
        os.remove(path)
        self.ok("evaluate", "--family", "smooth-binary", "--steps", 100, "-o", path)
        self.refused(2, "evaluate", path, "--decoder", "optimal", says=("contradicts", "restart"))

    def test_the_smooth_binary_mechanism_has_the_same_error_at_every_step(self):
        # binomial(10, 5) - 1 steps: variance 5 x 5 at sensitivity 1 (Andersson and Pagh 2023).
        found = self.json("evaluate", "--family", "smooth-binary", "--steps", 251, "--per-step")
        for error in found["per_step_error"]:
            self.assertAlmostEqual(error, 5, delta=1e-12)
        self.assertLess(found["normals_per_number"], 2)


if __name__ == "__main__":
    unittest.main()
