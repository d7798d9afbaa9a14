"""``numerical``: operators from black boxes, with derivatives by differences of their values.

For Fortran, numba or subprocess code that no rule describes. It is explicit: no other part of the
package differentiates numerically. Two methods:

- ``"central"``: central differences with Richardson extrapolation (Ridders' method). The step is
  chosen from the values, and the extrapolation estimates its own error;
- ``"complex-step"``: one evaluation with a tiny imaginary part, exact to rounding, for code that
  computes with complex numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pullback.errors import (
    AutogradError,
    AutogradTypeError,
    AutogradValueError,
    DerivativeMissingError,
)
from pullback.library.custom_op import CUSTOM_OPS, CustomOp
from pullback.library.define_custom import custom_op
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor, fresh

__all__ = ["Estimate", "numerical", "numerical_jacobian"]

_Array = NDArray[Any]
_Function = Callable[..., Any]
_METHODS = ("central", "complex-step")
_LEVELS = 5  # step sizes of the extrapolation, each half of the one before
_TINY = 1e-40  # of the complex step; no difference is formed, so nothing cancels


class Estimate(NamedTuple):
    """A derivative, and an estimate of its largest absolute error."""

    value: _Array
    error: float


def numerical(
    f: _Function,
    *,
    name: str | None = None,
    method: str = "central",
    step: float | None = None,
    max_error: float = 1e-3,
    shape: Callable[..., tuple[int, ...]] | None = None,
) -> CustomOp:
    """An operator from a function of arrays, whose derivatives are computed numerically.

    Args:
        f: takes arrays and returns one array or number; nothing else may change its result.
        name: of the operator, ``"namespace::name"``; by default ``"numerical::<name of f>"``, with
            a number if that is taken.
        method: ``"central"`` or ``"complex-step"``; the second needs a function that computes with
            complex numbers.
        step: the first step of central differences, in relation to the size of each element; by
            default 0.02. It is halved until the error estimate grows.
        max_error: a derivative whose estimated error is larger, in relation to its largest entry,
            raises instead of being returned.
        shape: ``shape(*shapes)`` returns the result's shape from those of the arguments, for
            tensors without data (``device="meta"``).

    Arguments may be tensors, arrays and numbers; without a tensor among them, `f` itself is called.
    A reverse pass evaluates `f` up to ten times for each element of the inputs, a forward pass up
    to ten times (once for each with complex steps). Second derivatives raise.
    The operator has two others beside it, ``<name>_vjp`` and ``<name>_jvp``.

    >>> import numpy as np, pullback as pb
    >>> def box(x, a):
    ...     return np.sin(x) * a
    >>> op = pb.library.numerical(box, name="doc::box")
    >>> x = pb.tensor([0.0, 1.0], requires_grad=True)
    >>> op(x, pb.tensor([2.0, 3.0])).sum().backward()
    >>> np.round(x.grad.numpy(), 9).tolist()
    [2.0, 1.620906918]
    >>> op._destroy()
    """
    if method not in _METHODS:
        raise AutogradValueError(
            f"numerical: method must be one of {', '.join(map(repr, _METHODS))}, not {method!r}"
        )
    settings = _Settings(f, method, 0.02 if step is None else step, max_error)
    names = _argument_names(f)
    title = name or _free_name(settings.name)
    schema = f"({', '.join(f'Tensor {each}' for each in names)}) -> Tensor"

    def kernel(*tensors: Tensor) -> Tensor:
        found = np.array(_call(settings, [tensor.numpy() for tensor in tensors]))
        dtype = np.result_type(*(tensor.dtype for tensor in tensors))
        return fresh(found.astype(dtype) if dtype.kind == "f" else found)

    kernel.__signature__ = _signature(names)  # type: ignore[attr-defined]
    made: CustomOp = custom_op(title, kernel, mutates_args=(), schema=schema)
    _register_rules(made, settings, names)
    if shape is not None:
        made.register_fake(_fake_kernel(shape, kernel.__signature__))  # type: ignore[attr-defined]
    _accept_arrays(made, f)
    return made


def _free_name(function: str) -> str:
    """A name of an operator that is not defined yet; a lambda has no identifier as its name."""
    base = f"numerical::{function if function.isidentifier() else 'function'}"
    numbered = (f"{base}_{number}" for number in count(2))
    return next(name for name in chain([base], numbered) if name not in CUSTOM_OPS)


def _accept_arrays(op: CustomOp, f: _Function) -> None:
    """Lets the operator take arrays and numbers beside tensors, and call `f` without any."""
    call: _Function = type(op).__call__

    def convert(self: CustomOp, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(value, Tensor) for value in (*args, *kwargs.values())):
            return f(*args, **kwargs)
        named = {name: creation.asarray(value) for name, value in kwargs.items()}
        return call(self, *map(creation.asarray, args), **named)

    op.__class__ = type("CustomOp", (type(op),), {"__call__": convert, "__module__": __name__})


def _fake_kernel(shape: Callable[..., tuple[int, ...]], signature: Any) -> Callable[..., Tensor]:
    def fake(*tensors: Tensor) -> Tensor:
        dtype = np.result_type(*(tensor.dtype for tensor in tensors))
        return creation.empty(shape(*(t.shape for t in tensors)), dtype=dtype, device="meta")

    fake.__signature__ = signature  # type: ignore[attr-defined]
    return fake


class _Settings(NamedTuple):
    f: _Function
    method: str
    step: float
    max_error: float

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.f, "__name__", type(self.f).__name__)


def _argument_names(f: _Function) -> list[str]:
    kinds = inspect.signature(f).parameters.values()
    names = [
        each.name
        for each in kinds
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if not names or len(names) != len(kinds):
        raise AutogradTypeError(
            f"numerical: {getattr(f, '__name__', f)} must take one or more arrays by position, and "
            f"nothing else; wrap it in a function of the arrays alone"
        )
    return names


def _register_rules(op: CustomOp, settings: _Settings, names: list[str]) -> None:
    """Registers both rules: each is one call of an operator, which has no derivative itself."""
    inputs = [f"input{place}" for place in range(len(names))]  # the user's may be "grad"
    pull = _make_pull(op.name(), settings, inputs)
    push = _make_push(op.name(), settings, inputs)
    op._helpers += [pull, push]

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.like = output.detach()

    def backward(ctx: Any, grad: Tensor) -> Any:
        needed = list(ctx.needs_input_grad)
        found = pull(needed, grad, *ctx.saved_tensors)
        several = found if isinstance(found, tuple) else (found,)
        return tuple(
            each if is_needed else None for each, is_needed in zip(several, needed, strict=True)
        )

    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        found: Tensor = push(ctx.like, *ctx.saved_tensors, *tangents)
        return found

    op.register_autograd(backward, setup_context=setup)
    op.register_jvp(jvp, setup_context=setup)


def _make_pull(name: str, settings: _Settings, names: list[str]) -> CustomOp:
    """The operator of the products with the transposed Jacobians."""

    def kernel(needed: list[bool], grad: Tensor, *tensors: Tensor) -> Any:
        inputs = [tensor.numpy() for tensor in tensors]
        weights = grad.numpy().reshape(-1)
        found = []
        for place, value in enumerate(inputs):
            pulled = np.zeros(value.shape)
            if needed[place]:
                jacobian = numerical_jacobian(*settings, inputs, place).value
                pulled = (weights @ jacobian).reshape(value.shape)
            found.append(fresh(pulled.astype(value.dtype)))
        return tuple(found) if len(found) > 1 else found[0]

    def fake(needed: list[bool], grad: Tensor, *tensors: Tensor) -> Any:  # noqa: ARG001
        found = tuple(map(creation.empty_like, tensors))
        return found if len(found) > 1 else found[0]

    returns = ", ".join("Tensor" for _ in names)
    returns = f"({returns})" if len(names) > 1 else returns
    listed = ", ".join(f"Tensor {each}" for each in ("grad", *names))
    return _internal_op(f"{name}_vjp", f"(bool[] needed, {listed}) -> {returns}", kernel, fake)


def _make_push(name: str, settings: _Settings, names: list[str]) -> CustomOp:
    """The operator of the product with the Jacobian."""

    def kernel(like: Tensor, *tensors: Tensor) -> Tensor:
        inputs = [tensor.numpy() for tensor in tensors[: len(names)]]
        directions = [np.asarray(tensor.numpy(), np.float64) for tensor in tensors[len(names) :]]
        found = _checked(settings, _along(settings, inputs, directions))
        return fresh(found.value.reshape(like.shape).astype(like.dtype))

    def fake(like: Tensor, *tensors: Tensor) -> Tensor:  # noqa: ARG001
        return creation.empty_like(like)

    every = ("like", *names, *(f"{each}_tangent" for each in names))
    listed = ", ".join(f"Tensor {each}" for each in every)
    return _internal_op(f"{name}_jvp", f"({listed}) -> Tensor", kernel, fake)


def _internal_op(title: str, schema: str, kernel: _Function, fake: _Function) -> CustomOp:
    arguments = [part.split()[-1] for part in schema[1 : schema.index(")")].split(", ")]
    for function in (kernel, fake):
        function.__signature__ = _signature(arguments)  # type: ignore[attr-defined]
    made: CustomOp = custom_op(title, kernel, mutates_args=(), schema=schema)
    made.register_fake(fake)

    def refuse(*_: Any) -> Any:
        raise DerivativeMissingError(
            f"{title}: a second derivative was asked for, and the first one is computed "
            f"numerically from values of the function, so it has none. Give the gradient itself to "
            f"pb.library.numerical, or the function a derivative (pb.library.custom_op)."
        )

    made.register_autograd(refuse)
    made.register_jvp(refuse)
    return made


def _signature(names: list[str]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(each, kind) for each in names])


def numerical_jacobian(
    f: _Function,
    method: str,
    step: float,
    max_error: float,
    inputs: list[_Array],
    place: int = 0,
) -> Estimate:
    """The Jacobian of a function of arrays by one of them, with an estimate of its error.

    >>> import numpy as np
    >>> found = numerical_jacobian(np.sin, "central", 0.02, 1e-3, [np.array([0.5])])
    >>> bool(abs(found.value.item() - np.cos(0.5)) < 1e-10), found.error < 1e-8
    (True, True)
    """
    settings = _Settings(f, method, step, max_error)
    columns = []
    for direction in _units(inputs[place]):
        directions = [np.zeros(np.shape(value)) for value in inputs]
        directions[place] = direction
        columns.append(_along(settings, inputs, directions))
    if not columns:
        size = np.size(_call(settings, inputs))
        return Estimate(np.zeros((size, 0)), 0.0)
    whole = np.stack([column.value for column in columns], axis=1)
    return _checked(settings, Estimate(whole, max(column.error for column in columns)))


def _units(value: _Array) -> Iterator[_Array]:
    for index in np.ndindex(np.shape(value)):
        unit = np.zeros(np.shape(value))
        unit[index] = 1.0
        yield unit


def _checked(settings: _Settings, found: Estimate) -> Estimate:
    size = float(np.max(np.abs(found.value), initial=0.0))
    if found.error <= settings.max_error * max(size, 1e-8):
        return found
    raise AutogradError(
        f"numerical({settings.name}): the derivative by differences is {size:.3g} at most, with an "
        f"estimated error of {found.error:.1e}: the function is not smooth there, or its values "
        f"are noisy. Give another `step`, or a larger `max_error` if this is good enough."
    )


def _call(settings: _Settings, inputs: list[_Array]) -> _Array:
    found = np.asarray(settings.f(*map(np.array, inputs)))  # copies: it may write into them
    if found.dtype.kind not in "fc" and found.dtype.kind not in "iub":
        raise AutogradTypeError(
            f"numerical({settings.name}): the function must return numbers, not {found.dtype}"
        )
    return found


def _along(settings: _Settings, inputs: list[_Array], directions: list[_Array]) -> Estimate:
    """The derivative in a direction, flattened."""
    wide = [np.asarray(value, np.float64) for value in inputs]
    if settings.method == "complex-step":
        moved = [
            x + 1j * _TINY * d if d.any() else x for x, d in zip(wide, directions, strict=True)
        ]
        found = _call(settings, moved)
        if found.dtype.kind != "c":
            raise AutogradTypeError(
                f"numerical({settings.name}): with complex steps the function must return complex "
                f"numbers for complex arguments; it returned {found.dtype}. Use method='central'."
            )
        return Estimate(found.imag.reshape(-1) / _TINY, 0.0)
    return _ridders(settings, wide, directions)


def _ridders(settings: _Settings, inputs: list[_Array], directions: list[_Array]) -> Estimate:
    """Central differences, extrapolated to step zero, as long as the error estimate falls."""
    longest = max(float(np.max(np.abs(d), initial=0.0)) for d in directions)
    if longest == 0:
        return Estimate(np.zeros(_call(settings, inputs).size), 0.0)
    sizes = [
        np.max(np.abs(x[d != 0]), initial=0.0) for x, d in zip(inputs, directions, strict=True)
    ]
    step = settings.step * max(1.0, float(max(sizes))) / longest
    rows: list[list[_Array]] = []
    best = Estimate(np.zeros(0), np.inf)
    for level in range(_LEVELS):
        h = step / 2**level
        moved = [[x + s * h * d for x, d in zip(inputs, directions, strict=True)] for s in (1, -1)]
        high, low = (np.asarray(_call(settings, each), np.float64).reshape(-1) for each in moved)
        row = [(high - low) / (2 * h)]
        for k in range(level):
            factor = 4.0 ** (k + 1)
            row.append(row[k] + (row[k] - rows[-1][k]) / (factor - 1))
        if level:
            change = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - rows[-1][-1]))
            error = float(np.max(change, initial=0.0))
            if error < best.error:
                best = Estimate(row[-1], error)
            elif error > 2 * best.error:
                break
        rows.append(row)
    return best
