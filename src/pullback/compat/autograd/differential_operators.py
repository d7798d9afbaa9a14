"""HIPS autograd's differential operators: ``grad``, ``jacobian``, ``make_vjp`` and the rest.

An operator takes a function and ``argnum``, a position or a tuple of them (then the result is a
tuple), and gives a function of the same arguments.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.compat.autograd import numpy as anp
from pullback.compat.autograd.linear import Pulled, pushed
from pullback.compat.autograd.primitives import defjvp_argnum, defvjp_argnum, primitive
from pullback.compat.autograd.wrap_util import unary_to_nary
from pullback.errors import AutogradTypeError
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = [
    "checkpoint",
    "deriv",
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "jacobian",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_vjp",
    "multigrad_dict",
    "tensor_jacobian_product",
    "value_and_grad",
    "vector_jacobian_product",
]

_Function = Callable[..., Any]


def _require_real(name: str, pulled: Pulled, *, scalar: bool) -> Tensor:
    """The value of a function that has to be real, and perhaps a scalar."""
    value = pulled.single
    if pulled.argument.returned_bool:
        raise AutogradTypeError(
            f"{name}: the function returned a bool, which has no derivative; return a number"
        )
    if value is None or value.dtype.kind == "c" or (scalar and value.size != 1):
        kind = "a tree" if value is None else f"{value.dtype} of shape {value.shape}"
        wanted = "real scalar-output" if scalar else "real-output"
        raise AutogradTypeError(
            f"{name} only applies to {wanted} functions, and this one returns {kind}. Try "
            f"jacobian, elementwise_grad or holomorphic_grad."
        )
    return value


def _ones(tensor: Tensor) -> Any:
    ones = np.ones(tensor.shape, tensor.dtype)
    return ones * (1 + 1j) if tensor.dtype.kind == "c" else ones


def _seed(value: Tensor) -> Any:
    return np.ones(value.shape, value.dtype)


@unary_to_nary
def grad(fun: _Function, x: Any) -> Any:
    """
    Returns a function which computes the gradient of a real function with one element as result.

    >>> grad(lambda x, y: x * y**2, (0, 1))(2.0, 3.0)
    (9.0, 12.0)
    """
    pulled = Pulled(fun, x)
    return pulled(_seed(_require_real("Grad", pulled, scalar=True)))


@unary_to_nary
def value_and_grad(fun: _Function, x: Any) -> Any:
    """A function that computes the value and the gradient.

    >>> value_and_grad(lambda x: x**2)(3.0)
    (9.0, 6.0)
    """
    pulled = Pulled(fun, x)
    value = _require_real("value_and_grad", pulled, scalar=True)
    return pulled.argument.result(value), pulled(_seed(value))


@unary_to_nary
def grad_and_aux(fun: _Function, x: Any) -> Any:
    """For a function that returns two things: the gradient of the first, and the second.

    >>> grad_and_aux(lambda x: (x**2, 10 * x))(3.0)
    (6.0, 30.0)
    """
    aux: list[Any] = []

    def first(argument: Any) -> Any:
        value, other = fun(argument)
        aux.append(other)
        return value

    def both(argument: Any) -> Any:
        value = first(argument)
        leaves, spec = pytree.flatten(aux.pop())
        arrays = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        aux.append((leaves, spec, arrays))
        return value, [leaves[place] for place in arrays]

    pulled = Pulled(both, x)
    value, found = pulled.value
    leaves, spec, arrays = aux.pop()
    for place, tensor in zip(arrays, found, strict=True):
        leaves[place] = pulled.argument.result(tensor)
    zeros = [np.zeros(tensor.shape, tensor.dtype) for tensor in found]
    return pulled((_seed(value), zeros)), pytree.unflatten(spec, leaves)


@unary_to_nary
def elementwise_grad(fun: _Function, x: Any) -> Any:
    """A function that computes the sums of the Jacobian's columns in one pass.

    >>> elementwise_grad(lambda x: x**2)(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    pulled = Pulled(fun, x)
    return pulled(_seed(_require_real("Elementwise_grad", pulled, scalar=False)))


@unary_to_nary
def deriv(fun: _Function, x: Any) -> Any:
    """A function that computes the derivative in the direction of all ones, in forward mode.

    The direction of a complex argument is 1 + 1j, as in HIPS autograd.

    >>> deriv(lambda x: x**3)(2.0)
    12.0
    """
    leaves, spec = pytree.flatten(x)
    ones = [_ones(leaf) if isinstance(leaf, Tensor) else _ones_of(leaf) for leaf in leaves]
    return pushed(fun, x, pytree.unflatten(spec, ones))[1]


def _ones_of(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return np.ones(array.shape, array.dtype) * (1 + 1j if array.dtype.kind == "c" else 1)


@unary_to_nary
def jacobian(fun: _Function, x: Any) -> Any:
    """A function that computes the Jacobian: the axes of the result, then those of the argument.

    >>> jacobian(lambda x: x * x[0])(np.array([1.0, 2.0]))
    array([[2., 0.],
           [2., 1.]])
    """
    pulled = Pulled(fun, x)
    value = _require_real("jacobian", pulled, scalar=False)
    rows = []
    for place in range(value.size):
        seed = np.zeros(value.size, value.dtype)
        seed[place] = 1
        rows.append(pytree.flatten(pulled(seed.reshape(value.shape)))[0])
    made = []
    for number, argument in enumerate(pulled.argument.leaves):
        shape = value.shape + argument.shape
        parts = [row[number] for row in rows]
        made.append(anp.reshape(anp.stack(parts), shape) if parts else np.zeros(shape))
    return pytree.unflatten(pulled.argument.spec, made)


@unary_to_nary
def hessian(fun: _Function, x: Any) -> Any:
    """A function that computes the Hessian.

    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def holomorphic_grad(fun: _Function, x: Any) -> Any:
    """A function that computes the complex derivative of a holomorphic function.

    >>> holomorphic_grad(lambda z: z**2)(1 + 2j)
    (2+4j)
    """
    if not anp.iscomplexobj(x):
        warnings.warn("Input to holomorphic_grad is not complex", stacklevel=3)
    return grad(lambda z: anp.real(fun(z)))(x)


def grad_named(fun: _Function, argname: str) -> _Function:
    """The gradient by an argument that is chosen by its name.

    >>> grad_named(lambda x, scale: x * scale, "scale")(2.0, 3.0)
    2.0
    """
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def multigrad_dict(fun: _Function) -> _Function:
    """The gradients by all arguments, as a dictionary by their names.

    >>> multigrad_dict(lambda x, scale: x * scale)(2.0, scale=3.0)
    {'x': 3.0, 'scale': 2.0}
    """
    signature = inspect.signature(fun)

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def by_names(values: dict[str, Any]) -> Any:
            bound.arguments = values
            return fun(*bound.args, **bound.kwargs)

        return dict(grad(by_names)(dict(bound.arguments)))

    return run


@unary_to_nary
def make_vjp(fun: _Function, x: Any) -> Any:
    """``make_vjp(fun)(x)`` is the function that pulls cotangents back, and the value.

    >>> vjp, value = make_vjp(lambda x: x**2)(3.0)
    >>> vjp(1.0), value
    (6.0, 9.0)
    """
    pulled = Pulled(fun, x)
    return pulled, pulled.argument.result(pulled.value)


@unary_to_nary
def make_jvp(fun: _Function, x: Any) -> Any:
    """``make_jvp(fun)(x)(v)`` is the value and the derivative in the direction v.

    >>> make_jvp(lambda x: x**2)(3.0)(1.0)
    (9.0, 6.0)
    """
    return lambda tangent: pushed(fun, x, tangent)


@unary_to_nary
def make_hvp(fun: _Function, x: Any) -> Any:
    """``make_hvp(fun)(x)`` is the function that multiplies by the Hessian, and the gradient.

    >>> hvp, gradient = make_hvp(lambda x: x**3)(2.0)
    >>> hvp(1.0), gradient
    (12.0, 12.0)
    """
    return make_vjp(grad(fun))(x)


def hessian_tensor_product(fun: _Function, argnum: int = 0) -> _Function:
    """The product of the Hessian with a tensor, which comes after the arguments of the function.

    >>> hessian_vector_product(lambda x: x**3)(2.0, 10.0)
    120.0
    """
    slope = grad(fun, argnum)

    def along(*args: Any, **kwargs: Any) -> Any:
        *given, vector = args
        return anp.tensordot(slope(*given, **kwargs), vector, anp.ndim(vector))

    return grad(along, argnum)


def tensor_jacobian_product(fun: _Function, argnum: int = 0) -> _Function:
    """The product of a tensor, which comes after the arguments, with the Jacobian.

    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 10.0])
    >>> vector_jacobian_product(lambda x: x**2)(x, v)
    array([ 2., 40.])
    """

    def along(*args: Any, **kwargs: Any) -> Any:
        *given, vector = args
        return anp.tensordot(vector, fun(*given, **kwargs), axes=anp.ndim(vector))

    return jacobian(along, argnum)


hessian_vector_product = hessian_tensor_product
vector_jacobian_product = tensor_jacobian_product


def make_ggnvp(
    f: _Function, g: _Function = lambda x: anp.sum(x**2, axis=-1) / 2, f_argnum: int = 0
) -> _Function:
    """``make_ggnvp(f, g)(x)`` multiplies by the Gauss-Newton matrix of g(f(x)).

    >>> make_ggnvp(lambda x: x**2)(np.array([1.0, 2.0]))(np.array([1.0, 1.0]))
    array([ 4., 16.])
    """

    def at(fun: _Function, x: Any) -> Any:
        back, value = make_vjp(fun)(x)
        curve, _ = make_vjp(grad(g))(value)
        return lambda vector: back(curve(pushed(fun, x, vector)[1]))

    return unary_to_nary(at)(f, f_argnum)


def checkpoint(fun: _Function) -> _Function:
    """The function, computed once more in the backward pass instead of kept in memory.

    >>> grad(checkpoint(lambda x: x**2))(3.0)
    6.0
    """
    wrapped: _Function = primitive(fun)
    defvjp_argnum(
        wrapped,
        lambda argnum, ans, args, kwargs: make_vjp(fun, argnum)(*args, **kwargs)[0],  # noqa: ARG005
    )
    defjvp_argnum(
        wrapped,
        lambda argnum, g, ans, args, kwargs: (  # noqa: ARG005
            make_jvp(fun, argnum)(*args, **kwargs)(g)[1]
        ),
    )
    return wrapped
