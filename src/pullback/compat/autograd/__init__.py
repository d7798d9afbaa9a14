"""HIPS autograd's names: ``import pullback.compat.autograd as autograd``.

The same functions at the same places, with the same conventions: arrays and floats in and out,
gradients of complex arguments conjugated with respect to PyTorch's. ``docs/migration.md`` lists
the differences.

>>> import pullback.compat.autograd.numpy as np
>>> from pullback.compat.autograd import grad
>>> round(grad(np.tanh)(1.0), 6)
0.419974
"""

from __future__ import annotations

from pullback.compat.autograd import (
    builtins,
    core,
    differential_operators,
    extend,
    misc,
    numpy,
    scipy,
    test_util,
    tracer,
    util,
    wrap_util,
)
from pullback.compat.autograd.builtins import dict, isinstance, list, tuple, type
from pullback.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)
from pullback.compat.autograd.primitives import primitive

__all__ = [
    "builtins",
    "checkpoint",
    "core",
    "deriv",
    "dict",
    "differential_operators",
    "elementwise_grad",
    "extend",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "isinstance",
    "jacobian",
    "list",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_vjp",
    "misc",
    "multigrad_dict",
    "numpy",
    "primitive",
    "scipy",
    "tensor_jacobian_product",
    "test_util",
    "tracer",
    "tuple",
    "type",
    "util",
    "value_and_grad",
    "vector_jacobian_product",
    "wrap_util",
]
