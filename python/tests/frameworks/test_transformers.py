# SPDX-License-Identifier: Apache-2.0
"""Models of HuggingFace, from tiny configurations with random weights: nothing is downloaded. Without transformers: skipped."""

import os
import unittest

from support import KEY, Case

import dpmf

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers

    import dpmf.torch
except ImportError:
    transformers = None
else:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()

BATCH, LENGTH, WORDS = 6, 8, 50


def gpt2(**more):
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **more
    )
    return transformers.GPT2LMHeadModel(config)


def bert():
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, num_labels=3, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def batch_for(model):
    g = torch.Generator().manual_seed(2)
    ids = torch.randint(0, WORDS, (BATCH, LENGTH), generator=g)
    labels = ids if isinstance(model, transformers.GPT2LMHeadModel) else torch.randint(0, 3, (BATCH,), generator=g)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def noisy_gradient(model, *parts, clip=0.1, **options):
    """Of one step in any number of parts, and the mechanism whose noise is in it."""
    m = dpmf.evaluate("identity", 1, sigma=0.5)
    sgd = torch.optim.SGD(trained(model), lr=0.0)
    private = dpmf.torch.make_private(model, sgd, m, clip, BATCH, key=KEY, **options)
    at = 0
    for inputs, targets in parts:
        count = len(next(iter(inputs.values())))
        private.accumulate(inputs, *targets, units=range(at, at + count))
        at += count
    private.step()
    found = torch.cat([p.grad.reshape(-1) for p in trained(model)]) * BATCH
    private.close()
    return found - torch.from_numpy(m.noise(found.numel(), clip, KEY).next())


def by_hand(model, batch, clip=0.1):
    """One example at a time, by autograd."""
    sums = 0
    for i in range(BATCH):
        loss = model(**{name: part[i : i + 1] for name, part in batch.items()}).loss
        flat = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, trained(model))])
        sums = sums + flat * (clip / flat.norm()).clamp(max=1.0)
    return sums


@unittest.skipIf(transformers is None, "transformers is not installed")
class Transformers(Case):
    def close(self, found, wanted):
        self.assertLess(float((found - wanted).abs().max()), 1e-5)
        self.assertGreater(float(wanted.norm()), 0.01)

    def test_gradients_are_those_of_the_models_own_loss(self):
        for make in (gpt2, bert):
            model = make()
            batch = batch_for(model)
            self.close(noisy_gradient(model, (batch, ())), by_hand(model, batch))

    def test_parts_of_a_batch_are_one_step(self):
        model = bert()
        batch = batch_for(model)
        parts = [({name: part[first:last] for name, part in batch.items()}, ()) for first, last in ((0, 1), (1, 4), (4, 6))]
        self.close(noisy_gradient(model, *parts), by_hand(model, batch))

    def test_adapters_alone_are_trained(self):
        """LoRA by hand: a thin product beside the attention's output, everything else frozen."""
        model = bert().requires_grad_(False)
        for layer in model.bert.encoder.layer:
            dense = layer.attention.output.dense
            layer.attention.output.dense = Adapted(dense)
        model.classifier.requires_grad_(True)
        batch = batch_for(model)
        wanted = by_hand(model, batch)
        self.assertEqual(wanted.numel(), 2 * 2 * 2 * 16 + 3 * 16 + 3)
        self.close(noisy_gradient(model, (batch, ())), wanted)

    def test_ghost_clipping(self):
        """BERT by Opacus' hooks, which do not see a table of positions that all examples share: it is refused, or frozen."""
        try:
            import opacus  # noqa: F401
        except ImportError:
            self.skipTest("opacus is not installed")
        model = bert()
        batch = batch_for(model)
        labels = batch.pop("labels")

        def loss(outputs, targets):
            return torch.nn.functional.cross_entropy(outputs.logits, targets)

        self.refused(
            dpmf.UnsupportedError, "position_embeddings", noisy_gradient, model, (batch, (labels,)), clipping="ghost", loss=loss
        )
        model = bert()
        model.bert.embeddings.position_embeddings.requires_grad_(False)
        found = noisy_gradient(model, (batch, (labels,)), clipping="ghost", loss=loss)
        self.close(found, by_hand(model, {**batch, "labels": labels}))


class Adapted(torch.nn.Module if transformers is not None else object):
    def __init__(self, dense):
        super().__init__()
        self.dense = dense
        self.down, self.up = torch.nn.Linear(16, 2, bias=False), torch.nn.Linear(2, 16, bias=False)

    def forward(self, x):
        return self.dense(x) + self.up(self.down(x))


if __name__ == "__main__":
    unittest.main()
