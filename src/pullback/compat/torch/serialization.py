"""``torch.save`` and ``torch.load`` on the formats of ``pullback.save``: no file can run code."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pullback as pb
from pullback.compat.torch.tensor import convert_tree
from pullback.errors import FileFormatError

__all__ = ["load", "save"]

_ZIP = b"PK"


def save(obj: Any, f: Any, **_: Any) -> None:
    """Writes tensors, or a tree of them such as a ``state_dict``, to a path or an open file.

    The format is safetensors for a path that ends so, else that of ``.npz``, under any name.

    >>> import io, pullback.compat.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"w": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)["w"].tolist()
    [1.0, 1.0]
    """
    if isinstance(obj, pb.nn.Module):
        raise TypeError(
            "torch.save: a module is saved by its state_dict(): files hold tensors and no code"
        )
    suffix = "" if hasattr(f, "write") else Path(f).suffix
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("saved.safetensors" if suffix == ".safetensors" else "saved.npz")
        pb.save(obj, path)
        if hasattr(f, "write"):
            f.write(path.read_bytes())
            return
        beside = Path(f"{os.fspath(f)}.{os.getpid()}.partial")
        shutil.copyfile(path, beside)
        beside.replace(f)


def load(f: Any, map_location: Any = None, **_: Any) -> Any:
    """Reads what `save` wrote, or a safetensors file; never runs code of the file."""
    del map_location
    data = f.read() if hasattr(f, "read") else Path(f).read_bytes()
    is_archive = data[:2] == _ZIP
    if is_archive and b"data.pkl" in data:
        raise FileFormatError(
            f"torch.load: {f} is a pickle written by PyTorch, which could run code; save the "
            f"state_dict there with safetensors.torch.save_file, and load that file"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("loaded.npz" if is_archive else "loaded.safetensors")
        path.write_bytes(data)
        return convert_tree(pb.load(path))
