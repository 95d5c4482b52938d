#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes dpmf/_abi.py, the ctypes view of the library, from the public header.

    generate_abi.py            write dpmf/_abi.py
    generate_abi.py --check    check that it is current
    generate_abi.py HEADER     from another header

It reads the C that include/dpmf.h is written in, not C at large, and refuses what it does not know.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = HERE / "dpmf" / "_abi.py"
SCALARS = {
    "void": "None",
    "int": "c_int",
    "double": "c_double",
    "float": "c_float",
    "char": "c_char",
    "size_t": "c_size_t",
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "uint8_t": "c_uint8",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by python/tools/generate_abi.py from include/dpmf.h: change the header and run it again.
"""The C interface as ctypes sees it: constants, enums, structures and prototypes, under their C names."""
import enum
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)

'''


def clean(text):
    """Without comments and directives; the constants apart."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    constants = re.findall(r'^#define (DPMF_\w+) (\d+|"[^"]*")\s*$', text, flags=re.MULTILINE)
    text = re.sub(r'extern "C" \{', " ", text)
    text = re.sub(r"^#.*$", " ", text, flags=re.MULTILINE)
    return constants, re.sub(r"\bDPMF_API\b|\bDPMF_MUST_CHECK\b", " ", text)


def statements(text):
    """Cut at the semicolons outside of braces."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield " ".join(text[start:i].split())
            start = i + 1
    rest = text[start:].replace("}", "").strip()
    if rest:
        raise SystemExit("generate_abi.py: left over: " + rest[:200])


class Header:
    def __init__(self, text):
        self.constants, body = clean(text)
        self.sizes = {name: int(value) for name, value in self.constants if value.isdigit()}
        self.enums, self.structures, self.opaque, self.functions = {}, {}, [], {}
        for statement in statements(body):
            self.take(statement)

    def take(self, s):
        if m := re.fullmatch(r"typedef enum (\w+) \{(.*)\} (\w+)", s):
            self.enums[m[3]] = self.enumerators(m[2])
        elif m := re.fullmatch(r"typedef struct (\w+) \{(.*)\} (\w+)", s):
            self.structures[m[3]] = [f for part in m[2].split(";") if part.strip() for f in self.fields(part.strip())]
        elif m := re.fullmatch(r"typedef struct (\w+) (\w+)", s):
            self.opaque.append(m[2])
        elif m := re.fullmatch(r"([\w\s*]+?)\b(dpmf_\w+)\((.*)\)", s):
            answer = "dpmf_status" if m[1].strip() == "dpmf_status" else self.type(m[1])
            self.functions[m[2]] = (answer, self.parameters(m[3]))
        else:
            raise SystemExit("generate_abi.py: cannot read: " + s)

    @staticmethod
    def enumerators(text):
        value, members = -1, []
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, _, given = (p.strip() for p in part.partition("="))
            value = int(given) if given else value + 1
            members.append((name, value))
        return members

    def type(self, text, array=False):
        text = re.sub(r"\bconst\b|\bstruct\b", " ", text)
        stars = text.count("*") + array
        base = text.replace("*", " ").split()
        if len(base) != 1:
            raise SystemExit("generate_abi.py: not a type: " + text)
        base = base[0]
        if base == "void" and stars:
            base, stars = "c_void_p", stars - 1
        elif base == "char" and stars:
            base, stars = "c_char_p", stars - 1
        elif base in SCALARS:
            base = SCALARS[base]
        elif base in self.enums:
            base = "c_int"
        elif base not in self.structures and base not in self.opaque:
            raise SystemExit("generate_abi.py: unknown type: " + base)
        return "POINTER(" * stars + base + ")" * stars

    def parameters(self, text):
        if text.strip() == "void":
            return []
        return [self.parameter(p) for p in re.split(r",(?![^(]*\))", text)]

    def parameter(self, text):
        m = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*(\[\w*\])?\s*", text)
        return self.type(m[1], array=m[3] is not None)

    def fields(self, text):
        if m := re.fullmatch(r"(.+?)\(\*(\w+)\)\((.*)\)", text):
            arguments = ", ".join([self.type(m[1])] + self.parameters(m[3]))
            return [(m[2], "CFUNCTYPE(%s)" % arguments)]
        names = text.split(",")
        base, first = re.fullmatch(r"(.+?)(\**\w+(?:\[\w+\])?)", names[0].strip()).groups()
        result = []
        for name in [first] + [n.strip() for n in names[1:]]:
            m = re.fullmatch(r"(\**)(\w+)(?:\[(\w+)\])?", name)
            kind = self.type(base + m[1])
            if m[3]:
                kind = "%s * %d" % (kind, self.sizes.get(m[3]) or int(m[3]))
            result.append((m[2], kind))
        return result

    def write(self):
        out = [HEAD]
        out += ["%s = %s\n" % (name, value) for name, value in self.constants]
        for name, members in self.enums.items():
            out.append("\n\nclass %s(enum.IntEnum):\n" % name)
            out += ["    %s = %d\n" % member for member in members]
        for name in self.opaque:
            out.append("\n\nclass %s(Structure):\n    pass\n" % name)
        for name, fields in self.structures.items():
            out.append("\n\nclass %s(Structure):\n    _fields_ = [\n" % name)
            out += ['        ("%s", %s),\n' % field for field in fields]
            out.append("    ]\n")
        out.append(
            "\n\n# name: (type of the answer, types of the arguments); dpmf_status says that the answer must be checked\nFUNCTIONS = {\n"
        )
        for name, (answer, arguments) in self.functions.items():
            out.append('    "%s": (%s, [%s]),\n' % (name, answer, ", ".join(arguments)))
        out.append("}\n")
        return "".join(out)


def main(arguments):
    check = "--check" in arguments
    paths = [a for a in arguments if not a.startswith("--")]
    header = pathlib.Path(paths[0]) if paths else HERE.parent / "include" / "dpmf.h"
    text = Header(header.read_text(encoding="utf-8")).write()
    if not check:
        OUTPUT.write_text(text, encoding="utf-8")
    elif not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
        sys.exit("%s is not what %s gives: run %s" % (OUTPUT, header, sys.argv[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
