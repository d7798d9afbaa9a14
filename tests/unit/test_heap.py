"""The memory of large arrays is used again, instead of being fetched from the system each time."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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
