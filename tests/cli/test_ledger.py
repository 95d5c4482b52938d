# SPDX-License-Identifier: Apache-2.0
"""--ledger of noise, count and train, and account --compose of ledgers."""
import json
import os
import subprocess
import unittest

from harness import DPMF, Case, run


class Ledgers(Case):
    def mechanism(self, epsilon=1, name="m.dpmf", **options):
        path = self.path(name)
        self.ok("evaluate", "--steps", 8, "--family", "toeplitz", "--epsilon", epsilon, "--delta", 1e-6, "-o", path)
        return path

    def sampled(self, epsilon=1):
        self.ok("evaluate", "--steps", 8, "--family", "identity", "-o", self.path("plain.dpmf"))
        self.ok("calibrate", self.path("plain.dpmf"), "--epsilon", epsilon, "--delta", 1e-6, "--sampling", "poisson:0.25",
                "-o", self.path("s.dpmf"))
        return self.path("s.dpmf")

    def entries(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)["entries"]

    def count(self, mechanism, ledger, *options):
        return run("count", mechanism, "--ledger", ledger, *options, stdin=None, input=b"1\n2\n")

    def noise(self, mechanism, ledger, rows="0:2", *options):
        return run("noise", mechanism, "--dim", 4, "--rows", rows, "--ledger", ledger, "-o", self.path("rows"), *options)

    def total(self, ledger):
        return self.json("account", "--compose", ledger, "--delta", 1e-6)


class Entering(Ledgers):
    def test_every_stream_of_count_is_a_run_of_its_own(self):
        m, ledger = self.mechanism(), self.path("l.json")
        for _ in range(3):
            self.assertEqual(self.count(m, ledger)[0], 0)
        self.assertEqual([e["what"] for e in self.entries(ledger)], ["count"] * 3)
        found = self.total(ledger)
        sigma = self.json("inspect", m)["sigma"]
        plain = self.json("account", "--sigma", repr(sigma), "--delta", 1e-6, "--compositions", 3)
        self.near(found["epsilon"], plain["epsilon"], 1e-12)
        self.assertEqual(found["parts"][0]["entries"], 3)
        self.assertEqual(found["kind"], "exact")

    def test_a_run_that_goes_on_is_entered_once_another_key_again_and_another_run_of_the_key_never(self):
        m, ledger = self.mechanism(), self.path("l.json")
        for rows in ("0:2", "2:4"):
            self.assertEqual(self.noise(m, ledger, rows, "--key-file", self.path("key"))[0], 0)
        self.assertEqual(len(self.entries(ledger)), 1)
        self.assertEqual(self.noise(m, ledger, "0:2", "--key-file", self.path("other"))[0], 0)
        self.assertEqual(len(self.entries(ledger)), 2)
        for more in (["--state", "none", "--clip", 2], ["--state", "none"], ["--state", self.path("another")]):
            code, out, err = self.noise(m, ledger, "0:2", "--key-file", self.path("key"), *more)
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn("another run with this key and this mechanism", err)
            self.assertIn("use a new key for a new run", err)
        self.assertEqual(len(self.entries(ledger)), 2)

    def test_ledgers_and_mechanisms_compose(self):
        m, s, ledger = self.mechanism(), self.sampled(), self.path("l.json")
        self.assertEqual(self.count(m, ledger)[0], 0)
        self.assertEqual(self.noise(s, ledger)[0], 0)
        both = self.json("account", "--compose", m, s, "--delta", 1e-6)
        self.assertEqual(self.total(ledger)["epsilon"], both["epsilon"])
        more = self.json("account", "--compose", ledger, m, "--delta", 1e-6)
        self.assertGreater(more["epsilon"], both["epsilon"])
        self.refused(2, "account", "--compose", ledger, m, "--times", "2,1", "--delta", 1e-6, says="ledger")

    def test_sampled_runs_need_keys_of_their_own(self):
        ledger = self.path("l.json")
        first = self.sampled()
        self.assertEqual(self.noise(first, ledger, "0:2", "--key-file", self.path("key"))[0], 0)
        other = self.sampled(2)
        code, out, err = self.noise(other, ledger, "0:2", "--key-file", self.path("key"), "--state", self.path("state"))
        self.assertEqual((code, out), (1, ""))
        self.assertIn("same batches", err)
        self.assertEqual(len(self.entries(ledger)), 1)

    def test_training_enters_and_a_resumed_run_does_not_enter_again(self):
        rows = "".join("%d,%d,%d\n" % (i % 7, i % 5, i % 2) for i in range(64))
        data = self.write("data.csv", "x,y,label\n" + rows)
        ledger = self.path("l.json")
        at = ["train", "--data", data, "--hold-out", 8, "--epsilon", 2, "--delta", 1e-4, "--steps", 4, "--batch", 14,
              "--family", "identity", "--key-file", self.path("key"), "--checkpoint", self.path("checkpoint"), "--ledger",
              ledger, "--json"]
        code, _, err = run(*at)
        self.assertEqual(code, 0, err)
        self.assertEqual([e["what"] for e in self.entries(ledger)], ["train"])
        run(*at, "-o", self.path("weights.npy"))  # continues from the checkpoint, which is complete
        self.assertEqual(len(self.entries(ledger)), 1)


class Budgets(Ledgers):
    def test_a_budget_is_kept_and_what_passes_it_is_refused_before_anything_is_written(self):
        m, ledger = self.mechanism(), self.path("l.json")
        budget = ["--budget", "1.5,1e-6"]
        self.assertEqual(self.count(m, ledger, *budget)[0], 0)
        self.assertEqual(self.count(m, ledger)[0], 0)
        with open(ledger, "rb") as file:
            before = file.read()
        code, out, err = self.count(m, ledger)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("budget would be exceeded", err)
        code, out, err = self.noise(m, ledger)
        self.assertEqual((code, out), (1, ""))
        self.assertFalse(os.path.exists(self.path("rows")))
        with open(ledger, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertIn("filter", self.total(ledger)["statement"])

    def test_a_run_calibrated_to_the_whole_budget_fits_it(self):
        ledger = self.path("l.json")
        budget = ["--budget", "1,1e-6"]
        self.assertEqual(self.noise(self.sampled(), ledger, "0:2", *budget)[0], 0)
        statement = self.total(ledger)["statement"]
        self.assertIn("did not depend on what earlier runs released", statement)

    def test_the_first_entry_leaves_no_file_when_it_is_refused(self):
        m, ledger = self.mechanism(2), self.path("l.json")
        code, _, err = self.count(m, ledger, "--budget", "1,1e-6")
        self.assertEqual(code, 1, err)
        self.assertFalse(os.path.exists(ledger))

    def test_another_budget_and_half_of_one_are_refused(self):
        m, ledger = self.mechanism(), self.path("l.json")
        self.assertEqual(self.count(m, ledger, "--budget", "3,1e-6")[0], 0)
        code, _, err = self.count(m, ledger, "--budget", "4,1e-6")
        self.assertEqual(code, 2)
        self.assertIn("cannot change", err)
        for budget in ("3", "3,", ",1e-6", "0,1e-6", "3,1", "3,1e-6,", "x,1e-6"):
            self.refused(2, "count", m, "--ledger", ledger, "--budget", budget, says=["--budget", "E,D"])
        self.refused(2, "count", m, "--budget", "3,1e-6", says="--ledger")


class Files(Ledgers):
    def test_what_is_not_calibrated_is_refused(self):
        self.ok("evaluate", "--steps", 8, "--family", "toeplitz", "-o", self.path("plain.dpmf"))
        code, out, err = self.count(self.path("plain.dpmf"), self.path("l.json"))
        self.assertEqual(out, "")
        self.assertNotEqual(code, 0)
        self.assertIn("not calibrated", err)

    def test_bad_files_are_refused_and_stay(self):
        m = self.mechanism()
        good = self.path("good.json")
        self.assertEqual(self.count(m, good)[0], 0)
        with open(good, encoding="utf-8") as file:
            text = file.read()
        for bad in ("{}", "[]", text[:-10], text.replace("dpmf-ledger", "other"), text.replace('"times":1', '"times":0'),
                    text.replace('"sigma":', '"sigma":-'), text.replace("none", "poisson:2"), text + "x"):
            path = self.write("bad.json", bad)
            code, out, _ = self.count(m, path)
            self.assertEqual((code, out), (1, ""), bad)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), bad)

    def test_verify_holds_a_ledger_against_its_budget(self):
        m, ledger = self.mechanism(), self.path("l.json")
        self.assertEqual(self.count(m, ledger, "--budget", "1.5,1e-6")[0], 0)
        found = self.json("verify", ledger)
        self.assertTrue(found["ok"])
        self.near(found["checks"][0]["found"], 1, 1e-9)
        with open(ledger, encoding="utf-8") as file:
            text = file.read()
        forged = self.write("forged.json", text.replace('"times":1', '"times":9'))
        code, out, _ = run("verify", forged, "--json")
        self.assertEqual((code, json.loads(out)["ok"]), (3, False))
        free = self.path("free.json")
        self.assertEqual(self.count(m, free)[0], 0)
        self.assertIsNone(self.json("verify", free)["checks"][0]["ok"])

    def test_processes_that_enter_at_once_all_get_in(self):
        m, ledger = self.mechanism(), self.path("l.json")
        started = [subprocess.Popen([DPMF, "count", m, "--ledger", ledger], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL) for _ in range(12)]
        self.assertEqual([p.wait() for p in started], [0] * 12)
        self.assertEqual(len({e["run"] for e in self.entries(ledger)}), 12)


if __name__ == "__main__":
    unittest.main()
