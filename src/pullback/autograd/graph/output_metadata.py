"""Forms: what a node knows of its result, in one tuple that nodes of the same form share.

The collector looks at all that a node holds, and memory is what a long chain of operations waits
for; so shape, dtype and the place for what few nodes have take one slot. Kernels and the engine
read forms in line, as ``shape, dtype, rare, is_few = node._form``.

Small operations take as long as the questions that are asked around them, and nearly all results
give the same answers: a few numbers, of the common dtype, about which nothing is rare. ``is_few``
is all these answers at once. A tensor whose edge is a node with such a form holds an array of just
this form: who gives a tensor another array, or another edge, sees to it (``unlike``, or an edge
that is an ``Output``). So of operands with one such form a kernel need not ask anything.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np

from pullback.kernels.broadcasting import PRODUCT

__all__ = ["FLOAT64", "FORMS", "UNDESCRIBED", "Form", "form_of", "unlike"]

Form: TypeAlias = "tuple[Any, Any, Any, bool]"
"""Shape and dtype of a result, tuples of them where there are several; what is rare: None, or the
counter of the result's versions, or a ``HookLists``; and whether this is all there is to know of a
few numbers of the common dtype. Never changed, but replaced."""

FLOAT64 = np.dtype(np.float64)
UNDESCRIBED: Form = (None, None, None, False)
_MOST_FORMS = 1024
FORMS: dict[tuple[int, ...], Form] = {}
"""Forms of results of the common dtype, by shape. Who is in a hurry looks here without a call."""


def form_of(shape: Any, dtype: Any) -> Form:
    """The form of a result of which nothing rare is known; of the common dtype, one for all nodes.

    So equal forms are mostly known without a look, and a graph has few of them.
    """
    if dtype is not FLOAT64 or type(shape) is not tuple:  # that of samples equals others
        return (shape, dtype, None, False)
    form = FORMS.get(shape)
    if form is None:
        if len(FORMS) >= _MOST_FORMS:
            FORMS.clear()
        form = FORMS[shape] = (shape, dtype, None, prod(shape) < PRODUCT)
    return form


def unlike(form: Form) -> Form:
    """The same once more, for a node whose tensor has become another than its result.

    It is the same as no other's, and says nothing to those in a hurry.

    >>> form = form_of((3,), FLOAT64)
    >>> unlike(form)[:3] == form[:3], unlike(form) is form, unlike(form)[3]
    (True, False, False)
    """
    shape, dtype, rare, _ = form
    return (shape, dtype, rare, False)
