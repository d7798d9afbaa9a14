"""Transformers: layers, encoder, decoder, and both."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.attention import MultiheadAttention
from pullback.nn.containers import ModuleList
from pullback.nn.dropout import Dropout
from pullback.nn.linear import Linear
from pullback.nn.module import Module
from pullback.nn.normalization import LayerNorm
from pullback.operators.creation.functions import asarray
from pullback.tensor import Tensor

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

_ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu}
_Activation = str | Callable[[Any], Any]


class _Layer(Module):
    """Base of both layers: the feed-forward part, and the order of sums and normalizations."""

    def _init_parts(
        self,
        attentions: tuple[str, ...],
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: _Activation,
        layer_norm_eps: float,
        batch_first: bool,
        bias: bool,
        dtype: Any,
    ) -> None:
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        count = len(attentions) + 1
        for place in range(1, count + 1):
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            self.add_module(f"norm{place}", norm)
        for place in range(1, count + 1):
            self.add_module(f"dropout{place}", Dropout(dropout))
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise RuntimeError(f"activation should be relu/gelu, not {activation}")
            activation = _ACTIVATIONS[activation]
        self.activation = activation

    def _residual(self, x: Any, place: int, part: Callable[[Any], Any]) -> Any:
        """Adds the output of a part to its input, normalized before or after."""
        norm = getattr(self, f"norm{place}")
        dropout = getattr(self, f"dropout{place}")
        return x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual and a normalization.

    Args:
        d_model: length of the vectors.
        nhead: number of heads.
        dim_feedforward: width of the feed-forward network.
        dropout: probability of zeros while training.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to the variance in normalizations.
        batch_first: whether the batch is axis 0, not axis 1.
        norm_first: normalizes inputs of the parts instead of sums.
        bias: whether linear maps and normalizations have biases.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> layer = pb.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> layer(pb.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.norm_first = norm_first
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        self._init_parts(("self_attn",), *sizes, batch_first, bias, dtype)

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The sequence after the layer; the masks are those of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            masks = (src_key_padding_mask, False, src_mask, True, is_causal)
            return self.self_attn(x, x, x, *masks)[0]

        x = self._residual(src, 1, attend)
        return self._residual(x, 2, self._feed_forward)  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    The arguments are those of `TransformerEncoderLayer`.

    >>> import pullback as pb
    >>> layer = pb.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> layer(pb.ones((5, 3, 8)), pb.ones((7, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.norm_first = norm_first
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        self._init_parts(("self_attn", "multihead_attn"), *sizes, batch_first, bias, dtype)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequence after the layer; the masks are those of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            masks = (tgt_key_padding_mask, False, tgt_mask, True, tgt_is_causal)
            return self.self_attn(x, x, x, *masks)[0]

        def attend_memory(x: Any) -> Any:
            masks = (memory_key_padding_mask, False, memory_mask, True, memory_is_causal)
            return self.multihead_attn(x, memory, memory, *masks)[0]

        x = self._residual(tgt, 1, attend)
        x = self._residual(x, 2, attend_memory)
        return self._residual(x, 3, self._feed_forward)  # type: ignore[no-any-return]


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Several encoder layers, and a normalization after the last.

    Args:
        encoder_layer: the layer, which is copied with its values.
        num_layers: number of copies.
        norm: applied to the result, if given.
        enable_nested_tensor: accepted; there are no nested tensors.
        mask_check: accepted; masks are always checked.

    >>> import pullback as pb
    >>> layer = pb.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> pb.nn.TransformerEncoder(layer, num_layers=2)(pb.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,  # noqa: ARG002 - PyTorch's argument
        mask_check: bool = True,  # noqa: ARG002 - PyTorch's argument
    ):
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The sequence after all layers; the masks are those of `MultiheadAttention`."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)  # type: ignore[no-any-return]


class TransformerDecoder(Module):
    """Several decoder layers, and a normalization after the last.

    Args:
        decoder_layer: the layer, which is copied with its values.
        num_layers: number of copies.
        norm: applied to the result, if given.

    >>> import pullback as pb
    >>> layer = pb.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> decoder = pb.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(pb.ones((5, 3, 8)), pb.ones((7, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequence after all layers; the masks are those of `MultiheadAttention`."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)  # type: ignore[no-any-return]


class Transformer(Module):
    """An encoder of source sequences, and a decoder of target sequences that attends to it.

    Args:
        d_model: length of the vectors.
        nhead: number of heads.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: width of the feed-forward networks.
        dropout: probability of zeros while training.
        activation: ``"relu"``, ``"gelu"`` or a function.
        custom_encoder: an encoder instead of `TransformerEncoder`.
        custom_decoder: a decoder instead of `TransformerDecoder`.
        layer_norm_eps: added to the variance in normalizations.
        batch_first: whether the batch is axis 0, not axis 1.
        norm_first: normalizes inputs of the parts instead of sums.
        bias: whether linear maps and normalizations have biases.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> net = pb.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> net(pb.ones((7, 3, 8)), pb.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (batch_first, norm_first, bias, device, dtype)
        if custom_encoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            layer: Module = TransformerEncoderLayer(*sizes, *options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            layer = TransformerDecoderLayer(*sizes, *options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequence after encoder and decoder; the masks are those of its layers."""
        shapes = tuple(src.shape), tuple(tgt.shape)
        batch = 0 if self.batch_first else 1
        if any(len(shape) not in (2, 3) or shape[-1] != self.d_model for shape in shapes):
            raise ModuleInputError(
                f"expected src and tgt with last dimension {self.d_model} and 3 dimensions, or 2 "
                f"without a batch, got shapes {shapes[0]} and {shapes[1]}"
            )
        if len(shapes[0]) == 3 and len(shapes[1]) == 3 and shapes[0][batch] != shapes[1][batch]:
            raise ModuleInputError(
                f"expected src and tgt of one batch, got shapes {shapes[0]} and {shapes[1]}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)  # type: ignore[no-any-return]

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:  # noqa: ARG004
        """The additive mask in which each place sees itself and the places before it.

        >>> Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        mask = np.zeros((sz, sz), np.float64 if dtype is None else dtype)
        mask[np.triu_indices(sz, 1)] = -np.inf
        return asarray(mask)
