# SPDX-License-Identifier: Apache-2.0
"""Participation: which examples took part in which step. Batches are drawn as the mechanism assumes, or counted."""

from __future__ import annotations

import collections
import warnings
from typing import Any, Deque, Dict, List, Optional, Sequence

import numpy as np
import torch

from .. import errors
from .._library import whole_numbers
from ..figures import rounded_up
from ..mechanism import Mechanism
from ..privacy import Privacy
from ..sampler import Sampler
from ..users import Users
from .batches import BatchSampler, mark_of
from .pytree import flatten
from .returning import ByHand, Roster, limits_of

#: What a tensor of a counted batch is marked with.
DELIVERY = "dpmf_delivery"


#: Runs of more steps get no epsilon beforehand: the sensitivity of shuffled batches takes seconds there.
FORESEEN_STEPS = 20000


class Checked:
    """Batches of a BatchSampler that was checked against the mechanism: the guarantee is the one that was designed."""

    counted = False

    def __init__(self, mechanism: Mechanism, sampler: BatchSampler):
        sampler.sampler.check(mechanism)
        self.mechanism, self.sampler = mechanism, sampler
        self.capacity = sampler.sampler.capacity
        self._given = (-1, 0)
        #: Those of the examples that were taken last, in their order; padding behind them has none.
        self.units: List[int] = []
        #: Their users, by numbers; None: each example is a unit, or has several owners.
        self.users: Optional[List[int]] = None if sampler.users is None else []
        in_order = sampler.sampler.text.partition(":")[0] in ("cyclic", "shuffled")
        #: Sizes of batches, and places in them, do not depend on who takes part.
        self.steady = in_order and mechanism.adjacency != "add-remove" and sampler.users is None
        #: 0: sizes of batches do not vary.
        self.spread = 0.0 if self.steady or sampler.length is not None else 1.0

    def take(self, step: int, count: int, tensors: Sequence[Any], drawn_for: Optional[int], units: Any) -> int:
        """Raises unless these examples belong to this step; nothing has been computed of them yet.

        Gives how many of them, the first, take part: those behind are padding.
        """
        if units is not None:
            raise errors.ArgumentError("units: there is a sampler, which knows them")
        of = drawn_for if drawn_for is not None else mark_of(tensors)
        of = self.sampler.given_step if of is None else of
        if of is None:
            raise errors.StateError(
                "no batch has been drawn: batches come from dpmf.torch.data_loader, or say drawn_for=, the step that the "
                "sampler drew these examples for"
            )
        if of != step:
            raise errors.StateError(
                "these examples were drawn for step %d, and the next row of noise is that of step %d: a batch that was not "
                "stepped, or two in one step. Resume from a checkpoint, or ask the loader for a new iterator" % (of, step)
            )
        before = self._given[1] if self._given[0] == step else 0
        given = before + count
        drawn = self.sampler.drawn(step)
        size = None if drawn is None else len(drawn)
        most = size if size is None or self.sampler.length is None else self.sampler.length
        if drawn is None or size is None or most is None or given > most:
            raise errors.StateError(
                "%d examples for step %d, and its batch has %s" % (given, step, "not been drawn" if most is None else most)
            )
        self.sampler.claim()
        self._given = (step, given)
        self.units = drawn[before:given]
        if self.users is not None:
            self.users = self.sampler.drawn_users(step)[before:given]
        return min(count, max(0, size - before))

    def identity(self) -> Dict[str, Any]:
        """What every process must have alike: parts of other batches would overlap."""
        return {"sampler (its text, units, steps, label or key)": self.sampler.identity()}

    def forget(self) -> None:
        """Drops the batch of the current step, which is not used."""
        self._given = (-1, 0)

    def close_step(self, step: int) -> None:
        pass

    def privacy(self, delta: Optional[float] = None) -> Optional[Privacy]:
        return self.mechanism.privacy(delta)

    def state_dict(self) -> Dict[str, Any]:
        return self.sampler.resumed_by()

    def check_state(self, state: Dict[str, Any]) -> None:
        """Raises unless the state is one of this sampler; nothing has been loaded yet."""
        own = self.sampler.resumed_by()
        if state != own and (state or self.sampler.by_key):  # an older version recorded nothing
            raise errors.StateError(
                "the state belongs to a run with another sampler%s: its batches would not be the rest of those that the run had. "
                "Accepted: the text, units, steps, label and key that it began with"
                % (" (%s, and this one %s)" % (state, own) if "sampler" in state and "sampler" in own else "")
            )

    def load_state_dict(self, state: Dict[str, Any], step: int, released: int) -> None:
        """released: rows that are known to be used, more than `step` where the run went on after this state."""
        self.forget()


class Delivery:
    """A batch that a loader has given: whose, and how many of its examples the current step has taken."""

    def __init__(self, of: "Counted", indices: List[int], guessed: bool = False):
        self.of, self.indices, self.used = of, indices, 0
        self.guessed = guessed  # another loader gave it, and its parts are known by their order alone


class Counted:
    """Batches of any loader: how they were drawn is not known, so the participations of every example are counted.

    The guarantee is that of the actual run. A loader in a fixed order is checked against the mechanism too, and then
    every batch against that order: the guarantee is the one that was designed.

    by_users    participations are those of users: of a loader's examples by their ids (Users), of others as units= names them
    limited     a user that the mechanism's participation does not allow in a step is refused, before its gradient is computed
    """

    def __init__(self, mechanism: Mechanism, loader: Any = None, by_users: bool = False, users: Optional[Users] = None,
                 limited: bool = False):  # fmt: skip
        self.mechanism, self.capacity = mechanism, 1 << 20
        self._whose: Any = None if not by_users else ByHand() if users is None else Roster(users)
        #: The users of the examples that were taken last, by numbers; None: each example is a unit.
        self.users: Optional[List[int]] = [] if by_users else None
        self._limits = limits_of(mechanism) if limited else None
        #: Those of the examples that were taken last, in their order.
        self.units: List[int] = []
        self._log: Dict[int, np.ndarray] = {}  # who took part in a step; a step that was computed again has all that ever did
        self._released = 0  # rows that were used before a checkpoint was loaded, by this process or another
        self._read: Deque[List[int]] = collections.deque()
        self._delivered: List[Delivery] = []  # by the loader, and in no step yet
        self._used: List[Delivery] = []  # in the step that is under way
        self._order = None if loader is None or by_users else fixed_order(loader, mechanism)
        self._assumed = None if loader is None or by_users else participation_of(loader, mechanism)
        self._loader = None if loader is None else watch(loader, self)
        #: Sizes of batches, and places in them, do not depend on who takes part.
        self.steady = self._order is not None and mechanism.adjacency != "add-remove"
        self.spread = 1.0
        if self._assumed is not None and self._order is None:
            self._warn()

    def _warn(self) -> None:
        """The loader is not the one that the mechanism assumes: does that cost more than the mechanism claims?"""
        claimed, found = self.mechanism.epsilon, None if self.mechanism.delta is None else self.foreseen()
        if claimed is None or (found is not None and found.epsilon <= claimed * (1 + 1e-9)):
            return
        most = "more epsilon" if found is None else "epsilon = %s" % rounded_up(found.epsilon, 4)
        warnings.warn(
            "the loader's batches are not those that the mechanism assumes (%s). Participations are counted, and all %d steps, in whole "
            "epochs of this loader, can come to %s at delta = %g, in the place of %g. The loader "
            "dpmf.torch.data_loader(data, dpmf.torch.BatchSampler.for_mechanism(mechanism, data)) fits the mechanism"
            % (assumption(self.mechanism), self.mechanism.steps, most, self.mechanism.delta, claimed),
            UserWarning,
            stacklevel=5,
        )

    def foreseen(self, delta: Optional[float] = None) -> Optional[Privacy]:
        """At most, of a run of all steps with batches of this loader; None: it is not known, or takes too long to compute."""
        if self._assumed is None or self.mechanism.steps > FORESEEN_STEPS:
            return None
        return self.mechanism.privacy_under(self._assumed, delta)

    @property
    def counted(self) -> bool:
        return self._order is None

    def identity(self) -> Dict[str, Any]:
        return {}

    # ---- the loader's side ----

    def begin(self) -> None:
        """A new iterator drops the batches that the previous one had read ahead, and the rest of one that it broke off.

        What a step has taken of that one stays in the step, and all its examples count.
        """
        self._read.clear()
        for delivery in self._used:
            if delivery.guessed:
                delivery.used = len(delivery.indices)

    def read(self, indices: Sequence[int]) -> None:
        self._read.append([int(i) for i in indices])

    def deliver(self, batch: Any) -> None:
        """The loader gives its next batch: tensors of it know whose they are from then on."""
        delivery = Delivery(self, self._read.popleft())
        self._delivered.append(delivery)
        for part in flatten(batch)[0]:
            setattr(part, DELIVERY, delivery)

    # ---- the step's side ----

    def take(self, step: int, count: int, tensors: Sequence[Any], drawn_for: Optional[int], units: Any) -> int:
        if units is not None:
            if self._loader is not None:
                raise errors.ArgumentError("units: there is a loader, which knows them")
            named = whole_numbers(units, "units").reshape(-1).tolist() if self._whose is None else self._whose.named(units)
            if len(named) != count:
                raise errors.ArgumentError("%d units for %d examples" % (len(named), count))
            found = Delivery(self, named)
        elif self._loader is None:
            raise errors.StateError(
                "which examples took part? Give make_private sampler=, a BatchSampler or the DataLoader, or units= at every step: the "
                "numbers of these examples, by which their participations are counted"
            )
        else:
            found = self._delivery_of(tensors, step)
        before = found.used if any(found is other for other in self._used) else 0
        if before + count > len(found.indices):
            raise errors.StateError(
                "%d examples for step %d, but the loader has given %d since the last step"
                % (before + count, step, len(found.indices))
            )
        now = self._used if before or any(found is other for other in self._used) else self._used + [found]
        everybody = [i for delivery in now for i in delivery.indices]
        if self._whose is not None:
            self._check_users(step, everybody)
        elif len(set(everybody)) < len(everybody):
            raise errors.StateError("an example is twice in step %d: a unit is clipped once per step" % step)
        if self._order is not None:
            self._order.seek(step)
            if self._order.next().tolist() != sorted(everybody):
                raise errors.StateError(
                    "the batch of step %d is not the one that the loader's order has there: a batch that was not stepped, "
                    "or two in one step" % step
                )
        self._used, found.used = now, before + count
        self._delivered = [other for other in self._delivered if other is not found]
        self.units = found.indices[before : before + count]
        if self._whose is not None:
            self.users = self._whose.users_of(self.units)
            self.units = self._whose.drawing(self.units)
        return count

    def _check_users(self, step: int, everybody: List[int]) -> None:
        """Raises if a user of these examples may not take part in this step."""
        if self._whose.by_example and len(set(everybody)) < len(everybody):
            raise errors.StateError("an example is twice in step %d" % step)
        if self._limits is not None:
            taking = np.unique(np.array(self._whose.users_of(everybody), np.int64))
            self._limits.check(taking, step, {t: some for t, some in self._log.items() if t != step}, self._whose.name)

    def _delivery_of(self, tensors: Sequence[Any], step: int) -> "Delivery":
        """Which of the loader's batches are these examples of? Their tensors know it, unless they were made of others."""
        marks = {id(mark): mark for mark in (getattr(part, DELIVERY, None) for part in tensors) if mark is not None}
        if len(marks) > 1:
            raise errors.StateError("inputs and targets of %d batches of the loader in one" % len(marks))
        for mark in marks.values():
            if mark.of is not self:
                raise errors.StateError("these examples come from another loader than the one that make_private was given")
            return mark
        begun = [delivery for delivery in self._used if delivery.used < len(delivery.indices)]
        if begun and not self._delivered:
            return begun[-1]  # the next part of it
        if not self._delivered and self._read:  # another loader over the same batches: Opacus' BatchMemoryManager
            self._delivered.append(Delivery(self, self._read.popleft(), guessed=True))
        if not self._delivered:
            raise errors.StateError("examples for step %d, but the loader has given 0 since the last step" % step)
        if len(self._delivered) > 1 and self._order is None:
            raise errors.StateError(
                "the loader has given %d batches that are in no step, and these examples do not know which of them they are "
                "(tensors that were moved or changed forget it): their participations cannot be counted. Read each batch when "
                "its step comes, give step() the loader's own tensors, or call discard() if the earlier ones are never used"
                % len(self._delivered)
            )
        return self._delivered[-1]

    def forget(self) -> None:
        """Drops what the current step has taken, and what the loader has given without being used."""
        for delivery in self._used:
            delivery.used = 0
        self._used, self._delivered = [], []

    def close_step(self, step: int) -> None:
        """The noise row was used: this batch's participations are recorded."""
        indices = [i for delivery in self._used for i in delivery.indices]
        if self._whose is not None:
            indices = sorted(set(self._whose.users_of(indices)))
        self._record(step, np.array(indices, np.int64))
        self._used = []

    def _record(self, step: int, units: np.ndarray) -> None:
        self._log[step] = np.union1d(self._log[step], units) if step in self._log else units

    def log(self) -> "tuple[np.ndarray, np.ndarray]":
        """(units, steps) of every participation; a step that was computed again after a crash counts once."""
        none = [np.zeros(0, np.int64)]
        units = np.concatenate(none + list(self._log.values()))
        return units, np.concatenate(none + [np.full(len(u), t, np.int64) for t, u in self._log.items()])

    def privacy(self, delta: Optional[float] = None) -> Optional[Privacy]:
        if self._order is not None:
            return self.mechanism.privacy(delta)
        unknown = [t for t in range(self._released) if t not in self._log]
        if unknown:
            raise errors.StateError(
                "the state file has %d rows, and the checkpoint that was loaded is from before: who took part in step %d%s is not known "
                "here, so that no epsilon covers what was released. Load the newest checkpoint, or take those steps again, which the "
                "state file allows for the same sums"
                % (self._released, unknown[0], " and %d more" % (len(unknown) - 1) if len(unknown) > 1 else "")
            )
        units, steps = self.log()
        return self.mechanism.observed_privacy(units, steps, delta) if len(units) > 0 else None

    def state_dict(self) -> Dict[str, Any]:
        units, steps = self.log()
        of = {} if self._whose is None else self._whose.state_dict()
        return {"units": torch.from_numpy(units), "steps": torch.from_numpy(steps), **of}

    def check_state(self, state: Dict[str, Any]) -> None:
        if "units" not in state:
            raise errors.StateError("the state has no count of participations, and this run counts them")

    def load_state_dict(self, state: Dict[str, Any], step: int, released: int) -> None:
        units, steps = state["units"].cpu().numpy(), state["steps"].cpu().numpy()
        for t in sorted({*range(step), *steps.tolist()}):  # what this process has released itself stays in the log
            self._record(t, units[steps == t])
        self._released = max(self._released, released)
        if self._whose is not None:
            self._whose.load_state_dict(state)
        self.forget()
        self.begin()


# ---- loaders of others ----


class _Recorded:
    """A batch sampler whose batches are recorded."""

    def __init__(self, batches: Any, counted: Counted):
        self._batches, self._counted = batches, counted

    def __iter__(self) -> Any:
        self._counted.begin()
        for indices in self._batches:
            self._counted.read(indices)
            yield indices

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        if name in ("_batches", "_counted"):
            raise AttributeError(name)
        return getattr(self._batches, name)


def watched(kind: type) -> type:
    """The same class of loaders, which also reports every batch that it gives."""

    def iterate(self: Any) -> Any:
        for batch in kind.__iter__(self):  # type: ignore[attr-defined]
            self._dpmf_counted.deliver(batch)
            yield batch

    return type("Watched" + kind.__name__, (kind,), {"__iter__": iterate, "_dpmf_watched": True})


def watch(loader: Any, counted: Counted) -> Any:
    """Makes the loader report its batches to be counted; the loader stays the same object."""
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise errors.ArgumentError(
            "sampler: a %s; a dpmf.torch.BatchSampler or a torch DataLoader is accepted" % type(loader).__name__
        )
    if isinstance(loader.dataset, torch.utils.data.IterableDataset) or loader.batch_sampler is None:
        raise errors.UnsupportedError(
            "the loader's batches have no indices, so it cannot be known which examples take part: a map-style data set with "
            "batches is accepted"
        )
    if isinstance(loader.batch_sampler, _Recorded):
        object.__setattr__(loader, "batch_sampler", loader.batch_sampler._batches)
    object.__setattr__(loader, "batch_sampler", _Recorded(loader.batch_sampler, counted))
    object.__setattr__(loader, "_dpmf_counted", counted)
    if not hasattr(loader, "_dpmf_watched"):
        object.__setattr__(loader, "__class__", watched(type(loader)))
    return loader


def fixed_order(loader: Any, mechanism: Mechanism) -> Optional[Sampler]:
    """The library's sampler with the loader's batches, where they come in the data's own order and the mechanism allows it."""
    batches = getattr(loader, "batch_sampler", None)
    if isinstance(batches, _Recorded):
        batches = batches._batches
    if type(batches) is not torch.utils.data.BatchSampler or (
        type(batches.sampler) is not torch.utils.data.SequentialSampler
    ):
        return None
    units = len(batches.sampler)
    if batches.drop_last:
        units -= units % batches.batch_size
    if units < 1:
        return None
    try:
        return Sampler("cyclic:%d" % min(batches.batch_size, units), units, mechanism.steps, mechanism=mechanism)
    except errors.Error:
        return None


def assumption(mechanism: Mechanism) -> str:
    """How batches must be drawn, in a few words."""
    return mechanism.participation.text if mechanism.sampling == "none" else mechanism.sampling


def participation_of(loader: Any, mechanism: Mechanism) -> Optional[str]:
    """A participation that batches of the loader have for sure, over the steps of the mechanism; None: its length is not known."""
    batches = getattr(loader, "batch_sampler", None)
    if isinstance(batches, _Recorded):
        batches = batches._batches
    try:
        period = len(batches)
    except TypeError:
        return None
    known = {torch.utils.data.SequentialSampler: "cyclic", torch.utils.data.RandomSampler: "shuffled"}
    inner = getattr(batches, "sampler", None)
    name = known.get(type(inner)) if type(batches) is torch.utils.data.BatchSampler else None
    if name is None or period < 1 or getattr(inner, "replacement", False) or getattr(inner, "num_samples", 0) > len(inner.data_source):
        return "full"  # any example may be in every batch
    if period >= mechanism.steps:
        return "single"
    return "%s:%d,%d" % (name, -(-mechanism.steps // period), period)


def participation_tracker(mechanism: Mechanism, source: Any, by_users: bool = False, users: Any = None, limited: bool = False) -> Any:
    """For a BatchSampler, a loader over one, any other DataLoader, or None: units are named by hand."""
    batches = source if isinstance(source, BatchSampler) else getattr(source, "batch_sampler", None)
    if isinstance(batches, BatchSampler):
        if batches.digest is not None and not by_users:
            raise errors.ArgumentError(
                "sampler: it draws users (or examples of several owners), and this run clips examples: dpmf.torch.make_private with "
                "unit='user' is accepted"
            )
        return Checked(mechanism, batches)
    if source is not None and mechanism.adjacency == "add-remove":
        raise errors.ArgumentError(
            "sampler: the mechanism's guarantee is for add-remove adjacency, but with this loader an example more or less moves others "
            "to other batches. A BatchSampler that draws each example separately is accepted (poisson, allocation, ...)"
        )
    return Counted(mechanism, source, by_users, users, limited)
