#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test here and the stories in attacks/: run_all.py [RESULTS.xml] [NAME...]

Files named *_long run when they are named, or with DPMF_LONG=1. The file is written as ctest writes its own, so that scripts/count_results.py can add them up.

Several files are run by JOBS processes (as many as there are processors, if it is not set), each of which takes the next file that
none has taken.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as tree

HERE = pathlib.Path(__file__).resolve().parent
#: Begun first, so that no process is left alone with one of them.
LONGEST = ("test_docs", "test_learning", "test_opacus", "test_sharding", "test_torch", "test_transformers")


class Result(unittest.TextTestResult):
    """Remembers what became of each test, and says it with the time that it took."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cases = {}

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def note(self, test, status, message=""):
        if self.cases.get(test.id(), ("run",))[0] == "run":
            self.cases[test.id()] = (status, message)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "run")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "fail", self.failures[-1][1])

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "fail", self.errors[-1][1])

    def addSubTest(self, test, part, error):
        super().addSubTest(test, part, error)
        if error is not None:
            self.note(test, "fail", self._exc_info_to_string(error, part))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "notrun", "SKIP_REASON=" + reason)

    def stopTest(self, test):
        super().stopTest(test)
        print(
            "%7.2f s  %-5s %s" % (time.monotonic() - self.began, self.cases.get(test.id(), ("?",))[0], test.id()),
            flush=True,
        )


def write(path, cases):
    suite = tree.Element("testsuite", name="python", tests=str(len(cases)))
    for name, (status, message) in cases.items():
        case = tree.SubElement(suite, "testcase", name=name, status=status)
        if status == "notrun":
            tree.SubElement(case, "skipped", message=message)
        elif status == "fail":
            tree.SubElement(case, "failure", message="")
            tree.SubElement(case, "system-out").text = message
    path.parent.mkdir(parents=True, exist_ok=True)
    tree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def read(path):
    """The cases of such a file."""
    for case in tree.parse(path).iter("testcase"):
        skipped = case.find("skipped")
        message = case.findtext("system-out", "") if skipped is None else skipped.get("message")
        yield case.get("name"), (case.get("status"), message)


def run(names):
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    return unittest.TextTestRunner(stream=sys.stdout, resultclass=Result, verbosity=0, warnings="ignore").run(suite)


def work(folder, names):
    """One of several processes: the files that it was the first to take, their cases in the folder."""
    for name in names:
        try:
            os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        write(folder / (name + ".xml"), run([name]).cases)
    return 0


def share(names, jobs):
    """Runs the files in several processes; all of their cases, and a failure for a file that a process did not finish."""
    cases = {}
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, __file__, "--work", place, *names]
        for process in [subprocess.Popen(command) for _ in range(jobs)]:
            process.wait()
        for name in names:
            path = pathlib.Path(place) / (name + ".xml")
            cases.update(read(path) if path.exists() else [(name, ("fail", "the process that ran it ended early"))])
    return cases


def main(arguments):
    sys.path[:0] = [str(HERE), str(HERE / "attacks"), str(HERE / "wheel"), str(HERE / "frameworks")]  # the last two only where they are named
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it; tests send it
    if arguments[:1] == ["--work"]:
        return work(pathlib.Path(arguments[1]), arguments[2:])
    output = pathlib.Path(arguments.pop(0)).resolve() if arguments and arguments[0].endswith(".xml") else None
    names = arguments or [
        path.stem
        for folder in (HERE, HERE / "attacks")
        for path in sorted(folder.glob("test_*.py"), key=lambda path: (path.stem not in LONGEST, path.stem))
        if not path.stem.endswith("_long") or os.environ.get("DPMF_LONG") == "1"
    ]
    jobs = min(len(names), int(os.environ.get("JOBS") or os.cpu_count()))
    cases = run(names).cases if jobs == 1 else share(names, jobs)
    if output is not None:
        write(output, cases)
    failed = sum(status == "fail" for status, _ in cases.values())
    print("%d cases, %d failed" % (len(cases), failed))
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
