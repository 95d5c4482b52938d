# SPDX-License-Identifier: Apache-2.0
"""Batches as people have them: dictionaries, keywords, dataclasses, models with their own loss, adapters, accumulation."""

import dataclasses
import types
import typing
import unittest

from support import KEY, Case, mechanism

import dpmf

try:
    import models
    import torch
    from torch import nn

    import dpmf.torch
    from dpmf.torch import ghost
    from dpmf.torch.pytree import flatten, mapped
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

    @dataclasses.dataclass
    class Output:
        loss: typing.Any = None
        logits: typing.Any = None

    class Tagger(nn.Module):
        """In the manner of HuggingFace: keyword inputs, a mask, labels, an output with .loss and .logits."""

        def __init__(self):
            super().__init__()
            self.body = models.Transformer(tokens=17, length=6)

        def forward(self, input_ids, attention_mask=None, labels=None, use_cache=False):
            logits = self.body(input_ids)
            if labels is None:
                return Output(logits=logits)
            if attention_mask is not None:
                labels = torch.where(attention_mask == 1, labels, torch.full_like(labels, -100))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            return Output(loss, logits)

    class Adapter(nn.Module):
        """A frozen layer and a trained product of two thin ones."""

        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Linear(base.in_features, rank, bias=False)
            self.b = nn.Linear(rank, base.out_features, bias=False)

        def forward(self, x):
            return self.base(x) + self.b(self.a(x))

    @dataclasses.dataclass(frozen=True)
    class Pair:
        left: typing.Any
        right: typing.Any
        name: str = "pair"

    class OfPairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 5), nn.Linear(4, 5)

        def forward(self, pair):
            assert pair.name == "pair"
            return self.a(pair.left) + self.b(pair.right)


B = 6


class Deciding(nn.Module if torch is not None else object):
    """Looks at its inputs to decide what it does, as models of HuggingFace do with their masks."""

    def __init__(self, decides, dropout=0.0):
        super().__init__()
        self.layer, self.drop, self.decides = nn.Linear(3, 2), nn.Dropout(dropout), decides

    def forward(self, x):
        x = self.drop(x)
        if self.decides and bool((x > 1e9).any()):
            x = 0 * x
        return self.layer(x)


def make(model, route="per-example", **options):
    torch.manual_seed(2)
    for p in model.parameters():
        if p.requires_grad:
            nn.init.normal_(p, std=0.3)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    return dpmf.torch.make_private(model, optimizer, mechanism(), 0.5, B, key=KEY, clipping=route, **options)


def gathered(private, *inputs, **named):
    private.accumulate(*inputs, units=range(B), **named)
    found = private._sum.sum.double() * private._sum.grid
    private.step()
    return found


def routes():
    return ("per-example", "ghost") if ghost.Hooks is not None else ("per-example",)


@unittest.skipIf(torch is None, "torch is not installed")
class Inputs(Case):
    def sums_by_hand(self, model, losses, clip=0.5):
        trained, total = [p for p in model.parameters() if p.requires_grad], 0.0
        for loss in losses:
            flat = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, trained)]).double()
            total = total + flat * min(1.0, clip / float(flat.norm()))
        return total

    def test_models_with_their_own_loss(self):
        """A dictionary, as a tokenizer gives it, and the same as keywords: the mean loss over each example's own tokens."""
        ids = torch.randint(0, 17, (B, 6))
        mask = (torch.rand(B, 6) > 0.3).long()
        mask[:, 0] = 1
        batch = {"input_ids": ids, "attention_mask": mask, "labels": ids.flip(1), "use_cache": False}
        private = make(Tagger())
        losses = [private.model(ids[i : i + 1], mask[i : i + 1], ids.flip(1)[i : i + 1]).loss for i in range(B)]
        wanted = self.sums_by_hand(private.model, losses)
        found = gathered(private, batch)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(gathered(make(Tagger()), **batch), found)

    def test_ghost_clipping_of_models_with_their_own_loss(self):
        """Its .loss is one number for all examples: refused by name; with loss= it works."""
        if len(routes()) == 1:
            self.skipTest("opacus is not installed")
        ids = torch.randint(0, 17, (B, 6))
        private = make(Tagger(), "ghost")
        self.refused(dpmf.UnsupportedError, "loss=", private.accumulate, {"input_ids": ids, "labels": ids}, units=range(B))

        def loss(outputs, labels):
            return nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())

        one, other = (gathered(make(Tagger(), route, loss=loss), {"input_ids": ids}, ids) for route in routes())
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

    def test_dataclasses_and_nests(self):
        left, right, y = torch.randn(B, 3), torch.randn(B, 4), torch.randint(0, 5, (B,))
        private = make(OfPairs())
        pair = Pair(left, right)
        losses = [
            nn.functional.cross_entropy(private.model(Pair(left[i : i + 1], right[i : i + 1])), y[i : i + 1])
            for i in range(B)
        ]
        wanted = self.sums_by_hand(private.model, losses)
        torch.testing.assert_close(gathered(private, pair, y), wanted, rtol=1e-4, atol=1e-5)
        if len(routes()) == 2:
            torch.testing.assert_close(gathered(make(OfPairs(), "ghost"), pair, y), wanted, rtol=1e-4, atol=1e-5)

    def test_nests_come_back(self):
        class Named(typing.NamedTuple):
            a: typing.Any
            b: typing.Any

        x = torch.arange(3)
        nest = {"p": [x, (x, 7)], "q": Named(x, None), "r": types.SimpleNamespace(v=x, w="text"), "s": Pair(x, x)}
        tensors, build = flatten(nest)
        self.assertEqual(len(tensors), 6)
        twice = mapped(lambda t: 2 * t, nest)
        self.assertEqual(twice["q"].a.tolist(), [0, 2, 4])
        self.assertIsNone(twice["q"].b)
        self.assertEqual((twice["p"][1][1], twice["r"].w, twice["s"].name), (7, "text", "pair"))
        self.assertEqual(twice["s"].right.tolist(), [0, 2, 4])
        self.assertEqual(x.tolist(), [0, 1, 2])

    def test_a_model_whose_steps_depend_on_values(self):
        """torch.func cannot map it over examples: they go one after the other, with the same sums and the same dropout again."""
        found = {}
        for decides in (False, True):
            model = Deciding(decides)
            private = make(model, chunk=4)
            found[decides] = gathered(private, torch.arange(B * 3.0).reshape(B, 3) / 10, torch.arange(B) % 2)
            self.assertEqual(private._route.mapped, not decides)
        self.assertLess(float((found[True] - found[False]).abs().max()), 1e-6)
        again = []
        for tried in (False, True):  # the try that fails must not have drawn from the generators
            private = make(Deciding(True, 0.5), chunk=4)
            private._route.mapped = False if tried else None
            torch.manual_seed(7)
            again.append(gathered(private, torch.ones(B, 3), torch.arange(B) % 2))
        self.assertTrue(torch.equal(again[0], again[1]))

    def test_adapters_train_alone(self):
        """LoRA-like: the frozen layers stay, the noise has as many numbers as the adapters."""
        x, y = models.batch_for("mlp", B)
        for route in routes():
            torch.manual_seed(7)
            model = nn.Sequential(Adapter(nn.Linear(20, 8)), nn.ReLU(), Adapter(nn.Linear(8, 5)))
            frozen = [m.base.weight.clone() for m in (model[0], model[2])]
            private = make(model, route)
            self.assertEqual(private.noise.dim, 2 * 20 + 8 * 2 + 2 * 8 + 5 * 2)
            before = model[0].a.weight.clone()
            losses = [nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]) for i in range(B)]
            wanted = self.sums_by_hand(model, losses)
            torch.testing.assert_close(gathered(private, x, y), wanted, rtol=1e-4, atol=1e-5)
            self.assertTrue(all(torch.equal(m.base.weight, w) for m, w in zip((model[0], model[2]), frozen)))
            self.assertFalse(torch.equal(model[0].a.weight, before))

    def test_accumulated_dictionaries_are_one_step(self):
        ids = torch.randint(0, 17, (B, 6))
        whole = gathered(make(Tagger()), {"input_ids": ids, "labels": ids})
        private = make(Tagger())
        for first in range(0, B, 2):
            part = ids[first : first + 2]
            private.accumulate({"input_ids": part, "labels": part}, units=range(first, first + 2))
        torch.testing.assert_close(private._sum.sum.double() * private._sum.grid, whole, rtol=1e-4, atol=1e-6)
        private.step()
        self.assertEqual(private.steps_taken, 1)

    def test_loaders_of_dictionaries_carry_their_step(self):
        ids = torch.randint(0, 17, (24, 6))
        data = [{"input_ids": row, "labels": row} for row in ids]
        m = mechanism("identity", 4)
        sampler = dpmf.torch.BatchSampler.for_mechanism(m, data, KEY)
        model = Tagger()
        private = dpmf.torch.make_private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), m, 0.5, sampler=sampler, key=KEY
        )
        kept = None
        for batch in dpmf.torch.data_loader(data, sampler):
            private.step(batch)
            kept = batch if kept is None else kept
        self.assertEqual(private.steps_taken, 4)
        private.noise.seek(2)
        self.refused(dpmf.StateError, "drawn for step 0", private.step, kept)

    def test_what_makes_no_batch_is_refused(self):
        private = make(Tagger())
        ids = torch.randint(0, 17, (B, 6))
        refused = lambda words, *a, **k: self.refused(dpmf.ArgumentError, words, private.accumulate, *a, units=range(B), **k)
        refused("without tensors", {"text": "words"})
        refused("no dimensions", {"input_ids": ids, "scale": torch.tensor(1.0)})
        refused("[6, 5]", {"input_ids": ids, "labels": ids[:5]})
        refused("targets", {"input_ids": ids})  # no loss of its own without labels
        private = make(models.mlp(), loss=lambda outputs, y: nn.functional.cross_entropy(outputs, y, reduction="none"))
        x, y = models.batch_for("mlp", B)
        private.accumulate(x, y, units=range(B))  # (1,) is one number
        private = make(models.mlp(), loss=lambda outputs, y: outputs)
        self.refused(dpmf.ArgumentError, "loss", private.accumulate, x, y, units=range(B))


@unittest.skipIf(torch is None, "torch is not installed")
class ForMechanism(Case):
    def test_the_sampler_that_the_mechanism_assumes(self):
        cases = (
            ({}, 100, "cyclic:4"),
            ({"participation": "cyclic:3,8"}, 96, "cyclic:12"),
            ({"participation": "min-sep:3,8"}, 90, "cyclic:12"),
            ({"participation": "shuffled:3,8"}, 96, "shuffled:12"),
            ({"participation": "full"}, 30, "cyclic:30"),
            ({"sampling": "poisson:0.1"}, 100, "poisson:0.1"),
            ({"participation": "min-sep:3,8", "sampling": "block-cyclic:0.1,8"}, 96, "block-cyclic:0.1,8"),
            ({"participation": "cyclic:3,8", "sampling": "balls-in-bins:8"}, 96, "balls-in-bins:8"),
        )
        for options, units, wanted in cases:
            family = "bsr" if "sampling" in options and options["sampling"] != "poisson:0.1" else "identity"
            m = mechanism(family, 24, **options)
            sampler = dpmf.torch.BatchSampler.for_mechanism(m, units, KEY)
            self.assertEqual((sampler.sampler.text, len(sampler)), (wanted, 24))
        self.refused(
            dpmf.ArgumentError, "cannot fill", dpmf.torch.BatchSampler.for_mechanism, mechanism("identity", 24), 20, KEY
        )
        self.refused(dpmf.ArgumentError, "units", dpmf.torch.BatchSampler.for_mechanism, mechanism("identity", 24), 2.5)
        self.refused(dpmf.ArgumentError, "mechanism", dpmf.torch.BatchSampler.for_mechanism, "identity", 24)


if __name__ == "__main__":
    unittest.main()
