"""Kernels at the key Meta, from a rule or a shape function.

A table names one of the rules below, or a function of a ``shapes.py``, which gives the shape of a
result. The dtype comes from the operator's own CPU kernel, which runs on arrays of the same dtypes
with one element each. So promotion is exactly NumPy's, Python numbers included, and arguments of
the wrong kind raise the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.errors import DataDependentError, NoDataError
from pullback.kernels.errstate import errstate
from pullback.kernels.shape_spec import Spec, broadcast, reduced, view_memory
from pullback.meta.array import MetaArray
from pullback.tensor.memory import check_cast, check_fits, overlap_error
from pullback.tensor.payload import Payload
from pullback.tensor.tensor import Tensor, fresh, wrap

if TYPE_CHECKING:
    from pullback.schema import FunctionSchema

__all__ = [
    "RULES",
    "Call",
    "Function",
    "data_dependent",
    "elementwise",
    "meta_kernel",
    "reduction",
    "same",
    "view",
]

Function = Callable[..., Any]


class Call(NamedTuple):
    """One call of an operator: its schema, its kernel for arrays and the arguments."""

    schema: FunctionSchema
    cpu: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def arguments(self) -> dict[str, Any]:
        """The arguments by name."""
        names = [argument.name for argument in self.schema.arguments.flat_positional]
        return {**dict(zip(names, self.args, strict=True)), **self.kwargs}

    def described(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with what tensors hold in their place."""
        return [_held(value) for value in self.args], _each(_held, self.kwargs)

    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return list(_tensors((*self.args, *self.kwargs.values())))

    def on_arrays(self, stand_in: Function) -> Any:
        """The results of the kernel for arrays, with another tensor in the place of each."""
        with errstate(all="ignore"):
            return self.cpu(
                *[_replaced(stand_in, value) for value in self.args],
                **_each(lambda value: _replaced(stand_in, value), self.kwargs),
            )

    def probed(self) -> list[Tensor]:
        """The results for arrays of one element each."""
        return _listed(self.on_arrays(_one_element))


def _each(function: Function, mapping: dict[str, Any]) -> dict[str, Any]:
    return {name: function(value) for name, value in mapping.items()}


def _held(value: Any) -> Any:
    return _replaced(lambda tensor: tensor._array, value)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _replaced(stand_in: Function, value: Any) -> Any:
    if isinstance(value, Tensor):
        return stand_in(value)
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        return [_replaced(stand_in, item) for item in value]
    return value


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, list | tuple) else [results]


def _one_element(tensor: Tensor) -> Tensor:
    """A tensor with as many axes and one element; none if it has none, a number as it is."""
    array = tensor._array
    if not isinstance(array, np.ndarray | Payload):
        return tensor
    return wrap(np.ones([min(n, 1) for n in array.shape], array.dtype))


def _whole_if_empty(tensor: Tensor) -> Tensor:
    """As ``_one_element``, but keeps the shape of empty tensors, for error messages."""
    array = tensor._array
    empty = isinstance(array, np.ndarray | Payload) and 0 in array.shape
    return wrap(np.ones(array.shape, array.dtype)) if empty else _one_element(tensor)


# --- rules ----------------------------------------------------------------------------------------


def elementwise(call: Call) -> list[Spec]:
    """All tensors broadcast against each other."""
    tensors = call.tensors()
    shape = broadcast(*tensors)
    if call.schema.name.name.inplace:  # the error has these shapes, not those of the probe
        own = tensors[0]
        check_fits(shape, own.shape, str(call.schema.name.name))
    probed = call.probed()
    # A result runs through memory as its operands do, where they agree.
    layouts = {t._array.layout for t in tensors if _is_meta(t) and t.shape == shape}
    specs = [Spec(shape, result.dtype) for result in probed]
    if len(layouts) != 1:
        return specs
    (layout,) = layouts
    arrays = [MetaArray(shape, spec.dtype).in_layout(layout) for spec in specs]
    return [Spec(a.shape, a.dtype, a.strides) for a in arrays]


def _is_meta(tensor: Tensor) -> bool:
    return isinstance(tensor._array, MetaArray)


def reduction(call: Call) -> list[Spec]:
    """The axes that the argument `axis` names are gone, or of length one with `keepdims`."""
    results = _listed(call.on_arrays(_whole_if_empty))
    own = call.tensors()[0].shape
    arguments = call.arguments()
    # NumPy lets an axis be named where there is none.
    shape = reduced(own, arguments["axis"], arguments["keepdims"]) if own else ()
    return [Spec(shape, result.dtype) for result in results]


def same(call: Call) -> list[Spec]:
    """Every result has the shape of the first tensor."""
    probed = call.probed()
    return [Spec(call.tensors()[0].shape, result.dtype) for result in probed]


def view(call: Call) -> list[Spec]:
    """The kernel for arrays makes its view of an array that has no memory behind it."""
    results = _listed(call.on_arrays(lambda tensor: wrap(view_memory(tensor._array))))
    return [Spec(r.shape, r.dtype, r._array.strides) for r in results]


def data_dependent(call: Call) -> list[Spec]:
    """The shape depends on the values."""
    raise DataDependentError(
        f"{call.schema.name}: the shape of the result depends on the values of the input, and a "
        f"meta tensor has none; call it with a tensor that has data"
    )


RULES: dict[str, Callable[[Call], list[Spec]]] = {
    "elementwise": elementwise,
    "reduction": reduction,
    "same": same,
    "view": view,
    "data_dependent": data_dependent,
}
"""Rules that a table may name instead of a function."""


def _by_function(function: Function) -> Callable[[Call], list[Spec]]:
    def rule(call: Call) -> list[Spec]:
        args, kwargs = call.described()
        specs: list[Spec] = function(*args, **kwargs)
        specs = [specs] if isinstance(specs, Spec) else list(specs)
        if any(spec.dtype is None for spec in specs):
            probed = call.probed()
            specs = [
                spec._replace(dtype=result.dtype) if spec.dtype is None else spec
                for spec, result in zip(specs, probed, strict=True)
            ]
        return specs

    return rule


# --- kernels --------------------------------------------------------------------------------------


def meta_kernel(rule: str | Function, cpu: Function, schema: FunctionSchema) -> Function:
    """The kernel for Meta of an operator with a rule or shape function.

    >>> import numpy as np, pullback as pb
    >>> schema = pb.schema.parse_schema("f(Tensor self) -> Tensor")
    >>> meta_kernel("elementwise", np.sin, schema)(pb.empty((2, 3), device="meta")).shape
    (2, 3)
    """
    specs_of = RULES[rule] if isinstance(rule, str) else _by_function(rule)
    if schema.name.name.inplace:
        return _writing(specs_of, cpu, schema)
    single = len(schema.returns) == 1
    is_list = single and schema.returns[0].type.is_list_like() is not None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        specs = specs_of(Call(schema, cpu, args, kwargs))
        made = [_result(spec, args[0]._array if schema.is_view else None) for spec in specs]
        if is_list:
            return made
        return made[0] if single else tuple(made)

    return kernel


def _result(spec: Spec, parent: Any) -> Tensor:
    """The tensor of one result, which may be a view of a parent."""
    storage = parent.storage if parent is not None and spec.strides is not None else None
    return fresh(MetaArray(spec.shape, spec.dtype, spec.strides, storage))


def _writing(
    specs_of: Callable[[Call], list[Spec]], cpu: Function, schema: FunctionSchema
) -> Function:
    """The kernel of an in-place operator: it checks what would be written, and writes nothing."""
    name = str(schema.name.name)

    def kernel(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        held = self._array
        if not isinstance(held, MetaArray):
            raise NoDataError(
                f"{name}: a meta tensor has no data that could be written to a tensor on the "
                f"device {self.device!r}"
            )
        (spec,) = specs_of(Call(schema, cpu, (self, *args), kwargs))
        check_fits(spec.shape, held.shape, name)
        check_cast(spec.dtype, held.dtype, name)
        if any(step == 0 and n > 1 for n, step in zip(held.shape, held.strides, strict=True)):
            raise overlap_error(name)
        return self

    return kernel
