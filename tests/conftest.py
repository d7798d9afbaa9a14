"""What every test may use.

A test that compares live with PyTorch takes the fixture ``torch``; it is then marked ``oracle``
and skipped where torch is not installed. A whole file may say ``pytestmark = pytest.mark.oracle``
instead, after ``torch = pytest.importorskip("torch")``, if it needs torch to collect its cases.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator
from types import ModuleType

import pytest

from pullback.dispatch import autograd_fallback_mode, registry
from pullback.dispatch.keys import DispatchKey
from pullback.dispatch.modes import get_state

os.environ.setdefault("PULLBACK_CACHE_DIR", "")  # tests leave no machine code in the user's home


def _process_state() -> tuple[object, ...]:
    """Everything that outlives a test when a test does not put it back."""
    operators: list[object] = []  # names, each before its kernels; flat, because every test asks
    for entry in registry.all_entries():
        operators.append(entry.name)
        operators.extend([stack[-1] for stack in entry.kernels.values()])
    fallbacks = registry.fallbacks()
    fallbacks.pop(DispatchKey.Dask, None)  # the first tensor on a dask array registers it for good
    return get_state(), autograd_fallback_mode(), fallbacks, operators


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fails a test that leaves a mode, a fallback or an operator behind."""
    before = _process_state()
    yield
    after = _process_state()
    for name, was, now in zip(
        ("state", "mode", "fallbacks", "operators"), before, after, strict=True
    ):
        assert was == now, f"the test left the {name} of the dispatcher changed"


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> None:
    """Leaves what there is before a file's tests out of garbage collections.

    Tests that collect garbage, or search for escaped tensors, then visit the objects of their own
    file only. A full collection of everything takes 0.5 s: two thirds of the suite's time.
    """
    gc.collect()  # what is frozen is never freed; visits the objects of the last file
    gc.freeze()


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    return pytest.importorskip("torch", reason="pip install torch==2.13.0 runs the oracle tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample", type=int, default=1, help="run one test of so many, always the same ones"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    every = config.getoption("--sample")
    if every > 1:
        left = [item for item in items if zlib.crc32(item.nodeid.encode()) % every]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not zlib.crc32(item.nodeid.encode()) % every]
    for item in items:
        if "torch" in getattr(item, "fixturenames", ()):
            item.add_marker("oracle")
