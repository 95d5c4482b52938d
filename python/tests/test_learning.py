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
    import networks
    import protocol
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

    def take_steps(self, task, methods):
        """A search of two points, and a final run, of each method; the second call finds everything done."""
        path = self.folder / "runs.csv"
        for _ in range(2):
            for method in methods:
                protocol.Cell(task, path, method, 2, 8.0).run(trials=2, seeds=1)
        rows = protocol.read_rows(path)
        self.assertEqual([row["stage"] for row in rows], (["tune"] * 4 + ["final"]) * len(methods))
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
        found = verses.encode(verses.read_verses(self.write_bible(24)))
        part = tuple(tensor[:20] for tensor in found)
        task = networks.Network("text", part, 4, tuple(tensor[20:] for tensor in found), verses.Speller, networks.bits, verses.loss_of,
                                per_epoch=(2, 4))
        task.start = (2, 0.5)
        rows = self.take_steps(task, ["dpsgd", "tvblt"])
        self.assertTrue(all(-10 < float(row["score"]) < 0 for row in rows))

    def test_cnns_take_steps(self):
        torch.manual_seed(1)
        for model, shape in ((networks.tanh_cnn, (1, 28, 28)), (networks.cifar_cnn, (3, 32, 32))):
            part = torch.randn(16, *shape), torch.randint(10, (16,))
            task = networks.Network(model.__name__, part, 8, part, model, per_epoch=(2, 4))
            task.start = (2, 0.5)
            rows = self.take_steps(task, ["chosen"] if model is networks.tanh_cnn else ["blt"])
            self.assertTrue(all(0 <= float(row["score"]) <= 100 for row in rows))
            (self.folder / "runs.csv").unlink()


if __name__ == "__main__":
    unittest.main()
