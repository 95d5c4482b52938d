# SPDX-License-Identifier: Apache-2.0
"""train: data from IDX and CSV, private and plain runs, resuming after kill -9, and what is refused."""
import gzip
import json
import math
import os
import random
import re
import signal
import struct
import subprocess
import time
import unittest

from harness import DPMF, Case, npy, run
from verify_cases import File

KEYS = ["schema", "version", "test_accuracy", "test_loss", "evaluated_on", "epsilon", "delta", "kind", "sigma", "family",
        "workload", "features", "model", "dim", "examples", "unit", "units", "steps", "batch", "epochs", "sampler", "clip",
        "gamma", "precondition", "zero_above", "local_steps", "local_rate", "local_batch",
        "optimizer", "learning_rate", "momentum", "constraint", "regularizer", "schedule", "resumed_at", "seconds", "seconds_noise", "release", "private",
        "digest", "out",
        "test_curve", "advice", "statement", "protected"]


def table(count, seed, users=0):
    """CSV of points in the square, their class the quadrant."""
    numbers = random.Random(seed)
    lines = ["x,y,label" + (",who" if users else "")]
    for _ in range(count):
        x, y = numbers.uniform(-1, 1), numbers.uniform(-1, 1)
        lines.append("%.6f,%.6f,%d" % (x, y, (x > 0) + 2 * (y > 0)) + (",u%d" % numbers.randrange(users) if users else ""))
    return "\n".join(lines) + "\n"


def idx(dimensions, shape, payload):
    return struct.pack(">%dI" % (1 + dimensions), 0x800 + dimensions, *shape) + bytes(payload)


class Training(Case):
    def setUp(self):
        super().setUp()
        self.csv = ["--data", self.write("train.csv", table(600, 1)), "--test-data",
                    self.write("test.csv", table(200, 2))]
        self.plan = ["--batch", "60", "--epochs", "5"]
        self.private = ["--epsilon", "8", "--delta", "1e-5", "--sampling", "poisson"]
        self.seed = ["--testing-seed", "3"]

    def train(self, *arguments, data=None, **options):
        """A run that must succeed; returns its JSON. stderr may only report that it is not private."""
        code, out, err = run("train", *(self.csv if data is None else data), *arguments, "--json", **options)
        self.assertEqual(code, 0, (arguments, err))
        for line in err.splitlines():
            self.assertRegex(line, "^dpmf: (not private: |this run was |resumed at step )")
        answer = json.loads(out)
        self.assertEqual(list(answer), KEYS)
        return answer

    def weights(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def refuse(self, *arguments, code=2, says=()):
        self.refused(code, "train", *arguments, says=says)


class Runs(Training):
    def test_without_noise_the_models_learn(self):
        answer = self.train("--batch", "60", "--epochs", "20", "--noiseless", "--learning-rate", "2")
        self.assertGreater(answer["test_accuracy"], 0.9)
        self.assertEqual((answer["steps"], answer["batch"], answer["epochs"], answer["dim"]), (200, 60, 20, 12))
        self.assertEqual((answer["clip"], answer["epsilon"], answer["sigma"], answer["private"]),
                         ("inf", None, None, False))
        self.assertEqual(answer["sampler"], "cyclic:60")
        hidden = self.train("--batch", "60", "--epochs", "20", "--noiseless", "--learning-rate", "1", "--momentum",
                            "0.9", "--model", "mlp:8")
        self.assertGreater(hidden["test_accuracy"], 0.9)
        self.assertEqual(hidden["dim"], 8 * 3 + 4 * 9)
        self.assertEqual((hidden["workload"], hidden["schedule"]), ("prefix", "linear"))

    def test_not_private_is_said(self):
        for arguments in [["--noiseless"], [*self.private, *self.seed]]:
            code, out, err = run("train", *self.csv, *self.plan, *arguments)
            self.assertEqual(code, 0)
            self.assertTrue(err.startswith("dpmf: not private: ") and err.count("\n") == 1, err)
            self.assertRegex(out, r"accuracy +\S+ +test\n")
        code, out, err = run("train", *self.csv, *self.plan, *self.private)
        self.assertEqual((code, err), (0, ""))

    def test_a_private_run_states_its_guarantee(self):
        answer = self.train(*self.plan, *self.private)
        self.assertTrue(0 < answer["epsilon"] <= 8 and answer["delta"] == 1e-5 and answer["kind"] == "upper bound")
        self.assertEqual((answer["family"], answer["sampler"], answer["private"]), ("identity", "poisson:0.1", True))
        self.assertEqual((answer["steps"], answer["batch"], answer["clip"]), (50, 60, 1))
        self.assertIn("one example", answer["statement"])
        self.assertGreater(answer["seconds_noise"], 0)
        user = [*self.private, "--unit", "user", "--user", "who", "--batch", "8", "--epochs", "5"]
        data = ["--data", self.write("u.csv", table(600, 1, 40)), "--test-data", self.write("v.csv", table(99, 2, 9))]
        answer = self.train(*user, data=data)
        self.assertEqual((answer["unit"], answer["units"], answer["examples"]), ("user", 40, 600))
        self.assertIn("one user", answer["statement"])

    def test_batches_with_a_cap_and_allocated_batches_train(self):
        capped = self.train(*self.plan, *self.private, "--batch-cap", "66")
        self.assertRegex(capped["sampler"], r"poisson:0\.1,cap:66:600")
        self.assertIn("At most 66 take part", capped["statement"])
        free = self.train(*self.plan, *self.private)
        self.assertGreater(capped["sigma"], free["sigma"])
        once = self.train(*self.plan, "--epsilon", "1", "--delta", "1e-5", "--sampling", "allocation")
        self.assertEqual(once["sampler"], "allocation:1,10")
        self.assertIn("exactly 1 of 10 steps", once["statement"])
        self.assertGreater(once["sigma"], free["sigma"])

    def test_one_key_is_one_run_whatever_the_threads(self):
        """One key is one run for any number of threads; another key or setting is another."""
        made = {}
        for name, arguments in [("a", []), ("b", ["--threads", "3"]), ("c", ["--learning-rate", "0.4"])]:
            self.train(*self.plan, *self.private, *self.seed, *arguments, "--out", self.path(name))
            made[name] = self.weights(name)
        self.train(*self.plan, *self.private, "--testing-seed", "4", "--out", self.path("d"))
        self.assertEqual(made["a"], made["b"])
        self.assertEqual(made["a"][:10], b"\x93NUMPY\x01\x00v\x00")
        self.assertEqual(len(made["a"]), 128 + 12 * 8)
        self.assertNotIn(self.weights("d"), made.values())
        self.assertNotEqual(made["a"], made["c"])

    def test_a_byte_order_mark_is_skipped(self):
        marked = ["--data", self.write("m.csv", "\ufeff" + table(600, 1)), "--test-data",
                  self.write("n.csv", "\ufeff" + table(200, 2))]
        one, two = (self.train(*self.plan, "--noiseless", data=data) for data in (self.csv, marked))
        self.assertEqual(one["test_loss"], two["test_loss"])

    def test_idx_files_are_read_plain_and_packed(self):
        numbers = random.Random(5)
        images = [[numbers.randrange(256) for _ in range(6)] for _ in range(300)]
        labels = [int(image[0] > 127) for image in images]
        names = {}
        for what, first, last in [("train", 0, 200), ("t10k", 200, 300)]:
            flat = [value for image in images[first:last] for value in image]
            names["%s-images-idx3-ubyte" % what] = idx(3, (last - first, 3, 2), flat)
            names["%s-labels-idx1-ubyte" % what] = idx(1, (last - first,), labels[first:last])
        answers = []
        for packed in [False, True]:
            directory = self.path("packed" if packed else "plain")
            os.mkdir(directory)
            for name, content in names.items():
                with open(os.path.join(directory, name + (".gz" if packed else "")), "wb") as file:
                    file.write(gzip.compress(content) if packed else content)
            answers.append(self.train("--batch", "20", "--epochs", "30", "--noiseless", *self.seed,
                                      "--learning-rate", "2", data=["--data", directory]))
        self.assertGreater(answers[0]["test_accuracy"], 0.85)
        for answer in answers:
            del answer["seconds"]
        self.assertEqual(*answers)
        held = self.train("--batch", "15", "--epochs", "10", "--noiseless", "--hold-out", "50", data=["--data", directory])
        self.assertEqual((held["evaluated_on"], held["examples"]), ("hold-out", 150))
        os.remove(os.path.join(directory, "t10k-labels-idx1-ubyte.gz"))
        self.refuse("--data", directory, *self.plan, "--noiseless", code=1, says="t10k-labels-idx1-ubyte")

    def test_two_of_steps_batch_and_epochs_make_a_plan(self):
        for arguments, steps, batch in [(["--steps", "20", "--batch", "60"], 20, 60),
                                        (["--steps", "25", "--epochs", "5"], 25, 120),
                                        (["--batch", "7", "--epochs", "2"], 172, 600 / 86),
                                        (["--batch", "600", "--epochs", "3"], 3, 600)]:
            with self.subTest(arguments=arguments):
                answer = self.train("--noiseless", *arguments)
                self.assertEqual(answer["steps"], steps)
                self.assertAlmostEqual(answer["batch"], batch, 0)

    def test_optimizers_and_schedules_are_post_processing_unless_asked(self):
        own = ["--workload", "own"]
        for arguments, workload in [(["--optimizer", "adam", "--learning-rate", "0.05"], "prefix"),
                                    (["--schedule", "cooldown:0.5:0.1", "--momentum", "0.5"], "prefix"),
                                    (["--schedule", "cooldown:0.5:0.1", "--momentum", "0.5", *own],
                                     "momentum:0.5,cooldown:0.5:0.1"),
                                    (own, "linear:0"), (["--schedule", "constant", *own], "prefix"),
                                    (["--decay", "0.02"], "prefix"),
                                    (["--decay", "0.02", "--schedule", "constant", *own], "decay:0.01"),
                                    (["--workload", "momentum:0.5"], "momentum:0.5"), (["--zero-above", "5"], "prefix")]:
            with self.subTest(arguments=arguments):
                self.assertEqual(self.train(*self.plan, *self.private, *arguments)["workload"], workload)
        self.refuse(*self.csv, *self.plan, *self.private, *own, "--optimizer", "adam", says=["--workload own", "prefix"])
        for schedule in ("cosine", "cosine:0", "cooldown:0.5:0"):
            self.refuse(*self.csv, *self.plan, *self.private, *own, "--schedule", schedule,
                        says=["--workload own", "floor = 0", "no inverse"])

    def test_normalised_gradients_need_no_clip_norm(self):
        """AUTO-S: --clip scales what is added and the noise alike, so that the learning rate takes its place."""
        common = [*self.plan, *self.private, *self.seed]
        plain = self.train(*common)
        self.assertIsNone(plain["gamma"])
        self.assertNotIn("normalised", plain["statement"])
        one = self.train(*common, "--clipping", "auto", "--learning-rate", "0.5")
        self.assertEqual((one["gamma"], one["epsilon"]), (0.01, plain["epsilon"]))
        self.assertIn("was normalised to 1 g/(|g| + 0.01), which is never longer than 1: the guarantee above holds", one["statement"])
        self.assertGreater(one["test_accuracy"], 0.4)  # of four quadrants
        free = [*self.plan, "--noiseless"]
        far = self.train(*free, "--clipping", "auto:0.01", "--clip", "1024", "--learning-rate", str(0.5 / 1024))
        near = self.train(*free, "--clipping", "auto", "--learning-rate", "0.5")
        self.near(far["test_loss"], near["test_loss"], 1e-6)
        self.assertNotEqual(near["test_loss"], self.train(*free, "--clip", "1", "--learning-rate", "0.5")["test_loss"])
        self.assertIn("guarantee", self.train(*common, "--clipping", "auto:1e-30")["statement"])
        for text in ("auto:", "auto:0", "auto:-1", "auto:nan", "auto:inf", "auto:1e-31", "auto:1e31", "autos", "norm:1"):
            self.refuse(*self.csv, *common, "--clipping", text, says=["--clipping", "2^-100"])

    def test_a_run_resumes_under_the_same_clipping_only(self):
        key = ["--key-file", self.path("key"), "--checkpoint", self.path("c"), "--every", "5"]
        common = [*self.plan, *self.private, *key]
        self.train(*common, "--clipping", "auto:0.5")
        for more, says in [([], "normalised by is 0.5 in it and off here"),
                           (["--clipping", "auto"], "normalised by is 0.5 in it and 0.01 here")]:
            self.refuse(*self.csv, *common, *more, says=[says])
        self.refuse(*self.csv, *common, "--clipping", "auto:0.5", code=1, says=["this run is complete"])

    def test_runs_under_another_rule_draw_other_batches(self):
        """With one key: the same coins in two runs would be one sampling, and their guarantees would not add up."""
        labels = set()
        for i, more in enumerate(([], ["--clipping", "auto"], ["--clipping", "auto:0.5"])):
            self.train(*self.plan, *self.private, *self.seed, *more, "--checkpoint", self.path("c%d" % i), "--state", "none")
            with open(self.path("c%d" % i), "rb") as file:
                labels.add(re.search(rb"\nsampler's label: ([0-9a-f]{64})\n", file.read())[1])
        self.assertEqual(len(labels), 3)


class Designed(Training):
    """Mechanisms that are designed for the run, and mechanism files."""

    def test_a_design_is_made_for_the_run(self):
        for family in ["identity", "toeplitz"]:
            answer = self.train(*self.plan, "--epsilon", "8", "--delta", "1e-5", "--family", family, "--sampling", "none",
                                *self.seed)
            self.assertEqual((answer["family"], answer["sampler"], answer["kind"]), (family, "cyclic:60", "exact"))
            self.near(answer["epsilon"], 8, 1e-6)
        answer = self.train(*self.plan, "--epsilon", "8", "--delta", "1e-5", "--family", "identity", "--sampling",
                            "block-cyclic")
        self.assertLessEqual(answer["epsilon"], 8)

    def test_a_mechanism_file_fixes_the_plan(self):
        self.train(*self.plan, *self.private, *self.seed, "--checkpoint", self.path("run"), "--out", self.path("a"))
        kept = self.path("run.mechanism")
        answer = self.train(kept, *self.seed, "--out", self.path("b"))
        self.assertEqual(self.weights("a"), self.weights("b"))
        self.assertEqual((answer["steps"], answer["sampler"], answer["delta"]), (50, "poisson:0.1", 1e-5))
        self.train(kept, "--delta", "1e-6", "--steps", "50")
        self.refuse(kept, *self.csv, "--steps", "51", says=["--steps 51", "50"])
        self.refuse(kept, *self.csv, "--batch", "60", says="--batch")
        for arguments in [["--epsilon", "1"], ["--family", "identity"], ["--workload", "prefix"], ["--sampling", "none"],
                          ["--epochs", "5"]]:
            self.refuse(kept, *self.csv, *arguments, says=[arguments[0], "FILE"])
        bare = self.path("bare")
        self.ok("evaluate", "--steps", "50", "--family", "identity", "--participation", "cyclic:5,10", "-o", bare)
        self.refuse(bare, *self.csv, says="no sigma")
        self.assertEqual(self.train(bare, "--noiseless")["sampler"], "cyclic:60")
        self.refuse(self.write("junk", "junk"), *self.csv, code=1)

    def test_a_forged_file_trains_nothing(self):
        """A sensitivity that is too small, under a digest that fits: no guarantee is printed, and nothing is trained."""
        self.ok("design", "--steps", "50", "--epochs", "5", "--epsilon", "1", "--delta", "1e-5", "-o",
                self.path("m"))
        forged = File(self.weights("m"))
        forged.root["sensitivity"]["value"] *= 0.999
        path = self.write("forged", forged.bytes())
        self.refuse(path, *self.csv, code=1, says="sensitivity")
        self.refused(1, "account", path, says="sensitivity")

    def test_add_remove_is_refused(self):
        for sampling in ("none", "poisson", "block-cyclic"):
            self.refuse(*self.csv, *self.plan, "--epsilon", "8", "--delta", "1e-5", "--sampling", sampling,
                        "--adjacency", "add-remove", says="add-remove")

    def test_runs_draw_batches_of_their_own(self):
        """At tiny rates the weights are the rate times a sum over the batches: were they the same batches, twice the rate
        would give twice the weights."""
        self.train("--steps", "10", "--epochs", "1", *self.private, *self.seed, "--checkpoint", self.path("c"))
        found = []
        for rate in ("1e-6", "2e-6"):
            self.train(self.path("c.mechanism"), "--noiseless", *self.seed, "--learning-rate", rate, "--clip", "1",
                       "--out", self.path("w"))
            content = self.weights("w")
            found.append(struct.unpack("<%dd" % 12, content[-96:]))  # 4 classes of 2 features and a bias
        ratios = [b / a for a, b in zip(*found)]
        self.assertGreater(max(abs(ratio - 2) for ratio in ratios), 0.01, ratios)


class Resume(Training):
    def setUp(self):
        super().setUp()
        self.long = ["--batch", "60", "--epochs", "60", "--momentum", "0.9", "--model", "mlp:5", *self.private]
        self.key = ["--key-file", self.path("key")]

    def kill(self, arguments, checkpoints, number):
        """Starts the run and kills it when its checkpoint has been replaced this many times; True if it was alive."""
        path = self.path("run")
        process = subprocess.Popen([DPMF, "train", *self.csv, *arguments, "--json"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        last, seen = None, 0
        while process.poll() is None and seen < checkpoints:
            try:
                found = os.stat(path).st_ino
            except FileNotFoundError:
                found = None
            if found != last:
                last, seen = found, seen + 1
            time.sleep(0.0005)
        process.send_signal(number)
        return process.wait()

    def test_a_killed_run_ends_with_the_same_bits(self):
        """kill -9 at random moments: the run ends with the bits of one that was never disturbed."""
        moments = random.Random(9)
        self.train(*self.long, *self.key, "--out", self.path("whole"))
        state = ["--checkpoint", self.path("run"), "--every", "10"]
        kills = 0
        for _ in range(60):  # a run that ended before the signal came is started again
            if kills == 8:
                break
            if self.kill([*self.long, *self.key, *state], moments.randrange(1, 6), signal.SIGKILL) == -signal.SIGKILL:
                kills += 1
            else:
                os.remove(self.path("run"))
            time.sleep(moments.uniform(0, 0.003))
        self.assertEqual(kills, 8)
        self.train(*self.long, *self.key, *state, "--out", self.path("resumed"))
        self.assertEqual(self.weights("whole"), self.weights("resumed"))
        self.refuse(*self.csv, *self.long, *self.key, *state, "--out", self.path("resumed"), code=1, says="complete")
        self.assertEqual(self.weights("whole"), self.weights("resumed"))
        again = self.train(*self.long, *self.key, *state, "--out", self.path("again"))  # killed before it was written
        self.assertEqual(again["resumed_at"], 600)
        self.assertEqual(self.weights("whole"), self.weights("again"))

    def test_an_interrupted_run_ends_with_the_same_bits(self):
        self.train(*self.long, *self.key, "--out", self.path("whole"))
        state = ["--checkpoint", self.path("run"), "--every", "10"]
        self.assertIn(self.kill([*self.long, *self.key, *state], 2, signal.SIGINT), [130, 0])
        self.train(*self.long, *self.key, *state, "--out", self.path("resumed"))
        self.assertEqual(self.weights("whole"), self.weights("resumed"))

    def test_a_checkpoint_of_another_run_is_refused_by_name(self):
        state = ["--checkpoint", self.path("run")]
        given = [*self.plan, *self.private, *state]
        self.train(*given, *self.key)
        before = self.weights("run")
        for arguments, says in [(["--clip", "2"], "clip is 1 in it and 2 here"),
                                (["--learning-rate", "0.25"], "learning rate is 0.5 in it and 0.25 here"),
                                (["--model", "mlp:3"], "model is softmax in it and mlp:3 here"),
                                (["--seed", "7"], "seed is 0 in it and 7 here"),
                                (["--optimizer", "adam"], "optimizer is sgd in it and adam here"),
                                (["--momentum", "0.5"], "momentum is 0 in it and 0.5 here"),
                                (["--schedule", "constant"], "and constant here"),
                                (["--schedule", "cosine:0"], "schedule is ")]:
            self.refuse(*self.csv, *given, *self.key, *arguments, says=["another run", says])
        self.refuse(*self.csv, *given, "--key-file", self.path("other"), says="it has another key")
        self.refuse(*self.csv[:1], self.path("test.csv"), *self.csv[2:], *self.plan, *state, "--testing-seed", "1",
                    *self.private, says="")
        self.refuse(*self.csv, "--batch", "60", "--epochs", "6", *self.private, *state, *self.key, says="--steps")
        self.refuse(*self.csv, *self.plan, "--epsilon", "4", *self.private[2:], *state, *self.key, says="--epsilon")
        self.refuse(*self.csv, *given, *self.key, "--workload", "momentum:0.5", says="--workload")
        self.refuse(*self.csv, *given, *self.key, "--adjacency", "replace-one", says="--adjacency")
        self.refuse(*self.csv, "--steps", "50", "--epochs", "10", *self.private, *state, *self.key, says="--batch")
        for sampling in ([], ["--sampling", "any"], ["--sampling", "none"], ["--sampling", "allocation"]):
            self.refuse(*self.csv, *self.plan, *self.private[:4], *sampling, *state, *self.key, says="--sampling")
        self.assertEqual(self.weights("run"), before)
        self.write("run", before[:-1] + bytes([before[-1] ^ 1]))
        self.refuse(*self.csv, *given, *self.key, code=1, says="changed")


class Defaults(Training):
    """A rate that falls to 0, a mechanism for prefix sums, and the best sampling."""

    def setUp(self):
        super().setUp()
        self.asked = ["--epsilon", "2", "--delta", "1e-5"]

    def rates(self, values):
        return "lr:" + self.write("lr.npy", npy(values))

    def test_what_is_left_open_is_as_if_it_were_said(self):
        said = ["--schedule", "linear", "--workload", "prefix", "--sampling", "any"]
        short = self.train(*self.plan, *self.asked, *self.seed, "--out", self.path("short"))
        self.assertEqual((short["schedule"], short["workload"]), ("linear", "prefix"))
        self.train(*self.plan, *self.asked, *self.seed, *said, "--out", self.path("long"))
        self.assertEqual(self.weights("short"), self.weights("long"))
        self.train(*self.plan, *self.asked, *self.seed, "--schedule", "constant", "--out", self.path("constant"))
        self.assertNotEqual(self.weights("short"), self.weights("constant"))

    def test_a_schedule_is_its_factors(self):
        steps = 50
        for text, factor in [("linear", lambda t: (steps - t) / steps), ("linear:0.25", lambda t: 0.25 + 0.75 * ((steps - t) / steps)),
                             ("constant", lambda t: 1.0),
                             ("linear,warmup:0.1", lambda t: (steps - t) / steps * (min(5, t + 1) / 5))]:
            for optimizer in ("sgd", "adam"):
                with self.subTest(schedule=text, optimizer=optimizer):
                    made = []
                    for schedule in (text, self.rates([factor(t) for t in range(steps)])):
                        answer = self.train(*self.plan, "--noiseless", "--optimizer", optimizer, "--schedule", schedule, "--out",
                                            self.path("w"))
                        made.append(answer["test_loss"])
                    self.near(made[0], made[1], 1e-6)

    def test_a_rate_may_fall_to_zero_and_never_below(self):
        """The last step of a cosine to 0 moves nothing; without it the model is the same."""
        whole = self.train(*self.plan, "--noiseless", "--schedule", "cosine:0", "--out", self.path("a"))
        self.train(*self.plan, "--noiseless", "--schedule", "cosine", "--out", self.path("b"))
        self.assertEqual(self.weights("a"), self.weights("b"))
        self.assertEqual(whole["schedule"], "cosine:0")
        factors = [0.5 * (1 + math.cos(math.pi * t / 49)) for t in range(49)]
        self.train(*self.plan, "--noiseless", "--schedule", self.rates(factors + [0.0]), "--out", self.path("c"))
        self.assertEqual(self.train(*self.plan, *self.asked, "--schedule", "cosine:0")["workload"], "prefix")
        self.refuse(*self.csv, *self.plan, "--noiseless", "--schedule", self.rates(factors + [-1e-9]),
                    says=["--schedule", "-1e-09", "step 49"])
        for schedule, says in [("cosine:-0.1", "accepted 0 to 1"), ("linear:2", "accepted 0 to 1"), ("linear,constant", "'constant'"),
                               ("prefix", "'prefix'")]:
            self.refuse(*self.csv, *self.plan, "--noiseless", "--schedule", schedule, says=["--schedule", says])

    def test_the_sampler_does_what_the_mechanism_assumes(self):
        """For each epsilon the best of all samplings and of a fixed order; batches and steps are those that were asked for."""
        kinds = set()
        for epsilon in ("0.5", "2", "30"):
            path = self.path("run" + epsilon)
            answer = self.train(*self.plan, "--epsilon", epsilon, "--delta", "1e-5", *self.seed, "--checkpoint", path)
            self.assertEqual((answer["steps"], answer["units"]), (50, 600))
            self.near(answer["batch"], 60, 1e-9)
            self.assertLessEqual(answer["epsilon"], float(epsilon) * (1 + 1e-9))
            held = self.json("inspect", path + ".mechanism")
            kind = answer["sampler"].split(":")[0]
            kinds.add(kind)
            if kind == "cyclic":
                self.assertEqual((held["sampling"], held["participation"]), ("none", "cyclic:5,10"))
                self.assertNotIn("kept secret", answer["statement"])
            else:
                self.assertEqual(held["sampling"], answer["sampler"])
                self.assertIn("kept secret", answer["statement"])
            chosen = held["sigma"] * held["rms_loss"]
            for sampling in ("none", "poisson", "block-cyclic"):
                other = self.path(sampling + epsilon)
                self.train(*self.plan, "--epsilon", epsilon, "--delta", "1e-5", *self.seed, "--sampling", sampling, "--checkpoint",
                           other)
                held = self.json("inspect", other + ".mechanism")
                self.assertLessEqual(chosen, 1.0011 * held["sigma"] * held["rms_loss"])
        self.assertGreater(len(kinds), 1, kinds)

    def test_the_batch_is_the_one_asked_for_under_every_sampling(self):
        """Where the batch divides the examples nearly enough for one number of steps, and where it does not."""
        for arguments, steps, batch in [(["--batch", "7", "--epochs", "2"], 172, 600 / 86),
                                        (["--batch", "70", "--epochs", "5"], 43, 600 * 5 / 43),
                                        (["--batch", "170", "--epochs", "1"], 4, 150),
                                        (["--steps", "43", "--batch", "70"], 43, 600 * 5 / 43),
                                        (["--steps", "27", "--epochs", "5"], 27, 600 * 5 / 27)]:
            for epsilon in ("0.5", "30"):
                with self.subTest(arguments=arguments, epsilon=epsilon):
                    answer = self.train(*arguments, "--epsilon", epsilon, "--delta", "1e-5")
                    self.assertEqual(answer["steps"], steps)
                    order = 600 / math.ceil(steps / round(batch * steps / 600))  # the mean of a fixed order
                    self.near(answer["batch"], order if answer["sampler"].startswith("cyclic") else batch, 1e-9)
                    given = int(arguments[arguments.index("--batch") + 1]) if "--batch" in arguments else None
                    if answer["sampler"].startswith("cyclic") and given:
                        self.assertEqual(answer["sampler"], "cyclic:%d" % given)
        self.refuse(*self.csv, "--steps", "571", "--epochs", "1", *self.asked, says=["--batch", "--sampling poisson"])
        self.refuse(*self.csv, "--steps", "15", "--batch", "60", *self.asked, says=["--steps 15", "10 steps"])

    def test_every_sampling_that_makes_sense_is_accepted(self):
        for sampling, kinds, plan in [("none", {"cyclic"}, self.plan), ("poisson", {"poisson"}, self.plan),
                                      ("allocation", {"allocation"}, ["--batch", "7", "--epochs", "2"]),
                                      ("block-cyclic", {"cyclic", "poisson", "block-cyclic"}, self.plan),
                                      ("balls-in-bins", {"balls-in-bins"}, ["--batch", "7", "--epochs", "2"])]:
            with self.subTest(sampling=sampling):
                answer = self.train(*plan, "--epsilon", "1", "--delta", "1e-8", "--sampling", sampling)
                self.assertIn(answer["sampler"].split(":")[0], kinds)
                if plan is not self.plan:
                    self.assertEqual(answer["steps"], 172)  # two whole epochs of round(600/7) steps
        answer = self.train(*self.plan, *self.asked, "--sampling", "min-sep", "--family", "banded-toeplitz")
        self.assertIn(answer["sampler"].split(":")[0], {"cyclic", "min-sep"})
        capped = self.train(*self.plan, "--epsilon", "0.5", "--delta", "1e-5", "--batch-cap", "90")
        self.assertIn(",cap:90:600", capped["sampler"])
        self.refuse(*self.csv, *self.plan, *self.asked, "--batch-cap", "50", says=["--batch-cap 50", "60"])
        self.refuse(*self.csv, *self.plan, *self.asked, "--sampling", "allocation", "--batch-cap", "90", says="--batch-cap")
        for sampling in ("block-cyclic", "balls-in-bins", "any"):
            self.refuse(*self.csv, *self.plan, "--noiseless", "--sampling", sampling, says="--noiseless")

    def test_users_are_sampled_in_the_same_way(self):
        data = ["--data", self.write("u.csv", table(600, 1, 40)), "--test-data", self.write("v.csv", table(99, 2, 9))]
        user = ["--unit", "user", "--user", "who", "--batch", "8", "--epochs", "5"]
        answer = self.train(*user, "--epsilon", "1", "--delta", "1e-5", data=data)
        self.assertEqual((answer["units"], answer["steps"]), (40, 25))
        self.near(answer["batch"], 8, 1e-9)
        self.assertNotIn("cyclic:", answer["sampler"].split("block-")[-1][:7])
        self.assertIn("one user", answer["statement"])

    def test_a_run_with_defaults_is_resumed_and_compared(self):
        asked = [*self.plan, *self.asked, "--key-file", self.path("key"), "--checkpoint", self.path("run"), "--every", "10"]
        whole = self.train(*asked, "--out", self.path("a"))
        self.assertEqual(self.train(*asked, "--out", self.path("b"))["resumed_at"], whole["steps"])
        self.assertEqual(self.weights("a"), self.weights("b"))
        for arguments, says in [(["--schedule", "constant"], ["schedule is ", "and constant here"]),
                                (["--schedule", "linear:0.5"], "schedule is "),
                                (["--sampling", "poisson"], "--sampling"), (["--sampling", "none"], "--sampling"),
                                (["--workload", "own"], "--workload")]:
            self.refuse(*self.csv, *asked, *arguments, says=says)
        self.refuse(*self.csv, "--batch", "30", "--epochs", "5", *asked[4:], says="--steps")
        self.refuse(*self.csv, "--steps", "50", "--epochs", "10", *asked[4:], says="--batch")

    def test_two_schedules_of_one_text_are_two_runs(self):
        """Batches and noise follow the factors themselves: the name of a file would not tell two runs apart. At tiny rates the
        weights are the rate times a sum over the batches, so that with the same batches twice the factors give twice the weights."""
        asked = ["--steps", "10", "--epochs", "1"]
        self.train(*asked, *self.private, *self.seed, "--checkpoint", self.path("c"))
        found = []
        for factor in (1e-6, 2e-6):
            self.train(self.path("c.mechanism"), "--noiseless", *self.seed, "--clip", "1", "--schedule", self.rates([factor] * 10), "--out",
                       self.path("w"))
            found.append(struct.unpack("<%dd" % 12, self.weights("w")[-96:]))
        self.assertGreater(max(abs(b / a - 2) for a, b in zip(*found)), 0.01)


class Usage(Training):
    def test_train_refuses_missing_and_bad_options(self):
        good = [*self.plan, *self.private]
        for arguments, says in [
                (self.plan, "--epsilon"),
                ([*self.plan, "--epsilon", "1"], "--delta"),
                ([*self.plan, "--epsilon", "0", "--delta", "1e-5"], "--epsilon"),
                (["--batch", "60", *self.private], "two of"),
                ([*good, "--steps", "50"], "two of"),
                (["--batch", "601", "--epochs", "2", *self.private], ["--batch 601", "600 training examples"]),
                (["--steps", "2", "--epochs", "3", *self.private], "--epochs 3"),
                (["--steps", "15", "--batch", "60", "--noiseless"], ["--steps 15", "10 steps"]),
                (["--steps", "571", "--epochs", "1", "--noiseless"], "--batch"),
                (["--steps", "15", "--batch", "60", *self.private], "1.5 epochs"),
                ([*good, "--sampling", "poisson:0.1"], "twice"),
                ([*self.plan, *self.private[:4], "--sampling", "poisson:0.1"], "block-cyclic"),
                ([*good, "--model", "mlp:0"], "--model mlp:0"),
                ([*good, "--model", "cnn"], "--model cnn"),
                ([*good, "--unit", "user"], "--user"),
                ([*good, "--unit", "house"], "--unit house"),
                ([*good, "--optimizer", "lion"], "sgd, adam"),
                ([*good, "--optimizer", "adam", "--momentum", "0.5"], "--momentum"),
                ([*good, "--momentum", "1"], "--momentum 1"),
                ([*good, "--learning-rate", "0"], "--learning-rate 0"),
                ([*good, "--schedule", "momentum:0.5"], "--schedule"),
                ([*good, "--schedule", "cooldown:2:0"], "--schedule"),
                ([*good, "--clip", "0"], "--clip 0"),
                ([*good, "--noiseless"], "--noiseless"),
                ([*good, "--hold-out", "10"], "--hold-out"),
                ([*good, "--every", "5"], "--checkpoint"),
                ([*good, "--checkpoint", self.path("x")], "--key-file"),
                ([*good, "--key-file", "k", "--testing-seed", "1"], "only one"),
                ([*good, "--data", "x"], "--data is given twice"),
                ([*good, "--family", "toeplitz"], "identity")]:
            with self.subTest(arguments=arguments):
                self.refuse(*self.csv, *arguments, says=says)
        self.refuse(*self.plan, "--noiseless", says="--data")
        self.refuse("--data", self.directory.name, *self.plan, "--noiseless", code=1, says="train-images-idx3-ubyte")
        self.refuse("--data", self.directory.name, "--test-data", "y", *self.plan, "--noiseless", says="--data is a directory")
        self.refuse(*self.csv[:2], *self.plan, "--noiseless", says="--hold-out")
        self.refuse(*self.csv[:2], *self.plan, "--noiseless", "--hold-out", "600", says="--hold-out 600")
        self.assertEqual(self.left_behind(), ["test.csv", "train.csv"])

    def test_bad_data_are_refused_by_line(self):
        for text, says in [("x,y,label\n1,none,0\n", "line 2: 'none'"), ("x,y,label\n1,2,-1\n", "line 2: '-1'"),
                           ("x,y,label\n1,2,0\n1,2\n", "line 3"), ("x,y\n1,2\n", "no column 'label'")]:
            self.refuse("--data", self.write("bad.csv", text), *self.csv[2:], *self.plan, "--noiseless", code=1,
                        says=says)
        small = self.write("small.csv", "x,y,label\n1,2,0\n2,1,3\n")
        self.refuse("--data", small, *self.csv[2:], *self.plan, "--noiseless", says="--batch 60")
        few = self.write("few.csv", "x,y,label\n1,2,0\n")
        self.refuse("--data", few, *self.csv[2:], "--steps", "3", "--batch", "1", "--noiseless", code=1,
                    says="4 classes")
        self.refuse(*self.csv[:2], "--test-data", self.write("other.csv", "x,label\n1,0\n"), *self.plan, "--noiseless",
                    code=1, says="1 features")
        turned = self.write("turned.csv", "y,x,label\n1,2,0\n")
        self.refuse(*self.csv[:2], "--test-data", turned, *self.plan, "--noiseless", code=1, says="another order")

    def test_weights_that_diverge_end_the_run_without_a_file(self):
        """Weights that grow beyond float end the run with the step, and no file."""
        self.refuse(*self.csv, "--batch", "60", "--epochs", "50", "--noiseless", "--learning-rate", "1e11", "--decay",
                    "0", "--momentum", "0.99", "--model", "mlp:4", "--schedule", "lr:" + self.growing(), "--out",
                    self.path("w"), code=1, says=["step ", "not finite"])
        self.assertNotIn("w", self.left_behind())

    def growing(self):
        values = [10.0 ** min(29, t) for t in range(500)]
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (500,), }"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        return self.write("lr.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                          struct.pack("<500d", *values))


if __name__ == "__main__":
    unittest.main()
