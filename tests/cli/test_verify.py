# SPDX-License-Identifier: Apache-2.0
"""verify: what was saved agrees, and every single change of a file, its digest made to fit again, is found.

The law of the noise is tested under fresh keys, so that a run of `verify` on a good file fails by chance with a
probability below 2e-10; the runs here are fewer than 2000.
"""
import copy
import json
import unittest

from harness import run
from verify_cases import CHANGE, Families, Verify, change_number


class Mutations(Families):
    def test_every_change_of_an_amplified_banded_toeplitz_is_found(self):
        file = self.optimize("banded-toeplitz", "--bands", 6)
        self.assertGreaterEqual(self.mutate(self.calibrated(file, "block-cyclic:0.05,6")), 32)

    def test_every_change_of_an_amplified_banded_is_found(self):
        file = self.optimize("banded", "--bands", 4)
        file = self.calibrated(file, "block-cyclic:0.05,4")
        file.root["participation"] = "cyclic:3,9"
        self.assertGreaterEqual(self.mutate(self.answered(file)), 40)

    def test_every_change_of_amplified_independent_noise_is_found(self):
        self.assertGreaterEqual(self.mutate(self.calibrated(self.evaluate("identity"), "poisson:0.05")), 18)

    def test_every_change_of_a_toeplitz_is_found(self):
        file = self.optimize("toeplitz", "--participation", "cyclic:3,9", "--workload", "nesterov:0.9")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 40)


class Larger(Verify):
    def test_one_coefficient_among_thousands_is_found(self):
        """Steps beyond those that are verified whole."""
        file = self.made("evaluate", "--steps", 4000, "--family", "bsr", "--bands", 100, "--participation",
                         "minsep:4,1000")
        self.survives(self.calibrated(file))
        for place in (0, 50, 99):
            changed = copy.deepcopy(file)
            changed.arrays["strategy.coefficients"][1][place] *= 1 + CHANGE
            self.assertIn("response", self.found(changed, place))

    def test_every_change_of_the_published_run_is_found(self):
        path = self.path("d")
        self.json("design", "--steps", 16384, "--epochs", 8, "--epsilon", 8, "--delta", "1e-8", "--dim", "1e6",
                  "--sampling", "block-cyclic", "--families", "banded-toeplitz", "-o", path)  # the choice of all
        file = self.load(path)
        self.survives(file)
        for path in [("sigma",), ("delta",), ("rms_loss",), ("sampling", 0), ("sampling", 1), ("participation", 1)]:
            self.found(change_number(file, path, 1), path)


class Texts(Verify):
    def setUp(self):
        super().setUp()
        self.file = self.calibrated(self.made("evaluate", "--steps", 40, "--family", "bsr", "--bands", 4,
                                              "--participation", "minsep:4,10"))

    def with_text(self, *path_and_value):
        changed = copy.deepcopy(self.file)
        inner = changed.root
        for key in path_and_value[:-2]:
            inner = inner[key]
        self.assertNotEqual(inner[path_and_value[-2]], path_and_value[-1])
        inner[path_and_value[-2]] = path_and_value[-1]
        return changed

    def test_words_are_claims_too(self):
        self.survives(self.file)
        for path in [("sensitivity", "kind", "upper bound"), ("sensitivity", "method", "rows of |C'C|"),
                     ("sensitivity", "of", "column"), ("adjacency", "replace-one"), ("adjacency", "add-remove"),
                     ("participation", "shuffled:4,10"), ("participation", "single"), ("sampling", "poisson:0.5"),
                     ("lower_bound", "scope", "any"), ("strategy", "family", "toeplitz"),
                     ("workload", "text", "momentum:0.5"), ("lower_bound", "rms_loss", 1e-3), ("weighted", True)]:
            self.found(self.with_text(*path), path)

    def test_one_band_more_or_less_is_found(self):
        shape, values = self.file.arrays["strategy.coefficients"]
        for more in ([], [0.0], [1e-9]):
            changed = copy.deepcopy(self.file)
            kept = values + more if more else values[:-1]
            changed.arrays["strategy.coefficients"] = [[len(kept)], kept]
            self.found(changed, more)

    def test_what_is_not_claimed_is_not_checked(self):
        file = self.made("evaluate", "--steps", 40, "--family", "bsr", "--bands", 4, "--bound", "none")
        ok, checks = self.verify(file)
        self.assertTrue(ok)
        self.assertIsNone(checks["sigma"]["ok"])
        self.assertIsNone(checks["lower_bound"]["ok"])
        self.assertIn("no guarantee", checks["sigma"]["how"])


class Files(Verify):
    def setUp(self):
        super().setUp()
        self.file = self.made("evaluate", "--steps", 20, "--family", "toeplitz")
        self.content = self.file.bytes()

    def test_changed_bytes_fail_the_digest(self):
        for place in (len(self.content) - 1, self.content.index(b'rms_loss\\":') + 12):
            changed = bytearray(self.content)
            changed[place] ^= 1
            ok, checks = self.verify(bytes(changed))
            self.assertFalse(ok)
            self.assertEqual(list(checks), ["digest"])
            self.assertIn("digest", checks["digest"]["how"])

    def test_descriptions_that_do_not_hold_fail(self):
        for key, value in (("steps", 21), ("participation", "cyclic:3,3"), ("adjacency", "none"), ("sigma", -1),
                           ("format_version", 99)):
            changed = copy.deepcopy(self.file)
            changed.root[key] = value
            ok, checks = self.verify(changed)
            self.assertEqual([checks["digest"]["ok"], checks["description"]["ok"]], [True, False], key)

    def test_files_that_are_no_container_are_refused(self):
        for content in (b"", b"12345678", b"#!/bin/sh\necho hello, world\n", self.content[:-8], self.content[:40],
                        self.content + b"\0" * 8, json.dumps({"a": 1}).encode()):
            self.refused(1, "verify", self.write("bad", content))
        self.refused(1, "verify", self.path("missing"))
        self.refused(1, "verify", self.directory.name)
        self.refused(2, "verify")

    def test_the_table_ends_with_the_verdict(self):
        path = self.write("good", self.content)
        lines = self.ok("verify", path).splitlines()
        self.assertRegex(lines[-1], r"^verified: [0-9]+ agree, 0 do not, [0-9]+ were not checked$")
        self.assertTrue(any(line.startswith("ok ") and "W read from the noise stream" in line for line in lines))
        self.file.root["rms_loss"] *= 1 + CHANGE
        code, out, err = run("verify", self.write("bad", self.file.bytes()))
        self.assertEqual((code, err), (3, ""))
        self.assertRegex(out, r"\nFAILED  rms_loss ")
        self.assertRegex(out.splitlines()[-1], r"^FAILED: [0-9]+ agree, 2 do not, ")

    def test_a_verification_is_the_same_for_any_threads(self):
        path = self.write("good", self.content)
        answers = [[check for check in self.json("verify", path, "--threads", threads)["checks"]
                    if not check["name"].startswith("noise.")] for threads in (1, 2, 5)]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])


if __name__ == "__main__":
    unittest.main()
