# SPDX-License-Identifier: Apache-2.0
"""Attacks by going back: rows of noise that meet other sums, runs that are over or lost, kills at random moments."""

import importlib.util
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import unittest

import story
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
        difference of the two published models was one of gradients, without noise. Now masks follow from the
        key, the step and the example, and the steps that are computed again have the same bits.
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
        first = runs.run(self.folder, until=6, save_at=3, augment=True, workers=2)
        torch.manual_seed(7)
        again = runs.run(self.folder, until=6, augment=True, workers=1)
        self.assertTrue(torch.equal(first, again))

    def test_another_way_from_a_checkpoint(self):
        """One process, a key of bytes: 'restore the best checkpoint and halve the learning rate', three steps after it.

        Before, the rows after the checkpoint met other sums, because only a state file knew which sums they were for: the difference
        of two released models was that of the gradients, without noise. Now the sums are remembered without a file too, and the
        first step that differs is refused; the same way again has the same bits.
        """
        m = story.mechanism("toeplitz", 8, sigma=None, epsilon=1.0, delta=1e-5)
        x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
        data = torch.utils.data.TensorDataset(x, torch.zeros(16))

        class Square(story.Inner):
            def forward(self, x):
                return ((x - self.w) ** 2).sum(-1)

        model = Square(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        sampler = dpmf.torch.BatchSampler("cyclic:2", data, story.KEY, mechanism=m)
        private = dpmf.torch.make_private(
            model, optimizer, m, 1.0, sampler=sampler, key=story.KEY, loss=story.inner_loss
        )

        def train(until):
            for x, y in dpmf.torch.data_loader(data, sampler):
                private.step(x, y)
                if private.steps_taken == until:
                    return runs.weights(model)

        train(3)
        saved = optimizer.state_dict(), {name: p.clone() for name, p in model.state_dict().items()}
        first = train(6)
        for lr, same in ((0.05, True), (0.5, False)):
            optimizer.load_state_dict(saved[0])
            model.load_state_dict(saved[1])
            optimizer.param_groups[0]["lr"] = lr
            if same:
                self.assertTrue(torch.equal(train(6), first))
            else:  # the first step has the sum of the checkpoint's weights still
                self.refused(dpmf.StateError, "row 4 was used for another sum", train, 6)
        noise = dpmf.torch.ShardedNoise(m, model.parameters(), 1.0, story.KEY)
        saved = noise.state_dict()
        noise.add_([torch.ones(3)])
        noise.load_state_dict(saved)
        self.refused(dpmf.StateError, "row 0 was used for another sum", noise.add_, [torch.zeros(3)])
        noise.add_([torch.ones(3)])
        noise.close()

    @unittest.skipIf(torch is None or importlib.util.find_spec("opacus") is None, "opacus is not installed")
    def test_another_way_under_opacus(self):
        """The same under Opacus: the checkpoint of the optimizer is loaded, and the next batch has other examples."""
        import dpmf.opacus

        m = story.mechanism("toeplitz", 8, sigma=None, epsilon=1.0, delta=1e-5)
        data = torch.utils.data.TensorDataset(torch.eye(16), torch.arange(16))
        net = torch.nn.Linear(16, 16)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        sampler = dpmf.torch.BatchSampler("cyclic:2", data, story.KEY, mechanism=m)
        loader = dpmf.torch.data_loader(data, sampler)
        made = dpmf.opacus.make_private(net, optimizer, loader, m, 1.0, key=story.KEY)

        def step(more):
            x, y = next(iter(made.loader))
            made.optimizer.zero_grad()
            made.criterion(made.model(x + more), y).backward()
            made.optimizer.step()

        saved = made.optimizer.state_dict()
        step(0.0)
        made.optimizer.load_state_dict(saved)
        self.refused(dpmf.StateError, "row 0 was used for another sum", step, 1.0)

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
