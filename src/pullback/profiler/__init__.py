"""``profile``: time, calls and memory of each operator, forward and backward.

>>> import pullback as pb
>>> x = pb.tensor([1.0, 2.0], requires_grad=True)
>>> with pb.profiler.profile() as prof:
...     (x * x).sum().backward()
>>> sorted({average.name for average in prof.key_averages()})
['MulBackward0', 'SumBackward0', 'mul', 'sum']
"""

from __future__ import annotations

from pullback.profiler.averages import Average, Averages
from pullback.profiler.events import Event
from pullback.profiler.profile import profile

__all__ = ["Average", "Averages", "Event", "profile"]
