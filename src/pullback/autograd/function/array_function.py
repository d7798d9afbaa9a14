"""``ArrayFunction``: a ``Function`` with a kernel on arrays, for operations on constant objects.

Operators of the tables take what a schema can describe. The rules of SciPy's functions pass
factorisations, sparsity patterns and intervals as well, which a ``Function`` may take. A subclass
has a `kernel` on arrays, and a `vjp_rule` and a ``jvp`` that apply ArrayFunctions and operators, so
that derivatives of any order follow. ``vmap`` calls the kernel once for each sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.function.function import Function
from pullback.autograd.namespaces import tensors
from pullback.tensor.batched import BatchedArray
from pullback.tensor.tensor import Tensor, fresh

__all__ = [
    "ArrayFunction",
    "LinearMap",
    "all_values",
    "apply_linear",
    "conjugate",
    "cotangent_for",
]


class ArrayFunction(Function):
    """A function of tensors and constant objects with one result, computed by `kernel`.

    The tensors are saved for `vjp_rule` and ``jvp``; the other arguments are `ctx.constants`. A
    tangent that is zero is None.
    """

    @staticmethod
    def kernel(*args: Any) -> Any:
        """Computes the result; gets arrays in the place of tensors."""
        raise NotImplementedError

    @classmethod
    def forward(cls, *args: Any) -> Any:
        """Runs the kernel on the arrays."""
        arrays = [np.asarray(a._array) if isinstance(a, Tensor) else a for a in args]
        return fresh(np.asarray(cls.kernel(*arrays)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Saves the tensors among the inputs, and keeps the constants."""
        given = [value for value in inputs if isinstance(value, Tensor)]
        ctx.save_for_backward(*given)
        ctx.save_for_forward(*given)
        ctx.constants = [value for value in inputs if not isinstance(value, Tensor)]
        ctx.set_materialize_grads(False)

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """The cotangents of the arguments, None for constants."""
        raise NotImplementedError

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Runs `vjp_rule`, unless the result has no cotangent."""
        if grads[0] is None:
            return (None,) * len(ctx.needs_input_grad)
        return cls.vjp_rule(ctx, grads[0])

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Applies the function to each sample."""
        samples = [
            cls.apply(
                *(
                    value if dim is None else value[number]
                    for value, dim in zip(args, in_dims, strict=True)
                )
            )
            for number in range(info.batch_size)
        ]
        return tensors.stack(samples), 0


@dataclass(frozen=True, slots=True)
class LinearMap:
    """A linear map of arrays and its transpose (not conjugated)."""

    forward: Callable[[NDArray[Any]], Any]
    transpose: Callable[[NDArray[Any]], Any]


class _Linear(ArrayFunction):
    """A linear map of one tensor."""

    @staticmethod
    def kernel(x: NDArray[Any], linear: LinearMap) -> Any:
        return linear.forward(x)

    @staticmethod
    def vjp_rule(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x,), (linear,) = ctx.saved_tensors, ctx.constants
        transposed = LinearMap(linear.transpose, linear.forward)
        return cotangent_for(x, conjugate(_Linear.apply(conjugate(grad), transposed))), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        return _Linear.apply(tangent, ctx.constants[0])


def apply_linear(
    x: Tensor, forward: Callable[[NDArray[Any]], Any], transpose: Callable[[NDArray[Any]], Any]
) -> Tensor:
    """Applies a linear map of arrays to a tensor; `transpose` is its transpose, not conjugated.

    >>> import numpy as np, pullback as pb
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> x = pb.tensor([1.0, 1.0], requires_grad=True)
    >>> y = apply_linear(x, lambda v: a @ v, lambda v: a.T @ v)
    >>> y.tolist(), pb.autograd.grad(y.sum(), x)[0].tolist()
    ([3.0, 7.0], [4.0, 6.0])
    """
    return _Linear.apply(x, LinearMap(forward, transpose))  # type: ignore[no-any-return]


def conjugate(tensor: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    return tensors.conj(tensor) if tensor.dtype.kind == "c" else tensor


def cotangent_for(primal: Tensor, cotangent: Tensor) -> Tensor:
    """The cotangent of a tensor: its real part if the tensor is real."""
    is_real = primal.dtype.kind != "c" and cotangent.dtype.kind == "c"
    return tensors.real(cotangent) if is_real else cotangent


def all_values(tensor: Tensor) -> NDArray[Any]:
    """The array of a tensor; inside ``vmap``, that of all samples, with their axes in front."""
    held = tensor._array
    return np.asarray(held.array if isinstance(held, BatchedArray) else held)
