"""PyTorch's ``torch.fx.experimental``: the module of ``make_fx``."""

from __future__ import annotations

import typing as _typing

from pullback._lazy import lazy_names as _lazy_names

if _typing.TYPE_CHECKING:
    from pullback.fx.experimental import proxy_tensor
else:
    __getattr__, __dir__ = _lazy_names(__name__, {__name__: ["proxy_tensor"]})

__all__ = ["proxy_tensor"]
