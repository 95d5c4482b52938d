# SPDX-License-Identifier: Apache-2.0
"""dpmf optimize and bench: the certified optimum, TV-BLT, their files and refusals."""
import os
import unittest

from harness import Case


class Optimum(Case):
    # Certified optima, prefix sums, single participation (RMS and max loss).
    RMS = {8: 1.494414, 64: 2.099856, 256: 2.524414, 1024: 2.955452, 2048: 3.172315, 8192: 3.607685}
    MAX = {8: 1.510484, 64: 2.111367, 256: 2.532716, 1024: 2.961465, 2048: 3.177477, 8192: 3.611574}

    def test_dense(self):
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

    def test_bounds_alone_above_the_limit(self):
        found = self.json("optimize", "--family", "dense", "--steps", 10000)
        self.assertIsNone(found["max_loss"])
        self.assertIsNone(found["lower_bound"]["max_loss"])
        self.assertGreater(found["lower_bound"]["rms_loss"], 3.6)
        self.assertIsNone(found["parameters"])
        self.assertLessEqual(found["ratio"], 1 + 1e-6)
        self.assertEqual(found["buffers"], 9999)
        self.refused(1, "optimize", "--family", "dense", "--steps", 10000, "-o", self.path("m.dpmf"))
        self.assertFalse(os.path.exists(self.path("m.dpmf")))

    def test_tvblt(self):
        # Ratios to the optimum that r nodes must reach.
        for n, r, most in ((1024, 3, 1.0064), (1024, 4, 1.0010), (1024, 5, 1.00015), (2048, 4, 1.0021)):
            found = self.json("optimize", "--family", "tvblt", "--steps", n, "--buffers", r, "--bound", "none")
            self.assertLessEqual(found["rms_loss"] / self.RMS[n], most + 5e-7)
            self.assertEqual(found["buffers"], r)
            self.assertEqual(found["sensitivity"]["kind"], "exact")
            self.assertAlmostEqual(found["sensitivity"]["value"], 1, delta=1e-12)

    def test_tvblt_file(self):
        path = self.path("t.dpmf")
        made = self.json("optimize", "--family", "tvblt", "--steps", 300, "--workload", "momentum:0.9", "--buffers", 3,
                         "-o", path)
        self.assertEqual(made["buffers"], 6)
        read = self.json("evaluate", path)
        for key in ("rms_loss", "max_loss", "sensitivity", "lower_bound", "buffers"):
            self.assertEqual(made[key], read[key])
        self.assertEqual(self.json("inspect", path)["family"], "tvblt")

    def test_automatic_nodes(self):
        few = self.json("optimize", "--family", "tvblt", "--steps", 512, "--wanted-ratio", 1.05)
        more = self.json("optimize", "--family", "tvblt", "--steps", 512, "--wanted-ratio", 1.0001)
        self.assertLessEqual(few["ratio"], 1.05)
        self.assertLessEqual(more["ratio"], 1.0001)
        self.assertLess(few["buffers"], more["buffers"])

    def test_other_workload(self):
        own = self.json("optimize", "--family", "dense", "--steps", 100, "--workload", "momentum:0.9")
        other = self.json("optimize", "--family", "dense", "--steps", 100, "--workload", "momentum:0.9",
                          "--optimize-workload", "prefix")
        self.assertGreater(other["rms_loss"], own["rms_loss"])

    def test_other_participation(self):
        self.refused(1, "optimize", "--family", "dense", "--steps", 64, "--participation", "cyclic:4,16")
        found = self.json("optimize", "--family", "dense", "--steps", 64, "--participation", "cyclic:4,16",
                          "--optimize-participation", "single")
        self.assertGreater(found["sensitivity"]["value"], 1)

    def test_refusals(self):
        for words in (["--steps", 10], ["--family", "dense"], ["--family", "toeplitz", "--steps", 10],
                      ["--family", "dense", "--steps", 10, "--buffers", 3],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 0],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 33],
                      ["--family", "tvblt", "--steps", 10, "--wanted-ratio", 0.9],
                      ["--family", "tvblt", "--steps", 10, "--buffers", 3, "--wanted-ratio", 1.1],
                      ["--family", "dense", "--steps", 10, "--tolerance", 1e-11],
                      ["--family", "dense", "--steps", 10, "--tolerance", "nan"]):
            self.refused(2, "optimize", *words)

    def test_evaluate_carries_the_certificate(self):
        found = self.json("evaluate", "--family", "toeplitz", "--steps", 1024)
        self.assertAlmostEqual(found["lower_bound"]["rms_loss"] / self.RMS[1024], 1, delta=1e-6)
        self.assertAlmostEqual(found["lower_bound"]["max_loss"] / self.MAX[1024], 1, delta=1e-6)
        self.assertAlmostEqual(found["ratio"], 3.109790 / 2.955452, delta=1e-6)

    def test_bench_names(self):
        self.refused(2, "bench", "nothing")


if __name__ == "__main__":
    unittest.main()
