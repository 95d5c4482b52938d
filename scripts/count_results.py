#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up ctest's JUnit files: count_results.py DIRECTORY [STATUS]

Prints the last lines of each test that failed, and "N passed, N failed" alone on the last line. A build that could not be tested leaves NAME.broken instead of
NAME.xml and counts as one failure, and so does a STATUS other than 0 that no file accounts for.
"""
import pathlib
import sys
import xml.etree.ElementTree

TAIL = 15  # lines of a failed test's output: logs of complete runs get cut, but their ends are kept


def count(path):
    passed, failed = 0, []
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        status = case.get("status")
        skipped = case.find("skipped")
        asked_to_skip = skipped is not None and "SKIP_" in skipped.get("message", "")
        if status == "run":
            passed += 1
        elif status == "fail" or (status == "notrun" and not asked_to_skip):
            failed.append((case.get("name"), case.findtext("system-out") or ""))
    return passed, failed


def main():
    directory = pathlib.Path(sys.argv[1])
    status = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    passed = failed = 0
    for path in sorted(directory.glob("*.xml")):
        here_passed, here_failed = count(path)
        for name, output in here_failed:
            print(f"{path.stem}: {name} failed; the end of its output:")
            print(*("    " + line for line in output.strip().splitlines()[-TAIL:]), sep="\n")
        print(f"{path.stem}: {here_passed} passed, {len(here_failed)} failed", *(name for name, _ in here_failed))
        passed += here_passed
        failed += len(here_failed)
    for path in sorted(directory.glob("*.broken")):
        print(f"{path.stem}: could not be built")
        failed += 1
    if status != 0 and failed == 0:
        print(f"stopped with status {status} before the tests")
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
