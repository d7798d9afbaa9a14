"""``vmap``: rules 9.24 to 9.29 and 1.72, and writes that PyTorch's own vmap refuses."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import grad
from pullback.batching import set_rule
from pullback.errors import AutogradError, AutogradValueError, InplaceError
from pullback.func import vmap
from pullback.nn.functional import dropout

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.fixture
def rows():
    return pb.tensor(ROWS)


# --- 9.24: axes and structures --------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_in_dims_is_an_axis(rows, axis):
    """Rule 9.24."""
    expected = ROWS.sum(1 - axis % 2)
    assert vmap(pb.sum, in_dims=axis)(rows).tolist() == expected.tolist()


def test_in_dims_may_be_nested_like_the_arguments(rows):
    """Rule 9.24."""
    found = vmap(
        lambda pair, scale: pair["a"] * scale + pair["b"][0],
        in_dims=({"a": 0, "b": [1]}, None),
    )({"a": rows, "b": [pb.tensor(ROWS.T)]}, pb.tensor(10.0))
    assert found.tolist() == (ROWS * 11).tolist()


def test_one_axis_serves_a_whole_container(rows):
    """Rule 9.24."""
    assert vmap(lambda p: p[0] + p[1], in_dims=(1,))((rows, rows)).shape == (2, 3)


def test_mapped_arguments_may_be_arrays():
    """Rule 9.24."""
    assert vmap(lambda x: x * 2)(ROWS).tolist() == (ROWS * 2).tolist()


@pytest.mark.parametrize("axis", [0, 1, -1, 2])
def test_out_dims_places_the_batch_dimension(axis):
    """Rule 9.24."""
    found = vmap(lambda x: x.reshape(2, 1), out_dims=axis)(ROWS)
    assert found.numpy().tolist() == np.moveaxis(ROWS.reshape(3, 2, 1), 0, axis).tolist()


def test_out_dims_may_be_nested_like_the_result():
    """Rule 9.24."""
    first, second = vmap(lambda x: (x, {"y": x.sum()}), out_dims=(1, {"y": 0}))(ROWS)
    assert first.shape == (2, 3)
    assert second["y"].tolist() == ROWS.sum(1).tolist()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: vmap(pb.sin, in_dims=None)(x), "expected `in_dims` to be int or a .* tuple"),
        (lambda x: vmap(pb.sin, in_dims=(None,))(x), "Expected at least one Tensor to vmap over"),
        (lambda _: vmap(lambda: 1)(), "got no inputs"),
        (
            lambda x: vmap(pb.add)(x, pb.zeros(4)),
            "3 samples in argument 0 .* 4 samples in argument 1",
        ),
        (lambda x: vmap(pb.sin, in_dims=2)(x), "in_dim=2 for .* dimensionality 2: argument 0"),
        (lambda x: vmap(pb.add)(x, 1.0), "in_dim=0 for .* of type float: argument 1"),
        (lambda x: vmap(pb.add, in_dims=(0,))(x, x), "in_dims is not compatible .* 1 entries"),
        (lambda x: vmap(pb.sum, in_dims=([0, 0],))([x]), "in_dims is not compatible .* entry 0"),
        (
            lambda x: vmap(lambda v: (v, 3))(x),
            r"must only return Tensors, got type .*int.* as output \[1\]",
        ),
        (lambda x: vmap(lambda _: None)(x), "got type .*NoneType.* as the output"),
        (lambda x: vmap(pb.sin, out_dims=None)(x), "out_dim is None: the output"),
        (
            lambda x: vmap(pb.sin, out_dims=5)(x),
            "Dimension out of range .* but got 5.* for the output",
        ),
        (lambda x: vmap(pb.sin, out_dims=(0, 0))(x), "returned one tensor"),
        (lambda x: vmap(pb.sin, chunk_size=0)(x), "`chunk_size` should be None or greater than 0"),
        (lambda x: vmap(lambda a, k: a, in_dims=0)(x, k=2.0), "argument 'k'"),
    ],
)
def test_wrong_in_dims_errors_name_the_argument(rows, call, words):
    """Rule 9.24."""
    with pytest.raises(AutogradValueError, match=words):
        call(rows)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_chunked_vmap_agrees(rows, chunk_size):
    """Rule 9.24."""
    found, shared = vmap(lambda x: (x * x, pb.ones(2)), out_dims=(1, None), chunk_size=chunk_size)(
        rows
    )
    assert found.tolist() == (ROWS * ROWS).T.tolist()
    assert shared.tolist() == [1.0, 1.0]


# --- 9.25: results, keywords, nesting -------------------------------------------------------------


def test_results_that_do_not_vary_are_repeated(rows):
    """Rule 9.25."""
    assert vmap(lambda _: pb.ones(2))(rows).tolist() == [[1.0, 1.0]] * 3
    assert vmap(lambda _: pb.ones(2), out_dims=None)(rows).tolist() == [1.0, 1.0]


def test_keywords_are_mapped_over_the_first_axis(rows):
    """Rule 9.25."""
    found = vmap(lambda x, *, y: x + y, in_dims=1)(pb.tensor(ROWS.T), y=rows)
    assert found.tolist() == (2 * ROWS).tolist()


def test_vmap_nests(rows):
    """Rule 9.25."""
    table = vmap(lambda a: vmap(lambda b: (a * b).sum())(rows))(rows)
    np.testing.assert_allclose(table.numpy(), ROWS @ ROWS.T)
    both = vmap(vmap(lambda x: x * 2, out_dims=0), in_dims=1, out_dims=1)(rows)
    assert both.tolist() == (2 * ROWS).tolist()


def test_three_levels_meet_in_one_operator():
    """Rule 9.25."""
    a, b, c = (np.arange(n, dtype=float) + 1 for n in (2, 3, 4))
    found = vmap(lambda x: vmap(lambda y: vmap(lambda z: x * y + z)(c))(b))(a)
    np.testing.assert_allclose(found.numpy(), a[:, None, None] * b[:, None] + c)


def test_vmap_of_empty_batch():
    """Rule 9.25."""
    assert vmap(lambda x: (x @ x.T).sum(0))(np.zeros((0, 2, 3))).shape == (0, 2)
    x = pb.zeros((0, 2), requires_grad=True)
    (found,) = grad(vmap(lambda v: (v * v).sum())(x).sum(), x)
    assert found.shape == (0, 2)


# --- 9.26: one sample's value, and writes ---------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[0].item(),
        lambda x: x if x[0] > 0 else -x,
        lambda x: x[x > 0],
        lambda x: pb.nonzero(x),
        lambda x: float(x[0]),
        lambda x: x.tolist(),
        lambda x: np.asarray(x),
        lambda x: pb.unique_values(x),
        lambda x: range(10)[x[0].astype(int)],
    ],
)
def test_value_of_one_sample_is_refused(rows, use):
    """Rule 9.26."""
    with pytest.raises(AutogradError, match=r"vmap: .*sample"):
        vmap(use)(rows)


def test_batched_tensor_can_be_written(rows):
    """Rule 9.26."""
    found = vmap(lambda x, y: x.clone().add_(y))(rows, rows)
    assert found.tolist() == (2 * ROWS).tolist()
    assert vmap(lambda x, y: x.mul_(y))(rows, pb.tensor(ROWS)).tolist() == (ROWS**2).tolist()
    assert rows.tolist() == (ROWS**2).tolist()  # the argument itself was written to


def test_write_to_captured_tensor_is_refused(rows):
    """Rule 9.26."""
    outside = pb.zeros(2)
    for write in (
        lambda x: outside.copy_(x),
        lambda x: outside[0].add_(x[0]),
        lambda x: pb.from_numpy(outside.numpy()).add_(x),
    ):
        with pytest.raises(InplaceError, match=r"mutate a captured Tensor.*zeros_like\(x\)"):
            vmap(write)(rows)
    assert outside.tolist() == [0.0, 0.0]


def _filled(x):
    out = pb.zeros(3)
    out[0] = x[0]
    out[1:] = x * 10
    return out


def _views_follow(x):
    out = pb.zeros((2, 2))
    row, column, alias = out[0], out.T[1], out.detach()
    row[0] = x[0]
    out[1, 1] = x[1]
    return out, row.clone(), column.clone(), alias.clone(), out.data.clone()


def _grown(x):
    total = pb.zeros(())
    for i in range(2):
        total += x[i]
    return total


def test_buffers_made_inside_get_a_copy_for_each_sample(rows):
    assert vmap(_filled)(rows).tolist() == np.hstack([ROWS[:, :1], ROWS * 10]).tolist()
    assert vmap(_grown)(rows).tolist() == ROWS.sum(1).tolist()
    whole, row, column, alias, data = vmap(_views_follow)(rows)
    expected = np.zeros((3, 2, 2))
    expected[:, 0, 0], expected[:, 1, 1] = ROWS.T
    for found in (whole, alias, data):
        assert found.tolist() == expected.tolist()
    assert row.tolist() == expected[:, 0].tolist()
    assert column.tolist() == expected[:, :, 1].tolist()


def test_buffers_made_inside_pass_gradients():
    x = pb.tensor(ROWS, requires_grad=True)
    w = pb.tensor([2.0, 3.0], requires_grad=True)

    def f(v):
        out = w * 1  # recorded, and then written to
        out[0] = v[0] * w[1]
        return (out * out).sum()

    got = grad(vmap(f)(x).sum(), [x, w])
    expected = grad(sum(f(row) for row in x), [x, w])
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy())


def test_a_buffer_of_the_outer_function_is_captured_by_the_inner_one(rows):
    def outer(x):
        out = pb.zeros(2)
        out[0] = x[0]  # fine: out belongs to this sample

        def inner(y):
            out[1] = y[1]
            return out

        return vmap(inner)(rows)

    with pytest.raises(InplaceError, match="captured"):
        vmap(outer)(rows)


def test_a_buffer_of_the_inner_function_may_vary_with_both(rows):
    def inner(x, y):
        out = pb.zeros_like(x)
        out[0] = y[0] * x[1]
        out += y
        return out

    found = vmap(lambda x: vmap(lambda y: inner(x, y))(rows))(rows)
    expected = [[inner(pb.tensor(x), pb.tensor(y)).tolist() for y in ROWS] for x in ROWS]
    assert found.tolist() == expected


def test_views_that_are_gone_are_forgotten(rows):
    def f(x):
        out = pb.zeros(2)
        for _ in range(5000):
            out[0]
        assert len(out._counter) < 2000
        out[0] = x[0]
        return out

    assert vmap(f)(rows).tolist() == [[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]]


# --- 9.27: randomness -----------------------------------------------------------------------------


def test_vmap_randomness_modes():
    """Rule 9.27."""
    ones = pb.ones((4, 100))
    with pytest.raises(AutogradError, match="randomness error mode: dropout"):
        vmap(dropout)(ones)
    with pytest.raises(AutogradError, match="'error', 'different', or 'same'"):
        vmap(dropout, randomness="other")
    same = vmap(dropout, randomness="same")(ones).numpy()
    assert (same == same[0]).all()
    different = vmap(dropout, randomness="different")(ones).numpy()
    assert len({row.tobytes() for row in different}) == 4


def test_randomness_modes_of_unbatched_input():
    """Rule 9.27."""
    shared = pb.ones(100)
    with pytest.raises(AutogradError, match="randomness error mode: dropout"):
        vmap(lambda _: dropout(shared))(pb.zeros(4))
    same = vmap(lambda _: dropout(shared), randomness="same")(pb.zeros(4)).numpy()
    assert (same == same[0]).all()
    different = vmap(lambda _: dropout(shared), randomness="different")(pb.zeros(4)).numpy()
    assert len({row.tobytes() for row in different}) == 4


def test_gradients_go_through_the_same_mask():
    """Rule 9.27."""
    w = pb.ones(50, requires_grad=True)
    found = vmap(lambda x: dropout(w * x), randomness="different")(pb.ones((4, 50)))
    (got,) = grad(found.sum(), w)
    np.testing.assert_allclose(got.numpy(), found.detach().numpy().sum(0))


# --- 9.28: per-sample gradients -------------------------------------------------------------------


def test_per_sample_gradients():
    """Rule 9.28."""
    w = pb.tensor([1.0, 2.0], requires_grad=True)
    found = vmap(lambda a: grad((w * a).sum() ** 2, w)[0])(pb.eye(2))
    assert found.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_backward_is_refused_inside(rows):
    """Rule 9.29."""
    w = pb.ones(2, requires_grad=True)
    with pytest.raises(AutogradError):
        vmap(lambda x: (w * x).sum().backward())(rows)
    assert w.grad is None


# --- 1.72, 13.9: batches of gradients -------------------------------------------------------------


def test_batched_grad_runs_one_pass():
    """Rule 1.72."""
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    passes = []
    y.register_hook(lambda g: passes.append(g.shape))
    (found,) = grad(y, x, pb.eye(2), is_grads_batched=True)
    assert found.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert passes == [(2,)]


def test_batched_grad_can_be_differentiated_again():
    """Rule 1.72."""
    x = pb.tensor([1.0, 2.0], requires_grad=True)
    (jacobian,) = grad(x**3, x, pb.eye(2), is_grads_batched=True, create_graph=True)
    (again,) = grad(jacobian.sum(), x)
    np.testing.assert_allclose(again.numpy(), [6.0, 12.0])


def test_unused_inputs_get_zeros_with_the_batch():
    """Rule 13.9."""
    x, z = pb.ones(2, requires_grad=True), pb.ones(3, requires_grad=True)
    _, unused = grad(x * 2, [x, z], pb.eye(2), is_grads_batched=True, materialize_grads=True)
    assert unused.shape == (2, 3)


def test_results_in_inference_mode_are_inference_tensors(rows):
    with pb.inference_mode():
        found = vmap(lambda x: pb.stack([x * 2, x]).mean(0))(rows)
    assert found.is_inference()
    assert found.tolist() == (ROWS * 1.5).tolist()


def test_results_have_memory_of_their_own(rows):
    same, again, itself = vmap(lambda x: (*(x * 1,) * 2, x))(rows)
    for tensor in (same, itself):
        tensor.add_(1)
    assert again.tolist() == rows.tolist() == ROWS.tolist()


def test_custom_operators_may_bring_a_rule(rows):
    calls = []

    def rule(info, in_dims, x):
        calls.append((info.batch_size, in_dims, x.shape))
        return pb.ops.vmaptest.twice(x), in_dims[0]

    with pb.library.Library("vmaptest", "DEF") as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: pb.tensor(x.numpy() * 2), "CPU")
        with pytest.warns(UserWarning, match="vmaptest::twice has no batching rule"):
            looped = vmap(pb.ops.vmaptest.twice)(rows)
        set_rule("vmaptest::twice", rule)
        try:
            assert vmap(vmap(pb.ops.vmaptest.twice))(rows).tolist() == looped.tolist()
        finally:
            set_rule("vmaptest::twice", None)
    assert calls == [(2, (0,), (2,)), (3, (0,), (3, 2))]


ESCAPED = "escaped from inside a function being vmapped"
USES = {
    "one operand": lambda lib, e: lib.module.sin(e),
    "with a number": lambda lib, e: e * 2,
    "two operands": lambda lib, e: e + lib.tensor([1.0, 2.0]),
    "a product": lambda lib, e: e @ lib.tensor([1.0, 2.0]),
    "a reduction": lambda lib, e: e.sum(),
    "an index": lambda lib, e: e[0],
    "a write": lambda lib, e: e.add_(1.0),
    "a write from it": lambda lib, e: lib.tensor([1.0, 2.0]).copy_(e),
}
USES_INSIDE = {  # where PyTorch takes them for samples of the new level, or asserts
    "in another vmap": lambda lib, e: lib.func.vmap(lambda x: x * e)(lib.tensor([[1.0, 2.0]])),
    "alone in another vmap": lambda lib, e: lib.func.vmap(lambda x: e * 2)(lib.tensor([[1.0]])),
    "in grad": lambda lib, e: lib.func.grad(lambda x: (x * e).sum())(lib.tensor([1.0, 2.0])),
    "in jvp": lambda lib, e: lib.func.jvp(lambda x: x * e, (e,), (e,)),
}


def samples_from(lib, kind):
    """A tensor that has escaped from a mapped function."""
    found = []

    def f(x):
        found.append(x * x)
        if kind == "exception":
            raise ZeroDivisionError
        return (x * x).sum()

    x = lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    if kind == "exception":
        with pytest.raises(ZeroDivisionError):
            lib.func.vmap(f)(x)
    elif kind == "chunks":
        lib.func.vmap(f, chunk_size=2)(x)
    elif kind == "grad":
        lib.func.vmap(lib.func.grad(f))(x)
    else:
        lib.func.vmap(f)(x)
    return found[0]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["vmap", "grad", "exception", "chunks"])
def test_samples_that_escaped_cannot_be_used(lib, kind, use):
    escaped = samples_from(lib, kind)
    assert tuple(escaped.shape) == (2,)
    with pytest.raises(RuntimeError, match=ESCAPED):
        USES[use](lib, escaped)


@pytest.mark.parametrize("use", USES_INSIDE)
@pytest.mark.parametrize("kind", ["vmap", "grad", "exception", "chunks"])
def test_samples_that_escaped_cannot_be_used_in_transforms(pb, kind, use):
    with pb.raises(ESCAPED):
        USES_INSIDE[use](pb, samples_from(pb, kind))


def test_values_of_samples_that_escaped_cannot_be_read(pb):
    escaped = samples_from(pb, "vmap")
    for read in (escaped.tolist, escaped.numpy, lambda: bool(escaped[:1]), lambda: escaped[0].item):
        with pb.raises(ESCAPED):
            read()
    assert "BatchedArray" in repr(escaped)


def test_a_value_that_all_samples_share_may_escape(lib):
    found = []

    def f(x):
        found.append(shared * 2)
        return x * shared

    shared = lib.tensor([1.0, 2.0])
    lib.func.vmap(f)(lib.tensor([[1.0, 2.0]]))
    assert (found[0] * 2).tolist() == [4.0, 8.0]


def test_a_backward_pass_works_on_samples_after_their_level(pb):
    w = pb.leaf([1.0, 2.0])
    seen = []

    def f(x):
        y = x * w
        y.register_hook(lambda g: seen.append(tuple((g * 2).shape)))
        return (y * y).sum()

    pb.func.vmap(f)(pb.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad.tolist() == [20.0, 80.0]
    assert seen


def test_results_that_vary_have_memory_of_their_own(rows):
    before = rows.tolist()
    first, second, part = vmap(lambda x: (x, x, x[1:]))(rows)
    for result in (first, second, part):
        assert not result._is_view()
        result.add_(1.0)
    assert rows.tolist() == before
    assert first.tolist() == second.tolist() == (ROWS + 1.0).tolist()


def test_result_that_all_samples_share_is_repeated(rows):
    shared = pb.ones(2)
    repeated = vmap(lambda _: shared)(rows)
    assert repeated.tolist() == [[1.0, 1.0]] * 3
    with pytest.raises(InplaceError, match="more than one element"):
        repeated.add_(1.0)
    assert vmap(lambda _: shared, out_dims=None)(rows) is shared
