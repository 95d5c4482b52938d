# SPDX-License-Identifier: Apache-2.0
"""A clip norm for each group of parameters: bounds of every group and of all together in integers, and the noise of each."""

import doctest
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
    from dpmf.torch import GroupClip, groups
    from dpmf.torch.groups import Groups, GroupSum
    from dpmf.torch.sums import ExactSum
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

B = 12
M = mechanism(sigma=None, epsilon=4.0, delta=1e-5)
WORDS = (math.nan, math.inf, -math.inf, 0.0, 1e-300, 5e-324, 1e-162, 1e-30, 1e30, -1e30, 1e153, -1.7e308, 1.0, -1.0)


def net():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def make(clip, m=M, **options):
    model = net()
    sgd = options.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1)
    return model, dpmf.torch.make_private(model, sgd, m, clip, B, **{"key": KEY, **options})


def batch():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(B, 6, generator=generator) * 3, torch.randint(0, 3, (B,), generator=generator)


def gradients_of(x, y):
    """Of every example: the list of its parameters' gradients, in double."""
    model, found = net(), []
    for i in range(len(x)):
        loss = torch.nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        found.append([g.double() for g in torch.autograd.grad(loss, list(model.parameters()))])
    return found


def clipped(each, members, norms, gamma=0.0):
    """The sum over examples of gradients clipped by groups, as one vector."""
    total = None
    for gradients in each:
        own = list(gradients)
        for g, norm in enumerate(norms):
            length = float(torch.cat([own[i].reshape(-1) for i in range(len(own)) if members[i] == g]).norm())
            factor = norm / (length + gamma) if gamma else min(1.0, norm / length)
            own = [part * factor if members[i] == g else part for i, part in enumerate(own)]
        flat = torch.cat([part.reshape(-1) for part in own])
        total = flat if total is None else total + flat
    return total


def released(private):
    """The sum in the parameters' own coordinates, before its noise."""
    sums = private._sum
    zero = torch.zeros(sums.sum.numel(), dtype=torch.float64)
    return sums.noisy(0, zero, 1.0, torch.float64)


@unittest.skipIf(torch is None, "torch is not installed")
class Bounds(Case):
    def test_every_group_stays_within_its_bound(self):
        """Hostile values in each group, groups whose parameters are apart, scales of any size: |q_g| <= b_g and |q| <= clip, exactly, by
        the library and by torch's operations; a group that is not finite adds 0, and the other groups what they add without it."""
        reached, nothing = 0, 0
        for norms, scales in (([0.5, 2.0], [1.0, 1.0]), ([1e-9, 1e9], [1e-9, 1e9]), ([3.0, 0.1], [0.7, 11.0])):
            layout = Groups(["a", "b"], [0, 1, 0], [2, 3, 2], norms, scales)
            bounds = layout.bounds()
            for first, second in itertools.product(WORDS, WORDS):
                parts = [torch.tensor([[first, 0.0]], dtype=torch.float64), torch.tensor([[second, 1.0, -second]], dtype=torch.float64),
                         torch.tensor([[first, -first]], dtype=torch.float64)]  # fmt: skip
                for gamma in (0.0, 0.01):
                    of = GroupSum(layout, 8, "cpu", gamma)
                    of.add(parts)
                    q, grid = [int(n) for n in of.sum.tolist()], Fraction(of.grid)
                    own = [q[:2] + q[5:], q[2:5]]
                    squares = [sum(n * n for n in some) * grid**2 for some in own]
                    for square, bound in zip(squares, bounds):
                        self.assertLessEqual(square, Fraction(bound) ** 2)
                        reached += square > Fraction(bound) ** 2 * Fraction(999, 1000)
                    self.assertLessEqual(sum(squares), Fraction(of.clip) ** 2)
                    for square, value in zip(squares, (first, second)):
                        if not math.isfinite(value):
                            self.assertEqual(square, 0)
                            nothing += 1
                    other = GroupSum(layout, 8, "cpu", gamma)
                    for _, _, part, _ in other._parts:
                        part._add_by_library = lambda flat, kind, part=part: part._add_by_torch(flat)
                    other.add(parts)
                    self.assertTrue(torch.equal(of.sum, other.sum), (first, second, gamma))
        self.assertGreater(reached, 100)
        self.assertGreater(nothing, 100)

    def test_one_group_is_clipping(self):
        """The same integers as without groups, and a norm that is one number is the same bound."""
        g = [torch.randn(9, n, generator=torch.Generator().manual_seed(n)) * 10.0 ** torch.arange(-4.0, 5.0)[:, None] for n in (4, 7)]
        of = [GroupSum(Groups([""], [0, 0], [4, 7], [0.7], [1.0]), 8, "cpu"), ExactSum(11, 0.7, 8, "cpu")]
        for one in of:
            one.add(g)
        self.assertEqual(of[0].clip, 0.7)
        self.assertTrue(torch.equal(of[0].sum, of[1].sum))

    def test_the_root_is_above(self):
        draw = np.random.default_rng(2)
        for count in range(1, 60):
            some = [float(b) for b in 10.0 ** draw.uniform(-9, 9, count)]
            found = Fraction(groups.root_above(some)) ** 2
            wanted = sum(Fraction(b) ** 2 for b in some)
            self.assertGreaterEqual(found, wanted)
            self.assertLess(found, wanted * (1 + Fraction(1, 2**50)))
        self.assertEqual(doctest.testmod(groups).failed, 0)


@unittest.skipIf(torch is None, "torch is not installed")
class Runs(Case):
    def test_sums_are_clipped_by_groups(self):
        """By names, by the optimizer's groups, with equal noise and with noise in proportion, clipped and normalised, in any chunks."""
        x, y = batch()
        each = gradients_of(x, y)
        cases = [({"0": 0.3, "2": 0.05}, [0, 0, 1, 1]), ({"": 0.2, "0.weight": 0.4, "2.weight": 0.1}, [1, 0, 2, 0]),
                 ({"0.bias": 0.1, "": 1.0}, [1, 0, 1, 1])]  # fmt: skip
        for norms, members in cases:
            for noise in ("equal", "norms", {name: 3.0 + i for i, name in enumerate(norms)}):
                for gamma, chunk in ((None, None), (None, 5), (0.02, 1)):
                    _, private = make(GroupClip(norms, noise), normalize=gamma, chunk=chunk)
                    private.accumulate(x, y, units=range(B))
                    wanted = clipped(each, members, list(norms.values()), gamma or 0.0)
                    self.assertLess(float((released(private) - wanted).norm()), 1e-5 * float(wanted.norm()), (norms, noise, gamma))
        model = net()
        sgd = torch.optim.SGD([{"params": model[2].parameters()}, {"params": model[0].parameters(), "lr": 0.2}], lr=0.1)
        private = dpmf.torch.make_private(model, sgd, M, [0.05, 0.3], B, key=KEY)
        private.accumulate(x, y, units=range(B))
        wanted = clipped(each, [1, 1, 0, 0], [0.05, 0.3])
        self.assertLess(float((released(private) - wanted).norm()), 1e-5 * float(wanted.norm()))

    def test_the_noise_of_each_group(self):
        """Gradients of zero: what is released of group g is the row times a_g, made for the bound of all groups together."""
        for noise, scales in (("equal", [1.0, 1.0]), ("norms", [0.3, 0.05]), ({"0": 2.0, "2": 8.0}, [2.0, 8.0])):
            model, private = make(GroupClip({"0": 0.3, "2": 0.05}, noise), loss=lambda out, y: out.sum() * 0.0)
            clip = math.hypot(0.3 / scales[0], 0.05 / scales[1])
            self.assertAlmostEqual(private.clip_norm, clip, 12)
            self.assertAlmostEqual(private.noise.scale, clip * M.sigma * M.sensitivity.value, 9)
            _, other = make(GroupClip({"0": 0.3, "2": 0.05}, noise))
            row = other.noise.next().astype(np.float64)
            x, y = batch()
            private.step(x, y, units=range(B))
            found = torch.cat([p.grad.double().reshape(-1) for p in model.parameters()]).numpy() * B
            np.testing.assert_allclose(found[:35], row[:35] * scales[0], rtol=1e-5)
            np.testing.assert_allclose(found[35:], row[35:] * scales[1], rtol=1e-5)
            self.assertEqual(len(found), 35 + 18)

    def test_shards_release_the_same(self):
        """What processes release of their parts of the coordinates, side by side, is what one process releases of all."""
        x, y = batch()
        _, private = make(GroupClip({"0.weight": 0.3, "": 0.05}, "norms"))
        private.accumulate(x, y, units=range(B))
        row = torch.randn(53, generator=torch.Generator().manual_seed(1))
        whole = private._sum.noisy(0, row, 3.0, torch.float32)
        for cuts in ([0, 20, 53], [0, 1, 30, 31, 50, 53]):
            parts = [private._sum.noisy(a, row[a:b], 3.0, torch.float32) for a, b in zip(cuts, cuts[1:])]
            self.assertTrue(torch.equal(torch.cat(parts), whole))

    def test_the_statement(self):
        x, y = batch()
        for clip, words in ((GroupClip({"0": 3.0, "2": 4.0}), ["0: 3.0, 2: 4.0", "no example adds more than 5.0 in l2", "adds at most 5,"]),
                            (GroupClip({"0": 3.0, "": 4.0}, "norms"), ["0: 3.0, all others: 4.0", "no example adds more than 1.41421356", "multiplied by it after"])):  # fmt: skip
            _, private = make(clip, normalize=0.01)
            private.step(x, y, units=range(B))
            for word in words:
                self.assertIn(word, private.statement())
            self.assertIn("was normalised to its norm times g/(|g| + 0.01)", private.statement())

    def test_another_rule_is_another_run(self):
        x, y = batch()
        rules = [0.5, {"0": 0.4, "2": 0.3}, {"0": 0.3, "2": 0.4}, {"": 0.4, "2": 0.3}, GroupClip({"0": 0.4, "2": 0.3}, "norms"), {"0.weight": 0.4, "": 0.3}]
        saved, rows = [], []
        for rule in rules:
            _, private = make(rule)
            private.step(x, y, units=range(B))
            file = io.BytesIO()
            torch.save(private.state_dict(), file)
            file.seek(0)
            saved.append(torch.load(file, weights_only=True))
            rows.append(private.noise.next().astype(np.float64))
            private.close()
        equal = {(1, 3), (3, 1)}  # other names for the same groups
        for held, own in itertools.permutations(range(len(rules)), 2):
            _, private = make(rules[own])
            if (held, own) in equal:
                private.load_state_dict(saved[held])
                self.assertEqual(rows[held].tobytes(), rows[own].tobytes())
                continue
            self.refused(dpmf.Error, "the state", private.load_state_dict, saved[held])
            # A cosine of 53 numbers: their rows are no multiples of each other.
            self.assertLess(abs(rows[held] @ rows[own]) / np.linalg.norm(rows[held]) / np.linalg.norm(rows[own]), 0.999)
        key = self.folder / "run.key"
        _, private = make(rules[1], key=key)
        private.step(x, y, units=range(B))
        private.close()
        self.refused(dpmf.Error, "", make, rules[2], key=key)

    def test_users_exact_told_and_left_out(self):
        x, y = batch()
        each = gradients_of(x, y)
        mean = [[sum(parts) / 4 for parts in zip(*each[4 * u : 4 * u + 4])] for u in range(3)]
        model, private = make({"0": 0.3, "2": 0.05}, unit="user")
        private.accumulate(x, y, units=[i // 4 for i in range(B)])
        private._route.close_step(private._sum, private._tally)
        wanted = clipped(mean, [0, 0, 1, 1], [0.3, 0.05])
        self.assertLess(float((released(private) - wanted).norm()), 1e-5 * float(wanted.norm()))
        for noise in ("equal", "norms"):
            model, private = make(GroupClip({"0": 0.3, "2": 0.05}, noise), exact=True, tell="clipped")
            told = private.step(x, y, units=range(B)).nonprivate_clipped
            over = [any(float(torch.cat([p.reshape(-1) for p in g[i : i + 2]]).norm()) > c for i, c in ((0, 0.3), (2, 0.05))) for g in each]
            self.assertAlmostEqual(told, sum(over) / B)
            self.assertIn("private", private.statement())
            found = dpmf.audit.leave_out(private, x, y)
            self.assertTrue(found.same)
            self.assertLessEqual(found.largest, 1 + 1e-12)
            self.assertGreater(found.largest, 0.1)

    def test_what_is_refused(self):
        bad = [({}, "no groups"), ([], "no groups"), ({"0": 1.0}, "no norm for the parameter 2.weight"), ({"": 1.0, "3": 1.0}, "'3' names no"),
               ({"0": 1.0, "2": 0.0}, "clip_norm['2'] = 0"), ({"0": 1.0, "2": math.nan}, "clip_norm['2'] = nan"), ([1.0, 1.0], "2 norms, and the optimizer has 1"),
               ({"0": 1.0, "2": 1e-9}, "too small a part")]  # fmt: skip
        for clip, words in bad:
            self.refused(dpmf.ArgumentError, words, make, clip)
        for noise, words in (("much", "noise = 'much'"), ([1.0], "a number for each group"), ({"0": 1.0}, "a number for each group"), ({"0": 1.0, "2": -1}, "noise['2'] = -1")):  # fmt: skip
            self.refused(dpmf.ArgumentError, words, GroupClip, {"0": 1.0, "2": 1.0}, noise)
        self.refused(TypeError, "clip_norm is a str", GroupClip, "0.5")
        self.refused(TypeError, "clip_norm['0']", GroupClip, {"0": "much"})
        self.refused(dpmf.UnsupportedError, "one", make, {"": 1.0}, clipping="ghost")
        _, private = make({"": 1.0}, clipping="auto")
        self.assertEqual(private.clipping, "per-example")
        self.assertIn("factor each", private.clipping_reason)
        make(GroupClip({"0": 1.0, "2": 1e-9}, "norms"))  # coordinates of its own size


if __name__ == "__main__":
    unittest.main()
