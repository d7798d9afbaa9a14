"""Checkpointing: recomputation instead of saved tensors, as in ``torch.utils.checkpoint``.

``frame.py`` is the main part: saved tensors of a checkpointed function are dropped, and recomputed
by a second run of the function when a backward pass first needs one. ``reentrant.py`` is PyTorch's
older variant. ``loop.py`` keeps a loop within a memory budget, by the schedule of ``schedule.py``.
"""

from __future__ import annotations

from pullback.errors import CheckpointError
from pullback.utils.checkpoint.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from pullback.utils.checkpoint.loop import checkpoint_loop

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_loop",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
