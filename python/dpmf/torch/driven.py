# SPDX-License-Identifier: Apache-2.0
"""Private steps in the loops of others: batches in parts, each example collated alone, and optimizer.step() as the private step.

A loop of another library calls optimizer.step() when a batch is done. After `drive` that call is Private.step: one row of noise for what
was accumulated, and an error if nothing was. So a loop that forms gradients in its own way cannot step with them.
"""

from __future__ import annotations

import types
from typing import Any, Callable, Dict, Iterator, List

import torch

from .. import errors
from .batches import BatchSampler, data_loader, mark_of, marked
from .private import Private
from .pytree import flatten, mapped

ALONE = (
    "data_collator: it made %s of one example, and tensors with one row are accepted. Each example is collated alone, so that it cannot "
    "change, replace or drop another one"
)
PADDED = (
    "data_collator: %s has shape %s for one example and %s for another. Pad all examples to one length that does not follow from the data "
    "(padding='max_length')"
)


def drive(private: Private) -> None:
    """From here on optimizer.step() is the private step; private.close() ends that."""
    optimizer = private.optimizer
    own = optimizer.step

    def step(_self: Any, closure: Any = None) -> Any:
        if private._inside:
            return own(closure) if closure is not None else own()
        if closure is not None:
            closure()  # of a loop that keeps its own hooks there; gradients that it leaves are not used
        return private.step()

    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]
    private._hooks.append(types.SimpleNamespace(remove=lambda: vars(optimizer).pop("step", None)))


class Alone(torch.utils.data.Dataset):
    """The examples of a data set, each collated alone: a mapping of tensors with one row."""

    def __init__(self, dataset: Any, collate: Callable[[List[Any]], Any]):
        self.dataset, self.collate = dataset, collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Dict[str, torch.Tensor]:
        found = dict(self.collate([self.dataset[index]]))
        for name, part in found.items():
            if not isinstance(part, torch.Tensor) or part.dim() == 0 or len(part) != 1:
                what = "shape %s" % (tuple(part.shape),) if isinstance(part, torch.Tensor) else "a %s" % type(part).__name__
                raise errors.ArgumentError(ALONE % "%s with %s" % (name, what))
        return found


def joined(examples: List[Dict[str, torch.Tensor]]) -> Dict[str, torch.Tensor]:
    """A batch of examples that were collated alone."""
    first = examples[0]
    for example in examples:
        if list(example) != list(first):
            raise errors.ArgumentError("data_collator: %s of one example, %s of another" % (sorted(first), sorted(example)))
        for name, part in example.items():
            if part.shape != first[name].shape:
                raise errors.ArgumentError(PADDED % (name, tuple(first[name].shape[1:]), tuple(part.shape[1:])))
    return {name: torch.cat([example[name] for example in examples]) for name in first}


class Parts:
    """The batches of a sampler over a data set, each in a number of parts, of which some can be empty.

    For any loop around it, parts know the step of their batch, and together they are all of its examples.
    """

    def __init__(self, dataset: Any, sampler: BatchSampler, collate: Callable[[List[Any]], Any], parts: int = 1, workers: int = 0):
        if not isinstance(sampler, BatchSampler):
            raise errors.ArgumentError("sampler: a %s, a dpmf.torch.BatchSampler is accepted" % type(sampler).__name__)
        units = sampler.sampler.units if sampler.users is None else sampler.users.examples
        if sampler.owners is None and len(dataset) != units:
            raise errors.ArgumentError("train_dataset: %d examples, and the sampler draws from %d" % (len(dataset), units))
        self.dataset, self.parts = dataset, parts
        self.loader = data_loader(Alone(dataset, collate), sampler, joined, num_workers=workers)

    def __len__(self) -> int:
        return len(self.loader) * self.parts

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            count, step = len(next(iter(batch.values()))), mark_of(flatten(batch)[0])
            each = -(-count // self.parts)
            for first in range(0, each * self.parts, each) if each else [0] * self.parts:
                yield marked(mapped(lambda t: t[first : first + each], batch), step)  # noqa: B023
