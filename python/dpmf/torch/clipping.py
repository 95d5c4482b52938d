# SPDX-License-Identifier: Apache-2.0
"""The two ways to clipped gradients: one gradient of each example on the exact grid, or ghost clipping by Opacus.

`Private.clipping` and `Private.clipping_reason`, and the statement of the run, tell which is taken and why.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.func import functional_call, grad_and_value, vmap

from .. import errors
from ..mechanism import Mechanism
from ..privacy import Privacy, unit_name
from . import randomness
from .places import Places, in_rows, made_up_parameters
from .precondition import scaled
from .pytree import Examples
from .sums import ExactSum, norms

ROUTES = ("auto", "per-example", "ghost")
#: Above this many numbers in all gradients of a batch, "auto" takes ghost clipping where it can. A constant, and not what is
#: free just now: the same call takes the same route everywhere.
GHOST_ABOVE = 1 << 26
#: In errors of torch about models that torch.func cannot map over examples: their steps depend on values, for one.
NOT_MAPPED = ("vmap", "Batching rule not implemented")
#: Of the free memory, what gradients of examples may take. Each is there about three times: itself, what backward passes
#: keep for it, a copy on the way; the rest is for the activations, whose size is not known beforehand.
SHARE, COPIES = 0.25, 3

EXACT = (
    "Gradients were clipped one example at a time and summed in integers: no example moved a sum by more than the clip norm, "
    "exactly, if each example's gradient depends on it alone. A model, loss, augmentation or collate function that mixes the "
    "examples of a batch is not covered (MixUp, or padding to the longest without a mask).\n"
)
#: Made-up examples by which a size of passes is checked: enough for this many numbers of gradients, because a small layer often rounds
#: one example alike in all places. A large model has them in one.
PROBED, PROBES = 1 << 16, 8
#: Roundings, in runs whose batches have fixed sizes, and in others.
FIXED = "Sizes of batches and places in them did not depend on the data, and with them the roundings of a gradient.\n"
ALONE = "Sizes of batches varied, and the gradient of each example was computed in a pass of its own.\n"
CHECKED = (
    "Sizes of batches varied: it was checked on made-up examples that neither the size of a pass nor the place in it changes a "
    "bit of a gradient.\n"
)
ROUNDED = (
    "Gradients were clipped by ghost clipping: norms and sums are floating-point numbers, so that the clip norm holds up to "
    "their rounding, and data that is made for it can make the roundings large. clipping='per-example' is exact.\n"
)
#: The same with what was measured on made-up examples of the run's shapes.
ROUNDED_BY = (
    "Gradients were clipped by ghost clipping: norms and sums are floating-point numbers, so that the clip norm holds up to "
    "their rounding. In a batch of made-up examples of this run's shapes, one example moved the sum by %.7g clip norms; data "
    "that is made for it can make the roundings large. clipping='per-example' is exact.\n"
)

STATED = (
    "It does not cover the reports of the steps beside the model, which have no noise: %s. Anybody who sees those can "
    "learn about single "
    "examples from them.\n"
)


class Loss:
    """loss(outputs, *targets); None: what the model itself gives as .loss, or the cross entropy of its outputs or logits."""

    def __init__(self, function: Optional[Callable[..., torch.Tensor]]):
        self.function = function

    def of_one(self, outputs: Any, targets: Sequence[Any]) -> torch.Tensor:
        """Of a batch of one example."""
        if self.function is not None:
            found = self.function(outputs, *targets)
        else:
            found = member(outputs, "loss")
            if found is None and not targets:
                raise errors.ArgumentError(
                    "targets: there are none, loss= is not given, and the model's outputs have no .loss"
                )
            if found is None:
                logits = member(outputs, "logits")
                found = torch.nn.functional.cross_entropy(outputs if logits is None else logits, *targets)
        if not isinstance(found, torch.Tensor) or found.numel() != 1:
            raise errors.ArgumentError(
                "loss: it gave %s for one example, one number is accepted"
                % (tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__,)
            )
        return found.reshape(())


def member(outputs: Any, name: str) -> Any:
    """outputs.name or outputs["name"]; None: there is none."""
    if isinstance(outputs, torch.Tensor):
        return None
    found = getattr(outputs, name, None)
    return outputs.get(name) if found is None and isinstance(outputs, Mapping) else found


class Tally:
    """What was asked for about the examples of a step, without noise: their losses, how many were clipped."""

    NAMES = ("loss", "clipped")

    def __init__(self, names: Any):
        names = (names,) if isinstance(names, str) else tuple(names)
        for name in names:
            if name not in self.NAMES:
                raise errors.ArgumentError("tell = %r, accepted: %s" % (name, ", ".join(self.NAMES)))
        self.names = frozenset(names)
        self.zero_()

    def zero_(self) -> None:
        self._loss, self._clipped, self._count, self._units = 0.0, 0, 0, 0

    def add(self, losses: torch.Tensor, shortened: Callable[[], torch.Tensor]) -> None:
        """shortened: which of these examples had their gradient made shorter."""
        self.add_losses(losses)
        self.add_units(len(losses), shortened)

    def add_losses(self, losses: torch.Tensor) -> None:
        """Of examples."""
        self._count += len(losses)
        if "loss" in self.names:
            self._loss += float(losses.detach().double().sum())

    def add_units(self, count: int, shortened: Callable[[], torch.Tensor]) -> None:
        """Of what is clipped: examples, or users."""
        self._units += count
        if "clipped" in self.names:
            self._clipped += int(shortened().sum())

    def loss(self) -> Optional[float]:
        return self._loss / self._count if "loss" in self.names and self._count else None

    def clipped(self) -> Optional[float]:
        return self._clipped / self._units if "clipped" in self.names and self._units else None


class PerExample:
    """Every example's gradient, clipped on the grid and summed in integers: exact.

    granule   None: sizes of batches and places in them do not depend on who takes part. Else passes have sizes in which a
              gradient is the same to the bit in every place, multiples of it where that is possible (places.py)
    """

    name = "per-example"

    def __init__(
        self,
        model: Any,
        trained: Dict[str, Any],
        others: Dict[str, Any],
        loss: Loss,
        chunk: int,
        granule: Optional[int] = None,
    ):
        self._model, self._trained, self._others, self._loss = model, trained, others, loss
        self.chunk, self._granule = chunk, granule
        self.mapped: Optional[bool] = None  # None: whether all examples go in one pass has not been tried
        self.random: Optional[bool] = None  # None: whether the model draws random numbers is not known
        self._device = next(iter(trained.values())).device
        self._places: Dict[Any, Places] = {}
        #: By the name of a parameter: what its gradients are multiplied by before they are clipped; None: they are not.
        self.scales: Optional[Dict[str, torch.Tensor]] = None

    @property
    def sentence(self) -> str:
        return EXACT + (FIXED if self._granule is None else ALONE if self.mapped is False else CHECKED)

    def add(self, sums: ExactSum, examples: Examples, tally: Tally) -> None:
        """Gradients of all, so that shapes stay the same; the first examples.real are added, the rest is padding."""
        parameters = {name: p.detach() for name, p in self._trained.items()}
        others = {name: t.detach() for name, t in self._others.items()}

        def loss_of_one(parameters: Dict[str, torch.Tensor], tensors: List[torch.Tensor]) -> torch.Tensor:
            positional, named, targets = examples.call([t.unsqueeze(0) for t in tensors])
            outputs = functional_call(self._model, (parameters, others), positional, named)
            return self._loss.of_one(outputs, targets)

        each = grad_and_value(loss_of_one)
        first = 0
        while first < examples.count:
            taken, rows = self._rows(each, parameters, examples, examples.count - first)
            tensors = examples.part(first, first + taken)
            if self._granule is not None:
                tensors = in_rows(examples.tensors, first, first + taken, rows)
            found, losses = self._gradients(each, parameters, tensors, examples.draws, first)
            real = min(max(examples.real - first, 0), taken)
            own = [g[:real] if self.scales is None else scaled(g[:real], self.scales[name]) for name, g in found.items()]
            self._put(sums, own, losses[:real], tally, examples, first)
            first += taken

    def _put(
        self, sums: ExactSum, whole: List[torch.Tensor], losses: torch.Tensor, tally: Tally, examples: Examples, first: int
    ) -> None:
        """Adds the gradients of the examples from `first` on to the sums."""
        sums.add(whole)
        sums.count(lambda: norms(whole))
        tally.add(losses, lambda: sums.shortened(whole))

    def close_step(self, sums: ExactSum, tally: Tally) -> None:
        """After the last example of a step, before its noise."""

    def forget(self) -> None:
        """Drops what a step has begun."""

    def _rows(self, each: Any, parameters: Dict[str, torch.Tensor], examples: Examples, count: int) -> Tuple[int, int]:
        """(how many examples the next pass takes, its rows)."""
        want = min(count, self.chunk)
        if self._granule is None or self.mapped is False:
            return want, want
        shapes = tuple((tuple(t.shape[1:]), t.dtype) for t in examples.tensors)
        places = self._places.setdefault(shapes, Places(self._granule))
        found = places.rows(count, self.chunk, lambda rows: self._probe(each, parameters, examples, rows))
        return (want, want) if self.mapped is False else found  # it may just have been found out

    def _probe(self, each: Any, parameters: Dict[str, torch.Tensor], examples: Examples, rows: int) -> Any:
        """Gradients of passes of equal made-up examples; None: there are none that could be compared."""
        own = made_up_parameters(parameters)
        count = max(1, min(PROBES, PROBED // max(1, sum(p.numel() for p in parameters.values()))))
        for made_up, whole in ((own, 1), (own, 0), (own, None), (parameters, None)):
            try:
                found = self._pass_of_equal(each, made_up, examples, rows, whole, 1)
                if self.mapped is False:
                    return None
                first = [g[:1] for g in found]  # the others are compared with it
                if not all(bool(torch.isfinite(g).all()) for g in first) or not any(bool((g != 0).any()) for g in first):
                    continue
                for seed in range(2, count + 1):
                    found += self._pass_of_equal(each, made_up, examples, rows, whole, seed)
                return found
            except errors.Error:
                raise
            except Exception:  # the model's own, about such inputs
                continue
        return None

    def _pass_of_equal(
        self, each: Any, parameters: Dict[str, torch.Tensor], examples: Examples, rows: int, whole: Optional[int], seed: int
    ) -> List[torch.Tensor]:
        """The gradients of one made-up example in every row. whole: its numbers of classes and tokens; None: those of the first example."""
        with randomness.unchanged():
            torch.manual_seed(seed)
            one = examples.made_up(1, 0 if whole is None else whole)
        if whole is None:  # numbers that the model takes only of a certain kind
            one = [t if t.is_floating_point() else real[:1] for t, real in zip(one, examples.tensors)]
        draws = randomness.Draws(b"", 0, [0] * rows)
        return list(self._gradients(each, parameters, in_rows(one, 0, 1, rows), draws, 0)[0].values())

    def _gradients(
        self,
        each: Any,
        parameters: Dict[str, torch.Tensor],
        tensors: List[torch.Tensor],
        draws: randomness.Draws,
        first: int,
    ) -> Any:
        """(gradients, losses) of every example: all in one pass, or one after the other where the model does not allow that.

        Whether it does depends on the model and not on the data, and is tried once. Random numbers in it are functions of
        the key, the step and the example.
        """
        count = len(tensors[0])
        if self.mapped is not False and count > 0:
            try:
                found = self._drawn(
                    lambda: vmap(each, in_dims=(None, 0), randomness="different")(parameters, tensors), draws, first, count
                )
                self.mapped = True
                return found
            except randomness.NotDrawn:
                pass
            except RuntimeError as error:
                if self.mapped or not any(sign in str(error) for sign in NOT_MAPPED):
                    raise
            self.mapped, self.random = False, None

        def one_by_one() -> Any:
            found, losses = {name: p.new_zeros((count, *p.shape)) for name, p in parameters.items()}, []
            for i in range(count):
                with contextlib.nullcontext() if self.random is False else draws.alone(first + i):
                    watch = randomness.Watch(self._device.type) if self.random is None else None
                    one, loss = each(parameters, [t[i].clone() for t in tensors])
                    if watch is not None and watch.drawn:
                        self.random = True
                losses.append(loss)
                for name, g in one.items():
                    found[name][i] = g
            return found, torch.stack(losses) if losses else torch.zeros(0)

        watch = randomness.Watch(self._device.type)
        found = one_by_one()
        if self.random is False and watch.drawn:  # from now on for each example by itself
            watch.restore()
            self.random = True
            found = one_by_one()
        self.random = bool(self.random)
        return found

    def _drawn(self, run: Any, draws: randomness.Draws, first: int, count: int) -> Any:
        """run(), with the random numbers of each example. A model that draws none is left alone, and watched."""
        if self.random is False:
            watch = randomness.Watch(self._device.type)
            found = run()
            if not watch.drawn:
                return found
            watch.restore()
        found, drew = randomness.drawn_alone(run, draws, first, count, self._device)
        self.random = drew or self.random is not None
        return found

    def close(self) -> None:
        pass


def said_by_run(
    mechanism: Mechanism, found: Privacy, unit: Optional[str], clip: float, done: int, by: str = "example"
) -> str:
    """The statement of a run that clips and counts units of one kind, and what must be true for another unit to be its unit.

    by   the unit of the run: "example", or one with several examples. The mechanism's own unit is that of the statement; where it
         records none, it is the run's
    """
    named = [] if unit is None else [unit_name(unit)]
    recorded = mechanism.unit or by
    said = found._sentences(recorded, unit_named=0, clip=clip, done=done)
    return said + "".join(unit_sentence(of, by) for of in dict.fromkeys([recorded] + named) if of != by)


def unit_sentence(unit: str, by: str = "example") -> str:
    """For a unit other than that of the run."""
    return "The run was by %ss%s. It protects one %s in this way only if each %s is exactly one %s; one with several %ss is not covered.\n" % (
        by, " of the data set" if by == "example" else "", unit, unit, by, by)  # fmt: skip


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as most, open(
            "/sys/fs/cgroup/memory.current", encoding="ascii"
        ) as now:
            found = min(found, max(int(most.read()) - int(now.read()), 0))
    except (OSError, ValueError, StopIteration):
        pass  # no such files, or "max": no limit
    return found


def chunk_for(trained: Dict[str, Any], device: torch.device) -> int:
    """Examples whose gradients are in memory at once, by what is free."""
    each = sum(p.numel() * p.element_size() for p in trained.values()) * COPIES
    return max(1, min(int(free_memory(device) * SHARE) // each, 1 << 16))


def choose(clipping: str, numbers: float, model: Any) -> Tuple[str, str]:
    """(route, why) for a batch whose gradients hold this many numbers."""
    if clipping not in ROUTES:
        raise errors.ArgumentError("clipping = %r, accepted: %s" % (clipping, ", ".join(ROUTES)))
    if clipping != "auto":
        return clipping, "clipping=%r was asked for" % clipping
    if numbers <= GHOST_ABOVE:
        return "per-example", "the gradients of a batch are %.3g numbers, which fit, and this route is exact" % numbers
    from .ghost import why_not

    reason = why_not(model)
    if reason is not None:
        return "per-example", "ghost clipping is not possible: " + reason
    return "ghost", "the gradients of a batch would be %.3g numbers, above %.3g" % (numbers, GHOST_ABOVE)
