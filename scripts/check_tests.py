#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how the tree and its tests are laid out.

A C file of src/, cli/, train/ or tests/ has at most 600 lines, except the tables of LONG_TABLES. The folders of tests/ are
those of src/, so that the tests of a stage are found by its name; OTHERS names the folders that are no stage. A C test is
called test_ and a sentence of at least three words, which is true if it passes, and no two tests of a stage have the
same name.

    check_tests.py [ROOT]      exit 1 and one line per violation: file: rule, file:line: rule, or folder: rule
    check_tests.py --self-test
"""
import re
import sys

from checking import finds_exactly, run

MOST_LINES = 600
LIMITED = ("src", "cli", "train", "tests")
LONG_TABLES = ("cli/options/options.c",)  # one row per option
OTHERS = ("support", "cli", "python", "fuzz", "data", "install", "mpi", "oracle", "attacks", "behaviour", "papers")
LEAST_WORDS = 3
REGISTERED = re.compile(r"\bcmocka_unit_test(?:_\w+)?\(\s*(\w+)")
DEFINED = re.compile(r"^(?:static )?void (\w+)\(void \*\*\w*\)", re.MULTILINE)


def check_lengths(root, report):
    for folder in LIMITED:
        for path in sorted((root / folder).rglob("*.[ch]")):
            lines = path.read_text(encoding="utf-8").count("\n")
            if lines > MOST_LINES and path.relative_to(root).as_posix() not in LONG_TABLES:
                report(path, None, f"has {lines} lines, at most {MOST_LINES}")


def check_names(path, seen, report):
    """The tests of one file; `seen` has those of the stage so far."""
    text = path.read_text(encoding="utf-8")
    registered = set(REGISTERED.findall(text))
    for match in DEFINED.finditer(text):
        name, number = match.group(1), text.count("\n", 0, match.start()) + 1
        if name not in registered:
            continue
        words = name.removeprefix("test_").split("_")
        if not name.startswith("test_") or len(words) < LEAST_WORDS:
            report(path, number, f"{name} is not test_ and a sentence of {LEAST_WORDS} words or more")
        if name in seen:
            report(path, number, f"{name} is the name of a test in {seen[name]} too")
        seen.setdefault(name, path.name)


def check(root):
    violations = []

    def report(path, number, rule):
        place = str(path.relative_to(root))
        violations.append(f"{place}: {rule}" if number is None else f"{place}:{number}: {rule}")

    check_lengths(root, report)
    for folder in sorted(path for path in (root / "tests").iterdir() if path.is_dir()):
        if folder.name.startswith(".") or folder.name == "__pycache__":
            continue
        if folder.name not in OTHERS and not (root / "src" / folder.name).is_dir():
            report(folder, None, f"there is no stage src/{folder.name}, and it is none of {', '.join(OTHERS)}")
        seen = {}
        for path in sorted(folder.glob("test_*.c")):
            check_names(path, seen, report)
    return violations


def self_test():
    """A small tree with violations of each rule, each of which must be found, and nothing else."""
    function = "static void %s(void **state) {\n}\n"
    listed = "cmocka_unit_test(%s)\n"
    tests = {
        "tests/noise/test_rows.c": ("test_rows_come_in_order", "test_no_row_comes_twice"),
        "tests/noise/test_state.c": ("test_rows_come_in_order", "test_refusals", "rows_are_kept_here"),
        "tests/strategy/test_rows.c": ("test_rows_come_in_order",),
        "tests/elsewhere/test_it.c": ("test_it_is_somewhere_else",),
        "tests/attacks/test_old.c": ("test_an_old_attack_fails",),
    }
    tree = {path: "".join(function % name for name in names) + "".join(listed % name for name in names)
            for path, names in tests.items()}
    tree["tests/noise/test_rows.c"] += function % "helper"  # no test: it is not in the list
    tree.update({"src/noise/long.c": "\n" * MOST_LINES, "src/strategy/inner/longer.c": "\n" * (MOST_LINES + 1),
                 "cli/longer.h": "\n" * (MOST_LINES + 1), "cli/options/options.c": "\n" * (MOST_LINES + 1)})
    expected = {"src/strategy/inner/longer.c", "cli/longer.h", "tests/elsewhere", "tests/noise/test_state.c:1",
                "tests/noise/test_state.c:3", "tests/noise/test_state.c:5"}
    return finds_exactly(check, tree, expected)


if __name__ == "__main__":
    sys.exit(run(check, self_test))
