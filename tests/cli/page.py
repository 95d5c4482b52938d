# SPDX-License-Identifier: Apache-2.0
"""A page that dpmf wrote: its bytes, the JSON object in it, its plain part, and what a browser makes of it."""
import base64
import hashlib
import html.parser
import json
import re

import browser
from harness import DPMF, refuse_constant

LOOKED_AT = browser.PROGRAM is not None and "asan" not in DPMF  # the sanitizers' page is the same one
VOID = {"meta", "br", "img", "input", "link", "hr"}
BLOCK = re.compile(r'<script type="application/json" id="object">(.*?)</script>', re.S)
DRAWN = """(() => {
    const all = (where, what) => [...document.querySelectorAll(where)].map(what);
    const words = node => node.innerText.replace(/\\s+/g, " ").trim();
    return {text: words(document.body), ids: all("[id]", one => one.id), links: all("[href]", one => one.getAttribute("href")),
            tags: all("body *", one => one.localName), pictures: all("svg[role=img]", one => one.getAttribute("aria-label")),
            badges: all(".badge", words), own: all("tr.own", words).join(" "), out: all("tr.out", words), title: document.title,
            best: all("tr", words).filter(row => row.includes("best eligible")), left: all("#plain", words)};
})()"""


class Tags(html.parser.HTMLParser):
    """Raises ValueError where tags are not balanced or an attribute stands twice; keeps tags, title, and the text outside of
    scripts, styles and templates."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.title = [], [], [], [], ""
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
        if len(dict(attributes)) != len(attributes):
            raise ValueError("an attribute twice in <%s>" % tag)
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            raise ValueError("</%s> after %s at %s" % (tag, self.open[-3:], self.getpos()))
        self.open.pop()

    def handle_data(self, data):
        if "title" in self.open:
            self.title += data
        elif not {"script", "style", "template"} & set(self.open):
            self.words.append(data)


class Page:
    """A page at `path`, checked for what every page must have. With a tab of browser.Browser, also `drawn`, what DRAWN finds."""

    def __init__(self, case, path, tab=None):
        with open(path, "rb") as stream:
            self.raw = stream.read().decode("utf-8")
        self.path, self.plain = path, Tags(self.raw)
        case.assertTrue(self.raw.startswith("<!DOCTYPE html>\n") and self.raw.endswith("</html>\n"))
        case.assertEqual(self.plain.tags.count("script"), 2, "the object and the script")
        case.assertEqual({"img", "link", "iframe", "object", "embed", "form"} & set(self.plain.tags), set())
        case.assertEqual([(name, value) for name, value in self.plain.attributes if name in ("src", "style", "srcset", "action")
                          or name.startswith("on") or (name == "href" and value[0] != "#")], [])
        own = re.search("<style>(.*?)</style>", self.raw, re.S).group(1) + re.search("<script>(.*?)</script>", self.raw, re.S).group(1)
        own = own.replace('"http://www.w3.org/2000/svg"', "")  # the name of SVG, which nothing loads
        case.assertIsNone(re.search(r"https?:|//[a-z]|url\(|@import|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", own))
        self.check_policy(case)
        block = BLOCK.search(self.raw).group(1)
        case.assertNotIn("<", block)
        self.object = json.loads(block, parse_constant=refuse_constant)
        case.assertEqual(self.object["schema"], 1)
        case.assertNotIn("NaN", block)
        self.drawn = None if tab is None else self.draw(case, tab)

    def check_policy(self, case):
        """The policy of the page lets its one script and its style sheet work, by their digests, and nothing else."""
        def digest(pattern):
            text = re.search(pattern, self.raw, re.S).group(1)
            return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        case.assertIn('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; script-src \'sha256-%s\'; '
                      "style-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">" % (
                          digest(r"<script>(.*?)</script>"), digest(r"<style>(.*?)</style>")), self.raw)

    def draw(self, case, tab):
        tab.open(self.path, 1200)
        drawn = tab.run(DRAWN)
        case.assertEqual(tab.complaints, [])
        case.assertEqual(len(tab.requests), 1, "the page asks for nothing but itself")
        case.assertEqual(drawn["left"], [], "the plain part is replaced")
        case.assertEqual(len(drawn["ids"]), len(set(drawn["ids"])))
        case.assertTrue(all(drawn["pictures"]), "every picture has a name")
        case.assertTrue(all(link[0] == "#" and link[1:] in drawn["ids"] for link in drawn["links"]), drawn["links"])
        case.assertIsNone(re.search(r"\b(NaN|undefined|null|Infinity)\b", drawn["text"]))
        return drawn


def seen(case, path):
    """The Page at `path`, in a browser of its own where there is one."""
    if not LOOKED_AT:
        return Page(case, path)
    with browser.Browser() as tab:
        return Page(case, path, tab)
