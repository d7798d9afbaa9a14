"""``increment_version`` and its opposite: version counters changed by hand."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from pullback.autograd.levels import leave_tape
from pullback.errors import InferenceError
from pullback.interrupts import run_to_end, uninterrupted_entry
from pullback.tensor.tensor import TRACKED, Tensor, version_of

__all__ = ["increment_version"]


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts a write that autograd could not see, for example through a NumPy array.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0])
    >>> x.numpy()[0] = 5.0
    >>> increment_version(x)
    >>> x._version
    1
    """
    leave_tape()
    for written in [tensor] if isinstance(tensor, Tensor) else list(tensor):
        if not written._flags & TRACKED:
            raise InferenceError(
                "increment_version: Inference tensors do not track version counter."
            )
        version_of(written)[0] += 1


class _unsafe_preserve_version_counter:  # noqa: N801 - PyTorch's name
    """A block whose writes to some tensors are not counted; gradients may become wrong silently."""

    def __init__(self, tensor: Tensor | Iterable[Tensor]):
        self._tensors = [tensor] if isinstance(tensor, Tensor) else list(tensor)
        self._before = [version_of(t)[0] for t in self._tensors]

    def __enter__(self) -> None:
        pass  # the versions were stored when it was made

    @uninterrupted_entry
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run_to_end(self._put_back)

    def _put_back(self) -> None:
        for tensor, before in zip(self._tensors, self._before, strict=True):
            version_of(tensor)[0] = before
