"""``autograd.tracer``: traces of programs, and what is seen of values inside of them."""

from __future__ import annotations

from pullback.compat.autograd.boxes import Box, getval, isbox
from pullback.compat.autograd.primitives import notrace_primitive, primitive
from pullback.compat.autograd.recording import Node, trace
from pullback.compat.autograd.util import toposort

__all__ = ["Box", "Node", "getval", "isbox", "notrace_primitive", "primitive", "toposort", "trace"]
