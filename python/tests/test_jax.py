# SPDX-License-Identifier: Apache-2.0
"""The optax transformation: the library's rows, their law against jax_privacy's, jit, resuming, state files."""

import gc
import logging
import unittest

import numpy as np
from support import KEY, Case, mechanism

import dpmf
from dpmf import interchange

try:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    import optax

    import dpmf.jax
except ImportError:
    jax = None

try:
    import jax_privacy.matrix_factorization.toeplitz  # noqa: F401
except ImportError:
    jax_privacy = None

STEPS, WIDTH = 12, 20000


def tree(width=6):
    return {"a": jnp.zeros((2, width // 2), jnp.float32), "b": jnp.zeros(3, jnp.float32)}


def flat(updates):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree_util.tree_leaves(updates)])


def run(transformation, params, first=0, last=STEPS, state=None, sums=None):
    state = transformation.init(params) if state is None else state
    step, out = jax.jit(transformation.update), []
    for _ in range(first, last):
        updates, state = step(params if sums is None else sums, state)
        out.append(flat(updates))
    return np.stack(out), state


@unittest.skipIf(jax is None, "jax is not installed")
class Jax(Case):
    def setUp(self):
        super().setUp()
        # jax writes each exception of a callback to its log: here they are the refusals that the tests ask for.
        logging.disable(logging.ERROR)
        self.addCleanup(logging.disable, logging.NOTSET)

    @unittest.skipIf(jax is None or jax_privacy is None, "jax_privacy is not installed")
    def test_the_law_is_that_of_jax_privacy(self):
        """Banded Toeplitz and BLT: the covariance over steps that jax_privacy's noising matrix gives; false alarm 1e-9."""
        for name in ("banded-toeplitz", "blt"):
            m = mechanism(name, STEPS)
            params = {"w": jnp.zeros(WIDTH, jnp.float32)}
            x, _ = run(dpmf.jax.add_noise(m, params, 2.0, KEY), params)
            w = np.asarray(interchange.jax_privacy_noising_matrix(m).materialize(STEPS))
            w = w * interchange.jax_privacy_stddev(m, 2.0)
            wanted, found = w @ w.T, x.astype(float) @ x.T.astype(float) / WIDTH
            spread = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / WIDTH)
            self.assertLess(np.max(np.abs(found - wanted) / spread), 6.5, name)

    def test_rows_are_those_of_the_stream(self):
        m, params = mechanism("tvblt", STEPS), tree()
        x, _ = run(dpmf.jax.add_noise(m, params, 0.5, KEY), params)
        stream = m.noise(9, 0.5, KEY)
        self.assertEqual(x.tobytes(), np.stack([stream.next() for _ in range(STEPS)]).tobytes())
        sums = jax.tree_util.tree_map(lambda leaf: leaf + 3.0, params)
        y, _ = run(dpmf.jax.add_noise(m, params, 0.5, KEY, expected_batch=4), params, sums=sums)
        np.testing.assert_allclose(y, (3.0 + x) / 4, rtol=1e-6)

    def test_a_restored_state_goes_on(self):
        m, params = mechanism("bsr", STEPS), tree()
        whole, _ = run(dpmf.jax.add_noise(m, params, 0.5, KEY), params)
        first, state = run(dpmf.jax.add_noise(m, params, 0.5, KEY), params, last=5)
        saved = jax.tree_util.tree_map(np.asarray, state)
        second, _ = run(dpmf.jax.add_noise(m, params, 0.5, KEY), params, first=5, state=saved)
        self.assertEqual(whole.tobytes(), np.concatenate([first, second]).tobytes())

    def test_a_step_is_its_row_in_a_scan_and_twice(self):
        m, params = mechanism("bsr", STEPS), tree()
        whole, _ = run(dpmf.jax.add_noise(m, params, 0.5, KEY), params)
        transformation = dpmf.jax.add_noise(m, params, 0.5, KEY)

        def body(state, _):
            once, after = transformation.update(params, state)
            again, _ = transformation.update(params, state)
            return after, (once, again)

        _, (once, again) = jax.lax.scan(body, transformation.init(params), None, length=STEPS)
        for found in (once, again):
            rows = np.concatenate([np.reshape(leaf, (STEPS, -1)) for leaf in jax.tree_util.tree_leaves(found)], axis=1)
            self.assertEqual(whole.tobytes(), np.ascontiguousarray(rows).tobytes())

    def test_it_chains_with_an_optimizer(self):
        m, params = mechanism("bsr", STEPS), tree()
        optimizer = optax.chain(dpmf.jax.add_noise(m, params, 0.5, KEY), optax.sgd(0.1, momentum=0.9))
        x, _ = run(optimizer, params, last=2)
        stream = m.noise(9, 0.5, KEY)
        one, two = stream.next(), stream.next()
        np.testing.assert_allclose(x, [-0.1 * one, -0.1 * (two + 0.9 * one)], rtol=1e-4, atol=1e-6)

    def test_a_state_file_refuses_another_sum(self):
        m, params, path = mechanism("bsr", STEPS), tree(), self.folder / "run.state"
        other = jax.tree_util.tree_map(lambda leaf: leaf + 1.0, params)
        found = []
        for _ in range(2):
            found.append(run(dpmf.jax.add_noise(m, params, 0.5, KEY, state=path), params, last=3)[0].tobytes())
            jax.clear_caches()  # what was compiled holds the stream, and a state file has one
            gc.collect()
        self.assertEqual(*found)
        with self.assertRaises(Exception) as caught:
            run(dpmf.jax.add_noise(m, params, 0.5, KEY, state=path), params, last=1, sums=other)
        self.assertIn("sum", str(caught.exception))

    def test_what_is_refused(self):
        m, params, make = mechanism("identity", 2), tree(), dpmf.jax.add_noise
        self.refused(dpmf.ArgumentError, "mechanism", make, 3, params, 0.5)
        self.refused(dpmf.ArgumentError, "sigma", make, dpmf.evaluate("identity", 5), params, 0.5)
        self.refused(dpmf.ArgumentError, "clip_norm", make, m, params, "1")
        self.refused(dpmf.ArgumentError, "expected_batch", make, m, params, 0.5, expected_batch=0)
        self.refused(dpmf.ArgumentError, "params", make, m, {}, 0.5)
        made = make(m, params, 0.5, KEY)
        self.refused(dpmf.ArgumentError, "updates", made.update, {"a": jnp.zeros(3)}, made.init(params))
        with self.assertRaises(Exception) as caught:
            run(made, params, last=3)
        self.assertIn("2 steps", str(caught.exception).replace("0 to 2", "2 steps"))


if __name__ == "__main__":
    unittest.main()
