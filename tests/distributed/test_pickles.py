"""What crosses the border of a process: operators by name, transforms, tensors without history."""

from __future__ import annotations

import copy
import importlib
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.distributed import value_and_grad_over
from pullback.errors import AutogradError, OperatorDefinitionError
from tests.distributed import losses
from tests.distributed.losses import PARAMS, make_rows


def test_custom_operators_are_pickled_by_module_and_name():
    assert pickle.loads(pickle.dumps(losses._cube)) is losses._cube
    assert copy.copy(losses._cube) is copy.deepcopy(losses._cube) is losses._cube


def test_operators_of_the_main_module_are_refused(monkeypatch):
    monkeypatch.setattr(losses._cube._fn, "__module__", "__main__")
    with pytest.raises(OperatorDefinitionError, match="move its definition into a module"):
        pickle.dumps(losses._cube)


def test_operators_whose_module_is_missing_are_named(monkeypatch):
    stored = pickle.dumps(losses._cube).replace(
        b"tests.distributed.losses", b"tests.distributed.lossez"
    )
    registry = importlib.import_module("pullback.library.custom_op").CUSTOM_OPS
    monkeypatch.delitem(registry, "distributed_tests::cube")
    with pytest.raises(OperatorDefinitionError, match="cannot import"):
        pickle.loads(stored)


@pytest.mark.parametrize(
    "transform",
    [
        pb.grad,
        pb.value_and_grad,
        pb.hessian,
        pb.jacobian,
        pb.elementwise_grad,
        pb.func.vmap,
        pb.differentiable,
    ],
    ids=lambda transform: transform.__name__,
)
def test_transforms_are_pickled(transform):
    cloudpickle = pytest.importorskip("cloudpickle")
    scale = 3.0

    def func(x: Any) -> Any:
        return scale * (x**2).sum()

    made = transform(func)
    again = pickle.loads(cloudpickle.dumps(made))
    x = pb.tensor([1.0, 2.0])
    found, expected = pb.utils.pytree.leaves(again(x)), pb.utils.pytree.leaves(made(x))
    assert [a.tolist() for a in found] == [b.tolist() for b in expected]


def test_compiled_functions_are_pickled_without_their_graphs():
    held = losses.compiled_product
    assert pickle.loads(pickle.dumps(held)) is held
    made = pb.compile(losses.product, backend="eager", maxsize=3)
    made(2.0, np.ones(3))
    again = pickle.loads(pickle.dumps(made))
    assert again.options == made.options
    assert again.cache_info().currsize == 0
    assert again(2.0, np.ones(3)) == 6.0


def test_differentiable_methods_are_bound():
    class Model:
        @pb.differentiable
        def value(self, x: Any) -> Any:
            made = np.zeros(2)
            made[0] = x[0]
            return made.sum() + self.bias

        bias = 1.0

    assert float(Model().value(pb.tensor([2.0, 3.0]))) == 3.0
    assert Model.value.__name__ == "value"


def test_a_tensor_with_a_history_does_not_become_a_leaf_in_another_process():
    x = pb.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match="MulBackward0"):
        ForkingPickler.dumps([x * 2])
    assert pickle.loads(ForkingPickler.dumps(x)).requires_grad
    assert pickle.loads(pickle.dumps(x * 2)).is_leaf  # a file, as in PyTorch
    with ProcessPoolExecutor(1) as pool, pytest.raises(AutogradError, match="border of a task"):
        pool.submit(_recorded).result()


def _recorded() -> Any:
    return {"y": pb.tensor([1.0], requires_grad=True) * 2}


def test_a_tensor_with_a_history_does_not_cross_a_cluster(client):
    with pytest.raises(Exception, match=r"border of a task|MulBackward0"):
        client.submit(_recorded, pure=False).result()


def test_custom_operators_run_on_workers(client):
    rows = make_rows(9)
    expected = value_and_grad_over(losses.cube_loss, rows)(PARAMS)
    found = value_and_grad_over(losses.cube_loss, rows, executor=client)(PARAMS)
    assert found[0] == expected[0]
    assert np.array_equal(found[1]["w"], expected[1]["w"])
