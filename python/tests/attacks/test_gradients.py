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


if __name__ == "__main__":
    unittest.main(warnings="ignore")
