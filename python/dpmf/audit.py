# SPDX-License-Identifier: Apache-2.0
"""Runs that are made to be attacked: planted canaries, guesses, and a lower bound on epsilon (docs/audit.md).

    found = dpmf.audit.run(mechanism)          # through the noise stream
    found = dpmf.audit.torch_run(mechanism)    # through dpmf.torch: its sampler, clipping, noise and step
    found = dpmf.audit.opacus_run(mechanism)   # through dpmf.opacus
    found = dpmf.audit.leave_out(private, x, y)    # does one example move the sum of your own model by more than it may?

The first three make a separate run with data and a key that are thrown away. The last one looks at one batch of your own, takes no
step, and what it returns has no noise: it is for your eyes.
"""

from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Optional

import numpy as np

from . import _abi as abi, errors
from ._library import c, doubles, handle, integer, numbers, real, run_options, struct_of
from .keys import KeyBuffer, KeyLike, create_key
from .mechanism import Mechanism
from .sampler import Sampler

__all__ = ["Audit", "LeftOut", "from_releases", "leave_out", "opacus_run", "run", "torch_run"]

#: Of the noise and the batches of an audit: those of no other run.
LABEL = "dpmf audit"

#: What ghost clipping may move a sum by, in clip norms: roundings in float32 are far below it, those of bfloat16 far above.
ROUNDED = 1 + 1e-4


class Audit(NamedTuple):
    """What an audit found.

    epsilon_lower      holds with the confidence; the larger of epsilon_guesses and epsilon_gaussian
    epsilon_guesses    from the number of right guesses; holds for any kind of noise
    epsilon_gaussian   from the size of the noise, if that is normal
    tpr, fpr           part of the canaries that are found when that part of the others, at most 1%, is accused
    scores, included   of each canary
    """

    epsilon_lower: float
    epsilon_guesses: float
    epsilon_gaussian: float
    epsilon_claimed: float
    delta: float
    confidence: float
    guesses: int
    correct: int
    tpr: float
    fpr: float
    sigma_claimed: float
    sigma_measured: float
    sigma_highest: float
    scores: np.ndarray
    included: np.ndarray

    @property
    def ok(self) -> bool:
        """False: the bound is above the claim, which a true claim is in at most 1 - confidence of all audits."""
        return self.epsilon_lower <= self.epsilon_claimed


class LeftOut(NamedTuple):
    """What leaving single examples out of a batch did to its sum.

    largest    how far the sum moved at most, in clip norms
    same       the gradients of the others had the same bits, with the example and without it; None: ghost clipping, which
               does not promise that
    buffers    names of those that the passes wrote into
    left_out   the places of the examples in the batch
    """

    largest: float
    same: Optional[bool]
    buffers: List[str]
    left_out: List[int]

    @property
    def ok(self) -> bool:
        """False: an example moves a sum by more than the noise was made for, or leaves in a buffer without noise."""
        most = ROUNDED if self.same is None else 1.0
        return self.largest <= most and self.same is not False and not self.buffers


def _bytes(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def _check(mechanism: Any) -> Mechanism:
    if not isinstance(mechanism, Mechanism):
        raise errors.ArgumentError("mechanism: a %s, a dpmf.Mechanism is accepted" % type(mechanism).__name__)
    return mechanism


def _audit(mechanism: Mechanism, threads: int, progress: Any, **values: Any) -> Audit:
    with run_options(threads, progress) as running:
        options = struct_of("dpmf_audit_options_defaults", **values)
        options.run = running
        made = handle("dpmf_audit_create", "dpmf_audit_free", mechanism._handle, ctypes.byref(options))
    try:
        found = c.dpmf_audit_get(made).result
        count = (found.canaries,)
        scores = np.ctypeslib.as_array(c.dpmf_audit_get(made).scores, count).copy()
        included = np.ctypeslib.as_array(c.dpmf_audit_get(made).included, count).astype(bool)
    finally:
        c.dpmf_audit_free(made)
    names = [name for name in Audit._fields if name not in ("scores", "included")]
    return Audit(*(getattr(found, name) for name in names), scores, included)


def run(
    mechanism: Mechanism,
    canaries: int = 1000,
    *,
    confidence: float = 0.95,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    noise_factor: float = 1.0,
    key: KeyLike = None,
    threads: int = 0,
    progress: Any = None,
) -> Audit:
    """Canaries through the noise stream.

    epsilon, delta   the claim; None: the mechanism's
    noise_factor     other than 1: the noise of the run is multiplied by it, and the audit must notice
    key              None: a fresh one, for this run only. For tests: never that of another run

    >>> from dpmf import evaluate, testing_key
    >>> m = evaluate("identity", 10, epsilon=2.0, delta=1e-5)
    >>> run(m, key=testing_key(1)).ok, run(m, noise_factor=0.1, key=testing_key(1)).ok
    (True, False)
    """
    with KeyBuffer(create_key() if key is None else key) as memory:
        return _audit(
            _check(mechanism),
            threads,
            progress,
            canaries=canaries,
            confidence=confidence,
            epsilon=epsilon,
            delta=delta,
            noise_factor=noise_factor,
            key=ctypes.cast(memory.memory, ctypes.POINTER(ctypes.c_uint8)),
        )


def from_releases(
    mechanism: Mechanism,
    included: Any,
    taken: Any,
    released: Any,
    *,
    confidence: float = 0.95,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    threads: int = 0,
    progress: Any = None,
) -> Audit:
    """The same for a run of one's own, whose canaries are in directions that are orthogonal to each other.

    included   canaries booleans: by a fair coin, in or not (adjacency replace-one: one form or its opposite)
    taken      canaries x steps booleans: the steps in which the sampler took the canary, in or out
    released   canaries x steps numbers: the parts of the released sums along each canary, in clip norms
    """
    values = numbers(released, "released")
    coins, steps = np.asarray(included, dtype=np.uint8), np.asarray(taken, dtype=np.uint8)
    shape = (coins.size, _check(mechanism).steps)
    if coins.ndim != 1 or steps.shape != shape or values.shape != shape:
        raise errors.ArgumentError(
            "included, taken and released have the shapes %s, %s and %s, accepted: (canaries,) and twice (canaries, %d)"
            % (coins.shape, steps.shape, values.shape, mechanism.steps)
        )
    coins, steps = np.ascontiguousarray(coins), np.ascontiguousarray(steps)
    record = abi.dpmf_audit_record(_bytes(coins), _bytes(steps), doubles(values))
    return _audit(
        mechanism,
        threads,
        progress,
        record=ctypes.pointer(record),
        canaries=coins.size,
        confidence=confidence,
        epsilon=epsilon,
        delta=delta,
    )


def _toss(count: int, key: bytes) -> np.ndarray:
    """Which canaries are in: a step of Poisson sampling with probability 1/2, under its own label."""
    included = np.zeros(count, dtype=bool)
    included[next(iter(Sampler("poisson:0.5", count, 1, key, "dpmf audit coins")))] = True
    return included


class _Canaries:
    """A linear model, and examples each of which has a gradient along a weight of its own, of twice the clip norm."""

    def __init__(self, mechanism: Mechanism, canaries: int, clip_norm: float, key: KeyLike, device: Any):
        import torch

        from . import torch as private_torch

        with KeyBuffer(_key_of(key)) as memory:
            self.key = bytes(memory.memory)
        separation = 1 if mechanism.sampling != "none" else mechanism.participation.separation
        self.count = -(-integer(canaries, "canaries") // separation) * separation
        self.mechanism, self.clip_norm, self._device = mechanism, real(clip_norm, "clip_norm"), device
        self.included = _toss(self.count, self.key)
        signs = np.where(self.included, 1.0, -1.0 if mechanism.adjacency == "replace-one" else 0.0)
        self.model = torch.nn.Linear(self.count, 1, bias=False, device=device)
        torch.nn.init.zeros_(self.model.weight)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.batches = private_torch.BatchSampler.for_mechanism(mechanism, self.count, self.key, label=LABEL)
        self.expected_batch = self.batches.expected_batch  # canaries are not data: their number is public
        x = torch.diag(torch.as_tensor(2.0 * clip_norm * signs, dtype=torch.float32))
        self.loader = private_torch.data_loader(torch.utils.data.TensorDataset(x), self.batches)
        twin = private_torch.BatchSampler.for_mechanism(mechanism, self.count, self.key, label=LABEL).sampler
        self.taken = np.zeros((self.count, mechanism.steps), dtype=bool)
        for step, batch in enumerate(twin):
            self.taken[batch, step] = True

    def train(self, step: Any, loader: Any, **claim: Any) -> Audit:
        """Calls step(examples) for every batch, and attacks the weights that come of it."""
        released = np.zeros(self.taken.shape)
        before = self._weights()
        for t, (examples,) in enumerate(loader):
            step(examples if self._device is None else examples.to(self._device))
            after = self._weights()
            released[:, t] = (before - after) * self.expected_batch / self.clip_norm
            before = after
        return from_releases(self.mechanism, self.included, self.taken, released, **claim)

    def train_joint(self, made: Any, confidence: float, **claim: Any) -> Audit:
        """The attack on a run that releases squares too: on gradients, on squares, and on both together; gives the strongest."""
        weight, factor = made.squares_weight, made._sum.factor
        x, y = np.zeros(self.taken.shape), np.zeros(self.taken.shape)
        before = self._weights()
        for t, (examples,) in enumerate(self.loader):
            made.step(examples if self._device is None else examples.to(self._device))
            after = self._weights()
            x[:, t] = (before - after) * self.expected_batch / self.clip_norm
            y[:, t] = made.squares["weight"].reshape(-1).double().cpu().numpy() * self.expected_batch / self.clip_norm**2
            before = after
        if self.mechanism.adjacency == "replace-one":  # opposite canaries have the same squares
            attacks = [x / factor]
        else:
            attacks = [x, y, (x + weight * y) / (1 + weight)]
        level = 1 - (1 - confidence) / len(attacks)
        found = [from_releases(self.mechanism, self.included, self.taken, some, confidence=level, **claim) for some in attacks]
        return max(found, key=lambda audit: audit.epsilon_lower)

    def _weights(self) -> np.ndarray:
        return self.model.weight.detach().reshape(-1).double().cpu().numpy().copy()


def _key_of(key: KeyLike) -> KeyLike:
    return create_key() if key is None else key


def torch_run(
    mechanism: Mechanism,
    canaries: int = 1000,
    *,
    clip_norm: float = 1.0,
    key: KeyLike = None,
    confidence: float = 0.95,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    device: Any = None,
    **private: Any,
) -> Audit:
    """Canaries through dpmf.torch.

    A linear model is trained by `dpmf.torch.make_private` on examples each of which has a gradient along a weight of its own,
    of twice the clip norm, so that it must be clipped. Sampler, loader, clipping, sum, noise and step are those of any run, and
    the attacker sees the weights after each step.

    canaries    rounded up to fill the batches of the mechanism's participation
    epsilon     the claim that is tested; None: the mechanism's own
    private     options of make_private: clipping="ghost", chunk, process_group, ...
    """
    from . import torch as private_torch

    planted = _Canaries(_check(mechanism), canaries, clip_norm, key, device)
    made = private_torch.make_private(
        planted.model,
        planted.optimizer,
        mechanism,
        clip_norm,
        planted.expected_batch,
        loss=lambda outputs: outputs.sum(),
        sampler=planted.batches,
        key=planted.key,
        **{"label": LABEL, **private},
    )
    if made.squares_weight is not None:
        return planted.train_joint(made, confidence=confidence, epsilon=epsilon, delta=delta)
    return planted.train(made.step, planted.loader, confidence=confidence, epsilon=epsilon, delta=delta)


def opacus_run(
    mechanism: Mechanism,
    canaries: int = 1000,
    *,
    clip_norm: float = 1.0,
    key: KeyLike = None,
    confidence: float = 0.95,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    clipping: str = "per-example",
) -> Audit:
    """The same through dpmf.opacus.make_private: hooks and optimizer of Opacus with this library's clipping and noise."""
    import torch

    from . import opacus as private_opacus

    class Outputs(torch.nn.Module):
        """The loss of an example is the model's output for it."""

        reduction = "mean"

        def forward(self, outputs: torch.Tensor) -> torch.Tensor:
            return outputs.sum() / max(1, len(outputs)) if self.reduction == "mean" else outputs

    planted = _Canaries(_check(mechanism), canaries, clip_norm, key, None)
    made = private_opacus.make_private(
        planted.model,
        planted.optimizer,
        planted.loader,
        mechanism,
        clip_norm,
        key=planted.key,
        label=LABEL,
        expected_batch=planted.expected_batch,
        clipping=clipping,
        criterion=Outputs(),
    )

    def step(examples: Any) -> None:
        made.optimizer.zero_grad()
        made.criterion(made.model(examples)).backward()
        made.optimizer.step()

    return planted.train(step, made.loader, confidence=confidence, epsilon=epsilon, delta=delta)

def leave_out(private: Any, inputs: Any, *targets: Any, trials: int = 8, **keywords: Any) -> LeftOut:
    """Leaves examples out of a batch of your own, one after the other, and compares the sums, before any noise.

    The guarantee rests on one example moving a sum by at most the clip norm. A layer, loss or collate function that mixes
    examples, roundings that depend on the size of the batch, masks that are drawn in its order, and layers that keep
    statistics break that, and no canary in a model of the library's own would notice. No step is taken, no row of noise is
    used, and the model is as it was.

    private    what dpmf.torch.make_private gave
    inputs, targets, keywords    a batch, as for its `step`: at least 2 examples
    trials     the number of examples that are left out, the first and the last among them
    """
    import torch

    from .torch.clipping import Tally
    from .torch.parameters import same_bytes
    from .torch.private import Private
    from .torch.pytree import Examples
    from .torch.randomness import Draws

    if not isinstance(private, Private):
        raise errors.ArgumentTypeError("private is a %s, what dpmf.torch.make_private gives is accepted" % type(private).__name__)
    if private.unit != "example":
        raise errors.UnsupportedError("leave_out of a run by %ss: a run by examples with the same model is accepted" % private.unit)
    batch = Examples(inputs, targets, keywords)
    if batch.count < 2:
        raise errors.ArgumentError("inputs: %d examples, accepted: 2 or more" % batch.count)
    if trials < 1:
        raise errors.ArgumentError("trials = %d, accepted: 1 or more" % trials)
    places = sorted({round(i * (batch.count - 1) / max(trials - 1, 1)) for i in range(trials)})
    before = {name: buffer.detach().clone() for name, buffer in private.model.named_buffers()}
    written: List[str] = []

    def sum_of(places: List[int]) -> Any:
        rows = torch.tensor(places, device=batch.tensors[0].device)
        positional, named, rest = batch.call([t[rows.to(t.device)] for t in batch.tensors])
        some = Examples(positional, rest, named)
        some.draws = Draws(private._secret, private.noise.step, places)
        found = private._sum.fresh()
        if private._twin is not None:
            private._twin.fill()
        private._route.add(found, some, Tally(()))
        for name, buffer in private.model.named_buffers():
            if name in before and not same_bytes(before[name], buffer):
                written.extend([name] if name not in written else [])
                with torch.no_grad():
                    buffer.copy_(before[name])
        return found

    everybody = list(range(batch.count))
    whole, largest, same = sum_of(everybody), 0.0, True
    for place in places:
        without = sum_of([i for i in everybody if i != place])
        moved = whole.sum - without.sum
        largest = max(largest, float(moved.double().norm()) * whole.grid / whole.clip)
        same = same and torch.equal(moved, sum_of([place]).sum)
    private._empty()
    return LeftOut(largest, same if private.clipping == "per-example" else None, written, places)
