"""Tests of operators; PyTorch's ``torch.testing._internal.optests``."""

from __future__ import annotations

from pullback.dispatch import set_autograd_fallback_mode
from pullback.library.checks import (
    autograd_registration_check,
    dontGenerateOpCheckTests,
    generate_opcheck_tests,
    opcheck,
)

__all__ = [
    "autograd_registration_check",
    "dontGenerateOpCheckTests",
    "generate_opcheck_tests",
    "opcheck",
    "set_autograd_fallback_mode",
]
