# SPDX-License-Identifier: Apache-2.0
"""Attacks on the gradients of single examples: one example changes those of the others, or leaves by another door."""

import unittest
import warnings

from story import KEY, Case, dpmf, mechanism, torch

try:
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    import opacus

    import dpmf.opacus
except ImportError:
    opacus = None

CLIP = 0.1


def whole(steps=2, **options):
    """A mechanism in which every example may be in every step."""
    return mechanism("identity", steps, sigma=None, epsilon=1.0, delta=1e-5, participation="full", **options)


def make(model, expected=10, **options):
    m = options.pop("m", None) or whole()
    sgd = torch.optim.SGD(model.parameters(), lr=options.pop("lr", 0.0))
    return dpmf.torch.make_private(model, sgd, m, options.pop("clip", CLIP), expected, **{"key": KEY, **options})


def sum_of(private, x, y, units):
    """The sum that the step would release with its noise, in clip norms."""
    units = list(units)
    private.accumulate(x[units], y[units], units=units)
    found = private._sum.whole.double() * (private._sum.grid / private.clip_norm)
    private.discard()
    return found


def moved(private, x, y, left_out):
    """How far the sum moves when one example is left out."""
    everybody = range(len(x))
    others = [i for i in everybody if i != left_out]
    return float((sum_of(private, x, y, everybody) - sum_of(private, x, y, others)).norm())


@unittest.skipIf(opacus is None, "opacus is not installed")
class LowPrecision(Case):
    def data(self, count=300):
        generator = torch.Generator().manual_seed(0)
        return torch.randn(count, 50, generator=generator), torch.randint(0, 10, (count,), generator=generator)

    def model(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(50, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))

    def test_ghost_clipping_under_autocast(self):
        """A training loop runs its step under bfloat16 autocast, as loops for speed do.

        Before, norms and the second backward pass of ghost clipping had 8 bits: on ordinary data one example moved the sum
        by 1.002 to 1.64 clip norms, more with larger batches, and the noise was made for 1. Now both passes are in float32.
        """
        x, y = self.data()
        private = make(self.model(), len(x), clipping="ghost")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for left_out in (0, 150, 299):
                self.assertLess(moved(private, x, y, left_out), 1.0)
            private.step(x, y, units=range(len(x)))
        self.assertRegex(private.statement(), r"one example moved the sum by (0\.99999|1 )")

    def test_models_that_compute_in_few_bits_themselves(self):
        """bfloat16 parameters, or a model that enters autocast in its own forward pass: the same, and now refused by name.

        The route with every example's own gradient takes both: it sums what came out, in integers.
        """
        x, y = self.data(20)
        half = self.model().bfloat16()
        self.refused(dpmf.UnsupportedError, "bfloat16", make, half, clipping="ghost")
        self.assertLessEqual(moved(make(half), x.bfloat16(), y, 3), 1.0)

        class Narrow(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return self.inner(x).float()

        private = make(Narrow(self.model()), clipping="ghost")
        self.refused(dpmf.UnsupportedError, "a Linear is torch.bfloat16", private.step, x, y, units=range(20))
        self.assertEqual(private.steps_taken, 0)
        self.assertLessEqual(moved(make(Narrow(self.model())), x, y, 3), 1.0)

    def test_ghost_clipping_by_opacus_under_autocast(self):
        """The same in Opacus' own loop, whose forward pass the caller runs: refused before anything is summed."""
        x, y = self.data(20)
        net = self.model()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20)
        made = dpmf.opacus.make_private(
            net, torch.optim.SGD(net.parameters(), lr=0.1), loader, whole(), clip_norm=CLIP, key=KEY, clipping="ghost"
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = made.criterion(made.model(x), y)
        self.refused(dpmf.UnsupportedError, "bfloat16", loss.backward)


class RunningMean(torch.nn.Module if torch is not None else object):
    """Subtracts a running mean of its own making: no layer that torch or Opacus knows as one with statistics."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        return x - self.mean


class Counting(RunningMean):
    """Writes a number that no example has a part in."""

    def forward(self, x):
        with torch.no_grad():
            self.calls += 1
        return x


@unittest.skipIf(torch is None, "torch is not installed")
class OtherDoors(Case):
    def data(self, secret=0.0):
        generator = torch.Generator().manual_seed(0)
        x, y = torch.randn(20, 5, generator=generator), torch.randint(0, 2, (20,), generator=generator)
        x[7, 0] = secret
        return x, y

    def test_layers_with_statistics_of_their_own(self):
        """A layer keeps a running mean of its inputs in a buffer, which state_dict() publishes with the model.

        Before, ghost clipping wrote the raw mean there: with 10^6 in one example the published buffer was 5904.9 in place of
        0.01. Now buffers are compared before and after the gradients, and a changed one is put back and refused by name. (The
        route with every example's own gradient was closed by torch.)
        """
        if opacus is None:
            self.skipTest("opacus is not installed")
        x, y = self.data(secret=1e6)
        net = torch.nn.Sequential(RunningMean(5), torch.nn.Linear(5, 2))
        private = make(net, clipping="ghost")
        self.refused(dpmf.UnsupportedError, "writes into 0.mean", private.step, x, y, units=range(20))
        self.assertEqual(net.state_dict()["0.mean"].tolist(), [0.0] * 5)
        self.assertEqual(private.steps_taken, 0)

    def test_counters_that_the_caller_declares_public(self):
        """A layer counts its calls. It is refused as well: the number of calls can follow the number of examples.

        The caller can declare the buffer public, and the statement then names it.
        """
        if opacus is None:
            self.skipTest("opacus is not installed")
        x, y = self.data()
        net = torch.nn.Sequential(Counting(5), torch.nn.Linear(5, 2))
        self.refused(dpmf.UnsupportedError, "0.calls", make(net, clipping="ghost").step, x, y, units=range(20))
        self.refused(dpmf.ArgumentError, "'0.call' is no buffer", make, net, public_buffers="0.call")
        net = torch.nn.Sequential(Counting(5), torch.nn.Linear(5, 2))
        private = make(net, clipping="ghost", public_buffers="*.calls")
        private.step(x, y, units=range(20))
        self.assertIn("the buffers 0.calls, which", private.statement())

    def test_statistics_under_opacus(self):
        """The same layer in Opacus' own loop: the step is refused, and the buffer is as it was."""
        if opacus is None:
            self.skipTest("opacus is not installed")
        x, y = self.data(secret=1e6)
        for route in ("per-example", "ghost"):
            net = torch.nn.Sequential(RunningMean(5), torch.nn.Linear(5, 2))
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=20)
            sgd = torch.optim.SGD(net.parameters(), lr=0.1)
            made = dpmf.opacus.make_private(net, sgd, loader, whole(), clip_norm=CLIP, key=KEY, clipping=route)

            def step(made=made):
                made.criterion(made.model(x), y).backward()
                made.optimizer.step()

            next(iter(made.loader))
            self.refused(dpmf.UnsupportedError, "mean", step)
            self.assertEqual(net.state_dict()["0.mean"].tolist(), [0.0] * 5)

    def test_weights_that_are_not_finite(self):
        """A learning rate takes the weights to NaN, or a model begins with NaN in a frozen layer.

        Before, every later gradient was NaN and added 0: the run went silently to its end, spent its privacy, and printed
        its statement. Now the step says so. The weights have their noise, so that this reveals nothing of an example.
        """
        x, y = self.data()
        net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
        private = make(net, lr=1e38, clip=100.0)
        self.refused(dpmf.NumericalError, "not finite after step 0", private.step, x, y, units=range(20))
        self.refused(dpmf.NumericalError, "not finite before step 1", private.step, x, y, units=range(20))
        self.assertEqual(private.steps_taken, 1)
        self.assertIn("the model is of no use", private.statement())
        net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 2))
        net[0].requires_grad_(False)
        private = make(net)
        with torch.no_grad():
            net[0].weight[1, 1] = float("nan")
        self.refused(dpmf.NumericalError, "0.weight is not finite before step 0", private.step, x, y, units=range(20))
        self.assertEqual(private.steps_taken, 0)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
