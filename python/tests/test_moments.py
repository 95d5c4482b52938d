# SPDX-License-Identifier: Apache-2.0
"""Second moments: the released squares, what an example adds to both streams, the correction by the noise's variance, resuming."""

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
    from dpmf.torch import Adam, GroupClip, JointMoments, SecondMoments
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

B = 12
M = mechanism(sigma=None, epsilon=4.0, delta=1e-5)
REPLACED = dpmf.evaluate("toeplitz", M.steps, participation="cyclic:%d,%d" % (M.participation.separation, M.participation.count), epsilon=4.0, delta=1e-5,
                         adjacency="replace-one")


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


def make(model, rule, clip=0.5, m=M, adam=None, **options):
    optimizer = Adam(model.parameters(), lr=0.05, **(adam or {}))
    return dpmf.torch.make_private(model, optimizer, m, clip, B, **{"key": KEY, "squares": rule, **options})


def known(rule, width=4, **options):
    return make(Known(width), rule, loss=lambda out: out.sum(), **options)


def batch(step=0):
    generator = torch.Generator().manual_seed(3 + step)
    return torch.randn(B, 6, generator=generator) * 3, torch.randint(0, 3, (B,), generator=generator)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@unittest.skipIf(torch is None, "torch is not installed")
class Joint(Case):
    def test_what_is_added_and_what_is_released(self):
        """Clipped gradients and their squares, each with its part of one row, whose scale is the clip norm times the joint sensitivity."""
        x = torch.randn(B, 4, generator=torch.Generator().manual_seed(1)) * torch.tensor([1e-3, 1.0, 1e2, 0.0])
        clipped = x.double() * (0.5 / x.double().norm(dim=1, keepdim=True)).clamp(max=1)
        for m, weight, factor in ((M, 0.3, math.sqrt(1.3)), (REPLACED, 0.5, 1.0), (REPLACED, 2.0, math.sqrt(2 + 4 + 0.25) / 2)):
            private = known(JointMoments(weight), m=m)
            rows = known(JointMoments(weight), m=m).noise
            self.assertAlmostEqual(rows.scale / (0.5 * m.sigma * m.sensitivity.value * factor), 1, 12)
            row = rows.next().astype(np.float64)
            private.step(x, units=range(B))
            np.testing.assert_allclose(private.model.w.grad.double().numpy(), (clipped.sum(0).numpy() + row[:4]) / B, rtol=1e-5, atol=1e-6)
            wanted = (clipped.square().sum(0).numpy() + row[4:] * 0.5 / math.sqrt(weight)) / B
            np.testing.assert_allclose(private.squares["w"].double().numpy(), wanted, rtol=1e-4, atol=1e-6)
            self.assertIn("the guarantee includes the squares", private.statement())

    def test_no_example_moves_both_sums_further_than_the_noise_is_for(self):
        """In integers, exactly: what one example adds, and for replacement the difference of any two, at the ends of the range."""
        values = (0.0, 1e-40, 0.5, -0.5, 1e30, -3e38, math.nan)
        diagonal = (0.35355339, -0.35355338, 0.46193977, 0.19134172)
        for m, weight, options in ((M, 0.5, {}), (M, 8.0, {"normalize": 0.01}), (REPLACED, 0.5, {}), (REPLACED, 3.0, {})):
            private = known(JointMoments(weight), width=2, m=m, **options)
            made = []
            for pair in [*itertools.product(values, values), *itertools.product(diagonal, diagonal)]:
                private.accumulate(torch.tensor([pair]), units=[0])
                made.append([int(n) for n in private._sum.sum.tolist()])
                private.discard()
            grid = Fraction(private._sum.grid)
            bound = Fraction(private._sum.noise_clip) ** 2
            longest = max(sum(n * n for n in one) for one in made) * grid**2
            if m is M:
                self.assertLessEqual(longest, bound)
                self.assertGreater(longest, bound * Fraction(999, 1000))
            else:
                furthest = max(sum((a - b) ** 2 for a, b in zip(one, other)) for one, other in itertools.combinations(made, 2)) * grid**2
                self.assertLessEqual(furthest, 4 * bound)
                self.assertGreater(furthest, 4 * bound * Fraction(99 if weight < 1 else 80, 100))

    def test_an_audit_stays_below_the_claim_and_finds_squares_without_noise(self):
        small = mechanism(sigma=None, epsilon=3.0, delta=1e-5)
        for m, weight in ((small, 1.0), (REPLACED, 0.5)):
            found = dpmf.audit.torch_run(m, 400, key=dpmf.testing_key(1), squares=JointMoments(weight))
            self.assertTrue(found.ok, found)
            self.assertGreater(found.epsilon_lower, 0)
        whole = dpmf.torch.moments.JointSum.noisy

        def without(self, first, row, *more):
            row = row.clone()
            row[len(row) // 2 :] *= 0.05
            return whole(self, first, row, *more)

        dpmf.torch.moments.JointSum.noisy = without
        self.addCleanup(setattr, dpmf.torch.moments.JointSum, "noisy", whole)
        self.assertFalse(dpmf.audit.torch_run(small, 400, key=dpmf.testing_key(1), squares=JointMoments(1.0)).ok)

    def test_the_optimizer_uses_the_released_squares(self):
        private = make(net(), JointMoments(0.5), adam={"floor": 0.0, "betas": (0.9, 0.5)})
        mean = {name: torch.zeros_like(p) for name, p in private.model.named_parameters()}
        for t in range(4):
            private.step(*batch(t), units=range(B))
            for name, p in private.model.named_parameters():
                mean[name] = 0.5 * mean[name] + 0.5 * private.squares[name]
                torch.testing.assert_close(private.optimizer.state[p]["mean_of_squares"], mean[name])
                self.assertTrue(bool((private.optimizer.state[p]["exp_avg_sq"] >= 0).all()))
        floored = make(net(), JointMoments(0.5), precondition=SecondMoments())
        for t in range(4):
            floored.step(*batch(t), units=range(B))
        self.assertTrue(bool(torch.isfinite(flat(floored.model)).all()))
        self.assertTrue(all(bool((s["exp_avg_sq"] > 0).all()) for s in floored.optimizer.state.values()))


@unittest.skipIf(torch is None, "torch is not installed")
class Optimizer(Case):
    def test_without_noise_it_is_that_of_torch(self):
        for decoupled, kind in ((False, torch.optim.Adam), (True, torch.optim.AdamW)):
            one, other = net().double(), net().double()
            ours = Adam(one.parameters(), lr=0.02, weight_decay=0.1, decoupled=decoupled, betas=(0.8, 0.95), correct=True)
            theirs = kind(other.parameters(), lr=0.02, weight_decay=0.1, betas=(0.8, 0.95))
            for t in range(6):
                x, y = batch(t)
                for model, optimizer in ((one, ours), (other, theirs)):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x.double()), y).backward()
                    optimizer.step()
            torch.testing.assert_close(flat(one), flat(other), rtol=1e-12, atol=1e-14)

    def test_the_correction_is_the_variance_of_the_noise(self):
        """Gradients of zero: the mean of squares is noise alone, which the correction takes off. 20,000 coordinates; the deviation of their
        mean is sqrt(2/20000) of the variance at most, and five of them are allowed."""
        for correct in (False, True):
            private = known(None, width=20000, adam={"correct": correct, "betas": (0.9, 0.5)})
            expected = 0.0
            for t in range(5):
                private.step(torch.zeros(B, 20000), units=range(B))
                own = (private.noise.scale / B) ** 2 * dpmf.torch.moments.row_norms(M)[t] ** 2
                expected = 0.5 * expected + 0.5 * own
                found = float(private.optimizer.state[private.model.w]["mean_of_squares"].double().mean())
                self.assertLess(abs(found - (0 if correct else expected)), 5 * math.sqrt(2 / 20000) * expected)
                if correct:
                    least = private.optimizer.state[private.model.w]["exp_avg_sq"].min()
                    self.assertGreater(float(least), 0)
            private.close()

    def test_a_resumed_run_has_the_same_bits(self):
        for rule, adam in ((JointMoments(0.2), {}), (None, {"correct": True})):
            runs = []
            for stop in (None, 3):
                model = net()
                private = make(model, rule, adam=adam)
                for t in range(6):
                    if t == stop:
                        file = io.BytesIO()
                        torch.save([model.state_dict(), private.state_dict()], file)
                        private.close()
                        file.seek(0)
                        saved = torch.load(file, weights_only=True)
                        model = net()
                        private = make(model, rule, adam=adam)
                        model.load_state_dict(saved[0])
                        private.load_state_dict(saved[1])
                    private.step(*batch(t), units=range(B))
                runs.append(flat(model))
            self.assertTrue(torch.equal(*runs))
            for other in {JointMoments(0.3), None if rule else JointMoments(0.2)}:
                self.refused(dpmf.StateError, "squares", make(net(), other).load_state_dict, saved[1])

    def test_what_is_refused(self):
        for weight in (0, -1, math.nan, math.inf):
            self.refused(dpmf.ArgumentError, "weight", JointMoments, weight)
        self.refused(TypeError, "squares is a float", make, net(), 0.5)
        self.refused(dpmf.UnsupportedError, "one clip norm", make, net(), JointMoments(), clip=GroupClip({"": 0.3}))
        self.refused(dpmf.UnsupportedError, "one clip norm", make, net(), None, clip=GroupClip({"": 0.3}))
        self.refused(dpmf.UnsupportedError, "clipping='ghost' with squares", make, net(), JointMoments(), clipping="ghost")
        self.refused(dpmf.UnsupportedError, "exact=True with squares", make, net(), JointMoments(), exact=True)
        for bad in ({"floor": -1.0}, {"betas": (1.0, 0.9)}, {"lr": -1.0}):
            self.refused(dpmf.ArgumentError, "are accepted", lambda bad=bad: Adam(net().parameters(), **{"lr": 0.1, **bad}))


if __name__ == "__main__":
    unittest.main()
