# SPDX-License-Identifier: Apache-2.0
"""dpmf.lightning in Lightning's own Trainer: a small network, in one process."""

import logging
import os
import unittest
import unittest.mock
import warnings

from support import KEY, Case

import dpmf

try:
    import torch
    import lightning

    import dpmf.lightning
    import dpmf.torch
except ImportError as error:
    raise unittest.SkipTest("Lightning is not installed: %s" % error)

torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
MECHANISM = dpmf.evaluate("toeplitz", 8, participation="cyclic:2,4", epsilon=8, delta=1e-5)
GENERATOR = torch.Generator().manual_seed(4)
DATA = torch.utils.data.TensorDataset(torch.randn(24, 5, generator=GENERATOR), torch.randint(0, 3, (24,), generator=GENERATOR))


def layers():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(7, 3))


class Model(dpmf.lightning.PrivateModule):
    def __init__(self, key=KEY, **more):
        options = dict(mechanism=MECHANISM, clip_norm=1.0, sampler=dpmf.torch.BatchSampler.for_mechanism(MECHANISM, DATA, key), key=key)
        options.update(more)
        super().__init__(options)
        self.layers, self.sampler = layers(), options["sampler"]

    def forward(self, x):
        return self.layers(x)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.9)

    def validation_step(self, batch, index):
        self.log("val_loss", torch.nn.functional.cross_entropy(self(batch[0]), batch[1]))


class Second(Model):
    """Its examples are those of the plain one of two loaders."""

    def parts_of(self, batch):
        x, y = batch["plain"] if isinstance(batch, dict) else batch[0]
        return x, (y,)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def by_make_private(autocast=False):
    model = Model()
    model.layers.train()
    private = dpmf.torch.make_private(model, model.configure_optimizers(), MECHANISM, 1.0, sampler=model.sampler, key=KEY)
    for x, y in dpmf.torch.data_loader(DATA, model.sampler):
        if autocast:
            with torch.autocast("cpu", torch.bfloat16):
                private.step(x, y)
        else:
            private.step(x, y)
    return flat(model)


class Lightning(Case):
    def fit(self, model, loader=None, resume=None, **more):
        options = dict(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False,
                       enable_model_summary=False, default_root_dir=self.folder)  # fmt: skip
        options.update(more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(**options)
            loader = dpmf.torch.data_loader(DATA, model.sampler) if loader is None else loader
            evaluation = torch.utils.data.DataLoader(DATA, batch_size=8)
            trainer.fit(model, loader, evaluation, ckpt_path=resume)
        return trainer

    def test_a_run_has_the_bits_of_make_private(self):
        """With evaluation between steps, whose random numbers and mode change nothing."""
        for precision in ("32-true", "bf16-mixed"):
            model = Model()
            trainer = self.fit(model, precision=precision, val_check_interval=2, max_epochs=-1)
            self.assertTrue(torch.equal(flat(model), by_make_private(precision != "32-true")), precision)
            self.assertEqual((trainer.global_step, model.private.steps_taken, model.private.noise.step), (8, 8, 8))
            self.assertIn("all of which are done", model.private.statement())

    def test_a_run_is_resumed_from_a_checkpoint(self):
        key, state = self.folder / "run.key", self.folder / "run.state"
        key.write_bytes(bytes(KEY))
        key.chmod(0o600)
        kept = lightning.pytorch.callbacks.ModelCheckpoint(self.folder, "{step}", every_n_train_steps=3, save_top_k=-1)
        first = Model(key, state=state)
        self.fit(first, max_epochs=-1, callbacks=[kept], enable_checkpointing=True)
        wanted, place = flat(first), self.folder / "step=3.ckpt"
        self.assertEqual(first.private.steps_taken, 8)
        first.private.close()
        lost = Model(key, state=state)
        with self.assertRaises(Exception) as caught:
            self.fit(lost)
        # Lightning's own clean-up fails afterwards, and the reason is above it.
        self.assertRegex(str(caught.exception.__context__ or caught.exception), "no checkpoint of that run is loaded")
        lost.private.close()
        second = Model(key, state=state)
        self.fit(second, resume=place, max_epochs=-1)
        self.assertEqual(second.private.steps_taken, 8)
        self.assertTrue(torch.equal(flat(second), wanted))
        second.private.close()
        saved = torch.load(place, weights_only=True)
        del saved["optimizer_states"][0]["dpmf"]
        torch.save(saved, self.folder / "other.ckpt")
        with self.assertRaisesRegex(dpmf.StateError, "no noise state"):
            self.fit(Model(), resume=self.folder / "other.ckpt")

    def test_the_key_is_no_hyperparameter(self):
        """Checkpoints hold hyperparameters, and with the key anybody could take the noise off."""
        secret = bytes(KEY)

        class Saved(Model):
            def __init__(self, width=3, **private):
                super().__init__(**private)
                self.save_hyperparameters(ignore="mechanism")

        class Named(Model):
            def __init__(self, width=3, key=None):
                super().__init__(key)
                self.save_hyperparameters("width", "key")

        self.refused(dpmf.ArgumentError, "the key of the run into checkpoints", Named, key=secret)
        kept = lightning.pytorch.callbacks.ModelCheckpoint(self.folder, "{step}", every_n_train_steps=3, save_top_k=-1)
        model = Saved(mechanism=MECHANISM, key=secret, clip_norm=1.0)
        self.fit(model, callbacks=[kept], enable_checkpointing=True)
        saved = torch.load(self.folder / "step=3.ckpt", weights_only=False)["hyper_parameters"]
        self.assertEqual(saved, {"clip_norm": 1.0, "width": 3})

    def test_what_would_step_without_noise(self):
        class Automatic(Model):
            def training_step(self, batch, index):
                return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        class Switched(Model):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = True

        class Two(Model):
            def configure_optimizers(self):
                return [torch.optim.SGD([p], lr=0.1) for p in self.parameters()]

        class Some(Model):
            def configure_optimizers(self):
                return torch.optim.SGD(self.layers[0].parameters(), lr=0.1)

        class Direct(lightning.Callback):
            def on_train_batch_end(self, trainer, module, *_):
                type(trainer.optimizers[0]).step(trainer.optimizers[0])

        for words, kind in (("training_step of Automatic", Automatic), ("automatic_optimization = True", Switched),
                            ("4 optimizers", Two), ("the optimizer does not train it", Some)):  # fmt: skip
            with self.subTest(words):
                model = kind()
                before = flat(model)
                self.refused(dpmf.Error, words, self.fit, model)
                self.assertTrue(torch.equal(flat(model), before))
        self.refused(dpmf.ArgumentError, "without noise", self.fit, Model(), callbacks=[Direct()])
        model = Model()
        self.fit(model)
        self.refused(dpmf.StateError, "fit() was called before", self.fit, model)

    def test_options_of_the_trainer_that_are_refused(self):
        self.refused(dpmf.UnsupportedError, "precision = 16-true", self.fit, Model(), precision="16-true")
        with unittest.mock.patch.dict(os.environ):  # where Lightning leaves the address of its process group
            self.refused(dpmf.UnsupportedError, "DDPStrategy", self.fit, Model(), strategy="ddp", devices=1)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        plain = torch.utils.data.DataLoader(DATA, batch_size=6)
        self.refused(dpmf.StateError, "not from the sampler", self.fit, Model(), plain)
        self.refused(dpmf.ArgumentError, "BatchSampler", self.fit, Model(sampler=plain), plain)
        # Several loaders at once: what the second gives was drawn for no step.
        for both in (lambda own: {"own": own, "plain": plain}, lambda own: [plain, own]):
            model = Second()
            before = flat(model)
            self.refused(dpmf.StateError, "a part of this batch is not from the sampler", self.fit, model, both(dpmf.torch.data_loader(DATA, model.sampler)))
            self.assertTrue(torch.equal(flat(model), before))
        # Lightning itself refuses these with manual optimization.
        for option in ({"accumulate_grad_batches": 2}, {"gradient_clip_val": 1.0}):
            with self.subTest(option), self.assertRaisesRegex(Exception, "manual optimization"):
                self.fit(Model(), **option)

    def test_fewer_batches_are_the_first_steps_of_the_run(self):
        """Two of each epoch: the sampler continues where the noise is."""
        model = Model()
        self.fit(model, overfit_batches=2, max_epochs=3)
        self.assertEqual(model.private.steps_taken, 6)
        self.assertIn("of which 6 are done", model.private.statement())

    def test_compiled_modules_are_refused(self):
        model = Model()
        model.layers[0].compile()
        self.refused(dpmf.UnsupportedError, "is compiled", self.fit, model)


if __name__ == "__main__":
    unittest.main()
