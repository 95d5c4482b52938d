# SPDX-License-Identifier: Apache-2.0
"""An embedding whose noise is drawn when its rows are read: a table that can leave only with all of its noise."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

import torch

from .. import errors
from .._library import real
from ..keys import KeyLike
from ..lazy import LazyNoise
from ..mechanism import Mechanism
from ..noise import StateLike

PENDING = (
    "the table of this embedding misses the noise of %d steps, and which of its rows have it depends on the data: call flush() before %s"
)
KINDS = (torch.float32, torch.float64)
FINEST = 2.0**-20  # of a float32 table's largest number: it is rounded to 2^-24 of each, and noise below that would vanish


class SparseEmbedding(torch.nn.Module):
    """A look-up in a large table, trained by private SGD with noise that is drawn when a row is read (LazyNoise).

    It is no parameter: no optimizer, and not make_private, trains it. A step is

        vectors = embedding(ids)                    # the rows get the noise that they have missed
        ...                                         # gradients of the vectors, clipped for each unit with all that is trained, summed
        embedding.step(rows, sums, rate)            # table[rows] -= rate x sums; the step's noise, times rate, is owed to all rows

    and `flush()` adds what is owed. Until then state_dict(), copies, pickles, `weight`, eval mode and look-ups without gradients are
    refused. What leaves the training loop while noise is pending (vectors, losses, outputs) has no guarantee.

    embedding   torch.nn.Embedding, or its table: float32 or float64 on the CPU. Its numbers are copied
    mechanism, clip_norm, key, state, replay, label, threads, uncalibrated   as for LazyNoise: clip_norm bounds a unit's gradient over this table
                and everything else that is trained, and what is beside it needs its own noise of the same mechanism and clip norm

    A float32 table rounds gradients and noise one after the other, which the guarantee does not cover: where rate x the noise's scale is
    near 1e-7 of its numbers, the rounding can reveal a unit. Where the scale is below 2^-20 of the largest number, the
    step is refused: give a float64 table.

    `sums` are divided by nothing: `rate` is the learning rate over the batch. Momentum, Adam and weight decay, which change rows
    that no example read, are not offered.
    """

    def __init__(
        self,
        embedding: Union[torch.nn.Embedding, torch.Tensor],
        mechanism: Mechanism,
        clip_norm: float,
        key: KeyLike = None,
        *,
        state: StateLike = None,
        replay: bool = False,
        label: Optional[str] = None,
        threads: int = 0,
        uncalibrated: bool = False,
    ):
        super().__init__()
        if isinstance(embedding, torch.nn.Embedding):
            if embedding.max_norm is not None or embedding.scale_grad_by_freq:
                raise errors.UnsupportedError(
                    "an embedding with max_norm or scale_grad_by_freq: the first writes into rows that are read, the second "
                    "lets examples change each other's gradients"
                )
            embedding = embedding.weight
        if not isinstance(embedding, torch.Tensor):
            raise errors.ArgumentTypeError("embedding is a %s, a torch.nn.Embedding or its table is accepted" % type(embedding).__name__)
        if embedding.dim() != 2 or embedding.dtype not in KINDS or embedding.device.type != "cpu":
            raise errors.ArgumentError(
                "embedding: a table of shape %s, %s, on %s; two dimensions, float32 or float64, on the CPU are accepted"
                % (tuple(embedding.shape), embedding.dtype, embedding.device)
            )
        self._table = embedding.detach().clone(memory_format=torch.contiguous_format)
        self.noise = LazyNoise(
            mechanism, *self._table.shape, clip_norm, key, dtype=str(self._table.dtype), state=state, replay=replay, label=label,
            threads=threads, uncalibrated=uncalibrated,
        )  # fmt: skip
        self._note_size()

    def _note_size(self) -> None:
        """Of a table without pending noise: what a refusal says of it is public."""
        self._largest = float(self._table.abs().max())

    @property
    def pending(self) -> bool:
        """Noise is missing in the table."""
        return self.noise.pending

    def _need_flush(self, what: str) -> None:
        if self.noise.pending:
            raise errors.StateError(PENDING % (self.noise.step - self.noise.flushed, what))

    @property
    def weight(self) -> torch.Tensor:
        """A copy of the table; refused while noise is pending."""
        self._need_flush("its weight is read")
        return self._table.clone()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of these ids, as a leaf: its .grad has the gradient of each vector after backward()."""
        if torch._C._functorch.is_functorch_wrapped_tensor(ids):
            raise errors.UnsupportedError(
                "a SparseEmbedding inside torch.func (make_private): the rows of a whole batch are looked up together, and their "
                "gradients clipped by the caller"
            )
        if not self.training or not torch.is_grad_enabled():
            self._need_flush("the model is evaluated")
            return torch.nn.functional.embedding(ids, self._table)
        self.noise.touch_(self._table, ids.detach().cpu().unique().numpy())
        return torch.nn.functional.embedding(ids, self._table).requires_grad_()

    def step(self, rows: torch.Tensor, sums: torch.Tensor, rate: float) -> None:
        """Ends a step, of rate x (the sum of clipped gradients + noise), also where no row has a gradient.

        rows    ids; one that comes several times gets the sum of its parts
        sums    for each of them, the sum of the units' clipped gradients
        rate    learning rate / batch
        """
        rate = real(rate, "rate")
        if rows.dim() != 1 or sums.shape != (len(rows), self._table.shape[1]):
            raise errors.ArgumentError(
                "rows of shape %s and sums of %s, accepted: (n,) and (n, %d)"
                % (tuple(rows.shape), tuple(sums.shape), self._table.shape[1])
            )
        if len(rows) and not (0 <= int(rows.min()) and int(rows.max()) < len(self._table)):
            raise errors.ArgumentError("rows of %d to %d, accepted: 0 to %d" % (int(rows.min()), int(rows.max()), len(self._table) - 1))
        noise = abs(rate) * self.noise.scale
        if self._table.dtype == torch.float32 and 0 < noise < FINEST * self._largest:
            raise errors.ArgumentError(
                "rate = %g: the noise of a step has deviation %.3g, and numbers of %.3g in float32 would lose it to rounding (accepted: "
                "2^-20 of them or more); give a float64 table" % (rate, noise, self._largest)
            )
        self.noise.next(-rate)
        self._table.index_add_(0, rows.detach().cpu(), sums.detach().to(self._table), alpha=-rate)

    def flush(self) -> None:
        """Adds all noise that is owed: before every save, state_dict and evaluation."""
        self.noise.flush_(self._table)
        self._note_size()

    def save_noise(self, path: "Union[str, os.PathLike[str]]") -> None:
        """What a resumed run needs beside the state_dict of this moment, as secret as the key; refused while noise is pending."""
        self.noise.save(path)

    def load_noise(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Resumes; load_state_dict gives the table that was saved with it."""
        self.noise.load(path)

    # ---- the ways out ----

    def train(self, mode: bool = True) -> "SparseEmbedding":
        if not mode:
            self._need_flush("eval()")
        return super().train(mode)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self._need_flush("state_dict()")
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = self._table.clone()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing: Any, unexpected: Any, messages: Any
    ) -> None:
        name = prefix + "weight"
        rest = {key: value for key, value in state_dict.items() if key != name}
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing, unexpected, messages)
        if name not in state_dict:
            missing.append(name)
        elif state_dict[name].shape != self._table.shape:
            messages.append("%s has shape %s, and this table %s" % (name, tuple(state_dict[name].shape), tuple(self._table.shape)))
        else:
            with torch.no_grad():
                self._table.copy_(state_dict[name])
            self._note_size()

    def _apply(self, function: Any, recurse: bool = True) -> "SparseEmbedding":
        """model.to(...): the table stays on the CPU in its own precision."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.UnsupportedError("a SparseEmbedding holds the key of its noise and is not copied or pickled: state_dict() has its table")

    def extra_repr(self) -> str:
        return "%d, %d, pending=%s" % (*self._table.shape, self.pending)
