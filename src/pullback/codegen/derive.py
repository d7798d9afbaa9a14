"""From one table entry to its :class:`DifferentiabilityInfo`: how an entry is read.

Every table form is derived from here: its reader makes an :class:`Entry`, whose values have their
places in the file, and chooses the dialect of the formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pullback.codegen.entry import Entry
from pullback.codegen.formula import GRADIENT_WORDS, Dialect, SavedAttribute, Value
from pullback.codegen.forward import ForwardEntry, forward_derivatives
from pullback.codegen.load_yaml import Item, nearest
from pullback.codegen.model import Derivative, DifferentiabilityInfo, DifferentiableInput
from pullback.codegen.native import NativeFunction, is_foreach_func
from pullback.schema import FunctionSchema, SchemaKind, Type

__all__ = ["derive", "op_prefix"]

_RESERVED = {
    "grad_input_mask": "formulas use it for the gradients that are needed",
    "result": "formulas use it for the output",
}


@dataclass(frozen=True, slots=True)
class _Section:
    """The formulas for one autograd key, sorted into what their names stand for."""

    backward: tuple[tuple[tuple[str, ...], Item], ...]
    forward: tuple[ForwardEntry, ...]
    non_differentiable: tuple[str, ...]


def derive(
    entry: Entry, function: NativeFunction, dialect: Dialect, counter: Counter[str]
) -> dict[str, DifferentiabilityInfo]:
    """Work out the derivatives of a function for every autograd key of its entry.

    ``counter`` numbers the nodes: it has to be the same for a whole table.
    """
    func = function.func
    for value in dialect.values(func):
        if value.name in _RESERVED:
            raise entry.schema.error(
                f"an argument cannot be named {value.name!r}: {_RESERVED[value.name]}"
            )
    flags, conditions = _output_flags(entry.output_differentiability, func)
    return {
        key: _derive_section(key, formulas, function, dialect, counter, flags, conditions)
        for key, formulas in entry.sections.items()
    }


def _derive_section(
    key: str,
    formulas: Mapping[str, Item],
    function: NativeFunction,
    dialect: Dialect,
    counter: Counter[str],
    flags: tuple[bool, ...] | None,
    conditions: tuple[str, ...] | None,
) -> DifferentiabilityInfo:
    func = function.func
    gradients = _named_gradients(func, flags)
    values = dialect.values(func)
    section = _sort(formulas, func, values)
    derivatives = tuple(
        _backward(names, item, function, dialect, gradients) for names, item in section.backward
    )
    _check_gradient_style(section, derivatives, dialect)
    written = {name for derivative in derivatives for name in derivative.var_names}
    arguments = tuple(DifferentiableInput(v.name, v.type) for v in values if v.name in written)
    name = str(func.name.name)
    op = None
    if arguments:
        prefix = op_prefix(name) + (key if key != "Default" else "")
        op = f"{prefix}{counter[prefix]}"
        counter[prefix] += 1
    return DifferentiabilityInfo(
        name=name,
        func=function,
        op=op,
        derivatives=derivatives,
        forward_derivatives=forward_derivatives(
            section.forward, function, dialect, derivatives, arguments
        ),
        all_saved_inputs=_first_by_name(s for d in derivatives for s in d.saved_inputs),
        all_saved_outputs=_first_by_name(s for d in derivatives for s in d.saved_outputs),
        available_named_gradients=gradients,
        used_named_gradients=frozenset().union(*(d.named_gradients for d in derivatives)),
        args_with_derivatives=arguments,
        non_differentiable_arg_names=section.non_differentiable,
        output_differentiability=flags,
        output_differentiability_conditions=conditions,
        dialect=dialect,
    )


def op_prefix(name: str) -> str:
    """Make the class name of a node, without its number, from the name of the function.

    >>> op_prefix("conv1d"), op_prefix("_ctc_loss_forward")
    ('Conv1DBackward', 'CtcLossBackward')
    """
    camel = "".join(part.title() for part in name.split("_"))
    return f"{camel}Backward".replace("ForwardBackward", "Backward")


def _output_flags(
    item: Item | None, func: FunctionSchema
) -> tuple[tuple[bool, ...] | None, tuple[str, ...] | None]:
    """Read ``output_differentiability``: flags, or one condition tested at every call."""
    if item is None:
        return None, None
    elements = item.sequence("'output_differentiability'")
    if any(element.kind() == "text" for element in elements):
        if len(elements) != 1 or len(func.returns) != 1:
            raise item.error(
                "Not supported: a condition in 'output_differentiability' needs a function with "
                f"one output and a list of one element; {func.name} has {len(func.returns)} "
                f"output(s) and the list {len(elements)} element(s)"
            )
        return (True,), (elements[0].text(),)
    if len(elements) != len(func.returns):
        raise item.error(
            f"'output_differentiability' has {len(elements)} element(s), but {func.name} has "
            f"{len(func.returns)} output(s)"
        )
    flags = tuple(element.flag("an element of 'output_differentiability'") for element in elements)
    if func.kind() is SchemaKind.inplace and not all(flags):
        raise item.error(f"the output of {func.name} is 'self', which cannot be False here")
    return flags, None


def _named_gradients(func: FunctionSchema, flags: tuple[bool, ...] | None) -> tuple[str, ...]:
    """Return the words ``grad_<output>`` that formulas may use."""
    return tuple(
        f"grad_{ret.name}"
        for ret, flag in zip(func.returns, flags or (True,) * len(func.returns), strict=True)
        if flag and ret.name is not None and ret.type.is_tensor_like()
    )


def _sort(
    formulas: Mapping[str, Item], func: FunctionSchema, values: tuple[Value, ...]
) -> _Section:
    """Split names at commas and decide by the first one what a formula is for."""
    arguments = {value.name for value in values}
    targets = _targets(func)
    backward: list[tuple[tuple[str, ...], Item]] = []
    forward: list[ForwardEntry] = []
    non_differentiable: list[str] = []
    for raw in sorted(formulas):
        item = formulas[raw]
        names = tuple(name.strip() for name in raw.split(","))
        if len(set(names)) < len(names):
            raise item.key_error(f"{raw!r} names something twice")
        what = arguments if names[0] in arguments else targets.keys()
        for name in names:
            if name in arguments and any(name == ret.name for ret in func.returns):
                raise item.key_error(f"{name!r} is both an argument and an output of {func.name}")
            if name not in what:
                raise item.key_error(
                    f"{name!r} names neither an argument nor an output of {func.name}"
                    f"{nearest(name, arguments | targets.keys())}"
                )
        text = item.text(f"the formula of {raw!r}")
        if names[0] not in arguments:
            types = tuple(targets[name] for name in names)
            forward.append(ForwardEntry(names, types, item))
        elif text.strip().lower() == "non_differentiable":
            non_differentiable += names
        else:
            backward.append((names, item))
    for names, item in backward:
        for name in names:
            if name in non_differentiable or sum(name in other for other, _ in backward) > 1:
                raise item.key_error(f"the formulas for {name!r} are overlapped: it has two")
    return _Section(tuple(backward), tuple(forward), tuple(non_differentiable))


def _targets(func: FunctionSchema) -> dict[str, Type]:
    """Return the names that a forward formula may be for, with the types of these outputs."""
    targets = {ret.name: ret.type for ret in func.returns if ret.name is not None}
    if len(func.returns) == 1:
        targets.setdefault("result", func.returns[0].type)
    return targets | {f"result{i}": ret.type for i, ret in enumerate(func.returns)}


def _backward(
    names: tuple[str, ...],
    item: Item,
    function: NativeFunction,
    dialect: Dialect,
    gradients: tuple[str, ...],
) -> Derivative:
    func = function.func
    original = item.text()
    inputs = dialect.values(func)
    outputs = tuple(
        Value("result" if name == "self" else name, ret.type)
        for name, ret in zip(func.return_names(), func.returns, strict=True)
    )
    known = {value.name for value in (*inputs, *outputs)} | set(gradients) | GRADIENT_WORDS
    if is_foreach_func(function):
        known.add("i")
    with item.locating():
        dialect.check(original, known)
        formula, saved_inputs = dialect.save(original, inputs, names)
        formula, saved_outputs = dialect.save(formula, outputs, names)
    for index in dialect.gradient_uses(formula):
        if index is not None and index >= len(func.returns):
            raise item.error(
                f"grads[{index}] is out of range: {func.name} has {len(func.returns)} output(s)"
            )
    return Derivative(
        formula=formula,
        original_formula=original,
        var_names=names,
        saved_inputs=saved_inputs,
        saved_outputs=saved_outputs,
        named_gradients=dialect.names(formula) & frozenset(gradients),
    )


def _check_gradient_style(
    section: _Section, derivatives: tuple[Derivative, ...], dialect: Dialect
) -> None:
    """Refuse gradients named in two ways in one entry."""
    styles: dict[str, Item] = {}
    uses: list[int | None] = []
    for (_, item), derivative in zip(section.backward, derivatives, strict=True):
        indices = dialect.gradient_uses(derivative.formula)
        uses += indices
        if "grad" in dialect.names(derivative.formula):
            styles["grad"] = item
        if indices:
            styles["grads"] = item
        if derivative.named_gradients:
            styles["grad_<output>"] = item
    if len(styles) > 1:
        last = list(styles.values())[-1]
        raise last.error(
            f"the formulas mix {' and '.join(map(repr, styles))}; name gradients in one way only"
        )
    if uses and set(uses) == {0}:
        raise styles["grads"].error(
            "the formulas use only grads[0]; write 'grad' if the first output is the only "
            "differentiable one"
        )


def _first_by_name(saved: Iterable[SavedAttribute]) -> tuple[SavedAttribute, ...]:
    found: dict[str, SavedAttribute] = {}
    for attribute in saved:
        found.setdefault(attribute.name, attribute)
    return tuple(found.values())
