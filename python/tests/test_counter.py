# SPDX-License-Identifier: Apache-2.0
"""Counters that are resumed: the same bits as one that never stopped, and as the program."""

import os
import shutil
import subprocess
import sys
import unittest

import numpy as np

import dpmf
from support import REPOSITORY, Case

PROGRAM = os.environ.get("DPMF", str(REPOSITORY / "build" / "dpmf"))
ROWS = np.random.default_rng(4).integers(0, 1000, size=(40, 3)).astype(float)


class Keyed(Case):
    def setUp(self):
        super().setUp()
        self.key = self.folder / "key"
        self.key.write_bytes(bytes(range(32)))
        self.key.chmod(0o600)

    def whole(self, m, **options):
        with dpmf.Counter(m, columns=3, key=bytes(range(32)), **options) as counter:
            return counter.extend(ROWS)


    def begun(self, m):
        """The same under a copy of the key's state file, which is made here and has counted nothing: its own noise."""
        dpmf.Counter(m, columns=3, key=self.key, state_now=True).close()
        shutil.copy(str(self.key) + ".state", self.folder / "whole.state")
        return self.whole(m, state=self.folder / "whole.state")


class Resumed(Keyed):
    def test_counters_in_turn_give_the_sums_of_one(self):
        for family, workload in [("toeplitz", "prefix"), ("identity", "prefix"), ("toeplitz", "momentum:0.5")]:
            m = dpmf.evaluate(family, 40, workload, sigma=1.5)
            expected, deviations = self.begun(m)
            self.assertFalse(np.array_equal(expected, self.whole(m)[0]))
            found, at = [], 0
            for rows in (1, 9, 2, 28):
                with dpmf.Counter(m, columns=3, key=self.key) as counter:
                    self.assertEqual(counter.step, at)
                    sums, bars = counter.extend(ROWS[at : at + rows])
                    np.testing.assert_array_equal(bars, deviations[at : at + rows])
                    found.append(sums)
                    at += rows
            np.testing.assert_array_equal(np.concatenate(found), expected)
            os.remove(str(self.key) + ".state")

    def test_the_last_answer_is_had_again(self):
        m = dpmf.evaluate("toeplitz", 40, sigma=1.0)
        with dpmf.Counter(m, columns=3, key=self.key) as counter:
            self.assertIsNone(counter.last)
            counter.add(ROWS[0])
            sums, bars = counter.extend(ROWS[1:4])
        with dpmf.Counter(m, columns=3, key=self.key) as counter:
            np.testing.assert_array_equal(counter.last[0], sums)
            np.testing.assert_array_equal(counter.last[1], bars)

    def test_a_killed_program_loses_nothing(self):
        m = dpmf.evaluate("toeplitz", 40, sigma=1.0)
        m.save(self.folder / "m")
        np.save(self.folder / "rows.npy", ROWS)
        code = (
            "import dpmf, numpy, os, signal, sys\n"
            "rows = numpy.load('rows.npy')\n"
            "counter = dpmf.Counter(dpmf.load('m'), columns=3, key='key')\n"
            "counter.add(rows[counter.step])\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        expected, _ = self.begun(m)
        for t in range(4):
            done = subprocess.run([sys.executable, "-c", code], cwd=self.folder, check=False)
            self.assertEqual(done.returncode, -9)
            with dpmf.Counter(m, columns=3, key=self.key) as counter:
                self.assertEqual(counter.step, t + 1)
                np.testing.assert_array_equal(counter.last[0][0], expected[t])

    def test_sums_are_those_of_one_row_at_a_time(self):
        m = dpmf.evaluate("toeplitz", 40, sigma=1.0)
        expected, bars = self.whole(m)
        with dpmf.Counter(m, columns=3, key=bytes(range(32))) as counter:
            for t in range(40):
                sums, bar = counter.add(ROWS[t])
                np.testing.assert_array_equal(sums, expected[t])
                self.assertEqual((bar, counter.deviation(t)), (bars[t], bars[t]))

    def test_rows_of_one_unit_are_clipped(self):
        m = dpmf.evaluate("identity", 4, sigma=1.0)
        with dpmf.Counter(m, clip=2.0, key=dpmf.testing_key(7), clip_rows=True) as cut:
            with dpmf.Counter(m, clip=2.0, key=dpmf.testing_key(7)) as plain:
                np.testing.assert_array_equal(cut.extend([5, -9, 1, 2])[0], plain.extend([2, -2, 1, 2])[0])

    def test_shapes_that_do_not_fit_are_refused(self):
        m = dpmf.evaluate("identity", 4, sigma=1.0)
        counter = dpmf.Counter(m, columns=3)
        for rows in (ROWS[:2, :2], ROWS[0], ROWS[:2].reshape(1, 2, 3)):
            self.refused(dpmf.ArgumentError, "accepted", counter.extend, rows)
        self.refused(dpmf.ArgumentError, "finite", counter.extend, [[1, 2, np.nan]])
        self.refused(dpmf.ArgumentError, "4 steps", counter.extend, ROWS[:5])
        self.assertEqual(counter.step, 0)
        self.assertEqual(counter.extend(np.empty((0, 3)))[0].shape, (0, 3))
        self.refused(dpmf.ArgumentError, "state without a key", dpmf.Counter, m, state=self.folder / "s")


@unittest.skipUnless(os.path.exists(PROGRAM), "there is no program to compare with: DPMF names one")
class Program(Keyed):
    def test_the_program_and_the_package_take_turns(self):
        """One state file: the program counts, the package goes on, and the program after it; the same bits as one."""
        m = dpmf.evaluate("toeplitz", 40, sigma=1.0)
        m.save(self.folder / "m")
        asked = [PROGRAM, "count", "m", "--columns", "3", "--key-file", "key", "--input", "rest"]

        def program(first, last):
            text = "".join("%d %d %d\n" % tuple(row) for row in ROWS[first:last])
            out = subprocess.run(asked, input=text.encode(), cwd=self.folder, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, check=True).stdout.decode()
            return [line.split()[:3] for line in out.splitlines()]

        expected, _ = self.begun(m)
        words = program(0, 10)
        with dpmf.Counter(m, columns=3, key=self.key) as counter:
            self.assertEqual((counter.step, counter.last), (10, None))
            between = counter.extend(ROWS[10:20])[0]
        words += [None] * 10 + program(20, 40)
        np.testing.assert_array_equal(between, expected[10:20])
        for found, sums in zip(words, expected):
            if found is not None:
                places = [len(word.partition(".")[2]) for word in found]
                self.assertEqual(found, ["%.*f" % (p, x) for p, x in zip(places, sums)])


if __name__ == "__main__":
    unittest.main()
