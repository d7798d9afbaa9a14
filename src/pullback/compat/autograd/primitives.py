"""User-defined operations of HIPS autograd: ``primitive``, ``defvjp``, ``defjvp`` and their kin.

A primitive computes with plain arrays, numbers, containers of them, and values of registered types.
Its rules get plain values too, unless an outer transform differentiates them: then they get
tensors, and are recorded.
"""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from itertools import count, pairwise
from typing import Any, NamedTuple

from pullback.autograd.forward.tangents import tangents_of
from pullback.autograd.function import Function
from pullback.autograd.modes import is_grad_enabled
from pullback.compat.autograd.boxes import Box, box_value, getval, is_user_type
from pullback.compat.autograd.linear import conjugate
from pullback.compat.autograd.recording import active_trace, is_tracing, record_call
from pullback.errors import AutogradTypeError, DerivativeMissingError
from pullback.interop.arguments import holds_gradient, tensors_in
from pullback.operators.creation import functions as creation
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = [
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
    "primitive_jvps",
    "primitive_vjps",
]

_Rule = Callable[..., Any]


class _Rules(MutableMapping[Any, _Rule]):
    """Rules by primitive; a rule is an attribute of its primitive, and ends with it."""

    def __init__(self, attribute: str):
        self._attribute = attribute
        self._known: weakref.WeakSet[_Primitive] = weakref.WeakSet()

    def __getitem__(self, fun: Any) -> _Rule:
        found: _Rule | None = getattr(fun, self._attribute, None)
        if found is None:
            raise KeyError(fun)
        return found

    def __setitem__(self, fun: Any, rule: _Rule) -> None:
        setattr(_rules(fun), self._attribute, rule)
        self._known.add(fun)

    def __delitem__(self, fun: Any) -> None:
        setattr(_rules(fun), self._attribute, None)
        self._known.discard(fun)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


primitive_vjps = _Rules("_vjp_rule")
primitive_jvps = _Rules("_jvp_rule")


class _Primitive:
    """A function of values with rules for its derivatives; in a class it is a method."""

    def __init__(self, fun: _Rule):
        self.fun = fun
        functools.update_wrapper(self, fun)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.flatten(args)
        if not any(isinstance(leaf, Box) for leaf in [*leaves, *tensors_in(kwargs)]):
            return self.fun(*args, **kwargs)
        if holds_gradient(kwargs):
            raise AutogradTypeError(
                f"{self.name}: a primitive is differentiated by its positional arguments; one that "
                f"carries a gradient was given by keyword"
            )
        trace = active_trace(leaves)
        if trace is not None:
            return record_call(trace, self, self.name, args, kwargs)
        call = _Arguments(self, spec, leaves, kwargs)
        made = _Call.apply(call, *(_handle(leaf) for leaf in leaves))
        return call.open_results(made if isinstance(made, tuple) else (made,))

    @property
    def name(self) -> str:
        return getattr(self.fun, "__name__", repr(self.fun))

    def defgrad(self, gradfun: _Rule, argnum: int = 0) -> None:
        """Deprecated in HIPS autograd: `defvjp` for one argument."""
        warnings.warn("defgrad is deprecated; use defvjp", stacklevel=2)
        self._add_rule(argnum, gradfun)

    def defvjp(self, vjpmaker: _Rule, argnum: int = 0) -> None:
        """Deprecated in HIPS autograd: a rule ``vjpmaker(g, ans, vs, gvs, *args)``."""
        warnings.warn("the method defvjp is deprecated; use defvjp", stacklevel=2)

        def maker(ans: Any, *args: Any, **kwargs: Any) -> _Rule:
            return lambda g: vjpmaker(g, ans, args[argnum], g, *args, **kwargs)

        self._add_rule(argnum, maker)

    def defvjp_is_zero(self, argnums: Iterable[int] = (0,)) -> None:
        """Deprecated in HIPS autograd: arguments by which the derivative is zero."""
        warnings.warn("defvjp_is_zero is deprecated; use defvjp with None", stacklevel=2)
        for argnum in argnums:
            self._add_rule(argnum, None)

    def _add_rule(self, argnum: int, rule: _Rule | None) -> None:
        rules: dict[int, _Rule | None] = self.__dict__.setdefault("_single_rules", {})
        rules[argnum] = rule
        defvjp(self, *rules.values(), argnums=list(rules))


def _handle(leaf: Any) -> Any:
    """The tensor that represents a box in the graph; other leaves are returned unchanged."""
    return leaf._node if isinstance(leaf, Box) and not isinstance(leaf, Tensor) else leaf


class _Known(NamedTuple):
    """Arguments of rules: a call's arguments and result, and cotangents or tangents by place."""

    args: tuple[Any, ...]
    answer: Any
    vectors: list[Any]


class _Arguments:
    """Arguments and results of one call of a primitive: their containers and boxes."""

    def __init__(self, rules: _Primitive, spec: pytree.Spec, leaves: list[Any], kwargs: Any):
        self.rules = rules
        self.spec = spec
        self.kwargs = kwargs
        self.boxes = {p: leaf for p, leaf in enumerate(leaves) if _handle(leaf) is not leaf}
        self.result_spec: Any = None
        self.result_boxes: dict[int, Box] = {}

    def run(self, leaves: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """Computes the result; values of registered types are given as handles."""
        given = [getval(self.boxes.get(p, leaf)) for p, leaf in enumerate(leaves)]
        args = pytree.unflatten(self.spec, given)
        found, self.result_spec = pytree.flatten(
            self.rules.fun(*args, **pytree.map(getval, self.kwargs))
        )
        made = []
        for place, value in enumerate(found):
            if is_user_type(value):
                self.result_boxes[place] = box_value(value)
                made.append(self.result_boxes[place]._node)
            else:
                made.append(creation.array(value))
        return tuple(made)

    def open_results(self, made: tuple[Any, ...]) -> Any:
        """The result in its containers, with boxes around values of registered types."""
        leaves = list(made)
        for place, box in self.result_boxes.items():
            box._node = made[place]
            leaves[place] = box
        return pytree.unflatten(self.result_spec, leaves)

    def of_place(self, leaves: list[Any]) -> list[list[Any]]:
        """Groups the leaves of arguments by argument."""
        ends = [0]
        for child in self.spec.children:
            ends.append(ends[-1] + child.size)
        return [leaves[a:b] for a, b in pairwise(ends)]


class _Call(Function):
    """One call of a primitive."""

    @staticmethod
    def forward(call: _Arguments, *leaves: Any) -> Any:
        made = call.run(leaves)
        return made if len(made) != 1 else made[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, *leaves = inputs
        ctx.set_materialize_grads(False)
        ctx.constants = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        ctx.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        outputs = output if isinstance(output, tuple) else (output,)
        kept = (*(leaves[place] for place in ctx.places), *outputs)
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call: _Arguments = ctx.call
        rule = primitive_vjps.get(call.rules)
        if rule is None:
            raise DerivativeMissingError(f"VJP of {call.rules.name} not defined; use defvjp")
        known = _known(ctx, grads, of_results=True)
        needed = call.of_place(list(ctx.needs_input_grad[1:]))
        argnums = tuple(place for place, needs in enumerate(needed) if any(needs))
        vectors = [
            call.result_boxes[p]._trace.take() if p in call.result_boxes else _conj(v)
            for p, v in enumerate(known.vectors)
        ]
        cotangent = pytree.unflatten(call.result_spec, vectors)
        found = dict(
            zip(
                argnums,
                rule(argnums, known.answer, known.args, call.kwargs)(cotangent),
                strict=True,
            )
        )
        leaves: list[Any] = []
        for place, spec in enumerate(call.spec.children):
            given = found.get(place)
            leaves += (
                [None] * spec.size
                if given is None
                else pytree.flatten_like(spec, given, f"the gradient by argument {place}")
            )
        return (None, *(_received(call, place, leaf) for place, leaf in enumerate(leaves)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        call: _Arguments = ctx.call
        rule = primitive_jvps.get(call.rules)
        if rule is None:
            raise DerivativeMissingError(f"JVP of {call.rules.name} not defined; use defjvp")
        if call.boxes or call.result_boxes:
            raise DerivativeMissingError(
                f"{call.rules.name}: values of registered types have no forward mode; use grad or "
                f"make_vjp"
            )
        given = list(tangents[1:])
        groups = call.of_place(given)
        argnums = tuple(p for p, group in enumerate(groups) if any(t is not None for t in group))
        known = _known(ctx, given, of_results=False)
        by_argument = call.of_place(known.vectors)
        gs = [pytree.unflatten(call.spec.children[p], by_argument[p]) for p in argnums]
        found = rule(argnums, gs, known.answer, known.args, call.kwargs)
        leaves = pytree.flatten_like(call.result_spec, found, "the tangent of the result")
        made = tuple(creation.asarray(leaf) for leaf in leaves)
        return made if len(made) != 1 else made[0]


def _received(call: _Arguments, place: int, gradient: Any) -> Any:
    """A rule's gradient by one leaf, as the engine takes it."""
    if place in call.boxes:
        if gradient is not None:
            call.boxes[place]._trace.add(gradient)
        return creation.asarray(0.0)
    return None if gradient is None else conjugate(creation.asarray(gradient))


def _conj(value: Any) -> Any:
    return conjugate(value) if isinstance(value, Tensor) else value.conj()


def _known(ctx: Any, vectors: Any, *, of_results: bool) -> _Known:
    """Makes the arguments of rules: plain, unless an outer transform or a trace sees them."""
    call: _Arguments = ctx.call
    saved = list(ctx.saved_tensors)
    inputs, outputs = list(ctx.constants), saved[len(ctx.places) :]
    for place, tensor in zip(ctx.places, saved, strict=False):
        inputs[place] = tensor
    pairs = zip(vectors, outputs if of_results else inputs, strict=True)
    vectors = [
        creation.zeros_like(like) if vector is None and isinstance(like, Tensor) else vector
        for vector, like in pairs
    ]
    is_outer = is_grad_enabled() or is_tracing()
    is_outer = is_outer or any(tangents_of(t) for t in [*saved, *vectors] if isinstance(t, Tensor))
    see = (lambda leaf: leaf) if is_outer else getval
    for place, box in call.boxes.items():
        inputs[place] = box
    for place, box in call.result_boxes.items():
        outputs[place] = box
    args = pytree.unflatten(call.spec, map(see, inputs))
    return _Known(args, pytree.unflatten(call.result_spec, map(see, outputs)), [*map(see, vectors)])


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
        return fun(*pytree.map(getval, args), **pytree.map(getval, kwargs))

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
    primitive_vjps[fun] = vjpmaker


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
            return lambda _: None
        made: _Rule = maker(ans, *args, **kwargs)
        return made

    defvjp_argnum(fun, rule)


def defjvp_argnums(fun: Any, jvpmaker: _Rule) -> None:
    """One rule for all arguments: ``jvpmaker(argnums, gs, ans, args, kwargs)`` gives a tangent."""
    primitive_jvps[fun] = jvpmaker


def defjvp_argnum(fun: Any, jvpmaker: _Rule) -> None:
    """One rule for any argument, ``jvpmaker(argnum, g, ans, args, kwargs)``; results are added."""

    def rule(argnums: tuple[int, ...], gs: Any, *known: Any) -> Any:
        parts = [jvpmaker(argnum, g, *known) for argnum, g in zip(argnums, gs, strict=True)]
        return functools.reduce(_add, parts)

    defjvp_argnums(fun, rule)


def _add(first: Any, second: Any) -> Any:
    return pytree.map(lambda a, b: a + b, first, second)


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
            return pytree.map(lambda leaf: creation.zeros_like(creation.asarray(leaf)), ans)
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
