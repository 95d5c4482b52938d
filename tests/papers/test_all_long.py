# SPDX-License-Identifier: Apache-2.0
"""`papers/reproduce.py all` is all tables in order, and what is not attempted; docs/reproduction.md is made of it."""
import itertools
import json
import re
import unittest

from cases import NAMES, NOT_ATTEMPTED, PAGE, QUICK, attempted, cells_of, compare_page, once
from harness import Case


class All(Case):
    @classmethod
    def setUpClass(cls):
        code, out, err = once("all", "--json")
        assert (code, err) == (0, ""), (code, err)
        cls.all = json.loads(out)
        cls.left = [cell for cell in cls.all["cells"] if cell["column"] == "not attempted"]

    def test_it_is_all_tables(self):
        cells = attempted(self.all["cells"])
        self.assertEqual([name for name, _ in itertools.groupby(cells, lambda cell: cell["table"])], NAMES)
        self.assertEqual([cell for cell in cells if cell["table"] in QUICK], cells_of(QUICK))
        self.assertIs(self.all["ok"], True)

    def test_what_is_not_attempted_says_why(self):
        left = self.left
        self.assertEqual(len(left), NOT_ATTEMPTED)
        self.assertEqual(self.all["cells"][-NOT_ATTEMPTED:], left)
        self.assertFalse({cell["table"] for cell in left} & set(NAMES))
        for cell in left:
            self.assertEqual([cell[key] for key in ["ours", "paper", "difference", "ok"]], [None] * 4)
            self.assertTrue(cell["row"] and cell["note"], cell)

    def test_the_page_is_made_from_it(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        compare_page(self, page, self.all["cells"])
        rows = re.findall(r"^\| (.*) \| (.*) \|$", page.partition("\n## Not attempted\n")[2], re.M)[1:]
        self.assertEqual(rows, [(cell["row"], cell["note"]) for cell in self.left])


if __name__ == "__main__":
    unittest.main()
