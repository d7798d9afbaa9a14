"""``torch.nn.utils``: the functions of ``pullback.nn.utils``, whose names are PyTorch's."""

from __future__ import annotations

from types import FunctionType as _FunctionType

from pullback.compat.torch.nn.utils import rnn
from pullback.compat.torch.tensor import converting as _converting
from pullback.nn import utils as _utils

__all__: list[str] = ["rnn"]
for _name in _utils.__all__:
    if _name in __all__:
        continue
    _found = getattr(_utils, _name)
    globals()[_name] = _converting(_found) if isinstance(_found, _FunctionType) else _found
    __all__ += [_name]
