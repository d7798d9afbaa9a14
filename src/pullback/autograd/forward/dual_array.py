"""Dual numbers of raw arrays: formulas run on them give a gradient and its tangent in one go.

A backward pass in forward mode could run on dual tensors, and does so in general. Where nobody can
differentiate further it needs neither tensors nor dispatch: a ``Dual`` is an array and its tangent,
and the namespace of ``Duals`` offers every operator as its function on arrays followed by its
forward formula on arrays. Helpers of formulas are called with this namespace like with any other.

What cannot be done here raises, and the pass begins again on tensors (``dual_pass.py``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from pullback.autograd.forward.batched_tangent import DeclinedError, Rows, rows
from pullback.autograd.forward.jvp_rule import JVP_RULES, JvpRule
from pullback.autograd.forward.tangents import is_dual, tangents_of
from pullback.autograd.graph.node import Node
from pullback.autograd.graph.saved import load_output_tensor, load_tensor
from pullback.autograd.namespaces import Namespace, arrays
from pullback.errors import AutogradError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor

__all__ = ["DeclinedError", "Dual", "Duals", "duals"]

_Function = Callable[..., Any]
_new = object.__new__
_ndarray = np.ndarray


def _comparison(compare: _Function) -> _Function:
    return lambda self, other: compare(self.primal, _primal(other))


class Dual:
    """An array, and its tangent of the same shape and dtype, or many of them.

    Operators work element by element as those of arrays do; comparisons are those of the arrays.
    The array of a product is computed when it is asked for: often nobody needs more than the
    tangent of a gradient.
    """

    __slots__ = ("factors", "primal", "tangent")
    factors: tuple[Any, Any]  # of a product, whose array has not been asked for
    __array_ufunc__ = None  # so that an array leaves operators to us
    __hash__ = None  # type: ignore[assignment]  # as arrays

    def __init__(self, primal: Any, tangent: Any):
        self.primal = primal
        self.tangent = tangent

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.tangent.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        return self.tangent.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes of the array."""
        return self.tangent.ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """The number of elements of the array."""
        return self.tangent.size  # type: ignore[no-any-return]

    @property
    def mT(self) -> Any:  # noqa: N802 - the array's name
        """The array with its last two axes exchanged."""
        return duals.matrix_transpose(self)

    # The formulas are those of the operators, written out because most formulas consist of them.

    def __neg__(self) -> Dual:
        return Dual(-self.primal, -self.tangent)

    def __add__(self, other: Any) -> Dual:
        if type(other) is Dual:
            return Dual(self.primal + other.primal, self.tangent + other.tangent)
        if type(other) is int or type(other) is float:  # then there is nothing to broadcast
            return Dual(self.primal + other, self.tangent)
        return _with(self.primal + other, self.tangent)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        if type(other) is Dual:
            return Dual(self.primal - other.primal, self.tangent - other.tangent)
        return _with(self.primal - other, self.tangent)

    def __rsub__(self, other: Any) -> Dual:
        return _with(other - self.primal, -self.tangent)

    def __mul__(self, other: Any) -> Dual:
        primal = self.primal
        if type(other) is Dual:
            factor = other.primal
            tangent = self.tangent * factor
            tangent += primal * other.tangent
        else:
            factor = other
            tangent = self.tangent * other
        product = _new(Dual)
        product.tangent = tangent
        product.factors = primal, factor
        return product

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        if type(other) is Dual:
            divisor = other.primal
            result = self.primal / divisor
            tangent = self.tangent - other.tangent * result
            tangent /= divisor
            return Dual(result, tangent)
        return Dual(self.primal / other, self.tangent / other)

    def __rtruediv__(self, other: Any) -> Dual:
        primal = self.primal
        result = other / primal
        return Dual(result, self.tangent * (result / -primal))

    def __pow__(self, other: Any) -> Any:
        return duals.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return duals.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return duals.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return duals.matmul(other, self)

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    def __getattr__(self, name: str) -> Any:
        if name == "primal":  # of a product, not yet computed
            one, other = self.factors
            self.primal = one * other
            return self.primal
        if name.startswith("__"):  # Python's own questions, and NumPy's
            raise AttributeError(name)
        raise DeclinedError(f"dual numbers have no {name}")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise DeclinedError("a dual number is no array")

    def __bool__(self) -> bool:
        return bool(self.primal)

    def __iter__(self) -> NoReturn:
        raise DeclinedError("elements of dual numbers")

    def __getitem__(self, index: Any) -> Dual:
        return Dual(self.primal[index], self.tangent[index])


def _with(primal: Any, tangent: Any) -> Dual:
    """A dual number whose tangent is that of a summand, which may have had fewer axes."""
    if tangent.dtype is not primal.dtype:
        tangent = _namespace(tangent).astype(tangent, primal.dtype)
    if tangent.shape != primal.shape:
        tangent = _namespace(tangent).expand(tangent, primal.shape)
    return Dual(primal, tangent)


def _namespace(tangent: Any) -> Namespace:
    """Where formulas of a tangent run."""
    return rows if type(tangent) is Rows else arrays


class Duals(Namespace):
    """Formulas on dual numbers, arrays and numbers, of one level; functions are in the class."""

    def __init__(self, level: Any = None):
        self.name = "dual numbers"
        self._level = level

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = _function(name)
        setattr(Duals, name, staticmethod(function))
        return function

    def load(self, node: Node, value: Any, expected: Any) -> Any:
        """A saved input, checked; None where none was needed."""
        loaded = load_tensor(node, value, expected)
        if isinstance(loaded, list):
            return [None if tensor is None else self.from_tensor(tensor) for tensor in loaded]
        return None if loaded is None else self.from_tensor(loaded)

    def load_output(self, node: Node, value: Any) -> Any:
        """A saved result, checked; None where none was needed."""
        loaded = load_output_tensor(node, value)
        return None if loaded is None else self.from_tensor(loaded)

    def from_tensor(self, tensor: Tensor) -> Any:
        """What a tensor is in this namespace."""
        array = tensor._array
        if isinstance(array, Payload):
            raise DeclinedError("a value that is no array")
        if not is_dual(tensor):
            return array
        tangent = None
        for level, found in tangents_of(tensor).items():
            if level is self._level:
                tangent = found
            else:
                raise DeclinedError("tangents of several levels")
        if tangent is None:
            return array
        if is_dual(tangent) or type(tangent._array) is not _ndarray:
            raise DeclinedError("a tangent that is no array")
        return Dual(array, tangent._array)

    @staticmethod
    def conj(x: Any) -> Any:
        """The complex conjugate; what is real is returned as it is."""
        if type(x) is not Dual:
            return arrays.conj(x)
        return x if x.tangent.dtype.kind != "c" else duals.conjugate(x)

    def seed(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The gradient that a pass starts from, a constant."""
        return arrays.seed(shape, dtype)

    def expand(self, value: Any, shape: tuple[int, ...]) -> Any:
        """A value repeated to a larger shape."""
        if type(value) is not Dual:
            return arrays.expand(value, shape)
        tangent = value.tangent
        return Dual(arrays.expand(value.primal, shape), _namespace(tangent).expand(tangent, shape))

    def sum_to(self, grad: Any, shape: tuple[int, ...], blame: Callable[[], str]) -> Any:
        """Undoes broadcasting."""
        if type(grad) is not Dual:
            return arrays.sum_to(grad, shape, blame)
        tangent, primal = grad.tangent, arrays.sum_to(grad.primal, shape, blame)
        return Dual(primal, _namespace(tangent).sum_to(tangent, shape, blame))

    def materialize(self, node: Any, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients of all outputs of a node; those that did not arrive are zero."""
        return arrays.materialize(node, grads)


# --- operators -----------------------------------------------------------------------------------


def _function(name: str) -> _Function:
    """An operator on dual numbers, or a helper of formulas."""
    on_arrays: _Function = getattr(arrays, name)
    if isinstance(on_arrays, partial) and on_arrays.args == (arrays,):
        return partial(on_arrays.func, duals)
    formula = JVP_RULES.get(name)
    if formula is None:
        raise AutogradError(f"a formula calls {name!r}, which no operator is called")
    if formula.function is None:
        return _without_tangents(on_arrays, is_constant=formula.is_constant)
    if formula.has_only_tensors():
        if formula.places == (0,):
            return _of_first(on_arrays, formula)
        if formula.places == (0, 1) and formula.skips_none and len(formula.arguments()) == 2:
            return _of_two(on_arrays, formula.function)
    return _of_any(on_arrays, formula)


def _without_tangents(on_arrays: _Function, is_constant: bool) -> _Function:
    """An operator without a derivative: its result does not change, or it cannot be told."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_constant and any(map(_has_tangent, (*args, *kwargs.values()))):
            raise DeclinedError("an operator without a forward formula")
        named = {name: _primal(value) for name, value in kwargs.items()}
        return on_arrays(*map(_primal, args), **named)

    return call


def _of_first(on_arrays: _Function, formula: JvpRule) -> _Function:
    """An operator whose first argument is its only array."""
    jvp, rest = formula.function, len(formula.arguments()) - 1
    assert jvp is not None

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is not Dual:
            return on_arrays(self, *args, **kwargs)
        primal, tangent = self.primal, self.tangent
        result = on_arrays(primal, *args, **kwargs)
        if kwargs or len(args) != rest:
            _, *args = formula.bind((None, *args), kwargs)  # type: ignore[assignment]
        xp = rows if type(tangent) is Rows else arrays
        return _made(result, jvp(xp, primal, *args, tangent, result))

    return call


def _of_two(on_arrays: _Function, jvp: _Function) -> _Function:
    """An operator of two arrays, whose formula leaves out what has no tangent."""

    def call(self: Any, other: Any) -> Any:
        if type(self) is Dual:
            first, change = self.primal, self.tangent
            if type(other) is Dual:
                second, by = other.primal, other.tangent
            else:
                second, by = other, None
        elif type(other) is Dual:
            first, change, second, by = self, None, other.primal, other.tangent
        else:
            return on_arrays(self, other)
        result = on_arrays(first, second)
        xp = rows if type(change) is Rows or type(by) is Rows else arrays
        return _made(result, jvp(xp, first, second, change, by, result))

    return call


def _of_any(on_arrays: _Function, formula: JvpRule) -> _Function:
    """Any other operator."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(map(_has_tangent, (*args, *kwargs.values()))):
            return on_arrays(*args, **kwargs)
        named = {name: _primal(value) for name, value in kwargs.items()}
        results = on_arrays(*map(_primal, args), **named)
        values = formula.bind(args, kwargs)
        if any(_has_tangent(values[place]) for place, _ in formula.refused):
            raise DeclinedError("an argument without a derivative")
        given = [_tangent(values[place], formula.skips_none) for place in formula.places]
        primals = map(_primal, values)
        xp = rows if _has_rows(given) else arrays
        assert formula.function is not None
        if not isinstance(results, tuple):
            return _made(results, formula.function(xp, *primals, *given, results))
        found = formula.function(xp, *primals, *given, *results)
        made = map(_made, results, found)
        return type(results)._make(made) if hasattr(results, "_make") else tuple(made)

    return call


def _has_tangent(value: Any) -> bool:
    return type(value) is Dual or (type(value) is list and any(map(_has_tangent, value)))


def _has_rows(value: Any) -> bool:
    return type(value) is Rows or (type(value) is list and any(map(_has_rows, value)))


def _primal(value: Any) -> Any:
    if type(value) is Dual:
        return value.primal
    return [_primal(item) for item in value] if type(value) is list else value


def _tangent(value: Any, sums: bool) -> Any:
    """The tangent of an argument; of a constant zeros, or None if that will do."""
    if type(value) is Dual:
        return value.tangent
    if type(value) is list:
        return [_tangent(item, sums) for item in value]
    return None if sums or value is None else np.zeros_like(value)


def _made(result: Any, tangent: Any) -> Any:
    """A dual number of a result and what its formula has returned."""
    if type(result) is list:
        return [_made(item, part) for item, part in zip(result, tangent, strict=True)]
    if tangent is None:
        return result
    if result.dtype.kind not in "fc":
        return result
    if tangent.dtype.kind == "c" and result.dtype.kind != "c":
        raise DeclinedError("a complex tangent of a real result")
    return _with(result, tangent)


duals = Duals()
