"""Every public name has a docstring with an example; the doctests run them."""

from __future__ import annotations

import importlib
import inspect

import numpy as np

MODULES = (
    "pullback",
    "pullback.autograd",
    "pullback.autograd.forward_ad",
    "pullback.autograd.functional",
    "pullback.autograd.graph",
    "pullback.compiled",
    "pullback.dispatch",
    "pullback.distributed",
    "pullback.errors",
    "pullback.fft",
    "pullback.func",
    "pullback.fx",
    "pullback.implicit",
    "pullback.interop",
    "pullback.library",
    "pullback.linalg",
    "pullback.loops",
    "pullback.masked",
    "pullback.nn",
    "pullback.nn.functional",
    "pullback.nn.init",
    "pullback.nn.utils",
    "pullback.optim",
    "pullback.optim.lr_scheduler",
    "pullback.optimize",
    "pullback.schema",
    "pullback.sparse",
    "pullback.special",
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


def test_every_public_name_has_an_example():
    found = {name: names_without_example(importlib.import_module(name)) for name in MODULES}
    left = {m: [n for n in names if n not in EXCEPTIONS] for m, names in found.items()}
    assert {module: names for module, names in left.items() if names} == {}


def test_exceptions_are_needed():
    found = {n for name in MODULES for n in names_without_example(importlib.import_module(name))}
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
