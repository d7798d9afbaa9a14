"""Tables of the two-file form for tests: read from text, with telling file names in errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pullback.codegen import (
    DifferentiabilityInfo,
    NativeFunctionWithDifferentiabilityInfo,
    Tables,
)
from pullback.codegen.load_yaml import parse_yaml
from pullback.codegen.tables import view_copy_infos
from tools.torchgen import load_tables
from tools.torchgen.load_derivatives import derivative_infos
from tools.torchgen.load_native import native_functions

HERE = Path(__file__).parent
Matched = dict[str, NativeFunctionWithDifferentiabilityInfo]


def _by_name(tables: Tables) -> Matched:
    return {str(fn.func.func.name): fn for fn in tables.match()}


def _read_two(native: str, derivatives: str = "[]") -> Tables:
    functions = native_functions(parse_yaml(native, "native.yaml"))
    entries = derivative_infos(parse_yaml(derivatives, "derivatives.yaml"), functions)
    return Tables(tuple(functions), entries, view_copy_infos(entries, functions))


@pytest.fixture
def read_two() -> Callable[..., Tables]:
    """Read the two-file form from two texts."""
    return _read_two


@pytest.fixture
def match_two() -> Callable[..., Matched]:
    """Read the two-file form and match; functions by name."""
    return lambda native, derivatives="[]": _by_name(_read_two(native, derivatives))


@pytest.fixture
def entry() -> Callable[..., DifferentiabilityInfo]:
    """Read the formulas of a single function with a kernel, and return what is derived."""

    def read(schema: str, formulas: str, key: str = "Default") -> DifferentiabilityInfo:
        native = f"- func: {schema}\n  dispatch: {{CPU: kernel}}\n"
        derivatives = f"- name: {schema}\n" + "".join(
            f"  {line}\n" for line in formulas.strip().splitlines()
        )
        [by_key] = _read_two(native, derivatives).entries.values()
        return by_key[key]

    return read


@pytest.fixture(scope="session")
def worked() -> Matched:
    tables = load_tables(HERE / "worked_native.yaml", HERE / "worked_derivatives.yaml")
    return _by_name(tables)
