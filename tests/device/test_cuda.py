#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA as far as it goes without a GPU: the kernel compiled for two, and the back end over a driver that runs on the processor."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DPMF_SOURCE"])
TESTS = pathlib.Path(os.environ["DPMF_DEVICE_TESTS"])
sys.path.insert(0, str(SOURCE / "bench" / "device"))

import count  # noqa: E402

NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
LOAD = 'asm("ld.shared.u32 %0, [%1];" : "=r"(found) : "r"(s * (4u * DPMF_COPIES) + table));'
EMULATED_LOAD = "found = *(const word *)(shared_base + s * (4u * DPMF_COPIES) + table);"


@unittest.skipIf(shutil.which(NVCC) is None, "there is no nvcc here")
class Compiled(unittest.TestCase):
    def test_nothing_is_spilled_or_fused(self):
        for architecture in ("sm_80", "sm_90"):
            with self.subTest(architecture), tempfile.TemporaryDirectory() as folder:
                _, report = count.compile_kernel(NVCC, architecture, folder)
                registers, spilled = count.registers_and_spills(report)
                self.assertEqual(spilled, 0)
                self.assertLessEqual(registers, 128)  # two groups of 256 threads on a multiprocessor at least
                self.assertEqual(count.fused_in_ptx(NVCC, architecture, folder), 0)

    def test_a_number_takes_the_instructions_that_the_documentation_says(self):
        """Within a quarter, since compilers differ."""
        parts = count.count_parts(NVCC, "sm_80")
        self.assertAlmostEqual(parts["AES"].instructions, 238, delta=60)
        self.assertAlmostEqual(parts["AES"].loads, 55, delta=2)  # 16 look-ups in each of 14 rounds, for four numbers
        self.assertAlmostEqual(parts["normals"].instructions, 35, delta=9)


@unittest.skipIf(shutil.which("g++") is None, "there is no g++ here")
class OnTheProcessor(unittest.TestCase):
    """The back end's calls, in the order and with the arguments that a driver gets, and the kernel's CUDA form."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        place = pathlib.Path(cls.folder.name)
        kernel = SOURCE / "src" / "device" / "kernel"
        text = "".join((kernel / name).read_text(encoding="utf-8") for name in ("portable.cl", "rows.cl"))
        if text.count(LOAD) != 1:
            raise AssertionError("the load from shared memory is not where it was")
        (place / "emulated.cu").write_text(text.replace(LOAD, EMULATED_LOAD), encoding="utf-8")
        command = ["g++", "-std=c++17", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC",
                   "-I", str(place), str(SOURCE / "tests" / "device" / "mock_cuda.cpp"), "-o", str(place / "libcuda.so.1")]
        subprocess.run(command, check=True)
        (place / "libnvrtc.so").symlink_to(place / "libcuda.so.1")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_test(self, name):
        environment = {**os.environ, "LD_LIBRARY_PATH": self.folder.name, "DPMF_TEST_DEVICE": "cuda"}
        done = subprocess.run([str(TESTS / name)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("SKIPPED", done.stdout)

    def test_rows_have_the_bits_of_the_library(self):
        self.run_test("test_device_rows")

    def test_states_and_checkpoints_are_the_library_s(self):
        self.run_test("test_device_state")


if __name__ == "__main__":
    unittest.main()
