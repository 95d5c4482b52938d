# SPDX-License-Identifier: Apache-2.0
"""Hostile environments: disks that are full, streams that are closed, links, directories that cannot be written, any DPMF_KERNELS. A run that cannot be completed reports it in one line, leaves no incomplete file and no unrecorded row, and keeps the files that were there before.

A full disk is a limit on the size of files (RLIMIT_FSIZE, whose signal is ignored): writes then fail in the middle of a file,
wherever it is, as root and as anybody.
"""
import fcntl
import os
import resource
import signal
import stat
import subprocess
import unittest

from common import DPMF, Case

ROWS = "".join("%d,%d,%d\n" % (i % 5, i % 3, i % 2) for i in range(40))


def full_disk(size):
    """For preexec_fn: no file may grow beyond `size` bytes."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class Environment(Case):
    def setUp(self):
        super().setUp()
        self.mechanism = self.path("m")
        self.ok("design", "--steps", 8, "--epochs", 2, "--epsilon", 2, "--delta", 1e-5, "--families", "bsr,banded-toeplitz",
                "-o", self.mechanism)
        self.data = self.write("train.csv", "a,b,label\n" + ROWS)
        self.numbers = self.write("numbers", "".join("%d\n" % i for i in range(8)))
        self.single = self.path("single")
        self.ok("evaluate", "--steps", 8, "--family", "toeplitz", "--epsilon", 2, "--delta", 1e-5, "-o", self.single)

    def commands(self):
        """(what it writes, the command, its standard input): each verb that writes a file, in each of its ways."""
        train = ["train", "--data", self.data, "--test-data", self.data, "--model", "softmax", "--batch", 10, "--epochs", 2,
                 "--epsilon", 4, "--delta", 1e-5, "--family", "identity"]
        count = ["count", self.single]
        return [
            ("design", ["design", "--steps", 8, "--epochs", 1, "--epsilon", 1, "--delta", 1e-5, "--families", "bsr",
                        "-o", "{}"], None),
            ("evaluate", ["evaluate", "--steps", 8, "--family", "toeplitz", "-o", "{}"], None),
            ("calibrate", ["calibrate", self.mechanism, "--epsilon", 1, "--delta", 1e-6, "-o", "{}"], None),
            ("rows", ["noise", self.mechanism, "--dim", 100, "--rows", "0:4", "--out", "{}"], None),
            ("key", ["noise", self.mechanism, "--dim", 1, "--rows", "0:2", "--key-file", "{}", "--state", "none"], None),
            ("state", ["noise", self.mechanism, "--dim", 1, "--rows", "0:2", "--testing-seed", 1, "--state", "{}"], None),
            ("sums", count + ["--testing-seed", 1, "--out", "{}"], self.numbers),
            ("counter", count + ["--testing-seed", 1, "--state", "{}", "--out", self.path("sums.out")], self.numbers),
            ("weights", train + ["--testing-seed", 1, "--out", "{}"], None),
            ("checkpoint", train + ["--testing-seed", 1, "--checkpoint", "{}", "--state", self.path("t.state")], None),
            ("report", ["report", self.mechanism, "-o", "{}"], None),
            ("audit", ["audit", self.mechanism, "--canaries", 50, "-o", "{}"], None),
        ]

    def test_a_kill_leaves_no_file(self):
        """kill -9 in the middle of a mechanism file left a hidden part of it, which stayed for ever. A file has no name until it is whole;
        what a kill leaves between its two names, or on a file system where names come first, the next program that writes the same file
        removes, and nothing of a living program."""
        place = self.path("killed")
        os.mkdir(place)
        command = [DPMF, "evaluate", "--family", "toeplitz", "--steps", "1000000", "--bound", "none", "-o", os.path.join(place, "m")]
        for _ in range(3):
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while child.poll() is None and not os.listdir(place):
                pass
            child.kill()
            child.wait()
            self.assertTrue(os.listdir(place))
            command[command.index("1000000")] = "8"
            self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL).returncode, 0)
            self.assertEqual(os.listdir(place), ["m"])
            os.remove(os.path.join(place, "m"))
            command[command.index("8")] = "1000000"
        self.write("killed/.m.dpmf-00ff.tmp", b"of a dead program")
        with open(os.path.join(place, ".m.dpmf-11ff.tmp"), "wb") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            command[command.index("1000000")] = "8"
            self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL).returncode, 0)
            self.assertEqual(sorted(os.listdir(place)), [".m.dpmf-11ff.tmp", "m"])

    def start(self, command, given, place, **options):
        """(exit code, stderr)"""
        with open(given or os.devnull, "rb") as stdin:
            done = subprocess.run([DPMF, *[place if word == "{}" else str(word) for word in command]], stdin=stdin,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)
        return done.returncode, done.stderr.decode()

    def check_message(self, name, code, err):
        self.assertEqual(code, 1, (name, err))
        last = err.splitlines()[-1] if err else ""
        self.assertTrue(last.startswith("dpmf: "), (name, err))
        self.assertNotIn("Sanitizer", err)

    def test_all_of_them_work_otherwise(self):
        for name, command, given in self.commands():
            code, err = self.start(command, given, self.path("new-" + name))
            self.assertEqual(code, 0, (name, err))
            self.assertTrue(os.path.getsize(self.path("new-" + name)) > 0, name)

    def test_a_full_disk_leaves_no_half_of_a_file(self):
        for name, command, given in self.commands():
            for size in (0, 16):
                folder = self.path("full-%s-%d" % (name, size))
                os.mkdir(folder)
                place = os.path.join(folder, "new")
                code, err = self.start(command, given, place, preexec_fn=full_disk(size))
                self.check_message(name, code, err)
                self.assertEqual(os.listdir(folder), [], (name, size))
                if os.path.exists(self.path("sums.out")):  # no row was released that no state has recorded
                    self.assertEqual(os.path.getsize(self.path("sums.out")), 0)
                    os.unlink(self.path("sums.out"))
                if os.path.exists(self.path("t.state")):
                    os.unlink(self.path("t.state"))

    def test_a_full_disk_leaves_what_was_there(self):
        for name, command, given in self.commands():
            if name in ("key", "state", "counter", "checkpoint"):
                continue  # these are read first, and refused
            place = self.write("old-" + name, "what was there")
            code, err = self.start(command, given, place, preexec_fn=full_disk(8))
            self.check_message(name, code, err)
            with open(place, encoding="utf-8") as file:
                self.assertEqual(file.read(), "what was there", name)

    def test_a_directory_that_takes_no_files_is_refused(self):
        for name, command, given in self.commands():
            code, err = self.start(command, given, "/proc/self/new")
            self.check_message(name, code, err)

    def test_standard_output_that_is_full_or_closed_is_said(self):
        for command in (["evaluate", self.mechanism], ["inspect", self.mechanism], ["verify", self.mechanism],
                        ["audit", self.mechanism, "--canaries", "50"], ["account", "--sigma", "1", "--delta", "1e-5"],
                        ["noise", self.mechanism, "--dim", "1", "--rows", "0:2"], ["help"],
                        ["query", self.numbers, "--mechanism", self.single, "--range", "1:2"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([DPMF, *command], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
            self.check_message(command[0], done.returncode, done.stderr.decode())
            done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', DPMF, *command], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
            self.check_message(command[0], done.returncode, done.stderr.decode())

    def test_a_link_is_replaced_and_what_it_leads_to_stays(self):
        target = self.write("target", "somebody else's")
        for name, command, given in self.commands():
            if name in ("key", "state", "counter", "checkpoint", "sums"):
                continue
            link = self.path("link-" + name)
            os.symlink(target, link)
            code, err = self.start(command, given, link)
            self.assertEqual(code, 0, (name, err))
            with open(target, encoding="utf-8") as file:
                self.assertEqual(file.read(), "somebody else's", name)
            self.assertTrue(stat.S_ISREG(os.lstat(link).st_mode), name)

    def test_a_link_that_leads_nowhere_makes_no_key_and_no_state(self):
        for name, command, given in self.commands():
            if name not in ("key", "state", "counter"):
                continue
            link, nowhere = self.path("dangling-" + name), self.path("nowhere-" + name)
            os.symlink(nowhere, link)
            code, err = self.start(command, given, link)
            self.check_message(name, code, err)
            self.assertFalse(os.path.exists(nowhere), name)

    def test_any_value_of_dpmf_kernels_gives_the_same_numbers(self):
        command = [DPMF, "noise", self.mechanism, "--dim", "50", "--rows", "0:3", "--testing-seed", "1"]
        found = set()
        for value in (None, "ref", "avx2", "avx512", "", "AVX2", "x" * 100000, "../../etc", "ref\n", "%s%n"):
            environment = {key: word for key, word in os.environ.items() if key != "DPMF_KERNELS"}
            if value is not None:
                environment["DPMF_KERNELS"] = value
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            found.add(done.stdout)
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
