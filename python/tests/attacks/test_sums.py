# SPDX-License-Identifier: Apache-2.0
"""Attacks on the sum of the clipped gradients: its rounding, values that are not finite, clip norms, hostile options."""

import importlib.util
import math
import unittest
import warnings

from story import KEY, Case, Inner, dpmf, inner_loss, mechanism, one_step, program, torch

#: Trains five steps on data in which one value of one example is argv[1], and says all that a run says.
HOSTILE = """
import sys
from story import *
import warnings
torch.manual_seed(3)
x, y = torch.randn(40, 1, 8, 8), torch.randint(0, 3, (40,))
x[13, 0, 2, 2] = float(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.GroupNorm(1, 2), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Dropout(0.2), torch.nn.Linear(72, 3))
m = mechanism("bsr", 5, sigma=None, epsilon=2.0, delta=1e-6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = torch.utils.data.TensorDataset(x, y)
sampler = dpmf.torch.BatchSampler("cyclic:8", data, KEY, mechanism=m)
private = dpmf.torch.make_private(model, optimizer, m, 1.0, sampler=sampler, key=KEY)
for inputs, targets in dpmf.torch.data_loader(data, sampler):
    private.step(inputs, targets)
    print("step", private.steps_taken, private.epsilon, bool(torch.isfinite(torch.cat([p.flatten() for p in model.parameters()])).all()))
private.close()
print("done", private.epsilon)
"""


@unittest.skipIf(torch is None, "torch is not installed")
class Sums(Case):
    def test_rounding_of_the_batch_sum(self):
        """One example steers the roundings of all others.

        The attacker adds an example that takes the running sum of a batch over a power of two, where floats are twice as
        far apart. The others come in pairs, +1.49 u and -0.99 u: on the fine side both round to u and cancel, on the coarse
        side they round to 2u and 0. Before, the sums with and without the one example, of norm 0.5 and with clip norm 0.501,
        differed by 0.516 in a batch of 1536 (and by 51 clip norms at 60 000). Now sums are integers: 0.5, exactly.
        """
        top, pairs, clip = 1024, 256, 0.501
        u = 2.0**-15  # the distance of floats below 512
        x = torch.tensor([[0.5]] * top + [[1.49 * u], [-0.99 * u]] * pairs)
        without = x.clone()
        without[top - 1] = 0
        moved = float((one_step(x, clip, chunk=1) - one_step(without, clip, chunk=1)).norm())
        self.assertAlmostEqual(moved, 0.5, delta=2.0**-13)  # the weights are floats of about 512: what is read off rounds

    def test_order_and_chunks_do_not_matter(self):
        """The same examples in another order and in other chunks: the same bits. Before, float sums knew both."""
        x = torch.randn(300, 17, generator=torch.Generator().manual_seed(1)) * 3
        wanted = one_step(x, 1.0)
        for other, chunk in ((x.flip(0), None), (x, 7), (x[torch.randperm(300)], 64)):
            self.assertTrue(torch.equal(one_step(other, 1.0, chunk=chunk), wanted))

    def test_values_that_are_not_finite_say_nothing(self):
        """One example with NaN, an infinity, or 1e30, whose square no float holds.

        Before, the step raised NumericalError: that the run ended said that the example was there, and the step in which it
        ended said in which batch. Now such an example adds 0, as if it had been left out, and nothing else changes.
        """
        x = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
        x[7] = 0
        wanted = one_step(x, 1.0)
        for value in (math.nan, math.inf, -math.inf):
            x[7] = 1.0
            x[7, 2] = value
            self.assertTrue(torch.equal(one_step(x, 1.0), wanted), value)
        for value in (1e30, 3.4e38):  # finite: clipped like any other
            x[7] = 0
            x[7, 2] = value
            moved = one_step(x, 1.0) - wanted
            self.assertAlmostEqual(float(moved.norm()), 1.0, places=5)

    def test_nan_while_torch_looks_for_it(self):
        """A script debugs with torch.autograd.set_detect_anomaly(True), and one example has a NaN.

        Before, torch raised in the step of that example's batch: the run ended there, and showed that the example was in it. Now
        gradients are formed without that switch, which stays on for all else.
        """
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
        x[3, 0] = math.nan
        routes = ["per-example"] + (["ghost"] if importlib.util.find_spec("opacus") else [])
        for clipping in routes:
            net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
            m = mechanism("identity", 1, sigma=None, epsilon=1.0, delta=1e-5)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            private = dpmf.torch.make_private(net, optimizer, m, 1.0, 8, key=KEY, clipping=clipping)
            with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                private.step(x, torch.zeros(8, dtype=torch.int64), units=range(8))
                self.assertTrue(torch.is_anomaly_enabled())
            self.assertEqual(private.steps_taken, 1)
            self.assertTrue(all(bool(torch.isfinite(p).all()) for p in net.parameters()))

    def test_neighbours_with_hostile_values_look_alike(self):
        """Data sets that differ in one value of one example: exit code, messages, step count and log lines are the same.

        Before, NaN, infinities and 1e38 ended the program with a traceback in the step of the example's batch.
        """
        wanted = program(HOSTILE, "0.5")
        self.assertEqual((wanted[0], wanted[1].count("step")), (0, 5), wanted[1])
        for value in ("nan", "-inf", "1e38", "1e-40"):
            self.assertEqual(program(HOSTILE, value), wanted, value)

    def test_tiny_clip_norms(self):
        """Gradients whose squares are no floats, and a clip norm that is as small.

        Before, clip norm 1e-24 and a gradient of 2.4e-23: its norm came out as 0, nothing was clipped, and 24 times the clip
        norm was added. Now norms are doubles and clipping is done in integers; below 2^-100 a clip norm is refused.
        """
        x = torch.full((4, 64), 1e-26)
        with_it = x.clone()
        with_it[1] = 3e-24
        moved = float((one_step(with_it, 1e-24) - one_step(x, 1e-24)).norm())
        self.assertLessEqual(moved, 1e-24 * (1 + 1e-5))
        self.assertRaises(dpmf.ArgumentError, one_step, x, 1e-31)

    def test_options_that_make_no_sense(self):
        """chunk=-3 trained on pure noise, expected_batch=inf on nothing, rank 5 of 2 gave examples to no process, and a
        state file with a key that ends with the process made a promise that could not be kept. Now each is refused by name.
        """
        m = mechanism("identity", 3)
        data = torch.utils.data.TensorDataset(torch.zeros(6, 2), torch.zeros(6))

        def make(**options):
            model = Inner(2)
            sampler = dpmf.torch.BatchSampler("cyclic:2", data, KEY, mechanism=m)
            options = {"sampler": sampler, "key": KEY, "loss": inner_loss, **options}
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            return dpmf.torch.make_private(model, optimizer, m, options.pop("clip", 1.0), **options)

        for chunk in (0, -3):
            self.refused(dpmf.ArgumentError, "chunk", make, chunk=chunk)
        for batch in (math.inf, math.nan, 0.0, -1.0):
            self.refused(dpmf.ArgumentError, "expected_batch", make, expected_batch=batch)
        for clip in (0.0, 1e-40, math.inf, math.nan, 1e40):
            self.refused(dpmf.ArgumentError, "clip_norm", make, clip=clip)
        for rank, world in ((5, 2), (2, 2), (-1, 2)):
            self.refused(
                dpmf.ArgumentError, "rank", dpmf.torch.BatchSampler, "cyclic:2", data, KEY, mechanism=m, rank=rank, world=world
            )
        self.refused(dpmf.ArgumentError, "state", make, key=None, state=self.folder / "state")
        self.refused(dpmf.ArgumentError, "state", m.noise, 3, 1.0, state=self.folder / "state")

    def test_noise_from_32_bits(self):
        """noise="device" drew its seeds from torch's generator, which keeps 32 bits of a seed on the CPU: 2^32 tries, and the
        noise is known. There is no such option: the library's own rows go to every device.
        """
        x = Inner(3)
        self.refused(
            dpmf.ArgumentError,
            "accepted: host, cuda, opencl",
            dpmf.torch.make_private,
            x,
            torch.optim.SGD(x.parameters(), lr=0.1),
            mechanism("identity", 3),
            1.0,
            4,
            key=KEY,
            noise="device",
        )


if __name__ == "__main__":
    unittest.main(warnings="ignore")
