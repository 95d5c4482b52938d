# SPDX-License-Identifier: Apache-2.0
"""DP-FedAvg for any torch model: users train from the server's weights, and only the noisy sum of their clipped updates is used.

Round t (McMahan et al. 2018, Algorithm 1; Pillutla et al. 2025, Eq. 1.27): each user u of the round begins with the server's
weights w, trains on its own data to w_u, and its update w - w_u is clipped as a whole. The sum of the updates and row t of the
noise, divided by the expected number of users, is a gradient for the server's optimizer. dpmf.federated.Rounds has all but the
training: the exact sum, who may take part, the record, the state of the noise.

An update may depend on its user's data, the weights and random numbers of that user alone. So each user gets a copy of the model
of its own, buffers included, which is thrown away, and generators that are seeded from (key, round, user): with or without
another user in the round it trains in the same way.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import warnings
import weakref
from collections.abc import Mapping
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Union

import numpy as np
import torch

from .. import errors
from .._library import integer
from .._clients import client_name
from ..federated import Exhausted, Rounds, positive
from ..keys import KeyLike
from ..mechanism import Mechanism
from ..privacy import Privacy
from .clipping import Loss
from .group import rank_of
from .make import check_arguments, check_divisor
from .parameters import Untouched, check_parameters, is_sharded, not_finite, one_device, row_type, trained_parameters
from .private import NOT_FINITE, STATE, STEPPED, leave
from .pytree import Examples, mapped
from .randomness import digest_of, secret_of, seed_generators, unchanged

TrainUser = Callable[[torch.nn.Module, Any], Any]

KEPT = (
    "the model has layers whose running statistics are learned while they train (%s). Those of a user's training are thrown away, since "
    "no noise is added to them, and the server's stay what they are: a model in eval mode would use them. GroupNorm has none"
)
LOCAL = (
    "Each update came from local training on one user's data, with random numbers of its own. A user whose training failed, gave numbers "
    "that are not finite, or had no data added zeros, without a message.\n"
)
OWN = "This rests on train_user keeping nothing of a user's data for others: no files, globals or caches that later users see.\n"


class RoundReport(NamedTuple):
    """The report of a round: its number, and how many there are. It holds nothing about the users."""

    round: int
    rounds: int


class LocalSGD:
    """Training of one user: `steps` steps of SGD at `rate`, each on `batch` of its examples, in passes of random order.

    batch None: all its examples in each step. Data may be a tuple of tensors (inputs, then what the loss takes), a mapping of
    tensors (keyword inputs), or a data set of examples.
    """

    def __init__(self, steps: int, rate: float, batch: Optional[int], loss: Optional[Callable[..., torch.Tensor]]):
        self.steps, self.rate, self.batch = steps, rate, batch
        self._loss = Loss(loss)

    def __call__(self, model: torch.nn.Module, data: Any) -> None:
        trained = [p for p in model.parameters() if p.requires_grad]
        count, part = examples_of(data, trained[0].device)
        size = count if self.batch is None else min(self.batch, count)
        order: List[int] = []
        for _ in range(self.steps if count else 0):
            if size < count and not order:
                order = torch.randperm(count).tolist()
            now, order = order[:size], order[size:]
            examples = part(now) if size < count else part(None)
            positional, named, targets = examples.call(examples.tensors)
            loss = self._loss.of_one(model(*positional, **named), targets)
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
            with torch.no_grad():
                for p, g in zip(trained, gradients):
                    if g is not None:
                        p.sub_(g, alpha=self.rate)


def examples_of(data: Any, device: Any) -> Any:
    """(how many there are, what makes a batch of those with these numbers; None: all)."""
    if isinstance(data, torch.utils.data.TensorDataset):
        data = data.tensors
    if isinstance(data, Mapping) or (isinstance(data, tuple) and data and all(isinstance(t, torch.Tensor) for t in data)):
        whole = batch_of(mapped(lambda t: t.to(device), data))
        return whole.count, lambda which: whole if which is None else batch_of(mapped(lambda t: t[which].to(device), data))

    def collated(which: Optional[List[int]]) -> Examples:
        rows = [data[i] for i in (range(len(data)) if which is None else which)]
        return batch_of(mapped(lambda t: t.to(device), torch.utils.data.default_collate(rows)))

    return len(data), collated


def batch_of(nest: Any) -> Examples:
    """A tuple is inputs and what the loss takes; a mapping is keyword inputs; all else is the input."""
    if isinstance(nest, (tuple, list)):
        return Examples(nest[0], tuple(nest[1:]), {})
    return Examples(nest, (), {})


class Federated:
    """What make_federated gives: `round`, around a model and the server's optimizer."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        users: Any,
        train_user: TrainUser,
        names: Optional[List[Any]],
        key: KeyLike,
        make_rounds: Callable[..., Rounds],
    ):
        if getattr(optimizer, "_dpmf_private", False):
            raise errors.ArgumentError("this optimizer is private already: close what made it so first")
        self.model, self.optimizer = model, optimizer
        self._users, self._train_user = users, train_user
        self._known = {client_name(name): name for name in (range(len(users)) if names is None else names)}
        if len(self._known) != len(users):
            raise errors.ArgumentError("users: %d ids, and %d different ones as text" % (len(users), len(self._known)))
        self._params, _ = trained_parameters(model, optimizer)
        if any(is_sharded(p) for p in model.parameters()) or rank_of(None)[1] > 1:
            raise errors.UnsupportedError("several processes, or sharded parameters: one process with the whole model is accepted")
        self._device = one_device(self._params)
        self._copy()  # a model that cannot be copied is refused here, and not in a round
        kept = sorted({type(m).__name__ for m in model.modules() if getattr(m, "track_running_stats", False) and m.training})
        if kept:
            warnings.warn(KEPT % ", ".join(kept), stacklevel=3)
        self._untouched = Untouched(model, ())
        self._inside = self._stepped = self._closed = False
        self._secret = secret_of(key, b"dpmf random numbers of users 1")
        #: Of dpmf.federated: who may take part, the sum, the noise.
        self.rounds = make_rounds(
            shapes=[p.shape for p in self._params.values()], dtype=str(row_type(self._params)).replace("torch.", "")
        )
        optimizer._dpmf_private = True  # type: ignore[attr-defined]
        self._hooks = [
            optimizer.register_step_pre_hook(self._guard),
            optimizer.register_state_dict_post_hook(self._add_state),
            optimizer.register_load_state_dict_pre_hook(self._take_state),
        ]

    # ---- one round ----

    def round(self, users: Optional[Iterable[Any]] = None) -> RoundReport:
        """One round: local training of its users, the noisy sum of their clipped updates, a step of the server's optimizer.

        users   None: those that the sampler draws. Else their ids: without a sampler the caller's choice, with one those of the
                drawn that can be reached. One that may not take part is refused (dpmf.federated.Early) before anything is trained;
                dpmf.federated.Exhausted ends the run
        """
        t = self.rounds.round
        check_parameters(self.model, self.optimizer, self._params)
        self._check_finite("before round %d" % t)
        chosen = self.rounds.drawn() if users is None else [client_name(one) for one in users]
        for one in chosen:
            if one not in self._known:
                raise errors.ArgumentError("users: there is no user %r" % one)
        self.rounds.check(chosen)
        self.optimizer.zero_grad(set_to_none=True)
        self._untouched.begin()
        try:
            for one in chosen:
                self.rounds.add(one, self._update(one))
            self._untouched.check()
            noisy = self.rounds.finish()
        finally:
            self.rounds.discard()
            self._untouched.check()
        self._inside = True
        try:
            for parameter, part in zip(self._params.values(), noisy):
                parameter.grad = torch.from_numpy(part).to(parameter)
            self.optimizer.step()
        finally:
            self._inside = False
        self._check_finite("after round %d" % t)
        return RoundReport(t, self.rounds.rounds)

    def __iter__(self) -> Iterator[RoundReport]:
        """The rounds that are left, of the users that the sampler draws."""
        while not self.rounds.over:
            try:
                yield self.round()
            except Exhausted:  # of max_epsilon
                return

    def _update(self, user: str) -> Optional[List[np.ndarray]]:
        """The server's weights minus those after the user's training; None: there are none."""
        local = self._copy()
        try:
            with self._alone(user), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one user's numbers can be the reason of a warning
                self._train_user(local, self._users[self._known[user]])
                return self._difference(local)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # one user's data can be the reason of it (a panic in Rust is no Exception): that must not be seen
            return None

    def rehearse(self, data: Any) -> float:
        """Not private: trains one user on this data, and gives the norm of its update. For made-up or public data.

        What goes wrong is raised here, while in a round such a user adds zeros without a message. Nothing else changes.
        """
        local = self._copy()
        with self._alone("rehearsal"):
            self._train_user(local, data)
            found = self._difference(local)
        if found is None:
            raise errors.ArgumentError("train_user: the model has other parameters after the training")
        why = self.rounds.problem(found)
        if why is not None:
            raise errors.NumericalError("the update would add zeros: %s" % why)
        return float(np.sqrt(sum(float(np.square(part, dtype=np.float64).sum()) for part in found)))

    def _copy(self) -> torch.nn.Module:
        """The server's model, all of it: what a user's training changes is gone with it."""
        local = copy.deepcopy(self.model)
        for name, p in local.named_parameters():
            p.grad = None
            p.requires_grad_(name in self._params)
        return local

    def _difference(self, local: torch.nn.Module) -> Optional[List[np.ndarray]]:
        after, out = dict(local.named_parameters()), []
        for name, p in self._params.items():
            q = after.get(name)
            if q is None or q.shape != p.shape:
                return None
            difference = p.detach() - q.detach().to(p)
            out.append(difference.to("cpu", torch.float64 if p.dtype == torch.float64 else torch.float32).numpy())
        return out

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Inside, random numbers are functions of (key, round, user); outside, torch is as it was."""
        unit = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little", signed=True)
        digest = digest_of(self._secret, self.rounds.round, unit)
        kind, cuda = torch.get_default_dtype(), [self._device] if self._device.type == "cuda" else []
        with unchanged(), torch.random.fork_rng(cuda), torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
            seed_generators(digest)
            if cuda:
                torch.cuda.manual_seed_all(int.from_bytes(digest[8:16], "little") >> 1)
            try:
                yield
            finally:
                torch.set_default_dtype(kind)

    def _check_finite(self, when: str) -> None:
        found = not_finite(self._params)
        if found is not None:
            raise errors.NumericalError(NOT_FINITE % (found, when))

    # ---- the optimizer's hooks ----

    def _guard(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not self._inside:
            raise errors.ArgumentError("optimizer.step() would take a step without noise: call round() of make_federated's result instead")

    def _identity(self) -> Dict[str, Any]:
        train = self._train_user
        if isinstance(train, LocalSGD):
            return {"local_steps": train.steps, "local_rate": train.rate, "local_batch": train.batch or 0}
        return {"local_steps": 0, "local_rate": 0.0, "local_batch": 0}

    def _add_state(self, _optimizer: Any, state: Dict[str, Any]) -> Dict[str, Any]:
        if not self._inside:
            state[STATE] = {**self._identity(), "rounds": self.rounds.state_dict()}
        return state

    def _take_state(self, _optimizer: Any, state: Dict[str, Any]) -> None:
        own = state.get(STATE)
        if not isinstance(own, dict) or "rounds" not in own:
            raise errors.StateError("this optimizer state has no state of rounds: a run resumed from it would use rows of noise again")
        for name, value in self._identity().items():
            if own.get(name) != value:
                raise errors.StateError("the state has %s = %s, and this run %s" % (name, own.get(name), value))
        self.rounds.load_state_dict(own["rounds"])

    # ---- the rest ----

    @property
    def mechanism(self) -> Mechanism:
        return self.rounds.mechanism

    @property
    def clip_norm(self) -> float:
        """The l2 norm to which every user's update is clipped."""
        return self.rounds.clip_norm

    @property
    def rounds_taken(self) -> int:
        return self.rounds.round

    def privacy(self, delta: Optional[float] = None) -> Privacy:
        """The guarantee of the whole run as designed, computed again. An error: the optimizer went on after `close`, without noise."""
        if self._stepped:
            raise errors.StateError(STEPPED)
        return self.rounds.privacy(delta)

    @property
    def epsilon(self) -> Optional[float]:
        """That of `privacy`; None: the mechanism promises none."""
        return None if self.mechanism.epsilon is None else self.privacy().epsilon

    def statement(self) -> str:
        """The guarantee in sentences, for a user with all its data."""
        self.privacy()
        own = "" if isinstance(self._train_user, LocalSGD) else OWN
        said = self.rounds.statement() + LOCAL + own
        if not_finite(self._params) is not None:
            said += "The trained parameters are not finite: the guarantee holds, and the model is of no use.\n"
        return said

    def close(self) -> None:
        """Ends the noise and takes its hooks off the optimizer. Steps that it takes then are not in the epsilon, which is refused."""
        if self._closed:
            return
        self._closed = True
        for hook in self._hooks:
            hook.remove()
        run = weakref.ref(self)  # the optimizer outlives it
        self.optimizer.register_step_pre_hook(lambda optimizer, *_: leave(run(), optimizer))
        self.optimizer._dpmf_private = False  # type: ignore[attr-defined]
        self.rounds.close()

    def __enter__(self) -> "Federated":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def make_federated(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    mechanism: Mechanism,
    clip_norm: float,
    users: Any,
    *,
    sampler: Any = None,
    train_user: Optional[TrainUser] = None,
    local_steps: Optional[int] = None,
    local_rate: Optional[float] = None,
    local_batch: Optional[int] = None,
    loss: Optional[Callable[..., torch.Tensor]] = None,
    divisor: Optional[float] = None,
    key: KeyLike = None,
    zero_above: Optional[float] = None,
    max_epsilon: Optional[float] = None,
    log: "Union[str, os.PathLike[str], None]" = None,
    exact: bool = False,
    state: Any = None,
    label: Optional[str] = None,
    prefetch: bool = False,
    lookahead: int = 0,
    scratch: Any = None,
    threads: int = 0,
    normalize: Optional[float] = None,
) -> Federated:
    """DP-FedAvg: private training where the unit is a user with all its data, and users train locally.

    optimizer        the server's: SGD with momentum, Adam, with any schedule; its gradient is the noisy mean of the updates
    mechanism        must be calibrated; its steps are the rounds, and its participation is that of a user
    clip_norm        the l2 norm to which every user's update, over all trained parameters, is clipped
    users            a mapping from ids to each user's data, or a sequence of that (ids are then 0, 1, ...)
    sampler          a dpmf.Sampler or BatchSampler over the users, which is checked against the mechanism: round() trains those
                     that it draws. None: round(ids) trains those, and refuses a user that comes too early
    train_user       train_user(model, data) trains the model in place. None: `local_steps` steps of SGD at `local_rate`, each on
                     `local_batch` examples in passes of random order (None: on all); data is then a tuple of tensors (inputs,
                     targets), a mapping of tensors (keyword inputs) or a data set, and `loss` as for make_private
    divisor          what sums are divided by: the expected number of users of a round. None: the sampler's
    zero_above, max_epsilon, log, exact, state, label, prefetch, lookahead, scratch, threads, normalize    as for dpmf.federated.Rounds
    key              32 bytes, or the path of a key file, beside which its state file and log lie; None: a new one, and the run
                     cannot be resumed

    The state of the run is in optimizer.state_dict(), as for make_private. A user adds zeros, and nothing shows it, if its data
    cannot be read or is empty, if its training raises an exception (errors and warnings are not shown), or if its update is not
    finite: `rehearse` is for finding mistakes. Each user trains a copy of the model, so that what it writes into buffers is gone.
    """
    if getattr(mechanism, "sigma", None) is not None:
        mechanism.confirm()
    check_arguments(model, optimizer, mechanism)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    names = list(users) if isinstance(users, Mapping) else None
    if names is None and not hasattr(users, "__getitem__"):
        raise errors.ArgumentTypeError("users is a %s, a mapping or a sequence of each user's data is accepted" % type(users).__name__)
    trainer = trainer_of(train_user, local_steps, local_rate, local_batch, loss)
    divisor = check_divisor(mechanism, divisor)
    drawn = getattr(sampler, "sampler", sampler)
    if divisor is None and drawn is not None:
        divisor = drawn.expected_batch
    if divisor is None:
        raise errors.ArgumentError("divisor: it is not given, and there is no sampler to take it from")

    def make_rounds(**more: Any) -> Rounds:
        clients = names if names is not None else range(len(users))
        return Rounds(
            mechanism, clip_norm=clip_norm, divisor=divisor, sampler=sampler, clients=None if sampler is None else clients, key=key,
            zero_above=zero_above, max_epsilon=max_epsilon, log=log, exact=exact, state=state, label=label, prefetch=prefetch,
            lookahead=lookahead, scratch=scratch, threads=threads, normalize=normalize, **more
        )

    return Federated(model, optimizer, users, trainer, names, key, make_rounds)


def trainer_of(
    train_user: Optional[TrainUser], steps: Optional[int], rate: Optional[float], batch: Optional[int], loss: Any
) -> TrainUser:
    """The caller's own training, or LocalSGD."""
    steps, rate = integer(steps, "local_steps", optional=True), positive(rate, "local_rate")
    batch = integer(batch, "local_batch", optional=True)
    if train_user is not None:
        if any(given is not None for given in (steps, rate, batch, loss)):
            raise errors.ArgumentError("train_user: it takes the place of local_steps, local_rate, local_batch and loss")
        if not callable(train_user):
            raise errors.ArgumentTypeError("train_user is a %s, a function is accepted" % type(train_user).__name__)
        return train_user
    if steps is None or rate is None:
        raise errors.ArgumentError("local_steps, local_rate: both are needed, or train_user=")
    for name, number in (("local_steps", steps), ("local_batch", batch)):
        if number is not None and number < 1:
            raise errors.ArgumentError("%s = %d, accepted: 1 or more" % (name, number))
    if loss is not None and not callable(loss):
        raise errors.ArgumentTypeError("loss is a %s, a function is accepted" % type(loss).__name__)
    return LocalSGD(steps, rate, batch, loss)
