"""User-defined operations of HIPS autograd: ``primitive``, ``defvjp``, ``defjvp`` and their kin.

A primitive computes with plain arrays. Its rules get plain arrays too, unless an outer
transform differentiates them: then they get tensors, and are recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.function import Function
from pullback.autograd.modes import is_grad_enabled
from pullback.compat.autograd.linear import conjugate
from pullback.errors import AutogradTypeError, DerivativeMissingError
from pullback.interop.arguments import holds_gradient, raw, tensors_in
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor

__all__ = [
    "Box",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
]

_Rule = Callable[..., Any]
Box = Tensor


class _Primitive:
    """A function of arrays with rules for its derivatives."""

    def __init__(self, fun: _Rule):
        self.fun = fun
        self.vjp: _Rule | None = None
        self.jvp: _Rule | None = None
        functools.update_wrapper(self, fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if next(tensors_in([args, kwargs]), None) is None:
            return self.fun(*args, **kwargs)
        if holds_gradient([[a for a in args if not isinstance(a, Tensor)], kwargs]):
            raise AutogradTypeError(
                f"{self.name}: a primitive is differentiated by its positional arguments; one that "
                f"carries a gradient was given by keyword or inside a list"
            )
        return _Call.apply(self, kwargs, *args)

    @property
    def name(self) -> str:
        return getattr(self.fun, "__name__", repr(self.fun))


def _value(value: Any) -> Any:
    return raw(value)[()] if isinstance(value, Tensor) else value


class _Call(Function):
    """One call of a primitive."""

    @staticmethod
    def forward(rules: _Primitive, kwargs: dict[str, Any], *args: Any) -> Any:
        found = rules.fun(*map(_value, args), **{key: _value(v) for key, v in kwargs.items()})
        if isinstance(found, tuple | list):
            return tuple(creation.array(part) for part in found)
        return creation.array(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rules, ctx.options, *args = inputs
        ctx.set_materialize_grads(False)
        ctx.several = isinstance(output, tuple)
        ctx.constants = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [place for place, a in enumerate(args) if isinstance(a, Tensor)]
        kept = (*(args[place] for place in ctx.places), *(output if ctx.several else (output,)))
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rules = ctx.rules
        if rules.vjp is None:
            raise DerivativeMissingError(f"VJP of {rules.name} not defined; use defvjp")
        args, answer, given = _known(ctx, grads)
        argnums = tuple(p for p in range(len(args)) if ctx.needs_input_grad[p + 2])
        cotangent = tuple(map(_conj, given)) if ctx.several else _conj(given[0])
        found = rules.vjp(argnums, answer, args, ctx.options)(cotangent)
        results: list[Any] = [None] * (len(args) + 2)
        for place, gradient in zip(argnums, found, strict=True):
            results[place + 2] = conjugate(creation.asarray(gradient))
        return tuple(results)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        rules = ctx.rules
        if rules.jvp is None:
            raise DerivativeMissingError(f"JVP of {rules.name} not defined; use defjvp")
        argnums = tuple(p for p, tangent in enumerate(tangents[2:]) if tangent is not None)
        args, answer, given = _known(ctx, [tangents[p + 2] for p in argnums], of_results=False)
        found = rules.jvp(argnums, given, answer, args, ctx.options)
        if ctx.several:
            return tuple(creation.asarray(part) for part in found)
        return creation.asarray(found)


def _conj(value: Any) -> Any:
    return conjugate(value) if isinstance(value, Tensor) else value.conj()


def _known(ctx: Any, vectors: Any, *, of_results: bool = True) -> tuple[Any, Any, list[Any]]:
    """Returns arguments, result and vectors: arrays, unless an outer transform traces them."""
    saved = list(ctx.saved_tensors)
    outputs = saved[len(ctx.places) :]
    vectors = list(vectors)
    if of_results:
        pairs = zip(vectors, outputs, strict=True)
        vectors = [creation.zeros_like(o) if v is None else v for v, o in pairs]
    everything = [*saved, *vectors]
    if not is_grad_enabled() and not any(tangents_of(t) for t in everything):
        saved, vectors = [_value(t) for t in saved], [_value(v) for v in vectors]
        outputs = saved[len(ctx.places) :]
    args = list(ctx.constants)
    for place, tensor in zip(ctx.places, saved, strict=False):
        args[place] = tensor
    return tuple(args), tuple(outputs) if ctx.several else outputs[0], vectors


def primitive(fun: _Rule) -> Any:
    """Makes a function of arrays one operation, whose derivatives are given by rules.

    >>> import numpy as np
    >>> from pullback.compat.autograd import grad
    >>> @primitive
    ... def cube(x):
    ...     return x**3
    >>> defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
    >>> grad(cube)(2.0)
    12.0
    """
    return _Primitive(fun)


def notrace_primitive(fun: _Rule) -> _Rule:
    """Makes a function see plain arrays; its results count as constants.

    >>> import pullback as pb
    >>> x = pb.tensor(2.0, requires_grad=True)
    >>> int(notrace_primitive(lambda x: x + 1)(x))
    3
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fun(*map(_value, args), **{key: _value(value) for key, value in kwargs.items()})

    return call


def _rules(fun: Any) -> _Primitive:
    if not isinstance(fun, _Primitive):
        raise AutogradTypeError(
            f"rules are for what @primitive returns, and {fun!r} is none; NumPy's own functions "
            f"have their derivatives already"
        )
    return fun


def defvjp_argnums(fun: Any, vjpmaker: _Rule) -> None:
    """One rule for all arguments: ``vjpmaker(argnums, ans, args, kwargs)(g)`` gives gradients."""
    _rules(fun).vjp = vjpmaker


def defvjp_argnum(fun: Any, vjpmaker: _Rule) -> None:
    """One rule for any argument: ``vjpmaker(argnum, ans, args, kwargs)(g)`` gives a gradient."""

    def rule(argnums: tuple[int, ...], *known: Any) -> _Rule:
        makers = [vjpmaker(argnum, *known) for argnum in argnums]
        return lambda g: [maker(g) for maker in makers]

    defvjp_argnums(fun, rule)


def defvjp(fun: Any, *vjpmakers: _Rule | None, argnums: Iterable[int] | None = None) -> None:
    """A rule for each argument, ``vjpmaker(ans, *args)(g)``; None for a gradient of zero.

    >>> import numpy as np
    >>> from pullback.compat.autograd import grad
    >>> power = primitive(lambda x, n: x**n)
    >>> defvjp(power, lambda ans, x, n: lambda g: g * n * x ** (n - 1), None)
    >>> grad(power)(2.0, 3)
    12.0
    """
    by_place = _by_place(vjpmakers, argnums)

    def rule(argnum: int, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Rule:
        maker = _at(by_place, argnum, fun, "VJP")
        if maker is None:
            return lambda _: creation.zeros_like(creation.asarray(args[argnum]))
        made: _Rule = maker(ans, *args, **kwargs)
        return made

    defvjp_argnum(fun, rule)


def defjvp_argnums(fun: Any, jvpmaker: _Rule) -> None:
    """One rule for all arguments: ``jvpmaker(argnums, gs, ans, args, kwargs)`` gives a tangent."""
    _rules(fun).jvp = jvpmaker


def defjvp_argnum(fun: Any, jvpmaker: _Rule) -> None:
    """One rule for any argument, ``jvpmaker(argnum, g, ans, args, kwargs)``; results are added."""

    def rule(argnums: tuple[int, ...], gs: Any, *known: Any) -> Any:
        parts = [jvpmaker(argnum, g, *known) for argnum, g in zip(argnums, gs, strict=True)]
        if isinstance(parts[0], tuple | list):
            return [functools.reduce(_add, column) for column in zip(*parts, strict=True)]
        return functools.reduce(_add, parts)

    defjvp_argnums(fun, rule)


def _add(a: Any, b: Any) -> Any:
    return a + b


def defjvp(fun: Any, *jvpfuns: _Rule | str | None, argnums: Iterable[int] | None = None) -> None:
    """A rule for each argument, ``jvpfun(g, ans, *args)``; "same" where the function is linear.

    >>> from pullback.compat.autograd import deriv
    >>> cube = primitive(lambda x: x**3)
    >>> defjvp(cube, lambda g, ans, x: g * 3 * x**2)
    >>> deriv(cube)(2.0)
    12.0
    """
    by_place = _by_place(jvpfuns, argnums)

    def rule(argnum: int, g: Any, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = _at(by_place, argnum, fun, "JVP")
        if made is None:
            return creation.zeros_like(creation.asarray(ans))
        if made == "same":
            return fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)
        return made(g, ans, *args, **kwargs)

    defjvp_argnum(fun, rule)


def def_linear(fun: Any) -> None:
    """Declares that a primitive is linear in each of its arguments, which gives its JVP rule."""
    defjvp_argnum(
        fun,
        lambda argnum, g, ans, args, kwargs: fun(  # noqa: ARG005
            *args[:argnum], g, *args[argnum + 1 :], **kwargs
        ),
    )


def _by_place(rules: tuple[Any, ...], argnums: Iterable[int] | None) -> dict[int, Any]:
    for rule in rules:
        if not (rule is None or rule == "same" or callable(rule)):
            raise AutogradTypeError(f"a rule is a function or None, not {rule!r}")
    return dict(zip(count() if argnums is None else argnums, rules, strict=False))


def _at(by_place: dict[int, Any], argnum: int, fun: Any, what: str) -> Any:
    if argnum not in by_place:
        raise DerivativeMissingError(
            f"{what} of {_rules(fun).name} wrt argnum {argnum} not defined; add a rule for it"
        )
    return by_place[argnum]
