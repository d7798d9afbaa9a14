"""Operators, dispatch keys and tables: which function a call runs, and why.

Imports neither tensors nor NumPy. A dispatchable value is any object with an int attribute
``_flags``: its key set, and whether it requires grad.
"""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.dispatch.autograd_fallback import autograd_fallback_mode, set_autograd_fallback_mode
from pullback.dispatch.keys import (
    DispatchKey,
    DispatchKeySet,
    after_ADInplaceOrView,
    after_autograd,
    parse_key,
    runtime_keys_of,
)
from pullback.dispatch.modes import (
    AutoDispatchBelowADInplaceOrView,
    AutoDispatchBelowAutograd,
    AutoGradMode,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    InferenceModeGuard,
    excluded_keys,
    included_keys,
    is_grad_enabled,
)
from pullback.dispatch.operator import OpOverload, OpOverloadPacket
from pullback.dispatch.registry import RegistrationHandle
from pullback.dispatch.table import Entry, Kernel, fallthrough_kernel

if _typing.TYPE_CHECKING:
    from pullback.dispatch.dump import DispatchTable
    from pullback.dispatch.explanation import Explanation
    from pullback.dispatch.functional import define, impl
    from pullback.dispatch.library import Library
    from pullback.dispatch.python_dispatcher import PythonDispatcher
    from pullback.dispatch.queries import explain, find_dangling_impls, get_kernel, get_operator
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.dispatch.dump": ["DispatchTable"],
            "pullback.dispatch.explanation": ["Explanation"],
            "pullback.dispatch.functional": ["define", "impl"],
            "pullback.dispatch.library": ["Library"],
            "pullback.dispatch.python_dispatcher": ["PythonDispatcher"],
            "pullback.dispatch.queries": [
                "explain",
                "find_dangling_impls",
                "get_kernel",
                "get_operator",
            ],
        },
    )

__all__ = [
    "AutoDispatchBelowADInplaceOrView",
    "AutoDispatchBelowAutograd",
    "AutoGradMode",
    "DispatchKey",
    "DispatchKeySet",
    "DispatchTable",
    "Entry",
    "ExcludeDispatchKeyGuard",
    "Explanation",
    "IncludeDispatchKeyGuard",
    "InferenceModeGuard",
    "Kernel",
    "Library",
    "OpOverload",
    "OpOverloadPacket",
    "PythonDispatcher",
    "RegistrationHandle",
    "after_ADInplaceOrView",
    "after_autograd",
    "autograd_fallback_mode",
    "define",
    "excluded_keys",
    "explain",
    "fallthrough_kernel",
    "find_dangling_impls",
    "get_kernel",
    "get_operator",
    "impl",
    "included_keys",
    "is_grad_enabled",
    "parse_key",
    "runtime_keys_of",
    "set_autograd_fallback_mode",
]
