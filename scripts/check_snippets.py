#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands and compiles the C of the pages in docs/, as they are printed there.

    check_snippets.py DPMF [--all] [PAGE...]     DPMF: the program; PAGE: docs/*.md without them
    check_snippets.py --self-test

Blocks are indented or fenced. Those that begin with a known command are run by bash, in one folder for each page, from the top
of the page to its end, and must succeed; a blank line ends a run of commands, and what follows may be their output. Those that
begin with a call of the library are compiled as the body of a function ("for each step:" is a loop, a line of dots is nothing).
Everything else is formulas and output. Blocks of Python are run by python/tests/test_docs.py. A comment on the line
before the blank line above a block, which readers of the page do not see, controls how it is run:

    <!-- before: COMMANDS -->      run first (C: declarations)
    <!-- not run: REASON -->       not run
    <!-- long: REASON -->          run with --all only
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = re.compile(r"(?:dpmf|awk|seq|tail|cmake|mpirun|pip|scripts/\S+|build/\S+) ")
C = re.compile(r"dpmf_\w+[ (*]")
NOTE = re.compile(r"<!-- (before|not run|long): ((?:(?!-->).)*?) -->\s*\Z", re.S)
SECONDS = 600


def blocks(text):
    """(the comments before it, kind, body) of each block, in their order."""
    pattern = re.compile(r"^```(\w*)\n(.*?)^```$|(?:(?<=\n\n)|\A)((?: {4}[^\n]*\n|\n(?= {4}))+)", re.M | re.S)
    for found in pattern.finditer(text):
        notes, before = {}, text[:found.start()]
        while (note := NOTE.search(before)) is not None:
            notes[note.group(1)] = note.group(2)
            before = before[:note.start()]
        fence, body = found.group(1), found.group(2) or re.sub("^    ", "", found.group(3) or "", flags=re.M)
        for number, part in enumerate(re.split(r"\n\s*\n", body.strip("\n"))):
            kind = "python" if fence == "python" else kind_of(part)
            yield notes if number == 0 else {key: value for key, value in notes.items() if key != "before"}, kind, part


def kind_of(part):
    lines = [line for line in part.splitlines() if not line.startswith("#")]
    if lines and COMMANDS.match(lines[0].lstrip()):
        return "shell"
    return "c" if lines and C.match(lines[0]) else "text"


def run_shell(notes, body, folder, program):
    """The failure, or None."""
    path = "%s:%s" % (folder / ".bin", os.environ["PATH"])
    (folder / ".bin").mkdir(exist_ok=True)
    if not (folder / ".bin" / "dpmf").exists():
        (folder / ".bin" / "dpmf").symlink_to(program.resolve())
    script = "set -euo pipefail\n%s\n%s\n" % (notes.get("before", ""), body)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env={**os.environ, "PATH": path, "DPMF_PROGRESS": "0"},
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS)
    return None if done.returncode == 0 else "exit code %d: %s" % (done.returncode, done.stderr.decode(errors="replace")[-600:])


def compile_c(notes, body, folder, program):
    body = re.sub(r"for each step:", "for (int step = 0; step < 3; step++)", body)
    body = re.sub(r"^\s*\.\.\. .* \.\.\.$", "{", body, flags=re.M)
    body += "}" * (body.count("{") - body.count("}"))
    source = folder / "snippet.c"
    source.write_text('#include "dpmf.h"\n#include "dpmf_device.h"\nvoid snippet(void);\nvoid snippet(void) {\n%s\n%s\n}\n'
                      % (notes.get("before", ""), body), encoding="utf-8")
    done = subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-Wall", "-Wno-unused-result", "-Werror", "-fsyntax-only",
                           "-I", str(ROOT / "include"), str(source)], stderr=subprocess.PIPE)
    return None if done.returncode == 0 else done.stderr.decode(errors="replace")[-800:]


def problems(page, program, everything, counted):
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        for notes, kind, body in blocks(text):
            if kind in ("text", "python"):
                continue
            if "not run" in notes or ("long" in notes and not everything):
                counted["left"] += 1
                continue
            counted[kind] += 1
            wrong = (run_shell if kind == "shell" else compile_c)(notes, body, pathlib.Path(name), program)
            if wrong is not None:
                yield "%s: %s\n%s" % (page, body.strip().splitlines()[0], wrong)


def self_test():
    """Planted mistakes are found, and blocks that must not run do not."""
    page = "\n\n".join(["# A page", "    true false", "<!-- before: touch there -->", "    tail -n 1 there", "words",
                        "    awk 'BEGIN { exit 0 }'\n    seq 3 |\n        tail -n 1\n\n    the output of it", "more",
                        "<!-- before: (void)0; -->", "    dpmf_workload_free(0);   /* %d */" % 1, "end",
                        "<!-- not run: it fails -->", "    seq x", "x", "```text\nawk\n```", "<!-- long: takes long -->", "    seq y", ""])
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "page.md"

        def found(text, everything=False):
            path.write_text(text, encoding="utf-8")
            counted = {"shell": 0, "c": 0, "left": 0}
            return list(problems(path, pathlib.Path("/bin/true"), everything, counted)), counted

        assert found(page) == ([], {"shell": 2, "c": 1, "left": 2}), found(page)
        assert len(found(page, True)[0]) == 1
        for good, bad in (("touch there", "touch here"), ("exit 0", "exit 1"), ("dpmf_workload_free(0)", "dpmf_workload_free(0, 1)")):
            assert len(found(page.replace(good, bad))[0]) == 1, bad
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    program, *more = sys.argv[1:]
    pages = [pathlib.Path(name) for name in more if name != "--all"]
    pages = pages or sorted((ROOT / "docs").glob("*.md"))
    counted, wrong = {"shell": 0, "c": 0, "left": 0}, []
    for page in pages:
        wrong += problems(page, pathlib.Path(program), "--all" in more, counted)
    print("\n".join(wrong), end="\n" if wrong else "")
    print("%(shell)d blocks of commands run, %(c)d blocks of C compiled, %(left)d not run" % counted)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
