"""Every NumPy function on tensors: what the table says is what happens."""

from __future__ import annotations

import numpy as np
import pytest

from pullback.interop import table

from .compare import check_call
from .more_calls import CALLS


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_right(name: str) -> None:
    for call, arrays in CALLS[name]:
        check_call(call, *arrays)


def test_every_differentiable_function_is_called() -> None:
    installed = {n for n in table.names() if _find(n) is not None}
    assert installed - set(CALLS) == set()


def _find(name: str) -> object:
    space, _, short = name.rpartition(".")
    return getattr(getattr(np, space) if space else np, short, None)
