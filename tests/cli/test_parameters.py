# SPDX-License-Identifier: Apache-2.0
"""The --parameters file: every form of it against the definitions, and every way in which it can be wrong."""
import json
import os
import threading
import unittest

from harness import Case, inverse, normalize, npy, reference, repeat, series_inverse, series_root, toeplitz

N = 7
PREFIX = toeplitz([1.0] * N, N)
ROOT = series_root([1.0] * N)
LOWER = [[2.0 + 0.1 * i if i == j else 0.3 * (i - 2 * j) if i > j else 0.0 for j in range(N)] for i in range(N)]
FLAT = [x for row in LOWER for x in row]


def band(matrix, bands):
    return [[x if 0 <= i - j < bands else 0.0 for j, x in enumerate(row)] for i, row in enumerate(matrix)]


def diagonals(matrix, bands):
    return [[matrix[i][i - j] for i in range(j, len(matrix))] for j in range(bands)]


class Good(Case):
    def check(self, family, content, strategy, *more, name=None):
        file = self.write("p", content if isinstance(content, bytes) else json.dumps(content))
        found = self.json("evaluate", "--steps", N, "--family", family, "--parameters", file, "--per-step", *more)
        self.assertEqual(found["family"], name or family)
        expected = reference(PREFIX, strategy)
        self.near(found["sensitivity"]["value"], expected["sensitivity"], 1e-12)
        for key in ["rms_loss", "max_loss", "total_squared_loss"]:
            self.near(found[key], expected[key], 1e-12)
        for one, other in zip(found["per_step_error"], expected["per_step_error"]):
            self.near(one, other, 1e-11)
        return found

    def test_given_toeplitz_coefficients_make_their_matrix(self):
        self.check("toeplitz", {"coefficients": ROOT}, toeplitz(ROOT, N))
        self.check("toeplitz", {"coefficients": [2, 1]}, toeplitz([2, 1], N))
        self.check("toeplitz", npy(ROOT), toeplitz(ROOT, N))
        self.check("toeplitz", {"coefficients": ROOT}, normalize(toeplitz(ROOT, N)), "--normalize", "after")

    def test_the_given_root_is_the_closed_form(self):
        file = self.write("p", json.dumps({"coefficients": ROOT}))
        given = self.json("evaluate", "--steps", N, "--family", "toeplitz", "--parameters", file)
        self.near(given["rms_loss"], self.json("evaluate", "--steps", N, "--family", "toeplitz")["rms_loss"], 1e-13)

    def test_given_bands_of_coefficients_make_their_matrix(self):
        found = self.check("banded-toeplitz", {"coefficients": ROOT[:3]}, toeplitz(ROOT[:3], N), "--bands", "3")
        self.assertEqual((found["buffers"], found["bands"]), (2, 3))
        self.check("banded-toeplitz", npy(ROOT[:3]), normalize(toeplitz(ROOT[:3], N)), "--normalize", "after")

    def test_families_are_named_as_asked(self):
        """With all coefficients given, and with one step, both families hold the same numbers."""
        for family in ["toeplitz", "banded-toeplitz"]:
            found = self.check(family, {"coefficients": ROOT}, toeplitz(ROOT, N))
            file = self.write("p", '{"coefficients": [2]}')
            one = ["evaluate", "--steps", "1", "--family", family, "--parameters", file, "-o", self.path("m")]
            self.assertEqual(self.json(*one)["family"], family)
            self.assertEqual(self.json("inspect", self.path("m"))["family"], family)
            self.assertEqual(found["bands"], N)

    def test_given_parameters_describe_one_stamp(self):
        """The parameters describe one stamp, here of N steps; C is made of three of them."""
        w = series_inverse(ROOT)[:3]
        for family, content, block in [("toeplitz", {"coefficients": ROOT}, toeplitz(ROOT, N)),
                                       ("banded-toeplitz", {"coefficients": ROOT[:3]}, toeplitz(ROOT[:3], N)),
                                       ("bisr", {"inverse_coefficients": w}, inverse(toeplitz(w, N))),
                                       ("banded", {"diagonals": diagonals(LOWER, 2)}, band(LOWER, 2)),
                                       ("dense", {"matrix": LOWER}, LOWER)]:
            file = self.write("p", json.dumps(content))
            for more, columns in [([], block), (["--normalize", "after"], normalize(block))]:
                with self.subTest(family=family, more=more):
                    found = self.json("evaluate", "--steps", 3 * N, "--stamps", "3", "--family", family,
                                      "--parameters", file, "--per-step", *more)
                    expected = reference(toeplitz([1.0] * 3 * N, 3 * N), repeat(columns, 3))
                    self.assertEqual((found["family"], found["stamps"]), (family, 3))
                    self.near(found["sensitivity"]["value"], expected["sensitivity"], 1e-12)
                    for one, other in zip(found["per_step_error"], expected["per_step_error"]):
                        self.near(one, other, 1e-11)
            self.refused(1, "evaluate", "--steps", 4 * N, "--stamps", "2", "--family", "dense", "--parameters",
                         self.write("p", json.dumps({"matrix": LOWER})), says="%d" % (2 * N))

    def test_given_inverse_coefficients_make_their_matrix(self):
        w = series_inverse(ROOT)[:3]
        strategy = inverse(toeplitz(w, N))
        found = self.check("bisr", {"inverse_coefficients": w}, strategy, "--bands", "3")
        self.assertEqual(found["buffers"], 2)
        self.check("bisr", npy(w), strategy)

    def test_given_diagonals_make_their_matrix(self):
        for bands in [1, 2, 3, N]:
            found = self.check("banded", {"diagonals": diagonals(LOWER, bands)}, band(LOWER, bands), "--bands", bands)
            self.assertEqual(found["buffers"], bands - 1)
        self.check("banded", {"diagonals": diagonals(LOWER, 2)}, normalize(band(LOWER, 2)), "--normalize", "after")

    def test_a_given_matrix_is_the_strategy(self):
        self.check("dense", {"matrix": LOWER}, LOWER)
        self.check("dense", npy(FLAT, (N, N)), LOWER)
        self.check("dense", {"matrix": LOWER}, normalize(LOWER), "--normalize", "after")

    def test_given_scales_and_decays_make_a_blt(self):
        scale, decay = [0.25, 0.125, 0.0625], [0.5, 0.96875, 0.0]
        column = [1.0] + [sum(a * d**(t - 1) for a, d in zip(scale, decay)) for t in range(1, N)]
        gap = [1 - d for d in decay]
        for content in [{"scale": scale, "decay": decay}, {"gap": gap, "scale": scale},
                        {"buffers": 3, "scale": scale, "gap": gap, "decay": decay}]:
            found = self.check("blt", content, toeplitz(column, N))
            self.assertEqual(found["buffers"], 3)
        self.check("blt", {"scale": scale, "decay": decay}, normalize(toeplitz(column, N)), "--normalize", "after")
        self.check("blt", {"scale": [-0.5], "decay": [0.75]},
                   toeplitz([1.0] + [-0.5 * 0.75**t for t in range(N - 1)], N))
        file = self.write("p", json.dumps({"scale": scale, "gap": gap}))
        self.json("evaluate", "--steps", N, "--family", "blt", "--parameters", file, "-o", self.path("m"))
        self.assertEqual(self.json("inspect", self.path("m"))["family"], "blt")

    def test_a_gap_keeps_what_a_decay_cannot(self):
        """A gap of 1e-20 is a decay of 1 to a double; over 7 steps the column is 1, 0.5, 0.5, ..."""
        self.check("blt", {"scale": [0.5], "gap": [1e-20]}, toeplitz([1.0] + [0.5] * (N - 1), N))

    def test_parameters_come_from_a_pipe_too(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)

        def feed():
            with open(pipe, "w", encoding="utf-8") as file:
                json.dump({"coefficients": ROOT}, file)
        writer = threading.Thread(target=feed)
        writer.start()
        found = self.json("evaluate", "--steps", N, "--family", "toeplitz", "--parameters", pipe)
        writer.join()
        self.near(found["rms_loss"], reference(PREFIX, toeplitz(ROOT, N))["rms_loss"], 1e-12)


class Bad(Case):
    def bad(self, code, family, content, says=(), *more):
        file = self.write("p", content if isinstance(content, (bytes, str)) else json.dumps(content))
        self.refused(code, "evaluate", "--steps", N, "--family", family, "--parameters", file, *more,
                     says=["--parameters", *([says] if isinstance(says, str) else says)])

    def test_parameters_that_are_bad_in_themselves_are_refused(self):
        ones = "[" + ", ".join(["1"] * N) + "]"
        for content in ["", "{", "{}", "[]", "null", "1", "[1, 2]", '"coefficients"', '{"coefficients": [1]} x',
                        '{"coefficients": [1],}', '{"coefficients": [1], "coefficients": [2]}',
                        '{"coefficients": [1], "bands": 1}', '{"Coefficients": [1]}', '{"": [1]}', '{"x": [1]}',
                        '{"coefficients": []}', '{"coefficients": 1}', '{"coefficients": {"a": 1}}',
                        '{"coefficients": null}', '{"coefficients": ["1"]}', '{"coefficients": [null]}',
                        '{"coefficients": [true]}', '{"coefficients": [[1]]}', '{"coefficients": [NaN]}',
                        '{"coefficients": [1, Infinity]}', '{"coefficients": [1e400]}', '{"coefficients": [1, -1e999]}',
                        '{"coefficients": [0]}', '{"coefficients": [0, 1]}', '{"coefficients": [0x10]}',
                        '{"coefficients": %s' % ones, '{"coefficients": [%s]}' % ", ".join(["1"] * (N + 1)),
                        b"\x00", b'{"coefficients": [1]}\x00', b"\xff\xfe", "[" * 100000, '{"a":' * 100000,
                        b"\x93NUMPY", b"\x93NUMPY\x01\x00", npy([1.0] * 3)[:-1], npy([1.0] * (N + 1)), npy([0.0, 1.0]),
                        npy([]), npy([float("nan")]), npy([float("inf")])]:
            with self.subTest(content=content[:60]):
                self.bad(1, "toeplitz", content)

    def test_parameters_of_wrong_lengths_are_refused(self):
        good = diagonals(LOWER, 3)
        for content in [[good[0][:-1], good[1]], [good[0], good[1] + [1.0]], [good[0], good[2]], good + [[1.0] * 9],
                        [good[0], 1.0], [[]], [good[0]] * N, good[0], [good[0], None],
                        diagonals(LOWER, N) + [[]]]:
            with self.subTest(content=content):
                self.bad(1, "banded", {"diagonals": content}, str(self.path("p"))[:20])
        for content in [LOWER[:-1], [row[:-1] for row in LOWER], [[1.0]], FLAT,
                        [row[:i + 1] for i, row in enumerate(LOWER)]]:
            with self.subTest(content=content):
                self.bad(1, "dense", {"matrix": content})
        self.bad(1, "dense", npy(FLAT[:N * (N - 1)], (N - 1, N)))
        self.bad(1, "dense", npy(FLAT[:N * (N - 1)], (N, N - 1)))
        self.bad(1, "bisr", {"inverse_coefficients": [1.0] * (N + 1)})
        self.bad(1, "bisr", {"inverse_coefficients": [0.0, 1.0]})

    def test_singular_parameters_are_refused(self):
        for family, content in [("banded", {"diagonals": [[1.0] * (N - 1) + [0.0]]}),
                                ("dense", {"matrix": [LOWER[0]] * N})]:
            file = self.write("p", json.dumps(content))
            self.refused(1, "evaluate", "--steps", N, "--family", family, "--parameters", file)

    def test_bad_parameters_of_a_blt_are_refused(self):
        one = [0.5]
        for content in [{"scale": one, "decay": [1.0]}, {"scale": one, "decay": [-0.1]}, {"scale": one, "gap": [0.0]},
                        {"scale": one, "gap": [1.5]}, {"scale": one, "decay": []}, {"scale": one, "decay": [0.5, 0.2]},
                        {"scale": [], "decay": []}, {"scale": [0.01] * 17, "decay": [0.5] * 17},
                        {"scale": one, "decay": 0.5}, {"scale": 0.5, "decay": one}, {"scale": ["a"], "decay": one},
                        {"scale": one, "decay": [None]}, {"scale": one, "decay": one, "x": one}, {"decay": one, "x": 1},
                        {"decay": one, "gap": one}, {"scale": one, "decay": one, "gap": [0.25]},
                        {"scale": one, "decay": one, "gap": [0.5], "buffers": 2},
                        {"scale": one, "decay": [], "gap": [0.5]}, {"scale": one}, {"decay": one}, {"x": one}, {},
                        '{"scale": [0.5], "scale": [0.5], "decay": [0.5]}']:
            with self.subTest(content=content):
                self.bad(1, "blt", content)
        for content in [{"coefficients": [1.0]}, {"matrix": LOWER}, npy([1.0])]:
            self.bad(2, "blt", content, ["blt", "scale and decay"])
        self.bad(1, "toeplitz", {"scale": one, "decay": one})
        file = self.write("p", json.dumps({"scale": one, "decay": one}))
        self.refused(2, "evaluate", "--steps", N, "--family", "blt", "--parameters", file, "--bands", "2",
                     says="--bands")

    def test_a_list_with_something_else_than_numbers_is_refused(self):
        for value in [None, "1", True, [1]]:
            rows = [list(row) for row in LOWER]
            rows[3][1] = value
            self.bad(1, "dense", {"matrix": rows}, "not a finite number")

    def test_parameters_for_another_family_are_refused(self):
        contents = {"coefficients": [1.0, 0.5], "inverse_coefficients": [1.0, -0.5], "diagonals": diagonals(LOWER, 2),
                    "matrix": LOWER}
        takes = {"toeplitz": "coefficients", "banded-toeplitz": "coefficients", "bisr": "inverse_coefficients",
                 "banded": "diagonals", "dense": "matrix"}
        for family, key in takes.items():
            for other in contents:
                if other != key:
                    self.bad(2, family, {other: contents[other]}, [family, key, other])
        for family in ["toeplitz", "banded-toeplitz", "bisr", "banded"]:
            self.bad(2, family, npy(FLAT, (N, N)), family)
        for family in ["dense", "banded"]:
            self.bad(2, family, npy([1.0]), family)

    def test_options_that_disagree_with_parameters_are_refused(self):
        file = self.write("p", '{"coefficients": [1, 0.5]}')
        base = ["evaluate", "--steps", N, "--parameters", file, "--family"]
        self.refused(2, *base, "banded-toeplitz", "--bands", "3", says=["--bands 3", "2"])
        self.refused(2, *base, "toeplitz", "--bands", "2", says="--bands")
        self.refused(2, *base, "toeplitz", "--nu", "0.5", says="--nu")
        self.refused(2, *base, "bsr", says=["--parameters", "bsr"])

    def test_unreadable_parameters_are_refused(self):
        base = ["evaluate", "--steps", N, "--family", "toeplitz", "--parameters"]
        self.refused(1, *base, self.path("missing"), says="missing")
        self.refused(1, *base, self.directory.name, says="--parameters")


if __name__ == "__main__":
    unittest.main()
