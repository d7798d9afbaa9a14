"""What depends on the C library and on NumPy's version.

On request the memory of large arrays is reused instead of being returned to the system.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.kernels.platform import NUMPY

PROGRAM = """
import resource, sys
import numpy as np
import pullback as pb

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    for _ in range(5):
        arrays = [np.ones(250_000) for _ in range(10)]
        arrays.clear()

if len(sys.argv) > 1:
    assert pb.set_allocator_tuning(True)
if len(sys.argv) > 2:
    assert pb.set_allocator_tuning(False)
work()
before = faults()
work()
print(faults() - before)
"""
PAGES = 50 * 488  # of the arrays that the program makes
needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules"
)


def _count_faults(*arguments: str, **variables: str) -> int:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    environment.pop("PULLBACK_ALLOCATOR_TUNING", None)
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment | variables
    )
    return int(done.stdout)


@needs_glibc
def test_tuned_allocator_reuses_memory_of_large_arrays() -> None:
    assert _count_faults("on") < PAGES / 4
    assert _count_faults(PULLBACK_ALLOCATOR_TUNING="1") < PAGES / 4


@needs_glibc
def test_import_and_disabled_tuning_leave_the_allocator_alone() -> None:
    assert _count_faults() > PAGES / 2
    assert _count_faults(PULLBACK_ALLOCATOR_TUNING="0") > PAGES / 2
    assert _count_faults("on", "off") > PAGES / 2


@pytest.mark.parametrize("error", [AttributeError, OSError, ValueError])
def test_other_c_libraries_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def confstr(name: str) -> str:
        raise error(name)

    monkeypatch.setattr(os, "confstr", confstr, raising=False)
    assert pb.set_allocator_tuning(True) is False


def test_tuning_refuses_what_is_no_bool() -> None:
    with pytest.raises(TypeError, match="enabled must be True or False, not 1"):
        pb.set_allocator_tuning(1)  # type: ignore[arg-type]


def test_the_version_of_numpy_is_compared_by_number() -> None:
    assert np.__version__.startswith("{}.{}.".format(*NUMPY))
    assert NUMPY >= (2, 0)
