# SPDX-License-Identifier: Apache-2.0
"""A reader copies a figure of a table into a report: as a decimal number it must still be a guarantee.

Every command runs twice, as a table and with --json, which has the whole double. What is an upper bound, or what noise and a
guarantee are made of, is printed not below the double, a lower bound not above it.
"""
import json
import re
import unittest

from harness import Case

UP, DOWN = 1, -1

# A name in a table, where its double is in the JSON object, and the safe side.
FIGURES = {
    "sigma": ("sigma", UP),
    "epsilon": ("epsilon", UP),
    "delta": ("delta", UP),
    "mu": ("mu", UP),
    "rho": ("rho", UP),
    "epsilon without it": ("epsilon_without_sampling", UP),
    "recomputed": ("recomputed", UP),
    "recomputed delta": ("delta_recomputed", UP),
    "RMS noise": ("noise_rms", UP),
    "sensitivity": ("sensitivity.value", UP),
    "RMS loss": ("rms_loss", UP),
    "max loss": ("max_loss", UP),
    "total squared loss": ("total_squared_loss", UP),
    "RMS lower bound": ("lower_bound.rms_loss", DOWN),
    "max lower bound": ("lower_bound.max_loss", DOWN),
    "  at least": ("optimum_lower", DOWN),
    "  at most": ("optimum_upper", UP),
    "ratio": ("ratio", UP),
}


def inside(found, path):
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


class Figures(Case):
    def compare(self, *words):
        """How many figures of the table were compared with the JSON object."""
        table, found = self.ok(*words), json.loads(self.ok(*words, "--json"))
        seen = {}
        for line in table.split("\n\n")[0].splitlines():
            name, value = line[:20].rstrip(), line[20:].split()
            where, side = FIGURES.get(name, (None, 0))
            double = None if where is None else inside(found, where)
            if double is None or isinstance(double, str):
                continue
            seen[name] = float(value[0])
            with self.subTest(words=words, figure=name, printed=value[0], double=double):
                self.assertGreaterEqual(side * float(value[0]), side * double)
                self.assertAlmostEqual(float(value[0]) / double if double else 1, 1, delta=2e-8)
                if value[1:2] and value[1].startswith("exact") and float(value[0]) != double:
                    self.assertIn("exact, rounded up", line)
        self.sentences(words, found, table)
        return len(seen)

    def sentences(self, words, found, table):
        """The choice of a design has its figures in a sentence."""
        said = re.search(r"sigma ([0-9.e+-]+) x loss ([0-9.e+-]+) = ([0-9.e+-]+),", " ".join(table.split()))
        if said is None:
            return
        chosen = found["chosen"]
        for text, double in zip(said.groups(), (chosen["sigma"], chosen["rms_loss"], chosen["noise_rms"])):
            with self.subTest(words=words, printed=text, double=double):
                self.assertGreaterEqual(float(text), double)

    def test_figures_are_on_the_safe_side(self):
        total, file = 0, self.path("m.dpmf")
        for steps, epsilon, delta in ((50, 2, "1e-6"), (77, 0.7, "1e-5"), (130, 3.3, "1e-9"), (31, 8, "1e-4")):
            for family in (("toeplitz",), ("bsr", "--bands", 4), ("tree",), ("identity",)):
                words = ("evaluate", "--family", *family, "--steps", steps, "--epsilon", epsilon, "--delta", delta)
                total += self.compare(*words, "--adjacency", "replace-one")
                total += self.compare(*words, "--participation", "min-sep:3,9", "-o", file)
                total += self.compare("inspect", file)
                total += self.compare("account", file)
            for sampling in ("none", "poisson:0.0123", "allocation:1,%d" % steps):
                total += self.compare("account", "--epsilon", epsilon, "--delta", delta, "--sampling", sampling)
                total += self.compare("account", "--sigma", 1.3, "--delta", delta, "--sampling", sampling)
                total += self.compare("account", "--sigma", 1.7, "--epsilon", epsilon, "--sampling", sampling)
            self.ok("evaluate", "--family", "bsr", "--bands", 4, "--steps", steps, "-o", file)
            for sampling in ("none", "block-cyclic:0.0123,4"):
                total += self.compare(
                    "calibrate", file, "--epsilon", epsilon, "--delta", delta, "--sampling", sampling
                )
            total += self.compare("optimize", "--family", "banded-toeplitz", "--bands", 3, "--steps", steps)
        self.assertGreater(total, 500)

    def test_the_table_of_a_design_is_on_the_safe_side(self):
        for words in (("--epochs", 1), ("--epochs", 3), ("--participation", "min-sep:3,8", "--unit", "user"), ("--epochs", 2, "--loss", "max")):
            ask = ("design", "--steps", 60, "--epsilon", 1.7, "--delta", "1e-6", *words)
            table, found = self.ok(*ask), json.loads(self.ok(*ask, "--json"))
            self.sentences(ask, found, table) if "max" not in words else None
            noise = "noise_max" if "max" in words else "noise_rms"
            rows = [line[31:].split() for line in table.split("\n\n")[1].splitlines()[1:]]
            shown = [c for c in found["candidates"]]
            self.assertLessEqual(len(rows), len(shown))
            for row in rows:
                sigma, printed, ratio = float(row[2]), float(row[3]), row[-2]
                near = [c for c in shown if str(c["buffers"]) == row[1] and abs(printed / c[noise] - 1) < 2e-4]
                with self.subTest(words=words, row=row):
                    self.assertTrue(near)
                    self.assertTrue(any(sigma >= c["sigma"] and printed >= c[noise] for c in near))
                    if ratio != "-":
                        self.assertTrue(any(float(ratio) >= c["ratio"] for c in near))


if __name__ == "__main__":
    unittest.main()
