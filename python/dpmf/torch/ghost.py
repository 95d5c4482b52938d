# SPDX-License-Identifier: Apache-2.0
"""Ghost clipping (Li et al. 2022, Bu et al. 2023) with the hooks of Opacus: norms first, then one clipped gradient.

A first backward pass through Opacus' hooks gives the norm n_i of every example's gradient without the gradient itself, where
a layer allows it; a second one is that of sum_i min(1, clip / n_i) loss_i. So no gradient of an example is ever formed, and
a step costs two backward passes. What one example adds has norm at most clip up to rounding: norms are computed in double
(on the CPU; a square of a float neither underflows nor overflows there) and are 2^-19 of themselves on the safe side, but the
second pass rounds in the model's own precision. In bfloat16 that is far more than the safe side: the roundings of a batch of
300 moved a sum by 1.04 clip norms for one example. So both passes run in float32 at least: autocast and reduced products are
switched off inside, and parameters or layers of fewer bits are refused. How far one example moves a sum is measured on made-up
examples of the batch's shapes, and the statement has the figure.

An example whose norm is not finite has the factor 0. That is not enough: 0 x NaN is NaN in a weight's gradient, which is the
whole batch's. So a sum that is not finite is computed again in halves, down to the example alone, which then adds 0. Nothing
is raised or said about it; what remains visible is the time that the step took.

Hooks do not see a weight that is used without its module (a product with another layer's weight, say), and the norms would be
too small. So before the first batch the norms of two made-up examples of its shapes are held against autograd's.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch
from torch.func import vmap

from .. import errors
from .clipping import ROUNDED, ROUNDED_BY, Loss, Tally, member
from .pytree import Examples, flatten
from .randomness import Draws, NotDrawn, Watch, drawn_alone
from .sums import ExactSum

try:
    from opacus.grad_sample import GradSampleHooksFastGradientClipping as Hooks
except ImportError:
    Hooks = None  # type: ignore[assignment, misc]

#: Relative; norms in float have errors of about 2^-22.
SAFE_SIDE = 2.0**-19
#: Of norms by hooks and by autograd: roundings are far below, a weight that hooks do not see is far above.
TOLERANCE = 1e-3
#: The types in which both passes may compute.
WIDE = (torch.float32, torch.float64)


@contextlib.contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Inside, float32 means float32: no autocast, and no products in bfloat16 or TF32."""
    own = {"cpu": (("mkldnn", ("matmul", "conv", "rnn")),), "cuda": (("cuda", ("matmul",)), ("cudnn", ("conv", "rnn")))}
    places = [
        place
        for backend, kinds in own.get(device, ())
        for kind in kinds
        for place in [getattr(getattr(torch.backends, backend), kind, None)]
        if getattr(place, "fp32_precision", "ieee") in ("tf32", "bf16")
    ]
    before = [place.fp32_precision for place in places]
    older = not hasattr(torch.backends.mkldnn, "matmul")  # a torch that has one switch for all
    switch = torch.get_float32_matmul_precision() if older else "highest"
    convolutions = older and torch.backends.cudnn.allow_tf32
    try:
        for place in places:
            place.fp32_precision = "ieee"
        if switch != "highest":
            torch.set_float32_matmul_precision("highest")
        if convolutions:
            torch.backends.cudnn.allow_tf32 = False
        with torch.autocast(device, enabled=False):
            yield
    finally:
        for place, value in zip(places, before):
            place.fp32_precision = value
        if switch != "highest":
            torch.set_float32_matmul_precision(switch)
        if convolutions:
            torch.backends.cudnn.allow_tf32 = True


def check_width(dtype: torch.dtype, what: str) -> None:
    if dtype.is_floating_point and dtype not in WIDE:
        raise errors.UnsupportedError(
            "clipping='ghost': %s is %s, whose roundings let one example move a sum by more than the clip norm; float32 and "
            "float64 are accepted, or clipping='per-example', which takes any type" % (what, dtype)
        )


def why_not(model: torch.nn.Module) -> Optional[str]:
    """None: ghost clipping can be tried."""
    if Hooks is None:
        return "Opacus is not installed (pip install opacus)"
    narrow = [name for name, p in model.named_parameters() if p.is_floating_point() and p.dtype not in WIDE]
    if narrow:
        return "the parameter %s is %s, accepted: float32, float64" % (narrow[0], dict(model.named_parameters())[narrow[0]].dtype)
    found = Hooks.validate(model)
    return None if not found else " ".join(str(error) for error in found)


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    def norms(layer: Any, activations: List[torch.Tensor], backprops: torch.Tensor) -> Any:
        activations = [a.contiguous() for a in activations]  # Opacus takes views of them
        if backprops.device.type == "cpu":
            activations = [a.double() if a.is_floating_point() else a for a in activations]
            backprops = backprops.double()
        return function(layer, activations, backprops)

    return norms


def factors(norms: torch.Tensor, clip: float, gamma: float = 0.0) -> torch.Tensor:
    """What losses are multiplied with; 0 where the norm is not finite. With a gamma gradients are normalised (sums.py)."""
    safe = clip * (1 - SAFE_SIDE)
    found = safe / (norms + gamma) if gamma else (safe / norms).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), found, torch.zeros_like(found))


def norms_of(parameters: Sequence[Any]) -> torch.Tensor:
    """Over all parameters, from what Opacus' hooks left on each."""
    return torch.stack([p._norm_sample.double() for p in parameters]).square().sum(0).sqrt()


if Hooks is not None:

    class GhostHooks(Hooks):
        """Opacus' hooks; a layer that shares a parameter with another has its gradients formed, and their norm taken."""

        def __init__(self, model: torch.nn.Module, clip: float):
            owners: Dict[int, int] = {}
            for module in model.modules():
                for p in module.parameters(recurse=False):
                    owners[id(p)] = owners.get(id(p), 0) + 1
            self._shared = {p for p, count in owners.items() if count > 1}
            self.outputs: List[torch.Tensor] = []
            self.NORM_SAMPLERS = {kind: _in_double(function) for kind, function in Hooks.NORM_SAMPLERS.items()}
            super().__init__(model, loss_reduction="sum", max_grad_norm=clip, use_ghost_clipping=True)

        def _set(self, module: torch.nn.Module) -> None:
            self.use_ghost_clipping = not any(id(p) in self._shared for p in module.parameters(recurse=False))

        def capture_activations_hook(self, module: Any, forward_input: Any, _forward_output: Any) -> None:
            self._set(module)
            super().capture_activations_hook(module, forward_input, _forward_output)
            if isinstance(_forward_output, torch.Tensor):
                check_width(_forward_output.dtype, "the output of a %s" % type(module).__name__)
            if self.hooks_enabled and isinstance(_forward_output, torch.Tensor) and _forward_output.requires_grad:
                self.outputs.append(_forward_output)

        def capture_backprops_hook(self, module: Any, *arguments: Any, **named: Any) -> None:
            self._set(module)
            super().capture_backprops_hook(module, *arguments, **named)

        def reset(self) -> None:
            """Nothing of an earlier batch is left."""
            self.outputs.clear()
            for module in self._module.modules():
                module.__dict__.pop("activations", None)
                module.__dict__.pop("max_batch_len", None)
            for p in self._module.parameters():
                p._forward_counter = 0
                p.grad_sample = None
                for name in ("_norm_sample", "_current_grad_sample"):
                    p.__dict__.pop(name, None)


class Ghost:
    """The clipped gradients of a micro-batch, summed in floating point, in two backward passes."""

    name = "ghost"

    def __init__(self, model: torch.nn.Module, trained: Dict[str, Any], loss: Loss, clip: float, chunk: int):
        reason = why_not(model)
        if reason is not None:
            raise errors.UnsupportedError("clipping='ghost': " + reason)
        self._model, self._trained, self._loss, self._clip, self._gamma = model, trained, loss, clip, 0.0
        self._parameters = list(trained.values())
        self.chunk, self._tried = chunk, False
        #: How far one of the made-up examples moved a sum, in clip norms; None: it has not been measured yet.
        self.moved: Optional[float] = None
        self._device = self._parameters[0].device.type
        self.random: Optional[bool] = None  # None: whether the model draws random numbers is not known
        # The first pass needs the gradients of layers' outputs only, and not those of weights; where that is not enough for
        # the hooks, those too.
        self._short = True
        self._hooks = GhostHooks(model, clip)
        self._hooks.disable_hooks()

    def add(self, sums: ExactSum, examples: Examples, tally: Tally) -> None:
        """Of all, so that shapes stay the same; the first examples.real are added, the rest is padding."""
        if examples.real == 0:
            return
        self._clip, self._gamma = sums.clip, sums.gamma
        if not all(module.training for module in self._model.modules() if any(True for _ in own_trained(module))):
            raise errors.UnsupportedError(
                "clipping='ghost' needs trained layers in training mode, as Opacus' hooks do: model.train()"
            )
        with full_precision(self._device):
            self._add_all(sums, examples, tally)

    @property
    def sentence(self) -> str:
        return ROUNDED if self.moved is None else ROUNDED_BY % self.moved

    def _add_all(self, sums: ExactSum, examples: Examples, tally: Tally) -> None:
        chunk = self.chunk or examples.count
        if not self._tried:
            try:
                made_up = self._try(examples)
            except errors.UnsupportedError:
                self._short = False
                made_up = self._try(examples)
            self._measure(examples, made_up, min(chunk, examples.count))
            self._tried = True
        for first in range(0, examples.count, chunk):
            self._add(sums, examples, first, min(first + chunk, examples.count), tally)

    def _add(self, sums: ExactSum, examples: Examples, first: int, last: int, tally: Tally) -> None:
        real = min(last, examples.real) - first
        if real <= 0:
            return
        found, losses, norms = self._clipped(examples, examples.part(first, last), real, examples.draws, first)
        if bool(torch.isfinite(torch.stack([g.abs().amax() for g in found if g.numel() > 0])).all()):
            sums.add_sum(found, real)
            sums.count(lambda: norms)
            tally.add(losses, lambda: sums.shortened_by(norms.detach()))
        elif last - first == 1:
            sums.add_sum([torch.zeros_like(g) for g in found], 1)
            sums.count(lambda: norms)
            tally.add(losses, lambda: sums.shortened_by(norms.detach()))
        else:
            middle = (first + last) // 2
            self._add(sums, examples, first, middle, tally)
            self._add(sums, examples, middle, last, tally)

    def _losses(self, examples: Examples, tensors: Sequence[torch.Tensor], draws: Draws, first: int) -> torch.Tensor:
        """Of every example, by one pass of the model, with random numbers of each example's own."""
        device = self._parameters[0].device
        if self.random is False:
            watch = Watch(device.type)
            losses = self._pass(examples, tensors)
            if not watch.drawn:
                return losses
            watch.restore()
            self._hooks.reset()
        try:
            losses, drew = drawn_alone(
                lambda: self._pass(examples, tensors), draws, first, len(tensors[0]), device, flat=True
            )
        except NotDrawn as error:
            raise errors.UnsupportedError(
                "clipping='ghost' needs random numbers that can be drawn for each example (%s); clipping='per-example' is "
                "accepted" % error
            ) from None
        self.random = drew or self.random is not None
        return losses

    def _pass(self, examples: Examples, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        positional, named, targets = examples.call(tensors)
        outputs = self._model(*positional, **named)
        if self._loss.function is None and member(outputs, "loss") is not None:
            raise errors.UnsupportedError(
                "clipping='ghost' needs the loss of every example, and the model's own .loss is one number for all of them: "
                "give loss=, a function of (outputs, *targets), or take clipping='per-example'"
            )
        parts, build = flatten((outputs, targets))

        def of_one(*one: torch.Tensor) -> torch.Tensor:
            return self._loss.of_one(*build([part.unsqueeze(0) for part in one]))

        return vmap(of_one, randomness="different")(*parts)

    def _norms(self, losses: torch.Tensor) -> torch.Tensor:
        wanted = self._hooks.outputs if self._short else self._parameters
        torch.autograd.grad(losses.sum(), wanted, retain_graph=True, allow_unused=True)
        for name, p in self._trained.items():
            if getattr(p, "_norm_sample", None) is None or len(p._norm_sample) != len(losses):
                raise errors.UnsupportedError(
                    "clipping='ghost': the parameter %s is used in a way that Opacus' hooks do not see, so that norms of "
                    "gradients are not known; clipping='per-example' is accepted" % name
                )
        return norms_of(self._parameters)

    def _clipped(
        self,
        examples: Examples,
        tensors: Sequence[torch.Tensor],
        real: int,
        draws: Draws,
        first: int,
        clip: Optional[float] = None,
    ) -> Any:
        """(clipped gradients of the first `real`, summed; their losses; norms). With a clip norm they are clipped to that, in place of
        the run's rule."""
        self._hooks.reset()
        self._hooks.enable_hooks()
        try:
            with torch.enable_grad():
                losses = self._losses(examples, tensors, draws, first)
                watch = Watch(self._device, others=False)
                norms = self._norms(losses)
                self._hooks.disable_hooks()
                factor = (factors(norms, self._clip, self._gamma) if clip is None else factors(norms, clip)).to(losses)
                factor[real:] = 0
                weighted = (losses * factor).sum()
                found = torch.autograd.grad(weighted, self._parameters, allow_unused=True)
                if watch.torch_drawn:
                    raise errors.UnsupportedError(
                        "clipping='ghost': random numbers are drawn in the backward pass (a layer that is computed again "
                        "there), where they are not those of the forward pass; clipping='per-example' is accepted"
                    )
        finally:
            self._hooks.disable_hooks()
            self._hooks.reset()
        summed = [torch.zeros_like(p) if g is None else g for g, p in zip(found, self._parameters)]
        return summed, losses[:real], norms[:real]

    # ---- do the hooks see all there is? ----

    def _try(self, examples: Examples) -> int:
        """Raises unless they do; gives the value that made-up examples have where they are whole numbers."""
        devices = [p.device for p in self._parameters[:1] if p.device.type == "cuda"]
        reason = "the norms of made-up examples are not finite numbers above 0"
        for whole in (1, 0):  # numbers of classes and tokens, masks: what may be asked with 1, or else with 0
            with torch.random.fork_rng(devices):
                torch.manual_seed(1)
                tensors = examples.made_up(2, whole)
                try:
                    by_hooks, by_autograd = self._both_norms(examples, tensors)
                except errors.Error:
                    raise
                except Exception as error:  # the model's own, about such inputs
                    reason = "%s: %s" % (type(error).__name__, error)
                    continue
            if not bool((torch.isfinite(by_autograd) & (by_autograd > 0)).all()):
                continue
            if bool(((by_hooks - by_autograd).abs() > TOLERANCE * by_autograd).any()):
                raise errors.UnsupportedError(
                    "clipping='ghost': for made-up examples of these shapes Opacus' hooks find gradients of norm %s, and "
                    "autograd %s. A layer mixes examples, or a weight is used without its module; clipping='per-example' "
                    "is accepted" % (by_hooks.tolist(), by_autograd.tolist())
                )
            return whole
        raise errors.UnsupportedError(
            "clipping='ghost' could not be tried out on this model (%s); clipping='per-example' is accepted" % reason
        )

    def _measure(self, examples: Examples, whole: int, count: int) -> None:
        """How far does one of `count` made-up examples move the sum, if all of them are clipped?"""
        devices = [p.device for p in self._parameters[:1] if p.device.type == "cuda"]
        with torch.random.fork_rng(devices):
            torch.manual_seed(2)
            tensors = examples.made_up(count, whole)
            norms = self._clipped(examples, tensors, count, Draws(b"", 0, range(count)), 0)[2]
            clip = float(norms.min()) / 2
            sums = []
            for first in (0, 1):  # with the first of them, and without it
                draws, rest = Draws(b"", 0, range(count)), [t[first:] for t in tensors]
                found = [torch.zeros(())]
                if count > first:
                    found = self._clipped(examples, rest, count - first, draws, first, clip)[0]
                sums.append(torch.cat([g.double().reshape(-1) for g in found]))
        self.moved = float((sums[0] - sums[1]).norm()) / clip if clip > 0 else None

    def _both_norms(self, examples: Examples, tensors: List[torch.Tensor]) -> Any:
        self._hooks.reset()
        self._hooks.enable_hooks()
        try:
            with torch.enable_grad():
                losses = self._losses(examples, tensors, Draws(b"", 0, [0, 1]), 0)
                if self.random:
                    self._hooks.reset()
                    turned = self._losses(examples, [t.flip(0) for t in tensors], Draws(b"", 0, [1, 0]), 0).flip(0)
                    if not torch.allclose(losses, turned, rtol=TOLERANCE, atol=TOLERANCE):
                        raise errors.UnsupportedError(
                            "clipping='ghost': an example's random numbers depend on its place in the batch; "
                            "clipping='per-example' is accepted"
                        )
                    self._hooks.reset()
                    losses = self._losses(examples, tensors, Draws(b"", 0, [0, 1]), 0)
                by_hooks = self._norms(losses)
                self._hooks.disable_hooks()
                alone = []
                for loss in losses:
                    found = torch.autograd.grad(loss, self._parameters, retain_graph=True, allow_unused=True)
                    squares = [g.double().square().sum() for g in found if g is not None]
                    alone.append(torch.stack(squares).sum().sqrt())
        finally:
            self._hooks.disable_hooks()
            self._hooks.reset()
        return by_hooks.detach(), torch.stack(alone)

    def close_step(self, sums: ExactSum, tally: Tally) -> None:
        """Nothing is left open at the end of a step."""

    def forget(self) -> None:
        """Nothing is begun before its sum."""

    def close(self) -> None:
        self._hooks.cleanup()


def own_trained(module: torch.nn.Module) -> Any:
    return (p for p in module.parameters(recurse=False) if p.requires_grad)
