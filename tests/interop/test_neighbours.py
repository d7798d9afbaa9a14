"""Tensors among other libraries' objects: gradients pass, or a loud error says how to detach.

Each library is tested where it is installed; ``docs/neighbours.md`` is the table of what works.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.errors import AutogradError

A = np.random.default_rng(0).standard_normal((20, 3))
Y = A @ [1.0, 2.0, 3.0]
V = np.random.default_rng(1).standard_normal(A.shape)


def slope_is_right(f, *, step=1e-6):
    """Compares a gradient in a direction with finite differences of the same code on arrays."""
    weights = np.random.default_rng(2).standard_normal(np.shape(f(A)))
    x = pb.tensor(A, requires_grad=True)
    with pb.autograd.graph.allow_mutation_on_saved_tensors():
        out = f(x)
        (out * weights).sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), f(A), atol=1e-12)
    numeric = np.sum((f(A + step * V) - f(A - step * V)) * weights) / (2 * step)
    assert np.sum(x.grad.numpy() * V) == pytest.approx(numeric, rel=1e-5, abs=1e-6)


# --- scikit-learn --------------------------------------------------------------------------------


@pytest.fixture
def sklearn():
    found = pytest.importorskip("sklearn")
    if os.environ.get("SCIPY_ARRAY_API") != "1":
        pytest.skip("a process of its own runs these tests, below")
    with found.config_context(array_api_dispatch=True):
        yield found


def test_scikit_learn_in_a_process_of_its_own():
    pytest.importorskip("sklearn")
    if os.environ.get("SCIPY_ARRAY_API") == "1":
        pytest.skip("this is the process")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}  # SciPy reads it when it is imported
    done = subprocess.run(
        [*command, "-k", "scikit_learn"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert f"{len(ESTIMATORS) + len(KERNELS) + 2} passed" in done.stdout, done.stdout


def _target(x):
    return pb.asarray(Y) if isinstance(x, pb.Tensor) else Y


def _mixture(x):
    mixture = pytest.importorskip("sklearn.mixture").GaussianMixture
    options = {"random_state": 0, "init_params": "random", "max_iter": 3, "tol": 0.0}
    return mixture(2, **options).fit(x)


def _estimator(path, *args, **options):
    module, name = path.rsplit(".", 1)
    return getattr(pytest.importorskip(f"sklearn.{module}"), name)(*args, **options)


def _kernel(name, x):
    return getattr(pytest.importorskip("sklearn.metrics.pairwise"), name)(x[:5], x[5:9])


ESTIMATORS = {
    "Ridge.coef_": lambda x: (
        _estimator("linear_model.Ridge", solver="svd").fit(x, _target(x)).coef_
    ),
    "Ridge.predict": lambda x: (
        _estimator("linear_model.Ridge", solver="svd").fit(x, _target(x)).predict(x)
    ),
    "PCA.explained_variance_": lambda x: (
        _estimator("decomposition.PCA", 2, svd_solver="full").fit(x).explained_variance_
    ),
    "PCA.transform": lambda x: (
        _estimator("decomposition.PCA", 2, svd_solver="full").fit(x).transform(x)
    ),
    "PCA by covariance": lambda x: (
        _estimator("decomposition.PCA", 2, svd_solver="covariance_eigh").fit(x).explained_variance_
    ),
    "GaussianMixture.means_": lambda x: _mixture(x).means_,
    "GaussianMixture.score_samples": lambda x: _mixture(x).score_samples(x),
    "MinMaxScaler": lambda x: _estimator("preprocessing.MinMaxScaler").fit_transform(x),
    "MaxAbsScaler": lambda x: _estimator("preprocessing.MaxAbsScaler").fit_transform(x),
    "Normalizer": lambda x: _estimator("preprocessing.Normalizer").fit_transform(x),
}
KERNELS = ["rbf_kernel", "linear_kernel", "polynomial_kernel", "sigmoid_kernel"]
KERNELS += ["cosine_similarity", "laplacian_kernel", "euclidean_distances"]


@pytest.mark.usefixtures("sklearn")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_of_scikit_learn_carry_gradients(name):
    slope_is_right(ESTIMATORS[name])


@pytest.mark.usefixtures("sklearn")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_scikit_learn_carry_gradients(name):
    slope_is_right(lambda x: _kernel(name, x))


@pytest.mark.usefixtures("sklearn")
@pytest.mark.filterwarnings("ignore")
def test_an_infinite_slope_of_scikit_learn_is_seen():
    x = pb.tensor(A, requires_grad=True)
    with pb.autograd.graph.allow_mutation_on_saved_tensors():
        (_estimator("preprocessing.StandardScaler").fit_transform(x) ** 3).sum().backward()
    assert pb.isnan(x.grad).all()


@pytest.mark.usefixtures("sklearn")
def test_values_that_scikit_learn_writes_over_are_missed():
    x = pb.tensor(A, requires_grad=True)
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        ESTIMATORS["PCA.transform"](x).sum().backward()


# --- xarray --------------------------------------------------------------------------------------


def _xarray():
    return pytest.importorskip("xarray")


@pytest.mark.parametrize(
    "f",
    [
        lambda d: d.sum("a"),
        lambda d: d.mean("a"),
        lambda d: d.where(d > -1).mean("a"),
        lambda d: d.mean("a", skipna=False),
        lambda d: d.std("a"),
        lambda d: d.where(d > -1).var("a", ddof=1),
        lambda d: d.max("a"),
        lambda d: d.median("a"),
        lambda d: d.quantile(0.3, "a"),
        lambda d: d.assign_coords(a=np.arange(20) // 5).groupby("a").mean(),
        lambda d: d.coarsen(a=5).mean(),
        lambda d: d.weighted(_xarray().DataArray([1.0, 2.0, 3.0], dims="b")).mean("b"),
        lambda d: d.fillna(0.0).diff("a").clip(-0.5, 0.5),
        lambda d: _xarray().cov(d, d**2, "a"),
        lambda d: d.assign_coords(a=np.arange(20.0)).differentiate("a"),
        lambda d: np.sin(d) * 2,
        lambda d: d.isel(a=slice(2, 9)).T,
        lambda d: _xarray().DataArray(A, dims=("a", "b")) * d,
        lambda d: d.data * _xarray().DataArray(A, dims=("a", "b")) - d,
        lambda d: d.data / (3 + d),
        lambda d: _xarray().where(d > 0, d, 0.0),
        lambda d: _xarray().concat([d, d], "a").cumsum("a"),
        lambda d: _xarray().dot(d, d, dim="b"),
    ],
)
def test_xarray_computes_with_tensors_inside(f):
    xr = _xarray()
    slope_is_right(lambda x: f(xr.DataArray(x, dims=("a", "b"))).data)


def test_xarray_gives_no_values_of_what_carries_a_gradient():
    xr = _xarray()
    x = pb.tensor(A, requires_grad=True)
    assert xr.DataArray(x).data is x
    with pytest.raises(AutogradError, match=r"detach\(\)"):
        xr.DataArray(x).values  # noqa: B018 - asks for it
    assert type(xr.DataArray(x.detach()).values) is np.ndarray


def test_operators_of_other_objects_are_called():
    class Unit:
        def __rmul__(self, other):
            return "taken over"

        def __gt__(self, other):
            return "compared"

    x = pb.tensor([1.0], requires_grad=True)
    assert x * Unit() == "taken over"
    assert (x < Unit()) == "compared"
    with pytest.raises(TypeError, match=r"not \w+\.Unit"):
        x + Unit()
    for nothing in ("text", {}, None):
        with pytest.raises(TypeError, match="a tensor, an array or a number is expected"):
            x * nothing


# --- pandas --------------------------------------------------------------------------------------


def test_pandas_takes_values_and_refuses_gradients():
    pd = pytest.importorskip("pandas")
    x = pb.tensor(A[:, 0], requires_grad=True)
    for make in (
        pd.Series,
        lambda x: pd.DataFrame({"a": x}),
        lambda x: pd.Series(A[:, 0]) * x,
        lambda x: np.add(pd.Series(A[:, 0]), x),
    ):
        with pytest.raises(AutogradError, match=r"detach\(\)"):
            make(x)
        assert np.asarray(make(x.detach())).dtype == float
    series = pd.Series(A[:, 0])
    np.testing.assert_array_equal(pb.asarray(series).numpy(), A[:, 0])
    assert type(x.detach() * series) is pd.Series
    assert type(x.detach() > series) is pd.Series
    with pytest.raises(AutogradError, match=r"detach\(\)"):
        x * series
    with pytest.raises(TypeError, match=r"not pandas\.Series"):
        x += series


# --- matplotlib ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes, x: axes.plot(x),
        lambda axes, x: axes.plot(np.arange(len(x)), x),
        lambda axes, x: axes.scatter(x[:, 0], x[:, 1]),
        lambda axes, x: axes.imshow(x),
        lambda axes, x: axes.hist(x[:, 0]),
        lambda axes, x: axes.bar(np.arange(len(x)), x[:, 0]),
        lambda axes, x: axes.contourf(x),
        lambda axes, x: axes.fill_between(np.arange(len(x)), x[:, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore:float")  # how it looks at the first element
def test_matplotlib_draws_values_and_error_proposes_detach(draw):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    x = pb.tensor(A, requires_grad=True)
    draw(axes, x.detach())
    with pytest.raises(AutogradError, match=r"x\.detach\(\)\.numpy\(\)"):
        draw(axes, x)


# --- PyTorch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "bool"])
def test_dlpack_shares_memory_with_pytorch_both_ways(torch, dtype):
    ours = pb.asarray(np.ones((3, 4), dtype))
    theirs = torch.from_dlpack(ours.T[::2])
    assert tuple(theirs.shape) == (2, 3)
    theirs[0, 1] = 0
    assert ours.numpy()[1, 0] == 0
    back = pb.from_dlpack(torch.from_dlpack(ours))
    assert back.dtype == ours.dtype
    back[2, 2] = 0
    assert ours.numpy()[2, 2] == 0


def test_dlpack_refuses_gradients_of_either_side(torch):
    x = pb.tensor([1.0], requires_grad=True)
    for make in (torch.from_dlpack, torch.as_tensor, torch.tensor):
        with pytest.raises(AutogradError, match=r"detach\(\)"):
            make(x)
    assert torch.from_dlpack(x.detach()).item() == 1
    for mixed in (lambda t: x * t, lambda t: t * x, lambda t: x @ t):
        with pytest.raises(TypeError, match=r"not torch\.Tensor; convert it with pb\.from_dlpack"):
            mixed(torch.ones(1))
    with pytest.raises(BufferError, match="detach"):
        pb.from_dlpack(torch.ones(1, requires_grad=True))
