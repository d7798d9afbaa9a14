"""``custom_op``: makes an operator from a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from pullback.dispatch.caller import caller_location, log_replaced, same_place
from pullback.dispatch.registry import check_undefined
from pullback.dispatch.tags import check_tags
from pullback.errors import OperatorDefinitionError
from pullback.library import validate
from pullback.library.custom_op import CUSTOM_OPS, CustomOp
from pullback.library.infer import infer_schema
from pullback.schema import FunctionSchema, parse_schema

__all__ = ["custom_op"]

_COMPLIANT = "pt2_compliant_tag"  # PyTorch's tag of operators that pass every check of opcheck


@overload
def custom_op(
    name: str,
    fn: None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], CustomOp]: ...


@overload
def custom_op(
    name: str,
    fn: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> CustomOp: ...


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> CustomOp | Callable[[Callable[..., Any]], CustomOp]:
    """Makes an operator from a function on tensors; also a decorator.

    The function is the kernel of every device, or of `device_types`. Nothing that it does is
    recorded, and unless the schema says otherwise it returns new memory. Defining a name again
    replaces the operator.

    Args:
        name: ``"namespace::name"``.
        fn: the kernel.
        mutates_args: the names of the tensors that it writes to; ``"unknown"`` for all.
        device_types: the devices whose kernel it is; ``()`` for none, if it is a prototype only.
        schema: the arguments and returns, as text; inferred from the type hints unless given.
        tags: ``"inplace"`` or ``"out"`` for a function that returns what it has written to.

    >>> import numpy as np, pullback as pb
    >>> @custom_op("doc::cube", mutates_args=())
    ... def cube(x: pb.Tensor) -> pb.Tensor:
    ...     return pb.asarray(x.numpy() ** 3)
    >>> def setup(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, grad):
    ...     (x,) = ctx.saved_tensors
    ...     return 3 * x * x * grad
    >>> cube.register_autograd(backward, setup_context=setup)
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad.tolist(), str(cube.schema)
    ([3.0, 12.0], 'doc::cube(Tensor x) -> Tensor')
    >>> cube._destroy()
    """
    validate.parse_qualname(name)
    location = caller_location()
    tag_names = (tags,) if isinstance(tags, str) else tuple(tags or ())

    def make(function: Callable[..., Any]) -> CustomOp:
        validate.check_function(name, function)
        found = _schema(name, function, mutates_args, schema, tag_names)
        return _define(name, function, found, device_types, tag_names, location)

    return make if fn is None else make(fn)


def _define(
    name: str,
    fn: Callable[..., Any],
    schema: FunctionSchema,
    device_types: str | Sequence[str] | None,
    tags: tuple[str, ...],
    location: str,
) -> CustomOp:
    """Checks everything that can be refused, and only then replaces an older operator."""
    if "out" not in tags:
        validate.check_keyword_tensors(name, schema)
    check_tags(schema, tags)
    validate.device_keys(device_types, name)
    _replace(name, location)
    check_undefined(schema, name)
    made = CustomOp(name, schema, fn, (*tags, _COMPLIANT), private=False)
    try:
        if device_types is None or list(device_types):
            made.register_kernel(device_types, fn)
    except Exception:
        made._destroy()
        raise
    CUSTOM_OPS[name] = made
    return made


def _schema(
    name: str,
    fn: Callable[..., Any],
    mutates_args: str | Iterable[str],
    text: str | None,
    tags: tuple[str, ...],
) -> FunctionSchema:
    base = name.split("::")[1]
    if text is None:
        written = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)
        text = infer_schema(fn, mutates_args=written, op_name=base, tags=tags)
        if text.endswith("))") and "-> ((" in text:
            raise OperatorDefinitionError(
                f"custom_op({name!r}): the function returns a tuple of one; return the value "
                f"itself, and annotate that"
            )
        return parse_schema(text, dialect="loose")
    if not isinstance(text, str) or not text.strip().startswith("("):
        raise OperatorDefinitionError(
            f"custom_op({name!r}): expected schema to look like '(Tensor x) -> Tensor', without a "
            f"name, but got {text!r}"
        )
    found = parse_schema(base + text.strip(), dialect="loose")
    validate.check_signature(name, fn, found)
    validate.check_written(name, found, mutates_args)
    return found


def _replace(name: str, location: str) -> None:
    """Ends an operator of the same name that was made by ``custom_op``."""
    before = CUSTOM_OPS.get(name)
    if before is None:
        return
    if same_place(before._location, location):
        log_replaced(name, location)
    before._destroy()
