"""Primitives: what they save for their derivative rules, and whose memory their results have."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.func.primitive import Primitive, apply_linear


def test_a_linear_map_saves_neither_its_input_nor_its_result():
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=True) * 1.0
    y = apply_linear(x, lambda v: 2.0 * v, lambda v: 2.0 * v)
    x[0] = 5.0
    y[1] = 7.0
    y.sum().backward()
    assert y.tolist() == [2.0, 7.0, 6.0]


@pytest.mark.parametrize("reads", ["inputs", "outputs", "inputs outputs"])
def test_what_the_rules_read_must_not_change(reads):
    def slope(known, tangent):
        root = known.outputs[0] if "outputs" in reads else known.inputs[0] ** 0.5
        return tangent / (2.0 * root)

    root = Primitive("root", np.sqrt, slope, slope, reads)
    leaf = pb.tensor([4.0, 9.0], requires_grad=True)
    x = leaf * 1.0
    y = root(x)
    (found,) = pb.autograd.grad(y.sum(), leaf, retain_graph=True)
    assert found.tolist() == [0.25, 1 / 6]
    (x if "inputs" in reads else y).mul_(2.0)
    with pytest.raises(pb.errors.AutogradError, match="modified"):
        y.sum().backward()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("kernel", [lambda v: v, lambda v: v[::-1], lambda v: v.reshape(3, 1)])
def test_a_result_never_shares_the_memory_of_an_input(kernel, requires_grad):
    x = pb.tensor([1.0, 2.0, 3.0], requires_grad=requires_grad)
    y = apply_linear(x, kernel, lambda v: v)
    with pb.no_grad():
        before = y.tolist()
        x.mul_(2.0)
    assert y.tolist() == before
