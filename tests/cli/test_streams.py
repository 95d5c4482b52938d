# SPDX-License-Identifier: Apache-2.0
"""stdout that cannot be written, streams that are closed, signals, and the progress line."""
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from harness import DPMF, Case

BASE = ["evaluate", "--steps", "9", "--family", "toeplitz"]
LONG = ["evaluate", "--steps", "1e6", "--family", "toeplitz", "--normalize", "after"]  # many minutes of work
PATIENCE = 120  # seconds before a test gives up; no result depends on it


def start(arguments, **options):
    """Starts the program with the signals of a foreground job, even if this test runs in the background."""
    def defaults():
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            signal.signal(number, signal.SIG_DFL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([DPMF, *arguments], stdin=subprocess.DEVNULL, preexec_fn=defaults, **options)


class Stdout(Case):
    def cannot_write(self, child):
        err = child.stderr.read().decode()
        child.stderr.close()
        self.assertEqual(child.wait(PATIENCE), 1)
        self.assertTrue(err.startswith("dpmf: cannot write to standard output"), err)
        self.assertEqual(err.count("\n"), 1)

    def test_a_full_disk_is_said(self):
        for arguments in [BASE, [*BASE, "--json"], ["help"], ["--version"], ["evaluate", "--help"], ["help", "--format", "man"],
                          ["help", "--format", "bash"]]:
            with open("/dev/full", "wb") as full:
                self.cannot_write(start(arguments, stdout=full))

    def test_a_closed_pipe_is_said(self):
        for arguments in [BASE, [*BASE, "--json"], ["help"], ["--version"]]:
            reader, writer = os.pipe()
            os.close(reader)
            child = start(arguments, stdout=writer)
            os.close(writer)
            self.cannot_write(child)

    def test_a_reader_that_stops_is_said(self):
        child = start(["evaluate", "--steps", "1e5", "--family", "identity", "--json", "--per-step"])
        child.stdout.read(10)
        child.stdout.close()
        self.cannot_write(child)

    def test_without_stdout_the_file_is_still_whole(self):
        out = self.path("m")
        child = subprocess.Popen(["sh", "-c", 'exec "$@" >&-', "sh", DPMF, *BASE, "-o", out], stderr=subprocess.PIPE)
        self.cannot_write(child)
        with open(out, "rb") as file:  # whole, and without a table in it
            self.assertNotIn(b"RMS loss", file.read())
        self.ok("inspect", out)

    def test_without_stderr_the_exit_code_is_the_same(self):
        out = self.path("m")
        for arguments, code in [([*BASE, "-o", out], 0), (["evaluate"], 2)]:
            done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", DPMF, *arguments], stdout=subprocess.PIPE)
            self.assertEqual(done.returncode, code)
        self.ok("inspect", out)


class Signals(Case):
    def interrupted(self, number):
        """Interrupts long work once its progress line is on the terminal; returns all that the terminal saw."""
        terminal, side = pty.openpty()
        child = start([*LONG, "-o", self.path("m")], stderr=side)
        os.close(side)
        seen = b""
        sent = False
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the terminal's other side is closed: the program has ended
                break
            seen += piece
            if not sent and b"%" in seen:
                child.send_signal(number)
                sent = True
        os.close(terminal)
        if child.poll() is None and not sent:
            child.kill()
        out = child.stdout.read()
        child.stdout.close()
        self.assertEqual(child.wait(PATIENCE), 130, seen)
        self.assertEqual(out, b"")
        self.assertEqual(self.left_behind(), [])
        return seen.decode()

    def wait_for_handler(self, child):
        """Waits until the program has taken over SIGINT; before that it would simply be killed."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            with open("/proc/%d/status" % child.pid, encoding="ascii") as file:
                caught = [line.split()[1] for line in file if line.startswith("SigCgt:")]
            if int(caught[0], 16) >> (signal.SIGINT - 1) & 1:
                return
            time.sleep(0.01)

    def test_an_interrupt_clears_the_progress(self):
        seen = self.interrupted(signal.SIGINT)
        self.assertRegex(seen, r"\r\x1b\[K[#.]{30} +\d+% \w+")
        self.assertTrue(seen.endswith("\r\x1b[Kdpmf: cancelled\r\n"), repr(seen))

    def test_a_terminate_ends_it_too(self):
        self.interrupted(signal.SIGTERM)

    def test_short_work_shows_no_progress_without_a_terminal(self):
        child = start(LONG)
        self.wait_for_handler(child)
        time.sleep(1.5)  # long enough for a bar, which a terminal would get; a log gets a line after ten seconds
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE)
        self.assertEqual((child.returncode, out, err), (130, b"", b"dpmf: cancelled\n"))

    def test_an_interrupt_ends_the_wait_for_a_file(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        child = start(["evaluate", "--steps", "9", "--family", "toeplitz", "--parameters", pipe])
        self.wait_for_handler(child)
        with open(pipe, "wb"):  # opens once the program has opened its side, and then reads
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=PATIENCE)
        self.assertEqual((child.returncode, out, err), (130, b"", b"dpmf: cancelled\n"))


if __name__ == "__main__":
    unittest.main()
