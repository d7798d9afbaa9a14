"""The backward pass.

A pass pulls the cotangents of some roots back to the leaves of a graph. A node runs once, after all
its cotangents have arrived, so that it and its hooks get one total. There are two ways to find a
node that is ready:

*Dependency counting* (Kahn's topological sort): count, for each node that the roots reach, the
edges that lead to it. A cotangent that arrives lowers the count; at zero the node is ready. Of the
ready nodes the last recorded one runs first, and accumulation nodes of leaves before all others.

*Sequence numbers*: a thread gives each node that it records a higher number than the one before. An
edge leads to a node that was recorded earlier, so among all nodes with a cotangent the one with the
highest number is ready, and no count is needed. Leaves have no such number; they run after all
other nodes. The two orders differ only in when the gradient of a leaf is written, which hooks alone
can observe, and in a pass that raises, where the leaves that were ready are written first.

So a pass starts with sequence numbers and counts from the first node or leaf with hooks on. It
counts from the start if several threads have recorded the graph and their numbers do not order it,
if cotangents are batched, and in anomaly mode.

Two loops run the nodes. Neither recurses: a chain of a million nodes is a million rounds.

- ``array_loop.py``: on raw arrays, by sequence numbers, without hooks. Nearly every pass is this
  loop alone.
- ``GraphTask`` (``graph_task.py``): the general loop, on any namespace: tensors, when the pass is
  recorded itself, dual arrays (``linearize/backward.py``, where the order of all nodes is known
  and no queue is needed), and arrays where there are hooks.

``GraphTask.run`` is the driver of every pass; ``fast_path.py`` skips it for a scalar loss.
"""

from __future__ import annotations

__all__: list[str] = []
