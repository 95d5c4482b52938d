# SPDX-License-Identifier: Apache-2.0
"""Inputs that people mistype or mistake: each is refused with one line that names the value, and no file is left."""
import os
import unittest

from harness import Case, run

# Words of the command, what the line names, and the exit code. M is a mechanism, P one without sigma, B a file of random
# bytes, E an empty file, T a text, D a directory, Q a file that does not exist, O the output that must not appear.
WRONG = [
    ("inspect B", "no mechanism file", 1),
    ("account B", "no mechanism file", 1),
    ("verify B", "'B'", 1),
    ("count B", "no mechanism file", 1),
    ("inspect E", "empty", 1),
    ("inspect T", "no mechanism file", 1),
    ("inspect D", "a directory", 1),
    ("inspect Q", "No such file", 1),
    ("noise Q --dim 3 --rows 0:1 -o O", "No such file", 1),
    ("inspect M M", "M", 2),
    ("calibrate M --epsilon 0 --delta 1e-5 -o O", "epsilon 0", 2),
    ("calibrate M --epsilon -1 --delta 1e-5 -o O", "-1", 2),
    ("calibrate M --epsilon nan --delta 1e-5 -o O", "nan", 2),
    ("calibrate M --epsilon 1 --delta 0 -o O", "delta 0", 2),
    ("calibrate M --epsilon 1 --delta 1 -o O", "delta 1", 2),
    ("calibrate M --epsilon 1 --delta 2 -o O", "delta 2", 2),
    ("calibrate M --epsilon 1 -o O", "--delta", 2),
    ("calibrate M --epsilon 1 --delta 1e-5 --sampling poisson -o O", "poisson", 2),
    ("calibrate M --epsilon 1 --delta 1e-5 --sampling poisson:2 -o O", "2", 2),
    ("calibrate M --epsilon 1 --delta 1e-5 --sampling allocation:1,9007199254740992 -o O", "9007199254740992", 2),
    ("calibrate M --epsilon 1 --delta 1e-5 -o D", "a directory", 1),
    ("calibrate M --epsilon 1 --delta 1e-5 -o Q/x", "No such file", 1),
    ("account --sigma 0 --delta 1e-5", "sigma 0", 2),
    ("account --sigma 1e13 --delta 1e-5", "--sigma 1e13", 2),
    ("account --sigma 1", "--epsilon", 2),
    ("account --sigma 1 --epsilon 1 --delta 1e-5", "give two", 2),
    ("account --sigma 1 --delta 1e-5 --sampling shuffle:3", "shuffle", 2),
    ("account --sigma 1 --delta 1e-5 --sampling balls-in-bins:0", "balls-in-bins", 2),
    ("account --sigma 1 --delta 1e-5 --compositions 1e16", "1e16", 2),
    ("account --sigma one --delta 1e-5", "one", 2),
    ("account P", "no sigma", 1),
    ("account M --adjacency both", "both", 2),
    ("evaluate --family identity", "--steps", 2),
    ("evaluate --family identity --steps 0 -o O", "0", 2),
    ("evaluate --family identity --steps 1.5 -o O", "1.5", 2),
    ("evaluate --family identity --steps 9007199254740993 -o O", "9007199254740993", 2),
    ("evaluate --family identity --steps 9007199254740992 --participation cyclic:9007199254740992,1 -o O", "64.0 PiB", 1),
    ("evaluate --family tree --steps 9007199254740992 --participation cyclic:2,4503599627370496 -o O", "accepted up to 1e+10", 1),
    ("evaluate --family nothing --steps 8 -o O", "nothing", 2),
    ("evaluate --family bsr --steps 8 -o O", "--bands", 2),
    ("evaluate --family bsr --bands 9 --steps 8 -o O", "9", 2),
    ("evaluate --family identity --steps 8 --workload sums -o O", "sums", 2),
    ("evaluate --family identity --steps 8 --workload momentum:1 -o O", "momentum", 2),
    ("evaluate --family identity --steps 8192 --workload window:4 --bound none -o O", "4096", 1),
    ("evaluate --family identity --steps 8 --participation cyclic:2 -o O", "'2'", 2),
    ("evaluate --family identity --steps 8 --participation cyclic:9,1 -o O", "k = 9", 2),
    ("evaluate --family identity --steps 8 --participation min-sep:3,8 -o O", "min-sep:3,8", 2),
    ("evaluate --family identity --steps 8 --participation sometimes -o O", "sometimes", 2),
    ("evaluate --family identity --steps 8 --weights T -o O", "T", 1),
    ("evaluate --family toeplitz --steps 8 --parameters T -o O", "T", 1),
    ("evaluate --family toeplitz --steps 8 --parameters B -o O", "B", 1),
    ("optimize --family identity --steps 8 -o O", "identity", 2),
    ("optimize --family blt --steps 8 --buffers 0 -o O", "0", 2),
    ("design --steps 100 -o O", "--epsilon", 2),
    ("design --steps 100 --epsilon 1 --delta 1e-5 --epochs 0 -o O", "0", 2),
    ("noise M --dim 0 --rows 0:1 -o O", "0", 2),
    ("noise M --rows 0:1 -o O", "--dim", 2),
    ("noise M --dim 3 --rows 5:2 -o O", "5:2", 2),
    ("noise M --dim 3 --rows 0:99 -o O", "99", 2),
    ("noise M --dim 3 --rows x -o O", "x", 2),
    ("noise P --dim 3 --rows 0:1 -o O", "no sigma", 1),
    ("noise M --dim 3 --rows 0:1 --key-file Z -o O", "one byte, 32 times", 1),
    ("noise M --dim 3 --rows 0:1 --key-file T -o O", "bytes", 1),
    ("noise M --dim 3 --rows 0:1 --key-file D -o O", "a directory", 1),
    ("count P", "no sigma", 1),
    ("count M --columns 0", "0", 2),
    ("count M --clip 0 --columns 1", "clip", 2),
    ("count M --key-file Z", "one byte, 32 times", 1),
    ("query T --mechanism M --range 1:2", "T", 1),
    ("report M -o D", "a directory", 1),
    ("audit P", "no sigma", 1),
    ("verify Q", "No such file", 1),
    ("train --data Q", "Q", 1),
    ("predict B --model logistic --data T", "logistic", 2),
    ("help nothing", "nothing", 2),
    ("inspct M", "inspct", 2),
    ("inspect M --bogus", "--bogus", 2),
]


class Wrong(Case):
    def test_each_is_refused_in_one_line_that_names_it_and_leaves_nothing(self):
        self.ok("evaluate", "--family", "toeplitz", "--steps", 8, "--epsilon", 1, "--delta", 1e-5, "-o", self.path("M"))
        self.ok("evaluate", "--family", "toeplitz", "--steps", 8, "-o", self.path("P"))
        os.mkdir(self.path("D"))
        self.write("B", bytes((37 * i + 11) % 256 for i in range(5000)))
        self.write("E", b"")
        self.write("T", "these are words\n")
        self.write("Z", bytes(32))
        for name in "TZ":
            os.chmod(self.path(name), 0o600)
        before = sorted(os.listdir(self.directory.name))
        for words, names, expected in WRONG:
            with self.subTest(words):
                code, out, err = run(*words.split(), cwd=self.directory.name)
                self.assertEqual((code, err.count("\n")), (expected, 1), err)
                self.assertTrue(err.startswith("dpmf: "), err)
                self.assertIn(names, err)
                self.assertEqual(out, "")
                self.assertEqual(sorted(os.listdir(self.directory.name)), before)


if __name__ == "__main__":
    unittest.main()
