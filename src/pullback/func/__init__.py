"""Function transforms: derivatives of functions of trees of tensors; PyTorch's ``torch.func``."""

from __future__ import annotations

from pullback.func.forward import jvp, linearize
from pullback.func.jacobians import hessian, jacfwd, jacrev
from pullback.func.modules import functional_call, stack_module_state
from pullback.func.reverse import grad, grad_and_value, vjp
from pullback.func.vmap import vmap

__all__ = [
    "functional_call",
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
