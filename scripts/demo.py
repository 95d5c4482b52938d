#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tour of the program: which noise suits a training run? demo.py PROGRAM

States a run, evaluates every family that needs no optimizer, sweeps the number of bands, optimizes, prints a table for
each workload; then the same steps in several epochs, where strategies that start anew (stamps) and optimized ones are
compared too; saves the best mechanism that a large model can afford, and reads it back; says what noise multiplier
privacy needs, and makes some of the noise.
"""
import json
import os
import subprocess
import sys
import tempfile

STEPS = 2000
BANDS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
EPOCHS, EPOCH = 20, 100
STAMPS = (1, 2, 5, 10, 20)
FEW = 31  # buffers that a large model may have room for: as many copies of the model

ONCE = (
    ("prefix", "plain SGD: the model after step t is a running sum of gradients"),
    ("momentum:0.9", "SGD with momentum 0.9"),
)
NAMES = {
    "identity": "independent noise (DP-SGD)",
    "workload": "output perturbation",
    "toeplitz": "square root",
    "bsr": "banded square root",
    "bisr": "banded inverse square root",
    "tree": "binary tree",
    "tree-online": "binary tree, refined from below",
    "tree-full": "binary tree, best decoder",
    "fft": "FFT mechanism",
    "fft-opt": "FFT mechanism, best decoder",
    "tvblt": "TV-BLT (optimized)",
    "banded": "banded (optimized)",
    "blt": "BLT (optimized)",
}


def dpmf(*arguments):
    """Runs the program and says how it was called if it fails."""
    command = [sys.argv[1], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def evaluate(options):
    verb = "optimize" if {"tvblt", "banded", "blt"} & set(options) else "evaluate"
    return json.loads(dpmf(verb, "--steps", str(STEPS), *options, "--json"))


def candidates():
    """(label, options) of every mechanism that is compared when each example is used once."""
    for family in ("identity", "workload", "tree", "tree-online", "tree-full", "fft", "fft-opt", "toeplitz"):
        yield NAMES[family], ("--family", family)
    yield NAMES["toeplitz"] + ", columns normalized", ("--family", "toeplitz", "--column-normalize")
    for family in ("bsr", "bisr"):
        for bands in BANDS:
            yield f"{NAMES[family]}, {bands} bands", ("--family", family, "--bands", str(bands))
    for nodes in (2, 4, 6):
        yield f"{NAMES['tvblt']}, {nodes} nodes", ("--family", "tvblt", "--buffers", str(nodes))


def epoch_candidates():
    """The same for several epochs: a strategy may start anew now and then, or have no more bands than an epoch."""
    yield NAMES["identity"], ("--family", "identity")
    yield NAMES["toeplitz"], ("--family", "toeplitz")
    for bands in (16, 32, EPOCH):
        yield f"{NAMES['bsr']}, {bands} bands", ("--family", "bsr", "--bands", str(bands))
    yield f"{NAMES['banded']}, 32 bands", ("--family", "banded", "--bands", "32")
    yield f"{NAMES['blt']}, 5 buffers", ("--family", "blt", "--buffers", "5")
    for family in ("tree-online", "tree-full", "fft", "fft-opt"):
        for stamps in STAMPS:
            label = f"{NAMES[family]}, {stamps} stamps" if stamps > 1 else NAMES[family]
            yield label, ("--family", family, "--stamps", str(stamps))


def compare(rows):
    """Prints the table; returns the row with the least noise among those with few buffers."""
    independent = rows[0][2]["rms_loss"]
    best = min(rows, key=lambda row: row[2]["rms_loss"])
    affordable = min((row for row in rows if row[2]["buffers"] <= FEW), key=lambda row: row[2]["rms_loss"])
    bound = rows[0][2]["lower_bound"]
    print(f"  {'mechanism':<42}{'RMS loss':>10}{'max loss':>10}{'buffers':>9}{'/ independent':>15}{'/ bound':>9}")
    for row in rows:
        label, _, found = row
        mark = f"  <- least with at most {FEW} buffers" if row is affordable else ""
        mark = "  <- least noise" if row is best else mark
        if found["sensitivity"]["kind"] != "exact":
            mark = f"  ({found['sensitivity']['kind']})" + mark
        print(f"  {label:<42}{found['rms_loss']:>10.4f}{found['max_loss']:>10.4f}{found['buffers']:>9}"
              f"{found['rms_loss'] / independent:>15.4f}{found['ratio']:>9.4f}{mark}")
    print(f"  {'no mechanism is below':<42}{bound['rms_loss']:>10.4f}{bound['max_loss']:>10.4f}   ({bound['scope']})")
    return affordable


def privacy(path):
    """What noise does epsilon = 8, delta = 1e-5 need, and what does it look like?"""
    print("\nFor epsilon = 8, delta = 1e-5:\n")
    print("  " + dpmf("account", path, "--epsilon", "8", "--delta", "1e-5").rstrip().replace("\n", "\n  "))
    key, rows = path + ".key", path + ".rows"
    dpmf("noise", path, "--dim", "1000", "--rows", f"0:{STEPS}", "--key-file", key, "-o", rows)
    print(f"\n`dpmf noise` wrote {STEPS} rows of 1000 numbers (sigma 1): {os.path.getsize(rows)} bytes.")


def main():
    print(f"A training run of {STEPS} steps; zero-out adjacency.")
    print("Loss = sensitivity x noise of what the workload publishes: the noise at equal privacy, per unit of sigma.")
    print("Buffers = copies of the model that the noise generator keeps.")
    for workload, meaning in ONCE:
        print(f"\nEvery example is used once. Workload {workload} ({meaning})\n")
        base = ("--workload", workload)
        compare([(label, options, evaluate(base + options)) for label, options in candidates()])
    print(f"\n{EPOCHS} epochs of {EPOCH} steps in a fixed order. Workload prefix ({ONCE[0][1]})\n")
    base = ("--participation", f"cyclic:{EPOCHS},{EPOCH}")
    rows = [(label, options, evaluate(base + options)) for label, options in epoch_candidates()]
    label, options, found = compare(rows)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "mechanism.dpmf")
        verb = "optimize" if {"tvblt", "banded", "blt"} & set(options) else "evaluate"
        dpmf(verb, "--steps", str(STEPS), *base, *options, "-o", path)
        print(f"\nSaved: {label} ({os.path.getsize(path)} bytes). `dpmf inspect` says of it:\n")
        print("  " + dpmf("inspect", path).rstrip().replace("\n", "\n  "))
        again = json.loads(dpmf("evaluate", path, "--json"))
        privacy(path)
    if again["rms_loss"] != found["rms_loss"]:
        sys.exit(f"the saved mechanism has RMS loss {again['rms_loss']}, not {found['rms_loss']}")


if __name__ == "__main__":
    main()
