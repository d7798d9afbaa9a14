"""Operators that are built from generated rows: names, saved values, formulas, first use."""

from __future__ import annotations

import inspect
import subprocess
import sys
import traceback

import numpy as np
import pytest

import pullback as pb
from pullback import _cpython
from pullback.autograd.record.fused import FUSED
from pullback.autograd.record.operator import BUILT
from pullback.dispatch.table import ENTRIES


def leaf(*values: float) -> pb.Tensor:
    return pb.tensor(list(values), requires_grad=True)


def node_of(tensor: pb.Tensor):
    return tensor.grad_fn


@pytest.mark.skipif(not _cpython.IS_TESTED, reason="functions keep a shared name")
@pytest.mark.parametrize(
    ("make", "frames"),
    [
        (lambda x, y: pb.arctan2(x, y), ["Atan2Backward0.run", "atan2_vjp_self"]),
        (lambda x, y: x * y, ["MulBackward0.run"]),
    ],
)
def test_stack_trace_names_the_function_of_the_operator(make, frames):
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    result = make(x, y)
    with pytest.raises(TypeError) as caught:
        node_of(result).run(pb.autograd.namespaces.arrays, "no gradient", True)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:][: len(frames)] == frames


def test_formulas_have_source():
    spec, _ = _built("pullback::atan2")
    assert "return" in inspect.getsource(spec.formulas[0])


def _built(name: str):
    ENTRIES[name].load()
    return BUILT[name]


def test_copies_have_code_of_their_own():
    def make(value: int):
        def function(x: int, *, y: int = 1) -> int:
            return x + y + value

        return function

    first, second = make(1), make(2)
    copy = _cpython.named_copy(first, "Name.first")
    assert copy(1) == 3
    assert copy(1, y=2) == 4
    assert copy.__kwdefaults__ == {"y": 1}
    assert first.__code__ is second.__code__
    if _cpython.IS_TESTED:
        assert copy.__code__ is not first.__code__
        assert copy.__code__.co_name == "Name.first"
    else:
        assert copy is first


def test_copies_without_cpython_are_the_functions_themselves(monkeypatch):
    monkeypatch.setattr(_cpython, "IS_TESTED", False)
    assert _cpython.named_copy(leaf, "other") is leaf


def test_saved_values_have_the_names_of_arguments():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    node = node_of(x * y)
    assert node._saved_self is x
    assert node._saved_other is y
    assert node_of(pb.exp(x))._saved_result.tolist() == np.exp([1.0, 2.0]).tolist()


def test_results_are_saved_and_loaded_only_for_formulas_that_read_them():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    only_base = node_of(pb.power(x, y.detach()))
    assert only_base._saved_self is x
    base, exponent = x * 1.0, y * 1.0
    result = pb.power(base, exponent.detach())
    result.detach().zero_()  # the formula of the base does not read it
    result.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0 * 2.0**3]


def test_kernels_are_built_at_the_first_use_of_an_operator():
    program = """
import pullback as pb
from pullback.autograd.record.operator import BUILT
x = pb.tensor([1.0], requires_grad=True)
(x * x).sum().backward()
print(sorted(BUILT))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    built = eval(done.stdout)
    assert {"pullback::mul", "pullback::sum"} <= set(built)
    assert len(built) < 20


@pytest.mark.parametrize("name", sorted(FUSED))
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
def test_fused_forms_equal_the_formulas(name, dtype):
    """``run`` of a fused operator gives what its formulas give in ``backward``."""
    spec, _ = _built(name)
    rng = np.random.default_rng(0)
    shapes = [(3, 3), (3, 3)] if name.endswith("matmul") else [(3, 3), (1, 3)]
    for large in (1, 40):
        arrays = []
        for shape in shapes[: len(spec.tensors)]:
            full = tuple(n * large if n > 1 else n for n in shape)
            values = rng.normal(size=full)
            arrays.append(
                (values + 1j * rng.normal(size=full)).astype(dtype)
                if dtype is np.complex128
                else values.astype(dtype)
            )
        operands = [pb.tensor(array, requires_grad=True) for array in arrays]
        result = spec.function(*operands)
        node = node_of(result)
        grad = np.asarray(rng.normal(size=result.shape).astype(dtype))
        xp = pb.autograd.namespaces.arrays
        expected = node.backward(xp, grad)
        found = node.run(xp, grad, True)
        for operand, a, b in zip(operands, expected, found, strict=False):
            fit = [xp.sum_to(np.asarray(g), operand.shape, str) for g in (a, b)]
            np.testing.assert_allclose(fit[1], fit[0], rtol=1e-4)
        again = node.run(xp, grad, False)
        assert len(again) == len(found)
        if node._saves_tensors:
            with pytest.raises(pb.errors.GraphFreedError):
                node.run(xp, grad, True)


def test_square_has_one_gradient_for_both_edges():
    x = leaf(3.0)
    square = (x * 1.0) * 1.0
    product = square * square
    node = node_of(product)
    xp = pb.autograd.namespaces.arrays
    (both,) = node.run(xp, np.ones(1), True)
    assert both.tolist() == [6.0]
    assert [g.tolist() for g in node.backward(xp, np.ones(1))] == [[3.0], [3.0]]
