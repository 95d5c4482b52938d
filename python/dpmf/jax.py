# SPDX-License-Identifier: Apache-2.0
"""Correlated noise for JAX: an optax transformation that adds the library's rows to summed clipped gradients.

    noise = dpmf.jax.add_noise(mechanism, params, clip_norm=1.0, key="run.key", expected_batch=256)
    optimizer = optax.chain(noise, optax.sgd(0.1, momentum=0.9))

Rows are made by the library on the host, in a callback that is a function of the step and the sum: step t gets row t even if XLA
repeats, leaves out or reorders calls. A row is for one sum: another one at the same step is refused, so that a transformation serves
one run. The step is in optax's state: restore that state to resume where the noise was.

`add_user_noise` clips too, by users: it takes the gradient of every example and the user of each, adds up each user's on the host
in double, example after example, clips that on the grid and sums in integers. XLA's own segment sums run in an order that
depends on the device, and in single precision on the others of a batch; on the host a user's sum is a function of its own
gradients alone. So the integers are those that dpmf.torch has for the same gradients, and no user moves them by more than the clip.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from . import errors
from ._contribution import checked_gamma, rule_of, with_rule
from ._library import abi, c, real, run_options
from .keys import KeyLike
from .mechanism import Mechanism
from .noise import NO_STATE, NoiseStream, StateLike
from .users import MEAN, UserSampler, bound_label, check_unit, checked_gradient

__all__ = ["NoiseState", "add_noise", "add_user_noise"]


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
        """The row of a step, for this sum: an array of any kind."""
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
    divisor, shapes, kind, stream = opened(mechanism, params, clip_norm, key, expected_batch, state, label, prefetch, threads)
    sizes, rows = [math.prod(shape) for shape in shapes], Rows(stream)
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
        return placed((total + row) / divisor, shapes, leaves, tree), NoiseState(now.step + 1)

    return optax.GradientTransformation(init, update)


def placed(noisy: Any, shapes: List[Any], leaves: List[Any], tree: Any) -> Any:
    """The tree of parameters from one vector, in the types of these leaves."""
    parts = jnp.split(noisy, list(np.cumsum([math.prod(shape) for shape in shapes])[:-1]))
    made = [part.reshape(shape).astype(leaf.dtype) for part, shape, leaf in zip(parts, shapes, leaves)]
    return jax.tree_util.tree_unflatten(tree, made)


def opened(
    mechanism: Any, params: Any, clip_norm: Any, key: KeyLike, expected_batch: Any, state: StateLike, label: Any, prefetch: bool,
    threads: int,
) -> Tuple[float, List[Any], Any, NoiseStream]:  # fmt: skip
    """(what sums are divided by, the shapes of the leaves, the type of a row, the rows), of what was checked."""
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
    wide = all(jnp.result_type(leaf) == jnp.float64 for leaf in jax.tree_util.tree_leaves(params))
    keeps = state is not NO_STATE and (state is not None or isinstance(key, (str, os.PathLike)))
    stream = NoiseStream(
        mechanism,
        sum(math.prod(shape) for shape in shapes),
        real(clip_norm, "clip_norm"),
        key,
        dtype="float64" if wide else "float32",
        state=state,
        replay=keeps,
        label=label,
        prefetch=prefetch,
        threads=threads,
    )
    return divisor, shapes, jnp.float64 if wide else jnp.float32, stream


# ---- users ----


class UserSums:
    """Sums over users of clipped sums or means of their gradients, in integers, as dpmf.torch has them (dpmf/torch/users.py).

    dim     numbers of a gradient
    units   the most users of a step
    """

    def __init__(self, dim: int, clip: float, units: int, mean: bool, threads: int, gamma: float = 0.0):
        grid = ctypes.c_double()
        c.dpmf_clip_grid(clip, units, ctypes.byref(grid))
        self.dim, self.clip, self.gamma, self.grid, self.mean, self.threads = dim, clip, gamma, grid.value, mean, threads

    def __call__(self, leaves: List[np.ndarray], users: np.ndarray) -> np.ndarray:
        """Of the examples that are leaves' rows, a user for each, in any order; below 0: padding."""
        total = np.zeros(self.dim, np.int64)
        order = np.argsort(users, kind="stable")
        order = order[users[order] >= 0]
        for own in np.split(order, np.flatnonzero(np.diff(users[order])) + 1):
            if len(own) == 0:
                continue
            rows = [leaf[own[0]].reshape(-1) for leaf in leaves]
            if len(own) > 1:  # one example alone is added as it is
                with np.errstate(all="ignore"):  # a warning would be a message about this user's gradients
                    rows = [row.astype(np.float64) for row in rows]
                    for i in own[1:]:
                        for row, leaf in zip(rows, leaves):
                            row += leaf[i].reshape(-1)
                    if self.mean:
                        for row in rows:
                            row /= float(len(own))
            self._add(rows, total)
        return total

    def _add(self, rows: List[np.ndarray], total: np.ndarray) -> None:
        wide = any(row.dtype == np.float64 for row in rows)
        rows = [np.ascontiguousarray(row, np.float64 if wide else np.float32) for row in rows]
        parts = (abi.dpmf_segment * len(rows))(*[abi.dpmf_segment(row.ctypes.data, row.size) for row in rows])
        precision = abi.dpmf_precision.DPMF_FLOAT64 if wide else abi.dpmf_precision.DPMF_FLOAT32
        sums = total.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        with run_options(self.threads) as run:
            c.dpmf_clip_add(self.clip, self.gamma, self.grid, precision, 1, len(rows), parts, sums, ctypes.byref(run))


class UserRows:
    """(sum of a step's users + its row) / divisor, added in double and rounded once."""

    def __init__(self, rows: Rows, sums: UserSums, sampler: UserSampler, divisor: float):
        self.rows, self.sums, self.sampler, self.divisor = rows, sums, sampler, divisor
        self._lock = threading.Lock()

    def __call__(self, step: Any, users: Any, *leaves: Any) -> np.ndarray:
        users, at = np.asarray(users, np.int64), int(step)
        with self._lock:
            drawn = self.sampler.at(at)
        if not np.array_equal(np.unique(users[users >= 0]), np.sort(drawn)):
            raise errors.StateError(
                "the users of step %d are not those that the sampler drew for it: a batch that was left out, or one of another step. A user "
                "who came back too early would not be covered" % at
            )
        total = self.sums([np.asarray(leaf) for leaf in leaves], users)
        row = self.rows(at, total)
        return ((total.astype(np.float64) * self.sums.grid + row) / self.divisor).astype(row.dtype)


def add_user_noise(
    mechanism: Mechanism,
    params: Any,
    clip_norm: float,
    sampler: UserSampler,
    key: KeyLike = None,
    *,
    user_gradient: str = MEAN,
    unit: str = "user",
    expected_batch: Optional[float] = None,
    state: StateLike = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    threads: int = 0,
    normalize: Optional[float] = None,
) -> optax.GradientTransformationExtraArgs:
    """A transformation from gradients of single examples to (sum of users' clipped gradients + row of noise) / expected_batch.

        noise = dpmf.jax.add_user_noise(mechanism, params, 1.0, sampler, key="run.key")
        examples, users = sampler.padded()
        gradients = jax.vmap(jax.grad(loss), (None, 0))(params, data[examples])
        updates, state = noise.update(gradients, state, params, users=users)

    sampler          a dpmf.users.UserSampler: it is checked against the mechanism, and the users of every step against it, before
                     anything of them counts
    user_gradient    what of a user is clipped: the "mean" of the gradients of its examples in the step, or their "sum"
    unit             what one user is called in the mechanism and in its statement
    expected_batch   what sums are divided by; None: the sampler's, a number of users. It must be given for add-remove adjacency
    normalize        None: users' gradients are clipped. A number gamma, 0.01 for example: they are normalised,
                     clip_norm g / (|g| + gamma) (AUTO-S: Bu et al. 2023), with the same bound
    others           as for add_noise

    `update` takes leaves with one more dimension in front, the examples, and users=, the number of each one's user, -1 for
    padding. A gradient that is not finite adds nothing, without a message. Whether a gradient depends on its own example alone,
    also in its roundings, is the caller's here: give all steps batches of one size (`padded`).
    """
    if not isinstance(sampler, UserSampler):
        raise errors.ArgumentTypeError("sampler is a %s, a dpmf.users.UserSampler is accepted" % type(sampler).__name__)
    mean = checked_gradient(user_gradient) == MEAN
    keeps = state is not NO_STATE and (state is not None or isinstance(key, (str, os.PathLike)))
    if keeps and sampler.by_key and sampler.sampler._ephemeral:
        raise errors.ArgumentError(
            "sampler: its key was made for it alone, and a run that is resumed would draw other users: give it the key of the run"
        )
    if isinstance(mechanism, Mechanism):
        check_unit(mechanism, unit)
        sampler.sampler.check(mechanism)
        mechanism.confirm()
        if expected_batch is None and mechanism.adjacency == "add-remove":
            raise errors.ArgumentError(
                "expected_batch: the mechanism's adjacency is add-remove, which hides the number of users, and the sampler's expected batch "
                "would reveal it: give a number that does not depend on the data"
            )
    expected_batch = sampler.expected_batch if expected_batch is None else expected_batch
    # A state file refuses another sampler by the label; without one the rows are those of dpmf.torch.
    bound = bound_label(label, key, unit, user_gradient + sampler.resumed_by() if keeps else sampler.digest)
    gamma = checked_gamma(normalize)
    bound = with_rule(bound, rule_of(gamma)) or ""
    divisor, shapes, kind, stream = opened(mechanism, params, clip_norm, key, expected_batch, state, bound, prefetch, threads)
    dim = sum(math.prod(shape) for shape in shapes)
    capacity = max(1 << 20, sampler.sampler.capacity)
    if mechanism.adjacency == "add-remove":
        capacity = 1 << math.ceil(math.log2(max(2.0**20, 16.0 * divisor)))
    made = UserRows(Rows(stream), UserSums(dim, real(clip_norm, "clip_norm"), capacity, mean, threads, gamma), sampler, divisor)
    row_shape = jax.ShapeDtypeStruct((dim,), kind)
    types = [jnp.result_type(leaf) for leaf in jax.tree_util.tree_leaves(params)]

    def init(_params: Any) -> NoiseState:
        return NoiseState(jnp.zeros((), jnp.int32))

    def update(updates: Any, now: NoiseState, _params: Any = None, *, users: Any = None, **_others: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(updates)
        if users is None or not jnp.issubdtype(jnp.result_type(users), jnp.integer) or np.ndim(users) != 1:
            raise errors.ArgumentError("users: the number of the user of every example is accepted, as whole numbers, -1 for padding")
        wanted = [(np.shape(users)[0], *shape) for shape in shapes]
        if [np.shape(leaf) for leaf in leaves] != wanted:
            raise errors.ArgumentError("updates of shapes %s, accepted: %s, a gradient for each example"
                                       % ([np.shape(leaf) for leaf in leaves], wanted))  # fmt: skip
        if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
            raise errors.ArgumentTypeError("updates of types %s, accepted: floating point" % [str(leaf.dtype) for leaf in leaves])
        noisy = jax.pure_callback(made, row_shape, now.step, jnp.asarray(users), *leaves)
        like = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, types)]
        return placed(noisy, shapes, like, tree), NoiseState(now.step + 1)

    return optax.GradientTransformationExtraArgs(init, update)
