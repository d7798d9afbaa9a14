"""Small programs give PyTorch's results; the package calls no method whose meaning differs."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
import pullback.compat.torch as ours
from pullback.library.custom_op import CUSTOM_OPS
from tests.compat.test_torch_scripts import NAMES, run

SOURCE = Path(__file__).parent / "torch_scripts" / "programs.py"
PACKAGE = str(Path(pb.__file__).parent)
# Methods of pullback.Tensor that mean something else in PyTorch.
AMBIGUOUS = [
    "max",
    "min",
    "transpose",
    "std",
    "var",
    "sort",
    "repeat",
    "nonzero",
    "median",
    "squeeze",
    "flatten",
    "cumsum",
]


def programs(package):
    module = types.ModuleType("programs")
    line = "import pullback.compat.torch as torch\n"
    source = SOURCE.read_text().replace(line, f"import {package} as torch\n")
    exec(compile(source, str(SOURCE), "exec"), module.__dict__)
    return module.PROGRAMS


OURS = programs("pullback.compat.torch")


@pytest.fixture(autouse=True)
def remove_operators():
    yield
    ours.set_default_dtype(ours.float32)
    for qualname in [q for q in CUSTOM_OPS if q.startswith("programs::")]:
        CUSTOM_OPS[qualname]._destroy()


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OURS)
def test_program(torch, name):
    expected = programs("torch")[name]()
    assert OURS[name]() == expected


@pytest.mark.parametrize("name", [*OURS, *NAMES])
def test_package_calls_functions_where_methods_differ(monkeypatch, name):
    """A method such as ``x.max(0)`` inside the package would get PyTorch's meaning."""
    found = []

    def watch(method):
        own = getattr(ours.Tensor, method)

        def call(*args, **kwargs):
            place = sys._getframe(1).f_code.co_filename
            if place.startswith(PACKAGE) and "/compat/" not in place:
                found.append(f"{method}: {place}:{sys._getframe(1).f_lineno}")
            return own(*args, **kwargs)

        monkeypatch.setattr(ours.Tensor, method, call)

    for method in AMBIGUOUS:
        watch(method)
    if name in OURS:
        OURS[name]()
    else:
        np.random.seed(0)
        run(name, "pullback.compat.torch")
    assert found == []


def test_tensors_of_the_library_mix():
    x = ours.ones(2, requires_grad=True)
    y = pb.sin(x) + np.cos(x) * pb.ones(2)
    assert type(y) is ours.Tensor
    y.sum().backward()
    assert type(x.grad) is ours.Tensor
    plain = pb.ones(2)
    assert type(plain * 2) is pb.Tensor
    assert type(plain + x) is ours.Tensor
    assert type(plain) is pb.Tensor
    assert plain.max(0).item() == 1.0


def test_devices_that_do_not_exist_raise():
    for call in (
        lambda: ours.device("cuda"),
        ours.ones(1).cuda,
        lambda: ours.ones(1, device="cuda:0"),
    ):
        with pytest.raises(RuntimeError, match=r"cuda.* is not available"):
            call()
    assert not ours.cuda.is_available()
    with pytest.raises(AttributeError, match=r"torch\.cuda\.Stream is not part"):
        ours.cuda.Stream()


def test_pickles_of_pytorch_are_refused(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"PK\x03\x04 archive/data.pkl")
    with pytest.raises(pb.errors.FileFormatError, match="pickle written by PyTorch"):
        ours.load(path)


def test_a_module_is_not_saved_whole(tmp_path):
    with pytest.raises(TypeError, match=r"state_dict\(\)"):
        ours.save(ours.nn.Linear(1, 1), tmp_path / "model.pt")


def test_assert_close_compares_dtypes_and_trees():
    close = ours.testing.assert_close
    close({"a": [ours.ones(2)]}, {"a": [ours.ones(2) + 1e-7]})
    with pytest.raises(AssertionError, match="dtype"):
        close(ours.ones(2), ours.ones(2, dtype=ours.float64))
    with pytest.raises(AssertionError, match="not close"):
        close(ours.ones(2), ours.ones(2) * 1.1)
    with pytest.raises(AssertionError, match="shape"):
        close(ours.ones(2), ours.ones(3))
