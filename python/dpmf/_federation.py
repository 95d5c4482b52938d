# SPDX-License-Identifier: Apache-2.0
"""A federated server that may be killed at any moment: who is asked, the sum, the model and the files of a run.

It knows no framework: `dpmf.flower` and `dpmf.nvflare` bring the messages. dpmf.federated.Rounds clips, sums and adds the noise.

Beside the key file there are four files. The state of the noise and the log belong to Rounds. KEY.model has the model after the
last finished round with the state of the run: nothing secret beside the log. KEY.pending has the sum of a round whose row is being
drawn, for its owner alone and as secret as the key; it is removed once the model is on the disk. With it a server that is
killed between the two releases the same bits again, although its clients would not send the same updates twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import time
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import errors
from ._clients import client_name
from ._library import flag, integer, real
from .federated import Exhausted, Rounds, Used
from .ledger import Ledger

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["Federation"]

Arrays = Dict[str, np.ndarray]


def forget(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def write_whole(path: str, content: "Callable[[Any], None]") -> None:
    """A file for its owner alone that is there whole or not at all, on the disk before this returns."""
    forget(path + ".new")  # of a crash; a file that is there keeps its mode, and a link its target
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
        content(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def pack(arrays: Arrays, record: Dict[str, Any]) -> "Callable[[Any], None]":
    """Arrays under numbers, their names and everything else as text."""
    named = {"a%d" % i: array for i, array in enumerate(arrays.values())}
    text = np.frombuffer(json.dumps({"names": list(arrays), **record}).encode(), np.uint8)
    return lambda file: np.savez(file, text=text, **named)


def unpack(path: str) -> "Tuple[Arrays, Dict[str, Any]]":
    try:
        with open(path, "rb") as content, np.load(content, allow_pickle=False) as file:
            record = json.loads(file["text"].tobytes().decode())
            return {name: file["a%d" % i] for i, name in enumerate(record.pop("names"))}, record
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise errors.FormatError("%s is damaged (%s): restore it" % (path, error)) from None


class Federation:
    """One federated run; the options are those of dpmf.flower.CorrelatedNoise."""

    def __init__(
        self,
        mechanism: "Mechanism",
        clip_norm: float,
        cohort: int,
        *,
        key: "Union[str, os.PathLike[str]]",
        ledger: Optional[Ledger] = None,
        what: str = "federated",
        max_epsilon: Optional[float] = None,
        zero_above: Optional[float] = None,
        exact: bool = False,
        threads: int = 0,
        give_up: bool = False,
    ):
        if not isinstance(key, (str, os.PathLike)):
            raise errors.ArgumentTypeError("key is a %s, the path of a key file is accepted: a server is resumed from it" % type(key).__name__)
        if integer(cohort, "cohort") < 1:
            raise errors.ArgumentError("cohort = %d, accepted: 1 or more clients in a round" % cohort)
        if ledger is not None and not isinstance(ledger, Ledger):
            raise errors.ArgumentTypeError("ledger is a %s, a dpmf.Ledger is accepted" % type(ledger).__name__)
        if mechanism.steps > 1 and mechanism.participation.count > 1 and mechanism.unit in (None, "example"):
            raise errors.ArgumentError(
                "the mechanism protects one %s, and a client's update depends on all its data: design with unit=\"user\" or users="
                % (mechanism.unit or "unit without a name")
            )
        self.mechanism, self.cohort, self.path = mechanism, cohort, os.fspath(key)
        self.clip_norm = real(clip_norm, "clip_norm")
        self._ledger, self._what, self._give_up = ledger, what, bool(flag(give_up, "give_up"))
        self._options: Dict[str, Any] = dict(
            max_epsilon=max_epsilon, zero_above=zero_above, exact=flag(exact, "exact"), threads=threads
        )
        self._rounds: Optional[Rounds] = None
        self.model: Arrays = {}
        self.more: Arrays = {}  # the optimizer of a server has arrays too
        self._asked: Dict[str, None] = {}

    # ---- begin and resume ----

    @property
    def rounds(self) -> Rounds:
        if self._rounds is None:
            raise errors.StateError("the run has not begun: there are no initial parameters yet")
        return self._rounds

    def begin(self, initial: Arrays, apply: "Callable[[Arrays], Tuple[Arrays, Arrays]]", restore: "Callable[[Arrays], None]") -> Arrays:
        """The model to continue with: the initial one, or that of the run's last finished round, which the files have.

        apply gives (the next model, arrays of the optimizer) for a noisy mean of updates; restore takes such arrays back.
        """
        trained = {name: one for name, one in initial.items() if one.dtype in (np.float32, np.float64)}
        if not trained:
            raise errors.ArgumentError("the model has no arrays of float32 or float64, which alone are trained")
        if any(not np.isfinite(one).all() for one in trained.values()):
            raise errors.ArgumentError("the initial parameters are not finite")
        wide = any(one.dtype == np.float64 for one in trained.values())
        rounds = Rounds(
            self.mechanism, list(trained.values()), self.clip_norm, divisor=self.cohort, key=self.path,
            dtype="float64" if wide else "float32", state_now=True, **self._options,
        )
        try:
            self._resume(rounds, initial)
            self._rounds, self._names = rounds, list(trained)
            restore(self.more)
            if self._ledger is not None:
                self._ledger.enter(self.mechanism, self.path, what=self._what, stream=rounds.noise)
            self._finish_pending(apply)
            self._leave_out()
        except BaseException:
            self._rounds = None
            rounds.close()
            raise
        return self.model

    def _resume(self, rounds: Rounds, initial: Arrays) -> None:
        path = self.path + ".model"
        if not os.path.exists(path):
            self.model = {name: np.array(one) for name, one in initial.items()}
            state = rounds.state_dict()  # refused where rows were used and the model is lost
            self._save(state)
            return
        arrays, record = unpack(path)
        model, self.more = ({name[2:]: one for name, one in arrays.items() if name[:2] == part} for part in ("m:", "o:"))
        for name, one in initial.items():
            if name not in model or model[name].shape != one.shape or model[name].dtype != one.dtype or len(model) != len(initial):
                raise errors.StateError("%s has another model than this one: they differ in %s" % (path, name))
        rounds.load_state_dict(record["state"])
        self.model = model

    def _finish_pending(self, apply: "Callable[[Arrays], Tuple[Arrays, Arrays]]") -> None:
        path = self.path + ".pending"
        forget(path + ".new")  # of a crash before its round had a row: a sum without noise
        if not os.path.exists(path):
            return
        arrays, record = unpack(path)
        if not hmac.compare_digest(str(record.get("seal")), self._seal(record, arrays.get("sum", np.zeros(0)))):
            raise errors.StateError(
                "%s is not what this run wrote: its sum was changed, or is of another run. Restore it, because the row of its round may have been "
                "used, and is given for that sum alone" % path
            )
        if record["round"] == self.rounds.round:
            self.rounds.load_pending(record["clients"], arrays["sum"])
            try:
                self._release(apply)
            except Used:
                if not self._give_up:
                    raise
        elif record["round"] < self.rounds.round or self._give_up:
            os.remove(path)

    def _leave_out(self) -> None:
        """Rounds whose rows were drawn, and whose sums or models are lost: their rows are used for nothing else."""
        first, last = self.rounds.round, self.rounds.noise.reserved
        if first >= last:
            return
        if not self._give_up:
            raise errors.StateError(
                "the rows of rounds %d to %d were drawn, and %s.model is from before: restore the newest one, with its %s.pending. If they are "
                "lost, give_up=True leaves these rounds out: their clients stay counted, and the run continues from this model"
                % (first, last - 1, self.path, self.path)
            )
        while self.rounds.round < last:
            if self.rounds.known():
                self.rounds.skip()
            else:
                self.rounds.finish()  # no client took part: its sum was 0, and for any other it is refused
        self._save(self.rounds.state_dict())

    def _seal(self, record: Dict[str, Any], total: np.ndarray) -> str:
        """A keyed hash of a sum without noise and of the run that clipped it, whose salt tells it from others with this key."""
        said = json.dumps([record.get("round"), record.get("clients"), self.rounds.noise._identity()], sort_keys=True).encode()
        return self.rounds.seal(said + hashlib.sha256(np.ascontiguousarray(total)).digest())

    # ---- a round ----

    def choose(self, available: Iterable[Any]) -> List[str]:
        """At most `cohort` of the clients that may take part in this round: those who were waiting longest first.

        It depends on who is available and on earlier choices, never on what they sent. Under cyclic participation those who were here a
        turn ago come before new ones, so that fixed groups form.
        """
        may = self.rounds.eligible(dict.fromkeys(client_name(one) for one in available))
        units, steps, names = self.rounds.participations()
        last = {name: -1 for name in may}
        for unit, step in zip(units.tolist(), steps.tolist()):
            if names[unit] in last:
                last[names[unit]] = max(last[names[unit]], step)
        grouped = self.mechanism.participation.text.startswith("cyclic")
        at = self.rounds.round

        def order(name: str) -> Any:
            mixed = hashlib.sha256(("%d,%s" % (at, name)).encode()).digest()
            return (last[name] < 0 if grouped else last[name], mixed)

        return sorted(may, key=order)[: self.cohort]

    def ask(self, clients: Sequence[str]) -> None:
        """These clients get this round's model, and count as taking part, with or without an answer."""
        refused = [name for name in clients if self.rounds.refusal(name) is not None]
        if refused or len(clients) > self.cohort or len(set(clients)) != len(clients):
            raise errors.StateError(
                "round %d: client %s may not take part: %s" % (self.rounds.round, refused[0], self.rounds.refusal(refused[0]))
                if refused
                else "round %d: %d clients, accepted: at most %d, all different" % (self.rounds.round, len(clients), self.cohort)
            )
        self.rounds.discard()
        self._asked = dict.fromkeys(clients)

    def add(self, client: str, arrays: "Callable[[], Arrays]", whole: bool = True) -> bool:
        """Adds the answer of a client: its model (or with whole = False the difference to that of the round), by a call that may fail.

        False: it was not asked in this round or has answered already, and nothing was added. What it sent is never a reason.
        """
        if client not in self._asked or client in self.rounds.added:
            return False
        try:
            given = arrays()
            known = {name: np.asarray(given[name]) for name in self._names}
            if set(given) - set(self.model) or any(known[name].shape != self.model[name].shape for name in self._names):
                raise ValueError
            with np.errstate(all="ignore"):
                update: Any = [np.subtract(one, self.model[name] if whole else 0, dtype=np.float64) for name, one in known.items()]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # an answer can be any object, and raise what it likes; it adds zeros
            update = None
        self.rounds.add(client, update)
        return True

    def close_round(self, apply: "Callable[[Arrays], Tuple[Arrays, Arrays]]") -> Arrays:
        """The next model. Raises dpmf.federated.Exhausted, and releases nothing, where the round would pass max_epsilon."""
        for name in self._asked:
            if name not in self.rounds.added:
                self.rounds.add(name, None)
        self._asked = {}
        clients, total = self.rounds.pending()
        record: Dict[str, Any] = {"round": self.rounds.round, "clients": clients}
        record["seal"] = self._seal(record, total)
        write_whole(self.path + ".pending", pack({"sum": total}, record))
        return self._release(apply)

    def _release(self, apply: "Callable[[Arrays], Tuple[Arrays, Arrays]]") -> Arrays:
        try:
            noisy = self.rounds.finish()
            mean = {name: part.astype(self.model[name].dtype) for name, part in zip(self._names, noisy)}
            self.model, self.more = apply(mean)
            self._save(self.rounds.state_dict())
        except (Exhausted, Used):  # no row was drawn for this sum, and none will be: it must not stay on the disk
            self.rounds.discard()
            os.remove(self.path + ".pending")
            raise
        except BaseException:  # the row may have been drawn: the next process resumes from the files, which have its sum
            rounds, self._rounds = self.rounds, None
            rounds.close()
            raise
        os.remove(self.path + ".pending")
        return self.model

    def _save(self, state: Dict[str, Any]) -> None:
        """The model after this round, with everything that the run needs to continue from it."""
        arrays = {"m:" + name: one for name, one in self.model.items()}
        arrays.update({"o:" + name: one for name, one in self.more.items()})
        write_whole(self.path + ".model", pack(arrays, {"state": state}))

    # ---- what it costs ----

    def figures(self) -> Dict[str, Any]:
        """Of the rounds so far. They do not depend on what clients sent, nor on who of those who were asked answered."""
        observed = self.rounds.observed()
        found = {"round": self.rounds.round, "rounds": self.rounds.rounds}
        if observed is not None:
            found.update({"epsilon": observed.epsilon, "delta": observed.delta})
        return found

    def wait(self, available: "Callable[[], Iterable[Any]]", seconds: float) -> List[str]:
        """Chooses as soon as a whole cohort may take part, and after these seconds among those who may."""
        until = time.monotonic() + seconds
        while True:
            chosen = self.choose(available())
            if len(chosen) >= self.cohort or time.monotonic() >= until:
                return chosen
            time.sleep(0.5)

    def close(self) -> None:
        if self._rounds is not None:
            self._rounds.close()
