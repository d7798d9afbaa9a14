"""Reader of PyTorch's own two tables, with formulas in C++, on the model of ``pullback.codegen``.

:func:`load_tables` reads ``native_functions.yaml`` and ``derivatives.yaml`` into the same
``Tables`` as our own form; :func:`make_report` counts what they cover. A tool of the repository,
not part of the package: ``python -m tools.torchgen report`` is its command.
"""

from __future__ import annotations

from tools.torchgen.cpp import CPP, CppDialect
from tools.torchgen.load_derivatives import load_tables
from tools.torchgen.load_native import load_native_functions
from tools.torchgen.report import Report, make_report

__all__ = [
    "CPP",
    "CppDialect",
    "Report",
    "load_native_functions",
    "load_tables",
    "make_report",
]
