#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dpmf with --release exact: rows on a grid, the same bits from any place, statements of what is proven, and refusals."""
import json
import struct
import subprocess
import unittest

from harness import DPMF, Case, run


class Exact(Case):
    def mechanism(self, family="toeplitz", *options):
        path = self.path(family)
        self.json("evaluate", "--steps", 24, "--family", family, "--out", path, *options)
        return path

    def rows(self, file, rows, *options):
        out = subprocess.run([DPMF, "noise", "--uncalibrated", file, "--dim", "300", "--rows", rows, "--testing-seed", "2", "--release", "exact", *options],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        return struct.unpack("<%dd" % (len(out) // 8), out)

    def test_rows_are_on_the_grid_and_the_same_from_any_place(self):
        for family, options in (("identity", ()), ("toeplitz", ()), ("bsr", ("--bands", 3)), ("bisr", ("--bands", 3))):
            file = self.mechanism(family, *options)
            said = json.loads(run("noise", "--uncalibrated", file, "--dim", 300, "--rows", "0:1", "--testing-seed", 2, "--release", "exact", "--json",
                                  "--out", self.path("rows"))[1])
            self.assertEqual((said["release"], said["format"]), ("exact", "f64"))
            self.assertGreaterEqual(said["sensitivity"] * 1.0000001, self.json("evaluate", file)["sensitivity"]["value"])
            whole = self.rows(file, "0:24")
            self.assertTrue(all(x / said["grid"] == round(x / said["grid"]) for x in whole))
            self.assertEqual(self.rows(file, "7:9"), whole[7 * 300:9 * 300])
            self.assertEqual(self.rows(file, "7:8", "--offset", "100", "--count", "50"), whole[2200:2250])

    def test_strategies_without_a_square_form_are_refused_by_name(self):
        code, _, err = run("noise", "--uncalibrated", self.mechanism("tree"), "--dim", 3, "--rows", "0:1", "--release", "exact")
        self.assertNotEqual(code, 0)
        self.assertIn("tree has no exact release", err)

    def test_design_says_what_is_proven(self):
        said = self.json("design", "--steps", 50, "--epochs", 1, "--epsilon", 2, "--delta", 1e-6, "--dim", 1000,
                         "--families", "toeplitz,identity", "--max-overhead", 9, "--release", "exact")
        self.assertIn("Arithmetic: exact.", said["statement"])
        self.assertNotIn("real-valued", said["statement"])
        self.assertGreater(said["exact"]["rounding"], 0)

    def test_training_is_the_same_by_any_threads_and_says_what_is_proven(self):
        lines = ["label,a,b"] + ["%d,%d,%d" % (i % 3 > 0, i * 7 % 11 - 5 + i % 3, i * 5 % 7 - 3) for i in range(120)]
        self.write("data.csv", "\n".join(lines) + "\n")
        models = []
        for threads in (1, 3):
            out = self.path("model%d" % threads)
            code, answer, err = run("train", "--data", self.path("data.csv"), "--label", "label", "--hold-out", 20,
                                    "--steps", 20, "--epochs", 2, "--epsilon", 4, "--delta", 1e-5, "--testing-seed", 3,
                                    "--threads", threads, "--release", "exact", "--json", "--out", out)
            self.assertEqual(code, 0, err)
            said = json.loads(answer)
            self.assertEqual(said["release"], "exact")
            self.assertIn("Arithmetic: exact.", said["statement"])
            with open(out, "rb") as file:
                models.append(file.read())
        self.assertEqual(models[0], models[1])

    def test_counts_say_whether_they_are_exact(self):
        for options, release in (((), "exact"), (("--release", "plain"), "plain")):
            out = subprocess.run([DPMF, "count", "--uncalibrated", self.mechanism(), "--testing-seed", "1", "--json", "--out",
                                  self.path("sums"), *options], input=b"1\n2\n", stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, check=True).stdout
            self.assertIn(b'"release":"%s"' % release.encode(), out)


if __name__ == "__main__":
    unittest.main()
