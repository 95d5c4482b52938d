# SPDX-License-Identifier: Apache-2.0
"""Attacks by going back: rows of noise that meet other sums, runs that are over or lost, kills at random moments."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import unittest

from story import HERE, Case, dpmf, torch

try:
    import runs
except ImportError:
    runs = None

README = pathlib.Path(__file__).resolve().parents[3] / "README.md"


@unittest.skipIf(torch is None, "torch is not installed")
class Replay(Case):
    def test_dropout_after_a_crash(self):
        """A run with dropout is interrupted after step 6 and resumes from its checkpoint of step 3.

        Before, the resumed process drew other dropout masks: steps 3 to 5 had the same rows of noise and other sums, and the
        difference of the two published models was one of gradients, without noise. Now the states of the random-number
        generators are in the checkpoint, and the steps that are computed again have the same bits.
        """
        first = runs.run(self.folder, until=6, save_at=3)
        torch.manual_seed(999)  # another process begins with something else
        again = runs.run(self.folder, until=6)
        self.assertTrue(torch.equal(first, again))

    def test_other_data_after_a_crash(self):
        """The same with other data: an example was corrected in between.

        Before, the rows after the checkpoint were added to the new sums. Now every row is bound to its sum by a keyed hash in
        the state file: a row that comes again meets the same sum, or nothing of the step is released.
        """
        runs.run(self.folder, until=6, save_at=3)
        model, private, loader = runs.resume(self.folder, changed=True)
        before = runs.weights(model)
        with self.assertRaises(dpmf.Error):
            for x, y in loader:
                private.step(x, y)
        self.assertEqual(private.noise.step, 3)
        self.assertTrue(torch.equal(runs.weights(model), before))

    def test_augmentation_after_a_crash(self):
        """Random augmentation in the data set, in worker processes.

        Before, a resumed run drew other crops for the same rows of noise. Now a batch's random choices are a function of the
        key and its step, in any number of workers.
        """
        whole = runs.run(self.folder / "whole", until=6, augment=True)
        first = runs.run(self.folder, until=6, save_at=3, augment=True, workers=2)
        torch.manual_seed(7)
        again = runs.run(self.folder, until=6, augment=True, workers=1)
        self.assertTrue(torch.equal(first, again))
        self.assertEqual(len(whole), len(again))

    def test_a_clean_stop_without_a_checkpoint(self):
        """Five steps, the end of the program, and no checkpoint: then the script is run again.

        Before, it went on at step 5 with a fresh model: a model that is not the one that the first steps trained, under
        their guarantee. Now the loader and the step refuse with a reason, and so does the optimizer's state, so that nothing
        can be written over.
        """
        runs.run(self.folder, until=5)
        model, private, loader = runs.make(self.folder)
        self.refused(dpmf.StateError, "no checkpoint of that run is loaded", list, loader)
        self.refused(dpmf.StateError, "no checkpoint of that run is loaded", private.optimizer.state_dict)
        x, y = runs.data()[:4]
        self.refused(dpmf.StateError, "no checkpoint of that run is loaded", private.step, x, y)
        private.close()

    def test_the_readmes_script_twice(self):
        """Before, the second run trained 0 steps, wrote its fresh model over the trained one, and printed the guarantee."""
        import re

        script = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[0]
        command = [sys.executable, "-c", "import torch; torch.set_num_threads(1)\n" + script]
        first = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE)
        trained = (self.folder / "run.pt").read_bytes()
        second = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((first.returncode, second.returncode), (0, 1))
        self.assertIn(b"no checkpoint of that run is loaded", second.stderr)
        self.assertNotIn(b"epsilon", second.stdout)
        self.assertEqual((self.folder / "run.pt").read_bytes(), trained)

    def test_the_same_key_for_two_trainings(self):
        """Two models with one key file, no state file asked for: before, both had the same noise."""
        runs.run(self.folder, until=2, state=None)
        model, private, loader = runs.make(self.folder, state=None)
        self.refused(dpmf.StateError, "no checkpoint of that run is loaded", list, loader)
        private.close()


def kills(case, count, seed):
    """kill -9 at random moments, until the run is through; every released model is noted, and must be the only one."""
    whole = case.folder / "whole"
    broken = case.folder / "broken"
    whole.mkdir()
    broken.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(HERE / "runs.py")]
    sized = runs.make(case.folder / "sizes")[1].noise
    with sized.mechanism.noise(sized.dim, 1.0, whole / "run.key", state=whole / "run.state", state_now=True):
        pass  # a state file before its first row: its copy has the same noise
    shutil.copy(whole / "run.state", broken / "run.state")
    subprocess.run(command + [str(whole)], check=True, env=environment, stdout=subprocess.DEVNULL)
    (broken / "run.key").write_bytes((whole / "run.key").read_bytes())
    (broken / "run.key").chmod(0o600)
    (broken / "run.pt").write_bytes((whole / "start.pt").read_bytes())  # the same beginning, seeds included
    generator, killed = random.Random(seed), 0
    while killed < count:
        process = subprocess.Popen(command + [str(broken)], env=environment, stdout=subprocess.PIPE)
        seen = generator.randrange(0, 9)
        for _ in range(seen):  # this many lines, and then a random moment of what follows
            if not process.stdout.readline():
                break
        try:
            process.wait(generator.random() * 0.02)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.stdout.close()
        if process.wait() == 0:
            (broken / "run.pt").write_bytes((whole / "start.pt").read_bytes())  # through: once more over the same rows
    subprocess.run(command + [str(broken)], check=True, env=environment, stdout=subprocess.DEVNULL)
    wanted = dict(line.split() for line in (whole / "released").read_text().splitlines())
    for line in (broken / "released").read_text().splitlines():
        step, digest = line.split()
        case.assertEqual(digest, wanted[step], "step %s" % step)
    case.assertTrue(torch.equal(torch.load(whole / "weights.pt"), torch.load(broken / "weights.pt")))


@unittest.skipIf(torch is None, "torch is not installed")
class Kills(Case):
    def test_kills_with_dropout(self):
        """kill -9 at random moments of a run with dropout, resumed from its last checkpoint each time.

        Every model that was ever released, whole or on the way, is noted with its step: each step has one, that of the run
        which was never interrupted. Before, dropout made others. attacks/test_kills_long.py does it a hundred times.
        """
        kills(self, 4, 1)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
