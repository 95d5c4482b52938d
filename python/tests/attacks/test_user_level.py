# SPDX-License-Identifier: Apache-2.0
"""Attacks by users: all of a round's examples, values of any kind, ids that look alike or are missing, owners in chains."""

import math
import unittest
import warnings

import numpy as np
from story import KEY, Case, Inner, dpmf, inner_loss, mechanism, torch

try:
    import jax.numpy as jnp

    import dpmf.jax
except ImportError:
    jnp = None

if torch is not None:
    from dpmf.owners import Owners, assign
    from dpmf.users import Users

CLIP = 0.37


def private_of(model, m=None, sampler=None, loss=None, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    m = m or mechanism("toeplitz", 8)
    return dpmf.torch.make_private(model, optimizer, m, CLIP, 4.0, sampler=sampler, key=KEY, loss=loss, unit="user", **options)


def integers(private, x, *targets, ids):
    """The sum of a step as whole numbers, as it would be released with noise; the step is not taken."""
    private.accumulate(x, *targets, units=ids)
    private._route.close_step(private._sum, private._tally)
    found = private._sum.sum.clone()
    private.discard()
    return found


def squared(difference):
    """Exactly, as a Python integer: no rounding hides what is above the bound."""
    return sum(int(v) ** 2 for v in difference.tolist())


@unittest.skipIf(torch is None, "torch is not installed")
class OneUser(Case):
    def bound(self, private):
        return math.floor(CLIP / private._sum.grid) ** 2

    def test_all_examples_of_a_round(self):
        """One user has 1000 examples of the round, with any values: the sum moves by at most the clip norm, in integers, and the
        others' part of it does not change. Clipped example by example, as before, 1000 examples that agree move it by 1000 clip norms."""
        torch.manual_seed(1)
        others, names = torch.randn(60, 5), ["user %d" % (i % 20) for i in range(60)]
        ones = torch.ones(1000, 5)
        nan, inf, mixed = ones.clone(), ones.clone(), torch.randn(1000, 5)
        nan[500, 2], inf[3, 1], mixed[7] = float("nan"), -float("inf"), 1e30
        cases = {"equal": ones, "1e30": ones * 1e30, "the largest floats": ones * 3.4e38, "one NaN": nan, "an infinity": inf, "one 1e30": mixed,
                 "tiny": ones * 1e-40, "cancelling": torch.cat([ones[:500] * 1e30, -ones[:500] * 1e30]), "zeros": ones * 0}  # fmt: skip
        for how in ("mean", "sum"):
            for chunk in (None, 37):
                private = private_of(Inner(5), loss=inner_loss, user_gradient=how, chunk=chunk)
                alone = integers(private, others, torch.zeros(60), ids=names)
                for name, own in cases.items():
                    with self.subTest(name, how=how, chunk=chunk):
                        x = torch.cat([others, own])
                        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(2))
                        ids = [(names + ["mallory"] * 1000)[i] for i in order.tolist()]
                        moved = integers(private, x[order], torch.zeros(len(x)), ids=ids) - alone
                        self.assertLessEqual(squared(moved), self.bound(private))
                        if name in ("one NaN", "an infinity", "zeros", "cancelling"):
                            self.assertEqual(squared(moved), 0)
                        if name in ("equal", "1e30", "the largest floats"):
                            self.assertGreater(squared(moved), 0.999 * self.bound(private))
                private.close()

    def test_a_network_and_random_users(self):
        """A network with kinks: for random batches, leaving one user out moves the integers by what that user gives alone, to the
        bit, and by at most the clip norm."""
        torch.manual_seed(4)
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        private = private_of(model, chunk=16)
        for turn in range(6):
            count = 20 + 7 * turn
            x, y = torch.randn(count, 6) * 10**turn, torch.randint(0, 3, (count,))
            if turn == 3:
                x[4, 2] = float("nan")
            ids = torch.randint(0, 6, (count,)).tolist()
            whole = integers(private, x, y, ids=ids)
            for user in set(ids):
                rest = [i for i in range(count) if ids[i] != user]
                own = [i for i in range(count) if ids[i] == user]
                moved = whole - integers(private, x[rest], y[rest], ids=[ids[i] for i in rest])
                self.assertTrue(torch.equal(moved, integers(private, x[own], y[own], ids=[user] * len(own))))
                self.assertLessEqual(squared(moved), self.bound(private))

    def test_two_ids_that_differ_in_case(self):
        """Ann and ann are two users, so a person with both moves the sum by two clip norms. That is stated, and not guessed about: to make
        them equal without being asked would merge people in other alphabets."""
        m = mechanism("toeplitz", 8, sigma=None, epsilon=3.0, delta=1e-5)
        private = private_of(Inner(5), m, loss=inner_loss)
        moved = integers(private, torch.ones(2, 5), torch.zeros(2), ids=["Ann", "ann"])
        self.assertGreater(squared(moved), 3.99 * self.bound(private))
        private.step(torch.ones(2, 5), torch.zeros(2), units=["Ann", "ann"])
        self.assertIn("ids that differ, also in case only, are different, and somebody with two ids is covered as two", private.statement())
        self.assertEqual(Users(["Ann", "ann"]).count, 2)

    def test_missing_ids(self):
        """Examples without an id, all in one user "nan" or in none: somebody with some of them has more than one share. They are refused by
        the type or text of the id, before the data are looked at: with any data the message is the same."""
        said = set()
        for value in (0.0, 1e30, float("nan")):
            private = private_of(Inner(5), loss=inner_loss)
            for ids in (["a", None], ["a", float("nan")], ["a", "nan"], ["a", ""], [1, None], [1.0, 2.0]):
                with self.assertRaises(dpmf.ArgumentError) as caught:
                    private.step(torch.full((2, 5), value), torch.zeros(2), units=ids)
                said.add((str(ids), str(caught.exception)))
            self.assertEqual(private.steps_taken, 0)
        self.assertEqual(len(said), 6)

    def test_one_user_in_two_steps_of_one(self):
        """A user in two parts of one step would be clipped twice. The parts are one sum if they follow each other, and refused if not."""
        private = private_of(Inner(5), loss=inner_loss)
        one, none = torch.ones(1, 5), torch.zeros(1)
        for _ in range(30):
            private.accumulate(one, none, units=["mallory"])
        private._route.close_step(private._sum, private._tally)
        self.assertLessEqual(squared(private._sum.sum), self.bound(private))
        private.discard()
        for name in ("mallory", "bob"):
            private.accumulate(one, none, units=[name])
        self.refused(dpmf.StateError, "in two parts", private.accumulate, one, none, units=["mallory"])
        self.assertEqual(squared(private._sum.sum), 0)

    def test_a_call_that_is_interrupted(self):
        """Ctrl-C in the middle of a step, wherever it comes, and the cell is run again: a user must not be added twice. The second call with
        the same users is refused, and what the first has added is at most one clip norm for each."""
        x, ids = torch.ones(12, 5), ["a", "a", "b", "c", "c", "c", "d", "e", "f", "f", "a", "c"]
        for when in range(1, 8):
            private = private_of(Inner(5), loss=inner_loss, chunk=3)
            calls, real = [0], private._sum.add

            def add(rows, calls=calls, real=real, when=when):
                real(rows)
                calls[0] += 1
                if calls[0] == when:
                    raise KeyboardInterrupt

            private._sum.add = add
            try:
                private.accumulate(x, torch.zeros(12), units=ids)
                private._route.close_step(private._sum, private._tally)
            except KeyboardInterrupt:
                pass
            private._sum.add = real
            if calls[0] == when and when < 6:
                self.refused(dpmf.StateError, "in two parts", lambda p=private: p._route.begin(again(ids), 0))
            private._route.close_step(private._sum, private._tally)
            self.assertLessEqual(squared(private._sum.sum), len(set(ids)) ** 2 * self.bound(private))
            private.close()

    def test_a_sampler_of_users_in_a_run_by_examples(self):
        """The participation of users was checked, and examples were clipped: 1000 of one user would be 1000 clip norms."""
        data = torch.utils.data.TensorDataset(torch.ones(8, 5), torch.zeros(8))
        m = mechanism("toeplitz", 4, participation="cyclic:2,2")
        sampler = dpmf.torch.BatchSampler("cyclic:1", data, KEY, mechanism=m, users=[1, 1, 1, 1, 2, 2, 2, 2])
        model = Inner(5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.refused(dpmf.ArgumentError, "unit='user'", dpmf.torch.make_private, model, optimizer, m, 1.0, sampler=sampler, key=KEY)
        loader = dpmf.torch.data_loader(data, sampler)
        self.refused(dpmf.ArgumentError, "unit='user'", dpmf.torch.make_private, model, optimizer, m, 1.0, sampler=loader, key=KEY)
        from dpmf.torch.participation import participation_tracker  # what dpmf.opacus asks

        self.refused(dpmf.ArgumentError, "this run clips examples", participation_tracker, m, loader)


@unittest.skipIf(jnp is None, "jax is not installed")
class OneUserInJax(Case):
    def test_all_examples_of_a_round(self):
        """As in torch: 1000 examples of one user, with any values, in any order and with padding between, move the integers by at most the clip
        norm and leave the others' part as it is; numbers that overflow warn about nothing."""
        draw = np.random.default_rng(1)
        others = [draw.normal(size=(60, 4, 3)).astype(np.float32), draw.normal(size=(60, 2)).astype(np.float32)]
        names = np.arange(60) % 20
        ones, mixed = np.ones((1000, 14), np.float32), draw.normal(size=(1000, 14)).astype(np.float32)
        nan, inf, largest = ones.copy(), ones.copy(), np.float32(3.4e38)
        nan[500, 2], inf[3, 1], mixed[7] = np.nan, -np.inf, 1e30
        cases = {"equal": ones, "1e30": ones * np.float32(1e30), "the largest floats": ones * largest, "one NaN": nan, "an infinity": inf,
                 "one 1e30": mixed, "tiny": ones * np.float32(1e-40), "zeros": ones * 0,
                 "cancelling": np.concatenate([ones[:500] * largest, -ones[:500] * largest])}  # fmt: skip
        for mean in (True, False):
            sums = dpmf.jax.UserSums(14, CLIP, 1 << 20, mean, 1)
            alone, bound = sums(others, names), math.floor(CLIP / sums.grid) ** 2
            for name, own in cases.items():
                with self.subTest(name, mean=mean), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    leaves = [np.concatenate([others[0], own[:, :12].reshape(-1, 4, 3), np.full((9, 4, 3), np.nan, np.float32)]),
                              np.concatenate([others[1], own[:, 12:], np.full((9, 2), 1e30, np.float32)])]  # fmt: skip
                    users = np.concatenate([names, np.full(1000, 77), np.full(9, -1)])
                    order = np.arange(1069)
                    np.random.default_rng(2).shuffle(order[60:])  # others keep their order, on which their own sums' bits depend
                    moved = squared(sums([leaf[order] for leaf in leaves], users[order]) - alone)
                    self.assertLessEqual(moved, bound)
                    if name in ("one NaN", "an infinity", "zeros"):
                        self.assertEqual(moved, 0)
                    if name in ("equal", "1e30", "the largest floats"):
                        self.assertGreater(moved, 0.999 * bound)

    def test_a_step_of_hostile_gradients(self):
        """What leaves, and not only the sum: with gradients of any kind in the place of zeros, a step differs by at most the clip norm over the
        divisor, up to the rounding of floats."""
        m = mechanism("toeplitz", 8, participation="cyclic:4,2")
        ids, params, released = ["a", "a", "b", "b", "b", "c"], {"w": jnp.zeros(5)}, []
        for value in (0.0, 1.0, 1e30, -1e30, math.nan, math.inf):
            batches = dpmf.UserSampler("cyclic:2", ids, key=KEY, mechanism=m)
            noise = dpmf.jax.add_user_noise(m, params, CLIP, batches, KEY)
            examples, users = dpmf.UserSampler("cyclic:2", ids, key=KEY, mechanism=m).padded()
            gradients = np.where((users == 0)[:, None], np.float32(value), np.float32(0.01)) * np.ones((1, 5), np.float32)
            updates, _ = noise.update({"w": jnp.asarray(gradients)}, noise.init(params), users=jnp.asarray(users))
            released.append(np.asarray(updates["w"], np.float64))
        most = CLIP / batches.expected_batch
        for other in released[1:]:
            self.assertLessEqual(np.linalg.norm(other - released[0]), most + 1e-6)  # from zeros
        self.assertGreater(np.linalg.norm(released[2] - released[3]), 1.999 * most)
        for other in released[4:]:
            self.assertTrue(np.array_equal(other, released[0]))


@unittest.skipIf(torch is None, "torch is not installed")
class ManyOwners(Case):
    def test_the_contents_of_one_owner(self):
        """All examples of one owner get other contents: batches stay the same, and every step's sum moves by at most the clip norm for zeros
        in their place, and by two for any others, because one of them at most is in a batch."""
        torch.manual_seed(5)
        lists = [[i % 9, 9 + i % 4] for i in range(60)]
        m = mechanism("toeplitz", 12, participation="min-sep:3,2")
        x = torch.randn(60, 5) * 4
        runs = []
        for change in (None, 0.0, 1e30, float("nan")):
            data = x.clone()
            if change is not None:
                data[[9 in owners for owners in lists]] = change
            sampler = dpmf.torch.BatchSampler("scheduled:5,3,2", 60, KEY, mechanism=m, owners=lists)
            private = private_of(Inner(5), m, sampler, inner_loss)
            steps = []
            for batch in sampler:
                private.accumulate(data[list(batch)], torch.zeros(len(batch)), drawn_for=batch.step)
                steps.append((list(batch), private._sum.sum.clone()))
                private.step()
            runs.append(steps)
            bound = self.bound_of(private)
            private.close()
        touched = 0
        for other, times in zip(runs[1:], (1, 4, 1)):
            for (batch, whole), (again, changed) in zip(runs[0], other):
                self.assertEqual(batch, again)
                moved = squared(whole - changed)
                self.assertLessEqual(moved, times * bound)
                touched += moved > 0
        self.assertGreater(touched, 5)

    @staticmethod
    def bound_of(private):
        return math.floor(CLIP / private._sum.grid) ** 2

    def test_one_owner_less_changes_other_peoples_batches(self):
        """Why add-remove adjacency is refused: without the examples of one owner, the greedy assignment takes other examples of others
        in later steps. On a chain of owners more than half of the batches differ, by examples that are none of that owner's."""
        lists = [[i, i + 1] for i in range(40)]
        whole = Owners(lists)
        found = assign(whole.of, whole.count, whole_order(40), 20, 4, 2, 3)
        rest = Owners(lists[2:])
        other = assign(rest.of, rest.count, whole_order(40)[2:], 20, 4, 2, 3)
        of_others = [(set(a.tolist()) - {0, 1}, {i + 2 for i in b.tolist()}) for a, b in zip(found, other)]
        self.assertGreater(sum(a != b for a, b in of_others), 10)  # of 20
        m = mechanism("identity", 20, sigma=1.0, adjacency="add-remove", participation="min-sep:2,3")
        self.refused(dpmf.ArgumentError, "one owner more or less can change all batches", dpmf.torch.BatchSampler, "scheduled:4,2,3", 40, KEY,
                     mechanism=m, owners=lists)


def again(ids):
    from dpmf.torch.returning import ByHand

    class Part:
        users = ByHand().named(ids)

    return Part()


def whole_order(count):
    return np.random.default_rng(7).permutation(count)


if __name__ == "__main__":
    unittest.main()
