# SPDX-License-Identifier: Apache-2.0
"""Random settings of optimize, whose results the program must read back: as a mechanism file, and as printed parameters.

A result is read back three ways: `evaluate FILE` and `verify FILE` accept it, and where its numbers are printed,
`evaluate --parameters` makes the same mechanism again. The figures agree to 1e-9, and to 1e-6 where rounding of the printed
numbers is amplified (a banded or low-rank inverse).
"""
import json
import random
import subprocess

from harness import DPMF, Case

FAMILIES = ("dense", "banded", "toeplitz", "banded-toeplitz", "bisr", "blt", "blt", "blt", "tvblt", "lowrank", "damped")
WORKLOADS = ("prefix", "prefix", "momentum:0.9", "momentum:0.95", "decay:0.1", "nesterov:0.8", "momentum:0.9,linear:0.1",
             "mean", "window:5")


def participation_of(draw, steps):
    kind = draw.choice(("single", "single", "cyclic", "cyclic", "minsep", "minsep", "full"))
    if kind in ("single", "full"):
        return kind
    count = draw.choice((2, 3, 4, 5, 8))
    separation = max(1, steps // count)
    if kind == "cyclic":
        return "cyclic:%d,%d" % (count, -(-steps // count))
    return "min-sep:%d,%d" % (count, draw.randint(1, separation))


def setting(draw):
    """A command line of optimize, and the family as it is named."""
    family = draw.choice(FAMILIES)
    steps = draw.choice((1, 2, 3, 7, 16, 24, 31, 48, 64))
    if family == "dense":  # under min-separation its search takes minutes
        steps = min(steps, 16)
    line = ["--family", "toeplitz" if family == "damped" else family, "--steps", str(steps)]
    who = participation_of(draw, steps)
    if family == "dense" and who.startswith("min-sep:"):
        who = "min-sep:2,%d" % max(1, steps // 2)
    line += ["--participation", who, "--workload", draw.choice(WORKLOADS)]
    line += ["--loss", draw.choice(("rms", "rms", "max"))]
    if family == "damped":
        line += ["--variant", "damped"]
    if family in ("banded", "banded-toeplitz", "bisr", "lowrank"):
        line += ["--bands", str(draw.randint(1, min(steps, 12)))]
    if family == "blt":
        line += ["--buffers", str(draw.randint(1, 7))]
        line += draw.choice(([], [], ["--signs", "non-negative"], ["--signs", "any"]))
    if family == "tvblt":
        line += ["--buffers", str(draw.randint(1, 6))]
    if family == "lowrank":
        line += ["--buffers", str(draw.randint(1, 3))]
    if family in ("toeplitz", "banded-toeplitz", "bisr", "blt"):
        line += draw.choice(([], [], [], ["--normalize", "after"], ["--normalize", "within"]))
    return line


class ReadBack(Case):
    """check_settings(first, count): that many settings which the family accepts, from that seed on."""

    def run_json(self, *line):
        done = subprocess.run([DPMF, *line, "--json"], capture_output=True, text=True)
        return done.returncode, (json.loads(done.stdout) if done.returncode == 0 else done.stderr)

    def same_figures(self, line, got, wanted, within):
        for key in ("rms_loss", "max_loss"):
            self.assertAlmostEqual(got[key] / wanted[key], 1, delta=within, msg="%s: %s" % (" ".join(line), key))
        self.assertAlmostEqual(got["sensitivity"]["value"] / wanted["sensitivity"]["value"], 1, delta=within, msg=line)

    def check_parameters(self, line, found):
        numbers = {k: v for k, v in (found["parameters"] or {}).items() if v is not None}
        if not numbers or set(numbers) <= {"nodes", "buffers"}:
            return False
        path = self.path("numbers.json")
        with open(path, "w") as file:
            json.dump(found["parameters"], file)
        again = ["--family", found["family"]] + line[2:8]  # the dense optimum may be a diagonal, which is banded
        if found["normalized"]:
            again = again + ["--normalize", "after"]
        code, got = self.run_json("evaluate", *again, "--parameters", path, "--bound", "none")
        self.assertEqual(code, 0, "%s: --parameters refused: %s" % (" ".join(line), got))
        self.same_figures(line, got, found, 1e-6)
        return True

    def check_one(self, line):
        """True if it was optimized and read back, False if the family does not take the setting."""
        path = self.path("m.dpmf")
        code, found = self.run_json("optimize", *line, "-o", path, "--bound", "none")
        if code != 0:
            self.assertIn(code, (1, 2), "%s: %s" % (" ".join(line), found))
            self.assertNotIn("error in the library", found)
            return False
        code, got = self.run_json("evaluate", path, "--bound", "none")
        self.assertEqual(code, 0, "%s: evaluate refused the file: %s" % (" ".join(line), got))
        self.same_figures(line, got, found, 1e-9)
        code, got = self.run_json("verify", path)
        self.assertEqual(code, 0, "%s: verify: %s" % (" ".join(line), got))
        self.check_parameters(line, found)
        return True

    def check_settings(self, seed, count):
        draw, taken, tried = random.Random(seed), 0, 0
        while taken < count:
            tried += 1
            self.assertLess(tried, 20 * count)
            taken += self.check_one(setting(draw))
