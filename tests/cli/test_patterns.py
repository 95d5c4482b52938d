# SPDX-License-Identifier: Apache-2.0
"""Participation from a file of patterns: evaluate, optimize, design, account, verify, inspect and report, and bad files."""
import itertools
import unittest

from harness import Case, npy, run

OWN = "# three kinds of users\n0 5 9 13\n1-15:7\r\n2 3 6,10\n\n4 7 11\n12\n14\n"


def shuffled(epochs, length):
    return "\n".join(" ".join(str(length * e + t) for e, t in enumerate(places))
                     for places in itertools.product(range(length), repeat=epochs))


class Patterns(Case):
    def own(self, name="own.txt", text=OWN):
        return "file:" + self.write(name, text)

    def test_evaluate_takes_a_file_as_it_takes_a_name(self):
        listed = self.own("shuffled.txt", shuffled(3, 4))
        for family in ("identity", "toeplitz", "tree-full"):
            found, named = (self.json("evaluate", "--steps", 12, "--family", family, "--bound", "none", "--participation", p)
                            for p in (listed, "shuffled:3,4"))
            self.assertTrue(found["participation"].startswith("patterns:64,"))
            self.assertEqual(found["sensitivity"]["kind"], "exact")
            self.near(found["sensitivity"]["value"], named["sensitivity"]["value"], 1e-12)
            self.near(found["rms_loss"], named["rms_loss"], 1e-12)

    def test_rows_of_an_array_are_the_same_patterns(self):
        rows = [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
        array = "file:" + self.write("rows.npy", npy([x for row in rows for x in row], (2, 4)))
        text = self.own("rows.txt", "2 1\n0 3\n")
        one, other = (self.json("evaluate", "--steps", 4, "--family", "toeplitz", "--participation", p) for p in (array, text))
        self.assertEqual(one, other)

    def test_a_design_for_patterns_is_saved_verified_and_accounted(self):
        file = self.path("own.dpmf")
        made = self.json("design", "--steps", 16, "--participation", self.own(), "--epsilon", 2, "--delta", "1e-6", "--unit", "user",
                         "--out", file)
        self.assertTrue(made["participation"].startswith("patterns:6,"))
        self.assertIn("0 do not", self.ok("verify", file))
        self.assertIn("one of the listed patterns", self.ok("inspect", file))
        self.assertIn("in steps of one of the listed patterns", self.ok("account", file))
        self.assertEqual(self.json("evaluate", file, "--participation", self.own())["participation"], made["participation"])
        self.refused(2, "evaluate", file, "--participation", self.own("other.txt", "0 1\n"), says=["contradicts"])
        page = self.path("own.html")
        self.ok("report", file, "--out", page)
        with open(page, encoding="utf-8") as text:
            self.assertIn("one of the patterns that the file lists", text.read())
        inside = self.write("inside.csv", "client,round\nann,0\nann,9\nbob,12\n")
        outside = self.write("outside.csv", "client,round\n" + "".join("ann,%d\n" % t for t in range(16)))
        self.assertFalse(self.json("account", file, "--log", inside)["observed"]["exceeds_design"])
        code, out, _ = run("account", file, "--log", outside, "--json")
        self.assertEqual((code, self.parsed(out)["observed"]["exceeds_design"]), (3, True))

    def test_the_optimum_for_patterns_has_a_certificate(self):
        listed = self.own()
        found = {f[0]: self.json("optimize", "--steps", 16, "--participation", listed, "--family", *f)
                 for f in (("dense",), ("banded", "--bands", 1), ("toeplitz",), ("blt", "--buffers", 1))}
        best = found["dense"]["rms_loss"]
        for family, one in found.items():
            self.assertGreaterEqual(one["rms_loss"], best * (1 - 1e-6), family)

    def test_bad_lines_are_named_by_their_number(self):
        for text, says in (("0\n1 1\n", "line 2: step 1 is in it twice"), ("0\n\n9 16\n", "line 3: step 16, accepted 0 to 15"),
                           ("0 x\n", "line 1: 'x'"), ("5-2\n", "line 1: the range '5-2'"), ("\n", "it has no pattern")):
            self.refused(1, "evaluate", "--steps", 16, "--family", "identity", "--participation", self.own("bad.txt", text), says=[says])
        self.refused(1, "evaluate", "--steps", 16, "--family", "identity", "--participation", "file:" + self.path("none"),
                     says=["cannot read the pattern file"])
        self.refused(2, "design", "--steps", 16, "--participation", self.own(), "--epochs", 2, "--epsilon", 1, "--delta", "1e-6",
                     says=["design needs one of"])


if __name__ == "__main__":
    unittest.main()
