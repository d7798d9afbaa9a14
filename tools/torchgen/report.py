"""Statistics of operator tables: what is covered by formulas, and how the rest finds its own.

``python -m tools.torchgen report`` prints it; the oracle test compares its numbers with those of
PyTorch's generator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pullback.codegen.model import (
    DifferentiabilityInfo,
    NativeFunctionWithDifferentiabilityInfo,
    dispatch_strategy,
    uses_ident,
)
from pullback.codegen.native import NativeFunction, is_foreach_func, view_groups
from pullback.codegen.tables import Tables
from pullback.schema import SchemaKind

__all__ = ["Coverage", "Report", "Row", "make_report"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the statistics: some counts under one label.

    >>> print(Row("kinds", {"out": 3, "inplace": 4}))
    kinds                 out 3, inplace 4
    """

    label: str
    counts: dict[str, int]

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return f"{self.label:<22}{counts}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many functions of a kind have derivatives, backward and forward."""

    kind: str
    functions: int
    backward: int
    forward: int

    def __str__(self) -> str:
        total = max(self.functions, 1)
        return (
            f"{self.kind:<22}{self.functions:>10}{self.backward:>10}{self.backward / total:>7.1%}"
            f"{self.forward:>10}{self.forward / total:>7.1%}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """Statistics and coverage; ``str`` of it is the printed table."""

    rows: tuple[Row, ...]
    coverage: tuple[Coverage, ...]

    def __str__(self) -> str:
        head = f"{'coverage':<22}{'functions':>10}{'matched':>10}{'':>7}{'forward':>10}"
        lines = ["statistics", *map(str, self.rows), "", head, *map(str, self.coverage)]
        return "\n".join(lines)


def make_report(tables: Tables) -> Report:
    """Match all functions of the tables and count."""
    matched = tables.match()
    rows = (
        *_entry_rows(tables),
        *_function_rows(tables.functions),
        *_match_rows(tables, matched),
        *_formula_rows([i for by_key in tables.entries.values() for i in by_key.values()]),
        _node_row(tables),
        *_gradient_rows(tables),
        _inplace_row(matched),
    )
    kinds = [kind.name for kind in SchemaKind]
    return Report(rows, tuple(_coverage(matched, kind) for kind in (*kinds, "all")))


def _count(items: Iterable[object]) -> int:
    return sum(1 for item in items if item)


def _kinds(functions: Iterable[NativeFunction]) -> dict[str, int]:
    counts = Counter(function.func.kind() for function in functions)
    return {kind.name: counts[kind] for kind in SchemaKind}


def _entry_rows(tables: Tables) -> list[Row]:
    groups = view_groups(tables.functions)
    firsts = [next(iter(by_key.values())) for by_key in tables.entries.values()]
    flags = [info.output_differentiability for info in firsts]
    sections = Counter(key for by_key in tables.entries.values() for key in by_key)
    per_key = [by_key for by_key in tables.entries.values() if by_key.keys() != {"Default"}]
    return [
        Row(
            "entries",
            {
                "entries": len(tables.entries),
                "view copies": len(tables.copies),
                "infos": len(tables.infos),
                "view groups": len(groups),
                "with a copy": _count(group.view_copy for group in groups),
            },
        ),
        Row("entry kinds", _kinds(info.func for info in firsts)),
        Row("sections", {"per-key entries": len(per_key), **dict(sections.most_common())}),
        Row(
            "output flags",
            {
                "entries": _count(f is not None for f in flags),
                "all False": _count(f is not None and not any(f) for f in flags),
                "conditions": _count(i.output_differentiability_conditions for i in firsts),
            },
        ),
    ]


def _function_rows(functions: Sequence[NativeFunction]) -> list[Row]:
    made = [function for function in functions if function.is_generated]
    declared = [function for function in functions if not function.is_generated]
    made_kinds = {f"generated {kind}": n for kind, n in _kinds(made).items() if n}

    def with_key(key: str) -> int:
        return _count(key in function.dispatch for function in functions)

    return [
        Row("functions", {"declared": len(declared), **made_kinds, "all": len(functions)}),
        Row("kinds, declared", _kinds(declared)),
        Row("kinds, all", _kinds(functions)),
        Row(
            "traits",
            {
                "abstract": _count(f.is_abstract for f in functions),
                "CompositeImplicit": with_key("CompositeImplicitAutograd"),
                "CompositeExplicit": with_key("CompositeExplicitAutograd"),
                "NonFunctional": with_key("CompositeExplicitAutogradNonFunctional"),
                "views": _count(f.is_view_op for f in functions),
            },
        ),
    ]


def _match_rows(
    tables: Tables, matched: Sequence[NativeFunctionWithDifferentiabilityInfo]
) -> list[Row]:
    def at(step: int, test: Callable[[NativeFunctionWithDifferentiabilityInfo], bool]) -> int:
        return _count(fn.step == step and test(fn) for fn in matched)

    missing = [fn.func for fn in matched if fn.info is None]
    skipped = [f for f in missing if f.is_generated and f.func.kind() is SchemaKind.out]
    foreach = [f for f in missing if is_foreach_func(f) and f not in skipped]
    explicit = [by_key for func, by_key in tables.entries.items() if _is_foreach(by_key.values())]
    strategies = Counter(dispatch_strategy(fn) for fn in matched)
    return [
        Row("step 1, exact", {"functions": at(1, lambda _: True)}),
        Row(
            "step 2, signature",
            {
                "functions": at(2, lambda _: True),
                "out": at(2, lambda fn: fn.func.func.kind() is SchemaKind.out),
                "inplace": at(2, lambda fn: fn.func.func.kind() is SchemaKind.inplace),
            },
        ),
        Row("step 3, generated", {"functions": at(3, lambda _: True)}),
        Row(
            "step 4, foreach",
            {
                "functions": at(4, lambda _: True),
                "made": at(4, lambda fn: fn.exact),
                "in-place reuse": at(4, lambda fn: not fn.exact),
                "without reference": len(foreach),
                "explicit": len(explicit),
            },
        ),
        Row(
            "unmatched",
            {
                "functions": len(missing) - len(skipped) - len(foreach),
                "generated out": len(skipped),
            },
        ),
        Row(
            "matched",
            {
                "functions": len(matched) - len(missing),
                "exact": _count(fn.exact for fn in matched),
                "with forward": _count(_has_forward(fn) for fn in matched),
            },
        ),
        Row(
            "strategy",
            {"use_derived": strategies["use_derived"], "use_type": strategies["use_type"]},
        ),
    ]


def _is_foreach(infos: Iterable[DifferentiabilityInfo]) -> bool:
    return any(is_foreach_func(info.func) for info in infos)


def _has_forward(fn: NativeFunctionWithDifferentiabilityInfo) -> bool:
    return fn.fw_derivatives is not None and any(fn.fw_derivatives.values())


def _formula_rows(infos: Sequence[DifferentiabilityInfo]) -> list[Row]:
    backward = [(info, d) for info in infos for d in info.derivatives]
    forward = [d for info in infos for d in info.forward_derivatives]
    words = Counter(d.original_formula for d in forward)
    linear, elementwise = words["auto_linear"], words["auto_element_wise"]

    def using(word: str) -> int:
        return _count(
            word in info.dialect.names(d.formula) | info.dialect.calls(d.formula)
            for info, d in backward
        )

    return [
        Row(
            "backward formulas",
            {
                "formulas": len(backward),
                "multi-name": _count(len(d.var_names) > 1 for _, d in backward),
                "not_implemented": using("not_implemented") + using("not_implemented_list"),
                "non_differentiable": sum(len(i.non_differentiable_arg_names) for i in infos),
            },
        ),
        Row(
            "special words",
            {word: using(word) for word in ("grad_input_mask", "retain_variables", "wrap_opt_if")},
        ),
        Row(
            "forward formulas",
            {
                "formulas": len(forward),
                "entries": _count(info.forward_derivatives for info in infos),
                "explicit": len(forward) - linear - elementwise,
                "auto_linear": linear,
                "auto_element_wise": elementwise,
                "multi-name": _count(len(d.var_names) > 1 for d in forward),
            },
        ),
    ]


def _node_row(tables: Tables) -> Row:
    infos = [info for by_key in tables.infos.values() for info in by_key.values()]
    ops = {info.op for info in infos if info.op is not None}
    return Row("nodes", {"unique": len(ops), "infos without": _count(not i.op for i in infos)})


def _gradient_rows(tables: Tables) -> list[Row]:
    styles: Counter[str] = Counter()
    for by_key in tables.infos.values():
        for info in by_key.values():
            if info.has_derivatives:
                styles[_gradient_style(info)] += 1
    return [Row("gradient style", {style: styles[style] for style in _STYLES})]


_STYLES = ("grad", "grads", "named", "none")


def _gradient_style(info: DifferentiabilityInfo) -> str:
    if info.used_named_gradients:
        return "named"
    return next((word for word in ("grad", "grads") if uses_ident(info, word)), "none")


def _inplace_row(matched: Iterable[NativeFunctionWithDifferentiabilityInfo]) -> Row:
    forward = [
        d
        for fn in matched
        if fn.func.func.kind() is SchemaKind.inplace and fn.fw_derivatives
        for derivatives in fn.fw_derivatives.values()
        for d in derivatives
    ]
    reused = [d for d in forward if d.is_reusing_outplace_formula]
    copying = _count("self_t_raw.copy_(" in d.formula for d in reused)
    return Row(
        "in-place forward",
        {
            "copy_": copying,
            "direct": len(reused) - copying,
            "need original self": _count(d.required_original_self_value for d in forward),
        },
    )


def _coverage(matched: Iterable[NativeFunctionWithDifferentiabilityInfo], kind: str) -> Coverage:
    chosen = [fn for fn in matched if kind in ("all", fn.func.func.kind().name)]
    return Coverage(
        kind,
        len(chosen),
        _count(fn.info for fn in chosen),
        _count(_has_forward(fn) for fn in chosen),
    )
