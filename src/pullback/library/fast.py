"""The recording kernel of the common case, compiled once for each operator.

One tensor comes out, all tensors come in by position, and the kernel is a plain function. Then the
whole road of a call can stand in one function with the schema's own arguments: nothing is packed,
unpacked or asked twice. Whatever is unusual about a result goes to the general functions.
"""

from __future__ import annotations

import keyword
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.dispatch.keys import REQUIRES_GRAD
from pullback.dispatch.modes import get_state, set_state
from pullback.library.rules import Rules
from pullback.library.running import QUIET, quiet
from pullback.tensor.tensor import Tensor

__all__ = ["compile_recording"]

_TEMPLATE = """\
def record({arguments}):
    node = new(cls)
    node._edges = ({edges})
    node._seq = following()()
    state = get()
    put(known.get(state) or quiet(state))
    try:
        result = kernel({arguments})
        if (
            type(result) is not Tensor
            or type(array := result._array) is not ndarray
            or array.base is not None
            or result._flags & REQUIRES_GRAD
            or state.modes{aliases}
        ):
            result = check(({packed}), {{}}, result)
            array = getattr(result, "_array", None)
{setup}    finally:
        put(state)
    if (
        type(result) is Tensor
        and type(array) is ndarray
        and result._edge is result._meta is None
        and not result._flags & REQUIRES_GRAD
        and not node._constant
    ):
        node._shape = array.shape
        node._dtype = dtype = array.dtype
        if dtype.kind in "fc":
            result._edge = (node, 0)
            result._flags |= REQUIRES_GRAD
        if node._to_save is not None:
            node._keep_plainly()
            node._to_save = None
        return result
    return finish(node, ({packed}), result)
"""


def compile_recording(
    rules: Rules,
    cls: type,
    tools: dict[str, Callable[..., Any]],
    kernel: Callable[..., Any],
    check: Callable[..., Any],
) -> Callable[..., Any]:
    """The function, made from the operator's arguments.

    `tools` are the general functions: ``edge_of``, ``following`` and ``finish``.
    """
    arguments = rules.schema.arguments.flat_positional
    names = [a.name + "_" if keyword.iskeyword(a.name) else f"a_{a.name}" for a in arguments]
    tensors = [n for n, a in zip(names, arguments, strict=True) if a.type.is_tensor_like()]
    packed = "".join(f"{name}, " for name in names)
    setup = f"        setup(ctx=node, inputs=({packed}), output=result)\n"
    source = _TEMPLATE.format(
        arguments=", ".join(names),
        edges="".join(f"{name}._edge or edge_of({name}), " for name in tensors),
        aliases="".join(
            f"\n            or {n}._array is array or {n}._array.base is array" for n in tensors
        ),
        packed=packed,
        setup=setup if rules.setup_context is not None else "",
    )
    namespace: dict[str, Any] = {
        "cls": cls,
        "new": object.__new__,
        "get": get_state,
        "put": set_state,
        "known": QUIET,
        "quiet": quiet,
        "kernel": kernel,
        "check": check,
        "setup": rules.setup_context,
        "Tensor": Tensor,
        "ndarray": np.ndarray,
        "REQUIRES_GRAD": REQUIRES_GRAD,
        **tools,
    }
    filename = f"<recording of {rules.name}>"
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return namespace["record"]  # type: ignore[no-any-return]
