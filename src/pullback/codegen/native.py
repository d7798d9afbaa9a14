"""Operators as the tables declare them: :class:`NativeFunction`, families and view groups.

A *family* is all functions with one signature (``mul``, ``mul_``, ``mul.out``); a *view group* is
a view operator with its in-place and its copying twin. Filled by ``load_ops`` and other
readers of tables, read by everything after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pullback.codegen.load_yaml import Place
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema, SchemaKind

__all__ = [
    "DASK_RULE",
    "DASK_RULES",
    "IMPLICIT_KEYS",
    "META_RULES",
    "NativeFunction",
    "NativeFunctionsViewGroup",
    "dask_rule",
    "families",
    "is_abstract",
    "is_foreach_func",
    "view_groups",
]

IMPLICIT_KEYS = frozenset({"CompositeImplicitAutograd", "CompositeImplicitAutogradNestedTensor"})
"""Keys whose kernels are made of other operators, and so differentiate by themselves."""

META_RULES = ("elementwise", "reduction", "same", "view", "data_dependent")
"""Rules that may be the kernel for Meta instead of a function; see ``pullback.meta.rules``."""

DASK_RULES = ("along", "batch", "batch_sum", "elementwise", "matrix", "trailing", "whole_second")
"""Rules for Dask that are words; others are functions by hand. See ``pullback.dask.rules``."""

DASK_RULE = re.compile(r"\w+(\.\w+)?(\(\w+(, \w+)*\))?")
"""The form of a rule for Dask: ``matrix``, ``along(axis)``, ``by_hand.reshape``."""

_Key = TypeVar("_Key")
_NOT_A_VIEW = frozenset({"resize_", "resize_as_"})


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """One operator: its schema, and what the table says about it.

    ``is_abstract`` means that autograd has to treat the operator as one piece, because its kernels
    are not (all) made of other operators.

    >>> from pullback.schema import parse_schema
    >>> function = NativeFunction(parse_schema("t.x(Tensor(a) self) -> Tensor(a)"))
    >>> function.api_name, function.is_view_op, function.is_generated
    ('t', True, False)
    """

    func: FunctionSchema
    variants: frozenset[str] = frozenset({"function"})
    dispatch: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_abstract: bool = False
    structured: bool = False
    structured_delegate: str | None = None
    autogen: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    manual_cpp_binding: bool = False
    doc: str = ""
    example: str = ""  # a call and its result, as in a Python session
    python: str | None = None  # the public function's name, where it is not the operator's
    part: str | None = None  # one of several views: an expression in the arguments and `number`
    lower: str | None = None  # what it computes, for the compiler: an expression in the arguments
    place: Place | None = field(default=None, compare=False)

    @property
    def is_generated(self) -> bool:
        """Whether the function was made from its family and stands in no table."""
        return "generated" in self.tags

    @property
    def is_view_op(self) -> bool:
        """Whether a result may share memory with an argument, other than by plain writing."""
        if self.func.is_view:
            return True
        return "inplace_view" in self.tags and str(self.func.name) not in _NOT_A_VIEW

    @property
    def api_name(self) -> str:
        """The name of the function in the C++ interface, by which PyTorch sorts functions."""
        return f"{self.func.name.name}{'_out' if self.func.is_out_fn() else ''}"


def dask_rule(text: str) -> list[str | int]:
    """The words of a rule for Dask; numbers are the only arguments that are no names.

    >>> dask_rule("batch(self, indices)"), dask_rule("trailing(1)"), dask_rule("by_hand.reshape")
    (['batch', 'self', 'indices'], ['trailing', 1], ['by_hand.reshape'])
    """
    words = re.findall(r"[\w.]+", text)
    return [int(word) if word.isdigit() else word for word in words]


def is_abstract(dispatch: Iterable[str], structured_delegate: str | None) -> bool:
    """Whether a function has a structured delegate, or keys beside the implicit composite ones.

    >>> is_abstract(["CompositeImplicitAutograd"], None), is_abstract(["CPU", "CUDA"], None)
    (False, True)
    """
    keys = set(dispatch)
    return structured_delegate is not None or not keys or not keys <= IMPLICIT_KEYS


def is_foreach_func(function: NativeFunction) -> bool:
    """Whether a function does to each tensor of its lists what another does to one tensor.

    >>> from pullback.schema import parse_schema
    >>> is_foreach_func(NativeFunction(parse_schema("_foreach_exp(Tensor[] self) -> Tensor[]")))
    True
    """
    return function.func.name.name.base.startswith("_foreach_")


def families(
    functions: Iterable[NativeFunction],
) -> dict[FunctionSchema, dict[SchemaKind, NativeFunction]]:
    """Group functions by signature; a family has at most one function of each kind.

    >>> from pullback.schema import parse_schema
    >>> schemas = "f(Tensor self) -> Tensor", "f_(Tensor(a!) self) -> Tensor(a!)"
    >>> [family] = families(NativeFunction(parse_schema(s)) for s in schemas).values()
    >>> [kind.name for kind in family]
    ['functional', 'inplace']
    """
    found: dict[FunctionSchema, dict[SchemaKind, NativeFunction]] = {}
    for function in functions:
        _add(found.setdefault(function.func.signature(), {}), function.func.kind(), function)
    return found


def _add(family: dict[_Key, NativeFunction], kind: _Key, function: NativeFunction) -> None:
    if kind in family:
        first = family[kind]
        raise CodegenError(
            f"{function.place}: {function.func.name} has the same signature and kind as "
            f"{first.func.name}, declared at {first.place}"
        )
    family[kind] = function


@dataclass(frozen=True, slots=True)
class NativeFunctionsViewGroup:
    """A view operator, and its twins that copy the result or change ``self`` into the view."""

    view: NativeFunction
    view_copy: NativeFunction | None
    view_inplace: NativeFunction | None


def view_groups(functions: Iterable[NativeFunction]) -> list[NativeFunctionsViewGroup]:
    """Find every view operator and its twins.

    >>> from pullback.schema import parse_schema
    >>> schemas = "t(Tensor(a) self) -> Tensor(a)", "t_copy(Tensor self) -> Tensor"
    >>> [group] = view_groups([NativeFunction(parse_schema(s)) for s in schemas])
    >>> str(group.view.func.name), str(group.view_copy.func.name)
    ('t', 't_copy')
    """
    found: dict[FunctionSchema, dict[str, NativeFunction]] = {}
    for function in functions:
        group = found.setdefault(function.func.signature(strip_view_copy_name=True), {})
        kind = function.func.kind().name
        if function.is_view_op:
            kind = "view_inplace" if function.func.name.name.inplace else "view"
        _add(group, kind, function)
    return [
        NativeFunctionsViewGroup(group["view"], group.get("functional"), group.get("view_inplace"))
        for group in found.values()
        if "view" in group
    ]
