# SPDX-License-Identifier: Apache-2.0
"""dpmf-mpi train: the weights of one process up to the rounding of sums, noise once, kill -9, and refusals.

$DPMF is the program, $DPMF_MPI the one for several processes, $MPIRUN the launcher.
"""
import json
import os
import random
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

DPMF, DPMF_MPI = os.environ["DPMF"], os.environ["DPMF_MPI"]
MPIRUN = os.environ.get("MPIRUN", "mpirun")
SEVERAL = (1, 2, 3, 4)


def table(count, seed, users=0):
    """CSV of points in the square, their class the quadrant."""
    numbers = random.Random(seed)
    lines = ["x,y,label" + ",who" * bool(users)]
    for _ in range(count):
        x, y = numbers.uniform(-1, 1), numbers.uniform(-1, 1)
        user = ",u%d" % numbers.randrange(users) if users else ""
        lines.append("%.6f,%.6f,%d%s" % (x, y, (x > 0) + 2 * (y > 0), user))
    return "\n".join(lines) + "\n"


def idx(shape, payload):
    return struct.pack(">%dI" % (1 + len(shape)), 0x800 + len(shape), *shape) + bytes(payload)


def difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, a))


def starting():
    with subprocess.Popen([MPIRUN, "--version"], stdout=subprocess.PIPE, text=True) as asked:
        said = asked.communicate()[0]
    open_mpi = "Open MPI" in said or "OpenRTE" in said  # mpirun and mpiexec name themselves differently
    return [MPIRUN, *(["--allow-run-as-root", "--oversubscribe"] if open_mpi else [])]


START = starting()


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.csv = ["--data", self.write("train.csv", table(600, 1)), "--test-data",
                    self.write("test.csv", table(200, 2))]
        self.plan = ["--batch", "60", "--epochs", "5", "--epsilon", "8", "--delta", "1e-5", "--family", "blt"]
        self.seed = ["--testing-seed", "3"]

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def weights(self, name):
        with open(self.path(name), "rb") as file:
            data = file.read()
        values = data[10 + struct.unpack("<H", data[8:10])[0]:]
        return struct.unpack("<%dd" % (len(values) // 8), values)

    def start(self, *groups):
        """groups: (processes, words). One mpirun for all of them; its exit code, stdout and our lines of stderr."""
        line = []
        for ranks, words in groups:
            line += [":"] * bool(line) + ["-n", str(ranks), DPMF_MPI, *map(str, words)]
        done = subprocess.run([*START, *line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        return done.returncode, done.stdout, [text for text in done.stderr.splitlines() if text.startswith("dpmf: ")]

    def train(self, ranks, *words, data=None):
        """A run that must succeed: one answer, and no message except that it is not private, or complete. 0 processes: dpmf."""
        line = ["train", *(self.csv if data is None else data), *map(str, words), "--json"]
        if ranks == 0:
            done = subprocess.run([DPMF, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
            return json.loads(done.stdout)
        code, out, said = self.start((ranks, line))
        self.assertEqual(code, 0, (ranks, words, said))
        self.assertEqual(len(said), len(set(said)), said)  # by one process alone
        for text in said:
            self.assertRegex(text, "^dpmf: (not private: |this run was complete: |resumed at step )")
        return json.loads(out)

    def refused(self, code, says, *groups):
        """It ends with that code, one message, and no answer."""
        found, out, said = self.start(*groups)
        self.assertEqual((found, out), (code, ""), said)
        self.assertEqual(len(said), 1, said)
        for part in says:
            self.assertIn(part, said[0])


class Weights(Case):
    def compare(self, *words, data=None, tolerance=1e-5):
        alone = self.train(0, *words, "--out", self.path("alone"), data=data)
        wanted = self.weights("alone")
        for ranks in SEVERAL:
            answer = self.train(ranks, *words, "--out", self.path("several"), data=data)
            with self.subTest(words=words, ranks=ranks):
                self.assertLessEqual(difference(wanted, self.weights("several")), 0 if ranks == 1 else tolerance)
                for name in ("steps", "digest", "epsilon", "sampler", "statement", "private"):
                    self.assertEqual(answer[name], alone[name])
                self.assertAlmostEqual(answer["test_loss"], alone["test_loss"], places=4)

    def test_several_processes_give_the_weights_of_one(self):
        self.compare(*self.plan, *self.seed, "--model", "mlp:8", "--momentum", "0.9", "--learning-rate", "0.2")
        self.compare(*self.plan, *self.seed, "--clipping", "auto:0.1")

    def test_the_sampling_that_the_design_chooses_gives_the_weights_of_one(self):
        self.compare("--batch", "60", "--epochs", "5", "--epsilon", "1", "--delta", "1e-5", *self.seed)
        self.assertNotIn(" cyclic", " " + self.train(0, "--batch", "60", "--epochs", "5", "--epsilon", "1", "--delta", "1e-5",
                                                     *self.seed)["sampler"])

    def test_users_adam_and_sampling_give_the_weights_of_one(self):
        self.write("train.csv", table(600, 1, 50))
        self.write("test.csv", table(200, 2, 50))
        self.compare("--user", "who", "--unit", "user", "--steps", "12", "--epochs", "3", "--epsilon", "8", "--delta",
                     "1e-5", "--sampling", "poisson", "--optimizer", "adam", "--learning-rate", "0.05", *self.seed)

    def test_the_regularized_leader_has_the_weights_of_one(self):
        self.compare(*self.plan, *self.seed, "--optimizer", "ftrl", "--constraint", "ball:0.5", "--regularizer", "l1:0.001")

    def test_without_noise_idx_gives_the_weights_of_one(self):
        numbers = random.Random(5)
        for name, count in (("train", 300), ("t10k", 50)):
            labels = [numbers.randrange(3) for _ in range(count)]
            pixels = [numbers.randrange(60) + 60 * label for label in labels for _ in range(16)]
            self.write(name + "-images-idx3-ubyte", idx((count, 4, 4), pixels))
            self.write(name + "-labels-idx1-ubyte", idx((count,), labels))
        self.compare("--batch", "30", "--epochs", "4", "--noiseless", "--clip", "0.5",
                     data=["--data", self.directory.name])

    def test_more_processes_than_examples_are_fine(self):
        alone = self.train(0, "--batch", "2", "--epochs", "1", "--noiseless", "--clip", "1", "--out", self.path("a"))
        several = self.train(4, "--batch", "2", "--epochs", "1", "--noiseless", "--clip", "1", "--out", self.path("b"))
        self.assertEqual(alone["steps"], several["steps"])
        self.assertLessEqual(difference(self.weights("a"), self.weights("b")), 1e-5)


class Noise(Case):
    def test_noise_is_added_once(self):
        """Every gradient is above the limit and adds nothing: what is left is noise, exactly that of one process."""
        noise = [*self.seed, "--zero-above", "1e-30", "--model", "mlp:5"]
        for family in ("blt", "banded-toeplitz"):
            self.train(0, *self.plan[:-1], family, "--sampling", "none", *noise, "--out", self.path("alone"), "--checkpoint",
                       self.path(family))
            for ranks in SEVERAL:
                self.train(ranks, self.path(family + ".mechanism"), "--batch", "60", *noise, "--out",
                           self.path("several"))
                self.assertEqual(self.weights("several"), self.weights("alone"), (family, ranks))
            self.assertEqual(len(set(self.weights("alone"))), 5 * 3 + 4 * 6)

    def test_fresh_keys_differ_and_key_files_are_shared(self):
        self.train(3, *self.plan, "--out", self.path("first"))
        self.train(3, *self.plan, "--out", self.path("second"))
        self.assertGreater(difference(self.weights("first"), self.weights("second")), 1e-4)
        key = [*self.plan, "--key-file", self.path("key")]
        self.assertTrue(self.train(3, *key, "--state", "none", "--out", self.path("first"))["private"])
        self.train(2, *key, "--state", "none", "--out", self.path("second"))  # the file that the first run made
        self.assertLessEqual(difference(self.weights("first"), self.weights("second")), 1e-5)
        self.train(3, *key, "--out", self.path("third"))  # state files are another run, whose noise is its own
        self.assertGreater(difference(self.weights("first"), self.weights("third")), 1e-4)


class Resuming(Case):
    def processes(self):
        """The ranks that were started with a file of this test's directory."""
        found = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % number, "rb") as file:
                    words = file.read().split(b"\0")
                if os.readlink("/proc/%s/exe" % number) == os.path.realpath(DPMF_MPI) and \
                        any(word.startswith(os.fsencode(self.directory.name)) for word in words):
                    found.append(int(number))
            except OSError:
                pass
        return sorted(found)

    def run_and_hit(self, ranks, words, checkpoints, number):
        """Starts a run and sends one of its ranks a signal after this many checkpoints; returns its exit code."""
        line = [*START, "-n", str(ranks), DPMF_MPI, "train", *self.csv, *words, "--json"]
        with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            last, seen = None, 0
            while process.poll() is None and seen < checkpoints:
                try:
                    found = os.stat(self.path("run")).st_ino
                except FileNotFoundError:
                    found = None
                if found != last:
                    last, seen = found, seen + 1
                time.sleep(0.0005)
            for target in self.processes()[-1:]:
                try:
                    os.kill(target, number)
                except ProcessLookupError:
                    pass
            return process.wait(timeout=60)

    def parts(self):
        return sorted(name for name in os.listdir(self.directory.name) if re.match(r"run\.\d", name))

    def test_a_run_goes_on_after_a_rank_was_killed(self):
        words = ["--batch", "30", "--epochs", "60", "--epsilon", "8", "--delta", "1e-5", "--family", "blt", *self.seed]
        self.train(3, *words, "--out", self.path("alone"))
        kept = [*words, "--checkpoint", self.path("run"), "--every", "3", "--out", self.path("hit")]
        killed = 0
        for checkpoints in (2, 6, 11):
            killed += self.run_and_hit(3, kept, checkpoints, signal.SIGKILL) != 0
        self.assertGreaterEqual(killed, 2)  # a run that had ended before it was hit shows nothing
        answer = self.train(3, *kept)
        self.assertGreater(answer["resumed_at"], 0)
        self.assertLessEqual(difference(self.weights("alone"), self.weights("hit")), 1e-5)
        final = ["run.%d.%d-of-3" % (answer["steps"], rank) for rank in range(3)]
        self.assertLessEqual(set(final), set(self.parts()))
        self.assertEqual(os.stat(self.path("run")).st_mode & 0o777, 0o600)

    def test_all_ranks_stop_when_one_is_told(self):
        words = ["--batch", "30", "--epochs", "60", "--epsilon", "8", "--delta", "1e-5", "--family", "blt", *self.seed,
                 "--checkpoint", self.path("run"), "--every", "3", "--out", self.path("hit")]
        self.assertNotEqual(self.run_and_hit(2, words, 3, signal.SIGTERM), 0)  # one rank gets it, both stop
        self.assertEqual(len(self.parts()), 2)
        self.train(2, *words)
        self.train(2, *words[:-6], "--out", self.path("alone"))
        self.assertLessEqual(difference(self.weights("alone"), self.weights("hit")), 1e-5)

    def test_checkpoints_of_other_runs_or_ranks_are_refused(self):
        kept = [*self.plan, *self.seed, "--checkpoint", self.path("run"), "--every", "20"]
        line = ["train", *self.csv, *kept]
        self.train(3, *kept)
        self.assertEqual(self.parts(), ["run.50.%d-of-3" % rank for rank in range(3)])
        self.refused(1, ["this run is complete"], (3, line))
        self.assertEqual(self.train(3, *kept, "--out", self.path("model"))["resumed_at"], 50)
        self.refused(2, ["used 3 processes", "not with 2"], (2, line))
        self.refused(2, ["rank 0", "another run"][1:], (3, [*line, "--learning-rate", "0.1"]))
        self.refused(1, ["is not a checkpoint"], (1, line))
        os.rename(self.path("run.50.0-of-3"), self.path("kept"))
        os.rename(self.path("run.50.1-of-3"), self.path("run.50.0-of-3"))
        self.refused(2, ["part is 1 in it and 0 here"], (3, line))
        os.rename(self.path("run.50.0-of-3"), self.path("run.50.1-of-3"))
        os.rename(self.path("kept"), self.path("run.50.0-of-3"))
        os.remove(self.path("run.50.2-of-3"))
        self.refused(1, ["rank 2: ", "it does not exist"], (3, line))
        self.write("run", "step 3\n")
        self.refused(1, ["not a checkpoint of a training run on several processes"], (3, line))


class Keys(Case):
    def test_a_key_serves_runs_of_one_number_of_processes(self):
        """State files of 1, 2 and 3 processes have other names, so that each run was accepted: three models from the same secret batches."""
        words = [*self.plan, "--key-file", self.path("k")]
        line = ["train", *self.csv, *words]
        self.train(2, *words)
        self.refused(2, ["k.state.", "another number of processes"], (3, line))
        done = subprocess.run([DPMF, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("another number of processes", done.stderr)
        alone = [*self.plan, "--key-file", self.path("other")]
        self.train(0, *alone)
        self.refused(2, ["other.state", "another number of processes"], (2, ["train", *self.csv, *alone]))


class Disagreement(Case):
    def test_a_rank_with_another_run_is_named(self):
        self.write("other.csv", table(600, 4))
        usual = ["train", *self.csv, *self.plan]
        for says, other in [("another key", [*usual, "--testing-seed", "4"]),
                            ("training data", ["train", "--data", self.path("other.csv"), *usual[3:], *self.seed]),
                            ("clip", [*usual, *self.seed, "--clip", "0.5"]),
                            ("learning rate", [*usual, *self.seed, "--learning-rate", "0.1"]),
                            ("gamma", [*usual, *self.seed, "--clipping", "auto"]),
                            ("--scale", [*usual, *self.seed, "--scale", "rows"]),
                            ("--release", [*usual, *self.seed, "--release", "exact"]),
                            ("checkpoint", [*usual, *self.seed, "--checkpoint", self.path("run")]),
                            ("dim = ", [*usual, *self.seed, "--model", "mlp:3"]),
                            ("key-file", usual)]:
            with self.subTest(says=says):
                self.refused(2, ["rank 2: ", says], (2, [*usual, *self.seed]), (1, other))
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_rank_with_another_set_of_weights_is_named(self):
        usual = ["train", *self.csv, *self.plan, *self.seed, "--optimizer", "ftrl"]
        for says, other in [("constraint: 1 2", ["--constraint", "ball:2"]), ("regularizer: 1 0.5", ["--regularizer", "l1:0.5"])]:
            self.refused(2, ["rank 2: ", says], (2, usual), (1, [*usual, *other]))

    def test_a_rank_with_another_mechanism_is_named(self):
        for family in ("blt", "identity"):
            self.train(0, *self.plan[:-1], family, "--sampling", "none", *self.seed, "--checkpoint", self.path(family))
        first, second = (["train", self.path(family + ".mechanism"), *self.csv, "--batch", "60", *self.seed]
                         for family in ("blt", "identity"))
        self.refused(2, ["rank 1: another mechanism"], (1, first), (2, second))

    def test_a_rank_that_cannot_start_ends_all(self):
        usual = ["train", *self.csv, *self.plan, *self.seed]
        for code, says, other in [(1, "missing.csv", ["train", "--data", self.path("missing.csv"), *usual[3:]]),
                                  (2, "--nonsense", [*usual, "--nonsense"]),
                                  (2, "--hold-out", [*usual, "--hold-out", "5"])]:
            self.refused(code, ["rank 2: ", says], (2, usual), (1, other))
            self.refused(code, [says], (3, other))

    def test_a_gradient_that_is_not_finite_fails_the_step_for_all(self):
        """One example of one part: the step fails for all."""
        self.write("huge.csv", "x,y,label\n" + "1,2,0\n" * 5 + "3e38,3e38,1\n" + "1,1,1\n" * 6)
        words = ["train", "--data", self.path("huge.csv"), "--hold-out", "2", "--steps", "4", "--epochs", "2",
                 "--noiseless", "--learning-rate", "1e11"]
        code, out, said = self.start((3, words))
        self.assertEqual((code, out), (1, ""), said)
        self.assertEqual(len(said), 1, said)
        self.assertIn("not finite", said[0])

    def test_other_verbs_are_run_once(self):
        code, out, said = self.start((3, ["--version"]))
        self.assertEqual((code, said), (0, []))
        self.assertRegex(out, r"^dpmf \d+\.\d+\.\d+\n$")
        code, out, said = self.start((2, ["train", "--help"]))
        self.assertEqual((code, out.count("usage: "), said), (0, 1, []))
        self.refused(2, ["unknown verb"], (2, ["nothing"]))


if __name__ == "__main__":
    unittest.main()
