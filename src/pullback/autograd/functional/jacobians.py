"""``jacobian`` and ``hessian``."""

from __future__ import annotations

from typing import Any

from pullback.autograd.functional.run import Function, Run, Tensors, as_tuple, check_scalar
from pullback.autograd.modes import enable_grad
from pullback.autograd.namespaces import tensors
from pullback.autograd.tensor_data import detach
from pullback.errors import AutogradError, AutogradUsageError, DerivativeMissingError
from pullback.func.basis import map_basis, unit_vectors
from pullback.func.forward import push
from pullback.func.hvp import curvatures
from pullback.tensor.tensor import Tensor
from pullback.utils import pytree

__all__ = ["hessian", "jacobian"]


def jacobian(
    func: Function,
    inputs: Tensor | Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function.

    Args:
        func: takes tensors, returns a tensor or a tuple of them.
        inputs: a tensor, or a tuple of them.
        create_graph: the result can be differentiated.
        strict: refuse outputs that do not depend on an input; else their Jacobian is zero.
        vectorize: compute all rows together; the forward-mode strategy needs it.
        strategy: ``"reverse-mode"`` or ``"forward-mode"``.

    Returns a tensor of the output's shape followed by the input's; a tuple for a tuple of inputs,
    and a tuple of these for a tuple of outputs.

    >>> import pullback as pb
    >>> jacobian(lambda x: x**3, pb.tensor([1.0, 2.0]))
    tensor([[ 3.,  0.],
            [ 0., 12.]])
    """
    _check_strategy("jacobian", strategy, vectorize)
    if strict and vectorize:
        raise AutogradError(
            "jacobian: `strict=True` and `vectorized=True` are not supported together; set one of "
            "strict and vectorize to False"
        )
    if strategy == "forward-mode":
        if create_graph:
            raise DerivativeMissingError(
                'jacobian: create_graph=True and strategy="forward-mode" are not supported '
                "together; func.jacfwd can be differentiated"
            )
        return _jacobian_forward(func, inputs)
    run = Run("jacobian", func, inputs, create_graph, strict)
    rows = []
    for number, output in enumerate(run.outputs):
        if output.dtype.kind == "c":
            raise AutogradError(
                f"jacobian: grad can be implicitly created only for real scalar outputs, and "
                f"output {number} is complex"
            )

        def pull(cotangent: Tensor, output: Tensor = output, number: int = number) -> list[Tensor]:
            return run.gradients((output,), (cotangent,), f"Output {number}")

        (basis,) = unit_vectors([output.shape], [output.dtype])
        with enable_grad():
            found = map_basis(pull, [basis], None if vectorize else 1)
            parts = [
                tensors.reshape(part, [*output.shape, *given.shape])
                for part, given in zip(found, run.inputs, strict=True)
            ]
        rows.append(tuple(parts) if run.takes_tuple else parts[0])
    return run.finished(tuple(rows) if run.returns_tuple else rows[0])


def _check_strategy(name: str, strategy: str, vectorize: bool) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AutogradUsageError(
            f'{name}: Expected strategy to be either "forward-mode" or "reverse-mode", not '
            f"{strategy!r}. Forward mode is better where there are more outputs than inputs."
        )
    if strategy == "forward-mode" and not vectorize:
        raise DerivativeMissingError(
            f"{name}: Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            f"implemented for `vectorize=True`"
        )


def _jacobian_forward(func: Function, inputs: Tensor | Tensors) -> Any:
    takes_tuple, given = as_tuple(inputs, "jacobian", "inputs")
    plain = [detach(tensor) for tensor in given]
    seen: dict[str, Any] = {}

    def checked(*args: Tensor) -> Tensors:
        returned = func(*args)
        seen["tuple"], outputs = as_tuple(returned, "jacobian", "outputs")
        return outputs

    spec = pytree.flatten(tuple(plain))[1]

    def slopes(*tangents: Tensor) -> list[Tensor]:
        return push("jacobian", checked, plain, list(tangents), spec, False)[1]

    basis = unit_vectors([t.shape for t in plain], [t.dtype for t in plain])
    rows = []
    for columns in map_basis(slopes, basis, None):
        moved, start, parts = tensors.moveaxis(columns, [0], [-1]), 0, []
        for tensor in plain:
            part = moved[..., start : start + tensor.size]
            parts.append(detach(tensors.reshape(part, [*columns.shape[1:], *tensor.shape])))
            start += tensor.size
        rows.append(tuple(parts) if takes_tuple else parts[0])
    return tuple(rows) if seen["tuple"] else rows[0]


def hessian(
    func: Function,
    inputs: Tensor | Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function that returns one tensor with one element.

    Takes what ``jacobian`` takes; the strategy is that of the outer of two Jacobians. Returns a
    tensor of the input's shape twice; for a tuple of inputs, a tuple of tuples.

    >>> import pullback as pb
    >>> hessian(lambda x: (x**3).sum(), pb.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_strategy("hessian", outer_jacobian_strategy, vectorize)
    takes_tuple, given = as_tuple(inputs, "hessian", "inputs")
    if vectorize and not (create_graph or strict):
        rows = _hessian_in_one_run(func, given)
        if rows is not None:
            return rows if takes_tuple else rows[0][0]

    def slope(*given: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            given = tuple(_required(tensor) for tensor in given)
        pushed = outer_jacobian_strategy == "forward-mode"
        run = Run("hessian", func, given, True, strict, pushed=pushed)
        check_scalar("hessian", run)
        found = tuple(run.gradients(run.outputs, None, "Output 0", twice=True))
        return found if takes_tuple else found[0]

    return jacobian(slope, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def _hessian_in_one_run(func: Function, given: Tensors) -> tuple[Tensors, ...] | None:
    """The Hessian's blocks by one backward pass with all tangents; None if it cannot be had so."""
    plain = [detach(tensor) for tensor in given]
    basis = unit_vectors([t.shape for t in plain], [t.dtype for t in plain])
    try:
        found = curvatures(lambda parts: func(*parts), plain, basis)
    except AutogradError:  # much that transforms refuse is allowed here; what is not comes again
        found = None
    if found is None:
        return None
    rows, start = [], 0
    for tensor in plain:
        end = start + tensor.size
        blocks = [
            tensors.reshape(part[start:end], [*tensor.shape, *other.shape])
            for part, other in zip(found, plain, strict=True)
        ]
        rows.append(tuple(blocks))
        start = end
    return tuple(rows)


def _required(tensor: Tensor) -> Tensor:
    """A dual tensor as a leaf: forward over reverse."""
    with enable_grad():
        leaf: Tensor = tensors.clone(tensor)
    leaf._edge = None
    leaf.requires_grad = True
    return leaf
