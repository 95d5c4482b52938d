# SPDX-License-Identifier: Apache-2.0
"""dpmf report: the page parses, has all its parts for every family, takes nothing from elsewhere, escapes what files
hold, and looks as it should in a browser at two widths, light and dark."""
import hashlib
import html.parser
import json
import os
import re
import struct
import unittest

import browser
from harness import DPMF, Case, npy, run

VOID = {"meta", "br", "img", "input", "link", "hr"}
SECTIONS = ["privacy", "comparison", "matrices", "coefficients", "steps", "sweeps", "curve", "cost", "assumptions"]
KINDS = {"exact", "upper bound", "lower bound", "estimate"}


class Page(html.parser.HTMLParser):
    """A page: raises ValueError where tags are not balanced; keeps what the tests ask for."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.pictures, self.words = [], [], [], [], []
        self.title = self.style = ""
        self.badges, self.own, self.links = [], "", []
        self.feed(text)
        self.close()
        if self.open:
            raise ValueError("left open: %s" % self.open)
        self.text = " ".join(" ".join(self.words).split())

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if len(values) != len(attributes):
            raise ValueError("an attribute twice in <%s>" % tag)
        self.tags.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if "href" in values:
            self.links.append(values["href"])
        if tag == "svg" and "aria-hidden" not in values:
            self.pictures.append(values)
        if tag not in VOID:
            self.open.append((tag, values.get("class", "") or ""))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            raise ValueError("</%s> after %s at %s" % (tag, self.open[-3:], self.getpos()))
        self.open.pop()

    def handle_data(self, data):
        if not self.open:
            return
        tag, style = self.open[-1]
        if tag == "title":
            self.title += data
        elif tag == "style":
            self.style += data
        else:
            self.words.append(data)
        if "badge" in style.split() and "mine" not in style:
            self.badges.append(data)
        if any(one == ("tr", "own") for one in self.open):
            self.own += data + " "


def remade(path, made_by):
    """Another maker's name in a mechanism file, with a digest that fits: what anybody can write by hand."""
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
    def mechanism(self, name, *arguments):
        self.ok("evaluate", *arguments, "-o", self.path(name))
        return self.path(name)

    def designed(self, name, *arguments):
        self.ok("design", *arguments, "-o", self.path(name))
        return self.path(name)

    def page(self, file, *more):
        """The page about a file: parsed, with what every page must have."""
        out = self.path("page.html")
        self.assertEqual(self.ok("report", file, "-o", out, *more), "")
        with open(out, "rb") as stream:
            text = stream.read().decode("utf-8")
        page = Page(text)
        self.assertTrue(text.startswith("<!DOCTYPE html>\n"))
        self.assertEqual([one for one in page.ids if one in SECTIONS], SECTIONS)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertTrue(page.title)
        self.assertIn("svg", page.tags)
        self.assertNotIn("script", page.tags)
        for one in page.pictures:
            self.assertEqual(one.get("role"), "img")
            self.assertTrue(one.get("aria-label"), one)
        self.assertTrue(all(link.startswith("#") and link[1:] in page.ids for link in page.links), page.links)
        self.assertIsNone(re.search(r"https?:|//[a-z]|url\(|@import|src=|<link|<iframe|data:", text))
        self.assertIsNone(re.search(r'[" A-Z>]-?(nan|inf)\\b', text), "numbers that are none")
        self.assertTrue(KINDS & set(page.badges))
        self.assertIn("this file", page.own)
        self.raw = text
        return page


class Families(ReportCase):
    def test_every_family_has_its_pictures(self):
        """C and its inverse, two columns of coefficients, steps, sweeps, memory: at least six pictures."""
        for steps, *arguments in [
                (40, "identity"), (40, "toeplitz"), (300, "toeplitz", "--column-normalize"), (40, "workload"),
                (64, "bsr", "--bands", "8"), (64, "bisr", "--bands", "4"), (60, "tree"), (60, "tree-online"),
                (60, "tree-full"), (32, "fft"), (32, "fft-opt"),
                (60, "toeplitz", "--stamps", "3", "--participation", "cyclic:3,20"),
                (60, "tree-online", "--stamps", "3"), (60, "toeplitz", "--participation", "shuffled:3,20"),
                (40, "toeplitz", "--participation", "minsep:3,10"), (16, "toeplitz", "--participation", "full"),
                (50, "toeplitz", "--workload", "momentum:0.9"), (2, "toeplitz"), (1, "identity"), (3, "tree")]:
            with self.subTest(steps=steps, arguments=arguments):
                file = self.mechanism("m", "--steps", steps, "--family", *arguments)
                page = self.page(file)
                self.assertGreaterEqual(len(page.pictures), 6)
                self.assertIn("no noise multiplier", page.text)
                self.assertIn("by loss", page.text)
                labels = " ".join(one["aria-label"] for one in page.pictures)
                for words in ["Heat map of C,", "Heat map of the left inverse", "first column of C", "each step",
                              "against the rows", "Memory"]:
                    self.assertIn(words, labels)

    def test_optimized_families_have_a_page(self):
        for family, *more in [("dense",), ("banded", "--bands", "4"), ("blt", "--buffers", "2"),
                              ("tvblt", "--buffers", "3"), ("lowrank", "--bands", "2", "--buffers", "3")]:
            with self.subTest(family=family):
                self.ok("optimize", "--steps", 64, "--family", family, *more, "-o", self.path("m"))
                page = self.page(self.path("m"))
                self.assertIn(family, page.title)

    def test_figures_are_those_of_the_file(self):
        file = self.mechanism("m", "--steps", 100, "--family", "bsr", "--bands", "4")
        held = self.json("inspect", file)
        page = self.page(file)
        for value in [held["rms_loss"], held["max_loss"], held["sensitivity"]["value"]]:
            self.assertIn("%.9g" % value, page.text)
        self.assertIn(held["digest"], page.text)
        self.assertIn("bsr, 4 bands", page.own)

    def test_a_matrix_and_weights_have_a_page(self):
        rows = [[1.0 + 0.1 * j if j <= i else 0.0 for j in range(12)] for i in range(12)]
        a = self.write("a.npy", npy([x for row in rows for x in row], (12, 12)))
        w = self.write("w.npy", npy([1.0 / (1 + t) for t in range(12)]))
        page = self.page(self.mechanism("m", "--steps", 12, "--family", "identity", "--workload", "file:" + a,
                                        "--weights", w))
        self.assertIn("Weights of the steps", page.text)

    def test_threads_do_not_change_a_page(self):
        file = self.mechanism("m", "--steps", 64, "--family", "tree-online")
        pages = set()
        for threads in [1, 2, 3]:
            self.page(file, "--threads", threads)
            pages.add(self.raw)
        self.assertEqual(len(pages), 1)


class Designed(ReportCase):
    def test_the_page_states_the_guarantee(self):
        file = self.designed("m", "--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-6")
        page = self.page(file, "--dim", "2000000")
        for words in ["are (ε, δ)-differentially private with ε = 2 and δ = 1e-06",
                      "Compared at equal privacy", "2 000 000 numbers", "dpmf verify m", "best eligible"]:
            self.assertIn(words, page.text)
        self.assertIn("delta, logarithmic, against epsilon for this mechanism",
                      [one["aria-label"] for one in page.pictures])
        self.assertGreaterEqual(len(page.pictures), 9)

    def test_the_page_says_that_sampling_must_stay_secret(self):
        file = self.designed("m", "--steps", 50, "--epochs", 5, "--epsilon", 4, "--delta", "1e-5", "--sampling",
                             "block-cyclic", "--families", "banded-toeplitz")
        page = self.page(file)
        for words in ["upper bound", "kept secret", "if the sampling were known"]:
            self.assertIn(words, page.text)

    def test_the_constraints_of_the_design_are_repeated(self):
        asked = ["--steps", 64, "--epochs", 1, "--epsilon", 1, "--delta", "1e-6", "--dim", "1000"]
        page = self.page(self.designed("m", *asked, "--memory", "18k", "--max-overhead", "1000"))
        words = "rows of 1000 numbers, memory at most 17.6 KiB, at most 1000 times the time of independent noise"
        self.assertIn("under the limits of the file's design: " + words, page.text)
        self.assertIn("Designed for " + words, page.text)
        self.assertGreater(self.raw.count('<tr class="out">'), 0)  # the memory is a limit here too
        self.assertIn("more than the 18000 bytes allowed", page.text)
        self.assertIn("by the cost model", page.text)
        self.assertIn("best eligible", page.own)
        page = self.page(self.path("m"), "--memory", "1G")
        self.assertIn("under other limits than those of the file's design: rows of 1000 numbers, memory at most 954 MiB",
                      page.text)
        self.assertEqual(self.raw.count('<tr class="out">'), 0)

    def test_the_max_loss_and_the_range_of_a_design_are_repeated(self):
        asked = ["--steps", 64, "--epsilon", 1, "--delta", "1e-6", "--dim", "1000"]
        page = self.page(self.designed("m", *asked, "--epochs", 1, "--loss", "max"))
        self.assertIn("least max noise", page.text)
        self.assertIn("best eligible", page.own)
        page = self.page(self.designed("m", *asked, "--federated", "3,8..16"))
        self.assertIn("Worst ratio", page.text)
        self.assertIn("separations up to 16", page.text)
        self.assertIn("best eligible", page.own)

    def best(self, page):
        """The rows that are called best."""
        return [row for row in re.findall("<tr.*?</tr>", self.raw, re.S) if "best eligible" in row]

    def test_no_other_is_called_best_where_the_file_has_less_noise(self):
        """Under random allocation, which the design covers for one step of each epoch and not for two."""
        asked = ["--steps", 64, "--epochs", 4, "--epsilon", 2, "--delta", "1e-8", "--sampling", "allocation"]
        page = self.page(self.designed("m", *asked, "--families", "identity"))
        best, = self.best(page)
        self.assertIn("this file", best)
        self.ok("calibrate", self.path("m"), "--epsilon", 0.5, "--delta", "1e-8", "--sampling", "allocation:2,64", "-o",
                self.path("twice"))
        page = self.page(self.path("twice"))
        best, = self.best(page)
        self.assertIn("this file", best)
        self.assertIn("as good as, or better than, the choice", page.text)
        self.assertIn("what a design chooses among its candidates", page.text)

    def test_the_limits_of_the_page_are_kept(self):
        file = self.designed("m", "--steps", 64, "--epochs", 1, "--epsilon", 1, "--delta", "1e-6", "--max-overhead", 1000)
        self.page(file)
        self.assertEqual(self.raw.count('<tr class="out">'), 0)
        self.page(file, "--memory", "20M")
        self.assertGreater(self.raw.count('<tr class="out">'), 0)
        self.page(file, "--dim", "1000", "--max-overhead", "2")
        self.assertGreater(self.raw.count('<tr class="out">'), 0)

    def test_many_steps_compare_what_needs_no_search(self):
        """Above some ten thousand steps only what needs no search is compared, and the page says so."""
        page = self.page(self.mechanism("m", "--steps", "400", "--family", "toeplitz", "--participation",
                                        "cyclic:4,100"))
        self.assertTrue("banded-toeplitz" in page.text, "the design's families are missing")
        self.assertTrue("all of 400 columns" in page.text, "not every column was read")
        page = self.page(self.mechanism("m", "--steps", "40000", "--family", "tree-online"))
        for words in ("need no search", "columns were read", "optimum's own curve is not drawn"):
            self.assertTrue(words in page.text, words)


class Escaping(ReportCase):
    NASTY = "<script>alert(1)</script> \"'&amp; <img onerror=alert(2)> \u00e9\u4e2d"

    def test_names_of_files_are_escaped(self):
        name = "<script>alert(1)<&'\".mech"
        file = self.mechanism(name, "--steps", 8, "--family", "toeplitz")
        page = self.page(file)
        self.assertNotIn("<script", self.raw)
        self.assertIn(name, page.title)
        self.assertIn("dpmf verify '<script>alert(1)<&'\\''\".mech'", page.text)

    def test_names_that_are_not_text_are_shown_as_such(self):
        source = self.mechanism("m", "--steps", 8, "--family", "toeplitz")
        name = os.path.join(os.fsencode(self.directory.name), b"\xff\xfe\x01\xed\xa0\x80.mech")
        os.rename(source, name)
        code, _, err = run("report", os.fsdecode(name), "-o", self.path("page.html"))
        self.assertEqual((code, err), (0, ""))
        with open(self.path("page.html"), "rb") as file:
            text = file.read().decode("utf-8")
        self.assertIn("\ufffd", Page(text).title)
        self.assertNotIn("\x01", text)

    def test_the_maker_of_a_file_is_escaped(self):
        file = self.mechanism("m", "--steps", 8, "--family", "toeplitz")
        remade(file, self.NASTY)
        self.assertEqual(self.json("inspect", file)["made_by"], self.NASTY)
        page = self.page(file)
        self.assertIn(self.NASTY, page.text)
        self.assertNotIn("<script", self.raw)
        self.assertNotIn("<img", self.raw)


class Refused(ReportCase):
    def setUp(self):
        super().setUp()
        self.file = self.mechanism("m", "--steps", 8, "--family", "toeplitz")

    def test_report_refuses_missing_and_bad_options(self):
        self.refused(2, "report", self.file, says="--out")
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


@unittest.skipIf(browser.PROGRAM is None, "no Chromium here")
@unittest.skipIf("asan" in DPMF, "the page is that of the release build, which is looked at")
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
        with browser.Browser() as tab:
            for file in files:
                page = file + ".html"
                self.ok("report", file, "-o", page)
                for width in [1200, 400]:
                    with self.subTest(file=os.path.basename(file), width=width):
                        self.assertGreater(self.look(tab, page, width, False), 600, "light")
                        self.assertLess(self.look(tab, page, width, True), 150, "dark")
            tab.open(files[0] + ".html", 1200, dark=True)
            self.assertTrue(tab.printed().startswith(b"%PDF"))


if __name__ == "__main__":
    unittest.main()
