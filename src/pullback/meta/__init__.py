"""Meta tensors: shapes and dtypes without data, and the kernels that compute with them."""

from __future__ import annotations

from pullback.meta.array import MetaArray, meta_tensor
from pullback.meta.rules import RULES, meta_kernel

__all__ = ["RULES", "MetaArray", "meta_kernel", "meta_tensor"]
