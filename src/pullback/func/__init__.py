"""Function transforms: derivatives of functions of trees of tensors; PyTorch's ``torch.func``."""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
from pullback.func.forward import jvp, linearize
from pullback.func.jacobians import hessian, jacfwd, jacrev
from pullback.func.modules import functional_call, stack_module_state
from pullback.func.reverse import grad, grad_and_value, vjp
from pullback.func.vmap import vmap

if _typing.TYPE_CHECKING:
    from pullback.func.functional_form import functionalize
else:
    __getattr__, __dir__ = _lazy_names(
        __name__, {"pullback.func.functional_form": ["functionalize"]}
    )

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
