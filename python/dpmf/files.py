# SPDX-License-Identifier: Apache-2.0
"""A mechanism as a file, as bytes and through pickle; the same bytes are the same mechanism."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Union

from . import errors
from ._library import c, handle, path_bytes

if TYPE_CHECKING:
    from .mechanism import Mechanism


class Filed:
    """What Mechanism has for this."""

    def save(self: Any, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the mechanism file, whole or not at all; the report of a design goes beside it, into PATH.design."""
        c.dpmf_mechanism_save(self._handle, path_bytes(path, optional=False))
        if self._report is not None:
            from .design import write_beside

            write_beside(path, self.digest, self._report)

    def to_bytes(self: Any) -> bytes:
        """The mechanism file as bytes.

        >>> from dpmf import evaluate
        >>> m = evaluate("bsr", 64, bands=4)
        >>> type(m).from_bytes(m.to_bytes()).digest == m.digest
        True
        """
        out, size = ctypes.POINTER(ctypes.c_uint8)(), ctypes.c_size_t()
        c.dpmf_mechanism_encode(self._handle, ctypes.byref(out), ctypes.byref(size))
        try:
            return ctypes.string_at(out, size.value)
        finally:
            c.dpmf_bytes_free(out)

    @classmethod
    def from_bytes(cls: Any, data: bytes) -> "Mechanism":
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise errors.ArgumentTypeError("data is a %s, bytes are accepted" % type(data).__name__)
        memory = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        made = cls(handle("dpmf_mechanism_decode", cls._free, memory, len(data)))
        made._confirmed = False
        return made

    def __reduce__(self: Any) -> Any:
        return type(self).from_bytes, (self.to_bytes(),), {"certificate": self.certificate, "_report": self._report}

    def __eq__(self: Any, other: object) -> bool:
        """The same figures and coefficients; where they came from does not matter."""
        return self.digest == other.digest if isinstance(other, Filed) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(self.digest)
