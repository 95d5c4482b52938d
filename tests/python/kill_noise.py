# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments while `dpmf noise` streams with a state file.

    DPMF=build/dpmf python3 kill_noise.py [KILLS [SEED]]

After each kill the receiver has r whole rows and continues with row r. That must give the bits of a stream that was
never stopped; the row may be refused only if the program was killed between reserving it and writing it, and then
--replay must give it; a row before r must always be refused.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

DPMF = os.environ.get("DPMF", "dpmf")
STEPS, DIM = 4000, 33
ROW = 4 * DIM
LONGEST = 0.12  # seconds until a kill, at most: some come before the first row, some after hundreds


class Failure(Exception):
    pass


def reserved(state):
    """The reserved rows of the state file: the larger of its two records."""
    if not os.path.exists(state):
        return 0
    with open(state, "rb") as file:
        content = file.read()
    return max(struct.unpack_from("<Qqq", content, place)[1] for place in (512, 1024))


class Run:
    """One stream from row 0 to its end, after any number of kills."""

    def __init__(self, directory, mechanism):
        self.directory = directory
        self.state, self.received = os.path.join(directory, "state"), os.path.join(directory, "received")
        self.common = [DPMF, "noise", "--uncalibrated", mechanism, "--dim", str(DIM), "--testing-seed", "11", "--threads", "1"]
        # A state file before its first row: a ledger refuses the run. Its copies have the same noise, a new one has other noise.
        self.begun = os.path.join(directory, "begun")
        refused = [*self.common, "--rows", "0:1", "--state", self.begun, "--ledger", os.path.join(directory, "ledger")]
        if subprocess.run(refused, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            raise Failure("the ledger took a mechanism that is not calibrated")
        shutil.copy(self.begun, self.state)
        whole = subprocess.run([*self.common, "--rows", "0:%d" % STEPS, "--state", self.state], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=True)
        self.reference = whole.stdout
        self.replays = self.kills = 0
        self.begin()

    def begin(self):
        for path in (self.state, self.received):
            if os.path.exists(path):
                os.unlink(path)
        shutil.copy(self.begun, self.state)
        with open(self.received, "wb"):
            pass

    def command(self, first, last, *more):
        return [*self.common, "--state", self.state, "--rows", "%d:%d" % (first, last), *more]

    def rows(self):
        """Whole rows received so far; a part of one is thrown away, as a receiver would."""
        size = os.path.getsize(self.received)
        os.truncate(self.received, size - size % ROW)
        return size // ROW

    def refuse(self, first):
        done = subprocess.run(self.command(first, first + 1), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 2 or done.stdout:
            raise Failure("row %d was given again (%d)" % (first, done.returncode))

    def go_on(self, delay, *more):
        """Streams from the next row on and kills after `delay`; returns its stderr if it ended without a kill."""
        first = self.rows()
        with open(self.received, "ab") as out:
            child = subprocess.Popen(self.command(first, STEPS, *more), stdout=out, stderr=subprocess.PIPE)
            try:
                _, said = child.communicate(timeout=delay)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                self.kills += 1
                return None
        return child.returncode, said.decode()

    def step(self, generator):
        first = self.rows()
        if first > 0:
            self.refuse(generator.randrange(first))
        in_doubt = reserved(self.state) > first
        ended = self.go_on(generator.uniform(0, LONGEST))
        if ended is not None and ended[0] != 0:
            if not in_doubt or reserved(self.state) != first + 1 or "replay" not in ended[1]:
                raise Failure("row %d was refused: %s" % (first, ended[1]))
            self.replays += 1
            ended = self.go_on(generator.uniform(0, LONGEST), "--replay")
            if ended is not None and ended[0] != 0:
                raise Failure("row %d was refused with --replay: %s" % (first, ended[1]))
        elif in_doubt and self.rows() > first:
            raise Failure("row %d had been reserved and was given again" % first)
        self.check()

    def check(self):
        rows = self.rows()
        with open(self.received, "rb") as file:
            if file.read() != self.reference[:rows * ROW]:
                raise Failure("the first %d rows are not those of a stream that was never stopped" % rows)
        if not rows <= reserved(self.state) <= rows + 1:
            raise Failure("%d rows received and %d reserved" % (rows, reserved(self.state)))


def main(kills, seed):
    generator = random.Random(seed)
    finished = 0
    with tempfile.TemporaryDirectory() as directory:
        mechanism = os.path.join(directory, "mechanism")
        subprocess.run([DPMF, "evaluate", "--steps", str(STEPS), "--family", "bsr", "--bands", "4", "--bound", "none",
                        "-o", mechanism], stdout=subprocess.DEVNULL, check=True)
        run = Run(directory, mechanism)
        while run.kills < kills:
            run.step(generator)
            if run.rows() == STEPS:
                finished += 1
                run.begin()
        return "%d kills, %d rows in doubt replayed, %d streams finished" % (run.kills, run.replays, finished)


if __name__ == "__main__":
    started = time.monotonic()
    print(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 1),
          "(%.1f s)" % (time.monotonic() - started))
