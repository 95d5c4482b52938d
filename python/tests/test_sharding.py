# SPDX-License-Identifier: Apache-2.0
"""Sharded models: the noise has the bytes of one process, private gradients are those of one process up to rounding."""

import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from support import KEY, Case

import dpmf

try:
    import sharding
    import torch

    import dpmf.torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

HERE = pathlib.Path(__file__).parent


@unittest.skipIf(torch is None, "torch is not installed")
class Sharded(Case):
    routes = ("per-example", "ghost")[: 2 if torch is not None and sharding.opacus is not None else 1]

    def together(self, what, world, code=0):
        processes = [
            subprocess.Popen([sys.executable, str(HERE / "sharding.py"), what, str(self.folder), str(rank), str(world)])
            for rank in range(world)
        ]
        self.assertEqual([p.wait(600) for p in processes], [code] * world)

    def alone(self, clipping="per-example", **options):
        """The weights that one process without shards ends with."""
        model = sharding.Odd(clipping)
        return sharding.run(model, *sharding.make_private(model, clipping, **options))

    def begin(self, dim, name):
        """The state file of a run, before its first row, and a copy of it, which has the same noise."""
        sharding.make_mechanism().noise(dim, 0.5, KEY, state=self.folder / name, state_now=True).close()
        return shutil.copy(self.folder / name, self.folder / ("alone-" + name))

    def close(self, found, wanted, what):
        self.assertLess(float((found - wanted).abs().max()), 1e-5, what)

    def test_the_noise_is_that_of_one_process(self):
        """2 and 4 processes; fully_shard, and DTensors by rows, by columns, in whole, by two dimensions: the same bytes.

        Private gradients of fully_shard, of tensor parallel layers, of both at once: the weights of one process after ten steps.
        """
        m = sharding.make_mechanism()
        wanted = {clipping: self.alone(clipping) for clipping in self.routes}
        for world in (2, 4):
            self.together("rows", world)
            found = torch.load(self.folder / "rows.pt")
            self.assertEqual(len(found), 3 * (3 if world == 2 else 4))
            for i in range(0, len(found), 3):
                stream = m.noise(found[i].numel(), 0.5, KEY)
                for t in range(3):
                    self.assertEqual(found[i + t].numpy().tobytes(), stream.next().tobytes(), (world, i, t))
            found = torch.load(self.folder / "private.pt")
            self.assertEqual(len(found), len(self.routes) * (2 if world == 2 else 4))
            for (kind, clipping), weights in found.items():
                self.close(weights, wanted[clipping], (world, kind, clipping))

    def test_a_killed_run_goes_on_in_another_number_of_processes(self):
        """Two processes die after six steps; four go on through torch.distributed.checkpoint, with the bits of one.

        Private gradients: four processes, and one without shards, go on, and end where an uninterrupted run does.
        """
        model = sharding.make_model()
        copy = self.begin(sum(p.numel() for p in model.parameters()), "run.state")
        wanted = self.alone(state=self.begin(sharding.make_private(sharding.Odd())[1].noise.dim, "private.state"))
        self.together("begin", 2, -signal.SIGKILL)
        shutil.copy(self.folder / "private.state", self.folder / "one.state")
        self.together("resume", 4)
        self.close(torch.load(self.folder / "private.pt"), wanted, "four processes")
        plain = sharding.Odd()
        sampler, made = sharding.make_private(plain, state=self.folder / "one.state")
        self.refused(dpmf.StateError, "no checkpoint of that run", made.step, torch.zeros(4, 5), torch.zeros(4, dtype=torch.long))
        made.load(self.folder / "private")
        self.close(sharding.run(plain, sampler, made), wanted, "one process")
        self.refused(dpmf.StateError, "folder", made.load, self.folder / "nowhere")
        noise = sharding.make_mechanism().noise(sum(p.numel() for p in model.parameters()), 0.5, KEY, state=copy)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(sharding.STEPS):
            gradients = sharding.sums_of([p.detach().clone() for p in model.parameters()])
            row = torch.from_numpy(noise.next()).split([g.numel() for g in gradients])
            for p, g, part in zip(model.parameters(), gradients, row):
                p.grad = g + part.view_as(g)
            optimizer.step()
        self.assertTrue(torch.equal(torch.load(self.folder / "weights.pt"), sharding.whole([*model.parameters()]).detach()))

    def test_a_checkpoint_of_a_plain_model(self):
        """Before the first step, when an optimizer has no state, and after some; without a state file the processes count."""
        before, after = self.folder / "before", self.folder / "after"
        model = sharding.Odd()
        sampler, made = sharding.make_private(model)
        made.save(before)
        sharding.run(model, sampler, made, 3)
        made.save(after)
        wanted = sharding.run(model, sampler, made)
        for folder in (before, after):
            again = sharding.Odd()
            with torch.no_grad():
                again.first.weight.zero_()
            sampler, made = sharding.make_private(again)
            made.load(folder)
            self.assertTrue(torch.equal(sharding.run(again, sampler, made), wanted), folder)
        for momentum in (0.9, 0.0):  # without momentum an optimizer has no state, and its rate is kept all the same
            folder = self.folder / str(momentum)
            sampler, made = sharding.make_private(sharding.Odd(), momentum=momentum)
            next(iter(sampler))
            made.step(torch.zeros(4, 5), torch.zeros(4, dtype=torch.long), drawn_for=0)
            made.optimizer.param_groups[0]["lr"] = 0.125
            made.save(folder)
            sampler, made = sharding.make_private(sharding.Odd(), momentum=momentum)
            made.load(folder)
            self.assertEqual((made.optimizer.param_groups[0]["lr"], made.steps_taken), (0.125, 1))
        sampler, made = sharding.make_private(sharding.Odd())
        made._group.world = 2  # as if another process had written it
        state = {**made._own_state()}
        made._group.world = 1
        self.refused(dpmf.StateError, "processes = 2", made._take, state)

    def test_models_that_are_refused(self):
        m, model = sharding.make_mechanism(), sharding.Odd()
        sgd = torch.optim.SGD(sharding.trained(model), lr=0.1)
        with torch.device("meta"):
            nowhere = torch.nn.Linear(5, 3)
        self.refused(
            dpmf.ArgumentError, "weight is on the meta", dpmf.torch.make_private, nowhere, sgd, m, 0.5, 4, key=KEY
        )

        class Stuck:
            def __deepcopy__(self, memo):
                raise RuntimeError("stuck")

        model.middle.extra = Stuck()
        self.refused(dpmf.UnsupportedError, "middle.extra cannot be copied", sharding.unshard.plain_copy, model)

    def test_one_process_and_refusals(self):
        m, make = sharding.make_mechanism(), dpmf.torch.ShardedNoise
        weights = [torch.zeros(3, 4), torch.zeros(4)]
        noise = make(m, weights, 0.5, KEY)
        noise.add_(weights)
        self.assertEqual(sharding.whole(weights).numpy().tobytes(), m.noise(16, 0.5, KEY).next().tobytes())
        self.assertEqual(noise.step, 1)
        self.refused(dpmf.ArgumentError, "gradients of shapes", noise.add_, weights[:1])
        self.refused(dpmf.ArgumentError, "parameters", make, m, [], 0.5, KEY)
        self.refused(dpmf.ArgumentError, "clip_norm", make, m, weights, "1", KEY)
        self.refused(dpmf.ArgumentError, "mechanism", make, "m", weights, 0.5, KEY)
        self.refused(dpmf.ArgumentError, "sigma", make, dpmf.evaluate("identity", 5), weights, 0.5, KEY)
        self.refused(dpmf.UnsupportedError, "bfloat16", make, m, [torch.zeros(3).bfloat16()], 0.5, KEY)
        state = noise.state_dict()
        other = make(m, weights, 0.5, KEY)
        other.load_state_dict(state)
        self.assertEqual(other.step, 1)
        self.refused(dpmf.StateError, "clip_norm", make(m, weights, 1.0, KEY).load_state_dict, state)
        self.refused(dpmf.StateError, "dim", make(m, weights[:1], 0.5, KEY).load_state_dict, state)

    def test_a_row_comes_again_for_the_same_sum_only(self):
        m, path = sharding.make_mechanism(), self.folder / "run.state"
        weights = [torch.ones(3, 4), torch.ones(4)]
        with dpmf.torch.ShardedNoise(m, weights, 0.5, KEY, state=path) as noise:
            begin = noise.state_dict()
            noise.add_([w.clone() for w in weights])
        noise = dpmf.torch.ShardedNoise(m, weights, 0.5, KEY, state=path)
        self.refused(dpmf.StateError, "no checkpoint", noise.add_, weights)
        noise.load_state_dict(begin)
        self.assertRaises(dpmf.Error, noise.add_, [2 * w for w in weights])
        noise.load_state_dict(begin)
        noise.add_(weights)
        self.assertEqual(noise.step, 1)


if __name__ == "__main__":
    unittest.main()
