#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the pages: every relative link leads to a file, every #anchor to a heading, the index names every page, the README
has at most 200 lines, and no page uses the words that CONTRIBUTING asks to avoid.

    check_docs.py [ROOT]
    check_docs.py --words FOLDER     only the words, in the pages of a folder
    check_docs.py --self-test
"""
import fnmatch
import pathlib
import re
import sys
import tempfile

from check_words import AVOID

README_LINES = 200
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
#: The section with the table of words is left out itself.
WORDS = re.compile(r"^## Words\n.*?(?=^## |\Z)", re.M | re.S)


def without_code(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def anchor(title):
    """As GitHub makes it of a heading."""
    title = re.sub(r"`", "", title)
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def anchors(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.M)}


def link_problems(page):
    for target in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, part = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            yield "%s: no such file: %s" % (page, target)
        elif part and path.suffix == ".md" and part not in anchors(path):
            yield "%s: no such heading: %s" % (page, target)


def word_problems(page):
    text = WORDS.sub(lambda part: "\n" * part.group().count("\n"), page.read_text(encoding="utf-8"))
    for number, line in enumerate(text.split("\n"), 1):
        for found in AVOID.findall(re.sub(r"`[^`]*`", "", line)):
            yield "%s:%d: '%s': CONTRIBUTING.md, Words, has better ones" % (page, number, found)


def test_problems(root, page):
    """Promises name the tests that show them: `tests/<stage>/test_x.c`, `test_x.py`, `test_x`, where x may end in *."""
    names = {path.stem for folder in ("tests", "python/tests") for path in (root / folder).rglob("test_*.*")}
    for word in re.findall(r"`([\w/]*test_\w+\*?(?:\.\w+)?)`", page.read_text(encoding="utf-8")):
        if "/" in word and not (root / word).exists():
            yield "%s: no such test: %s" % (page, word)
        elif not any(fnmatch.fnmatch(name, word.rpartition("/")[2].partition(".")[0]) for name in names):
            yield "%s: no such test: %s" % (page, word)


def problems(root):
    pages = sorted(root.glob("*.md")) + sorted((root / "docs").glob("*.md")) + sorted(root.glob("*/README.md"))
    for page in pages:
        yield from link_problems(page)
        yield from word_problems(page)
        if page.name.lower() == "security.md":
            yield from test_problems(root, page)
    index = root / "docs" / "index.md"
    named = set(LINK.findall(index.read_text(encoding="utf-8"))) if index.exists() else set()
    for page in sorted((root / "docs").glob("*.md")):
        if page != index and page.name not in {target.partition("#")[0] for target in named}:
            yield "docs/index.md does not name %s" % page.name
    lines = (root / "README.md").read_text(encoding="utf-8").count("\n")
    if lines > README_LINES:
        yield "README.md has %d lines, accepted: at most %d" % (lines, README_LINES)


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "docs").mkdir()
        (root / "README.md").write_text("# A b\n[x](docs/a.md#one-two) [y](https://x)\n`[no](none.md)`\n")
        (root / "docs" / "a.md").write_text("# One, two\n```\n# code\n[no](none.md)\n```\n")
        (root / "docs" / "index.md").write_text("[a](a.md)\n")
        assert list(problems(root)) == [], list(problems(root))
        for text, words in (("[x](docs/none.md)", "no such file"), ("[x](docs/a.md#code)", "no such heading"),
                            ("\n" * 201, "201 lines")):
            (root / "README.md").write_text(text)
            assert any(words in problem for problem in problems(root)), text
        for text, words in (("It says how.", "says how"), ("whatever it is", "whatever"), ("8 bytes a row", "bytes a row"),
                            ("It goes on\nand goes on from there", "README.md:2: 'goes on from'")):
            (root / "README.md").write_text(text)
            assert any(words in problem for problem in problems(root)), text
        for text in ("`says how`", "## Words\n| x | says how |\n", "It says so. A row of a line, one a day."):
            (root / "README.md").write_text(text)
            assert list(problems(root)) == [], (text, list(problems(root)))
        (root / "tests").mkdir()
        (root / "tests" / "test_here.py").write_text("")
        (root / "SECURITY.md").write_text("`test_here`, `test_he*.py`, `tests/test_here.py`")
        assert list(problems(root)) == [], list(problems(root))
        for text in ("`test_gone`", "`tests/test_here.c`"):
            (root / "SECURITY.md").write_text(text)
            assert any("no such test" in problem for problem in problems(root)), text
        (root / "docs" / "new.md").write_text("x")
        assert any("does not name new.md" in problem for problem in problems(root))
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:2] == ["--words"]:  # pages that were written elsewhere, from help texts, comments and docstrings
        found = [problem for page in sorted(pathlib.Path(sys.argv[2]).glob("*.md")) for problem in word_problems(page)]
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = list(problems(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
