"""Objects with parameters as functions: rules 9.22 and 9.23."""

from __future__ import annotations

import pytest

import pullback as pb
from pullback.func import functional_call, grad, stack_module_state


class Linear:
    def __init__(self, weight, bias):
        self.weight = pb.tensor(weight, requires_grad=True)
        self.bias = pb.tensor(bias, requires_grad=True)
        self.scale = pb.tensor(1.0)
        self.name = "linear"

    def __call__(self, x, shift=0.0):
        return (self.weight * x + self.bias) * self.scale + shift


class Stack:
    def __init__(self):
        self.layers = [Linear(2.0, 1.0), Linear(3.0, 0.0)]
        self.extra = {"tied": self.layers[0].weight}

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * self.extra["tied"]


def t(value):
    return pb.tensor(value)


def test_given_tensors_are_used_and_originals_restored():
    """Rule 9.22."""
    layer = Linear(2.0, 1.0)
    before = dict(vars(layer))
    assert functional_call(layer, {"weight": t(10.0)}, (t(3.0),)).item() == 31.0
    assert functional_call(layer, {"weight": t(10.0)}, t(3.0)).item() == 31.0
    assert functional_call(layer, {"bias": t(5.0)}, (t(3.0),), {"shift": 0.5}).item() == 11.5
    assert all(vars(layer)[name] is value for name, value in before.items())
    with pytest.raises(TypeError):
        functional_call(layer, {"weight": t(10.0)}, ("wrong", "call", "altogether"))
    assert layer.weight is before["weight"]


def test_paths_through_lists_and_dicts():
    """Rule 9.22."""
    stack = Stack()
    found = functional_call(stack, {"layers.1.weight": t(10.0), "layers.1.bias": t(7.0)}, t(1.0))
    assert found.item() == (3.0 * 10 + 7) * 2.0


def test_functional_call_ties_weights():
    """Rule 9.22."""
    stack = Stack()
    assert functional_call(stack, {"layers.0.weight": t(1.0)}, t(1.0)).item() == 6.0
    loose = functional_call(stack, {"layers.0.weight": t(1.0)}, t(1.0), tie_weights=False)
    assert loose.item() == 12.0
    assert stack.extra["tied"] is stack.layers[0].weight


def test_functional_call_strict_names_keys():
    """Rule 9.22."""
    layer = Linear(2.0, 1.0)
    whole = {"weight": t(1.0), "bias": t(0.0), "scale": t(1.0)}
    assert functional_call(layer, whole, t(3.0), strict=True).item() == 3.0
    assert functional_call(layer, {**whole, "none": t(1.0)}, t(3.0)).item() == 3.0
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'none'"):
        functional_call(layer, {**whole, "none": t(1.0)}, t(3.0), strict=True)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'bias', 'scale'"):
        functional_call(layer, {"weight": t(1.0)}, t(3.0), strict=True)
    everything = {"layers.0.weight": t(1.0), "layers.0.bias": t(0.0), "layers.0.scale": t(1.0)}
    everything |= {"layers.1.weight": t(1.0), "layers.1.bias": t(0.0), "layers.1.scale": t(1.0)}
    assert functional_call(Stack(), everything, t(5.0), strict=True).item() == 5.0


def test_functional_call_takes_several_dicts():
    """Rule 9.22."""
    layer = Linear(2.0, 1.0)
    found = functional_call(layer, ({"weight": t(1.0)}, {"scale": t(10.0)}), t(3.0))
    assert found.item() == 40.0
    with pytest.raises(ValueError, match="'weight' appears in several"):
        functional_call(layer, ({"weight": t(1.0)}, {"weight": t(2.0)}), t(3.0))
    with pytest.raises(ValueError, match="got a list"):
        functional_call(layer, ([t(1.0)],), t(3.0))


def test_gradients_by_the_parameters_of_an_object():
    layer = Linear(2.0, 1.0)
    parameters = {"weight": t(5.0), "bias": t(0.0)}
    found = grad(lambda p: functional_call(layer, p, t(3.0)) ** 2)(parameters)
    assert (found["weight"].item(), found["bias"].item()) == (90.0, 30.0)


def test_stack_module_state_stacks_parameters():
    """Rule 9.23."""
    parameters, buffers = stack_module_state([Linear(2.0, 1.0), Linear(3.0, 0.0)])
    assert parameters["weight"].tolist() == [2.0, 3.0]
    assert parameters["weight"].requires_grad
    assert parameters["weight"].is_leaf
    assert list(parameters) == ["weight", "bias"]
    assert buffers["scale"].tolist() == [1.0, 1.0]
    assert not buffers["scale"].requires_grad
    with pytest.raises(RuntimeError, match="at least one model"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        stack_module_state([Linear(2.0, 1.0), Stack()])


def test_an_ensemble_is_mapped_over():
    models = [Linear(2.0, 1.0), Linear(3.0, 0.0)]
    state = stack_module_state(models)
    call = pb.func.vmap(lambda p, b, x: functional_call(models[0], (p, b), x), (0, 0, None))
    assert call(*state, t(10.0)).tolist() == [21.0, 30.0]


def test_objects_may_name_their_tensors_themselves():
    class Named(Linear):
        def named_parameters(self):
            yield "weight", self.weight

        def named_buffers(self):
            yield "scale", self.scale

    parameters, buffers = stack_module_state([Named(2.0, 1.0)])
    assert (list(parameters), list(buffers)) == (["weight"], ["scale"])
    found = functional_call(Named(2.0, 1.0), {"weight": t(4.0), "bias": t(100.0)}, t(3.0))
    assert found.item() == 13.0


@pytest.mark.parametrize(
    ("module", "dicts", "words"),
    [
        (3, {}, "module: a function is expected, not int"),
        (abs, 3, "a dict, or a sequence of dicts, but got a int"),
        (abs, [3], "a dict, or a sequence of dicts, but got a int"),
        (abs, {"w": 3.0}, "'w' is to be replaced by a float, and a tensor is expected"),
    ],
)
def test_wrong_arguments_are_named(module, dicts, words):
    with pytest.raises((TypeError, ValueError), match=words):
        functional_call(module, dicts, pb.tensor(1.0))
