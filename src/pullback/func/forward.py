"""Forward-mode transforms: ``jvp``, and ``linearize``, which keeps the linear part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.autograd.forward.tangents import beside, set_tangent, split, tangents_of, zeros_like
from pullback.autograd.graph.escapes import end_inputs
from pullback.autograd.graph.views import edge_of, requires_grad
from pullback.autograd.levels import TransformLevel
from pullback.dispatch.keys import DUAL, PLAIN_VIEW, REQUIRES_GRAD
from pullback.dispatch.modes import get_state
from pullback.errors import AutogradError
from pullback.func.arguments import dtype_error, require_function, result_leaves, with_aux
from pullback.func.reverse import Pulled
from pullback.func.vjp_graph import Alias, VjpGraph
from pullback.tensor.tensor import TRACES, TRACKED, Tensor, tag_level, wrap
from pullback.utils import pytree

if TYPE_CHECKING:
    from pullback.fx import tracer
else:
    tracer = lazy_module("pullback.fx.tracer")

__all__ = ["jvp", "linearize", "push"]

_Function = Callable[..., Any]


def jvp(
    func: _Function,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of a function, and its derivative in a direction.

    Args:
        func: takes and returns trees of tensors.
        primals: the arguments, as a tuple.
        tangents: the direction, with the same structure.
        strict: refuse a result that does not depend on the arguments; else its tangent is zero.
        has_aux: `func` returns ``(output, aux)``.

    Returns ``(output, tangent)``, with `has_aux` ``(output, tangent, aux)``.

    >>> import pullback as pb
    >>> jvp(lambda x: x * x, (pb.tensor(3.0),), (pb.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    name = "jvp(f, primals, tangents)"
    require_function(name, func)
    if not isinstance(primals, tuple):
        raise AutogradError(
            f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals). "
            f"Got a {type(primals).__name__}"
        )
    leaves, spec = pytree.flatten(primals)
    if not leaves:
        raise AutogradError(f"{name}: Expected primals to contain at least one Tensor.")
    given = pytree.flatten_like(
        spec,
        tangents,
        f"{name}: Expected primals and tangents to have the same python structure; tangents",
    )
    for primal, tangent, path in zip(leaves, given, spec.paths(), strict=True):
        _check_pair(name, primal, tangent, path)
    results, slopes, result_spec, aux = push(name, func, leaves, given, spec, has_aux, strict)
    output = pytree.unflatten(result_spec, results)
    derivative = pytree.unflatten(result_spec, slopes)
    return (output, derivative, aux) if has_aux else (output, derivative)


def _check_pair(name: str, primal: Any, tangent: Any, path: str) -> None:
    for what, value in (("primals", primal), ("tangents", tangent)):
        if not isinstance(value, Tensor):
            raise AutogradError(
                f"{name}: Expected {what} to only contain Tensors, got {type(value).__name__} at "
                f"{what}{path}"
            )
        if value._array.dtype.kind not in "fc":
            raise dtype_error(name, what + path, value)
    if tangent.shape != primal.shape:
        raise AutogradError(
            f"{name}: Trying to set a forward gradient that has a different size than that of the "
            f"original Tensor, this is not supported: tangents{path} has shape "
            f"{list(tangent.shape)} instead of {list(primal.shape)}"
        )


def push(
    name: str,
    func: _Function,
    primals: list[Tensor],
    tangents: list[Tensor | None],
    spec: pytree.Spec,
    has_aux: bool,
    strict: bool = False,
) -> tuple[list[Tensor], list[Tensor], pytree.Spec, Any]:
    """Runs a function on dual tensors: its results, their tangents, their structure, and aux.

    A tangent of None is zero. Where tangents do not propagate, those of other levels end here.
    """
    propagates = bool(get_state().keep & DUAL)
    with TransformLevel(forward=True) as level:
        duals = [_dual(p, t, level) for p, t in zip(primals, tangents, strict=True)]
        returned, aux = func(*pytree.unflatten(spec, duals)), None
        if has_aux:
            returned, aux = with_aux(name, returned)
        leaves, result_spec = result_leaves(name, returned)
        results, slopes = [], []
        for leaf in leaves:
            primal, tangent = split(leaf, level)
            if tangent is None and strict:
                raise AutogradError(
                    f"{name}, strict=True: The output of f is independent of the inputs. This is "
                    f"not allowed with strict=True."
                )
            results.append(primal)
            slopes.append(tag_level(zeros_like(primal)) if tangent is None else tangent)
        if has_aux:
            aux = pytree.map(
                lambda leaf: split(leaf, level)[0] if isinstance(leaf, Tensor) else leaf, aux
            )
    if not propagates:
        results, slopes = list(map(_primal, results)), list(map(_primal, slopes))
        aux = pytree.map(lambda leaf: _primal(leaf) if isinstance(leaf, Tensor) else leaf, aux)
    end_inputs(())
    return results, slopes, result_spec, aux


def _primal(tensor: Tensor) -> Tensor:
    """The same value with its history, without tangents."""
    for level in tangents_of(tensor):
        tensor = split(tensor, level)[0]
    return tensor


def _dual(argument: Tensor, tangent: Tensor | None, level: TransformLevel) -> Tensor:
    """Makes a dual tensor of an argument: the same memory, with a tangent."""
    if TRACES:
        argument = tracer.localize_tensor(argument)
    dual = wrap(argument._array)
    dual._counter = level.take_input(argument if argument._flags & TRACKED else dual)
    if requires_grad(argument):
        dual._flags |= REQUIRES_GRAD
        dual._edge = edge_of(argument)
    if argument._flags & (DUAL | PLAIN_VIEW):
        for at, held in tangents_of(argument).items():
            set_tangent(dual, at, held)
    if tangent is not None:
        level.recorded |= requires_grad(tangent)
        set_tangent(dual, level, beside(dual, tangent))
    return dual


def linearize(func: _Function, *primals: Any) -> tuple[Any, _Function]:
    """The value of a function, and its derivative there as a linear function of tangents.

    The function runs once. What it recorded is pulled back to the primals with unknown cotangents,
    which gives a linear map, and ``jvp_fn`` pulls that map back to the cotangents: the transpose of
    the transpose.

    >>> import pullback as pb
    >>> output, jvp_fn = linearize(lambda x: x**3, pb.tensor([1.0, 2.0]))
    >>> jvp_fn(pb.tensor([1.0, 1.0])), jvp_fn(pb.tensor([0.0, 1.0]))
    (tensor([ 3., 12.]), tensor([ 0., 12.]))
    """
    require_function("linearize", func)
    run = Pulled("linearize", func, tuple(range(len(primals))), primals, {}, False)
    run.hold()
    output = pytree.unflatten(run.spec, run.results)
    leaves, spec = pytree.flatten(primals)
    if not leaves:
        return output, lambda: pytree.unflatten(run.spec, map(zeros_like, run.results))
    with TransformLevel(forward=False) as level:
        cotangents = {
            place: Alias(zeros_like(result), level, False)
            for place, result in enumerate(run.results)
            if result.dtype.kind in "fc"
        }
        places = range(len(run.results))
        seeds = [cotangents[p].tensor if p in cotangents else None for p in places]
        transposed = VjpGraph(run.pull.run(seeds, create_graph=True), list(cotangents.values()))
    for alias in cotangents.values():
        alias.end()

    def jvp_fn(*tangents: Any) -> Any:
        given = pytree.flatten_like(
            spec, tangents, "linearize: Expected the tangents to have the same argspec as primals:"
        )
        for place, (primal, tangent) in enumerate(zip(leaves, given, strict=True)):
            _check_direction(place, primal, tangent)
        found = dict(zip(cotangents, transposed.gradients(given, again=True), strict=True))
        slopes = [found[p] if p in found else zeros_like(run.results[p]) for p in places]
        return pytree.unflatten(run.spec, slopes)

    return output, jvp_fn


def _check_direction(place: int, primal: Tensor, tangent: Any) -> None:
    if not isinstance(tangent, Tensor):
        raise AutogradError(
            f"linearize: tangent:{place} must be a Tensor, got {type(tangent).__name__}"
        )
    if tangent.shape != primal.shape:
        raise AutogradError(
            f"linearize: tangent:{place} with shape {list(tangent.shape)} in flattened pytree "
            f"doesn't match the shape {list(primal.shape)} of the corresponding primal."
        )
    if tangent.dtype != primal.dtype:
        raise AutogradError(
            f"linearize: tangent:{place} with dtype {tangent.dtype} in flattened pytree doesn't "
            f"match the dtype {primal.dtype} of the corresponding primal."
        )
