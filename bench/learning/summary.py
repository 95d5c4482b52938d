#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runs of runs.csv as a table and a picture: summary.py writes docs/learning.md and docs/learning.svg."""
import collections
import csv
import math
import os
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}  # 97.5 % points by number of runs
ORDER = ["dp-sgd", "dp-sgd, amplified", "tree-online", "blt", "tv-blt", "bandmf", "bandmf, amplified"]
COLOURS = ["#888888", "#000000", "#b8860b", "#2e8b57", "#7b3fb0", "#4a90d9", "#c0392b"]


def read():
    final, chosen = collections.defaultdict(list), {}
    with open(os.path.join(HERE, "runs.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["stage"] == "final":
                key = int(row["epochs"]), float(row["epsilon"]), row["mechanism"]
                final[key].append(100 * float(row["accuracy"]))
                chosen[key] = row
    return final, chosen


def interval(values):
    """Mean and half of Student's 95 % interval."""
    return statistics.mean(values), STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def table(final, chosen, epochs):
    epsilons = sorted({key[1] for key in final if key[0] == epochs})
    names = [name for name in ORDER if any(key[0] == epochs and key[2] == name for key in final)]
    lines = ["| mechanism | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    for name in names:
        cells = []
        for e in epsilons:
            mean, half = interval(final[epochs, e, name])
            cells.append(f"{mean:.2f} ± {half:.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "The noise (RMS, σ × loss), and the learning rate and clip norm that were chosen:", "",
              lines[0], lines[1]]
    for name in names:
        cells = [f"{float(chosen[epochs, e, name]['noise_rms']):.3g}; {chosen[epochs, e, name]['learning_rate']}, "
                 f"{chosen[epochs, e, name]['clip']}" for e in epsilons]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(final, epochs):
    """Where a correlated mechanism and amplified DP-SGD differ by more than their intervals."""
    lines = []
    for e in sorted({key[1] for key in final if key[0] == epochs}):
        sgd, own = interval(final[epochs, e, "dp-sgd, amplified"])
        for name in ORDER[2:]:
            if (epochs, e, name) not in final:
                continue
            mean, half = interval(final[epochs, e, name])
            if mean - half > sgd + own:
                lines.append(f"- ε = {e:g}: {name} above amplified DP-SGD by {mean - sgd:.2f} points, beyond the intervals.")
            elif mean + half < sgd - own:
                lines.append(f"- ε = {e:g}: {name} below amplified DP-SGD by {sgd - mean:.2f} points, beyond the intervals.")
    return "\n".join(lines) if lines else "- No difference from amplified DP-SGD is beyond the intervals."


def panel(out, final, epochs, left, top, width, height):
    epsilons = sorted({key[1] for key in final if key[0] == epochs})
    values = [v for key, runs in final.items() if key[0] == epochs for v in runs]
    low, high = math.floor(min(values) / 2) * 2, math.ceil(max(values) / 2) * 2
    x = lambda e: left + width * (math.log2(e) - math.log2(epsilons[0])) / (math.log2(epsilons[-1]) - math.log2(epsilons[0]))
    y = lambda v: top + height * (high - v) / (high - low)
    out.append(f'<text x="{left + width / 2}" y="{top - 14}" text-anchor="middle" font-weight="bold">'
               f'{epochs} epoch{"s" if epochs > 1 else ""}</text>')
    for v in range(low, high + 1, 2 if high - low <= 24 else 5):
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v}</text>')
    for e in epsilons:
        out.append(f'<text x="{x(e):.1f}" y="{top + height + 18}" text-anchor="middle">{e:g}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">ε (δ = 1e-5)</text>')
    for place, name in enumerate(ORDER):
        points = [(e, *interval(final[epochs, e, name])) for e in epsilons if (epochs, e, name) in final]
        shift = (place - 3) * 2.2  # so that intervals do not hide each other
        path = " ".join(f"{x(e) + shift:.1f},{y(mean):.1f}" for e, mean, _ in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[place]}" stroke-width="1.6"/>')
        for e, mean, half in points:
            out.append(f'<line x1="{x(e) + shift:.1f}" x2="{x(e) + shift:.1f}" y1="{y(mean - half):.1f}" '
                       f'y2="{y(mean + half):.1f}" stroke="{COLOURS[place]}" stroke-width="1.6"/>'
                       f'<circle cx="{x(e) + shift:.1f}" cy="{y(mean):.1f}" r="2.6" fill="{COLOURS[place]}"/>')


def picture(final):
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 430" font-family="sans-serif" font-size="12" '
           'role="img" aria-label="Test accuracy against epsilon for seven mechanisms">',
           '<rect width="900" height="430" fill="white"/>',
           '<text x="18" y="190" transform="rotate(-90 18 190)" text-anchor="middle">test accuracy (%)</text>']
    for place, epochs in enumerate(sorted({key[0] for key in final})):
        panel(out, final, epochs, 65 + 435 * place, 40, 370, 290)
    for place, name in enumerate(ORDER):
        left, top = 70 + 215 * (place % 4), 390 + 20 * (place // 4)
        out.append(f'<rect x="{left}" y="{top - 9}" width="18" height="4" fill="{COLOURS[place]}"/>'
                   f'<text x="{left + 24}" y="{top - 3}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


CNN_NAMES = {
    "dpsgd": "DP-SGD, amplified, two epochs",
    "bandmf": "BandMF, sampling allowed, two epochs",
    "cyclic": "the best in a fixed order, two epochs",
    "dpsgd-1": "DP-SGD, one epoch, each image once",
    "tvblt": "TV-BLT (4 nodes), one epoch, each image once",
}


def cnn():
    """The table of cnn.csv: for each mechanism the rate that the held-out images chose with the first seed."""
    with open(os.path.join(HERE, "cnn.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    epsilons = sorted({float(row["epsilon"]) for row in rows})
    lines = ["| mechanism | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    for name, words in CNN_NAMES.items():
        cells = []
        for e in epsilons:
            own = [row for row in rows if row["mechanism"] == name and float(row["epsilon"]) == e]
            rate = max((row for row in own if row["seed"] == "0"), key=lambda row: float(row["held_out"]))["rate"]
            runs = [row for row in own if row["rate"] == rate]
            mean, half = interval([100 * float(row["test"]) for row in runs])
            cells.append(f"{mean:.2f} ± {half:.2f} (noise {float(runs[0]['noise_rms']):.3g})")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    final, chosen = read()
    with open(os.path.join(DOCS, "learning.svg"), "w", encoding="utf-8") as file:
        file.write(picture(final))
    parts = [open(os.path.join(HERE, "introduction.md"), encoding="utf-8").read().rstrip()]
    for epochs in sorted({key[0] for key in final}):
        parts += [f"## {epochs} epoch{'s' if epochs > 1 else ''}: test accuracy, %", table(final, chosen, epochs),
                  "Correlated mechanisms against amplified DP-SGD:\n\n" + verdicts(final, epochs)]
    if os.path.exists(os.path.join(HERE, "cnn.csv")):
        parts += ["## A small CNN in PyTorch: test accuracy, %",
                  "`bench/learning/cnn.py` (`dpmf.torch`): momentum 0.9, clip 1, δ = 1e-5, 220 steps, the rate from three by 5000 "
                  "held-out images with the first seed, three seeds, Student's 95 % intervals (wide, for three runs).", cnn()]
    with open(os.path.join(DOCS, "learning.md"), "w", encoding="utf-8") as file:
        file.write("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
