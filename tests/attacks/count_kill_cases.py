# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of a count: for the short and the long test."""
import os
import random
import shutil
import subprocess
import time

from common import DPMF, Case

LINES = 4000


class CountKilled(Case):
    """The attacker ends the program at moments of their choice. Promised: when it has been resumed to the end, the output is that of a program which never stopped: no line is lost, repeated or changed; and at every moment the output is a beginning of that."""

    def prepare(self, seed):
        self.numbers = random.Random(seed)
        self.ok("evaluate", "--steps", LINES, "--family", "toeplitz", "--bound", "none", "-o", self.path("m"))
        rows = ["day,visits,sales"] + ["%d,%d,%.2f" % (t, self.numbers.randrange(1000), self.numbers.uniform(-5, 5))
                                       for t in range(LINES)]
        self.rows = [row.encode() + b"\n" for row in rows]
        self.whole = b"".join(self.rows)
        self.write("data.csv", self.whole)
        key = self.write("key", bytes(self.numbers.randrange(256) for _ in range(32)))
        os.chmod(key, 0o600)
        shutil.copy(key, self.path("undisturbed"))
        self.asked = [DPMF, "count", "--uncalibrated", self.path("m"), "--columns", "visits,sales", "--time", "day", "--format", "csv"]
        self.begin(*self.asked[1:], "--key-file", self.path("key"))  # all runs have the noise of this state file
        shutil.copy(self.path("key.state"), self.path("begun"))
        shutil.copy(self.path("begun"), self.path("undisturbed.state"))
        begun = time.monotonic()
        with open(self.path("data.csv"), "rb") as data:
            subprocess.run([*self.asked, "--key-file", self.path("undisturbed"), "--out", self.path("expected")],
                           stdin=data, stderr=subprocess.DEVNULL, check=True)
        self.length = time.monotonic() - begun
        with open(self.path("expected"), "rb") as file:
            self.expected = file.read()
        self.assertEqual(self.expected.count(b"\n"), LINES + 1)

    def output(self):
        if not os.path.exists(self.path("out")):
            return b""
        with open(self.path("out"), "rb") as file:
            return file.read()

    def begin_again(self):
        os.remove(self.path("out"))
        shutil.copy(self.path("begun"), self.path("key.state"))

    def kill(self, moments, seed):
        """From a file, some lines per batch; then from a file that grows while it is followed."""
        self.prepare(seed)
        killed = ended = 0
        while killed < moments:
            run = [*self.asked, "--key-file", self.path("key"), "--out", self.path("out"), "--sync-every",
                   str(self.numbers.choice([1, 7, 100, 1000]))]
            follow = self.numbers.random() < 0.3
            with open(self.path("data.csv"), "rb") as data:
                child = subprocess.Popen([*run, "--follow", self.path("data.csv")] if follow else run, stdin=data,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(self.numbers.uniform(0, 1.5 * self.length))
            child.kill()
            said = child.communicate()[1].decode()
            found = self.output()
            self.assertTrue(self.expected.startswith(found), (len(found), said))
            if child.returncode == 0 or found == self.expected:
                ended += 1
                self.assertEqual(found, self.expected)
                self.begin_again()
            if child.returncode == -9:
                killed += 1
            else:
                self.assertEqual(child.returncode, 0, said)
        self.finish()
        return killed, ended

    def finish(self):
        """The same command completes the run from any state."""
        with open(self.path("data.csv"), "rb") as data:
            done = subprocess.run([*self.asked, "--key-file", self.path("key"), "--out", self.path("out")], stdin=data,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.output(), self.expected)
        left = [name for name in os.listdir(self.directory.name) if name.startswith(".")]
        self.assertEqual(left, [])
