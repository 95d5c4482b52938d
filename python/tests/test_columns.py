# SPDX-License-Identifier: Apache-2.0
"""A mechanism for one column alone: its sensitivity is that of signs, and no stream of more columns takes it."""

import itertools
import unittest

import numpy as np
from support import KEY, Case

import dpmf
from dpmf import interchange

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None
try:
    import opacus
    from opacus.optimizers import DPOptimizer

    import dpmf.opacus
except ImportError:
    opacus = None
try:
    import jax.numpy

    import dpmf.jax
except ImportError:
    jax = None

# The signs of C'C are those of Choquette-Choo et al. 2023, Appendix H.2: signs move C u less far than vectors.
MATRIX = np.array([[0.2, 0, 0], [0.4, 0.45, 0], [0.25, -0.25, 0.5]])


def one_column(**options):
    options.setdefault("sigma", 1.25)
    return dpmf.evaluate(dpmf.Strategy.dense(MATRIX), participation="full", columns=1, **options)


class Columns(Case):
    def test_the_sensitivity_is_the_maximum_over_signs(self):
        best = max(np.linalg.norm(MATRIX @ signs) for signs in itertools.product((-1, 1), repeat=3))
        one, vectors = one_column(), dpmf.evaluate(dpmf.Strategy.dense(MATRIX), participation="full")
        self.assertEqual((one.sensitivity.columns, one.sensitivity.kind, vectors.sensitivity.columns), (1, "exact", None))
        np.testing.assert_allclose(one.sensitivity.value, best, rtol=1e-14)
        self.assertLess(one.sensitivity.value, 0.99 * vectors.sensitivity.value)
        self.assertEqual(one.to_dict()["sensitivity"]["columns"], 1)
        self.refused(dpmf.ArgumentError, "columns 2", dpmf.evaluate, "identity", 4, participation="full", columns=2)

    def test_streams_of_more_columns_refuse_it(self):
        path = self.folder / "one.dpmf"
        one_column(epsilon=1.0, delta=1e-6, sigma=None).save(path)
        for m in (one_column(), dpmf.load(path), dpmf.load(path).calibrate(2.0, 1e-6)):
            self.assertEqual(m.sensitivity.columns, 1)
            self.assertEqual(m.noise(1, 1.0, KEY).next().shape, (1,))
            for dim, options in itertools.product((2, 1000), ({}, {"dtype": "float64"}, {"offset": 1, "count": 1})):
                self.refused(dpmf.ArgumentError, "one column", m.noise, dim, 1.0, KEY, **options)
            self.refused(dpmf.ArgumentError, "one column", dpmf.NoiseStream, m, 2, 1.0, KEY, exact=True)
            self.refused(dpmf.ArgumentError, "one column", dpmf.Counter, m, columns=2)
            self.refused(dpmf.ArgumentError, "one column", interchange.jax_privacy_stddev, m, 1.0)
            self.assertEqual(dpmf.Counter(m, columns=1).columns, 1)
        self.assertIn("one column alone", dpmf.load(path).statement())
        self.assertEqual(dpmf.load(path).privacy().protected["columns"], 1)
        self.assertTrue(dpmf.load(path).verify().ok)

    def test_other_participations_are_accounted_for_one_column(self):
        m = one_column(epsilon=1.0, delta=1e-6, sigma=None)
        self.assertAlmostEqual(m.privacy_under("full").epsilon, 1.0, places=6)
        self.assertAlmostEqual(m.observed_privacy([5, 5, 5], [0, 1, 2]).epsilon, 1.0, places=6)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch_refuses_it(self):
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for clip in (1.0, dpmf.torch.AdaptiveClip(1.0)):
            with self.assertRaises(dpmf.Error) as caught:
                dpmf.torch.make_private(model, optimizer, one_column(), clip, 4, key=KEY, loss=torch.nn.functional.mse_loss)
            if clip == 1.0:
                self.assertIn("one column", str(caught.exception))

    @unittest.skipIf(opacus is None, "opacus is not installed")
    def test_opacus_refuses_it(self):
        inner = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=1.0)
        optimizer = DPOptimizer(inner, noise_multiplier=3.0, max_grad_norm=2.0, expected_batch_size=4)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(12, 1)), batch_size=4)
        self.refused(dpmf.ArgumentError, "one column", dpmf.opacus.attach, optimizer, one_column(), KEY, loader=loader)

    @unittest.skipIf(jax is None, "jax is not installed")
    def test_jax_refuses_it(self):
        self.refused(dpmf.ArgumentError, "one column", dpmf.jax.add_noise, one_column(), {"w": jax.numpy.zeros(2)}, 1.0, KEY)


if __name__ == "__main__":
    unittest.main()
