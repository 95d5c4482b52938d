# SPDX-License-Identifier: Apache-2.0
"""Who took part in which round: checked against a mechanism's participation, and kept in a file that a crash leaves whole.

The file has the form of `dpmf account --log`: the header client,round and one line for each participation. It is written and
synced before the row of noise of that round is drawn, so that it has everybody who can be in anything that was released. It only
grows: a checkpoint has the size that it had, with a hash of all up to there, so that a log that was edited, or is from a backup,
is noticed before a client that it has forgotten comes back too early.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import unicodedata
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import numpy as np

from . import errors
from .mechanism import Mechanism

HEADER = b"client,round\n"
#: Bytes of the longest name that the command line reads.
LONGEST = 200
#: Texts that programs make of a value that is missing, in any case. As an id each would be one user of all whose user is not known.
MISSING = frozenset({"", "nan", "none", "nat", "null", "<na>", "n/a", "#n/a", "undefined"})

#: What is wrong with the rounds of one client, in order; None: they are among those that were accounted for.
Rule = Callable[[List[int]], Optional[str]]


def is_missing(name: str) -> bool:
    """The text stands for an id that is missing.

    >>> is_missing("NaN"), is_missing(" "), is_missing("Nan Li")
    (True, True, False)
    """
    return name.strip().casefold() in MISSING


def client_name(client: Any) -> str:
    """A client's id as text. 7 and "7" are the same client; "a" and "A" are two.

    >>> client_name(7)
    '7'
    """
    if isinstance(client, (int, np.integer)) and not isinstance(client, bool):
        return str(int(client))
    if not isinstance(client, str):
        raise errors.ArgumentTypeError("client is a %s, a whole number or text is accepted" % type(client).__name__)
    try:
        size = len(client.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    plain = all(letter not in ',"' and unicodedata.category(letter) != "Cc" for letter in client)
    if not 1 <= size <= LONGEST or not plain or client[0] == " " or client[-1] == " ":
        raise errors.ArgumentError(
            "client = %r, accepted: 1 to %d bytes of UTF-8 without commas, quotes and control characters, and without a space at "
            "either end" % (client, LONGEST)
        )
    if is_missing(client):
        raise errors.ArgumentError(
            "client = %r stands for an id that is missing, by which several people would be one client beside their own; accepted: names other "
            "than %s" % (client, ", ".join(sorted(MISSING - {""})))
        )
    return client


def rule_of(mechanism: Mechanism) -> Rule:
    """What the mechanism's participation allows one client.

    >>> from dpmf import evaluate
    >>> rule = rule_of(evaluate("identity", 10, participation="min-sep:2,4"))
    >>> rule([1, 5]) is None, rule([1, 4]), rule([0, 4, 8])
    (True, 'rounds 1 and 4 are 3 apart, accepted: 4 or more', '3 rounds, accepted: at most 2')
    """
    what = mechanism.participation
    kind, most, apart = what.text.partition(":")[0], what.count, what.separation

    def close(rounds: List[int]) -> Optional[str]:
        for first, second in zip(rounds, rounds[1:]):
            if second - first < apart:
                return "rounds %d and %d are %d apart, accepted: %d or more" % (first, second, second - first, apart)
        return None

    def uneven(rounds: List[int]) -> Optional[str]:
        for t in rounds[1:]:
            if (t - rounds[0]) % apart != 0:
                return "rounds %d and %d, accepted: %d or a multiple of it apart" % (rounds[0], t, apart)
        return None

    def crowded(rounds: List[int]) -> Optional[str]:
        for first, second in zip(rounds, rounds[1:]):
            if first // apart == second // apart:
                return "rounds %d and %d, accepted: one of each %d" % (first, second, apart)
        return None

    checks = {"single": None, "full": None, "minsep": close, "cyclic": uneven, "shuffled": crowded}
    if kind not in checks:
        raise errors.UnsupportedError("participation %s: give sampler=, which draws who takes part in each round" % what.text)
    check = checks[kind]

    def rule(rounds: List[int]) -> Optional[str]:
        if kind != "full" and len(rounds) > most:
            return "%d rounds, accepted: at most %d" % (len(rounds), most)
        return None if check is None else check(rounds)

    return rule


class Participations:
    """The rounds of every client. path: the file that keeps them; None: memory alone.

    >>> log = Participations()
    >>> log.record(0, ["ada", "bob"])
    >>> log.record(3, ["ada"])
    >>> log.with_round("ada", 5), log.with_round("eve", 5), len(log)
    ([0, 3, 5], [5], 3)
    """

    def __init__(self, path: Optional[str] = None, reserved: Optional[int] = None):
        """reserved: the rows that the run's state file has; None: there is none to compare with."""
        self.path = path
        self._rounds: Dict[str, List[int]] = {}
        self._file = -1
        self._content, self._size = hashlib.sha256(), 0  # of the file
        if path is not None:
            self._open(path, reserved)

    def _open(self, path: str, reserved: Optional[int]) -> None:
        new = not os.path.exists(path)
        if new and reserved:
            raise errors.StateError(
                "log: there is no %s, and the state file has %d rows: who took part in their rounds is not known, so that no client "
                "could be refused" % (path, reserved)
            )
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise errors.FileError("log: %s is in use by another run: each run has its own" % path) from None
            self._read(path, reserved)
            if new:
                folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except BaseException:
            self.close()
            raise

    def _read(self, path: str, reserved: Optional[int]) -> None:
        with os.fdopen(os.dup(self._file), "rb") as file:
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]  # a line that a crash cut off was never synced: no row was drawn after it
        if data.startswith(HEADER):
            for number, line in enumerate(whole[len(HEADER) :].split(b"\n")[:-1], 2):
                name, _, at = line.decode("utf-8", "replace").rpartition(",")
                if not at.isascii() or not at.isdigit() or len(at) > 18 or not name:
                    raise errors.FormatError("log: %s, line %d: client,round is accepted" % (path, number))
                if reserved is not None and int(at) > reserved:
                    raise errors.StateError(
                        "log: %s, line %d: round %s, and the state file has %d rows: the two belong to different runs"
                        % (path, number, at, reserved)
                    )
                self._put(name, int(at))
        elif not HEADER.startswith(data):
            raise errors.FormatError("log: %s does not begin with client,round" % path)
        elif reserved:  # the header is on the disk before the first row
            raise errors.StateError(
                "log: %s has no header, and the state file has %d rows: who took part in their rounds is lost" % (path, reserved)
            )
        else:
            whole = b""
        os.ftruncate(self._file, len(whole))
        os.lseek(self._file, 0, os.SEEK_END)
        self._content.update(whole)
        self._size = len(whole)
        if not whole:
            self._write(HEADER)

    def _write(self, data: bytes) -> None:
        """All of it and on the disk, or nothing of it."""
        size = os.fstat(self._file).st_size
        if size != self._size:
            raise errors.FileError("log: %s has %d bytes, and this run wrote %d: another program has changed it" % (self.path, size, self._size))
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            os.lseek(self._file, size, os.SEEK_SET)
            raise errors.FileError("log: %s cannot be written: %s" % (self.path, error.strerror)) from None
        self._content.update(data)
        self._size += len(data)

    def mark(self) -> "Tuple[int, bytes]":
        """(bytes of the file, their SHA-256): it only grows, so that this holds for its beginning for ever."""
        return self._size, self._content.digest()

    def hash_of(self, size: int) -> Optional[bytes]:
        """The SHA-256 of the file's first bytes; None: it has fewer."""
        if not 0 <= size <= self._size:
            return None
        found, at = hashlib.sha256(), 0
        while at < size:
            data = os.pread(self._file, min(size - at, 1 << 20), at)
            if not data:
                return None
            found.update(data)
            at += len(data)
        return found.digest()

    def _put(self, name: str, t: int) -> bool:
        """False: it is there already."""
        known = self._rounds.setdefault(name, [])
        if t in known:
            return False
        known.append(t)
        known.sort()
        return True

    def with_round(self, name: str, t: int) -> List[int]:
        """The client's rounds, and this one."""
        return sorted({*self._rounds.get(name, []), t})

    def record(self, t: int, names: Iterable[str]) -> None:
        """Before the row of round t is drawn. A client that is there from an earlier try of the round stays in it."""
        new = [name for name in names if t not in self._rounds.get(name, [])]
        if self._file >= 0 and new:
            self._write("".join("%s,%d\n" % (name, t) for name in new).encode("utf-8"))
        for name in new:
            self._put(name, t)

    def pairs(self, more: Iterable[str] = (), t: int = 0) -> "Tuple[np.ndarray, np.ndarray, List[str]]":
        """(clients by number, their rounds, the names); `more` clients of round t are added."""
        both = {name: list(rounds) for name, rounds in self._rounds.items()}
        for name in more:
            both[name] = self.with_round(name, t)
        units = np.repeat(np.arange(len(both), dtype=np.int64), [len(rounds) for rounds in both.values()])
        steps = np.array([t for rounds in both.values() for t in rounds], np.int64)
        return units, steps, list(both)

    def __len__(self) -> int:
        return sum(len(rounds) for rounds in self._rounds.values())

    def state_dict(self) -> Dict[str, List[int]]:
        return {name: list(rounds) for name, rounds in self._rounds.items()}

    def load_state_dict(self, state: Dict[str, List[int]]) -> None:
        """Adds to what is known, in the file too: what this process has released itself stays."""
        by_round: Dict[int, List[str]] = {}
        for name, rounds in state.items():
            for t in rounds:
                by_round.setdefault(int(t), []).append(client_name(name))
        for t in sorted(by_round):
            self.record(t, by_round[t])

    def has_round(self, t: int) -> bool:
        """Some client took part in it."""
        return any(t in rounds for rounds in self._rounds.values())

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
