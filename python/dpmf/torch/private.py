# SPDX-License-Identifier: Apache-2.0
"""The private step: clipped per-example gradients, their exact sum, a row of noise, the optimizer."""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

import torch

from .. import errors
from .._contribution import with_rule
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..privacy import Privacy, unit_name
from .adaptive import AdaptiveClip, AdaptiveSum
from .clipping import STATED, Loss, PerExample, Tally, choose, chunk_for, said_by_run
from .group import Group
from .groups import GroupClip, GroupSum
from .moments import JointMoments, JointSum, Moments
from .places import granule_for
from .pytree import Examples
from .noise import Rows, make_stream, shard_of
from .parameters import Untouched, check_layers, check_parameters, not_finite, one_device, row_type, trained_parameters
from .precondition import Preconditioner, Scale
from .randomness import Draws, secret_of
from .sums import ExactSum
from .users import OWNED, PerUser
from .unshard import Twin, has_shards, placed, reshard

STATE = "dpmf"
#: Of a sum's identity, where gradients are not simply clipped.
RULES = ("precondition", "normalize", "clip_groups", "clip_norms", "noise_scales", "squares")
NOTHING_LOADED = (
    "the state file has seen %d of %d rows, and no checkpoint of that run is loaded: this model is not the one that they "
    "trained. Load its checkpoint (optimizer.load_state_dict); without one, begin a new run with a new key"
)
NOT_FINITE = (
    "the parameter %s is not finite %s: its steps would train nothing. Begin a new run with a new key, for example with a smaller "
    "learning rate"
)
SHAPES = (
    "inputs and targets of shapes %s for an example, and those before had %s. Padding to the longest example of a batch changes the "
    "inputs of the others, and one example can then move the sum by many clip norms. Pad to one length, which does not follow "
    "from the data; or say fixed_shapes=False where a mask keeps padding out of every gradient"
)
VARIED = (
    "Shapes of examples could vary between batches: the guarantee holds if padding changes no gradient (a mask keeps it out).\n"
)
UNMASKED = (
    "fixed_shapes=False, and no input is called a mask (%s): where examples are padded to the longest of a batch, that changes the inputs of "
    "the others, and one example can then move the sum by many clip norms"
)
STEPPED = (
    "the optimizer took steps after close(), without this library's noise: no epsilon here covers them. Ask before them, or account for "
    "the rest separately"
)
WRITTEN = "It does not cover the buffers %s, which the model itself writes and the caller declared public.\n"


class StepReport(NamedTuple):
    """The report of a step. The last two are None unless they were requested; they have no noise and are not private."""

    step: int
    steps: int
    nonprivate_loss: Optional[float]
    nonprivate_clipped: Optional[float]


class Private:
    """What make_private gives: `accumulate` and `step`, around a model and its optimizer."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        mechanism: Mechanism,
        clip_norm: Union[float, AdaptiveClip, GroupClip],
        expected_batch: float,
        loss: Optional[Callable[..., torch.Tensor]],
        clipping: str,
        tell: Any,
        chunk: Optional[int],
        group: Any,
        taken: Any,
        key: KeyLike,
        options: Dict[str, Any],
        public_buffers: Sequence[str] = (),
        fixed_shapes: bool = True,
        unit: str = "example",
        user_gradient: str = "mean",
        gamma: float = 0.0,
        precondition: Optional[Scale] = None,
        squares: Optional[JointMoments] = None,
    ):
        if getattr(optimizer, "_dpmf_private", False):
            raise errors.ArgumentError("this optimizer is private already: close what make_private gave first")
        self.model, self.optimizer, self.mechanism = model, optimizer, mechanism
        self.expected_batch = float(expected_batch)
        self._taken, self._tally = taken, Tally(tell)
        #: Whose gradients are clipped together, and how they become one; examples whose owners are several are clipped alone.
        self.unit, self._user_gradient = unit, user_gradient if taken.users is not None else None
        self._listeners: List[Callable[[StepReport], Any]] = []
        self._params, others = trained_parameters(model, optimizer)
        self._twin = Twin(model, self._params) if has_shards(model) else None
        if self._twin is not None:
            model, trained, others = self._twin.model, self._twin.trained, self._twin.others
        else:
            trained = self._params
        self._untouched = Untouched(model, public_buffers)
        self._fixed_shapes, self._shapes, self._shapes_vary, self._warned = fixed_shapes, [], not fixed_shapes, False
        self._ended: Optional[int] = None  # the steps of a run that is closed
        self._stepped = False  # the optimizer went on without this library's noise
        self._finite: List[int] = []  # torch's count of writes when all parameters were finite
        sizes = [p.numel() for p in self._params.values()]
        dim, device, self._dtype = sum(sizes), one_device(self._params), row_type(self._params)
        self._group = Group(group, device)
        adaptive = isinstance(clip_norm, AdaptiveClip)
        if isinstance(clip_norm, AdaptiveClip):
            clip_norm.check(mechanism)
            scale = (mechanism.sigma or 1.0) * mechanism.sensitivity.value
            self._sum: ExactSum = AdaptiveSum(dim, clip_norm, scale, self.expected_batch, taken.capacity, device)
        elif isinstance(clip_norm, GroupClip):
            self._sum = GroupSum(clip_norm.resolve(self._params, optimizer), taken.capacity, device, gamma)
        elif squares is not None:
            self._sum = JointSum(dim, clip_norm, squares, squares.factor(mechanism), taken.capacity, device, gamma)
        else:
            self._sum = ExactSum(dim, clip_norm, taken.capacity, device, gamma)
        self._scales = None if precondition is None else Preconditioner(precondition, optimizer, self._params)
        if (self._scales is not None or squares is not None) and self._twin is not None:
            raise errors.UnsupportedError("precondition, squares: sharded parameters have sharded moments; whole ones are accepted")
        binding = self._sum.binding() + ("" if self._scales is None else "/scaled by %s" % self._scales.name)
        if binding:
            options = {**options, "label": with_rule(options.get("label"), binding)}
        row = len(self._sum.whole)
        name, self.clipping_reason = choose(clipping, dim * self.expected_batch / self._group.world, model)
        self._own_chunk = chunk is None
        if name == "ghost":
            from .ghost import Ghost

            self._route: Any = Ghost(model, trained, Loss(loss), self.clip_norm, chunk or 0)
        else:
            least = -self._group.worst(-(chunk or chunk_for(self._params, device)))
            granule = None if taken.steady else granule_for(taken.spread * self.expected_batch / self._group.world, mechanism.steps)
            parts = (model, trained, others, Loss(loss), least, granule)
            if taken.users is None:
                self._route = PerExample(*parts)
            else:
                self._route = PerUser(*parts, unit=unit, user_gradient=user_gradient)
        self._shard = shard_of(row, self._group.rank, self._group.world)
        if options.get("exact"):
            if self._route.name == "ghost":
                raise errors.ArgumentError(
                    'exact=True takes clipping="per-example": ghost clipping forms no gradient that could be put on a grid'
                )
            if adaptive:
                raise errors.UnsupportedError("exact=True with an adaptive clip norm: its rows have another scale at every step")
            options = {**options, "grid": self._sum.grid}
        noise_clip = 1.0 if adaptive else getattr(self._sum, "noise_clip", self.clip_norm)
        self.noise = make_stream(mechanism, row, noise_clip, key, self._dtype, self._group, options)
        self._moments = Moments(optimizer, self._sum, self._params, mechanism, self.noise.scale, self.expected_batch)
        self._rows = Rows(self.noise, device)
        self._secret = secret_of(key, b"dpmf random numbers of examples 1")
        self._accumulated = self._inside = self._with_buffers = False
        # Rows that were used before belong to a model that is not this one, until its checkpoint is loaded.
        self._lost = self._group.worst(self.noise.reserved)
        self._group.same({"parameters": [(name, tuple(p.shape)) for name, p in self._params.items()]})
        self._group.same(taken.identity())
        self._group.same(
            {"mechanism": mechanism.digest, "key": self.noise._commitment, **self._identity(), "clip norm": self.clip_norm}
        )
        optimizer._dpmf_private = True  # type: ignore[attr-defined]
        self._hooks = [
            optimizer.register_step_pre_hook(self._guard),
            optimizer.register_state_dict_post_hook(self._add_state),
            optimizer.register_load_state_dict_pre_hook(self._take_state),
        ]

    # ---- one step ----

    def step(
        self, inputs: Any = None, *targets: Any, drawn_for: Optional[int] = None, units: Any = None, **keywords: Any
    ) -> StepReport:
        """One logical step: of these examples, as for `accumulate`, or of what it has gathered if none are given.

        Returns the number of the step, and what `tell` of make_private requested, which is not private.
        """
        if inputs is not None or keywords:
            self.accumulate(inputs, *targets, drawn_for=drawn_for, units=units, **keywords)
        elif not self._accumulated:
            raise errors.ArgumentError("a step of no batch: accumulate first, an empty one if need be")
        self._check()
        taken_for = self.noise.step
        scales = None if self._scales is None else self._scales.begin()
        noisy = self._release()
        self._unscale()
        self._moments.give(taken_for, scales)
        self._taken.close_step(taken_for)
        self._accumulated, self._inside = False, True
        try:
            for (name, parameter), part in zip(self._params.items(), noisy.split([p.numel() for p in self._params.values()])):
                part = part.view(parameter.shape)
                if scales is not None:
                    part = part / scales[name]
                parameter.grad = placed(part.to(parameter.dtype), parameter)
            self.optimizer.step()
        finally:
            self._inside = False
        # The weights have their noise: that one of them is not finite reveals nothing else.
        refused = not_finite(self._params)
        self._group.raise_together(
            None if refused is None else errors.NumericalError(NOT_FINITE % (refused, "after step %d" % taken_for))
        )
        self._finite = self._writes()
        report = StepReport(taken_for, self.mechanism.steps, self._tally.loss(), self._tally.clipped())
        for listener in list(self._listeners):
            listener(report)
        return report

    def on_step(self, listener: "Callable[[StepReport], Any]") -> "Callable[[], None]":
        """Has listener(report) called after every step, for a logger; gives a function that ends it."""
        if not callable(listener):
            raise errors.ArgumentTypeError("listener is a %s, a function is accepted" % type(listener).__name__)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _release(self) -> torch.Tensor:
        """(sum + row of noise) / expected batch. The sum of all processes is exact; the noise of each is that of its shard."""
        self._route.close_step(self._sum, self._tally)
        self._group.add_up_(self._sum.whole)
        row, refused = None, None
        try:
            row = self._rows.next(self._sum.digest)
        except Exception as error:  # in one process: the others must not wait for it
            refused = error
        try:
            self._group.raise_together(refused)
            assert row is not None
            part = self._sum.noisy(self._shard[0], row, self.expected_batch, self._dtype, self.noise.grid)
        finally:
            self._sum.zero_()
            self._accumulated = False
            self._empty()
        if self._group.world == 1:
            return self._sum.released(part)
        whole = torch.zeros(self.noise.dim, dtype=self._dtype, device=part.device)
        whole[self._shard[0] : self._shard[0] + self._shard[1]] = part
        self._group.add_up_(whole)  # each number from one process, zeros from the others
        return self._sum.released(whole)

    def accumulate(
        self, inputs: Any = None, *targets: Any, drawn_for: Optional[int] = None, units: Any = None, **keywords: Any
    ) -> None:
        """Adds the clipped gradients of a micro-batch to the sum of the step that is under way.

        inputs      a tensor; a tuple or list: the model's positional inputs; a mapping: its keyword inputs; a dataclass or
                    any other nest of tensors: its one input. The first dimension of every tensor is the examples
        targets     what the loss takes after the model's outputs
        keywords    keyword inputs of the model
        drawn_for   the step that the sampler drew these examples for, where it cannot be seen: batches of data_loader carry
                    it, and others must say it (`for batch in sampler: ... drawn_for=batch.step`)
        units       without a sampler: the numbers of these examples, by which participations are counted; of a run by users the
                    ids of their users, one for each example
        """
        examples = Examples(inputs, targets, keywords)
        self._check()
        self._check_shapes(examples)
        if self.noise.step >= self.mechanism.steps:
            raise errors.ArgumentError(
                "the mechanism has %d steps, and all have been taken: the run is over" % self.mechanism.steps
            )
        if self._scales is not None:
            if not self._accumulated:
                self._unscale()
            self._route.scales = self._scales.begin()
        real = self._taken.take(self.noise.step, examples.count, examples.tensors, drawn_for, units)
        if not self._accumulated:
            self.optimizer.zero_grad(set_to_none=True)
            self._sum.zero_()
            self._tally.zero_()
        self._accumulated = True
        examples.real = real
        examples.draws = Draws(self._secret, self.noise.step, self._taken.units)
        if isinstance(self._route, PerUser):
            examples.users = list(self._taken.users[:real])
            try:
                self._route.begin(examples, self.noise.step)
            except errors.Error:
                self.discard()
                raise
        if self._twin is not None:
            self._twin.fill()
        self._check_finite("before step %d" % self.noise.step)
        self._untouched.begin()
        try:
            with torch.autograd.set_detect_anomaly(False):  # it would raise in the step of an example whose gradient is NaN
                self._route.add(self._sum, examples, self._tally)
        finally:
            self._check_untouched()

    def _unscale(self) -> None:
        """The scales of a step end with it."""
        if self._scales is not None:
            self._scales.end()
            self._route.scales = None

    def discard(self) -> None:
        """Forgets what has been accumulated."""
        self._unscale()
        self._sum.zero_()
        self._route.forget()
        self._taken.forget()
        self._accumulated = False
        self._empty()

    def _check_finite(self, when: str) -> None:
        """Raises if a parameter is not finite; the counts of writes tell whether there is something new to look at."""
        model = self.model if self._twin is None else self._twin.model
        writes = self._writes()
        if writes and writes == self._finite:
            return
        found = not_finite(dict(model.named_parameters()))
        if found is not None:
            self.discard()
            raise errors.NumericalError(NOT_FINITE % (found, when))
        self._finite = writes

    def _check_shapes(self, examples: Examples) -> None:
        """Shapes of an example, which must be those of the batches before: padding may have followed the longest example.

        Where they may vary, nothing that is said or saved depends on whether they did: one example's length would be in it.
        """
        if not self._fixed_shapes:
            if not self._warned and not any("mask" in str(name) for name in examples.names):
                warnings.warn(UNMASKED % (", ".join(map(str, examples.names)) or "there are no names"), stacklevel=4)
            self._warned = True
            return
        shapes = [list(t.shape[1:]) for t in examples.tensors]
        if examples.count == 0 or shapes == self._shapes:
            return
        if self._shapes:
            raise errors.ArgumentError(SHAPES % (shapes, self._shapes))
        self._shapes = shapes

    def _writes(self) -> List[int]:
        return [p._version for p in self.model.parameters()] if self._twin is None else []

    def _check_untouched(self) -> None:
        try:
            self._untouched.check()
        except errors.Error:
            self.discard()
            raise

    def _check_shards(self) -> None:
        if self._twin is not None:
            self._group.same({"values of the parameters": self._twin.digest()})

    def _empty(self) -> None:
        if self._twin is not None:
            self._twin.empty()

    def _check(self) -> None:
        """Before anything is computed: would this step be one of the run, and of all its parameters?"""
        self._may_go_on()
        if self._twin is not None:
            reshard(self.model)
        check_layers(self.model)
        check_parameters(self.model, self.optimizer, self._params)

    def _may_go_on(self) -> None:
        if self._lost:
            raise errors.StateError(NOTHING_LOADED % (self._lost, self.mechanism.steps))

    # ---- the optimizer's hooks ----

    def _guard(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not self._inside:
            raise errors.ArgumentError(
                "optimizer.step() would take a step without noise: call step() of the result of make_private instead"
            )

    def _identity(self) -> Dict[str, Any]:
        # What changes the roundings of a gradient is in it: rows after a checkpoint are used again, for the same sums.
        return {"expected_batch": self.expected_batch, "processes": self._group.world, "chunk": self._route.chunk,
                "clipping": self._route.name, **self._sum.identity(),
                **({} if self._scales is None else {"precondition": self._scales.name}),
                **({} if self.unit == "example" else {"unit": self.unit, "user_gradient": self._user_gradient})}

    def _own_state(self) -> Dict[str, Any]:
        """What a checkpoint holds beside model and optimizer."""
        self._may_go_on()
        if self._accumulated:
            raise errors.StateError("a step is not finished: the accumulated sum has no noise yet and must not be saved")
        noise = self.noise.state_dict(buffers=self._with_buffers)
        if isinstance(noise.get("buffers"), bytes):
            noise["buffers"] = torch.frombuffer(bytearray(noise["buffers"]), dtype=torch.uint8)
        return {**self._identity(), "noise": noise, "taken": self._taken.state_dict(),
                "shapes": self._shapes, "shapes_varied": self._shapes_vary,
                **self._sum.state_dict()}

    def _add_state(self, _optimizer: Any, state: Dict[str, Any]) -> Dict[str, Any]:
        if not self._inside:
            state[STATE] = self._own_state()
        return state

    def _take_state(self, _optimizer: Any, state: Dict[str, Any]) -> None:
        if self._inside:
            return  # of torch.distributed.checkpoint: `load` takes it
        if STATE not in state:
            raise errors.StateError(
                "this optimizer state has no noise state: a run resumed from it would use rows of noise again"
            )
        self._take(state[STATE])

    def _take(self, own: Dict[str, Any]) -> None:
        if own.get("unit", "example") != self.unit:
            raise errors.StateError("the state is of a run by %ss, and this one is by %ss" % (own.get("unit", "example"), self.unit))
        identity = self._identity()
        for name in dict.fromkeys([*identity, *RULES]):
            value = identity.get(name)
            if name == "chunk" and self._own_chunk and isinstance(own.get(name), int):
                continue  # the resumed run keeps its own, for any amount of free memory here
            if name == "processes" and self._group.worst(int(self.noise.keeps_state)):
                continue  # sums may round otherwise: the state file then refuses rows that were used
            if own.get(name) != value:  # of a rule that is off there is nothing
                raise errors.StateError("the state has %s = %s, and this run %s" % (name, own.get(name), value))
        self._taken.check_state(own.get("taken") or {})
        noise = dict(own.get("noise") or {})
        if self._group.world > 1 or own.get("processes") != 1:
            # A checkpoint is written by any one process: the shard is that of the reader.
            noise.update({name: getattr(self.noise, name) for name in ("offset", "count") if name in noise})
        self.noise.load_state_dict(noise)
        self._sum.load_state_dict(own)
        self._route.chunk = own["chunk"]
        self.discard()
        self._shapes = list(own.get("shapes") or []) if self._fixed_shapes else []
        self._shapes_vary = self._shapes_vary or bool(own.get("shapes_varied"))
        self._taken.load_state_dict(own.get("taken") or {}, self.noise.step, self.noise.reserved)
        self._lost = 0

    @contextlib.contextmanager
    def _by_torch(self) -> Iterator[None]:
        """Inside, torch may call the optimizer's step and its states for a checkpoint, without noise and rows."""
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    def save(self, folder: "Union[str, os.PathLike[str]]") -> None:
        """A checkpoint of the whole run, model and all, by torch.distributed.checkpoint; called in every process.

        It is for sharded models above all, and any number of processes can resume from it, where there is a state file: rows
        that were used after the checkpoint come again for the same sums only, and those of another number of processes may
        round differently, so save at the step where the number changes.
        """
        from . import checkpoints

        checkpoints.save(self, folder)

    def load(self, folder: "Union[str, os.PathLike[str]]") -> None:
        """Resumes from what `save` wrote."""
        from . import checkpoints

        checkpoints.load(self, folder)

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
    def clip_norm(self) -> float:
        """The l2 norm to which every example's gradient is clipped; of the next step, where it is adaptive. With a norm for each group of
        parameters, what bounds all of them together, in the coordinates of the noise."""
        return self._sum.clip

    @property
    def squares(self) -> Optional[Dict[str, torch.Tensor]]:
        """Released means of squares of clipped gradients, of the last step, by the names of parameters; with squares=JointMoments()."""
        return self._moments.by_name

    @property
    def squares_weight(self) -> Optional[float]:
        """The weight of JointMoments; None: squares are not released."""
        return self._sum.rule.weight if isinstance(self._sum, JointSum) else None

    @property
    def steps_taken(self) -> int:
        return self.noise.step if self._ended is None else self._ended

    @property
    def progress(self) -> float:
        """The part of the run that is done."""
        return self.steps_taken / self.mechanism.steps

    @property
    def clipping(self) -> str:
        """The route that gradients take, "per-example" or "ghost"; `clipping_reason` tells why."""
        return self._route.name

    @property
    def counted(self) -> bool:
        """True: the loader could not be checked, and the guarantee is that of the run that happened, so far."""
        return self._taken.counted

    def privacy(self, delta: Optional[float] = None) -> Optional[Privacy]:
        """The guarantee, computed again: of the whole run as designed, or, where `counted`, of the run that happened so far.

        None: no example has taken part yet. An error: the optimizer went on after `close`, without noise.
        """
        if self._stepped:
            raise errors.StateError(STEPPED)
        return self._taken.privacy(delta)

    @property
    def epsilon(self) -> Optional[float]:
        """That of `privacy`. Correlated noise is one release: a part of a designed run is no cheaper than the whole.

        None: there is none yet. The mechanism promises none, or it is counted, and no example has taken part.
        """
        if not self.counted and self.mechanism.epsilon is None:
            return None
        found = self.privacy()
        return None if found is None else found.epsilon

    def statement(self, unit: Optional[str] = None) -> str:
        """The guarantee in sentences, and what kind of guarantee it is.

        Gradients are clipped and participations checked by the run's unit: an example, or a user. The unit is that of the mechanism; for any unit that is
        not the run's, also one that `unit` names, a sentence is added about what must be true for it to be the unit.
        """
        if unit is not None:
            unit_name(unit)
        found = self.privacy()
        if found is None:
            return "No %s has taken part yet.\n" % self.unit
        said = said_by_run(self.mechanism, found, unit, self._sum.stated_clip(), self.steps_taken, self.unit)
        # The exact release is proven for the participations of the design, and not for others that were counted.
        said = said if self.counted else self.noise.exact_statement(said)
        said += self._sum.sentence(self.unit) + self._route.sentence
        said += "" if self._scales is None else self._scales.sentence
        if self.unit != "example" and self._taken.users is None:
            said += OWNED % {"unit": self.unit}
        if self._shapes_vary:
            said += VARIED
        if self._untouched.changed:
            said += WRITTEN % ", ".join(self._untouched.changed)
        if not_finite(self._params) is not None:
            said += "The trained parameters are not finite: the guarantee holds, and the model is of no use.\n"
        if self._tally.names:
            said += STATED % ", ".join({"loss": "mean losses", "clipped": "clipped fractions"}[n] for n in sorted(self._tally.names))
        if not self.counted:
            return said
        return said + (
            "This is the guarantee of the actual run: the loader could not be checked against what the mechanism "
            "assumes, and the participations of every %s over %d steps were counted.\n" % (self.unit, self.steps_taken)
        )

    def close(self) -> None:
        """Ends the noise and takes its hooks off the optimizer. Steps that it takes then are not in the epsilon, which is refused."""
        for hook in self._hooks:
            hook.remove()
        if self._ended is None:
            run = weakref.ref(self)  # the optimizer outlives it
            self.optimizer.register_step_pre_hook(lambda optimizer, *_: leave(run(), optimizer))
        self.optimizer._dpmf_private = False  # type: ignore[attr-defined]
        self.discard()
        self._route.close()
        if self._ended is None:
            self._ended = self.noise.step
        self.noise.close()

    def __enter__(self) -> "Private":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def leave(run: Optional[Private], optimizer: Any) -> None:
    """A step after `close`. Those of a second make_private, or of Opacus with this library's noise, have their own epsilon."""
    private = getattr(optimizer, "_dpmf_private", False) or getattr(optimizer, "_dpmf_attached", None) is not None
    if run is not None and not private:
        run._stepped = True
