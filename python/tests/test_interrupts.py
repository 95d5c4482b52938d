# SPDX-License-Identifier: Apache-2.0
"""An interrupt in the middle of a long call is a KeyboardInterrupt, and a handler of the caller's own is heard."""

import os
import signal
import threading
import unittest

from support import KEY, Case, mechanism

import dpmf


class Interrupts(Case):
    def test_long_calls_are_interrupted(self):
        """The signal comes while the library is at work: in its first report of progress."""
        said = []

        def press(what, done):
            said.append(what)
            os.kill(os.getpid(), signal.SIGINT)

        strategy = dpmf.evaluate("bsr", 1000, bands=50).strategy
        before = signal.getsignal(signal.SIGINT)
        for name, call in (
            ("banded", lambda: dpmf.optimize("banded", 300, bands=16, progress=press)),
            ("banded-toeplitz", lambda: dpmf.optimize("banded-toeplitz", 20000, bands=500, progress=press)),
            ("tree", lambda: dpmf.evaluate("tree", 3000, participation="min-sep:20,100", progress=press)),
            (
                "account",
                lambda: dpmf.account(
                    0.8, delta=1e-6, sampling="balls-in-bins:100", of=strategy, samples=10**8, progress=press
                ),
            ),
            ("design", lambda: dpmf.design(500, 5, 1.0, 1e-6, progress=press)),
        ):
            said.clear()
            with self.assertRaises(KeyboardInterrupt, msg=name) as caught:
                call()
            self.assertEqual(len(said), 1, name)
            self.assertIsNone(caught.exception.__cause__)
            self.assertIs(signal.getsignal(signal.SIGINT), before)
        self.assertEqual(mechanism("bsr").steps, 20)  # nothing is left over for the next call

    def test_verify_asks_often(self):
        """At every column of W C, the longest part of it, and of the products of columns: an interrupt waits for one of them."""
        for family, pattern, wanted in (
            ("toeplitz", "min-sep:4,20", ("verify: W C",)),
            ("bsr", "min-sep:4,20", ("verify: W C", "verify: products of columns")),
        ):
            said = []
            m = mechanism(family, 100, participation=pattern)
            m.verify(progress=lambda what, done: said.append(what))
            for name in wanted:
                self.assertGreaterEqual(said.count(name), 100, (family, name))

    def test_seeking_is_interrupted(self):
        """Two thousand million numbers: it is under way for long enough."""
        stream = mechanism("bsr", 200000, lower_bound="none").noise(20000, 1.0, KEY)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            stream.seek(100000)
        timer.join()

    def test_counting_is_interrupted(self):
        """Every row takes all seeds before it: it is under way for long enough. The counter has ended, half way."""
        counter = dpmf.Counter(mechanism("toeplitz", 30000, lower_bound="none"), key=KEY)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            counter.extend([1.0] * 30000)
        timer.join()
        with self.assertRaisesRegex(dpmf.Error, "has ended"):
            counter.add(1.0)

    def test_a_handler_of_the_callers_own(self):
        """One that notes the signal and goes on, one that raises something else, and a process that ignores it."""
        before, heard = signal.getsignal(signal.SIGINT), []

        def press(what, done):
            os.kill(os.getpid(), signal.SIGINT)

        def refuse(number, frame):
            raise LookupError("mine")

        try:
            signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
            self.assertEqual(dpmf.evaluate("tree", 500, participation="min-sep:5,50", progress=press).steps, 500)
            self.assertGreater(len(heard), 0)
            signal.signal(signal.SIGINT, refuse)
            self.refused(
                LookupError, "mine", dpmf.evaluate, "tree", 500, participation="min-sep:5,50", progress=press
            )
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.assertEqual(dpmf.evaluate("tree", 500, participation="min-sep:5,50", progress=press).steps, 500)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_other_threads(self):
        """What a callback raises in another thread is raised there, and nowhere else."""
        found = []

        def fail(what, done):
            raise LookupError("in a thread")

        def work():
            try:
                dpmf.evaluate("tree", 500, participation="min-sep:5,50", progress=fail)
            except LookupError as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(found, ["in a thread"])
        self.assertEqual(mechanism("bsr").steps, 20)


if __name__ == "__main__":
    unittest.main()
