# SPDX-License-Identifier: Apache-2.0
"""Which of several processes this is, and what they must agree about."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Optional, Tuple

import torch
import torch.distributed

from .. import errors


def rank_of(group: Any) -> Tuple[int, int]:
    """(rank, processes); group False: this process alone."""
    if group is False or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)


class Group:
    """The processes that train together, and this one's place among them."""

    def __init__(self, group: Any, device: Any):
        self._group, self._device = group, device
        self.rank, self.world = rank_of(group)

    def add_up_(self, tensor: torch.Tensor) -> None:
        if self.world > 1:
            torch.distributed.all_reduce(tensor, group=self._group)

    def worst(self, number: int) -> int:
        """The largest of all processes' numbers."""
        if self.world == 1:
            return number
        found = torch.tensor([number], dtype=torch.int64, device=self._device)
        torch.distributed.all_reduce(found, op=torch.distributed.ReduceOp.MAX, group=self._group)
        return int(found.item())

    def same(self, what: Dict[str, Any]) -> None:
        """Raises in all processes unless all have the same."""
        if self.world == 1:
            return
        digest = hashlib.sha256(repr(sorted(what.items())).encode()).digest()
        mine = torch.tensor([int.from_bytes(digest[:7], "little")], dtype=torch.int64, device=self._device)
        low, high = mine.clone(), mine
        torch.distributed.all_reduce(low, op=torch.distributed.ReduceOp.MIN, group=self._group)
        torch.distributed.all_reduce(high, op=torch.distributed.ReduceOp.MAX, group=self._group)
        if int(low.item()) != int(high.item()):
            raise errors.StateError("the processes do not have the same %s" % ", ".join(what))

    def raise_together(self, error: Optional[BaseException]) -> None:
        """Raises if any process has an error: its own where it has one."""
        failed = self.worst(int(error is not None))
        if error is not None:
            raise error
        if failed:
            raise errors.StateError("another process was refused: no process takes the step")

    def gathered(self, tensor: torch.Tensor) -> Any:
        """Everybody's, in their order."""
        if self.world == 1:
            return [tensor]
        out = [torch.empty_like(tensor) for _ in range(self.world)]
        torch.distributed.all_gather(out, tensor, group=self._group)
        return out

    def from_first(self, data: bytes) -> bytes:
        """The bytes of the first process, of the same length in all."""
        if self.world == 1:
            return data
        mine = torch.tensor(list(data), dtype=torch.uint8, device=self._device)
        self.broadcast_([mine])
        return bytes(mine.cpu().numpy())

    def broadcast_(self, tensors: Any) -> None:
        if self.world > 1:
            first = torch.distributed.get_global_rank(self._group, 0) if self._group is not None else 0
            for tensor in tensors:
                torch.distributed.broadcast(tensor.data, first, group=self._group)
