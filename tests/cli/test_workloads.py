# SPDX-License-Identifier: Apache-2.0
"""Sums of workloads, matrices of any shape and weights of 0 on the command line: figures, files, refusals."""
import math
import unittest

from harness import Case, npy

SUM = "prefix + 3*identity + decay:0.1"


class Sums(Case):
    def test_squared_losses_of_a_sum_are_the_weighted_sums(self):
        for family in ("identity", "toeplitz", "tree-full"):
            parts = [(1, "prefix"), (0.3, "momentum:0.9,cooldown:0.25:0.1"), (2, "identity")]
            base = ("evaluate", "--steps", 40, "--family", family, "--optimize-workload", "prefix", "--bound", "none", "--workload")
            found = self.json(*base, " + ".join("%g*%s" % part for part in parts))
            wanted = sum(w * self.json(*base, text)["total_squared_loss"] for w, text in parts)
            self.near(found["total_squared_loss"], wanted, 1e-12)
            self.near(found["rms_loss"], math.sqrt(wanted / 40), 1e-12)
            self.assertEqual(found["workload"], "prefix + 0.3*momentum:0.9,cooldown:0.25:0.1 + 2*decay:1")
            self.near(self.json(*base, "1*prefix")["rms_loss"], self.json(*base, "prefix")["rms_loss"], 0)

    def test_every_optimizer_that_takes_sums_is_near_the_certified_optimum(self):
        for participation in ("single", "cyclic:4,10"):
            base = ("optimize", "--steps", 40, "--participation", participation, "--workload", SUM, "--family")
            best = self.json(*base, "dense")
            self.assertEqual(best["outcome"], "converged")
            self.assertLess(best["ratio"], 1 + 2e-6)
            for family, most in ((("toeplitz",), 1.06), (("blt", "--buffers", 3), 1.12), (("banded", "--bands", 10), 1.12),
                                 (("banded-toeplitz", "--bands", 10), 1.16)):
                found = self.json(*base, *family)
                self.assertLess(found["rms_loss"], most * best["rms_loss"])
                self.assertGreaterEqual(found["rms_loss"], best["rms_loss"] * (1 - 1e-6))

    def test_a_file_for_a_sum_is_verified_and_makes_noise_and_counts_nothing(self):
        path = self.path("s.dpmf")
        self.ok("design", "--steps", 30, "--epochs", 3, "--epsilon", 3, "--delta", 1e-5, "--workload", SUM, "-o", path)
        self.assertTrue(self.json("verify", path)["ok"])
        self.assertEqual(self.json("inspect", path)["workload"], "prefix + 3*decay:1 + decay:0.1")
        self.ok("noise", path, "--dim", 5, "--rows", "0:30", "--key-file", self.path("key"), "--out", self.path("rows"))
        self.refused(1, "count", path, says="a matrix or a sum")

    def test_wrong_sums_are_refused_with_the_accepted_form(self):
        for text, says in (("prefix+identity", "W1 + 0.3*W2"), ("0*prefix + mean", "weight 0"), ("prefix + x", "accepted"),
                           ("-2*prefix", "weight -2"), ("prefix + ", "accepted"), (" + ".join(["mean"] * 9), "1 to 8")):
            self.refused(2, "evaluate", "--steps", 9, "--family", "identity", "--workload", text, says=["--workload", says])
        self.refused(1, "evaluate", "--steps", 9, "--family", "workload", "--workload", SUM, says="C = A")
        self.refused(1, "optimize", "--steps", 9, "--family", "dense", "--loss", "max", "--workload", SUM, says="max loss")

    def test_a_workload_named_twice_is_optimized_for_itself(self):
        base = ("optimize", "--steps", 16, "--family", "dense", "--participation", "min-sep:2,6")
        plain = self.json(*base)
        for text in ("prefix", "momentum:0"):
            found = self.json(*base, "--optimize-workload", text)
            self.assertEqual((found["ratio"], found["lower_bound"]), (plain["ratio"], plain["lower_bound"]))
        self.assertLess(plain["ratio"], 1.001)
        again = self.json(*base, "--workload", SUM, "--optimize-workload", SUM)
        self.assertLess(again["ratio"], 1.001)


class Rows(Case):
    def test_a_matrix_of_any_shape_is_evaluated_and_optimized(self):
        rows = [[float((3 * r + 5 * u) % 7 < 3) for u in range(8)] for r in range(12)]
        file = self.write("rows.npy", npy([x for row in rows for x in row], (12, 8)))
        found = self.json("evaluate", "--steps", 8, "--family", "identity", "--workload", "file:" + file, "--per-step")
        self.near(found["total_squared_loss"], sum(map(sum, rows)), 1e-12)
        self.assertEqual((found["workload"], found["workload_rows"]), ("rows", 12))
        self.near(found["rms_loss_per_row"], math.sqrt(found["total_squared_loss"] / 12), 1e-12)
        for t in range(8):
            ends = [sum(row) for row in rows if row[t] and not any(row[t + 1:])]
            self.near(found["per_step_error"][t], math.sqrt(sum(ends)), 1e-12)
        best = self.json("optimize", "--steps", 8, "--family", "dense", "--workload", "file:" + file, "-o", self.path("m"))
        self.assertLess(best["ratio"], 1 + 2e-6)
        self.assertTrue(self.json("verify", self.path("m"))["ok"])
        shown = self.ok("evaluate", self.path("m"))
        self.assertIn("12, each released in the step of its last non-zero column", shown)

    def test_wrong_matrices_are_refused(self):
        for name, shape, says in (("one", (9,), "1 dimension"), ("narrow", (3, 3), "rows of 9 numbers")):
            file = self.write(name + ".npy", npy([1.0] * 9, shape))
            self.refused(2, "evaluate", "--steps", 9, "--family", "identity", "--workload", "file:" + file, says=["--workload", says])
        file = self.write("zero.npy", npy([1.0] * 9 + [0.0] * 9, (2, 9)))
        self.refused(2, "evaluate", "--steps", 9, "--family", "identity", "--workload", "file:" + file, says="row 1")


class Weights(Case):
    def test_weights_of_zero_are_optimized(self):
        file = self.write("w.npy", npy([0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 1.0, 4.0]))
        for family in (("dense",), ("toeplitz",), ("blt", "--buffers", 2), ("banded", "--bands", 3)):
            for participation in ("single", "cyclic:2,4"):
                found = self.json("optimize", "--steps", 8, "--weights", file, "--participation", participation, "--family", *family)
                self.assertGreaterEqual(found["ratio"], 1 - 1e-9)
                if family == ("dense",):
                    self.assertLess(found["ratio"], 1 + 2e-6)

    def test_the_last_steps_alone(self):
        found = self.json("optimize", "--steps", 20, "--family", "dense", "--weights", "last")
        self.near(found["rms_loss"], 1, 1e-6)  # one sum, in which a unit's part is at most 1
        whole = self.json("evaluate", "--steps", 20, "--family", "toeplitz", "--per-step")["per_step_error"]
        for text, count in (("last", 1), ("last:0.25", 5), ("last:1", 20), ("last:0.01", 1)):
            found = self.json("evaluate", "--steps", 20, "--family", "toeplitz", "--weights", text)
            self.near(found["rms_loss"], math.sqrt(sum(x * x for x in whole[-count:]) / count), 1e-12)
        for text in ("last:0", "last:1.5", "last:", "last:x", "last:nan"):
            self.refused(2, "evaluate", "--steps", 20, "--family", "toeplitz", "--weights", text, says=["--weights", "fraction"])
        self.refused(1, "evaluate", "--steps", 20, "--family", "toeplitz", "--weights", "lastly", says="lastly")


if __name__ == "__main__":
    unittest.main()
