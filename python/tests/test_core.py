# SPDX-License-Identifier: Apache-2.0
"""Mechanisms, their figures and files, accounting, counting: what the library says arrives, and what it refuses is raised."""

import math
import pickle
import tempfile
import unittest

import numpy as np
from support import KEY, Case, mechanism, python

import dpmf
from dpmf.figures import rounded_up


class Problems(Case):
    def test_a_workload_applies_and_solves(self):
        w = dpmf.Workload("momentum:0.5", 5)
        x = np.arange(5.0) + 1
        m = o = 0.0
        wanted = []
        for value in x:
            m = 0.5 * m + value
            o += m
            wanted.append(o)
        np.testing.assert_allclose(w.apply(x), wanted)
        np.testing.assert_allclose(w.solve(w.apply(x)), x)
        self.assertTrue(w.is_toeplitz)
        self.refused(dpmf.ArgumentError, "accepted: prefix", dpmf.Workload, "sums", 5)
        self.refused(dpmf.ArgumentError, "accepted: (rows, steps)", dpmf.Workload, np.ones(3))
        self.refused(dpmf.ArgumentError, "accepted: (3,)", dpmf.Workload.sgd, 3, learning_rate=[1.0])
        self.refused(dpmf.ArgumentError, "accepted: 5", w.apply, [1.0, 2.0])

    def test_squared_errors_of_sums_and_of_rows_of_any_matrix_add(self):
        prefix, decay = dpmf.Workload("prefix", 7), dpmf.Workload("decay:0.1", 7)
        rows = np.random.default_rng(1).standard_normal((11, 7))
        both = prefix + 0.3 * decay
        self.assertEqual((both.text, both.steps, both.rows), ("prefix + 0.3*decay:0.1", 7, 14))
        self.assertEqual((2 * (both + dpmf.Workload(rows))).text, "2*prefix + 0.6*decay:0.1 + 2*rows")
        d = dpmf.Strategy("toeplitz", prefix).decoder()
        squares = [(np.array([w.apply(e) for e in d.T]).T ** 2).sum(axis=1) for w in (prefix, decay)]
        made = dpmf.evaluate(dpmf.Strategy("toeplitz", prefix), workload=both)
        np.testing.assert_allclose(made.per_step_error, made.sensitivity.value * np.sqrt(squares[0] + 0.3 * squares[1]))
        made = dpmf.evaluate(dpmf.Strategy("toeplitz", prefix), workload=rows)
        self.assertAlmostEqual(made.rms_loss, made.sensitivity.value * math.sqrt(((rows @ d) ** 2).sum() / 7))
        best = dpmf.optimize("dense", workload=both)
        self.assertAlmostEqual(best.rms_loss / best.lower_bound.rms_loss, 1, delta=2e-6)
        self.assertEqual(dpmf.Mechanism.from_bytes(best.to_bytes()).workload.text, both.text)
        self.refused(dpmf.ArgumentError, "no sum in a sum", lambda: dpmf.Workload("prefix + mean", 7) + prefix)
        self.refused(dpmf.ArgumentError, "weight 0", lambda: 0 * prefix + decay)
        self.refused(dpmf.UnsupportedError, "14 answers for 7 steps", both.apply, np.ones(7))

    def test_min_sep_is_read_with_and_without_its_hyphen(self):
        for what in ("min-sep:3,10", "minsep:3,10"):
            p = dpmf.Participation(what, 60)
            self.assertEqual((p.count, p.separation, p.text), (3, 10, "minsep:3,10"))

    def test_patterns_come_from_a_file_and_stay_in_the_mechanism(self):
        path = str(self.folder / "patterns.txt")
        with open(path, "w") as out:
            out.write("0 5 9\n1-11:5\n2 3  # neighbours\n4,7,8,10\n")
        rows = np.zeros((4, 12), dtype=bool)
        for i, steps in enumerate(([0, 5, 9], [1, 6, 11], [2, 3], [4, 7, 8, 10])):
            rows[i, steps] = True
        np.save(str(self.folder / "patterns.npy"), rows)
        m = dpmf.evaluate("identity", 12, participation="file:" + path, epsilon=1.0, delta=1e-6)
        self.assertAlmostEqual(m.sensitivity.value, 2.0)
        self.assertEqual((m.participation.count, m.participation.separation), (4, 1))
        self.assertEqual(m.participation.text, dpmf.Participation("file:" + str(self.folder / "patterns.npy"), 12).text)
        m.save(str(self.folder / "own.dpmf"))
        self.assertTrue(dpmf.load(str(self.folder / "own.dpmf")).verify().ok)
        best = dpmf.optimize("dense", 12, participation="file:" + path)
        self.assertLess(best.rms_loss, m.rms_loss)
        d = dpmf.design(12, None, 1.0, 1e-6, participation="file:" + path, unit="user")
        self.assertEqual(d.participation.text, m.participation.text)
        self.refused(dpmf.ArgumentError, "one of epochs and participation", dpmf.design, 12, None, 1.0, 1e-6)
        self.refused(dpmf.ArgumentError, "name the unit", dpmf.design, 12, None, 1.0, 1e-6, participation="file:" + path)
        with open(path, "a") as out:
            out.write("3 12\n")
        self.refused(dpmf.Error, "line 5: step 12, accepted 0 to 11", dpmf.Participation, "file:" + path, 12)

    def test_every_strategy_is_its_matrices(self):
        w = dpmf.Workload("prefix", 12)
        for s in (
            dpmf.Strategy("toeplitz", w),
            dpmf.Strategy("bsr", w, bands=3),
            dpmf.Strategy("tree", w),
            dpmf.Strategy("blt-rational", w, buffers=2),
            dpmf.Strategy("blt-tree", w, levels=3),
            dpmf.Strategy.blt(12, [0.3, 0.2], [0.9, 0.4]),
            dpmf.Strategy.toeplitz(12, [1, 0.5]),
            dpmf.Strategy.inverse_toeplitz(12, [1, -0.5]),
            dpmf.Strategy("bsr", w, bands=3).normalized(),
            dpmf.Strategy.toeplitz(4, [1, 0.5]).stamped(3),
            dpmf.Strategy.dense(np.tril(np.ones((12, 12)))),
            dpmf.Strategy("tree", w).triangular(),
            dpmf.Strategy.banded([[1, 0]] + [[1, 0.5]] * 11),
        ):
            c, d = s.encoder(), s.decoder()
            np.testing.assert_allclose(d @ c, np.eye(12), atol=1e-12, err_msg=repr(s))
            np.testing.assert_allclose(s.column_norms(), np.linalg.norm(c, axis=0))
        np.testing.assert_allclose(dpmf.Strategy.blt(12, [0.3], [0.9]).blt_parameters, ([0.3], [0.9]))
        self.refused(dpmf.ArgumentError, "1 scales and 2 decays", dpmf.Strategy.blt, 5, [1], [0.1, 0.2])
        self.refused(dpmf.ArgumentError, "decoder = 'best'", dpmf.Strategy, "tree", w, decoder="best")

    def test_blts_from_a_formula_take_buffers_and_levels(self):
        m = dpmf.evaluate("blt-rational", 1000, buffers=3)
        self.assertEqual((m.strategy.family, len(m.strategy.blt_parameters[0])), ("blt-rational", 3))
        self.assertLess(m.max_loss, dpmf.evaluate("blt-tree", 1000, levels=2, buffers=3).max_loss)
        self.refused(dpmf.ArgumentError, "buffers = 17, accepted 1 to 16", dpmf.evaluate, "blt-tree", 9, buffers=17)
        self.refused(dpmf.ArgumentError, "levels = 2, accepted only for blt-tree", dpmf.evaluate, "tree", 9, levels=2)

    def test_families_are_those_of_the_library(self):
        found = dpmf.families()
        self.assertEqual(len({f.name for f in found}), len(found))
        workload = dpmf.Workload("prefix", 8)
        for f in found:
            options = {"bands": 2} if f.bands else {}
            if f.closed_form:
                self.assertEqual(dpmf.Strategy(f.name, workload, **options).family, f.name)
            else:
                with self.assertRaisesRegex(dpmf.ArgumentError, "without parameters"):
                    dpmf.Strategy(f.name, workload, **options)
                self.assertTrue(f.optimized or f.parameters)

    def test_figures_are_those_of_the_matrices(self):
        for family in ("identity", "toeplitz", "bsr", "tvblt", "blt", "banded", "tree"):
            m = mechanism(family, 16)
            b = np.tril(np.ones((16, 16))) @ m.strategy.decoder()
            s = m.sensitivity.value
            self.assertAlmostEqual(s, max(m.strategy.column_norms()))
            self.assertAlmostEqual(m.rms_loss, s * math.sqrt((b**2).sum() / 16))
            self.assertAlmostEqual(m.max_loss, s * math.sqrt((b**2).sum(axis=1).max()))
            np.testing.assert_allclose(m.per_step_error, 1.25 * s * np.sqrt((b**2).sum(axis=1)), rtol=1e-9)
            self.assertGreaterEqual(m.ratio, 1.0)
            self.assertEqual(m.ratio, m.rms_loss / m.lower_bound.rms_loss)

    def test_a_calibrated_mechanism_keeps_its_epsilon(self):
        for more in (
            {},
            {"adjacency": "replace-one"},
            {"participation": "cyclic:4,25"},
            {"sampling": "block-cyclic:0.01,25"},
        ):
            m = mechanism("bsr", 100, sigma=None, epsilon=2.0, delta=1e-6, **more)
            self.assertEqual((m.epsilon, m.delta), (2.0, 1e-6))
            self.assertLessEqual(m.privacy().epsilon, 2.0 * (1 + 1e-9))
            self.assertGreater(m.privacy().epsilon, 2.0 * (1 - 2e-3))
            self.assertIn("epsilon = ", m.privacy().statement())
            self.assertEqual(m.sampling, more.get("sampling", "none"))
        self.refused(dpmf.ArgumentError, "together", mechanism, "bsr", epsilon=1.0)
        self.refused(dpmf.ArgumentError, "one of them", mechanism, "bsr", sigma=1.0, epsilon=1.0, delta=1e-6)

    def test_a_log_has_the_sensitivity_of_its_worst_unit(self):
        """The run that happened: from C itself, over the steps of each unit."""
        m = mechanism("bsr", 24, participation="cyclic:3,8")
        c = m.strategy.encoder()
        log = {3: [0, 9, 17], 4: [1, 2], 9: [23]}
        pairs = [(unit, step) for unit, steps in log.items() for step in steps]
        found, unit = m.observed_sensitivity(*zip(*pairs))
        norms = {who: np.linalg.norm(c[:, steps].sum(axis=1)) for who, steps in log.items()}  # C >= 0: all the same way
        self.assertEqual(unit, max(norms, key=norms.get))
        self.assertAlmostEqual(found.value, max(norms.values()))
        self.assertEqual(found.kind, "exact")
        self.assertRaises(dpmf.ArgumentError, m.observed_sensitivity, [1, 1], [2, 2])
        self.refused(dpmf.ArgumentError, "2 units and 1 steps", m.observed_sensitivity, [1, 1], [2])

    def test_memory_of_the_noise_is_announced(self):
        m = mechanism("bsr", 24)
        self.assertEqual(m.noise_memory(1000, "float64")[1], 2 * m.noise_memory(1000)[1])
        self.assertGreater(m.noise_memory(1000)[0], m.noise_memory(1000)[1])
        self.refused(dpmf.ArgumentError, "accepted: float32, float64", m.noise_memory, 1000, "float16")

    def test_an_optimum_comes_with_its_certificate(self):
        m = dpmf.optimize("dense", 64)
        self.assertEqual(m.certificate.outcome, "converged")
        self.assertLessEqual(m.certificate.optimum_lower, m.rms_loss * (1 + 1e-9))
        self.assertLess(m.ratio, 1 + 1e-5)
        self.assertTrue(m.certificate.scope)
        self.refused(TypeError, "bandz", dpmf.optimize, "banded", 64, bandz=3)
        self.refused(dpmf.ArgumentError, "accepted: rms, max", dpmf.optimize, "toeplitz", 64, loss="mean")
        self.refused(dpmf.UnsupportedError, "no strategy", dpmf.optimize, "dense", 10000)

    def test_progress_cancels_and_raises(self):
        class Stop(Exception):
            pass

        def stop(what, done):
            raise Stop(what)

        self.assertRaises(Stop, dpmf.optimize, "banded", 300, bands=20, progress=stop)
        self.assertRaises(dpmf.CancelledError, dpmf.optimize, "banded", 300, bands=20, progress=lambda what, done: True)
        seen = []
        dpmf.optimize("banded", 100, bands=5, progress=lambda what, done: seen.append((what, done)))
        self.assertTrue(seen and all(isinstance(what, str) for what, _ in seen))


class Stamps(Case):
    def test_stamps_are_given_or_chosen(self):
        best = dpmf.evaluate("tree-full", 64, participation="cyclic:16,4", stamps="auto")
        losses = {s: dpmf.evaluate("tree-full", 64, participation="cyclic:16,4", stamps=s).rms_loss for s in (1, 2, 4, 8, 16)}
        self.assertEqual(best.strategy.stamps, min(losses, key=losses.get))
        made = dpmf.optimize("dense", 40, participation="cyclic:10,4", stamps=2, stamp_participation="single")
        one = dpmf.optimize("dense", 20).strategy.stamped(2)
        np.testing.assert_array_equal(made.strategy.apply(np.arange(40.0)), one.apply(np.arange(40.0)))
        self.refused(dpmf.ArgumentError, "auto", dpmf.optimize, "dense", 40, stamps="most")
        self.refused(dpmf.ArgumentError, "a divisor", dpmf.optimize, "dense", 40, stamps=3)

    def test_trees_have_a_branching_factor(self):
        self.assertEqual(dpmf.evaluate("tree", 100, branching=5).strategy.branching, 5)
        self.assertEqual(dpmf.evaluate("smooth-binary", 100).strategy.branching, 0)
        self.refused(dpmf.ArgumentError, "accepted 2 to 1024", dpmf.evaluate, "tree", 100, branching=1)

    def test_a_design_has_stamped_candidates_on_request(self):
        found = dpmf.design(120, 12, 4.0, 1e-6, families="identity,tree-full", stamps=4, dim=1000)
        self.assertEqual(found.design.candidates[found.design.chosen].stamps, 4)
        self.assertIn("tree-full, 4 stamps", str(found.design))


class Files(Case):
    def test_a_mechanism_comes_back_from_file_bytes_and_pickle(self):
        m = mechanism("tvblt", 50)
        m.save(self.folder / "m.dpmf")
        again = dpmf.load(self.folder / "m.dpmf")
        self.assertEqual(again.digest, m.digest)
        self.assertEqual((self.folder / "m.dpmf").read_bytes(), m.to_bytes())
        self.assertEqual(pickle.loads(pickle.dumps(m)).digest, m.digest)
        self.assertEqual((again.family, again.steps, again.sigma), ("tvblt", 50, 1.25))
        self.assertTrue(again.verify())
        self.assertTrue(all(check.ok is not False for check in again.verify().checks))

    def test_bad_files_are_refused(self):
        data = bytearray(mechanism("bsr", 8).to_bytes())
        data[-1] ^= 1
        self.assertRaises(dpmf.FormatError, dpmf.Mechanism.from_bytes, bytes(data))
        self.assertRaises(dpmf.FormatError, dpmf.Mechanism.from_bytes, b"nothing")
        self.assertRaises(dpmf.FileError, dpmf.load, self.folder / "missing")
        self.assertRaises(OSError, dpmf.load, self.folder / "missing")

    def test_borrowed_parts_outlive_the_mechanism(self):
        strategy, workload = mechanism("bsr", 8).strategy, mechanism("bsr", 8).workload
        self.assertEqual(strategy.column(0)[0], 1.0)
        self.assertEqual(workload.text, "prefix")


class Accounting(Case):
    def test_calibrating_and_accounting_agree(self):
        for options in ({}, {"sampling": "poisson:0.01", "steps": 500}, {"adjacency": "replace-one"}):
            found = dpmf.calibrate(1.5, 1e-6, **options)
            self.assertAlmostEqual(dpmf.account(found.sigma, delta=1e-6, **options).epsilon, 1.5, delta=3e-3)
            self.assertAlmostEqual(dpmf.account(found.sigma, epsilon=1.5, **options).delta / 1e-6, 1.0, delta=2e-2)
            self.assertEqual(dpmf.account(epsilon=1.5, delta=1e-6, **options), found)
        self.assertEqual(dpmf.account(1.0, delta=1e-6).kind, "exact")
        self.assertEqual(dpmf.account(1.0, delta=1e-6, sampling="poisson:0.01", steps=10).kind, "upper bound")

    def test_zcdp_is_a_bound_unless_the_mechanism_is_gaussian(self):
        sigma = 3.0
        exact = dpmf.account(rho=0.5 / sigma**2, delta=1e-6, gaussian=True, steps=4)
        self.assertAlmostEqual(exact.epsilon, dpmf.account(sigma / 2, delta=1e-6).epsilon, places=9)
        bound = dpmf.account(rho=0.5 / sigma**2, delta=1e-6, steps=4)
        self.assertEqual((bound.kind, exact.kind), ("upper bound", "exact"))
        self.assertGreater(bound.epsilon, exact.epsilon)

    def test_guarantees_and_curves_compose(self):
        pure = dpmf.compose("pure:0.1", times=[100], delta=1e-6)
        self.assertAlmostEqual(pure.epsilon, 4.77456759, places=7)  # Kairouz, Oh and Viswanath 2015, Theorem 3.3
        self.assertIn("under the same adjacency", pure.statement())
        self.assertNotIn("No secret sampling", pure.statement())
        mechanism = dpmf.evaluate("toeplitz", 16, epsilon=1.0, delta=1e-6)
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/curve.json"
            both = dpmf.compose(mechanism, "laplace:4", times=[1, 3], delta=1e-6, export=path)
            self.assertGreater(both.epsilon, 1.0)
            again = dpmf.compose("pld:" + path, delta=1e-6)
            self.assertAlmostEqual(again.epsilon / both.epsilon, 1.0, delta=2e-3)
            ledger = dpmf.Ledger(folder + "/ledger.json")
            ledger.enter(mechanism, dpmf.create_key())
            self.assertEqual(dpmf.compose("laplace:4", ledger, times=[3, 1], delta=1e-6).epsilon, both.epsilon)
        for bad in (("pure:0",), ("gaussian:1",), (3,), ()):
            with self.assertRaises(dpmf.Error):
                dpmf.compose(*bad, delta=1e-6)
        for wrong in ({"delta": 1e-6, "epsilon": 1.0}, {}, {"delta": 1e-6, "times": [1, 2]}, {"delta": 1e-6, "adjacency": "other"}):
            with self.assertRaises(dpmf.Error):
                dpmf.compose("pure:1", **wrong)

    def test_risks_of_a_guarantee(self):
        found = dpmf.risk(1.0, fpr=[0.01, 0.1], unit="user")
        self.assertAlmostEqual(found.tpr[0.01], 0.0923622480800065, places=9)
        self.assertEqual((found.kind, found.mu), ("exact", 1.0))
        self.assertIn("one user", found.statement())
        options = {"sampling": "poisson:0.01", "steps": 100}
        sigma = dpmf.calibrate_risk(0.02, 0.01, **options).sigma
        self.assertLessEqual(dpmf.risk(sigma, fpr=[0.01], **options).tpr[0.01], 0.02)
        self.assertLessEqual(dpmf.risk(dpmf.calibrate_risk(advantage=0.1).sigma).advantage, 0.1)
        for wrong in ({"tpr": 0.1}, {"tpr": 0.1, "fpr": 0.01, "advantage": 0.1}, {"tpr": 0.1, "fpr": 0.2}, {}):
            with self.assertRaises(dpmf.ArgumentError):
                dpmf.calibrate_risk(**wrong)
        with self.assertRaisesRegex(dpmf.ArgumentError, "false positive"):
            dpmf.risk(1.0, fpr=[2])

    def test_accounting_refuses_bad_questions(self):
        self.refused(dpmf.ArgumentError, "two of sigma, epsilon and delta", dpmf.account, 1.0)
        self.refused(dpmf.ArgumentError, "two of sigma", dpmf.account, 1.0, epsilon=1.0, delta=1e-6)
        self.refused(dpmf.ArgumentError, "rho goes with delta", dpmf.account, rho=0.5)
        self.refused(dpmf.ArgumentError, "sampling", dpmf.account, rho=0.5, delta=1e-6, sampling="poisson:0.1")
        self.refused(dpmf.ArgumentError, "sigma", dpmf.account, -1.0, delta=1e-6)
        self.refused(dpmf.ArgumentError, "sampling", dpmf.account, 1.0, delta=1e-6, sampling="bernoulli:1")
        self.refused(TypeError, "sampels", dpmf.account, 1.0, delta=1e-6, sampels=3)
        self.refused(
            dpmf.ArgumentError, "the mechanism has them", dpmf.account, of=mechanism("bsr"), delta=1e-6, sampling="none"
        )


class Designs(Case):
    def test_a_design_keeps_its_promises(self):
        m = dpmf.design(60, 3, 4.0, 1e-5, workload="momentum:0.9", dim=1000)
        report = m.design
        chosen = report.candidates[report.chosen]
        self.assertEqual(chosen.family, m.family)
        self.assertEqual(
            min(c.noise_rms for c in report.candidates if c.eligible and not c.is_search_point) * 1.001 >= chosen.noise_rms, True
        )
        self.assertEqual((m.epsilon, m.delta, m.participation.text), (4.0, 1e-5, "cyclic:3,20"))
        self.assertIn("epsilon = 4", report.statement())
        self.assertIn("epsilon = 4", report.privacy.statement("example"))
        self.assertTrue(report.why and report.warnings)
        self.assertTrue(0 < report.sampling_would_save <= 1)
        self.assertIn("with Poisson sampling", report.why)
        sampled = dpmf.design(60, 3, 4.0, 1e-5, workload="momentum:0.9", dim=1000, sampling="any").design
        self.assertIsNone(sampled.sampling_would_save)
        best = sampled.candidates[sampled.chosen].noise_rms
        self.assertLessEqual(best, 1.001 * report.sampling_would_save * chosen.noise_rms)
        del report
        self.assertTrue(m.verify())
        self.kept(m)
        self.refused(dpmf.ArgumentError, "epochs", dpmf.design, 60, 0, 4.0, 1e-5)
        self.refused(TypeError, "dims", dpmf.design, 60, 3, 4.0, 1e-5, dims=3)

    def kept(self, m):
        """The report goes with its mechanism: through pickle, and beside its file; one of another mechanism is left out."""
        path = self.folder / "run.dpmf"
        m.save(path)
        for other in (pickle.loads(pickle.dumps(m)), dpmf.load(path), pickle.loads(pickle.dumps(dpmf.load(path)))):
            self.assertEqual(other, m)
            self.assertEqual(other.design, m.design)
            self.assertEqual(other.design.statement(), m.design.statement())
            self.assertEqual(other.design.privacy.statement("example"), m.design.privacy.statement("example"))
        mechanism("bsr").save(path)
        self.assertIsNone(dpmf.load(path).design)
        m.save(path)
        beside = self.folder / "run.dpmf.design"
        beside.write_text(beside.read_text().replace('"sampling_would_save": ', '"sampling_would_save": 7'))
        self.refused(dpmf.FormatError, "sampling_would_save", dpmf.load, path)
        (self.folder / "run.dpmf.design").write_text('{"mechanism": "%s", "design": {"why": 3}}' % m.digest)
        self.refused(dpmf.FormatError, "run.dpmf.design is not the report", dpmf.load, path)
        made = pickle.loads(pickle.dumps(dpmf.optimize("blt", 50, buffers=2)))
        self.assertEqual(made.certificate.outcome, "converged")

    def test_amplified_and_federated_designs_say_what_they_assume(self):
        m = dpmf.design(60, 3, 4.0, 1e-5, sampling="block-cyclic", dim=1000)
        self.assertTrue(m.sampling.startswith(("block-cyclic", "poisson")), m.sampling)
        m = dpmf.design(60, 3, 4.0, 1e-5, federated=True, separation_low=10, separation_high=20, dim=1000, unit="user")
        self.assertEqual((m.participation.text, m.unit), ("minsep:3,10", "user"))


class Counting(Case):
    def test_running_sums_are_those_of_the_workload(self):
        for workload in ("prefix", "momentum:0.5", "nesterov:0.9", "decay:0.1"):
            m = dpmf.evaluate("identity", 30, workload, sigma=2.0)
            noise = m.noise(2, 1.0, KEY, dtype="float64")
            data = np.random.default_rng(1).normal(size=(30, 2)) * 100
            with dpmf.Counter(m, columns=2, key=KEY, release="plain") as counter:
                answers = [counter.add(row) for row in data]
                self.refused(dpmf.ArgumentError, "30 steps", counter.add, [1, 2])
            noisy = data + np.stack([noise.next() for _ in range(30)])
            for column in range(2):
                np.testing.assert_allclose(
                    [a[0][column] for a in answers], m.workload.apply(noisy[:, column]), rtol=1e-9
                )
            np.testing.assert_allclose([a[1] for a in answers], m.per_step_error)

    def test_counting_refuses_matrices_and_bad_rows(self):
        m = dpmf.evaluate("identity", 4, np.tril(np.ones((4, 4))))
        self.refused(dpmf.UnsupportedError, "named ones", dpmf.Counter, m)
        counter = dpmf.Counter(mechanism("toeplitz", 4))
        self.refused(dpmf.ArgumentError, "2 numbers, accepted: 1", counter.add, [1, 2])
        self.refused(dpmf.ArgumentError, "finite", counter.add, math.nan)
        self.assertEqual(counter.step, 0)


class Requirements(Case):
    def test_numpy_is_enough(self):
        """Nothing but NumPy and the standard library is imported."""
        said = python(
            "-c",
            """
import sys, dpmf, numpy
row = numpy.zeros(5, numpy.float32)
dpmf.evaluate("bsr", 8, bands=2, sigma=1.0).noise(5, 1.0).add_(row)
dpmf.Sampler("cyclic:2", 4, 2).next()
names = {name.partition(".")[0] for name in sys.modules if not name.startswith("_")}
print(*sorted(names - set(sys.stdlib_module_names)))
""",
        )
        self.assertEqual(
            {name for name in said.split() if not name.startswith(("sitecustom", "usercustom"))}, {"dpmf", "numpy"}
        )


class Printed(Case):
    def test_figures_are_not_too_small(self):
        draw = np.random.default_rng(3)
        for value in np.exp(draw.normal(0, 8, 3000)).tolist() + [8.0, 0.1, 99999.95, 8.000000000000002]:
            for digits in (1, 3, 4, 6):
                shown = float(rounded_up(value, digits))
                self.assertTrue(value <= shown <= value * (1 + 1.001 * 10.0 ** (1 - digits)), (value, digits, shown))
        self.assertEqual([rounded_up(value) for value in (8.0, 5.8984161, math.inf)], ["8", "5.89842", "inf"])


class Pictures(Case):
    def test_plots_have_the_errors_and_the_coefficients(self):
        class Axes:
            def plot(self, *values, **style):
                self.values = values

            def set(self, **labels):
                self.labels = labels

        axes = Axes()
        m = mechanism("toeplitz", 10)
        self.assertIs(m.plot_error(axes), axes)
        self.assertEqual(len(axes.values[1]), 10)
        m.plot_coefficients(axes)
        np.testing.assert_allclose(axes.values[0], m.strategy.column(0))


if __name__ == "__main__":
    unittest.main()
