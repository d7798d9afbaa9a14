"""Type stubs: what editors and type checkers see of generated functions and methods."""

from __future__ import annotations

from collections.abc import Collection

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
# What tensors have besides operators; implemented by hand in pullback.autograd and beside it.
_BY_HAND = """    grad: Tensor | None
    grad_dtype: Any
    requires_grad: bool
    is_leaf: bool
    grad_fn: Any
    output_nr: int
    retains_grad: bool
    data: Tensor
    T: Tensor
    mT: Tensor
    _base: Tensor | None
    _version: int
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None: ...
    def detach(self) -> Tensor: ...
    def detach_(self) -> Tensor: ...
    def expand(self, *shape: Any) -> Tensor: ...
    def new_empty(
        self, *shape: Any, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> Tensor: ...
    def new_full(
        self,
        shape: Any,
        fill_value: ArrayLike,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
    ) -> Tensor: ...
    def new_ones(
        self, *shape: Any, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> Tensor: ...
    def new_tensor(
        self, data: Any, *, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> Tensor: ...
    def new_zeros(
        self, *shape: Any, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> Tensor: ...
    def numpy(self, *, force: bool = False) -> NDArray[Any]: ...
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any: ...
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any: ...
    def requires_grad_(self, requires_grad: bool = True) -> Tensor: ...
    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor: ...
    def resize_(self, *shape: Any) -> Tensor: ...
    def retain_grad(self) -> None: ...
    def set_(self, source: Tensor) -> Tensor: ...
    def squeeze_(self, axis: Any = None) -> Tensor: ...
    def t_(self) -> Tensor: ...
    def to(
        self, *args: Any, dtype: Any = None, device: str | None = None, copy: bool = False
    ) -> Tensor: ...
    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor: ...
    def transpose(self, *axes: Any) -> Tensor: ...
    def transpose_(self, axis1: int, axis2: int) -> Tensor: ...
    def unsqueeze_(self, axis: int) -> Tensor: ...
    def view(self, *shape: Any) -> Tensor: ...
    def _is_view(self) -> bool: ...
    def is_inference(self) -> bool: ...
    flags: Any
    flat: Any
    def argsort(
        self,
        axis: int | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        descending: bool = False,
        stable: Any = None,
    ) -> Tensor: ...
    def astype(
        self,
        dtype: DTypeLike,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Tensor: ...
    def all(
        self,
        axis: Sequence[int] | int | None = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> Tensor: ...
    def any(
        self,
        axis: Sequence[int] | int | None = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> Tensor: ...
    def argmax(
        self, axis: int | None = None, out: Any = None, *, keepdims: bool = False
    ) -> Tensor: ...
    def argmin(
        self, axis: int | None = None, out: Any = None, *, keepdims: bool = False
    ) -> Tensor: ...
    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: Any = None
    ) -> Tensor: ...
    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: Any = None
    ) -> Tensor: ...
    def max(
        self,
        axis: Sequence[int] | int | None = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = ...,
        where: Any = True,
    ) -> Tensor: ...
    def min(
        self,
        axis: Sequence[int] | int | None = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = ...,
        where: Any = True,
    ) -> Tensor: ...
    def mean(
        self,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = True,
    ) -> Tensor: ...
    def prod(
        self,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = ...,
        where: Any = True,
    ) -> Tensor: ...
    def sum(
        self,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = ...,
        where: Any = True,
    ) -> Tensor: ...
    def std(
        self,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = ...,
        correction: Any = ...,
    ) -> Tensor: ...
    def var(
        self,
        axis: Sequence[int] | int | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = ...,
        correction: Any = ...,
    ) -> Tensor: ...
    def choose(
        self, choices: Sequence[ArrayLike], out: Any = None, mode: str = "raise"
    ) -> Tensor: ...
    def compress(
        self, condition: ArrayLike, axis: int | None = None, out: Any = None
    ) -> Tensor: ...
    def dot(self, other: ArrayLike, out: Any = None) -> Tensor: ...
    def take(
        self, indices: ArrayLike, axis: int | None = None, out: Any = None, mode: str = "raise"
    ) -> Tensor: ...
    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike | None = None,
        out: Any = None,
    ) -> Tensor: ...
    def conjugate(self) -> Tensor: ...
    def copy(self, order: str = "C") -> Tensor: ...
    def fill(self, value: ArrayLike) -> None: ...
    def partition(self, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None: ...
    def put(self, indices: ArrayLike, values: ArrayLike, mode: str = "raise") -> None: ...
    def resize(self, *_: Any, **__: Any) -> None: ...
    def sort(
        self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
    ) -> None: ...
    def tobytes(self, order: str = "C") -> bytes: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...
    def __array_function__(
        self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any: ...
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any: ...
    def __complex__(self) -> complex: ...
    def __contains__(self, value: ArrayLike) -> bool: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: ArrayLike) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __eq__(self, other: ArrayLike) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: ArrayLike) -> Tensor: ...  # type: ignore[override]
    def __lt__(self, other: ArrayLike) -> Tensor: ...
    def __le__(self, other: ArrayLike) -> Tensor: ...
    def __gt__(self, other: ArrayLike) -> Tensor: ...
    def __ge__(self, other: ArrayLike) -> Tensor: ...
"""
_BINARY = (
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()  # noqa: SIM905
)


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
    return "Any"


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
    """The stub of the methods that tensors have."""
    text = '"""Methods of tensors; see ``pullback.codegen.emit.stubs``."""\n\n' + _HEAD + _IMPORTS
    text += "\nclass TensorMethods:\n" + _BY_HAND
    for name in _BINARY:
        for form in (f"__{name}__", f"__r{name}__", f"__i{name}__"):
            text += f"    def {form}(self, other: ArrayLike) -> Tensor: ...\n"
    given = {line.split("(")[0].removeprefix("    def ") for line in text.splitlines()}
    for op in sorted(ops, key=public_name):
        if op.inplace or "method" in op.function.variants:
            if public_name(op) in given:
                continue
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
