"""Fast paths for large arrays take Python numbers and operands that broadcast, too.

Every element-wise operator is called with operands of all kinds, in sizes on both sides of each
threshold. Its gradients must be those of the same call with every operand written out in full.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import _generated
from pullback.dispatch.table import ENTRIES
from pullback.kernels.broadcasting import (
    MAX_DIRECT_SIZE,
    MIN_FUSED_SIZE,
    MIN_THREADED_SIZE,
    product_to,
)
from pullback.kernels.threads import MIN_THREADED_HEAVY_SIZE

SIZES = {"few": (2, 3), "product": (64, 40), "wide": (80, 60), "large": (300, 120)}
KINDS = {
    "full": lambda m, n: (m, n),
    "row": lambda m, n: (n,),
    "column": lambda m, n: (m, 1),
    "single": lambda m, n: (1, 1),
    "no_axes": lambda m, n: (),
    "number": lambda m, n: None,
}
NOT_DIFFERENTIABLE = {"floor_divide", "heaviside", "ldexp", "nextafter"}


def elementwise_operators():
    found = {}
    folder = Path(_generated.__file__).parent
    for entry in json.loads((folder / "catalogue.json").read_text(encoding="utf-8")):
        name = entry["name"].removeprefix("pullback::")
        if "elementwise" not in entry["tags"] or not entry.get("node") or "." in name:
            continue
        if name in NOT_DIFFERENTIABLE or name.endswith("_"):
            continue
        arguments = ENTRIES[entry["name"]].schema.arguments.flat_all
        tensors = [a for a in arguments if str(a.type) in ("Tensor", "Tensor?")]
        others = [a for a in arguments if a not in tensors]
        if len(tensors) < 2 or any(a.default is None for a in others):
            continue
        table = entry["table"].partition(":")[0]
        family = "_".join(Path(table).parent.parts[1:])  # of operators/nn/loss/table.yaml: nn_loss
        module = importlib.import_module(f"pullback._generated.functions_{family}")
        function = getattr(module, entry["function"])
        found[name] = function, len(tensors)
    return found


OPERATORS = elementwise_operators()


def test_sizes_lie_on_both_sides_of_the_thresholds():
    counts = [m * n for m, n in SIZES.values()]
    assert (
        counts[0]
        < MIN_FUSED_SIZE
        <= counts[1]
        < MAX_DIRECT_SIZE
        < counts[2]
        < MIN_THREADED_HEAVY_SIZE
        <= counts[3]
        < MIN_THREADED_SIZE
    )
    assert {"lerp", "mul", "where", "clamp", "pow"} <= set(OPERATORS)


def gradients(function, operands, seed):
    leaves = [pb.tensor(x, requires_grad=True) for x in operands if isinstance(x, np.ndarray)]
    rest = iter(leaves)
    # Results of operations and not leaves: only towards these are products summed early.
    given = [next(rest) * 1.0 if isinstance(x, np.ndarray) else x for x in operands]
    result = function(*given)
    if result.dtype.kind == "c":
        seed = seed + 0j
    found = pb.autograd.grad(result, leaves, pb.tensor(seed), allow_unused=True)
    return [
        np.zeros(x.shape) if g is None else g.numpy() for x, g in zip(leaves, found, strict=True)
    ]


def summed(grad, shape):
    lead = grad.ndim - len(shape)
    axes = [axis for axis in range(grad.ndim) if axis < lead or shape[axis - lead] == 1]
    return grad.sum(tuple(axes)).reshape(shape)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPERATORS)
def test_operands_of_every_kind(name, size):
    function, count = OPERATORS[name]
    m, n = SIZES[size]
    rng = np.random.default_rng(0)
    seed = rng.standard_normal((m, n))
    for kinds in itertools.product(KINDS, repeat=count):
        if "full" not in kinds:
            continue
        shapes = [KINDS[kind](m, n) for kind in kinds]
        operands = [
            float(rng.uniform(0.2, 0.8))
            if shape is None
            else np.array(rng.uniform(0.2, 0.8, shape))
            for shape in shapes
        ]
        whole = [np.array(np.broadcast_to(x, (m, n))) for x in operands]
        expected = gradients(function, whole, seed)
        found = gradients(function, operands, seed)
        wanted = [
            summed(grad, shape)
            for grad, shape in zip(expected, shapes, strict=True)
            if shape is not None
        ]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8, err_msg=f"{kinds}")


def test_lerp_by_a_number_towards_a_broadcast_end():
    start = pb.tensor(np.zeros((MIN_FUSED_SIZE, 2)), requires_grad=True)
    end = pb.tensor([1.0, 2.0], requires_grad=True)
    pb.lerp(start * 1.0, end * 1.0, 0.25).sum().backward()
    assert end.grad.tolist() == [0.25 * MIN_FUSED_SIZE] * 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("factor", [2, 0.5, np.float64(0.5), np.array(0.5), np.array([0.5])])
def test_product_to_takes_numbers(dtype, factor):
    grad = np.ones((MIN_FUSED_SIZE, 2), dtype)
    found = product_to(grad, factor, (2,))
    total = functools.reduce(np.add, found.reshape(-1, 2))
    assert total.tolist() == [MIN_FUSED_SIZE * float(np.asarray(factor).item())] * 2
