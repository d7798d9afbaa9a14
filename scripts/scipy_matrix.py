"""Writes docs/scipy_matrix.md: what SciPy's array-API functions do with tensors, as measured.

python scripts/scipy_matrix.py                  measures all of them, writes the page
python scripts/scipy_matrix.py --check [N]      measures every Nth, and compares with the page
python scripts/scipy_matrix.py stats.gmean …    measures some, and prints what it finds

Every call stands in a table of ``scripts/scipy_calls/``. It runs on arrays, on tensors, and on
tensors that require grad, whose gradient is compared with finite differences on arrays.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

os.environ["SCIPY_ARRAY_API"] = "1"  # read by SciPy when it is imported

import numpy as np
import scipy
from scipy._lib._array_api import xp_capabilities_table
from scipy_calls import TABLES, Call

import pullback as pb
from pullback.errors import message_of
from pullback.scipy import registry

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scipy_matrix.md"
STEPS = {1e-3: 1e-5, 3e-5: 1e-5, 3e-7: 1e-4}  # of differences, and how well they should agree
KINDS = {
    "gradient": "the gradient agrees with finite differences",
    "rule": "declared: a derivative rule, a constant, or refused with a reason (`docs/scipy.md`)",
    "flat": "nothing to differentiate: integers, booleans, ranks, or values that do not depend on "
    "the numbers given; the values are NumPy's",
    "in numpy_mode": "SciPy converts its arguments to arrays, but goes on in Python: the gradient "
    "is right inside `pullback.numpy_mode()`, and outside the conversion raises",
    "NaN": "SciPy computes values with an infinite slope and discards them; 0 times infinity makes "
    "the gradient NaN, as it does in PyTorch",
    "number": "SciPy takes a Python number out of the tensor, with a warning; no gradient",
    "refused": "compiled code of SciPy computes on arrays; values for `x.detach()`, and for a "
    "tensor that requires grad an error that says so",
    "not supported": "tensors raise, whether they require grad or not",
    "WRONG": "the value or the gradient is wrong",
}
REMARKS = {
    "inplace": "SciPy writes over values that backward needs: use "
    "`pb.autograd.graph.allow_mutation_on_saved_tensors()`",
    "leaf": "SciPy writes into its argument: give it `x.clone()`",
    "numpy_mode": "not in `numpy_mode()` either: SciPy assigns to one element several times, and "
    "the gradient goes to all of the values, as in PyTorch",
}


class Status(NamedTuple):
    """What was found for a function."""

    kind: str
    remark: str = ""


# --- one function --------------------------------------------------------------------------------


def _leaves(result: Any, path: str = "") -> dict[str, Any]:
    """The numbers and arrays in a result, whatever they are packed in."""
    if isinstance(result, pb.Tensor | np.ndarray | np.generic | int | float | complex):
        return {path: result}
    if isinstance(result, dict):
        items = list(result.items())
    elif isinstance(result, list | tuple):
        items = list(enumerate(result))
    elif hasattr(result, "__dict__") and not callable(result):
        items = [(key, part) for key, part in vars(result).items() if key[0] != "_"]
    else:
        return {}
    return {name: v for key, part in items for name, v in _leaves(part, f"{path}.{key}").items()}


def _value(leaf: Any) -> np.ndarray:
    return leaf.detach().numpy() if isinstance(leaf, pb.Tensor) else np.asarray(leaf)


def _is_smooth(leaf: Any) -> bool:
    return _value(leaf).dtype.kind in "fc"


class Measurement:
    """One call, on arrays and on tensors, and its slope in a random direction."""

    def __init__(self, function: Any, call: Call):
        self.function = function
        self.code, self.inputs = call
        random = np.random.default_rng(0)
        self.directions = [
            random.standard_normal(array.shape) if _is_smooth(array) else None
            for array in self.inputs
        ]
        self.expected = self.run(*(array.copy() for array in self.inputs))
        self.weights = {
            path: random.standard_normal(_value(leaf).shape)
            for path, leaf in self.expected.items()
            if _is_smooth(leaf)
        }

    def run(self, *inputs: Any) -> dict[str, Any]:
        """All results of the call."""
        return _leaves(self.code(self.function, *inputs))

    def values(self) -> Status | None:
        """What is wrong with the values on tensors without a gradient, if anything."""
        try:
            found = self.run(*(pb.tensor(array) for array in self.inputs))
        except Exception as error:
            return Status("not supported", _words(error))
        if found.keys() != self.expected.keys():
            return Status("WRONG", f"results {sorted(found)}, not {sorted(self.expected)}")
        for path, leaf in found.items():
            if not np.allclose(_value(leaf), _value(self.expected[path]), 1e-7, 1e-9, True):
                return Status("WRONG", f"value{path}: {_value(leaf)}")
        return None

    def slopes(self, *, copied: bool) -> dict[str, float]:
        """The derivative of each weighted result in the direction, by backward passes."""
        leaves = [
            pb.tensor(array, requires_grad=way is not None)
            for array, way in zip(self.inputs, self.directions, strict=True)
        ]
        found = self.run(*(leaf.clone() if copied else leaf for leaf in leaves))
        return {path: self._slope(found[path], w, leaves) for path, w in self.weights.items()}

    def _slope(self, leaf: Any, weights: np.ndarray, leaves: list[pb.Tensor]) -> float:
        if not isinstance(leaf, pb.Tensor) or not leaf.requires_grad:
            return 0.0
        total = (
            pb.real((leaf * weights).sum()) if leaf.dtype.kind == "c" else (leaf * weights).sum()
        )
        pairs = [p for p in zip(leaves, self.directions, strict=True) if p[1] is not None]
        grads = pb.autograd.grad(total, [x for x, _ in pairs], retain_graph=True, allow_unused=True)
        return sum(
            float(np.sum(np.real(np.conj(grad.numpy()) * way)))
            for grad, (_, way) in zip(grads, pairs, strict=True)
            if grad is not None
        )

    def differences(self, step: float) -> dict[str, float]:
        """The same by central differences, with two steps to cancel the leading error."""

        def weighted(distance: float) -> dict[str, float]:
            moved = (
                array.copy() if way is None else array + distance * way
                for array, way in zip(self.inputs, self.directions, strict=True)
            )
            found = self.run(*moved)
            return {
                path: float(np.sum(np.real(_value(found[path]) * weights)))
                if _value(found[path]).shape == weights.shape
                else np.nan
                for path, weights in self.weights.items()
            }

        def difference(distance: float) -> dict[str, float]:
            ahead, behind = weighted(distance), weighted(-distance)
            return {path: (ahead[path] - behind[path]) / (2 * distance) for path in ahead}

        wide, narrow = difference(step), difference(step / 2)
        return {path: (4 * narrow[path] - wide[path]) / 3 for path in wide}

    def agrees(self, slopes: dict[str, float]) -> bool:
        """Whether each slope is that of the differences, for one of the steps."""
        right = set()
        for step, tolerance in STEPS.items():
            try:
                numeric = self.differences(step)
            except ValueError:  # the moved points lie outside of the domain
                continue
            right |= {
                path
                for path, slope in slopes.items()
                if abs(slope - numeric[path]) <= tolerance * max(1.0, abs(numeric[path]))
                or (not np.isfinite(slope) and not np.isfinite(numeric[path]))
            }
        return right == set(slopes)


def _words(error: BaseException) -> str:
    """A message on one line, without the places of modules."""
    text = re.sub(r"<module '([\w.]+)'[^>]*>", r"\1", " ".join(message_of(error).split()))
    text = text if len(text) <= 90 else text[:88].rsplit(" ", 1)[0] + " …"
    return f"{type(error).__name__}: {text}".replace("|", "/")


def _attempts() -> Iterator[tuple[str, AbstractContextManager[Any], bool]]:
    """Ways to call, from the plainest: a remark, a mode, whether arguments are copied."""
    keep = pb.autograd.graph.allow_mutation_on_saved_tensors
    yield "", nullcontext(), False
    yield "inplace", keep(), False
    yield "leaf", nullcontext(), True
    yield "numpy_mode", pb.numpy_mode(), False


def measure(function: Any, call: Call) -> Status:
    """What a function does with tensors."""
    measured = Measurement(function, call)
    wrong = measured.values()
    if wrong is not None:
        return wrong
    if not measured.weights or all(way is None for way in measured.directions):
        return Status("flat")
    problem = ""
    for remark, mode, copied in _attempts():
        try:
            with mode, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                slopes = measured.slopes(copied=copied)
        except Exception as error:
            problem = problem or _words(error)
            continue
        if not measured.agrees(slopes):
            if remark == "numpy_mode":
                return Status("refused", REMARKS[remark])
            if any(np.isnan(slope) for slope in slopes.values()):
                return Status("NaN")
            took = any("no part of the graph" in str(warning.message) for warning in caught)
            return Status("number" if took else "WRONG", "" if took else f"gradient {slopes}")
        if remark == "numpy_mode":
            return Status("in numpy_mode")
        return Status("gradient" if any(slopes.values()) else "flat", REMARKS.get(remark, ""))
    return Status("refused", "" if "Can't call numpy()" in problem else problem)


# --- all of them ---------------------------------------------------------------------------------


def find(module: str, name: str) -> Any:
    """The function, or for a method its class."""
    first, *rest = name.split(".")
    space = import_module(f"scipy.{module}")
    if first == "elementwise":
        return getattr(import_module(f"scipy.{module}.elementwise"), rest[0])
    return getattr(space, first)


def unsupported() -> dict[str, list[str]]:
    """The public functions that SciPy says are for NumPy arrays only, by module."""
    found: dict[str, list[str]] = {}
    for module, calls in TABLES.items():
        space = import_module(f"scipy.{module}")
        for name in sorted(getattr(space, "__all__", ())):
            value = getattr(space, name)
            listed = xp_capabilities_table.get(value) if value.__hash__ else None
            if name not in calls and listed is not None:
                found.setdefault(module, []).append(name)
    return found


def missing() -> list[str]:
    """Functions that SciPy says take other arrays, and that no table has."""
    names = []
    for module, absent in unsupported().items():
        for name in absent:
            entry = xp_capabilities_table[getattr(import_module(f"scipy.{module}"), name)]
            if not (entry["np_only"] or entry["out_of_scope"]):
                names.append(f"{module}.{name}")
    return names


def results(every: int = 1) -> dict[str, Status]:
    """What each function does, or every so manieth."""
    names = [(module, name) for module, calls in TABLES.items() for name in calls][::every]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {
            f"{module}.{name}": Status("rule")
            if has_rule(f"scipy.{module}.{name}")
            else measure(find(module, name), TABLES[module][name])
            for module, name in names
        }


def has_rule(name: str) -> bool:
    """Whether a rule runs instead of SciPy's code."""
    found = registry.find_rule(name)
    return found is not None and found.kind != "recorded"


def row(name: str, status: Status) -> str:
    """A line of the page."""
    return f"| `{name}` | {status.kind} | {status.remark} |"


HEAD = """# SciPy's array-API functions on tensors

Written by `scripts/scipy_matrix.py`, which calls every function on arrays, on tensors, and on
tensors that require grad, and compares values with NumPy's and gradients with finite differences.
Measured with SciPy {scipy} and NumPy {numpy}; a test measures a part of it again.

`SCIPY_ARRAY_API=1` must be in the environment before SciPy is imported. Then SciPy's functions find
Pullback by `x.__array_namespace__()`, and special functions in `pullback.special`. Without it they
convert tensors to arrays, which raises for one that requires grad; only the universal functions
of `docs/scipy_special.md` are the same in both.

{legend}

{counts}
"""
TAIL = """## For NumPy arrays only

SciPy itself has no array-API version of these: they convert what they are given to arrays, and
raise for a tensor that requires grad.

{rows}
"""


def _summary(found: dict[str, Status]) -> str:
    """How many functions of each module are of each kind."""
    kinds = [kind for kind in KINDS if any(status.kind == kind for status in found.values())]
    lines = ["| | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    counted = {m: [found[f"{m}.{name}"].kind for name in calls] for m, calls in TABLES.items()}
    counted["together"] = [status.kind for status in found.values()]
    for module, part in counted.items():
        cells = (str(part.count(kind) or "") for kind in kinds)
        lines.append(f"| {module} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(found: dict[str, Status]) -> str:
    """The text of the page."""
    kinds = [kind for kind in KINDS if any(status.kind == kind for status in found.values())]
    legend = "\n".join(f"- **{kind}**: {KINDS[kind]}" for kind in kinds)
    versions = {"scipy": scipy.__version__, "numpy": np.__version__}
    parts = [HEAD.format(**versions, legend=legend, counts=_summary(found))]
    for module, calls in TABLES.items():
        parts.append(f"## scipy.{module}\n\n| function | on tensors | remark |\n|---|---|---|")
        parts += [row(f"{module}.{name}", found[f"{module}.{name}"]) for name in sorted(calls)]
        parts.append("")
    only = (f"- `scipy.{m}`: {', '.join(names)}" for m, names in unsupported().items())
    return "\n".join([*parts, ""]) + TAIL.format(rows="\n".join(only))


def check(every: int) -> int:
    """Measures some functions again, and says which are worse than in the page.

    A gradient or rule that the page does not have yet is no fault.
    """
    text = PAGE.read_text(encoding="utf-8")
    better = ("gradient", "rule")
    found = {name: status for name, status in results(every).items() if status.kind not in better}
    changed = [line for item in found.items() if (line := row(*item)) not in text]
    print("\n".join(["not as in the page:", *changed]) if changed else "as in the page")
    return int(bool(changed))


def main() -> int:
    """Writes or checks the page, or prints."""
    first, *rest = sys.argv[1:] or [""]
    if first == "--check":
        return check(int(rest[0]) if rest else 1)
    if first:
        for name in (first, *rest):
            module = max((m for m in TABLES if name.startswith(f"{m}.")), key=len)
            short = name.removeprefix(f"{module}.")
            print(row(name, measure(find(module, short), TABLES[module][short])))
        return 0
    found = results()
    PAGE.write_text(page(found), encoding="utf-8")
    wrong = [row(name, status) for name, status in found.items() if status.kind == "WRONG"]
    print("\n".join(wrong + [f"no call for {name}" for name in missing()]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
