# SPDX-License-Identifier: Apache-2.0
"""Users: whose the examples are, clipping by users in integers, samplers of users, owners, and the same sums in torch and JAX."""

import gc
import io
import logging
import unittest
import warnings

import numpy as np
from support import KEY, Case, mechanism

import dpmf
from dpmf._clients import rule_of
from dpmf.owners import Owners, OwnerSampler, assign
from dpmf.users import Users, UserSampler, at_most

try:
    import torch

    import dpmf.torch
    from dpmf.torch.returning import limits_of
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

try:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    import dpmf.jax
except ImportError:
    jax = None

IDS = ["ann", "bob", "ann", "cy", "Ann", "bob", "ann"] * 4
DIM = 7


class Ids(Case):
    def test_numbers_follow_the_order_of_ids(self):
        for ids, wanted in (([3, -1, 3, 2**62], [1, 0, 1, 2]), (np.array([5, 4], np.uint8), [1, 0]), (("b", "a", "b"), [1, 0, 1]),
                            (np.array(["x", "y"]), [0, 1]), (np.array(["x", "y"], object), [0, 1])):
            users = Users(ids)
            self.assertEqual(users.numbers.tolist(), wanted)
            for user in range(users.count):
                self.assertEqual(users.examples_of(user).tolist(), np.flatnonzero(users.numbers == user).tolist())
        self.assertEqual(Users([1, 2]).digest, Users(np.array([1, 2], np.int16)).digest)
        self.assertEqual(len({Users(ids).digest for ids in ([1, 2], [2, 1], ["1", "2"], ["12"], ["1", "2", "2"])}), 5)

    def test_ids_that_differ_are_different_users(self):
        """Case, spaces and Unicode forms: two ids are two users, and the page and the statement say so."""
        self.assertEqual(Users(["Ann", "ann", "ann ", "\u00e4", "a\u0308"]).count, 5)

    def test_missing_ids_are_refused_by_their_types(self):
        missing = (([1, None], "users[1] is a NoneType"), ([1, float("nan")], "users[1] is a float"), (["a", ""], "users[1] = ''"),
                   (["nan", "a"], "users[0] = 'nan'"), (np.array([1.0, 2.0]), "array of float64"), (["a", 1], "users[1] is a int"),
                   (np.array([1, np.nan]), "array of float64"), (np.array(["a", None], object), "users[1] is a NoneType"),
                   ([True], "users[0] is a bool"), ([b"a"], "users[0] is a bytes"), (np.array([b"a"]), "array of |S1"),
                   ([2**64], "more than 64 bits"), (np.array([2**63], np.uint64), "2^63 - 1"), ([], "there are none"),
                   (np.zeros((2, 2), int), "2 dimensions"), (np.array(["a", np.nan]), "'nan'"), (["a", "NULL"], "users[1] = 'NULL'"), ([" NaN ", "a"], "' NaN '"), (["n/a"], "'n/a'"))  # fmt: skip
        for ids, words in missing:
            self.refused(dpmf.ArgumentError, words, Users, ids)

    def test_examples_of_a_round(self):
        """A random choice for each round, a function of the user's own examples: others do not move it."""
        secret = b"s" * 32
        ids = [0] * 10 + [1] * 3 + [2] * 40
        users = Users(ids)
        chosen = [users.chosen(0, 4, secret, t).tolist() for t in range(200)]
        self.assertTrue(all(len(set(c)) == 4 and c == sorted(c) for c in chosen))
        counts = np.bincount(np.concatenate(chosen), minlength=10)
        # 200 draws of 4 of 10: each count has mean 80 and variance 48; false alarm below 1e-8 in all.
        self.assertLess(np.abs(counts - 80).max(), 6.2 * 48**0.5)
        other = Users([0] * 10 + [1] * 300)
        self.assertEqual([other.chosen(0, 4, secret, t).tolist() for t in range(200)], chosen)
        self.assertEqual(users.chosen(1, 4, secret, 0).tolist(), [10, 11, 12])
        self.assertEqual(users.chosen(1, None, secret, 0).tolist(), [10, 11, 12])

    def test_at_most(self):
        for key in (None, KEY):
            kept = at_most(IDS, 3, key)
            self.assertEqual(np.bincount(Users(IDS).numbers[kept]).tolist(), [3, 3, 3, 3])
            self.assertEqual(kept.tolist(), sorted(set(kept.tolist())))
        self.refused(dpmf.ArgumentError, "most = 0", at_most, IDS, 0)


class Batches(Case):
    def test_users_are_drawn_as_units(self):
        """Every kind of sampler: the users of a step are those that dpmf.Sampler draws, with all or at most m examples of each."""
        users = Users(np.arange(120) // 4 * 7)
        for what in ("cyclic:6", "shuffled:6", "poisson:0.2", "block-cyclic:0.1,5", "fixed:6,30", "balls-in-bins:5", "min-sep:0.2,3",
                     "allocation:1,10", "scheduled:6,2,3"):  # fmt: skip
            for most in (None, 3):
                batches = UserSampler(what, users, 10, KEY, examples_per_user=most)
                for drawn in dpmf.Sampler(what, 30, 10, KEY):
                    examples, of = batches.next()
                    self.assertEqual(np.unique(of).tolist(), drawn.tolist(), what)
                    self.assertTrue((users.numbers[examples] == of).all())
                    self.assertEqual(len(set(examples.tolist())), len(drawn) * (most or 4))

    def test_processes_have_different_users(self):
        """The parts of three processes are the users of one, each user whole in one of them."""
        if torch is None:
            raise unittest.SkipTest("torch is not installed")
        whole = UserSampler("shuffled:3", IDS, 6, KEY, examples_per_user=2)
        parts = [iter(dpmf.torch.BatchSampler("shuffled:3", 28, KEY, steps=6, users=IDS, examples_per_user=2, rank=r, world=3)) for r in range(3)]
        for _ in range(6):
            examples, _ = whole.next()
            found = [next(part) for part in parts]
            self.assertEqual(sorted(i for part in found for i in part), sorted(examples.tolist()))
            owners = [{IDS[i] for i in part} for part in found]
            self.assertEqual(sum(map(len, owners)), len(set.union(*owners)))

    def test_padded(self):
        batches = UserSampler("cyclic:2", IDS, 4, KEY, examples_per_user=3)
        for _ in range(4):
            examples, users = batches.padded()
            self.assertEqual((len(examples), len(users), (users >= 0).sum()), (6, 6, 6))
        self.refused(dpmf.ArgumentError, "examples_per_user = 0", UserSampler, "cyclic:2", IDS, 4, KEY, examples_per_user=0)


class Owned(Case):
    def test_every_owner_stays_within_its_participation(self):
        """Random graphs: at most one example of an owner in a batch, at most k in all, b apart; and the assignment is maximal."""
        rng = np.random.default_rng(1)
        for _ in range(60):
            count, examples = int(rng.integers(2, 30)), int(rng.integers(1, 60))
            lists = [rng.choice(count, size=min(count, int(rng.integers(1, 4))), replace=False).tolist() for _ in range(examples)]
            k, b, batch, steps = (int(rng.integers(*r)) for r in ((1, 4), (1, 5), (1, 6), (1, 20)))
            owners = Owners(lists)
            found = assign(owners.of, owners.count, rng.permutation(examples), steps, batch, k, b)
            when = {o: [] for o in range(owners.count)}
            for t, some in enumerate(found):
                self.assertLessEqual(len(some), batch)
                for i in some:
                    for o in owners.of[i]:
                        when[o].append(t)
                if len(some) < batch:  # maximal: no other example could be in this batch as well
                    for i in set(range(examples)) - set(some.tolist()):
                        blocked = any(
                            sum(s <= t for s in when[o]) >= k or any(t - b < s <= t for s in when[o]) for o in owners.of[i]
                        )
                        self.assertTrue(blocked)
            for steps_of in when.values():
                self.assertLessEqual(len(steps_of), k)
                self.assertTrue(all(y - x >= b for x, y in zip(steps_of, steps_of[1:])))

    def test_batches_follow_from_the_ownership_and_the_key(self):
        lists = [[i % 7, 7 + i % 5] for i in range(50)]
        one, two = (OwnerSampler("scheduled:4,2,3", Owners(lists), 12, KEY) for _ in range(2))
        self.assertEqual([b.tolist() for b in one], [b.tolist() for b in two])
        other = OwnerSampler("scheduled:4,2,3", Owners(lists), 12, dpmf.testing_key(9))
        one.seek(0)
        self.assertNotEqual([b.tolist() for b in one], [b.tolist() for b in other])
        one.seek(5)
        two.seek(5)
        self.assertEqual(one.next().tolist(), two.next().tolist())
        used = {i for t in range(12) for i in (two.seek(t), two.next())[1].tolist()}
        self.assertEqual(sorted(set(range(50)) - used), two.left_out.tolist())

    def test_what_is_refused(self):
        m = mechanism("identity", 12, sigma=1.0, adjacency="add-remove", participation="min-sep:2,3")
        lists = Owners([["a", "b"], ["c"]])
        self.refused(dpmf.ArgumentError, "add-remove", OwnerSampler, "scheduled:1,2,3", lists, 12, KEY, mechanism=m)
        self.refused(dpmf.ArgumentError, "scheduled:M,K,B", OwnerSampler, "poisson:0.5", lists, 12, KEY)
        m = mechanism("identity", 12, sigma=1.0, participation="min-sep:2,4")
        self.refused(dpmf.ArgumentError, "would not hold", OwnerSampler, "scheduled:1,2,3", lists, 12, KEY, mechanism=m)
        self.refused(dpmf.ArgumentError, "owners[1] is empty", Owners, [["a"], []])
        self.refused(dpmf.ArgumentTypeError, "owners[0] is a str", Owners, ["a"])
        self.refused(dpmf.ArgumentTypeError, "NoneType", Owners, [[None]])


if torch is not None:

    class Inner(torch.nn.Module):
        """loss = <w, x>: the gradient of an example is the example itself."""

        def __init__(self, dim=DIM):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(dim))

        def forward(self, x):
            return x @ self.w


def total(outputs, *_targets):
    return outputs.sum()


def made(m=None, clip=1.0, sampler=None, key=KEY, dim=DIM, **options):
    model = Inner(dim)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options.setdefault("expected_batch", 2.0)
    m = m or mechanism("toeplitz", 8, participation="min-sep:2,3")
    return dpmf.torch.make_private(model, optimizer, m, clip, sampler=sampler, key=key, loss=total, unit="user", **options)


def sums(private):
    """The integers of the step under way, closed as a release closes them."""
    private._route.close_step(private._sum, private._tally)
    return private._sum.sum.clone()


def of_users(x, users, clip, mean=True):
    """A reference: each user's sum in NumPy, clipped as one example is."""
    rows = []
    for user in sorted(set(users)):
        own = x[[i for i, u in enumerate(users) if u == user]].double()
        rows.append(own.sum(0) / (len(own) if mean else 1))
    return torch.stack([row * min(1.0, clip / float(row.norm())) for row in rows]).sum(0)


@unittest.skipIf(torch is None, "torch is not installed")
class Clipping(Case):
    def test_sums_are_those_of_users(self):
        x = torch.randn(28, DIM, generator=torch.Generator().manual_seed(1))
        for mean in (True, False):
            for chunk in (None, 1, 3, 28):
                private = made(user_gradient="mean" if mean else "sum", chunk=chunk)
                private.accumulate(x, units=IDS)
                found = sums(private).double() * private._sum.grid
                torch.testing.assert_close(found, of_users(x, IDS, 1.0, mean), rtol=0, atol=1e-8)
                private.close()

    def test_chunks_order_and_parts_change_no_bit(self):
        """In any chunks, sorted by user or not, and in parts that follow each other: the same integers."""
        x = torch.randn(28, DIM, generator=torch.Generator().manual_seed(2)) * 3
        order = sorted(range(28), key=lambda i: Users(IDS).numbers[i])
        ids = [IDS[i] for i in order]
        found = []
        for chunk in (None, 1, 2, 5, 11):
            private = made(chunk=chunk)
            private.accumulate(x, units=IDS)
            found.append(sums(private))
            private.discard()
            private.accumulate(x[order], units=ids)
            found.append(sums(private))
            private.close()
        numbers = [dpmf.torch.returning.ByHand().named([one])[0] for one in IDS]
        order = sorted(range(28), key=lambda i: numbers[i])
        for cut in (1, 9, 20):
            private = made()
            for part in (order[:cut], order[cut:]):
                private.accumulate(x[part], units=[IDS[i] for i in part])
            found.append(sums(private))
            private.close()
        for other in found[1:]:
            self.assertTrue(torch.equal(other, found[0]))

    def test_users_of_one_example_are_examples(self):
        """The integers of a run by examples, to the bit."""
        x = torch.randn(40, DIM, generator=torch.Generator().manual_seed(3)) * 2
        model = Inner()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        plain = dpmf.torch.make_private(model, optimizer, mechanism("toeplitz", 8), 1.0, 2.0, key=KEY, loss=total)
        plain.accumulate(x, units=range(40))
        for chunk in (None, 7):
            by_user = made(chunk=chunk)
            by_user.accumulate(x, units=range(40))
            self.assertTrue(torch.equal(sums(by_user), plain._sum.sum))

    def test_a_user_in_two_parts_with_others_between(self):
        private = made()
        x = torch.ones(2, DIM)
        private.accumulate(x, units=[1, 2])
        private.accumulate(x, units=[2, 3])
        self.refused(dpmf.StateError, "user number 1 is in two parts", private.accumulate, x, units=[3, 1])
        self.refused(dpmf.ArgumentError, "accumulate first", private.step)
        private.step(x, units=[3, 1])
        self.assertEqual(private.steps_taken, 1)

    def test_ghost_clipping_is_refused_unless_users_have_one_example(self):
        self.refused(dpmf.UnsupportedError, "norm of the sum", made, clipping="ghost")
        data = torch.utils.data.TensorDataset(torch.randn(28, DIM))
        m = mechanism("toeplitz", 8, participation="cyclic:4,2")
        for most, fits in ((1, True), (2, False), (None, False)):
            sampler = dpmf.torch.BatchSampler("cyclic:2", data, KEY, mechanism=m, users=IDS, examples_per_user=most)
            if fits:
                self.assertEqual(made(m, sampler=sampler, clipping="ghost").clipping, "ghost")
            else:
                self.refused(dpmf.UnsupportedError, "norm of the sum", made, m, sampler=sampler, clipping="ghost")
        private = made(clipping="auto")
        self.assertEqual(private.clipping, "per-example")
        self.assertIn("norm of the sum", private.clipping_reason)

    def test_parameters_of_two_types(self):
        """Parameters in single and in double precision: chunks change no bit."""

        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Parameter(torch.zeros(DIM)), torch.nn.Parameter(torch.zeros(DIM, dtype=torch.float64))

            def forward(self, x):
                return x @ self.a + (x.double() @ self.b) / 3

        x = torch.randn(12, DIM, generator=torch.Generator().manual_seed(7)) * 2
        found = []
        for chunk in (None, 1, 5):
            model = Two()
            private = dpmf.torch.make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), mechanism("toeplitz", 8), 1.0, 2.0, key=KEY,
                                              loss=total, unit="user", chunk=chunk)  # fmt: skip
            private.accumulate(x, units=[0, 1, 1, 2, 3, 3, 3, 4, 5, 6, 6, 7])
            found.append(sums(private))
        self.assertTrue(all(torch.equal(other, found[0]) for other in found))

    def test_telling(self):
        x = torch.zeros(4, DIM)
        x[0, 0], x[1, 0], x[2, 0], x[3, 1] = 5.0, -5.0, 0.5, 4.0  # user 0: mean 0; user 1: 0.5; user 2: 4
        private = made(tell=("loss", "clipped"))
        self.assertAlmostEqual(private.step(x, units=[0, 0, 1, 2]).nonprivate_clipped, 1 / 3)
        private.close()


@unittest.skipIf(torch is None, "torch is not installed")
class Participation(Case):
    def test_users_who_return_are_refused_before_they_count(self):
        x = torch.ones(1, DIM)
        cases = {
            "single": ([(0, True), (1, False)], "1 times"),
            "min-sep:2,3": ([(0, True), (1, False), (2, False), (3, True), (7, False)], None),
            "cyclic:4,2": ([(1, True), (2, False), (3, True)], "multiple of 2"),
            "shuffled:4,2": ([(1, True), (2, True), (3, False), (6, True)], "same epoch"),
        }
        for participation, (tries, words) in cases.items():
            private = made(mechanism("toeplitz", 8, participation=participation))
            for t in range(8):
                wanted = dict(tries).get(t)
                if wanted is None:
                    private.step(x, units=["other %d" % t])
                elif wanted:
                    private.step(torch.ones(3, DIM), units=["bob"] * 3)  # several examples: one participation
                else:
                    before = private._sum.sum.clone()
                    self.refused(dpmf.StateError, words or "user 'bob'", private.step, x, units=["bob"])
                    self.assertTrue(torch.equal(private._sum.sum, before))
                    private.step(x, units=["other %d" % t])
            private.close()

    def test_one_rule_for_users_and_clients(self):
        """Users of a loader and clients of a federation may take part in the same steps, under every participation."""
        rng = np.random.default_rng(5)
        refusals = 0
        for participation in ("single", "full", "cyclic:4,3", "min-sep:3,4", "shuffled:3,4"):
            m = mechanism("identity", 12, participation=participation)
            rule, limits = rule_of(m), limits_of(m)
            for _ in range(200):
                *before, step = np.flatnonzero(rng.random(12) < rng.choice([0.15, 0.3])).tolist() or [0]
                log = {t: np.array([7]) for t in before}
                if any(rule(before[:i]) is not None for i in range(1, len(before) + 1)):
                    continue
                try:
                    limits.check(np.array([7]), step, log, str)
                    found = None
                except dpmf.StateError as error:
                    found, refusals = error, refusals + 1
                self.assertEqual(found is None, rule([*before, step]) is None, (participation, before, step))
        self.assertGreater(refusals, 50)

    def test_counted(self):
        """returning='count': the epsilon is that of what happened, as observed_privacy has it."""
        m = mechanism("toeplitz", 8, participation="min-sep:2,3", sigma=None, epsilon=3.0, delta=1e-5)
        private = made(m, returning="count")
        for t in range(4):
            private.step(torch.ones(2, DIM), units=["bob", "bob"])
        wanted = m.observed_privacy([7] * 4, range(4))
        self.assertEqual(private.epsilon, wanted.epsilon)
        self.assertGreater(private.epsilon, 3.0)
        self.assertIn("the participations of every user", private.statement())

    def test_a_loader_with_ids(self):
        """A DataLoader and users=: participations are those of users, by the ids of its examples."""
        data = torch.utils.data.TensorDataset(torch.randn(28, DIM))
        loader = torch.utils.data.DataLoader(data, batch_size=7)
        self.refused(dpmf.ArgumentError, "users= is not given", made, sampler=loader)
        m = mechanism("toeplitz", 4, participation="full")
        private = made(m, sampler=loader, users=IDS)
        for (x,) in loader:
            private.step(x)
        units, _ = private._taken.log()
        self.assertEqual(np.bincount(units).tolist(), [4, 4, 4, 4])
        private = made(mechanism("toeplitz", 4), sampler=loader, users=IDS)
        batches = iter(loader)
        private.step(next(batches)[0])
        self.refused(dpmf.StateError, "user 'Ann' in step 1", private.step, next(batches)[0])
        self.refused(dpmf.ArgumentError, "one id for each example", lambda: made(m, sampler=loader, users=IDS[:3]).step(next(iter(loader))[0]))

    def test_ids_by_hand(self):
        private = made()
        self.refused(dpmf.ArgumentTypeError, "NoneType", private.step, torch.ones(2, DIM), units=["a", None])
        self.refused(dpmf.ArgumentError, "1 units for 2", private.step, torch.ones(2, DIM), units=["a"])
        private.step(torch.ones(2, DIM), units=["a", "b"])
        self.refused(dpmf.ArgumentTypeError, "one type", private.step, torch.ones(2, DIM), units=[1, 2])

    def test_what_does_not_fit(self):
        data = torch.utils.data.TensorDataset(torch.randn(28, DIM))
        m = mechanism("toeplitz", 8, participation="cyclic:4,2")
        plain = dpmf.torch.BatchSampler("cyclic:14", data, KEY, mechanism=m)
        self.refused(dpmf.ArgumentError, "the sampler draws examples", made, m, sampler=plain)
        by_user = dpmf.torch.BatchSampler("cyclic:2", data, KEY, mechanism=m, users=IDS)
        self.refused(dpmf.ArgumentError, "unit='user'", dpmf.torch.make_private, Inner(), torch.optim.SGD(Inner().parameters(), lr=1),
                     m, 1.0, sampler=by_user, key=KEY)
        designed = dpmf.design(steps=8, epochs=4, epsilon=1, delta=1e-5, families=["toeplitz"])
        self.refused(dpmf.ArgumentError, "protects one example", made, designed)
        self.refused(dpmf.ArgumentError, "examples_per_user = 2 without users=", dpmf.torch.BatchSampler, "cyclic:2", data, KEY,
                     mechanism=m, examples_per_user=2)
        self.refused(dpmf.ArgumentError, "27 ids", dpmf.torch.BatchSampler, "cyclic:2", data, KEY, mechanism=m, users=IDS[1:])
        self.refused(dpmf.ArgumentError, "user_gradient", made, m, user_gradient="max")
        self.refused(dpmf.ArgumentError, "returning", made, returning="maybe")


@unittest.skipIf(torch is None, "torch is not installed")
class Runs(Case):
    def run_of(self, sampler_options=None, state=None, key=None, **options):
        torch.manual_seed(5)
        x = torch.randn(28, DIM)
        data = torch.utils.data.TensorDataset(x)
        m = mechanism("toeplitz", 8, participation="cyclic:4,2", sigma=None, epsilon=3.0, delta=1e-5)
        what = {"users": IDS, "examples_per_user": 3, **(sampler_options or {})}
        sampler = dpmf.torch.BatchSampler("cyclic:2", data, key or KEY, mechanism=m, **what)
        private = made(m, sampler=sampler, key=key or KEY, state=state, expected_batch=None, **options)
        return private, dpmf.torch.data_loader(data, sampler)

    def test_a_run_by_users(self):
        private, loader = self.run_of()
        for (x,) in loader:
            private.step(x)
        self.assertEqual((private.expected_batch, private.counted, private.steps_taken), (2.0, False, 8))
        said = private.statement()
        for words in ("Privacy unit: one user.", "Protected: each user that takes part in at most 4", "One user is one id", "epsilon = 3 "):
            self.assertIn(words, said)
        self.assertNotIn("several examples is not covered", said)

    def test_resuming_needs_the_same_ids(self):
        """Checkpoint and state file: other ids, another number of examples, another unit are refused; the same go on to the same bits."""
        path = self.folder / "users.key"
        private, loader = self.run_of(key=path)
        steps, file = iter(loader), io.BytesIO()
        for _ in range(3):
            private.step(next(steps)[0])
        torch.save([private.model.state_dict(), private.state_dict()], file)
        for (x,) in steps:
            private.step(x)
        wanted = private.model.w.detach().clone()
        private.close()
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        again, loader = self.run_of(key=path)
        again.model.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
        for (x,) in loader:
            again.step(x)
        self.assertTrue(torch.equal(again.model.w, wanted))
        again.close()
        swapped = ["cy" if one == "bob" else "bob" if one == "cy" else one for one in IDS]
        for change in ({"users": swapped}, {"users": [one + "x" for one in IDS]}, {"examples_per_user": 2}):
            self.refused(dpmf.ArgumentError, "another label", self.run_of, change, key=path)
            other, _ = self.run_of(change, key=path, state=dpmf.NO_STATE)
            self.refused(dpmf.StateError, "another sampler", other.load_state_dict, saved[1])
            other.close()
        other, _ = self.run_of(key=path, state=dpmf.NO_STATE, user_gradient="sum")
        self.refused(dpmf.StateError, "user_gradient", other.load_state_dict, saved[1])
        other.close()
        model = Inner()
        plain = dpmf.torch.make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), private.mechanism, 1.0, 2.0, key=KEY)
        self.refused(dpmf.StateError, "by users, and this one is by examples", plain.load_state_dict, saved[1])

    def test_counted_users_in_a_checkpoint(self):
        """The log of users is in the checkpoint: one who came before it is refused after it."""
        private = made(mechanism("toeplitz", 8))
        private.step(torch.ones(1, DIM), units=["bob"])
        saved = private.state_dict()
        private.close()
        again = made(mechanism("toeplitz", 8))
        again.load_state_dict(saved)
        self.refused(dpmf.StateError, "which is the most", again.step, torch.ones(1, DIM), units=["bob"])
        again.step(torch.ones(1, DIM), units=["ann"])

    def test_a_loader_with_other_ids_cannot_resume(self):
        """The log has users by numbers, which other ids would give to others."""
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(28, DIM)), batch_size=7)
        m = mechanism("toeplitz", 4, participation="full")
        private = made(m, sampler=loader, users=IDS)
        private.step(next(iter(loader))[0])
        saved = private.state_dict()
        made(m, sampler=loader, users=IDS).load_state_dict(saved)
        self.refused(dpmf.StateError, "label", made(m, sampler=loader, users=IDS[::-1]).load_state_dict, saved)

    def test_poisson_caps_and_empty_batches(self):
        m = dpmf.evaluate("identity", 12, sigma=1.0, participation="full")
        data = torch.utils.data.TensorDataset(torch.randn(28, DIM))
        sampler = dpmf.torch.BatchSampler("poisson:0.3", data, KEY, mechanism=m, users=IDS, examples_per_user=3, cap=2)
        private = made(m, sampler=sampler)
        sizes = []
        for (x,) in dpmf.torch.data_loader(data, sampler):
            self.assertEqual(len(x), 6)
            private.accumulate(x)
            sizes.append(int(private._sum.added + (private._route._open is not None)))
            private.step()
        self.assertLessEqual(max(sizes), 2)
        self.assertEqual(min(sizes), 0)

    def test_exact_release_and_adaptive_clip(self):
        """Rows on the grid of users' sums; and a norm that follows the norms of users, whose count is of users."""
        private, loader = self.run_of(exact=True)
        for (x,) in loader:
            private.step(x)
        self.assertIn("Arithmetic: exact", private.statement())
        m = mechanism("identity", 4, participation="full", sigma=None, epsilon=8.0, delta=1e-5)
        rule = dpmf.torch.AdaptiveClip(start=1.0, quantile=0.5, rate=0.2, count_noise=16.0)
        private = made(m, rule)
        private.accumulate(torch.tensor([[9.0] + [0] * 6, [-9.0] + [0] * 6, [0.5] * 7]), units=["a", "a", "b"])
        private._route.close_step(private._sum, private._tally)
        self.assertEqual(int(private._sum.whole[-1]), 0)  # a: mean 0, within; b: norm 1.3, beyond: +1 - 1
        private.step()

    def test_words_of_another_unit(self):
        private, loader = self.run_of()
        private.step(next(iter(loader))[0])
        self.assertIn("The run was by users. It protects one hospital in this way only if each hospital is exactly one user",
                      private.statement("hospital"))
        self.assertNotIn("The run was by", private.statement("user"))

    def test_opacus_and_leave_out_know_no_users(self):
        private, _ = self.run_of()
        import dpmf.audit

        self.refused(dpmf.UnsupportedError, "by users", dpmf.audit.leave_out, private, torch.ones(2, DIM))
        from dpmf.torch.participation import participation_tracker

        sampler = private._taken.sampler
        self.refused(dpmf.ArgumentError, "users", participation_tracker, private.mechanism, sampler)

    def test_owners(self):
        """Each example is clipped alone, no batch has two of an owner, and the statement names what is public."""
        x = torch.randn(50, DIM) * 5
        lists = [[i % 7, 7 + i % 5] for i in range(50)]
        m = mechanism("toeplitz", 12, participation="min-sep:2,3", sigma=None, epsilon=3.0, delta=1e-5)
        data = torch.utils.data.TensorDataset(x)
        sampler = dpmf.torch.BatchSampler("scheduled:4,2,3", data, KEY, mechanism=m, owners=lists)
        private = made(m, sampler=sampler, expected_batch=None)
        for batch in sampler:
            owners = [o for i in batch for o in lists[i]]
            self.assertEqual(len(owners), len(set(owners)))
            private.step(x[batch], drawn_for=batch.step)
        self.assertIn("fixed-graph", private.statement())
        self.assertIn("Privacy unit: one user", private.statement())
        other = dpmf.torch.BatchSampler("scheduled:4,2,3", data, KEY, mechanism=m, owners=lists[::-1])
        self.refused(dpmf.StateError, "another sampler", made(m, sampler=other, expected_batch=None).load_state_dict, private.state_dict())


@unittest.skipIf(torch is None or jax is None, "torch and jax are not both installed")
class Both(Case):
    def test_torch_and_jax_have_the_same_bits(self):
        """Equal users, key and gradients: equal integers, equal rows of noise, equal released sums."""
        rng = np.random.default_rng(3)
        x = rng.normal(size=(28, DIM)).astype(np.float32) * 2
        x[5, 2], x[9, 0] = np.nan, 1e30
        m = mechanism("toeplitz", 8, participation="cyclic:4,2", sigma=None, epsilon=3.0, delta=1e-5)
        data = torch.utils.data.TensorDataset(torch.from_numpy(x))
        for how, most, gamma in (("mean", 3, None), ("sum", None, None), ("mean", None, 0.01)):
            sampler = dpmf.torch.BatchSampler("cyclic:2", data, KEY, mechanism=m, users=IDS, examples_per_user=most)
            private = made(m, sampler=sampler, expected_batch=None, user_gradient=how, normalize=gamma)
            batches = UserSampler("cyclic:2", IDS, key=KEY, mechanism=m, examples_per_user=most)
            params = {"w": jnp.zeros(DIM, jnp.float32)}
            noise = dpmf.jax.add_user_noise(m, params, 1.0, batches, KEY, user_gradient=how, normalize=gamma)
            reader = UserSampler("cyclic:2", IDS, key=KEY, mechanism=m, examples_per_user=most)
            state, step = noise.init(params), jax.jit(noise.update)
            sums_of_jax = dpmf.jax.UserSums(DIM, 1.0, 1 << 20, how == "mean", 1, gamma or 0.0)
            for batch in sampler:
                examples, users = reader.padded()
                self.assertEqual(examples[users >= 0].tolist(), list(batch))
                gradients = np.where((users >= 0)[:, None], x[examples], 7.0).astype(np.float32)
                updates, state = step({"w": jnp.asarray(gradients)}, state, params, users=jnp.asarray(users))
                private.accumulate(torch.from_numpy(x[list(batch)]), drawn_for=batch.step)
                self.assertEqual(sums_of_jax([gradients], users).tolist(), sums(private).tolist())
                private.step()
                self.assertEqual(np.asarray(updates["w"]).tobytes(), private.model.w.grad.numpy().tobytes())
            private.close()

    def test_jax_refuses(self):
        m = mechanism("toeplitz", 8, participation="cyclic:4,2")
        params = {"w": jnp.zeros(DIM)}
        batches = UserSampler("cyclic:2", IDS, key=KEY, mechanism=m)
        make = dpmf.jax.add_user_noise
        self.refused(dpmf.ArgumentTypeError, "UserSampler", make, m, params, 1.0, None, KEY)
        owned = OwnerSampler("scheduled:4,2,4", Owners([["a"], ["a", "b"]] * 14), 8, KEY)
        self.refused(dpmf.ArgumentTypeError, "sampler is a OwnerSampler", make, m, params, 1.0, owned, KEY)
        wrong = UserSampler("shuffled:2", IDS, 8, KEY)
        self.refused(dpmf.ArgumentError, "would not hold", make, m, params, 1.0, wrong, KEY)
        self.refused(dpmf.ArgumentError, "user_gradient", make, m, params, 1.0, batches, KEY, user_gradient="max")
        self.refused(dpmf.ArgumentError, "normalize = 0", make, m, params, 1.0, batches, KEY, normalize=0)
        path = self.folder / "run.state"
        first = make(m, params, 1.0, batches, KEY, state=path)
        _, users = UserSampler("cyclic:2", IDS, key=KEY, mechanism=m).padded()
        updates, _ = first.update({"w": jnp.zeros((len(users), DIM))}, first.init(params), users=users)
        jax.block_until_ready(updates)
        del first
        jax.clear_caches()  # what was compiled holds the stream
        gc.collect()
        self.refused(dpmf.ArgumentError, "another label", make, m, params, 1.0, batches, KEY, state=path, normalize=0.01)
        other = UserSampler("cyclic:2", IDS[::-1], key=KEY, mechanism=m)
        self.refused(dpmf.ArgumentError, "another label", make, m, params, 1.0, other, KEY, state=path)
        noise = make(m, params, 1.0, batches, KEY)
        state = noise.init(params)
        logging.disable(logging.ERROR)  # jax writes the refusal of a callback to its log
        self.addCleanup(logging.disable, logging.NOTSET)
        self.refused(dpmf.ArgumentError, "users", noise.update, {"w": jnp.zeros((4, DIM))}, state)
        self.refused(dpmf.ArgumentError, "updates of shapes", noise.update, params, state, users=np.zeros(4, int))
        with self.assertRaises(Exception) as caught:
            noise.update({"w": jnp.zeros((4, DIM))}, state, users=jnp.array([2, 2, 3, 3]))
            jax.block_until_ready(state)
        self.assertIn("not those that the sampler drew", str(caught.exception))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
