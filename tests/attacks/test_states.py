# SPDX-License-Identifier: Apache-2.0
"""Attacks with one key and two state files: the same noise over two data sets, whose difference would be exact."""
import array
import json
import os
import shutil
import subprocess
import unittest

from common import DPMF, Case, run, table

STEPS = 20


class Stream(Case):
    """Before, a second state file (another name, or the key by another path) or another clip norm gave the first stream's noise
    again, up to a factor. Now the noise depends on a random salt of the state file, and on everything else that a stream is."""

    def setUp(self):
        super().setUp()
        self.mechanism = self.path("m.dpmf")
        self.ok("evaluate", "--steps", STEPS, "--family", "bsr", "--bands", 4, "--epsilon", 1, "--delta", 1e-6, "-o", self.mechanism)
        key = self.write("key", bytes(range(7, 39)))
        os.chmod(key, 0o600)
        os.mkdir(self.path("elsewhere"))
        os.symlink("../key", self.path("elsewhere/key"))
        self.link, self.key = self.path("elsewhere/key"), key

    def count(self, first, *arguments):
        """Sums of first, first + 1, ...; plain, with all digits."""
        lines = "".join("%d\n" % (first + t) for t in range(STEPS)).encode()
        done = subprocess.run([DPMF, "count", self.mechanism, *map(str, arguments)], input=lines, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [float(line.split()[0]) for line in done.stdout.decode().splitlines()]

    def rows(self, *arguments):
        code, _, err = run("noise", self.mechanism, "--dim", 3, "--rows", "0:%d" % STEPS, "-o", self.path("rows"), *arguments)
        self.assertEqual(code, 0, err)
        with open(self.path("rows"), "rb") as file:
            return array.array("f", file.read())

    def unrelated(self, one, other, factor=1.0):
        """No number of one list is that of the other, up to the factor."""
        self.assertEqual(len(one), len(other))
        self.assertGreater(len(one), 0)
        near = [abs(factor * a - b) < 1e-3 * abs(b) for a, b in zip(one, other)]
        self.assertLess(sum(near), len(near) / 5)  # by chance about 0.1 % each


class OneKey(Stream):
    def test_the_difference_of_two_counts(self):
        """The attacker has two counts made with one key, over other numbers, and subtracts them: before, the true difference."""
        runs = [self.count(0, "--key-file", self.key), self.count(100, "--key-file", self.link),
                self.count(100, "--key-file", self.key, "--state", self.path("other"))]
        for other in runs[1:]:
            exact = [abs(b - a - 100 * (t + 1)) < 1e-3 for t, (a, b) in enumerate(zip(runs[0], other))]
            self.assertLess(sum(exact), 3, (runs[0], other))
        exact = [abs(b - a) < 1e-3 for a, b in zip(runs[1], runs[2])]
        self.assertLess(sum(exact), 3)

    def test_two_counts_with_other_clip_norms(self):
        """With clip norm 2 the noise was that of clip norm 1 doubled: twice one count less the other had none."""
        one = self.count(0, "--key-file", self.key)
        two = self.count(0, "--key-file", self.key, "--state", self.path("other"), "--clip", 2)
        totals = [t * (t + 1) / 2 for t in range(STEPS)]
        self.assertLess(sum(abs(2 * a - b - total) < 1e-3 for a, b, total in zip(one, two, totals)), 3)

    def test_rows_of_two_states(self):
        first = self.rows("--key-file", self.key)
        for more in (["--key-file", self.link], ["--key-file", self.key, "--state", self.path("other")],
                     ["--key-file", self.key, "--state", "none"]):
            self.unrelated(first, self.rows(*more))

    def test_rows_without_a_state_file(self):
        """`--state none` promises nothing about rows that repeat, but other settings are another stream, not the same noise times
        a factor."""
        none = ["--key-file", self.key, "--state", "none"]
        first = self.rows(*none)
        self.assertEqual(first, self.rows(*none))
        self.unrelated(first, self.rows(*none, "--clip", 2), 2.0)
        code, _, err = run("noise", self.mechanism, "--dim", 4, "--rows", "0:%d" % STEPS, *none, "-o", self.path("four"))
        self.assertEqual(code, 0, err)
        with open(self.path("four"), "rb") as file:
            four = array.array("f", file.read())
        self.unrelated(first, array.array("f", [four[4 * t + i] for t in range(STEPS) for i in range(3)]))

    def test_the_weights_of_two_trainings(self):
        """One key, one run, two state files, another data set: the weights of a first step differ by more than the gradients."""
        data = self.write("train.csv", table(200, 1))
        asked = ["train", "--data", data, "--hold-out", 40, "--batch", 160, "--epochs", 1, "--epsilon", 1, "--delta", "1e-5",
                 "--sampling", "none", "--key-file"]
        weights = []
        for i, more in enumerate(([self.key], [self.link], [self.key, "--state", self.path("other")])):
            code, _, err = run(*asked, *more, "--out", self.path("w%d" % i))
            self.assertEqual(code, 0, err)
            with open(self.path("w%d" % i), "rb") as file:
                weights.append(file.read())
        self.assertEqual(len(set(weights)), 3)  # the same data and settings: before, the same weights

    def test_a_removed_state_file(self):
        """The attacker removes the state file and runs the program again over other data: before, the same noise from row 0 on."""
        first = self.rows("--key-file", self.key)
        os.remove(self.key + ".state")
        self.unrelated(first, self.rows("--key-file", self.key))

    def test_the_refusal_does_not_advise_a_second_state_file(self):
        self.rows("--key-file", self.key)
        said = self.refused(2, "noise", self.mechanism, "--dim", 3, "--rows", "0:1", "--key-file", self.key, "--clip", 2, "-o",
                            self.path("x"), says="a key file serves one run: another run needs its own key")
        self.assertNotIn("its own state file", said)


class Ledgers(Stream):
    def setUp(self):
        super().setUp()
        self.ledger = ["--ledger", self.path("l.json")]

    def asked(self, *more):
        return ["count", self.mechanism, *self.ledger, *map(str, more)]

    def test_the_second_state_file_of_a_key(self):
        """Before, the ledger knew both streams by the key and the mechanism: one entry for two releases. Now they are two runs, and
        the second is refused."""
        self.count(0, "--key-file", self.key, *self.ledger)
        for more in (["--key-file", self.link], ["--key-file", self.key, "--state", self.path("other")],
                     ["--key-file", self.key, "--state", self.path("third"), "--clip", 2]):
            self.refused(1, *self.asked(*more), says=["--ledger", "another run with this key", "use a new key for a new run"])
        with open(self.path("l.json"), encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["entries"]), 1)

    def test_a_run_that_was_killed_before_its_first_row(self):
        """The run is in the ledger, and nothing of it was released. It is still the same run: its state file was made first."""
        with subprocess.Popen([DPMF, *self.asked("--key-file", self.key)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as child:
            while not os.path.exists(self.path("l.json")) or os.path.getsize(self.path("l.json")) == 0:
                self.assertIsNone(child.poll())
            child.kill()
        self.assertEqual(len(self.count(0, "--key-file", self.key, *self.ledger)), STEPS)


class Checkpoints(Case):
    def test_a_checkpoint_under_another_state_file(self):
        """The attacker gives a run's checkpoint a state file of its own, which has seen no row, so that steps could be repeated with
        other data. The checkpoint has the salt of its state file, and is refused under another one."""
        data = self.write("train.csv", table(200, 1))
        asked = ["train", "--data", data, "--hold-out", 40, "--batch", 16, "--epochs", 1, "--epsilon", 1, "--delta", "1e-5",
                 "--sampling", "none", "--key-file", self.path("key"), "--checkpoint", self.path("c"), "--out", self.path("w")]
        code, _, err = run(*asked)
        self.assertEqual(code, 0, err)
        shutil.move(self.path("key.state"), self.path("kept"))
        os.remove(self.path("w"))
        self.refused(2, *asked, says=["belongs to another state file", "cannot be resumed"])
        shutil.move(self.path("kept"), self.path("key.state"))
        code, _, err = run(*asked)
        self.assertEqual(code, 0, err)


if __name__ == "__main__":
    unittest.main()
