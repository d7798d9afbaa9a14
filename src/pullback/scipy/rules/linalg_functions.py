"""Functions of matrices, matrix equations, norms and special matrices of ``scipy.linalg``.

The derivative of a function of a matrix along E stands in the upper right corner of the function of
``[[A, E], [0, A]]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sl

from pullback.autograd.namespaces import tensors as xp
from pullback.errors import DerivativeMissingError
from pullback.func.primitive import Known, Primitive
from pullback.interop.arguments import as_tensor
from pullback.scipy.registry import option_without_rule, rule
from pullback.scipy.rules.linalg_spectral import eig
from pullback.scipy.rules.linalg_tools import (
    Array,
    adjoint,
    diagonal,
    require_finite,
)
from pullback.tensor.tensor import Tensor

__all__: list[str] = []

# --- functions of matrices ---


def _matrix_function(name: str, compute: Callable[..., Any]) -> Primitive:
    """A function of a matrix that has real values on the real axis."""

    def forward(a: Array, **options: Any) -> Any:
        return np.asarray(compute(a, **options))

    def along(a: Tensor, direction: Tensor, options: dict[str, Any]) -> Any:
        n = a.shape[-1]
        _require_branch(name, a._array, options)
        size = xp.maximum(xp.max(xp.sum(xp.abs(direction.detach()), -2), -1), 1)[..., None, None]
        upper = xp.concatenate([a + xp.zeros_like(direction), direction / size], -1)
        lower = xp.concatenate([xp.zeros_like(upper[..., :n]), upper[..., :n]], -1)
        both = primitive(xp.concatenate([upper, lower], -2), **options)
        return both[..., :n, n:] * size

    primitive = Primitive(
        name,
        forward,
        lambda known, a_t: along(known.inputs[0], a_t, known.options),
        lambda known, g: along(adjoint(known.inputs[0]), g, known.options),
    )
    return primitive


def _require_branch(name: str, a: Any, options: dict[str, Any]) -> None:
    """Raises where the derivative is not defined: eigenvalues on a branch cut."""
    if name != "logm" and not (name == "fractional_matrix_power" and options["t"] % 1):
        return
    values = np.linalg.eigvals(a) if isinstance(a, np.ndarray) else np.ones(1)  # else vmap's
    if np.any((values.real <= 0) & (np.abs(values.imag) <= 1e-7 * np.abs(values))):
        raise DerivativeMissingError(
            f"scipy.linalg.{name}: A has an eigenvalue on the negative real axis, where the "
            f"function jumps and has no derivative; shift A, or compute with A.detach()"
        )


_EXPM = _matrix_function("expm", sl.expm)
_LOGM = _matrix_function("logm", sl.logm)
_POWER = _matrix_function("fractional_matrix_power", sl.fractional_matrix_power)
_TRIGONOMETRIC = {
    name: _matrix_function(name, getattr(sl, name))
    for name in ("cosm", "coshm", "sinhm", "sinm", "tanhm", "tanm")
}


def _declare(name: str, primitive: Primitive) -> None:
    def apply(A: Any, disp: Any = True) -> Any:
        if disp is False:
            raise option_without_rule(f"scipy.linalg.{name}", "disp", disp)
        return primitive(A)

    rule(f"scipy.linalg.{name}", tensors="A")(apply)


for _name, _primitive in (*_TRIGONOMETRIC.items(), ("logm", _LOGM), ("expm", _EXPM)):
    _declare(_name, _primitive)


def _sqrtm_jvp(known: Known, a_t: Tensor) -> Any:
    """X X = A: X dX + dX X = dA, also where X is complex for a real A."""
    (x,) = known.outputs
    return _SYLVESTER(x, x, a_t)


def _sqrtm_vjp(known: Known, g: Tensor) -> Any:
    x = adjoint(known.outputs[0])
    return _SYLVESTER(x, x, g)


_SQRTM = Primitive("sqrtm", lambda a: np.asarray(sl.sqrtm(a)), _sqrtm_jvp, _sqrtm_vjp)


@rule("scipy.linalg.sqrtm", tensors="A")
def _sqrtm(A: Any, disp: Any = True) -> Any:
    """The principal square root."""
    if disp is False:
        raise option_without_rule("scipy.linalg.sqrtm", "disp", disp)
    return _SQRTM(A)


@rule("scipy.linalg.fractional_matrix_power", tensors="A")
def _fractional_matrix_power(A: Any, t: float) -> Any:
    """A real power of a matrix."""
    return _POWER(A, t=t)


@rule("scipy.linalg.expm_frechet", tensors="A E")
def _expm_frechet(A: Any, E: Any, compute_expm: bool, check_finite: bool, **_: Any) -> Any:
    """The exponential of a matrix, and its derivative along another one."""
    a, e = as_tensor(A), as_tensor(E)
    if check_finite:
        require_finite(a, e)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError("expected A to be a square matrix")
    if e.shape != a.shape:
        raise ValueError("expected A and E to be the same shape")
    n = a.shape[0]
    upper = xp.concatenate([a, e], -1)
    whole = _EXPM(xp.concatenate([upper, xp.concatenate([xp.zeros_like(a), a], -1)], -2))
    return (whole[:n, :n], whole[:n, n:]) if compute_expm else whole[:n, n:]


@rule("scipy.linalg.funm", tensors="A")
def _funm(A: Any, func: Callable[..., Any], disp: Any) -> Any:
    """A function of a diagonalizable matrix; `func` is applied to the eigenvalues, as a tensor."""
    if disp is False:
        raise option_without_rule("scipy.linalg.funm", "disp", disp)
    a = as_tensor(A)
    values, vectors = eig(a)
    vectors = vectors + 0j
    weighted = vectors * xp.expand_dims(as_tensor(func(values)), -2)
    result = xp.matrix_transpose(
        xp.linalg_solve(xp.matrix_transpose(vectors), xp.matrix_transpose(weighted))
    )
    return xp.real(result) if a.dtype.kind == "f" else result


def _signm_jvp(known: Known, a_t: Tensor) -> Any:
    """S commutes with A, and S S = 1: N dS + dS N = dA - S dA S with N = S A."""
    (a,), (s,) = known.inputs, known.outputs
    root = s @ a
    return _SYLVESTER(root, root, a_t - s @ a_t @ s)


_SIGNM = Primitive("signm", sl.signm, _signm_jvp)
_declare("signm", _SIGNM)


@rule("scipy.linalg.polar", tensors="a")
def _polar(a: Any, side: str = "right") -> Any:
    """The polar decomposition of a matrix of full rank."""
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    a = as_tensor(a)
    if a.ndim != 2:
        raise ValueError("`a` must be a 2-D array.")
    is_left = side == "left"
    p = _SQRTM(a @ adjoint(a) if is_left else adjoint(a) @ a)
    u = xp.linalg_solve(p, a) if is_left else adjoint(xp.linalg_solve(p, adjoint(a)))
    return u, p


# --- matrix equations ---


def _sylvester_vjp(known: Known, g: Tensor) -> Any:
    (a, b, _), (x,) = known.inputs, known.outputs
    to_q = _SYLVESTER(adjoint(a), adjoint(b), g)
    return -(to_q @ adjoint(x)), -(adjoint(x) @ to_q), to_q


def _sylvester_jvp(known: Known, a_t: Tensor | None, b_t: Tensor | None, q_t: Tensor | None) -> Any:
    (a, b, q), (x,) = known.inputs, known.outputs
    change = xp.zeros_like(q) if q_t is None else q_t
    change = change if a_t is None else change - a_t @ x
    change = change if b_t is None else change - x @ b_t
    return _SYLVESTER(a, b, change)


_SYLVESTER = Primitive("solve_sylvester", sl.solve_sylvester, _sylvester_jvp, _sylvester_vjp)


@rule("scipy.linalg.solve_sylvester", tensors="a b q")
def _solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The solution x of a x + x b = q."""
    return _SYLVESTER(a, b, q)


def _lyapunov_jvp(known: Known, a_t: Tensor | None, q_t: Tensor | None) -> Any:
    (a, q), (x,) = known.inputs, known.outputs
    change = xp.zeros_like(q) if q_t is None else q_t
    if a_t is not None:
        change = change - a_t @ x - x @ adjoint(a_t)
    return _LYAPUNOV(a, change)


def _lyapunov_vjp(known: Known, g: Tensor) -> Any:
    (a, _), (x,) = known.inputs, known.outputs
    to_q = _LYAPUNOV(adjoint(a), g)
    return -(to_q @ adjoint(x)) - adjoint(to_q) @ x, to_q


_LYAPUNOV = Primitive(
    "solve_continuous_lyapunov", sl.solve_continuous_lyapunov, _lyapunov_jvp, _lyapunov_vjp
)


@rule("scipy.linalg.solve_lyapunov", tensors="a q")
@rule("scipy.linalg.solve_continuous_lyapunov", tensors="a q")
def _solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The solution x of a x + x a^H = q."""
    return _LYAPUNOV(a, q)


def _discrete_lyapunov_jvp(known: Known, a_t: Tensor | None, q_t: Tensor | None) -> Any:
    (a, q), (x,) = known.inputs, known.outputs
    change = xp.zeros_like(q) if q_t is None else q_t
    if a_t is not None:
        change = change + a_t @ x @ adjoint(a) + a @ x @ adjoint(a_t)
    return _DISCRETE_LYAPUNOV(a, change, method=known.options["method"])


def _discrete_lyapunov_vjp(known: Known, g: Tensor) -> Any:
    (a, _), (x,) = known.inputs, known.outputs
    to_q = _DISCRETE_LYAPUNOV(adjoint(a), g, method=known.options["method"])
    return to_q @ a @ adjoint(x) + adjoint(to_q) @ a @ x, to_q


_DISCRETE_LYAPUNOV = Primitive(
    "solve_discrete_lyapunov",
    sl.solve_discrete_lyapunov,
    _discrete_lyapunov_jvp,
    _discrete_lyapunov_vjp,
)


@rule("scipy.linalg.solve_discrete_lyapunov", tensors="a q")
def _solve_discrete_lyapunov(a: Any, q: Any, method: str | None) -> Any:
    """The solution x of a x a^H - x + q = 0."""
    return _DISCRETE_LYAPUNOV(a, q, method=method)


def _riccati_jvp(known: Known, *tangents: Tensor | None) -> Any:
    """A Lyapunov equation with the closed loop (A - B K) E^{-1}."""
    (x,), is_discrete = known.outputs, known.options["discrete"]
    names = ["a", "b", "q", "r", *known.options["more"]]
    given = dict(zip(names, known.inputs, strict=True))
    changes = {n: t for n, t in zip(names, tangents, strict=True) if t is not None}
    a, b, r, e, s = (given.get(name) for name in "abres")
    assert a is not None and b is not None and r is not None
    inner = adjoint(b) @ x
    if is_discrete or e is not None:
        inner = inner @ (a if is_discrete else e)
    inner = inner if s is None else inner + adjoint(s)
    gain = xp.linalg_solve(r + adjoint(b) @ x @ b if is_discrete else r, inner)
    closed = a - b @ gain
    outer = adjoint(closed) @ x if is_discrete else x if e is None else adjoint(e) @ x
    half = xp.zeros_like(x)
    if "a" in changes:
        half = half + outer @ changes["a"]
    if "b" in changes:
        half = half - outer @ changes["b"] @ gain
    if "s" in changes:
        half = half - changes["s"] @ gain
    if "e" in changes:
        assert e is not None
        before = -adjoint(e) if is_discrete else adjoint(closed)
        half = half + before @ x @ changes["e"]
    change = half + adjoint(half)
    if "q" in changes:
        change = change + changes["q"]
    if "r" in changes:
        change = change + adjoint(gain) @ changes["r"] @ gain
    if e is not None:
        inverse = xp.linalg_inv(e)
        closed, change = closed @ inverse, adjoint(inverse) @ change @ inverse
    if is_discrete:
        return _DISCRETE_LYAPUNOV(adjoint(closed), change, method=None)
    return _LYAPUNOV(adjoint(closed), -change)


def _riccati(*inputs: Array, discrete: bool, balanced: bool, more: tuple[str, ...]) -> Any:
    solve = sl.solve_discrete_are if discrete else sl.solve_continuous_are
    return solve(*inputs[:4], **dict(zip(more, inputs[4:], strict=True)), balanced=balanced)


_RICCATI = Primitive("solve_are", _riccati, _riccati_jvp)


def _solve_are(name: str, discrete: bool) -> None:
    @rule(f"scipy.linalg.{name}", tensors="a b q r e s")
    def apply(a: Any, b: Any, q: Any, r: Any, e: Any, s: Any, balanced: bool) -> Any:
        more = {key: value for key, value in (("e", e), ("s", s)) if value is not None}
        options = {"discrete": discrete, "balanced": balanced, "more": tuple(more)}
        return _RICCATI(a, b, q, r, *more.values(), **options)


_solve_are("solve_continuous_are", False)
_solve_are("solve_discrete_are", True)

# --- numbers ---


@rule("scipy.linalg.det", tensors="a")
def _det(a: Any, check_finite: bool) -> Any:
    """The determinant."""
    a = as_tensor(a)
    if check_finite:
        require_finite(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        sl.det(np.zeros(a.shape))  # raises
    return xp.linalg_det(xp.astype(a, np.result_type(a.dtype, np.float64)))


@rule("scipy.linalg.norm", tensors="a")
def _norm(a: Any, ord: Any, axis: Any, keepdims: bool, check_finite: bool) -> Any:
    """The norm of a vector or matrix."""
    a = as_tensor(a)
    if check_finite:
        require_finite(a)
    result: Tensor = xp.linalg_norm(a, ord, axis, keepdims)
    by_lapack = ord in ((None, 2) if a.ndim == 1 else (1, np.inf) if a.ndim == 2 else ())
    if axis is None and not keepdims and by_lapack:
        return xp.astype(result, np.float64)  # a float in SciPy
    return result


@rule("scipy.linalg.orthogonal_procrustes", tensors="A B")
def _orthogonal_procrustes(A: Any, B: Any, check_finite: bool) -> Any:
    """The orthogonal matrix that maps A to B most closely, and its scale."""
    a, b = as_tensor(A), as_tensor(B)
    if check_finite:
        require_finite(a, b)
    if a.ndim != 2:
        raise ValueError(f"expected ndim to be 2, but observed {a.ndim}")
    if a.shape != b.shape:
        raise ValueError(f"the shapes of A and B differ ({a.shape} vs {b.shape})")
    turn, size = _polar(adjoint(adjoint(b) @ a))
    return turn, xp.sum(xp.real(diagonal(size)))


@rule("scipy.linalg.subspace_angles", tensors="A B")
def _subspace_angles(A: Any, B: Any) -> Any:
    """The angles between two subspaces, largest first."""
    a, b = as_tensor(A), as_tensor(B)
    require_finite(a, b)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"expected 2D array, got shapes {a.shape} and {b.shape}")
    if a.shape[0] != b.shape[0]:
        raise ValueError(
            f"A and B must have the same number of rows, got {a.shape[0]} and {b.shape[0]}"
        )
    first, second = xp.linalg_qr(a)[0], xp.linalg_qr(b)[0]
    inner = adjoint(first) @ second
    is_wider = a.shape[1] >= b.shape[1]
    rest = second - first @ inner if is_wider else first - second @ adjoint(inner)
    cosine, sine = xp.linalg_svdvals(inner), xp.flip(xp.linalg_svdvals(rest), -1)
    is_small = cosine**2 >= 0.5
    small = xp.asin(xp.where(is_small, sine, 0.5))
    large = xp.acos(xp.where(is_small, 0.5, cosine))
    return xp.flip(xp.where(is_small, small, large), -1)
