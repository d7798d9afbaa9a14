"""Dual arrays: formulas run on them give a cotangent and its tangent in one go.

A backward pass in forward mode runs on dual tensors in general. Where nothing differentiates
further it needs neither tensors nor dispatch: a ``DualArray`` is an array and its tangent, and the
namespace ``DualArrays`` has every operator as its function on arrays followed by its JVP rule on
arrays. The tangent may have a batch axis in front: then it holds many tangents of one primal.

What cannot be done here raises, and the pass begins again on tensors (``linearize/backward.py``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from pullback.autograd.forward.jvp_rule import JVP_RULES, Function, UnsupportedFastPath, pad_tangent
from pullback.autograd.forward.tangents import is_dual, tangents_of
from pullback.autograd.graph.node import Node
from pullback.autograd.graph.saved import load_output_tensor, load_tensor
from pullback.autograd.namespaces import Namespace, arrays
from pullback.dispatch.keys import DUAL, PLAIN_VIEW
from pullback.errors import AutogradError
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import TENSOR_TYPES, Tensor

__all__ = ["DualArray", "DualArrays", "dual_arrays"]

_new = object.__new__
_ndarray = np.ndarray


def _add_primals(one: DualArray, other: DualArray) -> Any:
    return one.primal + other.primal


def _compare(function: Function) -> Function:
    return lambda self, other: function(self.primal, _primal(other))


def _call(name: str, is_reflected: bool = False) -> Function:
    """A Python operator by the function of the namespace."""
    if is_reflected:
        return lambda self, other: getattr(dual_arrays, name)(other, self)
    return lambda self, other: getattr(dual_arrays, name)(self, other)


class DualArray:
    """An array and its tangent of the same shape and dtype, behind `batch_ndim` batch axes.

    Operators work element by element as those of arrays do; comparisons are those of the primals.
    A primal may be lazy, a function and its arguments: often only the tangent of a cotangent is
    needed, and not its primal.
    """

    __slots__ = ("batch_ndim", "lazy_primal", "primal", "tangent")
    lazy_primal: tuple[Any, ...]
    __array_ufunc__ = None  # so that operators of arrays defer to those below
    __hash__ = None  # type: ignore[assignment]  # as arrays

    def __init__(self, primal: Any, tangent: Any, batch_ndim: int = 0):
        self.primal = primal
        self.tangent = tangent
        self.batch_ndim = batch_ndim

    @staticmethod
    def with_lazy_primal(tangent: Any, batch_ndim: int, lazy_primal: tuple[Any, ...]) -> DualArray:
        """A dual array whose primal is computed on first access."""
        dual = _new(DualArray)
        dual.tangent, dual.batch_ndim, dual.lazy_primal = tangent, batch_ndim, lazy_primal
        return dual

    def __getattr__(self, name: str) -> Any:
        if name != "primal":
            raise AttributeError(name)
        function, *args = self.lazy_primal
        self.primal = function(*args)
        return self.primal

    shape = property(lambda self: self.tangent.shape[self.batch_ndim :])
    dtype = property(attrgetter("tangent.dtype"))
    ndim = property(lambda self: self.tangent.ndim - self.batch_ndim)
    size = property(lambda self: prod(self.shape))

    @property
    def mT(self) -> Any:  # noqa: N802 - the array's name
        """The array with its last two axes exchanged."""
        return dual_arrays.matrix_transpose(self)

    # Arithmetic is written out, because most formulas consist of it; with batch axes,
    # where both operands have equally many axes.

    def __neg__(self) -> DualArray:
        return DualArray(-self.primal, -self.tangent, self.batch_ndim)

    def __add__(self, other: Any) -> Any:
        tangent, k = self.tangent, self.batch_ndim
        if type(other) is DualArray:
            if tangent.shape == other.tangent.shape:
                primal = (_add_primals, self, other)
                return DualArray.with_lazy_primal(tangent + other.tangent, k, primal)
        elif type(other) is int:  # nothing to broadcast or convert
            return DualArray(self.primal + other, tangent, k)
        else:
            total = self.primal + other
            if total.shape == self.primal.shape and total.dtype is tangent.dtype:
                return DualArray(total, tangent, k)
        return dual_arrays.add(self, other)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        primal, tangent, k = self.primal, self.tangent, self.batch_ndim
        if k and getattr(other, "ndim", None) != primal.ndim:
            return dual_arrays.mul(self, other)
        factor = other
        if type(other) is DualArray:
            factor = other.primal
            tangent = tangent * factor
            tangent += primal * other.tangent
        else:
            tangent = tangent * factor
        return DualArray.with_lazy_primal(tangent, k, (operator.mul, primal, factor))

    def __truediv__(self, other: Any) -> Any:
        if self.batch_ndim and getattr(other, "ndim", None) != self.primal.ndim:
            return dual_arrays.div(self, other)
        if type(other) is not DualArray:
            return DualArray(self.primal / other, self.tangent / other, self.batch_ndim)
        divisor = other.primal
        result = self.primal / divisor
        tangent = self.tangent - other.tangent * result
        tangent /= divisor
        return DualArray(result, tangent, self.batch_ndim)

    def __rtruediv__(self, other: Any) -> Any:
        primal, k = self.primal, self.batch_ndim
        result = other / primal
        if k and result.ndim != primal.ndim:
            return dual_arrays.div(other, self)
        return DualArray(result, self.tangent * (result / -primal), k)

    __radd__, __rmul__ = __add__, __mul__
    __pow__, __rpow__ = _call("pow"), _call("pow", is_reflected=True)
    __matmul__, __rmatmul__ = _call("matmul"), _call("matmul", is_reflected=True)

    __eq__ = _compare(operator.eq)
    __ne__ = _compare(operator.ne)
    __lt__ = _compare(operator.lt)
    __le__ = _compare(operator.le)
    __gt__ = _compare(operator.gt)
    __ge__ = _compare(operator.ge)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedFastPath("a dual array as an array")

    def __iter__(self) -> NoReturn:
        raise UnsupportedFastPath("elements of a dual array")

    def __bool__(self) -> bool:
        return bool(self.primal)

    def __getitem__(self, index: Any) -> DualArray:
        places = index if type(index) is tuple else (index,)
        if self.batch_ndim and any(isinstance(place, _ndarray | list) for place in places):
            raise UnsupportedFastPath("elements of batched tangents by arrays of indices")
        behind = (slice(None),) * self.batch_ndim
        return DualArray(self.primal[index], self.tangent[(*behind, *places)], self.batch_ndim)


DualArray._array = DualArray.__dict__["tangent"]  # type: ignore[attr-defined]  # one slot, by two names


class DualArrays(Namespace):
    """Formulas on dual arrays, arrays and numbers.

    The tangents of saved values are those of `level`. Functions are attributes of the class.
    """

    wrapper = DualArray

    def __init__(self, level: Any = None):
        self.name = "dual arrays"
        self._level = level

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = _make_function(name)
        setattr(DualArrays, name, staticmethod(function))
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
        """An array, or a dual array for a tensor with a tangent."""
        array = tensor._array
        if isinstance(array, Payload):
            raise UnsupportedFastPath("a value that is no array")
        tangents = tangents_of(tensor) if is_dual(tensor) else None
        if not tangents:
            return array
        tangent = tangents.get(self._level)
        if tangent is None or len(tangents) > 1:
            raise UnsupportedFastPath("tangents of several levels")
        if is_dual(tangent) or type(tangent._array) is not _ndarray:
            raise UnsupportedFastPath("a tangent that is no array")
        return DualArray(array, tangent._array)

    def saves_constants(self, node: Node) -> bool:
        """Whether no saved value of a node has a tangent, as far as is known without loading it."""
        for name in node._saves_tensors:
            value: Any = getattr(node, name, None)
            if type(value) in TENSOR_TYPES:
                if value._flags & (DUAL | PLAIN_VIEW):
                    return False
            elif value is not None:
                return False
        return True

    def run_on_arrays(self, node: Node, grad: Any) -> Any:
        """Runs a node whose saved values have no tangents, on one array."""
        return node.backward(arrays, grad)

    @staticmethod
    def conj(x: Any) -> Any:
        """The complex conjugate; what is real is returned as it is."""
        if type(x) is not DualArray:
            return arrays.conj(x)
        return dual_arrays.conjugate(x) if x.tangent.dtype.kind == "c" else x

    def seed(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The cotangent that a pass starts from, a constant."""
        return arrays.seed(shape, dtype)

    def expand(self, value: Any, shape: tuple[int, ...]) -> Any:
        """A value repeated to a larger shape."""
        if type(value) is not DualArray:
            return arrays.expand(value, shape)
        tangent, k = value.tangent, value.batch_ndim
        if k:
            tangent = pad_tangent(tangent, k, k + len(shape))
        wide = arrays.expand(tangent, tangent.shape[:k] + tuple(shape))
        return DualArray(arrays.expand(value.primal, shape), wide, k)

    def sum_to(self, grad: Any, shape: tuple[int, ...], blame: Callable[[], str]) -> Any:
        """Undoes broadcasting."""
        if type(grad) is not DualArray:
            return arrays.sum_to(grad, shape, blame)
        tangent, k = grad.tangent, grad.batch_ndim
        batch = tangent.shape[:k]
        padding = (1,) * (grad.ndim - len(shape)) if k else ()
        total = arrays.sum_to(tangent, (*batch, *padding, *shape), blame)
        total = total.reshape(batch + tuple(shape)) if padding else total
        return DualArray(arrays.sum_to(grad.primal, shape, blame), total, k)

    def materialize(self, node: Any, grads: tuple[Any, ...]) -> list[Any]:
        """The cotangents of all outputs of a node; those that did not arrive are zero."""
        return arrays.materialize(node, grads)


def _make_function(name: str) -> Function:
    """An operator on dual arrays, or a function that formulas call."""
    on_arrays: Function = getattr(arrays, name)
    if isinstance(on_arrays, partial) and on_arrays.args == (arrays,):
        return partial(on_arrays.func, dual_arrays)
    rule = JVP_RULES.get(name)
    if rule is None:
        raise AutogradError(f"a formula calls {name!r}, which no operator is called")
    places, skips_none, arity = rule.places, rule.skips_none, len(rule.arguments())

    def call(*args: Any, **kwargs: Any) -> Any:
        first = _find((*args, *kwargs.values()) if kwargs else args)
        if first is None:
            return on_arrays(*args, **kwargs)
        named = {name: _primal(value) for name, value in kwargs.items()}
        results = on_arrays(*map(_primal, args), **named)
        if rule.function is None:
            if rule.is_constant:
                return results
            raise UnsupportedFastPath("an operator without a JVP rule")
        values = args if len(args) == arity else rule.bind(args, kwargs)
        if any(_find([values[place]]) is not None for place, _ in rule.refused):
            raise UnsupportedFastPath("an argument without a derivative")
        batch = first.tangent.shape[: first.batch_ndim]
        tangents = [_tangent(values[place], skips_none, batch) for place in places]
        primals = [*map(_primal, values)]
        if not isinstance(results, tuple):
            return _dual(results, rule.apply_to_arrays(primals, tangents, (results,), batch), batch)
        found = rule.apply_to_arrays(primals, tangents, results, batch)
        made = [_dual(r, t, batch) for r, t in zip(results, found, strict=True)]
        return type(results)._make(made) if hasattr(results, "_make") else tuple(made)

    return call


def _find(values: Sequence[Any]) -> DualArray | None:
    """The first dual array among some arguments."""
    for value in values:
        if type(value) is DualArray:
            return value
        if type(value) is list:
            found = _find(value)
            if found is not None:
                return found
    return None


def _primal(value: Any) -> Any:
    if type(value) is DualArray:
        return value.primal
    return [_primal(item) for item in value] if type(value) is list else value


def _tangent(value: Any, skips_none: bool, batch: tuple[int, ...]) -> Any:
    """The tangent of an argument; of a constant zeros, or None if the formula skips that."""
    if type(value) is DualArray:
        return value.tangent
    if type(value) is list:
        return [_tangent(item, skips_none, batch) for item in value]
    if skips_none or value is None:
        return None
    return np.zeros(batch + np.shape(value), np.asarray(value).dtype)


def _dual(result: Any, tangent: Any, batch: tuple[int, ...]) -> Any:
    """The dual array of a result and what its rule has returned."""
    if type(result) is list:
        return [_dual(item, part, batch) for item, part in zip(result, tangent, strict=True)]
    if tangent is None or result.dtype.kind not in "fc":
        return result
    if tangent.dtype is not result.dtype:
        if tangent.dtype.kind == "c" and result.dtype.kind != "c":
            raise UnsupportedFastPath("a complex tangent of a real result")
        tangent = tangent.astype(result.dtype)
    if tangent.shape != batch + result.shape:
        tangent = np.broadcast_to(tangent, batch + result.shape)
    return DualArray(result, tangent, len(batch))


dual_arrays = DualArrays()
