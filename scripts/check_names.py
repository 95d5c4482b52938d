#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the name of a family, a participation or a sampling stands in few files.

A family's name (a `#define DPMF_FAMILY_X "name"` of include/dpmf.h) may stand as a string literal in at most 3 C files
of src/ and cli/ outside src/families, where the families and their table are. Not counted are keys of JSON and labels of
tables, which are words of their own ("workload"): the second argument of functions whose names have json_ or table_ in them,
`.name` of an option, and `.class_name`.

The stages of src/ name no family at all, neither by such a literal nor by a DPMF_FAMILY_ constant, and compare no class_name
with a literal: they ask the table of operations what an object can do, and src/design asks it for the families' candidates.
Free are the libraries of their own over dpmf.h, src/mpi and src/device.

A constant of dpmf_participation_kind may stand in at most 8 C files of src/ and cli/ outside src/workload, and one of
dpmf_sampling_kind in at most 8 outside src/account: others ask the object.

    check_names.py [ROOT]      exit 1 and one line per name in too many files
    check_names.py --self-test
"""
import pathlib
import re
import sys

from checking import finds_exactly, run

FAMILY_FILES, KIND_FILES = 3, 8
FAMILIES = "src/families/"
MAY_NAME = (FAMILIES, "src/mpi/", "src/device/")
NAMING = re.compile(r'\bDPMF_FAMILY_\w+|strcmp\((?:[^;"]*\bclass_name\b[^;)"]*"|"[^"]*",[^;)]*\bclass_name\b)')
KINDS = {"dpmf_participation_kind": "src/workload", "dpmf_sampling_kind": "src/account"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
OTHER_WORDS = re.compile(r'\b\w*(?:json|table)_\w*\(\s*[^,()]*,\s*"[^"]*"|\.(?:class_)?name = "[^"]*"')


def sources(root):
    """{path relative to root: text without comments} of the C files of src/, train/ and cli/."""
    found = {}
    for folder in ("src", "train", "cli"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".inc"):
                found[path.relative_to(root).as_posix()] = COMMENT.sub(" ", path.read_text(encoding="utf-8"))
    return found


def is_stage(path):
    return path.startswith("src/") and not path.startswith(MAY_NAME)


def check(root):
    header = COMMENT.sub(" ", (root / "include" / "dpmf.h").read_text(encoding="utf-8"))
    texts = sources(root)
    families = re.findall(r'^#define DPMF_FAMILY_\w+ "([^"]+)"', header, re.MULTILINE)
    if not families:
        sys.exit("include/dpmf.h defines no DPMF_FAMILY_ constants")
    violations = []

    def report(name, files, most, where):
        if len(files) > most:
            violations.append(f"{name}: in {len(files)} C files {where}, accepted {most}: {' '.join(files)}")

    literals = {path: OTHER_WORDS.sub(" ", text) for path, text in texts.items()}
    for family in families:
        literal = f'"{family}"'
        own = (FAMILIES, f"src/{family}/")  # a stage may have the family's name, as workload: then the word is its own
        files = [path for path, text in literals.items() if literal in text and not path.startswith(own)]
        report(literal, files, FAMILY_FILES, "outside src/families")
        if not any(path.startswith(own[1]) for path in texts):
            violations.extend(f"{path}: names the family {literal}" for path in files if is_stage(path))
    for path, text in texts.items():
        if is_stage(path) and NAMING.search(text):
            violations.append(f"{path}: names a family: {NAMING.search(text).group(0)}")
    for kind, stage in KINDS.items():
        block = re.search(r"typedef enum %s \{(.*?)\}" % kind, header, re.DOTALL)
        if not block:
            sys.exit(f"include/dpmf.h has no enum {kind}")
        for constant in re.findall(r"\bDPMF_\w+", block.group(1)):
            word = re.compile(rf"\b{constant}\b")
            files = [path for path, text in texts.items()
                     if constant in text and not path.startswith(stage + "/") and word.search(text)]
            report(constant, files, KIND_FILES, f"outside {stage}")
    return violations


def self_test():
    """A small tree in which one family and one constant of each enum stand in too many files, and others do not."""
    header = ('#define DPMF_FAMILY_OAK "oak"\n#define DPMF_FAMILY_ELM "elm-tree"\n#define DPMF_FAMILY_ASH "ash"\n'
              "typedef enum dpmf_participation_kind { DPMF_P_ONE = 0, DPMF_P_TWO } dpmf_participation_kind;\n"
              "typedef enum dpmf_sampling_kind {\n DPMF_S_ONE, /* DPMF_S_NOT */\n DPMF_S_TWO\n} dpmf_sampling_kind;\n")
    tree = {"include/dpmf.h": header, "src/families/families.c": '"oak" "elm-tree" "ash"',
            "src/families/oak/oak.c": 'f("oak");', "src/families/elm/parts.c": 'strcmp(s->class_name, "elm-tree")',
            "src/families/ash/search.c": 'f(DPMF_FAMILY_ASH)', "src/design/candidates.c": "f(DPMF_FAMILY_ASH)",
            "src/design/explains.c": 'if (strcmp(c->family, "ash") == 0) f();',
            "src/design/asks.c": "for (f = strategy_family_next(NULL); f != NULL;) f->candidates.search(d);",
            "src/mpi/shards.c": "f(DPMF_FAMILY_ASH)",
            "src/error/literal.c": 'f("ash");', "src/noise/constant.c": "f(DPMF_FAMILY_OAK);",
            "src/noise/compares.c": 'if (strcmp(s->ops->class_name, "lowrank") == 0) f();',
            "src/noise/shows.c": 'fail("%s", s->ops->class_name); strcmp(class_name, table.name);'}
    for i in range(4):
        tree[f"cli/four_{i}.c"] = 'g("oak");'
        tree[f"cli/three_{i}.c"] = 'json_text(t, "elm-tree", name(x)); /* "elm-tree" */' if i == 3 else 'h("elm-tree");'
        tree[f"cli/key_{i}.c"] = 'x = {.class_name = "ash"}; base_json_get_text(o, "ash", &a);'
    for i in range(9):
        tree[f"src/design/nine_{i}.c"] = "k == DPMF_P_ONE || k == DPMF_S_TWO"
        tree[f"src/design/eight_{i}.h"] = "" if i == 8 else "DPMF_P_TWO DPMF_S_ONE"
        tree[f"src/workload/own_{i}.c"] = "DPMF_P_TWO DPMF_P_TWO_MORE"
        tree[f"src/account/grid/own_{i}.inc"] = "DPMF_S_ONE"
    expected = {'"oak"', "DPMF_P_ONE", "DPMF_S_TWO", "src/error/literal.c", "src/noise/constant.c",
                "src/noise/compares.c", "src/design/candidates.c", "src/design/explains.c"}
    return finds_exactly(check, tree, expected)


if __name__ == "__main__":
    sys.exit(run(check, self_test))
