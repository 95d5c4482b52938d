# SPDX-License-Identifier: Apache-2.0
"""bench/learning: docs/learning.md is what its tables of runs say, and the scripts that need no PyTorch still run."""
import csv
import os
import pathlib
import random
import struct
import subprocess
import sys
import unittest

from harness import DPMF, Case

SOURCE = pathlib.Path(os.environ.get("DPMF_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
LEARNING = SOURCE / "bench" / "learning"
sys.path.insert(0, str(LEARNING))
import results  # noqa: E402
import softmax  # noqa: E402


def script(*words):
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)


class Peak(softmax.Setting):
    """A search whose accuracy is known: it falls with the distance from one point of the ladders."""

    def __init__(self, top):
        self.top, self.tried = top, {}

    def rows(self, stage):
        return {(*point, softmax.TUNE_SEED): accuracy for point, accuracy in self.tried.items()}

    def train(self, stage, rate, clip, seed):
        away = abs(softmax.RATES.index(rate) - softmax.RATES.index(self.top[0]))
        self.tried[rate, clip] = -away - abs(softmax.CLIPS.index(clip) - softmax.CLIPS.index(self.top[1]))


class Learning(Case):
    def write_images(self, part, count):
        """`count` images of 2 x 2 in IDX files; the label is whether the first pixel is bright."""
        source = random.Random(count)
        pixels = bytes(source.randrange(256) for _ in range(4 * count))
        self.write(f"{part}-images-idx3-ubyte", struct.pack(">IIII", 0x803, count, 2, 2) + pixels)
        self.write(f"{part}-labels-idx1-ubyte", struct.pack(">II", 0x801, count) + bytes(p > 127 for p in pixels[::4]))

    def test_the_page_is_what_the_runs_say(self):
        script(LEARNING / "summary.py", self.directory.name)
        for name in ("learning.md", "learning.svg"):
            made = pathlib.Path(self.path(name)).read_text(encoding="utf-8")
            self.assertEqual(made, (SOURCE / "docs" / name).read_text(encoding="utf-8"), name)
        self.assertNotIn("{{", pathlib.Path(self.path("learning.md")).read_text(encoding="utf-8"))

    def test_a_small_run_is_made_once(self):
        self.write_images("train", 300)
        self.write_images("t10k", 50)
        words = [LEARNING / "softmax.py", DPMF, "--data", self.directory.name, "--hold-out", 100, "--output", self.path("runs.csv"),
                 "--epochs", 1, "--epsilons", 8, "--seeds", 2, "--mechanisms", "dp-sgd"]
        script(*words)
        with open(self.path("runs.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        tried = [(float(row["learning_rate"]), float(row["clip"])) for row in rows if row["stage"] == "tune"]
        self.assertEqual(len(set(tried)), len(tried))
        self.assertLessEqual(set(softmax.FIRST), set(tried))
        self.assertEqual([row["seed"] for row in rows if row["stage"] == "final"], ["1", "2"])
        before = pathlib.Path(self.path("runs.csv")).read_text(encoding="utf-8")
        script(*words)
        self.assertEqual(pathlib.Path(self.path("runs.csv")).read_text(encoding="utf-8"), before)

    def test_the_search_leaves_the_grid_where_its_edge_is_best(self):
        for top in ((8, 0.125), (0.05, 8), (1, 2)):
            search = Peak(top)
            self.assertEqual(search.search(), top)
            self.assertLessEqual(set(softmax.neighbours(*top)), set(search.tried))

    def test_intervals_are_students_and_welchs(self):
        one = results.Result([1.0, 2.0, 3.0, 4.0, 5.0], 1, 1, 1, 1)
        other = results.Result([11.0, 12.0, 13.0, 14.0, 15.0], 1, 1, 1, 1)
        self.assertAlmostEqual(one.half, 1.9629, places=3)  # 2.776 sqrt(2.5 / 5)
        gain, half = other.gain(one)
        self.assertEqual(gain, 10.0)
        self.assertAlmostEqual(half, 2.306, places=3)  # eight degrees of freedom, standard error 1
        fewer = results.Result(one.values, 1, 1, 1, 1, larger_is_better=False)
        self.assertEqual(fewer.gain(other)[0], 10.0)

    def test_a_mechanism_whose_search_has_not_ended_is_left_out(self):
        head = "mechanism,epsilon,seed,rate,noise_rms,held_out,test\n"
        seeds = "".join("%s,8,%d,1,%s,0.5,0.%d\n" % (name, seed, noise, 50 + seed) for seed, noise in enumerate(("10", "10.001"), 1)
                        for name in ("dpsgd", "blt"))
        tried = "".join("dpsgd,8,0,%g,10,%g,0.5\n" % trial for trial in ((0.3, 0.4), (1, 0.6), (3, 0.5)))
        edge = "".join("blt,8,0,%g,10,%g,0.5\n" % trial for trial in ((0.3, 0.4), (1, 0.6)))
        found = results.torch_runs(self.write("a.csv", head + tried + edge + seeds))[8.0]
        self.assertEqual((list(found), len(found[results.BASELINE].values)), ([results.BASELINE], 3))
        found = results.torch_runs(self.write("b.csv", head + tried + edge + "blt,8,0,3,10,0.5,0.5\n" + seeds))[8.0]
        self.assertEqual(len(found["BLT"].values), 3)
        other = seeds.replace("10.001", "10.5")  # another mechanism of the same name
        self.assertEqual(len(results.torch_runs(self.write("c.csv", head + tried + edge + other))[8.0][results.BASELINE].values), 2)


if __name__ == "__main__":
    unittest.main()
