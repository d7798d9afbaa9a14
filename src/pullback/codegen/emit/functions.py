"""Public functions and methods: fixed signatures that go straight to an operator's table."""

from __future__ import annotations

from pullback.codegen.emit.model import (
    Emitted,
    default_of,
    has_gaps,
    is_tensor,
    is_tensor_list,
    is_tensor_value,
)
from pullback.codegen.emit.source import docstring, indent, quoted
from pullback.schema import Argument, ListType, OptionalType

__all__ = ["emit_call", "emit_function", "emit_operator", "positional_only", "public_name"]

_COUNTS = {1: "one", 2: "two", 3: "three", 4: "four"}
_NAMELESS = ("self", "other", "tensors")
_NAMESPACES = ("fft", "linalg")


def public_name(op: Emitted) -> str:
    """The function's name in Python; the operator's own name unless the table has another."""
    return op.function.python or op.name


def emit_operator(op: Emitted, namespace: str, source: str) -> str:
    """The line that defines an operator; `source` is the name of the module with its kernels."""
    quote = "'" if '"' in str(op.schema) else '"'
    text = f"{quote}{namespace}::{op.schema}{quote}"
    is_random = "nondeterministic_seeded" in op.function.tags
    tags = ', tags=("nondeterministic_seeded",)' if is_random else ""
    return f"{op.name} = stock_operator({text}, {source}{tags})\n"


def emit_call(op: Emitted) -> str:
    """The public function of an operator of tensors as one call, which takes a little longer."""
    call = f"call_{_COUNTS.get(len(op.arguments), 'any')}"
    names = ", ".join(argument.name for argument in op.arguments)
    line = f"return {call}(operators.{op.name}, {quoted(_error_name(op))}, {names})"
    head = f"def {public_name(op)}({_parameters(op, None)}):\n"
    return head + indent(f"{_docstring(op)}\n{line}") + "\n"


def emit_function(op: Emitted, *, out: str | None = None) -> str:
    """The public function of an operator; `out` is the operator that takes ``out=`` as well."""
    body = [_operand(a) for a in op.tensors if _operand(a)]
    body += [_own_sequence(a) for a in op.positional + op.keyword_only if _is_sequence(a)]
    if out:
        passed = ", ".join(filter(None, [op.passed(), "out=out"]))
        body.append(f"if out is not None:\n    return operators.{out}.operator({passed})")
    body.append(f"flags = {_flags(op)}")
    for argument in op.tensors:
        body += _more_flags(argument)
    body += [
        "try:",
        f"    kernel = _{op.name}_calls[get_state()][flags]",
        "except KeyError:",
        f"    kernel = operators.{op.name}.link_call(flags)",
    ]
    body.append(f"return kernel({op.passed()})")
    lines = [_docstring(op), "try:", indent("\n".join(body)), "except ERRORS as error:"]
    values = "".join(f", {argument.name}" for argument in op.tensors)
    lines.append(f'    raise named_error(error, "{_error_name(op)}"{values}) from None')
    return f"def {public_name(op)}({_parameters(op, out)}):\n" + indent("\n".join(lines)) + "\n"


def _error_name(op: Emitted) -> str:
    """The name of a function in messages: ``linalg.inv`` for ``linalg_inv``."""
    name = public_name(op).lstrip("_")
    space, _, rest = name.partition("_")
    return f"{space}.{rest}" if space in _NAMESPACES else name


def _docstring(op: Emitted) -> str:
    example = op.function.example
    is_nn = example.startswith(">>> F.")
    if not example or (op.inplace and not is_nn):  # a method: pullback has no such function
        return docstring(op.function.doc, [])
    lines = [">>> import pullback as pb"]
    if is_nn:
        lines.append(">>> from pullback.nn import functional as F")
    if op.inplace:
        example = example.replace("(", "_(", 1)
    return docstring(op.function.doc, [*lines, *example.splitlines()])


def positional_only(op: Emitted) -> int:
    """The number of positional-only parameters: leading tensors that are operands."""
    last = 0
    for place, argument in enumerate(op.positional, 1):
        if not is_tensor_value(argument.type):
            break
        if argument.name in _NAMELESS:
            last = place
    return last


def _parameters(op: Emitted, out: str | None) -> str:
    """The parameter list of a public function."""
    texts = [argument.name + default_of(argument) for argument in op.positional]
    last = positional_only(op)
    if last:
        texts.insert(last, "/")
    if op.keyword_only or out:
        texts += ["*", *(a.name + default_of(a) for a in op.keyword_only)]
    return ", ".join([*texts, "out=None"] if out else texts)


def _operand(argument: Argument) -> str:
    name = argument.name
    if is_tensor_list(argument.type):
        kept = "t is None or type(t) is Tensor" if has_gaps(argument.type) else "type(t) is Tensor"
        return f"{name} = [t if {kept} else as_operand(t) for t in {name}]"
    if isinstance(argument.type, OptionalType):
        condition = f"{name} is not None and type({name}) is not Tensor"
        return f"if {condition}:\n    {name} = as_operand({name})"
    return f"if type({name}) is not Tensor:\n    {name} = as_operand({name})"


def _is_sequence(argument: Argument) -> bool:
    """Whether an argument is a list of numbers: axes, a shape, counts.

    The class ``Sections`` is a number or such a list, which mean different things: where to split.
    """
    kind = argument.type
    inner = kind.elem if isinstance(kind, OptionalType) else kind
    if str(inner).endswith(".Sections"):
        return True
    return isinstance(inner, ListType) and not is_tensor_list(inner)


def _own_sequence(argument: Argument) -> str:
    """A copy of what the caller may change before the backward pass, which needs it again."""
    name = argument.name
    return f"if type({name}) in MUTABLE:\n    {name} = {name}.copy()"


def _flags(op: Emitted) -> str:
    plain = [
        f"{a.name}._flags"
        for a in op.tensors
        if is_tensor(a.type) and not isinstance(a.type, OptionalType)
    ]
    if plain:
        return " | ".join(plain)
    lists = [a.name for a in op.tensors if is_tensor_list(a.type)]
    if lists:  # an empty list goes to the kernel, which says what is wrong
        return f"0 if {' or '.join(lists)} else CPU_FLAGS"
    return "0" if op.tensors else "CPU_FLAGS"


def _more_flags(argument: Argument) -> list[str]:
    name = argument.name
    if is_tensor_list(argument.type):
        if has_gaps(argument.type):
            return [f"for t in {name}:", "    if t is not None:", "        flags |= t._flags"]
        return [f"for t in {name}:", "    flags |= t._flags"]
    if isinstance(argument.type, OptionalType):
        return [f"if {name} is not None:", f"    flags |= {name}._flags"]
    return []
