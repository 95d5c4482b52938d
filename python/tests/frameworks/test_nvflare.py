# SPDX-License-Identifier: Apache-2.0
"""A run of NVFlare's own server and four clients, provisioned with certificates, with clients that fail and a server that dies.

NVFlare's server listens on all addresses and on fixed ports, so that all of it runs in a network of its own, where only
127.0.0.1 exists: in namespaces of an unprivileged user. Where the kernel allows none the test is skipped.
"""

import json
import shutil
import subprocess
import sys
import unittest

import numpy as np
from programs import Programs

import dpmf
from dpmf._federation import Federation

try:
    import nvflare
    import dpmf.nvflare
except ImportError as error:
    raise unittest.SkipTest("NVFlare is not installed: %s" % error)

#: Everything in it ends with its first process, and 127.0.0.1 is its only address.
APART = ["unshare", "-rnpf", "--mount-proc", "--kill-child"]
MECHANISM = dict(users=4, rounds=5, per_round=2, separation=2, epsilon=4.0, delta=1e-5, dim=6, families="toeplitz,identity")

CONTROLLER = """
import json, os, pathlib, signal
import numpy as np
import dpmf.nvflare
from dpmf import _federation

FOLDER = pathlib.Path(%(folder)r)

class Dying(dpmf.nvflare.CorrelatedNoise):
    def run(self):
        kept, add, ask = _federation.write_whole, _federation.Federation.add, _federation.Federation.ask

        def write(path, content):
            run = self._run
            if path.endswith(".model") and run._rounds is not None and run.rounds.round == 3 and not (FOLDER / "died").exists():
                (FOLDER / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)  # the row of round 2 is drawn, and the model is not kept
            kept(path, content)
        def asking(run, clients):
            with open(FOLDER / "asked", "a") as file:
                file.write(json.dumps([run.rounds.round, clients]) + "\\n")
            return ask(run, clients)
        def adding(run, client, arrays, whole=True):
            try:
                np.savez(FOLDER / ("answer-%%d-%%s" %% (run.rounds.round, client)), **arrays())
            except Exception:
                pass
            return add(run, client, arrays, whole)
        _federation.write_whole, _federation.Federation.add, _federation.Federation.ask = write, adding, asking
        super().run()
        os.replace(FOLDER / "result.new", FOLDER / "result.json")

    def _round(self, last):
        more = super()._round(last)
        (FOLDER / "result.new").write_text(json.dumps({"w": self._run.model["w"].tolist(), "figures": self._run.figures(),
                                                       "statement": self._run.rounds.statement()}))
        return more

    def _connected(self):
        return 2 * super()._connected() + ["site-1"]  # they come too often

    def info(self, message):
        super().info(message)
        with open(FOLDER / "info", "a") as file:
            file.write(message + "\\n")
"""

TRAINER = """
import os
import numpy as np
from nvflare.apis.executor import Executor
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

class Trainer(Executor):
    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        model = FLModelUtils.from_shareable(shareable, fl_ctx)
        part, w = int(fl_ctx.get_identity_name().split("-")[1]) - 1, model.params["w"]
        after = w + np.float32(0.05 * (part + 1)) - w / 4
        if part == 1:
            after = after * np.float32(np.nan)
        if part == 2:
            after = after + np.float32(1e6)
        if part == 3 and model.current_round >= 3:
            raise RuntimeError("this client is lost")
        return FLModelUtils.to_shareable(FLModel(params={"w": after}, metrics={"loss": 77.125}))
"""

STEPS = """
ip link set lo up
cd "$1"
nvflare poc prepare -n 4 --force >prepare.out 2>&1
nvflare poc start --timeout 60 >start.out 2>&1
nvflare job submit -j "$1/job" >job1.out 2>&1
until [ -e died ]; do sleep 0.2; done
nvflare job submit -j "$1/job" >job2.out 2>&1
until [ -e result.json ]; do sleep 0.2; done
"""


class NVFlare(Programs):
    def setUp(self):
        super().setUp()
        try:
            subprocess.run([*APART, "ip", "link", "set", "lo", "up"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest("a network of its own cannot be made here: %s" % error)

    def write_job(self):
        app = self.folder / "job" / "app"
        (app / "config").mkdir(parents=True)
        (app / "custom").mkdir()
        (self.folder / "job" / "meta.json").write_text(json.dumps(
            {"name": "private", "resource_spec": {}, "min_clients": 4, "deploy_map": {"app": ["@ALL"]}}))
        arguments = {"mechanism": str(self.folder / "run.dpmf"), "clip": 1.0, "cohort": 2, "key": str(self.folder / "key"),
                     "model": str(self.folder / "model.npz"), "timeout": 15, "wait": 3, "persistor_id": "",
                     "ledger": str(self.folder / "ledger.json")}
        common = {"format_version": 2, "components": [], "task_data_filters": [], "task_result_filters": []}
        (app / "config" / "config_fed_server.json").write_text(json.dumps(
            {**common, "workflows": [{"id": "controller", "path": "dying.Dying", "args": arguments}]}))
        (app / "config" / "config_fed_client.json").write_text(json.dumps(
            {**common, "executors": [{"tasks": ["train"], "executor": {"path": "trainer.Trainer", "args": {}}}]}))
        (app / "custom" / "dying.py").write_text(CONTROLLER % {"folder": str(self.folder)})
        (app / "custom" / "trainer.py").write_text(TRAINER)

    def test_a_run_with_bad_clients_and_a_server_that_dies(self):
        mechanism = dpmf.design(**MECHANISM)
        dpmf.save(mechanism, self.folder / "run.dpmf")
        np.savez(self.folder / "model.npz", w=np.zeros((2, 3), np.float32))
        first = Federation(mechanism, 1.0, 2, key=self.folder / "key")
        first.begin({"w": np.zeros((2, 3), np.float32)}, lambda mean: None, lambda arrays: None)
        first.close()
        copy = self.folder / "copy"
        copy.mkdir()
        for path in self.folder.glob("key*"):
            shutil.copy(path, copy)
        self.write_job()
        self.environment["NVFLARE_POC_WORKSPACE"] = str(self.folder / "poc")
        self.start("all", *APART, "bash", "-ec", STEPS, "steps", self.folder)
        self.wait_for("two jobs", (self.folder / "result.json").exists, 150)

        found = json.loads((self.folder / "result.json").read_text())
        info = (self.folder / "info").read_text()
        self.assertTrue((self.folder / "died").exists())
        self.assertNotIn("77.125", json.dumps(found))
        self.assertIn("round 5 of 5, epsilon = %.17g" % found["figures"]["epsilon"], info)
        self.assertIn("Privacy unit: one user", found["statement"])
        self.check_log(mechanism, self.folder / "key.log", found["figures"]["epsilon"])
        self.assertEqual([entry["what"] for entry in dpmf.Ledger(self.folder / "ledger.json").entries], ["nvflare"])
        self.assertFalse((self.folder / "key.pending").exists())

        asked = dict(json.loads(line) for line in (self.folder / "asked").read_text().splitlines())
        updates, sent = [], set()
        for at in range(5):
            answers = {}
            for client in asked[at]:
                path = self.folder / ("answer-%d-%s.npz" % (at, client))
                if path.exists():
                    answers[client] = dict(np.load(path))
                    sent.add(client)
            updates.append((asked[at], answers))
        self.assertTrue({"site-1", "site-2", "site-3"} <= sent, sent)
        lost = sum(len(clients) for clients, _ in updates) - sum(len(answers) for _, answers in updates)
        self.assertGreaterEqual(lost, 1)
        expected = self.replay(mechanism, copy / "key", updates, lambda run, mean: {"w": run.model["w"] + mean["w"]})
        self.assertEqual(np.array(found["w"], np.float32).tobytes(), expected.tobytes())
        self.assertLess(np.abs(expected).max(), 100)
        print("nvflare %s: %d asked, %d lost" % (nvflare.__version__, sum(len(a) for a, _ in updates), lost))


if __name__ == "__main__":
    unittest.main()
