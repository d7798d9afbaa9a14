"""Tables for the tests of the generator: read from text, with telling file names in errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pullback.codegen import NativeFunctionWithDifferentiabilityInfo, Tables, load_ops
from pullback.codegen.load_ops import read_ops
from pullback.codegen.load_yaml import parse_yaml

HERE = Path(__file__).parent
Matched = dict[str, NativeFunctionWithDifferentiabilityInfo]


def _by_name(tables: Tables) -> Matched:
    return {str(fn.func.func.name): fn for fn in tables.match()}


@pytest.fixture
def match_ops() -> Callable[..., Matched]:
    """Read one table of our own form and match; functions by name."""
    return lambda text, functions=None: _by_name(
        read_ops([parse_yaml(text, "ops.yaml")], functions)
    )


@pytest.fixture(scope="session")
def sample_ops() -> Matched:
    return _by_name(load_ops(HERE / "sample_ops.yaml"))
