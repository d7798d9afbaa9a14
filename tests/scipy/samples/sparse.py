"""Samples of scipy.sparse: products, arrays with differentiated values, solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback import scipy as sp
from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

Array = NDArray[Any]
Call = Callable[[Any], Any]
SAMPLES: dict[str, Sample] = {}

_rng = np.random.default_rng(7)
N = 5
# A symmetric positive definite matrix with a pattern of 13 entries; VALUES is its upper half.
_dense = np.diag(np.arange(4.0, 4.0 + N)) + np.diag(np.array([1.0, -0.7, 0.5, 0.3]), 1)
_dense += np.diag(np.array([0.0, 0.4]), 3)
UPPER_ROWS, UPPER_COLUMNS = (places.astype(np.int32) for places in np.nonzero(_dense))
VALUES = _dense[UPPER_ROWS, UPPER_COLUMNS]
OFF = UPPER_ROWS != UPPER_COLUMNS
ROWS = np.concatenate([UPPER_ROWS, UPPER_COLUMNS[OFF]])
COLUMNS = np.concatenate([UPPER_COLUMNS, UPPER_ROWS[OFF]])
VECTOR, MATRIX = _rng.standard_normal(N), _rng.standard_normal((N, 2))
WIDE = _rng.standard_normal((2, N))
FIXED = sp.sparse.csr_array(_dense + np.triu(_dense, 1).T)
RECTANGLE = sp.sparse.csr_array(_rng.random((N, N)) * (_rng.random((N, N)) < 0.5))


def symmetric(values: Any, kind: str = "csr_array") -> Any:
    """The symmetric matrix with these values in its upper half."""
    both = np.concatenate([values, values[np.flatnonzero(OFF)]])
    return getattr(sp.sparse, kind)((both, (ROWS, COLUMNS)), shape=(N, N))


def general(values: Any, kind: str = "csr_array", space: Any = None) -> Any:
    """An upper triangular matrix with these values."""
    coo = ((values, (UPPER_ROWS, UPPER_COLUMNS)), (N, N))
    return getattr(space or sp.sparse, kind)(coo[0], shape=coo[1])


def dense(result: Any) -> Any:
    return result.toarray() if sp.sparse.issparse(result) else result


def add(line: str, call: Call, x: Any, **options: Any) -> None:
    SAMPLES[line] = Sample(call, x, **options)


def _products() -> None:
    for kind in ("csr", "csc", "coo", "dia", "bsr", "lil", "dok"):
        fixed = RECTANGLE.asformat(kind)
        add(f"matmul | right | {kind}_array", lambda x, a=fixed: a @ x, MATRIX)
    single = sp.sparse.csr_matrix(RECTANGLE)
    add("matmul | right | csr_matrix", lambda x: single @ x, MATRIX)
    add("matmul | right | csr_matrix star", lambda x: single * x, MATRIX)
    add("matmul | right | csr_array vector", lambda x: RECTANGLE @ x, VECTOR)
    add("matmul | right | complex", lambda x: (RECTANGLE * (1 + 2j)) @ x, VECTOR + 0.5j)
    for kind in ("csr_array", "csc_array", "csr_matrix"):
        fixed = getattr(sp.sparse, kind)(RECTANGLE)
        add(f"matmul | left | {kind}", lambda x, a=fixed: x @ a, WIDE)
    for kind in ("csr_array", "csc_array", "coo_array"):
        add(
            f"matmul | values | pb.sparse.{kind}",
            lambda v, kind=kind: general(v, kind, pb.sparse) @ VECTOR,
            VALUES,
        )
    add("matmul | values | pb.sparse.csr_array both", lambda v: general(v) @ v[:N], VALUES)
    add(
        "multiply | dense | csr_array", lambda x: dense(FIXED.multiply(x)), np.outer(VECTOR, VECTOR)
    )
    add("add | dense | csr_array", lambda x: FIXED + x, np.outer(VECTOR, VECTOR))
    add("subtract | dense | csr_array", lambda x: FIXED - x, np.outer(VECTOR, VECTOR))
    add("csr_array.dot | other", lambda x: FIXED.dot(x), VECTOR)


def _methods() -> None:
    calls: dict[str, Call] = {
        "sum": lambda a: (a.sum(), a.sum(axis=0), a.sum(axis=1)),
        "diagonal": lambda a: (a.diagonal(), a.diagonal(1)),
        "todense": lambda a: a.todense(),
        "transpose": lambda a: a.T @ VECTOR,
        "multiply": lambda a: (dense(a.multiply(RECTANGLE)), dense(a.multiply(VECTOR))),
        "power": lambda a: dense(a.power(3)),
        "mean": lambda a: (a.mean(), a.mean(axis=0)),
        "trace": lambda a: a.trace(),
        "add": lambda a: dense(a + RECTANGLE + a.T),
        "mul": lambda a: (dense(3.0 * a), dense(a @ a)),
        "neg": lambda a: dense(-a),
        "getitem": lambda a: (dense(a[1:3]), dense(a[:, [0, 2]]), a[0, 1]),
    }
    for name, call in calls.items():
        add(f"csr_array.{name} | values", lambda v, call=call: call(general(v)), VALUES)
    stacks: dict[str, Call] = {
        "hstack": lambda a: sp.sparse.hstack([a, RECTANGLE]),
        "vstack": lambda a: sp.sparse.vstack([RECTANGLE, a]),
        "block_array": lambda a: sp.sparse.block_array([[a, None], [RECTANGLE, a]]),
        "kron": lambda a: sp.sparse.kron(a, RECTANGLE),
        "block_diag": lambda a: sp.sparse.block_diag([a, RECTANGLE]),
    }
    for name, call in stacks.items():
        add(f"{name} | values", lambda v, call=call: dense(call(general(v))), VALUES)
    add(
        "diags_array | values",
        lambda v: dense(sp.sparse.diags_array([v, v[1:]], offsets=[0, 1])),
        VECTOR,
    )


def _direct() -> None:
    linalg = sp.sparse.linalg
    options: dict[str, tuple[dict[str, Any], str, Array]] = {
        "": ({}, "csr_array", VECTOR),
        " | b matrix": ({}, "csr_array", MATRIX),
        " | permc_spec": ({"permc_spec": "NATURAL"}, "csr_array", VECTOR),
        " | use_umfpack=False": ({"use_umfpack": False}, "csr_array", VECTOR),
        " | csc_array": ({}, "csc_array", VECTOR),
        " | complex": ({}, "csr_array", VECTOR + 0.5j),
    }
    for name, (given, kind, b) in options.items():
        factor = 1 + 0.3j if "complex" in name else 1.0
        fixed = getattr(sp.sparse, kind)(FIXED * factor)
        add(
            f"linalg.spsolve | b{name}",
            lambda x, a=fixed, given=given: linalg.spsolve(a, x, **given),
            b,
        )
        add(
            f"linalg.spsolve | values{name}",
            lambda v, kind=kind, given=given, b=b: linalg.spsolve(symmetric(v, kind), b, **given),
            VALUES * factor,
        )


def _factorisations() -> None:
    linalg = sp.sparse.linalg
    columns = FIXED.tocsc()
    for function in ("splu", "spilu"):
        made = getattr(linalg, function)(columns)
        no_single = {"float32": 0.0}  # SuperLU refuses to mix precisions
        add(f"linalg.{function} | b", made.solve, VECTOR, **no_single)
        add(f"linalg.{function} | b | b matrix", made.solve, MATRIX, **no_single)
        add(
            f"linalg.{function} | b | trans=T",
            lambda x, made=made: made.solve(x, "T"),
            VECTOR,
            **no_single,
        )
    run = linalg.factorized(columns)
    add("linalg.factorized | b", run, VECTOR, float32=0.0)
    add("linalg.factorized | b | b matrix", run, MATRIX, float32=0.0)
    add(
        "linalg.splu | values",
        lambda v: linalg.splu(symmetric(v, "csc_array")).solve(VECTOR),
        VALUES,
        float32=0.0,
    )
    add(
        "linalg.factorized | values",
        lambda v: linalg.factorized(symmetric(v, "csc_array"))(VECTOR),
        VALUES,
        float32=0.0,
    )


def _triangles() -> None:
    linalg = sp.sparse.linalg
    triangles = {"": {}, " | lower=False": {}, " | unit_diagonal=True": {"unit_diagonal": True}}
    for name, given in triangles.items():
        lower = "lower=False" not in name

        def matrix(v: Any, lower: bool = lower) -> Any:
            made = general(v)
            return made.T.tocsr() if lower else made

        add(
            f"linalg.spsolve_triangular | b{name}",
            lambda x, m=matrix, lower=lower, given=given: linalg.spsolve_triangular(
                m(VALUES), x, lower=lower, **given
            ),
            VECTOR,
        )
        add(
            f"linalg.spsolve_triangular | values{name}",
            lambda v, m=matrix, lower=lower, given=given: linalg.spsolve_triangular(
                m(v), VECTOR, lower=lower, **given
            ),
            VALUES,
        )


def _iterations() -> None:
    linalg = sp.sparse.linalg
    names = "cg gmres minres bicgstab lgmres bicg cgs qmr tfqmr gcrotmk"
    preconditioner = linalg.aslinearoperator(sp.sparse.diags_array(1.0 / FIXED.diagonal()))
    identity = linalg.aslinearoperator(sp.sparse.eye_array(N))
    for name in names.split():
        function = getattr(linalg, name)
        exact: dict[str, Any] = {"rtol": 1e-13, "maxiter": 200}
        given = {
            "": exact,
            " | x0": exact | {"x0": np.ones(N)},
            " | M": exact
            | ({"M1": preconditioner, "M2": identity} if name == "qmr" else {"M": preconditioner}),
            " | rtol": exact | {"rtol": 1e-14},
        }
        if name == "tfqmr":
            del given[" | M"]  # SciPy 1.17 returns no solution with M, though info is 0
        tolerances = {"value_rtol": 1e-9, "float32": 0.0}
        for option, options in given.items():
            add(
                f"linalg.{name} | b{option}",
                lambda x, f=function, o=options: f(FIXED, x, **o)[0],
                VECTOR,
                **tolerances,
            )
            add(
                f"linalg.{name} | values{option}",
                lambda v, f=function, o=options: f(symmetric(v), VECTOR, **o)[0],
                VALUES,
                **tolerances,
            )


def _operators() -> None:
    linalg = sp.sparse.linalg

    def linear(x: Any) -> Any:
        return pb.tensor(FIXED.toarray()) @ x

    # Made by each call: while one of ours lives, a graph does, and recording is slower everywhere.
    makers = {
        "LinearOperator": lambda: linalg.aslinearoperator(FIXED),
        "pb.sparse.LinearOperator": lambda: pb.sparse.LinearOperator(linear, np.zeros(N)),
    }
    for name in ("cg", "gmres", "minres", "bicgstab"):
        function = getattr(linalg, name)
        for label, make in makers.items():
            add(
                f"linalg.{name} | b | {label}",
                lambda x, f=function, make=make: f(make(), x, rtol=1e-13)[0],
                VECTOR,
                value_rtol=1e-9,
                float32=0.0,
            )
    for label, make in zip(("from", "jvp"), makers.values(), strict=True):
        for method in ("matvec", "rmatvec"):
            add(
                f"LinearOperator | {label} | {method}",
                lambda x, make=make, method=method: getattr(make(), method)(x),
                VECTOR,
                float32=0.0,
            )
        add(
            f"LinearOperator | {label} | cg",
            lambda x, make=make: linalg.cg(make(), x, rtol=1e-13)[0],
            VECTOR,
            value_rtol=1e-9,
            float32=0.0,
        )


def _least_squares() -> None:
    linalg = sp.sparse.linalg
    tight = {"atol": 1e-14, "btol": 1e-14}
    for name in ("lsmr", "lsqr"):
        function = getattr(linalg, name)
        for option, more in (("", {}), (" | damp", {"damp": 0.5})):
            add(
                f"linalg.{name} | b{option}",
                lambda x, f=function, o=more: f(FIXED[:, :3], x, **o, **tight)[0],
                VECTOR,
                value_rtol=1e-9,
                float32=0.0,
            )
            add(
                f"linalg.{name} | values{option}",
                lambda v, f=function, o=more: f(symmetric(v)[:, :3], VECTOR, **o, **tight)[0],
                VALUES,
                value_rtol=1e-9,
                float32=0.0,
            )


def _spectra() -> None:
    linalg = sp.sparse.linalg
    start = {"v0": np.ones(N)}
    options: dict[str, dict[str, Any]] = {
        "": {"k": 2},
        " | which=SM": {"k": 2, "which": "SM"},
        " | k=3": {"k": 3},
        " | sigma=0": {"k": 2, "sigma": 0.0},
        " | which=LA": {"k": 2, "which": "LA"},
        " | return_eigenvectors=False": {"k": 2, "return_eigenvectors": False},
        " | M": {"k": 2, "M": sp.sparse.diags_array(np.linspace(1.0, 2.0, N)).tocsr()},
    }

    def unsigned(found: Any) -> Any:  # the sign of an eigenvector is arbitrary
        return (found[0], found[1] ** 2) if isinstance(found, tuple) else found

    for name, given in options.items():
        add(
            f"linalg.eigsh | values{name}",
            lambda v, o=given: unsigned(linalg.eigsh(symmetric(v), **o, **start)),
            VALUES,
            float32=0.0,
        )

    def singular(v: Any) -> Any:
        u, s, vt = linalg.svds(general(v)[:, :4], k=2, v0=np.ones(4))
        return u**2, s, vt**2

    add("linalg.svds | values", singular, VALUES, float32=0.0)
    add(
        "linalg.lobpcg | values",
        lambda v: linalg.lobpcg(symmetric(v), np.eye(N)[:, :1], tol=1e-12, maxiter=200)[0],
        VALUES,
        order=1,
        value_rtol=1e-8,
        float32=0.0,
    )


def _functions() -> None:
    linalg = sp.sparse.linalg
    small, given = 0.3 * FIXED, {"start": 0.0, "stop": 1.0, "num": 3, "endpoint": True}
    for name, options in (("", {}), (" | start stop", given), (" | traceA", {"traceA": 9.0})):
        add(
            f"linalg.expm_multiply | B{name}",
            lambda x, o=options: linalg.expm_multiply(small, x, **o),
            VECTOR,
        )
        add(
            f"linalg.expm_multiply | values{name}",
            lambda v, o=options: linalg.expm_multiply(0.3 * symmetric(v), VECTOR, **o),
            VALUES,
        )
    add("linalg.expm | values", lambda v: dense(linalg.expm(0.1 * symmetric(v).tocsc())), VALUES)
    add("linalg.inv | values", lambda v: dense(linalg.inv(symmetric(v, "csc_array"))), VALUES)
    for name, options in (
        ("", {}),
        (" | ord=1", {"ord": 1}),
        (" | ord=inf", {"ord": np.inf}),
        (" | axis", {"axis": 0}),
    ):
        add(
            f"linalg.norm | values{name}",
            lambda v, o=options: linalg.norm(general(v), **o),
            VALUES,
            order=2 if name in ("", " | axis") else 1,
            since=(1, 15) if "ord" in options else (0, 0),  # SciPy 1.14 takes matrices only
        )


def stiffness(coefficients: Any) -> Any:
    """The stiffness matrix of rods in a row, the first of which is fixed: entries are added."""
    count = len(coefficients)
    left = np.arange(count)
    rows = np.concatenate([left, left, left + 1, left + 1])
    columns = np.concatenate([left, left + 1, left, left + 1])
    values = np.concatenate([coefficients, -coefficients, -coefficients, coefficients])
    whole = sp.sparse.coo_array((values, (rows, columns)), shape=(count + 1, count + 1)).tocsr()
    return whole[1:, 1:]


def _assembly() -> None:
    material = np.linspace(1.0, 2.0, N)
    add("FEM | coefficients", lambda k: sp.sparse.linalg.spsolve(stiffness(k), VECTOR), material)
    add("assembly | coefficients", lambda k: stiffness(k) @ VECTOR, material)
    rows, columns = np.array([0, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 0])

    def repeated(v: Any) -> Any:
        return sp.sparse.csr_array((v, (rows, columns)), shape=(2, 2))

    add(
        "csr_array | values | from coordinates with duplicates",
        lambda v: repeated(v) @ np.array([1.0, 2.0]),
        VECTOR,
    )
    add(
        "csr_array | values | requires_grad through tocsc",
        lambda v: general(v).tocsc() @ VECTOR,
        VALUES,
    )
    add("csr_array | values | through tocoo", lambda v: general(v).tocoo() @ VECTOR, VALUES)
    add("csr_array | values | todense", lambda v: general(v).todense(), VALUES)


for _part in (
    _products,
    _methods,
    _direct,
    _factorisations,
    _triangles,
    _iterations,
    _operators,
    _least_squares,
    _spectra,
    _functions,
    _assembly,
):
    _part()
