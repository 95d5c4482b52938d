# SPDX-License-Identifier: Apache-2.0
"""Attacks on federated runs: crashes, shared logs, threads, full disks, files of another mode, secret cohorts; a resumed run in JAX."""

import os
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
from story import dpmf, program

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

#: A second server, which opens the run of the key that it is given.
SECOND = """
import sys
import numpy as np
import story
import dpmf
from dpmf._federation import Federation
m = dpmf.evaluate("toeplitz", 6, participation="min-sep:2,3", epsilon=4.0, delta=1e-5, unit="user")
try:
    Federation(m, 1.0, 2, key=sys.argv[1]).begin({"w": np.zeros(3, np.float32)}, None, None)
except dpmf.Error:
    print("refused")
"""


class Federations(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="dpmf-test-")
        self.addCleanup(kept.cleanup)
        self.folder = kept.name

    def at(self, name):
        return os.path.join(self.folder, name)

    def federation(self, m=M, clip=1.0, cohort=2, **options):
        run = Federation(m, clip, cohort, key=self.at("key"), **options)
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

    def killed(self, names):
        """A server that dies when the sum of its round is on the disk, and the row is not drawn."""
        run = self.federation()

        def dies():
            raise SystemExit

        run.rounds.finish = dies
        self.assertRaises(SystemExit, self.round, run, names)
        run.close()

    def test_a_log_from_a_backup(self):
        """It has forgotten clients: they would come back too early, and epsilon would be too small. A state knows what the log had."""
        key = self.at("key")
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            early = rounds.state_dict()
            with open(key + ".log", "rb") as file:
                backup = file.read()
            for name in ("ada", "bob"):
                rounds.add(name, np.ones(3))
                rounds.finish()
            state = rounds.state_dict()
        with open(key + ".log", "rb") as file:
            whole = file.read()
        for content in (backup, whole.replace(b"bob,1\n", b""), whole.replace(b"bob", b"eve")):
            with open(key + ".log", "wb") as file:
                file.write(content)
            with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
                with self.assertRaisesRegex(dpmf.StateError, "does not begin with the"):
                    rounds.load_state_dict(state)
                self.assertRaises(dpmf.StateError, rounds.add, "bob", np.ones(3))
        with open(key + ".log", "wb") as file:
            file.write(whole + b"cy,2\n")  # of a round whose row a crash left undrawn
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            rounds.load_state_dict(state)
            self.assertEqual(rounds.eligible(["ada", "bob", "cy", "dan"]), ["cy", "dan"])
            rounds.load_state_dict(early)

    def test_a_round_that_the_log_does_not_know_is_not_given_up(self):
        """Log and checkpoint are from one backup, the state file is newer: to give its last round up would free the clients of it."""
        key = self.at("key")
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            state = rounds.state_dict()
            with open(key + ".log", "rb") as file:
                backup = file.read()
            rounds.add("ada", np.ones(3))
            rounds.finish()
        with open(key + ".log", "wb") as file:
            file.write(backup)
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            rounds.load_state_dict(state)
            with self.assertRaisesRegex(dpmf.StateError, "no client of it"):
                rounds.skip()
            rounds.add("ada", np.ones(3))
            rounds.finish()
            self.assertEqual(rounds.eligible(["ada"]), [])

    def test_a_log_that_another_program_writes(self):
        with Rounds(M, 3, 1.0, divisor=1, key=self.at("key")) as rounds:
            with open(rounds.log, "ab") as file:
                file.write(b"eve")  # and the next name would be eveada
            rounds.add("ada", np.ones(3))
            with self.assertRaisesRegex(dpmf.FileError, "another program"):
                rounds.finish()
            self.assertEqual(rounds.round, 0)

    def test_a_log_file_that_comes_later_has_those_before(self):
        with Rounds(M, 3, 1.0, divisor=1, key=testing_key(1)) as rounds:
            rounds.add("ada", np.ones(3))
            rounds.finish()
            state = rounds.state_dict()
        with Rounds(M, 3, 1.0, divisor=1, key=testing_key(1), log=self.at("log")) as rounds:
            rounds.load_state_dict(state)
        with open(self.at("log"), "rb") as file:
            self.assertEqual(file.read(), b"client,round\nada,0\n")

    def test_a_sum_on_the_disk_that_was_changed(self):
        """It was clipped before it was written, and is not clipped again: a million clip norms of one client would be released."""
        self.killed(["ada", "bob"])
        path = self.at("key.pending")
        with open(path, "rb") as file:
            before = file.read()
        with np.load(path) as file:
            parts = dict(file)
        for name, other in (("a0", parts["a0"] * 10**6), ("a0", parts["a0"][:2]), ("text", parts["text"].tobytes().replace(b"bob", b"eve"))):
            changed = np.frombuffer(other, np.uint8) if isinstance(other, bytes) else other
            with open(path, "wb") as file:
                np.savez(file, **{**parts, name: changed})
            with self.assertRaisesRegex(dpmf.StateError, "not what this run wrote"):
                self.federation()
        with open(path, "wb") as file:
            file.write(before)
        run = self.federation()
        self.assertEqual((run.rounds.round, run.rounds.participations()[2]), (1, ["ada", "bob"]))
        run.close()

    def test_a_sum_of_an_earlier_run_with_this_key(self):
        """Its state, log and model were deleted to begin again with half the clip norm: the sum was clipped at the whole one."""
        self.killed(["ada", "bob"])
        for clip in (0.5, 1.0):
            for name in ("state", "log", "model"):
                os.remove(self.at("key." + name))
            with self.assertRaisesRegex(dpmf.StateError, "of another run"):
                self.federation(clip=clip)

    def test_a_server_that_lost_a_sum_or_a_model(self):
        """Other sums never get the rows, not after a restart either; clients are asked only when it is known that a row will be there."""
        run = self.federation()
        with open(self.at("key.model"), "rb") as file:
            older = file.read()
        self.round(run, ["ada", "bob"])
        run.ask([])
        run.close_round(self.apply(run))
        run.close()
        with open(self.at("key.model"), "rb") as file:
            newer = file.read()
        self.killed(["eve", "joe"])
        with open(self.at("key.pending"), "rb") as file:
            pending = file.read()

        def put(name, content):
            with open(self.at(name), "wb") as file:
                file.write(content)

        put("key.model", older)
        with self.assertRaisesRegex(dpmf.StateError, "rounds 0 to 1 were drawn"):
            self.federation()
        with open(self.at("key.pending"), "rb") as file:  # the newer model can still be restored
            self.assertEqual(file.read(), pending)
        put("key.model", newer)
        run = self.federation()
        self.assertEqual(run.rounds.round, 3)
        run.close()
        put("key.model", newer)  # and now the sum is lost, whose row was drawn
        with self.assertRaisesRegex(dpmf.StateError, "rounds 2 to 2 were drawn"):
            self.federation()
        for content in (newer, older):
            put("key.model", content)
            run = self.federation(give_up=True)
            self.assertEqual((run.rounds.round, run.rounds.eligible(["ada", "eve", "new"])), (3, ["ada", "new"]))
            run.close()
        run = self.federation()
        stream = run.rounds.noise
        self.round(run, ["ada", "new"])
        self.assertEqual((stream.step, run.rounds.participations()[2]), (4, ["ada", "bob", "eve", "joe", "new"]))
        run.close()

    def test_a_round_of_zeros_does_not_forget_its_clients(self):
        """Log and model are from a backup, and in the round since then no client answered: its sum is that of a round without clients."""
        run = self.federation()
        held = {}
        for name in ("log", "model"):
            with open(self.at("key." + name), "rb") as file:
                held[name] = file.read()
        run.ask(["ada", "bob"])
        run.close_round(self.apply(run))
        run.close()
        for name, content in held.items():
            with open(self.at("key." + name), "wb") as file:
                file.write(content)
        with self.assertRaisesRegex(dpmf.StateError, "was used for another sum"):
            self.federation(give_up=True)

    def test_a_sum_that_is_refused_does_not_stay_on_the_disk(self):
        """A sum without noise from a backup, whose row was drawn for another one: no server will ever release it."""
        run = self.federation()
        with open(self.at("key.model"), "rb") as file:
            older = file.read()
        run.close()
        self.killed(["ada", "bob"])
        with open(self.at("key.pending"), "rb") as file:
            pending = file.read()
        os.remove(self.at("key.pending"))
        run = self.federation()
        self.round(run, ["eve", "joe"], 0.3)
        run.close()
        for give_up in (False, True):
            for name, content in (("key.pending", pending), ("key.model", older)):
                with open(self.at(name), "wb") as file:
                    file.write(content)
            if not give_up:
                with self.assertRaisesRegex(dpmf.StateError, "was used for another sum"):
                    self.federation()
            else:
                run = self.federation(give_up=True)
                self.assertEqual((run.rounds.round, run.rounds.eligible(["ada", "eve", "new"])), (1, ["ada", "new"]))
            self.assertFalse(os.path.exists(self.at("key.pending")))
        run.close()

    def test_a_server_whose_log_cannot_be_written_resumes_with_its_sum(self):
        """The row may have been drawn: clients who are asked again would send another sum, and the first one would be lost."""
        run = self.federation()

        def full(t, names):
            raise dpmf.FileError("No space left on device")

        run.rounds._log.record = full
        self.assertRaises(dpmf.FileError, self.round, run, ["ada", "bob"])
        self.assertRaises(dpmf.StateError, self.round, run, ["eve", "joe"])
        run = self.federation()
        self.assertEqual((run.rounds.round, run.rounds.participations()[2]), (1, ["ada", "bob"]))
        run.close()

    def test_epsilon_of_a_log_that_was_cut(self):
        """Before a state is loaded, which knows what the log had, the log is not taken for what happened."""
        key = self.at("key")
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            for name in ("ada", "bob", "cy", "ada"):
                rounds.add(name, np.ones(3))
                rounds.finish()
            state = rounds.state_dict()
            epsilon = rounds.observed().epsilon
        with open(key + ".log", "rb") as file:
            whole = file.read()
        for content in (b"client,round\nada,0\n", b"client,round\n"):
            with open(key + ".log", "wb") as file:
                file.write(content)
            with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
                self.assertRaises(dpmf.StateError, rounds.observed)
                self.assertRaises(dpmf.StateError, rounds.load_state_dict, state)
        with open(key + ".log", "wb") as file:
            file.write(whole)
        with Rounds(M, 3, 1.0, divisor=1, key=key) as rounds:
            rounds.load_state_dict(state)
            self.assertEqual(rounds.observed().epsilon, epsilon)

    def test_files_that_are_damaged(self):
        self.killed(["ada", "bob"])
        for name in ("key.pending", "key.model"):
            with open(self.at(name), "rb") as file:
                before = file.read()
            for content in (b"", before[: len(before) // 2], before[:-1], b"x" * 100, before.replace(b"names", b"nanes")):
                with open(self.at(name), "wb") as file:
                    file.write(content)
                with self.assertRaisesRegex(dpmf.FormatError, "damaged"):
                    self.federation()
            with open(self.at(name), "wb") as file:
                file.write(before)
        self.federation().close()

    def test_a_resumed_run_of_another_kind(self):
        """Every number that the guarantee rests on is refused by name; the files stay what they were, and the run continues with its own."""
        run = self.federation()
        self.round(run, ["ada", "bob"])
        run.close()
        looser = dpmf.evaluate("toeplitz", 6, participation="min-sep:2,3", epsilon=9.0, delta=1e-5, unit="user")
        often = dpmf.evaluate("toeplitz", 6, participation="min-sep:3,2", epsilon=4.0, delta=1e-5, unit="user")
        cases = {"clip": {"clip": 2.0}, "cohort": {"cohort": 3}, "sigma": {"m": looser}, "participation": {"m": often},
                 "zero_above": {"zero_above": 9.0}, "exact": {"exact": True}}  # fmt: skip
        for name, changed in cases.items():
            with self.subTest(name):
                self.assertRaises(dpmf.Error, self.federation, **changed)
        run = self.federation()
        self.assertEqual(run.rounds.eligible(["ada", "eve"]), ["eve"])
        self.round(run, ["eve", "joe"])
        run.close()

    def test_two_servers_on_one_state(self):
        """In another process, and in a child that has copies of all that the parent had: each would draw the row of its round for a sum of
        its own."""
        run = self.federation()
        code, said = program(SECOND, self.at("key"))
        self.assertEqual((code, said), (0, "refused\n"))
        child = os.fork()
        if child == 0:
            try:
                self.round(run, ["eve", "joe"])
                os._exit(1)
            except dpmf.Error:
                os._exit(0)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        run.close()

    def test_what_an_update_raises(self):
        """An extension in Rust that panics raises no Exception: it would end the run, with a message about one client's numbers."""

        class Panic(BaseException):
            pass

        class Hostile:
            def __array__(self, *_arguments, **_named):
                raise Panic("of ada's data")

        rounds = Rounds(M, 3, 1.0, divisor=1)
        rounds.add("ada", Hostile())
        rounds.add("bob", [Hostile()])
        self.assertEqual((rounds.added, rounds.pending()[1].any()), (["ada", "bob"], False))
        run = self.federation()
        run.ask(["ada", "bob"])

        def panics():
            raise Panic("of ada's data")

        self.assertTrue(run.add("ada", panics))
        self.assertEqual((run.rounds.added, run.rounds.pending()[1].any()), (["ada"], False))
        run.close()

    def test_clients_without_an_id(self):
        """All whose id is missing would be one client beside their own, in rounds in which their own may not take part."""
        rounds, said = Rounds(M, 3, 1.0, divisor=1), set()
        for name in ("nan", "NaN", "None", "NULL", "null", "<NA>", "undefined", "", " "):
            for update in (np.zeros(3), np.full(3, np.nan)):
                with self.assertRaises(dpmf.ArgumentError) as caught:
                    rounds.add(name, update)
                said.add((name, str(caught.exception)))
        self.assertEqual(len(said), 9)
        for name in (None, float("nan"), 7.0, True, b"ada"):
            self.assertRaises(dpmf.ArgumentError, rounds.add, name, np.zeros(3))
        rounds.add("Nan Li", np.zeros(3))

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
