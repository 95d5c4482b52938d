# SPDX-License-Identifier: Apache-2.0
"""A ledger of all runs on the same data: entered before they begin, composed, refused when a budget would be passed."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from . import errors
from ._library import abi, c, encode_text, integer, path_bytes, real, run_options
from .keys import KeyBuffer, KeyLike
from .noise import require_mechanism, salt_memory
from .privacy import NO_SAMPLING, TUNING, Privacy, Scope, account_options, privacy_of

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["Ledger"]

SAMPLED = (
    "This holds only for runs whose batches were sampled as their entries have it, each with its own randomness, which is kept secret: "
    "%s. Batches from a shuffled data loader do not satisfy this. The list of runs must not depend on what "
    "they released. Runs without sampling hold for any order of the data that fits their participation."
)


def budget_of(budget: Any) -> Tuple[float, float]:
    try:
        epsilon, delta = budget
    except (TypeError, ValueError):
        raise errors.ArgumentTypeError("budget = %r, accepted: (epsilon, delta)" % (budget,)) from None
    return real(epsilon, "budget's epsilon"), real(delta, "budget's delta")


class Ledger:
    """The ledger file at `path`; `budget` is (epsilon, delta) for all runs together, which a new file keeps.

    Where all runs are Gaussian (no sampling), runs may be chosen in view of what earlier ones released, as long as the
    budget was fixed beforehand; else the list of runs must not depend on it.

    >>> import tempfile
    >>> from dpmf import create_key, evaluate
    >>> m = evaluate("toeplitz", 64, epsilon=1.0, delta=1e-6)
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.json", budget=(1.5, 1e-6))
    >>> key = create_key()
    >>> ledger.enter(m, key), ledger.enter(m, key), ledger.enter(m, create_key())
    (True, False, True)
    >>> round(ledger.epsilon().epsilon, 4), len(ledger)
    (1.4547, 2)
    >>> ledger.enter(m, create_key())
    Traceback (most recent call last):
    dpmf.errors.UnsupportedError: the budget would be exceeded: with this run the ledger has epsilon = 1.81378 at delta = 1e-06, but its budget is 1.5; nothing was entered
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]", budget: Optional[Tuple[float, float]] = None):
        path_bytes(path, optional=False)
        self.path = os.fspath(path)
        self._budget = None if budget is None else budget_of(budget)

    def _options(self, what: str, binding: Optional[str], times: int, run: Any) -> Any:
        options = c.dpmf_ledger_options_defaults()
        if self._budget is not None:
            options.budget_epsilon, options.budget_delta = self._budget
        options.what = encode_text(what, "what")
        options.binding = encode_text(binding, "binding", optional=True)
        options.times = integer(times, "times")
        if options.times < 1:
            raise errors.ArgumentError("times = %d, accepted: 1 to 1e9" % options.times)
        options.run = run
        return options

    def enter(
        self,
        mechanism: "Mechanism",
        key: KeyLike,
        *,
        what: str = "python",
        binding: Optional[str] = None,
        times: int = 1,
        threads: int = 0,
        stream: Any = None,
    ) -> bool:
        """Enters a run of the mechanism with this key, on the disk before it returns; False: it was in it already.

        Raises, and enters nothing, when the budget would be passed: release nothing then. `stream` is the run's NoiseStream,
        Counter or ShardedNoise (`noise` of private training), which was made and has released nothing: the salt of its state
        file tells it from another run with this key. A key that is a path needs it. With `state_now` the state file is on the
        disk before the entry; without it, a run that is killed between its entry and its first row needs a new key.
        `binding` is what else tells runs apart. A second run of the same key and mechanism is refused.
        """
        if key is None:
            raise errors.ArgumentError("key: that of the run is needed, which is known in the ledger by it; 32 bytes or a path")
        receipt, mechanism = abi.dpmf_ledger_receipt(), require_mechanism(mechanism)
        if stream is None and isinstance(key, (str, os.PathLike)):
            raise errors.ArgumentError(
                "stream: a key file has a state file beside it, whose salt is a part of the run: give the run's stream"
            )
        if stream is not None and not isinstance(getattr(stream, "salt", None), bytes):
            raise errors.ArgumentTypeError("stream is a %s, a NoiseStream or a Counter is accepted" % type(stream).__name__)
        with KeyBuffer(key) as secret, run_options(threads) as run:
            options = self._options(what, binding, times, run)
            if stream is not None:
                if (stream._commitment, stream.mechanism.digest) != (secret.commitment(), mechanism.digest):
                    raise errors.ArgumentError("stream: it has another key or another mechanism than the entry")
                options.salt = salt_memory(stream.salt)
            c.dpmf_ledger_enter(
                path_bytes(self.path), mechanism._handle, secret.memory, ctypes.byref(options), ctypes.byref(receipt)
            )
        return bool(receipt.entered)

    def enter_account(
        self, sigma: float, *, name: Optional[str] = None, what: str = "python", times: int = 1, **account: Any
    ) -> bool:
        """Enters a run without a mechanism, as `account(sigma, **account)` has it; `name` tells it from others.

        Without a name it is a separate run.
        """
        receipt, given = abi.dpmf_ledger_receipt(), account_options(**account)
        with run_options() as run:
            options = self._options(what, None, times, run)
            called = encode_text(os.urandom(16).hex() if name is None else name, "name")
            c.dpmf_ledger_enter_account(
                path_bytes(self.path), called, real(sigma, "sigma"), ctypes.byref(given), ctypes.byref(options), ctypes.byref(receipt)
            )
        return bool(receipt.entered)

    def _load(self) -> Any:
        out = abi.FUNCTIONS["dpmf_ledger_free"][1][0]()
        if os.path.exists(self.path):
            c.dpmf_ledger_load(path_bytes(self.path), ctypes.byref(out))
        else:
            c.dpmf_ledger_create(0, ctypes.byref(out))
        return out

    def epsilon(self, delta: Optional[float] = None) -> Privacy:
        """Of everything in it together, at the budget's delta unless given."""
        ledger = self._load()
        try:
            if delta is None:
                delta = self._budget[1] if self._budget else c.dpmf_ledger_get(ledger).budget_delta
            if not delta:
                raise errors.ArgumentError("delta: the ledger has no budget to take it from")
            found, delta = abi.dpmf_privacy(), real(delta, "delta")
            with run_options() as run:
                c.dpmf_ledger_epsilon(ledger, delta, ctypes.byref(run), ctypes.byref(found))
            options = c.dpmf_account_options_defaults()
            options.adjacency = c.dpmf_ledger_get(ledger).adjacency
            return privacy_of(found, options, None, self._scope(c.dpmf_ledger_get(ledger).entries, found.total_rho > 0))
        finally:
            c.dpmf_ledger_free(ledger)

    def _scope(self, runs: int, gaussian: bool) -> Scope:
        """The statement is about all runs, and rests on how each of them drew its batches."""
        drawn = sorted({entry["sampling"] for entry in self.entries} - {"none"})
        changes = [(TUNING, "hyper-parameters chosen by runs that are not in the ledger are not accounted for")]
        if drawn:
            changes.append((NO_SAMPLING, SAMPLED % ", ".join(drawn)))
        if gaussian:
            changes.append((r"^The run is ", "All runs together are "))
        return Scope("All noisy outputs of all runs in the ledger (%d) together are" % runs, "", tuple(changes))

    @property
    def budget(self) -> Optional[Tuple[float, float]]:
        """(epsilon, delta) that the file keeps, or the one given; None: none."""
        ledger = self._load()
        try:
            held = c.dpmf_ledger_get(ledger).budget_epsilon, c.dpmf_ledger_get(ledger).budget_delta
        finally:
            c.dpmf_ledger_free(ledger)
        return held if held[0] else self._budget

    @property
    def entries(self) -> List[Dict[str, Any]]:
        """What the file holds, an entry each."""
        if not os.path.exists(self.path):
            return []
        c.dpmf_ledger_free(self._load())  # a file that is no ledger is refused by name
        with open(self.path, encoding="utf-8") as file:
            content = file.read()
        import json  # 5 ms of every import of the package otherwise

        return json.loads(content)["entries"] if content else []

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return "Ledger(%r, entries=%d, budget=%r)" % (self.path, len(self), self.budget)
