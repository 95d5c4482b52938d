# SPDX-License-Identifier: Apache-2.0
"""The computations behind docs/errata.md: the correction holds, and what is printed does not."""
import cmath
import math
import os
import unittest

from cases import PAGE
from harness import Case, multiply, series_root, toeplitz

ERRATA = os.path.join(os.path.dirname(PAGE), "errata.md")


def kronecker(a, b):
    return [[x * y for x in row for y in other] for row in a for other in b]


class Pillutla(Case):
    def test_inverse_of_the_square_root(self):
        """Remark 2.6."""
        n, c = 8, series_root([1.0] * 9)
        corrected = [1.0] + [c[t] - c[t - 1] for t in range(1, n)]
        printed = [1.0] + [c[t + 1] - c[t] for t in range(1, n)]
        first = [row[0] for row in multiply(toeplitz(c[:n], n), toeplitz(corrected, n))]
        self.assertTrue(all(math.isclose(x, 1.0 if t == 0 else 0.0, abs_tol=1e-14) for t, x in enumerate(first)))
        self.assertAlmostEqual(corrected[1], -0.5, delta=1e-15)
        self.assertAlmostEqual(printed[1], -0.125, delta=1e-15)

    def test_noise_by_substitution(self):
        """Algorithm 2.1 with c = (2, 1): C times the rows is z for the correction alone."""
        c, z = [2.0, 1.0], [1.0, -3.0, 2.0, 5.0]
        for corrected in [True, False]:
            made = []
            for t, seed in enumerate(z):
                earlier = sum(c[s] * made[t - s] for s in range(1, min(t, len(c) - 1) + 1))
                made.append((seed - earlier) / c[0] if corrected else seed - earlier / c[0])
            back = [c[0] * made[t] + (c[1] * made[t - 1] if t else 0.0) for t in range(len(z))]
            self.assertEqual(all(math.isclose(x, y, abs_tol=1e-12) for x, y in zip(back, z)), corrected)

    def test_errors_of_a_blt(self):
        """Lemma 2.29 (b) and (c) against rows that are added up."""
        n, scale, decay = 9, [0.3, 0.2], [0.9, 0.4]
        pairs = [(i, j) for i in range(2) for j in range(2)]

        def gamma(x):
            return (1 - x ** n) / (1 - x)

        row, norms = 1.0, []
        for t in range(n):  # the entries of B are the sums of the first column of its inverse
            row -= sum(a * x ** (t - 1) for a, x in zip(scale, decay)) if t else 0.0
            norms.append((norms[-1] if t else 0.0) + row ** 2)

        one = [(n - gamma(x)) / (1 - x) for x in decay]
        both = {(i, j): (n - gamma(decay[i]) - gamma(decay[j]) + gamma(decay[i] * decay[j]))
                        / ((1 - decay[i]) * (1 - decay[j])) for i, j in pairs}
        squares = sum(scale[i] * scale[j] * both[i, j] for i, j in pairs)
        linear = sum(a * g for a, g in zip(scale, one))
        self.assertAlmostEqual(n - 2 * linear + squares, norms[-1], delta=1e-12)
        self.assertGreater(n + 2 * linear + squares, norms[-1] + 1)

        s = [1 - x + x / (1 - x) * (n - gamma(x)) for x in decay]
        cross = {(i, j): 1 - decay[i] * decay[j] + decay[i] * decay[j] / (1 - decay[i] * decay[j])
                         * (n - gamma(decay[i] * decay[j])) for i, j in pairs}
        hat = [1 + (n * (n - 1) / 2 - s[i]) / (1 - decay[i]) for i in range(2)]
        hats = {(i, j): 1 + (n * (n - 1) / 2 - s[i] - s[j] + cross[i, j]) / ((1 - decay[i]) * (1 - decay[j]))
                for i, j in pairs}
        corrected = (n * (n + 1) / 2 - 2 * sum(a * g for a, g in zip(scale, hat))
                     + sum(scale[i] * scale[j] * hats[i, j] for i, j in pairs))
        self.assertAlmostEqual(corrected, sum(norms), delta=1e-11)

    def test_a_restarted_mechanism(self):
        """Definition 3.18: blocks on the diagonal need the identity on the left."""
        c, one = toeplitz([1.0, 0.5], 2), toeplitz([1.0], 2)
        blocks = [[1, 0, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 1]]
        self.assertEqual(kronecker(one, c), blocks)
        self.assertNotEqual(kronecker(c, one), blocks)

    def test_table_2_2(self):
        full = self.json("evaluate", "--steps", "1024", "--family", "tree-full")
        self.assertAlmostEqual(full["max_loss"], 4.4383, delta=5e-5)
        self.assertAlmostEqual(self.json("evaluate", "--steps", "8", "--family", "tree-full")["max_loss"], 2.0095,
                               delta=5e-5)
        self.assertGreater(full["lower_bound"]["max_loss"], 2.96146)  # any mechanism; 2.958 is printed
        for steps, printed, rounded in [(128, 2.32, 2.3208), (256, 2.532, 2.5327)]:
            best = self.json("optimize", "--steps", str(steps), "--family", "dense", "--loss", "max")["max_loss"]
            self.assertAlmostEqual(best, rounded, delta=5e-5)
            self.assertGreater(best, printed + 0.0005)


class Others(Case):
    def test_the_fft_mechanism(self):
        """Choquette-Choo et al. 2023, Eq. 46 and Appendix J.1."""
        for n in [1, 2, 5, 16]:
            v = [1] * n + [0] * n
            direct = sum(abs(sum(x * cmath.exp(-1j * math.pi * k * a / n) for a, x in enumerate(v)))
                         for k in range(2 * n))

            def printed(last):
                return n + sum(1 / math.sin(math.pi * (2 * a + 1) / (2 * n)) for a in range(last + 1))

            self.assertAlmostEqual(printed(n - 1), direct, delta=1e-9)
            if n > 1:
                self.assertLess(printed((n - 1) // 2), direct - 1)
        for n, ratio, root in [(64, 1.56, 1.25), (2048, 1.35, 1.16)]:
            mse = self.json("evaluate", "--steps", str(n), "--family", "fft")["rms_loss"] ** 2
            bound = ((2 + math.log((2 * n + 1) / 3) + math.log(2 * n + 1) / (2 * n)) / math.pi) ** 2
            self.assertAlmostEqual(mse / bound, ratio, delta=0.005)
            self.assertAlmostEqual(math.sqrt(mse / bound), root, delta=0.005)

    def test_the_optimum_of_4096_steps(self):
        """Denisov et al. 2022, Table 2: 217.3, the Frobenius norm."""
        found = self.json("evaluate", "--steps", "4096", "--family", "identity")["lower_bound"]["rms_loss"] * 64
        self.assertAlmostEqual(found, 216.945, delta=5e-4)

    def test_the_tail_of_a_toeplitz_strategy(self):
        """McKenna 2024, Appendix I: errors of rows that share the coefficients y."""
        n, y = 4, [1.0, 1.0, 1.0, 1.0]
        rows = sum(sum(x * x for x in y[:t + 1]) for t in range(n)) / n
        self.assertEqual(rows, 2.5)
        self.assertEqual(rows, sum((n - i) * x * x for i, x in enumerate(y)) / n)
        self.assertEqual(sum(x * x for x in y) / n, 1.0)

    def test_the_page_has_what_is_computed(self):
        with open(ERRATA, encoding="utf-8") as file:
            page = file.read()
        for figure in ["2.0095", "4.4383", "2.9615", "2.3208", "2.5327", "1.56", "1.35", "216.945", "2 + 2√2"]:
            self.assertIn(figure, page)


if __name__ == "__main__":
    unittest.main()
