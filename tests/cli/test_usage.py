# SPDX-License-Identifier: Apache-2.0
"""Verbs, options, exit codes, help, the manual page and completion."""
import json
import os
import re
import shutil
import subprocess
import unittest

from harness import DPMF, Case, run

VERBS = ["plan", "design", "evaluate", "optimize", "account", "calibrate", "noise", "bound", "count", "query", "train", "predict", "inspect", "verify", "audit",
         "report", "bench", "help"]
LATER_VERBS = ["predicts"]
DESIGN_OPTIONS = ["steps", "epochs", "users", "rounds", "per-round", "separation", "at-most", "per", "once", "by", "workload", "participation", "stamps", "loss", "tolerance", "epsilon", "delta", "sampling", "batch-cap", "group", "units", "unit",
                  "adjacency", "dim", "memory", "max-overhead", "families", "measure", "release", "threads", "json",
                  "out", "help"]
EVALUATE_OPTIONS = ["steps", "workload", "participation", "optimize-workload", "optimize-participation", "family",
                    "bands", "buffers", "levels", "nu", "stamps", "branching", "decoder", "normalize", "variant", "parameters", "loss",
                    "weights", "spectrum", "regret", "joint", "epsilon", "delta", "unit", "adjacency", "sensitivity", "bound", "per-step", "dim", "columns", "threads", "json", "out",
                    "help"]
OPTIMIZE_OPTIONS = ["steps", "workload", "participation", "optimize-workload", "optimize-participation", "family",
                    "bands", "buffers", "shared-seeds", "signs", "stamps", "normalize", "variant",
                    "loss", "tolerance", "weights", "epsilon", "delta", "unit", "adjacency", "sensitivity", "bound",
                    "per-step", "columns", "threads", "json", "out", "help"]
ACCOUNT_OPTIONS = ["epochs", "tolerance", "epsilon", "delta", "sigma", "rho", "gaussian", "sampling", "compositions", "compose",
                   "times", "export", "first", "tuning", "batch-cap", "group", "units", "largest", "curve", "risk", "fpr", "tpr",
                   "advantage", "prior", "engine", "confidence", "seed", "log", "unit",
                   "adjacency", "threads", "json", "help"]
NOISE_OPTIONS = ["dim", "memory", "rows", "offset", "count", "format", "clip", "key-file", "testing-seed", "state", "release",
                 "uncalibrated", "replay",
                 "dry-run", "ledger", "budget", "threads", "json", "out", "help"]
TRAIN_OPTIONS = ["steps", "epochs", "workload", "family", "epsilon", "delta", "sampling", "batch-cap", "seed", "unit", "adjacency", "memory",
                 "clip", "key-file", "testing-seed", "state", "release", "ledger", "budget", "data",
                 "test-data", "label", "user", "hold-out", "features", "cache", "scale",
                 "model", "batch", "optimizer", "learning-rate", "momentum", "precondition", "correct", "schedule", "decay", "clipping", "constraint", "regularizer", "zero-above",
                 "local-steps", "local-rate", "local-batch",
                 "checkpoint", "every", "public-test-curve", "noiseless", "threads", "json", "out", "help"]
COUNT_OPTIONS = ["unit", "columns", "time", "bad-lines", "clip-rows", "follow", "input", "format", "sync-every", "clip",
                 "key-file", "testing-seed", "state", "release", "uncalibrated", "ledger", "budget", "json", "out", "help"]
PLAN_OPTIONS = ["epochs", "workload", "loss", "tolerance", "epsilon", "delta", "sampling", "units", "unit", "adjacency", "dim",
                "memory", "max-overhead", "families", "within", "batch", "threads", "json", "out", "help"]
OPTIONS = {"plan": PLAN_OPTIONS, "design": DESIGN_OPTIONS, "evaluate": EVALUATE_OPTIONS, "optimize": OPTIMIZE_OPTIONS, "account": ACCOUNT_OPTIONS,
           "calibrate": ["epsilon", "delta", "sampling", "group", "risk", "fpr", "tpr", "advantage", "prior", "unit", "threads", "json", "out", "help"],
           "bound": ["at-most", "per", "once", "by", "columns", "time", "bad-lines", "range", "seed-key", "state", "user", "out", "help"],
           "noise": NOISE_OPTIONS, "count": COUNT_OPTIONS, "train": TRAIN_OPTIONS,
           "query": ["by", "columns", "format", "clip", "mechanism", "range", "last", "level", "column", "cdf", "smooth", "monotone", "json", "help"],
           "predict": ["data", "label", "user", "features", "cache", "scale", "model", "threads", "json", "out", "help"],
           "inspect": ["json", "help"],
           "verify": ["threads", "json", "help"],
           "audit": ["epsilon", "delta", "confidence", "testing-seed", "threads", "json", "out", "through", "canaries",
                     "help"],
           "report": ["by", "units", "unit", "dim", "memory", "max-overhead", "columns", "clip", "mechanism", "range", "last", "level", "column", "threads", "json",
                      "out", "help"],
           "bench": ["threads", "json", "help"],
           "help": ["format", "help"]}
BASE = ["evaluate", "--steps", "8", "--family", "toeplitz"]
IDENTITY = ["evaluate", "--family", "identity"]


class Bytes(Case):
    def test_memory_is_written_as_people_write_it(self):
        at = ["design", "--steps", 8, "--epochs", 1, "--epsilon", 1, "--delta", 1e-6, "--families", "identity"]
        for accepted in ("1GB", "2g", "1T", "500M", "4GiB", "1TiB", "1.5G", "2tb", "9e9", "70000", "70000B", "100kb"):
            self.json(*at, "--memory", accepted)
        for refused in ("1kk", "GB", "1GBB", "1Gi", "x", "1 GB", "", "9999999T"):
            self.refused(2, *at, "--memory", refused)
        self.refused(1, *at, "--memory", "2B", says="memory of 2 bytes")
        self.refused(1, *at, "--memory", "2k", says="memory of 2000 bytes")


class Verbs(Case):
    def test_the_version_is_printed(self):
        self.assertRegex(self.ok("--version"), r"^dpmf \d+\.\d+\.\d+\n$")

    def test_the_version_is_that_of_the_header_and_of_json(self):
        header = os.path.join(os.environ["DPMF_SOURCE"], "include", "dpmf.h")
        with open(header, encoding="utf-8") as file:
            version = re.search(r'#define DPMF_VERSION "(.*)"', file.read()).group(1)
        self.assertEqual(self.ok("--version"), "dpmf %s\n" % version)
        self.assertEqual(self.json(*BASE)["version"], version)

    def test_no_verb_shows_commands_that_exist(self):
        tour = self.ok()
        self.assertLessEqual(max(map(len, tour.split("\n"))), 88)
        shown = re.findall(r"^    dpmf (\w+) (.*)$", tour, re.M)
        self.assertEqual([verb for verb, _ in shown if verb not in VERBS], [])
        for verb, rest in shown:
            self.assertEqual([word for word in re.findall(r"--([\w-]+)", rest) if word not in OPTIONS[verb]], [])

    def test_unknown_verbs_are_refused(self):
        for verb in LATER_VERBS + ["", "-x", "--json", "Evaluate", "evaluate ", "x" * 5000, "a\nb\x1b[31m"]:
            with self.subTest(verb=verb):
                self.refused(2, verb)

    def test_the_closest_verb_is_suggested(self):
        self.refused(2, "evalute", says=["evalute", "'evaluate'"])
        self.refused(2, "insp", says="'inspect'")

    def test_only_existing_verbs_are_listed(self):
        words = set(re.findall(r"[a-z]+", self.ok("help")))
        self.assertTrue(set(VERBS) <= words)
        self.assertFalse(set(LATER_VERBS) & words)

    def test_version_and_help_stand_alone(self):
        self.refused(2, "--version", "x", says="x")
        self.refused(2, "--help", "evaluate", says="evaluate")


class Options(Case):
    def test_unknown_missing_and_duplicate_options_are_refused(self):
        for says, arguments in [
                (["--stepz", "--steps"], [*BASE, "--stepz", "3"]),
                (["--loss rms3", "rms, max"], [*BASE, "--loss=rms3"]),
                (["within", "optimize"], [*BASE, "--normalize", "within"]),
                (["sweep", "triangular"], [*BASE, "--variant", "sweep"]),
                (["--bogus"], [*BASE, "--bogus"]),
                (["-x"], [*BASE, "-x"]),
                (["-out", "--out"], [*BASE, "-out", "file"]),
                (["--format", "evaluate"], [*BASE, "--format", "man"]),
                (["--format man", "f32, f64, npy"], ["noise", "m", "--format", "man"]),
                (["--format f32", "text, csv, jsonl"], ["count", "m", "--format", "f32"]),
                (["--steps", "twice"], [*BASE, "--steps", "8"]),
                (["--out", "twice"], [*BASE, "-o", "a", "--out", "b"]),
                (["--json", "twice"], [*BASE, "--json", "--json"]),
                (["--steps"], ["evaluate", "--family", "identity"]),
                (["--family"], ["evaluate", "--steps", "8"]),
                (["--steps", "N"], ["evaluate", "--steps"]),
                (["--steps", "N"], ["evaluate", "--steps", "--json"]),
                (["--json", "yes"], [*BASE, "--json=yes"]),
                (["b", "only one"], ["inspect", "a", "b"]),
                (["FILE"], ["inspect"]),
                (["FILE"], ["inspect", "--json"]),
                (["''"], ["inspect", ""]),
                (["--out", "''"], [*BASE, "-o", ""]),
                (["--workload", "''"], [*BASE, "--workload="])]:
            with self.subTest(arguments=arguments):
                self.refused(2, *arguments, says=says)

    def test_nothing_is_written_when_refused(self):
        self.refused(2, *BASE, "-o", self.path("m"), "--bogus")
        self.refused(2, *BASE, "-out", self.path("m"), cwd=self.directory.name)
        self.assertEqual(self.left_behind(), [])

    def test_an_option_may_be_written_in_several_ways(self):
        expected = self.json(*BASE, "--loss", "max")
        self.assertEqual(self.json("evaluate", "--family=toeplitz", "--loss=max", "--steps=8"), expected)
        self.ok(*BASE, "-o", self.path("m"))
        self.assertEqual(json.loads(self.ok("evaluate", "--json", "--loss", "max", "--", self.path("m"))), expected)

    def test_counts_may_be_written_in_several_ways(self):
        for written, steps in [("1e3", 1000), ("1k", 1000), ("0.001M", 1000), ("1000.0", 1000), ("+10", 10),
                               ("1.5e1", 15), ("150e-1", 15), ("1e0", 1), ("0.02k", 20), ("0010", 10), ("1E2", 100)]:
            with self.subTest(written=written):
                self.assertEqual(self.json(*IDENTITY, "--steps", written)["steps"], steps)

    def test_bad_counts_are_refused_with_the_range(self):
        for value in ["", "0", "-1", "-0", "-9223372036854775808", "9223372036854775808", "9223372036854775807",
                      "9007199254740993", "18446744073709551617", "1e400", "1e-400", "1e99999999999999999999", "NaN",
                      "nan", "inf", "-inf", "12abc", "abc", "0x10", "1.5", "1e-1", " 8", "8 ", "1e", "1e+", ".", "-",
                      "e5", "1kk", "1m", "1K", "1KiB", "1,000", "8\n", "٣", "9" * 5000, "1e3\x1b[2J"]:
            with self.subTest(value=value):
                self.refused(2, *IDENTITY, "--steps", value, says=["--steps", "from 1 to 9007199254740992"])

    def test_the_refused_value_is_named(self):
        for value in ["-3", "12abc", "1e400", "NaN"]:
            self.refused(2, *IDENTITY, "--steps", value, says="--steps " + value)
            self.refused(2, *BASE, "--nu", value, says="--nu " + value)

    def test_bad_numbers_are_refused_with_the_range(self):
        for value in ["", "-0.1", "1", "1.0", "2", "1e400", "NaN", "inf", "0.5x", "0x1p-1", " 0.5", "0,5", "."]:
            with self.subTest(value=value):
                self.refused(2, *BASE, "--nu", value, says=["--nu", "from 0 to below 1"])

    def test_bands_and_threads_out_of_range_are_refused(self):
        for value in ["0", "-1", "9", "1e400", "x"]:
            with self.subTest(value=value):
                self.refused(2, "evaluate", "--steps", "8", "--family", "bsr", "--bands", value,
                             says=["--bands", value])
        for value in ["0", "-1", "1025", "x"]:
            with self.subTest(value=value):
                self.refused(2, *BASE, "--threads", value, says=["--threads", value, "1 to 1024"])

    def test_stamps_that_do_not_divide_are_refused(self):
        for value in ["0", "-1", "1e400", "x", "9007199254740993"]:
            self.refused(2, *BASE, "--stamps", value, says=["--stamps " + value, "from 1 to 9007199254740992"])
        for value in ["3", "5", "9", "16", "1e15"]:
            self.refused(2, *BASE, "--stamps", value, says=["--stamps", "a divisor of 8 (the steps)"])
        bsr = ["evaluate", "--steps", "8", "--family", "bsr", "--stamps", "2"]
        self.refused(2, *bsr, says=["--bands", "1 to 4 (the steps of a stamp)"])
        self.refused(2, *bsr, "--bands", "5", says=["--bands 5", "1 to 4 (the steps of a stamp)"])

    def test_other_choices_are_refused_with_the_list(self):
        for option, accepted in [("decoder", "restart, optimal"),
                                 ("adjacency", "zero-out, add-remove, replace-one"), ("bound", "auto, none, force"),
                                 ("sensitivity", "auto, spectral, absolute, signs")]:
            for value in ["", "x", "RMS", accepted.split(",")[0] + " "]:
                with self.subTest(option=option, value=value):
                    self.refused(2, *BASE, "--" + option, value, says=["--" + option, accepted])

    def test_bad_workloads_and_participations_are_refused(self):
        for option, value in [("workload", "x"), ("workload", "momentum:1"), ("workload", "momentum:-0.1"),
                              ("workload", "momentum:"), ("workload", "momentum:nan"), ("workload", "decay:2"),
                              ("workload", "cooldown:0.5"), ("workload", "prefix,,prefix"),
                              ("optimize-workload", "momentum:2"), ("participation", "x"),
                              ("participation", "cyclic:2"), ("participation", "cyclic:0,4"),
                              ("participation", "cyclic:3,8"), ("participation", "minsep:9,1"),
                              ("participation", "minsep:2,-1"), ("optimize-participation", "x"),
                              ("optimize-participation", "cyclic:100,100")]:
            with self.subTest(option=option, value=value):
                self.refused(2, *BASE, "--" + option, value, says=["--" + option, value])

    def test_min_sep_is_read_with_and_without_its_hyphen(self):
        """Help and messages say min-sep; files and JSON keep the spelling that their digests cover."""
        one, other = self.path("one"), self.path("other")
        self.ok(*BASE, "--participation", "min-sep:2,4", "-o", one)
        self.ok(*BASE, "--participation", "minsep:2,4", "-o", other)
        with open(one, "rb") as first, open(other, "rb") as second:
            self.assertEqual(first.read(), second.read())
        self.assertEqual(self.json("inspect", one)["participation"], "minsep:2,4")
        self.assertEqual(self.json("evaluate", one, "--participation", "min-sep:2,4")["participation"], "minsep:2,4")
        self.assertIn("min-sep:K,B", self.ok("evaluate", "--help"))
        for words in (self.ok("evaluate", "--help"), self.ok("optimize", "--help"), self.ok("help", "--format", "man"),
                      self.ok("help", "--format", "bash"), self.ok("help", "--format", "zsh")):
            self.assertNotIn("minsep", words)


class Outputs(Case):
    def test_a_place_that_cannot_be_written_is_refused_before_the_work(self):
        """A million steps of a dense optimum take long: the answer comes at once, and the message names the option."""
        for place in ("/nonexistent/x.dpmf", self.path("."), "/dev/null/x"):
            self.refused(1, "design", "--steps", 10**7, "--epochs", 7, "--epsilon", 1, "--delta", 1e-6, "-o", place,
                         says=["--out", "cannot write", place])
        self.refused(1, "train", "--checkpoint", "/nonexistent/x", says=["--checkpoint", "cannot write"])
        self.refused(1, "train", "--out", "/nonexistent/x", says=["--out", "cannot write"])
        self.refused(1, "optimize", "--steps", 8000, "--family", "dense", "-o", "/nonexistent/x", says=["--out", "cannot write"])

    def test_the_usage_of_a_missing_file_is_one_line(self):
        self.refused(2, "noise", says="noise needs a FILE: dpmf noise FILE --dim M --rows A:B [OPTION]...\n")


class Progress(Case):
    def test_long_work_is_reported_in_a_log_too(self):
        work = ("optimize", "--steps", 400, "--family", "dense", "--participation", "cyclic:4,100")
        environment = dict(os.environ, DPMF_PROGRESS="0.001")
        code, _, err = run(*work, env=environment)
        self.assertEqual(code, 0)
        self.assertRegex(err, r"\A(dpmf: .*\n)+\Z")
        self.assertNotIn("\x1b", err)
        self.assertEqual(run(*work, env=dict(os.environ, DPMF_PROGRESS="0"))[2], "")

    def test_rows_of_noise_are_reported(self):
        file = self.path("m.dpmf")
        self.ok("evaluate", "--steps", 3000, "--family", "identity", "-o", file)
        _, _, err = run("noise", "--uncalibrated", file, "--dim", 20000, "--rows", "0:3000", "--testing-seed", 1, "-o", self.path("rows"),
                        env=dict(os.environ, DPMF_PROGRESS="0.001"))
        self.assertRegex(err, r"dpmf: +\d+\.\d% rows of noise\n")  # tenths: a day of rows moves less than 1 % per minute


class Families(Case):
    def test_listed_families_exist(self):
        help_text = " ".join(self.ok("evaluate", "--help").split())
        listed = re.search(r"--family NAME.*? One of ([a-z, -]+)\.", help_text).group(1).split(", ")
        self.assertEqual(len(listed), 22)
        unknown = self.refused(2, "evaluate", "--steps", "8", "--family", "x", says="x")
        for family in listed:
            with self.subTest(family=family):
                self.assertIn(family, unknown)
                code, _, err = run("evaluate", "--steps", "8", "--family", family, "--bands", "2")
                if code != 0:
                    self.assertRegex(err, "--parameters|--bands|optimize")

    def test_a_tree_has_its_decoder_in_its_name(self):
        self.refused(2, "evaluate", "--steps", "8", "--family", "tree", "--decoder", "optimal", says="tree-full")

    def test_families_that_need_parameters_say_so(self):
        for family in ["dense", "banded", "banded-toeplitz", "blt"]:
            self.refused(2, "evaluate", "--steps", "8", "--family", family, says=[family, "--parameters", "FILE"])
        for family in ["tvblt", "lowrank"]:
            self.refused(2, "evaluate", "--steps", "8", "--family", family, says=[family, "optimize", "FILE"])

    def test_options_of_other_families_are_refused(self):
        for says, arguments in [("--bands", ["--family", "identity", "--bands", "2"]),
                                ("--bands", ["--family", "toeplitz", "--bands", "2"]),
                                ("--bands", ["--family", "tree-online", "--bands", "2"]),
                                ("--nu", ["--family", "fft", "--nu", "0.1"]),
                                ("--parameters", ["--family", "fft-opt", "--parameters", "x"]),
                                ("--bands", ["--family", "bsr"]),
                                ("--bands", ["--family", "bisr"]),
                                ("--nu", ["--family", "bsr", "--bands", "2", "--nu", "0.1"]),
                                ("--parameters", ["--family", "identity", "--parameters", "x"])]:
            with self.subTest(arguments=arguments):
                self.refused(2, "evaluate", "--steps", "8", *arguments, says=says)


class Sense(Case):
    def test_a_guarantee_that_protects_nobody_is_named(self):
        """The figures are computed as asked; a slip of the finger (0.5 for 1e-5) shows on stderr."""
        design = ["design", "--steps", 8, "--epochs", 1, "--families", "identity"]
        for words, found in [(["--epsilon", 1, "--delta", 0.5], ["--delta 0.5"]),
                             (["--epsilon", 100000, "--delta", 1e-6], ["--epsilon 100000"]),
                             (["--epsilon", 1e5, "--delta", 0.5], ["--epsilon 100000.0", "--delta 0.5"]),
                             (["--epsilon", 99, "--delta", 0.09], [])]:
            for verb in (design, ["account"]):
                code, out, err = run(*verb, *words)
                self.assertEqual((code, out != "", err.count("\n")), (0, True, len(found)), err)
                self.assertTrue(all(word in err for word in found), err)

    def test_a_dash_is_a_stream_and_never_a_file(self):
        """`noise -o -` wrote the noise, which is as secret as the key, into a file called "-"."""
        self.ok("evaluate", "--steps", 8, "--family", "identity", "--epsilon", 1, "--delta", 1e-6, "-o", self.path("m"))
        here = {"cwd": self.directory.name, "stdin": subprocess.DEVNULL}
        there = {"cwd": self.directory.name, "stdin": None, "input": b"1\n2\n"}
        rows = ["noise", "m", "--dim", 4, "--rows", "0:2", "--testing-seed", 1, "-o"]
        with open(self.path("rows"), "wb") as file:
            subprocess.run([DPMF, *map(str, rows), "-"], cwd=self.directory.name, stdout=file, stderr=subprocess.DEVNULL,
                           check=True)
        self.assertEqual(os.path.getsize(self.path("rows")), 32)
        self.assertEqual(run("count", "m", "-o", "-", **there)[1].count("\n"), 2)
        self.assertEqual(run("count", "m", "--follow", "-", **there)[1].count("\n"), 2)
        self.assertTrue(run("report", "m", "-o", "-", **here)[1].startswith("<!DOCTYPE html>"))
        with open(self.path("m"), "rb") as file:
            self.assertEqual(run("inspect", "-", stdin=file)[1], self.ok("inspect", self.path("m")))
        self.ok("count", "m", "-o", "sums", **there)
        asked = ["query", "-", "--mechanism", "m", "--range", "1:2"]
        with open(self.path("sums"), "rb") as file:
            sums = file.read()
        self.assertEqual(run(*asked, cwd=self.directory.name, stdin=None, input=sums)[:2],
                         run(asked[0], "sums", *asked[2:], **here)[:2])
        self.refused(2, *rows, "-", "--json", says="--json needs --out", **here)
        for words in (["evaluate", "--steps", 8, "--family", "identity", "-o", "-"], ["report", "m", "-o", "-", "--json"],
                      ["audit", "m", "-o", "-"], [*rows[:-1], "--key-file", "-"], [*rows[:-1], "--state", "-"],
                      [*rows[:-1], "--ledger", "-"], ["count", "-"]):
            self.refused(2, *words, says="./-", **here)
        self.assertEqual(self.left_behind(), ["m", "rows", "sums"])


class Help(Case):
    def test_every_verb_lists_its_options(self):
        for verb in VERBS:
            words = self.ok(verb, "--help")
            self.assertEqual(self.ok("help", verb), words)
            self.assertEqual(self.ok(verb, "-h"), words)
            self.assertTrue(words.startswith("usage: dpmf %s" % verb))
            self.assertEqual(sorted(re.findall(r"^  (?:-\w, )?--([\w-]+)", words, re.M)), sorted(OPTIONS[verb]))
            first = re.findall(r"Example:\s+(-?-?[\w-]+)", words)
            general = {"threads", "json", "help"}
            self.assertLessEqual(len(first), 5)
            if len(set(OPTIONS[verb]) - general) >= 5:
                self.assertEqual(len(first), 5, verb)
            if "out" in OPTIONS[verb]:
                self.assertNotIn("write there.", words)  # each verb describes the file that -o writes
            self.assertLessEqual(max(map(len, words.split("\n"))), 80)

    def test_help_has_only_the_sentences_of_its_verb(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                words = " ".join(self.ok("help", verb).split("most used:")[-1].split())
                self.assertEqual(re.findall(r"\b(?:%s): " % "|".join(v for v in VERBS if v != "train"), words), [])
        audit, account = (" ".join(self.ok("help", verb).split()) for verb in ("audit", "account"))
        self.assertIn("probability that the bound holds. Default is 0.95.", audit)
        self.assertNotIn("0.999", audit)  # the default of account
        self.assertIn("For monte-carlo alone. From 0.5 to below 1. Default: 0.999.", account)
        self.assertNotIn("seed of the initial weights", account)
        self.assertIn("seed of the initial weights.", " ".join(self.ok("help", "train").split()))

    def test_general_help_is_the_same_for_all_spellings(self):
        words = self.ok("help")
        self.assertEqual(self.ok("--help"), words)
        self.assertEqual(self.ok("-h"), words)

    def test_help_of_nothing_is_refused(self):
        self.refused(2, "help", "bogus", says="bogus")
        self.refused(2, "help", "evalute", says="'evaluate'")
        self.refused(2, "help", "--format", "man", "evaluate", says="only one")
        self.refused(2, "help", "--format", "fish", says=["fish", "bash, zsh"])

    def test_the_manual_page_has_every_verb_and_option(self):
        page = self.ok("help", "--format", "man")
        self.assertTrue(page.startswith(".TH DPMF 1 "))
        for verb in VERBS:
            self.assertIn(".SS %s\n" % verb, page)
            for option in OPTIONS[verb]:
                self.assertIn("\\-\\-" + option.replace("-", "\\-"), page)
        self.assertFalse([line for line in page.split("\n") if line.startswith("'")])
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page.encode(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertIn(b"EXIT STATUS", re.sub(rb"\x1b\[\d*m|.\x08", b"", done.stdout))

    def test_bash_completes_verbs_options_and_values(self):
        script = self.write("completion.bash", self.ok("help", "--format", "bash"))
        self.assertEqual(subprocess.run(["bash", "-n", script]).returncode, 0)

        def complete(*words):
            command = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dpmf; echo "${COMPREPLY[*]}"'
            done = subprocess.run(["bash", "-c", command, "bash", script, *words], stdout=subprocess.PIPE, check=True,
                                  cwd=self.directory.name)
            return done.stdout.decode().split()
        self.assertEqual(complete("dpmf", "eva"), ["evaluate"])
        self.assertEqual(complete("dpmf", "evaluate", "--norm"), ["--normalize"])
        self.assertEqual(complete("dpmf", "evaluate", "--loss", ""), ["rms", "max", "lp:", "last"])
        self.assertEqual(complete("dpmf", "count", "--format", "js"), ["jsonl"])
        self.assertEqual(complete("dpmf", "evaluate", "--workload", "mom"), ["momentum:"])
        self.assertEqual(complete("dpmf", "evaluate", "-o", "comp"), ["completion.bash"])
        self.assertEqual(complete("dpmf", "inspect", "comp"), ["completion.bash"])
        self.assertEqual(complete("dpmf", "help", "ins"), ["inspect"])
        self.assertEqual(complete("dpmf", "evaluate", "--steps", ""), [])
        for verb in VERBS:
            listed = [word for word in complete("dpmf", verb, "--")]
            self.assertEqual(listed, ["--" + option for option in OPTIONS[verb]])

    def test_zsh_completion_has_every_option(self):
        words = self.ok("help", "--format", "zsh")
        script = self.write("_dpmf", words)
        self.assertTrue(words.startswith("#compdef dpmf\n"))
        for option in EVALUATE_OPTIONS:
            self.assertRegex(words, r"--%s[=\[}]" % option)
        if shutil.which("zsh"):
            self.assertEqual(subprocess.run(["zsh", "-n", script]).returncode, 0)


if __name__ == "__main__":
    unittest.main()
