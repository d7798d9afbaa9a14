"""Compiled training steps against the same steps: gradients, shared memory, hooks and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

pytest.importorskip("llvmlite", reason="pip install pullback[compile] runs these tests")

BACKENDS = ["llvm", "eager"]
CALLS = 6


def _leaf(*values):
    return pb.tensor(np.array(values), requires_grad=True)


def _snapshot(value):
    return np.array(value.detach().numpy()) if isinstance(value, pb.Tensor) else value


class Scenario:
    """A function of `x`, a change before each call, and the tensors to compare after it."""

    fewest_hits = 1  # of CALLS: that many have to be compiled

    def __init__(self):
        self.a, self.b = _leaf(1.0, 2.0), _leaf(3.0, 4.0)
        self.optimizer = pb.optim.SGD([self.a, self.b], lr=0.1)

    def call(self, x):
        raise NotImplementedError

    def before(self, number):
        pass

    def state(self):
        return [self.a, self.b, self.a.grad, self.b.grad]


class GroupAddedWithoutStep(Scenario):
    def __init__(self):
        super().__init__()
        self.optimizer = pb.optim.SGD([self.a], lr=0.1)

    def call(self, x):
        self.optimizer.zero_grad()
        (self.a * x).sum().backward()

    def before(self, number):
        self.b.grad = pb.tensor([1.0, 1.0])
        if number == 2:
            self.optimizer.add_param_group({"params": [self.b]})


class GradientThatIsSometimesThere(Scenario):
    def call(self, x):
        self.optimizer.zero_grad()
        (self.a * x).sum().backward()
        self.optimizer.step()

    def before(self, number):
        if number in (2, 4):
            self.b.grad = pb.tensor([1.0, 1.0])


class ClippedNorm(Scenario):
    def call(self, x):
        return pb.nn.utils.clip_grad_norm_([self.a], 0.5) * x

    def before(self, number):
        self.a.grad = pb.tensor([3.0, 4.0 + number])


class DetachedFirst(Scenario):
    def call(self, x):
        return (self.a.grad.detach() * x).sum() + (self.a.grad.data * x).sum()

    def before(self, number):
        self.a.grad = pb.tensor([3.0, 4.0 + number])


class ParametersThatBecomeOne(Scenario):
    def call(self, x):
        self.optimizer.step()
        return x + 1

    def before(self, number):
        if number == 3:
            self.b.data = self.a.data
        self.a.grad = pb.tensor([1.0, 1.0])
        self.b.grad = self.a.detach() * 2


class ParametersThatWereOne(ParametersThatBecomeOne):
    def before(self, number):
        if number == 0:
            self.b.data = self.a.data
        elif number == 3:
            self.b.data = pb.tensor([5.0, 6.0])
        self.a.grad = self.b.grad = None
        self.a.grad = pb.tensor([1.0, 1.0])
        self.b.grad = self.a.detach() * 2


class StateThatBecomesOne(Scenario):
    def __init__(self):
        super().__init__()
        self.optimizer = pb.optim.SGD([self.a, self.b], lr=0.1, momentum=0.9)

    def call(self, x):
        self.optimizer.zero_grad()
        (self.a * x + 2 * self.b * x).sum().backward()
        self.optimizer.step()

    def before(self, number):
        if number == 3:
            first, second = (self.optimizer.state[p]["momentum_buffer"] for p in (self.a, self.b))
            second.data = first.data


class GradientsThatBecomeOne(Scenario):
    def call(self, x):
        (self.a * x + 2 * self.b * x).sum().backward()

    def before(self, number):
        if number == 3:
            self.b.grad = self.a.grad


class GradientsThatWereOne(GradientsThatBecomeOne):
    fewest_hits = 0

    def before(self, number):
        if number == 0:
            self.a.grad = self.b.grad = pb.tensor([0.0, 0.0])
        if number == 2:
            self.b.grad = pb.tensor([1.0, 1.0])


class GradientAsAnArgument(Scenario):
    def call(self, x):
        self.optimizer.zero_grad(set_to_none=False)
        (self.a * 2).sum().backward()
        return x * 1

    def before(self, number):
        self.a.grad = pb.tensor([float(number), 7.0])

    def argument(self, number):
        return self.a.grad if number > 1 else pb.tensor([1.0, 2.0])


class GradientThatIsAnArgument(Scenario):
    fewest_hits = 0

    def call(self, x):
        self.a.grad = x

    def state(self):
        self.a.grad.mul_(2)
        return [self.last, self.a.grad, self.a.grad is self.last]

    def argument(self, number):
        self.last = pb.tensor([1.0, number])
        return self.last


class ReturnedGradient(Scenario):
    def call(self, x):
        self.optimizer.zero_grad()
        (self.a * x).sum().backward()
        return self.a.grad

    def state(self):
        self.returned.mul_(2)
        return [self.a.grad]


class HookRegisteredInside(Scenario):
    fewest_hits = 0

    def call(self, x):
        self.optimizer.zero_grad()
        handle = self.a.register_hook(lambda grad: grad * 2)
        (self.a * x).sum().backward()
        handle.remove()


class HookOfAModuleRegisteredInside(Scenario):
    fewest_hits = 0

    def __init__(self):
        super().__init__()
        self.module = pb.nn.Identity()

    def call(self, x):
        self.optimizer.zero_grad()
        with self.module.register_forward_hook(lambda _module, _args, output: output * 2):
            self.module(self.a * x).sum().backward()


class OneOfTwoGraphsFreed(Scenario):
    fewest_hits = 0

    def call(self, x):
        first = (self.a * x).sum()
        first.backward()
        return first, (self.a * self.a * x).sum()

    def state(self):
        self.returned[1].backward()
        return super().state()


class ErrorOfAnOperator(Scenario):
    def call(self, x):
        self.optimizer.zero_grad()
        (self.a * x).sum().backward()
        self.optimizer.step()
        return pb.linalg.inv(pb.outer(x, x) + pb.eye(2) * x[1])

    def argument(self, number):
        return pb.tensor([0.0 if number == 3 else 1.0, float(number != 3)])


class OptionsOfOtherKinds(Scenario):
    def __init__(self):
        super().__init__()
        self.optimizer = pb.optim.Adam([self.a], lr=0.1)

    def call(self, x):
        self.optimizer.zero_grad()
        ((self.a * x) ** 2).sum().backward()
        self.optimizer.step()

    def before(self, number):
        group = self.optimizer.param_groups[0]
        group["lr"] = [0.1, np.float64(0.2), np.float64(0.3), pb.tensor([0.1]), 1, 0.0][number]
        group["betas"] = [(0.9, 0.99), (0.8, 0.9), [0.7, 0.9], (0.0, 0.9), (0.5,), (0.9, 0.99)][
            number
        ]


SCENARIOS = [kind for kind in Scenario.__subclasses__() for kind in (kind, *kind.__subclasses__())]


def _run(kind, compiles):
    scenario = kind()
    call = compiles(scenario.call)
    argument = getattr(scenario, "argument", lambda number: pb.tensor([1.0, float(number)]))
    found = []
    for number in range(CALLS):
        scenario.before(number)
        try:
            scenario.returned = call(argument(number))
        except Exception as error:
            found.append(type(error))
            scenario.returned = None
        results = (
            scenario.returned if isinstance(scenario.returned, tuple) else (scenario.returned,)
        )
        found += map(_snapshot, [*results, *scenario.state()])
    return found, call


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
def test_a_compiled_step_leaves_the_state_of_the_step(kind, backend):
    expected, _ = _run(kind, lambda f: f)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: .* cannot be one graph")
        found, call = _run(kind, lambda f: pb.compile(f, backend=backend))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        else:
            assert ours is theirs
    assert call.stats["hits"] >= kind.fewest_hits


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_parameters_are_frozen_for_a_part_of_a_step(backend):
    first, second = pb.nn.Linear(2, 2), pb.nn.Linear(2, 1)

    def step(x):
        first.zero_grad()
        second.zero_grad()
        second.requires_grad_(False)
        loss = (second(pb.tanh(first(x))) ** 2).mean()
        loss.backward()
        second.requires_grad_(True)
        return loss

    compiled, found = pb.compile(step, backend=backend), []
    parameters = [*first.parameters(), *second.parameters()]
    for call in (step, compiled, compiled):
        call(pb.tensor([[1.0, 2.0]]))
        found.append([None if p.grad is None else p.grad.tolist() for p in parameters])
        assert all(p.requires_grad for p in parameters)
    assert found[0][2:] == [None, None]
    for ours in found[1:]:
        np.testing.assert_allclose(ours[0], found[0][0], rtol=1e-12)
        assert ours[2:] == [None, None]
    assert compiled.stats == {"traces": 1, "hits": 1, "eager": 0, "changes": 0}


@pytest.mark.parametrize("backend", ["llvm", "eager"])
def test_a_returned_gradient_is_that_of_the_parameter(backend):
    layer = pb.nn.Linear(2, 1)

    def step(x):
        layer.zero_grad()
        layer(x).sum().backward()
        return [p.grad for p in layer.parameters()]

    compiled = pb.compile(step, backend=backend)
    for _ in range(3):
        found = compiled(pb.tensor([[1.0, 2.0]]))
        assert all(g is p.grad for g, p in zip(found, layer.parameters(), strict=True))
    assert compiled.stats["hits"] == 2


def _toggle_history(w):
    return w.mul_(pb.ones(2, requires_grad=True)) if w.is_leaf else w.detach_()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("read", "change"),
    [
        (lambda w: w.requires_grad, lambda w: w.requires_grad_(not w.requires_grad)),
        (lambda w: w.is_leaf, _toggle_history),
        (lambda w: w.grad_fn is None, _toggle_history),
        (lambda w: w._version < 2, lambda w: w.mul_(2)),
    ],
)
def test_a_property_of_a_tensor_that_the_graph_does_not_use_is_seen(read, change, backend):
    w = pb.ones(2)
    compiled = pb.compile(lambda x: x * 2 if read(w) else x * 3, backend=backend)
    found = set()
    for n in range(8):
        expected = 2 if read(w) else 3
        assert compiled(pb.ones(1)).item() == expected
        found.add(expected)
        if n % 2:
            change(w)
    assert found == {2, 3}
    assert compiled.stats["hits"] > 2


class Counting(pb.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = pb.nn.Parameter(pb.ones(2))
        self.steps = 0

    def forward(self, x):
        return self.weight * x


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_changes_a_module_happens_once_in_each_call(backend):
    net = Counting()

    def step(x):
        net.steps += 1
        y = net(x)
        return y.sum(), y * 2

    compiled = pb.compile(step, backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: step cannot be one graph")
        for n in range(1, 12):
            compiled(pb.ones(2))[n % 2].sum().backward()
            assert net.steps == n
    np.testing.assert_array_equal(net.weight.grad.numpy(), [17.0, 17.0])


def test_a_derivative_does_not_run_an_inner_backward_pass_again():
    w = pb.ones(2, requires_grad=True)

    def step(x):
        (w * x).sum().backward()
        return (w * x).sum(), (w * x**2).sum()

    compiled = pb.compile(step, backend="eager")
    with pytest.warns(UserWarning, match=r"sets \.grad of a captured tensor"):
        compiled(pb.ones(2))[0].backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2.0, 2.0])
    first, _ = pb.compile(step)(pb.ones(2))
    with pytest.raises(AutogradError, match="calls the compiled function again"):
        pb.autograd.grad(first, w, create_graph=True)
