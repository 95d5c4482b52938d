# SPDX-License-Identifier: Apache-2.0
"""--columns 1: the sensitivity of single numbers, and that no verb makes two columns with it."""
import unittest

from harness import Case, run

# C'C has the signs of Choquette-Choo et al. 2023, Appendix H.2: the best signs move C u less far than vectors do.
MATRIX = [[0.2, 0, 0], [0.4, 0.45, 0], [0.25, -0.25, 0.5]]


def most_signs():
    """max |C u| over signs, from the definition."""
    best = 0.0
    for code in range(8):
        u = [-1 if code >> j & 1 else 1 for j in range(3)]
        best = max(best, sum(sum(c * x for c, x in zip(row, u)) ** 2 for row in MATRIX))
    return best ** 0.5


class Columns(Case):
    def setUp(self):
        super().setUp()
        self.words = ["evaluate", "--family", "dense", "--parameters", self.write("c.json", '{"matrix": %s}' % MATRIX),
                      "--steps", "3", "--participation", "full"]

    def file(self, *more):
        self.ok(*self.words, "--epsilon", 1, "--delta", 1e-6, "--unit", "example", "-o", self.path("one.dpmf"), *more)
        return self.path("one.dpmf")

    def test_one_column_has_the_maximum_over_signs(self):
        any_, one = self.json(*self.words), self.json(*self.words, "--columns", "1")
        self.assertEqual(any_["sensitivity"]["columns"], None)
        self.assertEqual((one["sensitivity"]["columns"], one["sensitivity"]["kind"]), (1, "exact"))
        self.near(one["sensitivity"]["value"], most_signs(), 1e-14)
        self.assertLess(one["sensitivity"]["value"], 0.99 * any_["sensitivity"]["value"])
        self.near(one["rms_loss"] / any_["rms_loss"], one["sensitivity"]["value"] / any_["sensitivity"]["value"])
        self.assertNotIn("coordinates", one["lower_bound"]["scope"])  # a bound for vectors says nothing here
        self.assertIn("for one column alone", self.ok(*self.words, "--columns", "1"))

    def test_where_vectors_reach_no_more_the_file_is_for_any_number(self):
        found = self.json("evaluate", "--family", "toeplitz", "--steps", "12", "--participation", "cyclic:3,4", "--columns", "1")
        self.assertEqual((found["sensitivity"]["columns"], found["sensitivity"]["kind"]), (None, "exact"))

    def test_no_verb_makes_two_columns(self):
        one = self.file("--columns", "1")
        self.refused(2, "noise", one, "--dim", "2", "--rows", "0:3", "--testing-seed", "1", says="one column")
        self.refused(2, "noise", one, "--dim", "2", "--offset", "1", "--count", "1", "--rows", "0:3", "--testing-seed", "1",
                     says="one column")
        self.refused(2, "noise", one, "--dim", "2", "--rows", "0:3", "--testing-seed", "1", "--dry-run", says="one column")
        for release in ("exact", "plain"):
            code, out, err = run("count", one, "--columns", "2", "--testing-seed", "1", "--release", release, input=b"1 2\n1 2\n",
                                 stdin=None)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("one column", err)
        data = self.write("data.csv", "x,label\n" + "".join("%d,%d\n" % (i % 7, i % 2) for i in range(60)))
        self.refused(2, "train", one, "--data", data, "--test-data", data, "--clip", "1", "--learning-rate", "0.1", "--testing-seed",
                     "1", says="one column")
        code, out, err = run("count", one, "--testing-seed", "1", input=b"1\n2\n3\n", stdin=None)
        self.assertEqual((code, out.count("\n")), (0, 3), err)
        self.assertEqual(run("noise", one, "--dim", "1", "--rows", "0:3", "--testing-seed", "1", "-o", self.path("rows"))[0], 0)

    def test_copies_and_accounts_carry_it(self):
        one = self.file("--columns", "1")
        self.assertTrue(self.json("verify", one)["ok"])
        self.assertEqual(self.json("inspect", one)["sensitivity"]["columns"], 1)
        self.assertIn("streams of one column alone", self.ok("account", one))
        self.assertEqual(self.json("account", one)["protected"]["columns"], 1)
        made = self.json("calibrate", one, "--epsilon", 2, "--delta", 1e-6, "-o", self.path("two.dpmf"))
        self.assertEqual(made["sensitivity"]["columns"], 1)
        self.refused(2, "noise", self.path("two.dpmf"), "--dim", "2", "--rows", "0:3", "--testing-seed", "1", says="one column")
        self.assertEqual(self.json("evaluate", one)["sensitivity"]["columns"], 1)
        self.assertGreaterEqual(self.json("audit", one, "--canaries", "50", "--testing-seed", "1")["epsilon_claimed"], 1)

    def test_a_file_can_be_evaluated_for_the_other(self):
        one = self.file("--columns", "1")
        self.ok("evaluate", one, "--columns", "any", "--epsilon", 1, "--delta", 1e-6, "-o", self.path("any.dpmf"))
        self.assertEqual(self.json("inspect", self.path("any.dpmf"))["sensitivity"]["columns"], None)
        self.assertEqual(run("noise", self.path("any.dpmf"), "--dim", "2", "--rows", "0:3", "--testing-seed", "1", "-o",
                             self.path("rows"))[0], 0)
        self.ok("evaluate", self.path("any.dpmf"), "--columns", "1", "-o", self.path("back.dpmf"))
        self.assertEqual(self.json("inspect", self.path("back.dpmf"))["sensitivity"]["columns"], 1)

    def test_other_numbers_and_bounds_are_refused(self):
        for wrong in ("2", "0", "visits", "1,2", ""):
            self.refused(2, *self.words, "--columns", wrong, says="--columns")
        self.refused(2, *self.words, "--columns", "1", "--sensitivity", "signs", says=("signs", "auto"))

    def test_signs_by_name_are_labelled_by_their_root(self):
        found = self.json(*self.words, "--sensitivity", "signs")["sensitivity"]
        self.near(found["value"], (3.141592653589793 / 2) ** 0.5 * most_signs())
        self.assertEqual(found["method"], "sqrt(pi/2) times the maximum over signs on a pattern")

    def test_a_design_of_one_number_is_for_one_column(self):
        words = ["design", "--steps", "12", "--epochs", "3", "--unit", "user", "--epsilon", "1", "--delta", "1e-6"]
        one, more = (self.json(*words, "--dim", dim, "-o", self.path("d%s" % dim)) for dim in ("1", "2"))
        self.assertLessEqual(one["chosen"]["noise_rms"], more["chosen"]["noise_rms"] * 1.001)
        self.assertTrue(self.json("verify", self.path("d1"))["ok"])
        self.assertTrue(all(c["sensitivity"]["columns"] is None for c in more["candidates"]))


if __name__ == "__main__":
    unittest.main()
