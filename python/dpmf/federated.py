# SPDX-License-Identifier: Apache-2.0
"""The server's side of private federated learning: updates in, one noisy sum for each round out. It needs NumPy alone.

DP-FedAvg (McMahan et al. 2018; with correlated noise Choquette-Choo et al. 2023; Pillutla et al. 2025, Eq. 1.27): each client of
a round trains on its own data from the server's weights and sends an update, the server clips the updates, sums them, adds row
t of the noise, and its optimizer takes the result for a gradient. The unit is the client, with all its data.

Updates are put on a grid and clipped there, in integers, and summed in integers: a client moves the sum by at most the clip
norm, exactly, for any values, order and threads. What is not finite adds 0 without a message, and so does what is no update.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import math
import os
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import errors
from ._contribution import SENTENCE, checked_gamma, rule_of as contribution_rule, with_rule
from ._clients import Participations, client_name, rule_of
from ._library import abi, c, flag, integer, real, run_options, select
from ._memory import is_tensor
from .figures import rounded_up
from .keys import KeyBuffer, KeyLike
from .noise import NO_STATE, STREAM, NoiseStream, Sums, require_mechanism
from .privacy import Privacy
from .sampler import Sampler

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["Early", "Exhausted", "Rounds"]

#: Clients that one sum may hold at the finest grid, as in dpmf.torch.
CAPACITY = 1 << 20
#: Numbers whose temporaries in double stay in a core's cache.
STRIP = 1 << 16

PRECISIONS = {
    np.dtype(np.float32): abi.dpmf_precision.DPMF_FLOAT32,
    np.dtype(np.float64): abi.dpmf_precision.DPMF_FLOAT64,
}

#: Secret choices of clients, by what they follow from, and the run that used them.
CLAIMED: Dict[bytes, Any] = {}

UNSAVED = (
    "the state file has seen %d of %d rows, and no state of that run is loaded: load the checkpoint that was saved with the model "
    "(load_state_dict). Save one before the first round too; without one, begin a new run with a new key"
)
GIVE_UP = (
    "%s. In a federation, where clients may send other updates the second time, skip() gives the round up: its row is used for "
    "nothing else, and its clients stay counted"
)


def alone(call: Any) -> Any:
    """One thread at a time: the calls leave Python's own lock, two sums in the same memory lose additions, and one round is released once."""

    @wraps(call)
    def locked(self: Any, *args: Any, **named: Any) -> Any:
        with self._lock:
            return call(self, *args, **named)

    return locked


class Early(errors.StateError):
    """A client that may not take part in this round: it comes too early, too often, twice, or was not drawn. Nothing was added."""


class Exhausted(errors.StateError):
    """The run is over: the mechanism has no further round, or this one would pass `max_epsilon`. Nothing was released."""


class Used(errors.StateError):
    """The row of this round was drawn for another sum. Nothing was released, and this sum never will be."""


class Rounds:
    """The rounds of one federated run. For each: `add` for every client, then `finish`.

    mechanism     must be calibrated (have a sigma); its steps are the rounds, and its participation is that of a client
    shapes        the numbers of an update: an int, or a sequence of shapes, arrays or tensors (a model's parameters)
    clip_norm     the l2 norm to which every update is clipped: 2^-100 to 2^100
    divisor       what a round's noisy sum is divided by. Give the expected number of clients, never the actual one
    sampler       a dpmf.Sampler over the clients: only those that it draws for a round are taken (`drawn`). It is checked
                  against the mechanism. None: the caller chooses, and a client that comes earlier or more often than the
                  mechanism's participation allows is refused
    clients       with a sampler: the id of each of its units, in order; None: their numbers
    key           32 bytes, or the path of a key file, beside which its state file lies; None: a new one, and the run
                  cannot be resumed. A run with bytes that may be resumed needs `state`: without a state file another process
                  could use a row for a second sum
    zero_above    updates with a coordinate larger than this add nothing, in the place of being clipped (Choquette-Choo et al.
                  2023, Appendix F.3, who take 100 clip norms); how many they are is not reported. None: off
    max_epsilon   the run ends before a round with which the epsilon of the clients' actual rounds would be larger
    log           the path of the record of who took part when, in the form of `dpmf account --log`; None: the path of `state`, or
                  else of the key, + ".log", and memory alone without a state file. It is as secret as who took part is
    dtype         of the rows and of what leaves: "float32" or "float64"
    exact         the exact release (docs/exactness.md): noise on the grid of the sums, added in integers
    state, label, prefetch, lookahead, scratch, threads, state_now    as for NoiseStream
    normalize     None: updates u are clipped. A number gamma, 0.01 for example: they are normalised, clip_norm u / (|u| + gamma)
                  (AUTO-S: Bu et al. 2023), with the same bound, so that no clip norm has to be searched

    A client id is a whole number or text, compared byte by byte. A round's clients, and who of them answers, must not depend on
    anybody's data; those who are asked and send nothing are added as None.

    >>> from dpmf import evaluate, testing_key
    >>> m = evaluate("toeplitz", 6, participation="min-sep:2,3", epsilon=4.0, delta=1e-5)
    >>> rounds = Rounds(m, [(2, 2), 3], 1.0, divisor=2, key=testing_key(1))
    >>> update = [np.full((2, 2), 1e30), np.zeros(3)]
    >>> rounds.add("ada", update); rounds.add("bob", None)
    >>> noisy = rounds.finish()
    >>> [part.shape for part in noisy], rounds.round
    ([(2, 2), (3,)], 1)
    >>> rounds.eligible(["ada", "bob", "eve"])
    ['eve']
    >>> rounds.add("ada", update)
    Traceback (most recent call last):
        ...
    dpmf.federated.Early: client 'ada' in round 1: rounds 0 and 1 are 1 apart, accepted: 3 or more
    """

    def __init__(
        self,
        mechanism: "Mechanism",
        shapes: Any,
        clip_norm: float,
        *,
        divisor: float,
        sampler: Any = None,
        clients: Optional[Sequence[Any]] = None,
        key: KeyLike = None,
        zero_above: Optional[float] = None,
        max_epsilon: Optional[float] = None,
        log: "Union[str, os.PathLike[str], None]" = None,
        dtype: str = "float32",
        exact: bool = False,
        state: Any = None,
        label: Optional[str] = None,
        prefetch: bool = False,
        lookahead: int = 0,
        scratch: Any = None,
        threads: int = 0,
        state_now: bool = False,
        normalize: Optional[float] = None,
    ):
        options = select((*STREAM, "state_now"), locals())
        self.mechanism = require_mechanism(mechanism)
        mechanism.confirm()
        if mechanism.sigma is None:
            raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
        self.clip_norm, self.divisor = real(clip_norm, "clip_norm"), real(divisor, "divisor")
        if not 2.0**-100 <= self.clip_norm <= 2.0**100:
            raise errors.ArgumentError("clip_norm = %g, accepted: 2^-100 to 2^100" % self.clip_norm)
        #: gamma of normalised updates; 0: they are clipped.
        self.gamma = checked_gamma(normalize)
        if self.gamma:
            options["label"] = with_rule(label, contribution_rule(self.gamma))
        self.zero_above = positive(zero_above, "zero_above")
        self.max_epsilon = positive(max_epsilon, "max_epsilon")
        positive(self.divisor, "divisor")
        self._shapes, self._sizes = shapes_of(shapes)
        self._threads = integer(threads, "threads")
        self._plan(sampler, clients, key)
        grid = ctypes.c_double()
        c.dpmf_clip_grid(self.clip_norm, self.capacity, ctypes.byref(grid))
        #: The step of the integers of the sum.
        self.grid = grid.value
        self._sum = np.zeros(sum(self._sizes), np.int64)
        self._added: Dict[str, None] = {}
        self._lock = threading.RLock()
        self._partial = False
        self._ended: Optional[int] = None  # the rounds of a run that is closed
        if flag(exact, "exact"):
            options.update(exact=True, grid=self.grid)
            dtype = "float64"
        path = os.fspath(key) if isinstance(key, (str, os.PathLike)) else None
        if state is not NO_STATE and (state is not None or path is not None):
            options["replay"] = True
        #: The stream of rows, for a ledger: Ledger.enter(mechanism, key, stream=rounds.noise).
        self.noise = NoiseStream(mechanism, self._sum.size, self.clip_norm, key, dtype=dtype, **options)
        self._sums = Sums(self.noise)
        self._lost = self.noise.reserved  # rows of a model that is not this one, until its checkpoint is loaded
        beside = path if state is None or state is NO_STATE else os.fspath(state)
        if log is None and beside is not None:  # a row whose clients are forgotten after a crash would be in no epsilon
            log = beside + ".log"
        try:
            self._log = Participations(None if log is None else os.fspath(log), self.noise.reserved if self.noise.keeps_state else None)
        except BaseException:
            self.noise.close()
            raise

    def _plan(self, sampler: Any, clients: Optional[Sequence[Any]], key: KeyLike) -> None:
        """Who may take part: those that the sampler draws, or all that the mechanism's participation allows."""
        mechanism = self.mechanism
        self.sampler: Optional[Sampler] = getattr(sampler, "sampler", sampler)
        self._rule: Any = None
        self._clients: List[str] = []
        self._drawn: Tuple[int, Dict[str, None]] = (-1, {})
        self.capacity = CAPACITY
        if self.sampler is None:
            if clients is not None:
                raise errors.ArgumentError("clients: there is no sampler, which would draw of them")
            if mechanism.sampling != "none" or mechanism.adjacency == "add-remove":
                raise errors.ArgumentError(
                    "sampler: the mechanism's guarantee is for %s, so that the clients of a round must be drawn by a dpmf.Sampler"
                    % (mechanism.sampling if mechanism.sampling != "none" else "add-remove adjacency")
                )
            self._rule = rule_of(mechanism)
        else:
            if not isinstance(self.sampler, Sampler):
                raise errors.ArgumentTypeError("sampler is a %s, a dpmf.Sampler is accepted" % type(sampler).__name__)
            self.sampler.check(mechanism)
            if keyed(self.sampler) and self.sampler._ephemeral and isinstance(key, (str, os.PathLike)):
                raise errors.ArgumentError(
                    "sampler: its key was made for it alone, and a run that is resumed would draw other clients: give it the key of the run"
                )
            self.capacity = max(CAPACITY, self.sampler.capacity)
            self._clients = [client_name(one) for one in (range(self.sampler.units) if clients is None else clients)]
            if len(self._clients) != self.sampler.units or len(set(self._clients)) != len(self._clients):
                raise errors.ArgumentError(
                    "clients: %d names, %d of them different; the sampler has %d units"
                    % (len(self._clients), len(set(self._clients)), self.sampler.units)
                )
        if mechanism.adjacency == "add-remove":  # the number of clients is secret, and the divisor is not
            self.capacity = 1 << math.ceil(math.log2(max(CAPACITY, 16.0 * self.divisor)))
        if self.max_epsilon is not None and mechanism.sampling != "none" and not (mechanism.epsilon or math.inf) <= self.max_epsilon:
            raise errors.ArgumentError(
                "max_epsilon = %g: with secret sampling the guarantee is that of the whole run, epsilon = %s, and cannot be watched round "
                "by round. Design for %g" % (self.max_epsilon, mechanism.epsilon, self.max_epsilon)
            )
        with KeyBuffer(key) as memory:
            self._secret = hmac.new(bytes(memory.memory), b"dpmf federated 1", hashlib.sha256).digest()

    # ---- who takes part ----

    @property
    def round(self) -> int:
        """The number of the round that is under way, from 0."""
        return self.noise.step if self._ended is None else self._ended

    @property
    def rounds(self) -> int:
        """Of the whole run."""
        return self.mechanism.steps

    @property
    def over(self) -> bool:
        """There is no further round."""
        return self.round >= self.mechanism.steps

    @property
    def added(self) -> List[str]:
        """The clients of the round that is under way, so far."""
        return list(self._added)

    @alone
    def drawn(self) -> List[str]:
        """With a sampler: the clients of this round. Where the mechanism samples in secret, they are a secret."""
        self._may_go_on()
        if self.sampler is None:
            raise errors.ArgumentError("there is no sampler: choose the clients, and ask `eligible` who of them may take part")
        return list(self._draw(self.sampler))

    def _draw(self, sampler: Sampler) -> Dict[str, None]:
        t = self.round
        if self._drawn[0] != t:
            if sampler.step != t:
                sampler.seek(t)
            self._drawn = (t, {self._clients[unit]: None for unit in sampler.next().tolist()})
        return self._drawn[1]

    def refusal(self, client: Any) -> Optional[str]:
        """The reason for which the client may not take part in this round; None: it may."""
        name, t = client_name(client), self.round
        if name in self._added:
            return "it is in it already"
        if self.sampler is not None:
            return None if name in self._draw(self.sampler) else "the sampler has not drawn it"
        return self._rule(self._log.with_round(name, t))

    @alone
    def check(self, clients: Iterable[Any]) -> None:
        """Raises Early or Exhausted if `add` or `finish` would, were these the rest of this round's clients; nothing is added."""
        self._may_go_on()
        names = [client_name(one) for one in clients]
        seen: Dict[str, None] = {}
        for name in names:
            refused = "it is named twice" if name in seen else self.refusal(name)
            seen[name] = None
            if refused is not None:
                raise Early("client %r in round %d: %s" % (name, self.round, refused))
        self._affordable({**self._added, **seen})

    @alone
    def eligible(self, clients: Iterable[Any]) -> List[Any]:
        """Those of the clients that may take part in this round."""
        self._may_go_on()
        return [one for one in clients if self.refusal(one) is None]

    # ---- a round ----

    @alone
    def add(self, client: Any, update: Any) -> None:
        """Adds a client's update, clipped: a sequence of arrays of the shapes, or one flat array; None: it sent nothing.

        Raises Early, and adds nothing, for a client that may not take part. What it sent is never a reason: an update that is
        not finite, has other shapes or is no array adds zeros, and the client has taken part. `problem` is for tests.
        """
        self._may_go_on()
        name = client_name(client)
        refused = self.refusal(name)
        if refused is not None:
            raise Early("client %r in round %d: %s" % (name, self.round, refused))
        if len(self._added) >= self.capacity:
            raise errors.ArgumentError("more than %d clients in a round" % self.capacity)
        self._added[name] = None
        try:
            parts, _ = self._parts(update, self.zero_above)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # an update can be any object, and raise what it likes
            return
        if parts is not None:
            self._clip(parts)

    def problem(self, update: Any) -> Optional[str]:
        """Not private: why this update would add zeros; None: it would be clipped and added. For updates of public data."""
        try:
            return self._parts(update, self.zero_above or math.inf)[1]
        except Exception as error:
            return "%s: %s" % (type(error).__name__, error)

    def _parts(self, update: Any, most: Optional[float]) -> "Tuple[Optional[List[np.ndarray]], Optional[str]]":
        """(flat arrays of one precision, None), or (None, what is wrong). most: of a coordinate; None: it is not looked at."""
        if update is None:
            return None, "there is no update"
        given = [update] if isinstance(update, np.ndarray) or is_tensor(update) else list(update)
        arrays = [np.asarray(one.detach() if hasattr(one, "detach") else one) for one in given]
        whole = len(arrays) == 1 and arrays[0].shape == (self._sum.size,)
        shapes = [one.shape for one in arrays]
        if not whole and shapes != self._shapes:
            return None, "shapes %s, accepted: %s" % (shapes, self._shapes)
        if any(one.dtype.kind not in "fiu" for one in arrays):
            return None, "arrays of %s, numbers are accepted" % ", ".join(sorted({str(one.dtype) for one in arrays}))
        narrow = all(one.dtype in (np.float32, np.float16) for one in arrays)
        kind = np.dtype(np.float32 if narrow else np.float64)
        with np.errstate(all="ignore"):  # a warning would be a message about these numbers
            flat = [np.ascontiguousarray(one, kind).reshape(-1) for one in arrays]
        if most is not None:
            with np.errstate(all="ignore"):
                largest = float(np.max([[one.max(initial=0.0), -one.min(initial=0.0)] for one in flat]))  # NaN stays NaN
            if not (math.isfinite(largest) and largest <= most):
                return None, "its largest coordinate is %g, accepted: a finite number up to %g" % (largest, most)
        return flat, None

    def _clip(self, flat: List[np.ndarray]) -> None:
        used = [one for one in flat if one.size]
        parts = (abi.dpmf_segment * len(used))(*[abi.dpmf_segment(one.ctypes.data, one.size) for one in used])
        sums = self._sum.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        with run_options(self._threads) as run:
            c.dpmf_clip_add(
                self.clip_norm, self.gamma, self.grid, PRECISIONS[flat[0].dtype], 1, len(used), parts, sums, ctypes.byref(run)
            )

    @alone
    def finish(self) -> List[np.ndarray]:
        """(sum + the row of this round) / divisor, as new arrays of the shapes; the next round begins.

        Before the row is drawn the clients are in the log and the row is bound to the sum, both on the disk. A round with fewer
        clients than planned, or none, has the same guarantee. Raises Exhausted past the last round.
        """
        self._may_go_on()
        t = self.round
        self._affordable(self._added)
        self._claim()
        try:
            self._sums.bind(self._bound)
        except errors.ArgumentError as error:
            raise Used(GIVE_UP % str(error).rstrip(".")) from None
        self._log.record(t, self._added)
        try:
            return self._released()
        finally:
            self.discard()

    def _bound(self) -> bytes:
        """What a row is for: the sum, and whose it is. A sum of zeros does not tell who sent nothing."""
        whose = "\0".join(sorted(self._added)).encode("utf-8")
        return hashlib.sha256(hashlib.sha256(memoryview(self._sum).cast("B")).digest() + whose).digest()

    def _affordable(self, names: Dict[str, None]) -> None:
        if self.max_epsilon is None or self.mechanism.sampling != "none" or not names:
            return
        found = self._observed(self._log.pairs(names, self.round))
        if not found.epsilon <= self.max_epsilon:
            raise Exhausted(
                "round %d would bring epsilon to %s, above max_epsilon = %g: the run is over"
                % (self.round, rounded_up(found.epsilon), self.max_epsilon)
            )

    def _released(self) -> List[np.ndarray]:
        kind = np.dtype(self.noise.dtype)
        out = np.empty(self._sum.size, kind)
        if self.noise.grid:
            self.noise.add_whole_(self._sum)
        else:
            self.noise.fill_(out)
        for first in range(0, out.size, STRIP):
            part = self._sum[first : first + STRIP].astype(np.float64)
            part *= self.grid
            if not self.noise.grid:
                part += out[first : first + STRIP]
            part /= self.divisor
            out[first : first + STRIP] = part
        ends = np.cumsum(self._sizes)
        return [out[end - size : end].reshape(shape) for shape, size, end in zip(self._shapes, self._sizes, ends)]

    @alone
    def discard(self) -> None:
        """Forgets the updates of the round that is under way, whose row was not drawn."""
        self._sum[:] = 0
        self._added = {}

    @alone
    def pending(self) -> "Tuple[List[str], np.ndarray]":
        """(the clients of the round that is under way, their sum in steps of the grid), without noise and as secret as the key.

        For the crash file of a server, whose clients would not send the same updates again: `load_pending`, then `finish`.
        """
        return self.added, self._sum.copy()

    @alone
    def load_pending(self, clients: Iterable[Any], total: np.ndarray) -> None:
        """Takes the round up where `pending` left it. The clients are checked as in `add`; the sum is not, and must be its own."""
        self._may_go_on()
        self.discard()
        names = [client_name(one) for one in clients]
        refused = [name for name in names if self.refusal(name) is not None]
        if refused or total.shape != self._sum.shape or total.dtype != np.int64:
            raise errors.StateError("the sum of round %d is not one of this run: %s" % (self.round, refused[:1] or total.shape))
        self._sum[:] = total
        self._added = dict.fromkeys(names)

    def known(self) -> bool:
        """The log has clients of the round that is under way: it was closed before."""
        return self._log.has_round(self.round)

    @alone
    def skip(self) -> None:
        """Gives this round up: nothing is released for it any more, and its row is not used for another sum.

        For a round whose row was drawn before a crash, and whose clients cannot send the same updates again. Those who were in it
        stay counted. The noise of a round that is left out cancels less of that of the others.
        """
        self._may_go_on()
        if self.noise.keeps_state and self.round >= self.noise.reserved:
            raise errors.StateError("the row of round %d was not drawn: finish the round, with fewer clients if need be" % self.round)
        if self.noise.keeps_state and not self.known():
            raise errors.StateError(
                "the row of round %d was drawn, and %s has no client of it: the log is from before, or the round had none. Restore the newest "
                "log, or finish the round with the same updates (none, if it had none)" % (self.round, self._log.path)
            )
        self.discard()
        self.noise.seek(self.round + 1)

    def _may_go_on(self) -> None:
        if self._lost:
            raise errors.StateError(UNSAVED % (self._lost, self.mechanism.steps))
        if self.over:
            raise Exhausted("the mechanism has %d rounds, and all have been taken: the run is over" % self.mechanism.steps)

    def _claim(self) -> None:
        """Secret choices of clients compose as if every run made its own: a second run over the same ones is refused."""
        if self.sampler is None or self.mechanism.sampling == "none":
            return
        of = hashlib.sha256(repr(sorted(self.sampler.identity().items())).encode()).digest()
        run = (self.noise._commitment, self.noise._label or "", self.mechanism.digest)
        if CLAIMED.setdefault(of, run) != run:
            raise errors.StateError(
                "another run of this process had the same secret choice of clients (%s, with this key and label): give the sampler of "
                "every run another key or label" % self.sampler.text
            )

    # ---- what it costs ----

    @property
    def log(self) -> Optional[str]:
        """The path of the record of who took part; None: it is in memory."""
        return self._log.path

    def participations(self) -> "Tuple[np.ndarray, np.ndarray, List[str]]":
        """(client numbers, rounds, the clients' ids) of all participations so far. It tells who took part."""
        return self._log.pairs()

    def privacy(self, delta: Optional[float] = None) -> Privacy:
        """The guarantee of the whole run as designed, computed again: the clients' rounds are checked, so that it holds."""
        return self.mechanism.privacy(delta)

    @alone
    def observed(self, delta: Optional[float] = None) -> Optional[Privacy]:
        """The guarantee of the actual run so far, as `dpmf account --log` prints it for the log; None: no client took part yet.

        It holds for a log that does not depend on anybody's data, and takes nothing for secret sampling.
        """
        if self._lost:  # the log may be from a backup until a state is loaded, which knows
            raise errors.StateError(UNSAVED % (self._lost, self.mechanism.steps))
        if self._partial:
            raise errors.StateError("who took part before the state that was loaded was not recorded, since it is a secret: log= keeps it")
        return self._observed(self._log.pairs(), delta) if len(self._log) else None

    def _observed(self, pairs: Any, delta: Optional[float] = None) -> Privacy:
        return self.mechanism.observed_privacy(pairs[0], pairs[1], delta)

    def statement(self) -> str:
        """The guarantee in sentences; the unit is that of the mechanism, or else the user."""
        privacy = self.privacy()
        named = 0 if self.mechanism.unit else 1
        said = privacy._sentences(self.mechanism.unit or "user", unit_named=named, clip=self.clip_norm, done=self.round)
        said = self.noise.exact_statement(said)
        said += SENTENCE % ("client", self.clip_norm, self.gamma, self.clip_norm) if self.gamma else ""
        return said + (
            "Updates were clipped one client at a time and summed in integers: no client moved a sum by more than the clip norm, "
            "exactly, for any data. A person with several clients is not covered.\n"
        )

    # ---- checkpoints ----

    def _identity(self) -> Dict[str, Any]:
        drawn = None
        if self.sampler is not None:
            own = self.sampler.identity()
            if not keyed(self.sampler):  # in the clients' own order, for every key
                own = {name: own[name] for name in ("sampler", "units", "steps")}
            drawn = repr(sorted(own.items()) + self._clients).encode()
        return {
            "format": 1,
            "divisor": self.divisor,
            "zero_above": self.zero_above or 0.0,
            **({"normalize": self.gamma} if self.gamma else {}),
            # a keyed hash, because the number of clients may be secret
            "sampler": "" if drawn is None else hmac.new(self._secret, drawn, hashlib.sha256).hexdigest(),
        }

    @alone
    def state_dict(self) -> Dict[str, Any]:
        """To be saved with the model after every round, and once before the first: numbers and strings.

        It has no secret, but for who took part where there is no log file and the mechanism does not sample in secret.
        """
        if not self.over:
            self._may_go_on()
        if self._added:
            raise errors.StateError("a round is under way: finish it, or discard it, before its state is saved")
        state = {**self._identity(), "noise": self.noise.state_dict()}
        if self.mechanism.sampling != "none":
            return state  # who took part, and how many, is a secret, and follows from the sampler
        if self._log.path is None:
            state["participations"] = self._log.state_dict()
        else:
            size, content = self._log.mark()
            state["log"] = "%d/%s" % (size, self.seal(content))
        return state

    @alone
    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to the round of a state. Rounds that were finished after it come again for the same updates only."""
        if not isinstance(state, dict) or "noise" not in state:
            raise errors.StateError("there is no state of rounds here")
        for name, own in {"normalize": None, **self._identity()}.items():
            if state.get(name) != own:
                known = "" if name == "sampler" else " = %s, and this run %s" % (state.get(name), own)
                raise errors.StateError("the state has another %s%s" % (name, known))
        if self._log.path is None and self.mechanism.sampling == "none" and "participations" not in state:
            raise errors.StateError("the state has no participations: its run kept them in a log file, which log= names")
        self._check_log(state)
        self.noise.load_state_dict(dict(state["noise"]))
        self._log.load_state_dict(state.get("participations") or {})
        self._partial = self._log.path is None and self.mechanism.sampling != "none" and self.round > 0
        self._lost = 0
        self._drawn = (-1, {})
        self.discard()

    def seal(self, content: bytes) -> str:
        """A hash that only this run's key can make."""
        return hmac.new(self._secret, b"seal " + content, hashlib.sha256).hexdigest()

    def _check_log(self, state: Dict[str, Any]) -> None:
        """Raises unless the log begins with what the state's run had written: one that forgot a client would let it come too early."""
        if self._log.path is None or self.mechanism.sampling != "none" or "participations" in state:
            return
        size, _, held = str(state.get("log", "")).partition("/")
        content = self._log.hash_of(int(size)) if size.isascii() and size.isdigit() and len(size) < 19 else None
        if content is None or not hmac.compare_digest(held, self.seal(content)):
            raise errors.StateError(
                "log: %s does not begin with the %s bytes that it had when the state was saved: it was changed, or is from another run or an "
                "older backup, and a client that it does not have could come back too early" % (self._log.path, size)
            )

    @alone
    def close(self) -> None:
        """Wipes keys and buffers; the state file learns that all rows arrived."""
        self.discard()
        if self._ended is None:
            self._ended = self.noise.step
        self.noise.close()
        self._log.close()

    def __enter__(self) -> "Rounds":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def keyed(sampler: Sampler) -> bool:
    """False: it draws the same clients for every key."""
    return sampler.text.partition(":")[0] != "cyclic"


def positive(value: Optional[float], name: str) -> Optional[float]:
    value = real(value, name, optional=True)
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise errors.ArgumentError("%s = %s, accepted: a finite number above 0" % (name, value))
    return value


def shapes_of(shapes: Any) -> "Tuple[List[Tuple[int, ...]], List[int]]":
    """(the shape of each part of an update, its numbers)."""
    if isinstance(shapes, (int, np.integer)):
        shapes = [shapes]
    try:
        given = [getattr(one, "shape", one) for one in shapes]
        found = [(int(one),) if isinstance(one, (int, np.integer)) else tuple(int(n) for n in one) for one in given]
    except (TypeError, ValueError):
        raise errors.ArgumentTypeError("shapes: a number, or a sequence of shapes, arrays or tensors, is accepted") from None
    sizes = [math.prod(one) for one in found]
    if any(n < 0 for one in found for n in one) or sum(sizes) < 1:
        raise errors.ArgumentError("shapes = %s, accepted: sizes of 0 or more, and one number in all" % (found,))
    return found, sizes
