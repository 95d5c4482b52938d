# SPDX-License-Identifier: Apache-2.0
"""Batches as people have them: tensors in tuples, lists, dictionaries, dataclasses and namespaces, nested to any depth."""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Callable, List, Sequence, Tuple

import torch

from .. import errors
from .randomness import Draws

Build = Callable[[Sequence[torch.Tensor]], Any]


def flatten(nest: Any) -> Tuple[List[torch.Tensor], Build]:
    """(its tensors, what makes the same nest of other tensors). Numbers, strings and None stay what they are."""
    tensors: List[torch.Tensor] = []
    return tensors, _walk(nest, tensors)


def _walk(nest: Any, tensors: List[torch.Tensor]) -> Build:
    if isinstance(nest, torch.Tensor):
        at = len(tensors)
        tensors.append(nest)
        return lambda others: others[at]
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        return _with_fields(nest, [f.name for f in dataclasses.fields(nest)], tensors)
    if isinstance(nest, types.SimpleNamespace):
        return _with_fields(nest, list(vars(nest)), tensors)
    if isinstance(nest, Mapping):
        named = {name: _walk(part, tensors) for name, part in nest.items()}
        return lambda others: {name: build(others) for name, build in named.items()}
    if isinstance(nest, (tuple, list)):
        parts = [_walk(part, tensors) for part in nest]
        kind = type(nest)
        if hasattr(nest, "_fields"):  # a named tuple
            return lambda others: kind(*[build(others) for build in parts])
        return lambda others: kind([build(others) for build in parts])  # type: ignore[call-arg]
    return lambda others: nest


def _with_fields(nest: Any, names: List[str], tensors: List[torch.Tensor]) -> Build:
    parts = {name: _walk(getattr(nest, name), tensors) for name in names}

    def build(others: Sequence[torch.Tensor]) -> Any:
        made = copy.copy(nest)
        for name, part in parts.items():
            object.__setattr__(made, name, part(others))  # frozen ones too
        return made

    return build


def mapped(function: Callable[[torch.Tensor], torch.Tensor], nest: Any) -> Any:
    """The same nest of function(tensor)."""
    tensors, build = flatten(nest)
    return build([function(tensor) for tensor in tensors])


class Examples:
    """One micro-batch: how the model is called, its targets, and the tensors of both, whose first dimension is the examples.

    A tuple or list is the model's positional inputs, a mapping its keyword inputs, and anything else is its one input.
    """

    def __init__(self, inputs: Any, targets: Sequence[Any], keywords: "dict[str, Any]"):
        named = dict(keywords)
        if isinstance(inputs, Mapping) and not dataclasses.is_dataclass(inputs):
            named, positional = {**inputs, **named}, ()
        elif isinstance(inputs, (tuple, list)) and not hasattr(inputs, "_fields"):
            positional = tuple(inputs)
        else:
            positional = () if inputs is None else (inputs,)
        #: Of the keyword inputs.
        self.names = list(named)
        self.tensors, self._build = flatten((positional, named, tuple(targets)))
        if not self.tensors:
            raise errors.ArgumentError("inputs: a %s without tensors" % type(inputs).__name__)
        for tensor in self.tensors:
            if tensor.dim() == 0:
                raise errors.ArgumentError("inputs: a tensor of no dimensions; the first one must be the examples")
        sizes = [len(tensor) for tensor in self.tensors]
        if len(set(sizes)) > 1:
            raise errors.ArgumentError("inputs and targets of %s examples: as many of each are accepted" % sizes)
        self.count = self.real = sizes[0]  # those behind the first `real` are padding
        #: Whose random numbers a pass over them has.
        self.draws = Draws(b"", 0, [])
        #: The users of the real ones, by numbers, where users are the units.
        self.users: List[int] = []

    def call(self, tensors: Sequence[torch.Tensor]) -> Any:
        """(positional inputs, keyword inputs, targets), of other tensors."""
        return self._build(tensors)

    def made_up(self, count: int, whole: int) -> List[torch.Tensor]:
        """Tensors of `count` examples of these shapes, random where they are real numbers and `whole` elsewhere.

        Numbers of classes and tokens, and masks, are whole numbers: a model takes 1 for them, or else 0.
        """
        like = [t[:1].expand(count, *t.shape[1:]) for t in self.tensors]
        dense = torch.contiguous_format
        return [
            torch.randn_like(t, memory_format=dense)
            if t.is_floating_point()
            else torch.full_like(t, whole, memory_format=dense)
            for t in like
        ]

    def sort(self, order: Sequence[int]) -> None:
        """Puts the real ones into this order; padding stays behind them."""
        at = list(order) + list(range(len(order), self.count))
        if at == list(range(self.count)):
            return
        index = torch.tensor(at, dtype=torch.int64)
        self.tensors = [t[index.to(t.device)] for t in self.tensors]
        self.draws = self.draws.sorted(at)
        self.users = [self.users[i] for i in order]

    def part(self, first: int, last: int) -> List[torch.Tensor]:
        return [tensor[first:last] for tensor in self.tensors]
