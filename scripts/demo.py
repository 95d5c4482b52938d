#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tour of the program: which noise suits a training run? demo.py PROGRAM

States a run, evaluates every family that needs no optimizer, sweeps the number of bands, prints a table for each
workload, saves the best mechanism that a large model can afford, and reads it back.
"""
import json
import os
import subprocess
import sys
import tempfile

STEPS = 2000
BANDS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
FEW = 31  # buffers that a large model may have room for: as many copies of the model

WORKLOADS = (
    ("prefix", "plain SGD: the model after step t is a running sum of gradients"),
    ("momentum:0.9", "SGD with momentum 0.9"),
)
NAMES = {
    "identity": "independent noise (DP-SGD)",
    "workload": "output perturbation",
    "toeplitz": "square root",
    "bsr": "banded square root",
    "bisr": "banded inverse square root",
}


def dpmf(*arguments):
    """Runs the program and says how it was called if it fails."""
    command = [sys.argv[1], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def evaluate(workload, options):
    return json.loads(dpmf("evaluate", "--steps", str(STEPS), "--workload", workload, *options, "--json"))


def candidates():
    """(label, options) of every mechanism that is compared."""
    for family in ("identity", "workload", "toeplitz"):
        yield NAMES[family], ("--family", family)
    yield NAMES["toeplitz"] + ", columns normalized", ("--family", "toeplitz", "--column-normalize")
    for family in ("bsr", "bisr"):
        for bands in BANDS:
            yield f"{NAMES[family]}, {bands} bands", ("--family", family, "--bands", str(bands))


def compare(workload, meaning):
    rows = [(label, options, evaluate(workload, options)) for label, options in candidates()]
    independent = rows[0][2]["rms_loss"]
    best = min(rows, key=lambda row: row[2]["rms_loss"])
    affordable = min((row for row in rows if row[2]["buffers"] <= FEW), key=lambda row: row[2]["rms_loss"])
    print(f"\nWorkload {workload} ({meaning})\n")
    print(f"  {'mechanism':<42}{'RMS loss':>10}{'max loss':>10}{'buffers':>9}{'RMS / independent':>19}")
    for row in rows:
        label, _, found = row
        mark = "  <- least noise" if row is best else f"  <- least with at most {FEW} buffers" if row is affordable else ""
        print(f"  {label:<42}{found['rms_loss']:>10.4f}{found['max_loss']:>10.4f}{found['buffers']:>9}"
              f"{found['rms_loss'] / independent:>19.4f}{mark}")
    return affordable


def main():
    print(f"A training run of {STEPS} steps; every example is used once; zero-out adjacency.")
    print("Loss = sensitivity x noise of what the workload publishes: the noise at equal privacy, per unit of sigma.")
    print("Buffers = copies of the model that the noise generator keeps.")
    for workload, meaning in WORKLOADS:
        label, options, found = compare(workload, meaning)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "mechanism.dpmf")
        dpmf("evaluate", "--steps", str(STEPS), "--workload", workload, *options, "-o", path)
        print(f"\nSaved: {label}, for {workload} ({os.path.getsize(path)} bytes). `dpmf inspect` says of it:\n")
        print("  " + dpmf("inspect", path).rstrip().replace("\n", "\n  "))
        again = json.loads(dpmf("evaluate", path, "--json"))
    if again["rms_loss"] != found["rms_loss"]:
        sys.exit(f"the saved mechanism has RMS loss {again['rms_loss']}, not {found['rms_loss']}")


if __name__ == "__main__":
    main()
