# SPDX-License-Identifier: Apache-2.0
"""Matrices, streams and families of the user's own: what they make, and what their functions raise."""

import gc
import threading
import unittest

import numpy as np
from support import KEY, Case, rows

import dpmf
from dpmf import _operator

STEPS = 30


def leaky(a=0.4, b=0.5):
    """y_t = z_t - a s_t, s <- b s + z_t: one buffer."""

    def step(t, z, state):
        y = z - a * state[0]
        state[0] = b * state[0] + z
        return y

    return step


def leaky_matrix(a, b, n):
    w = np.eye(n)
    for t in range(n):
        for u in range(t):
            w[t, u] = -a * b ** (t - u - 1)
    return w


class Factorizations(Case):
    def test_fifty_random_matrices_have_the_covariance_of_their_pseudo_inverse(self):
        random = np.random.default_rng(5)
        worst = 0.0
        for _ in range(50):
            n = int(random.integers(2, 40))
            c = random.normal(size=(n + int(random.integers(0, 30)), n)) * 10 ** random.uniform(-2, 2, n)
            s = dpmf.Strategy.dense(c)
            plus = np.linalg.pinv(c, rcond=1e-15)
            wanted, found = plus @ plus.T, s.decoder() @ s.decoder().T
            scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
            worst = max(worst, float(np.max(np.abs(found - wanted) / scale)))
            m = dpmf.evaluate(s, lower_bound="none")
            self.assertLessEqual(m.sensitivity.value, np.linalg.norm(c, axis=0).max() * (1 + 1e-13))
        self.assertLess(worst, 1e-10)

    def test_a_decoder_keeps_its_law_and_its_sensitivity_is_no_larger(self):
        random = np.random.default_rng(6)
        workload = dpmf.Workload("momentum:0.9", 8)
        a = np.stack([workload.apply(unit) for unit in np.eye(8)], axis=1)
        for _ in range(20):
            c = random.normal(size=(13, 8))
            plus = np.linalg.pinv(c)
            b = a @ plus + random.normal(size=(8, 13)) @ (np.eye(13) - c @ plus)
            s = dpmf.Strategy.dense(c, b, workload)
            out = a @ s.decoder()
            np.testing.assert_allclose(out @ out.T, b @ b.T, rtol=0, atol=1e-10 * np.max(b @ b.T))
            self.assertLessEqual(s.column_norms().max(), np.linalg.norm(c, axis=0).max() * (1 + 1e-13))
            self.refused(dpmf.ArgumentError, "(B C)[", dpmf.Strategy.dense, c, b)  # not of prefix sums

    def test_a_factorization_is_saved_and_streams(self):
        c = np.random.default_rng(7).normal(size=(20, 12))
        m = dpmf.evaluate(dpmf.Strategy.dense(c), sigma=1.0, participation="cyclic:3,4")
        m.save(self.folder / "m.dpmf")
        whole = rows(m.noise(100, 1.0, KEY, threads=1), 12)
        again = dpmf.load(self.folder / "m.dpmf").noise(100, 1.0, KEY, threads=2)
        again.seek(5)
        np.testing.assert_array_equal(rows(again, 7), whole[5:])

    def test_wrong_matrices_are_refused(self):
        dense, c = dpmf.Strategy.dense, np.random.default_rng(8).normal(size=(9, 6))
        lost = c.copy()
        lost[:, 1] = lost[:, 4] - lost[:, 5]
        self.refused(dpmf.NumericalError, "rank-deficient", dense, lost)
        self.refused(dpmf.ArgumentError, "full column rank", dense, c[:4])
        self.refused(dpmf.ArgumentError, "accepted: (rows, steps)", dense, [1.0, 2.0])
        self.refused(dpmf.ArgumentError, "accepted: (6, 9)", dense, c, c)
        self.refused(dpmf.ArgumentError, "has 5 steps", dense, c, None, dpmf.Workload("prefix", 5))

    def test_a_lower_triangular_matrix_stays_as_it_is(self):
        c = np.tril(np.random.default_rng(9).normal(size=(7, 7))) - 2 * np.eye(7)
        np.testing.assert_array_equal(dpmf.Strategy.dense(c).encoder(), c)


class Recurrences(Case):
    def test_coefficients_are_powers_and_the_stream_keeps_as_many_buffers(self):
        m, u, v = np.array([[0.7, 0.4], [-0.4, 0.7]]), np.array([1.0, 0.3]), np.array([1.0, -0.2])
        s = dpmf.Strategy.recurrent(STEPS, m, u, v)
        wanted = [u @ np.linalg.matrix_power(m, t) @ v for t in range(STEPS)]
        np.testing.assert_allclose(s.column(0), wanted, atol=1e-14)
        np.testing.assert_allclose(s.decoder() @ s.encoder(), np.eye(STEPS), atol=1e-12)
        self.assertEqual((s.family, s.buffers, s.streams), ("recurrent", 2, True))
        made = dpmf.evaluate(s, sigma=1.0, participation="cyclic:3,10")
        made.save(self.folder / "m.dpmf")
        np.testing.assert_array_equal(
            rows(dpmf.load(self.folder / "m.dpmf").noise(9, 1.0, KEY), STEPS), rows(made.noise(9, 1.0, KEY, threads=2), STEPS)
        )

    def test_wrong_recurrences_are_refused(self):
        make = dpmf.Strategy.recurrent
        self.refused(dpmf.ArgumentError, "as many of each", make, 5, [[1.0]], [1.0, 2.0], [1.0])
        self.refused(dpmf.ArgumentError, "c_0", make, 5, [[1.0]], [0.0], [1.0])
        self.refused(dpmf.NumericalError, "rounding", make, 500, [[0, 0], [1, 0]], [1.0, 2.0], [1.0, 0.0])


class Operators(Case):
    def test_a_stream_is_its_matrix(self):
        w = leaky_matrix(0.4, 0.5, STEPS)
        for inverse in (True, False):
            s = dpmf.Strategy.operator(STEPS, 1, leaky(), inverse=inverse)
            found = s.decoder() if inverse else s.encoder()
            np.testing.assert_allclose(found, w, atol=1e-14)
            np.testing.assert_allclose(s.decoder() @ s.encoder(), np.eye(STEPS), atol=1e-13)
        one, two = dpmf.evaluate(dpmf.Strategy.operator(STEPS, 1, leaky())), dpmf.evaluate(dpmf.Strategy.dense(np.linalg.inv(w)))
        self.assertAlmostEqual(one.rms_loss, two.rms_loss, 12)
        workload = dpmf.Workload.operator(STEPS, 1, leaky())
        np.testing.assert_allclose(workload.apply(np.eye(STEPS)[0]), w[:, 0], atol=1e-14)
        self.assertAlmostEqual(
            dpmf.evaluate("identity", workload=workload).rms_loss, np.sqrt((w**2).sum() / STEPS), 12
        )

    def test_what_a_step_raises_is_raised(self):
        for wrong, kind, words in (
            (lambda t, z, s: 1 / 0, ZeroDivisionError, "division"),
            (lambda t, z, s: np.zeros(2), TypeError, "shape (2,)"),
            (lambda t, z, s: z + 1, dpmf.ArgumentError, "not linear"),
            (lambda t, z, s: 0 * z, dpmf.NumericalError, "diagonal"),
        ):
            with self.assertRaises(kind) as caught:
                dpmf.Strategy.operator(STEPS, 1, wrong)
            self.assertIn(words, str(caught.exception))
        self.refused(dpmf.ArgumentTypeError, "a function is accepted", dpmf.Strategy.operator, STEPS, 1, 3)
        self.assertEqual(dpmf.evaluate("identity", 4).sensitivity.value, 1)  # nothing is left behind

    def test_a_step_that_fails_later_fails_every_call_from_then_on(self):
        broken = []

        def step(t, z, state):
            if broken:
                raise KeyError("late")
            return 2 * z

        s = dpmf.Strategy.operator(STEPS, 0, step)
        broken.append(1)
        for _ in range(3):
            self.assertRaises(KeyError, s.solve, np.ones(STEPS))

    def test_threads_of_the_library_pass_failures_on(self):
        here = threading.get_ident()

        def step(t, z, state):
            if threading.get_ident() != here:
                raise KeyError("elsewhere")
            return leaky()(t, z, state)

        m = dpmf.evaluate(dpmf.Strategy.operator(STEPS, 1, step), sigma=1.0, lower_bound="none", threads=1)
        stream = m.noise(200000, 1.0, KEY, threads=2, label="own")
        with self.assertRaises(KeyError):
            rows(stream, STEPS)

    def test_operators_are_freed(self):
        gc.collect()
        before = len(_operator._entries)
        self.refused(dpmf.ArgumentError, "label", dpmf.evaluate(dpmf.Strategy.operator(4, 1, leaky()), sigma=1.0).noise, 5, 1.0, KEY)
        gc.collect()
        m = dpmf.evaluate(dpmf.Strategy.operator(STEPS, 1, leaky()), sigma=1.0)
        stream = m.noise(50, 1.0, KEY, label="own")
        self.assertEqual(len(_operator._entries), before + 1)
        self.refused(dpmf.UnsupportedError, "saved", m.save, self.folder / "m")
        one = rows(stream, STEPS)
        other = m.noise(50, 1.0, KEY, threads=2, label="own")
        other.seek(11)
        np.testing.assert_array_equal(rows(other, STEPS - 11), one[11:])
        del m, stream, other
        gc.collect()
        self.assertEqual(len(_operator._entries), before)


class Parametric(Case):
    def test_the_best_of_two_parameters_is_found(self):
        theta, m = dpmf.optimize_parametric(lambda x: dpmf.Strategy.toeplitz(STEPS, [1.0, *x]), [0.3, 0.2], STEPS)
        best = dpmf.optimize("banded-toeplitz", STEPS, bands=3)
        self.assertAlmostEqual(m.rms_loss, best.rms_loss, 6)
        np.testing.assert_allclose(m.strategy.column(0)[:3], [1.0, *theta])
        self.assertEqual(m.certificate.outcome, "converged")
        for x in ([theta[0] + 1e-2, theta[1]], [theta[0], theta[1] - 1e-2]):
            self.assertGreater(dpmf.evaluate(dpmf.Strategy.toeplitz(STEPS, [1.0, *x])).rms_loss, m.rms_loss)

    def test_operators_and_recurrences_are_families_too(self):
        theta, m = dpmf.optimize_parametric(lambda x: dpmf.Strategy.operator(16, 1, leaky(*x)), [0.2, 0.5], 16)
        # y = z - a s is C = 1 + a x / (1 - (b + a) x): a recurrence of two states
        def recurrence(x):
            return dpmf.Strategy.recurrent(16, [[0, 0], [1, x[0] + x[1]]], [1, x[0]], [1, 0])

        phi, other = dpmf.optimize_parametric(recurrence, [0.2, 0.5], 16)
        self.assertAlmostEqual(m.rms_loss, other.rms_loss, 7)
        np.testing.assert_allclose(theta, phi, atol=1e-3)

    def test_a_given_gradient_is_used(self):
        asked = []

        def loss(x):
            return np.log(dpmf.evaluate(dpmf.Strategy.toeplitz(16, [1.0, x]), lower_bound="none").rms_loss)

        def gradient(x):
            asked.append(x[0])
            return [(loss(x[0] + 1e-5) - loss(x[0] - 1e-5)) / 2e-5]

        theta, m = dpmf.optimize_parametric(lambda x: dpmf.Strategy.toeplitz(16, [1.0, x[0]]), [0.3], 16, gradient=gradient)
        self.assertTrue(asked)
        self.assertAlmostEqual(m.rms_loss, dpmf.optimize("banded-toeplitz", 16, bands=2).rms_loss, 6)

    def test_what_a_family_raises_is_raised_unless_it_is_the_edge_of_its_domain(self):
        def edge(x):
            if x[0] > 0.45:
                raise dpmf.ArgumentError("outside")
            return dpmf.Strategy.toeplitz(16, [1.0, x[0]])

        theta, _ = dpmf.optimize_parametric(edge, [0.3], 16)
        self.assertLessEqual(theta[0], 0.45)
        for wrong, kind, words in (
            (lambda x: {}["no"], KeyError, "no"),
            (lambda x: 3, TypeError, "a dpmf.Strategy is accepted"),
            (lambda x: dpmf.Strategy.operator(16, 0, lambda t, z, s: {}["late"]), KeyError, "late"),
        ):
            with self.assertRaises(kind) as caught:
                dpmf.optimize_parametric(wrong, [0.3], 16)
            self.assertIn(words, str(caught.exception))
        good = lambda x: dpmf.Strategy.toeplitz(16, [1.0, x[0]])  # noqa: E731
        with self.assertRaises(TypeError):
            dpmf.optimize_parametric(good, [0.3], 16, gradient=lambda x: [1.0, 2.0])
        self.refused(dpmf.ArgumentError, "theta has 2 dimensions", dpmf.optimize_parametric, good, [[0.3]], 16)
        self.refused(dpmf.ArgumentTypeError, "family is a int", dpmf.optimize_parametric, 3, [0.3], 16)


if __name__ == "__main__":
    unittest.main()
