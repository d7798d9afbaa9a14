"""What the records of linear algebra and Fourier transforms do not say: names, errors, forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.autograd import gradcheck

RNG = np.random.default_rng(0)


def ones(*shape):
    return pb.tensor(np.ones(shape))


# --- namespaces ---


@pytest.mark.parametrize("name", ["linalg", "fft"])
def test_a_namespace_has_every_function_of_numpys(name):
    theirs = {n for n in getattr(np, name).__all__ if not n.startswith("_")}
    assert theirs <= set(getattr(pb, name).__all__)


@pytest.mark.parametrize("name", ["linalg", "fft"])
def test_operators_of_a_namespace_are_not_at_the_top(name):
    assert not [n for n in dir(pb) if n.startswith(f"{name}_")]
    assert hasattr(pb, name)


def test_several_results_have_names():
    a = ones(2, 2) + pb.tensor(np.eye(2))
    assert pb.linalg.eigh(a)._fields == ("eigenvalues", "eigenvectors")
    assert pb.linalg.eig(a)._fields == ("eigenvalues", "eigenvectors")
    assert pb.linalg.qr(a)._fields == ("Q", "R")
    assert pb.linalg.svd(a)._fields == ("U", "S", "Vh")
    assert pb.linalg.slogdet(a)._fields == ("sign", "logabsdet")


def test_frequencies_are_numpys():
    np.testing.assert_array_equal(pb.fft.fftfreq(5, 0.1).numpy(), np.fft.fftfreq(5, 0.1))
    np.testing.assert_array_equal(pb.fft.rfftfreq(6).numpy(), np.fft.rfftfreq(6))
    assert pb.fft.fftfreq(4, dtype="float32").dtype == np.float32
    assert pb.fft.rfftfreq(4, dtype="float32").dtype == np.float32


def test_the_operator_for_matrix_products():
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))
    for left, right in ((pb.tensor(a), pb.tensor(b)), (a, pb.tensor(b)), (pb.tensor(a), b)):
        result = left @ right
        assert isinstance(result, pb.Tensor)
        np.testing.assert_allclose(result.numpy(), a @ b)


# --- errors ---


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: pb.matmul(ones(2, 3), ones(2, 3)), ValueError, r"matmul: shapes \(2, 3\) and"),
        (lambda: pb.matmul(ones(2, 1, 3), ones(3, 3, 1)), ValueError, "do not broadcast"),
        (lambda: pb.matmul(ones(2), 3.0), ValueError, "use multiply"),
        (lambda: pb.dot(ones(2, 3), ones(2, 3)), ValueError, r"dot: shapes \(2, 3\) and"),
        (lambda: pb.inner(ones(2, 3), ones(2)), ValueError, r"inner: shapes \(2, 3\) and \(2,\)"),
        (lambda: pb.vdot(ones(3), ones(2)), ValueError, r"vdot: shapes \(3,\) and \(2,\)"),
        (lambda: pb.vecdot(ones(3), ones(2)), ValueError, r"vecdot: .*\(3,\) and \(2,\)"),
        (lambda: pb.tensordot(ones(2, 3), ones(2), 1), ValueError, r"tensordot: shapes \(2, 3\)"),
        (lambda: pb.tensordot(ones(2), ones(2), 2), ValueError, "tensordot: axes=2"),
        (lambda: pb.cross(ones(2), ones(3)), ValueError, r"cross: shapes \(2,\) and \(3,\)"),
        (lambda: pb.linalg.cross(ones(2), ones(2)), ValueError, r"cross: shapes \(2,\)"),
        (lambda: pb.linalg.outer(ones(2, 2), ones(2)), ValueError, "linalg.outer: shapes"),
        (lambda: pb.trace(ones(3)), ValueError, r"trace: .*\(3,\)"),
        (lambda: pb.convolve(ones(0), ones(2)), ValueError, r"convolve: shapes \(0,\)"),
        (lambda: pb.correlate(ones(2, 2), ones(2)), ValueError, r"correlate: shapes \(2, 2\)"),
        (lambda: pb.polyval(ones(2, 2), ones(2)), ValueError, r"polyval: .*\(2, 2\)"),
        (lambda: pb.linalg.inv(ones(2, 3)), np.linalg.LinAlgError, r"linalg.inv: .*\(2, 3\)"),
        (lambda: pb.linalg.inv(ones(2, 2)), np.linalg.LinAlgError, "linalg.inv: Singular"),
        (lambda: pb.linalg.solve(ones(2, 2), ones(3)), ValueError, r"solve: .*\(2, 2\) and \(3,\)"),
        (lambda: pb.linalg.cholesky(-ones(2, 2)), np.linalg.LinAlgError, "linalg.cholesky: "),
        (lambda: pb.linalg.qr(ones(2, 2), "raw"), ValueError, "linalg.qr: mode is 'raw'"),
        (lambda: pb.linalg.svd(ones(2)), np.linalg.LinAlgError, r"linalg.svd: .*\(2,\)"),
        (lambda: pb.linalg.expm(ones(2, 3)), np.linalg.LinAlgError, r"linalg.expm: .*\(2, 3\)"),
        (lambda: pb.linalg.norm(ones(2, 2), "x"), ValueError, "ord='x'"),
        (lambda: pb.linalg.norm(ones(2), "fro"), ValueError, r"linalg.norm: .*\(2,\)"),
        (lambda: pb.linalg.norm(ones(2, 2, 2), 1), ValueError, r"linalg.norm: shape \(2, 2, 2\)"),
        (lambda: pb.linalg.norm(ones(2, 2), 1, (0, -2)), ValueError, "same axis twice"),
        (lambda: pb.linalg.matrix_norm(ones(2)), ValueError, r"matrix_norm: shape \(2,\)"),
        (lambda: pb.linalg.cond(ones(0, 0)), np.linalg.LinAlgError, "linalg.cond: "),
        (lambda: pb.linalg.matrix_power(ones(2, 3), 2), np.linalg.LinAlgError, "matrix_power: "),
        (lambda: pb.linalg.matrix_power(ones(2, 2), 0.5), TypeError, "n is 0.5"),
        (lambda: pb.linalg.multi_dot([ones(2, 2)]), ValueError, "multi_dot: 1 given"),
        (lambda: pb.linalg.multi_dot([ones(2, 3)] * 2), ValueError, "multi_dot: shapes .* match"),
        (lambda: pb.linalg.multi_dot([ones(2, 2, 2)] * 2), np.linalg.LinAlgError, "multi_dot: "),
        (lambda: pb.linalg.pinv(ones(2, 2), 0.1, rtol=0.1), ValueError, "rcond and rtol"),
        (lambda: pb.linalg.tensorinv(ones(2, 3)), np.linalg.LinAlgError, "tensorinv: shape"),
        (lambda: pb.linalg.tensorsolve(ones(2, 3), ones(2)), np.linalg.LinAlgError, "3 unknowns"),
        (lambda: pb.fft.fft(ones(2), 0), ValueError, r"fft.fft: .*\(2,\)"),
        (lambda: pb.fft.fft(ones(2), norm="x"), ValueError, "fft.fft: Invalid norm"),
        (lambda: pb.fft.fft(ones(2), axis=1), IndexError, r"fft.fft: .*\(2,\)"),
        (lambda: pb.fft.hfft(ones(2), axis=1), IndexError, r"fft.hfft: .*\(2,\)"),
        (lambda: pb.fft.rfft(ones(2) * 1j), TypeError, "fft.rfft: dtype complex128"),
        (lambda: pb.fft.fftn(ones(2, 2), (2,), (0, 1)), ValueError, "fft.fftn: .* length"),
        (lambda: pb.fft.fftn(ones(2), axes=(1,)), IndexError, r"fft.fftn: .*\(2,\)"),
        (lambda: pb.fft.irfftn(ones(2), axes=(1,)), IndexError, r"fft.irfftn: .*\(2,\)"),
        (lambda: pb.einsum("ij,jk", ones(2, 3), ones(2, 3)), ValueError, r"einsum: .*\(2, 3\)"),
        (lambda: pb.einsum("ij", ones(2)), ValueError, r"einsum: 'ij' .* \(2,\)"),
        (lambda: pb.einsum("ij", ones(2, 2), ones(2)), ValueError, "1 operands, not 2"),
        (lambda: pb.einsum("i->ij", ones(2)), ValueError, "output of 'i->ij'"),
        (lambda: pb.einsum("ij->ii", ones(2, 2)), ValueError, "output of 'ij->ii'"),
        (lambda: pb.einsum("...i->i", ones(2, 2)), ValueError, "needs the ellipsis"),
        (lambda: pb.einsum("i%->i", ones(2, 2)), ValueError, "letters, commas"),
        (lambda: pb.einsum(ones(2), [99]), ValueError, r"labels \[99\]"),
    ],
)
def test_an_error_names_the_operator_and_the_shapes(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_an_error_is_the_same_kind_as_numpys():
    with pytest.raises(np.exceptions.AxisError, match=r"linalg\.vector_norm"):
        pb.linalg.vector_norm(ones(2), axis=3)


# --- einsum ---


def test_a_diagonal_by_einsum_is_no_view():
    x = pb.tensor(np.eye(2))
    pb.einsum("ii->i", x).add_(1.0)
    assert x.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_factor_without_gradient_costs_no_product(monkeypatch):
    asked = []
    kernel = pb.autograd.namespaces.arrays._einsum

    def counting(subscripts, operands, **kwargs):
        asked.append(subscripts)
        return kernel(subscripts, operands, **kwargs)

    monkeypatch.setattr(pb.autograd.namespaces.arrays, "_einsum", counting)
    x = pb.tensor(np.ones((2, 3)), requires_grad=True)
    pb.einsum("ij,jk->ik", x, ones(3, 2)).sum().backward()
    assert asked == ["ik,jk->ij"]


@st.composite
def sums(draw):
    """Subscripts with repeated and lone labels, ellipses and lengths of one, and the operands."""
    lengths = {c: draw(st.integers(1, 3)) for c in "abcd"}
    more = draw(st.lists(st.integers(1, 2), max_size=2))
    terms, arrays = [], []
    for _ in range(draw(st.integers(1, 3))):
        term = draw(st.text("abcd", max_size=3))
        shape = [lengths[c] if term.count(c) > 1 or draw(st.booleans()) else 1 for c in term]
        if draw(st.booleans()):
            rest = more[draw(st.integers(0, len(more))) :]
            place = draw(st.integers(0, len(term)))
            term, shape = term[:place] + "..." + term[place:], shape[:place] + rest + shape[place:]
        terms.append(term)
        arrays.append(RNG.uniform(-1, 1, shape))
    text = ",".join(terms)
    if draw(st.booleans()):
        output = draw(st.permutations(sorted(set(text) - set(",."))))
        kept = "".join(output[: draw(st.integers(0, len(output)))])
        text += "->" + ("..." if "..." in text else "") + kept
    return text, arrays


@settings(max_examples=150, deadline=None)
@given(sums(), st.booleans())
def test_any_einsum_is_numpys_and_has_the_right_gradient(case, optimize):
    text, arrays = case
    result = pb.einsum(text, *arrays, optimize=optimize)
    np.testing.assert_allclose(result.numpy(), np.einsum(text, *arrays), rtol=1e-10, atol=1e-12)

    leaves = tuple(pb.tensor(x, requires_grad=True) for x in arrays)
    assert gradcheck(
        lambda *operands: pb.einsum(text, *operands, optimize=optimize),
        leaves,
        atol=1e-6,
        rtol=1e-6,
        fast_mode=True,
        check_undefined_grad=False,
    )


# --- particular functions ---


def test_multi_dot_takes_the_cheapest_order(monkeypatch):
    sizes = []
    kernel = pb._generated.functions_products.matmul

    def counting(a, b):
        sizes.append(a.shape[0] * a.shape[1] * b.shape[1])
        return kernel(a, b)

    monkeypatch.setattr(pb._generated.functions_products, "matmul", counting)
    pb.linalg.multi_dot([ones(10, 100), ones(100, 5), ones(5, 50)])
    assert sum(sizes) == 10 * 100 * 5 + 10 * 5 * 50


def test_the_exponential_of_large_and_of_nilpotent_matrices():
    turn = np.array([[0.0, -30.0], [30.0, 0.0]])
    expected = [[np.cos(30), -np.sin(30)], [np.sin(30), np.cos(30)]]
    np.testing.assert_allclose(pb.linalg.expm(turn).numpy(), expected, rtol=1e-12, atol=1e-12)
    shift = np.diag([1e8], 1)
    np.testing.assert_allclose(pb.linalg.expm(shift).numpy(), np.eye(2) + shift, rtol=1e-15)
    np.testing.assert_allclose(pb.linalg.expm(np.eye(2, dtype=int)).numpy(), np.e * np.eye(2))


def test_the_derivative_of_the_exponential_does_not_suffer_from_a_large_gradient():
    x = pb.tensor(RNG.uniform(-1, 1, (3, 3)), requires_grad=True)
    weight = RNG.uniform(-1, 1, (3, 3))
    (small,) = pb.autograd.grad(pb.linalg.expm(x), x, pb.tensor(weight))
    (large,) = pb.autograd.grad(pb.linalg.expm(x), x, pb.tensor(weight * 1e9))
    np.testing.assert_allclose(large.numpy(), small.numpy() * 1e9, rtol=1e-12)


def test_the_condition_of_a_singular_matrix_is_infinite():
    for p in (None, 1, "fro", np.inf):
        assert pb.linalg.cond(ones(2, 2) * 0, p).item() == np.inf
    assert np.isnan(pb.linalg.cond(ones(2, 2) * np.nan, 1).item())


def test_the_gradient_of_eigenvectors_is_hermitian():
    x = pb.tensor(RNG.normal(size=(3, 3)), requires_grad=True)
    (vectors := pb.linalg.eigh(x).eigenvectors)[0, 0].backward()
    assert vectors.shape == (3, 3)
    np.testing.assert_allclose(x.grad.numpy(), x.grad.numpy().T, rtol=1e-12)


def test_a_shared_factor_gets_one_product_for_the_whole_stack():
    x, w = pb.tensor(RNG.normal(size=(4, 5, 2))), pb.tensor(np.ones((2, 3)), requires_grad=True)
    node = pb.matmul(x, w).grad_fn
    (to_w,) = [
        g for g in node.backward(pb.autograd.namespaces.arrays, np.ones((4, 5, 3))) if g is not None
    ]
    assert to_w.shape == (2, 3)


def test_first_power_of_a_matrix_is_a_copy():
    x = pb.tensor(np.eye(2))
    pb.linalg.matrix_power(x, 1).add_(1.0)
    assert x.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def _cofactors(a):
    keep = ~np.eye(len(a), dtype=bool)
    minors = [[np.linalg.det(a[i][:, j]) for j in keep] for i in keep]
    return np.array(minors) * np.where(np.indices(a.shape).sum(0) % 2, -1, 1)


@pytest.mark.parametrize(
    ("n", "values"),
    [
        (2, []),
        (3, [1.0] * 3),
        (8, [1.0] * 8),
        (8, [1.0] * 7),
        (8, [1.0] * 7 + [1e-6]),
        (8, [2.0] * 3 + [1.0] * 2),
        (8, []),
        (10, [3.0, 2.0] + [1e-5] * 8),
        (9, [1.0] + [1e-3] * 7),
    ],
)
@pytest.mark.parametrize("mapped", [False, True], ids=["one", "samples"])
def test_det_has_all_derivatives_where_singular_values_are_equal_or_zero(n, values, mapped):
    """The cofactors are polynomials, whatever they are computed by."""
    rng = np.random.default_rng(0)
    u, vh = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    a = u @ np.diag(values + [0.0] * (n - len(values))) @ vh
    w = rng.normal(size=(n, n)) / n
    # Derivatives along w are coefficients of a polynomial, found by its values around a circle.
    turns = np.exp(2j * np.pi * np.arange(n) / n)
    expected = np.fft.fft([_cofactors(a + t * w) for t in turns], axis=0).real / n

    def following(fn):
        return lambda x: (pb.func.grad(fn)(x) * w).sum()

    fn = pb.linalg.det
    for order, factor in [(0, 1), (1, 1), (2, 2), (3, 6)]:
        if order < n:
            gradient = pb.func.grad(fn)
            x = pb.tensor(np.stack([a, a]) if mapped else a)
            found = pb.func.vmap(gradient)(x)[1] if mapped else gradient(x)
            np.testing.assert_allclose(found.numpy(), factor * expected[order], atol=1e-13)
        fn = following(fn)


def test_eigenvalues_are_complex_except_for_numpys_function():
    a = pb.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    turn = pb.tensor([[0.0, -1.0], [1.0, 0.0]])
    assert pb.linalg.eigvals(a).dtype == pb.linalg.eig(a).eigenvectors.dtype == complex
    values, vectors = np.linalg.eig(a)
    assert values.dtype == vectors.dtype == np.linalg.eigvals(a).dtype == float
    assert np.linalg.eigvals(turn).dtype == np.linalg.eig(turn).eigenvalues.dtype == complex
    np.linalg.eigvals(a).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), np.eye(2), atol=1e-12)
    stack = pb.stack([a.detach(), turn])
    with pb.no_grad():
        assert pb.func.vmap(pb.linalg.eigvals)(stack).dtype == complex


def test_a_number_is_no_vector_and_has_no_axis():
    x = pb.tensor([1.0, 2.0, 3.0])
    for vector in (x, x.clone().requires_grad_()):
        with pytest.raises(ValueError, match=r"shapes \(3,\) and \(\) need length 3"):
            pb.linalg.cross(vector, 2.0)
        with pytest.raises(ValueError, match=r"shapes \(\) and \(3,\) need length 3"):
            pb.linalg.cross(2.0, vector)
        with pytest.raises(ValueError, match="take_along_axis"):
            pb.take_along_axis(vector, 1, 0)
    with pytest.raises(ValueError, match="take_along_axis: axis 0 is out of bounds"):
        pb.take_along_axis(3.0, pb.tensor([0, 1]), 0)
