"""``pb.save`` and ``pb.load``: tensors in files of the safetensors or NumPy's ``.npz`` format.

Neither format can hold code, so a file of unknown origin can be loaded. A flat dict of tensors is
stored under its own keys, and other programs read it. Trees of dicts, lists, tuples, numbers, texts
and tensors (such as the state of an optimizer) are stored with a description of their structure, in
JSON, beside the tensors.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pullback.errors import FileFormatError, MissingPackageError
from pullback.tensor import Tensor
from pullback.tensor.tensor import fresh

__all__ = ["load", "save"]

_STRUCTURE = "pullback_structure"  # the key of the description
_FORMATS = (".safetensors", ".npz")
_PLAIN = (str, int, float, bool, type(None))

# The errors of reading a damaged archive.
_DAMAGES = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    TypeError,
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

_Arrays = dict[str, NDArray[Any]]


def save(obj: Any, f: str | os.PathLike[str]) -> None:
    """Writes tensors, or a tree of them, to a file; the name's ending chooses the format.

    The file is written beside its place and then moved there, so a crash leaves no half of it.

    Args:
        obj: a dict of tensors such as ``module.state_dict()``, or a tree of dicts, lists, tuples,
            numbers, texts and tensors such as ``optimizer.state_dict()``.
        f: the path, which ends in ``.safetensors`` (needs the package safetensors) or ``.npz``.

    >>> import os, tempfile, pullback as pb
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.npz")
    >>> pb.save({"weight": pb.ones(2)}, path)
    >>> pb.load(path)["weight"].tolist()
    [1.0, 1.0]
    """
    path = _path("save", f)
    arrays: _Arrays = {}
    if _is_flat(obj):
        arrays = {name: _array(value) for name, value in obj.items()}
        structure = None
    else:
        structure = json.dumps(_describe(obj, "", arrays))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        _write(partial, path.suffix, arrays, structure)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(f: str | os.PathLike[str]) -> Any:
    """Reads what `save` wrote, or a file of one of both formats from another program.

    Args:
        f: the path, which ends in ``.safetensors`` (needs the package safetensors) or ``.npz``.

    >>> import os, tempfile, pullback as pb
    >>> path = os.path.join(tempfile.mkdtemp(), "state.npz")
    >>> pb.save({"step": 3, "moments": [pb.zeros(1)]}, path)
    >>> pb.load(path)
    {'step': 3, 'moments': [tensor([0.])]}
    """
    path = _path("load", f)
    if not path.exists():
        raise FileNotFoundError(f"load: there is no file {path}")
    arrays, structure = _read(path)
    if structure is None:
        return {name: fresh(array) for name, array in arrays.items()}
    try:
        return _rebuild(json.loads(structure), arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def _path(name: str, f: Any) -> Path:
    path = Path(f)
    if path.suffix not in _FORMATS:
        raise FileFormatError(
            f"{name}: the path must end in .safetensors or .npz, but it is {str(path)!r}. Files "
            f"that contain pickles (.pt, .pth, .pkl) can run code, and are not read; convert "
            f"them with safetensors.torch.save_file(state_dict, path)."
        )
    return path


def _is_flat(obj: Any) -> bool:
    """Whether an object is a dict of tensors or arrays."""
    return (
        isinstance(obj, Mapping)
        and bool(obj)
        and all(
            isinstance(k, str) and k != _STRUCTURE and isinstance(v, Tensor | np.ndarray)
            for k, v in obj.items()
        )
    )


def _array(value: Any) -> NDArray[Any]:
    array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise FileFormatError(f"save: an array of dtype {array.dtype} cannot be stored")
    return np.asarray(array, order="C")


def _describe(value: Any, path: str, arrays: _Arrays) -> Any:
    """A value as JSON: containers by their kind, tensors by the key that they are stored under."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        key = path or "value"
        while key in arrays or key == _STRUCTURE:  # {"a.b": x, "a": {"b": y}} has one path twice
            key += "_"
        arrays[key] = _array(value)
        return {"kind": "tensor" if isinstance(value, Tensor) else "array", "key": key}
    if isinstance(value, _PLAIN):
        return {"kind": "value", "value": value}
    if isinstance(value, Mapping):
        pairs = []
        for key, item in value.items():
            if not isinstance(key, str | int):
                raise FileFormatError(
                    f"save: the key {key!r} at {path or 'the top'} is neither a text nor an integer"
                )
            pairs.append([key, _describe(item, f"{path}.{key}" if path else str(key), arrays)])
        return {"kind": "dict", "items": pairs}
    if isinstance(value, list | tuple):
        items = [
            _describe(v, f"{path}.{i}" if path else str(i), arrays) for i, v in enumerate(value)
        ]
        return {"kind": "tuple" if isinstance(value, tuple) else "list", "items": items}
    raise FileFormatError(
        f"save: {path or 'the object'} is a {type(value).__name__}; only tensors, arrays, numbers, "
        f"texts, and dicts, lists and tuples of them can be stored"
    )


def _rebuild(found: Any, arrays: _Arrays) -> Any:
    """The opposite of `_describe`."""
    kind = found["kind"]
    if kind == "tensor":
        return fresh(arrays[found["key"]])
    if kind == "array":
        return arrays[found["key"]]
    if kind == "value":
        return found["value"]
    if kind == "dict":
        return {key: _rebuild(item, arrays) for key, item in found["items"]}
    items = [_rebuild(item, arrays) for item in found["items"]]
    if kind not in ("list", "tuple"):
        raise ValueError(f"unknown kind {kind!r}")
    return tuple(items) if kind == "tuple" else items


def _write(path: Path, suffix: str, arrays: _Arrays, structure: str | None) -> None:
    if suffix == ".safetensors":
        for name, array in arrays.items():
            if array.dtype.name in ("complex128", "complex256", "float128"):
                raise FileFormatError(
                    f"save: {name!r} is of dtype {array.dtype}, which .safetensors files cannot "
                    "hold; save to a path that ends in .npz instead"
                )
        metadata = {"format": "pt"} | ({_STRUCTURE: structure} if structure else {})
        _safetensors().save_file(arrays, str(path), metadata=metadata)
        return
    if structure is not None:
        arrays = {**arrays, _STRUCTURE: np.frombuffer(structure.encode(), np.uint8)}
    with zipfile.ZipFile(path, "w") as archive:  # np.savez refuses some names of arrays
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _read(path: Path) -> tuple[_Arrays, str | None]:
    """The arrays of a file, and the description of their structure if there is one."""
    if path.suffix == ".safetensors":
        library = _safetensors()
        errors = (import_module("safetensors").SafetensorError, OSError, ValueError, TypeError)
        try:
            with import_module("safetensors").safe_open(str(path), framework="numpy") as file:
                structure = (file.metadata() or {}).get(_STRUCTURE)
            return library.load_file(str(path)), structure
        except errors as error:
            raise _damaged(path, error) from error
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file):  # an .npz file is a zip archive
            file.seek(0)
            found = np.load(file, allow_pickle=False)
            arrays = {name: found[name] for name in found.files}
    except _DAMAGES as error:
        raise _damaged(path, error) from error
    described = arrays.pop(_STRUCTURE, None)
    return arrays, None if described is None else bytes(described).decode(errors="replace")


def _safetensors() -> Any:
    if find_spec("safetensors") is None:
        raise MissingPackageError(
            "files that end in .safetensors need the package safetensors: "
            "pip install 'pullback[safetensors]'. Files that end in .npz need nothing."
        )
    return import_module("safetensors.numpy")


def _damaged(path: Path, error: BaseException) -> FileFormatError:
    if isinstance(error, TypeError) and "data type" in str(error):
        return FileFormatError(
            f"load: {path} has tensors of a dtype that NumPy does not have ({error}); convert them "
            f"where they were written, such as by tensor.float()"
        )
    return FileFormatError(
        f"load: {path} is damaged, or no {path.suffix} file ({type(error).__name__}: {error})"
    )
