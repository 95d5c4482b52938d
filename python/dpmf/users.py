# SPDX-License-Identifier: Apache-2.0
"""Which examples are whose: ids of users, their examples of a round, and what binds a run to them.

Ids are structure, not data: everything here is a function of the ids, of a key and of the step, and of no example's values. So
an id that is refused reveals nothing about a gradient.

A user with more than `most` examples takes part in a round with a uniformly random `most` of them, fresh in each round. The
choice is a function of (key, step, user, the number of the user's own examples): another user's examples do not move it, and a
step that is computed again after a crash has the same one. It needs no secrecy: the contribution of a user is clipped once, for any choice. A
fixed choice (the first `most` of a fixed order) would be as private, and would never see the rest of the user's data; that is
why each round draws freshly.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import errors
from ._clients import MISSING, is_missing
from ._library import integer
from .keys import KeyBuffer, KeyLike
from .mechanism import Mechanism
from .privacy import unit_name
from .sampler import Sampler

__all__ = ["UserSampler", "Users", "at_most"]

ACCEPTED = "accepted: whole numbers of 64 bits, or strings that name a user (not empty, and in no case %s), all of one type" % ", ".join(
    sorted(MISSING - {""})
)
MEAN, SUM = "mean", "sum"


def checked_ids(ids: Any, name: str) -> Union[np.ndarray, List[str]]:
    """Ids as 64-bit numbers or strings. Their types decide, and for strings whether they spell a missing value."""
    if not isinstance(ids, (list, tuple, range)):
        ids = np.asarray(ids)
        if ids.ndim != 1:
            raise errors.ArgumentError("%s: an array of %d dimensions; one id for each example is accepted" % (name, ids.ndim))
        if ids.dtype.kind in "iu":
            return in_64_bits(ids, name)
        if ids.dtype.kind not in "OU":
            raise errors.ArgumentTypeError(
                "%s: an array of %s; %s. Numbers of floating point are refused, because tables turn whole numbers into them "
                "where an id is missing" % (name, ids.dtype, ACCEPTED)
            )
        ids = ids.tolist()
    whole = [isinstance(one, (int, np.integer)) and not isinstance(one, (bool, np.bool_)) for one in ids]
    for i, one in enumerate(ids):
        if not whole[i] and not isinstance(one, str):
            raise errors.ArgumentTypeError("%s[%d] is a %s; %s" % (name, i, type(one).__name__, ACCEPTED))
        if not whole[i] and is_missing(one):
            raise errors.ArgumentError("%s[%d] = %r stands for an id that is missing; %s" % (name, i, one, ACCEPTED))
        if whole[i] != whole[0]:
            raise errors.ArgumentTypeError("%s[%d] is a %s, and %s[0] a %s; %s"
                                           % (name, i, type(one).__name__, name, type(ids[0]).__name__, ACCEPTED))  # fmt: skip
    if whole and whole[0]:
        try:
            return in_64_bits(np.array([int(one) for one in ids], dtype=np.int64), name)
        except OverflowError:
            raise errors.ArgumentError("%s: a number of more than 64 bits; %s" % (name, ACCEPTED)) from None
    return [str(one) for one in ids]


def in_64_bits(ids: np.ndarray, name: str) -> np.ndarray:
    if ids.dtype.kind == "u" and ids.size and int(ids.max()) > np.iinfo(np.int64).max:
        raise errors.ArgumentError("%s: a number above 2^63 - 1; %s" % (name, ACCEPTED))
    return ids.astype(np.int64)


def digest_ids(purpose: bytes, ids: Union[np.ndarray, Sequence[str]], *more: bytes) -> str:
    """SHA-256 of ids in their order; each string has its length before it, so that no two lists have the same bytes."""
    found = hashlib.sha256(purpose)
    if isinstance(ids, np.ndarray):
        found.update(b"/whole/" + ids.astype("<i8").tobytes())
    else:
        found.update(b"/text/")
        for one in ids:
            data = one.encode("utf-8", "surrogatepass")
            found.update(len(data).to_bytes(8, "little") + data)
    for part in more:
        found.update(part)
    return found.hexdigest()


class Users:
    """One user's id for each example. Users are numbered from 0 in the order of their ids, numbers or texts by code points.

    Ids that differ in any way are different users: "Ann" and "ann", "ann" and "ann " are two. A person with two ids is protected
    as two users, so make ids equal before you give them.

    >>> users = Users(["ann", "bob", "ann", "Ann"])
    >>> users.count, users.numbers.tolist(), users.examples_of(1).tolist()
    (3, [1, 2, 1, 0], [0, 2])
    """

    def __init__(self, ids: Any):
        checked = checked_ids(ids, "users")
        if len(checked) == 0:
            raise errors.ArgumentError("users: there are none, accepted: one id for each example")
        if isinstance(checked, np.ndarray):
            known, numbers = np.unique(checked, return_inverse=True)
            self.ids: List[Any] = known.tolist()
            self.numbers = np.ascontiguousarray(numbers.reshape(-1), np.int64)
        else:
            self.ids = sorted(set(checked))
            of = {one: i for i, one in enumerate(self.ids)}
            self.numbers = np.array([of[one] for one in checked], np.int64)
        self.count, self.examples = len(self.ids), len(self.numbers)
        self.digest = digest_ids(b"dpmf users 1", checked)
        self._order = np.argsort(self.numbers, kind="stable")
        self._start = np.concatenate([[0], np.cumsum(np.bincount(self.numbers, minlength=self.count))])

    def examples_of(self, user: int) -> np.ndarray:
        """The examples of the user with this number, rising."""
        return self._order[self._start[user] : self._start[user + 1]]

    @property
    def largest(self) -> int:
        """The most examples that one user has."""
        return int(np.diff(self._start).max())

    def chosen(self, user: int, most: Optional[int], secret: bytes, step: int) -> np.ndarray:
        """At most `most` of the user's examples, rising: a uniformly random choice that follows from (secret, step, user)."""
        own = self.examples_of(user)
        if most is None or len(own) <= most:
            return own
        return own[choice(len(own), most, secret, step, self.ids[user])]

    def batch(self, users: Sequence[int], most: Optional[int], secret: bytes, step: int) -> Tuple[np.ndarray, np.ndarray]:
        """(examples, whose they are), user after user in the order given."""
        parts = [self.chosen(int(user), most, secret, step) for user in users]
        none = [np.zeros(0, np.int64)]
        sizes = [len(part) for part in parts]
        return np.concatenate(none + parts), np.repeat(np.asarray(users, np.int64), sizes)


def choice(count: int, most: int, secret: bytes, step: int, user: Union[int, str]) -> np.ndarray:
    """A random `most` of `count` places, rising: those whose words of 64 bits are least (ties, of probability 2^-64, by place).

    user: the id. A number among the users would change with the ids of others.
    """
    name = b"/text/" + user.encode("utf-8", "surrogatepass") if isinstance(user, str) else b"/whole/%d" % user
    row = step.to_bytes(8, "little") + name
    key = hmac.new(secret, b"dpmf examples of a user 1" + row, hashlib.sha256).digest()
    words = np.frombuffer(hashlib.shake_256(key).digest(8 * count), "<u8")
    return np.sort(np.argsort(words, kind="stable")[:most])


def at_most(ids: Any, most: int, key: KeyLike = None) -> np.ndarray:
    """Indices of at most `most` examples of each user, rising: the data of a run by examples that is accounted with group=most.

    key     None: the first ones of each user, in the order of the data. Else a random choice that follows from the key, for
            each user by itself

    >>> at_most(["ann", "bob", "ann", "ann"], 2).tolist()
    [0, 1, 2]
    """
    users, most = Users(ids), integer(most, "most")
    if most < 1:
        raise errors.ArgumentError("most = %d, accepted: 1 or more" % most)
    if key is None:
        return np.sort(np.concatenate([users.examples_of(u)[:most] for u in range(users.count)]))
    with KeyBuffer(key) as memory:
        secret = hmac.new(bytes(memory.memory), b"dpmf examples at most 1", hashlib.sha256).digest()
    return np.sort(users.batch(range(users.count), most, secret, 0)[0])


def checked_most(most: Any) -> Optional[int]:
    most = integer(most, "examples_per_user", optional=True)
    if most is not None and most < 1:
        raise errors.ArgumentError("examples_per_user = %d, accepted: 1 or more, or None for all of them" % most)
    return most


def checked_gradient(user_gradient: Any) -> str:
    if user_gradient not in (MEAN, SUM):
        raise errors.ArgumentError("user_gradient = %r, accepted: mean, sum" % (user_gradient,))
    return str(user_gradient)


def check_unit(mechanism: Mechanism, unit: str) -> None:
    """Raises if the mechanism records another unit: its statement would be about that one."""
    unit_name(unit)
    if unit != "example" and mechanism.unit not in (None, unit):
        raise errors.ArgumentError(
            "unit = %r: the mechanism protects one %s, and records that; design one with unit=%r" % (unit, mechanism.unit, unit)
        )


def bound_label(label: Optional[str], key: KeyLike, unit: str, digest: str) -> str:
    """The label of a run by users: the state file refuses other users by it. The digest is keyed: a list of users may be secret."""
    with KeyBuffer(key) as memory:
        keyed = hmac.new(bytes(memory.memory), b"dpmf users of a run 1" + digest.encode(), hashlib.sha256).hexdigest()
    return "%s/%s/%s" % (label or "", unit, keyed)


class UserSampler:
    """Batches of users, and at most `examples_per_user` examples of each: for dpmf.jax, and for loops of your own.

    what, steps, key, label, mechanism, cap as for Sampler, whose units are the users here; ids as for Users.

    >>> from dpmf import testing_key
    >>> batches = UserSampler("cyclic:2", ["b", "a", "c", "a", "a"], steps=3, key=testing_key(1), examples_per_user=2)
    >>> examples, users = batches.next()
    >>> sorted(set(users.tolist())), len(examples)
    ([0, 1], 3)
    """

    def __init__(
        self,
        what: str,
        ids: Any,
        steps: Optional[int] = None,
        key: KeyLike = None,
        label: Optional[str] = None,
        mechanism: Optional[Mechanism] = None,
        cap: Optional[int] = None,
        examples_per_user: Optional[int] = None,
    ):
        if steps is None:
            if mechanism is None:
                raise errors.ArgumentError("steps: they are not given, and there is no mechanism to take them from")
            steps = mechanism.steps
        self.users = ids if isinstance(ids, Users) else Users(ids)
        self.most = checked_most(examples_per_user)
        with KeyBuffer(key) as memory:
            self.sampler = Sampler(what, self.users.count, steps, bytes(memory.memory), label, mechanism, cap)
            self._secret = hmac.new(bytes(memory.memory), b"dpmf data loader 1", hashlib.sha256).digest()
        self.sampler._ephemeral = key is None

    @property
    def by_key(self) -> bool:
        """False: batches are in the data's own order, for every key."""
        return self.sampler.text.partition(":")[0] != "cyclic" or self.most is not None

    def resumed_by(self) -> str:
        """What a run that is resumed must have again: with other batches a user would take part in more steps than it may."""
        own = self.sampler.identity()
        names = sorted(own) if self.by_key else ["sampler", "steps", "units"]
        return repr([(name, own[name]) for name in names] + [self.digest])

    @property
    def expected_batch(self) -> float:
        """Of users: sums are divided by it."""
        return self.sampler.expected_batch

    @property
    def capacity(self) -> int:
        """The most examples that a batch can hold."""
        return self.sampler.capacity * min(self.users.largest, self.most or self.users.largest)

    @property
    def digest(self) -> str:
        """Of the ids and of the number of examples that a user may give to a round."""
        return users_digest(self.users.digest, self.most)

    def at(self, step: int) -> np.ndarray:
        """The users of a step."""
        if self.sampler.step != step:
            self.sampler.seek(step)
        return self.sampler.next()

    def next(self) -> Tuple[np.ndarray, np.ndarray]:
        """(examples, the numbers of their users) of the next step, user after user."""
        step = self.sampler.step
        return self.users.batch(self.sampler.next(), self.most, self._secret, step)

    def padded(self) -> Tuple[np.ndarray, np.ndarray]:
        """The same in arrays of `capacity` numbers: example 0 and user -1 behind those that take part."""
        examples, users = self.next()
        rest = self.capacity - len(examples)
        return np.append(examples, np.zeros(rest, np.int64)), np.append(users, np.full(rest, -1, np.int64))

    def seek(self, step: int) -> None:
        self.sampler.seek(step)


def users_digest(digest: str, most: Optional[int]) -> str:
    return hashlib.sha256(("%s/%s" % (digest, most)).encode()).hexdigest()
