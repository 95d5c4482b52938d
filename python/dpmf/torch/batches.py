# SPDX-License-Identifier: Apache-2.0
"""Batches for a DataLoader, from the library's samplers."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional

import torch

from .. import errors
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..sampler import Sampler


class BatchSampler(torch.utils.data.Sampler):
    """Lists of indices for a DataLoader's batch_sampler, from any of the library's samplers.

    what, units, steps, key, label, mechanism as in dpmf.Sampler; `units` may be the data set, and `steps` follows from the
    mechanism. With `world` processes each gets its part of every batch. Batches may be empty: see data_loader.
    """

    def __init__(
        self,
        what: str,
        units: Any,
        key: KeyLike = None,
        *,
        steps: Optional[int] = None,
        mechanism: Optional[Mechanism] = None,
        label: Optional[str] = None,
        rank: int = 0,
        world: int = 1,
    ):
        if steps is None:
            if mechanism is None:
                raise errors.ArgumentError("steps: they are not given, and there is no mechanism to take them from")
            steps = mechanism.steps
        if world > 1 and key is None:
            raise errors.ArgumentError("key: %d processes need the same one" % world)
        units = units if isinstance(units, int) else len(units)
        self.sampler = Sampler(what, units, steps, key, label, mechanism)
        self._part = (rank, world)
        self._position: Callable[[], int] = lambda: self.sampler.step

    @property
    def expected_batch(self) -> float:
        """Of all processes together."""
        return self.sampler.expected_batch

    def follow(self, position: Callable[[], int]) -> None:
        """Begin where `position()` is: the noise's step, however far a DataLoader has read ahead."""
        self._position = position

    def seek(self, step: int) -> None:
        self.sampler.seek(step)

    def __iter__(self) -> Iterator[List[int]]:
        if self.sampler.step != self._position():
            self.sampler.seek(self._position())
        for batch in self.sampler:
            yield batch[self._part[0] :: self._part[1]].tolist()

    def __len__(self) -> int:
        return self.sampler.steps - self._position()


class _Collate:
    """A batch, which may be empty: then one example tells the shapes."""

    def __init__(self, dataset: Any, collate: Callable[[List[Any]], Any]):
        self.dataset, self.collate = dataset, collate

    def __call__(self, examples: List[Any]) -> Any:
        if examples:
            return self.collate(examples)
        return _nothing(self.collate([self.dataset[0]]))


def _nothing(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, dict):
        return {name: _nothing(part) for name, part in batch.items()}
    return type(batch)(_nothing(part) for part in batch)


def data_loader(
    dataset: Any, sampler: BatchSampler, collate_fn: Optional[Callable[[List[Any]], Any]] = None, **options: Any
) -> torch.utils.data.DataLoader:
    """A DataLoader over the sampler's batches that can also be empty."""
    collate = _Collate(dataset, collate_fn or torch.utils.data.default_collate)
    return torch.utils.data.DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, **options)
