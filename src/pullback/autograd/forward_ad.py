"""Forward mode: dual tensors and the level that they live in; ``torch.autograd.forward_ad``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from pullback.autograd.forward.tangents import beside, follow_base, set_tangent, split, tangent_at
from pullback.autograd.graph.views import requires_grad
from pullback.autograd.levels import ProcessLevel
from pullback.autograd.namespaces import tensors
from pullback.dispatch.keys import DUAL
from pullback.dispatch.modes import StateGuard
from pullback.errors import AutogradError, AutogradTypeError, AutogradValueError
from pullback.interrupts import uninterrupted_entry
from pullback.tensor.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_current_level = -1  # for the whole process, as in PyTorch
_level: ProcessLevel | None = None


def enter_dual_level() -> int:
    """Begins a level, in which tensors may have tangents.

    >>> import pullback as pb
    >>> from pullback.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    >>> level
    0
    """
    global _level, _current_level
    if _level is not None:
        raise AutogradError(
            "Nested forward mode AD is not supported at the moment; use func.jvp, which nests"
        )
    level = ProcessLevel()
    try:
        _level = level
        _current_level = 0
        level.begin()
    except BaseException:
        _end_level(level)
        raise
    return 0


@uninterrupted_entry
def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level and drops its tangents.

    >>> import pullback as pb
    >>> from pullback.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    """
    if _level is None or level not in (None, 0):
        raise AutogradError(
            "Trying to exit a forward AD level that was not the last one that was entered"
        )
    _end_level(_level)


@uninterrupted_entry
def _end_level(level: ProcessLevel) -> None:
    global _level, _current_level
    _level = None
    _current_level = -1
    level.end()


class dual_level:  # noqa: N801 - PyTorch's name
    """A block, or a decorated function, in which tensors may have tangents.

    >>> import pullback as pb
    >>> from pullback.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     dual = forward_ad.make_dual(pb.ones(1), pb.ones(1))
    ...     forward_ad.unpack_dual(pb.exp(dual) * 0).primal
    tensor([0.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        exit_dual_level()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run in a level of its own at every call."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return run


class _set_fwd_grad_enabled:  # noqa: N801 - PyTorch's name
    """A block in which tangents do not propagate, or do so again."""

    def __init__(self, mode: bool):
        self._guard = StateGuard(keep=DUAL) if mode else StateGuard(drop=DUAL)

    def __enter__(self) -> Self:
        self._guard.__enter__()
        return self

    @uninterrupted_entry
    def __exit__(self, *exception: object) -> None:
        self._guard.__exit__(*exception)


class UnpackedDualTensor(NamedTuple):
    """Primal and tangent of a dual tensor.

    >>> import pullback as pb
    >>> from pullback.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     dual = forward_ad.make_dual(pb.ones(1), pb.full(1, 2.0))
    ...     forward_ad.unpack_dual(dual).tangent
    tensor([2.])
    """

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
    if _level is None or level not in (None, 0):
        raise AutogradError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first"
        )
    for name, part in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(part, Tensor):
            raise AutogradTypeError(
                f"make_dual: the {name} must be a tensor, not {type(part).__name__}"
            )
        if part.dtype.kind not in "fc":
            raise AutogradValueError(
                f"make_dual: Expected {name} to be floating point or complex, but got: {part.dtype}"
            )
        if tangent_at(part, _level) is not None:
            raise AutogradError(
                f"make_dual: the {name} has a forward gradient at the same level already; take "
                f"unpack_dual({name}).primal"
            )
    if tensor.shape != tangent.shape:
        raise AutogradError(
            f"make_dual: Trying to set a forward gradient that has a different size than that of "
            f"the original Tensor: the tangent has shape {list(tangent.shape)}, but the primal has "
            f"{list(tensor.shape)}"
        )
    _level.recorded |= requires_grad(tangent)
    dual: Tensor = tensors.reshape(tensor, list(tensor.shape))
    set_tangent(dual, _level, beside(dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent of a tensor; the tangent is None where it has none.

    >>> import pullback as pb
    >>> from pullback.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     forward_ad.unpack_dual(forward_ad.make_dual(pb.ones(1), pb.zeros(1)))
    UnpackedDualTensor(primal=tensor([1.]), tangent=tensor([0.]))
    """
    if not isinstance(tensor, Tensor):
        raise AutogradTypeError(f"unpack_dual: a tensor is expected, not {type(tensor).__name__}")
    if _level is None or level not in (None, 0):
        return UnpackedDualTensor(tensor, None)
    follow_base(tensor)
    return UnpackedDualTensor(*split(tensor, _level))
