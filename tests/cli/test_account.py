# SPDX-License-Identifier: Apache-2.0
"""dpmf account: closed forms, certified bounds under sampling, Monte Carlo, statements, refusals."""
import json
import unittest

from harness import Case, run


class Gaussian(Case):
    def test_sigma_of_one_release_is_exact(self):
        # 60-digit evaluations of the closed form.
        for epsilon, delta, sigma in ((1, 1e-5, 3.73063163481594183), (1, 1e-10, 5.86777774963052639),
                                      (8, 1e-5, 0.600229072198951559)):
            found = self.json("account", "--epsilon", epsilon, "--delta", delta)
            self.near(found["sigma"], sigma, 1e-12)
            self.assertEqual((found["kind"], found["confidence"]), ("exact", None))
            self.near(found["mu"], 1 / sigma, 1e-12)
            self.near(found["rho"], 0.5 / sigma ** 2, 1e-12)
            self.near(self.json("account", "--sigma", sigma, "--delta", delta)["epsilon"], epsilon, 1e-11)
            self.near(self.json("account", "--sigma", sigma, "--epsilon", epsilon)["delta"], delta, 1e-10)

    def test_noise_multipliers_are_the_published_ones(self):
        # Choquette-Choo et al. 2023, Table 3, delta = 1e-6: matrix factorization (one release), full batches.
        for epsilon, sigma in ((17.648, 0.340994), (8.841, 0.599973), (2, 2.230476)):
            self.assertAlmostEqual(self.json("account", "--epsilon", epsilon, "--delta", 1e-6)["sigma"], sigma, delta=6e-7)
        for epsilon, sigma in ((17.648, 15.446685), (8.824, 27.222318), (2, 101.038359)):
            found = self.json("account", "--epsilon", epsilon, "--delta", 1e-6, "--compositions", 2052)
            self.assertAlmostEqual(found["sigma"], sigma, delta=6e-7)
            self.near(found["total_rho"], 2052 * found["rho"], 1e-12)

    def test_rho_gives_a_bound_and_a_gaussian_the_exact_value(self):
        found = self.json("account", "--rho", 0.1, "--delta", 1e-6)
        self.near(found["epsilon"], 2.14193892838547, 1e-12)
        self.assertEqual((found["kind"], found["sigma"]), ("upper bound", None))
        found = self.json("account", "--rho", 0.1, "--delta", 1e-6, "--gaussian")
        self.near(found["epsilon"], 1.99452690, 5e-9)
        self.assertEqual(found["kind"], "exact")

    def test_the_answer_names_what_sigma_is_a_multiple_of(self):
        found = self.json("account", "--sigma", 1, "--delta", 1e-6, "--adjacency", "replace-one")
        self.assertEqual(found["sigma_per"], "zero-out sensitivity")
        self.assertIn("the zero-out one", found["statement"])
        text = run("account", "--sigma", 1, "--delta", 1e-6, "--adjacency", "replace-one")[1]
        self.assertRegex(text, r"sigma is per +zero-out sensitivity")
        found = self.json("account", "--sigma", 1, "--delta", 1e-6, "--sampling", "poisson:0.1")
        self.assertEqual(found["sigma_per"], "largest column norm of C")
        file = self.path("replaced.dpmf")
        self.ok("evaluate", "--family", "identity", "--steps", 4, "--adjacency", "replace-one", "--epsilon", 2, "--delta", 1e-6, "-o", file)
        found = self.json("account", file, "--delta", 1e-6)
        self.assertEqual(found["sigma_per"], "replace-one sensitivity")

    def test_risks_are_printed_and_are_targets(self):
        found = self.json("account", "--sigma", 1, "--delta", 1e-6, "--risk")["risk"]
        self.near(found["advantage"], 0.38292492254802624, 1e-12)  # 2 Phi(1/2) - 1
        self.near([rate["tpr"] for rate in found["rates"] if rate["fpr"] == 0.01][0], 0.09236224808000646, 1e-9)
        self.assertEqual((found["kind"], found["mu"], found["mu_remainder"]), ("exact", 1, 0))
        text = run("account", "--sigma", 1, "--delta", 1e-6, "--risk")[1]
        self.assertRegex(text, r"TPR at 0.01 +0.0923622")
        self.assertIn("Risk for one unit", text)
        sampled = ["--delta", 1e-6, "--sampling", "poisson:0.01", "--compositions", 100]
        target = self.json("account", *sampled, "--tpr", 0.02, "--fpr", 0.01)
        self.assertLessEqual(target["risk"]["rates"][0]["tpr"], 0.02)
        self.assertGreater(target["risk"]["rates"][0]["tpr"], 0.0199)
        again = self.json("account", "--sigma", target["sigma"], *sampled, "--risk", "--fpr", 0.01)
        self.assertLessEqual(again["risk"]["rates"][0]["tpr"], 0.02)
        self.assertEqual(again["risk"]["mu_remainder"], 1e-6)
        target = self.json("account", *sampled, "--advantage", 0.05)
        self.assertLessEqual(target["risk"]["advantage"], 0.05)
        self.assertGreater(target["risk"]["advantage"], 0.0499)

    def test_risks_that_make_no_sense_are_refused(self):
        for extra, part in ((["--sigma", 1, "--risk", "--fpr", 2], "below 1"), (["--sigma", 1, "--fpr", 0.1], "goes with"),
                            (["--tpr", 0.1], "one rate"), (["--tpr", 0.1, "--fpr", 0.2], "above it"),
                            (["--tpr", 0.1, "--advantage", 0.2, "--fpr", 0.2], "exclude"),
                            (["--sigma", 1, "--advantage", 0.2], "find sigma"), (["--rho", 1, "--risk"], "needs --gaussian")):
            code, _, message = run("account", "--delta", 1e-6, *extra)
            self.assertNotEqual(code, 0)
            self.assertIn(part, message)

    def test_a_group_moves_as_often_as_it_has_units(self):
        group = self.json("account", "--sigma", 6, "--delta", 1e-6, "--group", 3)
        self.assertEqual((group["kind"], group["group"]), ("exact", 3))
        self.near(group["epsilon"], self.json("account", "--sigma", 2, "--delta", 1e-6)["epsilon"], 1e-12)
        self.assertIn("any 3 of them together", group["statement"])
        one = self.json("account", "--sigma", 6, "--delta", 1e-6, "--group", 1)
        self.assertEqual(one["epsilon"], self.json("account", "--sigma", 6, "--delta", 1e-6)["epsilon"])

    def test_a_file_records_its_group(self):
        file, wider = self.path("group.dpmf"), self.path("wider.dpmf")
        run("design", "--steps", 16, "--epochs", 1, "--epsilon", 2, "--delta", 1e-6, "--group", 4, "--families", "toeplitz,identity",
            "-o", file)
        self.assertEqual(self.json("account", file)["group"], 4)
        self.near(self.json("account", file)["epsilon"], 2, 1e-9)
        self.assertLess(self.json("account", file, "--group", 1)["epsilon"], 0.6)
        self.assertEqual(run("verify", file)[0], 0)
        made = self.json("calibrate", file, "--epsilon", 2, "--delta", 1e-6, "--group", 8, "-o", wider)
        self.near(made["sigma"], 2 * self.json("account", file)["sigma"], 1e-9)
        self.assertEqual(run("account", "--compose", file, wider, "--delta", 1e-6)[0], 2)
        both = self.json("account", "--compose", file, wider, "--delta", 1e-6, "--group", 4)
        self.assertTrue(2 < both["epsilon"] < 2.5)

    def test_replacing_a_unit_doubles_the_sensitivity(self):
        one = self.json("account", "--sigma", 2, "--delta", 1e-6, "--adjacency", "replace-one")
        two = self.json("account", "--sigma", 1, "--delta", 1e-6)
        self.near(one["epsilon"], two["epsilon"], 1e-12)
        sampled = self.json("account", "--sigma", 2, "--delta", 1e-6, "--adjacency", "replace-one",
                            "--sampling", "poisson:1")
        self.near(sampled["epsilon"], two["epsilon"], 1e-12)

    def test_a_tiny_delta_and_a_large_epsilon_are_answered(self):
        found = self.json("account", "--sigma", 1, "--delta", "1e-300")
        self.near(self.json("account", "--sigma", 1, "--epsilon", repr(found["epsilon"]))["delta"], 1e-300, 1e-9)
        code, out, err = run("account", "--epsilon", 10000, "--delta", 1e-9, "--json")
        self.assertEqual((code, "--epsilon 10000 protects nothing" in err), (0, True))
        self.assertGreater(self.parsed(out)["sigma"], 0)


class Poisson(Case):
    def certified(self, tight, found):
        """Between the tight value and 1.001 times it (absolute slack 1e-4), never below its printed digits."""
        self.assertGreaterEqual(found, tight - 6e-10 * max(1, tight))
        self.assertLessEqual(found, max(1.001 * tight, tight + 1e-4))

    def test_epsilon_under_poisson_sampling_is_a_tight_bound(self):
        # Tight values of the remove direction, which is the larger one in these.
        for sigma, q, n, delta, tight in (
                (0.8, 0.001, 100, 1e-6, 0.260337095), (3, 0.001, 100, 1e-6, 0.01120409),
                (0.8, 0.2, 100, 1e-6, 24.322620180), (1.5, 0.05, 1000, 1e-6, 6.199691676),
                (2, 0.001, 20000, 1e-6, 0.295800978), (0.8, 0.001, 10 ** 5, 1e-6, 2.914478209),
                (0.8, 0.05, 50000, 1e-6, 291.369926153), (1, 1e-5, 10 ** 6, 1e-8, 0.05909998),
                (10, 1e-3, 10 ** 5, 1e-10, 0.175162821), (1, 1e-3, 10 ** 6, 1e-10, 8.883000319),
                (5, 0.1, 10 ** 5, 1e-6, 49.982678346)):
            with self.subTest(sigma=sigma, q=q, n=n):
                found = self.json("account", "--sigma", sigma, "--delta", delta, "--sampling", "poisson:%r" % q,
                                  "--compositions", n)
                self.certified(tight, found["epsilon"])
                self.assertEqual(found["kind"], "upper bound")
                self.assertTrue(found["slack_met"])
                self.assertGreater(found["epsilon_without_sampling"], found["epsilon"])

    def test_printed_bounds_are_not_below_the_proven_ones(self):
        for words, key in ((["--sigma", 10.213973983747128, "--delta", 8.086950705002901e-14, "--sampling",
                             "poisson:0.9761357505609074", "--compositions", 13614], "epsilon"),
                           (["--sigma", 1.5259189902617607, "--delta", 5.268917714342052e-10, "--sampling",
                             "poisson:0.11638547468438568", "--compositions", 13236], "epsilon"),
                           (["--sigma", 1, "--epsilon", 3, "--sampling", "poisson:0.01", "--compositions", 10000], "delta"),
                           (["--epsilon", 3, "--delta", 1e-7, "--sampling", "poisson:0.01", "--compositions", 10000],
                            "sigma")):
            proven = self.json("account", *words)[key]
            shown = next(line.split()[1] for line in self.ok("account", *words).splitlines() if line.startswith(key + " "))
            self.assertGreaterEqual(float(shown), proven)
            self.assertLessEqual(float(shown), proven * (1 + 1e-8))
        curve = ["--sigma", 1, "--delta", 1e-5, "--sampling", "poisson:0.01", "--compositions", 1000, "--curve"]
        shown = [float(line.split()[1]) for line in self.ok("account", *curve).splitlines() if line.startswith("1e-")]
        for proven, printed in zip((point["epsilon"] for point in self.json("account", *curve)["curve"]), shown):
            self.assertGreaterEqual(printed, proven)

    def test_hardly_any_noise_has_an_answer(self):
        for sigma, n in ((1e-6, 10 ** 12), (5e-4, 100), (1e-3, 100)):
            found = self.json("account", "--sigma", sigma, "--delta", 1e-6, "--sampling", "poisson:0.5", "--compositions", n)
            self.assertGreater(found["epsilon"], 0.4 * n / sigma ** 2)
            self.assertEqual(found["kind"], "upper bound")

    def test_the_largest_number_of_steps_uses_the_budget(self):
        found = self.json("account", "--sigma", 30, "--sampling", "poisson:1e-6", "--largest", "steps", "--epsilon", 3,
                          "--delta", 1e-6)
        self.assertGreater(found["compositions"], 10 ** 14)
        again = self.json("account", "--sigma", 30, "--sampling", "poisson:1e-6", "--delta", 1e-6, "--compositions",
                          found["compositions"])
        self.assertTrue(3 * (1 - 1e-3) < again["epsilon"] <= 3 * (1 + 1e-9), again["epsilon"])
        found = self.json("account", "--sigma", 100, "--sampling", "poisson:1e-6", "--largest", "steps", "--epsilon", 3,
                          "--delta", 1e-6)
        self.assertEqual(found["compositions"], 10 ** 15)

    def test_the_fourier_sum_has_a_name(self):
        run = ["account", "--sigma", 1.5, "--delta", 1e-6, "--sampling", "poisson:0.05", "--engine", "fourier"]
        found = self.json(*run, "--compositions", 1000)
        self.assertEqual(found["kind"], "upper bound")
        self.assertTrue(found["slack_met"])
        self.near(found["epsilon"], 6.199691676147307, 1e-8)
        self.assertGreaterEqual(found["epsilon"], 6.199691676147307 * (1 - 1e-11))
        few = self.json(*run, "--compositions", 2)  # too few for the sum of losses to be smooth
        self.assertEqual(few["epsilon"], few["epsilon_without_sampling"])
        self.assertIn("without the sampling", few["method"])

    def test_batches_of_a_fixed_size(self):
        sizes = ["--sigma", 1, "--delta", 1e-5, "--compositions", 1000]
        for adjacency, epsilon in (("zero-out", 10.499), ("add-remove", 13.361), ("replace-one", 14.821)):
            found = self.json("account", *sizes, "--sampling", "fixed:500,50000", "--adjacency", adjacency)
            self.near(found["epsilon"], epsilon, 1e-3)
            self.assertEqual((found["kind"], found["sampling"]), ("upper bound", "fixed:500,50000"))
            self.assertIn("a random 500 of the 50000 units", found["statement"])
            again = self.json("account", *sizes, "--sampling", "fixed-replace:500,50000", "--adjacency", adjacency)
            self.assertGreater(again["epsilon"], found["epsilon"])
        self.assertEqual(run("account", *sizes, "--sampling", "fixed:50001,50000")[0], 2)
        self.assertEqual(run("account", *sizes, "--sampling", "fixed:5,50", "--engine", "rdp")[0], 2)

    def test_rdp_is_looser(self):
        arguments = ["account", "--sigma", 1.5, "--delta", 1e-6, "--sampling", "poisson:0.05", "--compositions", 1000]
        rdp = self.json(*arguments, "--engine", "rdp")
        self.assertEqual(rdp["kind"], "upper bound")
        self.assertGreater(rdp["epsilon"], 6.1997)
        self.assertLess(rdp["epsilon"], 6.9)

    def test_sigma_under_poisson_sampling_is_tight_and_certified(self):
        for epsilon, delta, q, n, tight in ((8, 1e-5, 0.04, 2000, 1.289967807), (3, 1e-8, 1e-4, 10 ** 6, 0.594348590),
                                            (17.648, 1e-6, 1000 / 342477, 2052, 0.401861663),
                                            (2, 1e-6, 1000 / 342477, 2052, 0.746475353)):
            with self.subTest(epsilon=epsilon, q=q):
                options = ["--sampling", "poisson:%r" % q, "--compositions", n]
                found = self.json("account", "--epsilon", epsilon, "--delta", delta, *options)
                self.assertGreaterEqual(found["sigma"], tight - 6e-7)
                self.assertLessEqual(found["sigma"], 1.001 * tight)
                again = self.json("account", "--sigma", repr(found["sigma"]), "--epsilon", epsilon, *options)
                self.assertLessEqual(again["delta"], delta)

    def test_replacing_has_a_pair_of_its_own_under_sampling(self):
        found = self.json("account", "--sigma", 1, "--delta", 1e-5, "--sampling", "poisson:0.1", "--adjacency",
                          "replace-one")
        self.certified(1.78915, found["epsilon"] + 5e-6)

    def test_probabilities_0_and_1_are_their_limits(self):
        nothing = self.json("account", "--sigma", 1, "--delta", 1e-5, "--sampling", "poisson:0", "--compositions", 1000)
        self.assertEqual((nothing["epsilon"], nothing["kind"]), (0, "exact"))
        every = self.json("account", "--sigma", 30, "--delta", 1e-5, "--sampling", "poisson:1", "--compositions", 1000)
        plain = self.json("account", "--sigma", 30, "--delta", 1e-5, "--compositions", 1000)
        self.assertEqual(every["epsilon"], plain["epsilon"])
        huge = self.json("account", "--sigma", 100, "--delta", 1e-5, "--sampling", "poisson:1e-6", "--compositions",
                         "1e12")
        self.assertGreaterEqual(huge["epsilon"], 0)

    def test_the_largest_probability_needs_none_to_begin_with(self):
        budget = ["account", "--sigma", 1, "--epsilon", 3, "--delta", 1e-6, "--compositions", 100, "--largest", "probability"]
        given = self.json(*budget, "--sampling", "poisson:0.3")["sampling"]
        self.assertEqual(self.json(*budget)["sampling"], given)
        self.assertEqual(self.json(*budget, "--sampling", "poisson")["sampling"], given)
        self.assertEqual(self.json(*budget, "--sampling", "block-cyclic:4")["sampling"],
                         self.json(*budget, "--sampling", "block-cyclic:0.1,4")["sampling"])
        self.refused(2, "account", "--sigma", 1, "--delta", 1e-6, "--sampling", "poisson", says="values are needed")

    def test_a_delta_of_one_over_the_units_is_warned_of(self):
        at = ["account", "--sigma", 5, "--delta", 1e-3, "--units"]
        self.assertIn("warning", self.ok(*at, 1000))
        self.assertNotIn("warning", self.ok(*at, 999))
        self.assertFalse(self.json(*at, 1000)["delta_below_one_unit"])
        design = ["design", "--steps", 8, "--epochs", 1, "--epsilon", 1, "--delta", 1e-2, "--families", "identity",
                  "--units"]
        self.assertIn("warning: delta is 1/units or more", self.ok(*design, 100))
        self.assertTrue(self.json(*design, 99)["delta_below_one_unit"])

    def test_the_largest_steps_and_probability_keep_the_budget(self):
        budget = ["account", "--sigma", 1, "--epsilon", 3, "--delta", 1e-6]
        found = self.json(*budget, "--sampling", "poisson:0.01", "--largest", "steps")
        n = found["compositions"]
        at = ["account", "--sigma", 1, "--delta", 1e-6, "--sampling", "poisson:0.01", "--compositions"]
        self.assertLessEqual(self.json(*at, n)["epsilon"], 3 * 1.0005)
        self.assertGreater(self.json(*at, int(1.01 * n))["epsilon"], 3 * (1 + 1e-4))
        found = self.json(*budget, "--sampling", "poisson:0.01", "--compositions", 1000, "--largest", "probability")
        self.assertRegex(found["sampling"], r"^poisson:0\.0")
        q = float(found["sampling"].split(":")[1])
        at = ["account", "--sigma", 1, "--delta", 1e-6, "--compositions", 1000]
        self.assertLessEqual(self.json(*at, "--sampling", "poisson:%r" % q)["epsilon"], 3 * 1.0005)
        self.assertGreater(self.json(*at, "--sampling", "poisson:%r" % (1.01 * q))["epsilon"], 3 * (1 + 1e-4))
        self.assertEqual(self.json("account", "--sigma", 10, "--epsilon", 1, "--delta", 1e-6, "--largest",
                                   "steps")["compositions"], self.most_full_batches(10, 1, 1e-6))
        self.refused(1, "account", "--sigma", 0.1, "--epsilon", 1, "--delta", 1e-6, "--largest", "steps", says="sigma 0.1")

    def most_full_batches(self, sigma, epsilon, delta):
        """By trying: the last number of compositions whose epsilon is within the budget."""
        n = 1
        while self.json("account", "--sigma", sigma, "--delta", delta, "--compositions", n + 1)["epsilon"] <= epsilon:
            n += 1
        return n

    def test_the_curve_has_fifteen_deltas(self):
        curve = self.json("account", "--sigma", 1, "--delta", 1e-5, "--curve")["curve"]
        self.assertEqual(len(curve), 15)
        self.assertEqual([round(-__import__("math").log10(point["delta"])) for point in curve], list(range(1, 16)))
        self.assertTrue(all(a["epsilon"] < b["epsilon"] for a, b in zip(curve, curve[1:])))


class Overlapping(Case):
    """Poisson sampling of a C of several bands."""

    def test_a_file_of_any_c_without_negative_entries_is_accounted_for(self):
        file, one = self.path("blt.dpmf"), self.path("one.dpmf")
        self.ok("evaluate", "--family", "toeplitz", "--steps", 200, "--participation", "full", "-o", file)
        self.ok("evaluate", "--family", "identity", "--steps", 200, "--participation", "full", "-o", one)
        before = 0
        for probability in (0.005, 0.02, 0.1):
            question = ("--sigma", 4, "--delta", 1e-6, "--sampling", "poisson:%g" % probability)
            found, single = self.json("account", file, *question), self.json("account", one, *question)
            self.assertEqual(found["kind"], "upper bound")
            self.assertIn("overlapping columns", found["method"])
            self.assertNotIn("overlapping", single["method"])
            self.assertGreater(found["epsilon"], max(before, single["epsilon"]))
            before = found["epsilon"]
            self.assertLess(before, found["epsilon_without_sampling"])

    def test_what_has_no_proof_is_refused(self):
        file, other, signs = self.path("banded.dpmf"), self.path("replaced.dpmf"), self.path("signs.dpmf")
        made = ("evaluate", "--family", "toeplitz", "--steps", 50, "--participation", "full")
        self.ok(*made, "-o", file)
        self.ok(*made, "--adjacency", "replace-one", "-o", other)
        self.ok("evaluate", "--family", "toeplitz", "--steps", 50, "--parameters", self.write("c.json", '{"coefficients": [1, -0.5]}'),
                "-o", signs)
        poisson = ("--sigma", 4, "--delta", 1e-6, "--sampling", "poisson:0.02")
        self.refused(1, "account", file, *poisson, "--group", 2, says="group")
        self.refused(1, "account", other, *poisson, says="replace-one")
        self.refused(1, "account", signs, *poisson, says="negative")


class Guarantees(Case):
    """Parts of a composition that are known by a guarantee or a curve."""

    def test_a_group_is_refused_with_a_guarantee(self):
        self.refused(2, "account", "--compose", "pure:1", "--group", 4, "--delta", 1e-6, says="--group")
        self.refused(2, "account", "--compose", "pure:1", "--fpr", 0.1, "--delta", 1e-6, says="--fpr")

    def test_the_condition_of_sampling_under_zero_out_is_stated(self):
        words = ("account", "--compose", "pure:1@poisson:0.1", "--delta", 1e-6)
        self.assertIn("exactly like one that was not drawn", " ".join(run(*words)[1].split()))
        self.assertNotIn("not drawn", " ".join(run(*words, "--adjacency", "add-remove")[1].split()))

    def test_a_curve_without_adjacency_is_no_replace_one_curve(self):
        file = self.path("curve.json")
        self.ok("account", "--sigma", 1, "--sampling", "poisson:0.01", "--compositions", 20, "--delta", 1e-6, "--export", file)
        with open(file, encoding="utf-8") as source:
            held = json.load(source)
        del held["adjacency"]
        self.write("curve.json", json.dumps(held))
        self.json("account", "--compose", "pld:" + file, "--delta", 1e-6)
        self.refused(2, "account", "--compose", "pld:" + file, "--adjacency", "replace-one", "--delta", 1e-6, says="adjacency")

    def test_the_error_of_the_best_test_is_never_above_the_truth(self):
        # 60 digits: sigma 0.06, prior 1/2
        found = self.json("account", "--sigma", 0.06, "--delta", 1e-6, "--risk", "--prior", 0.5)["risk"]
        self.assertLessEqual(found["bayes_error"], 3.93e-17)


class BlockCyclic(Case):
    def test_block_cyclic_is_poisson_with_fewer_compositions(self):
        block = self.json("account", "--sigma", 1.2, "--delta", 1e-6, "--sampling", "block-cyclic:0.001,16",
                          "--compositions", 1600)
        plain = self.json("account", "--sigma", 1.2, "--delta", 1e-6, "--sampling", "poisson:0.016",
                          "--compositions", 100)
        self.assertEqual(block["epsilon"], plain["epsilon"])
        self.assertEqual((block["accounted_compositions"], block["accounted_probability"]), (100, 0.016))
        self.assertEqual(block["compositions"], 1600)

    def test_the_bands_of_a_file_are_checked(self):
        path = self.path("bsr.dpmf")
        self.ok("evaluate", "--steps", 160, "--family", "bsr", "--bands", 16, "--bound", "none", "-o", path)
        held = self.json("account", path, "--sigma", 1.2, "--delta", 1e-6, "--sampling", "block-cyclic:0.01,16")
        self.assertEqual((held["compositions"], held["accounted_compositions"]), (160, 10))
        self.refused(2, "account", path, "--sigma", 1, "--delta", 1e-6, "--sampling", "block-cyclic:0.01,15",
                     says=["16 bands", "15"])
        self.refused(2, "account", path, "--sigma", 1, "--delta", 1e-6, "--sampling", "block-cyclic:0.01,16",
                     "--compositions", 100, says=["100", "160"])
        # without sampling a whole run is one release
        self.near(self.json("account", path, "--sigma", 1.2, "--delta", 1e-6)["epsilon"],
                  self.json("account", "--sigma", 1.2, "--delta", 1e-6)["epsilon"], 1e-15)
        self.refused(2, "account", path, "--delta", 1e-6, says=["not calibrated", "--sigma"])

    def test_a_file_for_replace_one_is_doubled_already(self):
        path = self.path("r.dpmf")
        self.ok("evaluate", "--steps", 20, "--family", "identity", "--adjacency", "replace-one", "-o", path)
        # the file's sensitivity is doubled already
        self.near(self.json("account", path, "--sigma", 1.2, "--delta", 1e-6)["epsilon"],
                  self.json("account", "--sigma", 1.2, "--delta", 1e-6)["epsilon"], 1e-12)
        self.refused(2, "account", path, "--sigma", 1, "--delta", 1e-6, "--adjacency", "zero-out", says="replace-one")


class MonteCarlo(Case):
    def test_balls_in_bins_are_simulated_where_delta_is_not_tiny(self):
        path = self.path("c.dpmf")
        self.ok("evaluate", "--steps", 64, "--family", "bsr", "--bands", 4, "--bound", "none", "-o", path)
        arguments = ["account", path, "--sigma", 2, "--delta", 1e-3, "--sampling", "balls-in-bins:16"]
        found = self.json(*arguments, "--engine", "monte-carlo:200000")
        self.assertEqual((found["kind"], found["confidence"]), ("upper bound", 0.999))
        self.assertLess(found["epsilon"], found["epsilon_without_sampling"])
        self.assertEqual(found, self.json(*arguments, "--engine", "monte-carlo:200000", "--threads", 1))
        below = self.json("account", path, "--sigma", 2, "--delta", 1e-9, "--sampling", "balls-in-bins:16")
        self.assertLess(below["epsilon"], below["epsilon_without_sampling"])  # bounded without simulation
        self.assertEqual((below["kind"], below["confidence"]), ("upper bound", None))

    def test_one_bin_is_the_gaussian(self):
        found = self.json("account", "--sigma", 4, "--delta", 1e-2, "--sampling", "balls-in-bins:1", "--compositions", 4,
                          "--engine", "monte-carlo:400000")
        exact = self.json("account", "--sigma", 2, "--delta", 1e-2)["epsilon"]
        self.assertGreaterEqual(found["epsilon"], 0.97 * exact)  # the bound is capped by the exact value
        self.assertLessEqual(found["epsilon"], exact * (1 + 1e-12))

    def test_min_sep_sampling_amplifies_and_checks_bands(self):
        path = self.path("c.dpmf")
        self.ok("evaluate", "--steps", 24, "--family", "bsr", "--bands", 4, "--bound", "none", "-o", path)
        arguments = ["--sigma", 1.5, "--delta", 1e-3, "--engine", "monte-carlo:100000"]
        found = self.json("account", path, *arguments, "--sampling", "min-sep:0.05,4")
        self.assertLess(found["epsilon"], found["epsilon_without_sampling"])
        warm = self.json("account", path, *arguments, "--sampling", "min-sep:0.05,4,warm")
        self.assertGreater(warm["epsilon"], 0)
        self.refused(2, "account", path, *arguments, "--sampling", "min-sep:0.05,3", says="4 bands")

    def test_an_unconditional_bound_needs_no_confidence(self):
        # Its coins are fresh, and the test that is a part of the mechanism says no now and then (below 1 in 40): asked
        # four times, false alarms are below 1e-6.
        words = ["account", "--sigma", 2, "--delta", 1e-2, "--sampling", "balls-in-bins:4", "--compositions", 4,
                 "--confidence", "unconditional", "--engine", "monte-carlo:100000"]
        answers = (run(*words, "--json") for _ in range(4))
        found = json.loads(next(out for code, out, _ in answers if code == 0))
        self.assertIsNone(found["confidence"])
        self.assertIn("part of the mechanism", found["method"])


class Loaders(Case):
    def test_random_allocation_is_proven_and_balls_in_bins_is_its_first_case(self):
        found = self.json("account", "--sigma", 1, "--delta", 1e-5, "--sampling", "allocation:1,100")
        self.near(found["epsilon"], 0.62095, 1e-3)
        self.assertEqual((found["kind"], found["confidence"], found["compositions"]), ("upper bound", None, 100))
        bins = self.json("account", "--sigma", 1, "--delta", 1e-5, "--sampling", "balls-in-bins:100")
        self.assertEqual(bins["epsilon"], found["epsilon"])
        self.assertIn("exactly 1 of 100 steps", found["statement"])
        every = self.json("account", "--sigma", 2, "--delta", 1e-5, "--sampling", "allocation:3,3", "--epochs", 2)
        self.assertEqual(every["kind"], "exact")
        self.refused(2, "account", "--sigma", 1, "--delta", 1e-5, "--sampling", "allocation:4,3", says="at most T")
        self.refused(2, "account", "--sigma", 1, "--delta", 1e-5, "--sampling", "poisson:0.1", "--epochs", 2, says="epochs")

    def test_a_cap_on_the_batch_costs_privacy(self):
        arguments = ["account", "--sigma", 1, "--delta", 1e-5, "--sampling", "poisson:0.01", "--compositions", 1000]
        free = self.json(*arguments)["epsilon"]
        capped = self.json(*arguments, "--batch-cap", 589, "--units", 50000)
        self.near(capped["epsilon"], 1.869, 1e-3)
        self.assertIn("capped", capped["method"])
        self.assertIn("At most 589 take part", capped["statement"])
        self.assertEqual(capped["sampling"], "poisson:0.01,cap:589:50000")
        again = self.json(*arguments[:6], "poisson:0.01,cap:589:50000", *arguments[7:])
        self.assertEqual(again["epsilon"], capped["epsilon"])
        self.assertEqual(self.json(*arguments, "--batch-cap", 50000, "--units", 50000)["epsilon"], free)
        self.refused(2, *arguments, "--batch-cap", 589, says="--units")
        self.refused(2, *arguments, "--batch-cap", "auto", "--units", 50000, says="design")
        self.refused(1, "account", "--sigma", 1, "--delta", 1e-5, "--sampling", "balls-in-bins:4", "--compositions", 4,
                     "--batch-cap", 5, "--units", 50, says="balls-in-bins")

    def test_bins_of_correlated_noise_are_bounded_without_simulation(self):
        path = self.path("bsr.dpmf")
        self.ok("evaluate", "--family", "bsr", "--bands", 4, "--steps", 48, "--participation", "cyclic:3,16", "-o", path)
        found = self.json("account", path, "--sampling", "balls-in-bins:16", "--sigma", 2, "--delta", 1e-9)
        self.assertIn("Gram matrix", found["method"])
        self.assertEqual((found["kind"], found["confidence"]), ("upper bound", None))
        self.assertLess(found["epsilon"], 0.95 * found["epsilon_without_sampling"])
        forced = self.json("account", path, "--sampling", "balls-in-bins:16", "--sigma", 2, "--delta", 1e-5, "--engine",
                           "connect-the-dots")
        self.assertLess(forced["epsilon"], found["epsilon"])

    def test_runs_on_the_same_data_compose(self):
        one, two = self.path("one.dpmf"), self.path("two.dpmf")
        self.ok("design", "--steps", 32, "--epochs", 2, "--epsilon", 2, "--delta", 1e-6, "-o", one)
        self.ok("design", "--steps", 32, "--epochs", 2, "--epsilon", 3, "--delta", 1e-6, "--sampling", "block-cyclic",
                "-o", two)
        both = self.json("account", "--compose", one, two, "--times", "1,2", "--delta", 1e-6)
        self.assertEqual(both["epsilon"], self.json("account", "--compose", two, one, "--times", "2,1", "--delta",
                                                    1e-6)["epsilon"])
        alone = [part["epsilon_alone"] for part in both["parts"]]
        self.assertGreater(both["epsilon"], max(alone))
        self.assertLess(both["epsilon"], sum(alone))
        self.refused(2, "account", one, two, "--delta", 1e-6, says="only one")
        self.refused(2, "account", "--compose", one, two, "--times", "1", "--delta", 1e-6, says="--times")
        self.refused(2, "account", "--compose", one, "--sigma", 1, "--delta", 1e-6, says="--sigma")

    def test_guarantees_compose(self):
        pure = self.json("account", "--compose", "pure:0.1", "--times", 100, "--delta", 1e-6)
        self.assertAlmostEqual(pure["epsilon"], 4.77456759, delta=1e-7)  # Kairouz, Oh and Viswanath 2015, Theorem 3.3
        self.assertEqual(pure["parts"][0]["guarantee"], "pure:0.1")
        self.assertIn("Kairouz", pure["method"])
        file = self.path("run.dpmf")
        self.ok("design", "--steps", 32, "--epochs", 1, "--epsilon", 1, "--delta", 1e-6, "-o", file)
        both = self.json("account", "--compose", file, "laplace:4", "pure:0.5@poisson:0.1", "--times", "1,3,10", "--delta", 1e-6)
        self.assertGreater(both["epsilon"], 1.0)
        self.assertLess(both["epsilon"], sum(part["epsilon_alone"] for part in both["parts"]))
        self.assertIn("under the same adjacency", both["statement"])
        self.refused(2, "account", "--compose", "pure:x", "--delta", 1e-6, says="accepted: pure:EPSILON")
        self.refused(2, "account", "--compose", file, "pure:1", "--adjacency", "add-remove", "--delta", 1e-6, says="zero-out")
        self.assertNotEqual(run("account", "--compose", "pure:1@poisson:0.1", "--adjacency", "replace-one", "--delta", 1e-6)[0], 0)

    def test_curves_are_written_and_read(self):
        curve, twice = self.path("curve.json"), ("--delta", 1e-6, "--sampling", "poisson:0.01", "--sigma", 1)
        one = self.json("account", *twice, "--compositions", 200, "--export", curve)
        both = self.json("account", *twice, "--compositions", 400)
        self.assertAlmostEqual(self.json("account", "--compose", "pld:" + curve, "--delta", 1e-6)["epsilon"] / one["epsilon"], 1,
                               delta=1e-3)
        again = self.json("account", "--compose", "pld:" + curve, "--times", 2, "--delta", 1e-6)["epsilon"]
        self.assertGreater(again, both["epsilon"] * (1 - 1e-4))
        self.assertLess(again, 1.01 * both["epsilon"])
        self.ok("account", "--compose", "laplace:2", "--times", 5, "--delta", 1e-6, "--export", curve)
        self.refused(2, "account", "--rho", 1, "--delta", 1e-6, "--export", curve, says="--export")


class Words(Case):
    def test_the_statement_says_what_must_be_done(self):
        text = self.json("account", "--sigma", 1, "--delta", 1e-5, "--sampling", "poisson:0.01", "--compositions", 100,
                         "--unit", "user")["statement"]
        for words in ("every intermediate model", "one user", "zero-out", "independently, with probability 0.01",
                      "sampled exactly this way", "Without that assumption", "proven upper bound"):
            self.assertIn(words, text)
        self.assertIn("exact", self.ok("account", "--sigma", 1, "--delta", 1e-5))

    def test_figures_are_not_rounded_down(self):
        import re
        found = self.json("account", "--sigma", 1.2345, "--delta", 1e-5)
        said = float(re.search(r"epsilon = ([0-9.e+-]+)", found["statement"]).group(1))
        self.assertGreaterEqual(said, found["epsilon"] * (1 - 1e-12))

    def test_account_refuses_missing_double_and_bad_values(self):
        for words in (["--sigma", 1], ["--epsilon", 1], ["--delta", 0.1], [], ["--sigma", 1, "--epsilon", 1, "--delta", 0.1],
                      ["--mu", 1, "--delta", 0.1], ["--rho", 1, "--epsilon", 1],
                      ["--rho", 1, "--sigma", 1, "--delta", 0.1], ["--sigma", 1, "--delta", 0],
                      ["--sigma", 1, "--delta", 1], ["--sigma", 1, "--delta", -1], ["--sigma", 0, "--delta", 0.1],
                      ["--sigma", -1, "--delta", 0.1], ["--sigma", "nan", "--delta", 0.1],
                      ["--sigma", "inf", "--delta", 0.1], ["--sigma", 1, "--epsilon", -1],
                      ["--sigma", 1, "--epsilon", "1e400"],
                      ["--sigma", 1, "--delta", 0.1, "--compositions", 0],
                      ["--sigma", 1, "--delta", 0.1, "--compositions", "1e16"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "poisson"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "poisson:1.5"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "poisson:-0.1"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "poisson:nan"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "poisson:0.1,2"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "none:1"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "block-cyclic:0.1"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "block-cyclic:0.1,0"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "balls-in-bins:0"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "balls-in-bins:5", "--compositions", 4],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "balls-in-bins:2", "--compositions", 4, "--engine",
                       "rdp"],
                      ["--sigma", 1, "--delta", 0.1, "--engine", "monte-carlo"],
                      ["--sigma", 1, "--delta", 0.1, "--engine", "monte-carlo:100"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "balls-in-bins:4", "--engine", "monte-carlo:0"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "balls-in-bins:4", "--engine", "monte-carlo:"],
                      ["--sigma", 1, "--delta", 0.1, "--sampling", "poisson:0.1,warm"], ["--sigma", 1, "--delta", 0.1, "--gaussian"],
                      ["--rho", 1, "--delta", 0.1, "--sampling", "poisson:0.1"],
                      ["--sigma", 1, "--delta", 0.1, "--largest", "steps"]):
            with self.subTest(words=words):
                self.refused(2, "account", *words)
        self.refused(1, "account", self.path("none"), "--sigma", 1, "--delta", 0.1)


if __name__ == "__main__":
    unittest.main()
