"""What depends on the C library and on NumPy's version.

The memory of large arrays is used again, instead of being fetched from the system each time.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from pullback.kernels import platform as platform_module
from pullback.kernels.platform import NUMPY

PROGRAM = """
import resource
import numpy as np
import pullback

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    for _ in range(50):
        np.ones(250_000)

work()
before = faults()
work()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_large_arrays_cost_no_page_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 50 * 488 / 4  # an array has 488 pages


def _count_allocations(monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None) -> int:
    sizes: list[int] = []

    def allocate(size: int, dtype: Any) -> None:
        sizes.append(size)
        if error is not None:
            raise error

    monkeypatch.setattr(np, "empty", allocate)
    platform_module.keep_freed_memory()
    return len(sizes)


@pytest.mark.parametrize("error", [AttributeError, OSError, ValueError])
def test_other_c_libraries_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def confstr(name: str) -> str:
        raise error(name)

    monkeypatch.setattr(os, "confstr", confstr, raising=False)
    assert _count_allocations(monkeypatch, None) == 0


def test_a_process_without_memory_to_spare_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda _: "glibc 2.36", raising=False)
    assert _count_allocations(monkeypatch, MemoryError) == 1


def test_the_version_of_numpy_is_compared_by_number() -> None:
    assert np.__version__.startswith("{}.{}.".format(*NUMPY))
    assert NUMPY >= (2, 0)
