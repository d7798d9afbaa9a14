"""Samples of scipy.ndimage: every filter in every mode, interpolation by image and coordinates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import scipy as sp
from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

RNG = np.random.default_rng(7)
IMAGE = RNG.standard_normal((6, 7))
COMPLEX = IMAGE + 1j * RNG.standard_normal((6, 7))
LINE = RNG.standard_normal(4)
WEIGHTS = RNG.standard_normal((3, 2))
VOLUME = RNG.standard_normal((4, 3, 5))
FOOTPRINT = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 1]], bool)
LABELS = np.arange(42).reshape(6, 7) % 4
POINTS = np.array([[0.3, 2.2, -1.3, 4.4, 7.7, 3.3], [0.4, 5.2, 3.3, -0.7, 2.6, 8.8]])
INSIDE = np.array([[0.3, 2.2, 1.3, 4.4], [0.4, 5.2, 3.3, 2.7]])
MATRIX = np.array([[0.9, 0.2], [-0.1, 1.1]])
MODES = ("reflect", "mirror", "nearest", "wrap", "constant")
GRID_MODES = ("grid-mirror", "grid-wrap", "grid-constant")
NEAR: dict[str, Any] = {"spread": 1e-3, "step": 1e-4, "rtol": 1e-5}  # kinks lie beside the points
JUMPS: dict[str, Any] = {"spread": 0.0, "step": 1e-5, "order": 1}  # another pixel may be selected
NEWER = (  # lines that SciPy 1.14 refuses or warns about: axes, and arrays without axes as numbers
    *("correlate | input | axes", "correlate | weights | axes", "convolve | input | axes"),
    *("convolve | weights | axes", "laplace | input | axes", "gaussian_laplace | input | axes"),
    *("gaussian_filter | sigma", "gaussian_filter | sigma | radius", "gaussian_laplace | sigma"),
    *("gaussian_gradient_magnitude | sigma", "affine_transform | matrix | diagonal"),
    *("fourier_gaussian | sigma | n axis", "fourier_uniform | size | n axis"),
    "fourier_shift | shift | n axis",
)
SAMPLES: dict[str, Sample] = {}


def function(name: str) -> Callable[..., Any]:
    """A function that is looked up in each call."""
    return lambda *args, **kwargs: getattr(sp.ndimage, name)(*args, **kwargs)


def add(
    line: str,
    x: Any,
    *args: Any,
    place: int = 0,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Adds a line for the argument at a place of the call; `args` are the others."""
    name = line.split(" | ")[0]

    def call(v: Any) -> Any:
        return function(name)(*args[:place], v, *args[place:], **options)

    SAMPLES[line] = Sample(call, np.asarray(x), **(settings or {}))


def modes(mode: str) -> dict[str, Any]:
    """The option, with a constant that is not zero."""
    return {"mode": mode, "cval": 0.7}


# --- linear filters -------------------------------------------------------------------------------

for _mode in (*MODES, *GRID_MODES):
    _options = modes(_mode)
    for _name in ("correlate1d", "convolve1d"):
        add(f"{_name} | input | mode={_mode}", IMAGE, LINE, axis=0, origin=1, **_options)
        add(f"{_name} | weights | mode={_mode}", LINE, IMAGE, place=1, origin=-1, **_options)
    for _name in ("correlate", "convolve"):
        add(f"{_name} | input | mode={_mode}", IMAGE, WEIGHTS, origin=(1, 0), **_options)
        add(f"{_name} | weights | mode={_mode}", WEIGHTS, IMAGE, place=1, **_options)
    add(f"gaussian_filter1d | input | mode={_mode}", IMAGE, 1.2, axis=0, **_options)
    add(f"gaussian_filter | input | mode={_mode}", IMAGE, (1.2, 0.7), **_options)
    add(f"uniform_filter1d | input | mode={_mode}", IMAGE, 4, axis=0, origin=-1, **_options)
    add(f"uniform_filter | input | mode={_mode}", IMAGE, (3, 4), origin=(1, 0), **_options)
    for _name in ("prewitt", "sobel"):
        add(f"{_name} | input | mode={_mode}", IMAGE, 0, **_options)
    add(f"laplace | input | mode={_mode}", IMAGE, **_options)
    add(f"gaussian_laplace | input | mode={_mode}", IMAGE, 1.1, **_options)
for _name in ("correlate", "convolve"):
    add(f"{_name} | input | axes", VOLUME, WEIGHTS, axes=(0, 2))
    add(f"{_name} | weights | axes", WEIGHTS, VOLUME, place=1, axes=(0, 2))
    add(f"{_name} | input | complex", COMPLEX, WEIGHTS + 0.5j)
    add(f"{_name} | weights | complex", WEIGHTS + 0.5j, COMPLEX, place=1)
    add(f"{_name}1d | input | complex", COMPLEX, LINE + 0.5j)
    add(f"{_name}1d | weights | complex", LINE + 0.5j, COMPLEX, place=1)
    add(f"{_name}1d | weights | complex weights, real image", LINE + 0.5j, IMAGE, place=1)
    add(f"{_name}1d | cval", 0.7, IMAGE, LINE, -1, None, "constant", place=5)
    add(f"{_name} | cval", 0.7, IMAGE, WEIGHTS, None, "constant", place=4)
_NO_VMAP = {"vmap": False, "spread": 1e-3}  # the radius jumps with sigma
for _order in (0, 1, 2, 3):
    add(f"gaussian_filter1d | input | order={_order}", IMAGE, 1.1, order=_order)
    add(
        f"gaussian_filter1d | sigma | order={_order}",
        *(1.1, IMAGE),
        place=1,
        order=_order,
        settings={"vmap": False, "step": 1e-4, "rtol": 1e-5},
    )
add("gaussian_filter1d | sigma | radius", 1.1, IMAGE, place=1, radius=4)
add("gaussian_filter | input | order", IMAGE, 1.1, order=(1, 2))
add("gaussian_filter | input | modes", IMAGE, 1.1, mode=("wrap", "nearest"))
add("gaussian_filter | input | axes", VOLUME, 1.1, axes=(0, 2))
add("gaussian_filter | input | radius", IMAGE, 1.1, radius=(2, 3))
add("gaussian_filter | input | truncate", IMAGE, 1.1, truncate=2.0)
add("gaussian_filter | input | complex", COMPLEX, 1.1)
add("gaussian_filter | input | three axes", VOLUME, 0.8)
add("gaussian_filter | input | output dtype", IMAGE, 1.1, output=np.float64)
add("gaussian_filter | sigma", 1.1, IMAGE, place=1, settings=_NO_VMAP)
add("gaussian_filter | sigma | for each axis", [1.1, 0.8], IMAGE, place=1, settings=_NO_VMAP)
add("gaussian_filter | sigma | order", [1.1, 0.8], IMAGE, (1, 0), place=1, settings=_NO_VMAP)
add("gaussian_filter | sigma | radius", 1.1, IMAGE, place=1, radius=3)
add("uniform_filter | input | axes", VOLUME, 3, axes=(2,))
add("uniform_filter | input | modes", IMAGE, 3, mode=("wrap", "mirror"))
add("uniform_filter | input | complex", COMPLEX, 3)
add("laplace | input | complex", COMPLEX)
add("laplace | input | axes", VOLUME, axes=(0, 2))
add("sobel | input | complex", COMPLEX)
add("sobel | input | three axes", VOLUME, 1)
add("prewitt | input | three axes", VOLUME, 1)
add("gaussian_laplace | input | axes", VOLUME, 1.1, axes=(0, 2))
add("gaussian_laplace | sigma", 1.1, IMAGE, place=1, settings=_NO_VMAP)
for _mode in ("reflect", "nearest", "constant"):
    add(
        f"gaussian_gradient_magnitude | input | mode={_mode}",
        *(np.add.outer(np.arange(6.0) ** 2, np.arange(7.0)), 0.8),
        settings={"step": 1e-4, "rtol": 1e-5},
        **modes(_mode),
    )
add("gaussian_gradient_magnitude | sigma", 1.1, IMAGE, place=1, settings=_NO_VMAP)


def second_difference(x: Any, axis: int, output: Any, mode: str, cval: float) -> Any:
    """A derivative for generic_laplace."""
    return sp.ndimage.correlate1d(x, [1.0, -2.0, 1.0], axis, output, mode, cval)


add("generic_laplace | input", IMAGE, second_difference)
add("generic_gradient_magnitude | input", IMAGE, lambda *a: sp.ndimage.sobel(*a), settings=NEAR)

# --- filters that select a pixel ------------------------------------------------------------------

for _mode in (*MODES, *GRID_MODES):
    for _name in ("minimum_filter", "maximum_filter", "median_filter"):
        add(f"{_name} | input | mode={_mode}", IMAGE, 3, settings=JUMPS, **modes(_mode))
    _options = modes(_mode)
    add(f"percentile_filter | input | mode={_mode}", IMAGE, 30, 3, settings=JUMPS, **_options)
    add(f"rank_filter | input | mode={_mode}", IMAGE, 2, 3, settings=JUMPS, **_options)
    for _name in ("minimum_filter1d", "maximum_filter1d"):
        add(f"{_name} | input | mode={_mode}", IMAGE, 3, 0, settings=JUMPS, **_options)
for _name in ("minimum_filter", "maximum_filter", "median_filter"):
    add(f"{_name} | input | footprint", IMAGE, footprint=FOOTPRINT, settings=JUMPS)
    add(f"{_name} | input | origin", IMAGE, (3, 4), origin=(1, -1), settings=JUMPS)
    add(f"{_name} | input | axes", VOLUME, 2, axes=(0, 2), settings=JUMPS)
for _name in ("grey_erosion", "grey_dilation", "grey_opening", "grey_closing"):
    add(f"{_name} | input | size", IMAGE, 3, settings=JUMPS)
    add(f"{_name} | input | footprint", IMAGE, footprint=FOOTPRINT, settings=JUMPS)
    add(f"{_name} | input | mode=constant", IMAGE, 3, mode="constant", cval=0.2, settings=JUMPS)
for _name in ("white_tophat", "black_tophat", "morphological_gradient", "morphological_laplace"):
    add(f"{_name} | input", IMAGE, 3, settings=JUMPS)

# --- interpolation --------------------------------------------------------------------------------

for _mode in (*MODES, *GRID_MODES):
    _options = modes(_mode)
    for _order in range(6):
        _line = f"map_coordinates | input | order={_order} mode={_mode}"
        add(_line, IMAGE, POINTS, order=_order, **_options)
    for _order in range(1, 6):
        _smooth = {**NEAR, "order": min(2, _order // 2 + 1)}
        _line = f"map_coordinates | coordinates | order={_order} mode={_mode}"
        add(_line, POINTS, IMAGE, place=1, order=_order, settings=_smooth, **_options)
    add(f"affine_transform | input | mode={_mode}", IMAGE, MATRIX, (0.3, -0.2), **_options)
    _settings = {**NEAR, "order": 1}
    add(
        f"affine_transform | matrix | mode={_mode}",
        *(MATRIX, IMAGE, (0.33, -0.21)),
        place=1,
        settings=_settings,
        **_options,
    )
    add(f"shift | input | mode={_mode}", IMAGE, (1.3, -0.4), **_options)
    add(f"shift | shift | mode={_mode}", [1.3, -0.4], IMAGE, place=1, settings=NEAR, **_options)
    add(f"zoom | input | mode={_mode}", IMAGE, (2, 1.5), **_options)
    if _mode not in ("constant", "wrap"):
        add(f"zoom | input | grid_mode mode={_mode}", IMAGE, (2, 1.5), grid_mode=True, **_options)
    add(f"rotate | input | mode={_mode}", IMAGE, 33.0, **_options)
    _settings = {**NEAR, "vmap": False, "order": 1}
    add(f"rotate | angle | mode={_mode}", 20.3, IMAGE, place=1, settings=_settings, **_options)
    add(f"spline_filter1d | input | mode={_mode}", IMAGE, 4, 0, mode=_mode)
    add(f"spline_filter | input | mode={_mode}", RNG.standard_normal((60, 3)), mode=_mode)
add("map_coordinates | input | complex", COMPLEX, POINTS)
add("map_coordinates | coordinates | complex", INSIDE, COMPLEX, place=1, settings=NEAR)
add("map_coordinates | input | prefilter=False", IMAGE, POINTS, prefilter=False)
add("map_coordinates | input | three axes", VOLUME, RNG.uniform(0, 2, (3, 2, 3)))
_POINTS3 = RNG.uniform(0.1, 1.9, (3, 2, 3))
add("map_coordinates | coordinates | three axes", _POINTS3, VOLUME, place=1, settings=NEAR)
add("map_coordinates | input | one axis", LINE, [[0.2, 1.7]], mode="mirror")
add("affine_transform | offset", [0.33, -0.21], IMAGE, MATRIX, place=2, settings=NEAR)
add("affine_transform | matrix | diagonal", [0.93, 1.07], IMAGE, 0.31, place=1, settings=NEAR)
_HOMOGENEOUS = np.array([[0.93, 0.21, 0.31], [-0.12, 1.07, 0.23]])
add(
    "affine_transform | matrix | homogeneous",
    *(_HOMOGENEOUS, IMAGE),
    place=1,
    mode="mirror",
    settings={**NEAR, "order": 1},
)
add("affine_transform | input | output_shape", IMAGE, MATRIX, output_shape=(4, 9))
add("affine_transform | input | order=1", IMAGE, MATRIX, order=1)
add("affine_transform | input | complex", COMPLEX, MATRIX)
add("shift | input | whole pixels", IMAGE, (1, -2))
add("shift | input | complex", COMPLEX, (1.3, -0.4))
add("zoom | input | order=1", IMAGE, 2, order=1)
add("zoom | input | smaller", IMAGE, 0.5)
add("zoom | input | complex", COMPLEX, 2)
add("rotate | input | reshape=False", IMAGE, 33.0, reshape=False)
add("rotate | input | axes", VOLUME, 33.0, axes=(0, 2))
add("rotate | input | order=1", IMAGE, 33.0, order=1)
add("rotate | angle | reshape=False", 20.3, IMAGE, place=1, reshape=False, settings=NEAR)
for _order in (2, 3, 4, 5):
    add(f"spline_filter1d | input | order={_order}", IMAGE, _order)
    add(f"spline_filter | input | order={_order}", IMAGE, _order)

# --- Fourier filters and regions ------------------------------------------------------------------

for _name, _value in (("gaussian", 1.1), ("uniform", 2.3), ("shift", 1.3), ("ellipsoid", 2.0)):
    _single = {"float32": 0.0} if _name == "shift" else {}
    add(f"fourier_{_name} | input", IMAGE, _value, settings=_single)
    add(f"fourier_{_name} | input | complex", COMPLEX, _value)
    add(f"fourier_{_name} | input | n axis", IMAGE, _value, n=12, axis=0, settings=_single)
for _name, _argument in (("gaussian", "sigma"), ("uniform", "size"), ("shift", "shift")):
    add(f"fourier_{_name} | {_argument}", [1.1, 2.3], COMPLEX, place=1)
    add(f"fourier_{_name} | {_argument} | n axis", 1.1, COMPLEX, place=1, n=12, axis=0)
_REGIONS: dict[str, dict[str, Any]] = {
    "": {},
    "labels": {"labels": LABELS},
    "index": {"labels": LABELS, "index": [0, 2]},
}
for _name in ("sum_labels", "mean", "variance", "standard_deviation", "center_of_mass", "median"):
    _settings = {**JUMPS} if _name == "median" else {}
    for _option, _options in _REGIONS.items():
        _line = " | ".join(part for part in (_name, "input", _option) if part)
        if (_name, _option) == ("sum_labels", "index"):
            _settings["float32"] = 0.0  # SciPy sums in double precision there
        add(_line, IMAGE + 3.0, settings={**_settings, "vmap": False}, **_options)
for _name in ("minimum", "maximum", "extrema"):
    for _option, _options in _REGIONS.items():
        _line = " | ".join(part for part in (_name, "input", _option) if part)
        add(_line, IMAGE, settings=JUMPS, **_options)
for _line in NEWER:
    SAMPLES[_line] = dataclasses.replace(SAMPLES[_line], since=(1, 17))
