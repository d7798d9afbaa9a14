"""Reference pages that are written at build time: modules, operators and errors.

They come from the package itself (`__all__` and docstrings), from the catalogue of operators that
the generator records, and from the classes of `pullback.errors`. The pages stand in
``reference/made/`` and, for errors, ``errors/``, which are not under version control. A page that
has not changed is not written again, so that Sphinx reads only what is new.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from compiled_operators import kind_of
from formula_latex import latex_of

import pullback as pb
from pullback.batching.array_rules import RULES
from pullback.batching.kernels import is_composite
from pullback.cli.describe import catalogue
from pullback.cli.explain_error import error_classes
from pullback.dispatch import get_operator
from pullback.dispatch.explanation import describe_kernel
from tests.samples import OPS

ROOT = Path(__file__).resolve().parents[2]
RECORDS = {record.name: record for record in OPS}
LAST_NAMES = {record.name.rpartition(".")[2]: record for record in OPS}
MODULES = {
    "pullback.func": "Transforms",
    "pullback.autograd": "Autograd",
    "pullback.autograd.functional": "Derivatives by PyTorch's autograd.functional",
    "pullback.autograd.forward_ad": "Forward mode",
    "pullback.autograd.graph": "Graphs, hooks, saved tensors",
    "pullback.nn": "Modules",
    "pullback.nn.functional": "Functions of modules",
    "pullback.nn.init": "Initial values",
    "pullback.nn.utils": "Utilities of modules",
    "pullback.optim": "Optimizers",
    "pullback.optim.lr_scheduler": "Learning-rate schedules",
    "pullback.masked": "Masked tensors",
    "pullback.linalg": "Linear algebra",
    "pullback.fft": "Fourier transforms",
    "pullback.special": "Special functions",
    "pullback.sparse": "Sparse derivatives and arrays",
    "pullback.optimize": "Solvers",
    "pullback.implicit": "Implicit differentiation",
    "pullback.interop": "NumPy mode",
    "pullback.compiled": "Compiled functions",
    "pullback.fx": "Graphs of programs",
    "pullback.loops": "Loops",
    "pullback.distributed": "Many processes",
    "pullback.dask": "Dask",
    "pullback.library": "Custom operators",
    "pullback.dispatch": "Dispatcher",
    "pullback.schema": "Schemas",
    "pullback.profiler": "Profiler",
    "pullback.inspector": "Inspector",
    "pullback.utils.checkpoint": "Checkpointing",
    "pullback.utils.data": "Data loading",
    "pullback.utils.pytree": "Trees",
    "pullback.utils._python_dispatch": "Dispatch modes",
    "pullback.utils._pytree": "Trees by PyTorch's names",
    "pullback.meta": "Shapes without data",
}


def write(path: Path, text: str) -> None:
    """Writes a page if it is new or differs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# --- modules --------------------------------------------------------------------------------------


def public_names(module: Any) -> list[str]:
    """The public functions, classes and values of a module, without its modules."""
    names = getattr(module, "__all__", ())
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def entry(module: str, name: str, indexed: set[int]) -> list[str]:
    """Lines of one name: its signature, docstring and, for a class, its methods.

    A name that stands on another page too is in the index once: `indexed` has those seen so far.
    """
    value = getattr(importlib.import_module(module), name)
    if not callable(value):
        kind = type(value).__name__
        return [f".. py:data:: {module}.{name}", "", f"   A constant of type ``{kind}``.", ""]
    is_class = inspect.isclass(value)
    lines = [f".. auto{'class' if is_class else 'function'}:: {module}.{name}"]
    lines += ["   :members:"] if is_class else []
    is_new = id(value) not in indexed and not (is_class and issubclass(value, Exception))
    lines += [] if is_new else ["   :no-index:"]
    indexed.add(id(value))
    return [*lines, ""]


def module_page(module: str, title: str, names: list[str], indexed: set[int]) -> str:
    """A page with every name of a module."""
    doc = (inspect.getdoc(importlib.import_module(module)) or "").split("\n\n")[0]
    lines = [title, "=" * len(title), "", f".. py:module:: {module}", "", doc, ""]
    for name in names:
        lines += entry(module, name, indexed)
    return "\n".join(lines) + "\n"


def write_modules(folder: Path, indexed: set[int]) -> list[tuple[str, str]]:
    """Pages of the modules that exist; returns their names and titles."""
    pages = []
    for module, title in MODULES.items():
        try:
            names = public_names(importlib.import_module(module))
        except ModuleNotFoundError:
            continue
        page = module.removeprefix("pullback.").replace(".", "_")
        write(folder / f"{page}.rst", module_page(module, title, names, indexed))
        pages.append((page, title))
    return pages


FAMILY_TITLES = {
    "pointwise": "Element-wise functions",
    "reduction": "Reductions",
    "shape": "Shapes",
    "indexing": "Indexing",
    "sorting": "Sorting and searching",
    "products": "Products",
    "creation": "Creation",
    "other": "Derivatives, modes and tensors",
}


def write_namespace(folder: Path, indexed: set[int]) -> list[tuple[str, str]]:
    """Pages of the names of `pullback` itself, by the family of their operator."""
    family_of = {}
    for record in catalogue().values():
        family = record["table"].split("/")[1]
        family_of.setdefault(record["function"], family)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in public_names(pb):
        if name.startswith("__"):
            continue
        module = getattr(getattr(pb, name), "__module__", "") or ""
        found = re.search(r"operators\.(\w+)\.", module)
        family = family_of.get(name) or (found.group(1) if found else "other")
        groups[family if family in FAMILY_TITLES else "other"].append(name)
    pages = []
    for family, title in FAMILY_TITLES.items():
        names = groups.get(family, [])
        lines = [title, "=" * len(title), ""]
        lines += [".. py:module:: pullback", ""] if family == "other" else []
        for name in sorted(names, key=str.lower):
            lines += entry("pullback", name, indexed)
        write(folder / f"pullback_{family}.rst", "\n".join(lines) + "\n")
        pages.append((f"pullback_{family}", title))
    return pages


# --- operators ------------------------------------------------------------------------------------


def formula_lines(what: str, formulas: dict[str, str]) -> list[str]:
    """Formulas as code, and typeset where they are one expression."""
    lines = []
    for names, text in formulas.items():
        lines += [f"- **{what} {names}**: `{' '.join(text.split())}`"]
        latex = latex_of(text)
        if latex is not None and text not in ("auto_element_wise", "auto_linear"):
            lines += ["", "  $$", f"  {latex}", "  $$", ""]
    return lines


def kernel_name(kernel: Any) -> str:
    """The name of a kernel, without the place where it was registered."""
    return describe_kernel(kernel).split(" at ")[0]


def batching_of(record: dict[str, Any], operator: Any) -> str:
    """The rule by which an operator works on batched tensors."""
    name = operator.name().partition("::")[2]
    if name in RULES:
        return "a rule of its own"
    if is_composite(operator):
        return "by the operators that it is made of"
    kind = record["kernels"].get("Meta")
    if kind in ("elementwise", "reduction"):
        return f"the rule of {kind} operators"
    return "the general rule: views by their axes, others sample by sample"


def record_of(function: str) -> Any:
    """The record by which an operator is tested, or None."""
    names = (function, function.replace("linalg_", "linalg.").replace("fft_", "fft."))
    return next((RECORDS[name] for name in names if name in RECORDS), LAST_NAMES.get(function))


def dtypes_of(function: str) -> str:
    """The dtypes that the operator's record is tested with."""
    record = record_of(function)
    if record is None:
        return "those of its kernel"
    return "real and complex" if record.has_complex else "real"


def linked(kernel: str) -> str:
    """The name of a kernel, with a link to its module if that is ours."""
    module = kernel.rpartition(".")[0]
    path = f"src/pullback/{module.replace('.', '/')}.py"
    is_ours = module.startswith("operators.") and (ROOT / path).is_file()
    return f"[{kernel}](../../../../{path})" if is_ours else f"`{kernel}`"


def samples_of(function: str) -> str:
    """A link to the samples of an operator, which the tests of all operators run."""
    record = record_of(function)
    module = getattr(getattr(record, "samples", None), "__module__", "")
    path = f"{module.replace('.', '/')}.py"
    target = path if module and (ROOT / path).is_file() else "tests/samples"
    return f"[{target}](../../../../{target}), run by [tests/ops](../../../../tests/ops)"


def operator_page(record: dict[str, Any], variants: list[str]) -> str:
    """The page of one operator."""
    name = record["name"].partition("::")[2]
    table, _, line = record["table"].partition(":")
    family = table.split("/")[1]
    operator = get_operator(record["name"])
    lines = [f"# {name}", "", record["doc"], "", "```text", record["schema"], "```", ""]
    lines += [
        "| | |",
        "|---|---|",
        f"| function | `pullback.{record['function']}` |",
        f"| kind | {record['kind']}{', view' if record['view'] else ''} |",
        f"| family | {family} |",
        f"| table | [src/pullback/{table}](../../../../src/pullback/{table}), line {line} |",
    ]
    lines += [
        f"| kernel at {key} | {linked(kernel)} |" for key, kernel in record["kernels"].items()
    ]
    lines += [f"| variant | `{schema}` |" for schema in variants]
    compiled, how = kind_of(operator)
    lines += [
        f"| in compiled programs | {compiled}{f', {how}' if how else ''} |",
        f"| under `vmap` | {batching_of(record, operator)} |",
        f"| dtypes | {dtypes_of(record['function'])} |",
    ]
    lines += [f"| samples and tests | {samples_of(record['function'])} |", ""]
    if "derivatives" in record:
        lines += ["## Derivatives", "", f"Node: `{record['node'] or 'none'}`.", ""]
        lines += formula_lines("cotangent of", record["derivatives"])
        lines += formula_lines("tangent of", record["forward"])
        lines += [f"- `{name}` is not differentiable" for name in record["non_differentiable"]]
        lines += ["", f"Saved for backward: {', '.join(record['saved']) or 'nothing'}.", ""]
        lines += [
            "Conventions at points without a derivative are in "
            "[singular points](../../../semantics/07_singular_points.md).",
            "",
        ]
    lines += ["## Dispatch table", "", "| key | kernel | from |", "|---|---|---|"]
    for key, found in operator.dispatch_table().items():
        assert found.kernel is not None
        lines.append(f"| {key.name} | `{kernel_name(found.kernel)}` | {found.provenance} |")
    return "\n".join(lines) + "\n"


def is_variant(record: dict[str, Any]) -> bool:
    """Whether a record is an in-place, out= or list form of another."""
    name = record["name"].partition("::")[2]
    return name.startswith("_foreach_") or name.endswith(("_", ".out"))


def write_operators(folder: Path) -> list[str]:
    """One page for each operator of the tables; variants stand on the page of their operator."""
    by_table: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in catalogue().values():
        by_table[record["table"]].append(record)
    names = []
    for records in by_table.values():
        first, *others = sorted(records, key=is_variant)
        name = first["name"].partition("::")[2].replace(".", "_")
        write(folder / f"{name}.md", operator_page(first, [r["schema"] for r in others]))
        names.append(name)
    return names


# --- errors ---------------------------------------------------------------------------------------


def write_errors(folder: Path) -> list[str]:
    """One page for each class of errors."""
    pages = []
    for page, kind in error_classes().items():
        bases = ", ".join(f"``{base.__name__}``" for base in kind.__mro__[1:-3]) or "``Exception``"
        title = kind.__name__
        lines = [title, "=" * len(title), "", f".. autoexception:: pullback.errors.{title}", ""]
        lines += [f"It is also caught as {bases}.", ""]
        write(folder / f"{page}.rst", "\n".join(lines))
        pages.append(page)
    return pages


# --- contents -------------------------------------------------------------------------------------


def contents(title: str, intro: str, pages: list[str]) -> str:
    """A page that lists pages."""
    lines = [f"# {title}", "", intro, "", "```{toctree}", ":maxdepth: 1", "", *pages, "```", ""]
    return "\n".join(lines)


def write_pages(app: Any) -> None:
    """Writes all pages; called by Sphinx before it looks for sources."""
    made = Path(app.srcdir) / "reference" / "made"
    indexed: set[int] = set()
    spaces = write_namespace(made / "modules", indexed)
    spaces += write_modules(made / "modules", indexed)
    pages = [f"{title} <modules/{page}>" for page, title in spaces]
    intro = "Every public name, with its signature, what it does and an example."
    write(made / "names.md", contents("Names", intro, pages))
    operators = sorted(write_operators(made / "operators"), key=str.lower)
    intro = "One page for each operator of the tables: schema, formulas, kernels, dispatch table."
    write(
        made / "operators.md", contents("Operators", intro, [f"operators/{n}" for n in operators])
    )
    errors = write_errors(Path(app.srcdir) / "errors")  # the address in messages
    intro = "One page for each class, with its cause and the fix. Messages end with its address."
    write(made / "errors.md", contents("Errors", intro, [f"/errors/{page}" for page in errors]))


def setup(app: Any) -> dict[str, bool]:
    """Connects the writer."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
