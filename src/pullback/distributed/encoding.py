"""Values as bytes for other processes.

Pickles that are made below this module cross the border of a task: tensors with a history refuse
(``pullback.autograd.tensor_data``), which does not hold for pickles in files.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from pullback.errors import AutogradTypeError, PullbackError

__all__ = ["encode_value"]


def encode_value(name: str, what: str, value: Any) -> bytes:
    """A value as bytes, by cloudpickle where pickle cannot."""
    try:
        pickled = pickle.dumps(value)
        pickler: Any = _cloudpickle() if b"__main__" in pickled else None
        return pickled if pickler is None else bytes(pickler.dumps(value))
    except PullbackError:  # a tensor with a history, an operator that no module holds
        raise
    except Exception as error:
        first = error
    pickler = _cloudpickle()
    remedy = "define it in a module, or pip install cloudpickle"
    if pickler is not None:
        try:
            return bytes(pickler.dumps(value))
        except PullbackError:
            raise
        except Exception as error:
            first, remedy = error, "pass something that can be, such as a path or a key"
    raise AutogradTypeError(
        f"{name}: {what} cannot be pickled ({first}), so other processes cannot get it; {remedy}"
    ) from first


def _cloudpickle() -> Any:
    try:
        __import__("cloudpickle")
    except ImportError:
        return None
    return sys.modules["cloudpickle"]
