"""The graph: recording, the backward pass, hooks and modes; PyTorch's ``torch.autograd``."""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.autograd.api import backward, grad
from pullback.autograd.debug.anomaly import (
    detect_anomaly,
    is_anomaly_check_finite_enabled,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from pullback.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from pullback.autograd.graph.node_methods import attach_methods as _attach_node_methods
from pullback.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from pullback.autograd.record import not_implemented as _not_implemented  # noqa: F401 - registers itself
from pullback.autograd.tensor_methods import attach_methods as _attach_tensor_methods

if _typing.TYPE_CHECKING:
    from pullback.autograd import forward_ad, function, functional, graph
    from pullback.autograd.debug.why_no_grad import why_no_grad
    from pullback.autograd.function import Function
    from pullback.autograd.graph import SavedTensor
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.autograd": ["forward_ad", "function", "functional", "graph"],
            "pullback.autograd.function": ["Function"],
            "pullback.autograd.graph": ["SavedTensor"],
            "pullback.autograd.debug.why_no_grad": ["why_no_grad"],
        },
    )

__all__ = [
    "Function",
    "GradcheckError",
    "SavedTensor",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_finite_enabled",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "why_no_grad",
]

_attach_tensor_methods()
_attach_node_methods()
