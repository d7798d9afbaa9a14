"""HIPS autograd's ``test_util``: derivatives against finite differences.

Random directions, central differences, and an AssertionError with both numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from pullback.compat.autograd.differential_operators import make_jvp, make_vjp
from pullback.compat.autograd.wrap_util import get_name, unary_to_nary, wraps
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["check_equivalent", "check_grads", "check_jvp", "check_like", "check_vjp"]
__all__ += ["combo_check", "scalar_close"]

_Function = Callable[..., Any]
_STEP = 1e-6
_TOLERANCE = 1e-6


def _random_like(tree: Any) -> Any:
    def draw(leaf: Any) -> Any:
        array = leaf.detach().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
        made = np.random.standard_normal(array.shape)
        if array.dtype.kind == "c":
            made = made + 1j * np.random.standard_normal(array.shape)
        return np.asarray(made).astype(array.dtype if array.dtype.kind in "fc" else float)

    return pytree.map(draw, tree)


def _inner(a: Any, b: Any) -> float:
    """The real inner product of two trees."""
    pairs = zip(pytree.leaves(a), pytree.leaves(b), strict=True)
    return sum(float(np.real(np.sum(np.conj(x) * y))) for x, y in pairs)


def _numeric(f: _Function, x: Any, direction: Any) -> Any:
    leaves, spec = pytree.flatten(x)
    along = pytree.leaves(direction)

    def at(step: float) -> list[Any]:
        moved = [a + step * b for a, b in zip(leaves, along, strict=True)]
        return pytree.leaves(f(pytree.unflatten(spec, moved)))

    ends = zip(at(_STEP / 2), at(-_STEP / 2), strict=True)
    return [(np.asarray(after) - np.asarray(before)) / _STEP for after, before in ends]


def scalar_close(a: float, b: float) -> bool:
    """Returns whether two numbers agree to a millionth, of themselves or in absolute value.

    >>> scalar_close(1.0, 1.0 + 1e-8), scalar_close(1.0, 1.1)
    (True, False)
    """
    difference = abs(a - b)
    return bool(difference < _TOLERANCE or difference / abs(a + b) < _TOLERANCE)


def _assert_close(what: str, f: _Function, x: Any, exact: float, numeric: float) -> None:
    assert scalar_close(exact, numeric), (
        f"Derivative ({what}) check of {get_name(f)} failed with arg {x}:\n"
        f"analytic: {exact}\nnumeric:  {numeric}"
    )


def check_vjp(f: _Function, x: Any) -> None:
    """Compares reverse mode with finite differences.

    >>> check_vjp(lambda x: x**2, 3.0)
    """
    vjp, value = make_vjp(f)(x)
    v, u = _random_like(x), _random_like(value)
    gradient = pytree.map(np.conj, vjp(pytree.map(np.conj, u)))
    check_like(gradient, x)
    _assert_close("VJP", f, x, _inner(v, gradient), _inner(u, _numeric(f, x, v)))


def check_jvp(f: _Function, x: Any) -> None:
    """Compares forward mode with finite differences.

    >>> check_jvp(lambda x: x**2, 3.0)
    """
    v = _random_like(x)
    _, slope = make_jvp(f)(x)(v)
    u = _random_like(slope)
    _assert_close("JVP", f, x, _inner(u, slope), _inner(u, _numeric(f, x, v)))


def check_like(a: Any, b: Any) -> None:
    """Asserts that two trees have the same structure and shapes."""
    (first, spec), (second, other) = pytree.flatten(a), pytree.flatten(b)
    assert spec == other, f"structures differ: {spec!r} and {other!r}"
    for x, y in zip(first, second, strict=True):
        assert np.shape(x) == np.shape(y), f"shapes differ: {np.shape(x)} and {np.shape(y)}"
        assert np.iscomplexobj(x) == np.iscomplexobj(y), "one is complex, the other real"


def check_equivalent(x: Any, y: Any) -> None:
    """Asserts that two trees have equal values.

    >>> check_equivalent([1.0, 2.0], [1.0, 2.0])
    """
    check_like(x, y)
    v = _random_like(x)
    _assert_close("equivalence", check_equivalent, (x, y), _inner(v, x), _inner(v, y))


@unary_to_nary
def check_grads(
    f: _Function, x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2
) -> None:
    """``check_grads(f, argnum, modes=, order=)(*args)`` checks derivatives up to an order.

    >>> check_grads(lambda x, y: x * y**2, (0, 1))(2.0, 3.0)
    """
    assert all(mode in ("fwd", "rev") for mode in modes), f"modes are 'fwd' and 'rev', not {modes}"
    if "fwd" in modes:
        check_jvp(f, x)
        if order > 1:
            again = wraps(f, "jvp_{fun}")(lambda x, v: make_jvp(f)(x)(v)[1])
            check_grads(again, (0, 1), modes, order=order - 1)(x, _random_like(x))
    if "rev" in modes:
        check_vjp(f, x)
        if order > 1:
            again = wraps(f, "vjp_{fun}")(lambda x, v: make_vjp(f)(x)[0](v))
            check_grads(again, (0, 1), modes, order=order - 1)(x, _random_like(f(x)))


def combo_check(fun: _Function, *options: Any, **named: Any) -> _Function:
    """`check_grads` for all combinations of lists of arguments.

    >>> combo_check(lambda x, y: x * y, (0, 1))([1.0, 2.0], [3.0])
    """

    def run(*args: Any, **kwargs: Any) -> None:
        choices = [[(key, value) for value in values] for key, values in kwargs.items()]
        for given in product(*args):
            for chosen in product(*choices):
                check_grads(fun, *options, **named)(*given, **dict(chosen))

    return run
