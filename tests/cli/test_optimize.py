# SPDX-License-Identifier: Apache-2.0
"""dpmf optimize and bench: the certified optimum, TV-BLT, their files and refusals."""
import os
import unittest

from harness import Case


class Optimum(Case):
    # Certified optima, prefix sums, single participation (RMS and max loss).
    RMS = {8: 1.494414, 64: 2.099856, 256: 2.524414, 1024: 2.955452, 2048: 3.172315, 8192: 3.607685}
    MAX = {8: 1.510484, 64: 2.111367, 256: 2.532716, 1024: 2.961465, 2048: 3.177477, 8192: 3.611574}

    def test_dense_optima_are_the_known_ones(self):
        for loss, table in (("rms", self.RMS), ("max", self.MAX)):
            for n, value in table.items():
                if n > 256:
                    continue
                found = self.json("optimize", "--family", "dense", "--steps", n, "--loss", loss)
                self.assertEqual(found["outcome"], "converged")
                self.assertAlmostEqual(found[loss + "_loss"] / value, 1, delta=1e-6)
                self.assertAlmostEqual(found["lower_bound"][loss + "_loss"] / value, 1, delta=1e-6)
                self.assertGreaterEqual(found["ratio"], 1 - 1e-12)
                self.assertLessEqual(found["ratio"], 1 + 1.1e-6)
                self.assertAlmostEqual(found["sensitivity"]["value"], 1, delta=1e-12)
                self.assertEqual(len(found["parameters"]["matrix"]), n)

    def test_above_the_limit_there_are_bounds_alone(self):
        found = self.json("optimize", "--family", "dense", "--steps", 10000)
        self.assertIsNone(found["max_loss"])
        self.assertIsNone(found["lower_bound"]["max_loss"])
        self.assertGreater(found["lower_bound"]["rms_loss"], 3.6)
        self.assertIsNone(found["parameters"])
        self.assertLessEqual(found["ratio"], 1 + 1e-6)
        self.assertEqual(found["buffers"], 9999)
        self.refused(1, "optimize", "--family", "dense", "--steps", 10000, "-o", self.path("m.dpmf"))
        self.assertFalse(os.path.exists(self.path("m.dpmf")))

    def test_a_tvblt_reaches_its_ratio(self):
        # Ratios to the optimum that r nodes must reach.
        for n, r, most in ((1024, 3, 1.0064), (1024, 4, 1.0010), (1024, 5, 1.00015), (2048, 4, 1.0021)):
            found = self.json("optimize", "--family", "tvblt", "--steps", n, "--buffers", r, "--bound", "none")
            self.assertLessEqual(found["rms_loss"] / self.RMS[n], most + 5e-7)
            self.assertEqual(found["buffers"], r)
            self.assertEqual(found["sensitivity"]["kind"], "exact")
            self.assertAlmostEqual(found["sensitivity"]["value"], 1, delta=1e-12)

    def test_a_tvblt_comes_back_from_its_file(self):
        path = self.path("t.dpmf")
        made = self.json("optimize", "--family", "tvblt", "--steps", 300, "--workload", "momentum:0.9", "--buffers", 3,
                         "-o", path)
        self.assertEqual(made["buffers"], 6)
        read = self.json("evaluate", path)
        for key in ("rms_loss", "max_loss", "sensitivity", "lower_bound", "buffers"):
            self.assertEqual(made[key], read[key])
        self.assertEqual(self.json("inspect", path)["family"], "tvblt")

    def test_a_closer_ratio_takes_more_nodes(self):
        few = self.json("optimize", "--family", "tvblt", "--steps", 512, "--buffers", "ratio:1.05")
        more = self.json("optimize", "--family", "tvblt", "--steps", 512, "--buffers", "ratio:1.0001")
        self.assertLessEqual(few["ratio"], 1.05)
        self.assertLessEqual(more["ratio"], 1.0001)
        self.assertLess(few["buffers"], more["buffers"])

    def test_the_optimum_for_another_workload_is_worse(self):
        own = self.json("optimize", "--family", "dense", "--steps", 100, "--workload", "momentum:0.9")
        other = self.json("optimize", "--family", "dense", "--steps", 100, "--workload", "momentum:0.9",
                          "--optimize-workload", "prefix")
        self.assertGreater(other["rms_loss"], own["rms_loss"])

    def test_the_optimum_for_another_participation_is_worse(self):
        own = self.json("optimize", "--family", "dense", "--steps", 64, "--participation", "cyclic:4,16")
        other = self.json("optimize", "--family", "dense", "--steps", 64, "--participation", "cyclic:4,16",
                          "--optimize-participation", "single")
        self.assertGreater(other["sensitivity"]["value"], 1)
        self.assertLess(own["rms_loss"], other["rms_loss"])
        self.assertIn("any mechanism", own["lower_bound"]["scope"])
        self.assertLessEqual(own["ratio"], 1 + 1e-6)
        self.refused(1, "optimize", "--family", "tvblt", "--steps", 64, "--participation", "minsep:4,16",
                     says="single and cyclic participation")

    def test_a_tvblt_over_epochs_reaches_the_optimum_of_all(self):
        # Ratios to the certified bound; the last has a partial epoch.
        for n, k, b, r, most in ((256, 8, 32, 3, 1.0005), (240, 8, 32, 4, 1.0006)):
            found = self.json("optimize", "--family", "tvblt", "--steps", n, "--participation", "cyclic:%d,%d" % (k, b),
                              "--buffers", r)
            self.assertLessEqual(found["rms_loss"], most * found["optimum"]["lower"])
            self.assertEqual(found["buffers"], r)
            self.assertEqual(found["sensitivity"]["kind"], "exact")
            self.assertAlmostEqual(found["sensitivity"]["value"], 1, delta=1e-11)
        self.assertEqual(found["normals_per_number"], (32 * 28 + 16 * 8) / 240)

    def test_shared_seeds_take_fewer_normal_numbers(self):
        own = ("optimize", "--family", "tvblt", "--steps", 96, "--participation", "cyclic:8,12", "--buffers", 3)
        replayed, shared = self.json(*own), self.json(*own, "--shared-seeds", 2)
        self.assertEqual(replayed["normals_per_number"], 4.5)
        self.assertEqual(shared["normals_per_number"], 3)
        self.assertGreater(shared["rms_loss"], shared["optimum"]["lower"])
        self.assertLess(shared["rms_loss"], 1.05 * replayed["rms_loss"])
        self.assertLessEqual(shared["sensitivity"]["value"], 1 + 1e-12)

    def test_the_max_loss_of_a_tvblt_over_epochs(self):
        own = ("optimize", "--family", "tvblt", "--steps", 64, "--participation", "cyclic:4,16", "--buffers", 3)
        rms, largest = self.json(*own), self.json(*own, "--loss", "max")
        self.assertLess(largest["max_loss"], rms["max_loss"])
        self.assertLess(rms["rms_loss"], largest["rms_loss"])
        self.assertLessEqual(largest["max_loss"], 1.02 * largest["optimum"]["lower"])

    def test_buffers_of_a_tvblt_over_epochs_are_chosen(self):
        own = ("optimize", "--family", "tvblt", "--steps", 64, "--participation", "cyclic:4,16")
        few = self.json(*own, "--buffers", "ratio:1.05")
        more = self.json(*own)
        self.assertLessEqual(few["rms_loss"], 1.05 * few["optimum"]["lower"])
        self.assertLessEqual(more["rms_loss"], 1.001 * more["optimum"]["lower"])
        self.assertLess(few["buffers"], more["buffers"])

    def test_a_tvblt_over_epochs_comes_back_from_its_file(self):
        for words in ([], ["--shared-seeds", 1]):
            path = self.path("t%d.dpmf" % len(words))
            made = self.json("optimize", "--family", "tvblt", "--steps", 70, "--workload", "momentum:0.9", "--buffers", 2,
                             "--participation", "cyclic:3,25", "-o", path, *words)
            self.assertLess(os.path.getsize(path), 9000)  # nodes, not steps x buffers
            read = self.json("evaluate", path)
            for key in ("rms_loss", "max_loss", "sensitivity", "buffers"):
                self.assertEqual(made[key], read[key])
            seen = self.json("inspect", path)
            self.assertEqual(seen["family"], "tvblt")
            self.assertEqual(seen["normals_per_number"], made["normals_per_number"])

    def test_optimize_refuses_missing_and_bad_options(self):
        for words in (["--steps", 10], ["--family", "dense"], ["--family", "tree", "--steps", 10],
                      ["--family", "banded", "--steps", 10], ["--family", "banded", "--steps", 10, "--bands", 11],
                      ["--family", "banded", "--steps", 10, "--bands", 0],
                      ["--family", "banded-toeplitz", "--steps", 10, "--bands", 11],
                      ["--family", "banded", "--steps", 20, "--bands", 6, "--participation", "cyclic:4,5"],
                      ["--family", "banded", "--steps", 20, "--bands", 5, "--participation", "cyclic:3,5"],
                      ["--family", "toeplitz", "--steps", 10, "--bands", 3],
                      ["--family", "blt", "--steps", 10, "--buffers", 17],
                      ["--family", "blt", "--steps", 10, "--bands", 2],
                      ["--family", "lowrank", "--steps", 10, "--bands", 2],
                      ["--family", "lowrank", "--steps", 10, "--buffers", 2],
                      ["--family", "dense", "--steps", 10, "--variant", "sweep"],
                      ["--family", "banded-toeplitz", "--steps", 10, "--bands", 4, "--variant", "taper:4"],
                      ["--family", "banded-toeplitz", "--steps", 10, "--bands", 4, "--variant", "taper:2,sweep"],
                      ["--family", "banded", "--steps", 10, "--bands", 4, "--normalize", "after"],
                      ["--family", "dense", "--steps", 10, "--variant", "triangular"],
                      ["--family", "banded", "--steps", 10, "--bands", 4, "--variant", "zero"],
                      ["--family", "dense", "--steps", 10, "--buffers", 3],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 0],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 33],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 3, "--shared-seeds", 2],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 3, "--shared-seeds", 9],
                      ["--family", "tvblt", "--steps", 10, "--buffers", "ratio:1.1", "--shared-seeds", 2],
                      ["--family", "blt", "--steps", 10, "--buffers", 3, "--shared-seeds", 2],
                      ["--family", "tvblt", "--steps", 10, "--buffers", "ratio:0.9"],
                      ["--family", "tvblt", "--steps", 10, "--buffers", "3,ratio:1.1"],
                      ["--family", "dense", "--steps", 10, "--tolerance", 1e-11],
                      ["--family", "dense", "--steps", 10, "--tolerance", "nan"]):
            self.refused(2, "optimize", *words)

    def test_evaluate_carries_the_certificate(self):
        found = self.json("evaluate", "--family", "toeplitz", "--steps", 1024)
        self.assertAlmostEqual(found["lower_bound"]["rms_loss"] / self.RMS[1024], 1, delta=1e-6)
        self.assertAlmostEqual(found["lower_bound"]["max_loss"] / self.MAX[1024], 1, delta=1e-6)
        self.assertAlmostEqual(found["ratio"], 3.109790 / 2.955452, delta=1e-6)

    def test_an_unknown_benchmark_is_refused(self):
        self.refused(2, "bench", "nothing")


class Families(Case):
    """Independently computed values; equal or lower."""

    def reaches(self, value, *arguments, loss="rms", relative=1e-6):
        found = self.json("optimize", *arguments, "--loss", loss, "--bound", "none")
        self.assertEqual(found["outcome"], "converged")
        self.assertEqual(found["sensitivity"]["kind"], "exact")
        self.assertLessEqual(found[loss + "_loss"], value * (1 + relative))
        return found

    def test_toeplitz_reaches_the_known_losses(self):
        for n, plain, normalized in ((8, 1.543988, 1.511915), (64, 2.179043, 2.134878), (1024, 3.056588, 3.002684)):
            arguments = ["--family", "toeplitz", "--steps", n]
            self.reaches(plain, *arguments)
            self.reaches(normalized, *arguments, "--normalize", "after")
        within = self.reaches(2.134878, "--family", "toeplitz", "--steps", 64, "--normalize", "within")
        self.assertLess(within["rms_loss"], 2.1335)

    def test_banded_toeplitz_reaches_the_known_loss(self):
        found = self.reaches(32.75872, "--family", "banded-toeplitz", "--bands", 64, "--steps", 65536, loss="max")
        self.assertLess(found["stationarity"], 1e-5)
        small = self.reaches(2.4, "--family", "banded-toeplitz", "--bands", 16, "--steps", 64)
        path = self.write("c.json", str(small["parameters"]).replace("'", '"'))
        again = self.json("evaluate", "--family", "banded-toeplitz", "--steps", 64, "--bound", "none", "--parameters", path)
        self.near(again["rms_loss"], small["rms_loss"], 1e-12)

    def test_banded_reaches_the_known_losses(self):
        for n, value in ((32, 1.934325), (64, 2.292618), (256, 3.586968)):
            found = self.reaches(value, "--family", "banded", "--bands", 16, "--steps", n)
            self.assertLessEqual(found["optimum"]["upper"] / found["optimum"]["lower"], 1 + 1e-6)
            self.assertAlmostEqual(found["optimum"]["lower"] / value, 1, delta=2e-6)
        example = self.reaches(9, "--family", "banded", "--bands", 3, "--steps", 9)
        self.near(example["total_squared_loss"], 24.880865, 1e-6)

    def test_blt_reaches_the_known_losses(self):
        for n, losses in ((64, (2.479865, 2.391338, 2.388895)), (8192, (5.410531, 4.132130, 3.965354, 3.938797))):
            for d, value in enumerate(losses, 1):
                found = self.reaches(value, "--family", "blt", "--buffers", d, "--steps", n, loss="max")
                self.assertEqual(found["buffers"], d)
        long_run = self.json("optimize", "--family", "blt", "--buffers", 4, "--steps", "1e10", "--loss", "max", "--bound",
                             "none")
        self.near(long_run["max_loss"], 9.486051435, 1e-8)

    def test_inverse_bands_beat_the_closed_form(self):
        closed = self.json("evaluate", "--family", "bisr", "--bands", 8, "--steps", 1000, "--bound", "none")
        self.reaches(closed["rms_loss"], "--family", "bisr", "--bands", 8, "--steps", 1000)

    def test_low_rank_reaches_the_published_loss(self):
        path = self.path("l.dpmf")
        made = self.reaches(40.4 / 16 * 1.005, "--family", "lowrank", "--bands", 4, "--buffers", 4, "--steps", 256, "-o", path)
        self.near(self.json("evaluate", path, "--bound", "none")["rms_loss"], made["rms_loss"], 1e-12)

    def test_all_three_constraints_reach_the_published_losses(self):
        for constraint, value in (("corners", 16.114420), ("zero", 16.131315), ("non-negative", 16.133908)):
            found = self.json("optimize", "--family", "dense", "--steps", 6, "--participation", "cyclic:3,2", "--workload",
                              "momentum:0.95", "--variant", constraint, "--bound", "none")
            self.assertAlmostEqual(found["optimum"]["upper"] * 6 ** 0.5 / value, 1, delta=2e-6)
        full = self.json("optimize", "--family", "dense", "--steps", 10, "--participation", "full", "--bound", "none")
        self.assertEqual(full["outcome"], "converged")

    def test_dense_under_separation_and_shuffled_is_the_optimum_of_all(self):
        """Values: tests/python/reference_patterns.py."""
        for participation, value in (("minsep:3,3", 2.811739), ("shuffled:3,3", 2.944271)):
            found = self.json("optimize", "--family", "dense", "--steps", 9, "--participation", participation, "--bound", "none")
            self.assertEqual(found["outcome"], "converged")
            self.near(found["rms_loss"], value, 2e-6)
            self.assertTrue(found["optimum"]["scope"].startswith("all mechanisms"))
        banded = self.json("optimize", "--family", "banded", "--bands", 3, "--steps", 9, "--participation", "minsep:3,3", "--bound", "none")
        self.assertLess(2.8118, banded["rms_loss"])

    def test_the_part_of_the_family_that_was_searched_is_said(self):
        args = ("optimize", "--family", "toeplitz", "--steps", 15, "--bound", "none", "--participation")
        self.assertEqual(self.json(*args, "cyclic:3,5")["searched"], "coefficients of any sign")
        self.assertEqual(self.json(*args, "minsep:3,5")["searched"], "non-negative coefficients that do not rise")

    def test_an_interrupted_optimize_leaves_nothing(self):
        import signal
        import subprocess
        import time
        from harness import DPMF
        path = self.path("m.dpmf")
        running = subprocess.Popen([DPMF, "optimize", "--family", "banded", "--bands", "32", "--steps", "400000", "-o", path],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=100)
        self.assertEqual((running.returncode, out), (130, b""), err)
        self.assertEqual(self.left_behind(), [])


if __name__ == "__main__":
    unittest.main()
