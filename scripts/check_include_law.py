#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include law: which file may include which.

The law for src/ is the block marked `law` in src/README.md: in `a, b < c < d` the files of c may include headers of a
and b, those of d headers of a, b and c, and so on across lines. A file belongs to the longest stage that its name is
or starts with (strategy_toeplitz.c: strategy; mechanism_file.c: mechanism_file); files in src/base and src/kernels
belong to those folders. The rest is fixed here: dpmf.h includes nothing of ours; cli/, examples/ and bench/ include
dpmf.h and the headers in their own folder, nothing else of ours; src/mpi, a library of its own, is such a folder too, and
the folders named mpi have dpmf_mpi.h and, in cli/mpi, what is in cli/. Every .c file of src/ is described in src/README.md.

    check_include_law.py [ROOT]      exit 1 and one line a violation: file:line: rule
    check_include_law.py --self-test
"""
import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FOLDERS = ("base", "kernels")
OUTSIDE = ("cli", "examples", "bench")
MPI = "mpi"
PUBLIC = ("dpmf.h", "dpmf_mpi.h")


def read_law(root):
    """{stage: set of the stages below it}, closed under transitivity."""
    text = (root / "src" / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```law\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if not block:
        sys.exit("src/README.md has no block marked `law`")
    below = {}
    for line in block.group(1).splitlines():
        groups = [[stage.strip() for stage in group.split(",")] for group in line.split("<")]
        for stage in sum(groups, []):
            below.setdefault(stage, set())
        for low, high in zip(groups, groups[1:]):
            for stage in high:
                below[stage].update(low)
    changed = True
    while changed:
        changed = False
        for stages in below.values():
            reach = set().union(*(below[stage] for stage in stages)) - stages
            stages.update(reach)
            changed = changed or bool(reach)
    for stage, stages in below.items():
        if stage in stages:
            sys.exit(f"the law puts {stage} below itself")
    return below


def stage_of(path, law):
    """`path` is relative to src/; None if the law does not know it."""
    if len(path.parts) > 1:
        return path.parts[0] if path.parts[0] in FOLDERS else None
    fitting = [stage for stage in law if path.stem == stage or path.stem.startswith(stage + "_")]
    return max(fitting, key=len, default=None)


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def check_source(root, path, law, report):
    inside = path.relative_to(root / "src")
    stage = stage_of(inside, law)
    if stage is None:
        report(path, 1, "is of no stage that the law in src/README.md names")
        return
    for number, ours, name in includes(path):
        if name == "dpmf.h" or not ours:
            continue
        target = stage_of(pathlib.PurePath(name), law)
        if target is None or not (root / "src" / name).is_file():
            report(path, number, f'"{name}" is not a header below src/ (write it as seen from src/)')
        elif target != stage and target not in law[stage]:
            report(path, number, f'{stage} may not include "{name}": {target} is not below {stage}')


def check_outside(path, report):
    for number, ours, name in includes(path):
        if not ours or name in PUBLIC[:2 if path.parent.name == MPI else 1]:
            continue
        if path.parent.name == MPI and path.parent.parent.name == "cli":
            plain = name.removeprefix("../")
            if "/" not in plain and (path.parent.parent / plain).is_file():
                continue
        if "/" in name or not (path.parent / name).is_file():
            report(path, number, f'{path.parent.name}/ includes dpmf.h and its own headers only, not "{name}"')


def check(root):
    law = read_law(root)
    violations = []

    def report(path, number, rule):
        violations.append(f"{path.relative_to(root)}:{number}: {rule}")

    def files(folder):
        return sorted(path for path in (root / folder).rglob("*")
                      if path.suffix in (".c", ".h", ".inc") and "venv" not in path.parts)

    for path in files("include"):
        for number, ours, name in includes(path):
            if ours and not (path.name == "dpmf_mpi.h" and name == "dpmf.h"):
                report(path, number, f'the public header includes the standard library only, not "{name}"')
    described = (root / "src" / "README.md").read_text(encoding="utf-8")
    for path in files("src"):
        if path.parent.name == MPI:
            check_outside(path, report)
        else:
            check_source(root, path, law, report)
        if path.suffix == ".c" and not re.search(rf"(?<![\w/]){re.escape(path.name)}\b", described):
            report(path, 1, "is not described in src/README.md")
    for folder in OUTSIDE:
        for path in files(folder):
            check_outside(path, report)
    return violations


def self_test():
    """A small tree with one violation of each rule, each of which must be found, and nothing else."""
    tree = {
        "src/README.md": "```law\nbase < workload < strategy\nstrategy < mechanism < mechanism_file\n```\n"
                         "bad.c workload_bad.c strategy_dense.c mechanism_bad.c unknown.c\n",
        "include/dpmf.h": '#include <stddef.h>\n#include "base/status.h"\n',
        "src/base/status.h": '#include "dpmf.h"\n',
        "src/base/bad.c": '#include "base/status.h"\n\n#include "workload.h"\n',
        "src/workload.h": '#include "base/status.h"\n',
        "src/workload_bad.c": '#include "workload.h"\n# include "strategy.h"\n',
        "src/strategy.h": '#include <math.h>\n#include "workload.h"\n',
        "src/strategy_dense.c": '#include "strategy.h"\n#include "base/status.h"\n#include "missing.h"\n',
        "src/mechanism.h": '#include "strategy.h"\n',
        "src/mechanism_bad.c": '#include "mechanism_file.h"\n',
        "src/mechanism_file.h": '#include "mechanism.h"\n#include "workload.h"\n',
        "src/strategy_silent.c": "",
        "src/unknown.c": '#include "dpmf.h"\n',
        "cli/main.c": '#include "cli.h"\n#include "dpmf.h"\n#include "workload.h"\n',
        "cli/cli.h": "#include <stdio.h>\n",
        "examples/bad.c": '#include "../src/strategy.h"\n',
        "include/dpmf_mpi.h": '#include "dpmf.h"\n#include "strategy.h"\n',
        "src/mpi/shared.h": '#include "dpmf_mpi.h"\n',
        "src/mpi/bad.c": '#include "shared.h"\n#include "dpmf_mpi.h"\n#include "strategy.h"\n',
        "cli/mpi/bad.c": '#include "cli.h"\n#include "../main.c"\n#include "workload.h"\n',
        "bench/bad.c": '#include "dpmf_mpi.h"\n',
    }
    expected = {
        "include/dpmf.h:2", "src/base/bad.c:3", "src/workload_bad.c:2", "src/strategy_dense.c:3",
        "src/strategy_silent.c:1", "src/mechanism_bad.c:1", "src/unknown.c:1", "cli/main.c:3", "examples/bad.c:1",
        "include/dpmf_mpi.h:2", "src/mpi/bad.c:3", "cli/mpi/bad.c:3", "bench/bad.c:1",
    }
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = check(root)
    places = {violation.split(": ")[0] for violation in found}
    if places != expected or len(found) != len(expected):
        print(*found, sep="\n", file=sys.stderr)
        print("not found:", sorted(expected - places), "not expected:", sorted(places - expected), file=sys.stderr)
        return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    violations = check(root if root.is_dir() else root.parent.parent)
    print(*violations, sep="\n", end="\n" if violations else "", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
