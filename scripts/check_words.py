#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the English of comments and strings against the list of words that CONTRIBUTING, section Words, asks to avoid.

It reads the comments and strings of the C, OpenCL, Python, shell and CMake files of FOLDERS. Text between backquotes is
code and is not checked. check_docs.py uses AVOID for the pages.

    check_words.py [ROOT]      exit 1 and one line per finding: file:line: words
    check_words.py --self-test
"""
import io
import re
import sys
import tokenize

from checking import finds_exactly, run

FOLDERS = ("include", "src", "cli", "train", "papers", "python", "tests", "scripts", "bench", "examples", "cmake")
#: Files that hold the list itself or other people's words.
LEFT_OUT = ("scripts/check_words.py", "scripts/check_docs.py")

THING = (r"an? (?:step|epoch|row|line|column|unit|second|coordinate|parameter|process|number|call|node|block|weight|term"
         r"|entry|item|thread|tile|byte|batch|file|round|doubling|piece|question|value|folder)\b")
#: The plainest cases of the table in CONTRIBUTING.md.
AVOID = re.compile("|".join((
    r"\b(?:says?|said|saying) (?:how|what|why|which|who|whose|where|when|whether)\b",
    r"\b(?:who|what|which)ever\b",
    r"\bso many\b",
    r"\b(?:once|steps?|bytes|lines?|numbers?|rows?|files?|(?:nano|pico|milli)?seconds?|[mnµ]?s|operations|counts?|one|two"
    r"|three|five|seeds?|additions|multiplications|instructions|evaluations|roundings|positions|terms|words|transforms"
    r"|buffers?) " + THING,
    r"\bsee to\b",
    r"\bthat really (?:are|is)\b",
    r"\bgone on\b|\b(?:go|goes|going) on (?:with|from|where|after|at|in)\b",
    r"\bbe had\b|\bhanded out\b",
    r"\b(?:anew|afresh)\b|\bmend(?:ed|s)?\b",
)), re.IGNORECASE)
#: Indefinite persons, who do not stand for code. Pages may write of people.
AVOID_IN_SOURCES = re.compile("|".join((
    AVOID.pattern,
    r"\bnobody\b|\bwhom\b",
    r"\bwho (?:answers?|makes?|asks?|says?)\b",
    r"\b(?:is|are|was|were|be|been|being) told\b",
)), re.IGNORECASE)

C_PART = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
SHELL_PART = re.compile(r"""(?m)(?:^|(?<=\s))\#.*(?:\n\s*\#.*)*|"(?:\\.|[^"\\])*\"""")
LINE_START = re.compile(r"\n\s*(?:\*(?!/)|\#:?|//)?\s*|\"\s*\n\s*\"")
C_SUFFIXES, SHELL_SUFFIXES = (".c", ".h", ".inc", ".cl"), (".sh", ".cmake")


def python_parts(text):
    """(offset, text) of the strings and of the comments, a run of comment lines as one."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    parts, last = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            last = None
        elif token.type in (tokenize.COMMENT, tokenize.STRING):
            offset = starts[token.start[0] - 1] + token.start[1]
            if last is not None and token.type == tokenize.COMMENT == last:
                begin = parts.pop()[0]
                parts.append((begin, text[begin:offset + len(token.string)]))
            else:
                parts.append((offset, token.string))
            last = token.type
    return parts


def text_parts(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text, python_parts(text)
    pattern = C_PART if path.suffix in C_SUFFIXES else SHELL_PART
    return text, [(found.start(), found.group()) for found in pattern.finditer(text) if found.group()[0] != "'"]


def findings(path):
    """(line, words) of a file. Lines are joined first, so that words on both sides of a line's end are found."""
    text, parts = text_parts(path)
    for offset, part in parts:
        plain = re.sub(r"`[^`\n]*`", lambda code: "`" * len(code.group()), part)
        # The end of a line and the marks that begin the next one become a space, or nothing between two strings, and zeros
        # for the other characters, so that offsets stay.
        plain = LINE_START.sub(lambda end: ("\0" if end.group()[0] == '"' else " ") + "\0" * (len(end.group()) - 1), plain)
        kept = [i for i, letter in enumerate(plain) if letter != "\0"]
        for found in AVOID_IN_SOURCES.finditer(plain.replace("\0", "")):
            yield text.count("\n", 0, offset + kept[found.start()]) + 1, found.group()


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            hidden = any(part.startswith(".") or part in ("__pycache__", "venv", "build") for part in path.parts[len(root.parts):])
            is_source = path.suffix in (".py", *C_SUFFIXES, *SHELL_SUFFIXES) or path.name == "CMakeLists.txt"
            if is_source and path.is_file() and not hidden and name not in LEFT_OUT:
                yield name, path
    if (root / "CMakeLists.txt").exists():
        yield "CMakeLists.txt", root / "CMakeLists.txt"


def check(root):
    return [f"{name}:{line}: '{words}': CONTRIBUTING.md, Words, has better ones"
            for name, path in sources(root.resolve()) for line, words in findings(path)]


def self_test():
    clean = {
        "src/a/good.c": "/* A row per step. */\nint nobody; /* `says how` */ char *s = \"a row of a step\";\n",
        "scripts/good.py": "anew = 1  # one row per step\n",
    }
    planted = {
        "src/a/one.c": "int x;\n/* It says\n * how this works. */\n",
        "src/a/two.h": "char *s = \"rows handed \"\n    \"out\";\n",
        "src/a/three.inc": "// 8 bytes a row\n",
        "src/a/four.cl": "int y; /* made anew */\n",
        "tests/five.py": "def f():\n    \"\"\"For\n    whoever asks.\"\"\"\n",
        "tests/six.py": "x = 1\n# The caller is\n# told.\n",
        "scripts/seven.sh": "true\necho \"nobody\"\n",
        "scripts/eight.sh": "true # who answers\n",
        "cmake/nine.cmake": "# whom it names\n",
    }
    expected = {"src/a/one.c:2", "src/a/two.h:1", "src/a/three.inc:1", "src/a/four.cl:1", "tests/five.py:3", "tests/six.py:2",
                "scripts/seven.sh:2", "scripts/eight.sh:1", "cmake/nine.cmake:1"}
    return finds_exactly(check, {**clean, **planted}, expected)


if __name__ == "__main__":
    sys.exit(run(check, self_test))
