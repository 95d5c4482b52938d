# SPDX-License-Identifier: Apache-2.0
"""Examples of several owners: batches in which every owner takes part as the mechanism assumes.

An example with several owners (the two people of a message, the authors of a text) is in the data of each. A batch may hold at
most one example of an owner, so that clipping each example bounds what an owner moves a sum by; and the steps of all of an
owner's examples together must fit the participation (at most k, any two at least b apart). Which examples can be used then
depends on all of them: the problem is to choose many (Ganesh, McKenna, McMahan, Smith and Wu 2025 call it contribution bounding;
the greatest choice is NP-hard, and their baseline is greedy).

The greedy assignment, step after step: of the examples all of whose owners may take part in step t, take up to M, those that were
used least first, and among equals in a fixed order that follows from the key. An example with an owner who has had k uses can never
be used again, and is dropped.

Who is protected: one owner's examples decide which examples of others are taken, in a chain of any length. If an owner could
be added or removed with the examples, all later batches could change, and no clip norm bounds that. So the guarantee is for a fixed
ownership graph (fixed-graph differential privacy, Ganesh et al. 2025): who owns which example is public, and neighbouring data
differ in the contents of all examples of one owner, in any way for replace-one adjacency, or because they contribute zeros, in place,
for zero-out. Batches are then a function of (graph, key, M, k, b) alone and are the same for both. The mechanism's adjacency
must be one of these two; add-remove is refused.

One heap holds the examples that are free, by (times used, order), another those that wait, by the step in which all owners are
free. One that comes up and is blocked by an owner who was taken in the meantime goes to the second, so that each use of an owner
costs at most O(log N) for each of its examples.
"""

from __future__ import annotations

import hashlib
import heapq
import hmac
from typing import Any, Dict, List, Optional

import numpy as np

from . import errors
from .keys import KeyBuffer, KeyLike
from .mechanism import Mechanism
from .sampler import Sampler
from .users import checked_ids, digest_ids

__all__ = ["OwnerSampler", "Owners"]


class Owners:
    """The owners of each example, a list of lists of ids; ids as for Users.

    >>> owners = Owners([["ann", "bob"], ["bob"], ["cy"]])
    >>> owners.count, [o.tolist() for o in owners.of]
    (3, [[0, 1], [1], [2]])
    """

    def __init__(self, owners: Any):
        if isinstance(owners, (str, bytes)) or not hasattr(owners, "__len__"):
            raise errors.ArgumentTypeError("owners is a %s, accepted: a list of owners for each example" % type(owners).__name__)
        flat: List[Any] = []
        sizes = []
        for i, some in enumerate(owners):
            if isinstance(some, (str, bytes)) or not hasattr(some, "__len__"):
                raise errors.ArgumentTypeError("owners[%d] is a %s, accepted: a list of ids" % (i, type(some).__name__))
            if len(some) == 0:
                raise errors.ArgumentError("owners[%d] is empty, accepted: at least one owner for each example" % i)
            flat.extend(some.tolist() if isinstance(some, np.ndarray) else some)
            sizes.append(len(some))
        if not sizes:
            raise errors.ArgumentError("owners: there are none, accepted: a list of owners for each example")
        ids = checked_ids(flat, "owners")
        self.ids = sorted(set(ids.tolist() if isinstance(ids, np.ndarray) else ids))
        number = {one: i for i, one in enumerate(self.ids)}
        found = np.array([number[one] for one in (ids.tolist() if isinstance(ids, np.ndarray) else ids)], np.int64)
        self.of = [np.unique(part) for part in np.split(found, np.cumsum(sizes)[:-1])]
        self.count, self.examples = len(self.ids), len(sizes)
        self.digest = digest_ids(b"dpmf owners 1", ids, np.asarray(sizes, "<i8").tobytes())


def assign(owners: List[np.ndarray], count: int, order: np.ndarray, steps: int, batch: int, times: int, apart: int) -> List[np.ndarray]:
    """The examples of every step, rising. `order` has each example's place among equals; `count` is the number of owners.

    >>> [b.tolist() for b in assign([np.array([0, 1]), np.array([1]), np.array([2])], 3, np.arange(3), 3, 2, 1, 3)]
    [[0, 2], [], []]
    """
    free, uses = [0] * count, [0] * count
    lists = [some.tolist() for some in owners]
    later: List[Any] = []  # (free from, times used, order, example)
    ready = [(0, int(order[i]), i) for i in range(len(lists))]  # (times used, order, example): some may be blocked by now
    heapq.heapify(ready)
    out = []
    for t in range(steps):
        while later and later[0][0] <= t:
            heapq.heappush(ready, heapq.heappop(later)[1:])
        taken: List[int] = []
        while ready and len(taken) < batch:
            used, place, i = heapq.heappop(ready)
            if any(uses[o] >= times for o in lists[i]):
                continue  # one of its owners has had all uses: dropped
            begin = max(free[o] for o in lists[i])
            if begin <= t:
                begin = t + apart
                taken.append(i)
                used += 1
                for o in lists[i]:
                    uses[o] += 1
                    free[o] = begin
            heapq.heappush(later, (begin, used, place, i))
        out.append(np.sort(np.array(taken, np.int64)))
    return out


class OwnerSampler(Sampler):
    """Batches of examples with several owners: "scheduled:M,K,B" is up to M examples, each owner at most K times, B apart.

    `left_out` has the examples that take part in no step. A mechanism for add-remove adjacency is refused.
    """

    def __init__(
        self,
        what: str,
        owners: Owners,
        steps: int,
        key: KeyLike = None,
        label: Optional[str] = None,
        mechanism: Optional[Mechanism] = None,
    ):
        self._pointer = None
        if not isinstance(what, str) or not what.startswith("scheduled:"):
            raise errors.ArgumentError(
                "what = %r with owners=, accepted: scheduled:M,K,B (up to M examples, each owner at most K times, at least B steps "
                "apart). Batches that are drawn at random have no law that holds for every owner at once" % (what,)
            )
        if mechanism is not None and mechanism.adjacency == "add-remove":
            raise errors.ArgumentError(
                "owners: the mechanism's adjacency is add-remove, and which examples are taken depends on who owns what: one owner more or "
                "less can change all batches. Accepted: a mechanism for zero-out or replace-one adjacency, with public ownership"
            )
        with KeyBuffer(key) as memory:
            super().__init__(what, owners.examples, steps, bytes(memory.memory), label, mechanism)
            secret = hmac.new(bytes(memory.memory), b"dpmf owners 1" + (label or "").encode(), hashlib.sha256).digest()
        self._ephemeral = key is None
        self.owners, self._at = owners, 0
        batch, times, apart = (int(number) for number in self.text.partition(":")[2].split(","))
        words = np.frombuffer(hashlib.shake_256(secret).digest(8 * owners.examples), "<u8")
        order = np.empty(owners.examples, np.int64)
        order[np.argsort(words, kind="stable")] = np.arange(owners.examples)
        self._batches = assign(owners.of, owners.count, order, steps, batch, times, apart)
        used = np.zeros(owners.examples, bool)
        for some in self._batches:
            used[some] = True
        self.left_out = np.flatnonzero(~used)

    @property
    def step(self) -> int:
        return self._at

    @property
    def expected_batch(self) -> float:
        """The mean size of the batches that are not empty, which is public as the ownership is."""
        sizes = [len(some) for some in self._batches if len(some) > 0]
        return float(np.mean(sizes)) if sizes else 1.0

    def identity(self) -> Dict[str, Any]:
        return {**super().identity(), "owners": self.owners.digest}

    def next(self) -> np.ndarray:
        if self._at >= self.steps:
            raise errors.ArgumentError("step = %d, accepted: 0 to %d" % (self._at, self.steps - 1))
        self._at += 1
        return self._batches[self._at - 1].copy()

    def seek(self, step: int) -> None:
        if not 0 <= step <= self.steps:
            raise errors.ArgumentError("step = %d, accepted: 0 to %d" % (step, self.steps))
        self._at = step

    def offer(self, available: Any) -> np.ndarray:
        raise errors.UnsupportedError("offers to a sampler of owners: its batches follow from the ownership alone")

    def state_dict(self) -> Dict[str, Any]:
        raise errors.UnsupportedError("a sampler of owners has no state: make it again with the same key, and seek")

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        raise errors.UnsupportedError("a sampler of owners has no state: make it again with the same key, and seek")
