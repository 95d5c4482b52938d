#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the laws of src/ in the compiled objects, where no header can hide a call.

For the objects of the library, by `nm`:
  - no stage calls a stage that is not below it in the law of src/README.md, through dpmf.h neither; of families, the
    others use public functions alone; what the law lists as `stage reads name` is free;
  - a name that other files see is public (one of tests/symbols.txt), or it begins with a word of its file's path:
    account/grid/power.c may define account_..., grid_... and power_...;
  - two files of a stage that call each other are a circle: at most 8 pairs in all, and each is written, with its
    reason, in the README.md of the stage's folder as `a.c` and `b.c` on one line.

    check_object_law.py OBJECTS [ROOT]   OBJECTS: the folder that holds <stage>/<file>.c.o; exit 1 and a line for each
                                         violation
    check_object_law.py --self-test      needs cc
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_include_law import FAMILIES, read_exceptions, read_law
from checking import report

CIRCLES_MAX = 8
DEFINED = set("TDBRVWC")


def read_objects(objects):
    """({symbol: file that defines it}, {file: symbols that it uses}); files as seen from src/."""
    home, uses, name = {}, {}, None
    names = {str(path): str(path.relative_to(objects))[:-2] for path in sorted(objects.rglob("*.o"))}
    # One nm for all: it prints "FILE:" before the symbols of each.
    listing = subprocess.run(["nm", "--", *names], capture_output=True, text=True, check=True).stdout if names else ""
    if len(names) == 1:  # for a single object it does not
        listing = "%s:\n%s" % (*names, listing)
    for line in listing.splitlines():
        fields = line.split()
        if line.endswith(":") and line[:-1] in names:
            name = names[line[:-1]]
            uses[name] = set()
        elif len(fields) == 2 and fields[0] == "U":
            uses[name].add(fields[1])
        elif len(fields) == 3 and fields[1] in DEFINED:
            home[fields[2]] = name
    return home, uses


def check_calls(home, uses, law, free, public):
    for caller, symbols in sorted(uses.items()):
        stage = caller.split("/")[0]
        for symbol in sorted(symbols & home.keys()):
            target = home[symbol].split("/")[0]
            if target == stage or (stage, symbol) in free:
                continue
            if target not in law.get(stage, ()):
                yield f"{caller}: calls {symbol} of {home[symbol]}: {target} is not below {stage}"
            elif target == FAMILIES and symbol not in public:
                yield f"{caller}: calls {symbol} of {home[symbol]}: a stage asks the table of operations"


def check_names(home, public):
    for symbol, name in sorted(home.items()):
        if symbol in public or symbol.startswith(("__", "_sub_")):  # sanitizers add some
            continue
        words = re.split(r"[/_.]", name)[:-1]
        if symbol.split("_")[0] not in words:
            yield f"{name}: {symbol} is seen by other files, is not public and begins with none of {', '.join(words)}"


def circles(home, uses):
    calls = collections.defaultdict(set)
    for caller, symbols in uses.items():
        calls[caller] = {home[symbol] for symbol in symbols & home.keys()} - {caller}
    return sorted((a, b) for a in calls for b in calls[a] if a < b and a in calls[b])


def check_circles(pairs, root):
    for a, b in pairs:
        stage = a.split("/")[0]
        readme = root / "src" / stage / "README.md"
        lines = readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else []
        names = [f"`{name.split('/', 1)[1]}`" for name in (a, b)]
        if not any(all(name in line for name in names) for line in lines):
            yield f"{a} and {b} call each other: cut the circle, or give the reason in src/{stage}/README.md"
    if len(pairs) > CIRCLES_MAX:
        yield f"{len(pairs)} pairs of files call each other; {CIRCLES_MAX} are allowed"


def check(objects, root):
    law = read_law(root)
    public = set((root / "tests" / "symbols.txt").read_text(encoding="utf-8").split())
    home, uses = read_objects(objects)
    if not home:
        sys.exit(f"{objects} holds no objects")
    return [*check_calls(home, uses, law, read_exceptions(root), public), *check_names(home, public), *check_circles(circles(home, uses), root)]


def self_test():
    """Small stages with one violation of each kind, compiled; each must be found, and nothing else."""
    sources = {
        "base/status.c": "int base_fail(void){return 1;}",
        "workload/workload.c": "int base_fail(void); int strategy_new(void);"
                               "int dpmf_workload_size(void){return base_fail() + strategy_new();}",
        "workload/names.c": "int workload(void){return 0;} int dpmf_helper(void){return 0;} int helper;",
        "strategy/one.c": "int strategy_two(void); int strategy_new(void){return strategy_two();}",
        "strategy/two.c": "int strategy_new(void); int strategy_two(void){return strategy_new();}",
        "strategy/told.c": "int strategy_b(void); int strategy_a(void){return strategy_b();}",
        "strategy/other.c": "int strategy_a(void); int strategy_b(void){return strategy_a();}",
        "strategy/table.c": "extern int families_table; int families_list(void);"
                            "int strategy_table(void){return families_table + families_list();}",
        "families/families.c": "int families_table = 1; int families_list(void){return 1;}",
        "families/oak/oak.c": "int oak_height(void){return 1;} int dpmf_oak(void){return 1;}",
        "design/design.c": "int oak_height(void); int dpmf_oak(void);"
                           "int design_oak(void){return oak_height() + dpmf_oak();}",
    }
    expected = ("calls families_list", "calls oak_height", "calls strategy_new", "dpmf_helper is seen", "helper is seen", "strategy/one.c and strategy/two.c")
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name, text in sources.items():
            for folder in (root / "objects" / name, root / "src" / name):
                folder.parent.mkdir(parents=True, exist_ok=True)
            (root / "src" / name).write_text(text, encoding="utf-8")
            subprocess.run([os.environ.get("CC", "cc"), "-c", str(root / "src" / name), "-o", str(root / "objects" / (name + ".o"))],
                           check=True)
        (root / "src" / "README.md").write_text("```law\nbase < workload < strategy < families < design\nstrategy reads families_table\n```\n", encoding="utf-8")
        (root / "src" / "strategy" / "README.md").write_text("- `other.c` and `told.c`: a reason\n", encoding="utf-8")
        (root / "tests").mkdir()
        (root / "tests" / "symbols.txt").write_text("dpmf_workload_size dpmf_oak\n", encoding="utf-8")
        found = check(root / "objects", root)
    unmatched = [part for part in expected if not any(part in line for line in found)]
    if unmatched or len(found) != len(expected):
        print(*found, sep="\n", file=sys.stderr)
        print("not found:", unmatched, file=sys.stderr)
        return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent.parent).resolve()
    return report(check(pathlib.Path(sys.argv[1]), root))


if __name__ == "__main__":
    sys.exit(main())
