# SPDX-License-Identifier: Apache-2.0
"""A run of Flower's own SuperLink and four SuperNodes on 127.0.0.1, with clients that fail in every way and a server that dies."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import types
import unittest

import federation
import numpy as np
from programs import REPOSITORY, Programs, free_port

import dpmf
from dpmf._federation import Federation

try:
    import flwr
    from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
    from flwr.serverapp import strategy as strategies

    import dpmf.flower
except ImportError as error:
    raise unittest.SkipTest("Flower is not installed: %s" % error)

MECHANISM = dict(users=4, rounds=5, per_round=2, separation=2, epsilon=4.0, delta=1e-5, dim=6, families="toeplitz,identity")

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "app"
version = "1.0.0"
description = ""
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "test"
[tool.flwr.app.components]
serverapp = "app.server:app"
clientapp = "app.client:app"
[tool.flwr.app.config]
dies = ""
"""

# The inner strategy asks every client in every round, which the wrapper does not allow it. Answers are recorded for the test.
SERVER = """
import json, os, pathlib, signal
import numpy as np
import dpmf, dpmf.flower
from dpmf import _federation, federated
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

FOLDER = pathlib.Path(%(folder)r)
app = ServerApp()

class Greedy(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        config["server-round"] = server_round
        record = RecordDict({"arrays": arrays, "config": config})
        return [Message(content=record, message_type="train", dst_node_id=node) for node in 2 * list(grid._grid.get_node_ids())]

def die(at, moment, rounds):
    if at == "%%s:%%d" %% (moment, rounds.round):
        (FOLDER / ("died-" + moment)).touch()
        os.kill(os.getpid(), signal.SIGKILL)

@app.main()
def main(grid, context):
    at, kept, finish = context.run_config["dies"], _federation.write_whole, federated.Rounds.finish
    add, ask = _federation.Federation.add, _federation.Federation.ask
    mechanism = dpmf.load(str(FOLDER / "run.dpmf"))
    strategy = dpmf.flower.CorrelatedNoise(Greedy(), mechanism, 1.0, 2, key=str(FOLDER / "key"), wait=float(%(wait)r),
                                           ledger=dpmf.Ledger(str(FOLDER / "ledger.json")))
    run = strategy._run

    def write(path, content):
        if path.endswith(".model") and run._rounds is not None:
            die(at, "row-drawn", run.rounds)
        kept(path, content)
    def finishing(rounds):
        die(at, "sum-kept", rounds)
        return finish(rounds)
    def asking(self, clients):
        with open(FOLDER / "asked", "a") as file:
            file.write(json.dumps([self.rounds.round, clients]) + "\\n")
        return ask(self, clients)
    def adding(self, client, arrays, whole=True):
        try:
            np.savez(FOLDER / ("answer-%%d-%%s" %% (self.rounds.round, client)), **arrays())
        except ValueError:
            pass
        return add(self, client, arrays, whole)
    _federation.write_whole, federated.Rounds.finish = write, finishing
    _federation.Federation.add, _federation.Federation.ask = adding, asking
    result = strategy.start(grid, ArrayRecord({"w": Array(np.zeros((2, 3), np.float32))}), timeout=%(timeout)r)
    figures = {at: dict(found) for at, found in result.train_metrics_clientapp.items()}
    (FOLDER / "result.json").write_text(json.dumps({"figures": figures, "w": result.arrays["w"].numpy().tolist(),
                                                    "statement": strategy.statement()}))
    strategy.close()
"""

CLIENT = """
import os, pathlib, signal
import numpy as np
import dpmf.flower
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

FOLDER = pathlib.Path(%(folder)r)
app = ClientApp(mods=[dpmf.flower.clipping_mod])
bare = ClientApp()

def train(message, context):
    part, at = int(context.node_config["part"]), message.content["config"]["server-round"]
    (FOLDER / ("part-%%d" %% context.node_id)).write_text(str(part))
    w = message.content["arrays"]["w"].numpy()
    after = w + np.float32(0.05 * (part + 1)) - w / 4
    if part == 1:
        after = after * np.float32(np.nan)
    if part == 2:
        after = after + np.float32(1e6)
    if part == 3 and at >= 3:
        os.kill(int((FOLDER / "pid-3").read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    metrics = MetricRecord({"num-examples": 10 ** part, "loss": 77.125})
    return Message(RecordDict({"arrays": ArrayRecord({"w": Array(after.astype(np.float32))}), "metrics": metrics}), reply_to=message)

@app.train()
def clipped(message, context):
    reply = train(message, context)
    return reply
"""

CONFIG = """
[superlink]
default = "here"
[superlink.here]
address = "127.0.0.1:%d"
insecure = true
"""


class Here:
    """A grid whose clients are functions in this process."""

    def __init__(self, train, nodes=(11, 12, 13, 14)):
        self.train, self.nodes = train, nodes

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, timeout=None):
        found = [self.train(message) for message in messages]
        return [reply for reply in found if reply is not None for _ in range(2)]  # every client answers twice


def identify():
    """What Flower's own programs do before an app begins."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError as error:
        raise unittest.SkipTest("this version of Flower makes messages otherwise: %s" % error)
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1


class Strategies(unittest.TestCase):
    """The strategies that the page names, in one process."""

    def setUp(self):
        identify()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dpmf-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.mechanism = dpmf.evaluate("toeplitz", 6, participation="min-sep:3,2", epsilon=4.0, delta=1e-5, unit="user")
        self.initial = {"w": np.zeros((2, 2), np.float32), "n": np.array(3), "b": np.zeros(1, np.float32)}

    def answer(self, message):
        node, model = message.metadata.dst_node_id, dpmf.flower.to_numpy(message.content["arrays"])
        if node == 14:
            return None
        bad = {11: 0.1, 12: 1e6, 13: np.nan}[node]
        arrays = dpmf.flower.to_record({name: (one + bad).astype(one.dtype) if one.dtype.kind == "f" else one + 1 for name, one in model.items()})
        return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 7, "loss": 77.125})}), reply_to=message)

    def run_to(self, folder, inner, rounds=None):
        strategy = dpmf.flower.CorrelatedNoise(inner(), self.mechanism, 1.0, 2, key=folder / "key", wait=0)
        result = strategy.start(Here(self.answer), dpmf.flower.to_record(self.initial), rounds)
        strategy.close()
        return result

    def test_each_strategy_resumes_with_the_same_bits(self):
        for inner in (strategies.FedAvg, lambda: strategies.FedAvgM(server_momentum=0.9), lambda: strategies.FedProx(proximal_mu=0.1),
                      strategies.FedAdam, strategies.FedAdagrad, strategies.FedYogi):
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            first = Federation(self.mechanism, 1.0, 2, key=folder / "key")
            first.begin(self.initial, lambda mean: None, lambda arrays: None)
            first.close()
            shutil.copytree(folder, self.folder / (folder.name + "-other"))
            other = self.folder / (folder.name + "-other")
            whole = self.run_to(folder, inner)
            for last in (1, 3, 6):
                parts = self.run_to(other, inner, last)
            bits = [{name: one.numpy().tobytes() for name, one in found.arrays.items()} for found in (whole, parts)]
            self.assertEqual(bits[0], bits[1])
            self.assertEqual(int(whole.arrays["n"].numpy()), 3)  # whole numbers are not trained
            self.assertEqual(sorted(whole.train_metrics_clientapp), [1, 2, 3, 4, 5, 6])
            self.assertEqual({name for found in whole.train_metrics_clientapp.values() for name in found}, {"round", "rounds", "epsilon", "delta"})

    def test_nodes_are_clients_by_their_lasting_ids(self):
        """Two nodes of one client, and a stranger: the client is asked once, in its rounds, and the stranger never."""
        names = {11: "ada", 12: "ada", 13: "bob", 14: "cy", 15: "dan"}
        asked = []

        def train(message):
            asked.append((int(message.content["config"]["server-round"]), names[message.metadata.dst_node_id]))
            return self.hostile("honest", message)

        strategy = dpmf.flower.CorrelatedNoise(strategies.FedAvg(), self.mechanism, 1.0, 2, key=self.folder / "key", wait=0, client_of=names.get)
        strategy.start(Here(train, range(11, 17)), dpmf.flower.to_record(self.initial))
        strategy.close()
        self.assertEqual(sorted(asked), sorted({(at, name) for at, name in asked}))
        self.assertEqual({name: sum(name == other for _, other in asked) for name in names.values()}, dict.fromkeys(names.values(), 3))
        self.assertNotIn("16", (self.folder / "key.log").read_text())

    def test_strategies_that_see_single_clients_are_refused(self):
        from flwr.server.strategy import FedAvg as Older

        noisy = strategies.DifferentialPrivacyServerSideFixedClipping(strategies.FedAvg(), 1.0, 1.0, 2)
        cases = [(strategies.Krum(), "Krum"), (strategies.FedMedian(), "FedMedian"), (strategies.QFedAvg(client_learning_rate=0.1), "QFedAvg"), (noisy, "not be counted"),
                 (Older(), "random client")]
        for inner, words in cases:
            with self.assertRaises(dpmf.Error) as caught:
                dpmf.flower.CorrelatedNoise(inner, self.mechanism, 1.0, 2, key=self.folder / "key")
            self.assertIn(words, str(caught.exception))

    def test_the_mod_clips_and_keeps_metrics(self):
        arrays = dpmf.flower.to_record(self.initial)
        config = ConfigRecord({dpmf.flower.CLIP: 0.5})
        message = Message(RecordDict({"arrays": arrays, "config": config}), dst_node_id=12, message_type="train")
        reply = dpmf.flower.clipping_mod(message, None, lambda given, context: self.answer(given))
        model = dpmf.flower.to_numpy(reply.content["arrays"])
        self.assertAlmostEqual(np.sqrt((model["w"] ** 2).sum() + (model["b"] ** 2).sum()), 0.5, places=6)
        self.assertEqual(dict(reply.content["metrics"]), {"num-examples": 1})

    def hostile(self, kind, message):
        """What client 12 answers."""
        model = dpmf.flower.to_numpy(message.content["arrays"])
        arrays = {name: one + np.float32(0.1) if one.dtype.kind == "f" else one for name, one in model.items()}
        more = {"metrics": MetricRecord({"num-examples": 7})}
        if kind == "error":
            return Message(Error(code=0, reason="77.125"), reply_to=message)
        if kind == "lost":
            return None
        if kind == "weights":
            more = {"metrics": MetricRecord({"num-examples": 10**9, "loss": 77.125}), "other": ConfigRecord({"said": "77.125"})}
        if kind == "no metrics":
            more = {}
        if kind == "two records":
            more["again"] = dpmf.flower.to_record(arrays)
        if kind in ("nan", "1e30"):
            arrays["w"] = arrays["w"] * np.float32(kind)
        if kind == "shape":
            arrays["w"] = np.ones((3, 5), np.float32)
        if kind == "complex":
            arrays["w"] = arrays["w"] * 1j
        if kind == "text":
            arrays["w"] = np.full((2, 2), "77.125")
        if kind == "no bytes":
            more["arrays"] = ArrayRecord({name: Array(dtype="float32", shape=one.shape, stype="numpy.ndarray", data=b"77.125") for name, one in arrays.items()})
        if kind == "names":
            arrays = {"77.125": one for one in arrays.values()}
        if kind != "empty":
            more.setdefault("arrays", dpmf.flower.to_record(arrays))
        return Message(RecordDict(more), reply_to=message)

    def test_nothing_but_the_model_depends_on_an_answer(self):
        """Log lines, metrics, the statement, the clients of every round and the record of participations are the same for any answer of one client,
        and the model's difference is what its clipped updates give."""
        kinds = ("honest", "lost", "error", "weights", "no metrics", "two records", "nan", "1e30", "shape", "complex", "text", "no bytes", "names", "empty")
        start, found, models = self.folder / "start", [], {}
        start.mkdir()
        first = Federation(self.mechanism, 1.0, 2, key=start / "key")
        first.begin(self.initial, lambda mean: None, lambda arrays: None)
        first.close()
        for kind in kinds:
            folder = self.folder / kind
            shutil.copytree(start, folder)

            def train(message):
                return self.hostile("honest" if message.metadata.dst_node_id != 12 else kind, message)

            strategy = dpmf.flower.CorrelatedNoise(strategies.FedAvg(), self.mechanism, 1.0, 2, key=folder / "key", wait=0)
            with self.assertLogs("flwr", "DEBUG") as logged:
                result = strategy.start(Here(train), dpmf.flower.to_record(self.initial), timeout=1)
            strategy.close()
            said = [line for line in logged.output if "elapsed" not in line]
            self.assertNotIn("77.125", "".join(said))
            metrics = {at: dict(one) for at, one in result.train_metrics_clientapp.items()}
            found.append((said, metrics, sorted((folder / "key.log").read_text().splitlines()), result.evaluate_metrics_clientapp))
            models[kind] = result.arrays["w"].numpy()
        for kind, other in zip(kinds, found):
            self.assertEqual(found[0], other, kind)
        zeros = {"lost", "error", "two records", "nan", "shape", "complex", "text", "no bytes", "names", "empty"}
        for kind in kinds:
            self.assertTrue(np.isfinite(models[kind]).all(), kind)
            self.assertEqual(np.array_equal(models[kind], models["lost"]), kind in zeros, kind)
        for kind in ("weights", "no metrics"):
            self.assertTrue(np.array_equal(models[kind], models["honest"]), kind)

    def test_sums_and_rows_are_those_of_a_c_program(self):
        """The same key, state file, clients and updates: equal sums on the grid, and what the inner strategy gets has the rows of the library's
        own calls, to the bit. test_federated compares the same program with Rounds and torch."""
        m = dpmf.evaluate("bsr", 12, "prefix", "min-sep:3,4", bands=4, epsilon=8.0, delta=1e-5, unit="user")
        folders = federation.copies(m, self.folder, ("c", "flower"))
        seen, updates, sums = [], [{} for _ in range(12)], []

        class Still(strategies.FedAvg):
            def aggregate_train(self, server_round, replies):
                (reply,) = replies
                seen.append(np.concatenate([one.reshape(-1) for one in dpmf.flower.to_numpy(reply.content["arrays"]).values()]))
                return zeros, None

        def train(message):
            node, t = message.metadata.dst_node_id, int(message.content["config"]["server-round"]) - 1
            updates[t][node] = federation.update_of(str(node), t)
            arrays = dpmf.flower.to_record(dict(zip("wb", updates[t][node])))  # from zeros: the model is the update
            return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 10 * node})}), reply_to=message)

        zeros = dpmf.flower.to_record({"w": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float32)})
        strategy = dpmf.flower.CorrelatedNoise(Still(), m, 0.5, 2, key=folders["flower"] / "key", wait=0)
        strategy._begin(zeros)
        finish = strategy._run.rounds.finish
        strategy._run.rounds.finish = lambda: (sums.append(strategy._run.rounds.pending()[1]), finish())[1]
        strategy.start(Here(train, range(11, 19)), zeros)
        strategy.close()
        self.assertEqual([len(one) for one in updates], [2] * 12)
        expected, released = federation.c_server(m, folders["c"], updates)
        self.assertTrue(np.array_equal(np.stack(sums), expected))
        self.assertEqual(np.stack(seen).tobytes(), released.tobytes())

    def test_the_example_runs(self):
        sys.path.insert(0, str(REPOSITORY / "examples" / "flower"))
        self.addCleanup(sys.path.pop, 0)
        import private

        context = types.SimpleNamespace(node_id=5, run_config={"users": 4, "rounds": 4, "per-round": 2, "epsilon": 8.0, "folder": str(self.folder)})
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            private.serve(Here(lambda message: private.train(message, context)), context)
        self.assertIn("epsilon by round: {1: ", said.getvalue())
        lines = sum(len((REPOSITORY / "examples" / "flower" / name).read_text().splitlines()) for name in ("private.py", "pyproject.toml"))
        self.assertLessEqual(lines, 60)


class Flower(Programs):
    def write_app(self, timeout, wait):
        values = {"folder": str(self.folder), "timeout": timeout, "wait": wait}
        package = self.folder / "project" / "app"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "server.py").write_text(SERVER % values)
        # Parts 1 and 2 do not clip: the server must not rely on it.
        (package / "client.py").write_text((CLIENT % values).replace("mods=[dpmf.flower.clipping_mod]", ""))
        (self.folder / "project" / "pyproject.toml").write_text(PROJECT)
        (self.folder / "project" / "LICENSE").touch()

    def run_app(self, dies, done, seconds):
        self.start("run-" + (dies or "end"), "flwr", "run", self.folder / "project", "here", "--run-config", 'dies="%s"' % dies)
        self.wait_for("a run that dies at %r" % dies, done, seconds)

    def test_a_run_with_bad_clients_and_a_server_that_dies_twice(self):
        self.write_app(timeout=15, wait=3)
        mechanism = dpmf.design(**MECHANISM)
        dpmf.save(mechanism, self.folder / "run.dpmf")
        first = Federation(mechanism, 1.0, 2, key=self.folder / "key")
        first.begin({"w": np.zeros((2, 3), np.float32)}, lambda mean: None, lambda arrays: None)
        first.close()
        copy = self.folder / "copy"
        copy.mkdir()
        for path in self.folder.glob("key*"):
            shutil.copy(path, copy)

        port = free_port()
        (self.folder / "flwr").mkdir()
        (self.folder / "flwr" / "config.toml").write_text(CONFIG % port)
        self.start("link", "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", port, "--disable-runtime-dependency-installation")
        self.wait_for("the SuperLink", lambda: "startup complete" in self.output("link"), 40)
        for part in range(4):
            node = self.start("node-%d" % part, "flower-supernode", "--insecure", "--superlink", "127.0.0.1:%d" % port, "--host", "127.0.0.1",
                              "--port", free_port(), "--node-config", "part=%d" % part)
            (self.folder / ("pid-%d" % part)).write_text(str(node.pid))
        self.wait_for("the SuperNodes", lambda: self.output("link").count("Activated node_id") == 4, 40)

        self.run_app("row-drawn:2", (self.folder / "died-row-drawn").exists, 60)
        self.assertTrue((self.folder / "key.pending").exists())
        self.run_app("sum-kept:2", (self.folder / "died-sum-kept").exists, 60)
        self.assertTrue((self.folder / "key.pending").exists())
        self.run_app("", (self.folder / "result.json").exists, 120)
        self.check(mechanism, copy)

    def check(self, mechanism, copy):
        found = json.loads((self.folder / "result.json").read_text())
        last = found["figures"]["5"]
        self.assertEqual(set(last), {"round", "rounds", "epsilon", "delta"})  # nothing of what clients reported
        self.assertNotIn("77.125", self.outputs())
        taken = self.check_log(mechanism, self.folder / "key.log", last["epsilon"])
        self.assertIn("Privacy unit: one user", found["statement"])
        self.assertEqual([entry["what"] for entry in dpmf.Ledger(self.folder / "ledger.json").entries], ["flower"])
        self.assertFalse((self.folder / "key.pending").exists())
        parts = {path.name[5:]: int(path.read_text()) for path in self.folder.glob("part-*")}
        self.assertEqual(sorted(parts.values()), [0, 1, 2, 3])
        self.assertTrue({one for one in taken} >= set(parts))

        # The same sums without Flower and without a death give the same bits, on the rows of the same key and state.
        asked = dict(json.loads(line) for line in (self.folder / "asked").read_text().splitlines())
        updates, sent = [], set()
        for at in range(5):
            answers = {}
            for client in asked[at]:
                path = self.folder / ("answer-%d-%s.npz" % (at, client))
                if path.exists():
                    answers[client] = dict(np.load(path))
                    sent.add(parts[client])
            updates.append((asked[at], answers))
        self.assertEqual(sent & {0, 1, 2}, {0, 1, 2})
        step = lambda run, mean: {"w": run.model["w"] + mean["w"]}
        expected = self.replay(mechanism, copy / "key", updates, step)
        self.assertEqual(np.array(found["w"], np.float32).tobytes(), expected.tobytes())
        self.assertLess(np.abs(expected).max(), 100)  # 1e6 was clipped
        print("flwr %s: %d answers of %d asked" % (flwr.__version__, sum(len(a) for _, a in updates), sum(len(a) for a, _ in updates)))


if __name__ == "__main__":
    unittest.main()
