# SPDX-License-Identifier: Apache-2.0
"""bench/learning: the scripts that train CNNs and transformers take a few steps and write their tables.

Skipped without torch, and where the package's tests are without the repository.
"""

import struct
import sys
import unittest

from support import REPOSITORY, Case

sys.path.insert(0, str(REPOSITORY / "bench" / "learning"))
try:
    import cnn
    import training_runs as runs
    import text
    import torch
    import verses
except ImportError:
    torch = None


def window(words):
    """A stream of compress(1) without its header, of nine-bit literals alone."""
    bits = "".join(format(letter, "09b")[::-1] for letter in words.encode("ascii"))
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


@unittest.skipIf(torch is None, "torch or bench/learning is not here")
class Learning(Case):
    def write_bible(self, count):
        lines = ["Title\n"] + ["Ge1:%d And it came, to pass %d!\n" % (n, n) for n in range(count)]
        windows = [window("".join(lines[at : at + 5])) for at in range(0, len(lines), 5)]
        starts = [92 + 4 * len(windows) + sum(map(len, windows[:at])) for at in range(len(windows))]
        path = self.folder / "bible.data"
        path.write_bytes(bytes(88) + struct.pack(">%dI" % (1 + len(starts)), len(starts), *starts) + b"".join(windows))
        return path

    def take_steps(self, task, names):
        path = self.folder / "runs.csv"
        said = []
        task.first_rates = lambda name: (0.1, 0.3)
        runs.RATES, ladder = (0.1, 0.3), runs.RATES
        self.addCleanup(setattr, runs, "RATES", ladder)
        for _ in range(2):  # the second time finds everything done
            runs.make_runs(task, path, [8.0], names, 2, say=lambda *row, flush: said.append(row))
        rows = runs.read_rows(path)
        self.assertEqual(len(said), len(rows))
        self.assertEqual(sorted((r["mechanism"], r["seed"]) for r in rows), sorted([(n, s) for n in names for s in "001"]))
        return rows

    def test_verses_are_read_and_encoded(self):
        found = verses.read_verses(self.write_bible(12))
        self.assertEqual(found[:2], ["And it came, to pass 0!", "And it came, to pass 1!"])
        self.assertEqual(len(found), 12)
        before, after = verses.encode(["Ab.", "x" * 100])
        number = verses.ALPHABET.index
        self.assertEqual(before[0, :5].tolist(), [0, number("a"), number("b"), number("."), 0])
        self.assertEqual(after[0, :5].tolist(), [number("a"), number("b"), number("."), 0, verses.IGNORED])
        self.assertTrue(bool((after[1] == number("x")).all()))

    def test_the_speller_does_not_look_ahead(self):
        torch.manual_seed(1)
        model, letters = verses.Speller(), torch.randint(len(verses.ALPHABET), (1, verses.LENGTH))
        changed = letters.clone()
        changed[0, 10:] = (changed[0, 10:] + 1) % len(verses.ALPHABET)
        same = model(letters)[0] == model(changed)[0]
        self.assertTrue(bool(same[:10].all()))
        self.assertFalse(bool(same[10:].all(1).any()))

    def test_a_transformer_takes_steps(self):
        task = text.make_task(self.write_bible(24), train=12, batch=6, held_out=6, test=6)
        self.assertEqual([len(part[1]) for part in (task.train, task.held_out, task.test)], [12, 6, 6])
        rows = self.take_steps(task, ["dpsgd", "tvblt"])
        self.assertTrue(all(-10 < float(row["test"]) < 0 for row in rows))

    def test_a_cnn_takes_steps(self):
        torch.manual_seed(1)
        part = torch.randn(24, 1, 28, 28), torch.randint(10, (24,))
        task = runs.Task(part, part, part, cnn.make_model, cnn.accuracy, 2, 8, None)
        self.take_steps(task, ["bandmf", "tvblt-1"])

    def test_a_rate_at_the_edge_asks_for_one_beyond(self):
        def rows(scores):
            return [
                {"mechanism": "blt", "epsilon": "8", "seed": "0", "rate": rate, "held_out": score}
                for rate, score in scores.items()
            ]

        self.assertEqual(runs.next_rate([], "blt", 8.0, (0.3, 1.0)), (0.3, None))
        self.assertEqual(runs.next_rate(rows({"0.3": 1, "1": 2}), "blt", 8.0, (0.3, 1.0)), (3.0, 1.0))
        self.assertEqual(runs.next_rate(rows({"0.3": 2, "1": 1}), "blt", 8.0, (0.3, 1.0)), (0.1, 0.3))
        self.assertEqual(runs.next_rate(rows({"0.3": 1, "1": 2, "3": 0}), "blt", 8.0, (0.3, 1.0)), (None, 1.0))


if __name__ == "__main__":
    unittest.main()
