# SPDX-License-Identifier: Apache-2.0
"""Attacks with mechanism files whose parts do not belong together. The digest is public: an attacker who changes a file gives it one
that fits."""
import json
import math
import os
import resource
import unittest

from common import Case, File, run, table

STEPS, QUIET = 200, 150


class Pairs(Case):
    def make(self, order):
        """C = (1-x)^order, of which the family holds all coefficients and those of its inverse."""
        path = self.write("c.json", json.dumps({"coefficients": [(-1) ** j * math.comb(order, j) for j in range(order + 1)]}))
        return ["evaluate", "--family", "toeplitz", "--steps", STEPS, "--parameters", path, "--bound", "none", "--epsilon", 1,
                "--delta", 1e-6, "-o", self.path("m.dpmf")]

    def forge(self, order, first):
        """C times the forged inverse is `first` at 0 and 1 from step QUIET on, where honesty asks for 1, 0, 0, ..."""
        column = [first] + [0.0] * (QUIET - 1) + [1.0] * (STEPS - QUIET)
        for _ in range(order):
            for t in range(1, STEPS):
                column[t] += column[t - 1]
        with open(self.path("m.dpmf"), "rb") as file:
            forged = File(file.read())
        forged.arrays["strategy.inverse_coefficients"] = [[STEPS], column]
        return self.write("forged.dpmf", forged.bytes())

    def test_an_inverse_that_makes_no_noise(self):
        """A file has C, from which the guarantee follows, and its inverse, which makes the noise. The check of the two had a tolerance
        that grew with both: for C = (1-x)^8 an inverse that begins with 1e-9 in the place of 1 passed, and 150 steps went out without
        noise under an epsilon of 1. Now their product is 1 to one part in 10^8, for series of any size."""
        for order in (1, 8):
            self.ok(*self.make(order))
            self.ok("account", self.path("m.dpmf"))
            data = self.write("data.csv", table(50, 1))
            for first in (1e-9, 1 - 1e-6):
                forged = self.forge(order, first)
                for verb in (["inspect"], ["account"], ["count", "--testing-seed", 1], ["audit", "--testing-seed", 1],
                             ["report", "--json"], ["train", "--data", data, "--test-data", data],
                             ["calibrate", "--epsilon", 1, "--delta", 1e-6, "-o", self.path("out")], ["evaluate", "-o", self.path("out")],
                             ["noise", "--dim", 1, "--rows", "0:1", "--testing-seed", 1, "-o", self.path("rows")]):
                    self.refused(1, verb[0], forged, *verb[1:], says=["their product may differ from 1"])
                self.assertFalse(os.path.exists(self.path("rows")) or os.path.exists(self.path("out")))
                code, out, _ = run("verify", forged)
                self.assertEqual(code, 3)
                self.assertIn("their product may differ from 1", out)

    def test_a_pair_that_doubles_cannot_hold(self):
        """The inverse of (1-x)^12 passes what doubles hold exactly: such a file was written, and no check could tell it from a forged one.
        Now it is refused when it is made, and nothing is written."""
        self.refused(1, *self.make(12), says=["too ill-conditioned for double precision"])
        self.assertFalse(os.path.exists(self.path("m.dpmf")))

    def test_what_is_written_is_read_again(self):
        """Transforms prove less for long series of slow momentum: files of that kind were written and then refused by every other verb."""
        self.ok("evaluate", "--steps", 100000, "--family", "toeplitz", "--workload", "momentum:0.9999", "--bound", "none", "-o",
                self.path("m.dpmf"))
        self.ok("inspect", self.path("m.dpmf"))

    def test_a_counter_of_many_steps_needs_no_matrix(self):
        """Counting with momentum and plain noise looked at the deviation of every row through a matrix of steps x steps: 60 000 steps
        were refused for want of 27 GiB."""
        self.ok("evaluate", "--steps", 60000, "--family", "bsr", "--bands", 100, "--workload", "momentum:0.9", "--bound", "none",
                "--epsilon", 1, "--delta", 1e-6, "-o", self.path("m.dpmf"))
        with open(self.write("rows", "1\n2\n")) as rows:
            code, out, err = run("count", self.path("m.dpmf"), "--release", "plain", "--testing-seed", 1, stdin=rows)
        self.assertEqual((code, len(out.splitlines())), (0, 2), err)


class Sizes(Case):
    def test_a_small_file_that_stands_for_a_large_one(self):
        """A file of a kilobyte with 10^8 steps made its reader fill 8 bytes and more per step: 0.8 GB for identity, 1.5 GB for the
        workload's own matrix, up to all memory for windows. Now `inspect` stays below 300 MB for any number of steps, or refuses."""
        for family, workload, code in (("identity", "prefix", 0), ("workload", "prefix", 0), ("workload", "momentum:0.9", 0),
                                       ("identity", "window:4", 1)):
            self.ok("evaluate", "--family", family, "--workload", workload, "--steps", 64, "--bound", "none", "-o", self.path("m"))
            with open(self.path("m"), "rb") as file:
                forged = File(file.read())
            forged.root.update(steps=10 ** 8, response=None, rms_loss=1.5, max_loss=1.5, total_squared_loss=1.5)
            path = self.write("large", forged.bytes())
            done = run("inspect", path)
            self.assertEqual(done[0], code, (family, workload, done))
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 300 << 10, (family, workload))
            if code:
                self.assertIn("up to 4096 steps", done[2])


if __name__ == "__main__":
    unittest.main()
