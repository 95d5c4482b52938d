# SPDX-License-Identifier: Apache-2.0
"""Programs of a framework on 127.0.0.1, with an end in time; and what tests of several frameworks check."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import dpmf

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("DPMF", str(REPOSITORY / "build" / "dpmf"))


def end_with_parent():
    """Before a program begins: the kernel ends it when the test ends, even when that is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Programs(unittest.TestCase):
    """A folder, and processes that end with the test; each is the leader of a group, which holds its children."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dpmf-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = {**os.environ, "HOME": str(self.folder), "FLWR_HOME": str(self.folder / "flwr"),
                            "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1", "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]}

    def start(self, name, *command):
        log = open(self.folder / (name + ".out"), "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([str(one) for one in command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   env=self.environment, cwd=self.folder, start_new_session=True, preexec_fn=end_with_parent)
        self.addCleanup(self.stop, process)
        return process

    def stop(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def output(self, name):
        return (self.folder / (name + ".out")).read_text(errors="replace")

    def wait_for(self, what, condition, seconds):
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                self.fail("%s: not within %d s\n%s" % (what, seconds, self.outputs()))
            time.sleep(0.2)

    def outputs(self):
        return "\n".join("---- %s\n%s" % (path.name, path.read_text(errors="replace")[-2500:]) for path in sorted(self.folder.glob("*.out")))

    def check_log(self, mechanism, log, shown):
        """No client came too early or too often, and the epsilon that was printed is that of `dpmf account --log`."""
        rounds = {}
        for line in pathlib.Path(log).read_text().splitlines()[1:]:
            client, _, at = line.rpartition(",")
            rounds.setdefault(client, []).append(int(at))
        allowed = mechanism.participation
        for client, taken in rounds.items():
            self.assertLessEqual(len(taken), allowed.count, client)
            self.assertTrue(all(b - a >= allowed.separation for a, b in zip(sorted(taken), sorted(taken)[1:])), (client, taken))
        if not os.path.exists(PROGRAM):
            self.skipTest("there is no program dpmf to account for the log with")
        dpmf.save(mechanism, self.folder / "m.dpmf")
        done = subprocess.run([PROGRAM, "account", str(self.folder / "m.dpmf"), "--delta", repr(mechanism.delta), "--log", str(log), "--json"],
                              stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)["observed"]
        self.assertFalse(found["exceeds_design"])
        self.assertEqual(found["epsilon"], shown)
        return rounds

    def replay(self, mechanism, copy, updates, step):
        """The model that these updates give with the rows of the copied key and state: without a framework, and without a death."""
        from dpmf._federation import Federation

        run = Federation(mechanism, 1.0, 2, key=copy)
        run.begin({"w": np.zeros((2, 3), np.float32)}, lambda mean: (step(run, mean), {}), lambda arrays: None)
        for asked, answers in updates:
            run.ask(asked)
            for client, arrays in answers.items():
                run.add(client, lambda: arrays)
            run.close_round(lambda mean: (step(run, mean), {}))
        return run.model["w"]
