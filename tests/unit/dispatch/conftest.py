"""Stand-ins for tensors, and libraries that end with their test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from pullback.dispatch import DispatchKeySet, Library

_numbers = itertools.count()


class Value:
    """The least that a dispatcher needs of a tensor: an int of keys and the requires-grad bit."""

    __slots__ = ("_flags", "data")

    def __init__(self, keys: DispatchKeySet, requires_grad: bool = False, data: object = None):
        self._flags = int(keys) | int(requires_grad)
        self.data = data


PLAIN = {
    "cpu": ("CPU", "ADInplaceOrView", "AutogradCPU"),
    "meta": ("Meta", "ADInplaceOrView", "AutogradMeta"),
    "xla": ("XLA", "ADInplaceOrView", "AutogradXLA"),
    "sparse": ("SparseCsrCPU", "ADInplaceOrView", "AutogradCPU"),
    "fpga": ("FPGA", "ADInplaceOrView", "AutogradOther"),
    "inference": ("CPU",),
}


@pytest.fixture
def value() -> Callable[..., Value]:
    """``value("cpu")``, ``value("cpu", requires_grad=True)``, ``value("CPU", "Tracer")``."""

    def make(*keys: str, requires_grad: bool = False, data: object = None) -> Value:
        names = PLAIN.get(keys[0], keys)
        return Value(DispatchKeySet(*names), requires_grad, data)

    return make


@pytest.fixture
def lib() -> Iterator[Library]:
    """A DEF library of a namespace that no other test uses."""
    with Library(f"test{next(_numbers)}", "DEF") as library:
        yield library
