# SPDX-License-Identifier: Apache-2.0
"""Matrices of the user's own: factorizations of any shape with --parameters and --decoder, constant-recurrent coefficients."""
import json
import math
import pathlib
import random
import unittest

from harness import Case, multiply, npy, reference, run, toeplitz

N, ROWS = 6, 9
PREFIX = toeplitz([1.0] * N, N)
RECURRENCE = {"matrix": [[0.8, 0.3], [-0.3, 0.8]], "u": [1.0, 0.2], "v": [1.0, 0.0]}


def transpose(a):
    return [list(column) for column in zip(*a)]


def solve(a, b):
    """a^-1 b for any square a, by elimination with pivots."""
    n = len(a)
    work = [list(row) + list(right) for row, right in zip(a, b)]
    for j in range(n):
        best = max(range(j, n), key=lambda i: abs(work[i][j]))
        work[j], work[best] = work[best], work[j]
        for i in range(n):
            if i != j:
                factor = work[i][j] / work[j][j]
                work[i] = [x - factor * y for x, y in zip(work[i], work[j])]
    return [[x / row[i] for x in row[n:]] for i, row in enumerate(work)]


def flat(a):
    return [x for row in a for x in row]


def powers(recurrence, n):
    """c_t = u' M^t v."""
    found, state = [], [[x] for x in recurrence["v"]]
    for _ in range(n):
        found.append(math.fsum(u * x[0] for u, x in zip(recurrence["u"], state)))
        state = multiply(recurrence["matrix"], state)
    return found


class Factorizations(Case):
    def setUp(self):
        super().setUp()
        draw = random.Random(4)
        self.c = [[draw.uniform(-1, 1) for _ in range(N)] for _ in range(ROWS)]
        self.plus = solve(multiply(transpose(self.c), self.c), transpose(self.c))
        rest = multiply(self.c, self.plus)
        r = [[draw.uniform(-1, 1) for _ in range(ROWS)] for _ in range(N)]
        left = multiply(r, [[(i == j) - rest[i][j] for j in range(ROWS)] for i in range(ROWS)])
        self.b = [[x + y for x, y in zip(*rows)] for rows in zip(multiply(PREFIX, self.plus), left)]
        self.tall = self.write("tall.npy", npy(flat(self.c), (ROWS, N)))
        self.decoder = self.write("B.npy", npy(flat(self.b), (N, ROWS)))
        self.base = ["evaluate", "--steps", N, "--family", "dense", "--parameters", self.tall]

    def sensitivity(self, c):
        return max(math.sqrt(math.fsum(x * x for x in column)) for column in zip(*c))

    def check(self, found, b, sensitivity):
        self.near(found["sensitivity"]["value"], sensitivity, 1e-12)
        for error, row in zip(found["per_step_error"], b):
            self.near(error, sensitivity * math.sqrt(math.fsum(x * x for x in row)), 1e-11)

    def test_a_tall_matrix_is_evaluated_with_its_pseudo_inverse(self):
        found = self.json(*self.base, "--per-step")
        self.check(found, multiply(PREFIX, self.plus), self.sensitivity(self.c))
        self.assertEqual(found["made_by"], "lower-triangular form of a given 9 x 6 C, pseudo-inverse")
        self.assertEqual((found["family"], found["buffers"]), ("dense", N - 1))
        self.assertIn("lower-triangular form of a given 9 x 6 C, pseudo-inverse", self.ok(*self.base))
        text = self.write("c.json", json.dumps({"matrix": self.c}))
        self.assertEqual(self.json(*self.base[:-1], text, "--per-step"), found)

    def test_an_upper_triangular_matrix_has_the_errors_of_its_inverse(self):
        upper = [[1.0 / (1 + j - i) if j >= i else 0.0 for j in range(N)] for i in range(N)]
        file = self.write("upper.npy", npy(flat(upper), (N, N)))
        identity = [[float(i == j) for j in range(N)] for i in range(N)]
        found = self.json(*self.base[:-1], file, "--per-step")
        self.check(found, multiply(PREFIX, solve(upper, identity)), self.sensitivity(upper))

    def test_a_given_decoder_is_used_at_a_sensitivity_no_larger(self):
        found = self.json(*self.base, "--decoder", "file:" + self.decoder, "--per-step")
        self.assertLess(found["sensitivity"]["value"], self.sensitivity(self.c))
        self.check(found, self.b, found["sensitivity"]["value"])
        self.assertTrue(found["made_by"].endswith("decoder given"))

    def test_a_factorization_streams_with_the_same_bits_for_threads_and_rows_apart(self):
        for more in [[], ["--decoder", "file:" + self.decoder]]:
            file = self.path("m")
            self.ok(*self.base, *more, "--epsilon", "1", "--delta", "1e-6", "-o", file)
            self.ok("verify", file)
            stream = ["noise", file, "--dim", "50", "--testing-seed", "3", "--out"]
            whole, parts = self.path("whole"), [self.path("first"), self.path("last")]
            for rows, threads, path in [("0:6", 1, whole), ("0:4", 3, parts[0]), ("4:6", 2, parts[1])]:
                code, _, _ = run(*stream, path, "--rows", rows, "--threads", threads)
                self.assertEqual(code, 0)
            read = [pathlib.Path(path).read_bytes() for path in [whole] + parts]
            self.assertEqual(read[0], read[1] + read[2])

    def test_a_file_that_agrees_with_its_matrix_is_accepted(self):
        file = self.path("m")
        self.ok(*self.base, "--decoder", "file:" + self.decoder, "-o", file)
        self.ok("evaluate", file, "--parameters", self.tall, "--decoder", "file:" + self.decoder)
        self.refused(2, "evaluate", file, "--parameters", self.tall, says="contradicts")
        self.refused(2, "evaluate", file, "--decoder", "file:" + self.decoder, says="--parameters")

    def test_stamps_repeat_a_factorization(self):
        base = [*self.base, "--decoder", "file:" + self.decoder, "--stamps", "3"]
        base[2] = 3 * N
        found = self.json(*base)
        self.assertEqual((found["stamps"], found["steps"]), (3, 3 * N))

    def test_matrices_without_a_decoder_are_refused_by_name(self):
        lost = [row[:2] + [row[0] - row[4]] + row[3:] for row in self.c]
        for content, words in [(lost, "rank-deficient"), (self.c[:N - 1], "full column rank"),
                               ([[*row[:2], 0.0, *row[3:]] for row in self.c], "column 2 is 0"),
                               ([row[:-1] for row in self.c], "6 columns"),
                               ([[*row[:2], math.nan, *row[3:]] for row in self.c], "--parameters")]:
            file = self.write("p", npy(flat(content), (len(content), len(content[0]))))
            self.refused(1, *self.base[:-1], file, says=words)

    def test_wrong_decoders_are_refused(self):
        wrong = [[x + 0.01 * (i == 3) for x in row] for i, row in enumerate(self.b)]
        file = self.write("w.npy", npy(flat(wrong), (N, ROWS)))
        self.refused(1, *self.base, "--decoder", "file:" + file, says=["(B C)[3,", "workload"])
        self.refused(1, *self.base, "--decoder", "file:" + file, "--workload", "momentum:0.9", says="(B C)[")
        turned = self.write("t.npy", npy(flat(self.b), (ROWS, N)))
        self.refused(1, *self.base, "--decoder", "file:" + turned, says=["9 x 6", "6 x 9"])
        self.refused(1, *self.base, "--decoder", "file:" + self.path("missing"), says="missing")
        self.refused(2, *self.base, "--decoder", "file:", says="file:B.npy")
        self.refused(2, *self.base, "--decoder", "best", says="restart, optimal")
        self.refused(2, "evaluate", "--steps", N, "--family", "tree", "--decoder", "file:" + file, says="--parameters")


class Recurrences(Case):
    def base(self, content, steps=40):
        file = self.write("r.json", content if isinstance(content, str) else json.dumps(content))
        return ["evaluate", "--steps", steps, "--family", "recurrent", "--parameters", file]

    def test_the_figures_are_those_of_the_toeplitz_matrix(self):
        found = self.json(*self.base(RECURRENCE), "--per-step")
        expected = reference(toeplitz([1.0] * 40, 40), toeplitz(powers(RECURRENCE, 40), 40))
        self.near(found["sensitivity"]["value"], expected["sensitivity"], 1e-12)
        for one, other in zip(found["per_step_error"], expected["per_step_error"]):
            self.near(one, other, 1e-11)
        self.assertEqual(found["buffers"], 2)

    def test_several_participations_and_files(self):
        file = self.path("m")
        found = self.json(*self.base(RECURRENCE), "--participation", "cyclic:4,10", "-o", file)
        coefficients = self.write("c", json.dumps({"coefficients": powers(RECURRENCE, 40)}))
        same = self.json("evaluate", "--steps", 40, "--family", "toeplitz", "--parameters", coefficients,
                         "--participation", "cyclic:4,10")
        for key in ["rms_loss", "max_loss"]:
            self.near(found[key], same[key], 1e-11)
        self.near(found["sensitivity"]["value"], same["sensitivity"]["value"], 1e-12)
        self.ok("verify", file)

    def test_wrong_recurrences_are_refused(self):
        r = RECURRENCE
        for content, words in [({**r, "u": [1.0]}, "u of 1"), ({**r, "matrix": [[1.0, 0.0]]}, "matrix of 1 rows"),
                               ({**r, "matrix": [[1.0], [0.0]]}, "list 0"), ({**r, "w": 1}, "matrix, u and v"),
                               ({**r, "v": 1}, "matrix, u and v"), ({**r, "v": [1.0, "a"]}, "finite number"),
                               ({**r, "u": [0.0, 1.0]}, "c_0"), ({"u": [1], "v": [1]}, "matrix, u and v"),
                               ({"matrix": [[0, 0], [1, 0]], "u": [1, 3], "v": [1, 0]}, "rounding"),
                               ({"matrix": [[0.5] * 33] * 33, "u": [1.0] * 33, "v": [1.0] * 33}, "1 to 32")]:
            with self.subTest(words=words):
                self.refused(1, *self.base(content), says=words)
        self.refused(2, *self.base({"matrix": [[1.0]]}), says="matrix, u and v")
        self.refused(2, *self.base(RECURRENCE)[:-1], self.write("p", npy([1.0] * 4, (2, 2))), says="matrix, u and v")
        self.refused(2, "evaluate", "--steps", 40, "--family", "recurrent", says="--parameters")
        self.refused(2, "optimize", "--steps", 40, "--family", "recurrent", says="recurrent")


if __name__ == "__main__":
    unittest.main()
