# SPDX-License-Identifier: Apache-2.0
"""Attacks on what a count takes as its input: each test tells what somebody did, and what must not happen."""
import os
import subprocess
import unittest

from common import DPMF, Case, run

LINES = "".join("%d\n" % (t * 37 % 11) for t in range(10))
DAYS = "day,visits\n" + "".join("2026-01-%02d,%d\n" % (t + 1, t % 4) for t in range(10))


class Input(Case):
    def setUp(self):
        super().setUp()
        self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--bound", "none", "--epsilon", 1, "--delta", 1e-6, "-o",
                self.path("m"))

    def count(self, data, *arguments, pipe=True, out="out"):
        """One run with a key file: (exit code, what it said)."""
        asked = [DPMF, "count", self.path("m"), "--key-file", self.path("key"), "--out", self.path(out), *map(str, arguments)]
        data = data.encode()
        if pipe:
            done = subprocess.run(asked, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                  timeout=60)
        else:
            with open(self.write("data", data), "rb") as file:
                done = subprocess.run(asked, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                      timeout=60)
        return done.returncode, done.stderr.decode()

    def lines(self, out="out"):
        with open(self.path(out), encoding="ascii") as file:
            return file.read().splitlines()

    # ---- a pipe that is run twice ----

    def test_the_same_pipe_twice_counts_everybody_once(self):
        """`cat a.txt | dpmf count`, and the same command again: everybody was in two lines, and epsilon was that of one.
        A pipe does not show where it begins, so a second run is refused until the caller says it."""
        self.assertEqual(self.count(LINES)[0], 0)
        before = self.lines()
        for _ in range(2):
            code, said = self.count(LINES)
            self.assertEqual((code, self.lines()), (2, before))
            self.assertIn("--input whole", said)
            self.assertIn("--input rest", said)
        code, said = self.count(LINES, "--input", "whole")  # the same bytes: nothing is left to count
        self.assertEqual((code, self.lines()), (0, before), said)
        self.assertEqual(self.count(LINES + "7\n", "--input", "whole")[0], 0)
        self.assertEqual(self.lines()[:10], before)
        self.assertEqual(len(self.lines()), 11)
        self.assertEqual(self.count("8\n", "--input", "rest")[0], 0)
        self.assertEqual(len(self.lines()), 12)

    def test_a_named_pipe_that_is_followed_twice(self):
        """The same through --follow: a named pipe is no file that shows where it begins."""
        self.assertEqual(self.count(LINES)[0], 0)
        os.mkfifo(self.path("fifo"))
        with open(os.open(self.path("fifo"), os.O_RDWR), "wb") as fifo:
            fifo.write(LINES.encode())
            fifo.flush()
            code, said = self.count("", "--follow", self.path("fifo"))
        self.assertEqual(code, 2, said)
        self.assertEqual(len(self.lines()), 10)

    def test_a_pipe_with_times_that_were_counted(self):
        """A job pipes the day's export with `--input rest` in its command, and runs twice. The times are in the answers,
        so everybody may know them: lines that are not later than the last counted one are refused."""
        asked = ["--columns", "visits", "--time", "day", "--input", "rest"]
        self.assertEqual(self.count(DAYS, *asked)[0], 0)
        before = self.lines()
        code, said = self.count(DAYS, *asked)
        self.assertEqual((code, self.lines()), (1, before))
        self.assertIn("line 13: its time is not after that of the last line", said)
        head = "day,visits\n"
        code, said = self.count(head + "2026-01-11,1\n2026-01-10,1\n", *asked)  # the first line is later, the second is not
        self.assertEqual((code, len(self.lines())), (1, 11), said)
        self.assertEqual(self.count(head + "2026-01-12,1\n2026-01-12,3\n", *asked)[0], 0)  # two lines of one day
        self.assertEqual(len(self.lines()), 13)
        asked[-1] = "again"  # asked for
        self.assertEqual(self.count(head + "2026-01-12,1\n", *asked)[0], 0)
        self.assertEqual(len(self.lines()), 14)

    def test_times_that_are_numbers(self):
        """9 comes before 10, and a time that was counted stays refused after a run that gave no line."""
        asked = ["--columns", "2,", "--time", "1", "--input", "rest"]
        self.assertEqual(self.count("9,1\n", *asked)[0], 0)
        self.assertEqual(self.count("10,1\n", *asked)[0], 0)
        self.assertEqual(self.count("", *asked)[0], 0)
        self.assertEqual(self.count("1e1,1\n", *asked)[0], 1)
        self.assertEqual(self.count("9,1\n", *asked)[0], 1)
        self.assertEqual(len(self.lines()), 2)

    # ---- a run that releases nothing ----

    def test_an_empty_run_does_not_forget_the_input(self):
        """A job whose export failed gives count nothing. The state then forgot which input came before, and the message
        of the next run led to `--input rest`, with which all lines were counted again."""
        self.assertEqual(self.count(LINES, pipe=False)[0], 0)
        before = self.lines()
        self.assertNotEqual(self.count("")[0], 0)
        for nothing, code in [("", 0), ("oops\n" + LINES, 1), ("\n", 1)]:
            self.assertEqual(self.count(nothing, "--input", "rest")[0], code)
            self.assertEqual(self.lines(), before)
            code, said = self.count(LINES, pipe=False)  # it is still known, and nothing is counted twice
            self.assertEqual((code, self.lines()), (0, before), said)
        code, said = self.count("5\n" + LINES[2:], pipe=False)
        self.assertEqual((code, self.lines()), (1, before))
        self.assertIn("differ from those that were counted", said)

    def test_an_empty_run_after_a_line_without_its_end(self):
        """Where the last line had no line end, a run that gives nothing leaves that on record too."""
        self.assertEqual(self.count(LINES[:-1], pipe=False)[0], 0)
        before = self.lines()
        self.assertEqual(self.count("", "--input", "rest")[0], 0)
        self.assertEqual(self.count(LINES + "3\n", pipe=False)[0], 0)
        self.assertEqual((self.lines()[:10], len(self.lines())), (before, 11))

    # ---- a file that promises nothing ----

    def test_a_mechanism_without_sigma_is_not_released(self):
        """Somebody forgot --epsilon when the file was made: count and noise took sigma = 1, ended with exit code 0 and
        called the release private. Nothing is released until that is asked for, and then it is not called private."""
        self.ok("evaluate", "--steps", 60, "--family", "toeplitz", "--bound", "none", "-o", self.path("u"))
        counted = ["count", self.path("u"), "--out", self.path("sums"), "--json"]
        rows = ["noise", self.path("u"), "--dim", 3, "--rows", "0:2", "--out", self.path("rows"), "--json"]
        for asked in (counted, rows):
            self.refused(1, *asked, says=["not calibrated", "dpmf calibrate", "--uncalibrated"])
            self.assertNotIn(os.path.basename(asked[asked.index("--out") + 1]), self.left_behind())
            code, out, said = run(*asked, "--uncalibrated", "--key-file", self.path(asked[0]))
            self.assertEqual(code, 0, said)
            self.assertEqual((self.parsed(out)["calibrated"], self.parsed(out)["private"]), (False, False))
        self.ok("noise", self.path("u"), "--dim", 3, "--dry-run")  # it makes no noise

    # ---- fields ----

    def test_a_line_with_more_fields_than_the_header(self):
        """`1,234` means 1234 to the person who wrote it; under three columns it was counted as 1 and 234, each a
        number that was not clipped for that column."""
        text = "day,visits,sales\n2026-01-01,1,2\n2026-01-02,1,234,5\n"
        code, said = self.count(text, "--columns", "visits,sales")
        self.assertEqual((code, len(self.lines())), (1, 1))
        self.assertIn("line 3: it has 4 fields, and the first line has 3", said)
        for extra in ("2026-01-02,1,2,", "2026-01-02,1,2,\"", "2026-01-02,1,2,3,4,5"):
            code, said = self.count(text.replace("2026-01-02,1,234,5", extra), "--columns", "visits,sales", "--input", "whole")
            self.assertEqual((code, len(self.lines())), (1, 1), said)
            self.assertIn("line 3: ", said)

    # ---- digits that have no noise ----

    def grown(self, last, name="grown"):
        """A mechanism of an honest file whose rows of noise grow by the factor -last at each step."""
        self.write("c.json", '{"coefficients": [1, %r]}' % last)
        self.ok("evaluate", "--family", "banded-toeplitz", "--steps", 16, "--parameters", self.path("c.json"), "--epsilon", 1,
                "--delta", 1e-6, "-o", self.path(name))
        return self.path(name)

    def test_noise_of_few_bits_under_many_digits(self):
        """C = (1, -20): the noise of line 14 is about 10^18, a double of 53 bits, and the sum was exact in 128 bits. All
        digits were printed, and the last six bits of the difference of two lines were those of the true line."""
        for last in (-20, -6):
            for how in (["--release", "plain"], []):
                code, out, said = run("count", self.grown(last), *how, stdin=None, input=("3\n" * 14).encode())
                self.assertEqual((code, out), (1, ""), said)
                self.assertIn("last digits of the sums would have no noise", said)
            said = self.refused(1, "count", self.grown(last), "--release", "exact")
            self.assertIn("larger than its scale", said)

    def test_plain_sums_are_not_passed_off_as_exact(self):
        """Where a mechanism has no exact release, the default fell back to floating point without a word."""
        self.ok("evaluate", "--family", "tree", "--steps", 16, "--epsilon", 1, "--delta", 1e-6, "-o", self.path("tree"))
        for mechanism in (self.path("tree"), self.grown(-1.5)):
            code, _, said = run("count", mechanism, stdin=None, input=b"1\n")
            self.assertEqual((code, "plain release" in said), (0, True), said)
            self.assertEqual(run("count", mechanism, "--release", "plain", stdin=None, input=b"1\n")[2], "")
            self.assertEqual(run("count", mechanism, "--release", "exact", stdin=None, input=b"1\n")[:2], (1, ""))
        self.assertEqual(run("count", self.path("m"), stdin=None, input=b"1\n")[2], "")  # this one is exact

    # ---- questions about what was released ----

    def test_a_time_is_never_taken_for_a_sum(self):
        """Times that are numbers, or have colons, stand before the sums: query answered `estimate 20240103`, called it
        exact, and a page showed it. The column of a stream is known, or it is asked for."""
        rows = "".join("2024010%d,2026-01-01T0%d:00,%d\n" % (t, t, 5 * t) for t in range(1, 6))
        for time in ("1", "2"):
            found = {}
            for form in ("text", "csv", "jsonl"):
                out = self.path("%s.%s" % (time, form))
                with open(self.write("rows", rows), "rb") as data, open(out, "wb") as file:
                    subprocess.run([DPMF, "count", self.path("m"), "--columns", "3,", "--time", time, "--format", form,
                                    "--testing-seed", "1"], stdin=data, stdout=file, stderr=subprocess.DEVNULL, check=True)
                asked = [out, "--mechanism", self.path("m"), "--range", "1:3"]
                if time == "1" and form != "jsonl":
                    for verb in (["query"], ["report", "--json"]):
                        self.refused(2, *verb, *asked, says=["may be a time", "--columns 1", "--columns 2"])
                    asked += ["--columns", 1]
                found[form] = self.json("query", *asked)["estimate"]
                self.refused(1, "query", *asked, "--column", 2, says="column 2")
                self.refused(2 if form != "jsonl" else 1, "query", *asked[:5], "--columns", 5)
            self.assertEqual(len(set(found.values())), 1, found)
            self.assertLess(abs(found["text"] - 30), 100)


if __name__ == "__main__":
    unittest.main()
