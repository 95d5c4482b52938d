# SPDX-License-Identifier: Apache-2.0
"""The server of a federated run without a framework: who is asked, bad answers, and a server that dies at every moment."""

import os
import shutil
import unittest

import numpy as np
from support import Case

import dpmf
from dpmf import _federation
from dpmf._federation import Federation
from dpmf.federated import Exhausted

MECHANISM = dpmf.evaluate("toeplitz", 6, participation="min-sep:3,2", epsilon=4.0, delta=1e-5, unit="user")
CYCLIC = dpmf.evaluate("toeplitz", 6, participation="cyclic:3,2", epsilon=4.0, delta=1e-5, unit="user")
INITIAL = {"w": np.zeros((2, 2), np.float32), "b": np.zeros(1, np.float32), "count": np.array(3)}
CLIENTS = ["ada", "bob", "eve", "joe"]


def add_mean(run):
    """A server optimizer with a state: momentum."""

    def apply(mean):
        moved = {name: 0.5 * run.more.get(name, np.zeros_like(one)) + one for name, one in mean.items()}
        return {name: one + moved[name] if name in moved else one for name, one in run.model.items()}, moved

    return apply


def answer(client, model, t):
    """What a client sends: some of it bad, all of it a function of the model."""
    sign = 1 + CLIENTS.index(client)
    made = {name: one + one.dtype.type(0.1 * sign + 0.01 * t) - one / 3 for name, one in model.items()}
    if client == "eve":
        made["w"] = made["w"] * np.float32(np.nan)
    if client == "joe":
        made["w"] = made["w"] + np.float32(1e6)
    return made


def opened(folder, mechanism=MECHANISM, **options):
    run = Federation(mechanism, 1.0, 2, key=os.path.join(folder, "key"), **options)
    run.begin(INITIAL, add_mean(run), lambda arrays: None)
    return run


def one_round(run, available=CLIENTS):
    chosen = run.choose(available)
    run.ask(chosen)
    for name in chosen:
        run.add(name, lambda: answer(name, run.model, run.rounds.round))
    return run.close_round(add_mean(run))


class Choice(Case):
    def participations(self, run):
        units, steps, names = run.rounds.participations()
        found = {}
        for unit, step in zip(units.tolist(), steps.tolist()):
            found.setdefault(names[unit], []).append(step)
        return found

    def test_nobody_is_asked_too_early_or_too_often(self):
        run = opened(self.folder)
        for _ in range(6):
            one_round(run)
        found = self.participations(run)
        self.assertEqual({len(rounds) for rounds in found.values()}, {3})
        self.assertTrue(all(b - a >= 2 for rounds in found.values() for a, b in zip(rounds, rounds[1:])), found)
        self.refused(Exhausted, "6 rounds", run.choose, CLIENTS)

    def test_fixed_groups_take_turns(self):
        run = opened(self.folder, CYCLIC)
        for _ in range(6):
            one_round(run)
        found = self.participations(run)
        self.assertEqual(sorted(found.values()), [[0, 2, 4], [0, 2, 4], [1, 3, 5], [1, 3, 5]])

    def test_a_client_of_another_group_is_not_taken_for_one_who_is_missing(self):
        run = opened(self.folder, CYCLIC)
        first = run.choose(CLIENTS)
        one_round(run)
        one_round(run)
        self.assertEqual(run.choose([name for name in CLIENTS if name not in first]), [])
        self.assertEqual(run.choose([first[0], "new"]), [first[0], "new"])

    def test_who_is_asked_by_others_is_checked(self):
        run = opened(self.folder)
        early = run.choose(CLIENTS)
        one_round(run)
        self.refused(dpmf.StateError, "1 apart", run.ask, [early[0]])
        self.refused(dpmf.StateError, "at most 2", run.ask, ["x", "y", "z"])
        self.refused(dpmf.StateError, "all different", run.ask, ["x", "x"])

    def test_the_unit_must_be_a_user(self):
        for unit in (None, "example"):
            m = dpmf.evaluate("toeplitz", 6, participation="min-sep:3,2", epsilon=4.0, delta=1e-5, unit=unit)
            self.refused(dpmf.ArgumentError, "user", Federation, m, 1.0, 2, key=os.path.join(self.folder, "k"))


class Answers(Case):
    def total(self, answers):
        """The sum in steps of the grid, and the grid."""
        folder = os.path.join(self.folder, str(len(os.listdir(self.folder))))
        os.mkdir(folder)
        run = opened(folder)
        run.ask(["ada", "bob"])
        accepted = [run.add(client, made) for client, made in answers]
        clients, total = run.rounds.pending()
        return accepted, clients, total, run.rounds.grid

    def test_bad_answers_add_zeros_and_count(self):
        good = {name: one + one.dtype.type(0) for name, one in INITIAL.items()}

        def fails():
            raise RuntimeError("no answer")

        bad = [
            {**good, "w": good["w"] * np.nan},
            {**good, "w": good["w"] + np.inf},
            {**good, "w": np.ones((4,), np.float32)},
            {**good, "w": np.array([["a"] * 2] * 2)},
            {**good, "other": np.ones(1)},
            {"w": np.ones((2, 2), np.float32)},
            {},
            None,
            7,
        ]
        for made in [fails, *[(lambda made=made: made) for made in bad]]:
            accepted, clients, total, _ = self.total([("ada", made)])
            self.assertEqual((accepted, clients, total.any()), ([True], ["ada"], False))

    def test_one_client_moves_the_sum_by_at_most_the_clip(self):
        for size in (1e-3, 1.0, 1e6, 1e30):
            made = {name: (one + size).astype(one.dtype) for name, one in INITIAL.items()}
            _, _, total, grid = self.total([("ada", lambda: made)])
            self.assertTrue(total.any())
            self.assertLessEqual(sum(int(n) ** 2 for n in total), int(1.0 / grid) ** 2)

    def test_second_answers_and_strangers_are_not_added(self):
        made = {name: (one + 0.1).astype(one.dtype) for name, one in INITIAL.items()}
        once = self.total([("ada", lambda: made)])
        twice = self.total([("ada", lambda: made), ("ada", lambda: made), ("eve", lambda: made)])
        self.assertEqual(twice[0], [True, False, False])
        self.assertEqual(twice[1], ["ada"])
        self.assertTrue((once[2] == twice[2]).all())

    def test_a_round_without_answers_has_its_noise_and_its_clients(self):
        run = opened(self.folder)
        run.ask(["ada", "bob"])
        before = {name: one.copy() for name, one in run.model.items()}
        after = run.close_round(add_mean(run))
        self.assertTrue((before["w"] != after["w"]).all())
        self.assertEqual(run.rounds.participations()[2], ["ada", "bob"])
        self.assertEqual(after["count"], 3)

    def test_the_run_ends_at_its_budget(self):
        ledger = dpmf.Ledger(os.path.join(self.folder, "ledger.json"))
        run = opened(self.folder, max_epsilon=3.0, ledger=ledger)
        with self.assertRaises(Exhausted):
            for _ in range(6):
                one_round(run)
        self.assertLess(run.rounds.round, 6)
        self.assertLessEqual(run.figures()["epsilon"], 3.0)
        self.assertEqual([entry["what"] for entry in ledger.entries], ["federated"])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "key.pending")))
        at = run.rounds.round
        run.close()
        self.assertEqual(opened(self.folder, max_epsilon=3.0, ledger=ledger).rounds.round, at)


class Died(Exception):
    pass


class Killed(Case):
    """The process ends at the k-th moment at which a file changes or a row is drawn, and another one goes on."""

    def run_on(self, folder, last=6):
        run = opened(folder)
        while run.rounds.round < last:
            one_round(run)
        model, rows = {name: one.tobytes() for name, one in run.model.items()}, run.rounds.round
        run.close()
        return model, rows

    def until(self, folder, k):
        """In a child, which dies at its k-th moment without cleaning up: its exit code, 9 if it died and 0 if it finished."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            moments = [0]

            def dying(function):
                def inner(*arguments, **named):
                    moments[0] += 1
                    if moments[0] == k:
                        os._exit(9)
                    found = function(*arguments, **named)
                    moments[0] += 1
                    if moments[0] == k:
                        os._exit(9)
                    return found

                return inner

            for place, name in ((os, "replace"), (os, "remove"), (os, "fsync"), (dpmf.NoiseStream, "fill_"), (dpmf.NoiseStream, "bind_sum")):
                setattr(place, name, dying(getattr(place, name)))
            self.run_on(folder, 3)
            os._exit(0)
        except BaseException:
            os._exit(1)

    def test_the_same_bits_wherever_it_dies(self):
        start = os.path.join(self.folder, "start")
        os.mkdir(start)
        opened(start).close()  # the key and the salt of the state file
        whole = os.path.join(self.folder, "whole")
        shutil.copytree(start, whole)
        expected = self.run_on(whole)
        k = died = 0
        while True:
            k += 1
            folder = os.path.join(self.folder, str(k))
            shutil.copytree(start, folder)
            code = self.until(folder, k)
            self.assertIn(code, (0, 9), k)
            if code == 0:
                break
            died += 1
            self.assertEqual(self.run_on(folder), expected, k)
        self.assertGreater(died, 40)

    def test_a_lost_model_is_not_begun_again(self):
        run = opened(self.folder)
        one_round(run)
        run.close()
        os.remove(os.path.join(self.folder, "key.model"))
        self.refused(dpmf.StateError, "1 of 6 rows", opened, self.folder)

    def test_another_model_is_refused(self):
        opened(self.folder).close()
        run = Federation(MECHANISM, 1.0, 2, key=os.path.join(self.folder, "key"))
        other = {**INITIAL, "w": np.zeros((4, 1), np.float32)}
        self.refused(dpmf.StateError, "w", run.begin, other, add_mean(run), lambda arrays: None)

    def test_files_are_for_their_owner(self):
        opened(self.folder).close()
        for name in ("key", "key.model", "key.log", "key.state"):
            self.assertEqual(os.stat(os.path.join(self.folder, name)).st_mode & 0o077, 0, name)
        seen = []
        whole = _federation.write_whole
        self.addCleanup(setattr, _federation, "write_whole", whole)

        def watched(path, content):
            whole(path, content)
            seen.append((os.path.basename(path), os.stat(path).st_mode & 0o077))

        _federation.write_whole = watched
        one_round(opened(self.folder))
        self.assertEqual(seen, [("key.pending", 0), ("key.model", 0)])


if __name__ == "__main__":
    unittest.main()
