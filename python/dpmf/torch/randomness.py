# SPDX-License-Identifier: Apache-2.0
"""The states of the random-number generators that a training step draws from: torch's, Python's and NumPy's.

A step that is computed again after a crash must have the sum that it had: another dropout mask or augmentation under the
same row of noise, and the difference of two sums is out without noise. So checkpoints hold these states. They are made of
tensors and plain numbers, which torch.load(weights_only=True) reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from typing import Any, Dict, Iterator

import numpy as np
import torch


def states() -> Dict[str, Any]:
    """Of all of them."""
    kind, keys, *rest = np.random.get_state()
    out: Dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": [str(kind), torch.from_numpy(keys.astype(np.int64)), *[float(x) if x % 1 else int(x) for x in rest]],
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        out["cuda"] = torch.cuda.get_rng_state_all()
    return out


def restore(saved: Dict[str, Any]) -> None:
    """Puts them back."""
    torch.set_rng_state(saved["torch"].cpu())
    version, numbers, gauss = saved["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = saved["numpy"]
    np.random.set_state((kind, keys.cpu().numpy().astype(np.uint32), *rest))
    if "cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([state.cpu() for state in saved["cuda"]])


@contextlib.contextmanager
def seeded(secret: bytes, step: int) -> Iterator[None]:
    """Inside, the generators of the CPU are functions of (secret, step); outside, as they were."""
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state())
    digest = hashlib.sha256(secret + step.to_bytes(8, "little")).digest()
    torch.default_generator.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    random.seed(digest)
    np.random.seed(np.frombuffer(digest, np.uint32))
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])
