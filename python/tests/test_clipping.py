# SPDX-License-Identifier: Apache-2.0
"""The two routes to clipped gradients: they agree, "auto" names the one it took, and neither reveals one example."""

import io
import unittest

from support import KEY, Case, mechanism

import dpmf

try:
    import models
    import torch

    import dpmf.torch
    from dpmf.torch import clipping
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

try:
    import opacus
except ImportError:
    opacus = None

B = 12


def make(name, route, clip=0.5, m=None, **options):
    torch.manual_seed(2)
    kind, loss = models.ALL[name]
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = {"loss": loss, "key": KEY, **options}
    return model, dpmf.torch.make_private(model, optimizer, m or mechanism(), clip, B, clipping=route, **options)


def sums(private):
    return private._sum.sum.double() * private._sum.grid


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@unittest.skipIf(opacus is None, "opacus is not installed")
class Routes(Case):
    def test_both_routes_agree(self):
        """CNN, MLP, transformer with embeddings and LayerNorm, tied weights: sums to 1e-5 of the clip norm, the same noise."""
        for name in models.ALL:
            x, y = models.batch_for(name, B)
            for clip in (0.05, 1.0, 50.0):  # all examples clipped, some, none
                runs = [make(name, route, clip) for route in ("per-example", "ghost")]
                for _, private in runs:
                    private.accumulate(x, y, units=range(B))
                one, other = (sums(private) for _, private in runs)
                self.assertLess(float((one - other).norm()), 1e-5 * B * clip, (name, clip))
                self.assertGreater(float(one.norm()), 0.01 * clip)
                for _, private in runs:
                    private.step()
                rows = [private.noise.next() for _, private in runs]
                self.assertEqual(rows[0].tobytes(), rows[1].tobytes())
                for model, private in runs:
                    private.noise.seek(1)
                    private.step(x, y, units=range(B))
                torch.testing.assert_close(weights(runs[0][0]), weights(runs[1][0]), rtol=1e-4, atol=1e-5)
                for _, private in runs:
                    private.close()

    def test_no_example_passes_the_clip_norm(self):
        """Each alone, up to the rounding that the statement speaks of."""
        for name in models.ALL:
            x, y = models.batch_for(name, B)
            _, private = make(name, "ghost", 0.05)
            for i in range(B):
                private.accumulate(x[i : i + 1], y[i : i + 1], units=[i])
                norm = float(sums(private).norm())
                self.assertLess(norm, 0.05 * (1 + 1e-6), name)
                self.assertGreater(norm, 0.05 * (1 - 1e-5), name)
                private.discard()

    def test_the_statement_says_how_gradients_were_clipped(self):
        m = mechanism(sigma=None, epsilon=3.0, delta=1e-5)
        x, y = models.batch_for("mlp", B)
        for route, words in (("per-example", "exactly"), ("ghost", "holds up to their rounding")):
            _, private = make("mlp", route, m=m)
            private.step(x, y, units=range(B))
            self.assertIn(words, private.statement())

    def test_examples_that_are_not_finite_add_nothing(self):
        """One example with NaN, infinities, or values whose squares overflow: the sum of the others, and no error."""
        x, y = models.batch_for("cnn", B)
        for bad in (float("nan"), float("inf"), 1e30):
            _, private = make("cnn", "ghost")
            hostile = x.clone()
            hostile[7, 0, 2, 2] = bad
            private.accumulate(torch.cat([x[:7], x[8:]]), torch.cat([y[:7], y[8:]]), units=range(B - 1))
            wanted = sums(private)
            private.discard()
            state = torch.get_rng_state()
            private.accumulate(hostile, y, units=range(B))
            self.assertTrue(torch.equal(state, torch.get_rng_state()))
            if bad != 1e30:
                torch.testing.assert_close(sums(private), wanted, rtol=1e-5, atol=1e-6)
            else:  # group normalization makes it finite again: an example like others
                self.assertLess(float((sums(private) - wanted).norm()), 0.5 * (1 + 1e-5))
            private.step()
            private.close()
        _, private = make("cnn", "ghost")
        private.step(torch.full_like(x, float("nan")), y, units=range(B))
        self.assertTrue(bool(torch.isfinite(weights(private.model)).all()))

    def test_chunks_and_empty_batches(self):
        x, y = models.batch_for("mlp", B)
        found = []
        for chunk in (None, 5):
            _, private = make("mlp", "ghost", chunk=chunk)
            private.accumulate(x, y, units=range(B))
            found.append(sums(private))
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
        private.discard()
        private.step(x[:0], y[:0], units=[])
        self.assertEqual(private.steps_taken, 1)

    def test_weights_that_hooks_do_not_see_are_refused(self):
        """A product with the embedding's weight outside its module: norms by hooks would be too small."""
        model = models.Unseen()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        private = dpmf.torch.make_private(model, optimizer, mechanism(), 1.0, 4, key=KEY, clipping="ghost")
        ids, y = torch.randint(0, 7, (4, 3)), torch.randint(0, 7, (4,))
        self.refused(dpmf.UnsupportedError, "clipping='ghost'", private.step, ids, y, units=range(4))
        private.discard()
        private.close()
        private = dpmf.torch.make_private(model, optimizer, mechanism(), 1.0, 4, key=KEY)
        private.step(ids, y, units=range(4))

    def test_what_ghost_cannot_do_is_refused(self):
        x, y = models.batch_for("mlp", B)
        model, private = make("mlp", "ghost")
        model.eval()
        self.refused(dpmf.UnsupportedError, "model.train()", private.step, x, y, units=range(B))
        self.refused(dpmf.ArgumentError, "clipping = 'fast'", make, "mlp", "fast")

    def test_auto_says_which_and_why(self):
        _, small = make("mlp", "auto")
        self.assertEqual(small.clipping, "per-example")
        self.assertIn("exact", small.clipping_reason)
        before, clipping.GHOST_ABOVE = clipping.GHOST_ABOVE, 1000
        try:
            _, large = make("mlp", "auto")
            self.assertEqual(large.clipping, "ghost")
            self.assertIn("above 1e+03", large.clipping_reason)
        finally:
            clipping.GHOST_ABOVE = before

    def test_a_checkpoint_knows_its_route(self):
        x, y = models.batch_for("mlp", B)
        model, private = make("mlp", "ghost")
        private.step(x, y, units=range(B))
        file = io.BytesIO()
        torch.save([model.state_dict(), private.state_dict()], file)
        private.step(x, y, units=range(B))
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        again, other = make("mlp", "ghost")
        again.load_state_dict(saved[0])
        other.load_state_dict(saved[1])
        other.step(x, y, units=range(B))
        self.assertTrue(torch.equal(weights(model), weights(again)))
        self.refused(dpmf.StateError, "clipping = ghost", make("mlp", "per-example")[1].load_state_dict, saved[1])


@unittest.skipIf(torch is None, "torch is not installed")
class Telling(Case):
    def test_steps_tell_what_was_asked_for(self):
        """Nothing about the data unless it was; the statement says that it is not private."""
        x, y = models.batch_for("mlp", B)
        m = mechanism(sigma=None, epsilon=3.0, delta=1e-5)
        for route in ("per-example", "ghost") if opacus is not None else ("per-example",):
            _, silent = make("mlp", route, m=m)
            self.assertEqual(silent.step(x, y, units=range(B)), (0, 20, None, None))
            self.assertNotIn("have no noise", silent.statement())
            torch.manual_seed(2)
            model = models.mlp()  # that of make
            losses, long = torch.nn.functional.cross_entropy(model(x), y, reduction="none"), []
            for loss in losses:
                found = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
                long.append(float(torch.cat([g.reshape(-1) for g in found]).norm()))
            clip = sum(sorted(long)[B // 2 - 1 : B // 2 + 1]) / 2  # half of them are longer
            _, private = make("mlp", route, clip=clip, m=m, tell=("loss", "clipped"))
            heard = []
            end = private.on_step(heard.append)
            told = private.step(x, y, units=range(B))
            self.assertAlmostEqual(told.nonprivate_loss, float(losses.mean()), places=5)
            self.assertEqual(told.nonprivate_clipped, 0.5)
            self.assertEqual(heard, [told])
            end()
            private.step(x, y, units=range(B))
            self.assertEqual((len(heard), private.progress), (1, 0.1))
            self.assertIn("no noise: clipped fractions, mean losses", private.statement())

    def test_what_cannot_be_told_is_refused(self):
        self.refused(dpmf.ArgumentError, "tell = 'norms'", make, "mlp", "per-example", tell="norms")
        self.refused(dpmf.ArgumentError, "clip_norm is a str", make, "mlp", "per-example", clip="adaptive")
        self.refused(dpmf.ArgumentError, "listener", make("mlp", "per-example")[1].on_step, 3)


@unittest.skipIf(torch is None, "torch is not installed")
class Chunks(Case):
    def test_chunks_follow_free_memory_and_checkpoints(self):
        """Half the memory, half the chunk; a resumed run takes that of its checkpoint."""
        model = models.mlp()
        trained = dict(model.named_parameters())
        size = sum(p.numel() for p in model.parameters()) * 4 * clipping.COPIES
        before = clipping.free_memory
        self.assertGreater(before(torch.device("cpu")), 1 << 20)
        try:
            for chunk in (1, 7, 20):
                clipping.free_memory = lambda _, chunk=chunk: int(chunk * size / clipping.SHARE) + 100
                self.assertEqual(clipping.chunk_for(trained, torch.device("cpu")), chunk)
            clipping.free_memory = lambda _: 0
            self.assertEqual(clipping.chunk_for(trained, torch.device("cpu")), 1)
            _, private = make("mlp", "per-example")
            x, y = models.batch_for("mlp", B)
            private.step(x, y, units=range(B))
            saved = private.state_dict()
            self.assertEqual(saved["dpmf"]["chunk"], 1)
        finally:
            clipping.free_memory = before
        _, other = make("mlp", "per-example")
        self.assertGreater(other._route.chunk, 1)
        other.load_state_dict(saved)
        self.assertEqual(other._route.chunk, 1)
        self.refused(dpmf.StateError, "chunk = 1", make("mlp", "per-example", chunk=3)[1].load_state_dict, saved)


if __name__ == "__main__":
    unittest.main()
