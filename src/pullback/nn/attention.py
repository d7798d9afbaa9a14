"""Attention with several heads: the function and its module."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback._generated.functions_nn_layers import _safe_softmax as safe_softmax
from pullback._generated.functions_pointwise import _where as where
from pullback._generated.functions_products import matmul
from pullback._generated.functions_reduction import mean
from pullback._generated.functions_shape import broadcast_to, concatenate, reshape, swapaxes
from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.linear import Linear, new_parameter
from pullback.nn.module import Module
from pullback.operators.creation.functions import asarray, zeros
from pullback.tensor import Tensor

__all__ = ["MultiheadAttention"]


class _Projections(NamedTuple):
    """The linear maps of an attention: matrices and biases of queries, keys and values."""

    weights: tuple[Any, Any, Any]
    biases: tuple[Any, Any, Any]


def _additive(mask: Any, name: str, dtype: Any, takes_float32: bool) -> Any:
    """A mask as numbers that are added to scores: truth values forbid where they are true.

    Numbers have the dtype of the query, or float32 where PyTorch's fused attention runs.
    """
    if mask is None:
        return None
    mask = asarray(mask)
    if mask.dtype == bool:
        return where(mask, -float("inf"), zeros((), dtype=dtype))
    if mask.dtype.kind != "f":
        raise ModuleInputError(f"expected {name} of truth values or real numbers, got {mask.dtype}")
    if mask.dtype != dtype and not (takes_float32 and mask.dtype == np.float32):
        raise ModuleInputError(
            f"expected {dtype}, got {mask.dtype} for {name} (the query is {dtype}); convert with "
            f"{name}.astype(np.{dtype}), or give truth values"
        )
    return mask.astype(dtype)


class MultiheadAttention(Module):
    """Attention of queries to keys and values, with several heads side by side.

    The batch is axis 1 of the inputs, axis 0 with `batch_first`; inputs with two axes have none.

    Args:
        embed_dim: length of queries and of the output.
        num_heads: number of heads, a divisor of it.
        dropout: probability of zeros among the weights while training.
        bias: whether the linear maps have biases.
        add_bias_kv: adds one learned key and value.
        add_zero_attn: adds a key and a value that are zero.
        kdim: length of keys, `embed_dim` by default.
        vdim: length of values, `embed_dim` by default.
        batch_first: whether the batch is axis 0.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> attention = pb.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = pb.ones((3, 5, 8))
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        joined = self.kdim == embed_dim == self.vdim
        shapes: dict[str, Any] = dict.fromkeys(
            ("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight")
        )
        if joined:
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            for name, length in zip(shapes, (embed_dim, self.kdim, self.vdim), strict=False):
                shapes[name] = (embed_dim, length)
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        shapes |= dict.fromkeys(("bias_k", "bias_v"), (1, 1, embed_dim) if add_bias_kv else None)
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else new_parameter(shape, dtype))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for vector in (self.bias_k, self.bias_v):
            if vector is not None:
                init.xavier_normal_(vector)

    def _projections(self) -> _Projections:
        size = self.embed_dim
        parts = [slice(i * size, (i + 1) * size) for i in range(3)]
        if self.in_proj_weight is None:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        else:
            weights = tuple(self.in_proj_weight[part] for part in parts)
        bias = self.in_proj_bias
        biases: Any = (None,) * 3 if bias is None else tuple(bias[part] for part in parts)
        return _Projections(weights, biases)

    def _require_inputs(self, inputs: dict[str, Any]) -> None:
        lengths = (self.embed_dim, self.kdim, self.vdim)
        shapes = {name: tuple(x.shape) for name, x in inputs.items()}
        dims = {len(shape) for shape in shapes.values()}
        if dims != {2} and dims != {3}:
            raise ModuleInputError(
                "expected query, key and value with 3 dimensions, or 2 without a batch, got shapes "
                f"{', '.join(map(str, shapes.values()))}"
            )
        for (name, shape), length in zip(shapes.items(), lengths, strict=True):
            if shape[-1] != length:
                raise ModuleInputError(
                    f"expected {name} with last dimension {length}, got {shape[-1]} (shape {shape})"
                )
        query, key, value = shapes.values()
        batch = (0 if self.batch_first else 1) if dims == {3} else None
        if key[:-1] != value[:-1] or (batch is not None and query[batch] != key[batch]):
            raise ModuleInputError(
                "expected key and value of the same length and one batch, got query, key and value "
                f"of shapes {query}, {key}, {value}"
            )

    def _heads(self, x: Any) -> Any:
        """(batch, length, heads * size) as (batch, heads, length, size)."""
        split = reshape(x, (*x.shape[:2], self.num_heads, self.head_dim))
        return swapaxes(split, 1, 2)

    def _project(self, inputs: list[Any]) -> list[Any]:
        """Queries, keys and values by heads, with the keys and values that options add."""
        maps = self._projections()
        mapped = [F.linear(*part) for part in zip(inputs, *maps, strict=True)]
        batch = mapped[0].shape[0]
        if self.bias_k is not None:
            extra = (self.bias_k, self.bias_v)
            for place, vector in enumerate(extra, 1):
                one = broadcast_to(vector, (batch, 1, self.embed_dim))
                mapped[place] = concatenate([mapped[place], one], 1)
        if self.add_zero_attn:
            one = zeros((batch, 1, self.embed_dim), dtype=mapped[0].dtype)
            mapped[1:] = [concatenate([x, one], 1) for x in mapped[1:]]
        return [self._heads(x) for x in mapped]

    def _mask(
        self,
        attn_mask: Any,
        key_padding_mask: Any,
        shape: tuple[int, ...],
        like: Any,
        takes_float32: bool,
    ) -> Any:
        """Numbers to add to scores of a shape (batch, heads, queries, keys), or None."""
        batch, heads, queries, keys = shape
        mask = _additive(attn_mask, "attn_mask", like.dtype, takes_float32)
        if mask is not None:
            allowed = ((queries, keys), (batch * heads, queries, keys))
            if mask.shape not in allowed:
                raise ModuleInputError(
                    f"expected attn_mask of shape {allowed[0]} or {allowed[1]}, got {mask.shape}"
                )
            mask = reshape(mask, (batch, heads, queries, keys)) if mask.ndim == 3 else mask
        padding = _additive(key_padding_mask, "key_padding_mask", like.dtype, takes_float32)
        if padding is not None:
            expected = (batch, keys)
            if padding.shape not in (expected, *([(keys,)] if batch == 1 else [])):
                raise ModuleInputError(
                    f"expected key_padding_mask of shape {expected}, got {padding.shape}"
                )
            padding = reshape(padding, (batch, 1, 1, keys))
            mask = padding if mask is None else mask + padding
        added = (self.bias_k is not None) + self.add_zero_attn
        if mask is not None and added:  # keys that options add are never masked
            none = zeros((*mask.shape[:-1], added), dtype=mask.dtype)
            mask = concatenate([mask, none], mask.ndim - 1)
        return mask

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values, and the weights where they are needed.

        Args:
            query: what attends.
            key: what is attended to.
            value: what is averaged.
            key_padding_mask: keys that are ignored: truth values, or numbers that are added.
            need_weights: whether weights are returned.
            attn_mask: pairs of query and key that are forbidden: truth values, or added numbers,
                of shape (queries, keys) or (batch * heads, queries, keys).
            average_attn_weights: whether the weights are averaged over heads.
            is_causal: says that `attn_mask` is the causal one.
        """
        if is_causal and attn_mask is None:
            raise ModuleInputError("expected attn_mask beside is_causal=True, got None")
        inputs = {"query": asarray(query), "key": asarray(key), "value": asarray(value)}
        self._require_inputs(inputs)
        tensors = list(inputs.values())
        has_batch = tensors[0].ndim == 3
        if not has_batch:
            tensors = [x[None] for x in tensors]
        elif not self.batch_first:
            tensors = [swapaxes(x, 0, 1) for x in tensors]
        batch, queries, _ = tensors[0].shape
        shape = (batch, self.num_heads, queries, tensors[1].shape[1])
        mask = self._mask(attn_mask, key_padding_mask, shape, tensors[0], not need_weights)
        q, k, v = self._project(tensors)
        weights = None
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            scores = matmul(q * self.head_dim**-0.5, swapaxes(k, -1, -2))
            weights = safe_softmax(scores if mask is None else scores + mask)
            weights = F.dropout(weights, dropout) if dropout else weights
            mixed = matmul(weights, v)
            weights = mean(weights, 1) if average_attn_weights else weights
            weights = weights if has_batch else weights[0]
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        joined = reshape(swapaxes(mixed, 1, 2), (batch, queries, self.embed_dim))
        output = self.out_proj(joined)
        if not has_batch:
            output = output[0]
        elif not self.batch_first:
            output = swapaxes(output, 0, 1)
        return output, weights
