# SPDX-License-Identifier: Apache-2.0
"""Private training: gradients, noise, groups, accumulation, checkpoints, samplers, other devices."""

import io
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np
from support import KEY, Case, mechanism, python

import dpmf

try:
    import torch
    import torch.nn.functional as functional
    import training

    import dpmf.torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

HERE = pathlib.Path(__file__).parent


def reference_sums(model, x, y, clip, names=None):
    """One example at a time."""
    parameters = [p for name, p in model.named_parameters() if names is None or name in names]
    total = 0.0
    for i in range(len(x)):
        found = torch.autograd.grad(functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]), parameters)
        flat = torch.cat([g.reshape(-1) for g in found])
        total = total + flat * min(1.0, clip / float(flat.norm()))
    return total


@unittest.skipIf(torch is None, "torch is not installed")
class Steps(Case):
    def test_a_step_is_clipped_gradients_plus_a_row_of_noise(self):
        """Every step is the sum of clipped gradients and the row of noise, over the expected batch, into the optimizer."""
        model, optimizer, sampler, private = training.make_run()
        other, plain = training.make_model()
        noise = training.make_mechanism().noise(sum(p.numel() for p in model.parameters()), 0.5, KEY)
        data = training.make_data()
        for t, batch in zip(range(6), sampler):
            x, y = data[12 * t : 12 * t + 12]
            private.step(x, y, drawn_for=batch.step)
            sums = reference_sums(other, x, y, 0.5) + torch.from_numpy(noise.next())
            parts = (sums / 12).split([p.numel() for p in other.parameters()])
            for p, part in zip(other.parameters(), parts):
                p.grad = part.view_as(p)
            plain.step()
            torch.testing.assert_close(training.weights(model), training.weights(other), rtol=1e-4, atol=1e-6)

    def test_no_example_passes_the_clip_norm(self):
        """In integers never above the clip norm, and no further below it than 2^-20 of it; short ones only rounded."""
        from dpmf.torch.sums import ExactSum

        for sizes in ((1,), (255, 256), (100000, 3, 700), (300000,)):
            parts = [torch.randn(6, n) * torch.logspace(-3, 3, 6)[:, None] for n in sizes]
            wanted = torch.cat(parts, 1).double()
            norms = wanted.norm(dim=1)
            for i in range(6):
                sums = ExactSum(sum(sizes), 0.5, 1, "cpu")
                sums.add([part[i : i + 1] for part in parts])
                exact = sum(int(q) ** 2 for q in sums.sum.tolist() if q)
                self.assertLessEqual(exact, (0.5 / sums.grid) ** 2)
                scale = min(1.0, 0.5 / float(norms[i]))
                off = (sums.sum.double() * sums.grid - wanted[i] * scale).norm()
                self.assertLess(float(off), 0.5 * 2.0**-20)

    def test_devices_sums(self):
        """The same in torch operations, as on a GPU: as close, and checked by the same certificate."""
        from dpmf.torch.sums import ExactSum

        g = [torch.randn(9, 700) * torch.logspace(-3, 6, 9)[:, None], torch.randn(9, 30).double()]
        g[0][4, 3] = float("nan")
        mine, other = ExactSum(730, 0.5, 1, "cpu"), ExactSum(730, 0.5, 1, "cpu")
        mine.add(g)
        other._add_by_torch([part.double() for part in g])
        self.assertLessEqual(int((mine.sum - other.sum).abs().max()), 9)
        other.zero_()
        other._limit *= 1.5  # a scale that fails: taken out, exactly, and put in again
        other._add_by_torch([part.double()[:3] * 1e6 for part in g])
        self.assertLessEqual(sum(int(q) ** 2 for q in other.sum.tolist()), 9 * other._most**2)
        one = ExactSum(730, 0.5, 1, "cpu")
        one._limit *= 1.5
        one._add_by_torch([part.double()[:1] * 1e6 for part in g])
        self.assertLessEqual(sum(int(q) ** 2 for q in one.sum.tolist()), one._most**2)
        self.assertGreater(sum(int(q) ** 2 for q in one.sum.tolist()), 0)

    def test_accumulated_micro_batches_are_one_step(self):
        runs = [training.make_run(chunk=4) for _ in range(2)]
        x, y = training.make_data()[:12]
        for run in runs:
            next(iter(run[2]))
        runs[0][3].step(x, y)
        for first, last in ((0, 4), (4, 4), (4, 12)):
            runs[1][3].accumulate(x[first:last], y[first:last])
        runs[1][3].step()
        self.assertEqual([run[3].steps_taken for run in runs], [1, 1])
        torch.testing.assert_close(training.weights(runs[0][0]), training.weights(runs[1][0]), rtol=1e-5, atol=1e-7)

    def test_an_empty_batch_has_noise(self):
        model, _, sampler, private = training.make_run()
        x, y = training.make_data()[:12]
        before = training.weights(model)
        private.step(x[:0], y[:0], drawn_for=next(iter(sampler)).step)
        self.assertEqual(private.steps_taken, 1)
        self.assertFalse(torch.equal(before, training.weights(model)))

    def test_several_inputs_doubles_and_frozen_layers_work(self):
        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(3, 2), torch.nn.Linear(4, 2)

            def forward(self, x, z):
                return self.a(x) + self.b(z)

        model = Two().double()
        model.b.requires_grad_(False)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
        private = dpmf.torch.make_private(model, optimizer, mechanism(), 1.0, 4, key=KEY, loss=functional.mse_loss)
        frozen = model.b.weight.clone()
        private.step((torch.randn(4, 3).double(), torch.randn(4, 4).double()), torch.randn(4, 2).double(), units=range(4))
        self.assertTrue(torch.equal(model.b.weight, frozen))
        self.assertEqual((private.noise.dim, private.noise.dtype), (8, "float64"))

    def test_half_precision_parameters_take_float32_noise(self):
        model = torch.nn.Linear(4, 3).bfloat16()
        private = dpmf.torch.make_private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), mechanism(), 1.0, 2, key=KEY
        )
        private.step(torch.randn(2, 4).bfloat16(), torch.tensor([0, 2]), units=[0, 1])
        self.assertEqual((model.weight.grad.dtype, private.noise.dtype), (torch.bfloat16, "float32"))

    def test_steps_without_noise_or_batch_are_refused(self):
        model, optimizer, sampler, private = training.make_run()
        x, y = training.make_data()[:12]
        self.refused(dpmf.ArgumentError, "without noise", optimizer.step)
        self.refused(dpmf.ArgumentError, "no batch", private.step)
        self.refused(dpmf.ArgumentError, "[12, 11]", private.step, x, y[:11])
        training.train(sampler, private)
        self.refused(dpmf.ArgumentError, "the mechanism has 24 steps", private.step, x, y)
        self.refused(
            dpmf.ArgumentError, "private already", dpmf.torch.make_private, model, optimizer, mechanism(), 1.0, 4
        )
        private.close()
        optimizer.step()
        make, m = dpmf.torch.make_private, mechanism()
        mixing = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        sgd = torch.optim.SGD(mixing.parameters(), lr=0.1)
        self.refused(dpmf.UnsupportedError, "1 is a BatchNorm1d", make, mixing, sgd, m, 1.0, 4, key=KEY)
        step = make(mixing.eval(), sgd, m, 1.0, 4, key=KEY).step
        mixing.train()
        y = torch.tensor([0, 1, 2, 3])
        self.refused(dpmf.UnsupportedError, "BatchNorm1d", step, torch.randn(4, 4), y, units=y)
        self.refused(dpmf.ArgumentError, "no sigma", make, model, optimizer, dpmf.evaluate("identity", 5), 1.0, 4)
        for clip in (0.0, -1.0, float("inf"), float("nan")):
            self.refused(dpmf.ArgumentError, "clip_norm", make, model, optimizer, m, clip, 4)
        self.refused(dpmf.ArgumentError, "expected_batch", make, model, optimizer, m, 1.0)
        self.refused(dpmf.ArgumentError, "noise = 'gpu'", make, model, optimizer, m, 1.0, 4, noise="gpu")
        self.refused(dpmf.ArgumentError, "that the model has not", make, torch.nn.Linear(2, 2), optimizer, m, 1.0, 4)
        self.assertRaises(dpmf.ArgumentError, make, model, optimizer, m, 1.0, sampler=sampler)  # 20 steps, single


@unittest.skipIf(torch is None, "torch is not installed")
class Checkpoints(Case):
    def test_a_checkpoint_comes_back_under_weights_only(self):
        for buffers in (False, True):
            model, optimizer, sampler, private = training.make_run()
            training.train(sampler, private, 10)
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": private.state_dict(buffers=buffers)}, file)
            training.train(sampler, private)
            again, optimizer, sampler, private = training.make_run()
            file.seek(0)
            saved = torch.load(file, weights_only=True)
            again.load_state_dict(saved["model"])
            private.load_state_dict(saved["optimizer"])
            self.assertEqual(private.steps_taken, 10)
            training.train(sampler, private)
            self.assertTrue(torch.equal(training.weights(model), training.weights(again)))

    def test_a_checkpoint_of_another_run_is_refused_by_name(self):
        _, optimizer, sampler, private = training.make_run()
        training.train(sampler, private, 2)
        saved = optimizer.state_dict()
        for words, options in (
            ("clip_norm = 0.5", {"clip_norm": 0.25}),
            ("sigma = ", {"mechanism": training.make_mechanism(epsilon=4.0)}),
            ("another key", {"key": dpmf.testing_key(9)}),
            ("expected_batch = 12", {"expected_batch": 13}),
            ("label", {"label": "second"}),
            ("chunk = 5", {"chunk": 6}),
        ):
            self.refused(dpmf.StateError, words, training.make_run(**options)[1].load_state_dict, saved)
        plain = training.make_model()[1].state_dict()
        self.refused(dpmf.StateError, "no noise state", optimizer.load_state_dict, plain)
        half = {**saved, "dpmf": {name: part for name, part in saved["dpmf"].items() if name != "noise"}}
        self.refused(dpmf.StateError, "no noise state", optimizer.load_state_dict, half)
        private.accumulate(*training.make_data()[:4], drawn_for=2)
        self.refused(dpmf.StateError, "not finished", optimizer.state_dict)
        self.refused(dpmf.StateError, "key file", training.make_run(key=None)[1].state_dict)

    def test_a_killed_run_ends_with_the_same_bits(self):
        """Bit for bit the uninterrupted run, with key file, state file and checkpoints in three processes."""
        whole, broken = self.folder / "whole", self.folder / "broken"
        whole.mkdir()
        broken.mkdir()
        dim = sum(p.numel() for p in training.make_model()[0].parameters())
        with training.make_mechanism().noise(dim, 0.5, whole / "run.key", state=whole / "run.state", state_now=True):
            pass  # a state file before its first row: its copy has the same noise
        shutil.copy(whole / "run.state", broken / "run.state")
        python(HERE / "training.py", "resume", whole, 0)
        (broken / "run.key").write_bytes((whole / "run.key").read_bytes())
        (broken / "run.key").chmod(0o600)
        for stop in (8, 16):  # two steps past a checkpoint, one step past one
            done = subprocess.run([sys.executable, str(HERE / "training.py"), "resume", str(broken), str(stop)])
            self.assertEqual(done.returncode, -signal.SIGKILL)
        python(HERE / "training.py", "resume", broken, 0)
        self.assertTrue(torch.equal(torch.load(whole / "weights.pt"), torch.load(broken / "weights.pt")))

    def test_a_state_file_without_its_checkpoint_gives_nothing(self):
        subprocess.run([sys.executable, str(HERE / "training.py"), "resume", str(self.folder), "8"])
        (self.folder / "run.pt").unlink()
        done = subprocess.run(
            [sys.executable, str(HERE / "training.py"), "resume", str(self.folder), "0"], stderr=subprocess.PIPE
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"no checkpoint of that run is loaded", done.stderr)


@unittest.skipIf(torch is None, "torch is not installed")
class Batches(Case):
    def test_every_sampler_feeds_a_loader(self):
        from test_sampler import ALL

        data = torch.utils.data.TensorDataset(torch.arange(100))
        for what in (what for what in ALL if "cap:" not in what):
            mine = dpmf.torch.BatchSampler(what, data, KEY, steps=40)
            self.assertEqual(len(mine), 40)
            wanted = [batch.tolist() for batch in dpmf.Sampler(what, 100, 40, KEY)]
            self.assertEqual([batch[0].tolist() for batch in dpmf.torch.data_loader(data, mine)], wanted)
            parts = [dpmf.torch.BatchSampler(what, data, KEY, steps=40, rank=r, world=3) for r in range(3)]
            self.assertEqual([sorted(sum(batch, [])) for batch in zip(*parts)], wanted)

    def test_capped_batches_have_one_shape_and_their_padding_adds_nothing(self):
        data = training.make_data()
        steps, units = 12, len(data)
        m = mechanism("identity", steps, sampling="poisson:0.1,cap:12:%d" % units, participation="full")
        weights = []
        for padded in (True, False):
            torch.manual_seed(0)
            model, optimizer = training.make_model()
            sampler = dpmf.torch.BatchSampler("poisson:0.1", data, KEY, mechanism=m, cap=12)
            private = dpmf.torch.make_private(model, optimizer, m, 0.5, sampler=sampler, key=KEY)
            short = 0
            for batch in sampler:
                self.assertEqual((len(batch), batch.mask.sum().item()), (12, batch.real))
                short += batch.real < 12
                x, y = data[batch if padded else batch[: batch.real]]
                private.step(x, y, drawn_for=batch.step)
            self.assertTrue(0 < short < steps)
            weights.append(training.weights(model))
        torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-7)
        sampler = dpmf.torch.BatchSampler("poisson:0.1,cap:5", data, KEY, steps=9)
        self.assertEqual({len(x) for x, _ in dpmf.torch.data_loader(data, sampler)}, {5})

    def test_batches_of_a_fixed_size_give_the_sum_of_what_was_drawn(self):
        """With replacement an example counts as often as it was drawn; each time it adds at most the clip norm."""
        data = training.make_data()
        units, repeats = len(data), 0
        for what in ("fixed:12,%d" % units, "fixed-replace:12,%d" % units):
            model, optimizer = training.make_model()
            other, plain = training.make_model()
            m = mechanism("identity", 4, sampling=what, participation="full")
            sampler = dpmf.torch.BatchSampler(what, data, KEY, mechanism=m)
            private = dpmf.torch.make_private(model, optimizer, m, 0.5, sampler=sampler, key=KEY)
            noise = m.noise(sum(p.numel() for p in model.parameters()), 0.5, KEY)
            for batch in sampler:
                self.assertEqual(len(batch), 12)
                repeats += 12 - len(set(batch))
                x, y = data[list(batch)]
                private.step(x, y, drawn_for=batch.step)
                sums = (reference_sums(other, x, y, 0.5) + torch.from_numpy(noise.next())) / 12
                for p, part in zip(other.parameters(), sums.split([p.numel() for p in other.parameters()])):
                    p.grad = part.view_as(p)
                plain.step()
            torch.testing.assert_close(training.weights(model), training.weights(other), rtol=1e-4, atol=1e-6)
        self.assertGreater(repeats, 0)

    def test_empty_batches_have_shapes(self):
        data = torch.utils.data.TensorDataset(torch.randn(4, 3, 2), torch.arange(4))
        loader = dpmf.torch.data_loader(data, dpmf.torch.BatchSampler("poisson:0.01", data, KEY, steps=30))
        sizes = [len(x) for x, _ in loader]
        self.assertIn(0, sizes)
        self.assertTrue(all(x.shape[1:] == (3, 2) for x, _ in loader))

    def test_reading_ahead_loses_nothing(self):
        model, _, sampler, private = training.make_run()
        loader = dpmf.torch.data_loader(training.make_data(), sampler, num_workers=1, prefetch_factor=4)
        for _, (x, y) in zip(range(5), loader):
            private.step(x, y)
        for x, y in loader:
            private.step(x, y)
        straight, _, sampler, private = training.make_run()
        training.train(sampler, private)
        self.assertTrue(torch.equal(training.weights(model), training.weights(straight)))

    def test_batches_without_steps_or_key_are_refused(self):
        self.refused(dpmf.ArgumentError, "steps", dpmf.torch.BatchSampler, "cyclic:3", 9, KEY)
        self.refused(dpmf.ArgumentError, "the same one", dpmf.torch.BatchSampler, "cyclic:3", 9, steps=3, world=2)
        self.refused(dpmf.ArgumentError, "cannot be split", dpmf.torch.shard_of, 2, 0, 3)


@unittest.skipIf(torch is None, "torch is not installed")
class Device(Case):
    def strategies(self):
        w = dpmf.Workload("prefix", 24)
        yield from (
            mechanism(name, 24).strategy
            for name in ("identity", "bsr", "banded", "banded-toeplitz", "blt", "tvblt", "tree")
        )
        yield dpmf.optimize("tvblt", 24, "momentum:0.9", buffers=3).strategy
        yield dpmf.Strategy("bisr", w, bands=5)
        yield dpmf.Strategy("tree-online", w)
        yield dpmf.Strategy("bsr", w, bands=3).normalized()
        yield dpmf.Strategy.toeplitz(8, [1, 0.5, 0.2]).stamped(3)

    def test_the_recursion_is_that_of_the_library(self):
        """The same seeds through torch operations and through the library: double to 1e-12, float to 1e-5."""
        generator, tried = np.random.default_rng(2), 0
        for s in self.strategies():
            if not s.streams:
                continue
            tried += 1
            state, count = np.zeros((s.buffers, 33)), 33
            wide = dpmf.torch.Recursion(s, count, dtype=torch.float64)
            narrow = dpmf.torch.Recursion(s, count)
            for t in range(24):
                seed = generator.normal(size=(s.seeds(t), count))
                row = s.step(t, seed, state)
                np.testing.assert_allclose(
                    wide.row(torch.from_numpy(seed)).numpy(), row, rtol=1e-12, atol=1e-12, err_msg=repr(s)
                )
                np.testing.assert_allclose(
                    narrow.row(torch.from_numpy(seed).float()).numpy(), row, rtol=1e-4, atol=1e-5, err_msg=repr(s)
                )
            self.refused(dpmf.ArgumentError, "24 steps", wide.row, torch.zeros(1, count, dtype=torch.float64))
        self.assertGreaterEqual(tried, 11)

    def test_the_device_gives_the_rows_of_the_c_stream(self):
        """Given the seeds of the C stream (identity has W = I: its rows are seeds; C x rows for others), the same rows."""
        for name in ("bsr", "blt", "tvblt", "banded"):
            m = mechanism(name, 24)
            x = np.stack([r for r in (lambda s: [s.next() for _ in range(24)])(m.noise(50, 1.0, KEY, dtype="float64"))])
            seeds = np.stack([m.strategy.apply(column) for column in x.T], axis=1) / (1.25 * m.sensitivity.value)
            recursion = dpmf.torch.Recursion(m.strategy, 50, dtype=torch.float64)
            for t in range(24):
                mine = recursion.row(torch.from_numpy(seeds[t : t + 1])) * 1.25 * m.sensitivity.value
                np.testing.assert_allclose(mine.numpy(), x[t], rtol=1e-9, atol=1e-9)

    def test_rows_from_the_host_are_those_of_the_stream(self):
        stream = mechanism().noise(6, 1.0, KEY)
        wanted = [stream.next(), stream.next()]
        stream.seek(0)
        rows = dpmf.torch.noise.Rows(stream, "cpu")
        for row in wanted:
            np.testing.assert_array_equal(rows.next(lambda: b"").numpy(), row)

    def test_what_does_not_stream_is_refused(self):
        m = dpmf.evaluate("fft", 8, sigma=1.0)
        if not m.strategy.streams:
            self.refused(dpmf.UnsupportedError, "do not stream", dpmf.torch.Recursion, m.strategy, 5)


@unittest.skipIf(torch is None, "torch is not installed")
class Distributed(Case):
    def together(self, what, world):
        folder = self.folder / ("%s%d" % (what, world))
        folder.mkdir()
        processes = [
            subprocess.Popen([sys.executable, str(HERE / "training.py"), what, str(folder), str(rank), str(world)])
            for rank in range(world)
        ]
        self.assertEqual([p.wait(300) for p in processes], [0] * world)
        return torch.load(folder / "weights.pt", weights_only=True)

    def test_several_processes_give_the_weights_of_one(self):
        """2 and 3 gloo processes: one process's weights, up to the roundings of its gradients; noise counted once."""
        model, optimizer, sampler, private = training.make_run()
        training.train(sampler, private)
        for world in (2, 3):
            found = self.together("distributed", world)
            torch.testing.assert_close(found["weights"], training.weights(model), rtol=1e-4, atol=1e-5)
            noise = found["optimizer"]["dpmf"]["noise"]
            self.assertEqual(
                (noise["step"], noise["offset"], noise["count"]),
                (24, *dpmf.torch.shard_of(private.noise.dim, 0, world)),
            )

    def test_users_of_several_processes(self):
        """Each user is whole in one process: the weights of one process."""
        model, sampler, private = training.make_users()
        training.train(sampler, private)
        torch.testing.assert_close(self.together("by_users", 2)["weights"], training.weights(model), rtol=1e-4, atol=1e-5)

    def test_shards_are_the_row(self):
        """The shards of all ranks, end to end, are the bytes of the whole row."""
        m = training.make_mechanism()
        dim = 578
        whole = m.noise(dim, 0.5, KEY)
        for world in (2, 3):
            parts = [
                m.noise(dim, 0.5, KEY, offset=o, count=c)
                for o, c in (dpmf.torch.shard_of(dim, r, world) for r in range(world))
            ]
            whole.seek(0)
            for _ in range(24):
                self.assertEqual(whole.next().tobytes(), b"".join(part.next().tobytes() for part in parts))

    def test_sharded_parameters_give_the_weights_of_one(self):
        model, _ = training.make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        m = training.make_mechanism()
        sampler = dpmf.torch.BatchSampler("cyclic:12", 96, KEY, mechanism=m)
        training.train(sampler, dpmf.torch.make_private(model, optimizer, m, 0.5, sampler=sampler, key=KEY))
        for world in (2, 3):
            torch.testing.assert_close(
                self.together("sharded", world)["weights"], training.weights(model), rtol=1e-4, atol=1e-5
            )


if __name__ == "__main__":
    unittest.main()
