#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The quick starts of the README.

    check_readme.py README.md example.c                         its C program is the example that the tests compile and run
    check_readme.py --quick-start python|command-line|c README.md   one of them as a shell script, as pasted by a reader, who
                                                                saves blocks of C and Python in files (scripts/test_readme.sh)
    check_readme.py --self-test
"""
import difflib
import pathlib
import re
import sys

SECTIONS = {"python": "## From Python", "command-line": "## From the command line", "c": "## From C"}
#: Blocks of a language are written to a file; this command runs it, or none if the section has its own.
FILES = {"python": ("example.py", "python example.py"), "c": ("example.c", "")}


def compare(readme, example, names):
    blocks = re.findall(r"^```c\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    if len(blocks) != 1:
        sys.exit(f"{names[0]} has {len(blocks)} blocks of C, one is expected")
    difference = list(difflib.unified_diff(blocks[0].splitlines(True), example.splitlines(True), *names))
    sys.stderr.writelines(difference)
    return 1 if difference else 0


def quick_start(part, readme):
    """The commands of a section in their order."""
    section = re.search(r"^%s\n(.*?)(?=^## |\Z)" % re.escape(SECTIONS[part]), readme, re.DOTALL | re.MULTILINE)
    if section is None:
        sys.exit("the README has no section '%s'" % SECTIONS[part])
    script = []
    for fence, body, indented in re.findall(r"^```(\w+)\n(.*?)^```$|^((?: {4}[^\n]+\n)+)", section.group(1), re.DOTALL | re.MULTILINE):
        if indented:
            script.append(re.sub("^    ", "", indented, flags=re.MULTILINE))
        else:
            name, run = FILES[fence]
            script.append("cat >%s <<'END_OF_BLOCK'\n%sEND_OF_BLOCK\n%s\n" % (name, body, run))
    return "".join(script)


def self_test():
    readme = "# x\n## From C\nwords\n```c\nint x;\n```\n\n    make\n    cc example.c\n\nmore\n## From Python\n```python\nimport a\n```\n"
    assert quick_start("c", readme) == "cat >example.c <<'END_OF_BLOCK'\nint x;\nEND_OF_BLOCK\n\nmake\ncc example.c\n"
    assert quick_start("python", readme).endswith("import a\nEND_OF_BLOCK\npython example.py\n")
    assert compare(readme, "int x;\n", ["a", "b"]) == 0
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1] == "--quick-start":
        print(quick_start(sys.argv[2], pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")), end="")
        return 0
    readme, example = (pathlib.Path(name).read_text(encoding="utf-8") for name in sys.argv[1:3])
    return compare(readme, example, sys.argv[1:3])


if __name__ == "__main__":
    sys.exit(main())
