"""Defining operators and registering kernels; PyTorch's ``torch.library``."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from pullback.dispatch import Library, define, fallthrough_kernel, get_kernel, impl
from pullback.library.custom_op import CustomOp
from pullback.library.define_custom import custom_op
from pullback.library.fake import get_ctx
from pullback.library.infer import Device, infer_schema
from pullback.library.register import (
    impl_abstract,
    impl_backward,
    impl_save_for_backward,
    register_autograd,
    register_fake,
    register_jvp,
    register_kernel,
    register_vmap,
)

if _TYPE_CHECKING:
    from pullback.library.checks.run import opcheck
    from pullback.library.formula_op import define_op
    from pullback.library.load import load_ops

__all__ = [
    "CustomOp",
    "Device",
    "Library",
    "custom_op",
    "define",
    "define_op",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "impl_backward",
    "impl_save_for_backward",
    "infer_schema",
    "load_ops",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_vmap",
]


_LATE = {"define_op": "formula_op", "load_ops": "load", "opcheck": "checks.run"}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> _Any:
    """What brings the generator or the checks with it is imported when it is first asked for."""
    if name in _LATE:
        return getattr(_import_module(f"pullback.library.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
