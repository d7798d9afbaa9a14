"""`weight_norm` and `spectral_norm` by hooks: PyTorch's older form, with its names in state dicts.

The weight is an attribute that a hook computes before each call. `nn.utils.parametrizations` has
the newer form of both.
"""

from __future__ import annotations

from typing import Any

from pullback._generated.functions_products import matmul, vecdot
from pullback.autograd import no_grad
from pullback.nn.module import Module
from pullback.nn.parameter import Parameter
from pullback.nn.utils.parametrizations import (
    norm_except,
    power_iteration,
    rows_axis,
    unit_vector,
    weight_matrix,
)
from pullback.tensor import Tensor

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _WeightHook:
    """A hook that computes one weight of a module before each call."""

    kind = ""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, module: Module, _inputs: Any) -> None:
        object.__setattr__(module, self.name, self.compute(module))

    def compute(self, module: Module) -> Tensor:
        """The weight."""
        raise NotImplementedError

    def install(self, module: Module) -> Module:
        """Computes the weight now and before each call."""
        held = vars(module).setdefault("_weight_hooks", {})
        held[self.kind, self.name] = self, module.register_forward_pre_hook(self)
        self(module, ())
        return module


def _take(module: Module, kind: str, name: str) -> Tensor:
    """Takes a parameter out of a module."""
    if (kind, name) in vars(module).get("_weight_hooks", {}):
        raise RuntimeError(
            f"Cannot register two {kind} hooks on the same parameter {name} of "
            f"{type(module).__name__}"
        )
    weight = module.get_parameter(name)
    delattr(module, name)
    return weight


def _remove(module: Module, kind: str, name: str, parts: list[str]) -> Module:
    found = vars(module).get("_weight_hooks", {}).pop((kind, name), None)
    if found is None:
        raise ValueError(f"{kind} of '{name}' not found in {type(module).__name__}")
    hook, handle = found
    handle.remove()
    with no_grad():
        value = hook.compute(module).detach()
    for part in parts:
        delattr(module, f"{name}_{part}")
    delattr(module, name)
    module.register_parameter(name, Parameter(value))
    return module


class _WeightNormHook(_WeightHook):
    kind = "weight_norm"

    def __init__(self, name: str, dim: int | None):
        super().__init__(name)
        self.dim = dim

    def compute(self, module: Module) -> Tensor:
        norm, direction = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return direction * (norm / norm_except(direction, self.dim))  # type: ignore[no-any-return]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Separates norm and direction of a weight: the parameters ``weight_g`` and ``weight_v``.

    Args:
        module: the module.
        name: the parameter.
        dim: the axis with one norm for each index; None takes one norm for all elements.

    >>> import pullback as pb
    >>> sorted(pb.nn.utils.weight_norm(pb.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    weight = _take(module, "weight_norm", name).detach()
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight, dim)))
    module.register_parameter(f"{name}_v", Parameter(weight))
    return _WeightNormHook(name, dim).install(module)


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes a weight under `weight_norm` an ordinary parameter again.

    >>> import pullback as pb
    >>> layer = pb.nn.utils.weight_norm(pb.nn.Linear(2, 3))
    >>> sorted(pb.nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    return _remove(module, "weight_norm", name, ["g", "v"])


class _SpectralNormHook(_WeightHook):
    kind = "spectral_norm"

    def __init__(self, name: str, n_power_iterations: int, eps: float, dim: int):
        super().__init__(name)
        self.n_power_iterations, self.eps, self.dim = n_power_iterations, eps, dim

    def compute(self, module: Module) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = weight_matrix(weight, self.dim)
        if module.training:
            # The other order than in the parametrization: first v, then u.
            turned = weight_matrix(weight.detach(), self.dim).mT
            power_iteration(turned, v, u, self.n_power_iterations, self.eps)
        return weight / vecdot(u.clone(), matmul(matrix, v.clone()))  # type: ignore[no-any-return]


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight, ``weight_orig``, by its largest singular value.

    Args:
        module: the module.
        name: the parameter.
        n_power_iterations: steps of the power iteration before each call while training.
        eps: smallest norm that is divided by.
        dim: the axis of the rows; by default that of the outputs.

    >>> import pullback as pb
    >>> sorted(pb.nn.utils.spectral_norm(pb.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got {n_power_iterations}"
        )
    dim = rows_axis(module) if dim is None else dim
    weight = _take(module, "spectral_norm", name)
    matrix = weight_matrix(weight.detach(), dim)
    module.register_parameter(f"{name}_orig", weight)
    for part, length in zip("uv", matrix.shape, strict=True):
        module.register_buffer(f"{name}_{part}", unit_vector(length, matrix.dtype, eps))
    return _SpectralNormHook(name, n_power_iterations, eps, dim).install(module)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Makes a weight under `spectral_norm` an ordinary parameter again, with its present values.

    >>> import pullback as pb
    >>> layer = pb.nn.utils.spectral_norm(pb.nn.Linear(2, 3))
    >>> sorted(pb.nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    return _remove(module, "spectral_norm", name, ["orig", "u", "v"])
