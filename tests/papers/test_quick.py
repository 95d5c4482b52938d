# SPDX-License-Identifier: Apache-2.0
"""papers/reproduce.py: tables that take seconds, forms, usage, and that the comparison can fail.

The other tables are in test_tables.py, test_figures.py and test_bands.py, a run of everything at once in test_all_long.py.
"""
import glob
import json
import os
import re
import shutil
import unittest

import cases
from cases import (CORNERS, DENISOV, FIGURES, MATRIX, MEMORY, MULTIPLIERS, NAMES, PAPERS, QUICK, SEPARATION, SETTLED,
                   column_of, compare_page, once, reproduce, run, wrong_program)
from harness import Case


class Quick(cases.Figures):
    NAMED = QUICK

    def test_figures_say_whether_they_are_bounds(self):
        for cell in self.cells:
            if cell["table"] in FIGURES or cell["column"] == "claim":
                continue
            bounded = column_of(cell) == (MULTIPLIERS, "DP-SGD, 6 epochs")
            self.assertEqual(cell["kind"], "upper bound" if bounded else "exact", cell)

    def test_threads_do_not_change_a_table(self):
        one, three = (run(CORNERS, MATRIX, MULTIPLIERS, MEMORY, "--threads", threads, "--json") for threads in [1, 3])
        self.assertEqual(one[0], 0)
        self.assertEqual(one, three)

    def test_several_tables_are_each_table_in_turn(self):
        code, out, err = once(MATRIX, CORNERS, "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["cells"], [cell for name in [MATRIX, CORNERS] for cell in cases.cells_of([name])])


class Wrong(Case):
    def edited(self, edit):
        """A copy of the script whose data `edit` has changed."""
        papers = self.path("papers")
        shutil.copytree(PAPERS, papers, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        for path in glob.glob(os.path.join(papers, "*.json")):
            with open(path, encoding="utf-8") as file:
                paper = json.load(file)
            for table in paper["tables"]:
                edit(table)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(paper, file)
        return papers

    def test_another_printed_figure_does_not_agree(self):
        wrong = {CORNERS: ("16.131", "16.130"), MATRIX: ("0.500", "0.501"), MULTIPLIERS: ("0.402", "0.401"),
                 MEMORY: ("1.6", "1.7"), SETTLED: ("1.032", "1.033")}

        def edit(table):
            for column in table["columns"]:
                if table["name"] in wrong and "paper" in column:
                    before, after = wrong[table["name"]]
                    column["paper"] = [after if printed == before else printed for printed in column["paper"]]

        papers = self.edited(edit)
        for name, (_, after) in wrong.items():
            code, out, err = run(name, "--json", papers=papers)
            self.assertEqual((code, err), (3, ""), name)
            found = json.loads(out)
            self.assertIs(found["ok"], False)
            self.assertEqual([cell["paper"] for cell in found["cells"] if cell["ok"] is False], [float(after)], name)
        code, out, err = run(MATRIX, papers=papers)
        self.assertEqual((code, err, out.count("OFF")), (3, "", 1))
        self.assertIn("**0.500048 (0.501)**", run(MATRIX, "--markdown", papers=papers)[1])

    def test_another_claim_does_not_agree(self):
        def edit(table):
            for claim in table.get("claims", []):
                if claim["claim"] == "tapered / banded Toeplitz, separation 400":
                    claim["relation"] = "at most"

        code, out, err = run(SEPARATION, "--json", papers=self.edited(edit))
        self.assertEqual((code, err), (3, ""))
        self.assertEqual([cell["row"] for cell in json.loads(out)["cells"] if cell["ok"] is False],
                         ["tapered / banded Toeplitz, separation 400"])

    def test_a_program_that_is_off_by_one_percent_is_seen(self):
        for name in [CORNERS, MATRIX, MULTIPLIERS]:
            code, out, err = run(name, "--json", program=wrong_program(self))
            self.assertEqual((code, err), (3, ""), name)
            self.assertEqual({cell["column"] for cell in json.loads(out)["cells"]},
                             {cell["column"] for cell in json.loads(out)["cells"] if cell["ok"] is False}, name)

    def test_a_program_that_fails_is_named_with_its_command(self):
        program = self.write("failing", "#!/bin/sh\necho broken >&2\nexit 1\n")
        os.chmod(program, 0o755)
        code, out, err = run(MATRIX, program=program)
        self.assertEqual((code, out), (1, ""))
        for words in ["optimize --family banded", "exit code 1", "broken"]:
            self.assertIn(words, err)
        code, out, err = run(MATRIX, program=self.path("missing"))
        self.assertEqual((code, out), (1, ""))
        self.assertIn("missing", err)


class Data(Case):
    def test_all_members_are_known_and_fit_together(self):
        """A member that is misspelled would otherwise be ignored."""
        of_table = {"name", "title", "quantity", "kind", "note", "unit", "row_heading", "row_is", "rows", "labels", "with",
                    "columns", "claims"}
        of_part = {"command", "over", "quantity", "function", "with", "kind", "relation", "unit", "relative", "not_compared",
                   "note", "paper"}
        for paper in reproduce.read_papers():
            self.assertEqual(set(paper), {"citation", "year", "rounding", "tables", "not_attempted"})
            for table in paper["tables"]:
                self.assertLessEqual(set(table), of_table)
                parts = [(column, of_part | {"name", "or_less", "first_rows"}) for column in table["columns"]]
                parts += [(claim, of_part | {"claim", "series", "take"}) for claim in table.get("claims", [])]
                for part, known in parts:
                    self.assertLessEqual(set(part), known)
                    self.assertEqual(("command" in part) + ("function" in part), 1, part)
                    self.assertIn(part.get("relation", "near"), ["near", "at most", "at least"])
                    self.assertIn(part.get("function"), [None, *reproduce.figures.FUNCTIONS])
                    if "command" in part:
                        self.assertIn(part.get("quantity", table.get("quantity")), reproduce.QUANTITIES)
                labels = reproduce.row_labels(table)
                for column in table["columns"]:
                    self.assertLessEqual(len(column.get("paper", [])), len(labels))
                    if isinstance(column.get("not_compared", []), list):
                        self.assertLessEqual(set(column.get("not_compared", [])), set(labels))


class Usage(Case):
    def refused(self, *arguments, says):
        code, out, err = run(*arguments)
        self.assertEqual((code, out), (2, ""), arguments)
        for words in says:
            self.assertIn(words, err)

    def test_unknown_names_are_refused_with_the_list(self):
        for name in ["x", "All", "denisov", "table-2.2", "pillutla-2025-table-2.2 ", "x" * 5000, "a\nb"]:
            with self.subTest(name=name):
                self.refused(name, says=["all", *NAMES])
        self.refused(DENISOV, "x", says=["all", *NAMES])
        self.refused(says=["NAME"])

    def test_options_that_exclude_each_other_or_are_unknown_are_refused(self):
        self.refused("all", "--json", "--markdown", says=["--json", "--markdown"])
        self.refused("all", "--steps", "8", says=["--steps"])
        self.refused("all", "--threads", "x", says=["--threads"])

    def test_help_lists_the_names(self):
        code, out, err = run("--help")
        self.assertEqual((code, err), (0, ""))
        listed = re.search(r"NAME is all or one of (.*)\.$", "".join(out.split("\n")[-12:]).replace(",", ", ")).group(1)
        self.assertEqual(re.split(r", +", listed), NAMES)


class Forms(Case):
    def test_the_lines_for_people_have_the_figures_of_the_json(self):
        cells = json.loads(once(MATRIX, "--json")[1])["cells"]
        code, out, err = once(MATRIX)
        self.assertEqual((code, err), (0, ""))
        for line in out.split("\n"):
            self.assertEqual(line, line.rstrip())
            self.assertLessEqual(len(line), 120)
        lines = [line.split() for line in out.split("\n") if re.match(r" +\d+ +\d", line)]
        self.assertEqual(len(lines), len(cells))
        for line, cell in zip(lines, cells):
            self.assertEqual(line[0], cell["row"])
            self.near(float(line[1]), cell["ours"], 5e-6)
            self.assertEqual(float(line[2]), cell["paper"])
            self.assertEqual(line[4:], ["agrees"])
        self.assertIn("24 of 24 compared figures agree", out)

    def test_claims_are_written_for_people(self):
        out = once(SEPARATION)[1]
        for cell in json.loads(once(SEPARATION, "--json")[1])["cells"]:
            if cell["column"] == "claim":
                self.assertIn("text: " + cell["row"] + "\n", out)
        self.assertIn("agrees (at most)", out)
        self.assertIn("agrees (at least)", out)
        self.assertIn("    not compared: the paper has a figure without numbers; these are ours\n", out)
        for line in out.split("\n"):
            self.assertEqual(line, line.rstrip())

    def test_the_markdown_has_the_figures_of_the_json(self):
        for name in [SETTLED, MATRIX, CORNERS, MULTIPLIERS, MEMORY, SEPARATION]:
            code, out, err = once(name, "--markdown")
            self.assertEqual((code, err), (0, ""))
            compare_page(self, out, json.loads(once(name, "--json")[1])["cells"])


if __name__ == "__main__":
    unittest.main()
