"""Progress of first calls that take longer than a second, on standard error.

``PULLBACK_PROGRESS=1`` switches it on and ``0`` off; by default it is printed if tqdm is installed
and standard error is a terminal. A thread writes it, so that tracing and compilation need no hooks.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.tensor.tensor import TRACES

if TYPE_CHECKING:
    import tqdm
else:
    tqdm = lazy_module("tqdm")

__all__ = ["show_progress"]

_DELAY = 1.0  # seconds before the first line
_INTERVAL = 0.5


def _is_enabled() -> bool:
    chosen = os.environ.get("PULLBACK_PROGRESS", "")
    if chosen:
        return chosen != "0"
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and importlib.util.find_spec("tqdm") is not None


@contextmanager
def show_progress(name: str) -> Iterator[None]:
    """A block that traces and compiles a function."""
    if not _is_enabled():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_write, args=(name, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _phase() -> str:
    """The name of the present phase, from the traces that run."""
    traces: list[Any] = list(TRACES)
    if not traces:
        return "generating machine code"
    return f"tracing, {sum(len(trace.graph.nodes) for trace in traces):,} operators"


def _write(name: str, ended: threading.Event) -> None:
    start = time.perf_counter()
    if ended.wait(_DELAY):
        return
    has_bar = importlib.util.find_spec("tqdm") is not None
    bar = tqdm.tqdm(desc=f"compile {name}", bar_format="{desc}: {elapsed}") if has_bar else None
    while True:
        if bar is not None:
            bar.set_description_str(f"compile {name}: {_phase()}")
        else:
            seconds = time.perf_counter() - start
            print(f"compile {name}: {_phase()}, {seconds:.1f} s", file=sys.stderr, flush=True)
        if ended.wait(_INTERVAL):
            break
    if bar is not None:
        bar.close()
    else:
        seconds = time.perf_counter() - start
        print(f"compile {name}: done, {seconds:.1f} s", file=sys.stderr, flush=True)
