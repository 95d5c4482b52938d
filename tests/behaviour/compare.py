#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that two builds of dpmf behave alike: runs every line of commands.txt with each of them.

    compare.py OLD_PROGRAM NEW_PROGRAM           compare two programs
    compare.py OLD_PROGRAM --record FILE.json    store what one program does
    compare.py NEW_PROGRAM --against FILE.json   compare a program with what was stored

Of each line it compares standard output, standard error, the exit code, and mode, size and SHA-256 of every file that
the line made or changed. Exit code 0: all alike; 1: some differ; 2: bad usage. Mechanism files, noise rows, state files,
checkpoints and weights are compared byte by byte. Records are for the machine they were made on: another processor may
round otherwise in LAPACK.
"""
import argparse
import base64
import concurrent.futures
import difflib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib

sys.dont_write_bytecode = True  # leaves nothing beside the script

from inputs import write_inputs

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 60  # seconds that a line may take, 20 times the usual time: a hang becomes a difference, not a hang of this script
FORMAT = 1    # of the records
NUMBER = r"-?\d[\d.]*(?:e[-+]?\d+)?"

# Only these may differ between two runs of the same program. Each rule is (what, where, pattern, replacement); where:
# "text" for standard output and error, "page" for .html files. No rule touches any other file.
RULES = [
    # Wall time in JSON: optimize and train "seconds", train "seconds_noise".
    ("seconds in JSON", "text", r'"(seconds|seconds_noise)":' + NUMBER, r'"\1":<clock>'),
    # optimize in words: "converged after 187 iterations, 0.00124 s". The number of iterations stays.
    ("seconds of optimize", "text", r"(?m)( after \d+ iterations, )%s s$" % NUMBER, r"\1<clock> s"),
    # train in words: a line of its own.
    ("seconds of train", "text", r"(?m)^(seconds {13})%s$" % NUMBER, r"\1<clock>"),
    # verify tests the noise under a fresh key, so what it finds in four checks is new each time; in words with the blanks
    # that fill the column. Verdict, claim and words stay, and the tolerance but for that of the correlation, which is
    # made from the rows themselves.
    ("fresh key of verify, in JSON", "text", r'("name":"noise\.[a-z]+","ok":[a-z]+,"claimed":[^,]*,"found":)' + NUMBER,
     r"\1<fresh key>"),
    ("tolerance of the correlation", "text",
     r'("name":"noise\.correlation","ok":[a-z]+,"claimed":[^,]*,"found":[^,]*,"tolerance":)' + NUMBER, r"\1<fresh key>"),
    ("fresh key of verify, in words", "text", r"(?m)^(\S+ +noise\.[a-z]+ +%s) +%s +" % (NUMBER, NUMBER),
     r"\1 <fresh key> "),
    # The version of the program: --version, the manual page, the head of a page; and in every JSON answer.
    ("version in words", "text page", r"\bdpmf \d+\.\d+\.\d+(?:[-+]\w+)*", "dpmf <version>"),
    ("version in JSON", "text page", r'"version":"\d+\.\d+\.\d+[^"]*"', '"version":"<version>"'),
]
RULES = [(what, where.split(), re.compile(pattern), new) for what, where, pattern, new in RULES]

# Files of fresh random bytes: lines that let dpmf make a key give it this ending. Mode and size are compared, no more.
FRESH_KEY = ".fresh-key"
PAGE = ".html"  # text with the version and times in it: compared after the rules for pages, kept for the diff


# ---- running ----

def normalise(text, where, paths):
    """`text` after the rules for `where`. paths: absolute path -> the word that stands for it."""
    for path, word in paths.items():  # scratch directories and programs are elsewhere in each run
        text = text.replace(path, word)
    for _, places, pattern, new in RULES:
        if where in places:
            text = pattern.sub(new, text)
    return text


def captured(content, paths):
    """Output as normalised text; binary output (noise rows) as its exact digest."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text:
        return "<binary: %d bytes, SHA-256 %s>" % (len(content), hashlib.sha256(content).hexdigest())
    return normalise(text, "text", paths)


def pack(text):
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(packed):
    return zlib.decompress(base64.b64decode(packed)).decode()


def look(path, name, paths):
    """What is compared of a file: mode, size and digest; a page as its normalised text."""
    mode = "%04o" % (os.stat(path).st_mode & 0o7777)
    with open(path, "rb") as file:
        content = file.read()
    if name.endswith(FRESH_KEY):
        return "mode %s, %d bytes, fresh" % (mode, len(content))
    if name.endswith(PAGE):
        text = normalise(content.decode(errors="replace"), "page", paths)
        return {"mode": mode, "page": pack(text.replace(',"', ',\n"'))}  # the object on lines of its own, for the diff
    return "mode %s, %d bytes, SHA-256 %s" % (mode, len(content), hashlib.sha256(content).hexdigest())


def survey(directory, paths):
    """Every file below `directory`. All are read each time: a file rewritten within a tick of the clock counts too."""
    found = {}
    for where, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path):
                relative = os.path.relpath(path, directory)
                found[relative] = look(path, relative, paths)
    return found


def changes(before, after):
    """The files that are new or different, and those that are gone."""
    changed = {name: after[name] for name in sorted(after) if before.get(name) != after[name]}
    return {**changed, **{name: "removed" for name in sorted(before) if name not in after}}


def environment(tools):
    """As little as is needed, so that the caller's settings change nothing. One BLAS thread: sums in one order."""
    return {"PATH": tools + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TERM": "dumb", "HOME": tools,
            "OPENBLAS_NUM_THREADS": "1", "BEHAVIOUR": HERE, "PYTHON": sys.executable}


def shell(line, directory, variables):
    """(exit code, stdout, stderr) of a line. Its processes are a group, so that all of them end with it."""
    child = subprocess.Popen(["/bin/sh", "-c", line], cwd=directory, env=variables, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = child.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        return "none: stopped after %d s" % LONGEST, out, err
    return child.returncode, out, err


def run_lines(program, lines, directory, progress):
    """Runs every line with `program` in `directory`/work; returns a list of results and the seconds of each."""
    work, tools = os.path.join(directory, "work"), os.path.join(directory, "bin")
    os.makedirs(work)
    os.makedirs(tools)
    os.symlink(program, os.path.join(tools, "dpmf"))  # `dpmf` in a line, also after a pipe, is this program
    write_inputs(work)
    paths = {work: "<scratch>", tools: "<bin>", program: "<program>"}
    variables, results, seconds = environment(tools), [], []
    before = survey(work, paths)
    for number, line in enumerate(lines, 1):
        start = time.monotonic()
        code, out, err = shell(line, work, variables)
        seconds.append(time.monotonic() - start)
        after = survey(work, paths)
        results.append({"line": line, "code": code, "stdout": captured(out, paths), "stderr": captured(err, paths),
                        "files": changes(before, after)})
        before = after
        progress(number)
    return results, seconds


# ---- comparing ----

def squeezed(text):
    return " ".join(text.split())


def same_text(old, new, allowed):
    """(alike?, old after the allowed replacements). What is allowed need not be: an answer that kept the old word is fine.
    A replaced word may move line ends and columns: white space is then compared as one blank, in that output alone."""
    if old == new:
        return True, old
    replaced = old
    for before, after in allowed:
        replaced = replaced.replace(before, after)
    if replaced == new:
        return True, replaced
    return replaced != old and squeezed(replaced) == squeezed(new), replaced


def around(line, place, width=150):
    """The part of a long line about a place."""
    start = max(0, place - width // 3)
    return ("..." if start else "") + line[start:start + width] + ("..." if len(line) > start + width else "")


def first_difference(one, two):
    return next((i for i, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))


def short_diff(old, new, most=6):
    """At most `most` lines that differ, each cut to where it does."""
    one, two = old.splitlines(), new.splitlines()
    said = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for i in range(max(b - a, d - c)):
            left, right = (one[a + i] if a + i < b else None), (two[c + i] if c + i < d else None)
            place = first_difference(left or "", right or "") if left is not None and right is not None else 0
            said += ["- " + around(left, place)] if left is not None else []
            said += ["+ " + around(right, place)] if right is not None else []
    if not said:
        said = ["(only line ends differ)"]
    return said[:most] + (["(%d more lines)" % (len(said) - most)] if len(said) > most else [])


def compare_texts(name, old, new, allowed):
    alike, replaced = same_text(old, new, allowed)
    return [] if alike else [name + ":"] + ["  " + line for line in short_diff(replaced, new)]


def compare_files(old, new, allowed):
    said = []
    for name in sorted(set(old) | set(new)):
        one, two = old.get(name, "not touched"), new.get(name, "not touched")
        if isinstance(one, dict) and isinstance(two, dict):
            if one["mode"] != two["mode"]:
                said.append("file %s: mode %s, now %s" % (name, one["mode"], two["mode"]))
            said += compare_texts("file " + name, unpack(one["page"]), unpack(two["page"]), allowed)
        elif one != two:
            said += ["file %s:" % name, "  - " + describe(one), "  + " + describe(two)]
    return said


def describe(file):
    return "a page of mode " + file["mode"] if isinstance(file, dict) else file


def compare_results(old, new, allowed):
    """Lines with the differences of two results of one command line; none if they are equal."""
    said = [] if old["code"] == new["code"] else ["exit code: %s, now %s" % (old["code"], new["code"])]
    for name in ("stdout", "stderr"):
        said += compare_texts(name, old[name], new[name], allowed)
    return said + compare_files(old["files"], new["files"], allowed)


def print_differences(old, new, allowed):
    """Prints each line that differs; returns their number."""
    differ = 0
    for number, (one, two) in enumerate(zip(old, new), 1):
        said = compare_results(one, two, allowed)
        if said:
            differ += 1
            print("line %d: %s" % (number, one["line"]))
            print("".join("    %s\n" % line for line in said), end="")
    print("%d command lines, %d differ" % (len(old), differ))
    return differ


# ---- the program ----

def read_commands(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def read_record(path, lines):
    """The results of a record, which must be of the same command lines."""
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    if record.get("format") != FORMAT:
        sys.exit("%s: not a record of format %d" % (path, FORMAT))
    if [result["line"] for result in record["results"]] != lines:
        sys.exit("%s: recorded from other command lines than these: record it again" % path)
    return record["results"]


def write_record(path, results):
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "results": results}, file, indent=0, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".part", path)


def program_path(text):
    """Absolute; links are left as they are, since a wrapper may look at its own name."""
    path = os.path.abspath(shutil.which(text) or text)
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        sys.exit("%s: not a program" % text)
    return path


def show_progress(label, total):
    """A counter on a terminal; nothing elsewhere."""
    def progress(number):
        if sys.stderr.isatty():
            print("\r%s: %d of %d " % (label, number, total), end="\n" if number == total else "", file=sys.stderr)
    return progress


def run_programs(programs, lines, jobs, base):
    """The results of each program. Lines of one program depend on earlier ones, so at most the programs run side by side."""
    def one(place):
        directory = os.path.join(base, "run%d" % place)  # names of one length: nothing can hang on it
        return run_lines(programs[place], lines, directory, show_progress(programs[place], len(lines)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(jobs, len(programs))) as pool:
        return list(pool.map(one, range(len(programs))))


def print_times(lines, seconds):
    """The slowest lines, for developers who add some."""
    for took, line in sorted(zip(seconds, lines), reverse=True)[:25]:
        print("%6.2f s  %s" % (took, line), file=sys.stderr)
    print("%6.2f s  in all" % sum(seconds), file=sys.stderr)


def replacement(text):
    old, equals, new = text.partition("=")
    if not old or not equals:
        raise argparse.ArgumentTypeError("%r: OLD=NEW is wanted" % text)
    return old, new


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM", help="OLD and NEW, or one with --record or --against")
    parser.add_argument("--commands", metavar="FILE", default=os.path.join(HERE, "commands.txt"))
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="2: both programs at the same time")
    parser.add_argument("--record", metavar="FILE.json", help="store the results of the one program")
    parser.add_argument("--against", metavar="FILE.json", help="compare the one program with a record")
    parser.add_argument("--allow-text", type=replacement, action="append", default=[], metavar="OLD=NEW",
                        help="the new output may also be the old one with OLD replaced by NEW; may be given again")
    parser.add_argument("--keep", metavar="DIR", help="run in DIR, which must not exist, and leave the files there")
    parser.add_argument("--times", action="store_true", help="show the slowest lines on standard error")
    given = parser.parse_args(arguments)
    wanted = 1 if given.record or given.against else 2
    if len(given.programs) != wanted or (given.record and given.against) or given.jobs < 1:
        parser.error("OLD NEW, or PROGRAM --record FILE, or PROGRAM --against FILE")
    return given


def work(given, base):
    lines = read_commands(given.commands)
    stored = read_record(given.against, lines) if given.against else None
    made = run_programs([program_path(text) for text in given.programs], lines, given.jobs, base)
    if given.times:
        print_times(lines, made[-1][1])
    results = [one[0] for one in made]
    if given.record:
        write_record(given.record, results[0])
        print("%d command lines recorded" % len(lines))
        return 0
    old, new = (stored, results[0]) if stored is not None else results
    return 1 if print_differences(old, new, given.allow_text) else 0


def main():
    given = parse(sys.argv[1:])
    os.umask(0o022)  # modes of files are compared
    if given.keep:
        os.makedirs(given.keep)
        return work(given, os.path.abspath(given.keep))
    with tempfile.TemporaryDirectory(prefix="dpmf-behaviour-") as base:
        return work(given, base)


if __name__ == "__main__":
    sys.exit(main())
