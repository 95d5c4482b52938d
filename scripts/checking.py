# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks of the tree: a small tree to try them on, and their command line.

A check is a function from a root to a list of violations, one line each, which begins with the place and ": ".
"""
import pathlib
import sys
import tempfile


def check_tree(check, tree):
    """The violations that `check` finds in a tree made of {path: text}."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return check(root)


def finds_exactly(check, tree, expected):
    """0 if the violations in the tree are those at the places `expected`, one each; else 1, and the difference on stderr."""
    found = check_tree(check, tree)
    places = {violation.split(": ")[0] for violation in found}
    if places == expected and len(found) == len(expected):
        return 0
    print(*found, sep="\n", file=sys.stderr)
    print("not found:", sorted(expected - places), "not expected:", sorted(places - expected), file=sys.stderr)
    return 1


def report(violations):
    """The exit code: 1 and a line for each violation on stderr, or 0."""
    print(*violations, sep="\n", end="\n" if violations else "", file=sys.stderr)
    return 1 if violations else 0


def run(check, self_test):
    """The command line [ROOT] or --self-test; ROOT is by default the tree of this file."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    return report(check(root.resolve()))
