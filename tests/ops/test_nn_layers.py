"""What the records of neural networks cannot say: state, chance, places, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.nn.functional as F  # noqa: N812 - the name that everybody uses


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_functional_offers_what_it_lists():
    assert all(callable(getattr(F, name)) for name in F.__all__)
    assert not hasattr(pb, "mse_loss")


class TestDropout:
    def test_it_keeps_the_mean_and_gives_the_same_mask_for_the_same_seed(self):
        x = pb.tensor(np.ones(10_000), requires_grad=True)
        y = F.dropout(x, 0.25, generator=3)
        assert set(y.tolist()) == {0, 4 / 3}
        assert abs(y.sum().item() / 10_000 - 1) < 0.02
        assert F.dropout(x, 0.25, generator=3).tolist() == y.tolist()
        (grad,) = pb.autograd.grad(y.sum(), x)
        assert grad.tolist() == y.tolist()

    def test_a_generator_moves_on_and_no_generator_is_random(self):
        ones, generator = pb.tensor(np.ones(64)), np.random.default_rng(1)
        drawn = [F.dropout(ones, generator=generator).tolist() for _ in range(2)]
        drawn += [F.dropout(ones).tolist() for _ in range(2)]
        assert len({tuple(d) for d in drawn}) == 4

    def test_it_does_nothing_outside_training(self):
        x = pb.tensor([1.0, 2.0])
        assert F.dropout(x, 0.9, training=False) is x
        assert F.dropout(x, 1.0).tolist() == [0, 0]

    def test_a_wrong_probability_is_refused(self):
        with pytest.raises(ValueError, match=r"dropout: p is 1\.5"):
            F.dropout(pb.tensor([1.0]), 1.5)

    def test_attention_drops_weights(self, rng):
        q, k, v = (rng.normal(size=(2, 3, 4)) for _ in range(3))
        plain = F.scaled_dot_product_attention(q, k, v)
        dropped = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, generator=1)
        assert not np.allclose(plain.numpy(), dropped.numpy())


def test_rrelu_in_training_has_slopes_between_its_bounds():
    x = pb.tensor(-np.ones(100), requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True, generator=5)
    (grad,) = pb.autograd.grad(y.sum(), x)
    assert 0.1 <= min(grad.tolist()) < 0.15 < 0.25 < max(grad.tolist()) <= 0.3
    np.testing.assert_array_equal(y.detach().numpy(), -grad.numpy())


class TestRunningStatistics:
    @pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 2, 2)])
    def test_batch_norm_moves_them_as_torch_does(self, torch, rng, shape):
        x, w = rng.normal(size=shape), rng.normal(size=3)
        mean, var = rng.normal(size=3), rng.uniform(1, 2, 3)
        ours = [pb.tensor(mean), pb.tensor(var)]
        theirs = [torch.tensor(mean), torch.tensor(var)]
        for _ in range(2):
            y = F.batch_norm(x, *ours, w, training=True, momentum=0.3)
            z = torch.nn.functional.batch_norm(
                torch.tensor(x), *theirs, torch.tensor(w), training=True, momentum=0.3
            )
            np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-12)
        for got, want in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)

    def test_instance_norm_moves_them_as_torch_does(self, torch, rng):
        x, mean, var = rng.normal(size=(2, 3, 5)), rng.normal(size=3), rng.uniform(1, 2, 3)
        ours = [pb.tensor(mean), pb.tensor(var)]
        theirs = [torch.tensor(mean), torch.tensor(var)]
        F.instance_norm(x, *ours)
        torch.nn.functional.instance_norm(torch.tensor(x), *theirs)
        for got, want in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)

    def test_they_are_written_in_place_and_stay_out_of_the_graph(self, rng):
        x = pb.tensor(rng.normal(size=(4, 3)), requires_grad=True)
        mean = pb.tensor(np.zeros(3))
        y = F.batch_norm(x, mean, None, training=True)
        assert mean._version == 2
        assert not mean.requires_grad
        y.sum().backward()

    def test_evaluation_leaves_them_alone(self, rng):
        mean, var = pb.tensor(np.zeros(3)), pb.tensor(np.ones(3))
        F.batch_norm(rng.normal(size=(4, 3)), mean, var)
        assert (mean._version, var._version) == (0, 0)

    def test_nothing_is_written_when_the_call_is_refused(self):
        mean = pb.tensor(np.zeros(3))
        with pytest.raises(ValueError, match="one value for each channel"):
            F.batch_norm(np.ones((1, 3)), mean, None, training=True)
        assert mean.tolist() == [0, 0, 0]


class TestPlaces:
    @pytest.mark.parametrize(
        "options",
        [(2,), (3, 2, 1), (2, 1, 0, 2), (3, 2, 1, 1, True)],
        ids=["plain", "padded", "dilated", "ceil"],
    )
    def test_max_pool2d_reports_the_places_that_torch_does(self, torch, rng, options):
        x = rng.permutation(2 * 3 * 7 * 6).reshape(2, 3, 7, 6).astype(float)
        values, places = F.max_pool2d_with_indices(x, *options)
        v, p = torch.nn.functional.max_pool2d_with_indices(torch.tensor(x), *options)
        np.testing.assert_array_equal(values.numpy(), v.numpy())
        np.testing.assert_array_equal(places.numpy(), p.numpy())
        assert not places.requires_grad

    @pytest.mark.parametrize("size", [(2, 3), (4, 4), (7, 2)])
    def test_adaptive_max_pool2d_reports_the_places_that_torch_does(self, torch, rng, size):
        x = rng.permutation(2 * 3 * 7 * 6).reshape(2, 3, 7, 6).astype(float)
        values, places = F.adaptive_max_pool2d_with_indices(x, size)
        v, p = torch.nn.functional.adaptive_max_pool2d_with_indices(torch.tensor(x), size)
        np.testing.assert_array_equal(values.numpy(), v.numpy())
        np.testing.assert_array_equal(places.numpy(), p.numpy())

    def test_a_window_of_minus_infinities_has_a_place_in_the_image(self):
        x = pb.tensor(np.full((1, 1, 3, 3), -np.inf), requires_grad=True)
        values, places = F.max_pool2d_with_indices(x, 2, 2, 1)
        assert 0 <= min(places.numpy().flat) <= max(places.numpy().flat) < 9
        values.sum().backward()

    def test_nan_wins_in_max_pool(self):
        values, places = F.max_pool1d_with_indices(np.array([[1.0, np.nan, 3.0, 2.0]]), 4)
        assert np.isnan(values.item())
        assert places.item() == 1

    def test_integers_can_be_pooled(self):
        x = np.arange(4).reshape(1, 1, 2, 2)
        assert F.max_pool2d(x, 2, padding=1, stride=1).numpy().max() == 3
        assert F.avg_pool2d(x, 2).item() == 1  # truncated, as in PyTorch


class TestEmbedding:
    @pytest.mark.parametrize("padding", [1, -2])
    def test_the_padding_row_gets_no_gradient_of_any_order(self, torch, rng, padding):
        weight, numbers = rng.normal(size=(5, 3)), np.array([1, 3, 1, 3, 3, 0])
        outer = rng.normal(size=(6, 3))
        results = []
        for lib, embed in ((pb, F.embedding), (torch, torch.nn.functional.embedding)):
            w = lib.tensor(weight, requires_grad=True)
            g = lib.tensor(outer, requires_grad=True)
            y = embed(lib.tensor(numbers), w, padding)
            (grad,) = lib.autograd.grad(y, w, g, create_graph=True)
            (second,) = lib.autograd.grad((grad * grad).sum(), g)
            results.append([grad.detach().numpy(), second.numpy()])
        for got, want in zip(*results, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)

    def test_many_equal_numbers_add_up(self, rng):
        numbers = rng.integers(0, 3, 200)
        w = pb.tensor(np.zeros((4, 2)), requires_grad=True)
        F.embedding(numbers, w).sum().backward()
        counts = np.bincount(numbers, minlength=4)
        assert w.grad.tolist() == [[c, c] for c in counts]


class TestConvolution:
    def test_a_batch_in_pieces_equals_a_whole_one(self, rng, monkeypatch):
        x, w = rng.normal(size=(5, 2, 6)), rng.normal(size=(3, 2, 3))
        runs = []
        for elements in (1 << 20, 40):
            monkeypatch.setattr("pullback.operators.nn.conv.kernels._COLUMNS", elements)
            leaves = [pb.tensor(a, requires_grad=True) for a in (x, w)]
            y = F.conv1d(*leaves, padding=1)
            runs.append([y.detach(), *pb.autograd.grad((y * y).sum(), leaves)])
        for whole, pieces in zip(*runs, strict=True):
            np.testing.assert_allclose(pieces.numpy(), whole.numpy(), rtol=1e-12)

    def test_float32_and_bias_keep_their_dtype(self):
        x, w, b = (np.ones(s, np.float32) for s in ((1, 1, 4), (1, 1, 2), (1,)))
        assert F.conv1d(x, w, b).dtype == np.float32

    def test_unfold_then_fold_counts_windows(self):
        x = np.ones((1, 1, 3, 3))
        columns = F.unfold(x, 2)
        assert columns.shape == (1, 4, 4)
        assert F.fold(columns, (3, 3), 2).tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


def test_infinities_stay_where_they_are_when_an_image_is_resized():
    x = np.zeros((1, 1, 4))
    x[0, 0, 3] = np.inf
    near = F.interpolate(x, 8).numpy()[0, 0]
    smooth = F.interpolate(x, 8, mode="linear").numpy()[0, 0]
    mean = F.adaptive_avg_pool1d(x, 3).numpy()[0, 0]
    assert np.isinf(near).tolist() == [False] * 6 + [True] * 2
    assert np.isinf(smooth).tolist() == [False] * 5 + [True] * 3
    assert mean[:2].tolist() == [0, 0]


def test_numbers_may_stand_for_targets():
    x = pb.tensor(np.array([1.0, 3.0], np.float32), requires_grad=True)
    loss = F.mse_loss(x, 0.0)
    assert loss.dtype == np.float32
    loss.backward()
    assert x.grad.tolist() == [1, 3]
    assert F.binary_cross_entropy_with_logits(x, 1).dtype == np.float32


def test_weights_of_losses_are_differentiable(rng):
    w = pb.tensor(rng.uniform(1, 2, 3), requires_grad=True)
    x, target = rng.normal(size=(4, 3)), np.array([0, 2, 2, 1])
    (grad,) = pb.autograd.grad(F.cross_entropy(x, target, w), w)
    step = 1e-6 * np.array([1.0, 0, 0])
    above, below = (F.cross_entropy(x, target, w.detach().numpy() + s) for s in (step, -step))
    np.testing.assert_allclose(grad.numpy()[0], (above.item() - below.item()) / 2e-6, rtol=1e-6)


ones = np.ones
REFUSALS = [
    (lambda: F.linear(ones((2, 3)), ones((4, 2))), ValueError, r"linear: .*\[2, 3\].*\[4, 2\]"),
    (lambda: F.bilinear(ones(2), ones(3), ones((1, 3, 2))), ValueError, "bilinear"),
    (lambda: F.embedding(ones(2), ones((2, 2))), TypeError, "embedding: .*float64"),
    (lambda: F.embedding(np.array([5]), ones((2, 2))), IndexError, "rows 0 to 1"),
    (lambda: F.embedding(np.array([-1]), ones((2, 2))), IndexError, "between -1 and -1"),
    (lambda: F.one_hot(np.array([3]), 2), ValueError, "num_classes is 2"),
    (lambda: F.one_hot(np.array([], int)), ValueError, "give num_classes"),
    (lambda: F.one_hot(ones(2)), TypeError, "one_hot"),
    (lambda: F.gelu(ones(2), approximate="erf"), ValueError, "gelu: approximate is 'erf'"),
    (lambda: F.celu(ones(2), 0.0), ZeroDivisionError, "celu"),
    (lambda: F.softshrink(ones(2), -1.0), ValueError, "softshrink: lambd"),
    (lambda: F.glu(ones(3)), ValueError, "glu: .*even"),
    (lambda: F.prelu(ones((2, 3)), ones(2)), ValueError, r"prelu: .*\[2\].*\[2, 3\]"),
    (lambda: F.conv2d(ones((1, 2, 3, 3)), ones((1, 1, 2, 2))), ValueError, "channels are expected"),
    (lambda: F.conv1d(ones((1, 1, 2)), ones((1, 1, 3))), ValueError, "does not fit into"),
    (lambda: F.conv1d(ones((1, 2, 4)), ones((3, 1, 2)), groups=2), ValueError, "groups is 2"),
    (lambda: F.conv1d(ones((1, 1, 4)), ones((2, 1, 2)), ones(1)), ValueError, r"bias has .*\[1\]"),
    (
        lambda: F.conv_transpose1d(ones((1, 3, 4)), ones((2, 1, 2))),
        ValueError,
        "conv_transpose1d: .*2 channels are expected",
    ),
    (
        lambda: F.conv_transpose1d(ones((1, 1, 4)), ones((1, 2, 2)), ones(1)),
        ValueError,
        r"conv_transpose1d: the bias has shape \[1\]",
    ),
    (lambda: F.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), padding="full"), ValueError, "'same'"),
    (
        lambda: F.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), stride=2, padding="same"),
        ValueError,
        "stride of 1",
    ),
    (lambda: F.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), stride=0), ValueError, "stride"),
    (lambda: F.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), padding=-1), ValueError, "padding"),
    (lambda: F.conv1d(ones((1, 1, 4)), ones((1, 1, 2)), stride=(1, 1)), ValueError, "stride"),
    (lambda: F.conv2d(ones(4), ones((1, 1, 2, 2))), ValueError, "conv2d: .*4 are expected"),
    (lambda: F.conv2d(ones((1, 1, 4, 4)), ones((1, 1, 2))), ValueError, "needs 4 axes"),
    (
        lambda: F.conv_transpose1d(ones((1, 1, 4)), ones((1, 1, 2)), output_padding=1),
        ValueError,
        "output_padding",
    ),
    (lambda: F.fold(ones((1, 4, 5)), (3, 3), 2), ValueError, r"fold: .*\[1, 4, 5\]"),
    (lambda: F.max_pool1d(ones((1, 1, 4)), 2, padding=2), ValueError, "half the kernel_size"),
    (lambda: F.max_pool1d(ones((1, 1, 2)), 3), ValueError, "do not fit"),
    (lambda: F.avg_pool2d(ones((1, 1, 4, 4)), 2, divisor_override=0), ValueError, "override is 0"),
    (lambda: F.adaptive_max_pool1d(ones((1, 1, 0)), 1), ValueError, "no elements"),
    (lambda: F.adaptive_avg_pool2d(ones((1, 1, 4, 4)), (1, 2, 3)), ValueError, "output_size"),
    (lambda: F.interpolate(ones((1, 1, 4)), 2, mode="bilinear"), ValueError, "'bilinear'"),
    (lambda: F.interpolate(ones((1, 1, 4))), ValueError, "either size or scale_factor"),
    (lambda: F.pixel_shuffle(ones((3, 2, 2)), 2), ValueError, "pixel_shuffle"),
    (lambda: F.layer_norm(ones((2, 3)), (2,)), ValueError, r"\[2, 3\] does not end in .*\[2\]"),
    (lambda: F.layer_norm(ones((2, 3)), (3,), ones(2)), ValueError, r"not \[2\]"),
    (lambda: F.group_norm(ones((2, 3)), 2), ValueError, "2 groups do not divide 3"),
    (lambda: F.batch_norm(ones((2, 3)), None, None), ValueError, "outside training"),
    (lambda: F.batch_norm(ones((2, 3)), ones(2), ones(3)), ValueError, "running_mean has shape"),
    (lambda: F.instance_norm(ones((2, 3, 1))), ValueError, "one value for each sample"),
    (lambda: F.cdist(ones((2, 3)), ones((2, 2))), ValueError, "cdist"),
    (lambda: F.mse_loss(ones(2), ones(2), reduction="max"), ValueError, "'max'"),
    (lambda: F.soft_margin_loss(ones(2), ones(2), reduction="max"), ValueError, "'max'"),
    (lambda: F.smooth_l1_loss(ones(2), ones(2), beta=-1.0), ValueError, "beta is -1"),
    (lambda: F.huber_loss(ones(2), ones(2), delta=0.0), ValueError, "delta is 0"),
    (lambda: F.binary_cross_entropy(ones(2) * 2, ones(2)), ValueError, "between 0 and 1"),
    (lambda: F.nll_loss(ones((2, 3)), np.array([0, 3])), IndexError, "3 classes"),
    (lambda: F.nll_loss(ones((2, 3)), np.array([0, 1, 1])), ValueError, r"\[3\].*\[2, 3\]"),
    (lambda: F.nll_loss(ones((2, 3)), np.array([0, 1]), ones(2)), ValueError, "3 classes"),
    (lambda: F.cross_entropy(ones((2, 3)), ones((2, 2))), ValueError, "probabilities"),
    (lambda: F.cross_entropy(ones(2), 0, label_smoothing=2.0), ValueError, "label_smoothing"),
    (lambda: F.gaussian_nll_loss(ones(2), ones(2), -ones(2)), ValueError, "negative entries"),
    (
        lambda: F.scaled_dot_product_attention(*[ones((2, 2))] * 3, ones((2, 2)), is_causal=True),
        ValueError,
        "not both",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS)
def test_wrong_arguments_are_refused_with_their_names(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1"])
@pytest.mark.parametrize("ignore", [-100, -1, 2])
@pytest.mark.parametrize("targets", [[0, 1, 2, 3], [2, 2, 0, 2], [3, 3, 3, 3]])
def test_the_mean_is_over_the_targets_that_count(targets, ignore, dtype):
    rng = np.random.default_rng(0)
    target = np.array(targets, dtype)
    if ignore < 0 and dtype != "u1":
        target[1] = ignore
    x = pb.tensor(rng.normal(size=(4, 5)), requires_grad=True)
    counts = [row for row in range(4) if int(target[row]) != ignore]

    def loss(scores):
        return -sum(scores[row, int(target[row])] for row in counts) / len(counts)

    found = F.nll_loss(x, pb.tensor(target), ignore_index=ignore)
    expected = loss(x)
    np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-15)
    (grad,), (wanted,) = pb.autograd.grad(found, x), pb.autograd.grad(expected, x)
    np.testing.assert_allclose(grad.numpy(), wanted.numpy(), rtol=1e-15)
    h = pb.func.hessian(lambda z: F.cross_entropy(z, pb.tensor(target), ignore_index=ignore))(x)
    g = pb.func.hessian(lambda z: loss(F.log_softmax(z, 1)))(x)
    np.testing.assert_allclose(h.detach().numpy(), g.detach().numpy(), atol=1e-14)
