"""Functions that formulas call, written once for both namespaces.

Each takes the namespace first: on raw arrays it is the fast road, on tensors it records, so second
derivatives come for free. A family is imported when a formula calls a function that is not there.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

from pullback.autograd.namespaces import arrays, load_missing, tensors

__all__ = ["FAMILIES"]

FAMILIES = (  # the most used ones first: they are searched in this order
    "pointwise",
    "reduction",
    "shape",
    "products",
    "indexing",
    "creation",
    "sorting",
    "special",
    "linalg",
    "determinants",
    "decompositions",
    "fft",
    "nn",
    "nn_activation",
    "nn_loss",
    "nn_norm",
    "nn_distance",
    "batching",
    "scipy_special",
)
"""The modules of this folder."""


def _load(name: str) -> None:
    """Puts families in the namespaces, one after the other, until one has the function."""
    for family in FAMILIES:
        module = import_module(f"{__name__}.{family}")
        for each in module.__all__:
            for namespace in (arrays, tensors):
                if not hasattr(type(namespace), each):  # which may have a quicker one
                    setattr(namespace, each, partial(getattr(module, each), namespace))
        if name in module.__all__:
            return


load_missing(_load)
