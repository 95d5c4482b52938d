# SPDX-License-Identifier: Apache-2.0
"""dpmf query: the accuracy of a released stream; and streams without a horizon from the command line."""
import csv
import datetime
import math
import os
import random
import subprocess
import sys
import unittest

from harness import Case, DPMF
from page import seen


class Streams(Case):
    def stream(self, *arguments, family="unbounded", steps=1000, lines=60, clip=2):
        mechanism, stream = self.path("m"), self.path("stream")
        self.ok("evaluate", "--steps", steps, "--family", family, *arguments, "-o", mechanism)
        text = "".join("%d %d\n" % (t % 7, t) for t in range(lines))
        with open(stream, "wb") as out:
            subprocess.run([DPMF, "count", "--uncalibrated", mechanism, "--columns", "2", "--clip", str(clip), "--testing-seed", "5"],
                           input=text.encode(), stdout=out, stderr=subprocess.DEVNULL, check=True)
        with open(stream, encoding="ascii") as lines_of:
            rows = [[float(word) for word in line.split()] for line in lines_of]
        return mechanism, stream, rows

    def query(self, mechanism, stream, *arguments):
        return self.json("query", stream, "--mechanism", mechanism, "--clip", "2", "--columns", "2", *arguments)


class Query(Streams):
    def test_a_range_is_the_difference_of_totals_with_its_own_deviation(self):
        mechanism, stream, rows = self.stream(family="identity")
        found = self.query(mechanism, stream, "--range", "11:26", "--column", "2")
        self.near(found["estimate"], rows[25][1] - rows[9][1], 1e-9)
        self.near(found["deviation"], 2 * 4.0, 1e-9)  # 16 steps of independent noise
        self.near(found["upper"] - found["estimate"], 1.959963984540054 * 8, 1e-9)
        self.near(found["estimate"] - found["lower"], 1.959963984540054 * 8, 1e-9)

    def test_a_range_is_surer_than_the_two_totals_together(self):
        mechanism, stream, rows = self.stream()
        found = self.query(mechanism, stream, "--range", "41:50")
        self.assertLess(found["deviation"], 0.55 * (rows[49][2] + rows[39][2]))
        self.assertGreater(found["deviation"], 0)
        less = self.query(mechanism, stream, "--range", "41:50-31:40", "--level", "0.5")
        self.assertEqual((less["range"], less["minus"]), ("41:50", "31:40"))
        self.near(less["estimate"], rows[49][0] - 2 * rows[39][0] + rows[29][0], 1e-9)

    def test_bands_of_all_totals_hold_together(self):
        mechanism, stream, rows = self.stream()
        found = self.query(mechanism, stream, "--cdf", "--level", "0.9")
        self.assertTrue(found["simultaneous"])
        self.assertEqual(found["estimate"], [row[0] for row in rows])
        times = (found["upper"][7] - found["estimate"][7]) / found["deviation"][7]
        self.near(times, found["multiplier"], 1e-9)
        self.assertLess(math.erf(times / math.sqrt(2)) ** 60, 0.9)  # narrower than independent intervals, Sidak's
        monotone = self.query(mechanism, stream, "--cdf", "--monotone")
        for key in ("estimate", "lower", "upper"):
            self.assertEqual(monotone[key], sorted(monotone[key]))
            self.assertGreaterEqual(monotone[key][0], 0)

    def test_smoothed_totals_are_as_sure_as_the_released_ones(self):
        mechanism, stream, rows = self.stream()
        found = self.query(mechanism, stream, "--smooth")
        for row, estimate, deviation in zip(rows, found["estimate"], found["deviation"]):
            self.assertEqual(estimate, row[0])
            self.assertTrue(deviation <= row[2] <= deviation * (1 + 1e-5), (deviation, row[2]))  # six digits, rounded up

    def test_csv_and_json_lines_are_read_too(self):
        mechanism, stream, rows = self.stream(lines=12)
        wanted = self.query(mechanism, stream, "--range", "3:7", "--column", "2")
        for name, text in [
            ("csv", "step,day,a,b,standard_deviation\n" + "".join(
                '%d,"2024-01-%02d 05:00",%r,%r,%r\n' % (t + 1, t + 1, *row) for t, row in enumerate(rows))),
            ("json", "".join('{"step":%d,"time":"7","sums":[%r,%r],"standard_deviation":%r}\n' % (t + 1, *row)
                             for t, row in enumerate(rows))),
            ("text", "".join("2024-01-%02d %r %r %r\n" % (t + 1, *row) for t, row in enumerate(rows)))]:
            with self.subTest(name):
                other = self.write(name, text)
                self.assertEqual(self.query(mechanism, other, "--range", "3:7", "--column", "2"), wanted)

    def test_another_mechanism_or_clip_is_noticed(self):
        mechanism, stream, _ = self.stream()
        self.refused(1, "query", stream, "--mechanism", mechanism, "--cdf", "--columns", 2, says="another --clip")
        other = self.path("other")
        self.ok("evaluate", "--steps", "100", "--family", "toeplitz", "-o", other)
        self.refused(1, "query", stream, "--mechanism", other, "--cdf", "--clip", "2", "--columns", "2", says="another mechanism")
        short = self.path("short")
        self.ok("evaluate", "--steps", "10", "--family", "unbounded", "-o", short)
        self.refused(1, "query", stream, "--mechanism", short, "--cdf", "--clip", "2", "--columns", "2", says="60 lines")

    def test_questions_outside_the_stream_are_refused(self):
        mechanism, stream, _ = self.stream()
        for arguments, message in [((), "--range, --cdf and --smooth"), (("--range", "0:5"), "1 <= A"),
                                   (("--range", "5:61"), "<= 60"), (("--range", "9:5"), "A <= B"),
                                   (("--range", "5"), "A:B"), (("--range", "1:2-"), "A:B"), (("--range", "1:2-0:1"), "1 <= A"),
                                   (("--range", "1:2", "--monotone"), "--cdf or --smooth")]:
            self.refused(2, "query", stream, "--mechanism", mechanism, "--clip", "2", "--columns", "2", *arguments, says=message)
        self.refused(2, "query", stream, "--cdf", says="--mechanism")
        self.refused(1, "query", stream, "--mechanism", mechanism, "--cdf", "--column", "3", "--columns", "2", says="column 3")


class Together(Streams):
    def test_bands_of_all_totals_are_no_narrower_than_they_may_be(self):
        """Independent noise: the totals are a random walk. 20000 walks of 30 steps: coverage below 0.9 by 4.2 deviations (0.0089) has
        probability 1e-5 even if the multiplier were exact; the seed is fixed."""
        mechanism, stream, _ = self.stream(family="identity", lines=30)
        times = self.query(mechanism, stream, "--cdf", "--level", "0.9")["multiplier"]
        coins, inside, walks = random.Random(4), 0, 20000
        for _ in range(walks):
            at, good = 0.0, True
            for t in range(1, 31):
                at += coins.gauss(0, 1)
                good = good and abs(at) <= times * math.sqrt(t)
            inside += good
        self.assertGreater(inside / walks, 0.9 - 0.0089)
        self.assertLess(inside / walks, 0.93)  # Sidak's would be 0.97

    def test_questions_that_are_nearly_one_cost_nearly_nothing(self):
        mechanism, stream, _ = self.stream(family="identity")
        found = self.query(mechanism, stream, "--range", "1:50,1:51,1:52,2:51")
        self.assertEqual((len(found["ranges"]), found["simulated"]), (4, 100000))
        self.assertTrue(1.96 < found["multiplier_together"] < 2.3, found["multiplier_together"])  # Sidak: 2.49
        apart = self.query(mechanism, stream, "--range", "1:10,11:20")  # independent: Sidak's is exact, and not passed
        self.assertLessEqual(apart["multiplier_together"], 2.23647665)
        self.assertGreater(apart["multiplier_together"], 2.22)

    def test_two_columns_are_independent(self):
        mechanism, stream, _ = self.stream(family="identity")
        found = self.query(mechanism, stream, "--last", "7", "--column", "1,2")
        self.near(found["multiplier_together"], 2.2364766, 1e-6)
        self.assertEqual([row["column"] for row in found["ranges"]], ["1", "2"])


class Dates(Streams):
    DAYS = [datetime.date(2024, 1, 20) + datetime.timedelta(days=t) for t in range(60)]

    def dated(self, seed=7, name="dated"):
        """60 days from 20 January of two columns, through count; the file, and the true rows."""
        mechanism, path = self.path("dates.dpmf"), self.path(name)
        if not os.path.exists(mechanism):
            self.ok("evaluate", "--steps", 60, "--family", "blt-rational", "-o", mechanism)
        rows = [(t * t % 13, t % 7) for t in range(60)]
        text = "day,DE,FR\n" + "".join("%s,%d,%d\n" % (day, *row) for day, row in zip(self.DAYS, rows))
        with open(path, "wb") as out:
            subprocess.run([DPMF, "count", "--uncalibrated", mechanism, "--time", "day", "--columns", "DE,FR", "--format", "csv", "--testing-seed",
                            str(seed)], input=text.encode(), stdout=out, stderr=subprocess.DEVNULL, check=True)
        return ["query", path, "--mechanism", mechanism, "--columns", "2"], rows

    def test_a_range_of_dates_is_the_range_of_its_lines(self):
        query, _ = self.dated()
        for dates, lines in (("2024-02-01:2024-02-29", "13:41"), ("2024-02", "13:41"), ("2024-02-29", "41:41"),
                             ("2024-02 minus 2024-01-20:2024-01-31", "13:41-1:12")):
            for column in ("DE", "2"):
                by_date = self.json(*query, "--range", dates, "--column", column)
                by_line = self.json(*query, "--range", lines, "--column", column)
                for key in ("estimate", "deviation", "lower", "upper"):
                    self.assertEqual(by_date[key], by_line[key])
        last = self.json(*query, "--last", "2w", "--column", "FR")["ranges"][0]
        self.near(last["deviation"], self.json(*query, "--range", "47:60", "--column", "FR")["deviation"], 1e-12)
        self.assertEqual(last["lines"], 14)

    def test_months_weeks_and_days_of_the_week(self):
        query, _ = self.dated()
        months = self.json(*query, "--by", "month", "--column", "DE,FR")["ranges"]
        self.assertEqual([(row["range"], row["column"], row["lines"]) for row in months],
                         [(month, column, lines) for column in ("DE", "FR") for month, lines in (("2024-01", 12), ("2024-02", 29), ("2024-03", 19))])
        alone = self.json(*query, "--range", "13:41", "--column", "FR")
        self.near(months[4]["estimate"], alone["estimate"], 1e-12)
        self.near(months[4]["deviation"], alone["deviation"], 1e-12)
        self.assertEqual([row["range"] for row in self.json(*query, "--by", "week", "--last", "14d")["ranges"]], ["2024-03-04", "2024-03-11", "2024-03-18"])
        days = self.json(*query, "--by", "weekday")["ranges"]
        self.assertEqual([row["range"] for row in days[:2]], ["Saturday", "Sunday"])
        self.near(sum(row["estimate"] for row in days), self.json(*query, "--range", "1:60")["estimate"], 1e-9)

    def test_csv_and_json_have_the_same_numbers(self):
        query, _ = self.dated()
        rows = list(csv.DictReader(self.ok(*query, "--by", "month", "--format", "csv").splitlines()))
        for row, wanted in zip(rows, self.json(*query, "--by", "month")["ranges"], strict=True):
            self.assertEqual((row["range"], row["column"], int(row["lines"])), (wanted["range"], wanted["column"], wanted["lines"]))
            for key in ("estimate", "deviation", "lower", "upper", "lower_together", "upper_together"):
                self.near(float(row[key]), wanted[key], 1e-8)
        page = self.json("report", *query[1:], "--by", "month", "--column", "FR")
        self.assertEqual([one["range"] for one in page["ranges"]], ["2024-01", "2024-02", "2024-03"])

    def test_intervals_hold_as_often_as_they_say(self):
        """20 keys, three months of two columns: 120 intervals at 0.95, of which two of one stream are nearly independent. More than 20
        outside (6 + 5 deviations), or more than 8 of 20 streams with one outside its bands (1 + 7), have probabilities below 1e-5."""
        outside = broken = 0
        for seed in range(20):
            query, rows = self.dated(seed, "s%d" % seed)
            found = self.json(*query, "--by", "month", "--column", "DE,FR")["ranges"]
            bad = 0
            for row in found:
                true = sum(values["DE FR".split().index(row["column"])] for day, values in zip(self.DAYS, rows) if str(day).startswith(row["range"]))
                outside += not row["lower"] <= true <= row["upper"]
                bad += not row["lower_together"] <= true <= row["upper_together"]
            broken += bad > 0
        self.assertLessEqual(outside, 20)
        self.assertLessEqual(broken, 8)
        self.assertGreater(outside, 0)

    def test_questions_without_an_answer_are_refused(self):
        query, _ = self.dated()
        for code, says, words in [(2, "2024-01-20 to 2024-03-19", ("--range", "2024-03")), (2, "A:B", ("--range", "2024-02-30")),
                                  (1, "column UK", ("--last", "3", "--column", "UK")), (2, "shorter", ("--last", "61d")),
                                  (2, "30d, 4w", ("--last", "0")), (2, "30d, 4w", ("--last", "x")), (2, "one range", ("--by", "month", "--range", "1:2,3:4")),
                                  (2, "--format", ("--cdf", "--format", "csv")), (2, "one is accepted", ("--cdf", "--column", "1,2"))]:
            self.refused(code, *query, *words, says=says)
        mechanism, stream, _ = self.stream()
        self.refused(1, "query", stream, "--mechanism", mechanism, "--clip", 2, "--columns", 2, "--by", "month", says="no date")


class Page(Streams):
    def test_a_page_shows_the_totals_the_ranges_and_the_statement(self):
        mechanism, stream, _ = self.stream()
        page = self.path("page.html")
        self.ok("report", stream, "--mechanism", mechanism, "--clip", "2", "--columns", "2", "--range", "11:20,21:30", "-o", page)
        wanted = self.query(mechanism, stream, "--range", "21:30")
        bands = self.query(mechanism, stream, "--cdf")
        page = seen(self, page)
        self.assertEqual(page.object["page"], "stream")
        self.assertEqual([one["range"] for one in page.object["ranges"]], ["11:20", "21:30"])
        for key in ("estimate", "deviation", "lower", "upper"):
            self.assertEqual(page.object["ranges"][1][key], wanted[key])
        for ours, theirs in (("total", "estimate"), ("lower", "lower"), ("upper", "upper")):
            self.assertEqual(page.object[ours], [[i, value] for i, value in enumerate(bands[theirs])])
        for text in [page.plain.text] + ([page.drawn["text"]] if page.drawn else []):
            for words in ("11:20", "21:30", "No guarantee is claimed", "unbounded", "%.6g" % wanted["deviation"]):
                self.assertIn(words, text)
        if page.drawn:
            self.assertEqual(page.drawn["pictures"], ["released totals and their bands against the lines of the stream"])

    def test_a_path_with_markup_stays_text(self):
        mechanism, stream, _ = self.stream()
        os.mkdir(self.path("<"))
        name = self.path("</script><img src=x onerror=\"document.title='planted'\"><!--")
        os.rename(stream, name)
        self.ok("report", name, "--mechanism", mechanism, "--clip", "2", "--columns", "2", "-o", self.path("page.html"))
        page = seen(self, self.path("page.html"))
        self.assertEqual(page.object["name"], name)
        self.assertNotIn("<img", page.raw)
        if page.drawn:
            self.assertIn(name, page.drawn["text"])
            self.assertEqual(page.drawn["title"], "A private stream, dpmf report")

    def test_no_page_is_left_of_a_range_that_is_refused(self):
        mechanism, stream, _ = self.stream()
        before = self.left_behind()
        self.refused(2, "report", stream, "--mechanism", mechanism, "--clip", "2", "--columns", "2", "--range", "1:5,9:3", "-o",
                     self.path("page.html"), says="9:3")
        self.assertEqual(self.left_behind(), before)

    def test_the_example_of_five_years_of_hours_is_counted(self):
        source = os.path.join(os.environ["DPMF_SOURCE"], "examples", "hourly_stream.py")
        hours = subprocess.run([sys.executable, source, "--years", "0.1"], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(hours.count(b"\n"), 877)
        mechanism, stream = self.path("m"), self.path("stream")
        self.ok("evaluate", "--steps", "877", "--family", "unbounded", "-o", mechanism)
        with open(stream, "wb") as out:
            subprocess.run([DPMF, "count", "--uncalibrated", mechanism, "--testing-seed", "1"], input=hours, stdout=out,
                           stderr=subprocess.DEVNULL, check=True)
        found = self.json("query", stream, "--mechanism", mechanism, "--range", "1:744", "--level", "0.999999")
        january = sum(map(int, hours.split()[:744]))
        self.assertTrue(found["lower"] < january < found["upper"])


class Unbounded(Case):
    def test_a_stream_without_a_horizon_is_evaluated_to_2_to_the_40(self):
        found = self.json("evaluate", "--family", "unbounded", "--steps", 2**40)
        self.assertEqual((found["buffers"], found["horizon_free_bound"]), (12, 1.25))
        self.near(found["sensitivity"]["value"], 1, 1e-11)
        self.assertEqual(found["sensitivity"]["kind"], "upper bound")
        self.refused(2, "evaluate", "--family", "unbounded", "--steps", 2**40 + 1, says="2^40")

    def test_its_errors_do_not_depend_on_the_steps(self):
        few = self.json("evaluate", "--family", "unbounded", "--steps", "40", "--per-step")["per_step_error"]
        more = self.json("evaluate", "--family", "unbounded", "--steps", "90", "--per-step")["per_step_error"]
        self.assertEqual(few, more[:40])

    def test_it_is_verified_at_any_number_of_steps(self):
        for steps in (50, 5000, 2**40):
            path = self.path("m")
            self.ok("evaluate", "--family", "unbounded", "--steps", steps, "-o", path)
            self.assertTrue(self.json("verify", path)["ok"])


if __name__ == "__main__":
    unittest.main()
