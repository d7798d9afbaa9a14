"""Two threads for every peer: set before its process starts, because libraries read it once.

The number is passed on in the environment of the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

THREADS = 2
_OURS = "PULLBACK_BENCH_THREADS"
VARIABLES = (
    _OURS,
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def environment(count: int = THREADS, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a measured process: few threads, and bytecode is kept as for a user."""
    env = dict(base)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.update(dict.fromkeys(VARIABLES, str(count)))
    env["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(count > 1).lower()}"
    env["JAX_PLATFORMS"] = "cpu"
    env["PULLBACK_ALLOCATOR_TUNING"] = "1"  # as revision 8ff328b does at import
    env["PULLBACK_CACHE_DIR"] = ""  # first calls compile
    env["TORCHINDUCTOR_COMPILE_THREADS"] = str(THREADS)
    env["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    return env


def threads() -> int:
    """How many threads this process may use."""
    return int(os.environ.get(_OURS, THREADS))


def pin() -> None:
    """Keeps this process on as many processors: thread pools that count processors find no more.

    The clock of processor time needs it, too: time of a thread that runs on another processor is
    missing in it until the kernel's next tick (0.1 instead of 3.4 ms for a run of JAX).
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads() :])
