"""``define_op``: an operator from one declaration, with formulas as in the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback.codegen.emit.files import generate_from
from pullback.codegen.load_ops import read_ops
from pullback.codegen.python_item import python_item
from pullback.errors import KernelTypeError
from pullback.library.load import callable_in_formulas, compile_operators
from pullback.library.validate import parse_qualname

__all__ = ["define_op"]


def define_op(
    schema: str,
    *,
    kernel: Any,
    derivatives: Mapping[str, Any] | None = None,
    doc: str = "A custom operator.",
    tags: Sequence[str] = (),
    variants: Sequence[str] = ("function",),
    output_differentiability: Sequence[bool] | None = None,
) -> Callable[..., Any]:
    """Defines an operator like an entry of the built-in tables, and returns its function.

    One declaration gives the function, its reverse and forward derivatives of any order, and its
    batching. Defining the same name again replaces it.

    Args:
        schema: with the namespace, ``"mylib::op(Tensor self) -> Tensor"``.
        kernel: a function on arrays, with the schema's arguments by position.
        derivatives: by argument, the formula of its gradient; by output, that of its tangent
            (``"auto_element_wise"``, ``"auto_linear"``, or in ``self_p`` and ``self_t``). Every
            tensor argument needs one, or ``"non_differentiable"``.
        doc: one line, the function's documentation.
        tags: ``"elementwise"`` lets ``vmap`` run the kernel on the whole batch.
        variants: what to make besides the function: ``"inplace"``, ``"out"``.
        output_differentiability: for each return, whether it is differentiable.

    >>> import pullback as pb
    >>> cube = define_op(
    ...     "formula::cube(Tensor self) -> Tensor",
    ...     kernel=lambda x: x**3,
    ...     derivatives={"self": "grad * conj(3 * self * self)", "result": "auto_element_wise"},
    ...     tags=["elementwise"],
    ... )
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> pb.autograd.grad(cube(x).sum(), x)[0].tolist()
    [3.0, 12.0]
    >>> pb.dispatch.stock.forget_operators("formula")
    """
    if not callable(kernel):
        found = type(kernel).__name__
        raise KernelTypeError(f"define_op: a kernel is required to be a callable, not a {found}")
    head, parenthesis, rest = schema.partition("(")
    namespace, name = parse_qualname(head.strip())
    entry = {
        "func": name + parenthesis + rest,
        "doc": doc,
        "variants": list(variants),
        "dispatch": {"CPU": "_kernel"},
        "tags": list(tags),
        "derivatives": derivatives,
        "output_differentiability": output_differentiability,
    }
    entry = {key: value for key, value in entry.items() if value is not None}
    family = f"{namespace}_{name.replace('.', '_')}"
    loaded = read_ops([python_item([entry], family)], callable_in_formulas())
    files = generate_from(loaded, [family], namespace)
    names = {f"{namespace}::{function.func.name}" for function in loaded.functions}
    public = compile_operators(files, family, {"_kernel": kernel}, namespace, names)
    return getattr(public, name)  # type: ignore[no-any-return]
