"""Rules of ``scipy.spatial.transform``: rotations as unit quaternions that are tensors.

A rotation made from tensors is a `RotationTensor`, which keeps the quaternion (x, y, z, w). Closest
rotations (of a matrix, of pairs of vectors, of several rotations) are the quaternions on which a
quadratic form is largest: one primitive has their derivatives. Formulas near the identity are
series, so that derivatives exist there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import spatial as theirs
from scipy.spatial.transform import Rotation, Slerp

from pullback.autograd.namespaces import tensors as xp
from pullback.errors import DerivativeMissingError
from pullback.func.primitive import Known, Primitive, all_values
from pullback.interop.arguments import as_tensor, plain
from pullback.scipy.batches import call_on_values
from pullback.scipy.conversions import as_double
from pullback.scipy.registry import class_rule, constant, option_without_rule, refused, rule
from pullback.scipy.rules.interpolate_local import gather
from pullback.scipy.traced import check_call
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["RotationTensor", "SlerpTensor"]

_NAME = "scipy.spatial.transform.Rotation"
_AXES = dict(zip("xyz", np.eye(3), strict=True))


def _check(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Lets SciPy's function refuse bad arguments; inside ``vmap`` their values are unknown."""
    if not any(isinstance(value, Tensor) and levels_of(value) for value in args):
        check_call(function, args, kwargs)


def _radians(angles: Any, degrees: bool) -> Any:
    return as_double(angles) * (np.pi / 180) if degrees else as_double(angles)


# --- quaternions ----------------------------------------------------------------------------------


def _unit(quat: Tensor) -> Any:
    return quat / xp.sqrt(xp.sum(quat * quat, -1, keepdims=True))


def _compose(p: Tensor, q: Tensor) -> Any:
    (u, a), (v, b) = (_parts(p), _parts(q))
    vector = a * v + b * u + xp.linalg_cross(u + 0 * v, v + 0 * u)
    return xp.concatenate([vector, a * b - xp.sum(u * v, -1, keepdims=True)], -1)


def _parts(quat: Tensor) -> tuple[Tensor, Tensor]:
    return quat[..., :3], quat[..., 3:]


def _conjugate(quat: Tensor) -> Tensor:
    return quat * np.array([-1.0, -1.0, -1.0, 1.0])


def _canonical(quat: Tensor) -> Any:
    return xp.where(quat[..., 3:] < 0, -quat, quat)


def _series(x: Tensor, limit: float, series: Sequence[float], exact: Callable[..., Any]) -> Any:
    """A power series of x below a limit, and a function of it above."""
    is_small = x <= limit
    near = as_tensor(series[-1]) + 0 * x
    for coefficient in reversed(series[:-1]):
        near = near * x + coefficient
    return xp.where(is_small, near, exact(xp.where(is_small, xp.ones_like(x), x)))


def _from_rotvec(rotvec: Tensor) -> Any:
    square = xp.sum(rotvec * rotvec, -1, keepdims=True)
    half_sinc = _series(
        square,
        1e-4,
        [1 / 2, -1 / 48, 1 / 3840, -1 / 645120, 1 / 185794560],
        lambda s: xp.sin(xp.sqrt(s) / 2) / xp.sqrt(s),
    )
    cosine = _series(
        square,
        1e-4,
        [1.0, -1 / 8, 1 / 384, -1 / 46080, 1 / 10321920],
        lambda s: xp.cos(xp.sqrt(s) / 2),
    )
    return xp.concatenate([rotvec * half_sinc, cosine], -1)


def _as_rotvec(quat: Tensor) -> Any:
    vector, w = _parts(_canonical(quat))
    square = xp.sum(vector * vector, -1, keepdims=True)
    is_small = square <= 1e-4 * w * w
    ratio = square / xp.where(is_small, w * w, xp.ones_like(w))
    near = (1 - ratio / 3 + ratio**2 / 5 - ratio**3 / 7 + ratio**4 / 9) * 2
    near = near / xp.where(is_small, w, xp.ones_like(w))
    size = xp.sqrt(xp.where(is_small, xp.ones_like(square), square))
    return vector * xp.where(is_small, near, 2 * xp.atan2(size, w) / size)


def _as_matrix(quat: Tensor) -> Any:
    x, y, z, w = (quat[..., i] for i in range(4))
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), w * w - x * x + y * y - z * z, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), w * w - x * x - y * y + z * z],
    ]
    return xp.stack([xp.stack(row, -1) for row in rows], -2)


def _from_davenport(axes: Any, angles: Tensor, is_extrinsic: bool) -> Tensor:
    """The product of rotations around constant unit axes."""
    found: Tensor | None = None
    for place, axis in enumerate(axes):
        half = angles[..., place : place + 1] / 2
        turn = xp.concatenate([xp.sin(half) * axis, xp.cos(half)], -1)
        if found is None:
            found = turn
        else:
            found = _compose(turn, found) if is_extrinsic else _compose(found, turn)
    assert found is not None
    return found


def _as_davenport(name: str, quat: Tensor, axes: Any, is_extrinsic: bool) -> Any:
    """Angles around constant unit axes (Bernardes and Viollet, 2022)."""
    n1, n2, n3 = axes if is_extrinsic else axes[::-1]
    cross = np.cross(n1, n2)
    angle = np.arctan2(n3 @ cross, n3 @ n1)
    sign = -1.0 if angle < 0 else 1.0
    n2, cross, angle = sign * n2, sign * cross, sign * angle
    turn = as_tensor(np.append(np.sin(angle / 2) * n2, np.cos(angle / 2)))
    vector, a = _parts(_compose(turn, quat))
    b, c, d = (xp.sum(vector * axis, -1) for axis in (n1, n2, cross))
    a = a[..., 0]
    outer, inner = c * c + d * d, a * a + b * b
    if np.any(all_values(outer) <= 1e-14) or np.any(all_values(inner) <= 1e-14):
        raise DerivativeMissingError(
            f"{name}: the rotation is in gimbal lock, where the angles have no derivative; use "
            f"another sequence of axes, or as_rotvec"
        )
    middle = 2 * xp.atan2(xp.sqrt(outer), xp.sqrt(inner)) - angle
    total, apart = xp.atan2(b, a), xp.atan2(d, c)
    first, third = total - apart, total + apart
    found = [first, sign * middle, third] if is_extrinsic else [third, sign * middle, first]
    angles = xp.stack(found, -1)
    return angles - 2 * np.pi * xp.floor((angles + np.pi) / (2 * np.pi))


# --- closest rotations ----------------------------------------------------------------------------


def _top(form: Any, like: Any) -> Any:
    values, vectors = np.linalg.eigh(form)
    top = vectors[..., -1]
    flip = np.sign(np.sum(top * like, -1, keepdims=True))
    return top * np.where(flip == 0, 1, flip), values[..., -1]


def _top_jvp(known: Known, form_t: Tensor, like_t: Any) -> Any:
    """(K - λ) dq = (dλ - dK) q with dq orthogonal to q and dλ = q dK q."""
    del like_t
    (form, _), (top, value) = known.inputs, known.outputs
    gaps = all_values(value)[..., None] - np.linalg.eigvalsh(all_values(form))[..., :-1]
    if np.any(gaps <= 1e-12 * (1 + np.abs(all_values(value)[..., None]))):
        raise DerivativeMissingError(
            f"{_NAME}: several rotations are equally close, so that the closest one jumps and has "
            f"no derivative"
        )
    change = xp.sum(form_t * xp.expand_dims(top, -2), -1)
    value_t = xp.sum(change * top, -1)
    column = xp.expand_dims(top, -1)
    matrix = xp.expand_dims(xp.expand_dims(value, -1), -1) * np.eye(4) - form
    matrix = matrix + column @ xp.matrix_transpose(column)
    right = change - xp.expand_dims(value_t, -1) * top
    return xp.linalg_solve(matrix, xp.expand_dims(right, -1))[..., 0], value_t


_TOP = Primitive("largest_eigenvector", _top, _top_jvp)


def _quadratic_form(profile: Tensor) -> Any:
    """The matrix K with q K q = tr(R(q)^T B) for a 3 x 3 matrix B (Davenport's q-method)."""
    trace = profile[..., 0, 0] + profile[..., 1, 1] + profile[..., 2, 2]
    trace = xp.expand_dims(xp.expand_dims(trace, -1), -1)
    block = profile + xp.matrix_transpose(profile) - trace * np.eye(3)
    odd = profile - xp.matrix_transpose(profile)
    side = xp.expand_dims(xp.stack([odd[..., 2, 1], odd[..., 0, 2], odd[..., 1, 0]], -1), -1)
    lower = xp.concatenate([xp.matrix_transpose(side), trace], -1)
    return xp.concatenate([xp.concatenate([block, side], -1), lower], -2)


def _reference(function: Callable[..., Any], *args: Any) -> Any:
    """The quaternion that SciPy finds, which decides the sign; inside ``vmap``, of each sample."""

    def find(*values: Any) -> Any:
        found = function(*values)
        return (found[0] if isinstance(found, tuple) else found).as_quat()

    return call_on_values(_NAME, find, args, {})


def _match_sign(quat: Tensor, like: Tensor) -> Any:
    """The one of the two quaternions of a rotation that is nearer to another."""
    is_turned = xp.sum(quat * like, -1, keepdims=True) < 0
    return xp.where(is_turned, -quat, quat)


# --- Rotation -------------------------------------------------------------------------------------


def _quat_of(rotation: Rotation) -> Tensor:
    """The quaternions of a rotation, which may be one of SciPy's own."""
    if isinstance(rotation, RotationTensor):
        return rotation._quat
    return as_tensor(rotation.as_quat())


def _made(quat: Tensor) -> RotationTensor:
    made = RotationTensor.__new__(RotationTensor)
    made._quat, made._single = quat, False
    return made


@class_rule(_NAME, tensors="quat")
class RotationTensor(Rotation):  # type: ignore[misc]
    """Rotations whose quaternions are tensors."""

    _quat: Tensor
    _single: bool

    def __init__(
        self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False
    ) -> None:
        del copy
        _check(Rotation, quat, normalize, True, scalar_first)
        given = as_double(quat)
        if scalar_first:
            given = given[..., [1, 2, 3, 0]]
        self._quat, self._single = _unit(given) if normalize else given, False

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """The quaternions."""
        quat = _canonical(self._quat) if canonical else self._quat
        return quat[..., [3, 0, 1, 2]] if scalar_first else quat

    def as_matrix(self) -> Any:
        """The rotation matrices."""
        return _as_matrix(self._quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """The rotation vectors."""
        return _as_rotvec(self._quat) * (180 / np.pi if degrees else 1.0)

    def as_mrp(self) -> Any:
        """The modified Rodrigues parameters."""
        vector, w = _parts(_canonical(self._quat))
        return vector / (1 + w)

    def as_euler(self, seq: str, degrees: bool = False, *, suppress_warnings: bool = False) -> Any:
        """The Euler angles."""
        Rotation.from_euler(seq, np.zeros(3))  # raises as SciPy does
        if len(seq) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        axes = [_AXES[axis] for axis in seq.lower()]
        del suppress_warnings
        found = _as_davenport(f"{_NAME}.as_euler", self._quat, axes, seq.islower())
        return found * (180 / np.pi if degrees else 1.0)

    def as_davenport(
        self, axes: Any, order: str, degrees: bool = False, *, suppress_warnings: bool = False
    ) -> Any:
        """The angles around constant axes."""
        given = np.asarray(axes, float)
        Rotation.identity().as_davenport(given, order, suppress_warnings=True)  # raises
        del suppress_warnings
        unit = given / np.linalg.norm(given, axis=-1, keepdims=True)
        found = _as_davenport(f"{_NAME}.as_davenport", self._quat, unit, order[0] == "e")
        return found * (180 / np.pi if degrees else 1.0)

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The rotated vectors."""
        given = as_double(vectors)
        if not given.ndim or given.shape[-1] != 3:
            raise ValueError(f"Expected input of shape (..., 3), got {given.shape}.")
        matrix = _as_matrix(self._quat)
        if inverse:
            matrix = xp.matrix_transpose(matrix)
        return (matrix @ xp.expand_dims(given, -1))[..., 0]

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Rotation):
            return NotImplemented
        return _made(_compose(self._quat, _quat_of(other)))

    def __rmul__(self, other: Any) -> Any:
        if not isinstance(other, Rotation):
            return NotImplemented
        return _made(_compose(_quat_of(other), self._quat))

    def __pow__(self, n: Any, modulus: None = None) -> Any:
        if modulus is not None:
            raise NotImplementedError("modulus not supported")
        power = as_tensor(n)
        if power.shape == (1,):
            power = power[0]
        if power.ndim:
            raise ValueError("Array exponent must be a scalar")
        found = _from_rotvec(power * _as_rotvec(self._quat))
        values = all_values(power)
        if values.ndim or values not in (-1, 1):
            return _made(found)
        # The sign of the quaternion that SciPy keeps for the rotation itself and its inverse.
        kept = self._quat if values > 0 else _conjugate(self._quat)
        return _made(_match_sign(found, kept))

    def inv(self) -> Any:
        """The inverse rotations."""
        return _made(_conjugate(self._quat))

    def magnitude(self) -> Any:
        """The angles of the rotations."""
        rotvec = _as_rotvec(self._quat)
        return xp.linalg_norm(rotvec, None, -1, False)

    def mean(self, weights: Any = None, axis: Any = None) -> Any:
        """The mean of all rotations."""
        if axis not in (None, 0) or (axis == 0 and self._quat.ndim > 2):
            raise option_without_rule(f"{_NAME}.mean", "axis", axis)
        quat = xp.reshape(self._quat, [-1, 4])
        like = _reference(lambda q, w: Rotation(q).mean(w), quat, weights)
        shares = 1.0 if weights is None else xp.expand_dims(as_double(weights), -1)
        form = xp.matrix_transpose(quat * shares) @ quat
        return _made(_TOP(form, like)[0])

    def approx_equal(self, other: Any, *args: Any, **kwargs: Any) -> Any:
        """Whether rotations are equal up to a tolerance."""
        own, others = (Rotation(all_values(_quat_of(r))) for r in (self, other))
        return own.approx_equal(others, *args, **kwargs)

    def __getitem__(self, indexer: Any) -> Any:
        if self._quat.ndim == 1:
            raise TypeError("Single rotation is not subscriptable.")
        places = np.asarray(plain(indexer)) if isinstance(indexer, list | Tensor) else indexer
        return _made(self._quat[places])

    def __setitem__(self, indexer: Any, value: Any) -> None:
        raise option_without_rule(f"{_NAME}.__setitem__", "indexer", indexer)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"Rotation.from_quat({self._quat!r})"


for _method in ("reduce", "create_group", "random"):
    refused(f"{_NAME}.{_method}", "its result may jump")
constant(f"{_NAME}.approx_equal", "it compares")


@rule(f"{_NAME}.from_quat", tensors="quat")
def _rule_from_quat(quat: Any, scalar_first: bool) -> Any:
    made = RotationTensor.__new__(RotationTensor)
    RotationTensor.__init__(made, quat, scalar_first=scalar_first)
    return made


@rule(f"{_NAME}.from_matrix", tensors="matrix")
def _rule_from_matrix(matrix: Any, assume_valid: bool) -> Any:
    """The closest rotation, as SciPy finds it for matrices that are not orthogonal."""
    if assume_valid:
        raise option_without_rule(f"{_NAME}.from_matrix", "assume_valid", assume_valid)
    given = as_double(matrix)
    like = _reference(Rotation.from_matrix, given)
    return _made(_TOP(_quadratic_form(given), like)[0])


@rule(f"{_NAME}.from_rotvec", tensors="rotvec")
def _rule_from_rotvec(rotvec: Any, degrees: bool) -> Any:
    _check(Rotation.from_rotvec, rotvec)
    return _made(_from_rotvec(_radians(rotvec, degrees)))


@rule(f"{_NAME}.from_mrp", tensors="mrp")
def _rule_from_mrp(mrp: Any) -> Any:
    _check(Rotation.from_mrp, mrp)
    given = as_double(mrp)
    square = xp.sum(given * given, -1, keepdims=True)
    return _made(xp.concatenate([2 * given, 1 - square], -1) / (1 + square))


@rule(f"{_NAME}.from_euler", tensors="angles")
def _rule_from_euler(seq: str, angles: Any, degrees: bool) -> Any:
    _check(Rotation.from_euler, seq, angles)
    given = _radians(angles, degrees)
    given = given if given.ndim else xp.reshape(given, [1])
    axes = [_AXES[axis] for axis in seq.lower()]
    return _made(_from_davenport(axes, given, seq.islower()))


@rule(f"{_NAME}.from_davenport", tensors="angles")
def _rule_from_davenport(axes: Any, order: str, angles: Any, degrees: bool) -> Any:
    _check(Rotation.from_davenport, axes, order, angles)
    given = _radians(angles, degrees)
    given = given if given.ndim else xp.reshape(given, [1])
    rows = np.atleast_2d(np.asarray(plain(axes), float))
    if rows.ndim > 2:
        raise option_without_rule(f"{_NAME}.from_davenport", "axes", "of several rotations")
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return _made(_from_davenport(unit, given, order[0] == "e"))


@rule(f"{_NAME}.concatenate", tensors="rotations")
def _rule_concatenate(rotations: Any) -> Any:
    if isinstance(rotations, Rotation):
        return _made(_quat_of(rotations))
    quats = [_quat_of(rotation) for rotation in rotations]
    return _made(xp.concatenate([q if q.ndim > 1 else xp.expand_dims(q, 0) for q in quats]))


@rule(f"{_NAME}.align_vectors", tensors="a b weights")
def _rule_align_vectors(a: Any, b: Any, weights: Any, return_sensitivity: bool) -> Any:
    """The rotation of b that is closest to a, and the root of the sum of squared distances."""
    if return_sensitivity:
        raise option_without_rule(f"{_NAME}.align_vectors", "return_sensitivity", True)
    like = _reference(Rotation.align_vectors, a, b, weights)
    first, second = (as_double(value) for value in (a, b))
    shares = as_tensor(1.0) if weights is None else xp.expand_dims(as_double(weights), -1)
    if not np.all(np.isfinite(all_values(shares))):
        raise option_without_rule(f"{_NAME}.align_vectors", "weights", "infinite")
    if first.ndim == 1 or first.shape[0] == 1:
        quat, square = _align_one(xp.reshape(first, [3]), xp.reshape(second, [3]))
        square = square * (shares if weights is None else shares[0, 0])
    else:
        form = _quadratic_form(xp.matrix_transpose(first * shares) @ second)
        quat, value = _TOP(form, like)
        square = xp.sum(shares * (first * first + second * second)) - 2 * value
    is_apart = square > 1e-14
    root = xp.sqrt(xp.where(is_apart, square, xp.ones_like(square)))
    return _made(quat), xp.where(is_apart, root, xp.zeros_like(root))


def _align_one(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The shortest rotation from one vector to another."""
    sizes = [xp.sqrt(xp.sum(x * x)) for x in (first, second)]
    a, b = first / sizes[0], second / sizes[1]
    cosine = xp.sum(a * b)
    if np.any(all_values(cosine) < -1 + 1e-10):
        raise DerivativeMissingError(
            f"{_NAME}.align_vectors: the vectors are opposite, so that the rotation jumps"
        )
    quat = xp.concatenate([xp.linalg_cross(b, a), xp.reshape(1 + cosine, [1])])
    return _unit(quat), (sizes[0] - sizes[1]) ** 2


def _declare_method(name: str, tensors: str) -> None:
    """A method of SciPy's own rotations with a tensor as its argument."""

    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_made(_quat_of(self)), name)(*args, **kwargs)

    rule(f"{_NAME}.{name}", tensors=tensors)(apply)


_declare_method("apply", "self vectors")
_declare_method("mean", "self weights")
_declare_method("__mul__", "self other")
_declare_method("__pow__", "self n")


@class_rule("scipy.spatial.transform.Slerp", tensors="times rotations")
class SlerpTensor(Slerp):  # type: ignore[misc]
    """Interpolation of rotations that are tensors, or at times that are."""

    def __init__(self, times: Any, rotations: Any) -> None:
        quat = _quat_of(rotations)
        if quat.ndim != 2 or quat.shape[0] < 2:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        self.times = as_double(times)
        if self.times.ndim != 1 or self.times.shape[0] != quat.shape[0]:
            raise ValueError(
                f"Expected number of rotations to be equal to number of timestamps given, got "
                f"{quat.shape[0]} rotations and times of shape {self.times.shape}."
            )
        if np.any(np.diff(all_values(self.times)) <= 0):
            raise ValueError("Times must be in strictly increasing order.")
        self.timedelta = self.times[1:] - self.times[:-1]
        self.rotations = _made(quat[:-1])
        self.rotvecs = _as_rotvec(_compose(_conjugate(quat[:-1]), quat[1:]))

    def __call__(self, times: Any) -> Any:
        """The rotations at other times."""
        return _interpolate(self, times)


@rule("scipy.spatial.transform.Slerp.__call__", tensors="times")
def _interpolate(self: Any, times: Any) -> Any:
    given = as_double(times)
    if given.ndim > 1:
        raise ValueError("`times` must be at most 1-dimensional.")

    def find(nodes: Any, values: Any) -> Any:
        if np.any((values < nodes[0]) | (values > nodes[-1])):
            raise ValueError(
                f"Interpolation times must be within the range [{nodes[0]}, {nodes[-1]}], both "
                f"inclusive."
            )
        return np.maximum(np.searchsorted(nodes, values) - 1, 0)

    name = "scipy.spatial.transform.Slerp"
    place = as_tensor(call_on_values(name, find, (self.times, given), {}))
    held = (self.times, self.timedelta, self.rotvecs, _quat_of(self.rotations))
    start, length, rotvec, quat = (gather(as_tensor(part), place) for part in held)
    turn = xp.expand_dims((given - start) / length, -1) * rotvec
    return _made(_compose(quat, _from_rotvec(turn)))


@rule("scipy.spatial.geometric_slerp", tensors="start end t")
def _geometric_slerp(start: Any, end: Any, t: Any, tol: float) -> Any:
    """Points on the great circle between two points of a unit sphere."""
    _check(theirs.geometric_slerp, start, end, t, tol)
    first, last, times = (as_double(value) for value in (start, end, t))
    cosine = xp.sum(first * last)
    rest = last - cosine * first
    sine = xp.sqrt(xp.sum(rest * rest))
    if np.any(all_values(sine) <= 1e-12):
        raise DerivativeMissingError(
            "scipy.spatial.geometric_slerp: start and end are equal, so that the path jumps"
        )
    angle = xp.expand_dims(times, -1) * xp.atan2(sine, cosine)
    return first * xp.cos(angle) + (rest / sine) * xp.sin(angle)
