# SPDX-License-Identifier: Apache-2.0
"""Batches for a DataLoader, from the library's samplers: each knows the step that it was drawn for."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from .. import errors
from ..keys import KeyBuffer, KeyLike
from ..mechanism import Mechanism
from ..owners import Owners, OwnerSampler
from ..sampler import Sampler
from ..users import Users, checked_most, users_digest
from .group import rank_of
from .pytree import flatten, mapped
from .randomness import Watch, secret_of, seeded

#: What a tensor of a batch is marked with.
MARK = "dpmf_step"
KEYLESS = (
    "the sampler's key was made for it alone and is nowhere else: a run that is resumed would draw other batches, in which an example "
    "can take part more often than the mechanism assumes. Give BatchSampler the key of the run too"
)


REMADE = (
    "the loader was made again by another library (accelerator.prepare), which can repeat, drop or divide batches: use the loader of "
    "dpmf.torch.data_loader itself, and prepare only model and optimizer"
)
#: Secret batches, by what they follow from, and the run that used them: its noise's key, label and mechanism.
RUNS: Dict[bytes, Any] = {}


class Batch(list):
    """Indices, the step that they were drawn for, and how many of them take part: those behind are padding."""

    def __init__(self, indices: List[int], step: int, real: Optional[int] = None):
        super().__init__(indices)
        self.step = step
        self.real = len(indices) if real is None else real

    @property
    def mask(self) -> torch.Tensor:
        """True for those that take part."""
        return torch.arange(len(self)) < self.real

    def __reduce__(self) -> Any:
        return Batch, (list(self), self.step, self.real)


class BatchSampler(torch.utils.data.Sampler):
    """Lists of indices for a DataLoader's batch_sampler, from any of the library's samplers.

    what, units, steps, key, label, mechanism as in dpmf.Sampler; `units` may be the data set, and `steps` follows from the
    mechanism. Each process of the process group (process_group as for make_private) gets its part of every batch; rank and
    world are for processes that are in no group. Batches may be empty: see data_loader.

    With cap=M (poisson, block-cyclic, min-sep) at most M units take part, and all batches have the same length, M in one
    process: behind those that take part, the first example fills the rest, `batch.mask` marks which is which, and step() of
    what make_private gave leaves the padding out of the sum. Rows must then come in the order of the batch.

    With users=, one id for each example (whole numbers or strings), the units that are drawn are users, for
    make_private(unit="user"): a batch holds the examples of its users, user after user, at most examples_per_user of each, a
    random choice that follows from the key, the step and the user; `users.count` is the number of users. With owners=, a list of
    ids for each example, an example has several owners and is taken only where each of them may take part: "scheduled:M,K,B"
    is up to M examples, each owner in at most one of a batch, at most K times in all, at least B steps apart
    (docs/users.md: who owns what is then public). `sampler.left_out` has the examples that no step takes.
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
        rank: Optional[int] = None,
        world: Optional[int] = None,
        process_group: Any = None,
        cap: Optional[int] = None,
        users: Any = None,
        examples_per_user: Optional[int] = None,
        owners: Any = None,
    ):
        if steps is None:
            if mechanism is None:
                raise errors.ArgumentError("steps: they are not given, and there is no mechanism to take them from")
            steps = mechanism.steps
        self.rank, self.world = part_of(rank, world, process_group)
        if self.world > 1 and key is None:
            raise errors.ArgumentError("key: %d processes need the same one" % self.world)
        units = units_of(units)
        #: Whose the examples are; None: each is a unit.
        self.users, self.owners, self.most = grouping(users, owners, examples_per_user, units, cap)
        with KeyBuffer(key) as memory:
            own = bytes(memory.memory)
            if self.owners is not None:
                self.sampler: Sampler = OwnerSampler(what, self.owners, steps, own, label, mechanism)
            else:
                count = units if self.users is None else self.users.count
                self.sampler = Sampler(what, count, steps, own, label, mechanism, cap)
            self._secret = secret_of(bytes(memory.memory), b"dpmf data loader 1")
        self.sampler._ephemeral = key is None
        self._position: Callable[[], int] = lambda: self.sampler.step
        self._allowed: Callable[[], None] = lambda: None
        self._run: Any = None
        self._drawn: Dict[int, Any] = {}
        self._given_step: Optional[int] = None
        #: Of every batch of this process, padding included; None: batches are as long as they come.
        self.length: Optional[int] = (
            -(-self.sampler.capacity // self.world) * (self.most or 1) if self.sampler.capped else None
        )

    @classmethod
    def for_mechanism(cls, mechanism: Mechanism, data: Any, key: KeyLike = None, **options: Any) -> "BatchSampler":
        """The sampler that the mechanism's guarantee assumes, over a data set (or its size); options as above.

        >>> from dpmf import evaluate, testing_key
        >>> m = evaluate("identity", 24, participation="cyclic:3,8", sigma=1.0)
        >>> sampler = BatchSampler.for_mechanism(m, 96, testing_key(1))
        >>> sampler.sampler.text, sampler.expected_batch
        ('cyclic:12', 12.0)
        """
        if not isinstance(mechanism, Mechanism):
            raise errors.ArgumentError("mechanism: a %s, a dpmf.Mechanism is accepted" % type(mechanism).__name__)
        units = units_of(data)
        if options.get("users") is not None:
            options["users"] = users_of(options["users"])
            if options["users"].examples != units:
                raise errors.ArgumentError(IDS % (options["users"].examples, units))
            units = options["users"].count
        what, (name, _, numbers) = mechanism.sampling, mechanism.participation.text.partition(":")
        if what == "none":
            if name == "single":
                if units < mechanism.steps:
                    raise errors.ArgumentError(
                        "data: %d examples, each used once, cannot fill %d steps" % (units, mechanism.steps)
                    )
                what = "cyclic:%d" % (units // mechanism.steps)
            elif name == "full":
                what = "cyclic:%d" % units
            else:
                period = int(numbers.split(",")[1])
                what = "%s:%d" % ("shuffled" if name == "shuffled" else "cyclic", -(-units // period))
        return cls(what, units if options.get("users") is None else data, key, mechanism=mechanism, **options)

    @property
    def expected_batch(self) -> float:
        """Of all processes together."""
        return self.sampler.expected_batch

    @property
    def by_key(self) -> bool:
        """False: batches are in the data's own order, for every key."""
        return self.sampler.text.partition(":")[0] != "cyclic" or self.most is not None

    def identity(self) -> Dict[str, Any]:
        """All that its batches follow from: processes that train together compare it, and a run that is resumed."""
        own = self.sampler.identity()
        return own if self.users is None else {**own, "users": users_digest(self.users.digest, self.most)}

    @property
    def digest(self) -> Optional[str]:
        """Of the ids of users or owners; None: examples are the units."""
        if self.owners is not None:
            return self.owners.digest
        return None if self.users is None else users_digest(self.users.digest, self.most)

    def resumed_by(self) -> Dict[str, Any]:
        """What a run that is resumed must have again: with other batches an example would take part in more steps than it may.

        No secret: where batches follow from the key it is a keyed hash, because the number of units may be one.
        """
        own = self.identity()
        if not self.by_key:
            return {name: own[name] for name in ("sampler", "units", "steps", "users") if name in own}
        if self.sampler._ephemeral:
            raise errors.StateError(KEYLESS)
        return {"hash": self._hash().hex()}

    def _hash(self) -> bytes:
        return hmac.new(self._secret, repr(sorted(self.identity().items())).encode(), hashlib.sha256).digest()

    def follow(self, noise: Any, allowed: Callable[[], None] = lambda: None) -> None:
        """Begin where the noise is, even if a DataLoader has read ahead; `allowed` may refuse."""
        self._position, self._allowed = lambda: noise.step, allowed
        self._run = (noise._commitment, noise._label or "", noise.mechanism.digest)

    def claim(self) -> None:
        """Before a step: raises where these secret batches were those of another run of this process.

        Guarantees of secret batches compose as if every run drew its own; two runs over the same ones reveal more.
        """
        if self.sampler.sampling == "none":
            return
        if RUNS.setdefault(self._hash(), self._run) != self._run:
            raise errors.StateError(
                "another run had the same secret batches (%s, with this key and label): both together reveal more than two runs "
                "that draw their own, and a ledger adds them up as such. Make a BatchSampler with another key or label for every run"
                % self.sampler.text
            )

    def seek(self, step: int) -> None:
        self.sampler.seek(step)

    @property
    def given_step(self) -> Optional[int]:
        """The step of the last batch."""
        return self._given_step

    def give(self, step: int) -> None:
        """Records that the caller has the batch of this step."""
        self._given_step = step
        self._forget(min(self._position(), step))

    def _forget(self, before: int) -> None:
        self._drawn = {t: units for t, units in self._drawn.items() if t >= before}

    def drawn(self, step: int) -> Optional[List[int]]:
        """The examples of this process's part of a batch that was drawn; None: it was not."""
        return self._drawn[step][0] if step in self._drawn else None

    def drawn_users(self, step: int) -> List[int]:
        """The users of those examples, by their numbers."""
        return self._drawn[step][1]

    def _next(self, step: int) -> Any:
        """(examples, their users) of this process's part of the next batch."""
        units = self.sampler.next()[self.rank :: self.world]
        if self.users is None:
            return units.tolist(), []
        return tuple(part.tolist() for part in self.users.batch(units, self.most, self._secret, step))

    def __iter__(self) -> Iterator[Batch]:
        self._allowed()
        if self.sampler.step != self._position():
            self.sampler.seek(self._position())
        while self.sampler.step < self.sampler.steps:
            step = self.sampler.step
            drawn = self._next(step)
            batch = Batch(drawn[0] + [0] * ((self.length or 0) - len(drawn[0])), step, len(drawn[0]))
            self._forget(min(self._position(), step))
            self._drawn[step] = drawn
            self._given_step = step
            yield batch

    def __len__(self) -> int:
        return self.sampler.steps - self._position()


def units_of(data: Any) -> int:
    """A number of examples, or the length of a data set."""
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    try:
        return len(data)
    except TypeError:
        raise errors.ArgumentError(
            "units: a %s, accepted: a number of examples, or a data set that has a length" % type(data).__name__
        ) from None


IDS = "users: %d ids, and there are %d examples: one id for each is accepted"


def users_of(users: Any) -> Users:
    return users if isinstance(users, Users) else Users(users)


def grouping(users: Any, owners: Any, most: Any, examples: int, cap: Any) -> "tuple[Optional[Users], Optional[Owners], Optional[int]]":
    """(users, owners, the most examples of a user in a step), checked against the number of examples."""
    most = checked_most(most)
    if users is not None and owners is not None:
        raise errors.ArgumentError("users and owners: an example has one user, or a list of owners; one of the two is accepted")
    if users is None and most is not None:
        raise errors.ArgumentError("examples_per_user = %d without users=" % most)
    if owners is not None:
        if cap is not None:
            raise errors.ArgumentError("cap with owners=: scheduled:M,K,B has its own limit, M")
        owners = owners if isinstance(owners, Owners) else Owners(owners)
        if owners.examples != examples:
            raise errors.ArgumentError("owners: of %d examples, and there are %d" % (owners.examples, examples))
        return None, owners, None
    if users is None:
        return None, None, None
    users = users_of(users)
    if users.examples != examples:
        raise errors.ArgumentError(IDS % (users.examples, examples))
    if cap is not None and most is None:
        raise errors.ArgumentError("cap with users=: batches of one length need examples_per_user, the most examples of a user")
    return users, None, most


def part_of(rank: Optional[int], world: Optional[int], group: Any) -> "tuple[int, int]":
    """(rank, processes) of the group; what is given must agree with it."""
    found = rank_of(group)
    if rank is None and world is None:
        return found
    asked = (0 if rank is None else rank, found[1] if world is None else world)
    if not 0 <= asked[0] < asked[1]:
        raise errors.ArgumentError("rank = %d, accepted: 0 to %d" % (asked[0], asked[1] - 1))
    if found[1] > 1 and asked != found:
        raise errors.ArgumentError(
            "rank = %d of %d, but the process group has %d of %d: leave rank and world out" % (*asked, *found)
        )
    return asked


# ---- loaders ----


class Fetched(list):
    """Examples of a batch, and the step that it was drawn for; None: another loader over the same data asked for them."""

    step: Optional[int] = None


class Carried:
    """A batch on its way out of a worker, with the step that it was drawn for."""

    def __init__(self, batch: Any, step: int):
        self.batch, self.step = batch, step

    def pin_memory(self, *device: Any) -> "Carried":
        """For loaders that pin: torch asks it of what it does not know."""
        from torch.utils.data._utils.pin_memory import pin_memory

        return Carried(pin_memory(self.batch, *device), self.step)

    def to(self, *_: Any, **__: Any) -> None:
        """Another loader was made of this one, as accelerator.prepare does."""
        raise errors.UnsupportedError(REMADE)


class _Collate:
    """A batch, which may be empty: then one example tells the shapes. Random choices are a function of the key and the step."""

    def __init__(self, dataset: Any, collate: Callable[[List[Any]], Any], secret: bytes):
        self.dataset, self.collate, self._secret, self._random = dataset, collate, secret, False

    def __call__(self, examples: List[Any]) -> Any:
        step = getattr(examples, "step", None)
        found = self._seeded(examples, step or 0)
        return found if step is None else Carried(found, step)

    def _seeded(self, examples: List[Any], step: int) -> Any:
        if not self._random:  # as in Examples
            watch = Watch()
            found = self._batch(examples)
            if not watch.drawn:
                return found
            watch.restore()
            self._random = True
        with seeded(self._secret, step):
            return self._batch(examples)

    def _batch(self, examples: List[Any]) -> Any:
        if examples:
            return self.collate(list(examples))
        return mapped(lambda part: part[:0], self.collate([self.dataset[0]]))


class Examples(torch.utils.data.Dataset):
    """A data set whose random choices for an example (augmentation) are a function of the key, the step and the example.

    So they are the same in any number of workers, again when a step is computed again after a crash, and for any others in
    the batch.
    """

    def __init__(self, dataset: Any, secret: bytes):
        self.dataset, self._secret, self._random = dataset, secret, False

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]

    def __getitems__(self, batch: List[int]) -> List[Any]:
        found = Fetched()
        found.step = getattr(batch, "step", None)
        if not self._random:  # data without random choices is read as it is, and watched
            watch = Watch()
            found[:] = self._read(list(batch))
            if watch.drawn:
                watch.restore()
                self._random = True
        if self._random:
            found[:] = [self._read_alone(i, found.step or 0) for i in batch]
        return found

    def _read(self, batch: List[int]) -> List[Any]:
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(batch)
        return [self.dataset[i] for i in batch]

    def _read_alone(self, i: int, step: int) -> Any:
        with seeded(self._secret, step, i):
            return self._read([i])[0]

    def __getattr__(self, name: str) -> Any:
        if name in ("dataset", "_secret", "_random"):  # not there yet: while a worker unpacks it
            raise AttributeError(name)
        return getattr(self.dataset, name)


class Loader(torch.utils.data.DataLoader):
    """A DataLoader over a BatchSampler. Its batches carry their step: their tensors have it as `dpmf_step`."""

    def __iter__(self) -> Any:
        self.batch_sampler._allowed()
        return self._batches(super().__iter__())

    def _batches(self, batches: Any) -> Iterator[Any]:
        for carried in batches:
            self.batch_sampler.give(carried.step)
            yield marked(carried.batch, carried.step)


def marked(batch: Any, step: int) -> Any:
    """The same batch, its tensors marked."""
    for part in flatten(batch)[0]:
        setattr(part, MARK, step)
    return batch


def mark_of(parts: Any) -> Optional[int]:
    """The step that tensors are marked with; None: none is."""
    steps = {getattr(part, MARK) for part in parts if hasattr(part, MARK)}
    if len(steps) > 1:
        raise errors.StateError("inputs and targets of different steps: %s" % sorted(steps))
    return steps.pop() if steps else None


def data_loader(
    dataset: Any, sampler: BatchSampler, collate_fn: Optional[Callable[[List[Any]], Any]] = None, **options: Any
) -> torch.utils.data.DataLoader:
    """A DataLoader over the sampler's batches, which can also be empty, and which carry their step.

    Random augmentation in the data set is a function of the key, the step and the example (torch's, Python's and NumPy's
    generators are seeded for each), so that a resumed run has the same examples as before, with any number of workers and
    any others in the batch. Random choices of collate_fn are functions of the key and the step: what it draws for single
    examples, or mixes, depends on the others of the batch.
    """
    collate = _Collate(dataset, collate_fn or torch.utils.data.default_collate, sampler._secret)
    # A generator of its own: making an iterator draws a number, which a run that is resumed would draw once more.
    seed = hashlib.sha256(sampler._secret + b"workers").digest()[:7]
    options.setdefault("generator", torch.Generator().manual_seed(int.from_bytes(seed, "little")))
    return Loader(Examples(dataset, sampler._secret), batch_sampler=sampler, collate_fn=collate, **options)
