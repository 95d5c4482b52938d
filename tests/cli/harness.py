# SPDX-License-Identifier: Apache-2.0
"""Shared by the command-line tests: running the program, its stream rules, and small dense linear algebra.

The program is $DPMF, the source tree $DPMF_SOURCE. Nothing but the standard library is used.
"""
import functools
import json
import math
import os
import signal
import struct
import subprocess
import tempfile
import unittest

DPMF = os.environ.get("DPMF", "dpmf")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, and so would the program
os.environ["LC_ALL"] = "C"  # statements in ASCII, on any machine; test_letters.py has the other locale


def run(*arguments, **options):
    """Runs the program and returns (exit code, stdout, stderr) as text."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([DPMF, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="surrogateescape")


@functools.lru_cache(maxsize=None)
def run_once(*arguments):
    """The same for a command that takes seconds, depends on nothing but its words and writes no file: equal words are run once."""
    return run(*arguments)


def refuse_constant(name):
    raise ValueError("%s is not JSON" % name)


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def ok(self, *arguments, **options):
        """The program must succeed and print nothing on stderr; returns stdout."""
        code, out, err = run(*arguments, **options)
        self.assertEqual((code, err), (0, ""), arguments)
        return out

    def ok_once(self, *arguments):
        """The same, of run_once."""
        code, out, err = run_once(*map(str, arguments))
        self.assertEqual((code, err), (0, ""), arguments)
        return out

    def json(self, *arguments, **options):
        return self.parsed(self.ok(*arguments, "--json", **options))

    def json_once(self, *arguments):
        return self.parsed(self.ok_once(*arguments, "--json"))

    def parsed(self, out):
        self.assertTrue(out.endswith("}\n") and out.count("\n") == 1)
        value = json.loads(out, parse_constant=refuse_constant)
        self.assertEqual(list(value)[:2], ["schema", "version"])
        self.assertEqual(value["schema"], 1)
        return value

    def refused(self, expected, *arguments, says=(), **options):
        """Exit code `expected`, empty stdout, one line on stderr that has each of `says`; returns the line."""
        code, out, err = run(*arguments, **options)
        self.assertEqual((code, out), (expected, ""), (arguments, err))
        self.assertTrue(err.startswith("dpmf: ") and err.endswith("\n"), repr(err))
        self.assertEqual(err.count("\n"), 1, repr(err))
        self.assertTrue(all(character.isprintable() or character == "\n" for character in err), repr(err))
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, err, arguments)
        return err

    def begin(self, *arguments):
        """Makes the state file of a run that has given no row: it is on the disk before a ledger, which refuses the run here.

        A new state file draws new noise. Copies of this one share it, so that two runs can be compared."""
        code, out, err = run(*arguments, "--ledger", self.path("refusing"), "--budget", "1e-9,1e-9")
        self.assertIn(code, (1, 2), err)
        self.assertEqual(out, "")
        self.assertIn("--ledger", err)

    def near(self, found, expected, relative=1e-10):
        self.assertLessEqual(abs(found - expected), relative * abs(expected), (found, expected))

    def left_behind(self):
        return sorted(os.listdir(self.directory.name))


def npy(values, shape=None, kind="<f8"):
    """The bytes of a .npy file, version 1."""
    shape = (len(values),) if shape is None else shape
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    code = {"<f8": "d", "<f4": "f"}[kind]
    body = struct.pack("<%d%s" % (len(values), code), *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


# ---- dense references, for small n: lists of rows ----

def toeplitz(coefficients, n):
    c = list(coefficients) + [0.0] * (n - len(coefficients))
    return [[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)]


def series_root(a):
    """Coefficients of the square root of a power series with a[0] > 0."""
    c = [math.sqrt(a[0])]
    for t in range(1, len(a)):
        c.append((a[t] - sum(c[j] * c[t - j] for j in range(1, t))) / (2 * c[0]))
    return c


def series_inverse(a):
    w = [1 / a[0]]
    for t in range(1, len(a)):
        w.append(-sum(a[j] * w[t - j] for j in range(1, t + 1)) / a[0])
    return w


def momentum(beta, n):
    """Coefficients of prefix sums after heavy-ball momentum."""
    return [(1 - beta ** (t + 1)) / (1 - beta) for t in range(n)]


def multiply(a, b):
    columns = list(zip(*b))
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def inverse(c):
    n = len(c)
    out = [[0.0] * n for _ in range(n)]
    for j in range(n):
        for i in range(j, n):
            right = (1.0 if i == j else 0.0) - math.fsum(c[i][k] * out[k][j] for k in range(j, i))
            out[i][j] = right / c[i][i]
    return out


def normalize(c):
    norms = [math.sqrt(math.fsum(x * x for x in column)) for column in zip(*c)]
    return [[x / norm for x, norm in zip(row, norms)] for row in c]


def repeat(block, stamps):
    """Block diagonal."""
    n = len(block)
    return [[block[i % n][j % n] if i // n == j // n else 0.0 for j in range(n * stamps)] for i in range(n * stamps)]


def reference(a, c, weights=None):
    """Sensitivity (single participation), per-step errors and the three losses, from the definitions."""
    n = len(a)
    if weights is not None:
        a = [[math.sqrt(p) * x for x in row] for p, row in zip(weights, a)]
    sensitivity = max(math.sqrt(math.fsum(x * x for x in column)) for column in zip(*c))
    errors = [sensitivity * math.sqrt(math.fsum(x * x for x in row)) for row in multiply(a, inverse(c))]
    total = math.fsum(e * e for e in errors)
    return {"sensitivity": sensitivity, "per_step_error": errors, "rms_loss": math.sqrt(total / n),
            "max_loss": max(errors), "total_squared_loss": total}
