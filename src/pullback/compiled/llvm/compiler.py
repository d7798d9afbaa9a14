"""The code generator: llvmlite, loaded at its first use, and the machine that it generates for.

The text of an LLVM module goes in, an engine with its machine code comes out, from the cache on
disk (``object_cache.py``) if it is there. ``PULLBACK_CPU`` chooses another processor than this one.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback._lazy import lazy_module
from pullback.compiled.llvm.object_cache import current_cache
from pullback.errors import MissingPackageError

if TYPE_CHECKING:
    import llvmlite
    from llvmlite import binding, ir
else:
    llvmlite = lazy_module("llvmlite")
    binding = lazy_module("llvmlite.binding")
    ir = lazy_module("llvmlite.ir")

__all__ = [
    "binding",
    "function_address",
    "has_avx512",
    "ir",
    "is_supported",
    "load_code",
    "name_address",
    "read_number",
    "require_llvmlite",
    "require_processor",
]

_LEVELS = {
    "x86-64": "",
    "x86-64-v2": "sse4.2 popcnt",
    "x86-64-v3": "avx2 fma bmi2 f16c",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}
"""What ``PULLBACK_CPU`` may name, and features without which its code does not run."""

_lock = threading.RLock()


def _llvm_lock() -> Any:
    """The lock of llvmlite itself, which freed code takes, too; None if it is not loaded."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    return getattr(library, "_lock", None)


def _hold_locks() -> None:
    _lock.acquire()
    own = _llvm_lock()
    if own is not None:
        own.__enter__()


def _release_locks() -> None:
    own = _llvm_lock()
    if own is not None:
        own.__exit__()
    _lock.release()


if hasattr(os, "register_at_fork"):  # a forked process has no thread that would release them
    os.register_at_fork(
        before=_hold_locks, after_in_parent=_release_locks, after_in_child=_release_locks
    )


def require_llvmlite() -> None:
    """Raises if llvmlite is not installed, or cannot make code for the processor of the user."""
    if importlib.util.find_spec("llvmlite") is None:
        raise MissingPackageError(
            "compile: backend='llvm' needs llvmlite, which is not installed; run "
            "pip install pullback[compile], or use backend='eager'"
        )
    if chosen := os.environ.get("PULLBACK_CPU"):
        require_processor(chosen)


def is_supported() -> bool:
    """Whether the code generator has been tested on this platform.

    >>> isinstance(is_supported(), bool)
    True
    """
    return (
        sys.platform == "linux"
        and platform.machine() in ("x86_64", "AMD64")
        and sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
    )


@functools.lru_cache
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def has_avx512() -> bool:
    """Whether the processor has 32 registers of 64 bytes."""
    return "+avx512f" in _processor()[1].split(",")


def _machine() -> Any:
    """A machine for one engine, which owns it."""
    _initialize()
    target = binding.Target.from_default_triple()
    # Position-independent: the addresses of symbols stand in a table, wherever they are.
    cpu, features = _processor()
    return target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True, reloc="pic")


def _processor() -> tuple[str, str]:
    """The name of the processor and its features; ``PULLBACK_CPU`` names another one.

    The features as well: the name may promise what a virtual machine has not. A name such as
    ``x86-64-v3`` (AVX2) or ``x86-64`` (SSE2) restricts code to what older processors have.
    """
    chosen = os.environ.get("PULLBACK_CPU", "")
    if not chosen:
        return _host()
    require_processor(chosen)
    return chosen, ""


def require_processor(name: str) -> None:
    """Raises for a processor that LLVM has no name for, which ends the process, or that differs.

    >>> require_processor("x86-64")
    """
    if name not in _LEVELS:
        raise ValueError(f"PULLBACK_CPU must be one of {', '.join(_LEVELS)}, not {name!r}")
    found = _host()[1].split(",")
    missing = [feature for feature in _LEVELS[name].split() if f"+{feature}" not in found]
    if missing:
        raise ValueError(
            f"PULLBACK_CPU is {name!r}, and this processor has no {', '.join(missing)}; its code "
            f"could not run here"
        )


@functools.lru_cache
def _host() -> tuple[str, str]:
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def name_address(name: str, address: int) -> None:
    """Makes an address known to machine code by a name, so that no code has addresses in it."""
    binding.add_symbol(name, address)


def load_code(
    key: str,
    write: Callable[[], str],
    addresses: dict[str, int] | None = None,
) -> Any:
    """The engine that holds the machine code of a module.

    The code comes from the cache on disk if it is there.

    Args:
        key: differs for modules of different text.
        write: makes the module's text, where the cache has no code for the key.
        addresses: of external symbols, for this module alone.
    """
    cache = current_cache()
    name = _key(key) if cache is not None else ""
    content = cache.get(name) if cache is not None else None
    text = write() if content is None else ""
    with _lock:
        if content is None:
            content = _generate(text)
            if cache is not None:
                cache.put(name, content)
        for symbol, address in (addresses or {}).items():
            name_address(symbol, address)
        return _load(content)


def function_address(engine: Any, name: str) -> int:
    """The address of a function of an engine."""
    with _lock:
        address: int = engine.get_function_address(name)
    return address


def read_number(engine: Any, name: str) -> int:
    """The value of a global int64 of an engine."""
    with _lock:
        address = engine.get_global_value_address(name)
    return ctypes.c_int64.from_address(address).value


def _generate(text: str) -> bytes:
    """The object file of a module.

    The code is written in vectors already. Only variables are turned into registers: other passes
    take time and gain nothing.
    """
    machine = _machine()
    parsed = binding.parse_assembly(text)
    parsed.verify()
    options = binding.create_pipeline_tuning_options(speed_level=0)
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(parsed, binding.create_pass_builder(machine, options))
    content: bytes = machine.emit_object(parsed)
    return content


def _load(content: bytes) -> Any:
    """An engine with the code of an object file."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return engine


def _key(key: str) -> str:
    """A key of machine code, with all of the machine and of other libraries that it depends on."""
    parts = [
        "pullback object 3",
        key,
        *_processor(),
        binding.get_default_triple(),
        str(binding.llvm_version_info),
        llvmlite.__version__,
        np.__version__,
        sys.version,
        sys.implementation.cache_tag or "",
    ]
    return "\0".join(parts)
