#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of runs as a page and a picture: summary.py [FOLDER] writes learning.md and learning.svg (docs/ without FOLDER).

The prose is page.md here; a line "{{table softmax-10}}" becomes that table, "{{details ...}}" the rates and the noise.
"""
import pathlib
import re
import sys

import picture
import results

DOCS = results.HERE.parents[1] / "docs"


def names_in(found):
    return [name for name in results.ORDER if any(name in own for own in found.values())]


def rows(found, cell):
    """A table with one row for each mechanism and one column for each epsilon."""
    epsilons = sorted(found)
    lines = ["| mechanism | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    for name in names_in(found):
        cells = [cell(found[e], name) if name in found[e] else "not run" for e in epsilons]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def score(own, name):
    """Mean, interval, and a mark where the difference from amplified DP-SGD is beyond its interval."""
    result = own[name]
    digits = 2 if result.larger_is_better else 3
    words = f"{result.mean:.{digits}f} ± {result.half:.{digits}f}"
    if len(result.values) != 5:
        words += f" ({len(result.values)} runs)"
    if name != results.BASELINE:
        gain, half = result.gain(own[results.BASELINE])
        words += " ▲" if gain > half else " ▼" if gain < -half else ""
    return words


def difference(own, name):
    """The gain over amplified DP-SGD."""
    if name == results.BASELINE:
        return "–"
    gain, half = own[name].gain(own[results.BASELINE])
    digits = 2 if own[name].larger_is_better else 3
    return f"{gain:+.{digits}f} ± {half:.{digits}f}"


def detail(own, name):
    result = own[name]
    return f"{result.noise:.3g}; {result.rate:g}, {result.clip:g}; {result.trials}"


def main(folder):
    found = results.everything()
    kinds = {"table": score, "difference": difference, "details": detail}
    text = (results.HERE / "page.md").read_text(encoding="utf-8")
    text = re.sub(r"^\{\{(\w+) ([\w-]+)\}\}$", lambda m: rows(found[m[2]], kinds[m[1]]), text, flags=re.MULTILINE)
    (folder / "learning.md").write_text(text, encoding="utf-8")
    (folder / "learning.svg").write_text(picture.draw(found), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
