#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published tables and figures, ours beside theirs.

The published numbers and the way to compute each of ours are in the JSON files of this folder (README.md has their format);
the program dpmf computes. A compared figure agrees within half a unit of the last digit that the paper keeps, or is on
the side of it that the paper claims ("at most", "at least"). Exit code: 0, 3 if one does not agree, 2 for bad usage, 1
if the program fails, 130 if cancelled.
"""
import argparse
import glob
import inspect
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile

import figures

HERE = os.path.dirname(os.path.abspath(__file__))


def fail(code, message):
    print("reproduce: " + message, file=sys.stderr)
    sys.exit(code)


# ---- the program ----

class Program:
    """Runs the program. Equal questions are asked once; lower bounds, which no table has, are left out."""

    def __init__(self, path, threads):
        self.path, self.threads, self.answers = path, threads, {}

    def ask(self, command, coefficients=None):
        key = (command, None if coefficients is None else tuple(coefficients))
        if key not in self.answers:
            with tempfile.TemporaryDirectory() as directory:
                words = command.split()
                if words[0] in ["evaluate", "optimize"]:
                    words += ["--bound", "none"]
                if coefficients is not None:
                    words += ["--parameters", os.path.join(directory, "parameters.json")]
                    with open(words[-1], "w", encoding="ascii") as file:
                        json.dump({"coefficients": coefficients}, file)
                self.answers[key] = self.run(words)
        return self.answers[key]

    def run(self, words):
        threads = ["--threads", str(self.threads)] if self.threads else []
        try:
            done = subprocess.run([self.path, *words, *threads, "--json"], capture_output=True, check=False, text=True)
        except OSError as error:
            fail(1, "%s: %s; `make build` makes it" % (self.path, error.strerror))
        if done.returncode != 0:
            fail(1, "%s ended with exit code %d: %s" % (" ".join(["dpmf", *words]), done.returncode, done.stderr.strip()))
        return json.loads(done.stdout)


# ---- the data ----

def read_papers():
    papers = []
    for path in glob.glob(os.path.join(HERE, "*.json")):
        with open(path, encoding="utf-8") as file:
            papers.append(json.load(file))
    return sorted(papers, key=lambda paper: paper["year"])


def row_labels(table):
    return [str(label) for label in table.get("labels", table["rows"])]


class Cell:
    """One figure: of a column and a row, or of a claim of the text (then `row` is None)."""

    def __init__(self, table, part, row=None):
        self.table, self.part, self.row = table, part, row
        self.name = table["name"]
        self.column = "claim" if row is None else part["name"]
        self.label = part["claim"] if row is None else row_labels(table)[row]
        self.note = part.get("note", table.get("note") if row is not None else None)
        self.relation = part.get("relation", "near")
        printed = part.get("paper")
        if row is not None and printed is not None:
            printed = printed[row]
        self.printed = "" if printed is None else printed
        self.paper = float(printed) if printed not in [None, "NaN"] else None
        left_out = part.get("not_compared", [])
        self.compared = self.paper is not None and not is_shown_only(part) and self.label not in left_out
        self.ours = self.kind = self.agrees = None

    def tolerance(self):
        unit = self.part.get("unit") or self.row is not None and self.table.get("unit") or printed_unit(self.printed)
        return max(0.5 * unit, self.part.get("relative", 0) * abs(self.paper))

    def judge(self):
        """Printed decimals are no doubles, and ends of two searches may differ by a rounding: both may miss a little."""
        if not self.compared:
            return
        over, rounding = self.ours - self.paper, 1e-12 * abs(self.paper)
        near = abs(over) <= self.tolerance() * (1 + 2e-9)
        if self.relation == "near":
            self.agrees = near or self.part.get("or_less", False) and over < 0
        else:
            side = over <= rounding if self.relation == "at most" else over >= -rounding
            self.agrees = side and (near or "relative" not in self.part)

    def verdict(self):
        return {None: "not compared", True: "agrees", False: "off"}[self.agrees]

    def difference(self):
        return None if self.paper is None else self.ours / self.paper - 1

    def as_json(self):
        return {"table": self.name, "row": self.label, "column": self.column, "ours": self.ours, "paper": self.paper,
                "difference": self.difference(), "ok": self.agrees, "note": self.note,
                "tolerance": None if self.paper is None else self.tolerance(), "kind": self.kind,
                "relation": self.relation, "verdict": self.verdict()}


def is_shown_only(part):
    """Is the whole column or claim shown beside the paper without being compared?"""
    return part.get("not_compared") is True or "paper" not in part


def printed_unit(text):
    """One in the last place of a figure as it is written: "1.37e6" is 1e4, "6.5e5" as well."""
    digits, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def cells_of(table):
    """Column by column, then the claims."""
    cells = []
    for column in table["columns"]:
        printed = column.get("paper")
        for row in range(column.get("first_rows", len(table["rows"])) if printed is None else len(printed)):
            if printed is None or printed[row] is not None:
                cells.append(Cell(table, column, row))
    return cells + [Cell(table, claim) for claim in table.get("claims", [])]


# ---- our figures ----

def toeplitz_coefficients(answer, steps):
    """The first column of C, from the parameters of a banded Toeplitz strategy or of a BLT."""
    given = answer["parameters"]
    if "coefficients" in given:
        return given["coefficients"] + [0.0] * (steps - len(given["coefficients"]))
    terms = list(zip(given["scale"], given["decay"]))
    return [1.0] + [sum(scale * decay ** i for scale, decay in terms) for i in range(steps - 1)]


def coefficient(answer, i, steps, **_):
    column = toeplitz_coefficients(answer, steps)
    return column[i] / math.sqrt(sum(value * value for value in column))


QUANTITIES = {  # of one answer of the program, for the arguments of its cell
    "sigma": lambda answer, **_: answer["sigma"],
    "RMS loss": lambda answer, **_: answer["rms_loss"],
    "max loss": lambda answer, **_: answer["max_loss"],
    "total squared loss": lambda answer, **_: answer["total_squared_loss"],
    "root of total squared loss": lambda answer, **_: math.sqrt(answer["total_squared_loss"]),
    "total squared loss in stamps": lambda answer, stamps, **_: figures.stamped_total(answer, stamps),
    # The least loss is known to 1e-6 without a matrix that has it.
    "least loss": lambda answer, **_: answer["optimum"]["upper"],
    "root of least total squared loss": lambda answer, steps, **_: answer["optimum"]["upper"] * math.sqrt(steps),
    "matrix entry": lambda answer, t, diagonal, **_: abs(answer["parameters"]["diagonals"][diagonal][t - diagonal]),
    "coefficient over norm": coefficient,
    # The buffers of the largest shard, single precision.
    "gigabytes": lambda answer, parameters, machines, **_: answer["buffers"] * -(-parameters // machines) * 4 / 1e9,
}


def compute_once(cell, program, arguments):
    """Our figure and its kind for these arguments."""
    part, quantity = cell.part, cell.part.get("quantity", cell.table.get("quantity"))
    if "function" in part:
        function = figures.FUNCTIONS[part["function"]]
        taken = {name: arguments[name] for name in inspect.signature(function).parameters if name != "program"}
        return function(program, **taken), part.get("kind", cell.table.get("kind"))
    answer = program.ask(part["command"].format(**arguments))
    value = QUANTITIES[quantity](answer, **arguments)
    if "over" in part:
        value /= QUANTITIES[quantity](program.ask(part["over"].format(**arguments)), **arguments)
    kind = answer["sensitivity"]["kind"] if "sensitivity" in answer else answer["kind"]
    return value, part.get("kind", cell.table.get("kind", kind))


def take(which, lines):
    """One number of several: each line is what the last of the series gives."""
    values = list(itertools.chain(*lines))
    quotients = [b / a for line in lines for a, b in zip(line, line[1:])]
    return {"largest": max(values), "least": min(values), "largest quotient": max(quotients, default=None),
            "least quotient": min(quotients, default=None),
            "first over the largest other": values[0] / max(values[1:], default=1)}[which]


def compute(cell, program):
    arguments = dict(cell.table.get("with", {}))
    for name, value in cell.part.get("with", {}).items():
        arguments[name] = value
    if cell.row is not None:
        arguments[cell.table["row_is"]] = cell.table["rows"][cell.row]
        arguments = {name: value[cell.row] if isinstance(value, list) else value for name, value in arguments.items()}
        cell.ours, cell.kind = compute_once(cell, program, arguments)
    elif "series" in cell.part:
        *outer, (last, values) = cell.part["series"].items()
        lines = [[compute_once(cell, program, {**arguments, **dict(zip(dict(outer), chosen)), last: value})[0]
                  for value in values]
                 for chosen in itertools.product(*dict(outer).values())]
        cell.ours, cell.kind = take(cell.part["take"], lines), "estimate"
    else:  # claims are made of several figures, some of them bounds
        cell.ours, cell.kind = compute_once(cell, program, arguments)[0], "estimate"
    cell.judge()


def compute_all(tables, program):
    cells = [cell for table in tables for cell in cells_of(table)]
    shown = sys.stderr.isatty() and os.environ.get("DPMF_PROGRESS") != "0"
    for done, cell in enumerate(cells):
        if shown:
            print("\r%5.1f%% %-70.70s" % (100 * done / len(cells), cell.table["title"]), end="", file=sys.stderr)
        compute(cell, program)
    if shown:
        print("\r" + 78 * " " + "\r", end="", file=sys.stderr)
    return cells


# ---- what is printed ----

def seven_digits(value):
    before_point = int(math.floor(math.log10(value))) + 1 if value >= 10 else 1
    return "%.*f" % (max(0, 7 - before_point), value)


def summary(cells, omissions):
    verdicts = [cell.verdict() for cell in cells]
    words = "%d of %d compared figures agree; %d more are shown beside the paper's" % (
        verdicts.count("agrees"), verdicts.count("agrees") + verdicts.count("off"), verdicts.count("not compared"))
    return words + ("; %d results are not attempted.\n" % len(omissions) if omissions else ".\n")


def by_table(cells):
    return [(found[0].table, found) for _, group in itertools.groupby(cells, lambda cell: cell.name)
            for found in [list(group)]]


def as_json(cells, omissions, program):
    left = [{"table": omission["table"], "row": omission["title"], "column": "not attempted", "ours": None, "paper": None,
             "difference": None, "ok": None, "note": omission["reason"], "tolerance": None, "kind": None,
             "relation": None, "verdict": "not attempted"} for omission in omissions]
    version = next(iter(program.answers.values()))["version"]
    found = {"schema": 1, "version": version, "cells": [cell.as_json() for cell in cells] + left,
             "ok": all(cell.agrees is not False for cell in cells)}
    return json.dumps(found, separators=(",", ":"), allow_nan=False) + "\n"


def cell_text(cell):
    line = "%10s%14s" % ("" if cell.row is None else cell.label, seven_digits(cell.ours))
    if cell.printed:
        line += "%12s" % cell.printed
    if cell.paper is not None:
        line += "%+14.1e" % cell.difference()
    if cell.agrees is not None:
        line += "  agrees" if cell.agrees else "  OFF"
        line += "" if cell.relation == "near" else " (%s)" % cell.relation
    return line + "\n"


def as_text(cells, omissions, _):
    out = []
    for table, found in by_table(cells):
        out.append("%s\n\n%10s%14s%12s%14s\n" % (table["title"], table["row_heading"], "ours", "paper", "difference"))
        for part, group in itertools.groupby(found, lambda cell: cell.part):
            group = list(group)
            out.append("  text: %s\n" % part["claim"] if group[0].row is None else "  %s\n" % part["name"])
            if group[0].note is not None:
                said = part.get("not_compared") is True or group[0].row is not None and "paper" not in part
                out.append("    %s%s\n" % ("not compared: " if said else "", group[0].note))
            out += map(cell_text, group)
        out.append("\n")
    if omissions:
        out.append("Not attempted\n\n")
        out += ["  %s\n    %s\n" % (omission["title"], omission["reason"]) for omission in omissions]
        out.append("\n")
    return "".join(out) + summary(cells, omissions)


def cell_markdown(cell, column_is_marked):
    """Ours, and the paper's in brackets if it has one; the heading of a whole column says that it is not compared."""
    words = seven_digits(cell.ours)
    if cell.printed:
        words += " (%s%s)" % ("" if cell.relation == "near" else cell.relation + " ", cell.printed)
    if cell.agrees is False:
        words = "**%s**" % words
    return words + (" \\*" if cell.agrees is None and not column_is_marked else "")


def notes_markdown(table, found):
    """Columns that say the same are named once."""
    sharing = {}
    for column in table["columns"]:
        note = column.get("note", table.get("note"))
        if note is not None:
            sharing.setdefault(note, []).append(column["name"])
    lines = ["- %s: %s\n" % ("all" if len(names) > 1 and len(names) == len(table["columns"]) else "; ".join(names), note)
             for note, names in sharing.items()]
    claims = [cell for cell in found if cell.row is None]
    if lines:
        lines.insert(0, "\n")
    if claims:
        lines.append("\n| claim of the text | ours (paper) | note |\n|---|---|---|\n")
        lines += ["| %s | %s | %s |\n" % (cell.label, cell_markdown(cell, False), cell.note or "") for cell in claims]
    return lines


PAGE_HEAD = """# Published tables and figures, reproduced

Made by `papers/reproduce.py all --markdown`; `make reproduce` prints the same for a terminal. Each cell has our figure and,
in brackets, the figure printed in the paper. "at most" and "at least" are claims of the paper, and are compared as such. All
are for prefix sums unless noted, and every loss includes the sensitivity. **Bold**: not within half a unit of the paper's
last digit, or not on the claimed side. \\*: shown beside the paper's, not compared; the note gives the reason. The JSON files
in `papers/` have the printed figures and the command of each of ours.

"""


def as_markdown(cells, omissions, _):
    out = [PAGE_HEAD, summary(cells, omissions)]
    for table, found in by_table(cells):
        columns = table["columns"]
        at = {(cell.column, cell.row): cell for cell in found}
        out.append("\n## %s\n\n`papers/reproduce.py %s`\n\n| %s |" % (table["title"], table["name"], table["row_heading"]))
        out += [" %s%s |" % (column["name"], " \\*" if is_shown_only(column) else "") for column in columns]
        out.append("\n|---|" + "---|" * len(columns) + "\n")
        for row, label in enumerate(row_labels(table)):
            cells_here = [at.get((column["name"], row)) for column in columns]
            out.append("| %s |" % label + "".join(
                " |" if cell is None else " %s |" % cell_markdown(cell, is_shown_only(cell.part)) for cell in cells_here) + "\n")
        out += notes_markdown(table, found)
    if omissions:
        out.append("\n## Not attempted\n\n| result | why |\n|---|---|\n")
        out += ["| %s | %s |\n" % (omission["title"], omission["reason"]) for omission in omissions]
    return "".join(out)


# ---- the command line ----

def arguments_of(names):
    parser = argparse.ArgumentParser(
        prog="reproduce.py", description="Computes the figures of published tables again and compares them with the "
        "printed ones: they agree within half a unit of the last printed digit, or as claimed in the text (at most, at "
        "least). Exit code 3 means that one does not agree.", epilog="NAME is all or one of " + ", ".join(names) + ".")
    parser.add_argument("names", metavar="NAME", nargs="+", help="the tables to compute; all: every one")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const=as_json, help="print one JSON object")
    form.add_argument("--markdown", dest="form", action="store_const", const=as_markdown, help="print Markdown")
    parser.add_argument("--threads", type=int, metavar="T", help="number of threads; no figure depends on it")
    parser.add_argument("--program", metavar="PATH", help="the program (default: $DPMF, then build/dpmf)",
                        default=os.environ.get("DPMF", os.path.join(HERE, os.pardir, "build", "dpmf")))
    parser.set_defaults(form=as_text)
    given = parser.parse_args()
    for name in given.names:
        if name not in ["all", *names]:
            fail(2, "%s: accepted: all, %s" % (ascii(name[:60]), ", ".join(names)))
    return given


def main():
    papers = read_papers()
    tables = {table["name"]: table for paper in papers for table in paper["tables"]}
    given = arguments_of(list(tables))
    program, omissions = Program(given.program, given.threads), []
    if "all" in given.names:
        omissions = [omission for paper in papers for omission in paper["not_attempted"]]
    else:
        tables = {name: tables[name] for name in given.names}
    cells = compute_all(tables.values(), program)
    sys.stdout.write(given.form(cells, omissions, program))
    return 3 if any(cell.agrees is False for cell in cells) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        fail(130, "cancelled")
