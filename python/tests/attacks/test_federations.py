# SPDX-License-Identifier: Apache-2.0
"""Attacks on federated runs: crashes, shared logs, threads, full disks, files of another mode, secret cohorts; a resumed run in JAX."""

import os
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
from story import dpmf

from dpmf import Sampler, testing_key
from dpmf._federation import Federation
from dpmf.federated import Rounds
from dpmf.users import at_most

try:
    import jax.numpy as jnp

    import dpmf.jax
except ImportError:
    jnp = None

M = dpmf.evaluate("toeplitz", 6, participation="min-sep:2,3", epsilon=4.0, delta=1e-5, unit="user")


class Federations(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="dpmf-test-")
        self.addCleanup(kept.cleanup)
        self.folder = kept.name

    def at(self, name):
        return os.path.join(self.folder, name)

    def federation(self):
        run = Federation(M, 1.0, 2, key=self.at("key"))
        run.begin({"w": np.zeros(3, np.float32)}, self.apply(run), lambda arrays: None)
        return run

    @staticmethod
    def apply(run):
        return lambda mean: ({n: one + mean[n] for n, one in run.model.items()}, {})

    def round(self, run, names, x=0.1):
        run.ask(names)
        for name in names:
            run.add(name, lambda: {"w": run.model["w"] + np.float32(x)})
        return run.close_round(self.apply(run))

    def test_skip_after_a_crash_counts_the_clients(self):
        def opened():
            return Rounds(M, 3, 1.0, divisor=1, key=testing_key(1), state=self.at("state"), state_now=True)

        with opened() as rounds:
            before = rounds.state_dict()
            rounds.add("ada", np.ones(3))
            rounds.finish()
        with opened() as rounds:
            rounds.load_state_dict(before)
            rounds.skip()
            self.assertEqual(rounds.eligible(["ada"]), [])
            self.assertIsNotNone(rounds.observed())

    def test_runs_with_one_key_have_logs_of_their_own(self):
        key = self.at("key")
        a = Rounds(M, 3, 1.0, divisor=1, key=key, state=key + ".a", label="a")
        b = Rounds(M, 3, 1.0, divisor=1, key=key, state=key + ".b", label="b")
        with a, b:
            for rounds, name in ((a, "ada"), (b, "bob")):
                rounds.add(name, np.ones(3))
                rounds.finish()
            for rounds, name in ((a, "ada"), (b, "bob")):
                with open(rounds.log, encoding="utf-8") as file:
                    self.assertIn("%s,0" % name, file.read().split())

    def test_a_log_is_for_one_run(self):
        log = self.at("log")
        with Rounds(M, 3, 1.0, divisor=1, log=log):
            self.assertRaises(dpmf.FileError, Rounds, M, 3, 1.0, divisor=1, log=log)

    def test_an_empty_log_is_refused(self):
        key = self.at("key")
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            rounds.add("ada", np.ones(3))
            rounds.finish()
        open(key + ".log", "wb").close()
        self.assertRaises(dpmf.StateError, Rounds, M, 3, 1.0, divisor=1, key=key)

    def test_threads_release_a_sum_once(self):
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)
        n = 300_000
        stream = dpmf.NoiseStream(M, n, 1.0, testing_key(1))
        rows = [stream.next().copy() for _ in range(2)]
        for _ in range(40):
            rounds, outs, gate = Rounds(M, n, 1.0, divisor=1, threads=1, key=testing_key(1)), [], threading.Barrier(2)
            update = np.zeros(n, np.float32)
            update[0] = 1
            rounds.add("ada", update)

            def go():
                gate.wait()
                outs.append(rounds.finish()[0])

            threads = [threading.Thread(target=go) for _ in range(2)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            found = []
            for out in outs:
                t = min((0, 1), key=lambda t: float(np.abs(out[1:] - rows[t][1:]).mean()))
                found.append((t, round(float(out[0] - rows[t][0]), 3)))
            self.assertEqual(sorted(found), [(0, 1.0), (1, 0.0)])
            rounds.close()

    def test_a_row_of_a_key_of_its_own_is_for_one_sum(self):
        rounds = Rounds(M, 3, 1.0, divisor=1)
        rounds.add("ada", np.zeros(3))
        rounds.finish()
        rounds.noise.seek(0)
        rounds.add("bob", np.ones(3))
        self.assertRaises(dpmf.StateError, rounds.finish)

    def test_no_warning_for_an_update(self):
        rounds = Rounds(M, 3, 1.0, divisor=1, zero_above=10.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rounds._parts(np.array([np.longdouble("1e4000"), 1, 2]), 10.0)

    def test_another_user_does_not_move_the_choice(self):
        ids = ["bob"] * 6 + ["eve"] * 6
        kept = at_most(ids + ["aaa"], 2, testing_key(1)).tolist()
        self.assertEqual(kept, at_most(ids, 2, testing_key(1)).tolist() + [12])

    def test_a_sum_is_never_in_a_file_of_another_mode(self):
        open(self.at("key.pending.new"), "wb").close()
        os.chmod(self.at("key.pending.new"), 0o644)
        modes, run = [], self.federation()
        finish = run.rounds.finish
        run.rounds.finish = lambda: (modes.append(os.stat(self.at("key.pending")).st_mode & 0o777), finish())[1]
        self.round(run, ["ada", "bob"])
        self.assertEqual(modes, [0o600])
        run.close()

    def test_a_sum_that_a_crash_left_is_removed(self):
        self.federation().close()
        with open(self.at("key.pending.new"), "wb") as file:
            file.write(b"a sum")
        self.federation().close()
        self.assertFalse(os.path.exists(self.at("key.pending.new")))

    def test_a_model_that_cannot_be_written_ends_the_process_and_not_the_run(self):
        run = self.federation()

        def full(state):
            raise OSError(28, "No space left on device")

        run._save = full
        self.assertRaises(OSError, self.round, run, ["ada", "bob"])
        self.assertRaises(dpmf.StateError, self.round, run, ["eve", "joe"])
        run = self.federation()
        self.assertEqual((run.rounds.round, os.path.exists(self.at("key.pending"))), (1, False))
        run.close()

    def test_a_secret_cohort_is_in_no_state(self):
        m = dpmf.evaluate("identity", 6, participation="full", sampling="poisson:0.3", epsilon=4.0, delta=1e-5)

        def opened():
            return Rounds(m, 3, 1.0, divisor=3, key=testing_key(1), sampler=Sampler("poisson:0.3", 10, 6, testing_key(2)))
        with opened() as rounds:
            for name in rounds.drawn():
                rounds.add(name, np.ones(3))
            rounds.finish()
            state = rounds.state_dict()
            self.assertNotIn("participations", state)
        with opened() as rounds:
            rounds.load_state_dict(state)
            self.assertEqual(rounds.round, 1)
            self.assertRaises(dpmf.StateError, rounds.observed)


@unittest.skipIf(jnp is None, "jax is not installed")
class ResumedInJax(unittest.TestCase):
    def test_another_sampler_is_refused(self):
        """It would draw users again who took part before the resume."""
        m = dpmf.evaluate("toeplitz", 6, participation="shuffled:2,3", epsilon=4.0, delta=1e-5, unit="user")
        params, ids = {"w": jnp.zeros(3)}, ["a", "b", "c", "d", "e", "f"]
        with tempfile.TemporaryDirectory(prefix="dpmf-test-") as folder:
            key = os.path.join(folder, "run.key")

            def opened(label, how, keyed=True):
                sampler = dpmf.UserSampler("shuffled:2", ids, mechanism=m, key=key if keyed else None, label=label)
                return sampler, dpmf.jax.add_user_noise(m, params, 1.0, sampler, key=key, user_gradient=how)

            self.assertRaises(dpmf.ArgumentError, opened, "x", "mean", False)
            sampler, noise = opened("x", "mean")
            state = noise.init(params)
            for _ in range(2):
                _, users = sampler.padded()
                _, state = noise.update({"w": jnp.ones((len(users), 3))}, state, params, users=jnp.asarray(users))
            state.step.block_until_ready()
            del sampler, noise
            for label, how in (("y", "mean"), ("x", "sum")):
                self.assertRaises(dpmf.Error, opened, label, how)


if __name__ == "__main__":
    unittest.main()
