"""Primitives: operations that SciPy computes on arrays, with derivative rules on tensors.

A rule of ``pullback.scipy.rules`` is made of operators and of primitives. A primitive has a JVP
rule and, where its JVP rule calls it again or would be slow to transpose, a VJP rule. Both are made
of operators and primitives, so derivatives of every order exist. Under ``vmap`` a primitive loops
over the batch dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.autograd.function import Function
from pullback.autograd.namespaces import tensors as xp
from pullback.func.reverse import vjp as func_vjp
from pullback.interop.arguments import as_tensor, carries_gradient, raw
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, constant_tensor

__all__ = ["Known", "Primitive"]

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

    >>> import pullback as pb
    >>> cube = Primitive("cube", lambda x: x**3, lambda known, t: 3 * known.inputs[0] ** 2 * t)
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad.tolist()
    [3.0, 12.0]
    """

    def __init__(self, name: str, forward: _Rule, jvp: _Rule, vjp: _Rule | None = None):
        self.name = name
        self.forward = forward
        self.jvp = jvp
        self.vjp = vjp

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Applies the primitive to tensors, arrays and numbers."""
        tensors = [as_tensor(value) for value in inputs]
        if not any(map(_is_traced, tensors)):  # saves 30 µs of Function.apply
            return _wrap(self.forward(*map(raw, tensors), **options))
        return _Call.apply(self, options, *tensors)


def _is_traced(tensor: Tensor) -> bool:
    """Whether a derivative or a batch dimension would be lost with the tensor."""
    return carries_gradient(tensor) or isinstance(tensor._array, Payload)


def _wrap(found: Any) -> Any:
    """Results as tensors. Arrays that are views are copied: an input may be written to later."""
    if isinstance(found, tuple):
        return tuple(map(_wrap, found))
    array = np.asarray(found)
    return constant_tensor(array if array.flags.owndata else array.copy())


class _Call(Function):
    """One call of a primitive."""

    @staticmethod
    def forward(rules: Primitive, options: dict[str, Any], *inputs: Tensor) -> Any:
        return _wrap(rules.forward(*map(raw, inputs), **options))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rules, ctx.options, *tensors = inputs
        ctx.count = len(tensors)
        ctx.set_materialize_grads(False)
        kept = (*tensors, *(output if isinstance(output, tuple) else (output,)))
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        known = _known(ctx)
        if all(cotangent is None for cotangent in cotangents):
            return (None,) * (ctx.count + 2)
        rule = ctx.rules.vjp or _transpose(ctx.rules.jvp)
        found = _as_tuple(rule(known, *cotangents))
        return (None, None, *map(_like, found, known.inputs))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        known = _known(ctx)
        found = tuple(map(_like, _as_tuple(ctx.rules.jvp(known, *tangents[2:])), known.outputs))
        return found if len(known.outputs) > 1 else found[0]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        rules, options, *tensors = args
        results = []
        for i in range(info.batch_size):
            pairs = zip(tensors, in_dims[2:], strict=True)
            results.append(
                _Call.apply(
                    rules,
                    options,
                    *(t if dim is None else xp.select(t, dim, i) for t, dim in pairs),
                )
            )
        if isinstance(results[0], tuple):
            stacked = tuple(xp.stack(list(parts), 0) for parts in zip(*results, strict=True))
            return stacked, (0,) * len(stacked)
        return xp.stack(results, 0), 0


def _known(ctx: Any) -> Known:
    saved = ctx.saved_tensors
    needs = ctx.needs_input_grad[2:]
    return Known(saved[: ctx.count], saved[ctx.count :], ctx.options, needs)


def _as_tuple(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple | list) else (found,)


def _like(found: Tensor | None, like: Tensor) -> Tensor | None:
    if found is None or found.dtype == like.dtype or like.dtype.kind not in "fc":
        return found
    if like.dtype.kind == "f" and found.dtype.kind == "c":
        found = xp.real(found)
    return xp.astype(found, like.dtype) if found.dtype != like.dtype else found


def _transpose(jvp: _Rule) -> _Rule:
    """The VJP rule that a JVP rule implies: its transpose."""

    def rule(known: Known, *cotangents: Tensor | None) -> Any:
        zeros = [xp.zeros_like(value) for value in known.inputs]
        wanted = [place for place, value in enumerate(cotangents) if value is not None]

        def push(*tangents: Tensor) -> tuple[Any, ...]:
            found = _as_tuple(jvp(known, *tangents))
            return tuple(_like(found[place], known.outputs[place]) for place in wanted)

        _, pull = func_vjp(push, *zeros)
        return pull(tuple(cotangents[place] for place in wanted))

    return rule
