"""Search for the derivatives of each function, in four steps.

Most functions have no entry of their own. In-place and ``out=`` functions use the entry of the
functional one, generated functions that of the mutating one, foreach functions one made for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pullback.codegen.foreach import gen_foreach_derivativeinfo
from pullback.codegen.inplace import check_saved_strides, inplace_forward_derivative
from pullback.codegen.model import (
    DifferentiabilityInfo,
    ForwardDerivative,
    Infos,
    NativeFunctionWithDifferentiabilityInfo,
)
from pullback.codegen.native import NativeFunction, is_foreach_func
from pullback.errors import CodegenError
from pullback.schema import FunctionSchema, SchemaKind

__all__ = ["match_differentiability_info"]

_Step = Literal[1, 2, 3, 4]


def match_differentiability_info(
    functions: Iterable[NativeFunction],
    infos: Mapping[FunctionSchema, Mapping[str, DifferentiabilityInfo]],
) -> list[NativeFunctionWithDifferentiabilityInfo]:
    """Find the derivatives of every function; the result is sorted by the function's name.

    >>> from pullback.codegen.load_ops import read_ops
    >>> from pullback.codegen.load_yaml import parse_yaml
    >>> table = parse_yaml('''
    ... - func: neg(Tensor self) -> Tensor
    ...   doc: Changes the sign.
    ...   variants: [function, inplace]
    ...   dispatch: {CPU: numpy.negative}
    ...   derivatives: {self: -grad}
    ... ''')
    >>> tables = read_ops([table])
    >>> for fn in match_differentiability_info(tables.functions, tables.infos):
    ...     print(fn.func.func.name, fn.step, fn.info["Default"].op)
    neg 1 NegBackward0
    neg_ 2 NegBackward0
    """
    index = _Index.of(infos)
    ordered = sorted(functions, key=lambda function: function.api_name)
    return [_match(function, index) for function in ordered]


@dataclass(frozen=True, slots=True)
class _Index:
    """The derivatives by schema, and by signature without defaults."""

    exact: Mapping[FunctionSchema, Mapping[str, DifferentiabilityInfo]]
    functional: Infos
    non_functional: Infos

    @staticmethod
    def of(infos: Mapping[FunctionSchema, Mapping[str, DifferentiabilityInfo]]) -> _Index:
        functional: Infos = {}
        non_functional: Infos = {}
        for schema, by_key in infos.items():
            is_functional = schema.kind() is SchemaKind.functional
            side = functional if is_functional else non_functional
            side[schema.signature(strip_default=True)] = dict(by_key)
        return _Index(infos, functional, non_functional)


def _find(
    function: NativeFunction, index: _Index
) -> tuple[Mapping[str, DifferentiabilityInfo] | None, _Step | None, bool]:
    """Return the derivatives by key, the step that found them, and whether they are exact."""
    if function.is_generated and function.func.kind() is SchemaKind.out:
        return None, None, False
    if function.func in index.exact:
        return index.exact[function.func], 1, True
    signature = function.func.signature(strip_default=True)
    foreach = is_foreach_func(function)
    if signature in index.functional and not foreach:
        return index.functional[signature], 2, False
    if function.is_generated and signature in index.non_functional:
        by_key = index.non_functional[signature]
        _check_convertible(function, by_key)
        return by_key, 3, False
    if foreach:
        info, is_new = gen_foreach_derivativeinfo(function, index.functional, index.non_functional)
        if info is not None:
            return {"Default": info}, 4, is_new
    return None, None, False


def _match(function: NativeFunction, index: _Index) -> NativeFunctionWithDifferentiabilityInfo:
    by_key, step, exact = _find(function, index)
    if by_key is None:
        return NativeFunctionWithDifferentiabilityInfo(function, None, None)
    inplace = function.func.kind() is SchemaKind.inplace
    forward: dict[str, tuple[ForwardDerivative, ...]] = {}
    for key, info in by_key.items():
        forward[key] = info.forward_derivatives
        if inplace:
            check_saved_strides(function, info)
            if info.forward_derivatives:
                forward[key] = (inplace_forward_derivative(function, info, exact=exact),)
    return NativeFunctionWithDifferentiabilityInfo(function, by_key, forward, step, exact)


def _check_convertible(
    function: NativeFunction, by_key: Mapping[str, DifferentiabilityInfo]
) -> None:
    """Refuse formulas of a mutating function that mean ``self`` before or after the change."""
    for info in by_key.values():
        for saved in info.all_saved_inputs:
            if "self" in saved.name:
                raise CodegenError(
                    f"{info.func.place}: the formulas of {info.func.func.name} save "
                    f"{saved.name!r}, so the generated {function.func.name} cannot use them; "
                    "write an entry for the functional function"
                )
