# SPDX-License-Identifier: Apache-2.0
"""A whole design beside jax_privacy, in one run on one machine.

    bench/peers/run.sh design     # makes bench/peers/venv, builds the program, runs this

16384 steps, 8 epochs, delta 1e-8, a model of a million parameters, 4 GiB. Ours is the complete command `dpmf design`
with block-cyclic sampling, process and measurements of time included: every family, every number of bands, certified
privacy; and the same of banded matrices alone, which is what jax_privacy searches. Medians of three calls. Theirs, the
second call, when everything that JAX compiles once has been compiled:

    BandMF alone     the coefficients for one number of bands (the best power of two) and their noise multiplier
    bands searched   their own search over the bands, which divide the data set's size (--all: takes minutes)

Both have the same question: the least RMS noise of prefix sums. Rows go to bench/results.csv.
"""
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
from jax_privacy.matrix_factorization import toeplitz

import results

jax.config.update("jax_enable_x64", True)
STEPS, EPOCHS, DELTA = 16384, 8, 1e-8
BATCH = 64  # their noise does not depend on it; the data set has BATCH x STEPS / EPOCHS examples
REPEATS = 3
BANDED = ("--families", "banded,banded-toeplitz")
CASES = [(1, 32), (8, 256)]  # epsilon, the best power of two


def ours(program, epsilon, *families):
    """Seconds, and the least noise of an amplified banded mechanism."""
    arguments = ["design", "--steps", STEPS, "--epochs", EPOCHS, "--epsilon", epsilon, "--delta", DELTA, "--dim", 1000000,
                 "--memory", 1 << 32, "--sampling", "block-cyclic", "--json", *families]
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        out = subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds.append(time.perf_counter() - start)
    noise = [c["noise_rms"] for c in json.loads(out)["candidates"] if c["family"] in ("banded", "banded-toeplitz")]
    return statistics.median(seconds), min(noise)


def helper(epsilon):
    return toeplitz._AmplifiedBandMFHelper(STEPS, BATCH * STEPS // EPOCHS, BATCH, epsilon, DELTA, jnp.mean)


def one_number_of_bands(epsilon, bands):
    coefficients = toeplitz.optimize_banded_toeplitz(n=STEPS, bands=bands, reduction_fn=jnp.mean)
    return float(helper(epsilon).amplified_bandmf_loss(coefficients)) * BATCH


def whole_search(epsilon):
    return float(helper(epsilon).optimize_bands()["loss"]) * BATCH


def warm(function):
    """Value, seconds of the second call, seconds of the first."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        value = function()
        seconds.append(time.perf_counter() - start)
    return value, seconds[1], seconds[0]


def main():
    program, everything = sys.argv[1], "--all" in sys.argv[2:]
    rows = []
    for epsilon, bands in CASES:
        scopes = {"whole design": ours(program, epsilon), "banded design": ours(program, epsilon, *BANDED)}
        tasks = [("BandMF alone", lambda: one_number_of_bands(epsilon, bands))]
        if everything:
            tasks.append(("bands searched", lambda: whole_search(epsilon)))
        for name, task in tasks:
            theirs, second, first = warm(task)
            for scope, (seconds, noise) in scopes.items():
                rows.append(["design", "%s, epsilon=%g / %s" % (scope, epsilon, name), "%.4g" % seconds, "jax_privacy",
                             "%.4g" % second, "%.4g" % (second / seconds),
                             "RMS noise %.6g / %.6g; first call %.4g s; goal >= 10" % (noise, theirs, first)])
                print("epsilon %g, %s: ours %.4g s, jax_privacy %s %.4g s (first call %.4g s): %.1f times; RMS noise ours "
                      "%.6g, theirs %.6g" % (epsilon, scope, seconds, name, second, first, second / seconds, noise, theirs),
                      flush=True)
            results.replace("design", rows)  # a run that is stopped keeps what it has


if __name__ == "__main__":
    main()
