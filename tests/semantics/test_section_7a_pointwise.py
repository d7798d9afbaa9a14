"""Conventions of element-wise functions at points without a derivative, in both libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest

nan, inf = math.nan, math.inf


def same(found, expected, **tolerance):
    np.testing.assert_allclose(found, expected, **{"rtol": 1e-9, "atol": 1e-12} | tolerance)


def test_rule_7_1(lib):
    assert lib.slopes(lib.F.relu, [0.0, -0.0, 1.0, nan]) == [0, 0, 1, 1]


def test_rule_7_2(lib):
    assert lib.slopes(lib.F.relu6, [0.0, 3.0, 6.0, 7.0]) == [0, 1, 0, 0]


def test_rule_7_3(lib):
    same(lib.slopes(lambda x: lib.F.leaky_relu(x, 0.01), [0.0, -1.0, 1.0]), [0.01, 0.01, 1])


def test_rule_7_4(lib):
    found, _ = lib.slopes(lib.F.prelu, [0.0, -1.0], [0.25])
    assert found == [0.25, 0.25]


def test_rule_7_5(lib):
    same(lib.slopes(lambda x: lib.F.rrelu(x, training=False), [0.0]), [(1 / 8 + 1 / 3) / 2])


@pytest.mark.parametrize("name", ["elu", "celu"])
def test_rule_7_6(lib, name):
    same(lib.slopes(getattr(lib.F, name), [0.0, -1.0]), [1, math.exp(-1)])


def test_rule_7_7(lib):
    same(lib.slopes(lib.F.selu, [0.0]), [1.7580993408473766])


def test_rule_7_8(lib):
    assert lib.slopes(lib.F.hardtanh, [-1.0, 0.0, 1.0]) == [0, 1, 0]


def test_rule_7_9(lib):
    same(lib.slopes(lib.F.hardsigmoid, [-3.0, 0.0, 3.0]), [0, 1 / 6, 0], rtol=1e-7)


def test_rule_7_10(lib):
    points = [-3.0, -2.9999, 0.0, 2.9999, 3.0]
    expected = [0, -0.4999666667, 0.5, 1.4999666667, 1]
    same(lib.slopes(lib.F.hardswish, points), expected)


@pytest.mark.parametrize("name", ["softshrink", "hardshrink"])
def test_rule_7_11(lib, name):
    function = getattr(lib.F, name)
    assert lib.slopes(lambda x: function(x, 0.5), [-0.5, 0.5, 0.0, 1.0]) == [0, 0, 0, 1]


def test_rule_7_12(lib):
    assert lib.slopes(lambda x: lib.F.threshold(x, 0.0, 5.0), [0.0, 1.0, -1.0]) == [0, 1, 0]


def test_rule_7_13(lib):
    same(lib.slopes(lib.F.softplus, [0.0, 20.0, 21.0]), [0.5, 0.99999999794, 1])


def test_rule_7_14(lib):
    assert lib.slopes(lib.F.logsigmoid, [0.0, -1000.0, 1000.0]) == [0.5, 1, 0]


def test_rule_7_15(lib):
    assert lib.slopes(lib.abs, [0.0, -0.0, -2.0, nan]) == [0, 0, -1, 0]


def test_rule_7_20(lib):
    points = [-1.0, 0.0, 0.5, 1.0, 2.0, nan]
    assert lib.slopes(lambda x: lib.clip(x, 0.0, 1.0), points) == [0, 1, 1, 1, 0, 0]


def test_rule_7_21(lib):
    assert lib.slopes(lambda x: lib.clip(x, 0.0, None), [-1.0, 0.0, 1.0]) == [0, 1, 1]


def test_rule_7_22(lib):
    assert lib.slopes(lambda x: lib.clip(x, None, 0.0), [-1.0, 0.0, 1.0]) == [1, 1, 0]


def test_rule_7_23(lib):
    assert lib.clip(lib.tensor([0.0, 1.5, 3.0]), 2.0, 1.0).tolist() == [1, 1, 1]
    assert lib.slopes(lambda x: lib.clip(x, 2.0, 1.0), [0.0, 1.5, 3.0]) == [0, 0, 0]


def test_rule_7_24(lib):
    assert lib.slopes(lib.clip, 0.0, 0.0, 1.0) == [1, 0, 0]
    assert lib.slopes(lib.clip, 1.0, 0.0, 1.0) == [1, 0, 0]


def test_rule_7_25(lib):
    assert lib.slopes(lib.clip, -1.0, 0.0, 1.0) == [0, 1, 0]
    assert lib.slopes(lib.clip, 2.0, 0.0, 1.0) == [0, 0, 1]


def test_rule_7_26(lib):
    assert lib.slopes(lib.clip, 0.5, 2.0, 1.0) == [0, 0, 1]


def test_rule_7_27(lib):
    same(lib.slopes(lib.sqrt, [0.0, 4.0, -1.0]), [inf, 0.25, nan])


def test_rule_7_28(lib):
    functions = [lib.reciprocal, lambda x: 1 / x]
    if lib.is_torch:  # NumPy has no such function
        functions.append(lib.rsqrt)
    for function in functions:
        assert lib.slopes(function, [0.0]) == [-inf]


def test_rule_7_29(lib):
    for function, point in [(lib.log, 0.0), (lib.log1p, -1.0), (lib.log2, 0.0), (lib.log10, 0.0)]:
        assert lib.slopes(function, [point]) == [inf]
    assert lib.slopes(lib.log, [-1.0]) == [-1]


def test_rule_7_30(lib):
    assert lib.slopes(lib.asin, [1.0, -1.0]) == [inf, inf]
    for name in ("acosh", "atanh", "erfinv"):
        assert lib.slopes(getattr(lib, name), [1.0]) == [inf]
    assert lib.slopes(lib.acos, [1.0]) == [-inf]


def test_rule_7_31(lib):
    assert lib.slopes(lib.logit, [0.0, 1.0, 0.5]) == [inf, inf, 4]


def test_rule_7_32(lib):
    same(lib.slopes(lambda x: lib.logit(x, 0.1), [0.0, 0.05, 0.1, 0.5]), [0, 0, 1 / 0.09, 4])


def test_rule_7_33(lib):
    same(lib.slopes(lib.sinc, [0.0, 1.0]), [0, -1])


def test_rule_7_37(lib):
    entr = lib.special.entr if lib.is_torch else lib.entr
    same(lib.slopes(entr, [0.0, 1.0, -1.0]), [inf, -1, nan])


def test_rule_7_38(lib):
    assert lib.slopes(lib.nan_to_num, [nan, inf, 1.0]) == [0, 0, 1]


def test_rule_7_40(lib):
    assert lib.slopes(lib.angle, [-1.0, 0.0, 2.0]) == [0, 0, 0]


def test_rule_7_41(lib):
    mask = lib.tensor([True, False], "bool")
    assert lib.slopes(lambda x: x.masked_fill(mask, 7.0), [1.0, 2.0]) == [0, 1]


def test_rule_7_42(lib):
    assert lib.slopes(lib.lgamma, [0.0]) == [-inf]
    assert lib.slopes(lib.digamma, [0.0]) == [inf]


@pytest.mark.parametrize("exponent", [0, 0.0])
def test_rule_7_43(lib, exponent):
    x = lib.leaf(0.0, 2.0, nan)
    y = x**exponent
    assert y.tolist() == [1, 1, 1]
    (first,) = lib.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [0, 0, 0]
    assert not first.requires_grad


def test_rule_7_44(lib):
    assert lib.slopes(lambda x: x**1, [0.0]) == [1]


@pytest.mark.parametrize("square", [lambda lib, x: x**2, lambda lib, x: lib.square(x)])
def test_rule_7_45(lib, square):
    x = lib.leaf(0.0)
    (first,) = lib.grad(square(lib, x), x, create_graph=True)
    assert first.item() == 0
    assert lib.grad(first, x)[0].item() == 2


def test_rule_7_46(lib):
    same(lib.slopes(lambda x: x**0.5, [0.0, 4.0, -1.0]), [inf, 0.25, nan])


def test_rule_7_47(lib):
    x = lib.leaf(0.0)
    (first,) = lib.grad(x**1.5, x, create_graph=True)
    assert first.item() == 0
    assert lib.grad(first, x)[0].item() == inf


def test_rule_7_48(lib):
    assert lib.slopes(lambda x: x**-1, [0.0]) == [-inf]


def test_rule_7_49(lib):
    same(lib.slopes(lambda x: x ** (1 / 3), [0.0, -8.0]), [inf, nan])


def test_rule_7_50(lib):
    assert lib.slopes(lambda x: 0**x, [0.0, 2.0, -1.0]) == [0, 0, -inf]


def test_rule_7_51(lib):
    assert lib.slopes(lambda a, b: a**b, 0.0, 0.0) == [0, 0]


def test_rule_7_52(lib):
    assert lib.slopes(lambda a, b: a**b, 0.0, 2.0) == [0, 0]


def test_rule_7_53(lib):
    same(lib.slopes(lambda a, b: a**b, 2.0, 0.0), [0, math.log(2)])


def test_rule_7_54(lib):
    same(lib.slopes(lambda a, b: a**b, -1.0, 2.0), [-2, nan])


def test_rule_7_55(lib):
    assert lib.slopes(lambda a, b: a**b, 0.0, -1.0) == [-inf, -inf]
