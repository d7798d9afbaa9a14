"""Helpers for parameters (norms, vectors, parametrizations) and for sequences (`rnn`)."""

from __future__ import annotations

from pullback.nn.utils import parametrizations, parametrize, rnn
from pullback.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from pullback.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from pullback.nn.utils.weight_hooks import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
