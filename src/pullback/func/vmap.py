"""``vmap``: vectorizes a function over a batch dimension of its arguments.

The function is called once, with batched tensors, which have no visible batch dimension; every
operator computes on the whole batch (``pullback.batching``). So a batch costs as many Python calls
as one example of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback._generated import functions_batching
from pullback._generated import functions_shape as shapes
from pullback._generated.functions_pointwise import clone
from pullback.autograd.graph.escapes import end_inputs, pending
from pullback.autograd.graph.views import view_of
from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError, AutogradIndexError, AutogradValueError, message_of
from pullback.func.arguments import require_chunk_size, require_function
from pullback.operators.batching.formulas import out_of_level
from pullback.tensor.batched import BatchedArray, batched
from pullback.tensor.levels import MapLevel, RowLevel, check_alive
from pullback.tensor.tensor import Tensor, adopt, numeric
from pullback.utils import pytree

__all__ = ["Dims", "map_rows", "vmap"]

Dims = Any  # an int, None, or a tree of them
_RANDOMNESS = ("error", "different", "same")
_ARRAYS = frozenset({Tensor, np.ndarray})


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Maps a function over an axis of its arguments; the results are stacked along an axis.

    Args:
        func: takes and returns tensors, or nested containers of them, without batch dimension.
        in_dims: the batch dimension of each argument, None for an argument that is not batched:
            one value for all, or one for each argument, which may be nested as the argument is.
            Keyword arguments are always mapped over axis 0.
        out_dims: the batch dimension of the results; one value, or nested as the result. None
            returns an unbatched result as it is.
        randomness: what random operators do inside: ``"error"`` refuses them, ``"same"`` makes one
            draw for the whole batch, ``"different"`` one for each element of it.
        chunk_size: elements of the batch computed at a time, to save memory; None: all.

    >>> import pullback as pb
    >>> rows = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> vmap(lambda row: row.sum())(rows).tolist()
    [3.0, 7.0]
    >>> vmap(pb.matmul, in_dims=(None, 0))(rows, rows).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """
    require_function("vmap", func)
    require_chunk_size("vmap", chunk_size)
    if randomness not in _RANDOMNESS:
        raise AutogradError(
            f"vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        inputs = _Inputs(func, in_dims, args, kwargs)
        if chunk_size is None or chunk_size >= inputs.size:
            leaves, spec, _ = _results(func, inputs, out_dims, randomness)
            return leaves[0] if spec is pytree.LEAF else pytree.unflatten(spec, leaves)
        return _run_in_chunks(func, inputs, out_dims, randomness, chunk_size)

    return mapped


def map_rows(
    func: Callable[..., list[Tensor]], rows: list[Tensor], randomness: str, out_dim: int
) -> list[Tensor]:
    """The same for a function of tensors that returns a list of them, without trees.

    No other object holds the arrays of the rows, and their first axis is the batch dimension.
    """
    level = RowLevel(rows[0].shape[0], randomness)
    given = [batched(part._array, (level.number,)) for part in rows]
    with level:
        found = func(*given)
    name = getattr(func, "__name__", type(func).__name__)
    seen: set[int] = set()
    left = []
    try:
        level.begin()
        for place, value in enumerate(found):
            left.append(_left(value, out_dim, level, f"output [{place}]", name, id(value) in seen))
            seen.add(id(value))
    finally:
        level.end()
    if pending:  # as in `_results`
        end_inputs(())
    return left


class _Inputs:
    """Flattened arguments of one call: leaves, their batch dimensions, and the batch size.

    `spec` is the structure of ``(args, kwargs)``, or None where each argument is a tensor or an
    array and none is given by keyword, so that there is no tree to take apart.
    """

    spec: pytree.Spec | None

    def __init__(
        self, func: Callable[..., Any], in_dims: Dims, args: tuple[Any, ...], kwargs: dict[str, Any]
    ):
        name = getattr(func, "__name__", repr(func))
        if not args and not kwargs:
            raise AutogradValueError(
                f"vmap({name}): got no inputs; a mapped function needs at least one argument"
            )
        if kwargs or not _ARRAYS.issuperset(map(type, args)):
            self.leaves, self.spec = pytree.flatten((args, kwargs))
            of_args, of_kwargs = self.spec.children
            dims = _dims_of(in_dims, args, of_args.size, name) + [0] * of_kwargs.size
        else:
            self.leaves, self.spec = list(args), None
            dims = _dims_of(in_dims, args, len(args), name)
        self.dims = [self._checked_dim(place, dim, name) for place, dim in enumerate(dims)]
        self.size = self._size(name)

    def _path(self, place: int) -> str:
        """A leaf as a user names it, in errors."""
        if self.spec is None:
            return f"argument {place}"
        name, _, rest = self.spec.paths()[place][4:].partition("]")  # after "[0][" or "[1]["
        return f"argument {name}{' at ' + rest if rest else ''}"

    def _size(self, name: str) -> int:
        found: dict[int, int] = {}  # by size, the place of the first leaf that has it
        for place, (dim, leaf) in enumerate(zip(self.dims, self.leaves, strict=True)):
            if dim is not None:
                found.setdefault(leaf.shape[dim], place)
        if len(found) == 1:
            return next(iter(found))
        sizes = {
            size: f"{self._path(at)} (axis {self.dims[at]} of {list(self.leaves[at].shape)})"
            for size, at in found.items()
        }
        if not sizes:
            raise AutogradValueError(
                f"vmap({name}): Expected at least one Tensor to vmap over, but in_dims is None for "
                f"every argument, or there is no tensor among them; call the function itself, or "
                f"name an axis in in_dims"
            )
        listed = ", ".join(f"{n} samples in {where}" for n, where in sizes.items())
        raise AutogradValueError(
            f"vmap({name}): Expected all tensors to have the same size in the mapped "
            f"dimension, got sizes {list(sizes)} for the mapped dimension: {listed}"
        )

    def _checked_dim(self, place: int, dim: Any, name: str) -> int | None:
        """The batch dimension of a leaf, not negative."""
        leaf = self.leaves[place]
        if dim is None:
            return None
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise AutogradValueError(
                f"vmap({name}): Got in_dim={dim!r} for an input but in_dim must be either an "
                f"integer dimension or None: {self._path(place)}"
            )
        if not isinstance(leaf, Tensor | np.ndarray):
            raise AutogradValueError(
                f"vmap({name}): Got in_dim={dim} for an input but the input is of type "
                f"{type(leaf).__name__}: {self._path(place)} is no tensor; say None for it in "
                f"in_dims"
            )
        ndim = leaf.ndim
        if not -ndim <= dim < ndim:
            needed = f"some axis from {-ndim} to {ndim - 1} is needed"
            raise AutogradValueError(
                f"vmap({name}): Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {ndim}: {self._path(place)}; "
                f"{needed if ndim else 'say None for it in in_dims, or give it an axis'}"
            )
        return dim % ndim

    def part(self, start: int, stop: int) -> _Inputs:
        """The arguments with a part of the batch."""
        part = object.__new__(_Inputs)
        part.spec, part.dims, part.size = self.spec, self.dims, stop - start
        part.leaves = [
            leaf if dim is None else _as_tensor(leaf)[(slice(None),) * dim + (slice(start, stop),)]
            for dim, leaf in zip(self.dims, self.leaves, strict=True)
        ]
        return part

    def entered(self, level: MapLevel) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the function gets them."""
        leaves = [
            leaf
            if dim is None
            else functions_batching._add_level(
                leaf if type(leaf) is Tensor else _as_tensor(leaf), dim, level.number
            )
            for dim, leaf in zip(self.dims, self.leaves, strict=True)
        ]
        if self.spec is None:
            return tuple(leaves), {}
        made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.unflatten(self.spec, leaves)
        return made


def _as_tensor(leaf: Any) -> Any:
    return leaf if isinstance(leaf, Tensor) else adopt(numeric(leaf))


def _dims_of(in_dims: Dims, args: tuple[Any, ...], leaf_count: int, name: str) -> list[Any]:
    """An axis for every leaf of the arguments by position."""
    if isinstance(in_dims, bool) or not isinstance(in_dims, int | tuple):
        raise AutogradValueError(
            f"vmap({name}, in_dims={in_dims!r}): expected `in_dims` to be int or a (potentially "
            f"nested) tuple matching the structure of inputs, got: {type(in_dims).__name__}"
        )
    if isinstance(in_dims, int):
        return [in_dims] * leaf_count
    if len(in_dims) != len(args):
        raise AutogradValueError(
            f"vmap({name}, in_dims={in_dims!r}): in_dims is not compatible with the structure of "
            f"`inputs`: it has {len(in_dims)} entries, but the function was called with "
            f"{len(args)} arguments by position"
        )
    dims: list[Any] = []
    for place, (dim, arg) in enumerate(zip(in_dims, args, strict=True)):
        what = (
            f"vmap({name}, in_dims={in_dims!r}): in_dims is not compatible with the structure of "
            f"`inputs`: entry {place}"
        )
        dims += _spread(dim, arg, what)
    return dims


def _spread(dims: Dims, tree: Any, what: str, none_is_leaf: bool = False) -> list[Any]:
    """Axes for all leaves of a tree, where one may stand for a whole branch."""
    if dims is None or isinstance(dims, int):
        return [dims] * pytree.flatten(tree, none_is_leaf=none_is_leaf)[1].size
    given, spec = pytree.flatten(dims, none_is_leaf=True)
    try:
        branches = pytree.flatten_like(spec, tree, "the value")
    except AutogradValueError as error:
        raise AutogradValueError(
            f"{what} does not fit its value: {message_of(error)}; give one axis, or the "
            f"same structure"
        ) from None
    found: list[Any] = []
    for dim, branch in zip(given, branches, strict=True):
        found += [dim] * pytree.flatten(branch, none_is_leaf=none_is_leaf)[1].size
    return found


# --- running -------------------------------------------------------------------------------------


def _results(
    func: Callable[..., Any], inputs: _Inputs, out_dims: Dims, randomness: str
) -> tuple[list[Any], Any, list[Any]]:
    """The leaves of the result outside the level, its structure, and its batch dimensions."""
    name = getattr(func, "__name__", repr(func))
    level = MapLevel(inputs.size, randomness)
    args, kwargs = inputs.entered(level)
    with level:
        returned = func(*args, **kwargs)
    found, spec, paths = [returned], pytree.LEAF, [""]
    if type(returned) is not Tensor:
        found, spec = pytree.flatten(returned, none_is_leaf=True)
        paths = spec.paths()
    what = f"vmap({name}, ..., out_dims={out_dims!r}): out_dims"
    if isinstance(out_dims, tuple | list) and spec.kind is None:
        if len(out_dims) != 1:
            raise AutogradValueError(
                f"{what} is not compatible with the structure of `outputs`: it has {len(out_dims)} "
                f"entries, but the function returned one tensor"
            )
        out_dims = out_dims[0]
    if out_dims is not None and isinstance(returned, tuple) and isinstance(out_dims, list):
        out_dims = tuple(out_dims)
    what += " is not compatible with the structure of `outputs`: it"
    if out_dims is None or isinstance(out_dims, int):
        dims = [out_dims] * spec.size
    else:
        dims = _spread(out_dims, returned, what, none_is_leaf=True)
    seen: set[int] = set()
    leaves = []
    try:
        level.begin()
        for place, (value, dim) in enumerate(zip(found, dims, strict=True)):
            where = f"output {paths[place]}" if paths[place] else "the output"
            leaves.append(_left(value, dim, level, where, name, id(value) in seen))
            seen.add(id(value))
    finally:
        level.end()
    if pending:  # transforms inside the function have ended, and could not search there
        end_inputs(())
    return leaves, spec, dims


def _left(value: Any, dim: Any, level: MapLevel, where: str, name: str, again: bool) -> Any:
    """One result as it is seen outside of the level."""
    if not isinstance(value, Tensor):
        raise AutogradValueError(
            f"vmap({name}): `{name}` must only return Tensors, got type {type(value)} as "
            f"{where}; return it in another way"
        )
    held = value._array
    levels = held.levels if type(held) is BatchedArray else ()
    check_alive(levels)  # it may be a value that has escaped from another one
    varies = level.number in levels
    if dim is None:
        if varies:
            raise AutogradValueError(
                f"vmap({name}): `{name}` can not return a BatchedTensor when out_dim is None: "
                f"{where} varies with the sample; name the axis where the samples are to go"
            )
        return value
    ndim: int = held.ndim + 1
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise AutogradValueError(
            f"vmap({name}): `out_dims` must be an int, None or a python collection of ints "
            f"representing where in the outputs the samples go, and it has {dim!r} for {where}"
        )
    if not -ndim <= dim < ndim:
        raise AutogradIndexError(
            f"vmap({name}): Dimension out of range (expected to be in range of [{-ndim}, "
            f"{ndim - 1}], but got {dim}): out_dims for {where}, whose samples have {value.ndim} "
            f"axes"
        )
    dim %= ndim
    if varies and (again or view_of(value) is not None):
        value = clone(value)  # the caller's memory, or that of another result
    if varies:
        return functions_batching._remove_level(value, dim, level.number)
    return out_of_level(tensors, value, dim, level.number, level.size)


def _run_in_chunks(
    func: Callable[..., Any], inputs: _Inputs, out_dims: Dims, randomness: str, size: int
) -> Any:
    """Computes chunks of the batch and concatenates the results."""
    starts = range(0, inputs.size, size)
    parts = [
        _results(func, inputs.part(start, min(start + size, inputs.size)), out_dims, randomness)
        for start in starts
    ]
    _, spec, dims = parts[0]
    joined = []
    for place, dim in enumerate(dims):
        column = [leaves[place] for leaves, _, _ in parts]
        joined.append(
            column[0] if dim is None else shapes.concatenate(column, dim % column[0].ndim)
        )
    return pytree.unflatten(spec, joined)
