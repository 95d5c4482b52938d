# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/learning.md: for each task one panel, for each mechanism a dot with its 95 % interval; right is better.

Colours show the result: better than amplified DP-SGD beyond the interval of the difference, worse, or neither. The card
has a background of its own, light or dark as the reader's system asks, so that it can be read on any page.
"""
import math

import results

ROWS = [results.BASELINE, "BLT", "TV-BLT", "banded Toeplitz", "BandMF"]
PANELS = [  # task, epsilon, title, what is measured, step of the axis
    ("softmax-10", 8.0, "softmax regression, 10 epochs", "test accuracy, %", 0.5),
    ("cnn", 8.0, "CNN, 2 epochs", "test accuracy, %", 1.0),
    ("text", 8.0, "transformer on text, 4 epochs", "bits per character", 0.05),
]
WIDTH, HEIGHT, LEFT, TOP, PANEL, GAP, ROW = 980, 330, 200, 92, 222, 44, 34
STYLE = """<style>
text { font-family: sans-serif; font-size: 13px; fill: #1f2328 }
.card { fill: #ffffff } .grid { stroke: #d8dee4 } .small { font-size: 11px; fill: #59636e } .head { font-weight: bold }
.title { font-size: 16px; font-weight: bold } .base { stroke: #59636e; stroke-dasharray: 4 3 }
.better { fill: #1a7f37; stroke: #1a7f37 } .worse { fill: #bc4c00; stroke: #bc4c00 } .same { fill: #6e7781; stroke: #6e7781 }
text.better, text.worse, text.same { stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .card { fill: #0d1117 } .grid { stroke: #30363d } .small { fill: #9198a1 } .base { stroke: #9198a1 }
.better { fill: #3fb950; stroke: #3fb950 } .worse { fill: #f0883e; stroke: #f0883e } .same { fill: #9198a1; stroke: #9198a1 }
}
</style>"""


def verdict(result, baseline):
    gain, half = result.gain(baseline)
    return "better" if gain > half else "worse" if gain < -half else "same"


def panel(out, own, left, title, measured, step):
    """One task. The axis of a score where less is better runs from right to left."""
    shown = {name: own[name] for name in ROWS if name in own}
    baseline = shown[results.BASELINE]
    sign, digits = (1, 1) if baseline.larger_is_better else (-1, 2)
    low = min(sign * r.mean - r.half for r in shown.values())
    high = max(sign * r.mean + r.half for r in shown.values())
    first, last = math.floor(low / step), math.ceil(high / step)
    x = lambda value: left + PANEL * (value / step - first) / (last - first)
    bottom = TOP + ROW * len(ROWS)
    out.append(f'<text class="head" x="{left + PANEL / 2}" y="{TOP - 26}" text-anchor="middle">{title}</text>')
    counts = sorted({len(r.values) for r in shown.values()})
    runs = f"{counts[0]} runs each" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs each"
    out.append(f'<text class="small" x="{left + PANEL / 2}" y="{TOP - 10}" text-anchor="middle">{measured}; {runs}</text>')
    for tick in range(first, last + 1, -(-(last - first) // 4)):
        at = x(tick * step)
        out.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>'
                   f'<text class="small" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{abs(tick * step):.{digits}f}</text>')
    at = x(sign * baseline.mean)
    out.append(f'<line class="base" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>')
    for place, name in enumerate(ROWS):
        if name in shown:
            dot(out, shown[name], x, sign, TOP + ROW * (place + 0.5), "same" if place == 0 else verdict(shown[name], baseline))
        else:
            out.append(f'<text class="small" x="{left + PANEL - 4}" y="{TOP + ROW * (place + 0.5) + 4}" text-anchor="end">not run</text>')


def dot(out, result, x, sign, y, kind):
    at, ends = x(sign * result.mean), [x(sign * result.mean + way * result.half) for way in (-1, 1)]
    digits = 1 if result.larger_is_better else 2
    out.append(f'<line class="{kind}" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y}" y2="{y}" stroke-width="3"/>'
               f'<circle class="{kind}" cx="{at:.1f}" cy="{y}" r="5.5"/>'
               f'<text class="{kind}" x="{at:.1f}" y="{y - 9}" text-anchor="middle" font-size="12">{result.mean:.{digits}f}</text>')


def draw(found):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="Test scores of five mechanisms at equal privacy in three tasks">', STYLE,
           f'<rect class="card" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
           '<text class="title" x="18" y="30">Same privacy (ε = 8), which noise trains the better model?</text>',
           f'<text class="small" x="{WIDTH - 18}" y="30" text-anchor="end">right is better; bars: 95 % intervals</text>']
    for place, name in enumerate(ROWS):
        words = name.replace(", ", ",&#160;")
        out.append(f'<text x="{LEFT - 18}" y="{TOP + ROW * (place + 0.5) + 4}" text-anchor="end">{words}</text>')
    for place, (task, epsilon, *words) in enumerate(PANELS):
        if results.BASELINE in found[task].get(epsilon, {}):
            panel(out, found[task][epsilon], LEFT + place * (PANEL + GAP), *words)
    legend = (("better", "better than DP-SGD"), ("same", "no clear difference"), ("worse", "worse"))
    for place, (kind, words) in enumerate(legend):
        left = LEFT + 190 * place
        out.append(f'<circle class="{kind}" cx="{left + 6}" cy="{HEIGHT - 22}" r="5.5"/><text x="{left + 18}" y="{HEIGHT - 18}">{words}</text>')
    return "\n".join(out + ["</svg>", ""])
