"""Growth of memory over repeated calls, for tests that search for leaks.

A leak grows in every round of calls. CPython's free lists fill up in the first rounds, and other
threads of the process allocate in some, so that the least growth of several rounds is compared.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

ROUNDS = 5


def resident_memory() -> int:
    """Bytes of memory that the process has; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def least_growth(measure: Callable[[], int], run_calls: Callable[[], object]) -> int:
    """Least growth of ``measure()`` over ``ROUNDS`` runs of the calls, after one run to warm up."""
    run_calls()
    growths = []
    before = measure()
    for _ in range(ROUNDS):
        run_calls()
        after = measure()
        growths.append(after - before)
        before = after
    return min(growths)


def least_traced_growth(call: Callable[[], object], calls: int = 2000) -> int:
    """Least growth in bytes of what Python and NumPy allocate, over rounds of so many calls."""

    def run_calls() -> None:
        for _ in range(calls):
            call()
        gc.collect()

    tracemalloc.start()
    try:
        return least_growth(lambda: tracemalloc.get_traced_memory()[0], run_calls)
    finally:
        tracemalloc.stop()
