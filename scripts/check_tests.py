#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how the tree and its tests are laid out.

A folder of src/, train/, cli/ or tests/ holds at most 40 files of its own: nobody reads a longer list. The folders of tests/
are those of src/ and train/, so that the tests of a stage are found by its name; what is no stage is named in OTHERS. A C test is
called test_ and a sentence, three words at least, which says what is true if it passes, and no two tests of a stage
have the same name.

    check_tests.py [ROOT]      exit 1 and one line a violation: file:line: rule, or folder: rule
    check_tests.py --self-test
"""
import re
import sys

from checking import finds_exactly, run

MOST_FILES = 40
CROWDED = ("src", "train", "cli", "tests")
OTHERS = ("support", "cli", "python", "fuzz", "data", "install", "mpi", "oracle", "attacks", "behaviour")
LEAST_WORDS = 3
REGISTERED = re.compile(r"\bcmocka_unit_test(?:_\w+)?\(\s*(\w+)")
DEFINED = re.compile(r"^(?:static )?void (\w+)\(void \*\*\w*\)", re.MULTILINE)


def folders(top):
    """`top` and the folders below it, without what editors and Python leave behind."""
    yield top
    for path in sorted(path for path in top.iterdir() if path.is_dir()):
        if not path.name.startswith(".") and path.name != "__pycache__":
            yield from folders(path)


def check_crowds(root, report):
    for top in (root / name for name in CROWDED):
        for folder in folders(top):
            count = sum(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())
            if count > MOST_FILES:
                report(folder, None, f"holds {count} files of its own, at most {MOST_FILES}")


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

    check_crowds(root, report)
    for folder in sorted(path for path in (root / "tests").iterdir() if path.is_dir()):
        if folder.name.startswith(".") or folder.name == "__pycache__":
            continue
        if folder.name not in (*OTHERS, "train") and not (root / "src" / folder.name).is_dir():
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
    tree.update({f"src/noise/part_{i}.c": "" for i in range(MOST_FILES)})
    tree.update({f"src/strategy/part_{i}.c": "" for i in range(MOST_FILES + 1)})
    tree.update({f"cli/reports/page_{i}.c": "" for i in range(MOST_FILES + 1)})
    tree.update({"src/strategy/inner/part.c": "", "src/noise/.hidden": "", "tests/noise/__pycache__/x.pyc": "",
                 "train/model.c": "", "tests/train/model.h": ""})
    expected = {"src/strategy", "cli/reports", "tests/elsewhere", "tests/noise/test_state.c:1",
                "tests/noise/test_state.c:3", "tests/noise/test_state.c:5"}
    return finds_exactly(check, tree, expected)


if __name__ == "__main__":
    sys.exit(run(check, self_test))
