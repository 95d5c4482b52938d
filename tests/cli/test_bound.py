# SPDX-License-Identifier: Apache-2.0
"""dpmf bound: events of users to lines of counts; the same words in design; and both with count, for a year of days."""
import csv
import datetime
import os
import random
import stat
import subprocess
import unittest

from harness import Case, DPMF, run

HEADER = "person,when,country\n"


class Bound(Case):
    def bound(self, events, *arguments, at_most=1, key="k", user="person", time="when"):
        with open(self.write("events.tmp", events), "rb") as file:
            found = run("bound", "--user", user, "--time", time, "--at-most", at_most, "--seed-key", self.path(key), *arguments, stdin=file)
        os.remove(self.path("events.tmp"))
        return found

    def lines(self, events, *arguments, **options):
        if isinstance(events, str):
            events = (HEADER + events).encode()
        code, out, err = self.bound(events, *arguments, **options)
        self.assertEqual((code, err), (0, ""))
        return [line.split(",") for line in out.splitlines()]

    def wrong(self, expected, says, events, *arguments, **options):
        code, out, err = self.bound(events if isinstance(events, bytes) else (HEADER + events).encode(), *arguments, **options)
        self.assertEqual((code, out), (expected, ""), err)
        self.assertIn(says, err)


class Lines(Bound):
    def test_each_day_of_the_range_has_a_line_whatever_the_data(self):
        events = "a,2024-02-28,DE\na,2024-02-29,DE\nb,2024-02-29,DE\nc,2024-03-01,DE\nd,2023-02-28,DE\n"
        found = self.lines(events, "--range", "2024-02-27:2024-03-01", at_most=5)
        self.assertEqual(found, [["time", "rows"], ["2024-02-27", "0"], ["2024-02-28", "1"], ["2024-02-29", "2"], ["2024-03-01", "1"]])
        self.assertEqual(stat.S_IMODE(os.stat(self.path("k.state")).st_mode), 0o600)

    def test_times_are_those_of_iso_8601_and_bad_rows_vanish_alone(self):
        good = ["2024-02-29", "20240229", "2024-02-29T00:00", "2024-02-29 23:59:60.5+13:45", '"2024-02-29T12Z"', "2024-02-29T1200-08"]
        bad = ["2023-02-29", "2024-02-30", "2024-13-01", "29.02.2024", "2024-02", "2024-02-29T25", "2024-02-29T12:00:00x", "", "2024-2-9",
               "2024-02-29T", '"2024-02-29', "1709164800"]
        events = "".join("u%d,%s,DE\n" % pair for pair in enumerate(good + bad))
        events += ",2024-02-29,DE\n2024-02-29\nx,2024-02-29,DE,4\n\n" + "y" * 200000 + ",2024-02-29,DE\n" + "z,2024-02-29,DE"
        found = self.lines(events, "--range", "2024-02-29")
        self.assertEqual(found, [["time", "rows"], ["2024-02-29", str(len(good) + 1)]])
        self.wrong(1, "line %d:" % (len(good) + 2), events, "--range", "2024-02-29", "--bad-lines", "stop", key="other")

    def test_values_are_columns_and_other_values_are_not_rows(self):
        events = "a,2024-01-05,FR\na,2024-01-06,DE\na,2024-01-07,US\nb,2024-01-31,DE\n"
        found = self.lines(events, "--columns", "country:DE,FR", "--by", "month", "--range", "2024-01:2024-02", at_most=9)
        self.assertEqual(found, [["time", "DE", "FR"], ["2024-01", "2", "1"], ["2024-02", "0", "0"]])

    def test_hours_and_weeks(self):
        events = "a,2024-01-05T07:59,FR\na,2024-01-05T08:00,DE\n"
        found = self.lines(events, "--by", "hour", "--range", "2024-01-05", at_most=9)
        self.assertEqual([row for row in found if row[1] == "1"], [["2024-01-05T07", "1"], ["2024-01-05T08", "1"]])
        self.assertEqual(len(found), 25)
        found = self.lines(events, "--by", "week", "--range", "2024-01-01:2024-01-14", at_most=9, key="week")
        self.assertEqual(found[1:], [["2024-01-01", "2"], ["2024-01-08", "0"]])

    def test_a_column_may_be_named_by_its_number_and_a_quote_in_a_name_is_a_letter(self):
        found = self.lines(b'when;who\n2024-01-05;"a;""b"\n2024-01-05;"a;""b"\n', "--range", "2024-01-05", user="2", time="1")
        self.assertEqual(found[1], ["2024-01-05", "1"])

    def test_questions_that_cannot_be_answered_are_refused_before_a_key_is_made(self):
        for code, says, arguments in [
                (2, "whole lines", ("--range", "2024-01-02:2024-01-08", "--by", "week")),
                (2, "within one month", ("--range", "2024-01-01:2024-01-07", "--by", "week", "--per", "month")),
                (2, "within one day", ("--range", "2024-01", "--by", "month", "--per", "day")),
                (2, "dates are accepted", ("--range", "2024-02-30")), (2, "dates are accepted", ("--range", "2024-02-02:2024-02-01")),
                (2, "COLUMN:VALUE", ("--range", "2024-01", "--columns", "country")),
                (2, "COLUMN:VALUE", ("--range", "2024-01", "--columns", "country:DE,DE")),
                (2, "COLUMN:VALUE", ("--range", "2024-01", "--columns", "country:DE,")),
                (2, "zero", ("--range", "2024-01", "--bad-lines", "zero")),
                (1, "no column land", ("--range", "2024-01", "--columns", "land:DE"))]:
            self.wrong(code, says, "a,2024-01-01,DE\n", *arguments)
        self.wrong(2, "bound needs --range", "")
        self.wrong(1, "no header", b"", "--range", "2024-01")
        self.wrong(1, "more than one column when", b"when,person,when\n", "--range", "2024-01")
        self.assertEqual(self.left_behind(), [])


class Again(Bound):
    def test_a_later_call_gives_no_second_allowance_and_a_late_file_is_refused(self):
        events = "".join("u%d,2024-01-%02d,DE\n" % (n, day) for day in range(24, 32) for n in range(20))
        for per, most, total in (("ever", 3, 3 * 20), ("month", 3, 3 * 20), ("week", 2, 2 * 20 * 2), ("day", 1, 8 * 20)):
            counted = 0
            for day in range(24, 32):
                one = "2024-01-%02d" % day
                found = self.lines(events, "--range", one, "--per", per, at_most=most, key=per)
                self.assertEqual(len(found), 2 if day == 24 else 1)
                counted += int(found[-1][1])
            self.assertEqual(counted, total, per)
        self.assertEqual(self.lines(events, "--range", "2024-01-31", "--per", "month", at_most=3, key="month"), [["2024-01-31", "0"]])
        self.wrong(2, "from other rows", events + "late,2024-01-31,DE\n", "--range", "2024-01-31", "--per", "month", at_most=3, key="month")
        self.wrong(2, "already", events, "--range", "2024-01-30", "--per", "month", at_most=3, key="month")
        self.wrong(2, "another limit", events, "--range", "2024-02-01", "--per", "month", at_most=4, key="month")
        self.wrong(2, "another limit", events, "--range", "2024-02-01", "--per", "ever", at_most=3, key="month")
        os.remove(self.path("month.state"))
        self.wrong(2, "missing", events, "--range", "2024-02-01", "--per", "month", at_most=3, key="month")

    def test_a_failed_output_is_written_by_the_next_call(self):
        events = "".join("u%d,2024-01-01,DE\n" % (n % 7) for n in range(40))
        self.wrong(1, "/dev/full/x", events, "--range", "2024-01-01", "-o", "/dev/full/x", at_most=2)
        self.assertEqual(self.lines(events, "--range", "2024-01-01", "-o", self.path("lines"), at_most=2), [])
        with open(self.path("lines"), encoding="ascii") as file:
            self.assertEqual(file.read(), "time,rows\n2024-01-01,14\n")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("lines")).st_mode), 0o600)


class Words(Case):
    """The same words in design: the mechanism covers what bound lets through."""
    def design(self, *arguments, steps=365):
        return self.json_once("design", "--steps", steps, "--epsilon", 1, "--delta", 1e-6, "--families", "blt", *arguments)

    def test_the_words_become_a_participation_and_a_group(self):
        single = self.design("--unit", "user", "--at-most", 1)
        for words, participation, rows, windows in [
                (("--unit", "user", "--at-most", 5), "single", 5, 1),
                (("--unit", "user", "--at-most", 5, "--once"), "minsep:5,1", 1, 1),
                (("--unit", "user", "--at-most", 2, "--per", "month"), "minsep:13,1", 2, 13),
                (("--unit", "user", "--at-most", 2, "--per", "month", "--once"), "minsep:26,1", 1, 13),
                (("--unit", "user-month", "--at-most", 5, "--per", "month"), "single", 5, 1),
                (("--unit", "user-day", "--at-most", 5, "--per", "day", "--once"), "single", 1, 1)]:
            found = self.design(*words)
            counting = found["counting"]
            self.assertEqual((found["participation"], counting["rows"], counting["windows"]), (participation, rows, windows), words)
            self.assertEqual(found["protected"]["unit"], words[1])
            if participation == "single":
                self.near(found["chosen"]["noise_rms"], rows * single["chosen"]["noise_rms"], 1e-6)

    def test_hours_and_months_as_lines(self):
        self.assertEqual(self.design("--unit", "user", "--at-most", 1, "--per", "day", "--by", "hour", steps=48)["counting"]["windows"], 3)
        self.assertEqual(self.design("--unit", "user", "--at-most", 1, "--per", "month", "--by", "month", steps=24)["counting"]["windows"], 24)

    def test_the_question_is_asked_and_contradictions_are_refused(self):
        base = ["design", "--steps", 365, "--epsilon", 1, "--delta", 1e-6]
        for says, words in [("who is protected", ("--at-most", 3)), ("from which it follows", ("--at-most", 3, "--epochs", 1, "--unit", "user")),
                            ("--unit user-day", ("--at-most", 3, "--unit", "user-day", "--per", "month")),
                            ("--unit user-day", ("--at-most", 3, "--unit", "user-day")),
                            ("needs --at-most", ("--epochs", 1, "--per", "month")), ("sample nothing", ("--at-most", 1, "--unit", "user", "--sampling", "poisson")),
                            ("within one month", ("--at-most", 1, "--unit", "user", "--by", "week", "--per", "month"))]:
            self.refused(2, *base, *words, says=says)


class Year(Bound):
    """Daily calls for a year, with a double run and a late file, then count: each user is within the bound, by the raw log."""
    def test_a_year_of_days(self):
        first, dates = datetime.date(2024, 1, 1), random.Random(3)
        log = [("u%d" % min(int(dates.paretovariate(0.7)), 300), first + datetime.timedelta(days=dates.randrange(60))) for _ in range(6000)]
        total, parts = 0, []
        for day in range(0, 60, 4):
            a, b = first + datetime.timedelta(days=day), first + datetime.timedelta(days=day + 3)
            events = "".join("%s,%s,DE\n" % (user, date) for user, date in log if date <= b)
            ask = ("--range", "%s:%s" % (a, b), "--per", "month")
            found = self.lines(events, *ask, at_most=4)
            self.assertEqual(self.lines(events, *ask, at_most=4), found)  # cron ran twice
            self.wrong(2, "from other rows", events + "late,%s,DE\n" % b, *ask, at_most=4)
            parts += [",".join(row) for row in found]
            total += sum(int(row[1]) for row in found if row[0] != "time")
        seen = {}
        for user, date in log:
            seen[user, date.month] = seen.get((user, date.month), 0) + 1
        self.assertEqual(total, sum(min(4, rows) for rows in seen.values()))  # exactly the bound of each user and month
        self.ok("design", "--steps", 60, "--unit", "user", "--at-most", 4, "--per", "month", "--epsilon", 1, "--delta", 1e-6, "--families", "blt",
                "-o", self.path("m"))
        counted = subprocess.run([DPMF, "count", self.path("m"), "--time", "time", "--columns", "rows", "--format", "csv", "--testing-seed", "1"],
                                 input="\n".join(parts).encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
        rows = list(csv.DictReader(counted.splitlines()))
        self.assertEqual((len(rows), rows[0]["time"], rows[-1]["time"]), (60, "2024-01-01", "2024-02-29"))
        self.assertLess(abs(float(rows[-1]["rows"]) - total), 6 * float(rows[-1]["standard_deviation"]))


if __name__ == "__main__":
    unittest.main()
