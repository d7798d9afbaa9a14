"""Checks of operators: ``opcheck`` and its parts."""

from __future__ import annotations

from pullback.library.checks.generate import dontGenerateOpCheckTests, generate_opcheck_tests
from pullback.library.checks.registration_check import autograd_registration_check
from pullback.library.checks.run import opcheck

__all__ = [
    "autograd_registration_check",
    "dontGenerateOpCheckTests",
    "generate_opcheck_tests",
    "opcheck",
]
