# SPDX-License-Identifier: Apache-2.0
"""A LightningModule with private steps: Lightning's loop, logs and checkpoints around dpmf.torch.make_private.

    class Model(dpmf.lightning.PrivateModule):
        def __init__(self, **private):
            super().__init__(private)
            self.layers = torch.nn.Linear(20, 2)

        def forward(self, x):
            return self.layers(x)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    model = Model(mechanism=mechanism, clip_norm=1.0, sampler=sampler, key="run.key", state="run.state")
    lightning.Trainer(max_epochs=-1).fit(model, dpmf.torch.data_loader(data, sampler))     # it ends with the mechanism's steps
"""

from __future__ import annotations

import inspect
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

import lightning

from . import errors
from .torch import BatchSampler, Private, make_private
from .torch.adapters import check_all_trained
from .torch.batches import mark_of, marked
from .torch.driven import drive
from .torch.pytree import flatten

PRECISIONS = ("32-true", "64-true", "bf16-mixed", "bf16-true")
#: Arguments that are no hyperparameters: the key, or what holds it. Checkpoints and loggers keep those.
SECRET = ("private", "key", "sampler")
#: Hooks around a gradient that is not formed here.
UNUSED = (
    "training_step", "backward", "optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping", "on_before_backward",
    "on_after_backward",
)  # fmt: skip


class PrivateModule(lightning.LightningModule):
    """A module of yours has it as its base: `forward` and `configure_optimizers` are yours, training_step is here.

    private   the arguments of dpmf.torch.make_private after the optimizer; `sampler` must be a BatchSampler, and batches come from
              dpmf.torch.data_loader over it. The result is `self.private` once training has begun. Without loss= the loss is the cross
              entropy of the outputs and the rest of the batch
    """

    def __init__(self, private: Mapping[str, Any]):
        super().__init__()
        self.automatic_optimization = False
        self._asked = dict(private)
        self.private: Optional[Private] = None

    def parts_of(self, batch: Any) -> Tuple[Any, Tuple[Any, ...]]:
        """(inputs, targets) of a batch; override it for others than a mapping, which has no targets, and (inputs, *targets)."""
        return (batch[0], tuple(batch[1:])) if isinstance(batch, (tuple, list)) else (batch, ())

    def save_hyperparameters(self, *names: Any, ignore: Union[Sequence[str], str, None] = None, frame: Any = None, **more: Any) -> None:
        """Lightning's, without the key of the run, by which anybody with a checkpoint could take the noise off."""
        for name in names:
            if isinstance(name, str) and name in SECRET:
                raise errors.ArgumentError("save_hyperparameters: %r would put the key of the run into checkpoints and logs; leave it out" % name)
        frame = frame or inspect.currentframe().f_back  # type: ignore[union-attr]
        left_out = (ignore,) if isinstance(ignore, str) else tuple(ignore or ())
        super().save_hyperparameters(*names, ignore=[*left_out, *SECRET], frame=frame, **more)

    def on_fit_start(self) -> None:
        """The optimizer is as it will be, and its state has not been loaded yet."""
        super().on_fit_start()
        trainer, own, source = self.trainer, type(self), self._asked.get("sampler")
        for name in UNUSED:
            if getattr(own, name) is not getattr(PrivateModule, name):
                raise errors.UnsupportedError(
                    "%s of %s would not be called: the gradient of each example is formed by make_private" % (name, own.__name__)
                )
        if self.private is not None:
            raise errors.StateError("fit() was called before: another run needs a new module and a new key")
        if self.automatic_optimization or len(trainer.optimizers) != 1:
            raise errors.UnsupportedError(
                "%d optimizers, automatic_optimization = %s; accepted: 1, False" % (len(trainer.optimizers), self.automatic_optimization)
            )
        if trainer.precision not in PRECISIONS:
            raise errors.UnsupportedError(
                "precision = %s, accepted: %s. The GradScaler of 16-mixed skips steps whose gradients overflow, which one example can cause"
                % (trainer.precision, ", ".join(PRECISIONS))
            )
        strategy = type(trainer.strategy).__name__
        if trainer.world_size != 1 or strategy != "SingleDeviceStrategy":
            raise errors.UnsupportedError(
                "%s with %d processes: one device is accepted here, several by make_private" % (strategy, trainer.world_size)
            )
        if not isinstance(source, BatchSampler):
            raise errors.ArgumentError("sampler: a %s, a dpmf.torch.BatchSampler is accepted" % type(source).__name__)
        self.private = make_private(self, trainer.optimizers[0], **self._asked)
        check_all_trained(self, self.private._params)
        drive(self.private)

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Tensors that are moved keep the step that they were drawn for, which all of them must have."""
        parts = flatten(batch)[0]
        step = mark_of(parts)
        if step is not None and any(mark_of([part]) is None for part in parts):
            raise errors.StateError(
                "a part of this batch is not from the sampler: fit() takes one loader, dpmf.torch.data_loader(data, sampler). Examples of "
                "another one would take part in steps that the mechanism does not know"
            )
        moved = super().transfer_batch_to_device(batch, device, dataloader_idx)
        return moved if step is None else marked(moved, step)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        private = self.private
        step = mark_of(flatten(batch)[0])
        if private is None or step is None:
            raise errors.StateError(
                "this batch is not from the sampler: fit() takes dpmf.torch.data_loader(data, sampler), which nothing may replace"
            )
        inputs, targets = self.parts_of(batch)
        private.accumulate(inputs, *targets, drawn_for=step)
        self.optimizers().step()  # type: ignore[union-attr]
        if private.steps_taken == private.mechanism.steps:
            self.trainer.should_stop = True
