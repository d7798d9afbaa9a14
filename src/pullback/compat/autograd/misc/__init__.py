"""``autograd.misc``: containers as vectors, simple optimizers, fixed points, graphs of programs."""

from __future__ import annotations

from pullback.compat.autograd.misc import fixed_points, optimizers, tracers
from pullback.compat.autograd.misc.flatten import flatten
from pullback.compat.autograd.misc.tracers import const_graph, full_graph

__all__ = ["const_graph", "fixed_points", "flatten", "full_graph", "optimizers", "tracers"]
