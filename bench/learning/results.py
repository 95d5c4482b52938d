# SPDX-License-Identifier: Apache-2.0
"""The results of the tables of runs: for every task, number of epochs, epsilon and method the mean of the final runs, its 95 % interval,
and the difference from DP-SGD with Poisson sampling. Intervals are Student's; that of a difference is Welch's, with its degrees of
freedom rounded down.

The transformer's score is minus the bits per character, so that a larger score is better in all tasks.
"""
import collections
import csv
import dataclasses
import math
import pathlib
import statistics

import protocol

HERE = pathlib.Path(__file__).resolve().parent
# 97.5 % points of Student's distribution by degrees of freedom
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
BASELINE = "dpsgd"
NAMES = {  # names in the tables of runs -> names on the page, in its order
    "dpsgd": "DP-SGD, Poisson sampling",
    "chosen": "**chosen by `dpmf`**",
    "blt": "BLT, fixed order",
    "tvblt": "TV-BLT, fixed order",
    "tree": "tree aggregation, fixed order",
    "fft": "FFT, fixed order",
    "noiseless": "no noise, not private",
    "order": "best without sampling",
    "dpsgd-constant": "DP-SGD, constant rate",
    "chosen-constant": "chosen, constant rate",
    "dpsgd-momentum": "DP-SGD, momentum 0.9",
    "chosen-momentum": "chosen, momentum 0.9, made for prefix sums",
    "chosen-own": "chosen, momentum 0.9, made for momentum 0.9",
}


@dataclasses.dataclass
class Result:
    """The final runs of one method at the point that the held-out data chose."""

    values: list
    rate: float
    per_epoch: int
    noise: float
    trials: int
    family: str = ""
    sampling: str = ""

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
        a, b = self.error**2, other.error**2
        freedom = (a + b) ** 2 / (a**2 / (len(self.values) - 1) + b**2 / (len(other.values) - 1)) if a + b > 0 else 1
        half = STUDENT[max(1, min(9, math.floor(freedom + 1e-9)))] * math.sqrt(a + b)
        return self.mean - other.mean, half

    def verdict(self, other):
        """better, worse or same: beyond the interval of the difference, or not."""
        gain, half = self.gain(other)
        return "better" if gain > half else "worse" if gain < -half else "same"


def read_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def result_of(tried, finals):
    """None unless there are two final runs or more at the point that is best on held-out data: of those tried with two seeds."""
    points = collections.defaultdict(list)
    for row in tried:
        points[int(row["per_epoch"]), float(row["rate"])].append(row)
    often = {point: [(float(row["score"]), float(row["loss"])) for row in rows] for point, rows in points.items() if len(rows) > 1}
    if not often:
        return None
    best = points[protocol.best_point(often)][0]
    own = [row for row in finals if all(float(row[name]) == float(best[name]) for name in ("per_epoch", "rate"))]
    if len(own) < 2:
        return None
    return Result([float(row["score"]) for row in own], float(best["rate"]), int(best["per_epoch"]), float(best["noise_rms"]),
                  len(tried), best["family"], best["sampling"])


def everything(paths=(HERE / "linear.csv", HERE / "networks.csv")):
    """({(task, epochs): {epsilon: {method: Result}}}, the same for the sweeps with steps per epoch after epsilon). The methods with momentum
    are also those of a task of their own: dpsgd-momentum of fashion is dpsgd of fashion-momentum."""
    groups = collections.defaultdict(list)
    for path in paths:
        for row in read_rows(path) if path.exists() else []:
            task, method = row["task"], row["method"]
            places = [(task, method)]
            if method.endswith("-momentum"):
                places.append((task + "-momentum", method.removesuffix("-momentum")))
            for place, name in places:
                groups[place, int(row["epochs"]), float(row["epsilon"]), name, row["stage"]].append(row)
    cells, sweeps = collections.defaultdict(dict), collections.defaultdict(dict)
    for (task, epochs, epsilon, method, stage), rows in groups.items():
        if stage == "tune":
            found = result_of(rows, groups.get((task, epochs, epsilon, method, "final"), []))
            if found is not None:
                cells[task, epochs].setdefault(epsilon, {})[method] = found
        if stage == "sweep-tune":
            finals = groups.get((task, epochs, epsilon, method, "sweep"), [])
            for per_epoch in sorted({int(row["per_epoch"]) for row in rows}):
                found = result_of([row for row in rows if int(row["per_epoch"]) == per_epoch], finals)
                if found is not None:
                    sweeps[task, epochs].setdefault(epsilon, {}).setdefault(method, {})[per_epoch] = found
    return cells, sweeps
