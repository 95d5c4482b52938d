# SPDX-License-Identifier: Apache-2.0
"""dpmf account FILE --log: the sensitivity of the actual run, its epsilon and delta, and strict logs."""
import json
import math
import random
import unittest

from harness import Case, run, series_root


def gram(coefficients, n, t, u):
    """(C'C)[t,u] for Toeplitz C of n steps."""
    t, u = max(t, u), min(t, u)
    return sum(coefficients[i] * coefficients[i + t - u] for i in range(n - t))


class Log(Case):
    def mechanism(self, *options, steps=40, participation="minsep:4,5"):
        path = self.path("m.dpmf")
        self.ok("evaluate", "--steps", steps, "--family", "toeplitz", "--participation", participation, *options,
                "--bound", "none", "-o", path)
        return path

    def log(self, rows, name="log.csv", end="\n"):
        return self.write(name, end.join(["client,round"] + ["%s,%d" % row for row in rows]) + end)

    def account(self, mechanism, log, *options):
        """The answer; exit code 3 exactly when the log breaks for sure what the design assumes."""
        code, out, err = run("account", mechanism, "--sigma", 2, "--delta", 1e-6, "--log", log, *options, "--json")
        self.assertEqual(err, "")
        found = json.loads(out)
        broken = found["observed"]["exceeds_design"] and found["observed"]["kind"] == "exact"
        self.assertEqual(code, 3 if broken else 0)
        self.assertEqual("does not hold for this run" in found["statement"], broken)
        return found


class Figures(Log):
    def test_the_observed_sensitivity_is_that_of_the_worst_client(self):
        # Non-negative C: the square is the sum of C'C over a client's rounds. Brute force over the clients.
        n, choose = 40, random.Random(5)
        root = series_root([1.0] * n)
        clients = {"client %d" % i: sorted(choose.sample(range(n), choose.randint(1, 6))) for i in range(30)}
        rows = [(name, t) for name, rounds in clients.items() for t in rounds]
        choose.shuffle(rows)
        squares = {name: sum(gram(root, n, t, u) for t in rounds for u in rounds) for name, rounds in clients.items()}
        worst = max(squares, key=squares.get)
        path = self.mechanism()
        found = self.account(path, self.log(rows))
        observed = found["observed"]
        self.near(observed["sensitivity"], math.sqrt(squares[worst]), 1e-12)
        self.assertEqual((observed["kind"], observed["worst_client"]), ("exact", worst))
        self.assertEqual((observed["clients"], observed["participations"]), (30, len(rows)))
        # the same noise over another sensitivity
        designed = self.json("evaluate", path)["sensitivity"]["value"]
        self.near(observed["designed_sensitivity"], designed, 1e-15)
        self.near(observed["sigma"], 2 * designed / observed["sensitivity"], 1e-14)
        self.near(observed["epsilon"], self.json("account", "--sigma", observed["sigma"], "--delta", 1e-6)["epsilon"],
                  1e-12)
        # what the design promises is as without the log
        plain = self.json("account", path, "--sigma", 2, "--delta", 1e-6)
        del found["observed"]
        self.assertEqual({**found, "statement": plain["statement"]}, plain)  # the statement that it does not hold

    def test_a_log_of_the_worst_pattern_has_the_designed_epsilon(self):
        # A log that realises the worst pattern of the participation: the figures of the design.
        path = self.mechanism()
        found = self.account(path, self.log([("a", 0), ("a", 5), ("a", 10), ("a", 15), ("b", 3)]))
        self.near(found["observed"]["epsilon"], found["epsilon"], 1e-12)
        self.assertEqual((found["observed"]["worst_client"], found["observed"]["exceeds_design"]), ("a", False))

    def test_a_log_that_breaks_the_design_says_so(self):
        path = self.mechanism()
        log = self.log([("a", t) for t in range(0, 10)])
        observed = self.account(path, log)["observed"]
        self.assertTrue(observed["exceeds_design"])
        self.assertIn("does not hold", observed["statement"])
        code, out, _ = run("account", path, "--sigma", 2, "--delta", 1e-6, "--log", log)
        self.assertEqual(code, 3)
        self.assertIn("the run breaks an assumption of the design", out)
        self.assertNotIn("All noisy outputs", out)

    def test_observed_delta_and_table_are_shown(self):
        path = self.mechanism()
        log = self.log([("a", 0), ("b", 1), ("b", 20)])
        found = self.json("account", path, "--sigma", 2, "--epsilon", 1, "--log", log)
        observed = found["observed"]
        self.near(observed["delta"], self.json("account", "--sigma", observed["sigma"], "--epsilon", 1)["delta"], 1e-10)
        self.assertLess(observed["delta"], found["delta"])
        out = self.ok("account", path, "--sigma", 2, "--delta", 1e-6, "--log", log)
        for words in ("observed sensitivity", "worst client          b", "observed epsilon",
                      "does not depend on anybody's data", "3 participations of 2 clients"):
            self.assertIn(words, out)

    def test_a_kinder_run_than_designed_has_a_smaller_epsilon(self):
        # sigma and delta from the file; a run that is kinder than the design has a smaller epsilon
        path = self.path("d.dpmf")
        self.ok("design", "--steps", 60, "--participation", "min-sep:3,10..20", "--unit", "user", "--epsilon", 2, "--delta", 1e-6,
                "--dim", 100, "-o", path)
        found = self.json("account", path, "--log", self.log([("a", 0), ("a", 25), ("a", 50), ("b", 3)]))
        self.near(found["epsilon"], 2, 1e-6)
        self.assertEqual((found["observed"]["delta"], found["observed"]["worst_client"]), (1e-6, "a"))
        self.assertLess(found["observed"]["epsilon"], 2)

    def test_a_log_is_doubled_for_replace_one(self):
        path = self.mechanism("--adjacency", "replace-one")
        log = self.log([("a", 0), ("b", 1), ("b", 20)])
        found = self.account(path, log)
        self.near(found["observed"]["epsilon"],
                  self.json("account", path, "--sigma", found["observed"]["sigma"], "--delta", 1e-6)["epsilon"], 1e-12)
        self.near(found["observed"]["sigma"] * found["observed"]["sensitivity"],
                  2 * found["observed"]["designed_sensitivity"], 1e-12)

    def test_a_log_of_100000_lines_is_read(self):
        steps, clients = 500, 20000
        path = self.mechanism(steps=steps, participation="minsep:5,100")
        rows = [("device-%05d" % (i * 7919 % clients), (i * 13) % 100 + 100 * j) for j in range(5)
                for i in range(clients)]
        observed = self.account(path, self.log(rows, end="\r\n"))["observed"]
        self.assertEqual((observed["clients"], observed["participations"]), (clients, 5 * clients))
        self.assertEqual(observed["worst_client"], "device-00000")
        self.assertFalse(observed["exceeds_design"])


class Refusals(Log):
    def refuse_log(self, content, says, code=1):
        path = self.mechanism()
        self.refused(code, "account", path, "--sigma", 2, "--delta", 1e-6, "--log", self.write("l.csv", content),
                     says=says)

    def test_bad_lines_of_a_log_are_refused_by_number(self):
        head = "client,round\n"
        for content, says in ((b"", "no participations"), (head, "no participations"),
                              ("round,client\n0,a\n", ("line 1", "header client,round")),
                              (head + "a,0\n\nb,1\n", ("line 3", "client,round is required")),
                              (head + "a\n", "line 2"), (head + "a,1,2\n", ("line 2", "two columns")),
                              (head + "a,-1\n", ("line 2", "whole number")), (head + "a,1.0\n", "whole number"),
                              (head + "a, 1\n", "whole number"), (head + "a,\n", "whole number"),
                              (head + "a,0\nb,40\n", ("line 3", "round 40, accepted 0 to 39")),
                              (head + "a,99999999999999999999\n", "whole number"),
                              (head + ",1\n", "no name"), (head + " a,1\n", "space"), (head + "a ,1\n", "space"),
                              (head + "x" * 201 + ",1\n", "200 bytes"), (head + '"a",1\n', "quotes"),
                              (head + "a\tb,1\n", "control"), (head.encode() + b"\xff\xfe,1\n", "UTF-8"),
                              (head.encode() + b"a\0b,1\n", "control"), (head + "y" * 100000, "line 2 is too long"),
                              (head + "a,1\nb,2\nc,3\nb,2\n", ("line 5", "client b takes part twice in round 2"))):
            self.refuse_log(content, says)

    def test_a_byte_order_mark_is_skipped(self):
        log = self.write("l.csv", "\ufeffclient,round\na,0\n")
        self.assertEqual(self.account(self.mechanism(), log)["observed"]["participations"], 1)

    def test_long_names_and_either_line_end_are_accepted(self):
        path = self.mechanism()
        name = "\u00e9" * 100  # 200 bytes
        found = self.account(path, self.write("l.csv", "client,round\n%s,0\r\n7,1\n007,1" % name))["observed"]
        self.assertEqual((found["clients"], found["participations"], found["worst_client"]), (3, 3, name))

    def test_a_missing_log_is_refused(self):
        path = self.mechanism()
        for missing in (self.path("none.csv"), self.path("")):
            self.refused(1, "account", path, "--sigma", 2, "--delta", 1e-6, "--log", missing)

    def test_a_log_needs_a_file_sigma_and_one_run(self):
        path, log = self.mechanism(), self.log([("a", 0)])
        self.refused(2, "account", "--sigma", 2, "--delta", 1e-6, "--log", log, says="FILE is required")
        self.refused(2, "account", path, "--epsilon", 1, "--delta", 1e-6, "--log", log, says="not both")
        self.refused(2, "account", path, "--sigma", 2, "--delta", 1e-6, "--compositions", 3, "--log", log,
                     says="one run")

    def test_a_log_is_refused_where_sampling_must_stay_secret(self):
        log, path = self.log([("a", 0)]), self.path("b.dpmf")
        self.ok("evaluate", "--steps", 40, "--family", "bsr", "--bands", 5, "-o", path)
        self.refused(2, "account", path, "--sigma", 2, "--delta", 1e-6, "--sampling", "block-cyclic:0.01,8", "--log",
                     log, says="stay secret")
        # a file whose guarantee is under sampling, without the option
        self.ok("design", "--steps", 40, "--epochs", 4, "--sampling", "block-cyclic", "--epsilon", 2, "--delta", 1e-6,
                "--families", "banded-toeplitz", "--dim", 100, "-o", path)
        self.assertIn("block-cyclic", self.ok("inspect", path))
        self.refused(2, "account", path, "--sigma", 2, "--delta", 1e-6, "--log", log, says="stay secret")


if __name__ == "__main__":
    unittest.main()
