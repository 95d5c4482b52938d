# SPDX-License-Identifier: Apache-2.0
"""Scale, then privatize: what is added and released, the bound under any scale, and that a scale sees released numbers alone."""

import io
import itertools
import math
import unittest
from fractions import Fraction

import numpy as np
from support import KEY, Case, mechanism

import dpmf
import dpmf.audit

try:
    import torch

    import dpmf.torch
    from dpmf.torch import GroupClip, SecondMoments
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

B = 12
M = mechanism(sigma=None, epsilon=4.0, delta=1e-5)


class Known(torch.nn.Module if torch is not None else object):
    """The gradient of an example is the example itself, for any weights."""

    def __init__(self, width=4):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x @ self.w


def net():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def make(model, rule, clip=0.5, kind=None, rate=0.05, **options):
    optimizer = (kind or torch.optim.Adam)(model.parameters(), lr=rate)
    return dpmf.torch.make_private(model, optimizer, M, clip, B, **{"key": KEY, "precondition": rule, **options})


def batch(step=0):
    generator = torch.Generator().manual_seed(3 + step)
    return torch.randn(B, 6, generator=generator) * 3, torch.randint(0, 3, (B,), generator=generator)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@unittest.skipIf(torch is None, "torch is not installed")
class Scaled(Case):
    def test_what_is_added_and_what_is_released(self):
        """clip(s * g) is added; (sum + row) / B / s is what the optimizer sees: the same row as at any other scale."""
        x = torch.randn(B, 4, generator=torch.Generator().manual_seed(1)) * torch.tensor([1e-3, 1.0, 1e2, 0.0])
        scale = torch.tensor([30.0, 0.5, 1e-3, 7.0])
        released = []
        for s in (scale, torch.ones(4)):
            model = Known()
            private = make(model, lambda _, named, s=s: {"w": s}, loss=lambda out: out.sum(), kind=torch.optim.SGD)
            private.accumulate(x, units=range(B))
            g = x.double() * s.double()
            wanted = (g * (0.5 / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
            found = private._sum.sum.double() * private._sum.grid
            self.assertLess(float((found - wanted).norm()), 1e-6)
            row = make(Known(), lambda _, named: {}, loss=lambda out: out.sum()).noise.next().astype(np.float64)
            private.step()
            np.testing.assert_allclose(model.w.grad.double().numpy(), (wanted.numpy() + row) / B / s.double().numpy(), rtol=1e-5)
            released.append(model.w.grad)
        self.assertFalse(torch.equal(*released))

    def test_the_bound_holds_under_any_scale(self):
        """One example, values and scales at the ends of the range: its integers are within the clip norm, exactly."""
        values = (0.0, 1e-40, 1.0, 1e30, -3e38, math.nan)
        scales = (1e-38, 1e-20, 1e20, 3e38)
        nothing = full = 0
        for options in ({}, {"normalize": 0.01}):
            scale = torch.ones(2)
            private = make(Known(2), lambda _, named: {"w": scale}, loss=lambda out: out.sum(), kind=torch.optim.SGD, **options)
            for a, b, s, t in itertools.product(values, values, scales, scales):
                scale.copy_(torch.tensor([s, t]))
                private.accumulate(torch.tensor([[a, b]]), units=[0])
                square = sum(int(n) ** 2 for n in private._sum.sum.tolist()) * Fraction(private._sum.grid) ** 2
                self.assertLessEqual(square, Fraction(1, 4))
                if not (math.isfinite(a) and math.isfinite(b)):
                    self.assertEqual(square, 0)
                nothing, full = nothing + (square == 0), full + (square > Fraction(999, 4000))
                private.discard()
        self.assertGreater(nothing, 100)
        self.assertGreater(full, 100)

    def test_gradients_that_torch_makes_once(self):
        """One zero for all examples, of a parameter without an effect; one tensor for two parameters whose gradients are equal."""

        class Twice(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.idle = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))

            def forward(self, x):
                return ((self.a + self.b) * x).sum(1)

        private = make(Twice(), lambda _, named: {"a": torch.full((2,), 2.0), "b": torch.full((2,), 3.0), "idle": torch.ones(2)}, 100.0,
                       loss=lambda out: out.sum(), kind=torch.optim.SGD)  # fmt: skip
        private.accumulate(torch.ones(B, 2), units=range(B))
        found = private._sum.sum.double() * private._sum.grid / B
        torch.testing.assert_close(found, torch.tensor([2.0, 2.0, 3.0, 3.0, 0.0, 0.0], dtype=torch.float64), rtol=1e-6, atol=0)

    def test_the_scale_is_that_of_the_moments(self):
        """Of Adam and the others, before every step; 1 in the first; a gradient whose squares are v keeps its norm."""
        for kind, name in ((torch.optim.Adam, "exp_avg_sq"), (torch.optim.AdamW, "exp_avg_sq"), (torch.optim.RMSprop, "square_avg"), (torch.optim.Adagrad, "sum")):
            model = net()
            seen, rule = [], SecondMoments(0.3)
            private = make(model, lambda o, named: seen.append(rule(o, named)) or seen[-1], kind=kind)
            for t in range(3):
                private.accumulate(*batch(t), units=range(B))
                held = {n: private.optimizer.state[p][name].double() if t else None for n, p in model.named_parameters()}
                if t == 0:
                    self.assertTrue(all(bool((s == 1).all()) for s in seen[-1].values()))
                else:
                    v = torch.cat([h.reshape(-1) for h in held.values()])
                    wanted = 1.3 / ((v / v.mean()).sqrt() + 0.3)
                    torch.testing.assert_close(torch.cat([s.double().reshape(-1) for s in seen[-1].values()]), wanted, rtol=1e-5, atol=0)
                    self.assertLessEqual(float(wanted.max()), 1.3 / 0.3)
                private.step()
            private.close()
        wide = SecondMoments(2.0**20)
        found = wide(private.optimizer, dict(model.named_parameters()))
        self.assertTrue(all(bool(((s - 1).abs() < 1e-4).all()) for s in found.values()))

    def test_a_scale_sees_released_numbers_alone(self):
        """Neighbouring batches of a step have the same scale in that step; one scale for all parts of a step; the next step has its own."""
        scales = []
        for other in (False, True):
            model = net()
            seen, rule = [], SecondMoments()
            private = make(model, lambda o, named: seen.append(rule(o, named)) or seen[-1])
            for t in range(3):
                x, y = batch(t)
                if other and t == 2:
                    x[0], y[0] = 1e3, 2
                private.accumulate(x[:5], y[:5], units=range(5))
                private.accumulate(x[5:], y[5:], units=range(5, B))
                self.assertEqual(len(seen), t + 1)
                private.step()
            scales.append(seen)
        for one, neighbour in zip(*scales):
            for name in one:
                self.assertTrue(torch.equal(one[name], neighbour[name]))
        self.assertFalse(torch.equal(scales[0][1]["0.weight"], scales[0][2]["0.weight"]))

    def test_with_groups_users_and_the_exact_release(self):
        for options in ({"clip": GroupClip({"0": 0.3, "2": 0.1}, "norms")}, {"unit": "user"}, {"exact": True}, {"normalize": 0.01}, {"chunk": 5}):
            model, plain = net(), net()
            one = make(model, lambda _, named: {n: torch.full_like(p, 4.0) for n, p in named.items()}, kind=torch.optim.SGD, **options)
            other = make(plain, None, kind=torch.optim.SGD, **options)
            x, y = batch()
            for private in (one, other):
                private.accumulate(x, y, units=[i // 4 for i in range(B)] if "unit" in options else range(B))
                private._route.close_step(private._sum, private._tally)
            cosine = float(torch.nn.functional.cosine_similarity(one._sum.sum.double(), other._sum.sum.double(), dim=0))
            self.assertGreater(cosine, 0.9, options)  # one factor for all coordinates: nearly the same, and longer where it was not clipped
            one.step()
            self.assertIn("by a function of the caller", one.statement())
            self.assertIn("private", one.statement())
        found = dpmf.audit.leave_out(other, *batch())
        self.assertLessEqual(found.largest, 1 + 1e-12)


@unittest.skipIf(torch is None, "torch is not installed")
class Resuming(Case):
    def test_a_resumed_run_has_the_same_bits(self):
        runs, saved = [], None
        for stop in (None, 3):
            model = net()
            private = make(model, SecondMoments())
            for t in range(6):
                if t == stop:
                    file = io.BytesIO()
                    torch.save([model.state_dict(), private.state_dict()], file)
                    private.close()
                    file.seek(0)
                    saved = torch.load(file, weights_only=True)
                    model = net()
                    private = make(model, SecondMoments())
                    model.load_state_dict(saved[0])
                    private.load_state_dict(saved[1])
                private.step(*batch(t), units=range(B))
            runs.append(flat(model))
        self.assertTrue(torch.equal(*runs))
        for rule in (None, SecondMoments(0.2), lambda _, named: {}):
            self.refused(dpmf.StateError, "precondition = second moments, floor 0.1", make(net(), rule).load_state_dict, saved[1])
        self.assertIn("by second moments of what earlier steps released", private.statement())
        plain = make(net(), None)
        plain.step(*batch(), units=range(B))
        self.refused(dpmf.StateError, "precondition = None", make(net(), SecondMoments()).load_state_dict, plain.state_dict())

    def test_what_is_refused(self):
        self.refused(dpmf.UnsupportedError, "a SGD has no second moments", lambda: make(net(), SecondMoments(), kind=torch.optim.SGD))
        self.refused(TypeError, "precondition is a str", make, net(), "adam")
        self.refused(dpmf.UnsupportedError, "clipping='ghost' with precondition=", make, net(), SecondMoments(), clipping="ghost")
        auto = make(net(), SecondMoments(), clipping="auto")
        self.assertEqual(auto.clipping, "per-example")
        self.assertIn("ghost clipping forms none", auto.clipping_reason)
        for floor in (0, -1, math.nan, math.inf):
            self.refused(dpmf.ArgumentError, "floor", SecondMoments, floor)
        for scale, kind, words in (({}, dpmf.ArgumentError, "no scale of shape (4,) for w"), ({"w": torch.ones(3)}, dpmf.ArgumentError, "no scale"),
                                   ({"w": torch.zeros(4)}, dpmf.NumericalError, "not finite and above 0"),
                                   ({"w": torch.tensor([1.0, math.nan, 1, 1])}, dpmf.NumericalError, "not finite and above 0")):  # fmt: skip
            private = make(Known(), lambda _, named, scale=scale: scale, loss=lambda out: out.sum())
            self.refused(kind, words, private.accumulate, torch.ones(2, 4), units=[0, 1])
            self.refused(dpmf.ArgumentError, "a step of no batch", private.step)  # nothing of it was taken


if __name__ == "__main__":
    unittest.main()
