"""Which definitions of custom operators are refused: the same here and in PyTorch."""

from __future__ import annotations

import itertools
import warnings

import pytest

import pullback as pb
from pullback.library.custom_op import CUSTOM_OPS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

_numbers = itertools.count()


def namespace():
    return f"livedef{next(_numbers)}"


def defined(qualname, schema, fn=lambda x: x * 2, mutates=(), **more):
    def scenario(t):
        full = qualname.replace("*", namespace())
        t.library.custom_op(full, fn, mutates_args=mutates, schema=schema, **more)
        return "defined"

    return scenario


def annotated(*hints, returns="T", default=None, mutates=()):
    """A function `f(x0, x1, ...)` with these hints, in which T is the library's Tensor."""

    def scenario(t):
        names = {"T": t.Tensor, "default": default}
        parameters = ", ".join(f"x{i}: {h}" for i, h in enumerate(hints))
        parameters += " = default" if default is not None else ""
        exec(f"def f({parameters}) -> {returns}: return x0", names)
        t.library.custom_op(f"{namespace()}::f", names["f"], mutates_args=mutates)
        return "defined"

    return scenario


DEFINITIONS = {
    "plain": defined("*::f", "(Tensor x) -> Tensor"),
    "no namespace": defined("f", "(Tensor x) -> Tensor"),
    "two separators": defined("*::a::f", "(Tensor x) -> Tensor"),
    "overload": defined("*::f.one", "(Tensor x) -> Tensor"),
    "prim": defined("prim::live", "(Tensor x) -> Tensor"),
    "bad schema": defined("*::f", "(Tenser x) -> Tensor"),
    "schema with name": defined("*::f", "f(Tensor x) -> Tensor"),
    "write not in mutates_args": defined("*::f", "(Tensor(a!) x) -> ()"),
    "mutates_args not in schema": defined("*::f", "(Tensor x) -> Tensor", mutates=("x",)),
    "write declared": defined("*::f", "(Tensor(a!) x) -> ()", mutates=("x",)),
    "keyword-only tensor": defined("*::f", "(Tensor x, *, Tensor y) -> Tensor", lambda x, *, y: x),
    "view": defined("*::f", "(Tensor(a) x) -> Tensor(a)", lambda x: x.view(-1)),
    "unknown device": defined("*::f", "(Tensor x) -> Tensor", device_types="toaster"),
    "hints": annotated("T", "int", "float", "bool", "str"),
    "no return hint": annotated("T", returns="dict"),
    "list of lists": annotated("list[list[T]]"),
    "tuple": annotated("tuple[T, T]"),
    "complex": annotated("T", "complex"),
    "optional": annotated("T", "T | None", "int | None", "list[T | None]"),
    "mutates unknown": annotated("T", "T", mutates="unknown", returns="None"),
    "mutates a number": annotated("T", "int", mutates=("x1",)),
    "mutates nobody": annotated("T", mutates=("nope",)),
    "mutates a list": annotated("list[T]", mutates=("x0",), returns="None"),
    "returns a string": annotated("T", returns="str"),
    "returns a tuple": annotated("T", returns="tuple[T, int]"),
    "returns nested": annotated("T", returns="tuple[tuple[T, T], T]"),
    "default": annotated("T", "int", default=3),
    "bad default": annotated("T", "list[int]", default=[1, 2]),
}


@pytest.mark.parametrize("title", DEFINITIONS)
def test_the_same_definitions_are_refused(title):
    """Rules 15.1, 15.31."""
    found = []
    for t in (pb, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(DEFINITIONS[title](t))
            except NameError:
                raise
            except Exception:
                found.append("refused")
    for qualname in [q for q in CUSTOM_OPS if q.startswith("livedef")]:
        CUSTOM_OPS[qualname]._destroy()
    assert found[0] == found[1]
