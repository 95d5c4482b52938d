# SPDX-License-Identifier: Apache-2.0
"""Shared by all tasks: methods at equal (epsilon, delta), the search for batch size and learning rate, seeds, and the table of runs.

    dpsgd      independent noise, Poisson batches: DP-SGD as it is usually run
    chosen     the mechanism that `dpmf plan` finds for this batch size: any family, any sampling without simulation
    blt        buffered linear Toeplitz, batches in a fixed order
    tvblt      time-varying BLT with replayed seeds, batches in a fixed order
    tree       tree aggregation with the estimator from below (Honaker), batches in a fixed order
    fft        the FFT mechanism with its optimal decoder, batches in a fixed order
    noiseless  no noise, Poisson batches, the same clip norm: not private, the ceiling

and, for one question each, variants of them:

    order              what `dpmf design` chooses without sampling: batches in a fixed order
    dpsgd-constant     DP-SGD with a constant learning rate; chosen-constant: the same for `chosen`
    dpsgd-momentum     DP-SGD with momentum 0.9; so for all methods: the mechanism is the one made for prefix sums
    chosen-own         SGD with momentum 0.9, the mechanism made for momentum 0.9

Every method of a cell (task, epochs, epsilon) gets the same number of trials over a ladder of batch sizes (steps per
epoch) times a ladder of learning rates, scored on held-out training data: the first trial is the same point for all, and each next one
is an untried neighbour of the best point so far. One seed makes a trial noisy, so the three best points get a second seed, and the
best mean of two decides; means that differ by at most TIE count as equal, and the smaller loss decides between them. The runs with the final seeds then train on all training data at that point and are scored on the test data,
which nothing before has read. The search is not accounted for in epsilon.

Every run is one row, appended under a lock as soon as it ends; a run that is in the table is not made again. Several
processes may work on one table: `--worker 0/2` and `--worker 1/2` share the cells.
"""
import argparse
import csv
import fcntl
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
DELTA = 1e-5
METHODS = ("dpsgd", "chosen", "blt", "tvblt", "tree", "fft", "noiseless")
VARIANTS = ("order", "dpsgd-constant", "chosen-constant", *(f"{method}-momentum" for method in METHODS), "chosen-own")
FIELDS = ("task method epochs epsilon stage per_epoch steps rate seed score loss sigma noise_rms family bands buffers sampling "
          "seconds").split()
TRIALS, AGAIN, TUNE_SEEDS, FINAL_SEEDS = 12, 3, (1000, 1001), (1, 2, 3, 4, 5)
TIE = 0.1  # ten of 10 000 images
PER_EPOCH = (10, 25, 50, 100, 200, 400, 1000)  # divide 40 000, 50 000 and 60 000: a fixed order needs whole batches


def design_words(method, steps, epochs, epsilon, dim):
    """The command of `dpmf` that makes the mechanism of a method, without the program's name and -o FILE."""
    privacy = ["--epsilon", epsilon, "--delta", DELTA]
    if method.startswith("fft"):
        return ["evaluate", "--family", "fft-opt", "--steps", steps, "--participation", f"cyclic:{epochs},{steps // epochs}", *privacy]
    if method.startswith(("chosen", "order")):  # the noise depends on steps and epochs alone, so that any number of units will do
        own = ["--workload", "momentum:0.9"] if method == "chosen-own" else []
        sampling = ["--sampling", "none"] if method == "order" else []
        units = 1000 * steps // epochs
        return ["plan", "--units", units, "--batch", 1000, "--epochs", epochs, *privacy, "--dim", dim, *own, *sampling]
    families = {"dpsgd": ["identity", "--sampling", "poisson"], "blt": ["blt"], "tvblt": ["tvblt"], "tree": ["tree-online"]}
    return ["design", "--steps", steps, "--epochs", epochs, *privacy, "--dim", dim, "--max-overhead", 1e5,
            "--families", *families[method.split("-")[0]]]


def read_rows(path):
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def add_row(path, row):
    """Appends one line under a lock: other processes append to the same table."""
    with open(path, "a", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        out = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if file.tell() == 0:
            out.writeheader()
        out.writerow(row)
        file.flush()
        os.fsync(file.fileno())


class Cell:
    """One method, number of epochs and epsilon of a task. `task` has the attributes name, rates, start and stage_prefix (which keeps
    the rows of another setting apart), and train(cell, stage, per_epoch, rate, seed), which returns the rest of a row."""

    def __init__(self, task, path, method, epochs, epsilon, per_epoch=None):
        self.task, self.path, self.method, self.epochs, self.epsilon = task, path, method, epochs, epsilon
        # With one number of steps per epoch the cell is a point of a sweep, whose rows are kept apart from those of the search.
        self.ladder = [per_epoch] if per_epoch else task.per_epoch
        self.start = (per_epoch or task.start[0], task.start[1])
        self.stages = ("sweep-tune", "sweep") if per_epoch else ("tune", "final")
        self.stages = tuple(task.stage_prefix + stage for stage in self.stages)

    def rows(self, stage):
        """{(steps per epoch, rate, seed): (score, loss)}."""
        mine = (self.task.name, self.method, self.epochs, self.epsilon, stage)
        return {
            (int(row["per_epoch"]), float(row["rate"]), int(row["seed"])): (float(row["score"]), float(row["loss"]))
            for row in read_rows(self.path)
            if (row["task"], row["method"], int(row["epochs"]), float(row["epsilon"]), row["stage"]) == mine
            and int(row["per_epoch"]) in self.ladder
        }

    def make(self, stage, per_epoch, rate, seed):
        row = {"task": self.task.name, "method": self.method, "epochs": self.epochs, "epsilon": self.epsilon, "stage": stage,
               "per_epoch": per_epoch, "steps": per_epoch * self.epochs, "rate": rate, "seed": seed}
        row.update(self.task.train(self, stage, per_epoch, rate, seed))
        add_row(self.path, row)
        print(*(row[name] for name in ("task", "method", "epochs", "epsilon", "stage", "per_epoch", "rate", "seed", "score", "seconds")),
              file=sys.stderr, flush=True)

    def search(self, trials=TRIALS):
        """The best (steps per epoch, rate) on held-out data: `trials` points with one seed, the best of them with a second one."""
        while True:
            scores = self.rows(self.stages[0])
            tried = {point[:2]: score for point, score in scores.items() if point[2] == TUNE_SEEDS[0]}
            following = next_point(tried, self.ladder, self.task.rates, self.start)
            if len(tried) < trials and following is not None:
                self.make(self.stages[0], *following, TUNE_SEEDS[0])
                continue
            best = sorted(tried, key=tried.get, reverse=True)[:AGAIN]
            missing = [point for point in best if (*point, TUNE_SEEDS[1]) not in scores]
            if not missing:
                return best_point({point: [scores[(*point, seed)] for seed in TUNE_SEEDS] for point in best})
            self.make(self.stages[0], *missing[0], TUNE_SEEDS[1])

    def run(self, trials=TRIALS, seeds=len(FINAL_SEEDS)):
        best = self.search(trials)
        done = self.rows(self.stages[1])
        for seed in FINAL_SEEDS[:seeds]:
            if (*best, seed) not in done:
                self.make(self.stages[1], *best, seed)


def best_point(found):
    """Of {point: [(score, loss), ...]} the point with the best mean score, and of those that tie with it the least mean loss."""
    means = {point: [statistics.mean(column) for column in zip(*values)] for point, values in found.items()}
    most = max(score for score, _ in means.values())
    return min((point for point in means if means[point][0] >= most - TIE), key=lambda point: means[point][1])


def next_point(tried, per_epoch, rates, start):
    """The next point of a search: a neighbour of the best point, or, when those are all tried, of the second best, and so on."""
    if start not in tried:
        return start
    for point in sorted(tried, key=tried.get, reverse=True):
        at, rate_at = per_epoch.index(point[0]), rates.index(point[1])
        # The length of a path of learning is steps x rate: both directions that keep it come after those that change it.
        for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0), (1, -1), (-1, 1), (1, 1), (-1, -1)):
            if 0 <= at + a < len(per_epoch) and 0 <= rate_at + b < len(rates):
                neighbour = per_epoch[at + a], rates[rate_at + b]
                if neighbour not in tried:
                    return neighbour
    return None


def options(output):
    """The options that all tasks share."""
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=output)
    parser.add_argument("--epochs", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[8.0, 2.0, 1.0, 4.0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS + VARIANTS)
    parser.add_argument("--sweep", action="store_true", help="the best rate for every batch size instead of the best of both")
    parser.add_argument("--first", type=float, nargs=2, metavar=("PER_EPOCH", "RATE"), help="the first point of every search")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--seeds", type=int, default=len(FINAL_SEEDS))
    parser.add_argument("--worker", default="0/1", help="I/N: every N-th cell, from the I-th on")
    return parser


def run_cells(task, given):
    """All cells that were asked for. Runs without noise do not depend on epsilon: they are made once, with epsilon 0 in the table."""
    first, workers = map(int, given.worker.split("/"))
    if given.first:
        task.start = int(given.first[0]), given.first[1]
    cells = [
        Cell(task, given.output, method, epochs, epsilon, per_epoch)
        for epochs in given.epochs
        for epsilon in given.epsilons
        for method in given.methods
        for per_epoch in (task.per_epoch if given.sweep else [None])
        if not method.startswith("noiseless") or epsilon == given.epsilons[0]
    ]
    for cell in cells:
        if cell.method.startswith("noiseless"):
            cell.epsilon = 0.0
    for cell in cells[first::workers]:
        cell.run(given.trials, given.seeds)
