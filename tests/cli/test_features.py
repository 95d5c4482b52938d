# SPDX-License-Identifier: Apache-2.0
"""train and predict on images: scattering features, the files that keep them, and CIFAR-10's binary format."""
import gzip
import json
import os
import random
import shutil
import unittest

from harness import Case, run
from test_train import idx

SIDE = 12


def stripes(count, seed):
    """Noisy images of stripes, along (class 0) or across (class 1), at a random place: a linear model on pixels learns nothing."""
    numbers = random.Random(seed)
    images, labels = [], []
    for _ in range(count):
        label, shift = numbers.randrange(2), numbers.randrange(6)
        images += [min(255, 170 * ((((i, j)[label] + shift) // 3) % 2) + numbers.randrange(80))
                   for i in range(SIDE) for j in range(SIDE)]
        labels.append(label)
    return images, labels


def records(count, seed):
    """CIFAR-10: the same in 32 x 32, one colour after the other."""
    numbers = random.Random(seed)
    found = b""
    for _ in range(count):
        label, shift = numbers.randrange(2), numbers.randrange(8)
        found += bytes([label] + [min(255, 60 * colour + 90 * ((((i, j)[label] + shift) // 4) % 2) + numbers.randrange(40))
                                  for colour in range(3) for i in range(32) for j in range(32)])
    return found


class Features(Case):
    def setUp(self):
        super().setUp()
        self.data = self.images("images", 300, 100)
        self.runs = ["--steps", "50", "--epochs", "5", "--noiseless", "--learning-rate", "20", "--testing-seed", "3"]

    def images(self, name, train, test):
        directory = self.path(name)
        os.makedirs(directory)
        for what, count, seed in [("train", train, 1), ("t10k", test, 2)]:
            images, labels = stripes(count, seed)
            for kind, content in [("images-idx3", idx(3, (count, SIDE, SIDE), images)), ("labels-idx1", idx(1, (count,), labels))]:
                with open(os.path.join(directory, "%s-%s-ubyte" % (what, kind)), "wb") as file:
                    file.write(content)
        return directory

    def kept(self, directory=None):
        return sorted(name for name in os.listdir(directory or self.data) if name.startswith("dpmf-features-"))

    def train(self, *arguments, data=None, notes=(), **options):
        """The answer without its times; `notes` are the lines on stderr besides the one about privacy."""
        code, out, err = run("train", "--data", data or self.data, *self.runs, *arguments, "--json", **options)
        self.assertEqual(code, 0, err)
        lines = [line for line in err.splitlines() if not line.startswith("dpmf: not private")]
        self.assertEqual(len(lines), len(notes), err)
        for line, words in zip(lines, notes):
            self.assertIn(words, line)
        answer = json.loads(out)
        del answer["seconds"], answer["seconds_noise"]
        return answer

    def test_features_make_a_linear_model_good_and_are_named(self):
        pixels = self.train()
        self.assertEqual((pixels["features"], pixels["dim"]), ("none", 2 * (SIDE * SIDE + 1)))
        self.assertLess(pixels["test_accuracy"], 0.75)
        answer = self.train("--features", "scattering:1,4", "--cache", "none")
        self.assertEqual((answer["features"], answer["dim"]), ("scattering:1,4", 2 * (5 * 6 * 6 + 1)))
        self.assertGreater(answer["test_accuracy"], 0.95)
        self.assertEqual(self.kept(), [])
        code, out, _ = run("train", "--data", self.data, *self.runs, "--features", "scattering", "--cache", "none")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^features +scattering$")

    def test_the_same_options_in_other_words_are_the_same_features(self):
        self.assertEqual(self.train("--features", "scattering")["test_loss"], self.train("--features", "scattering:2,8")["test_loss"])
        self.assertEqual(len(self.kept()), 2)

    def test_pink_noise_sets_another_scale_in_a_file_of_its_own(self):
        groups = self.train("--features", "scattering:1,4")
        pink = self.train("--features", "scattering:1,4,pink")
        self.assertEqual((pink["features"], pink["dim"]), ("scattering:1,4,pink", groups["dim"]))
        self.assertGreater(pink["test_accuracy"], 0.9)
        self.assertNotEqual(pink["test_loss"], groups["test_loss"])
        self.assertEqual(len(self.kept()), 4)
        self.assertEqual(self.train("--features", "scattering:1,4,pink"), pink)
        for text in ("scattering:1,4,brown", "scattering:1,4,", "scattering:1,pink", "scattering:1,4,pink,2"):
            code, _, err = run("train", "--data", self.data, *self.runs, "--features", text)
            self.assertEqual(code, 2)
            self.assertIn("J,L are two whole numbers, for example scattering:2,8 or scattering:2,8,pink", err)

    def test_a_second_run_reads_the_kept_features_and_finds_a_changed_byte(self):
        words = ["--features", "scattering:1,4"]
        first = self.train(*words, "--cache", "none")
        self.assertEqual(self.train(*words), first)
        kept = self.kept()
        self.assertEqual(len(kept), 2)
        times = [os.stat(os.path.join(self.data, name)).st_mtime_ns for name in kept]
        self.assertEqual(self.train(*words), first)
        self.assertEqual([os.stat(os.path.join(self.data, name)).st_mtime_ns for name in kept], times)
        for name in kept:
            with open(os.path.join(self.data, name), "r+b") as file:
                content = file.read()
                file.seek(len(content) // 2)
                file.write(bytes([content[len(content) // 2] ^ 4]))
        note = "were changed; they are computed again"
        self.assertEqual(self.train(*words, notes=[note, note]), first)
        self.assertEqual(self.train(*words), first)
        os.truncate(os.path.join(self.data, kept[0]), 1000)
        self.assertEqual(self.train(*words, notes=["it has 1000 bytes instead of"]), first)
        self.assertEqual(self.kept(), kept)
        self.train("--features", "scattering:2,4")
        self.assertEqual(len(self.kept()), 4)

    def test_the_cache_is_where_the_option_says(self):
        words, other = ["--features", "scattering:1,2"], self.path("other")
        os.mkdir(other)
        self.train(*words, "--cache", other)
        self.assertEqual((len(self.kept(other)), self.kept()), (2, []))
        self.refused(2, "train", "--data", self.data, *self.runs, "--cache", other, says="--features scattering")
        self.refused(1, "train", "--data", self.data, *self.runs, *words, "--cache", self.path("missing"), says="missing")
        self.refused(2, "train", "--data", self.data, *self.runs, *words, "--cache", self.write("file", "x"), says="no directory")

    def test_the_user_has_a_cache_where_the_data_cannot_be_beside_it(self):
        # In a directory whose name leaves room for the data files, and none for the longer name of the features: a test that
        # runs as root can write to any directory.
        parts = [self.directory.name]
        while sum(len(part) + 1 for part in parts) < 3900:
            parts.append("d" * 100)
        parts.append("e" * (4054 - sum(len(part) + 1 for part in parts)))
        data = self.images(os.path.join(*parts[1:]), 60, 30)
        self.addCleanup(shutil.rmtree, self.path(parts[1]))
        words, home = ["--features", "scattering:1,2"], self.path("home")
        environment = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
        first = self.train(*words, data=data, env={**environment, "HOME": home})
        self.assertEqual(len(self.kept(os.path.join(home, ".cache", "dpmf"))), 2)
        self.assertEqual(os.stat(os.path.join(home, ".cache", "dpmf")).st_mode & 0o777, 0o700)
        own = self.path("own/cache")
        self.assertEqual(self.train(*words, data=data, env={**environment, "HOME": home, "XDG_CACHE_HOME": own}), first)
        self.assertEqual(len(self.kept(os.path.join(own, "dpmf"))), 2)
        nowhere = {**environment, "HOME": "/proc/none"}
        self.assertEqual(self.train(*words, data=data, env=nowhere, notes=["are not kept"] * 2), first)

    def test_a_held_out_part_has_the_features_of_the_whole(self):
        words = ["--features", "scattering:1,4"]
        whole = self.train(*words)
        held = self.train(*words, "--hold-out", "90")
        self.assertEqual((held["examples"], held["evaluated_on"], len(self.kept())), (210, "hold-out", 2))
        self.assertGreater(held["test_accuracy"], 0.9)
        self.assertGreater(self.train(*words, "--scale", "rows")["test_accuracy"], 0.9)
        self.assertEqual(self.train(*words), whole)

    def test_predict_needs_the_same_features(self):
        words = ["--features", "scattering:1,4"]
        trained = self.train(*words, "--out", self.path("w.npy"))
        answer = self.json("predict", self.path("w.npy"), "--data", self.data, *words)
        self.assertEqual(answer["accuracy"], trained["test_accuracy"])
        self.refused(1, "predict", self.path("w.npy"), "--data", self.data, says="362 weights")

    def test_a_checkpoint_belongs_to_its_features(self):
        words = ["--checkpoint", self.path("c"), "--features"]
        self.train(*words, "scattering:2,1")
        code, _, err = run("train", "--data", self.data, *self.runs, *words, "scattering:2,2")
        self.assertEqual(code, 2, err)
        self.assertIn("belongs to another run", err)

    def test_bad_features_are_refused(self):
        for text, says in [("pixels", "none, scattering, scattering:J,L and scattering:J,L,pink"), ("scattering:", "two whole numbers"),
                           ("scattering:2", "two whole numbers"), ("scattering:2,8,1", "two whole numbers"),
                           ("scattering:a,8", "two whole numbers"), ("scattering:0,8", "accepted: 1 to 6"),
                           ("scattering:4,8", "12 x 12"), ("scattering:2,17", "accepted: 1 to 16"),
                           ("scattering:-1,8", "accepted: 1 to 6")]:
            with self.subTest(text=text):
                self.refused(2, "train", "--data", self.data, *self.runs, "--features", text, says=says)
        table = self.write("t.csv", "a,b,label\n" + "1,2,0\n3,4,1\n" * 30)
        self.refused(2, "train", "--data", table, "--hold-out", "10", "--batch", "5", "--epochs", "1", "--noiseless",
                     "--features", "scattering", says="needs images")

    def test_cifar_files_are_read_plain_and_packed(self):
        answers = []
        for packed in [False, True]:
            directory = self.path("packed" if packed else "plain")
            os.mkdir(directory)
            for name, count, seed in [("data_batch_%d" % i, 20, i) for i in range(1, 6)] + [("test_batch", 40, 9)]:
                with open(os.path.join(directory, name + ".bin" + (".gz" if packed else "")), "wb") as file:
                    file.write(gzip.compress(records(count, seed)) if packed else records(count, seed))
            answers.append(self.train("--features", "scattering:2,2", data=directory))
        self.assertEqual(*answers)
        self.assertEqual((answers[0]["dim"], answers[0]["examples"]), (10 * (3 * 9 * 64 + 1), 100))
        self.assertGreater(answers[0]["test_accuracy"], 0.9)
        self.assertEqual(self.train(data=directory)["dim"], 10 * 3073)
        plain = ["train", "--data", self.path("plain"), *self.runs]
        batch = os.path.join(self.path("plain"), "data_batch_3.bin")
        for content, says in [(records(2, 1)[:-1], "cut short"), (b"\x0a" + records(2, 1)[1:], "label 10 in record 0"),
                              (b"", "no records")]:
            with open(batch, "wb") as file:
                file.write(content)
            self.refused(1, *plain, says=["data_batch_3.bin", says])
        os.remove(batch)
        self.refused(1, *plain, says="neither data_batch_3.bin nor data_batch_3.bin.gz")
        os.mkdir(self.path("empty"))
        self.refused(1, "train", "--data", self.path("empty"), *self.runs,
                     says=["train-images-idx3-ubyte (IDX)", "data_batch_1.bin (CIFAR-10)"])


if __name__ == "__main__":
    unittest.main()
