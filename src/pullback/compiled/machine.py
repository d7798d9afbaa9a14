"""The code generator: llvmlite, loaded at its first use, and the machine that it generates for."""

from __future__ import annotations

import functools
import importlib.util
import platform
import sys
import threading
from typing import TYPE_CHECKING, Any

from pullback._lazy import lazy_module
from pullback.errors import MissingPackageError

if TYPE_CHECKING:
    from llvmlite import binding, ir
else:
    binding = lazy_module("llvmlite.binding")
    ir = lazy_module("llvmlite.ir")

__all__ = ["binding", "compile_module", "ir", "is_supported", "require_llvmlite"]

_lock = threading.Lock()


def require_llvmlite() -> None:
    """Raises if llvmlite is not installed."""
    if importlib.util.find_spec("llvmlite") is None:
        raise MissingPackageError(
            "compile: backend='llvm' needs llvmlite, which is not installed; run "
            "pip install pullback[compile], or use backend='eager'"
        )


def is_supported() -> bool:
    """Whether the code generator has been tested on this platform.

    >>> isinstance(is_supported(), bool)
    True
    """
    return (
        sys.platform == "linux"
        and platform.machine() in ("x86_64", "AMD64")
        and sys.implementation.name == "cpython"
    )


@functools.lru_cache
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _machine() -> Any:
    """A machine for one engine, which owns it."""
    _initialize()
    target = binding.Target.from_default_triple()
    # The features as well: the name of a processor may promise what a virtual machine has not.
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
    )


def compile_module(module: Any) -> tuple[Any, str]:
    """Compiles a module; returns the engine that holds its code, and its optimized text."""
    with _lock:
        machine = _machine()
        parsed = binding.parse_assembly(str(module))
        parsed.verify()
        options = binding.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = True
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
        text = str(parsed)
        engine = binding.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        return engine, text
