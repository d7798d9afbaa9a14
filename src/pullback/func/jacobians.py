"""Jacobians and Hessians: ``jacrev``, ``jacfwd``, ``hessian``.

``jacrev`` runs the function once and pulls a basis of cotangents back; ``jacfwd`` pushes a basis of
tangents forward. Either way all vectors of the basis go together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError
from pullback.func.arguments import (
    Argnums,
    differentiable_leaves,
    positions,
    require_chunk_size,
    require_function,
)
from pullback.func.basis import map_basis, unit_vectors
from pullback.func.forward import push
from pullback.func.hvp import curvatures
from pullback.func.reverse import Pulled, pulled
from pullback.tensor.tensor import Tensor, fresh
from pullback.utils import pytree

__all__ = ["hessian", "jacfwd", "jacrev"]

_Function = Callable[..., Any]


def jacrev(
    func: _Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> _Function:
    """A function that computes the Jacobian of a function, by reverse mode.

    Args:
        func: takes and returns trees of real tensors.
        argnums: the positions of the arguments to differentiate by; for a tuple of them the
            Jacobians are a tuple.
        has_aux: `func` returns ``(output, aux)``, and the new function ``(jacobian, aux)``.
        chunk_size: how many rows to compute at a time; all of them by default.

    The result has the structure of the output, and in the place of each of its tensors the
    structure of the argument, with tensors of the shape of the output and then of the argument.

    >>> import pullback as pb
    >>> jacrev(lambda x: x * x)(pb.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    require_function("jacrev", func)
    require_chunk_size("jacrev", chunk_size)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        places = positions("jacrev", argnums, len(args))
        _check_real("jacrev", "inputs", [leaf for p in places for leaf in pytree.leaves(args[p])])
        of = pulled("jacrev", func, argnums, args, kwargs, has_aux)
        try:
            jacobian = _rows(of, isinstance(argnums, tuple), chunk_size)
        finally:
            of.end()
        return (jacobian, of.aux) if has_aux else jacobian

    return run


def _rows(of: Pulled, several: bool, chunk_size: int | None) -> Any:
    """The Jacobian of a function that has run; `several` gives a tuple, one for each argument."""
    _check_real("jacrev", "outputs", of.results)
    rows = []
    for place, result in enumerate(of.results):

        def pull(cotangent: Tensor, place: int = place) -> list[Tensor]:
            seeds: list[Tensor | None] = [None] * len(of.results)
            seeds[place] = cotangent
            return of.pull.gradients(seeds, again=True)

        if result.size == 1:
            found = pull(fresh(np.ones(result.shape, result.dtype)))
        else:
            (basis,) = unit_vectors([result.shape], [result.dtype])
            found = map_basis(pull, [basis], chunk_size)
        shapes = [alias.tensor.shape for alias in of.pull.aliases]
        flat = iter(_shaped(f, result.shape + s) for f, s in zip(found, shapes, strict=True))
        per_argument = [
            pytree.unflatten(spec, [next(flat) for _ in range(spec.size)]) for spec in of.arguments
        ]
        rows.append(tuple(per_argument) if several else per_argument[0])
    return pytree.unflatten(of.spec, rows)


def jacfwd(
    func: _Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> _Function:
    """A function that computes the Jacobian of a function, by forward mode.

    Takes and returns what ``jacrev`` does; better where there are more outputs than inputs.

    Args:
        func: takes and returns trees of real tensors.
        argnums: the positions of the arguments to differentiate by.
        has_aux: `func` returns ``(output, aux)``.
        randomness: what random operators in `func` do: ``"error"``, ``"same"``, ``"different"``.
        chunk_size: how many columns to compute at a time; all of them by default.

    >>> import pullback as pb
    >>> jacfwd(lambda x: x * x)(pb.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if randomness not in ("error", "same", "different"):
        raise AutogradError(
            f"jacfwd: Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness!r}"
        )
    require_function("jacfwd", func)
    require_chunk_size("jacfwd", chunk_size)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        columns = _Columns(func, argnums, args, kwargs, has_aux)
        found = map_basis(columns.push, columns.basis(), chunk_size, randomness, -1)
        jacobian = pytree.unflatten(columns.results, [columns.split(c) for c in found])
        return (jacobian, columns.aux) if has_aux else jacobian

    return run


class _Columns:
    """A function of those arguments that it is differentiated by, as one vector."""

    def __init__(
        self,
        func: _Function,
        argnums: Argnums,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        has_aux: bool,
    ):
        self._func, self._argnums, self._has_aux = func, argnums, has_aux
        self._args, self._kwargs = args, kwargs
        self._places = positions("jacfwd", argnums, len(args))
        self._leaves: list[Tensor] = []
        self._specs: list[pytree.Spec] = []
        for place in self._places:
            found, spec = differentiable_leaves("jacfwd", f"argument {place}", args[place])
            self._leaves += found
            self._specs.append(spec)
        _check_real("jacfwd", "inputs", self._leaves)
        self.results: pytree.Spec = pytree.LEAF
        self.aux: Any = None

    def basis(self) -> list[Tensor]:
        """The unit vectors of all arguments."""
        return unit_vectors([t.shape for t in self._leaves], [t.dtype for t in self._leaves])

    def push(self, *tangents: Tensor) -> list[Tensor]:
        """The tangents of the results; their structure and the auxiliary data are kept here."""
        spec = pytree.Spec(tuple, None, tuple(self._specs))
        results, found, self.results, self.aux = push(
            "jacfwd", self._call, self._leaves, list(tangents), spec, self._has_aux
        )
        _check_real("jacfwd", "outputs", results)
        return found

    def of_gradient(self) -> Any:
        """The Hessian by one run of a function with a scalar result; None if that cannot be."""
        found = curvatures(self._call_with, self._leaves, self.basis())
        if found is None:
            return None
        parts = iter([self.split(tensors.moveaxis(part, [0], [-1])) for part in found])
        trees = [pytree.unflatten(s, [next(parts) for _ in range(s.size)]) for s in self._specs]
        return tuple(trees) if isinstance(self._argnums, tuple) else trees[0]

    def _call_with(self, leaves: list[Tensor]) -> Any:
        parts = iter(leaves)
        trees = [pytree.unflatten(s, [next(parts) for _ in range(s.size)]) for s in self._specs]
        return self._call(*trees)

    def _call(self, *values: Any) -> Any:
        given = list(self._args)
        for place, value in zip(self._places, values, strict=True):
            given[place] = value
        return self._func(*given, **self._kwargs)

    def split(self, columns: Tensor) -> Any:
        """The columns of one result, along its last axis, as a tree of Jacobians by argument."""
        start, parts = 0, []
        for leaf in self._leaves:
            is_all = len(self._leaves) == 1
            part = columns if is_all else columns[..., start : start + leaf.size]
            parts.append(_shaped(part, columns.shape[:-1] + leaf.shape))
            start += leaf.size
        flat = iter(parts)
        trees = [
            pytree.unflatten(spec, [next(flat) for _ in range(spec.size)]) for spec in self._specs
        ]
        return tuple(trees) if isinstance(self._argnums, tuple) else trees[0]


def hessian(func: _Function, argnums: Argnums = 0) -> _Function:
    """A function that computes the Hessian of a function: ``jacfwd`` of ``jacrev``.

    >>> import pullback as pb
    >>> hessian(lambda x: (x**3).sum())(pb.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    require_function("hessian", func)
    general = jacfwd(jacrev(func, argnums), argnums)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        columns = _Columns(func, argnums, args, kwargs, False)
        found = columns.of_gradient()
        return general(*args, **kwargs) if found is None else found

    return run


def _check_real(name: str, what: str, leaves: list[Any]) -> None:
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf.dtype.kind == "c":
            raise AutogradError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened "
                f"{what[:-1]} idx: {place}"
            )


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tensor.shape == shape:
        return tensor
    return tensors.reshape(tensor, list(shape))  # type: ignore[no-any-return]
