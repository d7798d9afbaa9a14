"""The table of rules: how each operator is computed on the blocks of dask arrays.

Operators that the tables tag `elementwise` need no entry. An operator without a rule gathers its
operands in one task.
"""

from __future__ import annotations

from typing import Any

from pullback.batching.rules import class_of
from pullback.dask.array import DaskArray
from pullback.dask.by_hand import RULES as BY_HAND
from pullback.dask.plans import (
    Rule,
    along,
    batch,
    contraction,
    elementwise,
    embedding,
    embedding_backward,
    index,
    index_put,
    picked,
    placed,
    trailing,
    whole_second,
)

__all__ = ["rule_of"]

_ALONG = {
    "axis": (
        *("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "take_along_axis", "put_along_axis"),
        *("gather", "scatter", "scatter_add", "scatter_reduce", "linalg_cross", "softmax"),
        *("log_softmax", "_safe_softmax", "_length", "_norm", "_rms_norm", "_adaptive_avg"),
        *("_adaptive_avg_backward", "_resize", "_resize_backward", "_exclusive_cumprod"),
        *("_recurrence", "_shift", "argmax", "argmin", "nanargmax", "nanargmin", "cumsum"),
        *("cumprod", "logcumsumexp", "cummax", "cummin", "sort", "argsort", "argpartition"),
        *("topk", "kthvalue", "mode", "sliding_window_view"),
    ),
    "axes": ("fft_fftshift", "fft_ifftshift"),
}
_MATRIX = (
    *("linalg_inv", "_inv_or_inf", "linalg_solve", "linalg_pinv", "linalg_det", "_adjugate"),
    *("linalg_slogdet", "linalg_cholesky", "linalg_qr", "linalg_svd", "linalg_svdvals"),
    *("linalg_eigh", "linalg_eigvalsh", "linalg_eig", "linalg_eigvals", "linalg_matrix_rank"),
    "linalg_expm",
)
_ELEMENTWISE = (
    *("masked_fill", "_masked_scale", "_bce", "_bce_with_logits", "real", "imag", "view_as_real"),
    "_quantile_places",
)
_PRODUCTS = (
    *("matmul", "dot", "vecdot", "outer", "_tensordot", "_einsum", "linear", "_euclidean"),
)

_RULES: dict[str, Rule] = {
    **BY_HAND,
    **{name: along(argument) for argument, names in _ALONG.items() for name in names},
    **dict.fromkeys(_MATRIX, trailing(2)),
    **dict.fromkeys(_ELEMENTWISE, elementwise),
    **dict.fromkeys(_PRODUCTS, contraction),
    **dict.fromkeys(("_max_pool", "_avg_pool", "_avg_pool_backward"), trailing("kernel_size")),
    "_adaptive_max_pool": trailing("size"),
    "view_as_complex": trailing(1),
    "view_as_real": whole_second,
    "_ranked": trailing(1),
    "_conv": batch("self"),
    "_conv_input": batch("grad_output"),
    "_conv_weight": batch("self", "grad_output", summed=True),
    "_im2col": batch("self"),
    "_col2im": batch("self"),
    "_plane_gather": batch("self", "indices"),
    **dict.fromkeys(("digitize", "isin", "one_hot"), whole_second),
    "embedding": embedding,
    "_embedding_backward": embedding_backward,
    "_pick": picked(summed=False),
    "_pick_sum": picked(summed=True),
    "_place": placed,
    "index": index,
    "index_put": index_put,
}


def rule_of(operator: Any, name: str) -> Rule | None:
    """The rule of an operator, if there is one."""
    stock = operator.namespace == "pullback"
    rule = _RULES.get(name) if stock else None
    if rule is None and class_of(operator.name()) == "elementwise":
        rule = elementwise
    if rule is None or name not in BY_HAND:
        return rule
    by_hand = rule

    def first_is_lazy(call: Any) -> Any:
        """Rules by hand take a dask array as their first operand."""
        first = call.args[0]
        held = getattr(first, "_array", None)
        if not isinstance(first, list | tuple) and not isinstance(held, DaskArray):
            return None
        return by_hand(call)

    return first_is_lazy
