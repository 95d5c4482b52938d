# SPDX-License-Identifier: Apache-2.0
"""dpmf report: the object has every part for every family, with the figures of the file; the page takes nothing from elsewhere,
keeps what files hold as text, shows what the object has, tells the main figures without script too, and looks as it should in a
browser at two widths, light and dark, and on paper."""
import decimal
import hashlib
import json
import math
import os
import re
import struct
import unittest

import browser
from harness import Case, npy, run
from page import DRAWN, LOOKED_AT, Page

SECTIONS = ["privacy", "comparison", "matrices", "coefficients", "steps", "sweeps", "curve", "cost", "assumptions"]
def rounded_up(value):
    """Nine digits, not below."""
    text = "%.9g" % value
    exact = decimal.Context(prec=9, rounding=decimal.ROUND_CEILING).create_decimal(repr(value))
    return text if float(text) >= value else "%.9g" % float(exact)


KINDS = {"exact", "upper bound", "lower bound", "estimate"}


def remade(path, made_by):
    """Another maker's name in a mechanism file, with a digest that fits, as anybody can write by hand."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    raw, arrays = data[8:8 + size].decode().rstrip(" "), data[8 + size:]
    header = json.loads(raw)
    metadata = header.pop("__metadata__")
    before, old = metadata["dpmf"], json.loads(metadata["dpmf"])["made_by"]
    text = before.replace('"made_by":' + json.dumps(old), '"made_by":' + json.dumps(made_by, ensure_ascii=False))
    digest = hashlib.sha256(text.encode())
    for name in header:
        shape, (start, end) = header[name]["shape"], header[name]["data_offsets"]
        digest.update(name.encode() + b"\0" + struct.pack("<%dq" % (1 + len(shape)), len(shape), *shape))
        digest.update(arrays[start:end])
    raw = raw.replace(json.dumps(before, ensure_ascii=False), json.dumps(text, ensure_ascii=False))
    raw = raw.replace(metadata["sha256"], digest.hexdigest()).encode()
    raw += b" " * (-len(raw) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw + arrays)


class ReportCase(Case):
    tab = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if LOOKED_AT:
            opened = browser.Browser()
            cls.tab = opened.__enter__()
            cls.addClassCleanup(opened.__exit__, None, None, None)

    def mechanism(self, name, *arguments):
        self.ok("evaluate", *arguments, "-o", self.path(name))
        return self.path(name)

    def designed(self, name, *arguments):
        self.ok("design", *arguments, "-o", self.path(name))
        return self.path(name)

    def page(self, file, *more):
        """The page about a file, with what every page must have; --json prints the object that is in it."""
        out = self.path("page.html")
        printed = json.loads(self.ok("report", file, "-o", out, "--json", *more))
        page = Page(self, out, self.tab)
        self.assertEqual(printed, page.object)
        self.assertEqual(page.object["page"], "mechanism")
        self.assertIn(page.object["digest"], page.plain.text)
        self.assertEqual(len([c for c in page.object["comparison"]["candidates"] if c["this_file"]]), 1)
        if page.drawn:
            self.assertEqual([one for one in page.drawn["ids"] if one in SECTIONS], SECTIONS)
            self.assertTrue(KINDS & set(page.drawn["badges"]))
            self.assertIn("this file", page.drawn["own"])
        return page

    def shows(self, page, *words):
        """The page shows these words, as far as there is a browser to ask."""
        for one in words if page.drawn else ():
            self.assertIn(one, page.drawn["text"])


class Families(ReportCase):
    def test_every_family_has_its_figures_and_pictures(self):
        """C and its inverse, two columns of coefficients, steps, sweeps, memory: at least six pictures."""
        for steps, *arguments in [
                (40, "identity"), (40, "toeplitz"), (300, "toeplitz", "--normalize", "after"), (40, "workload"),
                (64, "bsr", "--bands", "8"), (64, "bisr", "--bands", "4"), (60, "tree"), (60, "tree-online"),
                (60, "tree-full"), (32, "fft"), (32, "fft-opt"),
                (60, "toeplitz", "--stamps", "3", "--participation", "cyclic:3,20"),
                (60, "tree-online", "--stamps", "3"), (60, "toeplitz", "--participation", "shuffled:3,20"),
                (40, "toeplitz", "--participation", "minsep:3,10"), (16, "toeplitz", "--participation", "full"),
                (50, "toeplitz", "--workload", "momentum:0.9"), (2, "toeplitz"), (1, "identity"), (3, "tree")]:
            with self.subTest(steps=steps, arguments=arguments):
                file = self.mechanism("m", "--steps", steps, "--family", *arguments)
                page = self.page(file)
                encoder, decoder = page.object["matrices"]
                self.assertEqual((encoder["columns"], decoder["rows"]), (steps, steps))
                self.assertEqual((encoder["rows"], decoder["columns"]), (decoder["columns"], encoder["rows"]))
                for matrix in (encoder, decoder):
                    self.assertEqual(len(matrix["levels"]), min(128, matrix["rows"]))
                    self.assertEqual({len(row) for row in matrix["levels"]}, {min(128, matrix["columns"])})
                    self.assertEqual(max(abs(at) for row in matrix["levels"] for at in row), 12)
                self.assertEqual([step for step, _ in page.object["per_step"]["noise"]], list(range(steps)))
                self.assertIsNone(page.object["privacy"])
                self.assertIn("no noise multiplier", page.plain.text)
                self.shows(page, "no noise multiplier", "Compared by loss")
                labels = " ".join(page.drawn["pictures"] if page.drawn else [])
                for words in ["Heat map of C,", "Heat map of the left inverse", "first column of C", "each step",
                              "against the rows", "Memory"] if page.drawn else []:
                    self.assertIn(words, labels)

    def test_optimized_families_have_a_page(self):
        for family, *more in [("dense",), ("banded", "--bands", "4"), ("blt", "--buffers", "2"),
                              ("tvblt", "--buffers", "3"), ("lowrank", "--bands", "2", "--buffers", "3")]:
            with self.subTest(family=family):
                self.ok("optimize", "--steps", 64, "--family", family, *more, "-o", self.path("m"))
                page = self.page(self.path("m"))
                self.assertEqual(page.object["family"], family)
                self.assertIn(family, page.plain.title)

    def test_figures_are_those_of_the_file(self):
        file = self.mechanism("m", "--steps", 100, "--family", "bsr", "--bands", "4")
        held, page = self.json("inspect", file), self.page(file)
        for key in ["rms_loss", "max_loss", "sensitivity", "lower_bound", "digest", "family", "workload", "participation"]:
            self.assertEqual(page.object[key], held[key], key)
        for value in [held["rms_loss"], held["max_loss"], held["sensitivity"]["value"]]:
            self.assertIn(rounded_up(value), page.plain.text)
            self.shows(page, rounded_up(value))
        self.shows(page, held["digest"])
        own, = [c for c in page.object["comparison"]["candidates"] if c["this_file"]]
        self.assertEqual((own["family"], own["bands"], own["rms_loss"]), ("bsr", 4, held["rms_loss"]))
        if page.drawn:
            self.assertIn("bsr, 4 bands", page.drawn["own"])

    def test_curves_are_those_of_the_mechanism(self):
        """The errors of all steps are evaluate's; columns and colours of the square root of the prefix sums are binomials."""
        page = self.page(self.mechanism("m", "--steps", 100, "--family", "toeplitz"))
        wanted = self.json("evaluate", "--steps", 100, "--family", "toeplitz", "--per-step")["per_step_error"]
        for (_, found), value in zip(page.object["per_step"]["noise"], wanted):
            self.near(found, value, 1e-12)
        column = [math.comb(2 * k, k) / 4 ** k for k in range(100)]
        encoder = page.object["matrices"][0]
        self.assertEqual((encoder["at_zero"], encoder["largest"], encoder["non_zero"]), (1, 1, 100))
        for lag, value in encoder["first"]:
            self.near(value, column[lag], 1e-12)
        for i, row in enumerate(encoder["levels"]):
            levels = [1 + int((4 + math.log10(column[i - j])) * 3) if j <= i else 0 for j in range(100)]
            self.assertEqual(row, [min(12, level) for level in levels])
        if self.tab:
            drawn = self.tab.run("""[document.querySelector("#steps .line.s1").getAttribute("d").match(/[ML]/g).length,
                [...document.querySelectorAll("#matrices figure:first-child g path")]
                    .flatMap(one => one.getAttribute("d").match(/h\\d+/g)).reduce((sum, one) => sum + Number(one.slice(1)), 0)]""")
            self.assertEqual(drawn, [100, 100 * 101 // 2], "points of the curve, cells with a colour")

    def test_long_curves_keep_their_extremes(self):
        page = self.page(self.mechanism("m", "--steps", 5000, "--family", "tree-online"))
        points = page.object["per_step"]["noise"]
        self.assertLessEqual(len(points), 361)
        self.assertEqual([step for step, _ in points], sorted({step for step, _ in points}))
        self.assertEqual(points[-1][0], 4999)
        self.near(max(value for _, value in points), page.object["max_loss"], 1e-12)

    def test_a_matrix_and_weights_have_a_page(self):
        rows = [[1.0 + 0.1 * j if j <= i else 0.0 for j in range(12)] for i in range(12)]
        a = self.write("a.npy", npy([x for row in rows for x in row], (12, 12)))
        w = self.write("w.npy", npy([1.0 / (1 + t) for t in range(12)]))
        page = self.page(self.mechanism("m", "--steps", 12, "--family", "identity", "--workload", "file:" + a,
                                        "--weights", w))
        self.assertTrue(page.object["weights"])
        self.shows(page, "Weights of the steps")

    def test_threads_do_not_change_a_page(self):
        file = self.mechanism("m", "--steps", 64, "--family", "tree-online")
        self.assertEqual(len({self.page(file, "--threads", threads).raw for threads in [1, 2, 3]}), 1)


class Designed(ReportCase):
    def own(self, page):
        own, = [c for c in page.object["comparison"]["candidates"] if c["this_file"]]
        return own

    def left_out(self, page):
        """The mechanisms of the table that are not eligible, and what the page shows in their rows."""
        out = [c for c in page.object["comparison"]["candidates"] if not (c["eligible"] or c["search_point"] or c["this_file"])]
        if page.drawn:
            self.assertEqual(len(page.drawn["out"]), len(out))
        return out

    def test_the_page_states_the_guarantee(self):
        file = self.designed("m", "--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-6")
        page = self.page(file, "--dim", "2000000")
        privacy = page.object["privacy"]
        self.assertEqual((privacy["epsilon_claimed"], privacy["delta"], privacy["kind"]), (2, 1e-6, "exact"))
        self.near(privacy["epsilon"], 2, 1e-9)
        self.assertIn("are (epsilon, delta)-differentially private with epsilon = 2 and delta = 1e-06", privacy["statement"])
        self.assertEqual([one["delta"] > 0 and one["epsilon"] > 0 for one in privacy["curve"]], [True] * 17)
        self.assertEqual(len(privacy["parts"]), 6)
        self.assertEqual((page.object["cost"]["dim"], page.object["cost"]["dim_is"]), (2000000, "as given"))
        self.assertIn("are (ε, δ)-differentially private with ε = 2 and δ = 1e-06", page.plain.text)
        self.shows(page, "are (ε, δ)-differentially private with ε = 2 and δ = 1e-06", "Compared at equal privacy",
                   "2 000 000 numbers", "dpmf verify m", "best eligible", "claimed by the file; computed again: 2 exact")
        if page.drawn:
            self.assertIn("delta, logarithmic, against epsilon for this mechanism", page.drawn["pictures"])
            self.assertGreaterEqual(len(page.drawn["pictures"]), 9)

    def test_the_table_has_the_figures_of_the_design(self):
        asked = ["--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-6"]
        wanted = {(c["family"], c["buffers"], c["sigma"]): c for c in self.json("design", *asked)["candidates"]}
        page = self.page(self.designed("m", *asked))
        listed = [c for c in page.object["comparison"]["candidates"] if not c["search_point"]]
        self.assertGreater(len(listed), 8)
        for c in listed:
            for key in ["noise_rms", "noise_max", "ratio", "memory_bytes", "sensitivity"]:
                self.assertEqual(c[key], wanted[c["family"], c["buffers"], c["sigma"]][key], (c["family"], key))
            self.shows(page, "%.5g" % c["noise_rms"], "%.6g" % c["ratio"])

    def test_noise_against_the_batch_size_is_that_of_plans(self):
        budget = ["--epsilon", 2, "--delta", "1e-6", "--max-overhead", 2, "--dim", 1000]
        file = self.designed("m", "--steps", 32, "--epochs", 4, "--sampling", "block-cyclic", *budget)
        self.assertIsNone(self.page(file).object["batches"])
        run("report", file, "--units", 80, "-o", self.path("page.html"))  # it may take long enough for a line of progress
        page = Page(self, self.path("page.html"), self.tab)
        found = page.object["batches"]
        self.assertEqual((found["units"], found["epochs"], found["batch"]), (80, 4, 10))
        plan = ["plan", "--units", 80, "--epochs", 4, "--batch", "3..80", *budget]
        with_sampling, without = (self.parsed(run(*plan, "--json", *more)[1])["points"]
                                  for more in ((), ("--sampling", "none")))
        self.assertEqual([p["steps"] for p in found["points"]], [p["steps"] for p in with_sampling])
        for point, a, b in zip(found["points"], with_sampling, without):
            self.near(point["noise_per_epoch"], a["noise_per_epoch"])
            self.near(point["independent_noise_per_epoch"], a["independent_noise_per_epoch"])
            self.near(point["fixed_noise_per_epoch"], b["noise_per_epoch"])
        self.near(found["noise_per_epoch"], page.object["noise_rms"] / 4)
        self.shows(page, "Noise against the batch size")

    def test_noise_against_the_batch_size_is_left_out_with_the_reason(self):
        file = self.mechanism("m", "--steps", 8, "--family", "toeplitz")
        page = self.page(file, "--units", 80)
        self.assertIsNone(page.object["batches"])
        self.assertTrue(any("batch sizes is not drawn" in note for note in page.object["notes"]))

    def test_the_page_says_that_sampling_must_stay_secret(self):
        file = self.designed("m", "--steps", 50, "--epochs", 5, "--epsilon", 4, "--delta", "1e-5", "--sampling",
                             "block-cyclic", "--families", "banded-toeplitz")
        page = self.page(file)
        self.assertEqual(page.object["privacy"]["kind"], "upper bound")
        self.assertTrue(all(one["epsilon_sampling_known"] > one["epsilon"] for one in page.object["privacy"]["curve"]))
        self.assertIn("kept secret", page.plain.text)
        self.shows(page, "upper bound", "with real randomness that is kept secret", "if the sampling were known")

    def test_the_constraints_of_the_design_are_repeated(self):
        asked = ["--steps", 64, "--epochs", 1, "--epsilon", 1, "--delta", "1e-6", "--dim", "1000"]
        page = self.page(self.designed("m", *asked, "--memory", "18k", "--max-overhead", "1000"))
        words = "rows of 1000 numbers, memory at most 17.6 KiB, at most 1000 times the time of independent noise"
        self.assertIn("under the limits of the file's design: " + words, page.object["comparison"]["words"])
        self.assertEqual(page.object["designed"], words + ", least RMS noise")
        self.assertGreater(len(self.left_out(page)), 0)  # the memory is a limit here too
        self.assertIn("more than the 18000 bytes allowed", self.left_out(page)[0]["reason"])
        self.assertGreater(self.own(page)["overhead"], 1)
        self.assertTrue(self.own(page)["best_eligible"])
        self.shows(page, "under the limits of the file's design: " + words, "Designed for " + words,
                   "more than the 18000 bytes allowed", "by the cost model")
        page = self.page(self.path("m"), "--memory", "1G")
        self.assertIn("under other limits than those of the file's design: rows of 1000 numbers, memory at most 954 MiB",
                      page.object["comparison"]["words"])
        self.assertEqual(self.left_out(page), [])

    def test_the_max_loss_and_the_range_of_a_design_are_repeated(self):
        asked = ["--steps", 64, "--epsilon", 1, "--delta", "1e-6", "--dim", "1000"]
        page = self.page(self.designed("m", *asked, "--epochs", 1, "--loss", "max"))
        self.assertIn("least max noise", page.object["designed"])
        self.assertTrue(self.own(page)["best_eligible"])
        page = self.page(self.designed("m", *asked, "--participation", "min-sep:3,8..16", "--unit", "user"))
        self.assertIn("separations up to 16", page.object["designed"])
        self.assertGreaterEqual(self.own(page)["worst_ratio"], 1)
        self.assertTrue(self.own(page)["best_eligible"])
        self.shows(page, "Worst ratio", "separations up to 16")

    def best(self, page):
        """The one row that is called best."""
        best, = [c for c in page.object["comparison"]["candidates"] if c["best_eligible"]]
        if page.drawn:
            self.assertEqual(len(page.drawn["best"]), 1)
        return best

    def test_no_other_is_called_best_where_the_file_has_less_noise(self):
        """Under random allocation, which the design covers for one step of each epoch and not for two."""
        asked = ["--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-8", "--sampling", "allocation"]
        self.assertTrue(self.best(self.page(self.designed("m", *asked, "--families", "identity")))["this_file"])
        self.ok("calibrate", self.path("m"), "--epsilon", 0.5, "--delta", "1e-8", "--sampling", "allocation:2,64", "-o",
                self.path("twice"))
        page = self.page(self.path("twice"))
        self.assertTrue(self.best(page)["this_file"])
        self.assertIn("as good as, or better than, the choice", page.object["comparison"]["words"])
        self.assertIn("what a design chooses among its candidates",
                      [c["reason"] for c in page.object["comparison"]["candidates"]])
        self.shows(page, "as good as, or better than, the choice", "what a design chooses among its candidates")

    def test_the_limits_of_the_page_are_kept(self):
        file = self.designed("m", "--steps", 64, "--epochs", 1, "--epsilon", 1, "--delta", "1e-6", "--max-overhead", 1000)
        self.assertEqual(self.left_out(self.page(file)), [])
        self.assertGreater(len(self.left_out(self.page(file, "--memory", "20M"))), 0)
        page = self.page(file, "--dim", "1000", "--max-overhead", "2")
        self.assertGreater(len(self.left_out(page)), 0)
        self.shows(page, "by the cost model")

    def test_many_steps_compare_what_needs_no_search(self):
        """Above some ten thousand steps only mechanisms that need no search are compared, and the page mentions it."""
        page = self.page(self.mechanism("m", "--steps", "400", "--family", "toeplitz", "--participation",
                                        "cyclic:4,100"))
        self.assertIn("banded-toeplitz", {c["family"] for c in page.object["comparison"]["candidates"]})
        self.assertEqual([m["columns_read"] for m in page.object["matrices"]], [400, 400])
        self.shows(page, "all of 400 columns")
        page = self.page(self.mechanism("m", "--steps", "40000", "--family", "tree-online"))
        self.assertIn("need no search", page.object["comparison"]["words"])
        self.assertLess(page.object["matrices"][0]["columns_read"], 40000)
        self.assertIsNone(page.object["optimum"])
        self.shows(page, "need no search", "columns were read", "optimum's own curve is not drawn")


class Escaping(ReportCase):
    NASTY = ("<script>alert(1)</script> <!-- \"'&amp; </script><img src=x onerror=\"document.title='planted'\"> "
             "\u00e9\u4e2d \u2028")

    def stays_text(self, page):
        """Nothing of the page but its own markup: no element of the planted text, no reaction to it."""
        self.assertNotIn("<img", page.raw)
        self.assertNotIn("<script>alert", page.raw)
        self.assertNotIn("img", page.drawn["tags"] if page.drawn else [])
        self.assertNotIn("planted", page.drawn["title"] if page.drawn else "")

    def test_names_of_files_are_escaped(self):
        name = "<script>alert(1)<&'\"<img src=x onerror=alert(2)>.mech"
        page = self.page(self.mechanism(name, "--steps", 8, "--family", "toeplitz"))
        self.stays_text(page)
        self.assertEqual(page.object["name"], name)
        self.assertIn(name, page.plain.title)
        self.assertIn(name, page.plain.text)
        self.shows(page, name, "dpmf verify '<script>alert(1)<&'\\''\"<img src=x onerror=alert(2)>.mech'")

    def test_names_that_are_not_text_are_shown_as_such(self):
        source = self.mechanism("m", "--steps", 8, "--family", "toeplitz")
        name = os.path.join(os.fsencode(self.directory.name), b"\xff\xfe\x01\xed\xa0\x80\xe2\x80\xae.mech")
        os.rename(source, name)
        code, _, err = run("report", os.fsdecode(name), "-o", self.path("page.html"))
        self.assertEqual((code, err), (0, ""))
        page = Page(self, self.path("page.html"), self.tab)
        self.assertIn("\ufffd", page.plain.title)
        self.assertIn("\ufffd", page.object["name"])
        self.assertIsNone(re.search("[\x01\u202e]", page.raw))
        self.shows(page, "\ufffd" * 9 + ".mech")

    def test_the_maker_of_a_file_is_escaped(self):
        file = self.mechanism("m", "--steps", 8, "--family", "toeplitz")
        remade(file, self.NASTY)
        self.assertEqual(self.json("inspect", file)["made_by"], self.NASTY)
        page = self.page(file)
        self.stays_text(page)
        self.assertEqual(page.object["made_by"], self.NASTY)
        self.shows(page, " ".join(self.NASTY.split()))

    @unittest.skipUnless(LOOKED_AT, "no Chromium here")
    def test_the_policy_lets_nothing_else_run(self):
        """Markup that got into the page all the same would neither run nor load."""
        self.page(self.mechanism("m", "--steps", 8, "--family", "toeplitz"))
        self.tab.run("""document.body.insertAdjacentHTML("beforeend",
            "<img src='data:,x' onerror='document.title=\\"planted\\"'><p style='color:red' onclick='document.title=\\"planted\\"'>p</p>");
            document.body.lastChild.click();
            const script = document.createElement("script"); script.textContent = "document.title = 'planted'";
            document.body.append(script)""")
        self.assertNotIn("planted", self.tab.run("document.title"))
        self.assertEqual(len([one for one in self.tab.complaints if "Content Security Policy" in one]), 5, self.tab.complaints)


class Refused(ReportCase):
    def setUp(self):
        super().setUp()
        self.file = self.mechanism("m", "--steps", 8, "--family", "toeplitz")

    def test_units_are_not_for_the_page_of_a_stream(self):
        self.refused(2, "report", self.file, "--json", "--mechanism", self.file, "--units", "10", says="--units")

    def test_report_refuses_missing_and_bad_options(self):
        self.refused(2, "report", self.file, says=["--out", "--json"])
        self.refused(2, "report", says="FILE")
        self.refused(2, "report", self.file, "-o", self.path("p"), "--dim", "0", says="--dim")
        self.refused(2, "report", self.file, "-o", self.path("p"), "--steps", "9", says="--steps")
        self.assertEqual(self.left_behind(), ["m"])

    def test_report_refuses_bad_files_and_places(self):
        out = self.path("p.html")
        self.refused(1, "report", self.path("missing"), "-o", out, says="missing")
        self.refused(1, "report", self.write("text", "not a mechanism"), "-o", out)
        self.refused(1, "report", self.file, "-o", self.path("no/such/p.html"), says="p.html")
        self.refused(1, "report", self.file, "-o", self.directory.name, says="directory")
        self.assertEqual(self.left_behind(), ["m", "text"])

    def test_an_old_page_stays_when_the_new_one_fails(self):
        out = self.write("p.html", "old")
        self.refused(1, "report", self.path("missing"), "-o", out)
        with open(out) as file:
            self.assertEqual(file.read(), "old")

    def test_the_object_alone_needs_no_page(self):
        found = self.json("report", self.file)
        self.assertEqual((found["page"], found["family"], found["steps"]), ("mechanism", "toeplitz", 8))
        self.assertEqual(self.left_behind(), ["m"])

    def test_an_old_page_is_replaced(self):
        out = self.write("p.html", "old")
        self.ok("report", self.file, "-o", out)
        with open(out) as file:
            self.assertTrue(file.read().endswith("</html>\n"))
        self.assertEqual(self.left_behind(), ["m", "p.html"])


LOOK = """(() => {
    const boxes = [...document.querySelectorAll("svg")].map(one => one.getBoundingClientRect());
    const text = [...document.querySelectorAll("svg[role=img] text")].filter(one => one.getClientRects().length);
    const size = text.map(one => parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement
        .getBoundingClientRect().width / one.ownerSVGElement.viewBox.baseVal.width);
    const out = text.filter(one => {
        const a = one.getBoundingClientRect(), b = one.ownerSVGElement.getBoundingClientRect();
        return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1; });
    return {width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
            least: Math.min(...boxes.map(one => Math.min(one.width, one.height))), pictures: boxes.length,
            letters: Math.min(...size), out: out.map(one => one.textContent)};
})()"""


@unittest.skipUnless(LOOKED_AT, "no Chromium here")
class Seen(ReportCase):
    def look(self, tab, page, width, dark):
        """The page in a window of that width; nothing to complain about; its background."""
        tab.open(page, width, dark)
        found = tab.run(LOOK)
        self.assertEqual(tab.complaints, [])
        self.assertEqual(len(tab.requests), 1, "the page asks for nothing but itself")
        self.assertLessEqual(found["width"], width)
        self.assertGreater(found["pictures"], 6)
        self.assertGreater(found["least"], 5)
        self.assertGreaterEqual(found["letters"], 9.5, "letters of pictures, in pixels")
        self.assertEqual(found["out"], [], "text that leaves its picture")
        tab.run("window.scrollTo(0, document.getElementById('matrices').offsetTop)")
        shot = tab.ask("Page.captureScreenshot", format="png")["data"]
        wide, high, rows, channels = browser.pixels(browser.base64.b64decode(shot))
        self.assertEqual(wide, width)
        colours = {rows[y][x * channels:x * channels + 3] for y in range(0, high, 2) for x in range(0, wide, 2)}
        self.assertGreater(len(colours), 20, "a heat map has many colours")
        return sum(rows[2][0:3])

    def test_pages_fit_every_width_and_colour(self):
        files = [self.designed("designed", "--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-6"),
                 self.mechanism("tree", "--steps", 100, "--family", "tree-online"),
                 self.mechanism("one", "--steps", 1, "--family", "identity")]
        for file in files:
            page = file + ".html"
            self.ok("report", file, "-o", page)
            for width in [1200, 400]:
                with self.subTest(file=os.path.basename(file), width=width):
                    self.assertGreater(self.look(self.tab, page, width, False), 600, "light")
                    self.assertLess(self.look(self.tab, page, width, True), 150, "dark")

    def test_a_page_prints_in_black_on_white_with_its_pictures(self):
        page = self.page(self.designed("m", "--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-6"))
        self.tab.open(page.path, 700, dark=True)
        self.assertTrue(self.tab.printed().startswith(b"%PDF"))
        self.tab.ask("Emulation.setEmulatedMedia", media="print")
        found = self.tab.run(LOOK)
        self.assertLessEqual(found["width"], 700)
        self.assertGreater(found["pictures"], 6)
        self.assertEqual(found["out"], [])
        _, _, rows, channels = browser.pixels(self.tab.picture())
        self.assertEqual(sum(rows[2][0:3]), 3 * 255)
        self.assertGreater(len({row[x * channels:x * channels + 3] for row in rows[::3] for x in range(0, 700, 3)}), 20)
        self.tab.ask("Emulation.setEmulatedMedia", media="")

    def test_the_main_figures_are_there_without_script(self):
        file = self.designed("m", "--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-6")
        held, page = self.json("inspect", file), self.page(file)
        self.tab.ask("Emulation.setScriptExecutionDisabled", value=True)
        self.addCleanup(self.tab.ask, "Emulation.setScriptExecutionDisabled", value=False)
        for width in [1200, 400]:
            self.tab.open(page.path, width)
            found, look = self.tab.run(DRAWN), self.tab.run(LOOK)
            self.assertEqual(self.tab.complaints, [])
            for words in ["are (ε, δ)-differentially private with ε = 2 and δ = 1e-06", "ε of the file 2 claimed", "δ 1e-06",
                          "RMS loss %s exact, rounded up" % rounded_up(held["rms_loss"]),
                          "RMS loss / bound %s upper bound" % rounded_up(page.object["ratio"])]:
                self.assertIn(words, found["text"])
            self.assertEqual(len(found["pictures"]), 1)
            self.assertLessEqual(look["width"], width)
            self.assertEqual(look["out"], [], "text that leaves its picture")


if __name__ == "__main__":
    unittest.main()
