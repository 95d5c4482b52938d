# SPDX-License-Identifier: Apache-2.0
"""Normalised contributions (AUTO-S): their length, their bound in integers, and that a run under another rule is another run."""

import doctest
import io
import itertools
import math
import unittest
from fractions import Fraction

import numpy as np
from support import KEY, Case, mechanism

import dpmf
from dpmf import _contribution
from dpmf.federated import Rounds

try:
    import models
    import torch

    import dpmf.torch
    from dpmf.torch.sums import ExactSum
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

try:
    import opacus
except ImportError:
    opacus = None

B, GAMMA = 12, 0.01
M = mechanism(sigma=None, epsilon=4.0, delta=1e-5)
#: For every coordinate: values at the ends of what a gradient can hold.
WORDS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e-162, 1e-30, 1e30, -1e30, 1e153, 1e154, -1.7e308, 1.0, -1.0)


def make(name="mlp", route="per-example", clip=0.5, **options):
    torch.manual_seed(2)
    kind, loss = models.ALL[name]
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = {"loss": loss, "key": KEY, **options}
    return model, dpmf.torch.make_private(model, optimizer, M, clip, B, clipping=route, **options)


def sums(private):
    return private._sum.sum.double() * private._sum.grid


def gradients_of(name, x, y):
    """Of every example, by autograd, over all parameters."""
    torch.manual_seed(2)
    kind, loss = models.ALL[name]
    model, found, loss = kind(), [], loss or torch.nn.functional.cross_entropy
    for i in range(len(x)):
        g = torch.autograd.grad(loss(model(x[i : i + 1]), y[i : i + 1]), list(model.parameters()))
        found.append(torch.cat([part.double().reshape(-1) for part in g]))
    return torch.stack(found)


def moved(sums, clip):
    """The square of the norm of the integers of a sum, over that of the bound, exactly."""
    return sum(int(n) ** 2 for n in sums.sum.tolist()) * Fraction(sums.grid) ** 2 / Fraction(clip) ** 2


@unittest.skipIf(torch is None, "torch is not installed")
class Bound(Case):
    def test_every_input_stays_within_the_bound(self):
        """Two values of WORDS in all pairs, by the library and by torch's operations: at most the clip norm, in integers, and 0 for
        what is not finite; no value raises or warns."""
        zeros = full = 0
        for first, second in itertools.product(WORDS, WORDS):
            x = torch.tensor([[first, second, second, first, first]], dtype=torch.float64)
            for clip, gamma in ((0.3, GAMMA), (1.0, 2.0**-100), (2.0**-100, 1e-9), (2.0**100, 2.0**100)):
                of = [ExactSum(5, clip, 8, "cpu", gamma) for _ in range(2)]
                of[0].add([x[:, :2], x[:, 2:]])
                of[1]._add_by_torch([x[:, :2], x[:, 2:]])
                self.assertTrue(torch.equal(of[0].sum, of[1].sum), (first, second, clip, gamma))
                square = moved(of[0], clip)
                self.assertLessEqual(square, 1)
                if not (math.isfinite(first) and math.isfinite(second)) or first == second == 0:
                    self.assertEqual(square, 0)
                zeros, full = zeros + (square == 0), full + (square > Fraction(999, 1000))
        self.assertGreater(zeros, 100)
        self.assertGreater(full, 100)

    def test_random_gradients_of_all_sizes(self):
        generator = torch.Generator().manual_seed(4)
        worst = Fraction(0)
        for size in range(-40, 38, 2):
            x = torch.randn(20, 37, generator=generator) * 10.0**size
            for row in x:
                one = ExactSum(37, 1.0, 8, "cpu", GAMMA)
                one.add([row[None]])
                worst = max(worst, moved(one, 1.0))
                norm = float(row.double().norm())
                wanted = row.double() / (norm + GAMMA)
                self.assertLess(float((one.sum.double() * one.grid - wanted).norm()), 2.0**-20)
        self.assertLessEqual(worst, 1)
        self.assertGreater(worst, Fraction(9999, 10000))


@unittest.skipIf(torch is None, "torch is not installed")
class Runs(Case):
    def test_sums_are_those_of_the_formula(self):
        for name in models.ALL:
            x, y = models.batch_for(name, B)
            g = gradients_of(name, x, y)
            for gamma in (1e-6, 2.0**-10, GAMMA, 30.0):
                wanted = (0.5 * g / (g.norm(dim=1, keepdim=True) + gamma)).sum(0)
                for route in ("per-example", "ghost") if opacus and gamma > 1e-6 else ("per-example",):
                    _, private = make(name, route, normalize=gamma)
                    private.accumulate(x, y, units=range(B))
                    self.assertLess(float((sums(private) - wanted).norm()), 1e-5 * B * 0.5, (name, gamma, route))
                    private.close()

    def test_gradients_of_zero_and_hostile_examples_add_nothing(self):
        x, y = models.batch_for("mlp", B)
        for route in ("per-example", "ghost") if opacus else ("per-example",):
            _, private = make("mlp", route, normalize=GAMMA)
            private.accumulate(x[1:], y[1:], units=range(1, B))
            wanted = sums(private)
            for value in (math.nan, math.inf, -math.inf):
                x[0] = value
                private.discard()
                private.accumulate(x, y, units=range(B))
                torch.testing.assert_close(sums(private), wanted, rtol=1e-5, atol=1e-6)
            private.close()
        model = torch.nn.Linear(3, 1, bias=False)
        m = mechanism("identity", 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        private = dpmf.torch.make_private(model, optimizer, m, 1.0, 4, key=KEY, loss=lambda out: out.sum(), normalize=GAMMA)
        private.accumulate(torch.zeros(4, 3), units=range(4))
        self.assertFalse(bool(private._sum.sum.any()))

    def test_users(self):
        """The mean of a user's gradients is normalised, and not each of them."""
        x, y = models.batch_for("mlp", B)
        g = gradients_of("mlp", x, y).view(3, 4, -1).mean(1)
        wanted = (0.5 * g / (g.norm(dim=1, keepdim=True) + GAMMA)).sum(0)
        _, private = make("mlp", normalize=GAMMA, unit="user")
        private.accumulate(x, y, units=[i // 4 for i in range(B)])
        private._route.close_step(private._sum, private._tally)
        self.assertLess(float((sums(private) - wanted).norm()), 1e-5)
        private.step()
        self.assertIn("What one user adds, a vector g, was normalised", private.statement())

    def test_the_noise_and_the_guarantee(self):
        """Rows are as long as those of a clipped run, of the same account, and not the same numbers: the run is another."""
        x, y = models.batch_for("mlp", B)
        rows, said = [], []
        for options in ({}, {"normalize": GAMMA}, {"normalize": 0.02}):
            _, private = make(**options)
            private.step(x, y, units=range(B))
            rows.append(private.noise.next().astype(np.float64))
            said.append(private.statement())
            private.close()
        self.assertNotIn("normalised", said[0])
        self.assertIn("What one example adds, a vector g, was normalised to 0.5 g/(|g| + 0.01), which is never longer than 0.5", said[1])
        self.assertEqual(said[0].split("\n")[0], said[1].split("\n")[0])
        for one, other in itertools.combinations(rows, 2):
            # 2661 numbers each: a cosine above 0.12 has probability 1e-9 for independent rows
            self.assertLess(abs(float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))), 0.12)
            self.assertLess(abs(math.log(float(one @ one) / float(other @ other))), 0.3)

    def test_another_rule_is_another_run(self):
        """A checkpoint, and a state file, under another rule are refused in both directions."""
        x, y = models.batch_for("mlp", B)
        saved = {}
        for gamma in (None, GAMMA, 0.5):
            _, private = make(normalize=gamma)
            private.step(x, y, units=range(B))
            file = io.BytesIO()
            torch.save(private.state_dict(), file)
            file.seek(0)
            saved[gamma] = torch.load(file, weights_only=True)
            private.close()
        for held, own in itertools.permutations(saved, 2):
            _, private = make(normalize=own)
            self.refused(dpmf.StateError, "normalize = %s, and this run %s" % (held, own), private.load_state_dict, saved[held])
            private.load_state_dict(saved[own])
            self.assertEqual(private.steps_taken, 1)
        key = self.folder / "run.key"
        _, private = make(key=key, normalize=GAMMA)
        private.step(x, y, units=range(B))
        private.close()
        for gamma in (None, 0.5):
            self.refused(dpmf.Error, "label", make, key=key, normalize=gamma)

    def test_exact_and_told(self):
        x, y = models.batch_for("mlp", B)
        _, private = make(exact=True, normalize=GAMMA, tell="clipped")
        report = private.step(x, y, units=range(B))
        wanted = float((gradients_of("mlp", x, y).norm(dim=1) + GAMMA > 0.5).double().mean())
        self.assertAlmostEqual(report.nonprivate_clipped, wanted)
        self.assertIn("normalised", private.statement())

    def test_what_is_refused(self):
        for value in (0, -1, math.nan, math.inf, 2.0**-101, 2.0**101):
            self.refused(dpmf.ArgumentError, "normalize", make, normalize=value)
        self.refused(TypeError, "normalize", make, normalize="auto")
        self.refused(dpmf.ArgumentError, "normalize", make, clip=dpmf.torch.AdaptiveClip(), normalize=GAMMA)


class Words(Case):
    def test_docstrings(self):
        self.assertEqual(tuple(doctest.testmod(_contribution)), (0, 3))


class Federations(Case):
    M = dpmf.evaluate("toeplitz", 6, participation="min-sep:2,3", epsilon=4.0, delta=1e-5)

    def rounds(self, **options):
        return Rounds(self.M, 3, 0.5, **{"divisor": 2, "key": KEY, **options})

    def test_updates_are_normalised(self):
        update = np.array([3.0, 0.0, -4.0])
        for size in (1e-300, 1e-9, 1e-3, 1.0, 1e30, 1e150):
            rounds = self.rounds(normalize=GAMMA)
            rounds.add("a", update * size)
            found = rounds._sum * rounds.grid
            np.testing.assert_allclose(found, 0.5 * update * size / (5 * size + GAMMA), rtol=0, atol=2.0**-30)
            self.assertLessEqual(sum(int(n) ** 2 for n in rounds._sum) * Fraction(rounds.grid) ** 2, Fraction(1, 4))
        for hostile in (np.full(3, math.nan), np.full(3, math.inf), None, np.zeros(3), np.full(3, 1e200)):
            rounds = self.rounds(normalize=GAMMA)
            rounds.add("a", hostile)
            self.assertFalse(rounds._sum.any())

    def test_another_rule_is_another_run(self):
        one, other = self.rounds(normalize=GAMMA), self.rounds()
        self.assertIn("What one client adds, a vector g, was normalised to 0.5 g/(|g| + 0.01)", one.statement())
        self.assertNotIn("normalised", other.statement())
        states = []
        for rounds in (one, other):
            rounds.add("a", np.ones(3))
            rounds.finish()
            states.append(rounds.state_dict())
        self.refused(dpmf.StateError, "normalize = None, and this run 0.01", self.rounds(normalize=GAMMA).load_state_dict, states[1])
        self.refused(dpmf.StateError, "normalize = 0.01, and this run None", self.rounds().load_state_dict, states[0])
        self.rounds(normalize=GAMMA).load_state_dict(states[0])
        self.assertNotEqual(one.noise.next().tobytes(), other.noise.next().tobytes())
        for value in (0, -1, math.nan, 1e31):
            self.refused(dpmf.ArgumentError, "normalize", self.rounds, normalize=value)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_local_training(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(2, 2)
        users = {name: (torch.randn(5, 2), torch.randint(0, 2, (5,))) for name in "ab"}
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        run = dpmf.torch.make_federated(
            model, optimizer, self.M, 0.5, users, local_steps=3, local_rate=0.1, divisor=2, key=KEY, normalize=GAMMA,
            loss=torch.nn.functional.cross_entropy,
        )  # fmt: skip
        run.round("ab")
        self.assertIn("normalised", run.statement())
        self.assertEqual(run.rounds.gamma, GAMMA)


if __name__ == "__main__":
    unittest.main()
