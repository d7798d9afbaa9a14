"""``einsum`` as NumPy has it: texts or lists of labels, ellipses, contraction paths.

All forms become one: explicit subscripts without ellipsis, for the operator ``_einsum``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np

from pullback._generated.functions_products import _einsum
from pullback.tensor.tensor import Tensor, as_operand

__all__ = ["einsum"]

_LETTERS = ascii_uppercase + ascii_lowercase  # in the order that implicit output has
_REST = "..."


def einsum(*operands: Any, optimize: Any = False) -> Tensor:
    """A sum of products of tensors that labels of their axes describe.

    Axes with the same label go together; those that the output lacks are summed over. With
    `optimize`, which is True, "greedy", "optimal" or a path of ``numpy.einsum_path``, products of
    more than two tensors are computed step by step.

    >>> import pullback as pb
    >>> a = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> pb.einsum("ij,j->i", a, [1.0, 10.0]).tolist()
    [21.0, 43.0]
    >>> pb.einsum(a, [0, 0]).item()
    5.0
    """
    subscripts, tensors = _as_text(operands)
    try:
        terms, output = _explicit(subscripts, tuple(tensor.ndim for tensor in tensors))
    except ValueError as error:
        shapes = " and ".join(str(tensor.shape) for tensor in tensors)
        raise ValueError(f"einsum: {error} (shapes {shapes} given)") from None
    inputs = list(terms)
    if optimize is False or len(tensors) < 3:
        return _einsum(_text(inputs, output), tensors, optimize=bool(optimize))
    shapes_alone = [np.broadcast_to(0.0, tensor.shape) for tensor in tensors]
    path = np.einsum_path(_text(inputs, output), *shapes_alone, optimize=optimize)[0][1:]
    for step in path:
        taken = sorted(step, reverse=True)  # taken out from the back, as NumPy's paths mean it
        joined, factors = [inputs.pop(i) for i in taken], [tensors.pop(i) for i in taken]
        needed = set(output).union(*inputs)
        term = "".join(dict.fromkeys(c for part in joined for c in part if c in needed))
        result = term if inputs else output
        tensors.append(_einsum(_text(joined, result), factors, optimize=True))
        inputs.append(result)
    return tensors[0]


def _text(inputs: Sequence[str], output: str) -> str:
    return f"{','.join(inputs)}->{output}"


def _as_text(operands: Sequence[Any]) -> tuple[str, list[Tensor]]:
    """Subscripts as a text, and the tensors."""
    if operands and isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [as_operand(x) for x in operands[1:]]
    tensors, terms = operands[: len(operands) // 2 * 2 : 2], operands[1::2]
    text = ",".join(map(_term, terms))
    if len(operands) % 2:
        text += f"->{_term(operands[-1])}"
    return text, [as_operand(x) for x in tensors]


def _term(labels: Sequence[Any]) -> str:
    try:
        return "".join(_REST if c is Ellipsis else _LETTERS[c] for c in labels)
    except (TypeError, IndexError):
        raise ValueError(
            f"einsum: labels {labels!r} given; a list of integers from 0 to {len(_LETTERS) - 1} or "
            "Ellipsis is needed"
        ) from None


@lru_cache(maxsize=1024)
def _explicit(subscripts: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The labels of every operand and of the output, with letters in place of ellipses."""
    left, arrow, right = subscripts.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"{subscripts!r} has labels for {len(terms)} operands, not {len(ndims)}")
    for term in [*terms, right]:
        if term.count(_REST) > 1 or not set(term.replace(_REST, "", 1)) <= set(_LETTERS):
            raise ValueError(
                f"{subscripts!r} may have letters, commas, an arrow and one ellipsis a term"
            )
    spare = [c for c in reversed(_LETTERS) if c not in subscripts]
    most, inputs = 0, []
    for term, ndim in zip(terms, ndims, strict=True):
        count = ndim - len(term.replace(_REST, ""))
        if count < 0 or (count and _REST not in term):
            raise ValueError(f"{term!r} in {subscripts!r} does not fit an operand with {ndim} axes")
        most = max(most, count)
        inputs.append(term.replace(_REST, "".join(reversed(spare[:count]))))
    rest = "".join(reversed(spare[:most]))
    if not arrow:
        counts = Counter(left.replace(_REST, "").replace(",", ""))
        return tuple(inputs), rest + "".join(sorted(c for c, n in counts.items() if n == 1))
    if rest and _REST not in right:
        raise ValueError(f"the output of {subscripts!r} needs the ellipsis of the operands")
    output = right.replace(_REST, rest)
    if len(set(output)) != len(output) or not set(output) <= set("".join(inputs)):
        raise ValueError(
            f"the output of {subscripts!r} must have labels of the operands, each once"
        )
    return tuple(inputs), output
