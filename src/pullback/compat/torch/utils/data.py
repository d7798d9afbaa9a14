"""``torch.utils.data``: datasets and loaders; batches are of ``pullback.compat.torch.Tensor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.compat.torch.tensor import convert_tree, converting
from pullback.utils import data as _data

__all__ = ["DataLoader", "default_collate", "default_convert"]
for _name in _data.__all__:
    globals()[_name] = getattr(_data, _name)
    __all__ += [_name] if _name not in __all__ else []


class DataLoader(_data.DataLoader):
    """Batches of a dataset.

    >>> import pullback.compat.torch as torch
    >>> data = torch.utils.data.TensorDataset(torch.arange(4.0))
    >>> [x.size(0) for (x,) in torch.utils.data.DataLoader(data, batch_size=3)]
    [3, 1]
    """

    def __iter__(self) -> Iterator[Any]:
        return map(convert_tree, super().__iter__())


default_collate = converting(_data.default_collate)
default_convert = converting(_data.default_convert)
