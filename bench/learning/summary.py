#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of runs as a page and a picture: summary.py [FOLDER] writes learning.md and learning.svg (docs/ without FOLDER).

The prose is page.md here. "{{table fashion 2}}" becomes the table of that task and number of epochs; "difference", "details", "variants" and
"ceiling" have the same form. "{{section cifar}}" is everything about tasks, "{{tally fashion cifar}}" counts the cells in which the chosen
mechanism is better, the same or worse, "{{best fashion 2 10 8}}" compares few epochs with many, "{{closed fashion 2 10 8}}" has the part of the distance
to the run without noise that is closed, "{{needed fashion 2 8}}" has DP-SGD over all numbers of epochs beside the chosen
mechanism over two at epsilon 8, "{{anchors}}" has published results.
"""
import pathlib
import re
import sys

import picture
import results

DOCS = results.HERE.parents[1] / "docs"
MAIN = [name for name in results.NAMES if name not in ("order", "noiseless") and "-" not in name]
VARIANTS = ["dpsgd", "dpsgd-constant", "chosen", "chosen-constant", "order", "dpsgd-momentum", "chosen-momentum", "chosen-own"]


def digits(task):
    return 3 if task == "text" else 2


def value(task, number):
    """Bits per character are kept as minus the bits."""
    return -number if task == "text" else number


def score(task, own, name):
    """Mean, interval, and a mark where the difference from DP-SGD is beyond its interval."""
    result = own[name]
    words = f"{value(task, result.mean):.{digits(task)}f} ± {result.half:.{digits(task)}f}"
    if len(result.values) != 5:
        words += f" ({len(result.values)} runs)"
    if name != results.BASELINE and results.BASELINE in own:
        words += {"better": " ▲", "worse": " ▼", "same": ""}[result.verdict(own[results.BASELINE])]
    return words


def difference(task, own, name):
    if name == results.BASELINE or results.BASELINE not in own:
        return "–"
    gain, half = own[name].gain(own[results.BASELINE])
    return f"{gain:+.{digits(task)}f} ± {half:.{digits(task)}f}"


def detail(_, own, name):
    result = own[name]
    return f"{result.per_epoch}; {result.rate:g}; {result.noise:.3g}; {result.trials}"


def table(found, task, cell, names):
    """One row for each method and one column for each epsilon."""
    epsilons = sorted(epsilon for epsilon in found if epsilon > 0)
    lines = ["| noise | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    for name in names:
        if any(name in found[e] for e in epsilons):
            cells = [cell(task, found[e], name) if name in found[e] else "not run" for e in epsilons]
            lines.append(f"| {results.NAMES[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ceiling(found, task):
    """The sentence about the run without noise."""
    without = found.get(0.0, {}).get("noiseless")
    if without is None:
        return "Without noise: not run."
    return (f"Without noise, clipped alike, not private: {value(task, without.mean):.{digits(task)}f} ± {without.half:.{digits(task)}f} "
            f"({without.per_epoch} steps per epoch, rate {without.rate:g}).")


def tally(cells, tasks):
    verdicts = [own["chosen"].verdict(own[results.BASELINE]) for (task, _), found in cells.items() if task in tasks
                for own in found.values() if "chosen" in own and results.BASELINE in own]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    return f"better in {better} of {len(verdicts)} cells, worse in {worse}, no clear difference in {len(verdicts) - better - worse}"


TITLES = {"cifar-momentum": "Normalised for each image", "cifar-pink-momentum": "On the scale of pink noise", "cnn": "The tanh CNN of Papernot et al. 2021 on Fashion-MNIST",
          "cifar-cnn": "A larger CNN on CIFAR-10", "text": "A small transformer on text, bits per character, fewer is better"}
PUBLISHED = [  # who, what, accuracy, epsilon; our task, epochs, epsilon
    ("Papernot et al. 2021", "tanh CNN, Fashion-MNIST, DP-SGD", 86.1, 2.7, "cnn"),
    ("Tramèr and Boneh 2021", "scattering, Fashion-MNIST, DP-SGD", 89.7, 3, "fashion-momentum"),
    ("Tramèr and Boneh 2021", "scattering, linear, CIFAR-10, DP-SGD", 67.0, 3, "cifar-pink-momentum"),
    ("Tramèr and Boneh 2021", "scattering, a small CNN, CIFAR-10, DP-SGD", 69.3, 3, None),
]


def section(cells, tasks):
    """Every table of some tasks, or the sentence that there is none."""
    parts = []
    for task, epochs in sorted(key for key in cells if key[0] in tasks):
        found = cells[task, epochs]
        parts += [f"### {TITLES[task]}, {epochs} epochs", table(found, task, score, MAIN), ceiling(found, task) +
                  " Difference from DP-SGD with Poisson sampling:", table(found, task, difference, MAIN),
                  "Chosen steps per epoch; learning rate; RMS noise; trials:", table(found, task, detail, MAIN)]
    missing = [task for task in tasks if not any(key[0] == task for key in cells)]
    parts += [f"{TITLES[task]}: not run with this protocol yet." for task in missing]
    return "\n\n".join(parts)


def few_and_many(cells, task, few, many, epsilon):
    ours = cells.get((task, few), {}).get(epsilon, {}).get("chosen")
    theirs = cells.get((task, many), {}).get(epsilon, {}).get(results.BASELINE)
    if ours is None or theirs is None:
        return ""
    gain, half = ours.gain(theirs)
    return (f"At ε = {epsilon:g}, {few} epochs with the chosen mechanism reach {ours.mean:.2f} %, {many} epochs of DP-SGD {theirs.mean:.2f} %: "
            f"a difference of {gain:+.2f} ± {half:.2f} points at a fifth of the computing.")


def closed(cells, task, few, epsilons):
    """The part of the distance from DP-SGD to the run without noise that the chosen mechanism closes."""
    parts = []
    for epochs in few:
        top = cells[task, epochs].get(0.0, {}).get("noiseless")
        for epsilon in epsilons:
            own = cells[task, epochs].get(epsilon, {})
            if top is not None and {"chosen", results.BASELINE} <= set(own):
                base = own[results.BASELINE].mean
                parts.append(f"{100 * (own['chosen'].mean - base) / (top.mean - base):.0f} % ({epochs} epochs, ε = {epsilon:g})")
    return ", ".join(parts)


def needed(cells, task, few, epsilons):
    """DP-SGD over every number of epochs that was run, beside the chosen mechanism over few: a list of numbers."""
    lines = ["| | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    rows = [("chosen", epochs) for epochs in few] + [(results.BASELINE, epochs) for name, epochs in sorted(cells) if name == task]
    for method, epochs in rows:
        found = [cells[task, epochs].get(epsilon, {}).get(method) if (task, epochs) in cells else None for epsilon in epsilons]
        if any(found):
            shown = [f"{one.mean:.2f} ± {one.half:.2f}" if one else "not run" for one in found]
            lines.append(f"| {results.NAMES[method]}, {epochs} epochs | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def anchors(cells):
    """Published figures beside our runs of the same data at the nearest epsilon, each at its best number of epochs."""
    lines = ["| published | accuracy | here: DP-SGD | here: chosen |", "|---|---|---|---|"]
    for who, what, accuracy, epsilon, task in PUBLISHED:
        near = [(abs(e - epsilon), e, epochs) for (name, epochs), found in cells.items() if name == task for e in found if e > 0]
        shown = []
        for method in (results.BASELINE, "chosen"):
            closest = [(cells[task, epochs][e][method].mean, e, epochs) for distance, e, epochs in near
                       if distance == min(near)[0] and method in cells[task, epochs][e]]
            shown.append("not run" if not closest else "%.2f (ε = %g, %d epochs)" % max(closest))
        lines.append(f"| {who}: {what} | {accuracy} (ε = {epsilon:g}) | {shown[0]} | {shown[1]} |")
    return "\n".join(lines)


def fill(match, cells):
    kind, words = match[1], match[2].split()
    if kind == "tally":
        return tally(cells, words)
    if kind == "section":
        return section(cells, words)
    if kind == "anchors":
        return anchors(cells)
    if kind == "closed":
        return closed(cells, words[0], [int(words[1]), int(words[2])], [float(word) for word in words[3:]])
    if kind == "needed":
        return needed(cells, words[0], [int(word) for word in words[1].split("-")], [float(word) for word in words[2:]])
    if kind == "best":
        return few_and_many(cells, words[0], int(words[1]), int(words[2]), float(words[3]))
    found = cells.get((words[0], int(words[1])), {})
    if kind == "ceiling":
        return ceiling(found, words[0])
    kinds = {"table": (score, MAIN), "difference": (difference, MAIN), "details": (detail, MAIN), "variants": (score, VARIANTS)}
    cell, names = kinds[kind]
    return table(found, words[0], cell, names)


def main(folder):
    cells, sweeps = results.everything()
    text = (results.HERE / "page.md").read_text(encoding="utf-8")
    text = re.sub(r"\{\{(\w+) ?([\w -]*)\}\}", lambda match: fill(match, cells), text)
    (folder / "learning.md").write_text(text, encoding="utf-8")
    (folder / "learning.svg").write_text(picture.draw(cells, sweeps), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
