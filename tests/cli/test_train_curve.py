# SPDX-License-Identifier: Apache-2.0
"""train --public-test-curve: on the test data alone, which the user declares public; complete or not at all, the same after a kill."""
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import DPMF, run
from test_train import Training, table


class Curve(Training):
    def setUp(self):
        super().setUp()
        self.curve = ["--public-test-curve", self.path("curve.csv")]

    def rows(self, name="curve.csv"):
        with open(self.path(name)) as file:
            head, *lines = file.read().split("\n")
        self.assertEqual((head, lines[-1]), ("step,loss,accuracy", ""))
        return [(int(a), float(b), float(c)) for a, b, c in (line.split(",") for line in lines[:-1])]

    def test_the_last_point_is_the_answer(self):
        answer = self.train(*self.plan, *self.private, *self.seed, *self.curve)
        rows = self.rows()
        self.assertEqual([step for step, _, _ in rows], [*range(1, 51)])
        self.near(rows[-1][1], answer["test_loss"], 1e-9)
        self.near(rows[-1][2], answer["test_accuracy"], 1e-9)
        self.assertEqual(answer["test_curve"], self.path("curve.csv"))
        self.assertIn("curve is computed on the test data, which this guarantee does not cover", answer["statement"])
        plain = self.train(*self.plan, *self.private, *self.seed)
        self.assertIsNone(plain["test_curve"])
        self.assertNotIn("curve", plain["statement"])

    def test_the_run_is_the_same_with_and_without(self):
        self.train(*self.plan, *self.private, *self.seed, "--out", self.path("a"))
        self.train(*self.plan, *self.private, *self.seed, *self.curve, "--out", self.path("b"))
        self.assertEqual(self.weights("a"), self.weights("b"))

    def test_there_are_about_fifty_points(self):
        self.train("--batch", "60", "--epochs", "21", "--noiseless", *self.curve)  # 210 steps
        self.assertEqual([step for step, _, _ in self.rows()], [*range(4, 210, 4), 210])
        self.train("--batch", "60", "--epochs", "3", "--noiseless", *self.curve)
        self.assertEqual([step for step, _, _ in self.rows()], [*range(1, 31)])

    def test_the_curve_does_not_depend_on_the_training_data_but_through_the_model(self):
        """The loss along the run, for two training files with one example changed and steps too small to learn: the same."""
        other = table(600, 1).replace("\n", "\n0.5,0.5,0\n", 1).splitlines()
        changed = self.write("changed.csv", "\n".join(other[:601]) + "\n")
        still = ["--steps", "10", "--batch", "60", "--noiseless", "--learning-rate", "1e-12", *self.curve]
        self.train(*still)
        first = self.rows()
        self.train(*still, data=["--data", changed, *self.csv[2:]])
        for one, two in zip(first, self.rows()):
            self.assertEqual(one[0], two[0])
            self.near(one[1], two[1], 1e-9)

    def test_the_test_data_must_be_declared_public(self):
        self.refuse(*self.csv, *self.plan, *self.private, "--test-curve", self.path("c"), says="--test-curve")
        self.refuse("--data", self.path("train.csv"), "--test-data", self.path("train.csv"), *self.plan, *self.private,
                    *self.curve, says="training file")
        os.symlink(self.path("train.csv"), self.path("link.csv"))
        self.refuse("--data", self.path("train.csv"), "--test-data", self.path("link.csv"), *self.plan, *self.private,
                    *self.curve, says="training file")
        self.assertNotIn("curve.csv", self.left_behind())

    def test_a_place_that_cannot_be_written_is_found_before_the_work(self):
        self.refuse(*self.csv, *self.plan, *self.private, "--key-file", self.path("key"), "--public-test-curve",
                    self.path("none/c.csv"), code=1, says="--public-test-curve")
        self.assertNotIn("key", self.left_behind())

    def test_a_hold_out_has_a_curve(self):
        answer = self.train(*self.plan, "--noiseless", "--hold-out", "60", *self.curve, data=self.csv[:2])
        self.assertEqual(answer["evaluated_on"], "hold-out")
        self.near(self.rows()[-1][2], answer["test_accuracy"], 1e-9)

    def test_a_stopped_run_goes_on_with_its_curve(self):
        key, kept = ["--key-file", self.path("key")], ["--checkpoint", self.path("run"), "--every", "10"]
        whole = ["--batch", "60", "--epochs", "60", *self.private]
        self.begin("train", *self.csv, *whole, *key)  # both runs have the noise of this state file
        shutil.copy(self.path("key.state"), self.path("begun"))
        self.train(*whole, *key, "--public-test-curve", self.path("whole.csv"), "--out", self.path("w"))
        shutil.copy(self.path("begun"), self.path("key.state"))
        moments = random.Random(4)
        stopped = 0
        for _ in range(40):
            if stopped == 3:
                break
            if self.stop([*self.csv, *whole, *key, *kept, *self.curve], moments) == -signal.SIGKILL:
                stopped += 1
            else:
                for name in ("run", "curve.csv"):
                    os.remove(self.path(name))
                shutil.copy(self.path("begun"), self.path("key.state"))
        self.assertEqual(stopped, 3)
        code, _, err = run("train", *self.csv, *whole, *key, *kept, *self.curve)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"resumed at step \d+ of 600")
        self.assertEqual(self.rows("curve.csv"), self.rows("whole.csv"))

    def stop(self, arguments, moments):
        """kill -9 after a few checkpoints."""
        process = subprocess.Popen([DPMF, "train", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        last, seen, wanted = None, 0, moments.randrange(2, 6)
        while process.poll() is None and seen < wanted:
            try:
                found = os.stat(self.path("run")).st_ino
            except FileNotFoundError:
                found = None
            if found != last:
                last, seen = found, seen + 1
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        return process.wait()

    def test_another_file_is_not_overwritten_by_a_run_that_goes_on(self):
        key, kept = ["--key-file", self.path("key")], ["--checkpoint", self.path("run"), "--every", "10"]
        given = [*self.csv, "--batch", "60", "--epochs", "600", *self.private, *key, *kept]
        self.assertEqual(self.stop(given, random.Random(1)), -signal.SIGKILL)
        self.write("curve.csv", "my notes\n")
        self.refuse(*given, *self.curve, code=1, says="not the curve of this run")
        self.assertEqual(self.weights("curve.csv"), b"my notes\n")


if __name__ == "__main__":
    unittest.main()
