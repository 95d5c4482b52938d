# SPDX-License-Identifier: Apache-2.0
"""The private step: clipped per-example gradients, their sum, a row of noise, the optimizer."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed
from torch.func import functional_call, grad, vmap

from .. import errors
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..noise import NoiseStream
from .batches import BatchSampler
from .noise import DeviceNoise, HostNoise, shard_of

#: Per-example gradients that are in memory at once, when `chunk` is not given: 64 million numbers.
CHUNK_NUMBERS = 1 << 26
STATE = "dpmf"
#: Numbers whose squares are added up in single precision before sums go on in double, and what this can cost: whatever the
#: order, a sum of 256 squares is off by at most 257 x 2^-24 of itself, its root by half of that. Gradients are clipped to so
#: much less, which covers the roundings of the factor and of the products too: no norm is above the clip norm.
NORM_BLOCK, BELOW_CLIP = 256, 1.0 - 2.0**-16


class Private:
    """What make_private gives: `accumulate` and `step`, around a model and its optimizer."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        mechanism: Mechanism,
        clip_norm: float,
        expected_batch: float,
        loss: Callable[..., torch.Tensor],
        chunk: Optional[int],
        group: Any,
        noise: Callable[..., Any],
    ):
        self.model, self.optimizer, self.mechanism = model, optimizer, mechanism
        self.clip_norm, self.expected_batch = float(clip_norm), float(expected_batch)
        self._loss, self._group = loss, group
        self._params, self._others = trained_parameters(model, optimizer)
        self._flat = flat_buffer(list(self._params.values()))
        self._views = [
            part.view(p.shape)
            for part, p in zip(self._flat.split([p.numel() for p in self._params.values()]), self._params.values())
        ]
        self._chunk = chunk or max(1, CHUNK_NUMBERS // self._flat.numel())
        rank, world = rank_of(group)
        offset, count = shard_of(self._flat.numel(), rank, world)
        self._shard = self._flat[offset : offset + count]
        self.noise = noise(self._flat, offset, count)
        self._accumulated = self._inside = self._not_finite = self._with_buffers = False
        self._gradients = vmap(grad(self._example_loss), in_dims=(None, 0, 0), randomness="different")
        if getattr(optimizer, "_dpmf_private", False):
            raise errors.ArgumentError("this optimizer is private already: close what make_private gave first")
        optimizer._dpmf_private = True  # type: ignore[attr-defined]
        self._hooks = [
            optimizer.register_step_pre_hook(self._guard),
            optimizer.register_state_dict_post_hook(self._add_state),
            optimizer.register_load_state_dict_pre_hook(self._take_state),
        ]

    # ---- one step ----

    def step(self, inputs: Any = None, *targets: torch.Tensor) -> None:
        """One logical step: of these examples, or of what `accumulate` has gathered if none are given."""
        if inputs is not None:
            self.accumulate(inputs, *targets)
        elif not self._accumulated:
            raise errors.ArgumentError("a step of no batch: accumulate first, an empty one if need be")
        self._agree()
        self.noise.add_(self._shard)
        if rank_of(self._group)[1] > 1:
            torch.distributed.all_reduce(self._flat, group=self._group)
        self._flat.div_(self.expected_batch)
        self._accumulated, self._inside = False, True
        try:
            for parameter, view in zip(self._params.values(), self._views):
                parameter.grad = view.to(parameter.dtype)
            self.optimizer.step()
        finally:
            self._inside = False

    def accumulate(self, inputs: Any, *targets: torch.Tensor) -> None:
        """Adds the clipped gradients of a micro-batch to the sum of the step that is under way."""
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        count = len(inputs[0])
        if any(len(part) != count for part in inputs + targets):
            raise errors.ArgumentError(
                "inputs and targets of %s examples: as many of each are accepted"
                % [len(part) for part in inputs + targets]
            )
        check_layers(self.model)
        sums = None
        for first in range(0, count, self._chunk):
            last = min(first + self._chunk, count)
            sums = self._add_chunk(sums, tuple(p[first:last] for p in inputs), tuple(p[first:last] for p in targets))
        if not self._accumulated:
            self.optimizer.zero_grad(set_to_none=True)
            self._flat.zero_()
        if sums is not None:
            self._flat.add_(sums)
        self._accumulated = True

    def discard(self) -> None:
        """Forgets what has been accumulated."""
        self._flat.zero_()
        self._accumulated = self._not_finite = False

    def _agree(self) -> None:
        """Raises if any process met a gradient that is not finite: none takes the step, and none waits for another."""
        bad = self._not_finite
        if rank_of(self._group)[1] > 1:
            flag = torch.tensor([float(bad)], device=self._flat.device)
            torch.distributed.all_reduce(flag, group=self._group)
            bad = bool(flag.item() > 0)
        if bad:
            self.discard()
            raise errors.NumericalError("the gradient of an example is not finite: nothing of the step is released")

    def _example_loss(self, parameters: Dict[str, torch.Tensor], inputs: Any, targets: Any) -> torch.Tensor:
        one = tuple(part.unsqueeze(0) for part in inputs)
        outputs = functional_call(self.model, (parameters, self._others), one)
        return self._loss(outputs, *[part.unsqueeze(0) for part in targets])

    def _add_chunk(self, sums: Optional[torch.Tensor], inputs: Any, targets: Any) -> torch.Tensor:
        parameters = {name: p.detach() for name, p in self._params.items()}
        found = self._gradients(parameters, inputs, targets)
        flat = [g.reshape(g.shape[0], -1).to(self._flat.dtype) for g in found.values()]
        norms = example_norms(flat)
        if not bool(torch.isfinite(norms).all()):
            self._not_finite = True  # `step` raises, in all processes at once
        bound = self.clip_norm * BELOW_CLIP
        factors = (bound / norms.clamp(min=bound)).to(self._flat.dtype)
        sums = torch.zeros_like(self._flat) if sums is None else sums
        for g, part in zip(flat, sums.split([g.shape[1] for g in flat])):
            part.addmv_(g.t(), factors)
        return sums

    # ---- the optimizer's hooks ----

    def _guard(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not self._inside:
            raise errors.ArgumentError(
                "optimizer.step() would take a step without noise: step() of what make_private gave is accepted"
            )

    def _identity(self) -> Dict[str, Any]:
        # What changes the roundings of a sum is in it: rows after a checkpoint are used again, for the same bits.
        return {"expected_batch": self.expected_batch, "processes": rank_of(self._group)[1], "chunk": self._chunk}

    def _add_state(self, _optimizer: Any, state: Dict[str, Any]) -> Dict[str, Any]:
        if self._accumulated:
            raise errors.StateError("a step is under way: what is accumulated has no noise yet and must not be saved")
        noise = self.noise.state_dict(buffers=self._with_buffers)
        if isinstance(noise.get("buffers"), bytes):
            noise["buffers"] = torch.frombuffer(bytearray(noise["buffers"]), dtype=torch.uint8)
        state[STATE] = {**self._identity(), "noise": noise}
        return state

    def _take_state(self, _optimizer: Any, state: Dict[str, Any]) -> None:
        if STATE not in state:
            raise errors.StateError(
                "this optimizer state has no noise state: a run resumed from it would use rows of noise again"
            )
        own = state[STATE]
        for name, value in self._identity().items():
            if own.get(name) != value:
                raise errors.StateError("the state has %s = %s, and this run %s" % (name, own.get(name), value))
        rank, world = rank_of(self._group)
        noise = dict(own.get("noise") or {})
        if world > 1:
            # A checkpoint is written by any one process: the shard is that of the reader.
            noise.update({name: getattr(self.noise, name) for name in ("offset", "count") if name in noise})
        self.noise.load_state_dict(noise)
        self.discard()

    def state_dict(self, buffers: bool = False) -> Dict[str, Any]:
        """optimizer.state_dict(), which holds the noise state too; with `buffers` it is as secret as the key."""
        self._with_buffers = buffers
        try:
            return self.optimizer.state_dict()
        finally:
            self._with_buffers = False

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)

    # ---- the rest ----

    @property
    def steps_taken(self) -> int:
        return self.noise.step

    @property
    def epsilon(self) -> Optional[float]:
        """Of the whole run: correlated noise is one release, and a part of it is no cheaper."""
        return self.mechanism.epsilon

    def close(self) -> None:
        """Ends the noise and takes its hooks off the optimizer."""
        for hook in self._hooks:
            hook.remove()
        self.optimizer._dpmf_private = False  # type: ignore[attr-defined]
        self.discard()
        self.noise.close()

    def __enter__(self) -> "Private":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def example_norms(gradients: List[torch.Tensor]) -> torch.Tensor:
    """l2 norms over all tensors (examples x numbers), in double, nearly at the speed of single precision."""
    squares = torch.zeros(len(gradients[0]), dtype=torch.float64, device=gradients[0].device)
    for g in gradients:
        whole = g.shape[1] // NORM_BLOCK * NORM_BLOCK
        for part in (g[:, :whole].unflatten(1, (-1, NORM_BLOCK)) if whole else None, g[:, whole:].unsqueeze(1)):
            if part is not None and part.shape[2] > 0:
                squares += torch.linalg.vector_norm(part, dim=2).double().square().sum(1)
    return squares.sqrt()


def rank_of(group: Any) -> Tuple[int, int]:
    """(rank, processes); group False: this process alone."""
    if group is False or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)


def trained_parameters(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """(name: parameter) of those that the optimizer steps, in the model's order, and everything else that it holds."""
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    trained = {name: p for name, p in model.named_parameters() if id(p) in wanted}
    if len(trained) != len(wanted):
        raise errors.ArgumentError(
            "the optimizer has %d parameters that the model has not" % (len(wanted) - len(trained))
        )
    if not trained:
        raise errors.ArgumentError("the optimizer has no parameters to train")
    others = {name: p.detach() for name, p in model.named_parameters() if name not in trained}
    others.update(model.named_buffers())
    return trained, others


def flat_buffer(parameters: List[torch.Tensor]) -> torch.Tensor:
    """Room for the sums of all gradients, end to end: doubles if all parameters are, else floats."""
    devices = {p.device for p in parameters}
    if len(devices) > 1:
        raise errors.ArgumentError("the parameters are on %d devices, accepted: one" % len(devices))
    double = all(p.dtype == torch.float64 for p in parameters)
    return torch.zeros(
        sum(p.numel() for p in parameters), device=devices.pop(), dtype=torch.float64 if double else torch.float32
    )


def check_layers(model: torch.nn.Module) -> None:
    """Layers that mix the examples of a batch have no per-example gradient."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training:
            raise errors.UnsupportedError(
                "%s is a %s in training mode, which mixes examples: GroupNorm, or eval mode, is accepted"
                % (name or "the model", type(module).__name__)
            )


def make_private(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    mechanism: Mechanism,
    clip_norm: float,
    expected_batch: Optional[float] = None,
    *,
    loss: Callable[..., torch.Tensor] = torch.nn.functional.cross_entropy,
    sampler: Optional[BatchSampler] = None,
    key: KeyLike = None,
    noise: str = "host",
    chunk: Optional[int] = None,
    process_group: Any = None,
    **options: Any,
) -> Private:
    """A private training step for a model and its optimizer.

    mechanism        must be calibrated (have a sigma)
    clip_norm        the l2 norm to which every example's gradient, over all trained parameters, is clipped
    expected_batch   what sums are divided by; the sampler's, where one is given
    loss             loss(outputs, *targets) of a batch of one example
    sampler          a BatchSampler: it is held against the mechanism, and resumes where the noise does
    key              32 bytes, or the path of a key file; None: a new one, and the run cannot be resumed
    noise            "host": the library's rows, whatever the device. "device": the same recursion in torch operations, its
                     seeds from torch's generator, which is not cryptographic
    chunk            examples whose gradients are in memory at once
    process_group    for several processes (None: the default group where there is one; False: this process alone): each adds
                     the noise of its shard, and the sums are all-reduced, so that noise is added once. Every process needs
                     the same key and must call `step` for its part of every batch
    options          of NoiseStream: state, label, prefetch, threads, ...
    """
    if mechanism.sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma: calibrate it to (epsilon, delta) first")
    if not clip_norm > 0 or clip_norm == float("inf"):
        raise errors.ArgumentError("clip_norm = %g, accepted: finite numbers above 0" % clip_norm)
    if sampler is not None:
        sampler.sampler.check(mechanism)
        expected_batch = sampler.expected_batch if expected_batch is None else expected_batch
    if expected_batch is None or not expected_batch > 0:
        raise errors.ArgumentError(
            "expected_batch = %s, accepted: a number above 0, or a sampler that has one" % expected_batch
        )
    if noise not in ("host", "device"):
        raise errors.ArgumentError("noise = %r, accepted: host, device" % noise)
    rank, world = rank_of(process_group)
    if world > 1 and key is None:
        raise errors.ArgumentError("key: %d processes need the same one" % world)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module

    def make_noise(flat: torch.Tensor, offset: int, count: int) -> Any:
        if noise == "device":
            return DeviceNoise(
                mechanism,
                flat.numel(),
                clip_norm,
                key,
                device=flat.device,
                dtype=flat.dtype,
                offset=offset,
                count=count,
                **options,
            )
        if options.get("state") is not None:
            options.setdefault("replay", True)  # resuming goes back to the rows after the last checkpoint
        stream = NoiseStream(
            mechanism,
            flat.numel(),
            clip_norm,
            key,
            dtype=str(flat.dtype).replace("torch.", ""),
            offset=offset,
            count=count,
            **options,
        )
        return stream if flat.device.type == "cpu" else HostNoise(stream, flat.dtype, flat.device.type == "cuda")

    private = Private(model, optimizer, mechanism, clip_norm, expected_batch, loss, chunk, process_group, make_noise)
    if sampler is not None:
        sampler.follow(lambda: private.noise.step)
    if world > 1:
        for tensor in list(model.parameters()) + list(model.buffers()):
            torch.distributed.broadcast(
                tensor.data,
                torch.distributed.get_global_rank(process_group, 0) if process_group is not None else 0,
                group=process_group,
            )
    return private
