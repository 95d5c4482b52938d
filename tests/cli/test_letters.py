#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Statements have Greek letters where the locale is UTF-8, and words elsewhere; JSON and files never have letters, pages
always do."""
import os
import unittest

from harness import Case

LETTERS = (("ε", "epsilon"), ("δ", "delta"), ("σ", "sigma"), ("×", "x"))


def words(text):
    for letter, word in LETTERS:
        text = text.replace(letter, word)
    return text


class Letters(Case):
    SAMPLED = ("account", "--sigma", "1.1", "--delta", "1e-6", "--sampling", "poisson:0.01", "--compositions", "100")

    def both(self, *arguments):
        """The outputs in the locales C and C.UTF-8."""
        return [self.ok(*arguments, env={**os.environ, "LC_ALL": name}) for name in ("C", "C.UTF-8")]

    def mechanism(self, *options):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--steps", "20", "--family", "toeplitz", "--epsilon", "2", "--delta", "1e-6", "-o", path, *options)
        return path

    def test_a_statement_follows_the_locale(self):
        ascii_text, greek = self.both(*self.SAMPLED)
        self.assertTrue(ascii_text.isascii())
        for part in ("(ε, δ)-differentially private with ε = 0.7081 and δ = 1e-06.", "Noise multiplier σ = 1.1: ",
                     "clip norm × σ × largest column norm"):
            self.assertIn(part, greek)
            self.assertIn(words(part), ascii_text)
        self.assertEqual(words(greek), ascii_text)
        self.assertTrue(greek.startswith("epsilon             0.708"))  # tables keep their columns

    def test_every_verb_with_a_statement_has_the_letters(self):
        path = self.mechanism()
        for command in (("account", path), ("account", path, "--first", "5", "--delta", "1e-6"),
                        ("account", "--compose", path, path, "--delta", "1e-6"),
                        ("account", "--sigma", "5", "--delta", "1e-6", "--tuning", "poisson:10"),
                        ("calibrate", path, "--epsilon", "1", "--delta", "1e-6")):
            ascii_text, greek = self.both(*command)
            self.assertTrue(ascii_text.isascii(), command)
            self.assertIn(" ε = ", greek, command)
            self.assertEqual(words(greek), ascii_text, command)

    def test_a_design_is_wrapped_by_characters(self):
        command = ("design", "--steps", "64", "--epochs", "4", "--epsilon", "2", "--delta", "1e-6", "--dim", "100",
                   "--sampling", "block-cyclic", "--families", "identity,banded-toeplitz")
        ascii_text, greek = self.both(*command)
        self.assertTrue(ascii_text.isascii())
        self.assertIn("participation cyclic:4,16, ε = 2, δ = 1e-06\n", greek)
        self.assertEqual(words(greek).split(), ascii_text.split())
        for text in (ascii_text, greek):
            sentences = text[text.index("\nChosen:"):].split("\n")
            self.assertLessEqual(max(map(len, sentences)), 110)

    def test_json_and_files_have_words_alone(self):
        for command in (self.SAMPLED, ("design", "--steps", "16", "--epochs", "1", "--epsilon", "1", "--delta", "1e-6", "--dim", "9",
                                       "--families", "identity", "-o", self.path("d.dpmf"))):
            first, second = self.both(*command, "--json")
            self.assertTrue(first.isascii())
            self.assertEqual(first, second)
        held = []
        for name in ("C", "C.UTF-8"):
            path = self.path(name)
            self.ok("evaluate", "--steps", "20", "--family", "toeplitz", "--epsilon", "2", "--delta", "1e-6", "-o", path,
                    env={**os.environ, "LC_ALL": name})
            with open(path, "rb") as file:
                held.append(file.read())
        self.assertEqual(*held)

    def test_a_page_has_the_letters_in_any_locale(self):
        path, pages = self.mechanism(), []
        for name in ("C", "C.UTF-8"):
            page = self.path("page.html")
            self.ok("report", path, "-o", page, env={**os.environ, "LC_ALL": name})
            with open(page, encoding="utf-8") as file:
                pages.append(file.read())
        self.assertEqual(*pages)
        self.assertIn("(ε, δ)-differentially private with ε = ", pages[0])

    def test_names_and_options_stay_as_they_are(self):
        path = self.mechanism("--participation", "min-sep:3,2")
        log = self.write("log.csv", "client,round\ndelta,0\ndelta,2\n")
        greek = self.both("account", path, "--delta", "1e-6", "--log", log)[1]
        self.assertIn("client delta) instead of", greek)
        self.assertIn("gives ε = ", greek)
        self.assertTrue(self.both("help", "account")[1].isascii())

    def test_another_or_an_unknown_locale_has_words(self):
        plain = self.ok(*self.SAMPLED, env={**os.environ, "LC_ALL": "C"})
        for name in ("POSIX", "nonsense", "xx_XX.UTF-8"):
            self.assertEqual(self.ok(*self.SAMPLED, env={**os.environ, "LC_ALL": name}), plain)


if __name__ == "__main__":
    unittest.main()
