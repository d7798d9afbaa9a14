"""Products with Jacobians and Hessians: ``vjp``, ``jvp``, ``vhp``, ``hvp``."""

from __future__ import annotations

from typing import Any

from pullback.autograd.api import grad
from pullback.autograd.functional.run import (
    Function,
    Run,
    Tensors,
    check_scalar,
    checked_inputs,
    independent,
    vectors_of,
    zeros_for,
    zeros_that_require_grad,
)
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.modes import enable_grad
from pullback.autograd.tensor_data import detach
from pullback.errors import AutogradError
from pullback.func.hvp import curvature
from pullback.tensor.tensor import Tensor

__all__ = ["hvp", "jvp", "vhp", "vjp"]

_OF_INPUT = "the input to the user-provided function is"


def vjp(
    func: Function,
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a function, and the product of a vector with its Jacobian.

    `v` has the shape of the output, and may be left out if that has one element.

    >>> import pullback as pb
    >>> vjp(lambda x: x**3, pb.tensor([1.0, 2.0]), pb.tensor([1.0, 10.0]))
    (tensor([1., 8.]), tensor([  3., 120.]))
    """
    run = Run("vjp", func, inputs, create_graph, strict)
    vectors = vectors_of(
        "vjp", v, run.outputs, run.returns_tuple, "the user-provided function returns"
    )
    found = run.gradients(run.outputs, vectors, "The output")
    return run.value(), run.finished(run.like_inputs(found))


def jvp(
    func: Function,
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a function, and the product of its Jacobian with a vector.

    `v` has the shape of the input, and may be left out if that has one element. Computed by reverse
    mode twice; ``func.jvp`` is forward mode.

    >>> import pullback as pb
    >>> jvp(lambda x: x**3, pb.tensor([1.0, 2.0]), pb.tensor([1.0, 10.0]))
    (tensor([1., 8.]), tensor([  3., 120.]))
    """
    run = Run("jvp", func, inputs, create_graph, strict)
    vectors = vectors_of("jvp", v, run.inputs, run.takes_tuple, _OF_INPUT)
    with enable_grad():
        dummies = tuple(zeros_that_require_grad(output) for output in run.outputs)
        pulled = run.gradients(run.outputs, dummies, "The output", twice=True)
    found = _pulled_through(pulled, dummies, vectors, create_graph)
    if strict and create_graph and not all(requires_grad(part) for part in found):
        raise independent("The jacobian of the user-provided function", 0, create_graph=True)
    return run.value(), run.finished(tuple(found) if run.returns_tuple else found[0])


def vhp(
    func: Function,
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a scalar function, and the product of a vector with its Hessian.

    >>> import pullback as pb
    >>> vhp(lambda x: (x**3).sum(), pb.tensor([1.0, 2.0]), pb.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    if not (create_graph or strict or v is None):
        at_once = _in_one_run("vhp", func, inputs, v)
        if at_once is not None:
            return at_once
    run, vectors, slopes = _slopes("vhp", func, inputs, v, create_graph, strict)
    found = run.gradients(slopes, vectors, "The jacobian")
    return run.value(), run.finished(run.like_inputs(found))


def hvp(
    func: Function,
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a scalar function, and the product of its Hessian with a vector.

    The same as ``vhp``, since Hessians are symmetric. Where the result can be differentiated, or
    `strict` is True, it is computed with one more pass, and ``vhp`` is faster.

    >>> import pullback as pb
    >>> hvp(lambda x: (x**3).sum(), pb.tensor([1.0, 2.0]), pb.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    if not (create_graph or strict or v is None):
        at_once = _in_one_run("hvp", func, inputs, v)
        if at_once is not None:
            return at_once
    run, vectors, slopes = _slopes("hvp", func, inputs, v, create_graph, strict)
    with enable_grad():
        dummies = tuple(zeros_that_require_grad(given) for given in run.inputs)
        pulled = run.gradients(slopes, dummies, "The jacobian", twice=True)
    found = _pulled_through(pulled, dummies, vectors, create_graph)
    return run.value(), run.finished(run.like_inputs(found))


def _slopes(
    name: str,
    func: Function,
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None,
    create_graph: bool,
    strict: bool,
) -> tuple[Run, Tensors | None, Tensors]:
    """The run of a scalar function, the vectors, and the gradient, which can be differentiated."""
    run = Run(name, func, inputs, create_graph, strict)
    check_scalar(name, run)
    vectors = vectors_of(name, v, run.inputs, run.takes_tuple, _OF_INPUT)
    return run, vectors, tuple(run.gradients(run.outputs, None, "The output", twice=True))


def _in_one_run(
    name: str, func: Function, inputs: Tensor | Tensors, v: Tensor | Tensors
) -> tuple[Any, Any] | None:
    """Value and product by a tangent through one backward pass; None if it needs the general path.

    The function then runs once more.
    """
    takes_tuple, given = checked_inputs(name, inputs)
    vectors = vectors_of(name, v, given, takes_tuple, _OF_INPUT)
    assert vectors is not None
    plain = [detach(tensor) for tensor in given], [detach(vector) for vector in vectors]
    try:  # without tangents, because PyTorch makes two backward passes
        found = curvature(lambda parts: func(*parts), *plain, by_tangents=False)
    except AutogradError:  # much that transforms refuse is allowed here; what is not comes again
        found = None
    if found is None:
        return None
    value, products = found
    return detach(value), tuple(products) if takes_tuple else products[0]


def _pulled_through(
    pulled: list[Tensor], dummies: Tensors, vectors: Tensors | None, create_graph: bool
) -> list[Tensor]:
    """The derivative by the vectors that something was pulled back with: the transpose."""
    places = [n for n, part in enumerate(pulled) if requires_grad(part)]
    found: tuple[Tensor | None, ...] = (None,) * len(dummies)
    if places:
        seeds = None if vectors is None else [vectors[n] for n in places]
        parts = [pulled[n] for n in places]
        with enable_grad():
            found = grad(parts, dummies, seeds, create_graph=create_graph, allow_unused=True)
    return [
        zeros_for(dummy) if part is None else part
        for part, dummy in zip(found, dummies, strict=True)
    ]
