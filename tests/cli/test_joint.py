# SPDX-License-Identifier: Apache-2.0
"""evaluate --joint: the factor of its formula, what it refuses, and that a file with sampling has none."""
import math
import unittest

from harness import Case, run


class Joint(Case):
    def ask(self, *more):
        return self.json("evaluate", "--family", "toeplitz", "--steps", 40, "--participation", "cyclic:10,4", "--bound", "none", *more)

    def test_the_factor(self):
        alone = self.ask()["sensitivity"]["value"]
        self.assertNotIn("joint_sensitivity", self.ask())
        for weight in (1e-9, 0.3, 0.5, 0.7, 20):
            for adjacency, square in (("zero-out", 1 + weight), ("add-remove", 1 + weight),
                                      ("replace-one", 4 if weight <= 0.5 else 2 + 2 * weight + 1 / (2 * weight))):
                with self.subTest(weight=weight, adjacency=adjacency):
                    got = self.ask("--joint", weight, "--adjacency", adjacency)["joint_sensitivity"]
                    self.assertEqual((got["kind"], got["weight"]), ("exact", weight))
                    self.near(got["value"], alone * math.sqrt(square), 1e-13)
                    self.assertGreaterEqual(got["value"], alone * math.sqrt(square) * (1 - 2**-52))

    def test_what_is_refused(self):
        for more, said in ((["--joint", "0"], "--joint 0"), (["--joint", "nan"], "--joint nan"),
                           (["--joint", "1", "--columns", "1"], "columns 0")):
            code, _, err = run("evaluate", "--family", "toeplitz", "--steps", 40, *more)
            self.assertNotEqual(code, 0)
            self.assertIn(said, err)


if __name__ == "__main__":
    unittest.main()
