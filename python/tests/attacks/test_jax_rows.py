# SPDX-License-Identifier: Apache-2.0
"""Attacks by running twice under JAX: the same rows of noise over other sums."""

import logging
import unittest

import numpy as np
from story import KEY, Case, dpmf, mechanism

try:
    import jax
    import jax.numpy as jnp
    import optax

    import dpmf.jax
except ImportError:
    jax = None

STEPS = 5


@unittest.skipIf(jax is None, "jax is not installed")
class Rows(Case):
    def setUp(self):
        super().setUp()
        logging.disable(logging.ERROR)  # jax writes each exception of a callback to its log
        self.addCleanup(logging.disable, logging.NOTSET)
        self.params = {"w": jnp.zeros(4)}

    def run_once(self, optimizer, value, init=None):
        state, out = (init or optimizer.init)(self.params), []
        for _ in range(STEPS):
            updates, state = jax.jit(optimizer.update)({"w": jnp.full(4, value)}, state)
            out.append(-np.asarray(updates["w"]))
        return np.array(out)

    def test_a_second_run_of_one_transformation(self):
        """A script makes the optimizer once, and calls init for each seed or fold of the data.

        Before, every run began at row 0 of the same stream, also with key=None: the difference of what two runs released was
        the difference of their sums, exactly. Now a row is bound to the sum that it was used for, and the second run is refused
        at its first update; the same sums give the same bits, as XLA may ask for them more than once.
        """
        for key in (None, KEY):
            noise = dpmf.jax.add_noise(mechanism("toeplitz", STEPS), self.params, clip_norm=1.0, key=key)
            optimizer = optax.chain(noise, optax.sgd(1.0))
            first = self.run_once(optimizer, 0.1)
            np.testing.assert_array_equal(self.run_once(optimizer, 0.1), first)
            for init in (None, jax.jit(optimizer.init)):
                with self.assertRaises(Exception) as caught:
                    self.run_once(optimizer, 0.4, init)
                self.assertIn("was used for another sum", str(caught.exception))

    def test_two_transformations_with_new_keys(self):
        """What the message advises: a transformation for each run, whose noise is its own."""
        runs = []
        for value in (0.1, 0.4):
            noise = dpmf.jax.add_noise(mechanism("toeplitz", STEPS), self.params, clip_norm=1.0)
            runs.append(self.run_once(optax.chain(noise, optax.sgd(1.0)), value))
        self.assertGreater(np.abs(runs[1] - runs[0] - 0.3).min(axis=None), 1e-6)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
