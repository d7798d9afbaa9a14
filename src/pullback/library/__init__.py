"""Defining operators and registering kernels; PyTorch's ``torch.library``."""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names
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

if _typing.TYPE_CHECKING:
    from pullback.library.checks.run import opcheck
    from pullback.library.formula_op import define_op
    from pullback.library.load import load_ops
    from pullback.library.numerical_op import numerical, numerical_jacobian
else:  # they import the generator and the checks
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback.library.checks.run": ["opcheck"],
            "pullback.library.formula_op": ["define_op"],
            "pullback.library.load": ["load_ops"],
            "pullback.library.numerical_op": ["numerical", "numerical_jacobian"],
        },
    )

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
    "numerical",
    "numerical_jacobian",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_vmap",
]
