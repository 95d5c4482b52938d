# SPDX-License-Identifier: Apache-2.0
"""Rows made on a device: the bits of the library, in every type, through the same calls."""

import os
import tempfile
import unittest

import numpy as np

import dpmf
from dpmf import device, errors

try:
    import torch
except ImportError:
    torch = None

CAUSES = ("libdpmf_device.so is neither", "no OpenCL library", "there are 0 OpenCL devices")


def open_or_skip():
    try:
        device.open_device("opencl")
    except errors.UnsupportedError as error:
        if not any(cause in str(error) for cause in CAUSES):
            raise
        raise unittest.SkipTest(str(error)) from None


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        open_or_skip()
        cls.mechanism = dpmf.optimize("tvblt", 12, buffers=3, sigma=1.0)

    def streams(self, count=1003, **options):
        arguments = self.mechanism, count, 1.0, dpmf.testing_key(4)
        return dpmf.NoiseStream(*arguments, **options), device.DeviceStream(*arguments, device="opencl", **options)

    def test_rows_are_those_of_the_library(self):
        own, other = self.streams()
        self.assertIn("device", repr(type(other)).lower())
        self.assertTrue(other.device)
        for t in range(12):
            self.assertEqual(other.step, t)
            np.testing.assert_array_equal(own.next(), other.next())
        with self.assertRaises(errors.ArgumentError):
            other.next()

    def test_arrays_in_segments_get_the_same_sums(self):
        own, other = self.streams([(3, 4), 7, (0,), 5])
        for _ in range(3):
            first = [np.ones((3, 4), np.float32), np.ones(7, np.float32), np.ones(0, np.float32), np.ones(5, np.float32)]
            second = [array.copy() for array in first]
            own.add_(first, 0.5)
            other.add_(second, 0.5)
            for a, b in zip(first, second):
                np.testing.assert_array_equal(a, b)

    def test_checkpoints_and_states_go_both_ways(self):
        with tempfile.TemporaryDirectory() as folder:
            own, other = self.streams()
            for _ in range(5):
                own.next()
            own.save(os.path.join(folder, "checkpoint"))
            other.load(os.path.join(folder, "checkpoint"))
            self.assertEqual(other.step, 5)
            np.testing.assert_array_equal(own.next(), other.next())
            third = self.streams()[0]
            third.load_state_dict(other.state_dict(buffers=True))
            np.testing.assert_array_equal(third.next(), other.next())
            own.load_state_dict(other.state_dict())
            np.testing.assert_array_equal(own.next(), other.next())

    def test_a_state_file_is_kept_and_binds_sums(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            other = device.DeviceStream(
                self.mechanism, 100, 1.0, dpmf.testing_key(4), device="opencl", state=path, replay=True
            )
            sums = np.ones(100, np.float32)
            other.add_(sums)
            other.seek(0)
            with self.assertRaisesRegex(errors.ArgumentError, "another sum"):
                other.add_(np.zeros(100, np.float32))
            again = np.ones(100, np.float32)
            other.add_(again)
            np.testing.assert_array_equal(again, sums)
            other.close()
            with self.assertRaises(errors.ClosedError):
                other.step

    def test_wrong_arrays_and_devices_are_refused(self):
        _, other = self.streams(10)
        with self.assertRaisesRegex(errors.ArgumentError, "float64"):
            other.add_(np.zeros(10))
        with self.assertRaisesRegex(errors.ArgumentError, "9 numbers"):
            other.add_(np.zeros(9, np.float32))
        with self.assertRaisesRegex(errors.ArgumentError, "metal"):
            device.DeviceStream(self.mechanism, 10, 1.0, device="metal")
        with self.assertRaisesRegex(errors.UnsupportedError, "float32"):
            device.DeviceStream(self.mechanism, 10, 1.0, device="opencl", dtype="float64")
        self.assertEqual(other.step, 0)


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        open_or_skip()
        cls.mechanism = dpmf.optimize("tvblt", 12, buffers=3, sigma=1.0)

    def test_tensors_of_every_type_get_rounded_sums(self):
        for kind in (torch.float32, torch.bfloat16, torch.float16):
            own = dpmf.NoiseStream(self.mechanism, 5000, 1.0, dpmf.testing_key(9))
            other = device.DeviceStream(self.mechanism, 5000, 1.0, dpmf.testing_key(9), device="opencl", prefetch=True)
            start = torch.randn(5000, generator=torch.Generator().manual_seed(1)).to(kind)
            for t in range(4):
                wanted, got = start.float(), start.clone()
                own.add_(wanted)
                if t % 2:
                    other.ahead()
                other.add_([got[:77], got[77:]])
                other.wait()
                self.assertTrue(torch.equal(got, wanted.to(kind)), kind)

    def test_training_gives_the_same_weights(self):
        import dpmf.torch

        weights = []
        for noise in ("host", "opencl"):
            torch.manual_seed(0)
            model = torch.nn.Linear(6, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            private = dpmf.torch.make_private(
                model, optimizer, self.mechanism, 1.0, 4, key=dpmf.testing_key(2), noise=noise
            )
            generator = torch.Generator().manual_seed(3)
            for t in range(5):
                x, y = torch.randn(4, 6, generator=generator), torch.randint(3, (4,), generator=generator)
                private.step(x, y, units=[4 * t, 4 * t + 1, 4 * t + 2, 4 * t + 3])
            weights.append(model.weight.detach().clone())
        self.assertTrue(torch.equal(*weights))


if __name__ == "__main__":
    unittest.main()
