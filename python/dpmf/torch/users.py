# SPDX-License-Identifier: Apache-2.0
"""Clipping by users: the gradients of a user's examples are added up, clipped together, and summed over users in integers.

Let g_1 .. g_n be the gradients of a user's examples in a step. The user contributes clip(v), v = g_1 + ... + g_n or v / n, put on
the grid and clipped there as one example's gradient is without users (sums.py). So the integers that a user adds have norm at
most N, N xi <= clip, for any number of examples with any values: 1000 of them, NaN, 1e30.

v is computed in double, example after example in the order in which they come. Elementwise sums in a fixed order are a function
of the user's own gradients alone: neither the other users, nor the chunk that an example is in, change a bit of v. If a
gradient of one example depended on its place in a pass, v would too, so the passes have only sizes in which it does not
(places.py), for every sampler: the number of examples of a user varies. A user with one example adds its gradient as it is.

The examples of a user may lie in several chunks, or in two parts of a step that follow each other: then the sum v of one user
stays open. A user who comes back after another one would be clipped twice, and is refused.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Set

import torch

from .. import errors
from ..users import MEAN
from .clipping import PerExample, Tally
from .pytree import Examples
from .sums import ExactSum, norms

#: Numbers of the sums of users that are worked on at a time, so that they stay in a core's cache.
BLOCK = 1 << 21
#: Columns of one sum that are worked on at a time, for the same reason.
STRIP = 1 << 15

EXACT_USERS = (
    "The gradients of one %(unit)s's examples were %(how)s, clipped together, and summed in integers: no %(unit)s moved a sum by more than "
    "the clip norm, exactly, for any number of examples, if the gradient of each example depends on it alone. A model, loss, augmentation or "
    "collate function that mixes the examples of a batch is not covered (MixUp, or padding to the longest without a mask). One %(unit)s is one "
    "id of those that the caller gave: ids that differ, also in case only, are different, and somebody with two ids is covered as two.\n"
)
#: Each example has several owners, and each owner at most one example in a batch.
OWNED = (
    "Examples have several owners. No step had two examples of an owner, so that clipping each example bounds each %(unit)s, and the "
    "participation above is that of all examples of an owner together. Who owns which example is public here: the guarantee is for the "
    "contents of all examples of one %(unit)s, and not for the fact that it owns them (fixed-graph differential privacy).\n"
)
PIECES = (
    "user number %d is in two parts of step %d with others between them, and the gradients of a user are added up before they are clipped. What "
    "the step had is dropped. Give all examples of a user in one part, or the whole batch in one call: chunk= limits the memory that it takes"
)


class PerUser(PerExample):
    """Every user's gradients added up or averaged, clipped on the grid and summed in integers: exact."""

    def __init__(self, *options: Any, unit: str, user_gradient: str):
        super().__init__(*options)
        self._said = {"unit": unit, "how": "averaged" if user_gradient == MEAN else "added up"}
        self._mean = user_gradient == MEAN
        self.forget()

    @property
    def sentence(self) -> str:
        said = super().sentence
        return EXACT_USERS % self._said + said[said.index("\n") + 1 :]

    def forget(self) -> None:
        self._open: Optional[int] = None  # the user whose sum is not closed
        self._sum: List[torch.Tensor] = []  # that sum so far, in double
        self._examples = 0  # in it
        self._kinds: List[Any] = []  # the types of its gradients
        self._begun: Set[int] = set()  # users of the step: but for the open one, none of them can come back

    def begin(self, examples: Examples, step: int) -> None:
        """Sorts the examples by user, the open one first. Raises, before anything is computed, if one comes back."""
        users = examples.users
        back = self._begun.intersection(users) - {self._open}
        if back:
            raise errors.StateError(PIECES % (min(back), step))
        self._begun.update(users)  # before they are added: a call that is interrupted cannot be given them again
        examples.sort(sorted(range(len(users)), key=lambda i: (users[i] != self._open, users[i])))

    def _put(
        self, sums: ExactSum, whole: List[torch.Tensor], losses: torch.Tensor, tally: Tally, examples: Examples, first: int
    ) -> None:
        tally.add_losses(losses)
        count = len(whole[0])
        if count == 0:
            return
        flat = [g.detach().reshape(count, -1) for g in whole]
        users = examples.users[first : first + count]
        starts = [i for i in range(count) if i == 0 or users[i] != users[i - 1]] + [count]
        if users[0] == self._open:
            self._extend(flat, starts[0], starts[1])
            starts = starts[1:]
        if len(starts) < 2:
            return
        # The last user's sum stays open: the rest of its examples may be in the next chunk.
        self._close(sums, tally)
        self._add_closed(sums, tally, flat, starts[:-1])
        self._sum = [torch.zeros(g.shape[1], dtype=torch.float64, device=g.device) for g in flat]
        self._kinds, self._examples, self._open = [g.dtype for g in flat], 0, users[starts[-2]]
        self._extend(flat, starts[-2], starts[-1])

    def _extend(self, flat: List[torch.Tensor], begin: int, end: int) -> None:
        """More examples of the open user."""
        for g, total in zip(flat, self._sum):
            add_rows(total, g[begin:end])
        self._examples += end - begin

    def _add_closed(self, sums: ExactSum, tally: Tally, flat: List[torch.Tensor], starts: List[int]) -> None:
        """The users whose examples are the rows from each of starts up to the next, all of them."""
        begins, sizes = starts[:-1], [end - begin for begin, end in zip(starts, starts[1:])]
        width = max(1, BLOCK // sum(g.shape[1] for g in flat))
        alone = [b for b, size in zip(begins, sizes) if size == 1]
        several = [(b, size) for b, size in zip(begins, sizes) if size > 1]
        for some in in_runs(alone):
            self._add(sums, tally, [g[some[0] : some[-1] + 1] for g in flat])
        for k in range(0, len(several), width):
            block = several[k : k + width]
            self._add(sums, tally, [self._summed(g, block) for g in flat])

    def _summed(self, g: torch.Tensor, block: Sequence[Any]) -> torch.Tensor:
        """The sums of some users in double: the j-th examples of all of them at once, so that each sum is in its own order."""
        total = torch.zeros((len(block), g.shape[1]), dtype=torch.float64, device=g.device)
        most = max(size for _, size in block)
        if len(block) == 1:
            add_rows(total[0], g[block[0][0] : block[0][0] + most])
            most = 0
        for j in range(most):
            users = [i for i, (_, size) in enumerate(block) if size > j]
            total[users] += g[[block[i][0] + j for i in users]]
        if self._mean:
            total /= torch.tensor([float(size) for _, size in block], dtype=torch.float64, device=g.device)[:, None]
        return total

    def _add(self, sums: ExactSum, tally: Tally, whole: List[torch.Tensor]) -> None:
        sums.add(whole)
        sums.count(lambda: norms(whole))
        tally.add_units(len(whole[0]), lambda: sums.shortened(whole))

    def _close(self, sums: ExactSum, tally: Tally) -> None:
        if self._open is None:
            return
        whole, self._open, self._sum = [part[None] for part in self._sum], None, []
        if self._mean:
            for part in whole:
                part.div_(float(self._examples))
        if self._examples == 1:  # one example alone is added as it is, in every chunk
            whole = [part.to(kind) for part, kind in zip(whole, self._kinds)]
        self._add(sums, tally, whole)

    def close_step(self, sums: ExactSum, tally: Tally) -> None:
        self._close(sums, tally)
        self.forget()


def add_rows(total: torch.Tensor, rows: torch.Tensor) -> None:
    """total += the rows, one after the other, a strip of columns at a time: the strip of the sum stays in the cache."""
    for to, some in zip(total.split(STRIP), rows.split(STRIP, 1)):
        for row in some:
            to.add_(row)


def in_runs(places: Sequence[int]) -> List[List[int]]:
    """Runs of neighbouring numbers.

    >>> in_runs([0, 1, 2, 5, 7, 8])
    [[0, 1, 2], [5], [7, 8]]
    """
    runs: List[List[int]] = []
    for i in places:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def why_not_ghost(most: Optional[int]) -> Optional[str]:
    """None: a user has one example in a step, so that its gradient is that of an example."""
    if most == 1:
        return None
    return (
        "it needs the norm of the sum of a user's gradients, and gives the norms of single examples: the sum of theirs is a bound that "
        "would clip far too much, and the norm of a sum needs every product of two of the user's examples. clipping='per-example' is "
        "accepted, or a BatchSampler with users= and examples_per_user=1"
    )
