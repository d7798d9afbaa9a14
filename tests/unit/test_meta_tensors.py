"""Meta tensors: how they are made, what they say, and where their lack of data shows."""

from __future__ import annotations

import copy
import pickle
import random
import tracemalloc

import numpy as np
import pytest

import pullback as pb
from pullback.autograd import forward_ad
from pullback.dispatch.stock import forget_operators
from pullback.errors import InplaceError, KernelNotFoundError, NoDataError
from pullback.func import vmap
from pullback.kernels.shape_spec import Spec
from pullback.meta import MetaArray, meta_tensor
from pullback.meta.array import strides_in_layout
from pullback.operators.shape.shapes import merge_strides

HUGE = 10**6


@pytest.fixture
def x():
    return pb.zeros((2, 3), np.float32, device="meta")


def test_a_million_by_a_million_costs_nothing():
    tracemalloc.start()
    x = pb.zeros((HUGE, HUGE), device="meta", requires_grad=True)
    y = (x + 1.0) * x[0]
    y[:, 0] = 0.0
    loss = pb.exp(y.T).reshape(-1).sum() + pb.sort(x, axis=0)[0].mean() + x.max()
    loss.backward()
    assert x.grad.shape == (HUGE, HUGE)
    (second,) = pb.autograd.grad((x**3).sum(), x, create_graph=True)
    second.sum().backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda **kw: pb.zeros(3, **kw), (3,), "float64"),
        (lambda **kw: pb.ones((2, 3), np.int32, **kw), (2, 3), "int32"),
        (lambda **kw: pb.empty([2, 0], **kw), (2, 0), "float64"),
        (lambda **kw: pb.full((2,), 1j, **kw), (2,), "complex128"),
        (lambda **kw: pb.eye(2, 3, **kw), (2, 3), "float64"),
        (lambda **kw: pb.arange(5, **kw), (5,), "int64"),
        (lambda **kw: pb.arange(1, 2, 0.3, **kw), (4,), "float64"),
        (lambda **kw: pb.arange(5, 1, **kw), (0,), "int64"),
        (lambda **kw: pb.tensor([[1, 2]], **kw), (1, 2), "int64"),
        (lambda **kw: pb.asarray([1.0], dtype=np.float32, **kw), (1,), "float32"),
        (lambda **kw: pb.zeros_like(np.zeros((2, 3), np.float32), **kw), (2, 3), "float32"),
        (lambda **kw: pb.ones_like([1, 2], np.float32, **kw), (2,), "float32"),
        (lambda **kw: pb.empty_like([1, 2], **kw), (2,), "int64"),
        (lambda **kw: pb.full_like([1, 2], 7, **kw), (2,), "int64"),
    ],
)
def test_creation_functions_make_the_same_on_both_devices(make, shape, dtype):
    real, meta = make(), make(device="meta")
    assert (real.device, meta.device) == ("cpu", "meta")
    assert real.shape == meta.shape == shape
    assert real.dtype == meta.dtype == dtype


def test_what_is_made_like_a_meta_tensor_is_one(x):
    for like in (pb.zeros_like, pb.ones_like, pb.empty_like):
        assert like(x).device == "meta"
        assert like(x, device="cpu").device == "cpu"
    assert pb.full_like(x, 2).dtype == x.dtype
    assert pb.full_like(x, 2).device == "meta"
    for made in (
        x.new_zeros(4),
        x.new_ones((4,)),
        x.new_empty(4),
        x.new_full(4, 1),
        x.new_tensor([1] * 4),
    ):
        assert (made.shape, made.dtype, made.device) == ((4,), x.dtype, "meta")
    assert x.new_zeros(4, device="cpu").device == "cpu"


def test_an_unknown_device_is_refused(x):
    for call in (
        lambda: pb.zeros(3, device="gpu"),
        lambda: pb.tensor(3, device="gpu"),
        lambda: pb.asarray(x, device="cpu"),
        lambda: x.to_device("gpu"),
        lambda: pb.full(2, pb.tensor(1.0), device="meta"),
    ):
        with pytest.raises(ValueError, match="device must be"):
            call()


def test_to_moves_and_casts(x):
    real = pb.ones((2, 3), requires_grad=True)
    moved = real.to("meta")
    assert moved.device == "meta"
    assert moved.requires_grad
    assert moved.strides == real.strides
    with pytest.raises(NoDataError, match="no data that could be brought back"):
        moved.sum().backward()
    assert x.to("meta") is x
    assert x.to(dtype=np.float32) is x
    assert x.to(x, copy=True) is not x
    assert x.to(np.float64).dtype == np.float64
    assert real.to(x).dtype == np.float32
    assert real.detach().to_device("cpu").device == "cpu"
    with pytest.raises(NoDataError, match="Cannot copy out of meta tensor; no data!"):
        x.to("cpu")
    with pytest.raises(ValueError, match="there are no streams"):
        x.to_device("meta", stream=1)


@pytest.mark.parametrize(
    "access", [float, bool, np.asarray, lambda x: x.item(), lambda x: x.tolist(), np.array]
)
def test_there_is_no_data_to_look_at(access):
    with pytest.raises(NoDataError, match=r"a meta tensor has no data; it has shape \(1,\)"):
        access(pb.zeros(1, device="meta"))


def test_repr_shows_shape_and_dtype(x):
    assert repr(x) == "tensor(..., shape=(2, 3), dtype=float32, device='meta')"
    assert repr(x.requires_grad_() * 2).endswith("device='meta', grad_fn=<MulBackward0>)")


def test_copies_and_pickles(x):
    view = x.T
    for again in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert (again.shape, again.strides, again.device) == (view.shape, view.strides, "meta")
        assert not again._array.shares_memory(x._array)


# --- views and writes ----------------------------------------------------------------------------


def test_strides_tell_views_from_copies(x):
    assert x.reshape(6)._base is x
    assert x.T.reshape(6)._base is None
    assert x.T.clone().reshape(6)._base is None  # a clone runs through memory as it did
    assert (x.T * 2.0).T.reshape(6)._base is not None
    assert x[:, ::2].strides == (12, 8)
    assert pb.broadcast_to(x[0], (4, 3)).strides == (0, 4)
    assert pb.ascontiguousarray(x) is x
    assert pb.ascontiguousarray(x.T) is not x
    assert x.view(np.int16).shape == (2, 6)
    with pytest.raises(ValueError, match=r"no view of shape .* exists.* Use \.reshape"):
        x.T.view(6)


def test_writes_count_and_rebase(x):
    leaf = x.requires_grad_()
    y = leaf * 1.0
    part = y[0]
    part.mul_(2.0)
    assert y._version == part._version == 1
    assert y.grad_fn.name() == "CopySlices"
    z = y * y
    y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    pb.exp(part).sum().backward()
    assert leaf.grad.shape == (2, 3)


def test_writes_are_checked(x):
    with pytest.raises(InplaceError, match=r"output with shape \[3\] doesn't match"):
        pb.zeros(3, device="meta").add_(x)
    with pytest.raises(InplaceError, match="can't be cast"):
        pb.zeros(3, int, device="meta").add_(1.5)
    with pytest.raises(InplaceError, match="more than one element"):
        pb.broadcast_to(x[0], (4, 3)).add_(1.0)
    out = pb.zeros((2, 3), np.float32, device="meta")
    assert pb.exp(x, out=out) is out


def test_shapes_can_be_changed_in_place(x):
    assert x.clone().transpose_(0, 1).strides == (4, 12)
    assert x.clone().resize_(4, 4).shape == (4, 4)
    assert x.clone().squeeze_().unsqueeze_(0).shape == (1, 2, 3)
    with pytest.raises(InplaceError, match="must be on 'cpu', not 'meta'"):
        pb.zeros(3, np.float32).set_(x)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap", "mean", "maximum"])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_padding(mode, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    got, want = (pb.pad(make(array), 1, mode=mode) for make in (meta_tensor, pb.tensor))
    assert (got.shape, got.dtype, got.device) == (want.shape, want.dtype, "meta")


def test_data_cannot_come_out_of_nothing(x):
    real = pb.zeros((2, 3), np.float32)
    for write in (lambda: real.copy_(x), lambda: real.add_(x), lambda: pb.exp(x, out=real)):
        with pytest.raises(NoDataError, match="no data that could be written"):
            write()
    assert real.tolist() == [[0.0] * 3] * 2
    assert real._version == 0


def test_one_meta_operand_makes_a_meta_result(x):
    real = pb.ones(3, requires_grad=True)
    y = x * real
    assert y.device == "meta"
    y.sum().backward()
    assert real.grad.shape == (3,)


# --- the machinery above -------------------------------------------------------------------------


def test_forward_mode_and_functions(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, pb.ones_like(x))
        tangent = forward_ad.unpack_dual(pb.sin(dual).sum(0)).tangent
        assert (tangent.shape, tangent.device) == ((3,), "meta")

    class Square(pb.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    Square.apply(x.requires_grad_()).sum().backward()
    assert x.grad.device == "meta"


def test_random_numbers_are_not_drawn():
    generator = np.random.default_rng(0)
    state = generator.bit_generator.state
    x = pb.zeros(5, device="meta")
    pb.ops.pullback._dropout(x, 0.5, generator)
    assert pb.ops.pullback._uniform_like(x, 0.0, 1.0, generator).shape == (5,)
    assert pb.ops.pullback._random_like(x, "normal", 0, 0, generator).shape == (5,)
    assert generator.bit_generator.state == state


def test_meta_tensors_are_not_mapped_over():
    with pytest.raises(NoDataError, match="no data to map a function over"):
        vmap(pb.sin)(pb.zeros(5, device="meta"))


def test_inference_mode_makes_inference_tensors(x):
    with pb.inference_mode():
        assert (x * 2).is_inference()
        assert pb.zeros(3, device="meta").is_inference()


def test_custom_operator_without_fake_kernel_names_what_is_missing():
    with pb.library.Library("metaless", "DEF") as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x * 2, "CPU")
        with pytest.raises(KernelNotFoundError, match="no fake impl or Meta kernel registered"):
            lib.operator("twice")(pb.zeros(3, device="meta"))
        lib.impl("twice", pb.empty_like, "Meta")
        assert lib.operator("twice")(pb.zeros(3, device="meta")).shape == (3,)


TABLE = """
- func: cube(Tensor self) -> Tensor
  doc: Raises to the third power.
  tags: [elementwise]
  dispatch: {CPU: cube}
  derivatives: {self: 3 * self * self * grad}
- func: pairs(Tensor self) -> Tensor
  doc: Puts each element beside itself.
  dispatch: {CPU: pairs, Meta: pairs_shape}
  output_differentiability: [False]
- func: plain(Tensor self) -> Tensor
  doc: Has no rule for shapes.
  dispatch: {CPU: cube}
  output_differentiability: [False]
"""


def test_tables_of_ones_own_have_rules_and_shape_functions(tmp_path):
    table = tmp_path / "shaped.yaml"
    table.write_text(TABLE)
    ops = pb.library.load_ops(
        table,
        kernels={
            "cube": lambda a: a**3,
            "pairs": lambda a: np.stack([a, a], -1),
            "pairs_shape": lambda a: Spec((*a.shape, 2)),
        },
    )
    x = pb.zeros((2, 3), np.float32, device="meta", requires_grad=True)
    ops.cube(x).sum().backward()
    assert (x.grad.shape, x.grad.dtype) == ((2, 3), np.float32)
    assert (ops.pairs(x).shape, ops.pairs(x).dtype) == ((2, 3, 2), np.float32)
    with pytest.raises(KernelNotFoundError):
        ops.plain(x)
    forget_operators("shaped")


def test_the_table_shows_the_rule(x):
    assert "elementwise" in str(pb.ops.pullback.mul.default.explain(x, x))


def test_meta_arrays_by_themselves():
    array = MetaArray((2, 3), np.dtype("float64"))
    assert array.layout == (0, 1)
    assert array.in_layout((1, 0)).strides == (8, 16) == strides_in_layout((2, 3), 8, (1, 0))
    assert array.copy().strides == array.strides
    assert meta_tensor(2.0).shape == ()
    assert meta_tensor(meta_tensor(np.zeros((3, 2)).T)).strides == (8, 16)


def _random_shape(rng: random.Random, size: int) -> tuple[int, ...]:
    """A shape with so many elements, and a few axes of one."""
    shape: list[int] = []
    while size > 1:
        shape.append(rng.choice([n for n in range(2, size + 1) if size % n == 0]))
        size //= shape[-1]
    for _ in range(rng.randint(0, 2)):
        shape.insert(rng.randint(0, len(shape)), 1)
    return tuple(shape)


def test_strides_of_reshaped_views_are_numpys():
    rng = random.Random(3)
    views = 0
    for _ in range(2000):
        ndim = rng.randint(1, 4)
        array = np.zeros([rng.choice([1, 2, 3, 4]) for _ in range(ndim)])
        array = array.transpose(rng.sample(range(ndim), ndim))
        array = array[tuple(slice(None, None, rng.choice([1, 1, 2, -1])) for _ in range(ndim))]
        shape = _random_shape(rng, array.size)
        expected = np.reshape(array, shape)
        if np.may_share_memory(expected, array):
            views += 1
            assert merge_strides(array, shape) == expected.strides
        else:
            with pytest.raises(ValueError, match="copy"):
                merge_strides(array, shape)
    assert 200 < views < 1800
