# SPDX-License-Identifier: Apache-2.0
"""The results of the tables of runs: for every task, epsilon and mechanism the mean of the final runs, its 95 % interval, and the
difference from amplified DP-SGD. Intervals are Student's; that of a difference is Welch's, with its degrees of freedom rounded down.

The transformer's score is kept as bits per character, where less is better; `gain` is larger when a mechanism is better, in all tasks.
"""
import collections
import csv
import dataclasses
import math
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent
# 97.5 % points of Student's distribution by degrees of freedom
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
SEARCHED = (1.0, 2.0, 8.0)  # where softmax.csv has today's mechanisms and the whole search; other rows are of an earlier version
BASELINE = "DP-SGD, Poisson sampling"
# names in the tables of runs -> names on the page, in its order
NAMES = {
    "dp-sgd, amplified": BASELINE,
    "dpsgd": BASELINE,
    "blt": "BLT",
    "tv-blt": "TV-BLT",
    "tvblt": "TV-BLT",
    "banded toeplitz": "banded Toeplitz",
    "toeplitz": "banded Toeplitz",
    "bandmf": "BandMF",
    "tvblt-1": "TV-BLT, one epoch",
    "dpsgd-1": "DP-SGD, one epoch",
    "dp-sgd": "DP-SGD, fixed order",
    "tree-online": "tree aggregation",
}
ORDER = list(dict.fromkeys(NAMES.values()))


@dataclasses.dataclass
class Result:
    """The final runs of one mechanism."""

    values: list
    rate: float
    clip: float
    noise: float
    trials: int
    larger_is_better: bool = True

    @property
    def mean(self):
        return statistics.mean(self.values)

    @property
    def half(self):
        """Half of the 95 % interval of the mean."""
        return STUDENT[len(self.values) - 1] * self.error

    @property
    def error(self):
        return statistics.stdev(self.values) / math.sqrt(len(self.values))

    def gain(self, other):
        """(how much better than another on average, half of the 95 % interval of that)."""
        sign = 1 if self.larger_is_better else -1
        a, b = self.error**2, other.error**2
        freedom = (a + b) ** 2 / (a**2 / (len(self.values) - 1) + b**2 / (len(other.values) - 1)) if a + b > 0 else 1
        half = STUDENT[max(1, min(9, math.floor(freedom + 1e-9)))] * math.sqrt(a + b)
        return sign * (self.mean - other.mean), half


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def softmax(epochs, path=HERE / "softmax.csv"):
    """{epsilon: {name: Result}}: the final runs with the rate and clip norm that the held-out images chose."""
    finals, trials = collections.defaultdict(list), collections.defaultdict(list)
    for row in rows_of(path):
        if int(row["epochs"]) == epochs:
            stage = trials if row["stage"] == "tune" else finals
            stage[float(row["epsilon"]), NAMES[row["mechanism"]]].append(row)
    found = collections.defaultdict(dict)
    for (epsilon, name), tried in trials.items():
        best = max(tried, key=lambda row: float(row["accuracy"]))
        rate, clip = float(best["learning_rate"]), float(best["clip"])
        own = [r for r in finals[epsilon, name] if (float(r["learning_rate"]), float(r["clip"])) == (rate, clip)]
        if len(own) > 1:
            found[epsilon][name] = Result([100 * float(r["accuracy"]) for r in own], rate, clip, float(best["noise_rms"]), len(tried))
    return {epsilon: own for epsilon, own in found.items() if BASELINE in own}


def same_noise(row, other):
    """Up to a thousandth: sharper accounting made sigma under sampling smaller by 1e-4 between runs."""
    return math.isclose(float(row["noise_rms"]), float(other["noise_rms"]), rel_tol=1e-3)


def torch_runs(path, bits=False):
    """{epsilon: {name: Result}}: the runs with the rate that the held-out data chose with the first seed."""
    groups = collections.defaultdict(list)
    for row in rows_of(path):
        groups[float(row["epsilon"]), row["mechanism"]].append(row)
    found = collections.defaultdict(dict)
    for (epsilon, name), own in groups.items():
        first = [row for row in own if row["seed"] == "0"]
        best = max(first, key=lambda row: float(row["held_out"]))
        rate, rates = best["rate"], sorted(float(row["rate"]) for row in first)
        if float(rate) in (rates[0], rates[-1]):
            continue  # a better one may lie beyond: the search has not ended
        runs = [row for row in own if row["rate"] == rate and same_noise(row, best)]  # one mechanism, one rate
        if len(runs) > 1:
            values = [(-1 if bits else 100) * float(row["test"]) for row in runs]
            found[epsilon][NAMES[name]] = Result(values, float(rate), 1.0, float(runs[0]["noise_rms"]), len(first), not bits)
    return {epsilon: own for epsilon, own in found.items() if BASELINE in own}


def everything():
    widened = {epsilon: own for epsilon, own in softmax(10).items() if epsilon in SEARCHED}
    return {"softmax-10": widened, "cnn": torch_runs(HERE / "cnn.csv"),
            "text": torch_runs(HERE / "text.csv", bits=True)}
