#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include law, which restricts the includes of every file.

A stage is a folder of src/. The law is the block marked `law` in src/README.md: in `a, b < c < d` the files of c may
include headers of a and b, those of d headers of a, b and c, and so on across lines; `a reads name` is an exception for
objects (check_object_law.py). Of another stage a file includes <stage>/<stage>.h and nothing else; base and kernels are
shelves of tools, whose headers are all open; families has none for others, which use its table of operations. src/ itself
holds folders only, and src/README.md describes every .c file in the section of its stage. The rest is fixed here: dpmf.h
includes nothing of ours; cli/, examples/ and bench/ include dpmf.h and their own headers, nothing else of ours; src/mpi
and src/device, separate libraries, are such folders too, and the folders named mpi have dpmf_mpi.h, those named device
dpmf_device.h. train/, beside src/, is a separate library that the law names: it has dpmf_train.h, which cli/ and examples/
may include too, its own headers as seen from the root, and of src/ the stages below it in the law. dpmf_experimental.h
includes dpmf.h, and a file that may include dpmf.h may include it. A line `base/tool.h < cli, mpi` in the law opens one
header to such folders; it includes nothing of ours itself.

    check_include_law.py [ROOT]      exit 1 and one line for each violation: file:line: rule
    check_include_law.py --self-test
"""
import pathlib
import re
import sys

from checking import finds_exactly, run

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SHELVES = ("base", "kernels")
FAMILIES = "families"  # reached through the tables of strategy/strategy.h alone
READS = re.compile(r"(\w+) reads (\w+)")
OUTSIDE = ("cli", "examples", "bench")
PUBLIC = "dpmf.h"
EXPERIMENTAL = "dpmf_experimental.h"  # its second tier, which includes it; a file that may include dpmf.h may include it too
OWN_LIBRARIES = {"mpi": "dpmf_mpi.h", "device": "dpmf_device.h"}  # folder: its public header
TRAIN, TRAIN_HEADER = "train", "dpmf_train.h"


def read_law(root):
    """{stage: set of the stages below it}, closed under transitivity."""
    text = (root / "src" / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```law\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if not block:
        sys.exit("src/README.md has no block marked `law`")
    below = {}
    for line in block.group(1).splitlines():
        if READS.fullmatch(line):
            continue
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


def read_exceptions(root):
    """{(stage, symbol)} of the lines `stage reads symbol` of the law."""
    text = (root / "src" / "README.md").read_text(encoding="utf-8")
    return {match.groups() for match in map(READS.fullmatch, text.splitlines()) if match}


def read_sections(root):
    """{stage: what src/README.md has below its heading "### stage/"}."""
    text = (root / "src" / "README.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ([a-z]+)/.*$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (re.split(r"^##", part, flags=re.MULTILINE)[0] for part in parts[2::2])))


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def check_source(root, path, law, report):
    train = path.is_relative_to(root / TRAIN)
    inside = path.relative_to(root if train else root / "src")
    stage = inside.parts[0]
    if len(inside.parts) == 1:
        report(path, 1, "src/ holds folders only: a file belongs to a stage")
        return
    if stage not in law:
        report(path, 1, f"{stage} is no stage that the law in src/README.md names")
        return
    for number, ours, name in includes(path):
        if name in (PUBLIC, EXPERIMENTAL) or not ours or (train and name == TRAIN_HEADER):
            continue
        target = pathlib.PurePath(name).parts[0]
        if target == stage and (root / ("" if train else "src") / name).is_file():
            continue
        if target not in law or not (root / "src" / name).is_file():
            report(path, number, f'"{name}" is not a header below src/ (write it as seen from src/)')
        elif target == FAMILIES:
            report(path, number, f'{stage} may not include "{name}": a stage asks the table what an object can do')
        elif target not in law[stage]:
            report(path, number, f'{stage} may not include "{name}": {target} is not below {stage}')
        elif target not in SHELVES and name != f"{target}/{target}.h":
            report(path, number, f'"{name}" is for {target} alone: include "{target}/{target}.h"')


def check_outside(root, path, law, report):
    """Files outside the library: dpmf.h, headers opened to them, and those of their own folder (in cli/, as seen from cli/)."""
    parts = path.relative_to(root).parts
    folder = parts[0]
    in_mpi = "mpi" in parts
    public = {PUBLIC, EXPERIMENTAL} | {header for name, header in OWN_LIBRARIES.items() if name in parts}
    public |= law.get(parts[1] if folder == "src" else folder, set())
    if folder in ("cli", "examples"):
        public.add(TRAIN_HEADER)
    for number, ours, name in includes(path):
        if not ours or name in public:
            continue
        places = [path.parent / name]
        if folder == "cli":
            places.append(root / "cli" / name)
        if (folder, in_mpi, name) == ("cli", True, "../main.c"):
            continue  # the program on many processes is that of one with another main
        if ".." in pathlib.PurePath(name).parts or not any(place.is_file() for place in places):
            report(path, number, f'{path.parent.relative_to(root)}/ includes dpmf.h and its own headers only, not "{name}"')


def check(root):
    law = read_law(root)
    sections = read_sections(root)
    violations = []

    def report(path, number, rule):
        violations.append(f"{path.relative_to(root)}:{number}: {rule}")

    def files(folder):
        return sorted(path for path in (root / folder).rglob("*")
                      if path.suffix in (".c", ".h", ".inc") and "venv" not in path.parts)

    for path in files("include"):
        for number, ours, name in includes(path):
            if ours and not (path.name in (*OWN_LIBRARIES.values(), TRAIN_HEADER, EXPERIMENTAL) and name == PUBLIC):
                report(path, number, f'the public header includes the standard library only, not "{name}"')
    opened = {root / "src" / name for name in law if name.endswith(".h")}
    for path in files("src") + files(TRAIN):
        inside = path.relative_to(root if path.is_relative_to(root / TRAIN) else root / "src")
        if inside.parts[0] in OWN_LIBRARIES:
            check_outside(root, path, law, report)
        else:
            check_source(root, path, law, report)
        for number, ours, name in includes(path) if path in opened else ():
            if ours:
                report(path, number, f'a header opened to folders outside includes nothing of ours, not "{name}"')
        if path.suffix == ".c" and len(inside.parts) > 1:
            name = "/".join(inside.parts[1:])
            if not re.search(rf"`{re.escape(name)}`", sections.get(inside.parts[0], "")):
                report(path, 1, f"is not described in the section {inside.parts[0]}/ of src/README.md")
    for folder in OUTSIDE:
        for path in files(folder):
            check_outside(root, path, law, report)
    return violations


def self_test():
    """A small tree with one violation of each rule, each of which must be found, and nothing else."""
    tree = {
        "src/README.md": "```law\nbase < workload < strategy\nstrategy < families < mechanism\nstrategy reads families_table\nbase/open.h < cli, mpi\n"
                         "base < train\n```\n### base/\n`bad.c`\n### families/\n`oak/oak.c`\n"
                         "### workload/\n`bad.c` `deep/good.c`\n### strategy/: matrices\n`dense.c`\n"
                         "### mechanism/\n`bad.c`\n### mpi/\n`bad.c`\n### device/\n`bad.c`\n### train/\n`bad.c`\n## Other\n`silent.c`\n",
        "include/dpmf.h": '#include <stddef.h>\n#include "base/status.h"\n',
        "src/base/status.h": '#include "dpmf.h"\n#include "dpmf_experimental.h"\n',
        "src/base/open.h": '#include <stddef.h>\n#include "base/status.h"\n',
        "src/base/bad.c": '#include "base/status.h"\n\n#include "workload/workload.h"\n',
        "src/workload/workload.h": '#include "base/status.h"\n',
        "src/workload/inner.h": "",
        "src/workload/deep/good.c": '#include "workload/inner.h"\n#include "workload/workload.h"\n',
        "src/workload/bad.c": '#include "workload/workload.h"\n# include "strategy/strategy.h"\n',
        "src/strategy/strategy.h": '#include <math.h>\n#include "workload/workload.h"\n',
        "src/strategy/dense.c": '#include "strategy/strategy.h"\n#include "base/status.h"\n#include "strategy/missing.h"\n',
        "src/strategy/silent.c": "",
        "src/mechanism/bad.c": '#include "workload/inner.h"\n#include "families/oak/oak.h"\n',
        "src/families/oak/oak.h": '#include "strategy/strategy.h"\n',
        "src/families/oak/oak.c": '#include "families/oak/oak.h"\n',
        "src/loose.c": "",
        "src/unknown/file.h": '#include "dpmf.h"\n',
        "cli/main.c": '#include "cli.h"\n#include "dpmf.h"\n#include "workload/workload.h"\n',
        "cli/cli.h": '#include <stdio.h>\n#include "base/open.h"\n',
        "cli/report/page.c": '#include "cli.h"\n#include "report/page.h"\n#include "../cli.h"\n',
        "cli/report/page.h": "",
        "examples/bad.c": '#include "../src/strategy/strategy.h"\n',
        "include/dpmf_mpi.h": '#include "dpmf.h"\n#include "strategy/strategy.h"\n',
        "src/mpi/shared.h": '#include "dpmf_mpi.h"\n#include "base/open.h"\n',
        "src/mpi/bad.c": '#include "shared.h"\n#include "dpmf_mpi.h"\n#include "strategy/strategy.h"\n',
        "cli/mpi/bad.c": '#include "cli.h"\n#include "../main.c"\n#include "../cli.h"\n',
        "include/dpmf_device.h": '#include "dpmf.h"\n',
        "include/dpmf_experimental.h": '#include "dpmf.h"\n#include "base/status.h"\n',
        "src/device/bad.c": '#include "dpmf_device.h"\n#include "dpmf_mpi.h"\n',
        "bench/bad.c": '#include "dpmf_mpi.h"\n#include "base/open.h"\n',
        "include/dpmf_train.h": '#include "dpmf.h"\n',
        "train/train.h": '#include "dpmf_train.h"\n#include "base/status.h"\n',
        "train/bad.c": '#include "train/train.h"\n#include "strategy/strategy.h"\n#include "train/none.h"\n',
        "examples/train.c": '#include "dpmf_train.h"\n',
        "src/workload/trained.h": '#include "dpmf_train.h"\n',
    }
    expected = {
        "include/dpmf.h:2", "include/dpmf_experimental.h:2", "src/base/bad.c:3", "src/workload/bad.c:2", "src/strategy/dense.c:3",
        "src/strategy/silent.c:1", "src/mechanism/bad.c:1", "src/mechanism/bad.c:2", "src/loose.c:1", "src/unknown/file.h:1", "cli/main.c:3",
        "cli/report/page.c:3", "examples/bad.c:1", "include/dpmf_mpi.h:2", "src/mpi/bad.c:3", "cli/mpi/bad.c:3",
        "src/device/bad.c:2", "bench/bad.c:1", "bench/bad.c:2", "src/base/open.h:2", "train/bad.c:2", "train/bad.c:3",
        "src/workload/trained.h:1",
    }
    return finds_exactly(check, tree, expected)


if __name__ == "__main__":
    sys.exit(run(check, self_test))
