"""The page of NumPy functions is true for the NumPy that is installed."""

from __future__ import annotations

import importlib.util
import inspect
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy._core.overrides import array_function_from_dispatcher

import pullback as pb
from pullback.errors import AutogradError, PullbackError
from pullback.interop import table
from pullback.interop.adapt import COMPILED_SIGNATURES, adapted, parameters_of
from pullback.interop.status import KINDS, public_functions, status

ROOT = Path(__file__).resolve().parents[2]
X = np.array([[0.5, -1.5, 2.0], [1.0, 0.0, 3.0]])
WHOLE = np.array([[3, 1, 2], [0, 5, 4]])

# One call at least of every function that is computed from values.
VALUE_CALLS: dict[str, list[Any]] = {
    "all": [lambda x: np.all(x > 0, axis=1, where=x < 2), lambda x: np.all(x)],
    "allclose": [lambda x: np.allclose(x, X), lambda x: np.allclose(X, x + 1)],
    "any": [lambda x: np.any(x, axis=0, keepdims=True)],
    "argmax": [lambda x: np.argmax(x), lambda x: np.argmax(x, axis=1, keepdims=True)],
    "argmin": [lambda x: np.argmin(x, 0)],
    "argpartition": [lambda x: np.argpartition(x[0], 1)],
    "argsort": [lambda x: np.argsort(x, axis=0, kind="stable")],
    "argwhere": [lambda x: np.argwhere(x > 0.6)],
    "array2string": [lambda x: np.array2string(x, precision=2)],
    "array_equal": [lambda x: np.array_equal(x, X)],
    "array_equiv": [lambda x: np.array_equiv(x, X[0])],
    "array_repr": [np.array_repr],
    "array_str": [np.array_str],
    "can_cast": [lambda x: np.can_cast(x.dtype, np.float32)],
    "common_type": [np.common_type],
    "count_nonzero": [lambda x: np.count_nonzero(x, axis=1)],
    "diag_indices_from": [lambda x: np.diag_indices_from(x[:, :2])],
    "digitize": [lambda x: np.digitize(x, [0.0, 1.0])],
    "einsum_path": [lambda x: np.einsum_path("ij,kj", x, x)],
    "flatnonzero": [np.flatnonzero],
    "isclose": [lambda x: np.isclose(x, 0.5)],
    "iscomplex": [np.iscomplex],
    "iscomplexobj": [np.iscomplexobj],
    "isin": [lambda x: np.isin(x, [0.5, 2.0])],
    "isneginf": [np.isneginf],
    "isposinf": [np.isposinf],
    "isreal": [np.isreal],
    "isrealobj": [np.isrealobj],
    "lexsort": [lambda x: np.lexsort((x[0], x[1]))],
    "linalg.matrix_rank": [np.linalg.matrix_rank],
    "may_share_memory": [lambda x: np.may_share_memory(x, x)],
    "min_scalar_type": [lambda x: np.min_scalar_type(x)],
    "nanargmax": [lambda x: np.nanargmax(x, axis=1)],
    "nanargmin": [lambda x: np.nanargmin(x)],
    "ndim": [np.ndim],
    "nonzero": [np.nonzero],
    "result_type": [lambda x: np.result_type(x, np.float32)],
    "save": [lambda x: _bytes(np.save, x)],
    "savetxt": [lambda x: _bytes(np.savetxt, x)],
    "savez": [lambda x: np.load(io.BytesIO(_bytes(np.savez, x)))["arr_0"]],
    "savez_compressed": [lambda x: np.load(io.BytesIO(_bytes(np.savez_compressed, x)))["arr_0"]],
    "searchsorted": [lambda x: np.searchsorted(np.sort(x[1]), [0.5, 2.0], side="right")],
    "shape": [np.shape],
    "shares_memory": [lambda x: np.shares_memory(x, x)],
    "size": [np.size, lambda x: np.size(x, 1)],
    "tril_indices_from": [lambda x: np.tril_indices_from(x[:, :2])],
    "triu_indices_from": [lambda x: np.triu_indices_from(x[:, :2], 1)],
}
# These take whole numbers or dates only, which no gradient flows to.
INTEGER_CALLS: dict[str, list[Any]] = {
    "packbits": [lambda i: np.packbits(i > 2)],
    "unpackbits": [lambda i: np.unpackbits(np.astype(i, np.uint8))],
    "ravel_multi_index": [lambda i: np.ravel_multi_index((i[0], i[0]), (6, 6))],
    "unravel_index": [lambda i: np.unravel_index(i[0], (3, 3))],
    "bitwise_count": [lambda i: np.bitwise_count(i)],
}
DATES = {"busday_count", "busday_offset", "datetime_as_string", "is_busday"}


def _bytes(save: Any, x: Any) -> bytes:
    file = io.BytesIO()
    save(file, x)
    return file.getvalue()


def _plain(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return [_plain(item) for item in result]
    return result.tolist() if isinstance(result, pb.Tensor | np.ndarray | np.generic) else result


def test_every_public_name_has_a_status() -> None:
    assert all(status(name).kind in KINDS for name in public_functions())


def test_the_page_is_up_to_date() -> None:
    if np.__version__.split(".")[:2] != ["2", "4"]:
        pytest.skip("the page in the repository was written with NumPy 2.4")
    spec = importlib.util.spec_from_file_location("page", ROOT / "scripts" / "numpy_functions.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text(encoding="utf-8") == script.page()


def _in1d(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.in1d(x, [0.5, 2.0])


if hasattr(np, "in1d"):  # until NumPy 2.4
    VALUE_CALLS["in1d"] = [_in1d]


def test_every_function_on_values_is_called() -> None:
    called = set(VALUE_CALLS) | set(INTEGER_CALLS) | DATES
    installed = {name for name in table.VALUES if "." in name or hasattr(np, name)}
    assert installed - called == set()


@pytest.mark.parametrize("name", VALUE_CALLS)
def test_functions_on_values_equal_numpys(name: str) -> None:
    for call in VALUE_CALLS[name]:
        x = pb.tensor(X, requires_grad=True)
        made, expected = call(x), call(X)
        assert _plain(made) == _plain(expected)
        assert not (isinstance(made, pb.Tensor) and made.requires_grad)


@pytest.mark.parametrize("name", INTEGER_CALLS)
def test_functions_on_integers_equal_numpys(name: str) -> None:
    for call in INTEGER_CALLS[name]:
        assert _plain(call(pb.asarray(WHOLE))) == _plain(call(WHOLE))


def test_functions_on_dates_refuse_numbers() -> None:
    with pytest.raises((TypeError, ValueError)):
        np.is_busday(pb.tensor([1.0]))


X3 = [1.0, 2.0, 3.0]
REFUSED_CALLS: dict[str, Any] = {
    "asmatrix": np.asmatrix,
    "bartlett": lambda x: np.bartlett(x),
    "blackman": lambda x: np.blackman(x),
    "bmat": lambda x: np.bmat([[x, x]]),
    "broadcast": lambda x: np.broadcast(x, x),
    "from_dlpack": np.from_dlpack,
    "hamming": lambda x: np.hamming(x),
    "hanning": lambda x: np.hanning(x),
    "kaiser": lambda x: np.kaiser(3, x[0]),
    "matrix": lambda x: np.matrix(x),
    "memmap": lambda x: np.memmap(x),
    "nditer": lambda x: list(np.nditer(x)),
    "ndarray": lambda x: np.ndarray(3, buffer=x),
    "nested_iters": lambda x: np.nested_iters(x[:, None], [[0], [1]]),
    "recarray": lambda x: np.recarray(3, buf=x, dtype=[("a", float)]),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", table.REFUSED)
def test_refused_functions_raise(name: str) -> None:
    with pytest.raises((AutogradError, TypeError)):
        REFUSED_CALLS[name](pb.tensor(X3, requires_grad=True))


@pytest.mark.parametrize("name", sorted({*table.IN_MODE} - {"fromiter", "empty"}))
def test_functions_without_protocol_raise_outside_of_the_mode(name: str) -> None:
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    takes_a_value = name in ("array", "asarray", "asanyarray", "asarray_chkfinite", "require")
    if takes_a_value or name.startswith("as"):
        with pytest.raises(AutogradError, match="Can't call numpy"):
            getattr(np, name)(x)
        with pytest.raises(AutogradError, match="Can't call numpy"):
            getattr(np, name)([x[0], x[1]])
    elif name in ("full", "arange"):
        with pytest.raises(PullbackError):
            getattr(np, name)(*([3, x[0]] if name == "full" else [x[0], 5.0]))


def test_an_unknown_function_is_refused_by_name() -> None:
    def count(a: Any) -> Any:
        return np.cumsum(a)

    def arguments(a: Any) -> Any:
        """NumPy 2.0 copies the docstring from here."""
        return (a,)

    count.__module__ = "numpy.lib.elsewhere"
    handed_over = array_function_from_dispatcher(count)(arguments)
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"numpy\.lib\.elsewhere\.count.*detach"):
        handed_over(x)
    assert handed_over(x.detach()).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("name", sorted(COMPILED_SIGNATURES))
def test_signatures_of_compiled_functions_are_numpys(name: str) -> None:
    try:
        expected = str(inspect.signature(getattr(np, name)))
    except ValueError:
        pytest.skip("NumPy before 2.4 has no signatures of compiled functions")
    assert f"({COMPILED_SIGNATURES[name]})" == expected


def test_compiled_functions_without_a_signature_are_matched_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(function: Any) -> Any:
        if type(function) is type(len) or function is np.dot:
            raise ValueError(f"no signature found for builtin {function!r}")
        return signature(function)

    signature = inspect.signature
    monkeypatch.setattr(inspect, "signature", refuse)
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    made = adapted(np.dot, pb.dot, {})(x, b=pb.tensor([3.0, 4.0]))
    assert pb.autograd.grad(made, x)[0].tolist() == [3, 4]
    with pytest.raises(ValueError, match="no signature"):
        parameters_of(np.dtype(float).newbyteorder)


def test_the_old_name_of_the_shape_is_understood() -> None:
    def reshape(a: Any, newshape: Any, order: str = "C") -> Any:  # as before NumPy 2.1
        raise AssertionError

    ours = table.differentiable("reshape", reshape)
    assert ours is not None
    x = pb.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    assert ours(x, (2, 2)).shape == ours(x, newshape=(2, 2), order="F").shape == (2, 2)
    assert ours(x, (2, 2), "F").tolist() == [[1, 3], [2, 4]]
