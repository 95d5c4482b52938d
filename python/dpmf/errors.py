# SPDX-License-Identifier: Apache-2.0
"""What the library refuses, as exceptions; their text is the library's own message."""

from ._abi import dpmf_status as status


class Error(Exception):
    """Any failure of the library."""


class ArgumentError(Error, ValueError):
    """A value outside its range; the message names both."""


class ArgumentTypeError(ArgumentError, TypeError):
    """A value of the wrong type; the message names the argument."""


class StateError(ArgumentError):
    """A saved state that belongs to something else, or that lacks a part."""


class ClosedError(ArgumentError):
    """An object that has been closed."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed, or would pass the memory limit."""


class FileError(Error, OSError):
    """A file could not be opened, read or written."""


class FormatError(Error, ValueError):
    """A file has the wrong format, or its digest does not match."""


class NumericalError(Error, ArithmeticError):
    """Singular where an inverse is needed, or a result that is not finite."""


class UnsupportedError(Error, NotImplementedError):
    """No theorem or no code for this combination."""


class CancelledError(Error):
    """The progress callback asked to stop."""


OF_STATUS = {
    status.DPMF_ERROR_ARGUMENT: ArgumentError,
    status.DPMF_ERROR_MEMORY: OutOfMemoryError,
    status.DPMF_ERROR_IO: FileError,
    status.DPMF_ERROR_FORMAT: FormatError,
    status.DPMF_ERROR_NUMERICAL: NumericalError,
    status.DPMF_ERROR_UNSUPPORTED: UnsupportedError,
    status.DPMF_ERROR_CANCELLED: CancelledError,
}
