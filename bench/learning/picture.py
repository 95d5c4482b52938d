# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/learning.md: test accuracy over epsilon, and over the number of steps per epoch at one epsilon; bars are 95 % intervals.

Above: the private linear model at its best batch size and rate, DP-SGD with Poisson sampling beside what `dpmf` chooses; the dashed line is
the run without noise. Below: the same two with the batch size fixed. The card has a background of its own, light or dark as the
reader's system asks, so that it can be read on any page.
"""
import math

ACCURACY = [("fashion-momentum", 2, "Fashion-MNIST, 2 epochs"), ("fashion-momentum", 10, "Fashion-MNIST, 10 epochs"),
            ("cifar-momentum", 2, "CIFAR-10, 2 epochs"), ("cifar-momentum", 20, "CIFAR-10, 20 epochs")]
SWEEPS = [("fashion-momentum", 2, 2.0), ("fashion-momentum", 10, 2.0), ("cifar-momentum", 2, 2.0)]
SHOWN = {"dpsgd": "DP-SGD, Poisson sampling", "chosen": "chosen by dpmf"}
PANEL, HIGH, GAP, LEFT, TOP = 250, 190, 62, 58, 118
STYLE = """<style>
text { font-family: sans-serif; font-size: 13px; fill: #1f2328 }
.card { fill: #ffffff } .grid { stroke: #d8dee4 } .small { font-size: 11px; fill: #59636e } .head { font-weight: bold }
.title { font-size: 16px; font-weight: bold } .ceiling { stroke: #59636e; stroke-dasharray: 4 3 }
.dpsgd { fill: #bc4c00; stroke: #bc4c00 } .chosen { fill: #1a7f37; stroke: #1a7f37 } path.dpsgd, path.chosen { fill: none; stroke-width: 2 }
text.dpsgd, text.chosen { stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .card { fill: #0d1117 } .grid { stroke: #30363d } .small { fill: #9198a1 } .ceiling { stroke: #9198a1 }
.dpsgd { fill: #f0883e; stroke: #f0883e } .chosen { fill: #3fb950; stroke: #3fb950 }
}
</style>"""


def panel(out, left, top, title, label, series, ceiling):
    """`series`: {method: {x: Result}}; x on a logarithmic axis."""
    places = sorted({x for points in series.values() for x in points})
    results = [r for points in series.values() for r in points.values()]
    low, high = min(r.mean - r.half for r in results), max(r.mean + r.half for r in results)
    if ceiling is not None:
        high = max(high, ceiling.mean)
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50) if (high - low) / s <= 6)
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step
    y = lambda value: top + HIGH - HIGH * (value - first) / (last - first)
    span = math.log(places[-1] / places[0]) or 1
    x = lambda place: left + 14 + (PANEL - 28) * math.log(place / places[0]) / span
    out.append(f'<text class="head" x="{left + PANEL / 2}" y="{top - 14}" text-anchor="middle">{title}</text>')
    for tick in range(round((last - first) / step) + 1):
        value = first + tick * step
        out.append(f'<line class="grid" x1="{left}" x2="{left + PANEL}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
                   f'<text class="small" x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for place in places:
        out.append(f'<text class="small" x="{x(place):.1f}" y="{top + HIGH + 16}" text-anchor="middle">{place:g}</text>')
    out.append(f'<text class="small" x="{left + PANEL / 2}" y="{top + HIGH + 32}" text-anchor="middle">{label}</text>')
    if ceiling is not None:
        at = y(ceiling.mean)
        out.append(f'<line class="ceiling" x1="{left}" x2="{left + PANEL}" y1="{at:.1f}" y2="{at:.1f}"/>')
    for method, points in series.items():
        line = " ".join(f"{'M' if n == 0 else 'L'}{x(p):.1f} {y(points[p].mean):.1f}" for n, p in enumerate(sorted(points)))
        out.append(f'<path class="{method}" d="{line}"/>')
        for place, result in sorted(points.items()):
            ends = y(result.mean - result.half), y(result.mean + result.half)
            out.append(f'<line class="{method}" x1="{x(place):.1f}" x2="{x(place):.1f}" y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>'
                       f'<circle class="{method}" cx="{x(place):.1f}" cy="{y(result.mean):.1f}" r="4"/>')


def draw(cells, sweeps):
    above = [(title, {m: {e: own[m] for e, own in cells[task, epochs].items() if m in own} for m in SHOWN},
              cells[task, epochs].get(0.0, {}).get("noiseless")) for task, epochs, title in ACCURACY if (task, epochs) in cells]
    above = [(title, series, ceiling) for title, series, ceiling in above if all(series.values())]
    below = [(f"{'Fashion-MNIST' if task.startswith('fashion') else 'CIFAR-10'}, {epochs} epochs, ε = {epsilon:g}", sweeps[task, epochs][epsilon])
             for task, epochs, epsilon in SWEEPS if set(SHOWN) <= set(sweeps.get((task, epochs), {}).get(epsilon, {}))]
    width = LEFT + max(2, len(above), len(below)) * (PANEL + GAP) - GAP + 24
    rows = 1 + (len(below) > 0)
    height = TOP + rows * (HIGH + 84) - 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
           f'aria-label="Test accuracy of a private linear model over epsilon and over the batch size">', STYLE,
           f'<rect class="card" width="{width}" height="{height}" rx="6"/>',
           '<text class="title" x="18" y="30">Same privacy, same data: which noise trains the better model?</text>']
    for place, (method, words) in enumerate(SHOWN.items()):
        left = 24 + 220 * place
        out.append(f'<circle class="{method}" cx="{left}" cy="50" r="5"/><text x="{left + 12}" y="54">{words}</text>')
    out.append(f'<text class="small" x="18" y="78">test accuracy, %; bars: 95 % intervals; dashed: no noise</text>')
    for place, (title, series, ceiling) in enumerate(above):
        panel(out, LEFT + place * (PANEL + GAP), TOP, title, "ε", series, ceiling)
    for place, (title, series) in enumerate(below):
        panel(out, LEFT + place * (PANEL + GAP), TOP + HIGH + 84, title, "steps per epoch (smaller batches to the right)", series, None)
    return "\n".join(out + ["</svg>", ""])
