"""Forms: what a node knows of its result, in one tuple that nodes of the same form share.

The collector looks at all that a node holds, and memory is what a long chain of operations waits
for; so shape, dtype and the place for what few nodes have take one slot. Kernels and the engine
read forms in line, as ``shape, dtype, rare = node._form``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["FLOAT64", "FORMS", "UNDESCRIBED", "Form", "form_of"]

Form: TypeAlias = "tuple[Any, Any, Any]"
"""Shape and dtype of a result, tuples of them where there are several, and what is rare: None, or
the counter of the result's versions, or a ``HookLists``. Never changed, but replaced."""

FLOAT64 = np.dtype(np.float64)
UNDESCRIBED: Form = (None, None, None)
_MOST_FORMS = 1024
FORMS: dict[tuple[int, ...], Form] = {}
"""Forms of results of the common dtype, by shape. Who is in a hurry looks here without a call."""


def form_of(shape: Any, dtype: Any) -> Form:
    """The form of a result of which nothing rare is known; of the common dtype, one for all nodes.

    So equal forms are mostly known without a look, and a graph has few of them.
    """
    if dtype is not FLOAT64 or type(shape) is not tuple:  # that of samples equals others
        return (shape, dtype, None)
    form = FORMS.get(shape)
    if form is None:
        if len(FORMS) >= _MOST_FORMS:
            FORMS.clear()
        form = FORMS[shape] = (shape, dtype, None)
    return form
