"""Type stubs: what editors and type checkers see of generated functions and methods."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pullback.codegen.emit.functions import positional_only, public_name
from pullback.codegen.emit.model import Emitted, is_tensor, is_tensor_list
from pullback.codegen.emit.source import docstring
from pullback.schema import Argument, BaseTy, BaseType, ListType, OptionalType, Type

__all__ = ["emit_function_stubs", "emit_kernel_stubs", "emit_method_stubs", "emit_operator_stubs"]

_HEAD = "from __future__ import annotations\n\n"
_TYPES = {
    BaseTy.int: "int",
    BaseTy.SymInt: "int",
    BaseTy.float: "float",
    BaseTy.bool: "bool",
    BaseTy.str: "str",
    BaseTy.Scalar: "complex",
    BaseTy.complex: "complex",
    BaseTy.dtype: "DTypeLike",
    BaseTy.ScalarType: "DTypeLike",
}
_IMPORTS = """from collections.abc import Callable, Iterator, Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from pullback.tensor.tensor import Tensor

ArrayLike = Any  # a tensor, an array, a number, or nested lists of numbers
"""
# What tensors have besides operators; written by ``scripts/method_stubs.py``.
_ATTACHED = Path(__file__).parents[2] / "tensor" / "attached_methods.pyi"


def _type(type_: Type) -> str:
    if isinstance(type_, OptionalType):
        return f"{_type(type_.elem)} | None"
    if isinstance(type_, ListType):
        element = _type(type_.elem)
        # Sizes and axes may be single numbers, as everywhere in NumPy.
        single = " | int" if element == "int" else ""
        return f"Sequence[{element}]{single}"
    if isinstance(type_, BaseType):
        return "ArrayLike" if is_tensor(type_) else _TYPES.get(type_.name, "Any")
    return "Sequence[int] | int" if str(type_).endswith(".Sections") else "Any"


def _parameter(argument: Argument) -> str:
    default = "" if argument.default is None else " = ..."
    return f"{argument.name}: {_type(argument.type)}{default}"


def _returns(op: Emitted) -> str:
    types = [ret.type for ret in op.schema.returns]
    texts = [
        "list[Tensor]" if is_tensor_list(t) else "Tensor" if is_tensor(t) else _type(t)
        for t in types
    ]
    if len(texts) == 1:
        return texts[0]
    return f"tuple[{', '.join(texts)}]" if texts else "None"


def _signature(op: Emitted, *, method: bool) -> str:
    texts = [_parameter(argument) for argument in op.positional]
    last = positional_only(op)
    if method:
        texts[0] = "self"
    elif last:
        texts.insert(last, "/")
    if op.keyword_only:
        texts += ["*", *map(_parameter, op.keyword_only)]
    return f"({', '.join(texts)}) -> {_returns(op)}: ..."


def emit_function_stubs(ops: list[Emitted], with_out: Collection[str]) -> str:
    """The stub of a module of public functions; `with_out` are those that take ``out=``."""
    text = _HEAD + _IMPORTS + "\n"
    for op in ops:
        signature = _signature(op, method=False)
        if op.name in with_out:
            star = "" if op.keyword_only else "*, "
            signature = signature.replace(") ->", f", {star}out: Tensor | None = ...) ->", 1)
        text += f"def {public_name(op)}{signature}\n"
    return text


def emit_method_stubs(ops: list[Emitted]) -> str:
    """The stub of the methods that tensors have; those that modules attach are its base class."""
    base = "from pullback.tensor.attached_methods import AttachedMethods\n"
    text = '"""Methods of tensors; see ``pullback.codegen.emit.stubs``."""\n\n' + _HEAD
    text += _IMPORTS.replace("from pullback", f"{base}from pullback")
    text += "\nclass TensorMethods(AttachedMethods):\n"
    attached = set(re.findall(r"^    def (\w+)", _ATTACHED.read_text("utf-8"), re.MULTILINE))
    for op in sorted(ops, key=public_name):
        is_method = op.inplace or "method" in op.function.variants
        if is_method and public_name(op) not in attached:
            text += f"    def {public_name(op)}{_signature(op, method=True)}\n"
    return text


def emit_operator_stubs(ops: list[Emitted]) -> str:
    """The stub of the module of operators."""
    text = _HEAD + "from pullback.dispatch.table import OperatorEntry\n\n"
    return text + "".join(f"{op.name}: OperatorEntry\n" for op in ops)


def emit_kernel_stubs() -> str:
    """The stub of a module of kernels, which only the tables read."""
    doc = docstring("Kernels are called through tables, with arguments checked there.", [])
    lines = "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"
    return f"{doc}\n\n{_HEAD}{lines}"
