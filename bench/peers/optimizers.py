# SPDX-License-Identifier: Apache-2.0
"""Design tasks beside jax_privacy, in one run on one machine.

    bench/peers/run.sh optimizers     # makes bench/peers/venv, builds the program, runs this

Ours: the median of five calls, as `dpmf optimize --json` times them. Theirs: the second call, when everything that JAX
compiles once has been compiled; the first call is given apart. Both losses are evaluated by ours (exact), so that the same
accuracy is compared. Rows go to bench/results.csv.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import numpy as np
from jax_privacy.matrix_factorization import banded, buffered_toeplitz, dense, toeplitz

import results

jax.config.update("jax_enable_x64", True)
PROGRAM = None
REPEATS = 5


def dpmf(*arguments):
    out = subprocess.run([PROGRAM, *map(str, arguments), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def loss_of(parameters, *arguments, loss="rms"):
    """The exact loss of a strategy given by its numbers."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(parameters, file)
        file.flush()
        return dpmf("evaluate", *arguments, "--bound", "none", "--parameters", file.name)[loss + "_loss"]


def twice(function):
    """Value, seconds of the second call, seconds of the first."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        value = jax.block_until_ready(function())
        seconds.append(time.perf_counter() - start)
    return value, seconds[1], seconds[0]


def diagonals_of(matrix, bands):
    return [np.diagonal(matrix, -j).tolist() for j in range(bands)]


def dense_task(n):
    return ("dense n=%d" % n, ["--family", "dense", "--steps", n], "rms", lambda: dense.optimize(n),
            lambda value: loss_of({"matrix": np.tril(np.asarray(value)).tolist()}, "--family", "dense", "--steps", n))


def tasks():
    yield dense_task(512)
    # ours stops where the tolerance is proven, so the tolerance is one at which its loss is not above theirs
    yield ("banded n=1024 b=16", ["--family", "banded", "--bands", 16, "--steps", 1024, "--tolerance", "2e-7"], "rms",
           lambda: banded.optimize(1024, bands=16),
           lambda value: loss_of({"diagonals": diagonals_of(np.asarray(value.materialize()), 16)}, "--family", "banded",
                                 "--steps", 1024))
    yield ("banded Toeplitz n=1e5 b=32", ["--family", "banded-toeplitz", "--bands", 32, "--steps", 100000], "rms",
           lambda: toeplitz.optimize_banded_toeplitz(100000, 32),
           lambda value: loss_of({"coefficients": np.asarray(value).tolist()}, "--family", "banded-toeplitz", "--steps",
                                 100000))
    yield ("BLT n=1e5 max loss", None, "max", lambda: buffered_toeplitz.optimize(n=100000, error="max"),
           lambda value: loss_of({"scale": np.asarray(value.output_scale).tolist(),
                                  "decay": np.asarray(value.buf_decay).tolist()}, "--family", "blt", "--steps", 100000,
                                 loss="max"))
    yield dense_task(1024)  # minutes: last


def main():
    rows = []
    for name, arguments, loss, theirs, evaluate in tasks():
        value, warm, first = twice(lambda: theirs())
        if arguments is None:
            arguments = ["--family", "blt", "--buffers", len(np.asarray(value.buf_decay)), "--steps", 100000]
        runs = [dpmf("optimize", *arguments, "--loss", loss, "--bound", "none") for _ in range(REPEATS)]
        ours = statistics.median(run["seconds"] for run in runs)
        our_loss, their_loss = runs[0][loss + "_loss"], evaluate(value)
        rows.append(["optimizers", name, "%.4g" % ours, "jax_privacy", "%.4g" % warm, "%.4g" % (warm / ours),
                     "%s loss %.9g / %.9g; first call %.4g s; goal >= 100" % (loss, our_loss, their_loss, first)])
        print("%-28s ours %.4g s, jax_privacy %.4g s (first call %.4g s): %.0f times; %s loss ours %.9g, theirs %.9g" %
              (name, ours, warm, first, warm / ours, loss, our_loss, their_loss), flush=True)
        results.replace("optimizers", rows)  # a run that is stopped keeps what it has


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    main()
