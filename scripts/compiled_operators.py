"""Writes docs/compiled_operators.md: every operator, and what compiled programs make of it.

python scripts/compiled_operators.py            writes the page
python scripts/compiled_operators.py --check    says whether it is up to date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pullback  # noqa: F401 - defines the operators
from pullback._generated.scipy_special import lowerings as special_lowerings
from pullback.batching.kernels import is_composite
from pullback.compiled.lowering.operators import LOWERINGS
from pullback.compiled.lowering.rules import MOVES, RULES
from pullback.dispatch import registry

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compiled_operators.md"
KINDS = {
    "compiled": "machine code: by an expression in the operator's table, by a rule, as a view, or\n"
    "  as elements that are moved",
    "composite": "made of other operators, which appear in the graph in its place",
    "constant": "has no array among its arguments: computed once, or each time if it is random",
    "opaque": "runs as its NumPy kernel between compiled segments",
}
HEAD = """# Operators of compiled programs

Written by `scripts/compiled_operators.py` from the tables of `src/pullback/operators/` and the
rules of `src/pullback/compiled/lowering/`. `docs/compile.md` is the guide.

{legend}

In-place variants (`add_`) are compiled where their functional forms are, as the next value of the
memory that they write to, and are opaque otherwise; a program with `out=` runs as NumPy kernels as
a whole. Inside `vmap` the same operators are compiled as outside.
Operators that are loaded on demand (`scipy.special`) are opaque, but for {special}; so are custom
operators.

{counts}

| operator | in compiled programs | how |
|---|---|---|
"""


def kind_of(operator: Any) -> tuple[str, str]:
    """The kind of an operator, and how it is compiled."""
    name = str(operator.name()).partition("::")[2]
    schema = operator.schema
    if name in RULES:
        return "compiled", "rule"
    if name in LOWERINGS:
        return "compiled", f"`{LOWERINGS[name]}`".replace("|", "\\|")
    if name in MOVES:
        return "compiled", "moved elements"
    if schema.is_view:
        return "compiled", "view"
    if is_composite(operator):
        return "composite", ""
    if not any(argument.type.is_tensor_like() for argument in schema.arguments.flat_all):
        is_random = "nondeterministic_seeded" in operator.tags
        return "constant", "random, drawn in each call" if is_random else ""
    return "opaque", ""


def operators() -> list[Any]:
    """The operators of the tables that users call, without in-place variants and ``out=``."""
    found = []
    for entry in registry.all_entries():
        namespace, _, name = entry.name.partition("::")
        is_own = namespace == "pullback" and entry.operator is not None
        if is_own and not name.startswith("_") and not entry.operator.schema.is_mutable:
            found.append(entry.operator)
    return sorted(found, key=lambda operator: str(operator.name()))


def page() -> str:
    """The text of the page."""
    kinds = {str(o.name()).partition("::")[2]: kind_of(o) for o in operators()}
    legend = "\n".join(f"- **{kind}**: {text}" for kind, text in KINDS.items())
    numbers = {kind: sum(found == kind for found, _ in kinds.values()) for kind in KINDS}
    counts = f"{len(kinds)} operators: "
    counts += ", ".join(f"{number} {kind}" for kind, number in numbers.items()) + "."
    rows = [f"| `{name}` | {kind} | {how} |" for name, (kind, how) in kinds.items()]
    names = [name.removeprefix("special_") for name in special_lowerings.LOWERINGS]
    special = ", ".join(f"`{name}`" for name in names)
    return HEAD.format(legend=legend, counts=counts, special=special) + "\n".join(rows) + "\n"


def main() -> int:
    """Writes or checks the page."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.name} is out of date; run python scripts/compiled_operators.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
