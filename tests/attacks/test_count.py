# SPDX-License-Identifier: Apache-2.0
"""Attacks on the state of a count: each test describes the attack and the promise."""
import os
import shutil
import subprocess
import unittest

from common import DPMF, Case

NUMBERS = "".join("%d\n" % (t * 37 % 11) for t in range(40))


class Stream(Case):
    def setUp(self):
        super().setUp()
        self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--bound", "none", "-o", self.path("m"))

    def count(self, text, *arguments, out="out", key="key"):
        """Lines from a file, with a state file; (exit code, stderr)."""
        with open(self.write("data", text), "rb") as data:
            done = subprocess.run([DPMF, "count", "--uncalibrated", self.path("m"), "--key-file", self.path(key), "--out", self.path(out),
                                   *map(str, arguments)], stdin=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  check=False)
        self.assertEqual(done.stdout, b"")
        return done.returncode, done.stderr.decode()

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def lines(self, first, last):
        return "".join(NUMBERS.splitlines(True)[first:last])

    def killed_after(self, count):
        """A program that was killed after it had answered `count` lines: their batch is the last of the state file."""
        with subprocess.Popen([DPMF, "count", "--uncalibrated", self.path("m"), "--key-file", self.path("key"), "--out", self.path("out")],
                              stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            child.stdin.write(self.lines(0, count).encode())
            child.stdin.flush()
            while not os.path.exists(self.path("out")) or self.read("out").count(b"\n") < count:
                self.assertIsNone(child.poll())
            child.kill()

    def test_an_older_state_with_a_longer_output(self):
        """A state file from a backup, beside the output of today: its rows of noise would meet other numbers, and the
        difference of two lines would have no noise. The output is longer than the state knows: refused."""
        self.assertEqual(self.count(self.lines(0, 10))[0], 0)
        shutil.copy(self.path("key.state"), self.path("old"))
        self.assertEqual(self.count(self.lines(0, 20))[0], 0)
        before = self.read("out")
        shutil.copy(self.path("old"), self.path("key.state"))
        code, said = self.count(self.lines(0, 10) + "999\n" * 10)
        self.assertEqual((code, self.read("out")), (1, before))
        self.assertIn("the state file is an older copy", said)

    def test_the_same_input_after_an_older_state_gives_the_same_lines(self):
        """State and output both from the backup cannot be detected; the same input then gives the same bits."""
        self.assertEqual(self.count(self.lines(0, 10))[0], 0)
        for name in ("key.state", "out"):
            shutil.copy(self.path(name), self.path("old " + name))
        self.assertEqual(self.count(self.lines(0, 20))[0], 0)
        before = self.read("out")
        for name in ("key.state", "out"):
            shutil.copy(self.path("old " + name), self.path(name))
        self.assertEqual(self.count(self.lines(0, 20))[0], 0)
        self.assertEqual(self.read("out"), before)

    def test_input_that_was_counted_is_changed(self):
        """A line that was released is changed in the file, and the program continues: refused, by a keyed hash."""
        self.assertEqual(self.count(self.lines(0, 10))[0], 0)
        before = self.read("out")
        changed = self.lines(0, 3) + "500\n" + self.lines(4, 20)
        for text in (changed, "1" + self.lines(0, 20), self.lines(0, 5)):
            code, said = self.count(text)
            self.assertEqual((code, self.read("out")), (1, before))
        self.assertIn("were counted", said)
        self.assertIn("differ from those that were counted", self.count(changed)[1])
        self.assertEqual(self.count(self.lines(0, 20))[0], 0)

    def test_two_programs_with_one_state(self):
        """The second one is refused while the first one lives, and both cannot make the file."""
        with subprocess.Popen([DPMF, "count", "--uncalibrated", self.path("m"), "--key-file", self.path("key"), "--out", self.path("out")],
                              stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            child.stdin.write(b"1\n")
            child.stdin.flush()
            while not os.path.exists(self.path("out")) or self.read("out") == b"":
                self.assertIsNone(child.poll())
            code, said = self.count("1\n2\n", out="other")
            self.assertEqual(code, 1)
            self.assertIn("in use by another program", said)
            self.assertFalse(os.path.exists(self.path("other")))
            child.stdin.close()
            self.assertEqual(child.wait(60), 0)

    def test_two_programs_make_the_state(self):
        """Both began before there was a state file: the one that answers second is refused, and answers nothing."""
        asked = [DPMF, "count", "--uncalibrated", self.path("m"), "--key-file", self.path("key"), "--out"]
        self.assertEqual(self.count("", key="key")[0], 0)  # which makes the key
        children = [subprocess.Popen([*asked, self.path(name)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
                    for name in ("a", "b")]
        while not all(os.path.exists(self.path(name)) for name in ("a", "b")):
            self.assertTrue(all(child.poll() is None for child in children))
        for child, text in zip(children, (b"1\n", b"2\n")):
            child.communicate(text)
        self.assertEqual(sorted(child.returncode for child in children), [0, 1])
        self.assertEqual(sorted(len(self.read(name)) > 0 for name in ("a", "b")), [False, True])

    def test_a_byte_of_the_state_is_changed(self):
        """After a change of any byte that is read there is no output, or the output is right."""
        self.killed_after(5)
        state, output = self.read("key.state"), self.read("out")
        self.assertEqual(self.count(self.lines(0, 10))[0], 0)
        expected = self.read("out")
        refused = 0
        for place in [0, 40, 100, 479, 511, 512, 520, 1000, 1023, 1024, 1030, 1535, *range(4096, len(state), 61)]:
            changed = bytearray(state)
            changed[place] ^= 1
            for name, content in (("key.state", changed), ("out", output)):
                with open(self.path(name), "wb") as file:
                    file.write(content)
            code, said = self.count(self.lines(0, 10))
            if code == 0:
                self.assertEqual(self.read("out"), expected)
            else:
                refused += 1
                self.assertEqual(self.read("out"), output, place)
                self.assertTrue("changed" in said or "not a state file" in said or "accepted" in said or
                                "another" in said, said)
        self.assertGreater(refused, 12)

    def test_the_newest_slot_is_damaged(self):
        """A damaged slot would make the one before it look current, and its rows would be repeated: the seal detects it."""
        self.killed_after(5)
        with open(self.path("key.state"), "r+b") as file:
            file.seek(4096 + 30)
            file.write(b"\xff")
        code, said = self.count(self.lines(0, 10))
        self.assertEqual(code, 1)
        self.assertIn("has been changed", said)

    def test_an_output_that_was_changed(self):
        self.killed_after(5)
        for content, words in [(b"1.0 2.0\n" * 90, "older"), (b"x" + self.read("out")[1:], "changed"),
                               (self.read("out") + b"1 2\n", "older")]:
            with open(self.path("other"), "wb") as file:
                file.write(content)
            code, said = self.count(self.lines(0, 10), out="other")
            self.assertEqual((code, self.read("other")), (1, content))
            self.assertIn(words, said)

    def test_a_part_of_the_last_batch_is_written(self):
        """A power cut may leave any part of the last batch, to the byte: the rest is written again."""
        self.killed_after(6)
        state, output = self.read("key.state"), self.read("out")
        self.assertEqual(self.count(self.lines(0, 20))[0], 0)
        expected = self.read("out")
        for size in range(len(output) + 1):
            for name, content in (("key.state", state), ("out", output[:size])):
                with open(self.path(name), "wb") as file:
                    file.write(content)
            self.assertEqual(self.count(self.lines(0, 20)), (0, self.count_note()))
            self.assertEqual(self.read("out"), expected)

    @staticmethod
    def count_note():
        return "dpmf: not calibrated: the mechanism has no sigma, and sigma = 1 is used\n"

    def test_another_run_with_the_key(self):
        """Another mechanism, clip or number of columns under the same key file is refused by name."""
        self.assertEqual(self.count(self.lines(0, 5))[0], 0)
        self.assertIn("clip is 1 in it and 2 here", self.count("1\n", "--clip", 2)[1])
        self.assertIn("dim is 1 in it and 2 here", self.count("1 2\n", "--columns", 2)[1])
        self.ok("evaluate", "--steps", 60, "--family", "identity", "--bound", "none", "-o", self.path("m"))
        self.assertIn("the mechanism has digest", self.count("1\n")[1])
        self.assertIn("a key file serves one run", self.count("1\n")[1])
        self.refused(1, "noise", "--uncalibrated", self.path("m"), "--dim", 1, "--rows", "0:1", "--key-file", self.path("key"), "-o",
                     self.path("rows"), says="the state file")

    def test_the_state_lets_nobody_in(self):
        self.assertEqual(self.count(self.lines(0, 5))[0], 0)
        self.assertEqual(os.stat(self.path("key.state")).st_mode & 0o777, 0o600)
        os.chmod(self.path("key.state"), 0o640)
        self.assertIn("has mode 640", self.count(self.lines(0, 9))[1])

    def test_an_output_without_its_state(self):
        """The state file was removed: the noise would begin again. The output exists and shows that it had begun."""
        self.assertEqual(self.count(self.lines(0, 5))[0], 0)
        os.remove(self.path("key.state"))
        code, said = self.count(self.lines(0, 9))
        self.assertEqual(code, 1)
        self.assertIn("it belongs to another run", said)


if __name__ == "__main__":
    unittest.main()
