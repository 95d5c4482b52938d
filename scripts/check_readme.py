#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's C program is the example that the tests compile and run: check_readme.py README.md example.c"""
import difflib
import pathlib
import re
import sys


def main():
    readme, example = (pathlib.Path(name).read_text(encoding="utf-8") for name in sys.argv[1:3])
    blocks = re.findall(r"^```c\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    if len(blocks) != 1:
        sys.exit(f"{sys.argv[1]} has {len(blocks)} blocks of C, one is expected")
    difference = list(difflib.unified_diff(blocks[0].splitlines(True), example.splitlines(True), *sys.argv[1:3]))
    sys.stderr.writelines(difference)
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
