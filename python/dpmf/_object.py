# SPDX-License-Identifier: Apache-2.0
"""A Python object that stands for one of the library's."""

from . import errors
from ._library import c


class Object:
    """Frees what it owns; what it borrows stays alive through `_owner`."""

    _free = ""

    def __init__(self, handle, owner=None):
        self._pointer = handle
        self._owner = owner
        # Bound here, because module globals may be gone when the interpreter ends.
        self._release = getattr(c, self._free) if owner is None else None

    @property
    def _handle(self):
        if self._pointer is None:
            raise errors.ClosedError("this %s is closed" % type(self).__name__)
        return self._pointer

    def _close(self):
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer is not None and self._release is not None:
            self._release(pointer)

    def __del__(self):
        self._close()

    def __reduce__(self):
        raise TypeError("a %s cannot be pickled; mechanisms have save and to_bytes" % type(self).__name__)
