# SPDX-License-Identifier: Apache-2.0
"""Strategies handed to jax_privacy answer impulses as here."""

import unittest

import numpy as np
from support import Case, mechanism

import dpmf
from dpmf import interchange

try:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax_privacy.matrix_factorization.toeplitz  # noqa: F401
except ImportError:
    jax = None


class Interchange(Case):
    def test_coefficients_handed_out_make_the_matrix(self):
        w = dpmf.Workload("prefix", 12)
        for s in (
            dpmf.Strategy("bsr", w, bands=4),
            dpmf.Strategy("toeplitz", w),
            mechanism("banded-toeplitz", 12).strategy,
            dpmf.Strategy("identity", w),
        ):
            c = np.zeros(12)
            found = interchange.toeplitz_coefficients(s)
            c[: len(found)] = found
            np.testing.assert_allclose(
                s.encoder(), [[c[t - u] if t >= u else 0.0 for u in range(12)] for t in range(12)], atol=1e-15
            )
        blt = mechanism("blt", 12)
        decay, scale = interchange.blt_parameters(blt)
        t = np.arange(1, 12)[:, None]
        np.testing.assert_allclose(blt.strategy.column(0)[1:], (scale * decay ** (t - 1)).sum(axis=1), rtol=1e-12)
        self.assertEqual(interchange.jax_privacy_stddev(blt, 2.0), 2.0 * 1.25 * blt.sensitivity.value)

    def test_strategies_without_coefficients_are_refused(self):
        w = dpmf.Workload("prefix", 12)
        for words, s in (
            ("normalized", dpmf.Strategy("bsr", w, bands=4).normalized()),
            ("tree", dpmf.Strategy("tree", w)),
            ("stamped", dpmf.Strategy.toeplitz(4, [1, 0.5]).stamped(3)),
            ("tvblt", mechanism("tvblt", 12)),
        ):
            self.refused(dpmf.UnsupportedError, words, interchange.toeplitz_coefficients, s)
        self.refused(dpmf.UnsupportedError, "not a BLT", interchange.blt_parameters, mechanism("bsr", 12))
        self.refused(dpmf.ArgumentError, "no sigma", interchange.jax_privacy_stddev, dpmf.evaluate("identity", 3), 1.0)

    @unittest.skipIf(jax is None, "jax_privacy is not installed")
    def test_jax_privacy_makes_the_same_matrix(self):
        w = dpmf.Workload("prefix", 40)
        for s in (
            dpmf.Strategy("bsr", w, bands=6),
            dpmf.Strategy("toeplitz", w),
            mechanism("banded-toeplitz", 40),
            mechanism("blt", 40),
        ):
            theirs = np.asarray(interchange.jax_privacy_noising_matrix(s).materialize(40))
            ours = (s.strategy if isinstance(s, dpmf.Mechanism) else s).decoder()
            np.testing.assert_allclose(theirs, ours, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
