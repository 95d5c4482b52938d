#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cli.md from the program's help and c-api.md from include/dpmf.h, for the site and for the checks of words.

    generate_reference.py DPMF FOLDER     DPMF is the program
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MADE = "<!-- Made by scripts/generate_reference.py: edit %s instead. -->\n"
DASHES = re.compile(r"/\* -{20,}\n \* (\d+)  (.*?)\n(.*?) \* -{20,} \*/\n", re.S)


def words(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True).stdout.decode()


def cli_page(program):
    verbs = re.findall(r"^  (\w+) ", words(program, "help").split("verbs:\n")[1].split("\nexit codes")[0], re.M)
    out = ["# The command line\n", MADE % "the tables in cli/options/",
           "`dpmf VERB [OPTION]... [FILE]`. The same text is printed by `dpmf help VERB` and by the manual page.\n",
           "```text\n%s```\n" % words(program, "help")]
    for verb in verbs:
        out.append("## %s\n\n```text\n%s```\n" % (verb, words(program, "help", verb)))
    return "\n".join(out)


def plain(comment):
    """The text of a comment without its frame."""
    lines = re.sub(r"^/\*\s?|\s*\*/$", "", comment.strip()).split("\n")
    return "\n".join(re.sub(r"^ ?\* ?", "", line).rstrip() for line in lines).strip("\n")


def escaped(text):
    """Escaped for Markdown; text between backticks needs no escapes."""
    parts = text.split("`")
    return "`".join(re.sub(r"([_*<>\\])", r"\\\1", part) if i % 2 == 0 else part for i, part in enumerate(parts))


def prose(text):
    """Paragraphs stay; blocks that are indented, or that hold a table, become code."""
    out = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.split("\n")
        indented = [line for line in lines if line.startswith("  ")]
        out.append("```text\n%s\n```" % block if len(indented) == len(lines) else
                   escaped(block) if not indented else "```text\n%s\n```" % block)
    return "\n\n".join(out)


def declarations(body):
    """A section: comments at the margin become prose, the text between them code."""
    out, code = [], []

    def flush():
        text = "\n".join(code).strip("\n")
        if text.strip():
            out.append("```c\n%s\n```" % text)
        code.clear()
    at = 0
    pieces = list(re.finditer(r"^/\*.*?\*/$", body, re.M | re.S))
    for piece in pieces:
        code.extend(body[at:piece.start()].split("\n"))
        flush()
        at = piece.end()
        tier = re.fullmatch(r"/\* -+ (\w+) -+ \*/", piece.group())
        out.append("### Tier: %s" % tier.group(1) if tier else prose(plain(piece.group())))
    code.extend(body[at:].split("\n"))
    flush()
    return "\n\n".join(out)


def c_page():
    page = ["# The C interface\n", MADE % "the headers in include/"]
    for name in ("dpmf.h", "dpmf_experimental.h"):
        page += header_part((ROOT / "include" / name).read_text(encoding="utf-8"))
    return "\n".join(page)


def header_part(header):
    first = re.search(r"^/\*\n \* dpmf[:,].*?\*/$", header, re.M | re.S).group()
    end = header.index("#ifdef __cplusplus\n}")
    marks = list(DASHES.finditer(header))
    out = [prose(plain(first)) + "\n"]
    for mark, following in zip(marks, marks[1:] + [None]):
        body = header[mark.end():following.start() if following else end]
        head = plain("/*\n" + mark.group(3) + " */")
        out.append("## %s. %s\n\n%s%s\n" % (mark.group(1), mark.group(2), prose(head) + "\n\n" if head.strip() else "",
                                          declarations(body)))
    return out


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cli.md").write_text(cli_page(program), encoding="utf-8")
    (folder / "c-api.md").write_text(c_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
