# SPDX-License-Identifier: Apache-2.0
"""Rounds of a federation: what a client can do to a sum, who may take part, kills, and the noise that is added."""

import copy
import csv
import hashlib
import json
import math
import os
import pathlib
import subprocess
import random
import unittest
import warnings
from fractions import Fraction

import federation
import numpy as np
from federation import make_users, weights_of
from support import KEY, REPOSITORY, Case, compile_c, python

import dpmf
from dpmf.federated import Early, Exhausted, Rounds

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None

SHAPES = [(3, 4), 5]
DIM = 17


def make_mechanism(steps=12, participation="min-sep:3,4", **options):
    options = {"epsilon": 8.0, "delta": 1e-5, **options}
    return dpmf.evaluate("bsr", steps, "prefix", participation, bands=min(4, steps), **options)


def make_rounds(mechanism=None, shapes=SHAPES, clip=0.5, **options):
    return Rounds(mechanism or make_mechanism(), shapes, clip, **{"divisor": 4, "key": KEY, **options})


def update_of(client, t, shapes=SHAPES, dtype=np.float32):
    seed = int.from_bytes(hashlib.sha256(b"%s %d" % (client.encode(), t)).digest()[:8], "little")
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape).astype(dtype) for shape in shapes]


#: A round's server in C: server MECHANISM UPDATES KEY writes the sums, then what is released.
SERVER = """
#include <dpmf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    uint8_t key[DPMF_KEY_SIZE];
    int64_t sums[12][17];
    float released[12][17], row[17], update[17];
    double grid;
    dpmf_mechanism *mechanism = NULL;
    dpmf_noise *noise = NULL;
    dpmf_noise_options options = dpmf_noise_options_defaults();
    FILE *file = fopen(argv[2], "rb");
    if (argc != 4 || file == NULL) return 1;
    for (int i = 0; i < DPMF_KEY_SIZE; i++) {
        const char digits[3] = {argv[3][2 * i], argv[3][2 * i + 1], 0};
        key[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    if (dpmf_mechanism_load(argv[1], &mechanism) != DPMF_OK || dpmf_clip_grid(0.5, 1 << 20, &grid) != DPMF_OK) return 2;
    if (dpmf_noise_create(mechanism, 17, 0.5, key, &options, &noise) != DPMF_OK) return 3;
    memset(sums, 0, sizeof sums);
    for (int t = 0; t < 12; t++) {
        for (int user = 0; user < 2; user++) {
            const dpmf_segment part = {update, 17};
            if (fread(update, sizeof update, 1, file) != 1) return 4;
            if (dpmf_clip_add(0.5, 0, grid, DPMF_FLOAT32, 1, 1, &part, sums[t], NULL) != DPMF_OK) return 5;
        }
        if (dpmf_noise_next(noise, row) != DPMF_OK) return 6;
        for (int i = 0; i < 17; i++)
            released[t][i] = (float)(((double)sums[t][i] * grid + (double)row[i]) / 4.0);
    }
    fwrite(sums, sizeof sums, 1, stdout);
    fwrite(released, sizeof released, 1, stdout);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
    fclose(file);
    return 0;
}
"""


class Clipping(Case):
    HOSTILE = {
        "nan": np.full(DIM, np.nan),
        "one nan": np.where(np.arange(DIM) == 3, np.nan, 1.0),
        "infinity": np.where(np.arange(DIM) == 3, -np.inf, 1e-3),
        "1e30": np.full(DIM, 1e30, np.float32),
        "3e38": np.full(DIM, 3e38, np.float32),
        "1e300": np.full(DIM, 1e300),
        "1.7e308": np.where(np.arange(DIM) % 2 == 0, 1.7e308, -1.7e308),
        "subnormal": np.full(DIM, 1e-310),
        "the clip": np.eye(1, DIM)[0] * 0.5,
        "a bit more": np.eye(1, DIM)[0] * np.nextafter(0.5, 1),
        "halves of the grid": np.full(DIM, 0.5 * 2.0**-33),
        "integers": np.full(DIM, 7),
        "flags": np.full(DIM, True),
        "text": np.full(DIM, "1"),
        "objects": np.full(DIM, None),
        "complex": np.full(DIM, 1j),
        "too short": np.ones(DIM - 1),
        "too many parts": [np.ones(12), np.ones(5), np.ones(1)],
        "no array": 3.5,
        "nothing": None,
        "a list of lists": [[[1e9] * 4] * 3, [1e9] * 5],
        "ragged": [[[1e9] * 4, [1.0]], [1e9] * 5],
    }

    def moved(self, update, **options):
        """The integers by which a client moves the sum of a round with others."""
        sums = []
        for there in (True, False):
            rounds = make_rounds(**options)
            for other in "abc":
                rounds.add(other, update_of(other, 0))
            if there:
                rounds.add("x", update)
            sums.append(rounds._sum.astype(object))
            self.assertEqual(rounds.added, list("abcx" if there else "abc"))
        return rounds, sums[0] - sums[1]

    def test_a_client_moves_the_sum_by_at_most_the_clip(self):
        for clip in (0.5, 1.0, 3.7, 2.0**-60):
            for name, update in self.HOSTILE.items():
                with self.subTest(name, clip=clip):
                    rounds, difference = self.moved(update, clip=clip)
                    square = sum(int(n) ** 2 for n in difference) * Fraction(rounds.grid) ** 2
                    self.assertLessEqual(square, Fraction(clip) ** 2)
                    if name == "1e30":
                        self.assertGreater(square, Fraction(clip) ** 2 * Fraction(999, 1000))

    def test_what_is_no_update_adds_zeros(self):
        zeros = {"nan", "one nan", "infinity", "1.7e308", "1e300", "flags", "text", "objects", "complex", "too short", "too many parts",
                 "no array", "nothing", "ragged"}
        for name, update in self.HOSTILE.items():
            rounds, difference = self.moved(update)
            self.assertEqual(name in zeros | {"subnormal", "halves of the grid"}, not any(difference), name)
            if name in zeros - {"1e300", "1.7e308"}:  # those are finite, and their norms are not
                self.assertIsNotNone(rounds.problem(update), name)

    def test_a_thousand_random_updates(self):
        draw = np.random.default_rng(5)
        worst = Fraction(0)
        for _ in range(1000):
            update = draw.standard_cauchy(DIM) * 10.0 ** draw.uniform(-12, 30)
            rounds = make_rounds()
            rounds.add("x", update)
            square = sum(int(n) ** 2 for n in rounds._sum) * Fraction(rounds.grid) ** 2
            worst = max(worst, square / Fraction(rounds.clip_norm) ** 2)
        self.assertLessEqual(worst, 1)
        self.assertGreater(worst, Fraction(9999, 10000))

    def test_zero_above(self):
        for largest, moves in ((2.0, True), (2.001, False)):
            update = np.zeros(DIM)
            update[4] = -largest
            self.assertEqual(any(self.moved(update, zero_above=2.0)[1]), moves)
        self.assertFalse(any(self.moved(np.full(DIM, np.nan), zero_above=2.0)[1]))

    def test_order_and_parts_do_not_matter(self):
        clients = ["u%d" % i for i in range(40)]
        sums = []
        for order in (clients, clients[::-1]):
            rounds = make_rounds()
            for client in order:
                parts = update_of(client, 0)
                rounds.add(client, parts if client > "u20" else np.concatenate([part.reshape(-1) for part in parts]))
            sums.append(rounds._sum.copy())
        self.assertTrue(np.array_equal(*sums))


class Noise(Case):
    def test_rows_are_those_of_the_stream(self):
        for dtype in ("float32", "float64"):
            m = make_mechanism()
            rounds, rows = make_rounds(m, dtype=dtype), dpmf.NoiseStream(m, DIM, 0.5, KEY, dtype=dtype)
            for t in range(12):
                for client in "abcd"[t % 4]:
                    rounds.add(client, update_of(client, t))
                wanted = (rounds._sum.astype(np.float64) * rounds.grid + rows.next()) / 4
                found = np.concatenate([part.reshape(-1) for part in rounds.finish()])
                self.assertEqual(found.dtype.name, dtype)
                self.assertTrue(np.array_equal(found, wanted.astype(dtype)))
            self.assertTrue(rounds.over)

    def test_a_c_program_releases_the_same(self):
        """The library's own calls, for the same key, clients and updates: sums on the grid and rows to the bit."""
        m = make_mechanism()
        m.save(self.folder / "run.dpmf")
        rounds = make_rounds(m)
        updates, wanted, sums = [], [], []
        for t in range(12):
            for client in ("a%d" % (t % 4), "b%d" % (t % 4)):
                update = update_of(client, t)
                updates.append(np.concatenate([part.reshape(-1) for part in update]))
                rounds.add(client, update)
            sums.append(rounds._sum.copy())
            wanted.append(np.concatenate([part.reshape(-1) for part in rounds.finish()]))
        (self.folder / "updates").write_bytes(np.stack(updates).tobytes())
        program = compile_c(SERVER, self.folder)
        found = program(self.folder / "run.dpmf", self.folder / "updates", KEY.hex())
        half = 12 * DIM * 8
        self.assertEqual(found[:half], np.stack(sums).tobytes())
        self.assertEqual(found[half:], np.stack(wanted).tobytes())

    def test_exact(self):
        m = make_mechanism()
        rounds = make_rounds(m, exact=True)
        rows = dpmf.NoiseStream(m, DIM, 0.5, KEY, exact=True, grid=rounds.grid)
        for t in range(3):
            rounds.add("a%d" % t, update_of("a", t))
            whole = rounds._sum.copy()
            rows.add_whole_(whole)
            found = np.concatenate([part.reshape(-1) for part in rounds.finish()])
            self.assertTrue(np.array_equal(found, whole * rounds.grid / 4))
        self.assertNotIn("real-valued", rounds.statement())

    def test_a_round_without_clients_is_its_row(self):
        m = make_mechanism()
        rounds, rows = make_rounds(m), dpmf.NoiseStream(m, DIM, 0.5, KEY)
        rounds.add("a", None)
        found = np.concatenate([part.reshape(-1) for part in rounds.finish()])
        self.assertTrue(np.array_equal(found, rows.next() / 4))
        self.assertTrue(np.array_equal(np.concatenate([part.reshape(-1) for part in rounds.finish()]), rows.next() / 4))

    def test_horizon(self):
        rounds = make_rounds(make_mechanism(2, "single"))
        rounds.finish(), rounds.finish()
        for call in (rounds.finish, rounds.skip, lambda: rounds.add("a", None), lambda: rounds.eligible(["a"])):
            self.refused(Exhausted, "2 rounds, and all have been taken", call)

    def test_ledger_and_statement(self):
        m, key = make_mechanism(unit="user"), self.folder / "run.key"
        with make_rounds(m, key=key) as rounds:
            ledger = dpmf.Ledger(self.folder / "ledger.json", budget=(10.0, 1e-5))
            self.assertTrue(ledger.enter(m, key, stream=rounds.noise))
            said = rounds.statement()
        self.assertIn("one user", said)
        self.assertIn("one client at a time", said)
        self.assertAlmostEqual(rounds.mechanism.epsilon, 8.0)


class Participation(Case):
    def test_early_returns_are_refused_before_they_are_added(self):
        cases = {
            "min-sep:3,4": {"rounds": (0, 4, 8), "early": {1: "1 apart", 3: "3 apart"}, "most": "at most 3"},
            "cyclic:3,4": {"rounds": (1, 5, 9), "early": {2: "multiple"}, "most": None},
            "shuffled:3,4": {"rounds": (3, 4, 11), "early": {5: "one of each 4"}, "most": None},
            "single": {"rounds": (2,), "early": {7: "at most 1"}, "most": None},
            "full": {"rounds": tuple(range(12)), "early": {}, "most": None},
        }
        for participation, case in cases.items():
            with self.subTest(participation):
                m = dpmf.evaluate("bsr", 13 if participation.startswith("min") else 12, "prefix", participation, bands=4, sigma=1.0)
                rounds = make_rounds(m)
                for t in range(12):
                    if t in case["early"]:
                        before = rounds._sum.copy()
                        self.assertEqual(rounds.eligible(["x", "y"]), ["y"])
                        self.refused(Early, case["early"][t], rounds.add, "x", update_of("x", t))
                        self.assertTrue(np.array_equal(before, rounds._sum))
                    if t in case["rounds"]:
                        rounds.add("x", update_of("x", t))
                    rounds.finish()
                if case["most"]:
                    self.refused(Early, case["most"], rounds.add, "x", None)

    def test_twice_in_a_round(self):
        rounds = make_rounds()
        rounds.add(7, None)
        self.refused(Early, "already", rounds.add, "7", update_of("x", 0))
        self.refused(Early, "already", rounds.add, np.int64(7), None)
        rounds.add("07", None)
        rounds.add("Ada", None), rounds.add("ada", None)

    def test_names(self):
        rounds = make_rounds()
        for name in ("", " a", "a ", "a,b", 'a"', "a\n", "\x7f", "\x85", "x" * 201, "\ud800"):
            self.refused(dpmf.ArgumentError, "1 to 200 bytes", rounds.add, name, None)
        for name in (None, 1.5, True, b"a"):
            self.refused(dpmf.ArgumentTypeError, "a whole number or text", rounds.add, name, None)
        self.assertEqual(rounds.added, [])

    def test_samplers_draw_the_clients(self):
        m = make_mechanism(12, "cyclic:3,4")
        names = ["device-%d" % i for i in range(8)]
        rounds = make_rounds(m, sampler=dpmf.Sampler("cyclic:2", 8, 12), clients=names)
        for t in range(12):
            drawn = rounds.drawn()
            self.assertEqual(drawn, names[2 * (t % 4) : 2 * (t % 4) + 2])
            self.assertEqual(rounds.eligible(names), drawn)
            self.refused(Early, "not drawn", rounds.add, names[2 * (t % 4) - 1], None)
            rounds.add(drawn[0], None)  # the other one is lost
            rounds.finish()
        self.refused(dpmf.ArgumentError, "guarantee would not hold", make_rounds, m, sampler=dpmf.Sampler("cyclic:4", 8, 12))
        self.refused(dpmf.ArgumentError, "7 names", make_rounds, m, sampler=dpmf.Sampler("cyclic:2", 8, 12), clients=names[1:])

    def test_secret_sampling_needs_the_sampler(self):
        m = dpmf.evaluate("identity", 6, sampling="poisson:0.5", epsilon=2.0, delta=1e-5)
        self.refused(dpmf.ArgumentError, "poisson:0.5", make_rounds, m)
        sampler = dpmf.Sampler("poisson:0.5", 10, 6, KEY)
        first = make_rounds(m, sampler=sampler)
        for client in first.drawn():
            first.add(client, update_of(client, 0))
        first.finish()
        again = make_rounds(m, sampler=dpmf.Sampler("poisson:0.5", 10, 6, KEY), label="another")
        self.refused(dpmf.StateError, "same secret choice", again.finish)
        self.refused(dpmf.ArgumentError, "max_epsilon", make_rounds, m, sampler=sampler, max_epsilon=1.0)
        m = dpmf.evaluate("identity", 6, participation="min-sep:2,3", epsilon=2.0, delta=1e-5, adjacency="add-remove")
        self.refused(dpmf.ArgumentError, "add-remove", make_rounds, m)

    def test_the_actual_run_is_what_the_log_has(self):
        m, key = make_mechanism(), self.folder / "run.key"
        rounds = make_rounds(m, key=key)
        self.assertIsNone(rounds.observed())
        for t, clients in enumerate(("ab", "cd", "ef", "g", "ah")):
            for client in clients:
                rounds.add(client, update_of(client, t))
            rounds.finish()
        found = rounds.observed()
        with open(rounds.log, encoding="utf-8") as file:
            lines = [(row["client"], int(row["round"])) for row in csv.DictReader(file)]
        self.assertEqual(sorted(lines), sorted((c, t) for t, cs in enumerate(("ab", "cd", "ef", "g", "ah")) for c in cs))
        numbers = {name: i for i, name in enumerate(dict.fromkeys(name for name, _ in lines))}
        again = m.observed_privacy([numbers[name] for name, _ in lines], [t for _, t in lines])
        self.assertEqual(found.epsilon, again.epsilon)
        self.assertLess(found.epsilon, 8.0)
        self.assertEqual(os.stat(rounds.log).st_mode & 0o777, 0o600)
        program = REPOSITORY / "build" / "dpmf"
        if program.exists():
            m.save(self.folder / "run.dpmf")
            asked = [program, "account", self.folder / "run.dpmf", "--delta", "1e-5", "--log", rounds.log, "--json"]
            answer = json.loads(subprocess.run([str(a) for a in asked], check=True, stdout=subprocess.PIPE).stdout)
            self.assertEqual(answer["observed"]["epsilon"], found.epsilon)
            self.assertFalse(answer["observed"]["exceeds_design"])

    def test_max_epsilon(self):
        m = make_mechanism()
        costs = [make_cost(m, k) for k in (1, 2, 3)]
        self.assertLess(costs[0], costs[1])
        rounds = make_rounds(m, max_epsilon=(costs[1] + costs[0]) / 2)
        taken = 0
        for t in range(12):
            if t % 4 == 0:
                rounds.add("x", update_of("x", t))
            try:
                rounds.finish()
            except Exhausted as error:
                self.assertIn("max_epsilon", str(error))
                break
            taken += 1
        self.assertEqual((taken, rounds.round), (4, 4))
        self.assertAlmostEqual(rounds.observed().epsilon, costs[0])


def make_cost(mechanism, uses):
    return mechanism.observed_privacy([1] * uses, [4 * i for i in range(uses)]).epsilon


class Resuming(Case):
    def go(self, rounds, until, changed=None):
        out = []
        while rounds.round < until:
            t = rounds.round
            rounds.add("c%d" % (t % 4), update_of("c" if t != changed else "other", t))
            out.append(np.concatenate([part.reshape(-1) for part in rounds.finish()]))
        return out

    def test_resume(self):
        key = self.folder / "run.key"
        rounds = make_rounds(key=key)
        self.go(rounds, 3)
        saved = rounds.state_dict()
        wanted = self.go(rounds, 7)
        rounds.close()
        rounds = make_rounds(key=key)
        for call in (rounds.finish, rounds.skip, rounds.state_dict, lambda: rounds.add("x", None)):
            self.refused(dpmf.StateError, "load the checkpoint", call)
        rounds.load_state_dict(saved)
        self.assertEqual(rounds.round, 3)
        self.assertEqual(rounds.participations()[1].size, 7)  # rounds behind the state are known
        self.refused(Early, "apart", rounds.add, "c1", None)  # it was in round 5
        self.assertTrue(np.array_equal(wanted, self.go(rounds, 7)))
        self.go(rounds, 12)
        rounds.close()

    def test_another_sum_is_refused_and_the_round_can_be_given_up(self):
        for key in (self.folder / "run.key", KEY):
            rounds = make_rounds(key=key)
            saved = rounds.state_dict()
            self.go(rounds, 3)
            rounds.load_state_dict(saved)
            self.go(rounds, 1)
            rounds.add("c1", update_of("other", 1))
            self.refused(dpmf.StateError, "skip()", rounds.finish)
            rounds.skip()
            self.assertEqual((rounds.round, rounds.added), (2, []))
            self.refused(Early, "apart", rounds.add, "c1", None)
            self.go(rounds, 3)
            if rounds.noise.keeps_state:
                self.refused(dpmf.StateError, "was not drawn", rounds.skip)
            self.go(rounds, 12)
            rounds.close()

    def test_what_belongs_to_another_run_is_refused(self):
        key = self.folder / "run.key"
        rounds = make_rounds(key=key)
        self.go(rounds, 2)
        saved = rounds.state_dict()
        rounds.close()
        log = pathlib.Path(str(key) + ".log")
        content = log.read_bytes()
        log.unlink()
        self.refused(dpmf.StateError, "who took part", make_rounds, key=key)
        log.write_bytes(content + b"x,9\n")
        self.refused(dpmf.StateError, "different runs", make_rounds, key=key)
        log.write_bytes(b"a table\n")
        self.refused(dpmf.FormatError, "does not begin", make_rounds, key=key)
        log.write_bytes(content + b"c9,2\nc1")  # a line that was cut off
        rounds = make_rounds(key=key, divisor=5)
        self.assertEqual(log.read_bytes(), content + b"c9,2\n")
        self.refused(dpmf.StateError, "divisor", rounds.load_state_dict, saved)
        rounds.close()
        rounds = make_rounds(key=key, zero_above=50.0)
        self.refused(dpmf.StateError, "zero_above", rounds.load_state_dict, saved)
        self.refused(dpmf.StateError, "no state", rounds.load_state_dict, {})

    def test_a_log_that_cannot_be_written_ends_the_round_before_its_row(self):
        rounds = make_rounds(key=self.folder / "run.key")
        before = pathlib.Path(rounds.log).read_bytes()
        rounds.add("ada", update_of("ada", 0))
        write, written = os.write, []

        def full(file, data):
            if written:
                raise OSError(28, "No space left on device")
            written.append(write(file, data[:3]))
            return 3

        os.write = full
        try:
            self.refused(dpmf.FileError, "No space left", rounds.finish)
        finally:
            os.write = write
        self.assertEqual((pathlib.Path(rounds.log).read_bytes(), rounds.round, rounds.added), (before, 0, ["ada"]))
        rounds.finish()
        self.assertEqual(pathlib.Path(rounds.log).read_bytes(), before + b"ada,0\n")
        rounds.close()

    def test_without_a_file_the_state_has_the_log(self):
        rounds = make_rounds()
        self.go(rounds, 3)
        saved = rounds.state_dict()
        other = make_rounds()
        other.load_state_dict(saved)
        self.refused(Early, "apart", other.add, "c1", None)
        del saved["participations"]
        self.refused(dpmf.StateError, "no participations", other.load_state_dict, saved)

    def test_an_unfinished_round_is_not_saved(self):
        rounds = make_rounds()
        rounds.add("a", None)
        self.refused(dpmf.StateError, "under way", rounds.state_dict)
        rounds.discard()
        rounds.state_dict()


class Kills(Case):
    def test_twenty_kills(self):
        for kind in ("rounds",) if torch is None else ("rounds", "torch"):
            folder = self.folder / kind
            said = python(pathlib.Path(__file__).with_name("federation.py"), kind, folder, 20)
            self.assertGreaterEqual(int(said.split()[0]), 20)
            wanted = (folder / "reference" / "released").read_text(encoding="utf-8").splitlines()
            self.assertEqual([int(line.split()[0]) for line in wanted], list(range(federation.ROUNDS)))
            runs = [path.parent for path in folder.glob("[0-9]*/released")]
            resumed = [line for run in runs for line in (run / "begun").read_text(encoding="ascii").split()]
            self.assertGreaterEqual(len(set(resumed)), federation.SPREAD)  # kills hit in several rounds
            for run in runs:
                lines = (run / "released").read_text(encoding="utf-8").splitlines()
                self.assertEqual(set(lines), set(wanted))  # rounds that came again had the same bits
                logs = [sorted((of / "run.key.log").read_bytes().splitlines()) for of in (run, folder / "reference")]
                self.assertEqual(*logs)


class Arguments(Case):
    def test_refusals(self):
        m = make_mechanism()
        for words, options in (
            ("clip_norm", {"clip": 0.0}), ("divisor = 0", {"divisor": 0}), ("divisor = inf", {"divisor": math.inf}),
            ("zero_above = -1", {"zero_above": -1}), ("max_epsilon = nan", {"max_epsilon": math.nan}), ("shapes", {"shapes": [(0, 3)]}),
            ("shapes", {"shapes": 3.5}), ("clients", {"clients": ["a"]}), ("sampler", {"sampler": 3}),
        ):
            with self.subTest(words):
                self.refused(dpmf.ArgumentError, words, make_rounds, m, **options)
        self.refused(dpmf.ArgumentError, "sigma", make_rounds, dpmf.evaluate("bsr", 12, bands=4))


@unittest.skipIf(torch is None, "torch is not installed")
class Federated(Case):
    """Local training of torch models."""

    def sum_of(self, run, users):
        """The integers of a round of these users, which is not finished."""
        held = []
        finish = run.rounds.finish
        run.rounds.finish = lambda: held.append(run.rounds._sum.astype(object)) or self.stop()
        try:
            run.round(users)
        except InterruptedError:
            pass
        finally:
            run.rounds.finish = finish
        return held[0]

    def stop(self):
        raise InterruptedError

    def test_it_is_rounds_and_the_servers_optimizer(self):
        for optimizer, rates in ((torch.optim.SGD, {"lr": 0.5, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.01})):
            m = federation.make_mechanism()
            run = federation.make_run(optimizer=optimizer, rates=rates, mechanism=m)
            plain = federation.make_model()
            server = optimizer(plain.parameters(), **rates)
            rounds = Rounds(m, [p.shape for p in plain.parameters()], 0.5, divisor=2, key=KEY)
            rows = dpmf.NoiseStream(m, rounds._sum.size, 0.5, KEY)
            for t, report in zip(range(6), run):
                self.assertEqual(report, (t, federation.ROUNDS))
                for i in (2 * (t % 4), 2 * (t % 4) + 1):
                    rounds.add(i, self.update(run, plain, i, t))
                wanted = (rounds._sum.astype(np.float64) * rounds.grid + rows.next()) / 2
                noisy = rounds.finish()
                self.assertTrue(np.array_equal(np.concatenate([part.reshape(-1) for part in noisy]), wanted.astype(np.float32)))
                for p, part in zip(plain.parameters(), noisy):
                    p.grad = torch.from_numpy(part)
                server.step()
                self.assertTrue(torch.equal(weights_of(plain), weights_of(run.model)))

    def update(self, run, model, user, t):
        """SGD as somebody would write it, with the user's generators."""
        local = federation.make_model()
        local.load_state_dict(model.state_dict())
        x, y = make_users()[user]
        name = hashlib.sha256(b"%d" % user).digest()[:8]
        digest = hashlib.sha256(run._secret + t.to_bytes(8, "little") + name).digest()
        with torch.random.fork_rng([]):
            torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
            optimizer, order = torch.optim.SGD(local.parameters(), lr=0.2), []
            for _ in range(4):
                order = order or torch.randperm(len(x)).tolist()
                now, order = order[:2], order[2:]
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(local(x[now]), y[now]).backward()
                optimizer.step()
        return [(p - q).detach().numpy() for p, q in zip(model.parameters(), local.parameters())]

    def test_users_do_not_see_each_other(self):
        m = dpmf.evaluate("bsr", 4, "prefix", "single", bands=4, sigma=1.0)
        options = {"mechanism": m, "sampler": None, "divisor": 4, "clip_norm": 100.0}

        def draws(model, data):  # from every generator, and keeps what it can in the model
            model.seen = getattr(model, "seen", 0.0) + float(data[0].sum())
            noise = torch.randn(()).item() + random.random() + np.random.random() + model.seen
            torch.manual_seed(0)
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
            for p in model.parameters():
                p.data.add_(noise * (1.0 if data[0].dtype == torch.get_default_dtype() else 0.5))

        for train in ({}, {"train_user": draws}):
            run = federation.make_run(**options, **train)
            alone = [self.sum_of(run, [u]) for u in range(4)]
            self.assertTrue(all(any(part) for part in alone))
            before = torch.get_rng_state(), random.getstate()
            for users in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 0]):
                together = self.sum_of(run, users)
                self.assertTrue(np.array_equal(together, sum(alone[u] for u in users)))
            self.assertTrue(torch.equal(before[0], torch.get_rng_state()))
            self.assertEqual(before[1], random.getstate())
            self.assertEqual(torch.get_default_dtype(), torch.float32)

    def test_a_hostile_user_adds_zeros_or_the_clip(self):
        x, y = make_users()[0]
        hostile = {
            "nan": (x * math.nan, y), "infinity": (x * math.inf, y), "1e30": (x * 1e30, y), "3e38": (torch.full_like(x, 3e38), y),
            "a thousand": (torch.randn(1000, 10) * 1e6, torch.zeros(1000, dtype=torch.int64)), "empty": (x[:0], y[:0]),
            "no such class": (x, y + 7), "other width": (x[:, :4], y), "unequal": (x, y[:1]), "text": "abc", "nothing": None, "list": [],
        }
        zeros = {"nan", "infinity", "empty", "no such class", "other width", "unequal", "text", "nothing", "list"}
        worst = {}
        for name, data in hostile.items():
            users = [data] + make_users()[1:]
            run = federation.make_run(users=users)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                both, other = self.sum_of(run, [0, 1]), self.sum_of(run, [1])
            square = sum(int(n) ** 2 for n in both - other) * Fraction(run.rounds.grid) ** 2
            self.assertLessEqual(square, Fraction(1, 4), name)
            self.assertEqual(square == 0, name in zeros, name)
            worst[name] = float(square) ** 0.5
            report = run.round()
            self.assertEqual(report, (0, federation.ROUNDS))
            self.assertEqual(sorted(run.rounds.participations()[2]), ["0", "1"])
        self.assertGreater(worst["a thousand"], 0.4999)

    def test_what_a_users_training_may_do(self):
        def raises(model, data):
            raise RuntimeError("the data is %s" % data)

        def reshapes(model, data):
            model[0].weight = torch.nn.Parameter(torch.zeros(2, 2))

        def removes(model, data):
            del model[3]

        def poisons(model, data):
            with torch.no_grad():
                next(model.parameters()).fill_(math.nan)

        for train in (raises, reshapes, removes, poisons):
            run = federation.make_run(train_user=train)
            self.assertFalse(any(self.sum_of(run, [0, 1])), train.__name__)
            run.round()
            self.assertEqual(weights_of(run.model).isfinite().all().item(), True)
            with self.assertRaises(Exception):
                run.rehearse(make_users()[0])

    def test_the_servers_model_is_refused(self):
        kept = []

        def leaks(model, data):
            with torch.no_grad():
                next(kept[0].parameters()).add_(1.0)

        run = federation.make_run(train_user=leaks)
        kept.append(run.model)
        before = weights_of(run.model)
        self.refused(dpmf.UnsupportedError, "the model writes into 0.weight", run.round)
        self.assertTrue(torch.equal(before, weights_of(run.model)))
        self.assertEqual(run.rounds_taken, 0)

    def test_buffers_stay_what_they_are(self):
        model = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
        before = {name: b.clone() for name, b in model.named_buffers()}
        with self.assertWarnsRegex(UserWarning, "BatchNorm1d"):
            run = federation.make_run(model=model)
        for _ in range(3):
            run.round()
        for name, b in model.named_buffers():
            self.assertTrue(torch.equal(b, before[name]), name)

    def test_data_in_other_forms(self):
        x, y = make_users()[3]
        rows = [(a, b) for a, b in zip(x, y)]
        sums = []
        for data in ((x, y), torch.utils.data.TensorDataset(x, y), rows):
            run = federation.make_run(users=[data] * 8)
            sums.append(self.sum_of(run, [0]))
            self.assertGreater(run.rehearse(data), 0.0)
        self.assertTrue(any(sums[0]))
        for other in sums[1:]:
            self.assertTrue(np.array_equal(sums[0], other))

        class Named(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = federation.make_model(0.0)

            def forward(self, values, labels):
                return {"loss": torch.nn.functional.cross_entropy(self.inner(values), labels)}

        users = {"user-%d" % i: {"values": x, "labels": y} for i in range(8)}
        run = federation.make_run(users=users, model=Named(), local_batch=None)
        self.assertTrue(any(self.sum_of(run, ["user-0"])))
        self.refused(dpmf.ArgumentError, "no user 'user-9'", run.round, ["user-9"])

    def test_early_users_and_the_end(self):
        m = dpmf.evaluate("bsr", 6, "prefix", "min-sep:2,3", bands=3, epsilon=4.0, delta=1e-5)
        run = federation.make_run(mechanism=m, sampler=None, divisor=2)
        run.round([0, 1])
        before = weights_of(run.model)
        self.refused(Early, "1 apart", run.round, [2, 0])
        self.refused(Early, "twice", run.round, [2, 2])
        self.refused(dpmf.ArgumentError, "no sampler", run.round)
        self.assertTrue(torch.equal(before, weights_of(run.model)))
        self.assertEqual((run.rounds.added, run.rounds_taken), ([], 1))
        for t in range(1, 6):
            run.round([])
        self.refused(Exhausted, "6 rounds", run.round, [2])
        m = federation.make_mechanism()
        run = federation.make_run(mechanism=m, max_epsilon=make_cost(m, 1))
        self.assertEqual(len(list(run)), 4)  # every user once

    def test_optimizer_and_statement(self):
        run = federation.make_run()
        self.refused(dpmf.ArgumentError, "without noise", run.optimizer.step)
        self.refused(dpmf.ArgumentError, "private already", dpmf.torch.make_federated, run.model, run.optimizer, run.mechanism, 1.0,
                     make_users(), sampler=dpmf.Sampler("cyclic:2", 8, 24), local_steps=1, local_rate=0.1)
        run.round()
        self.assertAlmostEqual(run.epsilon, 8.0)
        said = run.statement()
        for words in ("one user", "clip", "failed, gave numbers", "local training"):
            self.assertIn(words, said)
        run.close()
        self.assertEqual(run.statement(), said)
        run.optimizer.step()
        self.refused(dpmf.StateError, "after close", run.statement)
        self.assertIn("train_user", federation.make_run(train_user=lambda model, data: None).statement())

    def test_resume(self):
        for optimizer, rates in ((torch.optim.SGD, {"lr": 0.5, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.01})):
            options = {"optimizer": optimizer, "rates": rates, "key": self.folder / (optimizer.__name__ + ".key")}
            run = federation.make_run(**options)
            for _ in range(3):
                run.round()
            saved = copy.deepcopy([run.model.state_dict(), run.optimizer.state_dict()])
            wanted = [run.round() and weights_of(run.model) for _ in range(3)]
            run.close()
            run = federation.make_run(**options)
            self.refused(dpmf.StateError, "load the checkpoint", run.round)
            run.model.load_state_dict(saved[0])
            without = {name: part for name, part in saved[1].items() if name != "dpmf"}
            self.refused(dpmf.StateError, "no state of rounds", run.optimizer.load_state_dict, without)
            run.optimizer.load_state_dict(saved[1])
            for t, weights in enumerate(wanted):
                run.round()
                self.assertTrue(torch.equal(weights, weights_of(run.model)), t)
            run.close()
            run = federation.make_run(**options, local_steps=5, local_rate=0.2)
            self.refused(dpmf.StateError, "local_steps = 4", run.optimizer.load_state_dict, saved[1])
            run.close()
            run = federation.make_run(**options)  # with a user who sends something else the second time
            run.model.load_state_dict(saved[0])
            run.optimizer.load_state_dict(saved[1])
            run._users[run._known[run.rounds.drawn()[0]]][0].mul_(2.0)
            self.refused(dpmf.StateError, "used for another sum", run.round)
            run.close()

    def test_the_example_resumes(self):
        program = REPOSITORY / "examples" / "federated_torch.py"
        self.assertIn("round 40: test accuracy", python(program, self.folder))
        again = python(program, self.folder)
        self.assertIn("resumed at round 40", again)
        self.assertIn("epsilon = 8", again)
        self.assertNotIn("accuracy", again)

    def test_secret_sampling(self):
        m = dpmf.evaluate("identity", 5, sampling="poisson:0.5", epsilon=2.0, delta=1e-5, unit="user")
        sampler = dpmf.torch.BatchSampler.for_mechanism(m, 8, dpmf.testing_key(11))
        run = federation.make_run(mechanism=m, sampler=sampler)
        self.assertEqual(len(list(run)), 5)
        self.assertEqual(run.rounds.divisor, 4.0)
        m = dpmf.evaluate("identity", 5, sampling="poisson:0.5", epsilon=2.0, delta=1e-5, adjacency="add-remove")
        sampler = dpmf.torch.BatchSampler.for_mechanism(m, 8, dpmf.testing_key(12))
        self.refused(dpmf.ArgumentError, "add-remove", federation.make_run, mechanism=m, sampler=sampler)
        federation.make_run(mechanism=m, sampler=sampler, divisor=4.0).round()

    def test_refusals(self):
        for words, options in (
            ("local_steps, local_rate", {"local_rate": None}), ("local_steps = 0", {"local_steps": 0}), ("local_rate = -1", {"local_rate": -1}),
            ("local_batch = 0", {"local_batch": 0}), ("takes the place", {"train_user": print, "local_steps": 1}),
            ("a function is accepted", {"train_user": 3}), ("a function is accepted", {"loss": 3}), ("users is a", {"users": 3, "sampler": None}),
            ("divisor", {"sampler": None}), ("different ones", {"users": {1: None, "1": None}, "sampler": None, "divisor": 1}),
        ):
            with self.subTest(words):
                self.refused(dpmf.ArgumentError, words, federation.make_run, **options)


if __name__ == "__main__":
    unittest.main()
