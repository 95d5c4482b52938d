# SPDX-License-Identifier: Apache-2.0
"""dpmf count: CSV as people have it, bad lines, and the forms of answers."""
import csv
import io
import json
import math
import subprocess
import unittest

from harness import DPMF, Case, refuse_constant

PLAIN = "12 5\n7 6\n0 7\n3 8\n"


class Lines(Case):
    def setUp(self):
        super().setUp()
        self.ok("evaluate", "--steps", 30, "--family", "toeplitz", "--bound", "none", "-o", self.path("m"))

    def count(self, text, *arguments):
        done = subprocess.run([DPMF, "count", "--uncalibrated", self.path("m"), "--testing-seed", "3", *map(str, arguments)],
                              input=text if isinstance(text, bytes) else text.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        said = [line for line in done.stderr.decode().splitlines() if "not calibrated" not in line and
                "not private" not in line]
        return done.returncode, done.stdout.decode(), said

    def same(self, text, *arguments):
        """The answers of `text` are those of the plain lines."""
        expected = self.count(PLAIN, "--columns", 2)
        self.assertEqual(expected[0], 0)
        self.assertEqual(self.count(text, *arguments), expected, text)

    def test_csv_in_many_forms_gives_the_same_sums(self):
        names = ["--columns", "visits,sales"]
        self.same("visits,sales\n12,5\n7,6\n0,7\n3,8\n", *names)
        self.same("\ufeffvisits,sales\r\n12,5\r\n7,6\r\n0,7\r\n3,8\r\n", *names)
        self.same("sales,x,visits\n5,a,12\n6,,7\n7,\"b,c\",0\n8,\"say \"\"no\"\"\",3\n", *names)
        self.same("\"visits\";\"sales\"\n\"12\";\"5\"\n7;6\n0;7\n3;8", *names)
        self.same("day\tvisits\tsales\nmon\t12\t5\ntue\t 7 \t6\nwed\t0\t7\nthu\t3\t8\n", *names)
        self.same("x,visits,y,sales,more\n,12,,5\n,7,,6,1\n,0,,7\n,3,,8,\n", *names)
        self.same("a b,\"sa,les\"\n12,5\n7,6\n0,7\n3,8\n", "--columns", "1,2")
        self.same("x,12,5\nx,7,6\nx,0,7\nx,3,8\n", "--columns", "2,3")
        self.same("x,visits,sales\nx,12,5\nx,7,6\nx,0,7\nx,3,8\n", "--columns", "2,3")
        self.same("x,5,12\nx,6,7\nx,7,0\nx,8,3\n", "--columns", "3,2")
        self.assertEqual(self.count("b;a\n1;2\n", "--columns", "a")[1], self.count("2\n")[1])
        self.assertEqual(self.count("x,2\n", "--columns", "2,")[1], self.count("2\n")[1])

    def test_the_time_is_passed_through(self):
        text = "when,visits\n2026-01-01,12\n\"Fri, 2\",7\n\"a \"\"b\"\"\",0\n,3\n"
        asked = ["--columns", "visits", "--time", "when"]
        times = ["2026-01-01", "Fri, 2", "a \"b\"", ""]
        sums = [line.split()[0] for line in self.count("12\n7\n0\n3\n")[1].splitlines()]
        code, out, said = self.count(text, *asked, "--format", "csv")
        self.assertEqual((code, said), (0, []))
        rows = list(csv.reader(io.StringIO(out)))
        self.assertEqual(rows[0], ["step", "when", "visits", "standard_deviation"])
        self.assertEqual([row[:3] for row in rows[1:]], [[str(i + 1), t, s] for i, (t, s) in enumerate(zip(times, sums))])
        found = [json.loads(line, parse_constant=refuse_constant)
                 for line in self.count(text, *asked, "--format", "jsonl")[1].splitlines()]
        self.assertEqual([(row["step"], row["time"], row["sums"]) for row in found],
                         [(i + 1, t, [float(s)]) for i, (t, s) in enumerate(zip(times, sums))])
        self.assertTrue(all(row["standard_deviation"] > 0 for row in found))
        out = self.count("2026-01-01 00:00,5\n2026-01-01 01:00,6\n", "--columns", "2,", "--time", "1")[1]
        self.assertEqual([line.rsplit(" ", 2)[0] for line in out.splitlines()],
                         ['"2026-01-01 00:00"', '"2026-01-01 01:00"'])
        self.assertEqual(self.count("a,1,2\nb,3,4\n", "--columns", 2, "--time", 1, "--format", "csv")[1].splitlines()[0],
                         "step,column 1,column 2,column 3,standard_deviation")

    def test_a_header_is_told_from_a_row(self):
        """A first line with a missing number is no header: it would be lost."""
        for first, header in [("visits", True), ("7", False), ("nan", False), ("", False), ("NULL", False), ("-", False),
                              ("n/a", False), ("1e3", False), ("x7", True)]:
            code, out, said = self.count("x,%s\nx,5\n" % first, "--columns", "2,")
            if header or first in ("7", "1e3"):
                self.assertEqual((code, out.count("\n"), said), (0, 1 if header else 2, []), first)
            else:
                self.assertEqual((code, out), (1, ""), first)
                self.assertIn("line 1: field 2 is not a finite decimal number", said[0])

    def test_columns_that_are_not_there_are_named(self):
        self.assertIn("line 1: it has 2 fields, but no column sales", self.count("a,b\n1,2\n", "--columns", "sales")[2][0])
        self.assertIn("no column when", self.count("a,b\n1,2\n", "--columns", "a", "--time", "when")[2][0])
        self.assertIn("no column 5", self.count("a,b\n1,2\n", "--columns", "5,")[2][0])
        self.assertIn("twice", self.count("a,a\n1,2\n", "--columns", "a")[2][0])
        self.assertIn("line 1: it has 1 field, ", self.count("1\n", "--columns", "1,2", "--bad-lines", "skip")[2][0])
        for value in ["a,,b", ",a", ",", "a,a"]:
            self.refused(2, "count", "--uncalibrated", self.path("m"), "--columns", value, says="--columns")

    def test_hostile_lines_are_bad_lines(self):
        for bad in ["x,\"5", "x,\"5\"6", "x", "x,\"\"", "x,5\0", "x,0x10", "x,5 6", "x,5,6;7\"", "x,1e400", "x,--5", "",
                    "\"x,5", "x,٥", "x,5\u00a0", "x,1,\"open"]:
            code, out, said = self.count("t,v\nx,1\n" + bad + "\nx,2\n", "--columns", "v", "--time", "t")
            self.assertEqual((code, out.count("\n")), (1, 1), bad)
            self.assertTrue(said[-1].startswith("dpmf: line 3: "), (bad, said))
        code, out, said = self.count(b"t,v\nx,1\n\xff\xfe,2\n", "--columns", "v", "--time", "t")
        self.assertEqual((code, out.count("\n")), (1, 1))
        self.assertIn("line 3: its time is not UTF-8", said[-1])
        self.assertIn("too long", self.count("t,v\n" + "x" * 200000 + ",1\n", "--columns", "v")[2][-1])

    def test_bad_lines_are_handled_as_asked(self):
        self.assertEqual(self.count("1\0\n5\n", "--bad-lines", "skip")[:2], self.count("5\n")[:2])
        text = "1\n\nnan\n2\nx\n3\n"
        self.assertEqual(self.count(text)[:2], (1, self.count("1\n")[1]))
        code, out, said = self.count(text, "--bad-lines", "zero")
        self.assertEqual((code, out), (0, self.count("1\n0\n0\n2\n0\n3\n")[1]))
        self.assertEqual([line.split(":")[1].strip() for line in said], ["line 2", "line 3", "line 5"])
        self.assertTrue(all(line.endswith("counted as zeros") for line in said))
        code, out, said = self.count(text, "--bad-lines", "skip")
        self.assertEqual((code, out), (0, self.count("1\n2\n3\n")[1]))
        self.assertEqual(len(said), 3)
        csv_text = "t,v\na,1\nb,\nc,3\n"
        asked = ["--columns", "v", "--time", "t", "--format", "jsonl", "--bad-lines"]
        self.assertEqual([json.loads(line)["time"] for line in self.count(csv_text, *asked, "zero")[1].splitlines()],
                         ["a", "b", "c"])
        self.assertEqual([json.loads(line)["time"] for line in self.count(csv_text, *asked, "skip")[1].splitlines()],
                         ["a", "c"])

    def test_rows_of_one_unit_are_clipped_and_nothing_is_said(self):
        code, out, said = self.count("5\n-7\n0.5\n", "--clip", 2, "--clip-rows")
        self.assertEqual((code, out, said), (0, self.count("2\n-2\n0.5\n", "--clip", 2)[1], []))
        found = self.count("30 40\n0.3 0.4\n", "--columns", 2, "--clip", 5, "--clip-rows")[1].splitlines()
        cut = self.count("3 4\n0.3 0.4\n", "--columns", 2, "--clip", 5)[1].splitlines()
        for a, b in zip(found, cut):
            self.assertTrue(all(math.isclose(float(x), float(y), abs_tol=1e-6) for x, y in zip(a.split(), b.split())))

    def test_numbers_of_every_form_are_read_exactly(self):
        """The short way of reading and printing numbers agrees with the long one."""
        for word, other in [("1", "1e0"), ("-0.5", "-5e-1"), ("123456789012345678", "1.23456789012345678e17"),
                            ("0.000000000000000001", "1e-18"), (".5", "0.5000000000000000000000001"), ("7.", "+7"),
                            ("-0", "0"), ("00012.2500", "12.25"), ("99999.999999", "9999999.9999e-2")]:
            self.assertEqual(self.count(word + "\n"), self.count(other + "\n"), word)
        for bad in [".", "+", "-", "", "1.2.3", "1e", "1 e5x", "++1", "1_000"]:
            self.assertEqual(self.count(bad + "\n")[0], 1, bad)


if __name__ == "__main__":
    unittest.main()
