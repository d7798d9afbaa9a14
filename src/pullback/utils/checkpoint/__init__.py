"""Checkpointing: computing again instead of keeping; PyTorch's ``torch.utils.checkpoint``.

``frame.py`` is the heart: what a checkpointed function saves is forgotten, and saved again by
running the function a second time when a backward pass asks for it. ``reentrant.py`` is PyTorch's
older way. ``loop.py`` keeps a loop within a memory budget, by the schedule of ``schedule.py``.
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
