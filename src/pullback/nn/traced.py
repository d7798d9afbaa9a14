"""Calls of modules in a traced program: attributes that its graph depends on, and hooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.fx.tracer import current_tracer, forbid_in_trace
from pullback.tensor import Tensor

__all__ = ["trace_call"]

_REGISTRIES = ("_parameters", "_buffers", "_modules")
_VALUES = (bool, int, float, complex, str, tuple, type(None), np.ndarray, Tensor)


def trace_call(module: Any) -> None:
    """Notes, in a traced program, which attributes of a module its graph depends on.

    Raises where the module has a hook, which has to run in each call.
    """
    tracer = current_tracer()
    if tracer is None:
        return
    held = vars(module)
    if held["_has_hooks"]:
        forbid_in_trace(f"a hook of {type(module).__name__}")
    for name in _REGISTRIES:
        for key in held[name]:
            tracer.note(held[name], key)
    for name, value in held.items():
        if isinstance(value, _VALUES):
            tracer.note(held, name)
