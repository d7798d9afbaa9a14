"""ADBench's bundle adjustment: how a camera's and a point's parameters move a point in the image.

The rows of the Jacobian are independent, so two backward passes give all of it when the
observations are vectorised. The loop takes two passes for each observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Problem, Target, Workload, generator


def reprojection(xp: Any, params: Any, consts: Any) -> Any:
    """Camera: rotation 3, center 3, focal length 1, principal point 2, distortion 2."""
    camera, point, weight = params
    (feature,) = consts
    turned = rotate(xp, camera[..., 0:3], point - camera[..., 3:6])
    flat = turned[..., 0:2] / turned[..., 2:3]
    square = xp.sum(flat * flat, axis=-1, keepdims=True)
    distortion = 1.0 + camera[..., 9:10] * square + camera[..., 10:11] * (square * square)
    image = flat * distortion * camera[..., 6:7] + camera[..., 7:9]
    error = weight * (image - feature)
    return error[..., 0], error[..., 1]


def rotate(xp: Any, rotation: Any, x: Any) -> Any:
    """Rodrigues' formula: around the axis `rotation`, by its length."""
    angle = xp.sqrt(xp.sum(rotation * rotation, axis=-1, keepdims=True))
    axis = rotation / angle
    cosine = xp.cos(angle)
    along = xp.sum(axis * x, axis=-1, keepdims=True) * (1.0 - cosine)
    return x * cosine + xp.cross(axis, x) * xp.sin(angle) + axis * along


def bundle(n: int) -> Problem:
    rng = generator()
    camera = rng.normal(size=(n, 11)) * 0.1
    camera[:, 6] += 1.0
    point = rng.normal(size=(n, 3)) + np.array([0.0, 0.0, 8.0])
    return Problem(
        reprojection,
        (camera, point, rng.uniform(0.5, 1.5, size=(n, 1))),
        (rng.normal(size=(n, 2)),),
    )


WORKLOADS = (
    Workload(
        "ba_loop",
        "bundle adjustment, 50 observations one by one",
        bundle,
        {"n": 50},
        {"n": 3},
        task="row_loop",
        target=Target(0.6, 0.45),
        is_small=True,
    ),
    *(
        Workload(
            f"ba_vector_{n}",
            f"bundle adjustment, {n:,} observations at once",
            bundle,
            {"n": n},
            {"n": 3},
            task="rows",
        )
        for n in (3184, 31843)
    ),
)
