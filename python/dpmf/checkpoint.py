# SPDX-License-Identifier: Apache-2.0
"""Where a stream of noise is, and what it is bound to: as a dictionary for checkpoints, or as the library's own file."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

import numpy as np

from . import errors
from ._library import abi, interruptible, path_bytes

if TYPE_CHECKING:
    from .mechanism import Mechanism

STATE_FORMAT = 1


def check_salt(state: Dict[str, Any], own: str, reserved: int) -> None:
    """Refuses a state of another state file, unless it is from before the first row and no row was given."""
    if int(state["step"]) == 0 and reserved == 0:
        return
    without = "0" * len(own)
    if state["salt"] == without:
        raise errors.StateError("the noise state belongs to a stream without a state file, and this stream has one")
    if own == without:
        raise errors.StateError("the noise state belongs to a stream with a state file, and this stream has none: give state= that file")
    raise errors.StateError(
        "the noise state belongs to another state file than this stream's: its noise is that file's, and a run whose state file is "
        "lost cannot be resumed"
    )


class SavesState:
    """The part of NoiseStream that saves and loads."""

    _handle: Any
    _calls: Any
    _lock: Any
    _mechanism: "Mechanism"
    _clip: float
    _ephemeral: bool
    _commitment: str
    _dim: int
    _offset: int
    _dtype: str
    _label: Optional[str]
    _bound: int
    step: Any
    count: Any
    in_doubt: Any
    reserved: Any
    salt: Any
    grid: Any
    seek: Any

    def state_dict(self, buffers: bool = False) -> Dict[str, Any]:
        """Where the stream is and what it is bound to: numbers and strings, no secret.

        The key is not in it and has to be given again. Resuming makes the rows before the step again; with `buffers` the
        library's checkpoint is put in, which saves that time and makes the dictionary as secret as the key, and large.
        """
        if self._ephemeral:
            raise errors.StateError(
                "this stream's key was made for it alone and is nowhere else, so that a saved state could "
                "never be resumed: give key= the path of a key file"
            )
        if self.in_doubt:
            raise errors.StateError("row %d is in doubt: seek first" % (self.step - 1))
        state = {**self._identity(), "step": self.step}
        if buffers:
            with tempfile.TemporaryDirectory(prefix="dpmf-") as folder:
                path = os.path.join(folder, "checkpoint")
                self.save(path)
                with open(path, "rb") as file:
                    state["buffers"] = file.read()
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to the position of a state. One of another mechanism, clip norm, sigma, key, ... is refused by name."""
        if not isinstance(state, dict) or "step" not in state:
            raise errors.StateError("there is no noise state here")
        for name, own in self._identity().items():
            if name not in state:
                raise errors.StateError("the noise state has no %s" % name)
            if state[name] != own:
                if name == "key":
                    raise errors.StateError("the noise state belongs to another key")
                if name == "salt":
                    check_salt(state, own, self.reserved)
                    continue
                raise errors.StateError("the noise state has %s = %s, and this stream %s" % (name, state[name], own))
        buffers = state.get("buffers")
        if buffers is None:
            self.seek(int(state["step"]))
            return
        data = (
            bytes(buffers)
            if isinstance(buffers, (bytes, bytearray, memoryview))
            else np.asarray(buffers, np.uint8).tobytes()
        )
        with tempfile.TemporaryDirectory(prefix="dpmf-") as folder:
            path = os.path.join(folder, "checkpoint")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            self.load(path)
        if self.step != state["step"]:
            raise errors.StateError(
                "the noise state has step %d, but its buffers have step %d" % (state["step"], self.step)
            )

    def _identity(self) -> Dict[str, Any]:
        return {
            "format": STATE_FORMAT,
            "stream_version": abi.DPMF_STREAM_VERSION,
            "clip_norm": self._clip,
            "sigma": self._mechanism.sigma or 0.0,
            "steps": self._mechanism.steps,
            "mechanism": self._mechanism.digest,
            "dim": self._dim,
            "offset": self._offset,
            "count": self.count,
            "dtype": self._dtype,
            "label": self._label or "",
            "key": self._commitment,
            **({"grid": self.grid} if self.grid else {}),
            "salt": self.salt.hex(),
        }

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """The library's own checkpoint, with buffers: C and the command line can resume from it. As secret as the key."""
        with self._lock:
            self._calls.dpmf_noise_save(self._handle, path_bytes(path))

    def load(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Resumes from the library's own checkpoint."""
        with self._lock, interruptible():
            self._bound = -1
            self._calls.dpmf_noise_load(self._handle, path_bytes(path))
