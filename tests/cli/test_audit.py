# SPDX-License-Identifier: Apache-2.0
"""dpmf audit: honest files pass, a tenth of the noise does not, and nothing of the user's is touched.

Keys are testing seeds, so that answers are the same every time; with fresh keys one honest audit in 20 may accuse.
"""
import decimal
import os
import unittest

from harness import Case, run
from page import seen


def rounded_down(value):
    """A lower bound with six digits, as pages show it."""
    return str(decimal.Context(prec=6, rounding=decimal.ROUND_FLOOR).create_decimal(repr(value)).normalize())


class Audit(Case):
    def mechanism(self, *arguments):
        path = self.path("m")
        self.ok("design", "--steps", 40, "--epochs", 4, "--epsilon", 3, "--delta", 1e-5, "--families", "banded-toeplitz",
                *arguments, "-o", path)
        return path

    def test_an_honest_file_is_below_its_claim_and_near_it(self):
        path = self.mechanism()
        for through in ("noise", "train"):
            for seed in (1, 2, 3):
                found = self.json("audit", path, "--through", through, "--testing-seed", seed)
                self.assertTrue(found["ok"])
                self.near(found["epsilon_claimed"], 3, 1e-6)
                self.assertLessEqual(found["epsilon_lower"], 3)
                self.assertGreaterEqual(found["epsilon_lower"], 0.6)
                self.assertGreaterEqual(found["canaries"], 1000)
                self.assertLessEqual(found["fpr"], 0.01)
                self.near(found["confidence"] + found["false_alarm"], 1, 1e-12)

    def test_a_claim_that_the_noise_does_not_support_is_noticed(self):
        path = self.mechanism()
        for through in ("noise", "train"):
            for seed in (1, 2, 3):
                code, out, _ = run("audit", path, "--through", through, "--epsilon", 0.1, "--testing-seed", seed)
                self.assertEqual(code, 3)
                self.assertIn("BROKEN", out)
                self.assertIn("0.1 at delta", out)
        self.refused(2, "audit", path, "--confidence", "unconditional", says="account")

    def test_the_page_has_two_pictures(self):
        path, page = self.mechanism(), self.path("page.html")
        found = self.json("audit", path, "--testing-seed", 1, "-o", page)
        page = seen(self, page)
        if page.drawn:
            self.assertEqual(page.drawn["pictures"], ["Number of canaries by score, for those that were in and those that were not",
                                                      "Canaries found against others accused"])
            self.assertIn("%s with confidence" % rounded_down(found["epsilon_lower"]), page.drawn["text"])
        self.assertEqual({**found, **page.object}, page.object, "every figure of the answer is in the page")
        ranking = page.object["ranking"]
        self.assertEqual((len(ranking), ranking.count("1")), (found["canaries"], found["included"]))
        self.assertEqual([sum(one[k] for one in page.object["scores"]) for k in (1, 2)],
                         [found["included"], found["canaries"] - found["included"]])
        self.assertIn("%s with confidence" % rounded_down(found["epsilon_lower"]), page.plain.text)

    def test_no_key_of_the_users_is_accepted(self):
        path = self.mechanism()
        self.refused(2, "audit", path, "--key-file", self.path("key"), says="--key-file")
        before = set(os.listdir(self.directory.name))
        self.ok("audit", path)
        self.assertEqual(set(os.listdir(self.directory.name)), before)

    def test_what_has_no_claim_and_no_sigma_is_refused(self):
        path = self.path("m")
        self.ok("evaluate", "--steps", 8, "--family", "identity", "-o", path)
        self.refused(1, "audit", path, says="no sigma")
        self.refused(1, "audit", path, "--delta", 1e-5, says="no sigma")
        self.refused(2, "audit", path, "--canaries", 5, says="--canaries")


if __name__ == "__main__":
    unittest.main()
