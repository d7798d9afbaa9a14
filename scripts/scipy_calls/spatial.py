"""Calls of `scipy.interpolate`, `scipy.cluster`, `scipy.spatial.transform` and `scipy.ndimage`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from .inputs import IMAGE, LABELS, MASK, MATRIX, POSITIVE, REAL, SORTED, Call, each, namespace

__all__ = ["HIERARCHY", "INTERPOLATE", "NDIMAGE", "TRANSFORM", "VQ"]

_KNOTS = np.array([0.0, 0, 0, 0, 1.3, 2.7, 4, 4, 4, 4])
_LSQ = np.array([0.0, 0, 0, 0, 2.7, 5.5, 5.5, 5.5, 5.5])
_VALUES = np.sin(SORTED) + 0.1 * SORTED
_BETWEEN = np.array([0.3, 1.1, 1.9, 3.3])
_WHERE = np.array([[1.2, 2.3], [3.4, 4.1], [2.2, 5.6]])
_GRID = np.arange(7.0), np.arange(8.0)


def _grid(f, values, where):
    xp = namespace(values)
    return f(tuple(map(xp.asarray, _GRID)), values)(where)


def _surface(f, c, where):
    xp = namespace(c)
    knots = xp.asarray(np.r_[0, 0, 0, np.arange(1, 5), 5, 5, 5] * 1.0)
    return f((knots, knots), c[:, :7], 2)(where)


INTERPOLATE: dict[str, Call] = {
    **each(
        "Akima1DInterpolator CubicSpline PchipInterpolator make_interp_spline make_splrep",
        lambda f, x, y, t: f(x, y)(t),
        SORTED,
        _VALUES,
        _BETWEEN,
    ),
    **each("CubicHermiteSpline", lambda f, x, y, t: f(x, y, y + 1)(t), SORTED, _VALUES, _BETWEEN),
    **each("BPoly PPoly", lambda f, c, x, t: f(c[:3, :7], x)(t), IMAGE, SORTED, _BETWEEN),
    **each("BSpline", lambda f, k, c, t: f(k, c, 3)(t), _KNOTS, REAL, _BETWEEN),
    **each("NdBSpline", _surface, IMAGE, _WHERE),
    **each("RBFInterpolator", lambda f, y, d, t: f(y, d)(t), MATRIX[:, :2], MATRIX[:, 2], _WHERE),
    **each("RegularGridInterpolator", _grid, IMAGE, _WHERE),
    **each("generate_knots", lambda f, x, y: list(f(x, y, s=0.1)), SORTED, _VALUES),
    **each(
        "make_lsq_spline",
        lambda f, y, t: f(namespace(y).asarray(SORTED), y, namespace(y).asarray(_LSQ))(t),
        _VALUES,
        _BETWEEN,
    ),
    **each("make_smoothing_spline", lambda f, x, y, t: f(x, y)(t), SORTED, _VALUES, _BETWEEN),
    **each(
        "make_splprep",
        lambda f, x, y: f(namespace(x).stack([x, y]), s=0)[0].c,
        SORTED,
        _VALUES,
    ),
}

_LINKED = "average centroid complete median single ward weighted linkage"
_HEIGHTS = np.array([0.5, 0.8, 1.7])


def _tree(heights):
    """A linkage matrix; of its columns only the heights are real numbers."""
    xp = namespace(heights)
    pairs, sizes = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [[2.0], [2.0], [4.0]]
    return xp.concat([xp.asarray(pairs), heights[:, None], xp.asarray(sizes)], axis=1)


def _from_mlab(f, heights):
    xp = namespace(heights)
    return f(
        xp.concat([xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), heights[:, None]], axis=1)
    )


VQ: dict[str, Call] = {
    **each("whiten", lambda f, x: f(x), MATRIX),
    **each("vq", lambda f, x, c: f(x, c), MATRIX, MATRIX[:3] + 0.1),
    **each("kmeans", lambda f, x, c: f(x, c), MATRIX, MATRIX[:3] + 0.1),
    **each("kmeans2", lambda f, x, c: f(x, c, minit="matrix"), MATRIX, MATRIX[:3] + 0.1),
}
HIERARCHY: dict[str, Call] = {
    **each(_LINKED, lambda f, x: f(x), POSITIVE),
    **each(
        "cophenet inconsistent is_monotonic is_valid_linkage", lambda f, h: f(_tree(h)), _HEIGHTS
    ),
    **each(
        "leaves_list num_obs_linkage maxdists to_mlab_linkage", lambda f, h: f(_tree(h)), _HEIGHTS
    ),
    **each("correspond", lambda f, h, y: f(_tree(h), y), _HEIGHTS, POSITIVE),
    **each("dendrogram", lambda f, h: f(_tree(h), no_plot=True)["leaves"], _HEIGHTS),
    **each("fcluster", lambda f, h: f(_tree(h), 1.0), _HEIGHTS),
    **each("fclusterdata", lambda f, x: f(x, 1.0), MATRIX),
    **each("from_mlab_linkage", _from_mlab, _HEIGHTS),
    **each("is_isomorphic", lambda f, x: f(x, x), np.array([1, 1, 2, 3])),
    **each(
        "is_valid_im", lambda f, h: f(namespace(h).stack([h, h, h * 0 + 2, h], axis=1)), _HEIGHTS
    ),
    **each(
        "leaders", lambda f, h, t: f(_tree(h), t), _HEIGHTS, np.array([1, 1, 2, 2], dtype=np.int32)
    ),
    **each("maxinconsts", lambda f, h: f(_tree(h), _tree(h)), _HEIGHTS),
    **each("maxRstat", lambda f, h: f(_tree(h), _tree(h), 2), _HEIGHTS),
    **each("optimal_leaf_ordering", lambda f, h, y: f(_tree(h), y), _HEIGHTS, POSITIVE),
    **each("to_tree", lambda f, h: f(_tree(h)).count, _HEIGHTS),
}

_QUATERNIONS = np.array([[0.1, 0.5, -0.3, 0.8], [0.6, -0.2, 0.3, 0.4], [0.2, 0.2, -0.7, 0.5]])
_VECTORS = MATRIX[:3]


def _turn(r, q):
    return r.from_quat(q)


def _from(name):
    return lambda r, x: getattr(r, name)(x).as_quat()


def _as(name, *args):
    return lambda r, q: getattr(_turn(r, q), name)(*args)


def _move(t, x):
    return t.from_exp_coords(x)


_TWISTS = IMAGE[:3, :6] / 2
_ROTATION: dict[str, Call] = {
    **each("from_quat", _from("from_quat"), _QUATERNIONS),
    **each("from_rotvec", _from("from_rotvec"), _VECTORS),
    **each("from_mrp", _from("from_mrp"), _VECTORS / 4),
    **each("from_matrix", _from("from_matrix"), np.eye(3) + MATRIX[:3] / 10),
    **each("from_euler", lambda r, x: r.from_euler("xyz", x).as_quat(), _VECTORS),
    **each(
        "from_davenport",
        lambda r, x: r.from_davenport(namespace(x).eye(3), "extrinsic", x).as_quat(),
        _VECTORS,
    ),
    **{name: (_as(name), (_QUATERNIONS,)) for name in ("as_quat", "as_matrix", "as_rotvec")},
    **{name: (_as(name), (_QUATERNIONS,)) for name in ("as_mrp", "magnitude")},
    **each("as_euler", _as("as_euler", "xyz"), _QUATERNIONS),
    **each(
        "as_davenport",
        lambda r, q: _turn(r, q).as_davenport(namespace(q).eye(3), "extrinsic"),
        _QUATERNIONS,
    ),
    **each("apply", lambda r, q, v: _turn(r, q).apply(v), _QUATERNIONS, _VECTORS),
    **each("concatenate", lambda r, q: r.concatenate([_turn(r, q)] * 2).as_quat(), _QUATERNIONS),
    **each("__mul__", lambda r, q: (_turn(r, q) * _turn(r, q[::-1, :])).as_quat(), _QUATERNIONS),
    **each("__pow__", lambda r, q: (_turn(r, q) ** 0.4).as_quat(), _QUATERNIONS),
    **each("inv", lambda r, q: _turn(r, q).inv().as_quat(), _QUATERNIONS),
    **each("mean", lambda r, q: _turn(r, q).mean().as_matrix(), _QUATERNIONS),
    **each("reduce", lambda r, q: _turn(r, q).reduce().as_quat(), _QUATERNIONS),
    **each("__getitem__", lambda r, q: _turn(r, q)[1].as_quat(), _QUATERNIONS),
    **each("__iter__", lambda r, q: [one.as_quat() for one in _turn(r, q)], _QUATERNIONS),
    **each("approx_equal", lambda r, q: _turn(r, q).approx_equal(_turn(r, q)), _QUATERNIONS),
    **each(
        "align_vectors", lambda r, a, b: r.align_vectors(a, b)[0].as_matrix(), _VECTORS, MATRIX[4:7]
    ),
}
_RIGID: dict[str, Call] = {
    **each("from_exp_coords", lambda t, x: _move(t, x).as_matrix(), _TWISTS),
    **each("from_translation", lambda t, x: t.from_translation(x).as_matrix(), _VECTORS),
    **each("from_matrix", lambda t, x: t.from_matrix(_move(t, x).as_matrix()).as_matrix(), _TWISTS),
    **each(
        "from_dual_quat",
        lambda t, x: t.from_dual_quat(_move(t, x).as_dual_quat()).as_matrix(),
        _TWISTS,
    ),
    **each("as_matrix", lambda t, x: _move(t, x).as_matrix(), _TWISTS),
    **each("as_exp_coords", lambda t, x: _move(t, x).as_exp_coords(), _TWISTS),
    **each("as_dual_quat", lambda t, x: _move(t, x).as_dual_quat(), _TWISTS),
    **each("as_components", lambda t, x: _move(t, x).as_components()[0], _TWISTS),
    **each("apply", lambda t, x, v: _move(t, x).apply(v), _TWISTS, _VECTORS),
    **each("__mul__", lambda t, x: (_move(t, x) * _move(t, x[::-1, :])).as_matrix(), _TWISTS),
    **each("__pow__", lambda t, x: (_move(t, x) ** 0.4).as_matrix(), _TWISTS),
    **each("__getitem__", lambda t, x: _move(t, x)[1].as_matrix(), _TWISTS),
    **each("inv", lambda t, x: _move(t, x).inv().as_matrix(), _TWISTS),
    **each("mean", lambda t, x: _move(t, x).mean().as_matrix(), _TWISTS),
    **each("concatenate", lambda t, x: t.concatenate([_move(t, x)] * 2).as_matrix(), _TWISTS),
}


def _slerp(f, q):
    rotation = import_module("scipy.spatial.transform").Rotation
    xp = namespace(q)
    return f(xp.asarray([0.0, 1, 2]), rotation.from_quat(q))(xp.asarray([0.3, 1.4])).as_quat()


TRANSFORM: dict[str, Call] = {
    **{f"Rotation.{name}": call for name, call in _ROTATION.items()},
    **{f"RigidTransform.{name}": call for name, call in _RIGID.items()},
    **each("Slerp", _slerp, _QUATERNIONS),
}


def _smear(line, out):
    out[:] = line[1:-1]


def _labels(x):
    return namespace(x).asarray(LABELS)


def _ints(x, *numbers):
    return namespace(x).asarray(numbers)


_BINARY = "binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss "
_BINARY += "binary_opening binary_propagation distance_transform_bf distance_transform_cdt "
_BINARY += "distance_transform_edt label"
_SIZED = "maximum_filter median_filter minimum_filter uniform_filter black_tophat white_tophat "
_SIZED += "grey_closing grey_dilation grey_erosion grey_opening morphological_gradient "
_SIZED += "morphological_laplace"
_SMOOTH = "gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace"
_OF_LABELS = "extrema maximum maximum_position mean median minimum minimum_position "
_OF_LABELS += "standard_deviation sum sum_labels variance center_of_mass"
NDIMAGE: dict[str, Call] = {
    **each(_BINARY, lambda f, x: f(x), MASK),
    **each(_SIZED, lambda f, x: f(x, size=3), IMAGE),
    **each(_SMOOTH, lambda f, x: f(x, 1.2), IMAGE),
    **each(_OF_LABELS, lambda f, x: f(x, _labels(x), index=_ints(x, 1, 2, 3)), IMAGE),
    **each("laplace prewitt sobel spline_filter spline_filter1d", lambda f, x: f(x), IMAGE),
    **each("convolve correlate", lambda f, x: f(x, x[:3, :3]), IMAGE),
    **each("convolve1d correlate1d", lambda f, x: f(x, x[0, :3]), IMAGE),
    **each("maximum_filter1d minimum_filter1d uniform_filter1d", lambda f, x: f(x, 3), IMAGE),
    **each("percentile_filter rank_filter", lambda f, x: f(x, 3, size=3), IMAGE),
    **each("rotate", lambda f, x: f(x, 30.0), IMAGE),
    **each("shift zoom", lambda f, x: f(x, 1.5), IMAGE),
    **each("map_coordinates", lambda f, x, w: f(x, w.T), IMAGE, _WHERE),
    **each("affine_transform", lambda f, x: f(x, x[:2, :2]), IMAGE),
    **each("geometric_transform", lambda f, x: f(x, lambda at: (at[0] + 0.5, at[1])), IMAGE),
    **each("fourier_ellipsoid fourier_gaussian fourier_shift", lambda f, x: f(x, 1.5), IMAGE),
    **each("fourier_uniform", lambda f, x: f(x, 3.0), IMAGE),
    **each("generic_filter", lambda f, x: f(x, np.mean, 3), IMAGE),
    **each("vectorized_filter", lambda f, x: f(x, namespace(x).mean, size=3), IMAGE),
    **each("generic_filter1d", lambda f, x: f(x, _smear, 3), IMAGE),
    **each(
        "generic_gradient_magnitude generic_laplace",
        lambda f, x: f(x, import_module("scipy.ndimage").sobel),
        IMAGE,
    ),
    **each("histogram", lambda f, x: f(x, -2, 2, 5), IMAGE),
    **each("find_objects value_indices", lambda f, x: f(x), LABELS),
    **each("iterate_structure", lambda f, x: f(x[:3, :3], 2), MASK),
    **each(
        "labeled_comprehension",
        lambda f, x: f(x, _labels(x), _ints(x, 1, 2), np.mean, float, 0.0),
        IMAGE,
    ),
    **each("watershed_ift", lambda f, x: f(x, _labels(x)), MASK.astype(np.uint8)),
}
