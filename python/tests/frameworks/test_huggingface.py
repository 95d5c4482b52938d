# SPDX-License-Identifier: Apache-2.0
"""dpmf.transformers, PEFT and Accelerate with the real packages: tiny models with random weights, nothing is downloaded."""

import contextlib
import importlib.util
import io
import json
import os
import re
import runpy
import sys
import unittest
import warnings

from support import KEY, REPOSITORY, Case, python

import dpmf

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
try:
    import accelerate
    import peft
    import torch
    import transformers

    import dpmf.torch
    import dpmf.transformers
except ImportError as error:
    raise unittest.SkipTest("transformers, peft or accelerate is not installed: %s" % error)

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
WORDS, LENGTH, BATCH = 50, 8, 6
DATA = [
    {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
    for ids in torch.randint(0, WORDS, (24, LENGTH), generator=torch.Generator().manual_seed(4))
]
#: Two epochs of four steps.
MECHANISM = dpmf.evaluate("toeplitz", 8, participation="cyclic:2,4", epsilon=8, delta=1e-5)
POISSON = dpmf.evaluate("identity", 8, sampling="poisson:0.25", epsilon=8, delta=1e-5)


def gpt2(**more):
    torch.manual_seed(1)
    options = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0, use_cache=False, attn_implementation="eager")
    options.update(more)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2, **options)
    )


def lora(model=None, **more):
    options = dict(r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True)
    options.update(more)
    torch.manual_seed(3)
    return peft.get_peft_model(gpt2() if model is None else model, peft.LoraConfig(task_type="CAUSAL_LM", **options))


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in trained(model)])


def batches(mechanism=MECHANISM, key=KEY, **options):
    return dpmf.torch.BatchSampler.for_mechanism(mechanism, DATA, key, **options)


def by_make_private(model, mechanism=MECHANISM, autocast=False, **options):
    """The same run in a loop by hand."""
    sampler = batches(mechanism)
    sgd = torch.optim.SGD(trained(model), lr=0.5)
    private = dpmf.torch.make_private(model, sgd, mechanism, 0.1, sampler=sampler, key=KEY, **options)
    for batch in dpmf.torch.data_loader(DATA, sampler, transformers.default_data_collator):
        with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
            private.step(batch)
    return flat(model)


class Run(Case):
    def arguments(self, **more):
        options = dict(max_grad_norm=0.0, report_to="none", use_cpu=True, logging_steps=1, optim="sgd", learning_rate=0.5,
                       lr_scheduler_type="constant", save_strategy="no", disable_tqdm=True)  # fmt: skip
        options.update(more)
        return transformers.TrainingArguments(str(self.folder / "out"), **options)

    def trainer(self, model=None, mechanism=MECHANISM, key=KEY, kind=None, private=(), named=(), **more):
        own = dict(mechanism=mechanism, clip_norm=0.1, sampler=batches(mechanism, key), key=key)
        own.update(private)
        found = (kind or dpmf.transformers.PrivateTrainer)(
            lora() if model is None else model, self.arguments(**more), private=own, **{"train_dataset": DATA, **dict(named)}
        )
        found.remove_callback(transformers.PrinterCallback)
        return found


class Trainer(Run):
    def test_a_run_has_the_bits_of_make_private(self):
        """In one part or several, of which some are empty: each step is one row of noise and an exact sum."""
        wanted = by_make_private(lora())
        for parts in (1, 2, 4):
            trainer = self.trainer(gradient_accumulation_steps=parts)
            trainer.train()
            self.assertTrue(torch.equal(flat(trainer.model), wanted), parts)
            self.assertEqual((trainer.state.global_step, trainer.private.steps_taken, trainer.private.noise.step), (8, 8, 8))
            self.assertEqual(trainer.private.epsilon, MECHANISM.epsilon)
            self.assertIn("all of which are done", trainer.private.statement())

    def test_nothing_without_noise_is_logged_or_saved(self):
        """Batches of random sizes: neither losses nor counts of tokens, which trainer_state.json would keep."""
        trainer = self.trainer(mechanism=POISSON, private={"expected_batch": 6.0}, save_strategy="steps", save_steps=8)
        trainer.train()
        state = json.loads((self.folder / "out" / "checkpoint-8" / "trainer_state.json").read_text())
        self.assertEqual(state["total_flos"], 0)
        self.assertEqual(state["num_input_tokens_seen"], 0)
        for entry in state["log_history"] + trainer.state.log_history:
            self.assertFalse({"loss", "grad_norm", "train_loss"} & set(entry), entry)
        trainer = self.trainer(private={"tell": "loss"})
        trainer.train()
        self.assertGreater(trainer.state.log_history[0]["nonprivate_loss"], 1.0)
        self.assertIn("mean losses", trainer.private.statement())

    def test_evaluation_between_steps_changes_nothing(self):
        wanted = by_make_private(lora())
        trainer = self.trainer(eval_strategy="steps", eval_steps=1, named={"eval_dataset": DATA[:5]})
        trainer.train()
        self.assertTrue(torch.equal(flat(trainer.model), wanted))
        self.assertEqual(sum("eval_loss" in entry for entry in trainer.state.log_history), 8)

    def test_mixed_precision(self):
        wanted = by_make_private(lora(), autocast=True)
        trainer = self.trainer(bf16=True)
        trainer.train()
        self.assertTrue(torch.equal(flat(trainer.model), wanted))
        self.assertFalse(torch.equal(wanted, by_make_private(lora())))

    def test_a_run_is_resumed_from_a_checkpoint(self):
        """It takes the steps behind the checkpoint again, with the same bits; without the optimizer's state it is refused."""
        key, state = self.folder / "run.key", self.folder / "run.state"
        key.write_bytes(bytes(KEY))
        key.chmod(0o600)
        private = {"state": state}
        first = self.trainer(key=key, private=private, save_strategy="steps", save_steps=3)
        first.train()
        wanted = flat(first.model)
        first.private.close()
        again = self.trainer(key=key, private=private)
        with self.assertRaisesRegex(dpmf.StateError, "no checkpoint of that run is loaded"):
            again.train()
        again.private.close()
        place = self.folder / "out" / "checkpoint-3"
        second = self.trainer(key=key, private=private)
        second.train(resume_from_checkpoint=str(place))
        self.assertEqual(second.private.steps_taken, 8)
        self.assertTrue(torch.equal(flat(second.model), wanted))
        second.private.close()
        (place / "optimizer.pt").rename(place / "optimizer.gone")
        third = self.trainer(private={"key": None})
        with self.assertRaisesRegex(dpmf.StateError, "the trainer is at step 3, and its noise is not"):
            third.train(resume_from_checkpoint=str(place))
        plain = torch.optim.SGD(trained(lora()), lr=0.5)
        torch.save(plain.state_dict(), place / "optimizer.pt")
        fourth = self.trainer(private={"key": None})
        with self.assertRaisesRegex(dpmf.StateError, "no noise state"):
            fourth.train(resume_from_checkpoint=str(place))

    def test_arguments_that_cannot_be_private_are_refused(self):
        for name, value in (
            ("max_grad_norm", 1.0), ("num_train_epochs", 2.0), ("per_device_train_batch_size", 4), ("dataloader_drop_last", True),
            ("auto_find_batch_size", True), ("include_num_input_tokens_seen", "all"), ("torch_compile", True),
            ("gradient_checkpointing", True), ("label_smoothing_factor", 0.1), ("neftune_noise_alpha", 5.0), ("max_steps", 9),
            ("optim", "adamw_bnb_8bit"), ("train_sampling_strategy", "sequential"),
        ):  # fmt: skip
            with self.subTest(name):
                self.refused(dpmf.Error, name, self.trainer, **{name: value})
        arguments = self.arguments()
        arguments.fp16 = True  # TrainingArguments itself refuses it without a GPU
        own = dict(mechanism=MECHANISM, clip_norm=0.1, sampler=batches(), key=KEY)
        self.refused(dpmf.Error, "GradScaler", dpmf.transformers.PrivateTrainer, lora(), arguments, private=own)

        class Own(dpmf.transformers.PrivateTrainer):
            def compute_loss(self, *arguments, **named):
                return 0

        self.refused(dpmf.UnsupportedError, "compute_loss", lambda: self.trainer(kind=Own))
        self.refused(dpmf.UnsupportedError, "compute_loss_func", self.trainer, named={"compute_loss_func": lambda *_: 0})
        self.refused(dpmf.UnsupportedError, "model_init", self.trainer, named={"model_init": lora})

    def test_a_trainer_that_would_step_without_noise(self):
        class Backward(dpmf.transformers.PrivateTrainer):
            def training_step(self, model, inputs, num_items_in_batch=None):
                loss = model(**inputs).loss
                loss.backward()
                return loss.detach()

        trainer = self.trainer(kind=Backward)
        before = flat(trainer.model)
        with self.assertRaisesRegex(dpmf.ArgumentError, "a step of no batch"):
            trainer.train()

        class Direct(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, optimizer=None, **_):
                type(optimizer.optimizer).step(optimizer.optimizer)

        other = self.trainer()
        other.add_callback(Direct())
        with self.assertRaisesRegex(dpmf.ArgumentError, "without noise"):
            other.train()
        self.assertTrue(torch.equal(flat(trainer.model), before))

        class Thaw(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, model=None, optimizer=None, **_):
                p = model.base_model.model.transformer.ln_f.weight.requires_grad_(True)
                optimizer.add_param_group({"params": [p]})

        third = self.trainer()
        third.add_callback(Thaw())
        with self.assertRaisesRegex(dpmf.StateError, "stepped without noise"):
            third.train()
        again = self.trainer()
        again.train()
        with self.assertRaisesRegex(dpmf.StateError, "train\\(\\) was called before"):
            again.train()

    def test_batches_of_another_loader_are_refused(self):
        class Own(dpmf.transformers.PrivateTrainer):
            def get_train_dataloader(self):
                return transformers.Trainer.get_train_dataloader(self)

        with self.assertRaisesRegex(dpmf.StateError, "not from the sampler"):
            self.trainer(kind=Own).train()
        with self.assertRaisesRegex(dpmf.ArgumentError, "BatchSampler"):
            self.trainer(private={"sampler": torch.utils.data.DataLoader(DATA)}).train()
        with self.assertRaisesRegex(dpmf.ArgumentError, "23 examples, and the sampler draws from 24"):
            self.trainer(named={"train_dataset": DATA[1:]}).train()

    def test_a_collator_sees_one_example_at_a_time(self):
        """So that it cannot mix them, drop one, or give one's random numbers to another."""
        seen = []

        def collate(examples):
            seen.append(len(examples))
            return transformers.default_data_collator(examples)

        self.trainer(named={"data_collator": collate}).train()
        self.assertEqual(set(seen), {1})

        def drops(examples):
            kept = [e for e in examples if e["input_ids"][0] < 25] or examples[:0]
            return {"input_ids": torch.zeros(0, LENGTH, dtype=torch.int64)} if not kept else transformers.default_data_collator(kept)

        with self.assertRaisesRegex(dpmf.ArgumentError, "it made input_ids with shape \\(0, 8\\) of one example"):
            self.trainer(named={"data_collator": drops}).train()
        lengths = [{"input_ids": e["input_ids"][: 4 + i % 3], "labels": e["labels"][: 4 + i % 3]} for i, e in enumerate(DATA)]
        with self.assertRaisesRegex(dpmf.ArgumentError, "Pad all examples to one length"):
            self.trainer(named={"train_dataset": lengths}).train()


class Adapters(Run):
    def test_exactly_the_adapters_get_noise(self):
        """Each trained coordinate has the row's noise, and each frozen one keeps its bits."""
        model = lora(modules_to_save=["ln_f"])
        frozen = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
        names = [name for name, p in model.named_parameters() if p.requires_grad]
        self.assertEqual(sum("lora_" in name for name in names), 4)
        self.assertEqual(sum("ln_f.modules_to_save" in name for name in names), 2)
        before, one = flat(model), dpmf.evaluate("identity", 1, sigma=0.5)
        private = dpmf.torch.make_private(model, torch.optim.SGD(trained(model), lr=1.0), one, 0.1, 1.0, key=KEY)
        batch = transformers.default_data_collator(DATA[:1])
        batch["labels"] = torch.full_like(batch["labels"], -100)  # a loss of no token: its gradient is not finite, and adds 0
        private.step(batch, units=[0])
        noise = torch.from_numpy(one.noise(len(before), 0.1, KEY).next())
        self.assertTrue(torch.equal(flat(model), before - noise))
        self.assertTrue(bool((noise != 0).all()))
        for name, p in frozen.items():
            self.assertTrue(torch.equal(dict(model.named_parameters())[name], p), name)

    def test_gradients_are_those_of_each_example_alone(self):
        """Of every kind that is accepted."""
        torch.manual_seed(5)
        for options in ({}, {"use_dora": True}, {"use_rslora": True, "lora_alpha": 4}, {"bias": "lora_only"}, {"lora_bias": True},
                        {"modules_to_save": ["ln_f"]}, {"r": 3, "rank_pattern": {"h.0.attn.c_attn": 2}}, "bfloat16", "ia3"):  # fmt: skip
            with self.subTest(options):
                if options == "ia3":
                    config = peft.IA3Config(task_type="CAUSAL_LM", target_modules=["c_attn"], feedforward_modules=[], fan_in_fan_out=True)
                    model = peft.get_peft_model(gpt2(), config)
                else:
                    model = lora(gpt2().bfloat16()) if options == "bfloat16" else lora(**options)
                one = dpmf.evaluate("identity", 1, sigma=0.5)
                private = dpmf.torch.make_private(model, torch.optim.SGD(trained(model), lr=0.0), one, 0.1, 1.0, key=KEY)
                batch = transformers.default_data_collator(DATA[:BATCH])
                private.step(batch, units=range(BATCH))
                found = torch.cat([p.grad.reshape(-1) for p in trained(model)])
                wanted = torch.from_numpy(one.noise(found.numel(), 0.1, KEY).next())
                for i in range(BATCH):
                    loss = model(**{name: part[i : i + 1] for name, part in batch.items()}).loss
                    g = torch.cat([part.reshape(-1).float() for part in torch.autograd.grad(loss, trained(model))])
                    wanted = wanted + g * (0.1 / g.norm()).clamp(max=1.0)
                self.assertLess(float((found - wanted).abs().max()), 1e-6)

    def private(self, model, **options):
        return dpmf.torch.make_private(model, torch.optim.SGD(trained(model), lr=0.1), MECHANISM, 0.1, sampler=batches(), key=KEY, **options)

    def test_what_was_not_verified_is_refused_by_name(self):
        warnings.simplefilter("ignore")
        prompt = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
        ada = peft.AdaLoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], total_step=8, fan_in_fan_out=True)
        checked = gpt2()
        checked.gradient_checkpointing_enable()
        checked.train()
        in_place = gpt2()
        in_place.transformer.h[0].compile()
        for words, model in (
            ("PROMPT_TUNING", peft.get_peft_model(gpt2(), prompt)),
            ("ADALORA", peft.get_peft_model(gpt2(), ada)),
            ("trainable_token_indices", lora(trainable_token_indices=[1, 2])),
            ("target_parameters", lora(target_modules=[], target_parameters=["c_attn.weight"], fan_in_fan_out=False)),
            ("tied weights", lora(target_modules=["wte"])),
            ("tied weights", lora(modules_to_save=["lm_head"])),
            ("is compiled", torch.compile(gpt2())),
            ("h.0 (GPT2Block) is compiled", in_place),
            ("gradient checkpointing", checked),
        ):
            with self.subTest(words):
                self.refused(dpmf.UnsupportedError, words, self.private, model)
        model = lora()
        model.peft_config["default"].init_lora_weights = "eva"
        self.refused(dpmf.UnsupportedError, "first weights that follow from data", self.private, model)
        model = lora()
        model.merge_adapter()
        self.refused(dpmf.StateError, "is merged", self.private, model)
        model = lora()
        sgd = torch.optim.SGD(trained(model)[1:], lr=0.1)
        self.refused(dpmf.ArgumentError, "the optimizer does not train it", dpmf.torch.make_private, model, sgd, MECHANISM, 0.1,
                     sampler=batches(), key=KEY)  # fmt: skip
        self.private(lora(gpt2(tie_word_embeddings=False), target_modules=["lm_head"], fan_in_fan_out=False)).close()

    def test_adapters_that_change_while_they_train(self):
        for change, words in (
            (lambda model: model.merge_adapter(), "is merged"),
            (lambda model: model.set_adapter("other"), "no longer the model's and trained"),
        ):
            model = lora()
            model.add_adapter("other", peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], fan_in_fan_out=True))
            private = self.private(model)
            batch = transformers.default_data_collator([DATA[i] for i in next(iter(private._taken.sampler))])
            private.step(batch)
            change(model)
            next(iter(private._taken.sampler))
            self.refused(dpmf.StateError, words, private.step, batch, drawn_for=1)

    def test_the_page_runs(self):
        """Its blocks one after the other, without Lightning's where that is not installed."""
        page = (REPOSITORY / "docs" / "trainers.md").read_text(encoding="utf-8")
        own = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(own), 4)
        there = importlib.util.find_spec("lightning") is not None
        said = python("-W", "ignore", "-c", "\n".join(block for block in own if there or "lightning" not in block), cwd=self.folder)
        self.assertEqual(said.count("all of which are done"), 1 + there)

    def test_the_example_runs(self):
        said, before = io.StringIO(), sys.argv
        sys.argv = ["lora_gpt2.py", "--small"]
        try:
            with contextlib.redirect_stdout(said):
                runpy.run_path(str(REPOSITORY / "examples" / "lora_gpt2.py"), run_name="__main__")
        finally:
            sys.argv = before
        self.assertIn("20 steps", said.getvalue())
        self.assertIn("epsilon = 8", said.getvalue())


class Accelerate(Run):
    def setUp(self):
        super().setUp()
        accelerate.state.AcceleratorState._reset_state(True)
        self.addCleanup(accelerate.state.AcceleratorState._reset_state, True)

    def test_a_run_saved_and_resumed(self):
        for precision in ("no", "bf16"):
            accelerate.state.AcceleratorState._reset_state(True)
            own = accelerate.Accelerator(cpu=True, mixed_precision=precision)
            self.assertTrue(torch.equal(by_make_private(own.prepare(lora())), by_make_private(lora(), autocast=precision == "bf16")))
            own.free_memory()
            key = self.folder / (precision + ".key")
            key.write_bytes(bytes(KEY))
            key.chmod(0o600)

            def begin():
                model = lora()
                model, optimizer = own.prepare(model, torch.optim.SGD(trained(model), lr=0.5))
                sampler = batches(key=key)
                return model, sampler, dpmf.torch.make_private(model, optimizer, MECHANISM, 0.1, sampler=sampler, key=key), optimizer

            model, sampler, private, optimizer = begin()
            for batch in dpmf.torch.data_loader(DATA, sampler, transformers.default_data_collator):
                private.step(batch)
                if private.steps_taken == 3:
                    own.save_state(str(self.folder / precision))
            wanted = flat(model)
            self.refused(dpmf.ArgumentError, "without noise", optimizer.step)
            private.close()
            own.free_memory()
            model, sampler, private, optimizer = begin()
            own.load_state(str(self.folder / precision))
            for batch in dpmf.torch.data_loader(DATA, sampler, transformers.default_data_collator):
                private.step(batch)
            self.assertTrue(torch.equal(flat(model), wanted), precision)
            private.close()
            own.free_memory()

    def test_its_loader_and_its_scaler_are_refused(self):
        own = accelerate.Accelerator(cpu=True)
        model, sampler = lora(), batches()
        model, optimizer, loader = own.prepare(
            model, torch.optim.SGD(trained(model), lr=0.5), dpmf.torch.data_loader(DATA, sampler, transformers.default_data_collator)
        )
        dpmf.torch.make_private(model, optimizer, MECHANISM, 0.1, sampler=sampler, key=KEY)
        with self.assertRaisesRegex(dpmf.UnsupportedError, "made again by another library"):
            next(iter(loader))
        other = lora()
        wrapped = own.prepare(torch.optim.SGD(trained(other), lr=0.5))
        wrapped.scaler = torch.amp.GradScaler("cpu")
        self.refused(dpmf.UnsupportedError, "GradScaler", dpmf.torch.make_private, other, wrapped, MECHANISM, 0.1, sampler=batches(), key=KEY)


if __name__ == "__main__":
    unittest.main()
