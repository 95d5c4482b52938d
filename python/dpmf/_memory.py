# SPDX-License-Identifier: Apache-2.0
"""Arrays and tensors of the caller, as the library sees them."""

from __future__ import annotations

import math
from typing import Any, List, Tuple

import numpy as np

from . import errors


def is_tensor(array: Any) -> bool:
    """Whether it is a torch tensor, found without importing torch."""
    return type(array).__module__.partition(".")[0] == "torch" or hasattr(array, "data_ptr")


def count_of(shape: Any) -> int:
    """Numbers in a shape, an array or a tensor; an int is a shape of one dimension."""
    if hasattr(shape, "shape"):
        shape = tuple(shape.shape)
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    sizes = tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise errors.ArgumentError("a shape of %s: sizes of 0 or more are accepted" % (sizes,))
    return math.prod(sizes)


def sizes_of(shapes: Any) -> List[int]:
    try:
        return [count_of(shape) for shape in shapes]
    except errors.Error:
        raise
    except (TypeError, ValueError):
        raise errors.ArgumentTypeError(
            "shapes: a number, or a sequence of shapes, arrays or tensors, is accepted"
        ) from None


def segment_of(array: Any, dtype: str, name: str) -> Tuple[int, int]:
    """(address, numbers) of an array that can be written in place, in the order in which its elements are counted."""
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            raise errors.ArgumentError("%s is read-only" % name)
        kind = array.dtype.name if array.dtype.isnative else str(array.dtype)
        contiguous, address, size = array.flags.c_contiguous, array.ctypes.data, array.size
    elif is_tensor(array):
        if array.device.type != "cpu":
            raise errors.ArgumentError(
                "%s is on %s: CPU memory is accepted (dpmf.torch has a device path)" % (name, array.device)
            )
        if str(array.layout) != "torch.strided":
            raise errors.ArgumentError("%s is %s: dense tensors are accepted" % (name, array.layout))
        if array.is_neg() or array.is_conj():
            raise errors.ArgumentError("%s is a view that negates its memory: resolve_neg() gives a plain one" % name)
        kind, contiguous = str(array.dtype).replace("torch.", ""), array.is_contiguous()
        address, size = array.data_ptr(), array.numel()
    else:
        raise errors.ArgumentError(
            "%s is a %s: NumPy arrays and torch tensors are accepted" % (name, type(array).__name__)
        )
    if kind != dtype:
        raise errors.ArgumentError("%s is %s: the stream has %s" % (name, kind, dtype))
    if not contiguous:
        raise errors.ArgumentError("%s is not contiguous in C order: its memory has gaps or another order" % name)
    return address, size
