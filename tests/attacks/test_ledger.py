# SPDX-License-Identifier: Apache-2.0
"""Attacks on the ledger: spending a budget twice, at once or by kill -9 between the entry and the release."""
import json
import os
import random
import signal
import subprocess
import time
import unittest

from common import DPMF, Case, run, table


class Attack(Case):
    def setUp(self):
        super().setUp()
        self.mechanism, self.ledger = self.path("m.dpmf"), self.path("l.json")
        self.ok("evaluate", "--steps", 64, "--family", "toeplitz", "--epsilon", 1, "--delta", 1e-6, "-o", self.mechanism)

    def noise(self, name, *options):
        return [DPMF, "noise", self.mechanism, "--dim", "100000", "--rows", "0:64", "--key-file", self.path(name + ".key"),
                "--ledger", self.ledger, "-o", self.path(name), *map(str, options)]

    def entries(self):
        if not os.path.exists(self.ledger) or os.path.getsize(self.ledger) == 0:
            return []
        with open(self.ledger, encoding="utf-8") as file:
            return json.load(file)["entries"]  # whole, or this raises


class Spending(Attack):
    def test_many_processes_cannot_pass_the_budget_together(self):
        budget = ["--budget", "1.5,1e-6"]  # two runs come to 1.455, three to 1.81
        started = [subprocess.Popen(self.noise("rows%d" % i, *budget), stderr=subprocess.DEVNULL) for i in range(8)]
        codes = [p.wait() for p in started]
        self.assertEqual((codes.count(0), codes.count(1)), (2, 6))
        self.assertEqual(len(self.entries()), 2)
        for i, code in enumerate(codes):  # nothing was written by those that were refused
            self.assertEqual(os.path.exists(self.path("rows%d" % i)), code == 0)


class Training(Attack):
    def train(self, *options):
        return run("train", "--data", self.path("d.csv"), "--hold-out", 40, "--batch", 16, "--epochs", 2, "--epsilon", 2, "--delta", 1e-5,
                   "--sampling", "poisson", "--key-file", self.path("k"), "--state", "none", "--ledger", self.ledger,
                   "--budget", "5,1e-4", *options)

    def test_other_data_or_another_release_is_another_run(self):
        """The entry named the path of the data and not their contents, and no kind of release: three models with fresh noise for each were one entry. Now the others are refused as other runs with the same key."""
        text = table(200, 1)
        self.write("d.csv", text)
        self.assertEqual(self.train()[0], 0)
        self.assertEqual((self.train()[0], len(self.entries())), (0, 1), "the same run again, bit for bit, is free")
        first, rest = text.split("\n", 1)
        for change in ("release", "data"):
            if change == "data":
                self.write("d.csv", first + "\n" + rest.replace("0.", "0.9", 1))
            code, out, said = self.train(*(["--release", "exact"] if change == "release" else []))
            self.assertEqual((code, out), (1, ""), change)
            self.assertIn("another run with this key", said)
        self.assertEqual(len(self.entries()), 1)


class Killing(Attack):
    def test_what_was_released_was_entered(self):
        numbers = random.Random(7)
        released = 0
        for i in range(12):
            name = "rows%d" % i
            process = subprocess.Popen(self.noise(name), stderr=subprocess.DEVNULL)
            time.sleep(numbers.uniform(0, 0.06))
            process.send_signal(signal.SIGKILL)
            process.wait()
            released += os.path.exists(self.path(name))
            self.assertGreaterEqual(len(self.entries()), released)

    def test_a_killed_run_goes_on_in_its_own_entry(self):
        numbers = random.Random(8)
        for i in range(6):
            process = subprocess.Popen(self.noise("rows"), stderr=subprocess.DEVNULL)
            time.sleep(numbers.uniform(0, 0.06))
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertLessEqual(len(self.entries()), 1)
        done = subprocess.run(self.noise("rows", "--replay"), stderr=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(self.entries()), 1)


if __name__ == "__main__":
    unittest.main()
