"""``torch.nn.utils.rnn``: the functions of ``pullback.nn.utils.rnn``."""

from __future__ import annotations

from types import FunctionType as _FunctionType

from pullback.compat.torch.tensor import converting as _converting
from pullback.nn.utils import rnn as _rnn

__all__: list[str] = []
for _name in _rnn.__all__:
    _found = getattr(_rnn, _name)
    globals()[_name] = _converting(_found) if isinstance(_found, _FunctionType) else _found
    __all__ += [_name]
