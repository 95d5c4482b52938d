# SPDX-License-Identifier: Apache-2.0
"""Files whose guarantee rests on sampling: verify computes it again and names its theorem, and so does the page."""
import re
import unittest

from harness import Case

RUN = ["design", "--steps", 32, "--epochs", 4, "--epsilon", 2, "--delta", 1e-6, "--dim", 100]
FILES = {
    "random allocation": ["--sampling", "allocation", "--families", "identity"],
    "capped sampling": ["--sampling", "poisson", "--batch-cap", 30, "--units", 200, "--families", "identity"],
    "Fourier sum": ["--sampling", "poisson", "--families", "identity"],
    "Monte Carlo": ["--sampling", "balls-in-bins", "--families", "blt"],
}


class SampledFiles(Case):
    def test_the_theorem_of_every_account_is_in_verify_and_on_the_page(self):
        for words, options in FILES.items():
            with self.subTest(words):
                file, page = self.path("m.dpmf"), self.path("page.html")
                self.assertIn(words, re.sub(r"\s+", " ", self.ok(*RUN, *options, "-o", file)))
                checks = {check["name"]: check for check in self.json("verify", file)["checks"]}
                self.assertEqual([name for name, check in checks.items() if check["ok"] is False], [])
                self.assertIn(words, checks["sigma"]["how"])
                self.ok("report", file, "-o", page)
                with open(page, encoding="utf-8") as written:
                    self.assertIn(words, re.sub(r"\s+", " ", written.read()))


if __name__ == "__main__":
    unittest.main()
