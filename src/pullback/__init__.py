"""Pullback: PyTorch's autograd machinery, whole and readable, in pure Python on NumPy.

This module is a contents page. It defines nothing but the version; everything else that it offers
is imported from the layer that defines it, and listed in ``__all__``. What the first gradient does
not need is imported when it is first used.

>>> import pullback as pb
>>> x = pb.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad.tolist()
[2.0, 4.0]
"""

from __future__ import annotations

import typing as _typing

import pullback._generated.methods
import pullback.batching
import pullback.operators.formula_loader
import pullback.tensor.methods.creation
import pullback.tensor.methods.device
import pullback.tensor.methods.indexing
import pullback.tensor.methods.inplace
import pullback.tensor.methods.operators
import pullback.tensor.methods.shape
from pullback import autograd, dispatch, errors, ops, scipy, utils
from pullback._generated import public as _public
from pullback._generated.public import *
from pullback._lazy import lazy_names as _lazy_names
from pullback.autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from pullback.dispatch import DispatchKey, DispatchKeySet
from pullback.interop import array_api as _array_api
from pullback.interop.array_api import *
from pullback.interop.namespace import VERSION as __array_api_version__  # noqa: N811 - the standard's name
from pullback.interop.namespace import ArrayNamespaceInfo as __array_namespace_info__  # noqa: N813
from pullback.kernels.threads import get_num_threads, set_num_threads
from pullback.operators import aliases as _aliases
from pullback.operators import array_functions as _array_functions
from pullback.operators.aliases import *
from pullback.operators.array_functions import *
from pullback.operators.creation import functions as _creation
from pullback.operators.creation import functions_ranges as _ranges
from pullback.operators.creation.functions import *
from pullback.operators.creation.functions_ranges import *
from pullback.tensor import Tensor

if _typing.TYPE_CHECKING:
    from pullback import (
        dask,
        distributed,
        fft,
        func,
        fx,
        implicit,
        interop,
        kernels,
        library,
        linalg,
        masked,
        meta,
        nn,
        optim,
        optimize,
        profiler,
        schema,
        sparse,
        special,
    )
    from pullback.compiled import compile
    from pullback.func.numpy_style import (
        elementwise_grad,
        grad,
        hessian,
        hvp,
        jacobian,
        value_and_grad,
    )
    from pullback.func.vmap import vmap
    from pullback.inspector.inspection import inspect
    from pullback.interop import differentiable, numpy_mode
    from pullback.interop.assembly import unique
    from pullback.interop.assignment import (
        copyto,
        fill_diagonal,
        place,
        put,
        put_along_axis,
        putmask,
    )
    from pullback.kernels.malloc_tuning import set_allocator_tuning
    from pullback.loops import fori_loop, scan, while_loop
    from pullback.operators.products.composites_einsum import einsum
    from pullback.operators.shape.functions_padding import pad
    from pullback.sparse import sparse_hessian, sparse_jacobian
    from pullback.utils.serialization import load, save
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "pullback": [
                "dask",
                "distributed",
                "fft",
                "func",
                "fx",
                "implicit",
                "interop",
                "kernels",
                "library",
                "linalg",
                "masked",
                "meta",
                "nn",
                "optim",
                "optimize",
                "profiler",
                "schema",
                "sparse",
                "special",
            ],
            "pullback.operators.products.composites_einsum": ["einsum"],
            "pullback.compiled": ["compile"],
            "pullback.func.numpy_style": [
                "elementwise_grad",
                "grad",
                "hessian",
                "hvp",
                "jacobian",
                "value_and_grad",
            ],
            "pullback.func.vmap": ["vmap"],
            "pullback.inspector.inspection": ["inspect"],
            "pullback.interop": ["differentiable", "numpy_mode"],
            "pullback.kernels.malloc_tuning": ["set_allocator_tuning"],
            "pullback.loops": ["fori_loop", "scan", "while_loop"],
            "pullback.interop.assignment": [
                "copyto",
                "fill_diagonal",
                "place",
                "put",
                "put_along_axis",
                "putmask",
            ],
            "pullback.interop.assembly": ["unique"],
            "pullback.operators.shape.functions_padding": ["pad"],
            "pullback.sparse": ["sparse_hessian", "sparse_jacobian"],
            "pullback.utils.serialization": ["load", "save"],
        },
    )

__all__ = [
    "DispatchKey",
    "DispatchKeySet",
    "Tensor",
    "__array_api_version__",
    "__array_namespace_info__",
    "__version__",
    "autograd",
    "compile",
    "differentiable",
    "dispatch",
    "einsum",
    "elementwise_grad",
    "enable_grad",
    "errors",
    "fft",
    "fori_loop",
    "func",
    "fx",
    "get_num_threads",
    "grad",
    "hessian",
    "hvp",
    "implicit",
    "inference_mode",
    "inspect",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jacobian",
    "library",
    "linalg",
    "load",
    "masked",
    "nn",
    "no_grad",
    "numpy_mode",
    "ops",
    "optim",
    "optimize",
    "pad",
    "profiler",
    "put_along_axis",
    "save",
    "scan",
    "schema",
    "scipy",
    "set_allocator_tuning",
    "set_grad_enabled",
    "set_num_threads",
    "sparse",
    "sparse_hessian",
    "sparse_jacobian",
    "special",
    "unique",
    "utils",
    "value_and_grad",
    "vmap",
    "while_loop",
]
__all__ += _public.__all__ + _aliases.__all__
__all__ += _creation.__all__ + _array_functions.__all__ + _ranges.__all__
__all__ += _array_api.__all__

__version__ = "0.1.0"
