# SPDX-License-Identifier: Apache-2.0
"""dpmf count: private running sums of standard input, their error bars, and bad input."""
import json
import math
import struct
import subprocess
import unittest

from harness import Case, DPMF, refuse_constant

NOTE = "dpmf: not calibrated: the mechanism has no sigma, and sigma = 1 is used\n"
OPEN = "dpmf: not private: anybody can compute the key of a testing seed\n"


def count(text, *arguments):
    done = subprocess.run([DPMF, "count", "--uncalibrated", *map(str, arguments)], input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Count(Case):
    def mechanism(self, *arguments, steps=20, family="toeplitz"):
        path = self.path("m")
        self.ok("evaluate", "--steps", steps, "--family", family, *arguments, "-o", path)
        return path

    def sums(self, text, *arguments):
        code, out, err = count(text, *arguments, "--testing-seed", "3")
        self.assertEqual((code, err), (0, NOTE + OPEN if out else ""))
        return [[float(word) for word in line.split(" ")] for line in out.splitlines()]

    def test_sums_and_error_bars_are_those_of_the_workload(self):
        for workload, step in [("prefix", lambda o, p, x, y: o + x),
                               ("momentum:0.5", lambda o, p, x, y: 1.5 * o - 0.5 * p + x),
                               ("nesterov:0.5", lambda o, p, x, y: 1.5 * o - 0.5 * p + 1.5 * x - 0.5 * y)]:
          for release in ("plain", "exact"):
            file = self.mechanism("--workload", workload)
            errors = self.json("evaluate", file, "--per-step")["per_step_error"]
            asked = [file, "--columns", "2", "--clip", "2", "--release", release]
            noise = subprocess.run([DPMF, "noise", "--uncalibrated", file, "--dim", "2", "--rows", "0:20", "--format", "f64",
                                    "--testing-seed", "3", "--clip", "2"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, check=True).stdout
            noise = struct.unpack("<40d", noise)
            # Exact noise depends on its grid, which is that of the sums: there, zeros show what the noise adds to each answer.
            alone = self.sums("0,0\n" * 20, *asked) if release == "exact" else None
            found = self.sums("".join("%d,%g\n" % (t, -0.5 * t) for t in range(20)), *asked)
            self.assertEqual(len(found), 20)
            for column in range(2):
                o = p = y = 0.0
                for t in range(20):
                    x = (t, -0.5 * t)[column] + (0 if alone else noise[2 * t + column])
                    o, p, y = step(o, p, x, y), o, x
                    self.assertLess(abs(found[t][column] - (alone[t][column] if alone else 0) - o), 1e-4 * errors[t])
                    self.near(found[t][2], 2 * errors[t], 1e-5)

    def test_answers_come_as_the_rows_do(self):
        with subprocess.Popen([DPMF, "count", "--uncalibrated", self.mechanism()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as child:
            for _ in range(5):
                child.stdin.write(b"1\n")
                child.stdin.flush()
                self.assertEqual(len(child.stdout.readline().split()), 2)
            child.stdin.close()
            self.assertEqual((child.wait(60), child.stdout.read()), (0, b""))

    def test_rows_may_be_written_in_several_ways(self):
        file = self.mechanism()
        expected = self.sums("1 2 3\n4 5 6\n", file, "--columns", "3")
        for text in ["1,2,3\n4,5,6\n", "1\t2\t3\r\n4\t5\t6\r\n", " 1, 2, 3 \n+4 5e0 6.0", "1e0 2.0 3.\n0.4e1 5 6\n"]:
            self.assertEqual(self.sums(text, file, "--columns", "3"), expected)
        self.assertEqual(self.sums("", file), [])

    def test_a_bad_line_ends_it_after_the_good_ones(self):
        file = self.mechanism()
        for bad in ["x", "1 2", "", "nan", "inf", "1e400", "0x10", "1;2", "1\0", "--1", "1" * 100 + "x"]:
            for before in range(3):
                code, out, err = count("1\n" * before + bad + "\n1\n", file)
                self.assertEqual((code, out.count("\n")), (1, before), bad)
                self.assertTrue(out == "" or out.endswith("\n"))
                self.assertEqual(err.count("\n"), 1 + (before > 0), err)
                self.assertIn("line %d: " % (before + 1), err)
        code, out, err = count("1" * 200000, file)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("too long", err)

    def test_a_line_past_the_last_step_is_refused(self):
        code, out, err = count("1\n" * 25, self.mechanism())
        self.assertEqual((code, out.count("\n")), (1, 20))
        self.assertIn("line 21: the mechanism has 20 steps", err)

    def test_fresh_noise_is_taken_each_time(self):
        file = self.mechanism()
        self.assertNotEqual(count("1\n2\n", file)[1], count("1\n2\n", file)[1])

    def test_json_needs_a_file_for_the_sums(self):
        file, path = self.mechanism(), self.path("sums")
        code, out, err = count("1\n2\n3\n", file, "--json", "--out", path)
        value = json.loads(out, parse_constant=refuse_constant)
        self.assertEqual((code, err, value["rows"], value["columns"], value["private"]), (0, NOTE, 3, 1, False))
        with open(path, encoding="ascii") as lines:
            self.assertEqual(len(lines.readlines()), 3)
        self.refused(2, "count", "--uncalibrated", file, "--json", says="--out")
        self.assertEqual(count("1\nx\n", file, "--out", self.path("other"))[0], 1)
        self.assertEqual(self.left_behind(), ["m", "sums"])

    def test_ranges_are_differences_of_sums(self):
        """Buckets of a histogram as steps: a range is the difference of two sums, a CDF is a sum over the total."""
        counts = [10 * t for t in range(20)]
        found = [row[0] for row in self.sums("".join("%d\n" % c for c in counts), self.mechanism())]
        bars = self.json("evaluate", self.path("m"), "--per-step")["per_step_error"]
        for low, high in [(0, 5), (3, 9), (10, 19)]:
            exact = sum(counts[low:high + 1])
            estimate = found[high] - (found[low - 1] if low > 0 else 0.0)
            self.assertLess(abs(estimate - exact), 6 * 2 * bars[high])  # a fixed seed: no false alarms
        self.assertTrue(math.isclose(found[-1], sum(counts), abs_tol=6 * bars[-1]))

    def test_count_refuses_bad_columns_and_matrices(self):
        file = self.mechanism()
        for value in ["0", "-1", "1.5", "1000001"]:
            self.refused(2, "count", "--uncalibrated", file, "--columns", value, says="--columns " + value)
        self.refused(2, "count", says="FILE")
        self.refused(1, "count", "--uncalibrated", self.path("none"))
        matrix = self.write("a.npy", __import__("harness").npy([float(i >= j) for i in range(4) for j in range(4)],
                                                              (4, 4)))
        self.ok("evaluate", "--steps", 4, "--family", "identity", "--workload", "file:" + matrix, "-o", self.path("f"))
        self.refused(1, "count", "--uncalibrated", self.path("f"), says="matrix")


if __name__ == "__main__":
    unittest.main()
