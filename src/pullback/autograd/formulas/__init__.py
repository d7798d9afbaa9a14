"""Functions that formulas call, written once for both namespaces.

Each takes the namespace first: on raw arrays it is the fast road, on tensors it records, so second
derivatives come for free.
"""

from __future__ import annotations

from functools import partial

from pullback.autograd.formulas import (
    batching,
    creation,
    decompositions,
    fft,
    indexing,
    linalg,
    nn,
    nn_activation,
    nn_distance,
    nn_loss,
    nn_norm,
    pointwise,
    products,
    reduction,
    scipy_special,
    shape,
    sorting,
    special,
)
from pullback.autograd.namespaces import arrays, tensors

__all__ = [
    "batching",
    "creation",
    "decompositions",
    "fft",
    "indexing",
    "linalg",
    "nn",
    "nn_activation",
    "nn_distance",
    "nn_loss",
    "nn_norm",
    "pointwise",
    "products",
    "reduction",
    "scipy_special",
    "shape",
    "sorting",
    "special",
]

for _family in __all__:
    _module = globals()[_family]
    for _name in _module.__all__:
        for _namespace in (arrays, tensors):
            setattr(_namespace, _name, partial(getattr(_module, _name), _namespace))
