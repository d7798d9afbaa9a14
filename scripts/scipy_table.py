"""Writes docs/scipy.md: every public name of SciPy on a tensor that requires grad.

python scripts/scipy_table.py            writes the page
python scripts/scipy_table.py --check    says which of its lines are not true any more

The page is made of the declarations: rules, lists of recorded functions and of constants, and the
table of universal functions. What none of them declares is refused.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy

import pullback as pb
from pullback.interop.scipy_status import special_status
from pullback.scipy import registry
from pullback.scipy.hooks import HOOKS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scipy.md"
SUBMODULES = (
    "linalg.interpolative",
    "signal.windows",
    "sparse.csgraph",
    "sparse.linalg",
    "spatial.distance",
    "spatial.transform",
    "stats.contingency",
    "stats.mstats",
    "stats.qmc",
    "stats.sampling",
)
HEAD = """# SciPy's functions on tensors

Written by `scripts/scipy_table.py` from the declarations; a test compares it with the SciPy that is
installed (this page: SciPy {version}).

What a call does if an argument carries a gradient, whichever way its name was imported (`import
pullback` comes before the call, not before the import of SciPy; `docs/interception.md`):

- **derivative**: the gradient passes to the arguments that are listed; one in another argument
  raises. *any* says that SciPy's own code is recorded, with whatever arguments it takes.
- **constant**: SciPy's result on the values, which does not change with them a little.
- **refused**: an error that names the function, the argument and your line.

A tensor that carries no gradient gives what SciPy gives for its array. Universal functions are in
`docs/scipy_special.md`, functions in the Array API mode of SciPy in `docs/scipy_matrix.md`.

{summary}
"""


class Row(NamedTuple):
    """What is known of a public name."""

    name: str
    kind: str  # derivative, constant, refused, or "" for what takes no numbers
    remark: str


def public(space: str) -> dict[str, Any]:
    """The public names of a module, without modules and exceptions."""
    module = importlib.import_module(f"scipy.{space}")
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
    found = {name: getattr(module, name) for name in sorted(names)}
    return {
        name: value
        for name, value in found.items()
        if callable(value) and not (isinstance(value, type) and issubclass(value, BaseException))
    }


def status(space: str, name: str, value: Any) -> Row:
    """What is declared for a public name."""
    full = f"scipy.{space}.{name}"
    if isinstance(value, np.ufunc):
        known = special_status(value)
        listed = "" if known is None else ", ".join(f"`{n}`" for n in known.differentiable)
        return Row(name, "derivative" if listed else "refused", listed)
    target = value.__init__ if isinstance(value, type) else value
    hook = HOOKS.get(target) if isinstance(target, FunctionType) else None
    names = [full, *(hook.names if hook is not None and not isinstance(value, type) else ())]
    rule = next(filter(None, map(registry.find_rule, names)), None)
    methods = method_rules(space, type(value) if hasattr(value, "rvs") else value)
    if rule is None:
        kind = "derivative" if methods else "refused"
        return Row(name, kind, f"methods {methods}" if methods else "")
    if rule.kind in ("constant", "refused"):
        return Row(name, rule.kind, rule.reason)
    listed = ", ".join(f"`{argument}`" for argument in sorted(rule.tensors)) or "any"
    return Row(name, "derivative", listed + (f"; methods {methods}" if methods else ""))


def method_rules(space: str, kind: Any) -> str:
    """The methods of a class that have a rule, or that a class rule defines."""
    if not isinstance(kind, type):
        return ""
    found = set()
    for base in kind.__mro__:
        start = f"scipy.{space}.{base.__name__}."
        found |= {n.removeprefix(start) for n in registry.RULES if n.startswith(start)}
    return ", ".join(f"`{name}`" for name in sorted(found) if name != "__init__")


def page() -> str:
    """The text of the page."""
    parts, counts = [], []
    for space in (*pb.scipy.__all__, *SUBMODULES):
        rows = [
            status(space, name, value)
            for name, value in public(space).items()
            if not isinstance(value, ModuleType) and takes_numbers(value)
        ]
        counts.append((space, [row.kind for row in rows]))
        parts.append(f"## scipy.{space}\n\n| name | | |\n|---|---|---|")
        parts += [f"| `{row.name}` | {row.kind} | {row.remark} |" for row in rows]
        parts.append("")
    kinds = ("derivative", "constant", "refused")
    summary = [f"| | {' | '.join(kinds)} |", "|---|---|---|---|"]
    counts.append(("together", [kind for _, part in counts for kind in part]))
    for space, part in counts:
        summary.append(f"| {space} | {' | '.join(str(part.count(kind)) for kind in kinds)} |")
    head = HEAD.format(version=scipy.__version__, summary="\n".join(summary))
    return head + "\n" + "\n".join(parts)


def takes_numbers(value: Any) -> bool:
    """Whether a call takes an argument at all."""
    try:
        return bool(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return True


def check(old: str, new: str) -> int:
    """Compares two pages, and prints the lines in which they differ."""
    wrong = sorted(set(new.splitlines()) ^ set(old.splitlines()))
    print("\n".join(["run scripts/scipy_table.py:", *wrong]) if wrong else "true")
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    """Writes the page, or compares it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = page()
    if "--check" in arguments:
        return check(PAGE.read_text(encoding="utf-8"), text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
