"""Primitives: operations that are computed on arrays, with derivative rules on tensors.

The operators of the tables take what a schema can describe; a primitive takes any constants besides
(factorisations, sparsity patterns, functions). It has a JVP rule and, where its JVP rule calls it
again or would be slow to transpose, a VJP rule. Both are made of operators and primitives, so
derivatives of every order exist. Under ``vmap`` a primitive loops over the batch dimension. The
rules of SciPy's functions and the operations on sparse arrays are made of primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.autograd.forward.tangents import carries_gradient
from pullback.autograd.function import Function
from pullback.autograd.namespaces import tensors as xp
from pullback.dispatch.modes import TRACE, get_state
from pullback.func.reverse import vjp as func_vjp
from pullback.fx.array_call import ArrayCall
from pullback.fx.refusals import current_tracer
from pullback.operators.creation import functions as creation
from pullback.tensor.batched import BatchedArray
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, constant_tensor, has_values, holds_number

__all__ = ["Known", "Primitive", "all_values", "apply_linear", "conjugate", "no_tangent"]

_Rule = Callable[..., Any]


class Known(NamedTuple):
    """Inputs, outputs and options of a call, for the derivative rules of a primitive."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    options: dict[str, Any]
    needs: tuple[bool, ...] = ()  # for each input, whether a VJP rule has to give its cotangent


class Primitive:
    """An operation on arrays with derivative rules.

    `forward(*arrays, **options)` returns an array or a tuple of arrays. ``jvp(known, *tangents)``
    gets a tangent for each input, None for those without, and returns a tangent for each output.
    ``vjp(known, *cotangents)`` gets a cotangent for each output, None for those without, and
    returns one for each input. Where a real number is wanted, an imaginary part is dropped.
    `reads` says what the rules read; what they do not read is not saved, and is missing in `known`.

    >>> import pullback as pb
    >>> cube = Primitive("cube", lambda x: x**3, lambda known, t: 3 * known.inputs[0] ** 2 * t)
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad.tolist()
    [3.0, 12.0]
    """

    def __init__(
        self,
        name: str,
        forward: _Rule,
        jvp: _Rule,
        vjp: _Rule | None = None,
        reads: str = "inputs outputs",
    ):
        self.name = name
        self.forward = forward
        self.jvp = jvp
        self.vjp = vjp
        self.reads = frozenset(reads.split())

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Applies the primitive to tensors, arrays and numbers."""
        tensors = [_as_tensor(value) for value in inputs]
        if not any(map(_is_traced, tensors)):  # saves 30 µs of Function.apply
            return self.compute(tensors, options)
        return _Call.apply(self, options, *tensors)

    def compute(self, inputs: Sequence[Tensor], options: dict[str, Any]) -> Any:
        """The results as tensors; where a program is traced, by a node of its graph."""
        tracer = current_tracer()
        is_traced = get_state().modes & TRACE or not all(map(has_values, inputs))
        if tracer is None or not is_traced or all(map(holds_number, inputs)):
            return self._compute(inputs, options)
        call = ArrayCall(self.name, lambda given: self._compute(given, options))
        return tracer.record_function(call, (list(inputs),), {})

    def _compute(self, inputs: Sequence[Tensor], options: dict[str, Any]) -> Any:
        """The results as tensors; what shares memory with an input is copied."""
        arrays = [np.asarray(tensor._array).view() for tensor in inputs]

        def wrap(result: Any) -> Tensor:
            array = np.asarray(result)
            is_view = array.base is not None  # as the inputs are
            is_shared = is_view and any(np.may_share_memory(array, given) for given in arrays)
            return constant_tensor(array.copy() if is_shared else array)

        found = self.forward(*arrays, **options)
        return tuple(map(wrap, found)) if isinstance(found, tuple) else wrap(found)


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else creation.asarray(value)


def _is_traced(tensor: Tensor) -> bool:
    """Whether a derivative or a batch dimension would be lost with the tensor."""
    return carries_gradient(tensor) or isinstance(tensor._array, Payload)


class _Call(Function):
    """One call of a primitive."""

    @staticmethod
    def forward(rules: Primitive, options: dict[str, Any], *inputs: Tensor) -> Any:
        return rules.compute(inputs, options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rules, ctx.options, *tensors = inputs
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.set_materialize_grads(False)
        ctx.dtypes = [value.dtype for value in tensors], [value.dtype for value in outputs]
        kept = (
            (tensors if "inputs" in ctx.rules.reads else []),
            (outputs if "outputs" in ctx.rules.reads else ()),
        )
        ctx.count = len(kept[0])
        ctx.save_for_backward(*kept[0], *kept[1])
        ctx.save_for_forward(*kept[0], *kept[1])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        dtypes = ctx.dtypes[0]
        if all(cotangent is None for cotangent in cotangents):
            return (None,) * (len(dtypes) + 2)
        rule = ctx.rules.vjp or _transpose(ctx.rules.jvp)
        found = _as_tuple(rule(_known(ctx), *cotangents))
        return (None, None, *map(_cast, found, dtypes))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        dtypes = ctx.dtypes[1]
        found = tuple(map(_cast, _as_tuple(ctx.rules.jvp(_known(ctx), *tangents[2:])), dtypes))
        return found if len(dtypes) > 1 else found[0]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        rules, options, *tensors = args
        results = []
        for i in range(info.batch_size):
            pairs = zip(tensors, in_dims[2:], strict=True)
            sample = [t if dim is None else xp.select(t, dim, i) for t, dim in pairs]
            results.append(_Call.apply(rules, options, *sample))
        if isinstance(results[0], tuple):
            stacked = tuple(xp.stack(list(parts), 0) for parts in zip(*results, strict=True))
            return stacked, (0,) * len(stacked)
        return xp.stack(results, 0), 0


def _known(ctx: Any) -> Known:
    saved = ctx.saved_tensors
    return Known(saved[: ctx.count], saved[ctx.count :], ctx.options, ctx.needs_input_grad[2:])


def _as_tuple(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple | list) else (found,)


def _cast(found: Tensor | None, dtype: np.dtype[Any]) -> Tensor | None:
    if found is None or found.dtype == dtype or dtype.kind not in "fc":
        return found
    if dtype.kind == "f" and found.dtype.kind == "c":
        found = xp.real(found)
    return xp.astype(found, dtype) if found.dtype != dtype else found


def _transpose(jvp: _Rule) -> _Rule:
    """The VJP rule that a JVP rule implies: its transpose."""

    def rule(known: Known, *cotangents: Tensor | None) -> Any:
        zeros = [xp.zeros_like(value) for value in known.inputs]
        wanted = [place for place, value in enumerate(cotangents) if value is not None]

        def push(*tangents: Tensor) -> tuple[Any, ...]:
            found = _as_tuple(jvp(known, *tangents))
            return tuple(_cast(found[place], known.outputs[place].dtype) for place in wanted)

        _, pull = func_vjp(push, *zeros)
        return pull(tuple(cotangents[place] for place in wanted))

    return rule


# --- linear maps ----------------------------------------------------------------------------------


def _linear_vjp(known: Known, cotangent: Tensor) -> Tensor:
    options = {"map": known.options["transpose"], "transpose": known.options["map"]}
    return conjugate(_LINEAR(conjugate(cotangent), **options))


_LINEAR: Primitive = Primitive(
    "linear",
    lambda x, map, transpose: map(x),  # noqa: ARG005 - for the derivatives
    lambda known, tangent: _LINEAR(tangent, **known.options),
    _linear_vjp,
    reads="",
)


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
    return _LINEAR(x, map=forward, transpose=transpose)  # type: ignore[no-any-return]


def no_tangent(known: Known, *_: Any) -> None:
    """The JVP rule of integers, which have no tangent."""
    del known


def conjugate(tensor: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    return xp.conj(tensor) if tensor.dtype.kind == "c" else tensor


def all_values(tensor: Tensor) -> NDArray[Any]:
    """The array of a tensor; inside ``vmap``, that of all samples, with their axes in front."""
    held = tensor._array
    return np.asarray(held.array if isinstance(held, BatchedArray) else held)
