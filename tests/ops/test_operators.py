"""Every operator, driven by its record: values, derivatives, layouts, in-place, PyTorch."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional
from pullback.autograd import gradcheck, gradgradcheck
from tests.samples import OPS
from tests.samples.opinfo import Make

every_operator = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
differentiable = pytest.mark.parametrize(
    "op", [op for op in OPS if op.differentiable], ids=lambda op: op.name
)


def function(op):
    public = operator.attrgetter(op.name)(pb)
    return public if op.through is None else op.through(public)


def is_differentiated(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def flat(results):
    """The tensors of a result, which may be one, or a tuple or list of them."""
    return list(results) if isinstance(results, tuple | list) else [results]


class Call:
    """A sample as a function of its differentiated arrays."""

    def __init__(self, op, sample):
        self.function = function(op)
        self.args = list(sample.args)
        self.kwargs = dict(sample.kwargs)
        self.places = []
        for place, value in [*enumerate(self.args), *self.kwargs.items()]:
            if is_differentiated(value):
                self.places.append((place, None))
            elif isinstance(value, list | tuple) and any(map(is_differentiated, value)):
                self.places += [(place, i) for i, v in enumerate(value) if is_differentiated(v)]

    def get(self, place):
        where, index = place
        value = self.args[where] if isinstance(where, int) else self.kwargs[where]
        return value if index is None else value[index]

    @property
    def inputs(self):
        return [self.get(place) for place in self.places]

    def __call__(self, inputs, wrap=lambda x: x):
        args, kwargs = list(self.args), dict(self.kwargs)
        for (where, index), value in zip(self.places, inputs, strict=True):
            holder = args if isinstance(where, int) else kwargs
            if index is None:
                holder[where] = wrap(value)
            else:
                holder[where] = list(holder[where])
                holder[where][index] = wrap(value)
        return self.function(*args, **kwargs)

    def values(self, inputs):
        results = flat(self(inputs, pb.tensor))
        return [r.numpy() for r in results if r.dtype.kind in "fc"]

    def gradients(self, inputs, weights, create_graph=False):
        leaves = [
            x if isinstance(x, pb.Tensor) else pb.tensor(x, requires_grad=True) for x in inputs
        ]
        results = [r for r in flat(self(leaves)) if r.dtype.kind in "fc"]
        weights = [v if isinstance(v, pb.Tensor) else pb.tensor(v) for v in weights]
        recorded = [(r, w) for r, w in zip(results, weights, strict=True) if r.requires_grad]
        if not recorded:
            return [pb.tensor(np.zeros(x.shape, x.dtype)) for x in inputs]
        results, weights = zip(*recorded, strict=True)
        return pb.autograd.grad(
            results, leaves, weights, create_graph=create_graph, materialize_grads=True
        )


def calls(op, **options):
    for sample in op.samples(Make(**options)):
        yield Call(op, sample)


@every_operator
def test_values_equal_the_reference(op):
    if op.reference is None:
        pytest.skip("no NumPy function of the same arguments")
    for call in calls(op):
        expected = op.reference(*call.args, **call.kwargs)
        result = call(call.inputs, pb.tensor)
        for got, want in zip(flat(result), flat(expected), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-12)
            assert got.dtype == np.asarray(want).dtype


@every_operator
def test_float32_stays_float32(op):
    for call in calls(op, dtype="float32"):
        if op.reference is not None:  # NumPy itself widens now and then
            wide = {np.asarray(y).dtype for y in flat(op.reference(*call.args, **call.kwargs))}
        else:
            wide = set()
        for result in flat(call(call.inputs, pb.tensor)):
            if isinstance(result, pb.Tensor):
                allowed = wide & {np.dtype("float64"), np.dtype("complex128")}
                assert result.dtype.char not in "dD" or result.dtype in allowed


def leaves_of(call):
    return tuple(pb.tensor(x, requires_grad=True) for x in call.inputs)


def differentiated(call):
    """The sample as a function from tensors to the tensors that have derivatives."""

    def run(*inputs):
        return tuple(r for r in flat(call(inputs)) if r.dtype.char in "dD")

    return run


# NumPy 2.0's vector loops round by where an array lies in memory, so that two equal passes through
# products of many factors may differ in the last digit.
LAST_DIGIT = {"nanprod": 1e-15, "prod": 1e-15}


def check_derivatives(op, call, order=1, **options):
    """Reverse and forward mode of first order, or over the first order, against differences."""
    check = gradcheck if order == 1 else gradgradcheck
    forward = "check_forward_ad" if order == 1 else "check_fwd_over_rev"
    tolerance = LAST_DIGIT.get(op.name, 0.0)
    options = {"fast_mode": True, forward: True, "nondet_tol": tolerance, **options}
    inputs = leaves_of(call)
    if not inputs:
        return
    atol, rtol = op.atol * 10**order + op.rtol * 10 ** (order - 1), op.rtol * 10 ** (order - 1)
    assert check(differentiated(call), inputs, atol=atol, rtol=rtol, **options)


def kinds(op):
    return [False, True] if op.has_complex else [False]


@differentiable
def test_derivatives_agree_with_finite_differences(op):
    for is_complex in kinds(op):
        for call in calls(op, is_complex=is_complex):
            check_derivatives(op, call, check_grad_dtypes=True)


@differentiable
def test_second_derivatives_agree_with_finite_differences(op):
    if not op.twice:
        pytest.skip("not twice differentiable")
    for is_complex in kinds(op):
        for call in calls(op, is_complex=is_complex):
            check_derivatives(op, call, order=2, check_undefined_grad=False)


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.differentiable and not op.has_complex], ids=lambda op: op.name
)
def test_complex_input_is_refused_or_differentiated_rightly(op):
    for call in calls(op, is_complex=True):
        if not any(np.iscomplexobj(x) for x in call.inputs):
            continue
        try:
            call(call.inputs, pb.tensor)
        except (TypeError, ValueError):
            continue
        check_derivatives(op, call, nondet_tol=1e-12)


ELEMENT_BY_ELEMENT = {
    "multiply",
    "matmul",
    "sum",
    "cumprod",
    "concatenate",
    "take_along_axis",
    "linalg.solve",
    "linalg.eigh",
    "fft.rfft",
    "nn.functional.conv2d",
    "nn.functional.layer_norm",
    "nn.functional.softmax",
}


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.name in ELEMENT_BY_ELEMENT], ids=lambda op: op.name
)
def test_whole_jacobians_agree_with_finite_differences(op):
    for is_complex in kinds(op):
        for call in list(calls(op, is_complex=is_complex))[:2]:
            batched = {"check_batched_grad": True, "check_batched_forward_grad": True}
            check_derivatives(op, call, fast_mode=False, **batched)


BY_NAME = {op.name: op for op in reversed(OPS)}
THRICE = {
    "sin",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "multiply",
    "divide",
    "power",
    "matmul",
    "prod",
    "logsumexp",
    "linalg.inv",
    "linalg.det",
    "nn.functional.softmax",
    "nn.functional.gelu",
    "nn.functional.conv1d",
}


# A second record of the same operator is for points where it is less smooth.
@pytest.mark.parametrize("op", [BY_NAME[name] for name in sorted(THRICE)], ids=lambda op: op.name)
def test_third_derivatives_agree_with_finite_differences(op):
    for is_complex in kinds(op):
        for call in list(calls(op, is_complex=is_complex))[:2]:
            check_third_order(op, call)


def check_third_order(op, call):
    inputs, run = leaves_of(call), differentiated(call)
    rng = np.random.default_rng(3)
    weights = [pb.tensor(rng.uniform(-1, 1, y.shape).astype(y.dtype)) for y in run(*inputs)]

    def gradient(*inputs):
        return pb.autograd.grad(run(*inputs), inputs, weights, create_graph=True)

    options = {"fast_mode": True, "check_fwd_over_rev": True, "check_undefined_grad": False}
    assert gradgradcheck(gradient, inputs, atol=op.atol * 1e3, rtol=op.rtol * 1e3, **options)


def test_the_lists_above_name_operators():
    assert {op.name for op in OPS} >= ELEMENT_BY_ELEMENT | THRICE


@differentiable
def test_layout_of_the_inputs_does_not_matter(op):
    for call in calls(op):
        strided = [_strided(x) for x in call.inputs]
        plain = call.values(call.inputs)
        for got, want in zip(call.values(strided), plain, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        weights = [np.ones_like(y) for y in plain]
        for got, want in zip(
            call.gradients(strided, weights), call.gradients(call.inputs, weights), strict=True
        ):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)


def _strided(x):
    """The same values with gaps in memory, and in Fortran order."""
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype, order="F")
    wide[(slice(None, None, 2),) * x.ndim] = x
    return wide[(slice(None, None, 2),) * x.ndim]


@pytest.mark.parametrize("op", [op for op in OPS if op.inplace], ids=lambda op: op.name)
def test_in_place_equals_out_of_place(op):
    tried = 0
    for call in calls(op):
        first = call.args[0]
        if not is_differentiated(first):
            continue
        expected = call.values(call.inputs)[0]
        if expected.shape != first.shape:
            continue
        tried += 1
        leaves = [pb.tensor(x, requires_grad=True) for x in call.inputs]
        target = leaves[0] * 1
        written = getattr(target, op.inplace)(*_rest(call, leaves), **call.kwargs)
        assert written is target
        assert target._version == 1
        np.testing.assert_allclose(target.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
        weight = np.ones_like(expected)
        grads = pb.autograd.grad(target, leaves, pb.tensor(weight), materialize_grads=True)
        for got, want in zip(grads, call.gradients(call.inputs, [weight]), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-10)
    assert tried


def _rest(call, leaves):
    """The arguments after the first, with leaves in place of differentiated arrays."""
    args = list(call.args)
    for (where, index), leaf in zip(call.places, leaves, strict=True):
        if isinstance(where, int) and index is None:
            args[where] = leaf
    return args[1:]


@pytest.mark.parametrize("op", [op for op in OPS if op.torch], ids=lambda op: op.name)
@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
def test_values_and_gradients_equal_torch(op, is_complex, torch):
    if is_complex and not op.has_complex:
        pytest.skip("not defined for complex numbers")
    for call in calls(op, is_complex=is_complex):
        theirs = [torch.tensor(x, requires_grad=True) for x in call.inputs]
        other = Call.__new__(Call)
        other.__dict__.update(call.__dict__)
        other.function = functools.partial(op.torch, torch)
        expected = [y for y in flat(other(theirs)) if y.dtype.is_floating_point or y.is_complex()]
        ours = call.values(call.inputs)
        assert len(ours) == len(expected)
        for got, want in zip(ours, expected, strict=True):
            want = want.detach().resolve_conj().numpy()
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
        if not op.differentiable or not any(y.requires_grad for y in expected):
            continue
        weights = [np.ones(y.shape, y.dtype) for y in ours]
        grads = torch.autograd.grad(
            expected, theirs, [torch.tensor(w) for w in weights], allow_unused=True
        )
        for got, want in zip(call.gradients(call.inputs, weights), grads, strict=True):
            if want is not None:
                want = want.resolve_conj().numpy()
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-7, atol=1e-9)
