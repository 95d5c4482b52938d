# SPDX-License-Identifier: Apache-2.0
"""Random numbers of a training step (dropout, augmentation), as functions of the key, the step and the example.

Two things need that. A step that is computed again after a crash must have the sum that it had: another dropout mask under
the same row of noise, and the difference of two sums is out without noise. And masks that are drawn one after the other from
one generator move on when an example more or less is in the batch: one example then changes the gradients of all that come
after it, by many clip norms for anybody who knows the generator's state. Drawn for each example by itself, masks need not be
secret, and no generator's state is in a checkpoint.

`UnitDraws` takes the place of torch's generator while a batch goes through a model: torch's random operations arrive there
with the examples as their first dimension, and each row gets numbers of its own seed, SplitMix64 of (seed, operation, place).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import random
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import errors
from ..keys import KeyBuffer, KeyLike

#: Numbers that are drawn at a time, so that their temporaries stay in a core's cache.
STRIP = 1 << 15
#: The increment and the multipliers of SplitMix64, as signed numbers.
STEP, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
WORD = 1 << 64


def secret_of(key: KeyLike, purpose: bytes) -> bytes:
    """A key's subkey for a purpose; of no key, a new one."""
    with KeyBuffer(key) as memory:
        return hmac.new(bytes(memory.memory), purpose, hashlib.sha256).digest()


def digest_of(secret: bytes, step: int, unit: Optional[int] = None) -> bytes:
    of = secret + step.to_bytes(8, "little") + (b"" if unit is None else unit.to_bytes(8, "little", signed=True))
    return hashlib.sha256(of).digest()


def seed_generators(digest: bytes) -> None:
    """Torch's, Python's and NumPy's generators, from 256 bits."""
    torch.default_generator.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    random.seed(digest)
    np.random.seed(np.frombuffer(digest, np.uint32))


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Outside, the generators of the CPU are as they were."""
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state())
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])


@contextlib.contextmanager
def seeded(secret: bytes, step: int, unit: Optional[int] = None) -> Iterator[None]:
    """Inside, the generators of the CPU are functions of (secret, step, unit); outside, as they were."""
    with unchanged():
        seed_generators(digest_of(secret, step, unit))
        yield


def seed_for(secret: bytes, step: int) -> None:
    """Torch's generators are functions of (secret, step) from here on, until somebody draws; all of their bits are.

    For loops that others run (Opacus): their masks cannot be drawn for each example, so that they must stay secret.
    """
    digest = digest_of(secret, step)
    seed_generators(digest)
    state = torch.get_rng_state()
    words = np.frombuffer(hashlib.shake_256(digest).digest(624 * 4), np.uint32)
    state.numpy()[24 : 24 + 624 * 8].view(np.uint64)[:] = words  # behind the seed, two counters and a place
    torch.set_rng_state(state)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(int.from_bytes(digest[8:16], "little") >> 1)


class Watch:
    """Were numbers drawn from a common generator since it was made? `restore` undoes that."""

    def __init__(self, device: str = "cpu", others: bool = True):
        self._cuda = device == "cuda"
        self._torch = self._state()
        self._others = (random.getstate(), np.random.get_state()) if others else None

    def _state(self) -> torch.Tensor:
        return torch.cuda.get_rng_state() if self._cuda else torch.get_rng_state()

    @property
    def torch_drawn(self) -> bool:
        return not torch.equal(self._torch, self._state())

    @property
    def drawn(self) -> bool:
        if self.torch_drawn or self._others is None:
            return self.torch_drawn
        if self._others[0] != random.getstate():
            return True
        (_, before, *place), (_, now, *other) = self._others[1], np.random.get_state()
        return place != other or before.tobytes() != now.tobytes()

    def restore(self) -> None:
        (torch.cuda.set_rng_state if self._cuda else torch.set_rng_state)(self._torch)
        if self._others is not None:
            random.setstate(self._others[0])
            np.random.set_state(self._others[1])


class Draws:
    """The random numbers of a micro-batch: whose they are."""

    def __init__(self, secret: bytes, step: int, units: Sequence[int]):
        self._secret, self._step, self._units = secret, step, list(units)

    def seeds(self, first: int, count: int, device: Any = "cpu") -> torch.Tensor:
        """Of the examples from `first` on; padding has that of no example."""
        units = (self._units[first : first + count] + [-1] * count)[:count]
        digest = digest_of(self._secret, self._step)
        base = [int.from_bytes(digest[i : i + 8], "little", signed=True) for i in (0, 8)]
        found = torch.tensor(units, dtype=torch.int64, device=device).mul_(STEP).add_(base[0])
        return mixed_(mixed_(found).add_(base[1]))

    def sorted(self, order: Sequence[int]) -> "Draws":
        """Those of the same examples in another order."""
        units = (self._units + [-1] * len(order))[: len(order)]
        return Draws(self._secret, self._step, [units[i] for i in order])

    def together(self) -> Any:
        """Inside, the generators are those of the step, for what all examples share."""
        return seeded(self._secret, self._step)

    def alone(self, i: int) -> Any:
        """Inside, the generators are those of one example."""
        return seeded(self._secret, self._step, self._units[i] if i < len(self._units) else -1)


def mixed_(z: torch.Tensor) -> torch.Tensor:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), in place."""
    t = torch.empty_like(z)
    for shift, factor in ((30, FIRST), (27, SECOND), (31, None)):
        torch.bitwise_right_shift(z, shift, out=t)
        t &= (1 << (64 - shift)) - 1  # torch's shift keeps the sign
        z ^= t
        if factor is not None:
            z *= factor
    return z


class NotDrawn(RuntimeError):
    """Random numbers of a pass cannot be drawn for each example."""


class UnitDraws(TorchDispatchMode):
    """Inside, torch's random operations give each example numbers that are functions of its seed.

    seeds      one for each example, the first dimension of what is drawn
    flat       accept tensors whose first dimension is the examples and another one, flattened (layers of a whole batch)
    """

    def __init__(self, seeds: torch.Tensor, flat: bool = False):
        super().__init__()
        self._seeds, self._flat, self._count = seeds, flat, 0
        self.drew = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = OPERATIONS.get(function)
        if known is None:
            return function(*args, **(kwargs or {}))
        kwargs = dict(kwargs or {})
        if kwargs.pop("generator", None) is not None:
            raise errors.UnsupportedError(
                "the model draws random numbers from a generator of its own, where one example moves on those of others: "
                "torch's own generator is accepted, whose numbers are drawn for each example by itself"
            )
        return known(self, *args, **kwargs)

    # ---- numbers ----

    def _rows(self, shape: Sequence[int]) -> int:
        """How many numbers an example has among those of the shape."""
        examples = len(self._seeds)
        fits = len(shape) > 0 and (shape[0] == examples or (self._flat and examples > 0 and shape[0] % examples == 0))
        if not fits:
            raise NotDrawn(
                "vmap: random numbers of shape %s for %d examples: the examples are not the first dimension"
                % (tuple(shape), examples)
            )
        return int(np.prod(shape)) // examples if examples else 0

    def _fill(self, out: torch.Tensor, of: Callable[[torch.Tensor], torch.Tensor], halves: bool) -> torch.Tensor:
        """out = of(random words), of 32 bits (halves) or 64; all in the order of its rows."""
        self.drew = True
        self._count += 1
        each = self._rows(out.shape)
        seeds = mixed_(self._seeds + self._count)
        whole = out if out.is_contiguous() else torch.empty_like(out, memory_format=torch.contiguous_format)
        table = whole.view(len(seeds), each) if each else whole.new_empty(0, 0)
        words = -(-each // 2) if halves else each
        for low in range(0, words, STRIP):
            places = torch.arange(low, min(low + STRIP, words), device=out.device).mul_(STEP)
            rows = max(1, STRIP // len(places))
            for some, to in zip(seeds.split(rows), table.split(rows)):
                found = mixed_(some[:, None] + places)
                if halves:
                    found = found.view(torch.int32)
                to = to[:, low * (2 if halves else 1) :]
                to = to[:, : found.shape[1]]
                to.copy_(of(found[:, : to.shape[1]]))
        if whole is not out:
            out.copy_(whole)
        return out

    def bernoulli(self, out: torch.Tensor, p: Any) -> torch.Tensor:
        if isinstance(p, torch.Tensor):
            return out.copy_(self.uniform(torch.empty_like(p, memory_format=torch.contiguous_format)) < p)
        below = round(float(p) * 2**32) - 2**31
        if not -(2**31) <= below <= 2**31:
            raise errors.ArgumentError("a probability of %g, accepted: 0 to 1" % p)
        if below == 2**31:
            self.drew = True
            return out.fill_(1)
        return self._fill(out, lambda words: words < below, True)

    def uniform(self, out: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        if out.dtype == torch.float64:
            return self._fill(out, lambda words: (words >> 11 & (1 << 53) - 1).double() * ((high - low) * 2.0**-53) + low, False)
        bits = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}.get(out.dtype, 24)
        mask, scale = (1 << bits) - 1, (high - low) * 2.0**-bits
        return self._fill(out, lambda words: (words >> (32 - bits) & mask).float() * scale + low, True)

    def normal(self, out: torch.Tensor, mean: float = 0.0, std: float = 1.0) -> torch.Tensor:
        return self._fill(out, lambda words: torch.special.ndtri(inner(words)) * std + mean, False)

    def exponential(self, out: torch.Tensor, rate: float = 1.0) -> torch.Tensor:
        return self._fill(out, lambda words: -inner(words).log() / rate, False)

    def integers(self, out: torch.Tensor, low: int, high: int) -> torch.Tensor:
        return self._fill(out, lambda words: (inner(words) * (high - low)).floor() + low, False)

    def dropout(self, given: torch.Tensor, p: float, train: Optional[bool] = None) -> Any:
        if train is False or p == 0:
            return given.clone(), torch.ones_like(given, dtype=torch.bool)
        kept = self.bernoulli(torch.empty_like(given, memory_format=torch.contiguous_format), 1 - p)
        return given * kept * (0.0 if p == 1 else 1 / (1 - p)), kept.bool()


def inner(words: torch.Tensor) -> torch.Tensor:
    """Between 0 and 1, neither of them."""
    return ((words >> 12 & (1 << 52) - 1).double() + 0.5) * 2.0**-52


def made(like: torch.Tensor, options: Dict[str, Any]) -> torch.Tensor:
    """A tensor of the same shape, as the *_like functions make it."""
    options = {name: value for name, value in options.items() if value is not None}
    options.pop("memory_format", None)
    return torch.empty(like.shape, **{"dtype": like.dtype, "device": like.device, **options})


def operations() -> Dict[Any, Callable[..., Any]]:
    """Those of torch's random operations that models use; others leave their trace in torch's generator, which is watched."""
    a = torch.ops.aten

    def empty(size: Sequence[int], names: Any = None, **options: Any) -> torch.Tensor:
        return torch.empty(size, **options)

    def whole(size: Sequence[int], **options: Any) -> torch.Tensor:
        return torch.empty(size, **{"dtype": torch.int64, **options})

    found: Dict[Any, Callable[..., Any]] = {
        a.bernoulli.default: lambda d, p: d.bernoulli(torch.empty_like(p, memory_format=torch.contiguous_format), p),
        a.bernoulli.p: lambda d, like, p: d.bernoulli(made(like, {}), p),
        a.bernoulli_.float: lambda d, out, p=0.5: d.bernoulli(out, p),
        a.bernoulli_.Tensor: lambda d, out, p: d.bernoulli(out, p),
        a.native_dropout.default: lambda d, given, p, train: d.dropout(given, p, train),
        a.uniform_.default: lambda d, out, low=0.0, high=1.0: d.uniform(out, low, high),
        a.normal_.default: lambda d, out, mean=0.0, std=1.0: d.normal(out, mean, std),
        a.exponential_.default: lambda d, out, rate=1.0: d.exponential(out, rate),
        a.rand_like.default: lambda d, like, **o: d.uniform(made(like, o)),
        a.randn_like.default: lambda d, like, **o: d.normal(made(like, o)),
        a.randint_like.default: lambda d, like, high, **o: d.integers(made(like, o), 0, high),
        a.randint_like.low_dtype: lambda d, like, low, high, **o: d.integers(made(like, o), low, high),
    }
    for name, size in (("default", 0), ("generator", 0)):
        found[getattr(a.rand, name)] = lambda d, size, **o: d.uniform(empty(size, **o))
        found[getattr(a.randn, name)] = lambda d, size, **o: d.normal(empty(size, **o))
        found[getattr(a.randint, name)] = lambda d, high, size, **o: d.integers(whole(size, **o), 0, high)
    for name in ("low", "low_generator"):
        found[getattr(a.randint, name)] = lambda d, low, high, size, **o: d.integers(whole(size, **o), low, high)
    return found


OPERATIONS = operations()


def drawn_alone(run: Callable[[], Any], draws: Draws, first: int, count: int, device: Any, flat: bool = False) -> Any:
    """(run(), whether it drew): random numbers in it are those of each example, or of the step where all share them."""
    kind = torch.device(device).type
    with draws.together():
        watch = Watch(kind)
        with UnitDraws(draws.seeds(first, count, device), flat) as mode:
            found = run()
        if watch.torch_drawn:
            raise NotDrawn("vmap: a random operation that cannot be drawn for each example")
        return found, mode.drew or watch.drawn
