# SPDX-License-Identifier: Apache-2.0
"""dpmf count with a state file: continuing in another program, following a file, repairing a line."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import DPMF, Case

ROWS = ["%d" % (t * 7 % 5) for t in range(40)]


def text(first, last):
    return "".join(row + "\n" for row in ROWS[first:last])


class Resume(Case):
    def mechanism(self, family="toeplitz", *arguments):
        self.ok("evaluate", "--steps", 40, "--family", family, "--bound", "none", *arguments, "-o", self.path("m"))

    def setUp(self):
        super().setUp()
        self.mechanism()
        key = self.write("key", bytes(range(32)))
        os.chmod(key, 0o600)

    def count(self, data, *arguments, pipe=False):
        asked = [DPMF, "count", "--uncalibrated", self.path("m"), *map(str, arguments)]
        data = data.encode()
        if pipe:
            done = subprocess.run(asked, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        else:
            with open(self.write("data", data), "rb") as file:
                done = subprocess.run(asked, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        said = [line for line in done.stderr.decode().splitlines() if "not calibrated" not in line and "plain release" not in line]
        return done.returncode, done.stdout.decode(), said

    def kept(self, data, *arguments, pipe=False):
        return self.count(data, "--key-file", self.path("key"), "--out", self.path("out"), *arguments, pipe=pipe)

    def read(self, name="out"):
        with open(self.path(name), encoding="ascii") as file:
            return file.read()

    def at_once(self, *arguments):
        """All lines in one program, with the same key and a copy of the state file that `kept` begins with."""
        for name in ("one", "key.state"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        self.begin("count", "--uncalibrated", self.path("m"), "--key-file", self.path("key"), *arguments)
        shutil.copy(self.path("key.state"), self.path("begun"))
        shutil.copy(self.path("begun"), self.path("one.state"))
        code, _, said = self.count(text(0, 40), "--key-file", self.path("key"), "--state", self.path("one.state"), "--out",
                                   self.path("one"), *arguments)
        self.assertEqual((code, said), (0, []))
        return self.read("one")

    def test_programs_in_turn_give_the_lines_of_one(self):
        """Families whose buffers are kept and families whose rows are made again; running sums and recursions."""
        numbers = random.Random(5)
        for family, extra in [("toeplitz", []), ("identity", []), ("tree", []), ("toeplitz", ["--workload", "momentum:0.5"]),
                              ("bisr", ["--bands", "4"])]:
            self.mechanism(family, *extra)
            expected = self.at_once()
            for pipe in (False, True):
                if os.path.exists(self.path("out")):
                    os.remove(self.path("out"))
                shutil.copy(self.path("begun"), self.path("key.state"))
                cuts = [0] + sorted(numbers.sample(range(1, 40), 4)) + [40]
                for before, end in zip(cuts, cuts[1:]):
                    code, _, said = self.kept(text(before, end) if pipe else text(0, end), *(["--input", "rest"] if pipe else []),
                                              pipe=pipe)
                    self.assertEqual(code, 0, said)
                    self.assertEqual(self.read(), "".join(expected.splitlines(True)[:end]), (family, pipe))

    def test_how_often_the_state_is_written_changes_no_line(self):
        seed = ["--testing-seed", 4, "--state", self.path("s")]
        self.begin("count", "--uncalibrated", self.path("m"), *seed)
        shutil.copy(self.path("s"), self.path("t"))
        kept = self.count(text(0, 40), *seed)
        self.assertEqual(kept[0], 0)
        self.assertEqual(kept, self.count(text(0, 40), "--testing-seed", 4, "--state", self.path("t"), "--sync-every", 3))
        plain = self.count(text(0, 40), "--testing-seed", 4)
        self.assertEqual((plain[0], plain[2]), (kept[0], kept[2]))
        self.assertNotEqual(plain[1], kept[1])  # the state file has noise of its own

    def test_a_bad_line_is_mended_and_the_count_goes_on(self):
        expected = self.at_once()
        code, _, said = self.kept(text(0, 17) + "oops\n" + text(18, 40))
        self.assertEqual((code, self.read()), (1, "".join(expected.splitlines(True)[:17])))
        self.assertTrue(said[-1].startswith("dpmf: line 18: number 1 is not a finite decimal number"), said)
        self.assertEqual(self.kept(text(0, 40))[0], 0)
        self.assertEqual(self.read(), expected)

    def test_bad_lines_that_are_left_out_stay_out(self):
        expected = self.at_once()
        data = text(0, 10) + "x\n" + text(10, 20) + "\n"
        for end in (len(text(0, 10)), len(data)):
            self.assertEqual(self.kept(data[:end], "--bad-lines", "skip")[0], 0)
        code, _, said = self.kept(data + "nan\n" + text(20, 40), "--bad-lines", "skip")
        self.assertEqual((code, self.read()), (0, expected))
        self.assertEqual(len(said), 1)
        self.assertTrue(said[0].startswith("dpmf: line 23: "), said)

    def test_a_last_line_without_its_end(self):
        expected = self.at_once()
        self.assertEqual(self.kept(text(0, 10).rstrip("\n"))[0], 0)
        self.assertEqual(self.read(), "".join(expected.splitlines(True)[:10]))
        self.assertEqual(self.kept(text(0, 10).rstrip("\n"))[0], 0)
        code, _, said = self.kept(text(0, 10).rstrip("\n") + "9\n" + text(10, 40))
        self.assertEqual(code, 1)
        self.assertIn("line 10 was counted without its line end, and is longer now", said[-1])
        self.assertEqual(self.kept(text(0, 40))[0], 0)
        self.assertEqual(self.read(), expected)

    def test_nothing_more_to_count(self):
        expected = self.at_once()
        for _ in range(3):
            self.assertEqual(self.kept(text(0, 40))[0], 0)
            self.assertEqual(self.read(), expected)
        code, _, said = self.kept(text(0, 40) + "1\n")
        self.assertEqual((code, self.read()), (1, expected))
        self.assertIn("line 41: the mechanism has 40 steps", said[-1])

    def test_standard_output_is_told_again_what_may_not_have_arrived(self):
        expected = self.at_once()
        asked = [DPMF, "count", "--uncalibrated", self.path("m"), "--key-file", self.path("key")]
        with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            child.stdin.write(text(0, 3).encode())
            child.stdin.flush()
            first = [child.stdout.readline().decode() for _ in range(3)]
            child.kill()
        self.assertEqual("".join(first), "".join(expected.splitlines(True)[:3]))
        code, out, said = self.count(text(3, 40), "--key-file", self.path("key"), "--input", "rest", pipe=True)
        self.assertEqual(code, 0)
        self.assertTrue(expected.endswith(out))
        self.assertLessEqual(len(expected.splitlines()) - 3, len(out.splitlines()))
        self.assertIn("printed again", said[0])
        self.assertIn("resuming after line 3", said[1])

    def test_a_new_output_file_after_a_good_end(self):
        expected = self.at_once().splitlines(True)
        self.assertEqual(self.kept(text(0, 10))[0], 0)
        os.rename(self.path("out"), self.path("january"))
        code, _, said = self.kept(text(0, 20))
        self.assertEqual((code, self.read()), (0, "".join(expected[10:20])))
        self.assertIn("is a new file: lines up to 10 are elsewhere", said[0])

    def test_csv_goes_on_with_its_header_read_once(self):
        data = "day,visits\n" + "".join("%d,%s\n" % (t, row) for t, row in enumerate(ROWS))
        asked = ["--columns", "visits", "--time", "day", "--format", "csv"]
        cut = data.index("20,")
        for pieces in ([(data[:cut], False), (data, False)], [(data[:cut], True), ("day,visits\n" + data[cut:], True)]):
            for part, pipe in pieces:
                code, _, said = self.kept(part, *asked, *(["--input", "rest"] if pipe else []), pipe=pipe)
                self.assertEqual(code, 0, said)
            lines = self.read().splitlines()
            self.assertEqual(lines[0], "step,day,visits,standard_deviation")
            self.assertEqual([line.split(",")[:2] for line in lines[1:]], [[str(t + 1), str(t)] for t in range(40)])
            for name in ("out", "key.state"):
                os.remove(self.path(name))

    def test_json_says_where_it_went_on(self):
        self.assertEqual(self.kept(text(0, 10))[0], 0)
        code, out, _ = self.kept(text(0, 15), "--json")
        value = json.loads(out)
        self.assertEqual((code, value["rows"], value["resumed_at"], value["lines"]), (0, 15, 10, 15))

    def test_a_file_is_followed_until_a_signal(self):
        expected = self.at_once().splitlines(True)
        asked = [DPMF, "count", "--uncalibrated", self.path("m"), "--key-file", self.path("key"), "--out", self.path("out"),
                 "--follow", self.write("grows", text(0, 5))]
        for end, how in [(12, signal.SIGINT), (20, signal.SIGTERM), (30, signal.SIGKILL), (40, signal.SIGTERM)]:
            with subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                with open(self.path("grows"), "r+", encoding="ascii") as file:
                    file.seek(0, 2)
                    rest = text(0, end)[file.tell():]
                    for at in range(0, len(rest), 3):  # lines come in parts
                        file.write(rest[at:at + 3])
                        file.flush()
                        time.sleep(0.01)
                while not os.path.exists(self.path("out")) or self.read().count("\n") < end:
                    self.assertIsNone(child.poll())
                    time.sleep(0.01)
                child.send_signal(how)
                said = child.communicate()[1].decode()
            self.assertEqual(child.returncode, -9 if how == signal.SIGKILL else 130, said)
            self.assertEqual(self.read(), "".join(expected[:end]))
        with open(self.path("grows"), "w", encoding="ascii") as file:
            file.write("1\n")
        code, _, said = self.count("", *asked[4:])
        self.assertEqual(code, 1)
        self.assertIn("were counted", said[-1])

    def test_options_that_need_a_state_are_refused_without_one(self):
        for extra, words in [(["--state", "s"], "--state needs --key-file"), (["--sync-every", 5], "--sync-every needs"),
                             (["--input", "rest"], "--input needs"),
                             (["--key-file", "k", "--testing-seed", 1], "only one of them")]:
            self.refused(2, "count", "--uncalibrated", self.path("m"), *extra, says=words)
        self.refused(1, "count", "--uncalibrated", self.path("m"), "--follow", self.path("none"), says="none")


if __name__ == "__main__":
    unittest.main()
