# SPDX-License-Identifier: Apache-2.0
"""train --optimizer adagrad, rmsprop and ftrl, with --constraint and --regularizer; and the advice on adaptive optimizers."""
import json
import math
import os
import struct
import unittest

from harness import Case, run
from test_train import table as examples

SETS = {"none": lambda w: True, "ball:0.5": lambda w: math.sqrt(sum(x * x for x in w)) <= 0.5 * (1 + 1e-6),
        "box:0.05": lambda w: max(map(abs, w)) <= 0.05 * (1 + 1e-6),
        "simplex": lambda w: min(w) >= 0 and abs(sum(w) - 1) < 1e-5, "simplex:3": lambda w: min(w) >= 0 and abs(sum(w) - 3) < 1e-5}


class Optimizers(Case):
    def setUp(self):
        super().setUp()
        self.data = ["--data", self.write("train.csv", examples(600, 1)), "--test-data", self.write("test.csv", examples(200, 2))]
        self.designed = ["--batch", 60, "--epochs", 5, "--epsilon", 8, "--delta", 1e-5, "--sampling", "none", "--family", "identity"]
        self.private = [self.mechanism("toeplitz"), "--testing-seed", 3]

    def mechanism(self, family):
        path = self.path("%s.dpmf" % family)
        self.ok("evaluate", "--steps", 50, "--family", family, "--participation", "cyclic:5,10", "--epsilon", 8, "--delta", 1e-5, "--bound",
                "none", "-o", path)
        return path

    def train(self, *arguments):
        code, out, err = run("train", *self.data, *arguments, "--out", self.path("w"), "--json")
        self.assertEqual(code, 0, err)
        with open(self.path("w"), "rb") as file:
            bytes = file.read()[128:]
        return json.loads(out), struct.unpack("<%dd" % (len(bytes) // 8), bytes)

    def test_without_noise_they_learn(self):
        for arguments in (["adagrad", "--learning-rate", 0.5], ["rmsprop", "--learning-rate", 0.05],
                          ["rmsprop", "--learning-rate", 0.02, "--momentum", 0.9], ["ftrl", "--learning-rate", 2],
                          ["ftrl", "--learning-rate", 2, "--momentum", 0.5, "--constraint", "ball:6"],
                          ["ftrl", "--learning-rate", 2, "--constraint", "box:3", "--regularizer", "l1:0.001"],
                          ["ftrl", "--learning-rate", 20, "--constraint", "simplex:9", "--regularizer", "entropy"]):
            with self.subTest(arguments=arguments):
                answer, _ = self.train("--batch", 60, "--epochs", 20, "--noiseless", "--optimizer", *arguments)
                self.assertGreater(answer["test_accuracy"], 0.8)  # of four quadrants
                self.assertEqual(answer["optimizer"], arguments[0])

    def test_scaled_gradients_and_the_correction(self):
        plain, weights = self.train(*self.private, "--optimizer", "adam", "--learning-rate", 0.02)
        found = {weights}
        self.assertEqual(plain["precondition"], None)
        for optimizer in ("adam", "adagrad", "rmsprop"):
            answer, weights = self.train(*self.private, "--optimizer", optimizer, "--learning-rate", 0.02, "--precondition", 0.1)
            self.assertEqual((answer["precondition"], answer["epsilon"]), (0.1, plain["epsilon"]))
            self.assertIn("scaled coordinate by coordinate", answer["statement"])
            found.add(weights)
        answer, weights = self.train(*self.private, "--optimizer", "adam", "--learning-rate", 0.02, "--correct")
        found.add(weights)
        self.assertEqual(answer["epsilon"], plain["epsilon"])  # post-processing
        self.assertEqual(len(found), 5)
        for words, said in ((["sgd", "--precondition", 0.1], "needs --optimizer adam"), (["rmsprop", "--correct"], "--correct needs"),
                            (["adam", "--correct", "--noiseless"], "--correct needs"), (["adam", "--precondition", 0], "--precondition 0"),
                            (["adam", "--precondition", 0.1, "--correct"], "one of them is accepted"),
                            (["adam", "--precondition", 0.1, "--zero-above", 3], "zero_above")):
            code, _, err = run("train", *self.data, *self.designed, "--optimizer", *words)
            self.assertNotEqual(code, 0)
            self.assertIn(said, err)

    def test_private_weights_stay_in_their_set(self):
        found = set()
        for constraint, holds in SETS.items():
            for regularizer in ["l2"] + (["entropy"] if constraint[0] == "s" else ["l1:0.01"]):
                answer, weights = self.train(*self.private, "--optimizer", "ftrl", "--constraint", constraint, "--regularizer", regularizer)
                self.assertTrue(holds(weights), (constraint, weights))
                self.assertEqual((answer["constraint"], answer["regularizer"]), (constraint, regularizer))
                found.add(weights)
        self.assertEqual(len(found), 2 * len(SETS))
        plain, _ = self.train(*self.private)
        self.assertEqual((plain["constraint"], plain["regularizer"]), (None, None))
        self.assertEqual(plain["epsilon"], answer["epsilon"])  # post-processing

    def test_l1_makes_weights_zero(self):
        """The penalty grows with the steps, the noise with their root: strong enough, it leaves nothing."""
        _, without = self.train(*self.private, "--optimizer", "ftrl")
        _, some = self.train(*self.private, "--optimizer", "ftrl", "--regularizer", "l1:0.1")
        _, none = self.train(*self.private, "--optimizer", "ftrl", "--regularizer", "l1:100")
        self.assertEqual((sum(w == 0 for w in without), sum(w == 0 for w in none)), (0, len(none)))
        self.assertGreater(sum(w == 0 for w in some), 0)

    def test_without_noise_and_constraint_ftrl_is_sgd(self):
        plan = ["--batch", 60, "--epochs", 5, "--noiseless", "--momentum", 0.5, "--model", "mlp:3"]
        self.assertEqual(self.train(*plan)[1], self.train(*plan, "--optimizer", "ftrl")[1])

    def test_a_checkpoint_of_another_set_is_refused_by_name(self):
        given = [*self.private, "--checkpoint", self.path("run"), "--optimizer", "ftrl"]
        self.train(*given, "--constraint", "ball:0.5", "--regularizer", "l1:0.01")
        for arguments, says in ((["ball:0.6", "l1:0.01"], "radius is 0.5 in it and 0.6 here"),
                                (["box:0.5", "l1:0.01"], "constraint is ball in it and box here"),
                                (["ball:0.5", "l2"], "regularizer is l1 in it and squared distance here")):
            self.refused(2, "train", *self.data, *given, "--constraint", arguments[0], "--regularizer", arguments[1], says=says)

    def test_advice_is_given_where_many_bands_meet_an_adaptive_optimizer(self):
        for optimizer, family, advised in (("adam", "toeplitz", True), ("adagrad", "toeplitz", True), ("rmsprop", "toeplitz", True),
                                         ("sgd", "toeplitz", False), ("ftrl", "toeplitz", False), ("adam", "identity", False)):
            given = [self.mechanism(family), "--testing-seed", 3, "--optimizer", optimizer]
            answer, _ = self.train(*given)
            if not advised:
                self.assertIsNone(answer["advice"], optimizer)
                continue
            self.assertIn("optimizer such as %s, fewer bands" % optimizer, answer["advice"])
            self.assertIn("has 50", answer["advice"])
            code, out, _ = run("train", *self.data, *given)
            self.assertIn(answer["advice"], out)
        # The FILE of the advice is accepted, and ends it.
        path = self.path("few.dpmf")
        self.ok("optimize", "--steps", 50, "--family", "banded-toeplitz", "--bands", 4, "--participation", "cyclic:5,10", "--epsilon", 8,
                "--delta", 1e-5, "-o", path)
        code, out, err = run("train", path, *self.data, "--optimizer", "adam", "--testing-seed", 3, "--json")
        self.assertEqual(code, 0, err)
        self.assertIsNone(json.loads(out)["advice"])

    def test_options_that_do_not_fit_are_refused(self):
        for arguments, says in ((["--constraint", "ball:1"], "--constraint needs --optimizer ftrl"),
                                (["--regularizer", "l1:1", "--optimizer", "adam"], "--regularizer needs --optimizer ftrl"),
                                (["--optimizer", "adagrad", "--momentum", 0.5], "--momentum belongs to"),
                                (["--optimizer", "ftrl", "--decay", 0.5], "--decay: ftrl has --regularizer"),
                                (["--optimizer", "rmsprop", "--workload", "own"], "rmsprop is not a linear map")):
            self.refused(2, "train", *self.data, *self.designed, *arguments, says=says)
        for text in ("ball", "ball:0", "ball:-1", "ball:nan", "ball:1e13", "box", "box:x", "simplex:0", "simplex:1:2", "none:1", "cone:1", "balls:1"):
            self.refused(2, "train", *self.data, *self.private, "--optimizer", "ftrl", "--constraint", text,
                         says=["--constraint %s: none, ball:R, box:R, simplex and simplex:R are accepted" % text, "up to 1e12"])
        for text in ("l1", "l1:0", "l1:-1", "l1:inf", "l2:1", "entropy:1", "huber"):
            self.refused(2, "train", *self.data, *self.private, "--optimizer", "ftrl", "--regularizer", text,
                         says=["--regularizer %s: l2, l1:LAMBDA and entropy are accepted" % text, "up to 1e12"])
        self.refused(2, "train", *self.data, *self.private, "--optimizer", "ftrl", "--regularizer", "entropy", says="needs --constraint simplex")
        self.refused(2, "train", *self.data, *self.private, "--optimizer", "ftrl", "--regularizer", "l1:1", "--constraint", "simplex",
                     says="the l1 norm is constant")
        self.assertEqual(sorted(os.listdir(self.directory.name)), ["test.csv", "toeplitz.dpmf", "train.csv"])

    def test_the_own_workload_of_ftrl_is_that_of_its_sums(self):
        answer, _ = self.train(*self.designed, "--optimizer", "ftrl", "--constraint", "ball:1", "--momentum", 0.5, "--workload", "own")
        self.assertEqual(answer["workload"], "momentum:0.5,linear:0")


if __name__ == "__main__":
    unittest.main()
