# SPDX-License-Identifier: Apache-2.0
"""What optimize finds is read back: 30 random settings (300 in test_read_back_long.py), and BLTs in both forms of their
parameters. The damped square root and the spectrum of a quadratic loss."""
import json
import math
import unittest

from read_back import ReadBack

PATTERN = ("--steps", 64, "--participation", "min-sep:4,16", "--loss", "max")


class RandomSettings(ReadBack):
    def test_no_result_of_optimize_is_refused_by_the_readers(self):
        self.check_settings(20251, 30)


class Parameters(ReadBack):
    def evaluated(self, numbers):
        return self.json("evaluate", "--family", "blt", *PATTERN[:4], "--bound", "none", "--parameters",
                         self.write("numbers.json", json.dumps(numbers)))

    def test_a_blt_is_read_from_either_pair_of_its_lists(self):
        found = self.json("optimize", "--family", "blt", "--buffers", 4, *PATTERN)
        self.assertEqual((found["dropped_buffers"], found["parameters"]["buffers"]), (1, 3))
        numbers = found["parameters"]
        self.assertTrue(all(0 < decay < 1 for decay in numbers["decay"]))
        for keys in (("scale", "decay"), ("scale", "gap"), ("gap", "inverse_gap"), ("decay", "inverse_decay"), tuple(numbers)):
            got = self.evaluated({key: numbers[key] for key in keys})
            self.assertAlmostEqual(got["max_loss"] / found["max_loss"], 1, delta=1e-8, msg=keys)

    def test_an_inverse_that_belongs_to_another_blt_is_refused(self):
        numbers = self.json("optimize", "--family", "blt", "--buffers", 3, *PATTERN)["parameters"]
        numbers["inverse_gap"][0] *= 1.01
        self.refused(1, "evaluate", "--family", "blt", *PATTERN[:4], "--parameters",
                     self.write("numbers.json", json.dumps(numbers)), says=("inverse",))
        for keys in (("gap", "inverse_decay"), ("inverse_gap", "inverse_decay"), ("scale", "inverse_gap")):
            self.refused(1, "evaluate", "--family", "blt", *PATTERN[:4], "--parameters",
                         self.write("numbers.json", json.dumps({key: numbers[key] for key in keys})), says=("inverse_gap",))

    def test_signs_are_for_blts_where_they_can_be_searched(self):
        line = ("optimize", "--family", "blt", "--buffers", 2, "--steps", 64)
        falling = self.json(*line, "--participation", "cyclic:4,16", "--signs", "non-negative")
        free = self.json(*line, "--participation", "cyclic:4,16", "--signs", "any")
        self.assertEqual(free["searched"], "coefficients of any sign")
        self.assertLess(free["rms_loss"], falling["rms_loss"])
        self.assertGreater(min(falling["parameters"]["scale"]), 0)
        self.refused(1, *line, "--participation", "min-sep:4,16", "--signs", "any", says=("non-negative",))
        self.refused(2, "optimize", "--family", "toeplitz", "--steps", 64, "--signs", "any", says=("blt",))


class Damped(ReadBack):
    def test_the_best_damping_beats_its_neighbours_and_none(self):
        for loss in ("rms", "max"):
            line = ("--family", "toeplitz", "--steps", 300, "--participation", "cyclic:5,60", "--loss", loss, "--bound", "none")
            found = self.json("optimize", *line, "--variant", "damped")
            for nu in (0, 0.9 * found["nu"], 1.1 * found["nu"]):
                other = self.json("evaluate", *line, "--nu", nu)
                self.assertGreater(other[loss + "_loss"], found[loss + "_loss"])
            same = self.json("evaluate", *line, "--nu", found["nu"])
            self.assertAlmostEqual(same[loss + "_loss"] / found[loss + "_loss"], 1, delta=1e-12)

    def test_damping_is_for_toeplitz(self):
        self.refused(2, "optimize", "--family", "blt", "--steps", 9, "--variant", "damped", says=("toeplitz",))
        self.refused(1, "optimize", "--family", "toeplitz", "--steps", 9, "--variant", "damped", "--normalize", "within",
                     says=("after",))


class Spectrum(ReadBack):
    def test_independent_noise_has_the_geometric_sum_of_every_eigenvalue(self):
        values, rate, steps = [1.0, 0.3, 0.02], 0.1, 50
        path = self.write("s.json", json.dumps({"eigenvalues": values, "rate": rate}))
        got = self.json("evaluate", "--family", "toeplitz", "--nu", 0.01, "--steps", steps, "--spectrum", path)["spectrum"]
        for value, found in zip(values, got["per_eigenvalue_independent"]):
            keep = 1 - rate * value
            variance = sum(keep ** (2 * t) for t in range(steps))
            self.assertAlmostEqual(found / (0.5 * rate ** 2 * value * variance), 1, delta=1e-12)
        # the damped root, by hand: C^-1 has the coefficients of (1 - (1-nu) x)^(1/2)
        root, c = [1.0], [1.0]
        for t in range(1, steps):
            root.append(root[-1] * (t - 1.5) / t * 0.99)
            c.append(c[-1] * (t - 0.5) / t * 0.99)
        square = sum(x * x for x in c)
        for value, found in zip(values, got["per_eigenvalue"]):
            keep, state, total = 1 - rate * value, 0.0, 0.0
            for t in range(steps):
                state = keep * state + root[t]
                total += state * state
            self.assertAlmostEqual(found / (0.5 * rate ** 2 * value * total * square), 1, delta=1e-10)
        self.assertAlmostEqual(got["excess_loss"] / math.fsum(got["per_eigenvalue"]), 1, delta=1e-12)
        self.assertAlmostEqual(got["effective_dimension"], 1.32, delta=1e-12)

    def test_a_spectrum_that_is_none_is_refused(self):
        for text, says in (("[]", "eigenvalues"), ('{"eigenvalues": [], "rate": 1}', "eigenvalues"),
                           ('{"eigenvalues": [-1], "rate": 1}', "-1"), ('{"eigenvalues": [3], "rate": 0.5}', "3"),
                           ('{"eigenvalues": [1], "rate": 0}', "rate"), ("no", "JSON")):
            self.refused(1, "evaluate", "--family", "identity", "--steps", 9, "--spectrum", self.write("s.json", text), says=(says,))
        self.refused(1, "evaluate", "--family", "identity", "--steps", 9, "--spectrum", self.path("none.json"))


if __name__ == "__main__":
    unittest.main()
