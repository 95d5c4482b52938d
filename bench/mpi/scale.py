#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and time per step for models of 1e8 to 1e12 parameters, from figures measured on one core.

    scale.py MEASURED.csv [DOCUMENT]

MEASURED.csv holds what `noise_ranks COORDINATES FAMILY:SIZE...` prints on one process; a line that comes more than once
counts by its least. The tables go to standard output, or between the two markers of DOCUMENT.
"""
import collections
import sys

BEGIN, END = "<!-- scale.py begins -->", "<!-- scale.py ends -->"
PARAMETERS = (10 ** 8, 10 ** 9, 10 ** 10, 10 ** 11, 10 ** 12)
RANKS = (1, 8, 64, 512, 4096)
FLOAT = 4
LARGE = 2 ** 40  # bytes of buffers on one process, more than a machine has: such rows stay empty


def read(path):
    """{name: (seconds, bytes of buffers)}, both per coordinate, in the order of the file."""
    least = collections.OrderedDict()
    with open(path, encoding="utf-8") as file:
        for line in filter(None, map(str.strip, file)):
            name, ranks, dim, _, seconds, buffers = line.split(",")
            if int(ranks) != 1:
                sys.exit("scale.py: %s: one process is asked for, and there are %s" % (line, ranks))
            found = float(seconds) / float(dim), float(buffers)
            least[name] = min(found, least.get(name, found))
    return least


def shown(value, unit):
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return "%.3g %s%s" % (value / factor, prefix, unit)
    return "%.3g %s" % (value, unit)


def time(seconds):
    if seconds >= 1:
        return "%.3g s" % seconds
    return "%.3g ms" % (1e3 * seconds) if seconds >= 1e-3 else "%.3g µs" % (1e6 * seconds)


def power(value):
    digits = "⁰¹²³⁴⁵⁶⁷⁸⁹"
    return "10" + "".join(digits[int(digit)] for digit in str(len(str(value)) - 1))


def row(cells):
    return "| " + " | ".join(cells) + " |"


def tables(measured):
    lines = ["One core:", "", row(["mechanism", "ns per coordinate", "buffers, bytes per coordinate"]),
             "|---|---|---|"]
    for name, (seconds, buffers) in measured.items():
        lines.append(row([name, "%.3g" % (1e9 * seconds), "%g" % buffers]))
    for dim in PARAMETERS:
        lines += ["", "%s parameters (gradients: %s). Time per step, buffers of one process:" %
                  (power(dim), shown(FLOAT * dim, "B")), "",
                  row(["mechanism", "all buffers"] + ["%d process%s" % (r, "es" * (r > 1)) for r in RANKS]),
                  "|---" * (2 + len(RANKS)) + "|"]
        for name, (seconds, buffers) in measured.items():
            cells = [name, shown(buffers * dim, "B") if buffers else "none"]
            for ranks in RANKS:
                own = buffers * dim / ranks
                if max(own, FLOAT * dim / ranks) > LARGE:
                    cells.append("–")
                else:
                    cells.append(time(seconds * dim / ranks) + (", " + shown(own, "B") if buffers else ""))
            lines.append(row(cells))
    return "\n".join(lines) + "\n"


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    text = tables(read(sys.argv[1]))
    if len(sys.argv) == 2:
        sys.stdout.write(text)
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        document = file.read()
    before, found, rest = document.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        sys.exit("scale.py: %s has not both markers" % sys.argv[2])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + text + END + after)


if __name__ == "__main__":
    main()
