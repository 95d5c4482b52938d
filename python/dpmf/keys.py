# SPDX-License-Identifier: Apache-2.0
"""Keys: made, read from files, wiped."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import os
from typing import Any, Union

from . import errors
from ._library import abi, c, integer, path_bytes

__all__ = ["create_key", "testing_key"]

KeyLike = Union[bytes, bytearray, memoryview, str, "os.PathLike[str]", None]


def create_key() -> bytes:
    """A new key of 32 bytes. Anybody who knows it can subtract the noise; a path in place of a key keeps it in a file."""
    with KeyBuffer(None) as key:
        return bytes(key.memory)


def testing_key(seed: int) -> bytes:
    """Not private: a key that anybody can compute from `seed`, for tests and demonstrations.

    >>> len(testing_key(1))
    32
    """
    memory = (ctypes.c_uint8 * abi.DPMF_KEY_SIZE)()
    c.dpmf_key_testing(integer(seed, "seed"), memory)
    return bytes(memory)


class KeyBuffer:
    """A key in memory that is wiped on the way out: from 32 bytes, a path (made if missing), or None (a new one)."""

    def __init__(self, key: KeyLike):
        self.memory = (ctypes.c_uint8 * abi.DPMF_KEY_SIZE)()
        if key is None:
            c.dpmf_key_create(self.memory)
        elif isinstance(key, (bytes, bytearray, memoryview)):
            if len(key) != abi.DPMF_KEY_SIZE:
                raise errors.ArgumentError("the key has %d bytes, accepted: %d" % (len(key), abi.DPMF_KEY_SIZE))
            if len(set(bytes(key))) == 1:
                raise errors.ArgumentError(
                    "the key is one byte, %d times: that is no secret. dpmf.create_key() makes one; for tests there is testing_key"
                    % abi.DPMF_KEY_SIZE
                )
            self.memory[:] = list(key)
        elif isinstance(key, (str, os.PathLike)):
            c.dpmf_key_load(path_bytes(key, "key"), 1, self.memory)
        else:
            raise errors.ArgumentTypeError(
                "the key is a %s, accepted: 32 bytes, the path of a key file, None" % type(key).__name__
            )

    def commitment(self) -> str:
        """Identifies the key and reveals nothing of it; the library's own files have the same (docs/noise.md)."""
        extracted = hmac.new(b"dpmf subkeys 1", memoryview(self.memory).cast("B"), hashlib.sha256).digest()
        return hmac.new(extracted, b"dpmf noise key commitment 1\0\1", hashlib.sha256).hexdigest()

    def wipe(self) -> None:
        c.dpmf_key_wipe(self.memory)

    def __enter__(self) -> "KeyBuffer":
        return self

    def __exit__(self, *_: Any) -> None:
        self.wipe()

    def __repr__(self) -> str:
        return "KeyBuffer(...)"
