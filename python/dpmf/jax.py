# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for JAX: an optax transformation that adds the library's rows to summed clipped gradients.

    noise = dpmf.jax.add_noise(mechanism, params, clip_norm=1.0, key="run.key", expected_batch=256)
    optimizer = optax.chain(noise, optax.sgd(0.1, momentum=0.9))

Rows are made by the library on the host, in a callback that is a function of the step and the sum: step t gets row t even if XLA
repeats, leaves out or reorders calls. A row is for one sum: another one at the same step is refused, so that a transformation serves
one run. The step is in optax's state: restore that state to resume where the noise was.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np
import optax

from . import errors
from ._library import real
from .keys import KeyLike
from .mechanism import Mechanism
from .noise import NO_STATE, NoiseStream, StateLike

__all__ = ["NoiseState", "add_noise"]


USED = (
    "row %d of this transformation was used for another sum, and the same noise over two sums reveals their difference. A second run "
    "(optimizer.init again) needs its own add_noise, with another key or label; a step that is computed again needs the same sum"
)


class NoiseState(NamedTuple):
    """Optax' state of the transformation: the number of the next row."""

    step: Any


class Rows:
    """Row t, whenever it is asked for, for the sum of its first use only: one row over two sums would reveal their difference.

    Rows in order cost one row each; any other order makes those before it again.
    """

    def __init__(self, stream: NoiseStream):
        self.stream, self._lock = stream, threading.Lock()
        self._sums: Dict[int, bytes] = {}  # digests of the sums that rows were used for, where no state file has them

    def __call__(self, step: Any, total: Any) -> np.ndarray:
        digest = hashlib.sha256(memoryview(np.ascontiguousarray(total)).cast("B")).digest()
        with self._lock:
            at = int(step)
            if self.stream.step != at:
                self.stream.seek(at)
            if self.stream.keeps_state:
                self.stream.bind_sum(digest)
            elif self._sums.setdefault(at, digest) != digest:
                raise errors.StateError(USED % at)
            return self.stream.next()


def add_noise(
    mechanism: Mechanism,
    params: Any,
    clip_norm: float,
    key: KeyLike = None,
    *,
    expected_batch: Optional[float] = None,
    state: StateLike = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    threads: int = 0,
) -> optax.GradientTransformation:
    """A transformation whose updates are (sum of clipped gradients + row of noise) / expected_batch.

    params           the parameters, or anything of their tree and shapes
    clip_norm        the l2 norm to which every example's gradient, over all of them, was clipped
    key              32 bytes, or the path of a key file, beside which its state file lies; None: a new one, and the run
                     cannot be resumed. A transformation is for one run: `init` again, with other sums, is refused at the first
                     update, and the next run makes its own with another key (or None)
    expected_batch   what sums are divided by; None: 1. With add-remove adjacency a number that does not depend on the number of
                     examples, which it would reveal
    state, label, prefetch, threads    as for NoiseStream

    Gradients must be clipped and batches drawn as the mechanism assumes (dpmf.Sampler); both are the caller's here. One
    process is meant: under vmap JAX refuses the callback, and several processes would add the noise several times. A step
    past the last one is an error of the callback.
    """
    if not isinstance(mechanism, Mechanism):
        raise errors.ArgumentTypeError("mechanism is a %s, a Mechanism is accepted" % type(mechanism).__name__)
    if mechanism.sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
    divisor = real(1.0 if expected_batch is None else expected_batch, "expected_batch")
    if not 0 < divisor < float("inf"):
        raise errors.ArgumentError("expected_batch = %g, accepted: a finite number above 0" % divisor)
    if jax.process_count() > 1:
        raise errors.UnsupportedError("%d processes of JAX: one is accepted" % jax.process_count())
    for leaf in jax.tree_util.tree_leaves(params):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, (int, float)):
            raise errors.ArgumentTypeError("params: a leaf is a %s, arrays are accepted" % type(leaf).__name__)
    shapes: List[Any] = [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(params)]
    if not shapes:
        raise errors.ArgumentError("params: there are none")
    sizes = [int(np.prod(shape)) for shape in shapes]
    wide = all(jnp.result_type(leaf) == jnp.float64 for leaf in jax.tree_util.tree_leaves(params))
    kind = jnp.float64 if wide else jnp.float32
    keeps = state is not NO_STATE and (state is not None or isinstance(key, (str, os.PathLike)))
    rows = Rows(
        NoiseStream(
            mechanism,
            sum(sizes),
            real(clip_norm, "clip_norm"),
            key,
            dtype="float64" if wide else "float32",
            state=state,
            replay=keeps,
            label=label,
            prefetch=prefetch,
            threads=threads,
        )
    )
    row_shape = jax.ShapeDtypeStruct((sum(sizes),), kind)

    def init(_params: Any) -> NoiseState:
        return NoiseState(jnp.zeros((), jnp.int32))

    def update(updates: Any, now: NoiseState, _params: Any = None) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(updates)
        if [np.shape(leaf) for leaf in leaves] != shapes:
            raise errors.ArgumentError(
                "updates of shapes %s, accepted: %s" % ([np.shape(leaf) for leaf in leaves], shapes)
            )
        total = jnp.concatenate([jnp.ravel(leaf).astype(kind) for leaf in leaves])
        row = jax.pure_callback(rows, row_shape, now.step, total)
        noisy = (total + row) / divisor
        parts = jnp.split(noisy, list(np.cumsum(sizes)[:-1]))
        made = [part.reshape(shape).astype(leaf.dtype) for part, shape, leaf in zip(parts, shapes, leaves)]
        return jax.tree_util.tree_unflatten(tree, made), NoiseState(now.step + 1)

    return optax.GradientTransformation(init, update)
