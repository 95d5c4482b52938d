# SPDX-License-Identifier: Apache-2.0
"""Wrong values, types, shapes and modules: each is a typed error that names the argument, or accepted for a reason.

A row is (what, words that the message must hold, call). Where words are None the call is accepted, and `what` gives the
reason.
"""

import tempfile
import unittest

import numpy as np
from support import KEY, Case, mechanism

import dpmf
import dpmf.audit
import dpmf.interchange

try:
    import torch
    from torch import nn

    import dpmf.torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

try:
    import dpmf.jax
    import dpmf.opacus
    from opacus.optimizers import DPOptimizer
except ImportError:
    DPOptimizer = None

NAN, INF = float("nan"), float("inf")


def core():
    e, o, d, a, cal = dpmf.evaluate, dpmf.optimize, dpmf.design, dpmf.account, dpmf.calibrate
    m = mechanism("bsr", 20)
    stream = m.noise(4, 1.0, KEY)
    row = np.zeros(4, np.float32)
    yield from (
        ("a family that there is not", "nosuch", lambda: e("nosuch", 10)),
        ("a number for a family", "family", lambda: e(3, 10)),
        ("None for a family", "family", lambda: o(None, 10)),
        ("a list for a family", "family", lambda: o(["blt"], 10)),
        ("no steps", "steps", lambda: e("identity")),
        ("0 steps", "steps", lambda: e("identity", 0)),
        ("negative steps", "steps", lambda: e("identity", -5)),
        ("a fraction of steps", "steps", lambda: e("identity", 10.5)),
        ("steps in words", "steps", lambda: e("identity", "10")),
        ("True steps", "steps", lambda: e("identity", True)),
        ("more steps than 64 bits hold", "steps", lambda: e("identity", 2**70)),
        ("a workload that there is not", "workload", lambda: e("identity", 10, "nosuch")),
        ("a number for a workload", "workload", lambda: e("identity", 10, 7)),
        ("a workload of three dimensions", "workload", lambda: e("identity", None, [[[1, 2, 3]]])),
        ("a workload of words", "workload", lambda: e("identity", None, [["a"]])),
        ("a workload of other steps", "steps", lambda: e("identity", 3, np.eye(2))),
        ("momentum above 1", "momentum", lambda: e("identity", 10, "momentum:1.5")),
        ("a participation that there is not", "participation", lambda: e("identity", 10, participation="nosuch")),
        ("a number for a participation", "participation", lambda: e("identity", 10, participation=3)),
        ("more epochs than fit", "cyclic", lambda: e("identity", 10, participation="cyclic:9,8")),
        ("epsilon alone", "delta", lambda: e("identity", 10, epsilon=1.0)),
        ("epsilon and sigma", "sigma", lambda: e("identity", 10, epsilon=1.0, delta=1e-5, sigma=1.0)),
        ("epsilon 0", "epsilon", lambda: e("identity", 10, epsilon=0.0, delta=1e-5)),
        ("epsilon below 0", "epsilon", lambda: e("identity", 10, epsilon=-1.0, delta=1e-5)),
        ("epsilon NaN", "epsilon", lambda: e("identity", 10, epsilon=NAN, delta=1e-5)),
        ("epsilon in words", "epsilon", lambda: e("identity", 10, epsilon="1", delta=1e-5)),
        ("delta 1", "delta", lambda: e("identity", 10, epsilon=1.0, delta=1.0)),
        ("delta 2", "delta", lambda: e("identity", 10, epsilon=1.0, delta=2.0)),
        ("sigma below 0", "sigma", lambda: e("identity", 10, sigma=-1.0)),
        ("sigma infinite", "sigma", lambda: e("identity", 10, sigma=INF)),
        ("sigma a list", "sigma", lambda: e("identity", 10, sigma=[1.0])),
        ("an option misspelled", "epsilonn", lambda: e("identity", 10, epsilonn=1.0)),
        ("an option misspelled", "buffer", lambda: o("blt", 10, buffer=3)),
        ("an option misspelled", "memmory", lambda: d(10, 1, 1.0, 1e-5, memmory=3)),
        ("an option misspelled", "smaples", lambda: a(1.0, delta=1e-5, smaples=3)),
        ("options of a strategy that is made", "bands", lambda: e(m.strategy, bands=3)),
        ("0 bands", "bands", lambda: e("bsr", 10, bands=-1)),
        ("bands in words", "bands", lambda: e("bsr", 10, bands="4")),
        ("a fraction of buffers", "buffers", lambda: o("blt", 10, buffers=2.5)),
        ("a loss that there is not", "loss", lambda: o("blt", 10, loss="mean")),
        ("a number for a loss", "loss", lambda: o("blt", 10, loss=2)),
        ("weights of another length", "weights", lambda: e("identity", 10, weights=[1.0])),
        ("weights of words", "weights", lambda: e("identity", 3, weights=["a", "b", "c"])),
        ("a sampling that there is not", "sampling", lambda: e("identity", 10, sampling="often")),
        ("a probability above 1", "poisson", lambda: e("identity", 10, sampling="poisson:1.5")),
        ("an adjacency that there is not", "adjacency", lambda: e("identity", 10, adjacency="near")),
        ("a number for an adjacency", "adjacency", lambda: e("identity", 10, adjacency=1)),
        ("threads in words", "threads", lambda: e("identity", 10, threads="2")),
        ("progress that is no function", "progress", lambda: e("identity", 10, progress=3)),
        ("design of 0 epochs", "epochs", lambda: d(10, 0, 1.0, 1e-5)),
        ("design of a fraction of epochs", "epochs", lambda: d(10, 1.5, 1.0, 1e-5)),
        ("design of steps in words", "steps", lambda: d("10", 1, 1.0, 1e-5)),
        ("memory without a unit that there is", "memory", lambda: d(10, 1, 1.0, 1e-5, memory="1 house")),
        ("memory below 0", "memory", lambda: d(10, 1, 1.0, 1e-5, memory="-1GiB")),
        ("memory a list", "memory", lambda: d(10, 1, 1.0, 1e-5, memory=[1])),
        ("memory in words: accepted, it is a size", None, lambda: d(8, 1, 1.0, 1e-5, dim=10, memory="1GiB", families="bsr")),
        ("families that are numbers", "families", lambda: d(10, 1, 1.0, 1e-5, families=[1, 2])),
        ("a family that there is not", "nosuch", lambda: d(10, 1, 1.0, 1e-5, families="nosuch")),
        ("dtype of whole numbers", "dtype", lambda: d(10, 1, 1.0, 1e-5, dtype="int8")),
        ("account without sigma", "sigma", lambda: a(delta=1e-5)),
        ("account for sigma in words", "sigma", lambda: a("1", delta=1e-5)),
        ("account for both", "delta", lambda: a(1.0, delta=1e-5, epsilon=1.0)),
        ("account for delta 0", "delta", lambda: a(1.0, delta=0.0)),
        ("account of a number", "of", lambda: a(1.0, delta=1e-5, of=3)),
        ("an engine that there is not", "engine", lambda: a(1.0, delta=1e-5, engine="fast")),
        ("a fraction of compositions", "steps", lambda: a(1.0, delta=1e-5, steps=1.5)),
        ("calibrate to epsilon None", "epsilon", lambda: cal(None, 1e-5)),
        ("a file that there is not", "nosuch", lambda: dpmf.load("/nosuch/file")),
        ("a number for a path", "path", lambda: dpmf.load(3)),
        ("a path with NUL", "path", lambda: dpmf.load("a\0b")),
        ("text for bytes", "data", lambda: dpmf.Mechanism.from_bytes("text")),
        ("bytes of no mechanism", "", lambda: dpmf.Mechanism.from_bytes(b"text")),
        ("noise of a number", "mechanism", lambda: dpmf.NoiseStream(3, 4, 1.0)),
        ("noise of 0 numbers", "dim", lambda: m.noise(0, 1.0)),
        ("noise of shapes in words", "shapes", lambda: m.noise(["ab"], 1.0)),
        ("noise of a shape below 0", "shape", lambda: m.noise([(-1, 2)], 1.0)),
        ("clip norm None", "clip_norm", lambda: m.noise(4, None)),
        ("clip norm 0", "clip", lambda: m.noise(4, 0.0)),
        ("clip norm NaN", "clip", lambda: m.noise(4, NAN)),
        ("a key of 3 bytes", "key", lambda: m.noise(4, 1.0, b"abc")),
        ("a number for a key", "key", lambda: m.noise(4, 1.0, 3)),
        ("dtype float16", "dtype", lambda: m.noise(4, 1.0, dtype="float16")),
        ("an offset past the end", "offset", lambda: m.noise(4, 1.0, offset=9)),
        ("an offset in words", "offset", lambda: m.noise(4, 1.0, offset="1")),
        ("count 0", "count", lambda: m.noise(4, 1.0, count=0)),
        ("a number for a label", "label", lambda: m.noise(4, 1.0, label=3)),
        ("a number for a state", "state", lambda: m.noise(4, 1.0, KEY, state=3)),
        ("an option misspelled", "lable", lambda: m.noise(4, 1.0, lable="a")),
        ("noise added to a list of numbers", "array 0", lambda: stream.add_([1.0, 2.0])),
        ("noise added to a number", "arrays", lambda: stream.add_(3)),
        ("noise added to doubles", "float64", lambda: stream.add_(np.zeros(4))),
        ("noise added to 3 numbers", "accepted: 4", lambda: stream.add_(row[:3])),
        ("a factor in words", "factor", lambda: stream.add_(row, "2")),
        ("seek to a fraction", "step", lambda: stream.seek(1.5)),
        ("seek past the end", "row 99", lambda: stream.seek(99)),
        ("seek below 0", "row -1", lambda: stream.seek(-1)),
        ("a digest of words", "digest", lambda: stream.bind_sum("a" * 32)),
        ("a state of nothing", "state", lambda: stream.load_state_dict({})),
        ("a sampler that there is not", "sampler", lambda: dpmf.Sampler("nosuch:3", 10, 5)),
        ("a number for a sampler", "what", lambda: dpmf.Sampler(3, 10, 5)),
        ("0 units", "units", lambda: dpmf.Sampler("cyclic:3", 0, 5)),
        ("units in words", "units", lambda: dpmf.Sampler("cyclic:3", "10", 5)),
        ("a column past the end", "column 99", lambda: m.strategy.column(99)),
        ("numbers of another length", "accepted: 20", lambda: m.strategy.apply([1.0])),
        ("a NumPy integer for steps: accepted, it is whole", None, lambda: e("identity", np.int64(5))),
        ("a whole number for sigma: accepted, it is a number", None, lambda: e("identity", 5, sigma=2)),
        ("a memoryview for a key: accepted, it is 32 bytes", None, lambda: m.noise(4, 1.0, memoryview(KEY))),
    )


def more():
    """Ledgers, counters, questions, samplers, audits, and values that Python would cut off or take for something else."""
    m = mechanism("toeplitz", 20, sigma=None, epsilon=1.0, delta=1e-5)
    folder = tempfile.mkdtemp(prefix="dpmf-test-")
    ledger, counter = dpmf.Ledger(folder + "/ledger.json"), dpmf.Counter(m)
    with open(folder + "/broken.json", "w") as file:
        file.write("{")
    yield from (
        ("a number for a budget", "budget", lambda: dpmf.Ledger("x", budget=3)),
        ("a budget in words", "budget", lambda: dpmf.Ledger("x", budget=("1", "2"))),
        ("a budget of three", "budget", lambda: dpmf.Ledger("x", budget=(1, 2, 3))),
        ("a budget below 0", "budget", lambda: dpmf.Ledger(folder + "/a.json", budget=(-1, 1e-5)).enter(m, KEY)),
        ("a number for a ledger", "path", lambda: dpmf.Ledger(3)),
        ("a number for a mechanism of a ledger", "mechanism", lambda: ledger.enter(3, KEY)),
        ("no key for a ledger", "key", lambda: ledger.enter(m, None)),
        ("what a number", "what", lambda: ledger.enter(m, KEY, what=3)),
        ("binding a number", "binding", lambda: ledger.enter(m, KEY, binding=3)),
        ("half a time", "times", lambda: ledger.enter(m, KEY, times=0.5)),
        ("no time", "times = 0", lambda: ledger.enter(m, KEY, times=0)),
        ("sigma in words in a ledger", "sigma", lambda: ledger.enter_account("1")),
        ("a number for a name", "name", lambda: ledger.enter_account(1.0, name=3)),
        ("delta in words of a ledger", "delta", lambda: ledger.epsilon("1")),
        ("entries of a folder", "directory", lambda: dpmf.Ledger(folder).entries),
        ("entries of no JSON", "JSON", lambda: dpmf.Ledger(folder + "/broken.json").entries),
        ("a number for a mechanism of a counter", "mechanism", lambda: dpmf.Counter(3)),
        ("clip in words", "clip", lambda: dpmf.Counter(m, clip="1")),
        ("columns in words", "columns", lambda: dpmf.Counter(m, columns="a")),
        ("a label that is a number", "label", lambda: dpmf.Counter(m, label=3)),
        ("clip_rows in words", "clip_rows", lambda: dpmf.Counter(m, clip_rows="no")),
        ("a row in words", "row", lambda: counter.add("x")),
        ("rows in words", "rows", lambda: counter.extend("abc")),
        ("one number for rows", "rows", lambda: counter.extend(3)),
        ("a question of a number", "mechanism", lambda: dpmf.query(3, [1.0], (1, 1))),
        ("a range that is a number", "range", lambda: dpmf.query(m, [1.0], 3)),
        ("a range in words", "range", lambda: dpmf.query(m, [1.0], ("1", "2"))),
        ("a level in words", "level", lambda: dpmf.bands(m, [1.0], level="x")),
        ("bands of a number", "mechanism", lambda: dpmf.bands(3, [1.0])),
        ("best_of of a number", "of is", lambda: dpmf.best_of("poisson:3", of=3, delta=1e-5)),
        ("steps in words", "steps", lambda: m.first("3")),
        ("0 compositions", "steps = 0", lambda: dpmf.account(1.0, delta=1e-5, steps=0)),
        ("a seed below 0", "accepted: 0 to", lambda: dpmf.account(1.0, delta=1e-5, seed=-1)),
        ("half a unit in a log", "units", lambda: m.observed_privacy([1.5], [0])),
        ("half a step in a log", "steps", lambda: m.observed_privacy([1], [0.5])),
        ("units in words", "units", lambda: m.observed_privacy(["a"], [0])),
        ("whole numbers as floats in a log: accepted, they are whole", None, lambda: m.observed_privacy([1.0], [0.0])),
        ("a participation that there is not", "participation", lambda: m.privacy_under("nosuch")),
        ("None for a file", "path", lambda: dpmf.load(None)),
        ("a number to save", "mechanism", lambda: dpmf.save(3, folder + "/x")),
        ("a unit that is a number", "unit", lambda: m.statement(3)),
        ("nesterov in words", "nesterov", lambda: dpmf.Workload.sgd(3, nesterov="no")),
        ("column_normalize in words", "column_normalize", lambda: dpmf.evaluate("toeplitz", 10, column_normalize="no")),
        ("prefetch in words", "prefetch", lambda: m.noise(4, 1.0, KEY, prefetch="no")),
        ("seeds of a row past the end", "accepted: 0 to 19", lambda: m.strategy.seeds(99)),
        ("a cap in words", "cap", lambda: dpmf.Sampler("poisson:0.5", 10, 3, cap="x")),
        ("a sampler for a number", "mechanism", lambda: dpmf.Sampler("cyclic:3", 10, 3, mechanism=3)),
        ("offers in words", "available", lambda: dpmf.Sampler("scheduled:3,2,2", 10, 3).offer("a")),
        ("half an offer", "available", lambda: dpmf.Sampler("scheduled:3,2,2", 10, 3).offer([0.5])),
        ("a number for a sampler's state", "state", lambda: dpmf.Sampler("cyclic:3", 10, 3, KEY).load_state_dict(3)),
        ("a key of zeros", "no secret", lambda: m.noise(4, 1.0, bytes(32))),
        ("noise without sigma", "no sigma", lambda: dpmf.evaluate("identity", 5).noise(4, 1.0, KEY)),
        ("sums without sigma", "no sigma", lambda: dpmf.Counter(dpmf.evaluate("identity", 5), 1.0, key=KEY)),
        ("huge bins", "1e9", lambda: dpmf.account(sigma=1.0, delta=1e-5, sampling="balls-in-bins:9007199254740992")),
        ("a design whose workload has other steps", "steps = 10", lambda: dpmf.design(10, 1, 1.0, 1e-5, workload=m.workload)),
        ("a design of no families", "families", lambda: dpmf.design(10, 1, 1.0, 1e-5, families=[])),
        ("a design that is federated in words", "federated", lambda: dpmf.design(10, 1, 1.0, 1e-5, federated="x")),
        ("a dtype that is a list", "dtype", lambda: dpmf.design(10, 1, 1.0, 1e-5, dtype=[])),
        ("an audit of a number", "mechanism", lambda: dpmf.audit.run(3)),
        ("canaries in words", "canaries", lambda: dpmf.audit.run(m, "a")),
        ("coefficients of a number", "of is", lambda: dpmf.interchange.toeplitz_coefficients(3)),
        ("a deviation of a number", "mechanism", lambda: dpmf.interchange.jax_privacy_stddev(3, 1.0)),
        ("axes that are none", "axes", lambda: m.plot_error(axes=3)),
    )


def of_opacus_and_jax():
    m = mechanism("identity", 20)
    net = nn.Linear(4, 3)
    data = torch.utils.data.TensorDataset(torch.zeros(20, 4), torch.zeros(20, dtype=torch.long))
    loader = torch.utils.data.DataLoader(data, batch_size=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    wrapped = DPOptimizer(optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=1)
    accountant, folder = dpmf.opacus.LedgerAccountant, tempfile.mkdtemp(prefix="dpmf-test-")
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 3}
    make, attach, jax = dpmf.opacus.make_private, dpmf.opacus.attach, dpmf.jax.add_noise
    yield from (
        ("a number for a model", "model", lambda: make(3, optimizer, loader, m, 1.0)),
        ("an engine that is none", "privacy_engine", lambda: make(net, optimizer, loader, m, 1.0, privacy_engine=3)),
        ("a criterion that is none", "criterion", lambda: make(net, optimizer, loader, m, 1.0, criterion=3, clipping="ghost")),
        ("an expected batch in words", "expected_batch", lambda: make(net, optimizer, loader, m, 1.0, expected_batch="4")),
        ("an expected batch of 0", "expected_batch", lambda: attach(wrapped, m, loader=loader, expected_batch=0)),
        ("a number for a key", "key", lambda: attach(wrapped, m, 3, loader=loader)),
        ("a list for a loader", "a list", lambda: attach(wrapped, m, loader=[1])),
        ("half a step reserved", "steps", lambda: accountant(folder + "/l").reserve(**{**run, "steps": 1.5})),
        ("no step reserved", "steps", lambda: accountant(folder + "/l").reserve(**{**run, "steps": 0})),
        ("a rate above 1", "probability", lambda: accountant(folder + "/l").reserve(**{**run, "sample_rate": 2.0})),
        ("a rate in words", "sample_rate", lambda: accountant(folder + "/l").reserve(**{**run, "sample_rate": "a"})),
        ("a name that is a number", "name", lambda: accountant(folder + "/l").reserve(**run, name=3)),
        ("a ledger that is a number", "path", lambda: accountant(3)),
        ("an audit with clip norm 0", "clip_norm", lambda: dpmf.audit.opacus_run(m, 20, clip_norm=0.0)),
        ("jax: a path for a mechanism", "mechanism", lambda: jax("m.dpmf", {"w": np.zeros(3)}, 1.0)),
        ("jax: words for parameters", "params", lambda: jax(m, "abc", 1.0)),
        ("jax: an expected batch in words", "expected_batch", lambda: jax(m, {"w": np.zeros(3)}, 1.0, expected_batch="a")),
    )


def of_torch():
    m = mechanism("identity", 20)
    make, batches = dpmf.torch.make_private, dpmf.torch.BatchSampler
    net = nn.Linear(4, 3)

    def sgd(model=net):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def norm(layer):
        model = nn.Sequential(nn.Linear(4, 4), layer)
        return lambda: make(model, sgd(model), m, 1.0, 4)

    def step(*inputs, **named):
        return lambda: make(net, sgd(), m, 1.0, 4).step(*inputs, **{"units": range(2), **named})

    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    shared = sgd()
    parallel = nn.DataParallel(net)
    yield from (
        ("a function for a model", "model", lambda: make(lambda x: x, sgd(), m, 1.0, 4)),
        ("parameters for an optimizer", "optimizer", lambda: make(net, list(net.parameters()), m, 1.0, 4)),
        ("a path for a mechanism", "mechanism", lambda: make(net, sgd(), "m.dpmf", 1.0, 4)),
        ("a mechanism without sigma", "sigma", lambda: make(net, sgd(), dpmf.evaluate("identity", 5), 1.0, 4)),
        ("clip norm in words", "clip_norm", lambda: make(net, sgd(), m, "1", 4)),
        ("clip norm of 1e200", "clip_norm", lambda: make(net, sgd(), m, 1e200, 4)),
        ("no expected batch", "expected_batch", lambda: make(net, sgd(), m, 1.0)),
        ("expected batch 0", "expected_batch", lambda: make(net, sgd(), m, 1.0, 0)),
        ("expected batch in words", "expected_batch", lambda: make(net, sgd(), m, 1.0, "4")),
        ("chunk 0", "chunk", lambda: make(net, sgd(), m, 1.0, 4, chunk=0)),
        ("a fraction of a chunk", "chunk", lambda: make(net, sgd(), m, 1.0, 4, chunk=1.5)),
        ("a loss that is no function", "loss", lambda: make(net, sgd(), m, 1.0, 4, loss="mse")),
        ("clipping that there is not", "clipping", lambda: make(net, sgd(), m, 1.0, 4, clipping="fast")),
        ("an option misspelled", "clip_nrom", lambda: make(net, sgd(), m, clip_nrom=1.0)),
        ("a list for a sampler", "sampler", lambda: make(net, sgd(), m, 1.0, 4, sampler=[[0, 1]])),
        ("an optimizer of another model", "optimizer", lambda: make(nn.Linear(4, 3), sgd(), m, 1.0, 4)),
        ("a model without parameters", "optimizer", lambda: make(nn.ReLU(), sgd(), m, 1.0, 4)),
        ("one optimizer twice", "optimizer", lambda: [make(net, shared, m, 1.0, 4) for _ in range(2)]),
        ("BatchNorm1d", "1 is a BatchNorm1d", norm(nn.BatchNorm1d(4))),
        ("SyncBatchNorm", "1 is a SyncBatchNorm", norm(nn.SyncBatchNorm(4))),
        ("InstanceNorm with statistics", "1 is a InstanceNorm1d", norm(nn.InstanceNorm1d(4, track_running_stats=True))),
        ("BatchNorm in eval mode: accepted, it mixes nothing", None, norm(nn.BatchNorm1d(4).eval())),
        ("DataParallel", "DataParallel", lambda: make(parallel, sgd(parallel), m, 1.0, 4)),
        ("inputs of other lengths", "inputs", step(x, y[:1])),
        ("inputs of numbers", "inputs", step([1.0, 2.0])),
        ("a number for a target", "inputs", step(x, torch.tensor(1))),
        ("no targets", "targets", step(x)),
        ("units of another length", "units", step(x, y, units=range(3))),
        ("a unit twice", "twice", step(x, y, units=[1, 1])),
        ("no units named", "units=", step(x, y, units=None)),
        ("sampler steps missing", "steps", lambda: batches("cyclic:2", 10)),
        ("units a fraction", "units", lambda: batches("cyclic:2", 2.5, steps=3)),
        ("a rank past the end", "rank", lambda: batches("cyclic:2", 10, KEY, steps=3, rank=2, world=2)),
        ("a shard that there is not", "rank", lambda: dpmf.torch.shard_of(10, 3, 3)),
        ("a shard of words", "dim", lambda: dpmf.torch.shard_of("a", 0, 1)),
        ("noise for words", "parameters", lambda: dpmf.torch.ShardedNoise(m, "abc", 1.0, KEY)),
        ("exact in words", "exact", lambda: make(net, sgd(), m, 1.0, 4, exact="yes")),
        ("half a unit", "units", step(x, y, units=[0.5, 1.5])),
    )


class WrongInputs(Case):
    def check(self, rows):
        count = 0
        for what, words, call in rows:
            count += 1
            with self.subTest(what=what):
                if words is None:
                    call()
                    continue
                with self.assertRaises((dpmf.Error, TypeError)) as caught:
                    call()
                self.assertIn(words, str(caught.exception))
                if not isinstance(caught.exception, dpmf.Error):  # Python's own, about an argument's name
                    self.assertIn("argument" if "options" not in str(caught.exception) else "options", str(caught.exception))
        return count

    def test_the_core(self):
        self.assertGreaterEqual(self.check(core()), 94)

    def test_the_rest_of_the_package(self):
        self.assertGreaterEqual(self.check(more()), 60)

    @unittest.skipIf(DPOptimizer is None, "opacus or jax is not installed")
    def test_opacus_and_jax(self):
        self.assertGreaterEqual(self.check(of_opacus_and_jax()), 17)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        self.assertGreaterEqual(self.check(of_torch()), 30)

    def test_every_type_error_is_both(self):
        """So that `except TypeError`, `except ValueError` and `except dpmf.Error` all work."""
        self.assertTrue(issubclass(dpmf.ArgumentTypeError, (TypeError,)))
        self.assertTrue(issubclass(dpmf.ArgumentTypeError, dpmf.ArgumentError))


class Manners(Case):
    def test_equal_mechanisms(self):
        a, b = mechanism("bsr"), mechanism("bsr")
        self.assertEqual(a, b)
        self.assertEqual(len({a, b, dpmf.Mechanism.from_bytes(a.to_bytes())}), 1)
        self.assertNotEqual(a, mechanism("bsr", sigma=2.0))
        self.assertNotEqual(a, a.digest)

    def test_a_dictionary_is_plain(self):
        import json

        m = mechanism("bsr", sigma=None, epsilon=2.0, delta=1e-5)
        told = json.loads(json.dumps(m.to_dict()))
        self.assertEqual((told["family"], told["steps"], told["digest"]), ("bsr", 20, m.digest))
        self.assertEqual(told["epsilon"], m.epsilon)

    def test_notebooks_show_a_table_and_a_picture(self):
        import xml.etree.ElementTree as tree

        for m in (mechanism("bsr"), mechanism("identity", 1), mechanism("toeplitz", 500)):
            page = tree.fromstring(m._repr_html_())
            self.assertEqual(len(page.findall("svg/polyline")), 1)
            cells = {row.find("th").text: row.find("td").text for row in page.findall("table/tr")}
            self.assertEqual(cells["steps"], str(m.steps))

    def test_statements(self):
        self.assertIn("no sigma", dpmf.evaluate("identity", 5).statement())
        self.assertIn("claims no", mechanism("identity").statement())
        self.assertIn("epsilon = 2", mechanism("identity", sigma=None, epsilon=2.0, delta=1e-5).statement("patient"))
        self.assertIn("patient", mechanism("identity", sigma=None, epsilon=2.0, delta=1e-5).statement("patient"))

    def test_sizes_in_words(self):
        from dpmf._library import size_in_bytes

        for told, wanted in (("1GiB", 2**30), ("500 MB", 5 * 10**8), ("1.5kib", 1536), ("7", 7), (12, 12), (None, None)):
            self.assertEqual(size_in_bytes(told, "memory"), wanted)


if __name__ == "__main__":
    unittest.main()
