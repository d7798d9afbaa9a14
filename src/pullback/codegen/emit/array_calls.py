"""The names that generated modules have for the functions that a table names."""

from __future__ import annotations

from pullback.codegen.families import module_alias

__all__ = ["array_function"]


def array_function(kernel: str) -> str:
    """The expression for a function that a table names by its module.

    >>> array_function("numpy.sin"), array_function("operators.shape.kernels.reshape")
    ('np.sin', 'shape_kernels.reshape')
    """
    module, _, name = kernel.rpartition(".")
    if module.startswith("operators."):
        return f"{module_alias(module)}.{name}"
    return kernel.replace("numpy.", "np.", 1) if kernel.startswith("numpy.") else kernel
