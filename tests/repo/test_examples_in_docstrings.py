"""Every public name has a docstring with an example; the doctests run them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect

import numpy as np

MODULES = (
    "pullback",
    "pullback.autograd",
    "pullback.autograd.forward_ad",
    "pullback.autograd.functional",
    "pullback.autograd.graph",
    "pullback.compiled",
    "pullback.dask",
    "pullback.dispatch",
    "pullback.distributed",
    "pullback.errors",
    "pullback.fft",
    "pullback.func",
    "pullback.fx",
    "pullback.implicit",
    "pullback.inspector",
    "pullback.interop",
    "pullback.library",
    "pullback.linalg",
    "pullback.loops",
    "pullback.masked",
    "pullback.meta",
    "pullback.nn",
    "pullback.nn.functional",
    "pullback.nn.init",
    "pullback.nn.utils",
    "pullback.optim",
    "pullback.optim.lr_scheduler",
    "pullback.optimize",
    "pullback.profiler",
    "pullback.schema",
    "pullback.sparse",
    "pullback.special",
    "pullback.utils._python_dispatch",
    "pullback.utils._pytree",
    "pullback.utils.checkpoint",
    "pullback.utils.data",
    "pullback.utils.pytree",
)
# name -> why it has no example of its own
EXCEPTIONS = {
    "Device": "a type, for annotations",
    "RegistrationHandle": "returned by Library.impl, whose example undoes a registration",
    "TensorOptionsArguments": "a part of a parsed schema, without use by itself",
    "impl_abstract": "PyTorch's old name of register_fake, whose example holds",
    "impl_backward": "the pair of impl_save_for_backward; CustomOp.impl_backward has the example",
    "impl_save_for_backward": "see impl_backward",
    "zeta": "its first call loads all operators of SciPy; docs/scipy_special.md has examples",
    "load_ops": "reads a file; docs/operators.md has the example",
}


def names_without_example(module) -> list[str]:
    """Public functions and classes of a module whose docstring has no example."""
    found = []
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        is_numpys = inspect.isclass(value) and issubclass(value, np.generic)
        if inspect.ismodule(value) or not callable(value) or is_numpys:
            continue
        if ">>>" not in (inspect.getdoc(value) or ""):
            found.append(name)
    return found


def importable() -> list[str]:
    """The modules above without those of packages that are not installed."""
    has_dask = importlib.util.find_spec("dask") is not None
    return [name for name in MODULES if has_dask or name != "pullback.dask"]


def test_every_public_name_has_an_example():
    found = {name: names_without_example(importlib.import_module(name)) for name in importable()}
    left = {m: [n for n in names if n not in EXCEPTIONS] for m, names in found.items()}
    assert {module: names for module, names in left.items() if names} == {}


def test_the_reference_shows_the_modules_above(root):
    tree = ast.parse((root / "docs/_ext/reference_pages.py").read_text("utf-8"))
    assigned = {t.id: n.value for n in tree.body if isinstance(n, ast.Assign) for t in n.targets}
    shown = set(ast.literal_eval(assigned["MODULES"]))
    others = {"pullback", "pullback.errors"}  # pages by family and by class
    assert shown | others == set(MODULES)


def test_exceptions_are_needed():
    modules = map(importlib.import_module, importable())
    found = {n for module in modules for n in names_without_example(module)}
    assert set(EXCEPTIONS) <= found


def test_a_name_without_an_example_is_found():
    class Module:
        __all__ = ("bare", "documented")

        def bare(self) -> None:
            """Does nothing."""

        def documented(self) -> None:
            """Does nothing.

            >>> None
            """

    assert names_without_example(Module) == ["bare"]
