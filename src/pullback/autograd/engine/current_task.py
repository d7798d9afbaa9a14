"""The current backward pass of a thread, for user code that reads ``current_graph_task()``.

A pass over nodes of operators alone runs no user code, and is not published. It is published before
the first user function runs. Hooks need a whole ``GraphTask``: where a fast path reaches a hook, it
raises ``NeedsPassError``, and the general path takes over.
"""

from __future__ import annotations

from pullback.tensor.levels import running_pass

__all__ = ["NeedsPassError", "current_graph_task", "set_graph_task"]

current_graph_task = running_pass.get  # the pass that this thread is in, if any
set_graph_task = running_pass.set


class NeedsPassError(Exception):
    """User code is about to be called in a pass that is not published yet."""
