# SPDX-License-Identifier: Apache-2.0
"""Users in batches of any loader: who they are, and whether the mechanism's participation allows them in a step."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .. import errors
from ..mechanism import Mechanism
from ..users import Users, checked_ids

class Roster:
    """The ids of all examples of a loader's data."""

    by_example = True

    def __init__(self, users: Users):
        self._users = users

    def state_dict(self) -> Dict[str, Any]:
        return {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The label of the run has all its ids."""

    def named(self, units: Any) -> List[int]:
        """Examples by their numbers, where there is no loader."""
        found = checked_ids(units, "units")
        if not isinstance(found, np.ndarray) or (found.size and not 0 <= found.min() <= found.max() < self._users.examples):
            raise errors.ArgumentError(
                "units: with users= these are the numbers of the examples, 0 to %d are accepted" % (self._users.examples - 1)
            )
        return found.tolist()

    def users_of(self, indices: Sequence[int]) -> List[int]:
        if indices and max(indices) >= self._users.examples:
            raise errors.ArgumentError(
                "users: %d ids, and the loader has given example %d: one id for each example is accepted"
                % (self._users.examples, max(indices))
            )
        return self._users.numbers[np.asarray(indices, np.int64)].tolist()

    def drawing(self, indices: List[int]) -> List[int]:
        """What random numbers of the examples follow from."""
        return indices

    def name(self, user: int) -> str:
        return repr(self._users.ids[user])


class ByHand:
    """Users that units= names at every step, as whole numbers or as strings, of one type in the whole run.

    A string has the first 63 bits of its SHA-256 as its number. Two strings with equal numbers would be one user, clipped and
    counted together, which is on the safe side.
    """

    by_example = False

    def __init__(self) -> None:
        self._texts: Optional[bool] = None
        self._names: Dict[int, str] = {}

    def named(self, units: Any) -> List[int]:
        found = checked_ids(units, "units")
        texts = not isinstance(found, np.ndarray)
        if len(found) > 0:
            if self._texts not in (None, texts):
                raise errors.ArgumentTypeError("units: strings and whole numbers in one run; ids of one type are accepted")
            self._texts = texts
        if isinstance(found, np.ndarray):
            return found.tolist()
        numbers = [int.from_bytes(hashlib.sha256(one.encode("utf-8", "surrogatepass")).digest()[:8], "little") >> 1 for one in found]
        self._names.update(zip(numbers, found))
        return numbers

    def state_dict(self) -> Dict[str, Any]:
        return {} if self._texts is None else {"texts": self._texts}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """7 and "7" have different numbers: ids that change their type in a run that is resumed would be other users."""
        if state.get("texts") is not None:
            self._texts = bool(state["texts"])

    def users_of(self, indices: Sequence[int]) -> List[int]:
        return list(indices)

    def drawing(self, indices: List[int]) -> List[int]:
        """Examples of a user get different numbers, which depend on the user's own alone."""
        seen: Dict[int, int] = {}
        out = []
        for user in indices:
            seen[user] = seen.get(user, -1) + 1
            out.append((user + 0x9E3779B97F4A7C15 * seen[user]) % (1 << 63))
        return out

    def name(self, user: int) -> str:
        return repr(self._names[user]) if user in self._names else str(user)


class Limits:
    """At most `most` steps for a user, any two at least `apart` apart; with `period` all in one class of steps modulo it."""

    def __init__(self, most: int, apart: int, period: Optional[int] = None, epoch: Optional[int] = None):
        self.most, self.apart, self.period, self.epoch = most, apart, period, epoch

    def check(self, users: np.ndarray, step: int, log: Dict[int, np.ndarray], name: Any) -> None:
        """Raises unless these users, each once, may take part in the step. `log` has the users of other steps, as sorted arrays."""
        counts = np.zeros(len(users), np.int64)
        for t, others in log.items():
            there = np.isin(users, others, assume_unique=True)
            counts += there
            if not there.any():
                continue
            first = name(int(users[there][0]))
            if self.period is not None and (t - step) % self.period != 0:
                raise self.refused(first, step, "took part in step %d, and its steps must be a multiple of %d apart" % (t, self.period))
            if self.epoch is not None and t // self.epoch == step // self.epoch:
                raise self.refused(first, step, "took part in step %d, in the same epoch of %d steps" % (t, self.epoch))
            if abs(t - step) < self.apart:
                raise self.refused(first, step, "took part in step %d, and its steps must be at least %d apart" % (t, self.apart))
        if (counts >= self.most).any():
            first = name(int(users[counts >= self.most][0]))
            raise self.refused(first, step, "has taken part %d times already, which is the most" % self.most)

    @staticmethod
    def refused(user: str, step: int, reason: str) -> errors.StateError:
        return errors.StateError(
            "user %s in step %d: it %s, as the mechanism assumes. Leave its examples out of the batch, or accept the epsilon of what "
            "happens with returning='count'" % (user, step, reason)
        )


def limits_of(mechanism: Mechanism) -> Limits:
    """What the mechanism's participation allows one user; secret sampling and patterns of a file have no such limits."""
    name, _, numbers = mechanism.participation.text.partition(":")
    if mechanism.sampling != "none":
        raise errors.ArgumentError(
            "returning='refuse': the mechanism assumes %s sampling, which no loader of others has: take a BatchSampler(users=), or "
            "returning='count' for the epsilon of the run without sampling" % mechanism.sampling
        )
    if name == "full":
        return Limits(mechanism.steps, 0)
    if name == "single":
        return Limits(1, 0)
    if name not in ("cyclic", "minsep", "min-sep", "shuffled"):
        raise errors.UnsupportedError("returning='refuse' with participation %s: returning='count' is accepted" % mechanism.participation.text)
    most, apart = (int(number) for number in numbers.split(","))
    if name == "cyclic":
        return Limits(most, apart, period=apart)
    return Limits(most, 0, epoch=apart) if name == "shuffled" else Limits(most, apart)
