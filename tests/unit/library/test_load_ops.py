"""Operators from tables at run time, and the example package made from a table."""

from __future__ import annotations

import inspect
import linecache
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad, gradcheck, gradgradcheck
from pullback.codegen import cli
from pullback.dispatch.stock import forget_operators
from pullback.errors import AutogradError, CodegenError

QUAD = """
- func: quad(Tensor self, float factor=1.0) -> Tensor
  doc: The fourth power times a factor.
  variants: [function, inplace]
  dispatch: {CPU: quad}
  derivatives:
    self: grad * conj(4 * factor * self ** 3)
    result: auto_element_wise
"""
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def load(tmp_path):
    def load(text: str = QUAD, **kernels):
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return pb.library.load_ops(
            path, kernels=kernels or {"quad": lambda x, factor: factor * x**4}
        )

    yield load
    forget_operators("mine")


def test_a_loaded_operator_differentiates_in_every_way(load):
    mine = load()
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = mine.quad(x, 0.5)
    assert y.tolist() == [0.5, 8.0]
    assert y.grad_fn.name() == "QuadBackward0"
    (first,) = pb.autograd.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [2.0, 16.0]
    (second,) = pb.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 24.0]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(pb.tensor([1.0, 2.0]), pb.tensor([1.0, 0.0]))
        assert forward_ad.unpack_dual(mine.quad(dual)).tangent.tolist() == [4.0, 0.0]


def test_a_loaded_operator_passes_the_numerical_checks(load):
    mine = load()

    x = pb.tensor([[0.5, -1.0], [2.0, 0.1]], requires_grad=True)
    z = pb.tensor([0.5 + 1.0j, -1.0], requires_grad=True)
    for inputs in (x, z):
        assert gradcheck(mine.quad, inputs, check_forward_ad=True)
        assert gradgradcheck(mine.quad, inputs, check_fwd_over_rev=True)


def test_a_loaded_operator_with_a_wrong_formula_is_found_out(load):
    mine = load(QUAD.replace("4 * factor", "5 * factor"))
    with pytest.raises(pb.autograd.GradcheckError, match="Jacobian mismatch"):
        gradcheck(mine.quad, pb.tensor([0.5, -1.0], requires_grad=True))


def test_a_loaded_operator_is_in_the_registry(load):
    load()
    assert str(pb.ops.mine.quad.default.schema) == (
        "mine::quad(Tensor self, float factor=1.0) -> Tensor"
    )
    assert "quad_cpu at CPU" in str(pb.dispatch.explain("mine::quad", pb.tensor([1.0])))


def test_loading_again_replaces_the_operators(load):
    load()
    mine = load(quad=lambda x, factor: factor + x)
    assert mine.quad(pb.tensor([1.0]), 3.0).tolist() == [4.0]


def test_the_source_of_a_loaded_operator_can_be_read(load):
    mine = load()
    source = inspect.getsource(mine.quad)
    assert source.startswith("def quad(self, /, factor=1.0):")
    assert any("loaded_mine" in name for name in linecache.cache)


def test_a_wrong_table_defines_nothing(load):
    with pytest.raises(CodegenError, match=r"mine.yaml:7:11: .*'grda'"):
        load(QUAD.replace("grad *", "grda *"))
    assert not hasattr(pb.ops.mine, "quad")
    with pytest.raises(CodegenError, match="is no identifier"):
        pb.library.load_ops("my-ops.yaml")


def test_a_gradient_of_the_wrong_shape_is_blamed_on_its_node(load):
    mine = load(QUAD.replace("grad * conj(4 * factor * self ** 3)", "concatenate([grad, grad], 0)"))
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(
        AutogradError, match=r"QuadBackward0 returned an invalid gradient at index 0 - got \[6\]"
    ):
        mine.quad(x).sum().backward()


def test_the_example_package_works(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    try:
        import cubes

        x = pb.tensor(np.array([1.0, 2.0]), requires_grad=True)
        (grad,) = pb.autograd.grad(cubes.weighted_cubes(cubes.cube(x), 2.0).sum(), x)
        assert grad.tolist() == [18.0, 18.0 * 2**8]
    finally:
        forget_operators("cubes")
        for name in [name for name in sys.modules if name.split(".")[0] == "cubes"]:
            del sys.modules[name]


def test_example_package_is_up_to_date_with_its_table():
    table, folder = EXAMPLES / "cubes" / "cubes.yaml", EXAMPLES / "cubes" / "_ops"
    assert cli.main([str(table), "-o", str(folder), "--check"]) == 0
