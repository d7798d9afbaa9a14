"""Whether two Jacobians agree, and the message that says where they do not."""

from __future__ import annotations

import numpy as np

from pullback.autograd.gradcheck.problem import Array
from pullback.errors import GradcheckError
from pullback.kernels.errstate import errstate

__all__ = ["Where", "agree", "check_agreement", "describe_worst"]


class Where:
    """Description of a Jacobian: its output, its input, and how it was computed.

    `part` names the real or imaginary part of a complex output (in forward mode, of a complex
    input's change) that is being looked at; None where there is no choice.
    """

    def __init__(
        self,
        output: int,
        input: int,
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
        part: str | None = None,
        forward: bool = False,
    ):
        self.output = output
        self.input = input
        self.input_shape, self.output_shape = shapes
        self.part = part
        self.forward = forward

    def __str__(self) -> str:
        prefix = ""
        if self.part is not None:
            element = "inputs" if self.forward else "outputs"
            prefix = f"While considering the {self.part} part of complex {element} only, "
        mode = "computed with forward mode " if self.forward else ""
        return (
            f"{prefix}Jacobian {mode}mismatch for output {self.output} with respect to input "
            f"{self.input},"
        )


def agree(analytical: Array, numerical: Array, rtol: float, atol: float) -> bool:
    """Whether every element lies within ``atol + rtol * |numerical|``."""
    return bool(np.allclose(analytical, numerical, rtol=rtol, atol=atol))


def check_agreement(
    where: Where, analytical: Array, numerical: Array, rtol: float, atol: float
) -> None:
    """Raises where two Jacobians, one row for an input element, differ."""
    if not agree(analytical, numerical, rtol, atol):
        raise GradcheckError(
            f"{where} {describe_worst(where, analytical, numerical, rtol, atol)}\n"
            f"numerical:{numerical}\nanalytical:{analytical}"
        )


def describe_worst(
    where: Where, analytical: Array, numerical: Array, rtol: float, atol: float
) -> str:
    """The two numbers that differ most, beyond the tolerance, and their place."""
    with errstate(invalid="ignore"):
        excess = np.abs(analytical - numerical) - rtol * np.abs(numerical) - atol
    excess = np.where(np.isnan(excess), np.inf, excess)
    excess[analytical == numerical] = -np.inf
    row, column = divmod(int(np.argmax(excess)), excess.shape[1])
    found, expected = analytical[row, column].item(), numerical[row, column].item()
    return (
        f"worst at element {_index(row, where.input_shape)} of the input and element "
        f"{_index(column, where.output_shape)} of the output: numerical {expected!r}, analytical "
        f"{found!r}"
    )


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
