#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no code stands twice: no two places in src/ and cli/ share more than 12 equal lines in a row.

Read are the files .c, .h and .inc. Lines are compared without the blanks at their ends and with each run of blanks
inside as one. Passed over, as if they were not there, are lines that say nothing of their own: blank ones, the SPDX
line, #include, and lines of closing brackets and punctuation alone, such as `}` or `});`. A run that continues past
such lines goes on. The two places may be in one file, if they do not overlap.

    check_repeats.py [ROOT]      exit 1 and one line a repetition: file:first-last: stands again in file:first-last
    check_repeats.py --self-test
"""
import re
import sys

from checking import check_tree, run

FOLDERS = ("src", "cli")
ENDINGS = (".c", ".h", ".inc")
MOST = 12  # equal lines in a row that two places may share
SILENT = re.compile(r'^(|[\])};,\s]+|\s*#\s*include\b.*|.*SPDX-License-Identifier.*)$')


def spoken_lines(path):
    """[(number, text)] of the lines that count."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [(number, " ".join(line.split())) for number, line in lines if not SILENT.match(line)]


def grow(one, i, other, j, same_file):
    """The number of lines from one[i] on that equal those from other[j] on; within one file the two may not overlap."""
    length = 0
    while (i + length < len(one) and j + length < len(other) and one[i + length][1] == other[j + length][1]
           and not (same_file and i + length >= j)):
        length += 1
    return length


def check(root):
    names, texts = [], []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in ENDINGS:
                names.append(str(path.relative_to(root)))
                texts.append(spoken_lines(path))
    window = MOST + 1
    places = {}  # the texts of `window` lines in a row -> where they stand
    for file, lines in enumerate(texts):
        for at in range(len(lines) - window + 1):
            places.setdefault(tuple(text for _, text in lines[at:at + window]), []).append((file, at))
    found = []
    for where in places.values():
        for k, (file, i) in enumerate(where):
            for other, j in where[k + 1:]:
                one, two = texts[file], texts[other]
                if i > 0 and j > 0 and one[i - 1][1] == two[j - 1][1] and not (file == other and j - i <= window):
                    continue  # not the beginning of the run: reported there
                length = grow(one, i, two, j, file == other)
                if length >= window:
                    found.append(f"{names[file]}:{one[i][0]}-{one[i + length - 1][0]}: {length} lines stand again in "
                                 f"{names[other]}:{two[j][0]}-{two[j + length - 1][0]}")
    return sorted(found)


def self_test():
    """Small trees: repetitions of 13 lines are found in any place; those of 12 are not, nor lines that do not count."""
    def block(count, name="x"):
        return "".join(f"    {name}{i} = {i};\n" for i in range(count))

    head = "/* SPDX-License-Identifier: Apache-2.0 */\n#include \"a.h\"\n\n"
    trees = [
        ({"src/a.c": head + block(13), "cli/b/c.c": "int y;\n" + block(13)}, ["cli/b/c.c:2-14", "src/a.c:4-16"]),
        ({"src/a.c": head + block(12), "src/b.h": block(12)}, []),
        ({"src/a.c": "int a;\n" + block(13) + "int b;\n" + block(13)}, ["src/a.c:16-28", "src/a.c:2-14"]),
        ({"src/a.c": block(6) + "    }\n\n" + block(7, "z"), "src/b.inc": block(6) + block(7, "  z")},
         ["src/a.c:1-15", "src/b.inc:1-13"]),
        ({"src/a.c": block(6) + "    y();\n" + block(7, "z"), "src/b.c": block(6) + block(7, "z")}, []),
        ({"src/a.c": block(25), "src/b.c": block(25)}, ["src/a.c:1-25", "src/b.c:1-25"]),
        ({"src/a.c": "    x = 0;\n" * 20}, []),
        ({"src/a.c": "    x = 0;\n" * 26}, ["src/a.c:1-13", "src/a.c:14-26"]),
        ({"src/a.c": block(13), "tests/b.c": block(13), "src/b.md": block(13)}, []),
        ({"src/a.c": "}\n" * 20 + head * 20, "src/b.c": "}\n" * 20 + head * 20}, []),
    ]
    failed = 0
    for number, (tree, expected) in enumerate(trees):
        found = check_tree(check, tree)
        places = sorted(place for line in found for place in re.findall(r"\S+:\d+-\d+", line))
        if places != expected or (expected and len(found) != 1):
            print(f"tree {number}: expected {expected}, found", *found, sep="\n", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(run(check, self_test))
