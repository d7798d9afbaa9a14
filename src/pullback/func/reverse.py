"""Reverse-mode transforms: ``grad``, ``grad_and_value``, ``vjp``.

All have one mechanism: the function runs on aliases of its arguments, and the graph between its
result and the aliases is pulled back (``pullback.func.vjp_graph``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.autograd.engine.roots import checked_seed, implicit_seed
from pullback.autograd.graph.accumulate_grad import AccumulateGrad
from pullback.autograd.graph.escapes import end_inputs, hold_inputs, pending
from pullback.autograd.levels import TransformLevel
from pullback.errors import AutogradError
from pullback.func.arguments import (
    Argnums,
    differentiable_leaves,
    positions,
    require_function,
    result_leaves,
    with_aux,
)
from pullback.func.vjp_graph import Alias, Seeds, VjpGraph, records_outside, released
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["Pulled", "grad", "grad_and_value", "pulled", "vjp"]

_Function = Callable[..., Any]


def _end_all(aliases: list[Alias]) -> None:
    """Ends a transform whose function raised."""
    for alias in aliases:
        alias.end()
    inputs = [alias.forget() for alias in aliases]
    aliases.clear()
    end_inputs(inputs)


class Pulled:
    """Results of a function, and the recorded graph from them to the differentiated arguments.

    Attributes:
        results: the leaves of what the function returned, outside of the transform.
        spec: the structure of the results.
        aux: the auxiliary data.
        arguments: the structure of each differentiated argument.
        pull: the graph between them.
    """

    def __init__(
        self,
        name: str,
        func: _Function,
        places: tuple[int, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        has_aux: bool,
        is_held: bool = False,
        runs_once: bool = True,
        releases: bool = True,
    ):
        """`is_held` says that a pullback keeps the graph, and may run where more is recorded.
        `releases` says that results are used outside of the transform.

        A function that `runs_once` may write to arguments that it is not differentiated by.
        """
        outside = records_outside()
        aliases: list[Alias] = []
        self.arguments: list[pytree.Spec] = []
        try:
            with TransformLevel(forward=False) as level:
                given = self._given(name, places, args, level, outside or is_held, aliases)
                if runs_once:
                    level.arguments = (args, kwargs)
                returned, self.aux = func(*given, **kwargs), None
                if has_aux:
                    returned, self.aux = with_aux(name, returned)
                inner, self.spec = result_leaves(name, returned)
                self.pull = VjpGraph(inner, aliases)
        except BaseException:
            _end_all(aliases)
            raise
        self.results = inner
        if releases:
            self.results = [self.pull.released(result, outside) for result in inner]
        if has_aux:
            self.aux = pytree.map(
                lambda leaf: released(leaf, aliases, outside) if isinstance(leaf, Tensor) else leaf,
                self.aux,
            )
        for alias in aliases:
            alias.end()

    def _given(
        self,
        name: str,
        places: tuple[int, ...],
        args: tuple[Any, ...],
        level: TransformLevel,
        outside: bool,
        aliases: list[Alias],
    ) -> list[Any]:
        """The arguments for the function; `aliases` gets those that it is differentiated by."""
        given = list(args)
        for place in places:
            leaves, spec = differentiable_leaves(name, f"argument {place}", args[place])
            self.arguments.append(spec)
            if spec is pytree.LEAF:
                alias = Alias(leaves[0], level, outside)
                aliases.append(alias)
                given[place] = alias.tensor
            else:
                made = [Alias(leaf, level, outside) for leaf in leaves]
                aliases += made
                given[place] = pytree.unflatten(spec, (alias.tensor for alias in made))
        return given

    def end(self) -> None:
        """Releases the graph; tensors that have escaped from the function become constants."""
        aliases = self.pull.aliases
        del self.pull
        is_held = False
        for alias in aliases:  # in line, because nearly always nothing has escaped
            if type(alias.node) is AccumulateGrad:
                del alias.node
                is_held = is_held or alias.tensor._meta.accumulator() is not None  # type: ignore[union-attr, misc]
        if is_held or pending:
            end_inputs([alias.tensor for alias in aliases])

    def hold(self) -> None:
        """Called instead of `end` where a pullback keeps the graph."""
        hold_inputs([alias.tensor for alias in self.pull.aliases])

    def gradients(
        self, seeds: Seeds, *, again: bool, create_graph: bool | None = None
    ) -> list[Any]:
        """The gradients of the arguments, each with the argument's structure."""
        found = self.pull.gradients(seeds, again=again, create_graph=create_graph)
        if self.arguments.count(pytree.LEAF) == len(self.arguments):
            return found
        flat = iter(found)
        return [
            pytree.unflatten(spec, [next(flat) for _ in range(spec.size)])
            for spec in self.arguments
        ]


def pulled(
    name: str,
    func: _Function,
    argnums: Argnums,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    has_aux: bool,
    runs_once: bool = True,
    releases: bool = True,
) -> Pulled:
    """Runs a function so that it can be pulled back to the arguments `argnums`."""
    places = positions(name, argnums, len(args))
    return Pulled(name, func, places, args, kwargs, has_aux, runs_once=runs_once, releases=releases)


def _differentiated(
    name: str,
    func: _Function,
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    needs_value: bool,
) -> tuple[Any, Tensor | None, Any]:
    """The gradient, the value, if it is needed, and the auxiliary data of a scalar function."""
    places = positions(name, argnums, len(args))
    run = Pulled(name, func, places, args, kwargs, has_aux, releases=needs_value)
    try:
        value: Tensor | None = _scalar(name, run)
        assert value is not None
        seed = implicit_seed(value, (), value._array.dtype)
        gradients = run.gradients(None if seed is None else [seed], again=False)
        if not needs_value:  # it holds the graph
            value = None
            run.results.clear()
    finally:
        run.end()
    return (tuple(gradients) if isinstance(argnums, tuple) else gradients[0]), value, run.aux


def _scalar(name: str, run: Pulled) -> Tensor:
    """The only result of a function to be differentiated; raises unless it is a real scalar."""
    if run.spec.kind is not None:
        raise AutogradError(
            f"{name}: Expected f(*args) to return a Tensor, got a {run.spec.kind.__name__}; use "
            f"has_aux=True to return more than the value"
        )
    (value,) = run.results
    shape, dtype = value._array.shape, value._array.dtype
    if shape != ():
        raise AutogradError(
            f"{name}: Expected f(*args) to return a scalar Tensor, got one of shape "
            f"{list(shape)}. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    if dtype.kind not in "fc":
        raise AutogradError(
            f"{name}: Expected f(*args) to return a floating point Tensor, got dtype {dtype}"
        )
    return value


def grad(func: _Function, argnums: Argnums = 0, has_aux: bool = False) -> _Function:
    """A function that computes the gradient of a function with a scalar result.

    Args:
        func: takes trees of tensors, returns a tensor without axes.
        argnums: the positions of the arguments to differentiate by; for a tuple of them the result
            is a tuple.
        has_aux: `func` returns ``(output, aux)``, and the new function ``(gradient, aux)``.

    The result has the structure of the argument. Transforms nest:

    >>> import pullback as pb
    >>> cube = lambda x: x**3
    >>> grad(cube)(pb.tensor(2.0)), grad(grad(cube))(pb.tensor(2.0))
    (tensor(12.), tensor(12.))
    """
    require_function("grad", func)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        gradient, _, aux = _differentiated("grad", func, argnums, has_aux, args, kwargs, False)
        return (gradient, aux) if has_aux else gradient

    return run


def grad_and_value(func: _Function, argnums: Argnums = 0, has_aux: bool = False) -> _Function:
    """A function that computes the gradient and the value of a function with a scalar result.

    Takes what ``grad`` takes. Returns ``(gradient, value)``, with `has_aux`
    ``(gradient, (value, aux))``.

    >>> import pullback as pb
    >>> grad_and_value(lambda x: (x * x).sum())(pb.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """
    require_function("grad_and_value", func)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        gradient, value, aux = _differentiated(
            "grad_and_value", func, argnums, has_aux, args, kwargs, True
        )
        return (gradient, (value, aux)) if has_aux else (gradient, value)

    return run


def vjp(func: _Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and the function that pulls cotangents back.

    Args:
        func: takes and returns trees of tensors.
        primals: the arguments.
        has_aux: `func` returns ``(output, aux)``.

    Returns ``(output, vjp_fn)``, with `has_aux` ``(output, vjp_fn, aux)``. ``vjp_fn`` takes
    cotangents with the structure of the output and returns a tuple, one tree for each primal. It
    may be called many times.

    >>> import pullback as pb
    >>> output, vjp_fn = vjp(lambda x: x * x, pb.tensor([1.0, 2.0]))
    >>> vjp_fn(pb.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    require_function("vjp", func)
    run = Pulled("vjp", func, tuple(range(len(primals))), primals, {}, has_aux, True)
    run.hold()
    for result, path in zip(run.results, run.spec.paths(), strict=True):
        if result.dtype.kind not in "fc":
            raise AutogradError(
                f"vjp: All outputs of f must be floating-point or complex Tensors, got Tensor with "
                f"dtype {result.dtype}{' at ' + path if path else ''}"
            )

    def vjp_fn(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> tuple[Any, ...]:
        given = pytree.flatten_like(
            run.spec,
            cotangents,
            "vjp: Expected pytree structure of cotangents to be the same as pytree structure of "
            "outputs to the function; the value given",
        )
        seeds: list[Tensor | None] = [
            checked_seed(cotangent, result.shape, result.dtype, place)
            for place, (cotangent, result) in enumerate(zip(given, run.results, strict=True))
        ]
        return tuple(run.gradients(seeds, again=retain_graph, create_graph=create_graph))

    output = pytree.unflatten(run.spec, run.results)
    return (output, vjp_fn, run.aux) if has_aux else (output, vjp_fn)
