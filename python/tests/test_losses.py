# SPDX-License-Identifier: Apache-2.0
"""Losses by name and as functions of the squared errors."""

import unittest

import numpy as np
from support import Case

import dpmf


def lp4(squares):
    """(mean q^2)^(1/4) and its derivatives."""
    mean = np.mean(squares**2)
    return mean**0.25, mean**-0.75 * squares / (2 * len(squares))


def convex_lp4(squares):
    return lp4(squares)


convex_lp4.convex = True


class Losses(Case):
    def test_the_value_is_that_of_the_errors(self):
        for loss, wanted in (
            ("rms", lambda e: np.sqrt(np.mean(e**2))),
            ("max", np.max),
            ("lp:4", lambda e: np.mean(e**4) ** 0.25),
            ("lp:1", np.mean),
            ("last", lambda e: e[-1]),
            (lp4, lambda e: np.mean(e**4) ** 0.25),
        ):
            m = dpmf.evaluate("toeplitz", 30, participation="cyclic:3,10", loss=loss)
            np.testing.assert_allclose(m.loss, wanted(m.per_step_error), rtol=1e-12)
        self.assertIsNone(dpmf.load(self.saved()).loss)

    def saved(self):
        dpmf.evaluate("identity", 4).save(self.folder / "m.dpmf")
        return self.folder / "m.dpmf"

    def test_a_function_finds_the_optimum_of_the_name(self):
        for family, options in (("banded", {"bands": 4}), ("banded-toeplitz", {"bands": 4}), ("toeplitz", {})):
            named = dpmf.optimize(family, 20, loss="lp:4", **options)
            own = dpmf.optimize(family, 20, loss=lp4, **options)
            np.testing.assert_allclose(own.loss, named.loss, rtol=1e-6)
            self.assertLess(own.loss, dpmf.evaluate("identity", 20, loss=lp4).loss)
            self.assertIsNone(own.certificate.scope)
        proven = dpmf.optimize("banded", 20, loss=convex_lp4, bands=4)
        self.assertLessEqual(proven.certificate.optimum_lower, proven.loss)
        self.assertLess(proven.loss, proven.certificate.optimum_lower * (1 + 1e-5))

    def test_what_a_function_raises_is_raised(self):
        def fails(_squares):
            raise KeyError("mine")

        self.assertRaises(KeyError, dpmf.evaluate, "identity", 4, loss=fails)
        self.assertRaises(KeyError, dpmf.optimize, "banded", 8, loss=fails, bands=2)
        self.assertRaises(ValueError, dpmf.optimize, "banded", 8, loss=lambda q: (1.0, np.ones(3)), bands=2)
        self.refused(dpmf.ArgumentError, "not finite", dpmf.optimize, "banded", 8, loss=lambda q: (1.0, -q), bands=2)

    def test_designs_take_names_and_other_families_refuse(self):
        m = dpmf.design(steps=40, epochs=2, epsilon=1, delta=1e-6, loss="last", families=["toeplitz", "blt", "tvblt"])
        rows = [row for row in m.design.candidates if row.eligible]
        self.assertLessEqual(m.design.candidates[m.design.chosen].noise, 1.001 * min(row.noise for row in rows))
        self.refused(dpmf.UnsupportedError, "your own", dpmf.design, steps=40, epochs=2, epsilon=1, delta=1e-6, loss=lp4)
        self.refused(dpmf.UnsupportedError, "family blt", dpmf.optimize, "blt", 20, loss="lp:4", buffers=2)
        for wrong in ("lp", "own", "lp:x", "lp:0.5", "mean"):
            self.refused(dpmf.ArgumentError, "loss", dpmf.evaluate, "identity", 4, loss=wrong)


if __name__ == "__main__":
    unittest.main()
