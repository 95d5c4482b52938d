#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ratio of loss to proven optimum by number of buffers: docs/optimum.csv from the program, docs/optimum.svg from the csv.

    scripts/optimum_picture.py build/dpmf            computes the missing rows of the csv, then draws the picture
    scripts/optimum_picture.py --draw                only draws the picture

RMS loss of prefix sums, single participation. TV-BLT with r buffers, beside Toeplitz mechanisms: the square root cut to
r+1 bands (r buffers), and the whole square root, which needs n-1 buffers.
"""
import csv
import json
import math
import pathlib
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
TABLE, PICTURE = DOCS / "optimum.csv", DOCS / "optimum.svg"
SIZES = [2**10, 2**13, 2**17, 2**20]
NODES = range(1, 11)
COLORS = ["#0072b2", "#009e73", "#d55e00", "#cc79a7"]


def load():
    if not TABLE.exists():
        return {}
    with TABLE.open() as f:
        return {(r["mechanism"], int(r["steps"]), int(r["buffers"])): float(r["ratio"]) for r in csv.DictReader(f)}


def store(found):
    with TABLE.open("w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["mechanism", "steps", "buffers", "ratio"])
        for (mechanism, steps, buffers), ratio in sorted(found.items()):
            w.writerow([mechanism, steps, buffers, f"{ratio:.9g}"])


def ask(program, *words):
    return json.loads(subprocess.run([program, *map(str, words), "--json"], check=True, capture_output=True).stdout)


def compute(program):
    found = load()
    for n in SIZES:
        optimum = ask(program, "optimize", "--family", "dense", "--steps", n, "--bound", "none", "--tolerance",
                      "1e-6" if n < 2**20 else "5e-6")["optimum"]["lower"] if n > 8192 else None
        for r in NODES:
            if ("tvblt", n, r) not in found:
                answer = ask(program, "optimize", "--family", "tvblt", "--steps", n, "--buffers", r, "--bound", "none")
                found["tvblt", n, r] = answer["rms_loss"] / answer["optimum"]["lower"]
                optimum = answer["optimum"]["lower"]
                store(found)
                print(n, r, found["tvblt", n, r], file=sys.stderr)
            if optimum is None:
                optimum = ask(program, "optimize", "--family", "dense", "--steps", n, "--bound",
                              "none")["optimum"]["lower"]
            if ("bsr", n, r) not in found:
                answer = ask(program, "evaluate", "--family", "bsr", "--steps", n, "--bands", r + 1, "--bound", "none")
                found["bsr", n, r] = answer["rms_loss"] / optimum
        if ("toeplitz", n, n - 1) not in found:
            answer = ask(program, "evaluate", "--family", "toeplitz", "--steps", n, "--bound", "none")
            found["toeplitz", n, n - 1] = answer["rms_loss"] / optimum
        store(found)


def draw():
    found = load()
    width, height, left, right, top, bottom = 760, 480, 80, 190, 40, 60
    low, high = 1e-7, 300.0
    x = lambda r: left + (r - 1) / (max(NODES) - 1) * (width - left - right)
    y = lambda ratio: top + (math.log10(high) - math.log10(max(ratio - 1, low))) / math.log10(high / low) * (
        height - top - bottom)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           f'font-size="13">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for e in range(-7, 3):
        at = y(1 + 10.0**e)
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        label = f"{100 * 10.0**e:g} %"
        out.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for r in NODES:
        out.append(f'<text x="{x(r):.1f}" y="{height - bottom + 20}" text-anchor="middle">{r}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 14}" text-anchor="middle">buffers (copies of the '
               f'model that the noise stream keeps)</text>')
    out.append(f'<text x="{left}" y="{top - 18}">RMS loss above the proven optimum, prefix sums</text>')
    for i, n in enumerate(SIZES):
        for mechanism, dash in (("tvblt", ""), ("bsr", ' stroke-dasharray="2 4"')):
            points = [(x(r), y(found[mechanism, n, r])) for r in NODES if (mechanism, n, r) in found]
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[i]}" stroke-width="2"{dash}/>')
            if mechanism == "tvblt":
                out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{COLORS[i]}"/>' for a, b in points]
        key = ("toeplitz", n, n - 1)
        if key in found:
            at = y(found[key])
            out.append(f'<line x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}" stroke="{COLORS[i]}" '
                       f'stroke-dasharray="8 4"/>')
        at = top + 20 + 20 * i
        out.append(f'<circle cx="{width - right + 20}" cy="{at - 4}" r="5" fill="{COLORS[i]}"/>')
        out.append(f'<text x="{width - right + 32}" y="{at}">n = 2^{int(math.log2(n))}</text>')
    for i, (text, dash) in enumerate((("TV-BLT", ""), ("banded square root", "2 4"), ("square root, n-1 buffers", "8 4"))):
        at = top + 120 + 22 * i
        out.append(f'<line x1="{width - right + 14}" x2="{width - right + 44}" y1="{at - 4}" y2="{at - 4}" '
                   f'stroke="#333" stroke-width="2" stroke-dasharray="{dash}"/>')
        out.append(f'<text x="{width - right + 50}" y="{at}" font-size="11">{text}</text>')
    out.append("</svg>")
    PICTURE.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] != "--draw":
        compute(sys.argv[1])
    draw()
