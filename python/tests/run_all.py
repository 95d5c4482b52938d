#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test here and the stories in attacks/: run_all.py [RESULTS.xml] [NAME...]

Files named *_long run when they are named, or with DPMF_LONG=1. The file is written as ctest writes its own, so that scripts/count_results.py can add them up.
"""

import os
import pathlib
import sys
import time
import unittest
import xml.etree.ElementTree as tree

HERE = pathlib.Path(__file__).resolve().parent


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


def main(arguments):
    output = pathlib.Path(arguments.pop(0)).resolve() if arguments and arguments[0].endswith(".xml") else None
    sys.path[:0] = [str(HERE), str(HERE / "attacks"), str(HERE / "wheel")]  # the last only where it is named
    names = arguments or sorted(
        path.stem
        for folder in (HERE, HERE / "attacks")
        for path in folder.glob("test_*.py")
        if not path.stem.endswith("_long") or os.environ.get("DPMF_LONG") == "1"
    )
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Result, verbosity=0, warnings="ignore").run(suite)
    if output is not None:
        write(output, result.cases)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
