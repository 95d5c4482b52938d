# SPDX-License-Identifier: Apache-2.0
"""The generated ctypes view is what the header and the compiler say."""

import ctypes
import enum
import inspect
import sys
import unittest

from support import REPOSITORY, Case, compile_c, python

from dpmf import _abi

STRUCTURES = [
    value
    for value in vars(_abi).values()
    if inspect.isclass(value) and issubclass(value, ctypes.Structure) and getattr(value, "_fields_", None)
]
ENUMS = [
    value for value in vars(_abi).values() if inspect.isclass(value) and issubclass(value, enum.IntEnum) and len(value)
]


def probe():
    """A C program that prints every size, place and value."""
    lines = ['printf("%s %%zu\\n", sizeof(%s));' % (s.__name__, s.__name__) for s in STRUCTURES]
    lines += [
        'printf("%s.%s %%zu\\n", offsetof(%s, %s));' % (s.__name__, f[0], s.__name__, f[0])
        for s in STRUCTURES
        for f in s._fields_
    ]
    lines += ['printf("%s %%d\\n", (int)%s);' % (m.name, m.name) for kind in ENUMS for m in kind]
    lines += ['printf("size of %s %%zu\\n", sizeof(%s));' % (kind.__name__, kind.__name__) for kind in ENUMS]
    return "#include <dpmf.h>\n#include <stdio.h>\nint main(void) {\n%s\nreturn 0;\n}\n" % "\n".join(lines)


class Abi(Case):
    def test_the_abi_is_that_of_the_header(self):
        python(REPOSITORY / "python" / "tools" / "generate_abi.py", "--check")

    def test_sizes_places_and_values_are_those_of_the_compiler(self):
        self.assertGreater(len(STRUCTURES), 15)
        self.assertGreater(len(ENUMS), 10)
        told = dict(line.rsplit(" ", 1) for line in compile_c(probe(), self.folder)().decode().splitlines())
        for s in STRUCTURES:
            self.assertEqual(int(told[s.__name__]), ctypes.sizeof(s), s.__name__)
            for name, *_ in s._fields_:
                self.assertEqual(int(told["%s.%s" % (s.__name__, name)]), getattr(s, name).offset, (s.__name__, name))
        for kind in ENUMS:
            self.assertEqual(int(told["size of " + kind.__name__]), ctypes.sizeof(ctypes.c_int))
            for member in kind:
                self.assertEqual(int(told[member.name]), member.value)

    def test_every_function_is_in_the_library(self):
        from dpmf._library import c

        for name in _abi.FUNCTIONS:
            self.assertTrue(callable(getattr(c, name)), name)


if __name__ == "__main__":
    sys.exit(unittest.main())
