"""Cost of SciPy's derivative rules, in processor time, against SciPy's value alone or a peer.

    python benchmarks/bench_scipy.py [name ...]

Each row compares two functions that are run in turn; the fastest sample of each counts. The last
column is the target of the ratio.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # processor time counts all threads

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.interpolate as si
import scipy.linalg as sl
import scipy.ndimage as nd
import scipy.signal as sg
from scipy import sparse
from scipy.sparse.linalg import spsolve

import pullback as pb

SECONDS = 1.5  # for each row


class Row(NamedTuple):
    """Two functions to compare, and the largest ratio of their times."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    target: float


def fastest(row: Row, seconds: float = SECONDS) -> tuple[float, float]:
    """The shortest processor times of both, run in turn."""
    best = [np.inf, np.inf]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for place, call in enumerate((row.ours, row.theirs)):
            start = time.process_time()
            call()
            best[place] = min(best[place], time.process_time() - start)
    return best[0], best[1]


def positive(n: int) -> np.ndarray[Any, Any]:
    a = np.random.default_rng(0).standard_normal((n, n))
    return a @ a.T / n + np.eye(n)


def cho_solve_row(n: int, columns: int) -> Row:
    factor, b = sl.cho_factor(positive(n)), np.random.default_rng(1).random((n, columns))
    c = pb.tensor(factor[0], requires_grad=True)
    right = pb.tensor(b, requires_grad=True)

    ones = pb.ones(b.shape)

    def ours() -> None:
        pb.autograd.grad(sl.cho_solve((c, False), right), (c, right), ones)

    return Row(f"cho_solve {n}, {columns} columns", ours, lambda: sl.cho_solve(factor, b), 3.5)


def gaussian_process_row(n: int) -> Row | None:
    """Log likelihood of a Gaussian process with three parameters, beside HIPS autograd."""
    try:
        import autograd.numpy as anp
        from autograd import value_and_grad
    except ImportError:
        return None
    x = np.sort(np.random.default_rng(0).random(n)) * 10
    y, squares = np.sin(x), (x[:, None] - x) ** 2
    parameters = np.array([0.1, -0.2, -1.0])

    def ours(p: Any) -> Any:
        kernel = np.exp(p[0] - squares * np.exp(p[1])) + np.exp(p[2]) * np.eye(n)
        factor = sl.cho_factor(kernel, lower=True)
        return y @ sl.cho_solve(factor, y) / 2 + np.log(np.diag(factor[0])).sum()

    def theirs(p: Any) -> Any:
        kernel = anp.exp(p[0] - squares * anp.exp(p[1])) + anp.exp(p[2]) * anp.eye(n)
        factor = anp.linalg.cholesky(kernel)
        return y @ anp.linalg.solve(kernel, y) / 2 + anp.sum(anp.log(anp.diag(factor)))

    mine, peer = pb.value_and_grad(ours), value_and_grad(theirs)
    np.testing.assert_allclose(mine(parameters)[1], peer(parameters)[1], rtol=1e-6)
    return Row(f"GP {n}, HIPS", lambda: mine(parameters), lambda: peer(parameters), 0.7)


def cubic_spline_row(n: int) -> Row:
    x, points = np.linspace(0, 1, n), np.sort(np.random.default_rng(0).random(n))
    y = np.sin(9 * x)
    data = pb.tensor(y, requires_grad=True)

    def ours() -> None:
        pb.autograd.grad(si.CubicSpline(x, data)(points).sum(), data)

    return Row(f"CubicSpline {n}, by data", ours, lambda: si.CubicSpline(x, y)(points).sum(), 3.5)


def grid_row(n: int, argument: str) -> Row:
    axes, rng = (np.linspace(0, 1, 100),) * 2, np.random.default_rng(0)
    values, points = rng.random((100, 100)), rng.random((n, 2))
    own = pb.tensor(values if argument == "values" else points, requires_grad=True)

    def ours() -> None:
        given = (own, points) if argument == "values" else (values, own)
        found = si.RegularGridInterpolator(axes, given[0])(given[1])
        pb.autograd.grad(found.sum(), own)

    def theirs() -> None:
        si.RegularGridInterpolator(axes, values)(points).sum()

    return Row(f"RegularGrid {n}, by {argument}", ours, theirs, 3.5)


def spsolve_row(n: int) -> Row:
    """The gradient by all values of the matrix of a grid, and by the right side."""
    ones = np.ones(n)
    line = sparse.diags_array([2 * ones, -ones[1:], -ones[1:]], offsets=[0, 1, -1])
    matrix = sparse.csr_array(
        sparse.kron(line, sparse.eye_array(n)) + sparse.kron(sparse.eye_array(n), line)
    )
    b = np.random.default_rng(0).random(n * n)
    values, right = pb.tensor(matrix.data, requires_grad=True), pb.tensor(b, requires_grad=True)

    def ours() -> None:
        built = sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        pb.autograd.grad(spsolve(built, right).sum(), (values, right))

    return Row(f"spsolve {n * n}", ours, lambda: spsolve(matrix, b), 2.2)


def filter_row(name: str, call: Callable[..., Any], *arrays: Any) -> Row:
    """The gradient by all arguments of a filter, beside its value."""
    tensors = [pb.tensor(array, requires_grad=True) for array in arrays]
    ones = pb.ones(call(*arrays).shape)

    def ours() -> None:
        pb.autograd.grad(call(*tensors), tensors, ones)

    return Row(name, ours, lambda: call(*arrays), 3.5)


def filter_rows() -> list[Row]:
    rng = np.random.default_rng(0)
    image, x = rng.standard_normal((512, 512)), rng.standard_normal(200_000)
    h, kernel = rng.standard_normal(2001), rng.standard_normal((9, 9))
    b, a = sg.butter(4, 0.2)
    sos = sg.butter(4, 0.2, output="sos")
    at = np.indices((512, 512)) + rng.uniform(-2, 2, (2, 512, 512))
    matrix = np.array([[0.98, 0.05], [-0.05, 0.98]])
    return [
        filter_row("convolve", sg.convolve, x, h),
        filter_row(
            "fftconvolve", lambda u, v: sg.fftconvolve(u, v, "same"), image, image[:64, :64]
        ),
        filter_row("oaconvolve", sg.oaconvolve, x, h),
        filter_row("convolve2d", sg.convolve2d, image, kernel),
        filter_row("lfilter, by b, a and x", sg.lfilter, b, a, x),
        filter_row("lfilter, by x", lambda u: sg.lfilter(b, a, u), x),
        filter_row("sosfilt, by x", lambda u: sg.sosfilt(sos, u), x),
        filter_row("filtfilt, by x", lambda u: sg.filtfilt(b, a, u), x),
        filter_row("savgol_filter", lambda u: sg.savgol_filter(u, 31, 3), x),
        filter_row("resample_poly", lambda u: sg.resample_poly(u, 3, 2), x),
        filter_row("welch", lambda u: sg.welch(u, nperseg=1024)[1], x),
        filter_row("gaussian_filter", lambda u: nd.gaussian_filter(u, 3.0), image),
        filter_row("gaussian_filter, by sigma", nd.gaussian_filter, image, np.array(3.0)),
        filter_row("uniform_filter", lambda u: nd.uniform_filter(u, 9), image),
        filter_row("ndimage.correlate", nd.correlate, image, kernel),
        filter_row("median_filter", lambda u: nd.median_filter(u, 5), image),
        filter_row("maximum_filter", lambda u: nd.maximum_filter(u, 5), image),
        filter_row("map_coordinates, by image", lambda u: nd.map_coordinates(u, at), image),
        filter_row("map_coordinates, by points", lambda u: nd.map_coordinates(image, u), at),
        filter_row("affine_transform, by matrix", lambda m: nd.affine_transform(image, m), matrix),
        filter_row("zoom", lambda u: nd.zoom(u, 2), image[:256, :256]),
    ]


def rows() -> list[Row]:
    found = [
        cho_solve_row(300, 40),
        cho_solve_row(1000, 1),
        cho_solve_row(1000, 100),
        gaussian_process_row(300),
        cubic_spline_row(10_000),
        cubic_spline_row(100_000),
        grid_row(10_000, "values"),
        grid_row(10_000, "points"),
        grid_row(100_000, "values"),
        grid_row(100_000, "points"),
        spsolve_row(100),
        *filter_rows(),
    ]
    return [row for row in found if row is not None]


def main(names: list[str]) -> None:
    print(f"{'':28}{'ours':>10}{'theirs':>10}{'ratio':>8}{'target':>8}")
    for row in rows():
        if not names or any(name in row.name for name in names):
            ours, theirs = fastest(row)
            print(
                f"{row.name:28}{ours * 1e6:8.0f} µs{theirs * 1e6:8.0f}"
                f"{ours / theirs:8.2f}{row.target:8.2f}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
