# SPDX-License-Identifier: Apache-2.0
"""Figures of `dpmf evaluate`: published values, the definitions at small n, and the keys of its JSON."""
import math
import os
import subprocess
import unittest

from harness import (DPMF, Case, inverse, momentum, normalize, npy, reference, series_inverse, series_root, toeplitz)

KEYS = ["schema", "version", "family", "steps", "workload", "participation", "sensitivity", "rms_loss", "max_loss", "max_loss_kind",
        "total_squared_loss", "lower_bound", "ratio", "buffers", "normals_per_number"]
LOSSES = ["rms_loss", "max_loss", "total_squared_loss"]

# Prefix sums, single participation (Pillutla et al. 2025, Table 2.2; six digits computed independently):
# max loss of the square-root Toeplitz mechanism, and after dividing its columns by their norms.
MAX_LOSS = {8: (1.718379, 1.572546), 64: (2.388848, 2.211769), 256: (2.831050, 2.644961), 1024: (3.272554, 3.080744),
            2048: (3.493229, 3.299245), 8192: (3.934529, 3.737074)}
# Max and RMS loss of the two Honaker trees (Tables 2.2 and 2.3; computed independently).
TREES = {8: ((2.992053, 2.177810), (2.009501, 1.656157)), 1024: ((7.989459, 5.649876), (4.438312, 3.686159))}
# Total squared loss with stamps 1, 2, 5, 10, 20, n = 2000 in 20 epochs of 100 (Choquette-Choo et al. 2023, Table 1;
# computed independently).
STAMPED = {"tree-online": [5773821.3, 3267241.5, 2077249.8, 1953697.5, 2129630.9],
           "tree-full": [2431441.5, 1550672.2, 1224786.6, 1388436.3, 1752906.9],
           "fft": [2344050.2, 1790875.3, 1628825.7, 1859192.4, 2515156.9],
           "fft-opt": [2242999.9, 1451611.2, 1132526.2, 1241462.0, 1700140.0]}
# Least RMS and max loss of any mechanism for prefix sums used once (certified).
OPTIMA = {8: (1.494414, 1.510484), 1024: (2.955452, 2.961465), 8192: (3.607685, 3.611574)}
# RMS loss of the same square root (the mechanism of Table 2.3 before its coefficients are optimised).
RMS_LOSS = {8: 1.585857, 1024: 3.109790}


class Figures(Case):
    def evaluate(self, steps, family, *more):
        return self.json("evaluate", "--steps", steps, "--family", family, *more)

    def test_identity_and_workload_have_closed_forms(self):
        for n in [1, 2, 8, 1000, 100000]:
            found = self.evaluate(n, "identity", "--bound", "none")
            self.near(found["max_loss"], math.sqrt(n))
            self.near(found["rms_loss"], math.sqrt((n + 1) / 2))
            self.assertEqual(found["sensitivity"], {"value": 1, "kind": "exact", "of": "participation",
                                                    "method": "largest column norm", "columns": None})
            self.assertEqual(found["buffers"], 0)
            found = self.evaluate(n, "workload", "--bound", "none")
            self.near(found["max_loss"], math.sqrt(n))
            self.near(found["rms_loss"], math.sqrt(n))

    def test_max_losses_are_the_published_ones(self):
        for n, (plain, normalized) in MAX_LOSS.items():
            self.near(self.evaluate(n, "toeplitz")["max_loss"], plain, 1e-6)
            found = self.evaluate(n, "toeplitz", "--normalize", "after")
            self.near(found["max_loss"], normalized, 1e-6)
            self.near(found["sensitivity"]["value"], 1.0)
            self.assertIs(found["normalized"], True)

    def test_rms_losses_are_the_published_ones(self):
        for n, expected in RMS_LOSS.items():
            self.near(self.evaluate(n, "toeplitz")["rms_loss"], expected, 1e-6)

    def test_losses_of_trees_are_the_published_ones(self):
        for n, pair in TREES.items():
            for family, (largest, rms) in zip(["tree-online", "tree-full"], pair):
                found = self.evaluate(n, family)
                self.near(found["max_loss"], largest, 1e-6)
                self.near(found["rms_loss"], rms, 1e-6)
                self.assertEqual(found["buffers"], (n - 1).bit_length())

    def test_losses_of_stamped_mechanisms_are_the_published_ones(self):
        cyclic = ["--participation", "cyclic:20,100", "--stamps"]
        for family, column in STAMPED.items():
            spectral = ["--sensitivity", "spectral"] if family.startswith("fft") else []
            for stamps, total in zip([1, 2, 5, 10, 20], column):
                found = self.evaluate(2000, family, *cyclic, stamps, *spectral, "--bound", "none")
                self.near(found["total_squared_loss"], total, 1e-6)
                self.assertEqual(found["sensitivity"]["kind"], "upper bound" if spectral else "exact")
        found = self.evaluate(200, "tree-online", "--participation", "cyclic:20,10", "--stamps", 10)
        self.assertGreater(found["ratio"], 1)
        self.near(found["ratio"], found["rms_loss"] / found["lower_bound"]["rms_loss"], 1e-15)

    def test_one_encoder_with_either_decoder_is_either_family(self):
        """One encoder, two decoders: tree-online with the optimal one is tree-full, and so on."""
        for plain, best in [("tree-online", "tree-full"), ("fft", "fft-opt")]:
            for stamps in [1, 4]:
                more = ["--workload", "momentum:0.9", "--stamps", stamps]
                online, full = self.evaluate(20, plain, *more), self.evaluate(20, best, *more)
                self.assertEqual(self.evaluate(20, plain, *more, "--decoder", "optimal"), full)
                self.assertEqual(self.evaluate(20, best, *more, "--decoder", "restart"), online)
                self.assertLess(full["rms_loss"], online["rms_loss"])
        self.assertEqual(self.evaluate(20, "toeplitz", "--decoder", "restart"), self.evaluate(20, "toeplitz"))

    def test_the_triangular_form_has_the_same_errors(self):
        """The same errors from a square C, whose sensitivity is no larger."""
        for family in ["tree", "tree-online", "tree-full", "fft", "fft-opt", "toeplitz"]:
            more = ["--workload", "momentum:0.5", "--stamps", "2", "--per-step"]
            plain, other = self.evaluate(20, family, *more), self.evaluate(20, family, *more, "--variant", "triangular")
            self.assertEqual((other["family"], other["stamps"]), ("dense", 1))
            self.assertLessEqual(other["sensitivity"]["value"], plain["sensitivity"]["value"] * (1 + 1e-12))
            for one, two in zip(plain["per_step_error"], other["per_step_error"]):
                self.near(two / other["sensitivity"]["value"], one / plain["sensitivity"]["value"], 1e-11)

    def test_lower_bounds_are_just_below_the_optima(self):
        for n, (rms, largest) in OPTIMA.items():
            for family in ["identity", "toeplitz", "tree", "tree-full", "fft-opt"]:
                found = self.evaluate(n, family, "--loss", "max")
                bound = found["lower_bound"]
                self.assertEqual(list(bound), ["rms_loss", "max_loss", "scope"])
                self.assertTrue(0.95 * rms < bound["rms_loss"] < rms and 0.95 * largest < bound["max_loss"] < largest)
                self.near(found["ratio"], found["max_loss"] / bound["max_loss"], 1e-15)
        plain, doubled = self.evaluate(8, "toeplitz"), self.evaluate(8, "toeplitz", "--adjacency", "replace-one")
        self.assertEqual(doubled["lower_bound"]["rms_loss"], 2 * plain["lower_bound"]["rms_loss"])
        self.near(doubled["ratio"], plain["ratio"], 1e-14)

    def test_a_lower_bound_is_given_where_it_is_asked_for(self):
        found = self.evaluate(8, "toeplitz", "--bound", "none")
        self.assertEqual((found["lower_bound"], found["ratio"]), (None, None))
        found = self.evaluate(2000001, "identity")  # auto leaves it out above two million
        self.assertEqual((found["lower_bound"], found["ratio"]), (None, None))
        pattern = ["--participation", "cyclic:3,700000"]
        self.assertGreater(self.evaluate(2000001, "identity", *pattern, "--bound", "force")["ratio"], 1)
        rows = [[float(u <= t) for u in range(2049)] for t in range(2049)]  # a matrix of more than 2048 steps
        matrix = self.write("big.npy", npy([x for row in rows for x in row], (2049, 2049)))
        unknown = ["--workload", "file:" + matrix]
        self.assertIsNone(self.evaluate(2049, "identity", *unknown)["lower_bound"])
        self.refused(1, "evaluate", "--steps", 2049, "--family", "identity", *unknown, "--bound", "force",
                     says=["no proven lower bound is known", "file", "single"])

    def test_independent_noise_is_best_under_full_participation(self):
        """Independent noise has the least max loss, n, when every example is in every batch."""
        found = self.evaluate(50, "identity", "--participation", "full", "--loss", "max")
        self.near(found["max_loss"], 50, 1e-12)
        self.near(found["ratio"], 1, 1e-11)
        self.assertGreaterEqual(found["ratio"], 1)

    def test_a_million_steps_have_the_known_loss(self):
        found = self.evaluate("1M", "toeplitz", "--bound", "none")
        self.assertEqual(found["steps"], 1000000)
        self.near(found["max_loss"], 5.46388937, 1.8e-9)  # 1e-8 absolute
        # Without rounding both factors are the sum of the squared central binomial terms (4^-t binom(2t, t))^2.
        self.near(found["max_loss"], found["sensitivity"]["value"] ** 2, 1e-12)

    def peak_memory(self, *arguments):
        with subprocess.Popen([DPMF, "evaluate", *arguments, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as child:
            out = child.stdout.read()
            err = child.stderr.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual((child.returncode, err), (0, b""))
        self.assertIn(b'"steps":1000000', out)
        return usage.ru_maxrss * 1024

    def test_ten_million_steps_fit_in_two_gigabytes(self):
        self.assertLess(self.peak_memory("--steps", "1e7", "--family", "toeplitz", "--bound", "none"), 2e9)

    def test_ten_epochs_of_a_hundred_thousand_steps_fit_in_one(self):
        for family, *more in [["toeplitz"], ["tree-online", "--bound", "none"]]:  # the bound is the same for both
            self.assertLess(self.peak_memory("--steps", "1e6", "--family", family, "--participation", "cyclic:10,1e5", *more),
                            1e9)

    def agree(self, found, expected, relative=1e-11):
        self.near(found["sensitivity"]["value"], expected["sensitivity"], relative)
        for key in LOSSES:
            self.near(found[key], expected[key], relative)
        self.assertEqual(len(found["per_step_error"]), len(expected["per_step_error"]))
        for one, other in zip(found["per_step_error"], expected["per_step_error"]):
            self.assertLessEqual(abs(one - other), relative * expected["max_loss"])

    def test_figures_agree_with_the_definitions(self):
        n = 13
        prefix, heavy = [1.0] * n, momentum(0.9, n)
        root, heavy_root = series_root(prefix), series_root(heavy)
        short = toeplitz(root[:4], n)
        short_inverse = inverse(toeplitz(series_inverse(root)[:4], n))
        damped = toeplitz([c * 0.75 ** t for t, c in enumerate(root)], n)
        weights = [0.0] + [1.0 / (1 + t) for t in range(1, n)]
        file = self.write("w.npy", npy(weights))
        for workload, strategy, arguments in [
                (prefix, toeplitz(root, n), ["toeplitz"]),
                (prefix, damped, ["toeplitz", "--nu", "0.25"]),
                (prefix, normalize(damped), ["toeplitz", "--nu", "0.25", "--normalize", "after"]),
                (heavy, toeplitz(heavy_root, n), ["toeplitz", "--workload", "momentum:0.9"]),
                (heavy, toeplitz(root, n), ["toeplitz", "--workload", "momentum:.9", "--optimize-workload", "prefix"]),
                (prefix, toeplitz(heavy_root, n), ["toeplitz", "--optimize-workload", "momentum:0.9"]),
                (heavy, toeplitz(heavy, n), ["workload", "--workload", "momentum:0.9"]),
                (heavy, toeplitz([1.0], n), ["identity", "--workload", "momentum:0.9"]),
                (prefix, short, ["bsr", "--bands", "4"]),
                (prefix, normalize(short), ["bsr", "--bands", "4", "--normalize", "after"]),
                (prefix, short_inverse, ["bisr", "--bands", "4"]),
                (prefix, normalize(short_inverse), ["bisr", "--bands", "4", "--normalize", "after"])]:
            with self.subTest(arguments=arguments):
                a = toeplitz(workload, n)
                self.agree(self.evaluate(n, *arguments, "--per-step"), reference(a, strategy))
                found = self.evaluate(n, *arguments, "--per-step", "--weights", file)
                self.agree(found, reference(a, strategy, weights))

    def test_matrices_and_schedules_are_workloads(self):
        n = 6
        rows = [[1.0 + i - 2 * j if i > j else 2.0 if i == j else 0.0 for j in range(n)] for i in range(n)]
        file = self.write("a.npy", npy([x for row in rows for x in row], (n, n)))
        found = self.evaluate(n, "identity", "--workload", "file:" + file, "--per-step")
        self.assertEqual(found["workload"], "file")
        self.agree(found, reference(rows, toeplitz([1.0], n)))
        rates = [1.0, 0.5, 0.25, 0.5, 1.0, 2.0]
        file = self.write("lr.npy", npy(rates, kind="<f4"))
        found = self.evaluate(n, "identity", "--workload", "lr:" + file, "--per-step")
        self.agree(found, reference([[rates[j] if j <= i else 0.0 for j in range(n)] for i in range(n)],
                                    toeplitz([1.0], n)))

    def test_replacing_a_unit_doubles_sensitivity_and_losses(self):
        one = self.evaluate(20, "toeplitz")
        two = self.evaluate(20, "toeplitz", "--adjacency", "replace-one")
        self.assertEqual(self.evaluate(20, "toeplitz", "--adjacency", "add-remove")["rms_loss"], one["rms_loss"])
        self.near(two["sensitivity"]["value"], 2 * one["sensitivity"]["value"], 1e-15)
        self.near(two["total_squared_loss"], 4 * one["total_squared_loss"], 1e-14)

    def test_blts_from_a_formula(self):
        best = 1 + (0.5772156649015329 + math.log(1e9)) / math.pi  # Pillutla et al. 2025, Theorem 2.7
        found = self.json("evaluate", "--family", "blt-rational", "--steps", "1e9", "--bound", "none")
        self.assertEqual((found["buffers"], found["sensitivity"]["kind"]), (10, "exact"))
        self.assertLessEqual(found["max_loss"], best + 0.01)
        tree = self.json("evaluate", "--family", "blt-tree", "--steps", "1e9", "--levels", 3, "--buffers", 4, "--bound", "none")
        self.assertEqual((tree["buffers"], tree["sensitivity"]["kind"]), (14, "exact"))
        self.assertLess(found["max_loss"], tree["max_loss"])
        path = self.path("tree.dpmf")
        self.ok("evaluate", "--family", "blt-tree", "--steps", 40, "--levels", 2, "--buffers", 3, "-o", path)
        self.ok("verify", path)
        self.ok("evaluate", path, "--levels", 2, "--buffers", 3)
        self.refused(2, "evaluate", path, "--levels", 3, says=["contradicts"])
        self.refused(2, "evaluate", path, "--buffers", 2, says=["contradicts"])

    def test_options_of_blts_from_a_formula_are_refused_elsewhere(self):
        for words, message in ((["tree", "--levels", 2], "blt-tree"), (["blt-rational", "--levels", 2], "blt-tree"),
                               (["toeplitz", "--buffers", 2], "blt-rational and blt-tree"),
                               (["blt-tree", "--buffers", 17], "from 1 to 16"), (["blt-tree", "--levels", 54], "53"),
                               (["blt-rational", "--buffers", "ratio:1.1"], "from 1 to 16"),
                               (["blt-rational", "--buffers", 0], "from 1 to 16")):
            self.refused(2, "evaluate", "--steps", 40, "--family", *words, says=[message])

    def test_losses_are_consistent(self):
        found = self.evaluate(100, "toeplitz", "--workload", "momentum:0.5,cooldown:0.25:0.1", "--per-step")
        self.near(max(found["per_step_error"]), found["max_loss"], 1e-15)
        self.near(found["rms_loss"] ** 2 * 100, found["total_squared_loss"], 1e-14)

    def test_threads_do_not_change_an_evaluation(self):
        for arguments in [["toeplitz"], ["toeplitz", "--normalize", "after"], ["bsr", "--bands", "7"],
                          ["tree-online", "--stamps", "3"], ["fft", "--workload", "momentum:0.9"],
                          ["tree-full", "--participation", "cyclic:3,1000"]]:
            answers = {self.ok("evaluate", "--steps", "3k", "--family", *arguments, "--json", "--per-step", "--threads",
                               threads) for threads in [1, 2, 3]}
            self.assertEqual(len(answers), 1)

    def test_a_largest_error_that_was_looked_for_at_some_steps_is_an_estimate(self):
        for steps, kind in ((1000, "upper bound"), ((1 << 24) + 1, "estimate")):
            found = self.json("evaluate", "--steps", steps, "--family", "unbounded", "--bound", "none")
            self.assertEqual((found["max_loss_kind"], found["sensitivity"]["kind"]), (kind, "upper bound"))


class Output(Case):
    BASE = ["evaluate", "--steps", "8", "--family", "toeplitz"]

    def test_the_json_has_its_keys_and_types(self):
        found = self.json(*self.BASE)
        self.assertEqual(list(found)[:len(KEYS)], KEYS)
        self.assertNotIn("per_step_error", found)
        self.assertEqual(list(found["sensitivity"])[:3], ["value", "kind", "of"])
        self.assertEqual(list(found["lower_bound"]), ["rms_loss", "max_loss", "scope"])
        self.assertIs(type(found["ratio"]), float)
        for key in ["steps", "buffers"]:
            self.assertIs(type(found[key]), int)
        for key in LOSSES:
            self.assertIs(type(found[key]), float)
        self.assertEqual([found[key] for key in ["family", "steps", "workload", "participation", "buffers"]],
                         ["toeplitz", 8, "prefix", "single", 7])
        self.assertEqual(list(self.json(*self.BASE, "--per-step"))[:len(KEYS) + 1], KEYS + ["per_step_error"])

    def test_each_family_says_how_many_rows_it_keeps(self):
        for buffers, family, *more in [(3, "bsr", "--bands", "4"), (3, "bisr", "--bands", "4"), (0, "identity"),
                                       (7, "toeplitz"), (3, "tree"), (3, "tree-online"), (3, "tree-full"), (8, "fft"),
                                       (8, "fft-opt"), (2, "tree-online", "--stamps", "2"),
                                       (3, "toeplitz", "--stamps", "2")]:
            found = self.json("evaluate", "--steps", "8", "--family", family, *more)
            self.assertEqual((found["family"], found["buffers"]), (family, buffers))

    def test_doubles_read_back_exactly(self):
        text = self.ok(*self.BASE, "--json")
        value = text.split('"max_loss":')[1].split(",")[0]
        self.assertEqual(value, "%.17g" % float(value))

    def test_the_locale_does_not_matter(self):
        plain = self.ok(*self.BASE, "--json", "--nu", "0.5")
        for locale in ["de_DE.UTF-8", "C", "fr_FR", "nonsense"]:
            self.assertEqual(self.ok(*self.BASE, "--json", "--nu", "0.5", env={**os.environ, "LC_ALL": locale}), plain)

    def test_the_table_has_the_figures_of_the_json(self):
        found = self.json(*self.BASE)
        lines = {line[:20].strip(): line[20:].split(None, 1) for line in self.ok(*self.BASE).splitlines()}
        for name, value in [("RMS loss", found["rms_loss"]), ("max loss", found["max_loss"]),
                            ("total squared loss", found["total_squared_loss"]),
                            ("sensitivity", found["sensitivity"]["value"])]:
            self.near(float(lines[name][0]), value, 1e-8)
            self.assertTrue(lines[name][1].startswith("exact"))
        self.assertEqual(lines["family"], ["toeplitz"])
        for key, name in [("rms_loss", "RMS lower bound"), ("max_loss", "max lower bound")]:
            self.near(float(lines[name][0]), found["lower_bound"][key], 1e-8)
            self.assertEqual(lines[name][1], found["lower_bound"]["scope"])
        self.near(float(lines["ratio"][0]), found["ratio"], 1e-8)
        self.assertIn("lower bound         none known", self.ok(*self.BASE, "--bound", "none"))
        self.assertIn("max loss / lower bound", self.ok(*self.BASE, "--loss", "max"))
        self.assertIn("stamps              2\n", self.ok(*self.BASE, "--stamps", "2"))

    def test_the_table_of_steps_has_the_errors_of_the_json(self):
        found = self.json(*self.BASE, "--per-step")["per_step_error"]
        rows = self.ok(*self.BASE, "--per-step").split("\n\n")[1].splitlines()[1:]
        self.assertEqual([int(row.split()[0]) for row in rows], list(range(8)))
        for row, value in zip(rows, found):
            self.near(float(row.split()[1]), value, 1e-8)

    def test_options_at_their_defaults_change_nothing(self):
        plain = self.json(*self.BASE)
        for more in [["--loss", "rms"], ["--bound", "auto"], ["--bound", "force"], ["--sensitivity", "auto"],
                     ["--optimize-participation", "cyclic:2,4"], ["--participation", "single"],
                     ["--workload", "prefix"], ["--nu", "0"], ["--stamps", "1"], ["--decoder", "optimal"]]:
            self.assertEqual(self.json(*self.BASE, *more), plain)

    def test_no_forced_sensitivity_is_below_the_exact_one(self):
        """None is below the exact one; under single participation all of them are exact in value."""
        one = self.json(*self.BASE)["sensitivity"]["value"]
        several = [*self.BASE, "--participation", "cyclic:4,2"]
        exact = self.json(*several)["sensitivity"]
        self.assertEqual(exact["kind"], "exact")
        for method in ["spectral", "absolute", "signs"]:
            self.assertGreaterEqual(self.json(*self.BASE, "--sensitivity", method)["sensitivity"]["value"],
                                    one * (1 - 1e-14))
            found = self.json(*several, "--sensitivity", method)
            self.assertGreaterEqual(found["sensitivity"]["value"], exact["value"] * (1 - 1e-14))
            self.near(found["rms_loss"] / found["sensitivity"]["value"],
                      self.json(*several)["rms_loss"] / exact["value"], 1e-13)

    def test_bad_files_of_weights_are_refused(self):
        for name, content, says in [("short.npy", npy([1.0] * 7), "7"), ("negative.npy", npy([1.0] * 7 + [-1.0]), "-1"),
                                    ("zero.npy", npy([0.0] * 8), "zero"), ("nan.npy", npy([math.nan] * 8), "nan.npy"),
                                    ("inf.npy", npy([math.inf] * 8), "inf.npy"),
                                    ("two.npy", npy([1.0] * 8, (4, 2)), "dimensions"), ("empty.npy", b"", "empty.npy"),
                                    ("cut.npy", npy([1.0] * 8)[:-1], "cut.npy"), ("text.npy", b"1 2 3 4", "npy")]:
            with self.subTest(name=name):
                self.refused(1, *self.BASE, "--weights", self.write(name, content), says=["--weights", says])
        self.refused(1, *self.BASE, "--weights", self.path("missing.npy"), says=["--weights", "missing.npy"])

    def test_more_memory_than_there_is_is_refused(self):
        self.refused(1, "evaluate", "--steps", "9e15", "--family", "toeplitz", says="memory")
        self.refused(1, "evaluate", "--steps", "1e15", "--family", "identity", "--per-step")
        self.refused(1, "evaluate", "--steps", "1e15", "--family", "bsr", "--bands", "1e15")


if __name__ == "__main__":
    unittest.main()
