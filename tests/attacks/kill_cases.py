# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of a training run: for the short and the long test."""
import os
import random
import shutil
import subprocess
import time

from common import DPMF, Case, table

REFUSALS = ("this run was started before", "this run is complete")


class Killed(Case):
    """The attacker ends the run at moments of their choice and compares what is released before and after: a step that is
    repeated with another sum would give the difference of the two sums without noise. Promised: the same bits or a
    refusal, never anything else."""

    def kill(self, moments, seed, users=0, plan=("--batch", "60", "--epochs", "40", "--sampling", "poisson")):
        numbers = random.Random(seed)
        data = ["--data", self.write("train.csv", table(600, 1, users)), "--test-data",
                self.write("test.csv", table(100, 2, users))]
        asked = [*data, *plan, "--momentum", "0.9", "--model", "mlp:5", "--epsilon", "8", "--delta", "1e-5", "--json"]
        key = self.write("key", bytes(numbers.randrange(256) for _ in range(32)))
        os.chmod(key, 0o600)
        shutil.copy(key, self.path("undisturbed"))
        self.begin("train", *asked, "--key-file", key)  # both runs have the noise of this state file
        shutil.copy(key + ".state", self.path("undisturbed.state"))
        begun = time.monotonic()
        done = subprocess.run([DPMF, "train", *asked, "--key-file", self.path("undisturbed"), "--out", self.path("whole")],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        length = time.monotonic() - begun
        self.assertEqual(done.returncode, 0, done.stderr)
        killed = refused = ended = 0
        run = [DPMF, "train", *asked, "--key-file", key, "--checkpoint", self.path("c"), "--every", "7", "--out",
               self.path("resumed")]
        while killed < moments:
            with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                time.sleep(numbers.uniform(0, 1.1 * length))
                child.kill()
                said = child.stderr.read().decode()
            if child.returncode == 0:
                ended += 1
                self.compare()
                for name in ("c", "resumed") if numbers.random() < 0.5 else ("resumed",):
                    os.remove(self.path(name))  # to be begun again, or the model to be written again
            elif child.returncode == -9:
                killed += 1
                if os.path.exists(self.path("resumed")):
                    self.compare()
            else:
                refused += 1
                self.assertTrue(any(words in said for words in REFUSALS), said)
                os.remove(self.path("c"))
        self.assertEqual(killed, moments)
        while os.path.exists(self.path("resumed")):
            os.remove(self.path("resumed"))
        done = subprocess.run(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.compare()
        left = [name for name in os.listdir(self.directory.name) if name.startswith(".")]
        self.assertEqual(left, [])
        return killed, refused, ended

    def compare(self):
        with open(self.path("whole"), "rb") as a, open(self.path("resumed"), "rb") as b:
            self.assertEqual(a.read(), b.read())
