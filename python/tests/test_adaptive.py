# SPDX-License-Identifier: Apache-2.0
"""A clip norm that follows a quantile: where it goes, and that counts and gradients together cost what the mechanism states."""

import importlib.util
import math
import unittest

from support import KEY, Case

import dpmf

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

STEPS, EXAMPLES, WIDTH = 60, 200, 4


class Known(torch.nn.Module if torch is not None else object):
    """The gradient of an example is the example itself, for any weights."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x):
        return self.layer(x)


def examples():
    """Norms from 2^-3 to 2^3; their quantiles are known."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(EXAMPLES, WIDTH, generator=g)
    return x / x.norm(dim=1, keepdim=True) * torch.logspace(-3, 3, EXAMPLES, 2.0)[torch.randperm(EXAMPLES, generator=g), None]


def make(rule, sigma=2.0, steps=STEPS, family="identity", clipping="per-example", mechanism=None, **options):
    torch.manual_seed(2)
    m = mechanism or dpmf.evaluate(
        family, steps, participation="full", sigma=sigma / math.sqrt(steps), lower_bound="none"
    )
    model = Known()
    sampler = dpmf.torch.BatchSampler("cyclic:%d" % EXAMPLES, EXAMPLES, KEY, mechanism=m)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    options = {"sampler": sampler, "key": KEY, "loss": lambda out: out.sum(), "clipping": clipping, **options}
    return model, sampler, dpmf.torch.make_private(model, sgd, m, rule, **options)


def train(sampler, private, stop=STEPS):
    x, norms = examples(), []
    for batch in sampler:
        if batch.step >= stop:
            break
        private.step(x[batch], drawn_for=batch.step)
        norms.append(private.clip_norm)
    return norms


@unittest.skipIf(torch is None, "torch is not installed")
class Adaptive(Case):
    def test_counts_and_gradients_are_one_release(self):
        """1/z^2 = 1/z_g^2 + 1/(2 sigma_b)^2, for what the run itself took; too little noise for the counts is refused."""
        for count_noise in (None, 1.5, 1e6):
            _, _, private = make(dpmf.torch.AdaptiveClip(1.0, count_noise=count_noise))
            sums = private._sum
            self.assertAlmostEqual(private.noise.scale, 2.0)
            self.assertEqual(sums.count_noise, EXAMPLES / 20 if count_noise is None else count_noise)
            both = 1 / sums.gradients**2 + 1 / (2 * sums.count_noise) ** 2
            self.assertAlmostEqual(both * private.noise.scale**2, 1.0, 12)
            private.close()
        m = dpmf.evaluate("identity", STEPS, participation="full", epsilon=4.0, delta=1e-6)
        _, _, private = make(dpmf.torch.AdaptiveClip(1.0, count_noise=50.0), mechanism=m)
        self.assertAlmostEqual(private.epsilon, 4.0, 6)
        said = "%.6g in the place of %.6g" % (private._sum.gradients, m.sigma * m.sensitivity.value)
        self.assertIn(said, private.statement())
        self.refused(dpmf.ArgumentError, "count_noise = 0.9", make, dpmf.torch.AdaptiveClip(1.0, count_noise=0.9))

    def test_what_is_added_is_the_noise_that_is_said(self):
        """A step whose examples all have gradient 0: row t, scaled by norm x z_g / z; the count has sigma_b / z of its own."""
        model, sampler, private = make(dpmf.torch.AdaptiveClip(0.5, count_noise=3.0))
        row = private.mechanism.noise(WIDTH + 1, 1.0, KEY).next()
        batch = next(iter(sampler))
        private.step(torch.zeros(EXAMPLES, WIDTH), drawn_for=batch.step)
        sums = private._sum
        found = model.layer.weight.grad.reshape(-1) * EXAMPLES
        wanted = torch.from_numpy(row[:WIDTH]) * (0.5 * sums.gradients / 2.0)
        self.assertLess(float((found - wanted).abs().max()), 1e-6)
        within = 1.0 + row[WIDTH] * 3.0 / 2.0 / EXAMPLES
        self.assertAlmostEqual(private.clip_norm, 0.5 * math.exp(-0.2 * (within - 0.5)), 5)

    def test_the_norm_goes_to_the_quantile(self):
        """Norms are 2^u, u even on [-3, 3]. Counts have noise of 0.02 of the batch (sigma_b = 4), which a rate of 0.5 puts
        into the logarithm of the norm with a standard deviation of 0.021 (0.01 a step, of which 0.88 stays): 0.15 is 7 of them."""
        for quantile, clipping in ((0.5, "per-example"), (0.8, "per-example"), (0.5, "ghost")):
            if clipping == "ghost" and importlib.util.find_spec("opacus") is None:
                continue
            rule = dpmf.torch.AdaptiveClip(0.2, quantile, 0.5, count_noise=4.0)
            _, sampler, private = make(rule, clipping=clipping)
            train(sampler, private)
            off = math.log(private.clip_norm) - math.log(2.0) * (6 * quantile - 3)
            self.assertLess(abs(off), 0.15, (quantile, clipping))

    def test_a_checkpoint_has_the_norm(self):
        rule = dpmf.torch.AdaptiveClip(0.2, count_noise=4.0)
        model, sampler, private = make(rule)
        wanted = train(sampler, private, 12)
        model, sampler, private = make(rule)
        train(sampler, private, 5)
        saved, weights = private.state_dict(), {name: w.clone() for name, w in model.state_dict().items()}
        again, sampler, private = make(rule)
        again.load_state_dict(weights)
        private.load_state_dict(saved)
        self.assertEqual(private.clip_norm, wanted[4])
        self.assertEqual(train(sampler, private, 12), wanted[5:])
        _, _, other = make(dpmf.torch.AdaptiveClip(0.3, count_noise=4.0))
        self.refused(dpmf.StateError, "adaptive", other.load_state_dict, saved)
        _, _, other = make(1.0)
        self.refused(dpmf.StateError, "dim", other.load_state_dict, saved)

    def test_what_is_refused(self):
        self.refused(
            dpmf.UnsupportedError, "clip_norm is adaptive, and the mechanism is toeplitz", make, dpmf.torch.AdaptiveClip(), family="toeplitz"
        )
        for name, value in (("start", 0.0), ("quantile", 1.0), ("rate", 0), ("rate", 11), ("count_noise", math.inf)):
            self.refused(dpmf.ArgumentError, name, dpmf.torch.AdaptiveClip, **{name: value})
        self.refused(TypeError, "quantile is a str", dpmf.torch.AdaptiveClip, quantile="half")


if __name__ == "__main__":
    unittest.main()
