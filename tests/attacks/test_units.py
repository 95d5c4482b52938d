# SPDX-License-Identifier: Apache-2.0
"""Who is protected: statements that hide it, and files whose unit nothing recorded."""
import json
import os
import unittest

from common import Case, File, run, table

ASKED = ["--epsilon", 1, "--delta", 1e-6]
USERS = ["design", "--steps", 60, "--participation", "min-sep:5,7", "--dim", 1, "--families", "blt", *ASKED]


class Units(Case):
    def designed(self, *more):
        path = self.path("users.dpmf")
        self.ok(*USERS, *more, "-o", path)
        return path

    def test_a_file_for_users_says_so(self):
        """A file is designed for users, and an officer asks the file what it protects. The name was in the answer of design alone: account,
        report and inspect of the file said "one example" or nothing. Now the file records it, and every answer has it."""
        path = self.designed("--unit", "user")
        for verb in (["account"], ["calibrate", *ASKED]):
            said = self.json(verb[0], path, *verb[1:])
            self.assertIn("Privacy unit: one user.", said["statement"])
            self.assertNotIn("example", said["statement"])
            self.assertEqual(said["protected"]["unit"], "user")
        self.assertEqual(self.json("inspect", path)["unit"], "user")
        self.assertIn("Privacy unit: one user.", self.json("report", path)["privacy"]["statement"])
        self.ok("calibrate", path, "--epsilon", 2, "--delta", 1e-6, "-o", self.path("again.dpmf"))
        self.assertEqual(self.json("inspect", self.path("again.dpmf"))["unit"], "user")

    def test_another_unit_than_the_file_records(self):
        """A file that protects one example of a user with many is printed as a guarantee for users: --unit put any word into the statement.
        Now a name that is not the file's is refused, and a mechanism for users trains by users."""
        example = self.path("example.dpmf")
        self.ok("design", "--steps", 20, "--epochs", 2, "--families", "identity", *ASKED, "-o", example)
        for verb in (["account"], ["report", "--json"], ["calibrate", *ASKED], ["count", "--testing-seed", 1],
                     ["evaluate", "-o", self.path("other.dpmf")], ["train", "--data", self.write("d.csv", table(40, 1, users=9)),
                                                                   "--hold-out", 5, "--user", "who"]):
            self.refused(2, verb[0], example, "--unit", "user", *verb[1:], says=["--unit user contradicts", "which has example"])
        users = self.designed("--unit", "user")
        self.refused(2, "train", users, "--data", self.path("d.csv"), "--hold-out", 5, says=["--unit user needs --user"])

    def test_a_sentence_as_the_unit(self):
        """A guarantee is pasted from the terminal into a paper: --unit put whole sentences into it, another epsilon included."""
        for unit in ("user. In truth epsilon = 0.01", "a\nb", "x" * 41, "user;"):
            for verb in (["account", "--sigma", 1, "--delta", 1e-6], [*USERS]):
                self.refused(2, *verb, "--unit", unit, says=["up to 40 letters"])

    def test_a_forged_unit(self):
        """Somebody writes another unit into a file, with a digest that fits. verify finds it: the response depends on the unit."""
        path = self.designed("--unit", "user")
        self.assertTrue(self.json("verify", path)["ok"])
        with open(path, "rb") as file:
            forged = File(file.read())
        forged.root["unit"] = "hospital"
        code, out, _ = run("verify", self.write("forged.dpmf", forged.bytes()), "--json")
        self.assertEqual((code, [c["name"] for c in json.loads(out)["checks"] if not c["ok"]]), (3, ["response", "stream.response"]))

    def test_several_participations_of_whom(self):
        """A mechanism for 5 participations was made and counted with, and nothing ever asked for the unit whose participations are limited.
        Now design and count ask for it, and name what they accept. --epochs are passes over examples, which are the unit then."""
        says = ["up to 5", "--unit NAME (example, user or another word)", "--unit user"]
        self.refused(2, *USERS, "-o", self.path("none.dpmf"), says=says)
        self.assertFalse(os.path.exists(self.path("none.dpmf")))
        path = self.path("unnamed.dpmf")
        self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--participation", "min-sep:5,7", *ASKED, "-o", path)
        self.refused(2, "count", path, "--testing-seed", 1, says=says)
        self.assertIn("Privacy unit: not recorded.", self.json("account", path)["statement"])
        self.assertIsNone(self.json("inspect", path)["unit"])
        self.assertIn("one user is the word of the caller", self.json("account", path, "--unit", "user")["statement"])
        with open(self.write("lines", "1\n")) as lines:
            found = self.parsed(run("count", path, "--unit", "user", "--testing-seed", 1, "-o", self.path("sums"), "--json", stdin=lines)[1])
        self.assertEqual((found["protected"]["unit"], found["protected"]["unit_recorded"]), ("user", False))
        epochs = self.json("design", "--steps", 60, "--epochs", 5, "--families", "blt", *ASKED)
        self.assertEqual(epochs["unit"], "example")


class Facts(Case):
    CASES = {
        "single": "takes part in at most one of the 60 steps, and adds at most the clip norm, in l2 norm, to it.",
        "cyclic:5,12": "takes part in at most 5 of the 60 steps, exactly 12 or a multiple of 12 apart, and adds",
        "min-sep:5,7": "takes part in at most 5 of the 60 steps, any two of them at least 7 apart, and adds",
        "min-sep:5,1": "takes part in at most 5 of the 60 steps, any of them, and adds",
        "shuffled:5,12": "takes part at most once in each of the 5 epochs of 12 steps, and adds",
        "full": "takes part in any number of the 60 steps, and adds",
    }

    def test_who_is_protected_in_numbers(self):
        """The statement said that figures hold "for any order that fits the participation for which the sensitivity was computed", and not
        which that is: a reader takes the epsilon of one visit for that of a daily visitor. Now it has the numbers, as sentences and as
        fields."""
        path = self.path("m.dpmf")
        for participation, words in self.CASES.items():
            with self.subTest(participation):
                self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--participation", participation, "--unit", "user", *ASKED,
                        "-o", path)
                found, held = self.json("account", path), self.json("inspect", path)
                text, facts = found["statement"], found["protected"]
                self.assertIn("Protected: each user that " + words, text)
                self.assertIn("Mechanism: toeplitz, designed for 60 steps. The noise of different steps is correlated", text)
                self.assertIn("SHA-256 of the mechanism: %s." % held["digest"], text)
                printed = float(text.split("Sensitivity ")[1].split()[0])
                self.assertGreaterEqual(printed * (1 + 1e-12), held["sensitivity"]["value"])
                self.assertLess(printed, held["sensitivity"]["value"] * 1.001)
                self.assertEqual(facts["sensitivity"], held["sensitivity"]["value"])
                self.assertEqual((facts["steps_designed"], facts["family"], facts["digest"], facts["correlated"]),
                                 (60, "toeplitz", held["digest"], True))
        self.assertEqual((facts["most_participations"], facts["separation"]), (60, 1))

    def test_a_count_that_is_not_over(self):
        """After 3 of 60 lines: the figures are those of all 60, and the clip norm and the lines are named."""
        path = self.path("m.dpmf")
        self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--unit", "user", *ASKED, "-o", path)
        with open(self.write("lines", "1\n2\n3\n")) as lines:
            found = self.json("count", path, "--clip", 2.5, "--key-file", self.path("key"), "-o", self.path("sums"), stdin=lines)
        self.assertIn("adds at most 2.5, in l2 norm, to it", found["statement"])
        self.assertIn("designed for 60 steps, of which 3 are done; the figures are for all of them", found["statement"])
        self.assertIn("Arithmetic: exact.", found["statement"])
        self.assertEqual([found["protected"][k] for k in ("clip", "steps_done", "steps_designed")], [2.5, 3, 60])

    def test_the_first_steps_and_sampling(self):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--unit", "user", *ASKED, "-o", path)
        self.assertIn("the figures are for the first 10 of them alone", self.json("account", path, "--first", 10)["statement"])
        self.ok("evaluate", "--steps", 60, "--family", "identity", "--unit", "user", "-o", path)
        self.ok("calibrate", path, *ASKED, "--sampling", "poisson:0.1", "-o", path)
        found = self.json("account", path)
        self.assertIn("each user that is one entry of the data that the sampling draws from, and adds at most the clip norm",
                      found["statement"])
        self.assertIn("The noise of different steps is independent. Largest column norm 1 (exact, rounded up)", found["statement"])
        self.assertIsNone(found["protected"]["most_participations"])


if __name__ == "__main__":
    unittest.main()
