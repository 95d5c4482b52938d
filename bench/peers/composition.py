# SPDX-License-Identifier: Apache-2.0
"""Compositions of guarantees and of Laplace noise beside dp-accounting, and privacy loss distributions there and back.

    bench/peers/run.sh composition

20 compositions: time and epsilon of both. 20 exported curves: dp-accounting reads each and composes it once more; its epsilon must be
ours or more, and within 1 %. 20 of its distributions, imported: our epsilon must be its own within 1 %, and not below the exact value where
that has a closed form. A line that does not hold ends the program with 1. Rows of times go to bench/results.csv.
"""
import math
import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("DPMF_LIBRARY", os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "libdpmf.so"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

from dp_accounting.pld import common, privacy_loss_distribution as losses  # noqa: E402

import dpmf  # noqa: E402
import results  # noqa: E402

DELTA = 1e-6
LISTS = [[("pure:%g" % e, n)] for e, n in ((0.01, 1000), (0.05, 500), (0.1, 100), (0.5, 20), (1, 5))]
LISTS += [[("laplace:%g" % b, n)] for b, n in ((100, 1000), (20, 200), (10, 100), (5, 50), (2, 10), (1, 3), (0.5, 2))]
LISTS += [[("approximate:%g,%g" % (e, d), n)] for e, d, n in ((0.1, 1e-9, 100), (0.02, 1e-10, 1000), (0.5, 1e-8, 10))]
LISTS += [
    [("pure:0.1", 30), ("pure:0.25", 10)],
    [("approximate:0.1,1e-9", 50), ("laplace:10", 50)],
    [("pure:0.5", 4), ("laplace:4", 20), ("approximate:0.05,1e-9", 100)],
    [("laplace:3", 5), ("laplace:30", 300)],
    [("pure:0.03", 100), ("pure:0.07", 60), ("approximate:0.2,1e-8", 8)],
]
RUNS = [(s, q, n) for s in (0.8, 1.0, 2.0) for q, n in ((0.001, 1000), (0.01, 300), (0.05, 100))]


def peer_of(text):
    kind, _, numbers = text.partition(":")
    values = [float(x) for x in numbers.split(",")]
    if kind == "laplace":
        return losses.from_laplace_mechanism(values[0])
    return losses.from_privacy_parameters(common.DifferentialPrivacyParameters(values[0], values[1] if values[1:] else 0.0))


def peer_list(parts):
    total = None
    for text, n in parts:
        one = peer_of(text).self_compose(n) if n > 1 else peer_of(text)
        total = one if total is None else total.compose(one)
    return total


def ours_list(parts, **more):
    return dpmf.compose(*[text for text, _ in parts], times=[n for _, n in parts], delta=DELTA, **more).epsilon


def timed(function, repeats, *arguments):
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = function(*arguments)
        taken.append(time.perf_counter() - start)
    return value, statistics.median(taken)


def judge(what, value, low, high, bad):
    held = low <= value <= high
    print("%-60s %14.9g in [%.9g, %.9g]%s" % (what, value, low, high, "" if held else "   DOES NOT HOLD"))
    bad.extend([] if held else [what])


def compare_times(rows):
    for parts in LISTS:
        name = " ".join("%sx%d" % part for part in parts)
        ours, seconds = timed(ours_list, 5, parts)
        peer, peer_seconds = timed(lambda p: peer_list(p).get_epsilon_for_delta(DELTA), 2, parts)
        rows.append(["composition", name, "%.4g" % seconds, "dp-accounting PLD", "%.4g" % peer_seconds,
                     "%.4g" % (peer_seconds / seconds), "epsilon %.9g / %.9g" % (ours, peer)])
        print("%-60s %9.5f s %9.4f s %8.1f x   %.9g  %.9g  %+.2e" %
              (name, seconds, peer_seconds, peer_seconds / seconds, ours, peer, ours / peer - 1))


def there(folder, bad):
    """Exported curves of lists and of sampled Gaussian runs, read and composed by dp-accounting."""
    path = os.path.join(folder, "ours.json")
    for parts in LISTS[:11]:
        ours = ours_list(parts, export=path)
        read = dpmf.read_losses(path)
        judge("export %s" % parts, read.get_epsilon_for_delta(DELTA), ours, 1.01 * ours, bad)
        twice = ours_list([(text, 2 * n) for text, n in parts])
        judge("   composed twice", read.self_compose(2).get_epsilon_for_delta(DELTA), twice * (1 - 1e-9), 1.01 * twice, bad)
    for sigma, q, n in RUNS:
        ledger = dpmf.Ledger(os.path.join(folder, "%g-%g-%d.json" % (sigma, q, n)))
        ledger.enter_account(sigma, sampling="poisson:%g" % q, steps=n)
        ours = dpmf.compose(ledger, delta=DELTA, export=path).epsilon
        read = dpmf.read_losses(path)
        judge("export sigma=%g q=%g n=%d" % (sigma, q, n), read.get_epsilon_for_delta(DELTA), ours, 1.01 * ours, bad)
        twice = dpmf.account(sigma, delta=DELTA, sampling="poisson:%g" % q, steps=2 * n).epsilon
        judge("   composed twice", read.self_compose(2).get_epsilon_for_delta(DELTA), twice * (1 - 1e-9), 1.01 * twice, bad)


def back(folder, bad):
    """Distributions of dp-accounting, composed here."""
    path = os.path.join(folder, "theirs.json")
    for n in (1, 10):
        for sigma in (0.5, 1, 3, 10):
            dpmf.write_losses(losses.from_gaussian_mechanism(sigma), path)
            exact = dpmf.account(sigma / math.sqrt(n), delta=DELTA).epsilon
            judge("import gaussian:%g x %d" % (sigma, n), ours_list([("pld:" + path, n)]), exact, 1.01 * exact, bad)
        for scale in (0.5, 2, 20):
            dpmf.write_losses(losses.from_laplace_mechanism(scale), path)
            exact = ours_list([("laplace:%g" % scale, n)])
            judge("import laplace:%g x %d" % (scale, n), ours_list([("pld:" + path, n)]), exact * (1 - 1e-4), 1.01 * exact, bad)
        for sigma, q in ((0.8, 0.01), (1, 0.1), (2, 0.02)):
            dpmf.write_losses(losses.from_gaussian_mechanism(sigma, sampling_prob=q), path, "add-remove")
            exact = dpmf.account(sigma, delta=DELTA, sampling="poisson:%g" % q, steps=n, adjacency="add-remove").epsilon
            found = dpmf.compose("pld:" + path, times=[n], delta=DELTA, adjacency="add-remove").epsilon
            judge("import sigma=%g q=%g x %d" % (sigma, q, n), found, exact * (1 - 1e-4), 1.01 * exact, bad)
    dpmf.write_losses(losses.from_laplace_mechanism(2, pessimistic_estimate=False), path)
    try:
        ours_list([("pld:" + path, 1)])
        bad.append("an optimistic estimate is accepted")
    except dpmf.Error as error:
        print("refused: %s" % error)


def main():
    rows, bad = [], []
    with tempfile.TemporaryDirectory() as folder:
        there(folder, bad)
        back(folder, bad)
    compare_times(rows)
    if "--keep" not in sys.argv:
        results.replace("composition", rows)
    print("%d lines do not hold" % len(bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
