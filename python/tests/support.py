# SPDX-License-Identifier: Apache-2.0
"""What several test files use: small mechanisms, a C program beside the package, temporary folders."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import dpmf
from dpmf import _library

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
KEY = dpmf.testing_key(7)


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dpmf-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def refused(self, kind, words, function, *arguments, **named):
        with self.assertRaises(kind) as caught:
            function(*arguments, **named)
        self.assertIn(words, str(caught.exception))


def mechanism(family="tvblt", steps=20, **options):
    """A small calibrated mechanism of any family."""
    options.setdefault("sigma", 1.25)
    if family in ("tvblt", "blt"):
        return dpmf.optimize(family, steps, buffers=3, **options)
    if family in ("banded", "banded-toeplitz"):
        return dpmf.optimize(family, steps, bands=4, **options)
    if family == "bsr":
        return dpmf.evaluate(family, steps, bands=4, **options)
    return dpmf.evaluate(family, steps, **options)


def compile_c(source, folder):
    """A C program linked with the library that the package has loaded."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise unittest.SkipTest("there is no compiler")
    library = pathlib.Path(_library.find_library()).resolve()
    program = pathlib.Path(folder) / "program"
    (pathlib.Path(folder) / "program.c").write_text(source, encoding="utf-8")
    subprocess.run(
        [
            compiler,
            "-std=c17",
            "-O1",
            "-I",
            str(REPOSITORY / "include"),
            "-o",
            str(program),
            str(program) + ".c",
            str(library),
            "-Wl,-rpath," + str(library.parent),
        ],
        check=True,
    )
    if not (library.parent / "libdpmf.so.0.1").exists():
        # The wheel has one plain file, and the loader asks for the library's soname.
        os.symlink(library, pathlib.Path(folder) / "libdpmf.so.0.1")
    return functools.partial(run, program, env={**os.environ, "LD_LIBRARY_PATH": str(folder)})


def run(program, *arguments, env):
    done = subprocess.run([str(program), *map(str, arguments)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout


def python(*arguments, **options):
    """This interpreter, on another file or command."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)], check=True, stdout=subprocess.PIPE, **options
    ).stdout.decode()


def rows(stream, count):
    return np.stack([stream.next() for _ in range(count)])
