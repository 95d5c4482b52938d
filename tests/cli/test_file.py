# SPDX-License-Identifier: Apache-2.0
"""Mechanism files: saving, evaluating and inspecting them, options beside them, and hostile files."""
import json
import os
import random
import stat
import unittest

from harness import Case, npy, run

INSPECT_KEYS = ["schema", "version", "family", "steps", "bands", "buffers", "normals_per_number", "normalized",
                "workload", "participation", "adjacency", "sampling", "sigma", "epsilon", "delta", "sensitivity",
                "rms_loss", "max_loss", "total_squared_loss", "lower_bound", "digest", "made_by"]
FIGURES = ["family", "steps", "bands", "stamps", "buffers", "normalized", "workload", "participation", "adjacency",
           "sensitivity", "rms_loss", "max_loss", "total_squared_loss", "lower_bound"]


class Saved(Case):
    def save(self, *arguments, name="m"):
        """Evaluates with -o; returns (path, JSON)."""
        return self.path(name), self.json("evaluate", *arguments, "-o", self.path(name))

    def mechanisms(self):
        coefficients = self.write("c.json", '{"coefficients": [1, 0.5, 0.25]}')
        rates = self.write("lr.npy", npy([1.0 + 0.1 * t for t in range(9)]))
        weights = self.write("w.npy", npy([float(t) for t in range(9)]))
        matrix = self.write("a.npy", npy([float(i >= j) + (i == j) for i in range(9) for j in range(9)], (9, 9)))
        diagonals = self.write("d.json", json.dumps({"diagonals": [[2.0] * 9, [1.0] * 8]}))
        dense = self.write("e.json", json.dumps({"matrix": [[float(i >= j) for j in range(9)] for i in range(9)]}))
        inverse = self.write("i.json", '{"inverse_coefficients": [1, -0.5]}')
        steps = ["--steps", "9", "--family"]
        return [[*steps, "identity"], [*steps, "workload", "--workload", "nesterov:0.5"], [*steps, "toeplitz"],
                [*steps, "toeplitz", "--nu", "0.1", "--normalize", "after"], [*steps, "bsr", "--bands", "3"],
                [*steps, "bisr", "--bands", "3", "--normalize", "after", "--workload", "momentum:0.5"],
                [*steps, "toeplitz", "--parameters", coefficients],
                [*steps, "banded-toeplitz", "--parameters", coefficients],
                [*steps, "banded", "--parameters", diagonals],
                [*steps, "dense", "--parameters", dense, "--normalize", "after"],
                [*steps, "bisr", "--parameters", inverse],
                [*steps, "toeplitz", "--workload", "lr:" + rates + ",decay:0.1", "--adjacency", "replace-one"],
                [*steps, "identity", "--workload", "file:" + matrix, "--weights", weights],
                [*steps, "toeplitz", "--optimize-workload", "momentum:0.9", "--workload", "cooldown:0.3:0.1"],
                [*steps, "tree"], [*steps, "tree-online", "--stamps", "3"],
                [*steps, "tree-full", "--normalize", "after", "--workload", "momentum:0.5"],
                [*steps, "tree-online", "--decoder", "optimal"],
                [*steps, "fft-opt", "--decoder", "restart"], [*steps, "fft-opt", "--stamps", "3", "--normalize", "after"],
                [*steps, "fft", "--participation", "cyclic:3,3"],
                [*steps, "fft", "--participation", "cyclic:3,3", "--sensitivity", "spectral"],
                [*steps, "tree-online", "--participation", "minsep:2,4", "--stamps", "3"],
                [*steps, "bsr", "--bands", "2", "--stamps", "3", "--participation", "full"]]

    def test_a_saved_mechanism_comes_back_with_its_figures(self):
        for arguments in self.mechanisms():
            with self.subTest(arguments=arguments):
                path, made = self.save(*arguments)
                self.assertEqual(self.json("evaluate", path), made)
                self.assertEqual(self.json("evaluate", path, "--per-step"),
                                 self.json("evaluate", *arguments, "--per-step"))
                held = self.json("inspect", path)
                self.assertEqual({key: held[key] for key in FIGURES}, {key: made[key] for key in FIGURES})
                # The same options again, beside the file, agree with it.
                self.assertEqual(self.json("evaluate", path, *arguments), made)

    def test_a_file_depends_on_nothing_else(self):
        path, _ = self.save("--steps", "50", "--family", "toeplitz", "--normalize", "after")
        again = self.path("again")
        self.ok("evaluate", "--steps", "50", "--family", "toeplitz", "--normalize", "after", "--threads", "2", "--out",
                again, "--per-step", "--loss", "max")
        copied = self.path("copied")
        self.ok("evaluate", path, "-o", copied)
        with open(path, "rb") as one, open(again, "rb") as two, open(copied, "rb") as three:
            content = one.read()
            self.assertEqual(two.read(), content)
            self.assertEqual(three.read(), content)

    def test_a_file_may_replace_itself(self):
        path, made = self.save("--steps", "9", "--family", "toeplitz")
        self.ok("evaluate", path, "-o", path)
        self.assertEqual(self.json("evaluate", path), made)
        self.assertEqual(self.left_behind(), ["m"])

    def test_inspect_shows_what_the_file_holds(self):
        path, _ = self.save("--steps", "9", "--family", "toeplitz")
        held = self.json("inspect", path)
        self.assertEqual(list(held)[:len(INSPECT_KEYS)], INSPECT_KEYS)
        self.assertIsNone(held["sigma"])
        self.assertRegex(held["digest"], "^[0-9a-f]{64}$")
        self.assertEqual(held["made_by"], "closed form")
        table = self.ok("inspect", path)
        for words in [held["digest"], "closed form", "not calibrated", "toeplitz", "prefix", "zero-out", "exact"]:
            self.assertIn(words, table)

    def test_a_triangular_form_is_saved_as_dense(self):
        path, made = self.save("--steps", "9", "--family", "tree-online", "--variant", "triangular")
        plain = self.json("evaluate", "--steps", "9", "--family", "tree-online")
        self.assertEqual((made["family"], self.json("inspect", path)["made_by"]),
                         ("dense", "lower-triangular form of tree-online"))
        for key in ["rms_loss", "max_loss"]:
            self.assertLessEqual(made[key], plain[key] * (1 + 1e-12))
        again = self.json("evaluate", path, "--variant", "triangular")
        self.near(again["rms_loss"], made["rms_loss"], 1e-12)
        self.refused(2, "evaluate", "--steps", "16385", "--family", "tree", "--variant", "triangular",
                     says=["--variant", "triangular", "16384"])

    def test_the_lower_bound_is_kept_as_it_was(self):
        path, made = self.save("--steps", "9", "--family", "toeplitz", "--bound", "none")
        self.assertIsNone(made["lower_bound"])
        self.assertIsNone(self.json("inspect", path)["lower_bound"])
        self.assertIn("none known", self.ok("inspect", path))
        path, made = self.save("--steps", "9", "--family", "toeplitz")
        self.assertEqual(self.json("inspect", path)["lower_bound"], made["lower_bound"])
        self.assertIn(made["lower_bound"]["scope"], self.ok("inspect", path))

    def test_inspect_says_that_parameters_were_given(self):
        file = self.write("c.json", '{"coefficients": [1, 0.5]}')
        path, _ = self.save("--steps", "9", "--family", "banded-toeplitz", "--parameters", file)
        held = self.json("inspect", path)
        self.assertEqual((held["made_by"], held["bands"], held["buffers"]), ("given parameters", 2, 1))

    def test_different_mechanisms_have_different_digests(self):
        digests = set()
        for arguments in self.mechanisms():
            path, _ = self.save(*arguments)
            digests.add(self.json("inspect", path)["digest"])
        self.assertEqual(len(digests), len(self.mechanisms()))


class Contradictions(Case):
    def setUp(self):
        super().setUp()
        self.made = {}
        for name, arguments in [("toeplitz", []), ("bsr", ["--bands", "3"]), ("bisr", ["--bands", "3"]), ("tree", []),
                                ("tree-online", ["--stamps", "3"]), ("fft-opt", []),
                                ("fft", ["--participation", "cyclic:3,3", "--sensitivity", "spectral"])]:
            self.made[name] = self.path(name)
            self.ok("evaluate", "--steps", "9", "--family", name, *arguments, "-o", self.made[name])

    def test_options_that_contradict_the_file_are_refused(self):
        weights = self.write("w.npy", npy([1.0] * 9))
        other = self.write("c.json", '{"coefficients": [1, 0.5]}')
        for name, arguments in [("toeplitz", ["--steps", "10"]),
                                ("toeplitz", ["--participation", "cyclic:3,3"]),
                                ("toeplitz", ["--participation", "full"]),
                                ("toeplitz", ["--family", "bsr"]), ("toeplitz", ["--family", "identity"]),
                                ("toeplitz", ["--adjacency", "replace-one"]), ("toeplitz", ["--normalize", "after"]),
                                ("toeplitz", ["--weights", weights]), ("toeplitz", ["--nu", "0.1"]),
                                ("toeplitz", ["--parameters", other]), ("toeplitz", ["--bands", "9"]),
                                ("toeplitz", ["--optimize-workload", "momentum:0.5"]),
                                ("bsr", ["--bands", "4"]), ("bsr", ["--nu", "0.5"]), ("bsr", ["--parameters", other]),
                                ("bsr", ["--optimize-workload", "momentum:0.5"]), ("bisr", ["--bands", "2"]),
                                ("bisr", ["--optimize-workload", "momentum:0.5"]),
                                ("tree-online", ["--stamps", "1"]),
                                ("tree-online", ["--stamps", "9"]), ("tree-online", ["--stamps", "4"]),
                                ("tree-online", ["--decoder", "optimal"]), ("fft-opt", ["--decoder", "restart"]),
                                ("tree", ["--decoder", "optimal"]), ("tree-online", ["--family", "tree-full"]),
                                ("fft", ["--sensitivity", "auto"]), ("fft", ["--sensitivity", "absolute"]),
                                ("toeplitz", ["--sensitivity", "spectral"])]:
            with self.subTest(name=name, arguments=arguments):
                self.refused(2, "evaluate", self.made[name], *arguments, says=arguments[0])
                self.refused(2, "evaluate", *arguments, self.made[name], "-o", self.path("never"), says=arguments[0])
        self.assertNotIn("never", self.left_behind())

    def test_the_message_names_both_values(self):
        self.refused(2, "evaluate", self.made["bsr"], "--steps", "10", says=["--steps 10", "9", "bsr"])
        self.refused(2, "evaluate", self.made["bsr"], "--participation", "full", says=["full", "single"])

    def test_bad_values_beside_a_file_are_refused(self):
        for arguments in [["--steps", "0"], ["--workload", "x"], ["--participation", "cyclic:99,99"], ["--family", "x"],
                          ["--optimize-participation", "cyclic:99,99"]]:
            self.refused(2, "evaluate", self.made["toeplitz"], *arguments, says=arguments)

    def test_options_that_agree_or_do_not_matter_are_accepted(self):
        for name, arguments in [("toeplitz", ["--steps", "9", "--workload", "prefix", "--participation", "single"]),
                                ("toeplitz", ["--adjacency", "zero-out", "--family", "toeplitz", "--nu", "0"]),
                                ("toeplitz", ["--workload", "momentum:0", "--optimize-workload", "prefix"]),
                                ("bsr", ["--bands", "3"]), ("bisr", ["--bands", "3", "--optimize-workload", "prefix"]),
                                ("bisr", ["--optimize-participation", "cyclic:3,3"]),
                                ("bsr", ["--threads", "2", "--bound", "force"]),
                                ("bsr", ["--sensitivity", "auto"]), ("bsr", ["--stamps", "1"]),
                                ("bsr", ["--decoder", "optimal"]), ("tree", ["--decoder", "restart"]),
                                ("tree-online", ["--stamps", "3", "--decoder", "restart"]),
                                ("fft-opt", ["--family", "fft", "--decoder", "optimal"]),
                                ("fft", ["--sensitivity", "spectral", "--decoder", "restart"])]:
            with self.subTest(name=name, arguments=arguments):
                self.assertEqual(self.json("evaluate", self.made[name], *arguments),
                                 self.json("evaluate", self.made[name]))

    def test_a_file_is_priced_on_another_workload(self):
        one = self.write("one.npy", npy([float(i >= j) for i in range(9) for j in range(9)], (9, 9)))
        for name, arguments in [("toeplitz", []), ("bsr", ["--bands", "3"]), ("tree-online", ["--stamps", "3"])]:
            for workload in ("momentum:0.5", "prefix + 0.3*identity", "window:4"):
                with self.subTest(name=name, workload=workload):
                    found = self.json("evaluate", self.made[name], "--workload", workload)
                    fresh = self.json("evaluate", "--steps", "9", "--family", name, *arguments, "--optimize-workload", "prefix",
                                      "--workload", workload)
                    self.assertEqual(found.pop("made_for_workload"), "prefix")
                    for key in ("rms_loss", "max_loss", "total_squared_loss", "sensitivity", "lower_bound", "workload"):
                        self.assertEqual(found[key], fresh[key])
        self.assertNotIn("made_for_workload", self.json("evaluate", self.made["toeplitz"], "--workload", "file:" + one))
        self.assertIn("made for", self.ok("evaluate", self.made["toeplitz"], "--workload", "mean"))
        saved = self.path("priced")
        priced = self.json("evaluate", self.made["toeplitz"], "--workload", "mean + prefix", "--weights", "last", "-o", saved)
        self.assertEqual(self.json("evaluate", saved)["rms_loss"], priced["rms_loss"])
        self.assertTrue(self.json("verify", saved)["ok"])

    def test_matrices_and_schedules_are_compared_by_their_numbers(self):
        one = self.write("one.npy", npy([float(i >= j) for i in range(9) for j in range(9)], (9, 9)))
        two = self.write("two.npy", npy([float(i >= j) + (i == j) for i in range(9) for j in range(9)], (9, 9)))
        rates = self.write("lr.npy", npy([0.5] * 9))
        others = self.write("lr2.npy", npy([0.5] * 8 + [0.25]))
        base = ["evaluate", "--steps", "9", "--family", "identity", "-o", self.path("m"), "--workload"]
        self.ok(*base, "file:" + one)
        self.assertNotIn("made_for_workload", self.json("evaluate", self.path("m"), "--workload", "file:" + one))
        self.assertEqual(self.json("evaluate", self.path("m"), "--workload", "file:" + two)["made_for_workload"], "file")
        self.ok(*base, "lr:" + rates)
        self.assertNotIn("made_for_workload", self.json("evaluate", self.path("m"), "--workload", "lr:" + rates))
        self.assertEqual(self.json("evaluate", self.path("m"), "--workload", "lr:" + others)["made_for_workload"], "lr")

    def test_weights_are_compared_with_those_of_the_file(self):
        one = self.write("one.npy", npy([float(t) for t in range(9)]))
        two = self.write("two.npy", npy([float(t) for t in range(8)] + [1.0]))
        self.ok("evaluate", "--steps", "9", "--family", "identity", "--weights", one, "-o", self.path("m"))
        self.ok("evaluate", self.path("m"), "--weights", one)
        self.refused(2, "evaluate", self.path("m"), "--weights", two, says="--weights")


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.good = self.path("good")
        self.ok("evaluate", "--steps", "9", "--family", "toeplitz", "-o", self.good)
        with open(self.good, "rb") as file:
            self.content = file.read()

    def refused_by_both(self, content):
        file = self.write("bad", content)
        self.refused(1, "inspect", file)
        self.refused(1, "evaluate", file, "--json")

    def test_truncated_and_longer_files_are_refused(self):
        size = len(self.content)
        for length in sorted({0, 1, 7, 8, 9, 100, size // 2, size - 73, size - 8, size - 1}):
            self.refused_by_both(self.content[:length])
        self.refused_by_both(self.content + b"\0")
        self.refused_by_both(self.content * 2)

    def test_a_truncated_file_is_named_and_called_so(self):
        for length in (7, 8, 100, len(self.content) - 1):
            self.refused(1, "inspect", self.write("cut.dpmf", self.content[:length]), says=["cut.dpmf", "truncated"])

    def test_any_changed_bit_is_refused(self):
        generator = random.Random(1)
        for _ in range(60):
            changed = bytearray(self.content)
            changed[generator.randrange(len(changed))] ^= 1 << generator.randrange(8)
            self.refused_by_both(bytes(changed))

    def test_files_of_something_else_are_refused(self):
        header = (2 ** 63 - 1).to_bytes(8, "little")
        for content in [b"\0" * 1000, b"\xff" * 1000, header + self.content[8:], b"\x02" + b"\0" * 7 + b"{}",
                        npy([1.0]), b"{}", b"dpmf: \x1b[31m\n\n" * 50]:
            self.refused_by_both(content)

    def test_what_is_not_a_file_is_refused(self):
        for path in [self.path("missing"), self.directory.name, self.path("a\nb\x1b[31m"), "/" + "x" * 5000]:
            self.refused(1, "inspect", path)
            self.refused(1, "evaluate", path)
        os.mkfifo(self.path("pipe"))
        self.refused(1, "inspect", self.path("pipe"))
        os.symlink("loop", self.path("loop"))
        self.refused(1, "inspect", self.path("loop"))


class Places(Case):
    BASE = ["evaluate", "--steps", "9", "--family", "toeplitz"]

    def test_places_that_cannot_be_written_are_refused(self):
        for arguments in [[], ["--json"]]:
            for place in [self.path("missing/m"), self.directory.name, "/dev/null", "/proc/m", self.path("x" * 300)]:
                self.refused(1, *self.BASE, *arguments, "-o", place, says="--out")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.assertEqual(self.left_behind(), [])

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_a_read_only_directory_is_refused(self):
        os.chmod(self.directory.name, 0o500)
        self.refused(1, *self.BASE, "-o", self.path("m"), says="--out")
        os.chmod(self.directory.name, 0o700)

    def test_a_failed_run_leaves_an_old_file(self):
        old = self.write("m", "old")
        self.refused(1, "optimize", "--steps", "10k", "--family", "dense", "-o", old)
        self.refused(1, "evaluate", "--steps", "1e15", "--family", "toeplitz", "-o", old)
        with open(old, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(self.left_behind(), ["m"])

    def test_success_replaces_an_old_file(self):
        old = self.write("m", "old")
        self.ok(*self.BASE, "-o", old)
        self.assertEqual(run("inspect", old)[0], 0)
        self.assertEqual(self.left_behind(), ["m"])


if __name__ == "__main__":
    unittest.main()
