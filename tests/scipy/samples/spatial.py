"""Samples of scipy.spatial: distances, trees, rotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import spatial
from scipy.spatial import distance
from scipy.spatial.transform import Rotation, Slerp

from tests.scipy.sample import Sample

__all__ = ["SAMPLES"]

RNG = np.random.default_rng(24)
A = RNG.standard_normal((4, 3))
B = RNG.standard_normal((5, 3)) + 0.5
POSITIVE = RNG.random((4, 3)) + 0.5
OTHERS = RNG.random((5, 3)) + 0.5
U, V = RNG.standard_normal((2, 4))
W3, W4 = RNG.random(3) + 0.5, RNG.random(4) + 0.5
MANY = RNG.standard_normal((9, 3))
SINCE = (1, 17)  # Rotation is written in Python

METRICS = ["braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine"]
METRICS += ["euclidean", "jensenshannon", "mahalanobis", "minkowski", "seuclidean", "sqeuclidean"]


def metric_samples() -> Iterator[tuple[str, Sample]]:
    for name in METRICS:
        a, b = (POSITIVE, OTHERS) if name == "jensenshannon" else (A, B)
        few = {"mahalanobis": MANY[:6]}.get(name, a)
        options: dict[str, Any] = {"spread": 0.002, "step": 1e-4, "rtol": 2e-6}
        yield (
            f"distance.cdist | XA | metric={name}",
            Sample(lambda x, b=b, name=name: distance.cdist(x, b, name), few, **options),
        )
        yield (
            f"distance.cdist | XB | metric={name}",
            Sample(lambda x, a=few, name=name: distance.cdist(a, x, name), b, **options),
        )
        yield (
            f"distance.pdist | X | metric={name}",
            Sample(lambda x, name=name: distance.pdist(x, name), few, **options),
        )
        if name in ("jensenshannon",):
            continue
        extra = {"mahalanobis": (np.eye(4) + 0.1,), "seuclidean": (W4,)}.get(name, ())
        function = getattr(distance, name)
        yield (
            f"distance.{name} | u",
            Sample(lambda u, f=function, extra=extra: f(u, V, *extra), U, **options),
        )
        yield (
            f"distance.{name} | v",
            Sample(lambda v, f=function, extra=extra: f(U, v, *extra), V, **options),
        )


def weighted_samples() -> Iterator[tuple[str, Sample]]:
    options: dict[str, Any] = {"spread": 0.002, "step": 1e-4, "rtol": 2e-6}
    for name in ("euclidean", "sqeuclidean", "cityblock", "cosine", "minkowski", "canberra"):
        yield (
            f"distance.cdist | XA | metric={name} w",
            Sample(lambda x, name=name: distance.cdist(x, B, name, w=W3), A, **options),
        )
        yield (
            f"distance.cdist | w | metric={name}",
            Sample(lambda w, name=name: distance.cdist(A, B, name, w=w), W3, **options),
        )
    for name in ("euclidean", "cosine", "correlation", "cityblock"):
        function = getattr(distance, name)
        yield f"distance.{name} | u | w", Sample(lambda u, f=function: f(u, V, W4), U, **options)
        yield f"distance.{name} | w", Sample(lambda w, f=function: f(U, V, w), W4, **options)


def of(make: Callable[[Any], Any], read: Callable[[Any], Any], x: Any, **options: Any) -> Sample:
    """A sample of a rotation: how it is made of x, and what is read of it."""
    return Sample(lambda at: read(make(at)), x, since=SINCE, **options)


def matrix(rotation: Any) -> Any:
    return rotation.as_matrix()


VECTOR = np.array([0.4, -0.7, 0.9])
VECTORS = RNG.standard_normal((3, 3)) * 0.8
QUAT = np.array([0.2, -0.5, 0.4, 0.8])
QUATS = RNG.standard_normal((3, 4))
ANGLES = np.array([0.3, -0.6, 1.1])
TURN = Rotation.from_rotvec([0.3, 0.2, -0.5])
TURNS = Rotation.from_rotvec(RNG.standard_normal((3, 3)))
AXES = np.array([[1.0, 0, 0], [0, 1, 0], [0.6, 0, 0.8]])
ORTHOGONAL = Rotation.from_rotvec(VECTOR).as_matrix()
TIMES = np.array([0.0, 1.0, 2.5])
START = np.array([0.6, 0.0, 0.8])
END = np.array([0.0, 1.0, 0.0])
FAR = RNG.standard_normal((6, 3))


def unit(x: Any) -> Any:
    return x / ((x * x).sum() ** 0.5)


def rotation_samples() -> Iterator[tuple[str, Sample]]:
    from_rotvec = Rotation.from_rotvec
    makers: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "Rotation | quat": (Rotation, QUAT),
        "Rotation.from_quat | quat": (Rotation.from_quat, QUAT),
        "Rotation.from_quat | quat | several": (Rotation.from_quat, QUATS),
        "Rotation.from_quat | quat | scalar_first=True": (
            lambda q: Rotation.from_quat(q, scalar_first=True),
            QUAT,
        ),
        "Rotation.from_matrix | matrix": (Rotation.from_matrix, ORTHOGONAL + 0.05 * A[:3]),
        "Rotation.from_matrix | matrix | several": (
            Rotation.from_matrix,
            np.stack([ORTHOGONAL + 0.05 * A[:3], TURN.as_matrix() + 0.03 * B[:3]]),
        ),
        "Rotation.from_rotvec | rotvec": (from_rotvec, VECTOR),
        "Rotation.from_rotvec | rotvec | several": (from_rotvec, VECTORS),
        "Rotation.from_rotvec | rotvec | zero": (from_rotvec, np.zeros(3)),
        "Rotation.from_rotvec | rotvec | degrees=True": (
            lambda v: from_rotvec(50 * v, degrees=True),
            VECTOR,
        ),
        "Rotation.from_mrp | mrp": (Rotation.from_mrp, 0.5 * VECTOR),
        "Rotation.from_mrp | mrp | several": (Rotation.from_mrp, 0.5 * VECTORS),
        "Rotation.from_davenport | angles": (
            lambda t: Rotation.from_davenport(AXES, "e", t),
            ANGLES,
        ),
        "Rotation.from_davenport | angles | order=intrinsic": (
            lambda t: Rotation.from_davenport(AXES, "intrinsic", t),
            ANGLES,
        ),
    }
    for seq in ("x", "zy", "xyz", "XYZ", "zxz", "ZYX"):
        makers[f"Rotation.from_euler | angles | seq={seq}"] = (
            lambda t, seq=seq: Rotation.from_euler(seq, t),
            ANGLES[: len(seq)],
        )
    makers["Rotation.from_euler | angles | degrees=True"] = (
        lambda t: Rotation.from_euler("xyz", 40 * t, degrees=True),
        ANGLES,
    )
    makers["Rotation.from_euler | angles | several"] = (
        lambda t: Rotation.from_euler("zyx", t),
        VECTORS,
    )
    for line, (make, x) in makers.items():
        yield line, of(make, matrix, x)


def reader_samples() -> Iterator[tuple[str, Sample]]:
    readers: dict[str, Callable[[Any], Any]] = {
        "as_quat": lambda r: r.as_quat(),
        "as_quat | canonical=True": lambda r: r.as_quat(canonical=True),
        "as_quat | scalar_first=True": lambda r: r.as_quat(scalar_first=True),
        "as_matrix": matrix,
        "as_rotvec": lambda r: r.as_rotvec(),
        "as_rotvec | degrees=True": lambda r: r.as_rotvec(degrees=True),
        "as_mrp": lambda r: r.as_mrp(),
        "as_euler | seq=xyz": lambda r: r.as_euler("xyz"),
        "as_euler | seq=ZYX": lambda r: r.as_euler("ZYX"),
        "as_euler | seq=zxz": lambda r: r.as_euler("zxz"),
        "as_euler | seq=YXY degrees=True": lambda r: r.as_euler("YXY", degrees=True),
        "as_davenport": lambda r: r.as_davenport(AXES, "e"),
        "as_davenport | order=intrinsic": lambda r: r.as_davenport(AXES, "i"),
        "magnitude": lambda r: r.magnitude(),
        "inv": lambda r: r.inv().as_matrix(),
        "apply": lambda r: r.apply(A[0]),
        "apply | several vectors": lambda r: r.apply(A),
        "apply | inverse=True": lambda r: r.apply(A, inverse=True),
        "__mul__ | constant": lambda r: (r * TURN).as_matrix(),
        "__mul__ | constant first": lambda r: (TURN * r).as_matrix(),
        "__mul__ | itself": lambda r: (r * r.inv() * r).as_matrix(),
        "__pow__ | n=2": lambda r: (r**2).as_matrix(),
        "__pow__ | n=0.3": lambda r: (r**0.3).as_matrix(),
        "__pow__ | n=-1": lambda r: (r**-1).as_matrix(),
    }
    for name, read in readers.items():
        line = name if "|" in name else f"{name}"
        method, _, option = line.partition(" | ")
        full = f"Rotation.{method} | self" + (f" | {option}" if option else "")
        yield full, of(Rotation.from_rotvec, read, VECTOR)
    for name in ("as_rotvec", "as_matrix", "magnitude", "as_quat", "as_mrp"):
        yield (
            f"Rotation.{name} | self | several",
            of(Rotation.from_rotvec, lambda r, name=name: getattr(r, name)(), VECTORS),
        )
    yield (
        "Rotation.as_euler | self | several",
        of(Rotation.from_rotvec, lambda r: r.as_euler("xyz"), VECTORS),
    )
    yield (
        "Rotation.as_rotvec | self | identity",
        of(Rotation.from_rotvec, lambda r: r.as_rotvec(), np.zeros(3)),
    )
    yield (
        "Rotation.apply | self | several rotations",
        of(Rotation.from_rotvec, lambda r: r.apply(A[:3]), VECTORS),
    )
    yield (
        "Rotation.__getitem__ | self",
        of(Rotation.from_rotvec, lambda r: [r[0].as_quat(), r[1:].as_matrix()], VECTORS),
    )
    yield (
        "Rotation.__iter__ | self",
        of(Rotation.from_rotvec, lambda r: [part.as_quat() for part in r], VECTORS),
    )


def argument_samples() -> Iterator[tuple[str, Sample]]:
    yield "Rotation.apply | vectors", of(TURN.apply, lambda y: y, A)
    yield (
        "Rotation.apply | vectors | inverse=True",
        of(lambda x: TURNS.apply(x, inverse=True), lambda y: y, A[:3]),
    )
    yield "Rotation.__pow__ | n", of(lambda n: TURN**n, matrix, np.array(0.7))
    yield (
        "Rotation.concatenate | rotations",
        of(lambda v: Rotation.concatenate([Rotation.from_rotvec(v), TURNS]), matrix, VECTOR),
    )
    mean = Rotation.from_rotvec
    yield "Rotation.mean | self", of(lambda v: mean(v).mean(), matrix, 0.6 * VECTORS)
    yield (
        "Rotation.mean | self | weights",
        of(lambda v: mean(v).mean(W3), matrix, 0.6 * VECTORS),
    )
    yield "Rotation.mean | weights", of(lambda w: TURNS.mean(w), matrix, W3)
    align = Rotation.align_vectors
    turned = TURN.apply(A) + 0.1 * B[:4]

    def both(found: Any) -> Any:
        return [found[0].as_matrix(), found[1]]

    yield "Rotation.align_vectors | a", of(lambda a: align(a, A), both, turned, rtol=1e-5)
    yield "Rotation.align_vectors | b", of(lambda b: align(turned, b), both, A, rtol=1e-5)
    yield (
        "Rotation.align_vectors | weights",
        of(lambda w: align(turned, A, w), both, W4, rtol=1e-5),
    )
    yield (
        "Rotation.align_vectors | a | one vector",
        of(lambda a: align(a, A[0])[0], matrix, A[1]),
    )
    yield (
        "Slerp | rotations",
        of(lambda v: Slerp(TIMES, Rotation.from_rotvec(v))([0.3, 2.0]), matrix, 0.5 * VECTORS),
    )
    yield (
        "Slerp | times",
        of(lambda t: Slerp(t, TURNS)([0.3, 2.0]), matrix, TIMES, vmap=False),
    )
    yield (
        "Slerp.__call__ | times",
        of(lambda t: Slerp(TIMES, TURNS)(t), matrix, np.array([0.3, 2.0]), vmap=False),
    )


SAMPLES = {
    **dict(metric_samples()),
    **dict(weighted_samples()),
    "distance.cdist | V | metric=seuclidean": Sample(
        lambda v: distance.cdist(A, B, "seuclidean", V=v), W3
    ),
    "distance.cdist | VI | metric=mahalanobis": Sample(
        lambda vi: distance.cdist(A, B, "mahalanobis", VI=vi), np.eye(3) * 2 + 0.2
    ),
    "distance.cdist | XA | metric=mahalanobis VI": Sample(
        lambda x: distance.cdist(x, B, "mahalanobis", VI=np.eye(3) * 2 + 0.2), A, spread=0.002
    ),
    "distance.cdist | XA | metric=seuclidean V": Sample(
        lambda x: distance.cdist(x, B, "seuclidean", V=W3), A, spread=0.002
    ),
    "distance.cdist | XA | metric=minkowski p=3": Sample(
        lambda x: distance.cdist(x, B, "minkowski", p=3), A, spread=0.002, step=1e-4
    ),
    "distance.cdist | XA | metric=minkowski p=1.5": Sample(
        lambda x: distance.cdist(x, B, "minkowski", p=1.5),
        A,
        spread=0.002,
        step=1e-4,
        rtol=1e-5,
        order=1,
    ),
    "distance.cdist | XA | metric=function": Sample(
        lambda x: distance.cdist(x, B, lambda u, v: ((u - v) ** 4).sum()), A
    ),
    "distance.pdist | X | metric=function": Sample(
        lambda x: distance.pdist(x, lambda u, v: ((u - v) ** 4).sum()), A
    ),
    "distance.pdist | X | metric=minkowski p=3": Sample(
        lambda x: distance.pdist(x, "minkowski", p=3), A, spread=0.002, step=1e-4
    ),
    "distance.minkowski | u | p=3": Sample(lambda u: distance.minkowski(u, V, 3), U),
    "distance.seuclidean | V": Sample(lambda w: distance.seuclidean(U, V, w), W4),
    "distance.mahalanobis | VI": Sample(
        lambda w: distance.mahalanobis(U, V, w), np.eye(4) * 2 + 0.1
    ),
    "distance.jensenshannon | p": Sample(
        lambda p: distance.jensenshannon(p, OTHERS[0]), POSITIVE[0]
    ),
    "distance.squareform | X | vector": Sample(distance.squareform, RNG.random(6)),
    "distance.squareform | X | matrix": Sample(
        lambda x: distance.squareform((x + x.T) * (1 - np.eye(4)), checks=False),
        RNG.random((4, 4)),
    ),
    "distance.directed_hausdorff | u": Sample(
        lambda u: distance.directed_hausdorff(u, B)[0], A, spread=0.002, step=1e-4, vmap=False
    ),
    "distance.directed_hausdorff | v": Sample(
        lambda v: distance.directed_hausdorff(A, v)[0], B, spread=0.002, step=1e-4, vmap=False
    ),
    "distance_matrix | x": Sample(lambda x: spatial.distance_matrix(x, B), A, spread=0.002),
    "distance_matrix | x | p=3": Sample(
        lambda x: spatial.distance_matrix(x, B, p=3), A, spread=0.002, step=1e-4
    ),
    "minkowski_distance | x": Sample(lambda x: spatial.minkowski_distance(x, B[:4]), A),
    "minkowski_distance_p | x": Sample(lambda x: spatial.minkowski_distance_p(x, B[:4]), A),
    "procrustes | data1": Sample(
        lambda x: spatial.procrustes(x, FAR), FAR + 0.3 * MANY[:6], vmap=False, rtol=1e-5
    ),
    "procrustes | data2": Sample(
        lambda x: spatial.procrustes(FAR, x), FAR + 0.3 * MANY[:6], vmap=False, rtol=1e-5
    ),
    "geometric_slerp | start": Sample(
        lambda x: spatial.geometric_slerp(unit(x), END, [0.2, 0.7]), START, float32=0
    ),
    "geometric_slerp | end": Sample(
        lambda x: spatial.geometric_slerp(START, unit(x), 0.4), END, spread=0.05, float32=0
    ),
    "geometric_slerp | t": Sample(
        lambda t: spatial.geometric_slerp(START, END, t), np.array([0.2, 0.7])
    ),
    **{
        f"KDTree.query | x | {text}": Sample(
            lambda x, options=options: spatial.KDTree(MANY).query(x, **options)[0],
            A,
            spread=0.002,
            step=1e-4,
            vmap=False,
        )
        for text, options in {
            "k=1": {},
            "k=3": {"k": 3},
            "k=[2]": {"k": [2]},
            "p=1": {"p": 1.0},
            "p=3": {"p": 3.0},
            "p=inf": {"p": np.inf},
        }.items()
    },
    "KDTree.query | x | boxsize": Sample(
        lambda x: spatial.KDTree(OTHERS, boxsize=2.0).query(x, k=2)[0],
        POSITIVE,
        spread=0.002,
        step=1e-4,
        vmap=False,
    ),
    "KDTree | data": Sample(
        lambda data: spatial.KDTree(data).query(A, k=2)[0],
        MANY,
        spread=0.002,
        step=1e-4,
        vmap=False,
    ),
    "KDTree | data | p=1": Sample(
        lambda data: spatial.KDTree(data).query(A, k=2, p=1.0)[0],
        MANY,
        spread=0.002,
        step=1e-4,
        vmap=False,
    ),
    "KDTree | data and x": Sample(
        lambda data: spatial.KDTree(data).query(data * 1.1 + 0.2, k=1)[0],
        MANY,
        spread=0.002,
        step=1e-4,
        vmap=False,
    ),
    **dict(rotation_samples()),
    **dict(reader_samples()),
    **dict(argument_samples()),
}
