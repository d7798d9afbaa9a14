"""Which backward pass a thread is in, as far as code of the user's can ask.

A pass over nodes of operators alone runs no such code, so it does not even say that it runs. It
begins to say so when it meets a function of the user's. Hooks need more than that: where a pass
meets one, or finds out late that it is about to call it, it raises ``NeedsPassError`` and goes on
in another way.
"""

from __future__ import annotations

from pullback.tensor.levels import running_pass

__all__ = ["NeedsPassError", "current_graph_task", "set_graph_task"]

current_graph_task = running_pass.get  # the pass that this thread is in, if any
set_graph_task = running_pass.set


class NeedsPassError(Exception):
    """Code of the user's is about to be called in a pass that nobody knows of yet."""
