# SPDX-License-Identifier: Apache-2.0
"""Sharded models: every process makes the noise of its own shards, and together they have the bytes of one process."""

import pathlib
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
    def together(self, what, world, code=0):
        processes = [
            subprocess.Popen([sys.executable, str(HERE / "sharding.py"), what, str(self.folder), str(rank), str(world)])
            for rank in range(world)
        ]
        self.assertEqual([p.wait(600) for p in processes], [code] * world)

    def test_the_noise_is_that_of_one_process(self):
        """2 and 4 processes; fully_shard, and DTensors by rows, by columns, in whole, by two dimensions: the same bytes."""
        m = sharding.make_mechanism()
        for world in (2, 4):
            self.together("rows", world)
            found = torch.load(self.folder / "rows.pt")
            self.assertEqual(len(found), 3 * (3 if world == 2 else 4))
            for i in range(0, len(found), 3):
                stream = m.noise(found[i].numel(), 0.5, KEY)
                for t in range(3):
                    self.assertEqual(found[i + t].numpy().tobytes(), stream.next().tobytes(), (world, i, t))

    def test_a_killed_run_goes_on_in_another_number_of_processes(self):
        """Two processes die after six steps; four go on through torch.distributed.checkpoint, with the bits of one."""
        self.together("begin", 2, -signal.SIGKILL)
        self.together("resume", 4)
        model = sharding.make_model()
        noise = sharding.make_mechanism().noise(sum(p.numel() for p in model.parameters()), 0.5, KEY)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(sharding.STEPS):
            gradients = sharding.sums_of([p.detach().clone() for p in model.parameters()])
            row = torch.from_numpy(noise.next()).split([g.numel() for g in gradients])
            for p, g, part in zip(model.parameters(), gradients, row):
                p.grad = g + part.view_as(g)
            optimizer.step()
        self.assertTrue(torch.equal(torch.load(self.folder / "weights.pt"), sharding.whole([*model.parameters()]).detach()))

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
