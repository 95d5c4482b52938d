# SPDX-License-Identifier: Apache-2.0
"""Samplers: the library's batches, held against the mechanism, and resumed."""

import unittest

import numpy as np
from support import KEY, Case, mechanism

import dpmf

ALL = (
    "cyclic:10",
    "shuffled:10",
    "poisson:0.1",
    "block-cyclic:0.05,10",
    "balls-in-bins:10",
    "min-sep:0.1,5",
    "scheduled:5,3,10",
    "allocation:3,10",
    "fixed:10,100",
    "poisson:0.1,cap:8",
    "min-sep:0.1,5,cap:8",
)


class Samplers(Case):
    def test_batches_rise_and_come_again_after_a_seek(self):
        for what in ALL:
            sampler = dpmf.Sampler(what, 100, 40, KEY)
            batches = list(sampler)
            self.assertEqual(len(batches), 40)
            for batch in batches:
                self.assertTrue(np.all(np.diff(batch) > 0) and np.all((batch >= 0) & (batch < 100)))
                self.assertLessEqual(len(batch), sampler.capacity)
            self.assertRaises(dpmf.ArgumentError, sampler.next)
            again = dpmf.Sampler(what, 100, 40, KEY)
            again.seek(25) if not what.startswith("scheduled") else [again.next() for _ in range(25)]
            for batch in batches[25:]:
                np.testing.assert_array_equal(again.next(), batch)

    def test_a_state_goes_on_with_the_same_batches(self):
        for what in ALL:
            first = dpmf.Sampler(what, 100, 40, KEY)
            [first.next() for _ in range(9)]
            second = dpmf.Sampler(what, 100, 40, KEY)
            second.load_state_dict(first.state_dict())
            self.assertEqual(second.step, 9)
            np.testing.assert_array_equal(second.next(), first.next())
            other = dpmf.Sampler(what, 100, 40, dpmf.testing_key(8))
            self.assertRaises(dpmf.Error, other.load_state_dict, first.state_dict())
            self.assertRaises(dpmf.StateError, other.load_state_dict, {})

    def test_only_offered_units_are_taken(self):
        sampler = dpmf.Sampler("scheduled:3,2,4", 50, 10, KEY)
        self.assertLessEqual(set(sampler.offer(np.arange(20, 30))), set(range(20, 30)))

    def test_a_sampler_is_held_against_the_mechanism(self):
        m = mechanism("bsr", 40, participation="cyclic:4,10")
        dpmf.Sampler("cyclic:10", 100, 40, KEY, mechanism=m)
        self.assertRaises(dpmf.ArgumentError, dpmf.Sampler, "poisson:0.1", 100, 40, KEY, mechanism=m)
        self.assertRaises(dpmf.ArgumentError, dpmf.Sampler, "shuffled:10", 100, 40, KEY, mechanism=m)

    def test_capped_batches_have_one_length_and_a_mask(self):
        sampler = dpmf.Sampler("poisson:0.1", 100, 40, KEY, cap=8)
        plain = dpmf.Sampler("poisson:0.1,cap:8:100", 100, 40, KEY)
        self.assertEqual((sampler.capacity, sampler.sampling), (8, "poisson:0.1,cap:8:100"))
        full = 0
        for _ in range(40):
            indices, mask = sampler.padded()
            self.assertEqual((indices.shape, mask.shape), ((8,), (8,)))
            np.testing.assert_array_equal(indices[mask], plain.next())
            self.assertTrue(np.all(indices[~mask] == 0))
            full += mask.all()
        self.assertTrue(0 < full < 40)
        self.assertLess(sampler.expected_batch, 8)
        self.assertRaises(dpmf.Error, dpmf.Sampler, "balls-in-bins:10", 100, 40, KEY, cap=8)

    def test_a_capped_loader_is_refused_by_a_mechanism_without_a_cap(self):
        m = mechanism("identity", 40, sampling="poisson:0.1", participation="full")
        dpmf.Sampler("poisson:0.1", 100, 40, KEY, mechanism=m)
        self.refused(
            dpmf.ArgumentError, "the guarantee would not hold", dpmf.Sampler, "poisson:0.1", 100, 40, KEY, None, m, 20
        )
        capped = mechanism("identity", 40, sampling="poisson:0.1,cap:20:100", participation="full")
        dpmf.Sampler("poisson:0.1", 100, 40, KEY, mechanism=capped, cap=20)
        self.assertRaises(dpmf.ArgumentError, dpmf.Sampler, "poisson:0.1", 100, 40, KEY, mechanism=capped)
        self.assertRaises(dpmf.ArgumentError, dpmf.Sampler, "poisson:0.1", 100, 40, KEY, mechanism=capped, cap=19)

    def test_bad_samplers_and_keys_are_refused(self):
        self.assertRaises(dpmf.ArgumentError, dpmf.Sampler, "sometimes", 100, 40, KEY)
        self.refused(dpmf.ArgumentError, "3 bytes, accepted: 32", dpmf.Sampler, "cyclic:10", 100, 40, b"abc")
        sampler = dpmf.Sampler("cyclic:10", 100, 40)
        self.refused(dpmf.StateError, "key", sampler.state_dict)
        sampler.close()
        self.assertRaises(dpmf.ClosedError, sampler.next)


if __name__ == "__main__":
    unittest.main()
