"""Forward mode: dual tensors and the level that they live in; ``torch.autograd.forward_ad``."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Self

from pullback.autograd.dual import end_level, set_tangent, tangent_of
from pullback.autograd.namespaces import tensors
from pullback.errors import AutogradError
from pullback.tensor.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "is_level_active",
    "make_dual",
    "unpack_dual",
]

_active = False  # for the whole process, as in PyTorch


def is_level_active() -> bool:
    """Whether a dual level has been entered."""
    return _active


def enter_dual_level() -> int:
    """Begins a level, in which tensors may have tangents."""
    global _active
    if _active:
        raise AutogradError(
            "Nested forward mode AD is not supported at the moment; use func.jvp, which nests"
        )
    _active = True
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level; tangents are gone."""
    global _active
    if not _active or level not in (None, 0):
        raise AutogradError(
            "Trying to exit a forward AD level that was not the last one that was entered"
        )
    _active = False
    end_level()


class dual_level:  # noqa: N801 - PyTorch's name
    """A block in which tensors may have tangents."""

    def __enter__(self) -> Self:
        enter_dual_level()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        exit_dual_level()


class UnpackedDualTensor(NamedTuple):
    """The two halves of a dual tensor."""

    primal: Tensor
    tangent: Tensor | None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of a tensor that carries a tangent.

    >>> import pullback as pb
    >>> with dual_level():
    ...     x = make_dual(pb.tensor([1.0, 2.0]), pb.tensor([1.0, 0.0]))
    ...     unpack_dual(x * x).tangent.tolist()
    [2.0, 0.0]
    """
    if not _active or level not in (None, 0):
        raise AutogradError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first"
        )
    for name, part in (("primal", tensor), ("tangent", tangent)):
        if part.dtype.kind not in "fc":
            raise ValueError(f"make_dual: the {name} must be floating point, not {part.dtype}")
        if tangent_of(part) is not None:
            raise AutogradError(f"make_dual: the {name} has a tangent at this level already")
    if tensor.shape != tangent.shape:
        raise AutogradError(
            f"make_dual: the tangent has shape {list(tangent.shape)}, but the primal has "
            f"{list(tensor.shape)}"
        )
    dual = tensors.reshape(tensor, list(tensor.shape))
    set_tangent(dual, tangent)
    return dual  # type: ignore[no-any-return]


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent of a tensor; the tangent is None where it has none."""
    tangent = tangent_of(tensor) if _active and level in (None, 0) else None
    return UnpackedDualTensor(tensor, tangent)
