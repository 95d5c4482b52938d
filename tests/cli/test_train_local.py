# SPDX-License-Identifier: Apache-2.0
"""train --local-steps: federated averaging at user level, and --zero-above by norm or by coordinate."""
import json
import os
import re
import unittest

from harness import Case, run
from test_train import table as examples

LOCAL = ["--local-steps", 4, "--local-rate", 0.5, "--local-batch", 3]
ASKED = ["--unit", "user", "--user", "who", "--batch", 8, "--epochs", 5, "--epsilon", 8, "--delta", 1e-5, "--sampling", "none",
         "--learning-rate", 1]


def unclocked(answer):
    """Without what the clock gave, and what is computed from the weights."""
    return {k: v for k, v in answer.items() if not k.startswith("seconds") and not k.startswith("test_") and k != "out"}


class Local(Case):
    def setUp(self):
        super().setUp()
        self.data = ["--data", self.write("u.csv", examples(600, 1, 40)), "--test-data", self.write("v.csv", examples(99, 2, 9))]

    def train(self, *arguments, data=None):
        code, out, err = run("train", *(data or self.data), *ASKED, *arguments, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out), err

    def weights(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def refuse(self, *arguments, says, code=2):
        found, out, err = run("train", *self.data, *arguments)
        self.assertEqual((found, out), (code, ""), err)
        self.assertIn(says, err)

    def test_the_answer_and_the_statement_name_users_and_local_steps(self):
        answer, _ = self.train(*LOCAL, "--testing-seed", 3, "--momentum", 0.9)
        self.assertEqual([answer[k] for k in ("unit", "units", "local_steps", "local_rate", "local_batch", "zero_above")],
                         ["user", 40, 4, 0.5, 3, None])
        self.assertIn("one user", answer["statement"])
        self.assertIn("update after 4 local steps of SGD (rate 0.5, batches of up to 3 of its examples), clipped", answer["statement"])
        self.assertGreater(answer["test_accuracy"], 0.5)  # of four quadrants
        whole, _ = self.train("--local-steps", 1, "--local-rate", 0.5, "--testing-seed", 3, "--zero-above", "max:9")
        self.assertIn("update after 1 local step of SGD (rate 0.5, all of its examples)", whole["statement"])
        self.assertEqual((whole["local_batch"], whole["zero_above"]), (None, "max:9"))
        plain, _ = self.train("--testing-seed", 3)
        self.assertNotIn("local", plain["statement"])
        self.assertEqual([plain[k] for k in ("local_steps", "local_rate", "local_batch")], [None] * 3)
        self.assertEqual(plain["epsilon"], answer["epsilon"])

    def test_one_whole_local_step_is_a_gradient_step(self):
        """Without noise: updates are the local rate times the gradients, so the server's rate takes its place."""
        common = ["--unit", "user", "--user", "who", "--batch", 8, "--epochs", 5, "--noiseless", "--momentum", 0.9, "--json"]
        local = self.parsed(run("train", *self.data, *common, "--learning-rate", 2, "--local-steps", 1, "--local-rate", 0.25, "--clip",
                                0.125)[1])
        plain = self.parsed(run("train", *self.data, *common, "--learning-rate", 0.5, "--clip", 0.5)[1])
        self.near(local["test_loss"], plain["test_loss"], 1e-5)
        self.assertEqual(local["test_accuracy"], plain["test_accuracy"])
        far = self.parsed(run("train", *self.data, *common, "--learning-rate", 2, "--local-steps", 9, "--local-rate", 0.25, "--clip", 0.125)[1])
        self.assertGreater(abs(far["test_loss"] - plain["test_loss"]), 1e-3)

    def test_threads_change_no_bit_and_options_change_the_noise(self):
        for name, more in [("a", ["--threads", 1]), ("b", ["--threads", 3]), ("c", ["--seed", 1])]:
            self.train(*LOCAL, "--testing-seed", 3, "--out", self.path(name), *more)
        self.assertEqual(self.weights("a"), self.weights("b"))
        self.assertNotEqual(self.weights("a"), self.weights("c"))

    def test_a_run_resumes_under_the_same_local_options_only(self):
        key = ["--key-file", self.path("key"), "--checkpoint", self.path("c"), "--every", 7]
        self.train(*LOCAL, *key, "--out", self.path("a"))
        answer, err = self.train(*LOCAL, *key, "--out", self.path("b"))
        self.assertEqual((answer["resumed_at"], self.weights("a")), (25, self.weights("b")))
        self.assertIn("complete", err)
        for more, says in [(["--local-steps", 5, *LOCAL[2:]], "local steps is 4 in it and 5 here"),
                           ([*LOCAL[:3], 0.25, *LOCAL[4:]], "local rate is 0.5 in it and 0.25 here"),
                           (LOCAL[:4], "local batch is 3 in it and 0 here"), ([], "local steps is 4 in it and off here"),
                           ([*LOCAL, "--zero-above", "max:2"], "zero above is 0 in it and 2 here")]:
            self.refuse(*ASKED, *key, *more, says=says)

    def test_nothing_that_is_printed_depends_on_a_user(self):
        """The user who is left out, for numbers that are none, that overflow, or above the bound, is in no message, exit code, count or
        field; only weights, and what is measured with them, differ."""
        lines = examples(600, 1, 40).split("\n")
        said = []
        for value in ("0.25", "nan", "1e30", "-1e999", "1e5"):
            hostile = [re.sub(r"^[^,]*,[^,]*", value + "," + value, line) if line.endswith(",u7") else line for line in lines]
            data = ["--data", self.write("u.csv", "\n".join(hostile)), *self.data[2:]]
            for zero in ("0", "max:0.5", "0.5"):
                answer, err = self.train(*LOCAL, "--testing-seed", 3, "--zero-above", zero, data=data)
                answer["zero_above"] = None
                said.append((unclocked(answer), err))
        for other in said[1:]:
            self.assertEqual(said[0], other)

    def test_users_are_told_apart_byte_by_byte_and_none_is_missing(self):
        rows = "x,y,label,who\n" + "".join("0.%d,0.5,%d,%s\n" % (i, i % 2, name) for i, name in enumerate(["ann", "Ann", "ANN", "bo"] * 4))
        held = ["--data", self.write("u.csv", rows), *self.data[2:]]
        few = ["--unit", "user", "--user", "who", "--batch", 2, "--epochs", 2, "--noiseless", "--label", "label", *LOCAL, "--json"]
        code, out, err = run("train", "--data", self.path("u.csv"), "--hold-out", 1, *few)
        self.assertEqual((code, json.loads(out)["units"]), (0, 3), err)  # of four, one is held out
        for name in ("", "nan", "NaN", "None", "NULL", " ", "<NA>", "undefined"):
            self.write("u.csv", rows + "1,1,0,%s\n" % name)
            code, out, err = run("train", *held, *few)
            self.assertEqual((code, out), (1, ""), name)
            self.assertIn("line 18: '%s' is not a user's name" % name, err)

    def test_local_options_that_do_not_fit_are_refused(self):
        example = ["--user", "who", "--batch", 60, "--epochs", 5, "--epsilon", 8, "--delta", 1e-5]
        for arguments, says in [([*example, *LOCAL], "--local-steps needs --unit user"), ([*ASKED, *LOCAL[2:]], "--local-rate needs"),
                                ([*ASKED, *LOCAL[4:]], "--local-batch needs"), ([*ASKED, *LOCAL[:2]], "needs --local-rate"),
                                ([*ASKED, "--local-steps", 0, "--local-rate", 1], "--local-steps 0"),
                                ([*ASKED, "--local-steps", 2, "--local-rate", 0], "--local-rate 0"),
                                ([*ASKED, *LOCAL[:4], "--local-batch", 0], "--local-batch 0"),
                                ([*ASKED, "--zero-above", "max:0"], "--zero-above max:0: a number from 0 to 1e300"),
                                ([*ASKED, "--zero-above", "min:1"], "--zero-above min:1"), ([*ASKED, "--zero-above", "-1"], "--zero-above -1"),
                                ([*ASKED, "--zero-above", "nan"], "--zero-above nan")]:
            with self.subTest(arguments=arguments):
                self.refuse(*arguments, says=says)
        self.assertEqual(sorted(os.listdir(self.directory.name)), ["u.csv", "v.csv"])


if __name__ == "__main__":
    unittest.main()
