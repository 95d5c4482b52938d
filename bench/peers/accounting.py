# SPDX-License-Identifier: Apache-2.0
"""Certified calibration of sigma beside dp_accounting's PLD and Opacus' PRV accountant, in one run on one machine.

    bench/peers/run.sh accounting     # makes bench/peers/venv, builds bench_accounting, runs this

Each peer calibrates sigma for the same (epsilon, delta, q, n) and states epsilon at the same sigma. Rows go to
bench/results.csv, replacing those of an earlier run. Times of peers are of one call, after a warm-up; ours are medians.
"""
import csv
import io
import statistics
import subprocess
import sys
import time

import dp_accounting
from dp_accounting import pld
from opacus.accountants import PRVAccountant

import results


def event(sigma, query):
    step = dp_accounting.PoissonSampledDpEvent(float(query["probability"]), dp_accounting.GaussianDpEvent(sigma))
    return dp_accounting.SelfComposedDpEvent(step, int(query["steps"]))


def pld_accountant():
    return pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)


def pld_epsilon(sigma, query):
    accountant = pld_accountant()
    accountant.compose(event(sigma, query))
    return accountant.get_epsilon(float(query["delta"]))


def pld_sigma(query):
    sigma = float(query["sigma"])
    return dp_accounting.calibrate_dp_mechanism(
        pld_accountant, lambda s: event(s, query), float(query["epsilon"]), float(query["delta"]),
        bracket_interval=dp_accounting.ExplicitBracketInterval(sigma / 2, 2 * sigma), tol=1e-3 * sigma)


def prv_epsilon(sigma, query):
    accountant = PRVAccountant()
    accountant.history = [(sigma, float(query["probability"]), int(query["steps"]))]
    return accountant.get_epsilon(float(query["delta"]))


def timed(function, *arguments):
    start = time.perf_counter()
    try:
        value = function(*arguments)
    except Exception as error:  # a peer that fails is a result too
        print("   failed: %s" % str(error)[:100], file=sys.stderr)
        value = float("nan")
    return value, time.perf_counter() - start


def main(program):
    out = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows, ratios, looser, below = [], [], 0, 0
    pld_epsilon(1.0, {"probability": 0.01, "steps": 10, "delta": 1e-5})  # warm-up: imports, first FFT plans
    for query in csv.DictReader(io.StringIO(out)):
        name = "sigma=%g q=%g n=%s delta=%g" % (float(query["sigma"]), float(query["probability"]), query["steps"],
                                                float(query["delta"]))
        ours = float(query["calibrate_seconds"])
        print(name, flush=True)
        sigma, seconds = timed(pld_sigma, query)
        epsilon, _ = timed(pld_epsilon, float(query["sigma"]), query)
        prv_value, prv_seconds = timed(prv_epsilon, float(query["sigma"]), query)
        ratios.append(seconds / ours)
        if float(query["epsilon_certified"]) > epsilon * (1 + 1e-12):
            looser += 1
            below += epsilon < float(query["epsilon"]) * (1 - 1e-6)  # below the true value: no bound
        rows += [["accounting", name + " calibrate", "%.4g" % ours, "dp-accounting PLD", "%.4g" % seconds,
                  "%.4g" % (seconds / ours), "sigma %.9g / %.9g" % (float(query["calibrated_sigma"]), sigma)],
                 ["accounting", name + " epsilon", "%.4g" % float(query["epsilon_seconds"]), "Opacus PRV", "%.4g" % prv_seconds,
                  "%.4g" % (prv_seconds / float(query["epsilon_seconds"])),
                  "epsilon about %.9g ours %.9g PLD %.9g PRV %.9g" % (float(query["epsilon"]),
                                                                     float(query["epsilon_certified"]), epsilon,
                                                                     prv_value)]]
        print("   ours %.4g s, PLD %.4g s: %.0f times; epsilon ours %.7g, PLD %.7g, PRV %.7g (%.3g s)" %
              (ours, seconds, ratios[-1], float(query["epsilon_certified"]), epsilon, prv_value, prv_seconds), flush=True)
        results.replace("accounting", rows)  # a run that is stopped keeps what it has
    rows.append(["accounting", "calibrate, median of thirty", "", "dp-accounting PLD", "", "%.4g" % statistics.median(ratios),
                 "goal >= 100; looser than PLD in %d of thirty, in %d of them PLD is below the true value" % (looser, below)])
    results.replace("accounting", rows)
    print("median ratio %.0f; looser than PLD in %d of %d, in %d of them PLD is below the true value" %
          (statistics.median(ratios), looser, len(ratios), below))


if __name__ == "__main__":
    main(sys.argv[1])
