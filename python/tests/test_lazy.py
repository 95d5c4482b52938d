# SPDX-License-Identifier: Apache-2.0
"""Noise that is drawn when rows are read: nothing leaves before a flush, and a run that is resumed repeats its flushes."""

import copy
import pickle
import unittest

import numpy as np
from support import KEY, Case, mechanism

import dpmf

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None

ROWS, WIDTH = 60, 5


def lazy(key=KEY, **options):
    return dpmf.LazyNoise(mechanism("blt"), ROWS, WIDTH, 1.0, key, **options)


def steps(noise, table, first, last, other=0):
    for t in range(first, last):
        rows = [t % ROWS, (7 * t + other) % ROWS]
        noise.touch_(table, rows)
        table[rows] -= np.float32(0.1)
        noise.next(-0.5)


class Tables(Case):
    def test_every_number_has_its_noise_after_a_flush(self):
        with lazy() as noise:
            table = np.zeros((ROWS, WIDTH), np.float32)
            steps(noise, table, 0, 4)
            self.assertTrue(noise.pending)
            self.assertEqual((noise.step, noise.flushed, noise.flushes), (4, 0, 0))
            self.assertTrue((table[50] == 0).all())
            noise.flush_(table)
            self.assertFalse(noise.pending)
            self.assertTrue((table != 0).all())
            self.assertIn("flushed=4", repr(noise))
        with self.assertRaises(dpmf.ClosedError):
            noise.flush_(table)

    def test_independent_noise_has_its_size(self):
        m = dpmf.evaluate("identity", 9, sigma=2.0)
        table = np.zeros((4000, 25))
        with dpmf.LazyNoise(m, 4000, 25, 3.0, KEY, dtype="float64") as noise:
            for _ in range(9):
                noise.next(0.5)
            noise.flush_(table)
            wanted = 9 * (0.5 * noise.scale) ** 2
        # chi-squared of 1e5 degrees of freedom: beyond 6.5 deviations in fewer than one of 1e9 runs, and the key is fixed
        self.assertLess(abs((table**2).sum() / wanted - table.size), 6.5 * np.sqrt(2 * table.size))
        self.assertAlmostEqual(noise.clip_norm, 3.0)

    def test_a_save_without_a_flush_is_refused(self):
        noise, table = lazy(), np.zeros((ROWS, WIDTH), np.float32)
        steps(noise, table, 0, 2)
        with self.assertRaisesRegex(dpmf.ArgumentError, "the noise of 2 steps has not been flushed"):
            noise.save(self.folder / "noise")
        self.assertFalse((self.folder / "noise").exists())

    def test_a_resumed_run_repeats_its_flushes_and_another_gets_none(self):
        key = self.folder / "run.key"
        table, noise = np.zeros((ROWS, WIDTH), np.float32), lazy(key)
        steps(noise, table, 0, 3)
        noise.flush_(table)
        noise.save(self.folder / "noise")
        held = table.copy()
        steps(noise, table, 3, 8)
        noise.flush_(table)
        noise.close()
        for other in (0, 1):
            again = held.copy()
            with lazy(key, replay=True) as noise:
                noise.load(self.folder / "noise")
                steps(noise, again, 3, 8, other)
                if other:
                    with self.assertRaisesRegex(dpmf.ArgumentError, "with another history"):
                        noise.flush_(again)
                else:
                    noise.flush_(again)
                    self.assertEqual(again.tobytes(), table.tobytes())
        with lazy(key) as noise, self.assertRaisesRegex(dpmf.ArgumentError, "state file 2"):
            noise.next(1.0)

    def test_what_cannot_be_lazy_is_refused_with_the_reason(self):
        with self.assertRaisesRegex(dpmf.UnsupportedError, "keeps 19 rows, accepted: up to 16"):
            dpmf.LazyNoise(dpmf.evaluate("toeplitz", 20, sigma=1.0), ROWS, WIDTH, 1.0, KEY)
        with self.assertRaisesRegex(dpmf.UnsupportedError, "uses seeds of other steps again"):
            dpmf.LazyNoise(dpmf.evaluate("fft", 20, sigma=1.0), ROWS, WIDTH, 1.0, KEY)
        noise, table = lazy(), np.zeros((ROWS, WIDTH), np.float32)
        for bad in (table.T, table[:, :4], table.astype(np.float64)):
            with self.assertRaises(dpmf.ArgumentError):
                noise.touch_(bad, [1])
        with self.assertRaisesRegex(dpmf.ArgumentError, "row 60 of the table"):
            noise.touch_(table, [60])
        with self.assertRaises(dpmf.ArgumentError):
            noise.touch_(table, [0.5])
        with self.assertRaises(dpmf.ArgumentTypeError):
            noise.next("1")


@unittest.skipIf(torch is None, "torch is not installed")
class Embeddings(Case):
    def embedding(self, **options):
        torch.manual_seed(1)
        m = dpmf.evaluate("blt-rational", 20, sigma=1.0)
        return dpmf.torch.SparseEmbedding(torch.nn.Embedding(ROWS, WIDTH), m, 1.0, KEY, **options)

    def one_step(self, table, ids):
        vectors = table(ids)
        vectors.square().sum().backward()
        table.step(ids, vectors.grad, 0.1)

    def test_a_forgotten_flush_is_refused(self):
        table = self.embedding()
        model = torch.nn.Sequential(table, torch.nn.Linear(WIDTH, 2))
        ids = torch.tensor([3, 9, 3])
        model.state_dict()
        self.one_step(table, ids)
        for way in (model.state_dict, model.eval, lambda: table.weight, lambda: table.save_noise(self.folder / "noise")):
            with self.assertRaisesRegex((dpmf.StateError, dpmf.ArgumentError), "flush"):
                way()
        with torch.no_grad(), self.assertRaisesRegex(dpmf.StateError, "misses the noise of 1 steps"):
            model(ids)
        model.train()
        table.flush()
        for way in (model.state_dict, model.eval, lambda: table.weight, lambda: table.save_noise(self.folder / "noise")):
            way()
        with torch.no_grad():
            model(ids)

    def test_copies_and_pickles_are_refused(self):
        table = self.embedding()
        for way in (lambda: copy.deepcopy(table), lambda: pickle.dumps(table), lambda: torch.save(table, self.folder / "table")):
            with self.assertRaisesRegex(dpmf.UnsupportedError, "state_dict"):
                way()

    def test_what_was_saved_does_not_change_with_later_steps(self):
        table = self.embedding()
        before, weight = table.state_dict(), table.weight
        held = weight.clone()
        self.one_step(table, torch.tensor([3, 9]))
        self.assertTrue(torch.equal(before["weight"], held) and torch.equal(weight, held))

    def test_without_noise_to_speak_of_it_is_sgd(self):
        m, plain = dpmf.evaluate("blt-rational", 20, sigma=1e-9), torch.nn.Embedding(ROWS, WIDTH, dtype=torch.float64)
        table = dpmf.torch.SparseEmbedding(plain, m, 1.0, KEY)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        for t in range(20):
            ids = torch.tensor([t, 3, 3, 59 - t])
            self.one_step(table, ids)
            optimizer.zero_grad()
            plain(ids).square().sum().backward()
            optimizer.step()
        table.flush()
        self.assertLess(float((table.weight - plain.weight.detach()).abs().max()), 1e-5)

    def test_the_noise_is_in_rows_that_no_step_read(self):
        table = self.embedding()
        before = table.weight
        for _ in range(3):
            self.one_step(table, torch.tensor([1]))
        table.flush()
        self.assertTrue(bool((table.weight != before).all()))

    def test_a_run_is_resumed_from_state_dict_and_noise(self):
        options = {"state": self.folder / "state", "replay": True}
        table = self.embedding(**options)
        self.one_step(table, torch.tensor([1, 2]))
        table.flush()
        table.save_noise(self.folder / "noise")
        saved = table.state_dict()
        self.one_step(table, torch.tensor([2, 5]))
        table.flush()
        wanted = table.weight
        table.noise.close()
        table = self.embedding(**options)
        table.load_state_dict(saved)
        table.load_noise(self.folder / "noise")
        self.one_step(table, torch.tensor([2, 5]))
        table.flush()
        self.assertTrue(torch.equal(table.weight, wanted))

    def test_noise_that_float32_would_round_away_is_refused(self):
        m = dpmf.evaluate("identity", 200, sigma=1.0)
        ids, sums = torch.tensor([0]), torch.ones(1, 20)
        table = dpmf.torch.SparseEmbedding(torch.ones(1, 20), m, 1.0, KEY)
        with self.assertRaisesRegex(dpmf.ArgumentError, "float64 table"):
            table.step(ids, sums, 8e-9)
        self.assertEqual((table.noise.step, table.pending), (0, False))
        table.step(ids, sums, 1e-5)
        table = dpmf.torch.SparseEmbedding(torch.ones(1, 20, dtype=torch.float64), m, 1.0, KEY)
        for _ in range(200):
            table(ids)
            table.step(ids, 0 * sums, 8e-9)
        table.flush()
        self.assertGreater(float((table.weight - 1).std()), 0.5 * 8e-9 * 200**0.5)

    def test_loading_forgets_no_noise_that_is_pending(self):
        table = self.embedding()
        table.save_noise(self.folder / "noise")
        self.one_step(table, torch.tensor([1]))
        with self.assertRaisesRegex(dpmf.ArgumentError, "1 steps has not been flushed"):
            table.load_noise(self.folder / "noise")
        with self.assertRaises(dpmf.StateError):
            table.state_dict()
        table.flush()
        table.load_noise(self.folder / "noise")
        self.assertEqual((table.noise.step, table.pending), (0, False))

    def test_make_private_and_unfit_embeddings_are_refused(self):
        m = dpmf.evaluate("blt-rational", 20, sigma=1.0)
        model = torch.nn.Sequential(self.embedding(), torch.nn.Linear(WIDTH, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertRaisesRegex(dpmf.UnsupportedError, "SparseEmbedding"):
            dpmf.torch.make_private(model, optimizer, m, 1.0, expected_batch=4)
        with self.assertRaisesRegex(dpmf.UnsupportedError, "max_norm"):
            dpmf.torch.SparseEmbedding(torch.nn.Embedding(ROWS, WIDTH, max_norm=1.0), m, 1.0, KEY)
        with self.assertRaises(dpmf.ArgumentError):
            dpmf.torch.SparseEmbedding(torch.zeros(3), m, 1.0, KEY)
        table = self.embedding()
        with self.assertRaisesRegex(dpmf.UnsupportedError, "torch.func"):
            torch.func.vmap(table)(torch.tensor([[1], [2]]))
        with self.assertRaises(dpmf.ArgumentError):
            table.step(torch.tensor([1]), torch.zeros(1, WIDTH + 1), 0.1)
        with self.assertRaises(dpmf.ArgumentError):
            table.step(torch.tensor([ROWS]), torch.zeros(1, WIDTH), 0.1)
        self.assertEqual(table.noise.step, 0)


if __name__ == "__main__":
    unittest.main()
