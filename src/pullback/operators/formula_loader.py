"""Loads the functions that formulas call, written once for all namespaces.

Each takes the namespace first: on raw arrays it computes, on tensors it records, so that second
derivatives need no code of their own. The functions are in ``operators/<family>/formulas.py``; a
module is imported when a formula calls a function that the namespace does not have yet.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

from pullback.autograd.namespaces import arrays, load_missing, tensors

__all__ = ["MODULES"]

MODULES = (  # the most used ones first: they are searched in this order
    "pointwise.formulas",
    "reduction.formulas",
    "shape.formulas",
    "products.formulas",
    "indexing.formulas",
    "creation.formulas",
    "sorting.formulas",
    "special.formulas",
    "linalg.formulas",
    "linalg.formulas_determinants",
    "linalg.formulas_decompositions",
    "fft.formulas",
    "nn.layers.formulas",
    "nn.activation.formulas",
    "nn.loss.formulas",
    "nn.norm.formulas",
    "nn.distance.formulas",
    "batching.formulas",
    "scipy_special.formulas",
)
"""The modules with such functions, inside ``pullback.operators``."""


def _load(name: str) -> None:
    """Puts modules into the namespaces, one after the other, until one has the function."""
    for path in MODULES:
        module = import_module(f"pullback.operators.{path}")
        for each in module.__all__:
            for namespace in (arrays, tensors):
                if not hasattr(type(namespace), each):  # the namespace may have a faster one
                    setattr(namespace, each, partial(getattr(module, each), namespace))
        if name in module.__all__:
            return


load_missing(_load)
