"""Filters of scipy.signal and scipy.ndimage: bad input, refusals, constants, corner cases."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pip install scipy runs these tests")

import scipy.ndimage as nd
import scipy.signal as sg
from scipy import fft

import pullback as pb
from pullback.errors import DerivativeMissingError
from pullback.interop.scipy_special import load_functions
from pullback.scipy.rules import ndimage_splines

IMAGE = np.random.default_rng(3).standard_normal((6, 7))
X = IMAGE.ravel()
SOS = sg.butter(2, 0.3, output="sos")
SPLINE_MODES = ("reflect", "mirror", "nearest", "wrap", "constant")
SPLINE_MODES += ("grid-mirror", "grid-wrap", "grid-constant")


@pytest.fixture(scope="module", autouse=True)
def _table():
    """Registers the operators of special functions once, so that no test leaves them behind."""
    load_functions()


def tensor(value):
    return pb.tensor(value, requires_grad=True)


BAD = {
    "correlate1d mode": (lambda v: nd.correlate1d(v, [1.0, 2.0], mode="some"), IMAGE),
    "correlate1d origin": (lambda v: nd.correlate1d(v, [1.0, 2.0], origin=3), IMAGE),
    "correlate1d axis": (lambda v: nd.correlate1d(v, [1.0, 2.0], axis=2), IMAGE),
    "correlate1d weights": (lambda v: nd.correlate1d(v, [[1.0]]), IMAGE),
    "correlate weights": (lambda v: nd.correlate(v, [1.0, 2.0]), IMAGE),
    "correlate modes": (lambda v: nd.correlate(v, np.eye(2), mode=["wrap", "wrap"]), IMAGE),
    "gaussian_filter sigma": (lambda v: nd.gaussian_filter(v, [1.0, 1.0, 1.0]), IMAGE),
    "gaussian_filter order": (lambda v: nd.gaussian_filter(v, 1.0, order=-1), IMAGE),
    "gaussian_filter axes": (lambda v: nd.gaussian_filter(v, 1.0, axes=(0, 5)), IMAGE),
    "uniform_filter1d size": (lambda v: nd.uniform_filter1d(v, 0), IMAGE),
    "median_filter size": (nd.median_filter, IMAGE),
    "median_filter complex": (lambda v: nd.median_filter(v, 3), IMAGE + 1j),
    "rank_filter rank": (lambda v: nd.rank_filter(v, 20, 3), IMAGE),
    "map_coordinates order": (lambda v: nd.map_coordinates(v, [[1.0], [2.0]], order=6), IMAGE),
    "map_coordinates shape": (lambda v: nd.map_coordinates(v, [[1.0]]), IMAGE),
    "map_coordinates complex": (lambda v: nd.map_coordinates(IMAGE, v), np.ones((2, 3)) + 1j),
    "map_coordinates mode": (lambda v: nd.map_coordinates(v, [[1.0], [2.0]], mode="s"), IMAGE),
    "affine_transform matrix": (lambda v: nd.affine_transform(v, np.eye(3)[:, :2]), IMAGE),
    "rotate one axis": (lambda v: nd.rotate(v, 10.0), X),
    "rotate plane": (lambda v: nd.rotate(v, 10.0, axes=(0, 3)), IMAGE),
    "shift length": (lambda v: nd.shift(v, (1.0, 2.0, 3.0)), IMAGE),
    "spline_filter order": (lambda v: nd.spline_filter(v, 1), IMAGE),
    "convolve mode": (lambda v: sg.convolve(v, X, "some"), X),
    "convolve method": (lambda v: sg.convolve(v, X, method="some"), X),
    "convolve dimension": (lambda v: sg.convolve(v, X), IMAGE),
    "convolve valid": (lambda v: sg.convolve(v, np.ones((9, 2)), "valid", "direct"), IMAGE),
    "fftconvolve axes": (lambda v: sg.fftconvolve(v, IMAGE, axes=5), IMAGE),
    "convolve2d line": (lambda v: sg.convolve2d(v, IMAGE), X),
    "lfilter a": (lambda a: sg.lfilter([1.0], a, X), np.zeros(2)),
    "lfilter x": (lambda v: sg.lfilter([1.0], [1.0, 0.5], v), np.array(1.0)),
    "lfilter zi": (lambda v: sg.lfilter([1.0], [1.0, 0.5], v, zi=np.ones(4)), X),
    "sosfilt shape": (lambda v: sg.sosfilt(np.ones((2, 5)), v), X),
    "sosfilt leading": (lambda s: sg.sosfilt(s, X), 2.0 * SOS),
    "filtfilt short": (lambda v: sg.filtfilt([1.0], [1.0, 0.5], v), X[:4]),
    "filtfilt padtype": (lambda v: sg.filtfilt([1.0], [1.0, 0.5], v, padtype="some"), X),
    "savgol_filter window": (lambda v: sg.savgol_filter(v, 99, 2), X),
    "savgol_filter mode": (lambda v: sg.savgol_filter(v, 5, 2, mode="some"), X),
    "medfilt even": (lambda v: sg.medfilt(v, 4), X),
    "butter frequency": (lambda w: sg.butter(2, w), np.array(1.5)),
    "butter order of frequencies": (lambda w: sg.butter(2, w, "band"), np.array([0.5, 0.2])),
    "butter band": (lambda w: sg.butter(2, w, "some"), np.array(0.5)),
    "butter output": (lambda w: sg.butter(2, w, output="some"), np.array(0.5)),
    "welch scaling": (lambda v: sg.welch(v, nperseg=8, scaling="some"), X),
    "welch overlap": (lambda v: sg.welch(v, nperseg=8, noverlap=9), X),
    "welch average": (lambda v: sg.welch(v, nperseg=8, average="some"), X),
    "stft boundary": (lambda v: sg.stft(v, nperseg=8, boundary="some"), X),
    "stft nfft": (lambda v: sg.stft(v, nperseg=8, nfft=4), X),
    "istft one axis": (sg.istft, X + 1j),
    "chirp method": (lambda t: sg.chirp(t, 1.0, 2.0, 3.0, "some"), X),
    "iirnotch frequency": (lambda w: sg.iirnotch(w, 3.0), np.array(2.0)),
}


@pytest.mark.parametrize("name", BAD)
def test_the_exception_is_scipys(name):
    call, value = BAD[name]
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whichever SciPy raises
        call(value)
    x = tensor(value)
    with pytest.raises(theirs.type) as ours:
        call(x)
    assert not isinstance(ours.value, pb.errors.AutogradError), ours.value


REFUSED = {
    "output='an array'": lambda x: nd.gaussian_filter(x, 1.0, output=np.zeros_like(IMAGE)),
    "output=dtype": lambda x: nd.sobel(x, output=np.int64),
    "cval=nan": lambda x: nd.correlate1d(x, [1.0, 2.0], mode="constant", cval=np.nan),
    "structure='an array'": lambda x: nd.grey_dilation(x, structure=np.ones((2, 2))),
    "scipy.ndimage.generic_filter:": lambda x: nd.generic_filter(x, np.mean, 3),
    "scipy.ndimage.geometric_transform:": lambda x: nd.geometric_transform(x, lambda c: c),
    "'zoom'": lambda x: nd.zoom(IMAGE, x[0, 0]),
    "'size'": lambda x: nd.fourier_ellipsoid(IMAGE + 0j, x[0, 0]),
    "'rs'": lambda x: sg.ellip(3, 1.0, 20.0 + x[0, 0], 0.3),
    "mode='line'": lambda x: sg.upfirdn([1.0, 2.0], x, mode="line"),
    "mode='phase'": lambda x: sg.spectrogram(x[0], nperseg=4, mode="phase"),
    "scipy.signal.ShortTimeFFT": lambda x: sg.ShortTimeFFT(x[0], 2, 1.0),
    "scipy.signal.minimum_phase": lambda x: sg.minimum_phase(x[0]),
    "scipy.signal.windows.dpss": lambda x: sg.windows.dpss(8, x[0, 0]),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_derivative_is_refused_by_name(words):
    with pytest.raises(DerivativeMissingError) as error:
        REFUSED[words](tensor(IMAGE))
    assert words in str(error.value)


def test_a_compiled_filter_names_the_one_that_differentiates():
    with pytest.raises(pb.errors.AutogradError, match=r"sepfir2d.*scipy.signal.convolve2d"):
        sg.sepfir2d(tensor(IMAGE), np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda v: sg.filtfilt([1.0, 0.5], [1.0, 0.2], v, method="gust"),
        lambda v: sg.filtfilt([1.0, 0.5], [1.0, 0.2], v, method="gust", irlen=5),
        lambda v: sg.resample_poly(v, 2, 3, padtype="median"),
    ],
)
def test_options_that_scipys_code_computes_on_tensors(call):
    x = tensor(X)
    assert pb.autograd.gradcheck(call, (x,))
    np.testing.assert_allclose(call(x).detach().numpy(), call(X), rtol=1e-12)


def test_a_result_of_integers_is_refused():
    pixels = np.arange(12).reshape(3, 4)
    weights = tensor([0.5, 1.5])
    with pytest.raises(DerivativeMissingError, match="output=dtype\\('int64'\\)"):
        nd.correlate1d(pixels, weights)
    found = nd.correlate1d(pixels, weights, output=np.float64)
    np.testing.assert_array_equal(
        found.detach().numpy(), nd.correlate1d(pixels, [0.5, 1.5], output=np.float64)
    )
    assert pb.autograd.grad(found.sum(), weights)[0].dtype == np.float64


def test_tensors_without_gradient_give_scipys_arrays():
    x = pb.tensor(IMAGE)
    calls = (
        lambda v: nd.gaussian_filter(v, 1.0),
        lambda v: nd.map_coordinates(v, [[1.5], [2.5]]),
        lambda v: nd.median_filter(v, 3),
        lambda v: sg.lfilter([1.0], [1.0, 0.5], v),
        lambda v: sg.welch(v, nperseg=4)[1],
    )
    for call in calls:
        found = call(x)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, call(IMAGE))


@pytest.mark.parametrize("mode", SPLINE_MODES)
@pytest.mark.parametrize("order", range(6))
def test_splines_are_those_of_scipy(mode, order):
    """The taps that gradients use give SciPy's values, also far outside and at whole pixels."""
    generator = np.random.default_rng(order)
    for shape in ((7,), (6, 7), (2, 3, 1)):
        c = generator.standard_normal(shape)
        at = generator.uniform(-25.0, 30.0, (len(shape), 200)) + 1e-9
        orders = ((0,) * len(shape), (1,) + (0,) * (len(shape) - 1))
        for points in (at, np.round(at)):
            theirs = nd.map_coordinates(c, points, order=order, mode=mode, prefilter=False)
            ours = ndimage_splines._evaluate(c, points, order, mode, orders, shape)[0]
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_pixels_outside_may_be_nan():
    x = tensor(IMAGE)
    found = nd.map_coordinates(x, [[1.5, -3.0], [2.5, 1.0]], cval=np.nan)
    assert np.isnan(found.detach().numpy()).tolist() == [False, True]
    (gradient,) = pb.autograd.grad(found[0], x)
    assert np.isfinite(gradient.numpy()).all()


def test_flat_images_have_a_gradient_magnitude_without_nan():
    x = tensor(np.ones((5, 5)))
    (gradient,) = pb.autograd.grad(nd.gaussian_gradient_magnitude(x, 1.0).sum(), x)
    np.testing.assert_array_equal(gradient.numpy(), np.zeros((5, 5)))


def test_equal_pixels_share_no_gradient_with_others():
    x = tensor([2.0, 1.0, 2.0, 0.0])
    (gradient,) = pb.autograd.grad(nd.maximum_filter(x, 3)[1], x)
    assert gradient.numpy().sum() == 1.0
    assert gradient.numpy()[[1, 3]].tolist() == [0.0, 0.0]


def test_views_and_empty_axes():
    x = tensor(np.asfortranarray(IMAGE))
    found = nd.gaussian_filter(x[::2, ::-1].T, 1.0)
    np.testing.assert_allclose(
        found.detach().numpy(), nd.gaussian_filter(IMAGE[::2, ::-1].T, 1.0), rtol=1e-12
    )
    empty = tensor(np.zeros((0, 4)))
    assert sg.lfilter([1.0], [1.0, 0.5], empty).shape == (0, 4)
    assert nd.gaussian_filter(empty, 1.0).shape == (0, 4)


def test_forward_and_backward_of_a_long_recursive_filter_agree():
    generator = np.random.default_rng(0)
    b, a = sg.butter(6, 0.05)
    x, t, g = generator.standard_normal((3, 5000))
    _, tangent = pb.func.jvp(lambda v: sg.lfilter(b, a, v), (pb.tensor(x),), (pb.tensor(t),))
    given = tensor(x)
    (gradient,) = pb.autograd.grad(sg.lfilter(b, a, given), given, pb.tensor(g))
    assert g @ tangent.numpy() == pytest.approx(gradient.numpy() @ t, rel=1e-9)


# --- the same values as SciPy ---------------------------------------------------------------------


@pytest.mark.parametrize("angle", [90.0, 180.0, -90.0, 360.0, 45.0])
@pytest.mark.parametrize("order", [0, 1, 3])
def test_rotate_by_quarter_turns_keeps_the_pixels_at_the_border(angle, order):
    image = IMAGE[:5, :4]
    for mode in ("constant", "wrap", "nearest"):
        options = {"order": order, "mode": mode, "cval": 7.0}
        expected = nd.rotate(image, angle, **options)
        by_image = nd.rotate(tensor(image), angle, **options)
        by_angle = nd.rotate(image, tensor(angle), **options)
        np.testing.assert_allclose(by_image.detach().numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(by_angle.detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (1, 2)])
@pytest.mark.parametrize("prefilter", [True, False])
def test_rotate_turns_each_plane_for_itself(axes, prefilter):
    volume = np.random.default_rng(0).standard_normal((4, 5, 3))

    def turn(v):
        return nd.rotate(v, 30.0, axes, prefilter=prefilter)

    np.testing.assert_allclose(turn(tensor(volume)).detach().numpy(), turn(volume), atol=1e-12)
    weights = np.random.default_rng(1).standard_normal(turn(volume).shape)
    direction = np.random.default_rng(2).standard_normal(volume.shape)
    slope = pb.grad(lambda v: pb.sum(turn(v) * weights))(volume)
    np.testing.assert_allclose(np.sum(slope * direction), np.sum(turn(direction) * weights))


@pytest.mark.parametrize("count", [16, 17])
@pytest.mark.parametrize("domain", ["time", "freq"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.complex64])
def test_resample_weights_odd_numbers_of_frequencies_as_scipy_does(count, domain, dtype):
    x = np.random.default_rng(0).standard_normal(count).astype(dtype)
    for num in (count, 8, 22):
        expected = sg.resample(x, num, window="hann", domain=domain)
        found = sg.resample(tensor(x), num, window="hann", domain=domain).detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-6 if dtype == np.complex64 else 1e-12)


def test_resample_by_the_parameter_of_a_window():
    def total(beta):
        return pb.sum(sg.resample(X[:17], 9, window=("kaiser", beta)) ** 2)

    near = [np.sum(sg.resample(X[:17], 9, window=("kaiser", b)) ** 2) for b in (2.001, 1.999)]
    np.testing.assert_allclose(pb.grad(total)(2.0), (near[0] - near[1]) / 0.002, rtol=1e-5)


def test_spline_filter_of_complex_images_promotes_the_output():
    image = IMAGE + 1j * IMAGE[::-1]
    for call in (nd.spline_filter, nd.spline_filter1d):
        with pytest.warns(UserWarning, match="promoting"):
            expected = call(image)
        with pytest.warns(UserWarning, match="promoting"):
            found = call(tensor(image))
        np.testing.assert_allclose(found.detach().numpy(), expected)
    with pytest.raises(RuntimeError, match="complex"):
        nd.spline_filter(tensor(image), output="float64")


def test_cosine_transforms_of_complex_signals_agree_with_scipy():
    x = X[:6] + 1j * X[6:12]
    for call in (fft.dct, fft.idct, fft.dst, fft.idst):
        for kind in (1, 2, 3):
            expected = call(x, kind, orthogonalize=True)
            found = call(tensor(x), kind, orthogonalize=True).detach().numpy()
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_recorded_functions_run_on_each_sample_of_vmap():
    found = pb.func.vmap(sg.detrend)(pb.tensor(IMAGE)).numpy()
    np.testing.assert_allclose(found, sg.detrend(IMAGE, -1), atol=1e-12)
    with pytest.raises(DerivativeMissingError, match=r"ndimage.median: inside vmap.*'input'"):
        pb.func.vmap(pb.func.grad(lambda v: nd.median(v, np.arange(7) % 2, [0, 1]).sum()))(
            pb.tensor(IMAGE)
        )


@pytest.mark.parametrize("btype", ["low", "bandpass"])
def test_sections_of_filters_inside_vmap(btype):
    band = np.array([[0.3], [0.35], [0.2]]) + (0.3 if btype == "bandpass" else 0.0) * np.arange(2)
    band = band if btype == "bandpass" else band[:, 0]

    def design(w):
        return sg.cheby1(3, 1.0, w, btype, output="sos")

    found = pb.func.vmap(design)(pb.tensor(band)).numpy()
    np.testing.assert_allclose(found, np.stack([design(w) for w in band]), atol=1e-12)
    slopes = pb.func.vmap(pb.func.jacfwd(design))(pb.tensor(band)).numpy()
    expected = np.stack([pb.func.jacfwd(design)(pb.tensor(w)).numpy() for w in band])
    np.testing.assert_allclose(slopes, expected, atol=1e-10)
