# SPDX-License-Identifier: Apache-2.0
"""The Trainer of Hugging Face with private steps: its loop, logs, evaluation and checkpoints around dpmf.torch.make_private.

    trainer = dpmf.transformers.PrivateTrainer(model, args, train_dataset=data, private=dict(
        mechanism=mechanism, clip_norm=1.0, sampler=sampler, key="run.key", state="run.state"))
"""

from __future__ import annotations

import copy
from typing import Any, Dict, Mapping

import torch
import transformers

from . import errors
from .torch import make_private
from .torch.adapters import check_all_trained
from .torch.batches import mark_of
from .torch.driven import Parts, drive
from .torch.pytree import flatten

#: Arguments that must keep a value, and the reason. None and 0 are accepted too.
FIXED: Dict[str, Any] = {
    "max_grad_norm": (0.0, "examples are clipped; to clip the noisy sum again would keep correlated rows from cancelling"),
    "num_train_epochs": (3.0, "steps and epochs are those of the mechanism (max_steps= may end a run earlier)"),
    "per_device_train_batch_size": (8, "batches are the sampler's (gradient_accumulation_steps= divides each into parts)"),
    **dict.fromkeys(("dataloader_drop_last", "auto_find_batch_size"), (False, "batches are the sampler's")),
    "train_sampling_strategy": ("random", "batches are the sampler's"),
    "include_num_input_tokens_seen": ("no", "the number of tokens would be logged without noise"),
    "fp16": (False, "its GradScaler skips steps whose gradients overflow, which one example can cause; bf16=True is accepted"),
    "torch_compile": (False, "compiled code can round an example's gradient differently after other sizes of batches"),
    **dict.fromkeys(("gradient_checkpointing", "activation_checkpointing"), (None, "single gradients cannot pass it; chunk= limits memory")),
    "label_smoothing_factor": (0.0, "the loss is the model's own, or loss= in private"),
    "neftune_noise_alpha": (None, "its hook on the embeddings was not verified"),
    "use_liger_kernel": (False, "its kernels were not verified"),
    "deepspeed": (None, "it changes the optimizer"),
    "fsdp": (None, "it was not verified; dpmf.torch.make_private takes FSDP2 models"),
}
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop", "adafactor")


class PrivateTrainer(transformers.Trainer):
    """transformers.Trainer, whose steps are those of make_private; what cannot be private is refused before the first one.

    private   arguments of make_private, whose result is trainer.private once training has begun; its sampler is a BatchSampler
    Losses of steps have no noise, and are not logged unless tell="loss" asks for them (`nonprivate_loss`).
    """

    def __init__(self, model: Any = None, args: Any = None, *more: Any, private: Mapping[str, Any], **named: Any):
        args, self.private, self._asked = copy.copy(args or transformers.TrainingArguments("tmp_trainer")), None, dict(private)
        steps, self._report = self._asked["mechanism"].steps, None
        for name, (value, reason) in FIXED.items():
            found = getattr(args, name, value)
            if found and found != value:
                raise errors.ArgumentError("%s = %r, accepted: %r; %s" % (name, found, value, reason))
        if args.max_steps > steps:
            raise errors.ArgumentError("max_steps = %d, accepted: at most %d, those of the mechanism" % (args.max_steps, steps))
        if args.world_size > 1 or args.n_gpu > 1:
            raise errors.UnsupportedError("%d processes, %d GPUs: one is accepted, or make_private itself" % (args.world_size, args.n_gpu))
        if named.get("optimizers", (None,))[0] is None and args.optim not in OPTIMIZERS:
            raise errors.UnsupportedError("optim = %s, accepted: %s; or optimizers=" % (args.optim, ", ".join(OPTIMIZERS)))
        own_loss = {} if type(self).compute_loss is transformers.Trainer.compute_loss else {"compute_loss": self}
        for name in {"model_init", "compute_loss_func", "compute_loss"} & {**named, **own_loss}.keys():
            raise errors.UnsupportedError("%s: it is not used; a run has one model, and its loss is loss= in private" % name)
        args.max_steps, args.ignore_data_skip = args.max_steps if args.max_steps > 0 else steps, True  # the sampler itself resumes
        super().__init__(model, args, *more, **named)

    def get_train_dataloader(self) -> Any:
        collate, args = self._get_collator_with_removed_columns(self.data_collator), self.args
        return Parts(self.train_dataset, self._asked.get("sampler"), collate, args.gradient_accumulation_steps, args.dataloader_num_workers)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:  # the optimizer is made, no checkpoint loaded
        if self.private is not None:
            raise errors.StateError("train() was called before: another run needs a new trainer and a new key")
        if type(self.optimizer).__name__ != "AcceleratedOptimizer":
            raise errors.UnsupportedError("transformers %s prepares optimizers later; 5.23 is accepted" % transformers.__version__)
        self.private = make_private(self.model, self.optimizer, **self._asked)
        check_all_trained(self.model, self.private._params)
        drive(self.private)
        self.private.on_step(lambda report: setattr(self, "_report", report))
        return super().create_scheduler(num_training_steps, optimizer)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        at, step = self.state.global_step, mark_of(flatten(inputs)[0])
        if self.private is None or self.private.steps_taken != at:
            raise errors.StateError("the trainer is at step %d, and its noise is not: resume from a checkpoint with optimizer.pt" % at)
        if step is None:
            raise errors.StateError("these examples are not from the sampler: get_train_dataloader must not be replaced")
        self.model.train()
        self.private.accumulate(self._prepare_inputs(inputs), drawn_for=step)
        return torch.zeros((), device=self.args.device)

    def log(self, logs: Dict[str, float], *rest: Any) -> None:
        told = {"nonprivate_loss": getattr(self._report, "nonprivate_loss", None)}
        logs = {name: value for name, value in logs.items() if name not in ("loss", "grad_norm", "train_loss", "total_flos")}
        super().log({**logs, **{name: value for name, value in told.items() if value is not None}}, *rest)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # it would count examples and tokens
