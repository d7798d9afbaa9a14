"""ADBench's hand tracking: the Jacobian of 100 points of a posed hand by 26 angles and shifts."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Problem, Target, Workload, generator

FINGERS = 5
ANGLES = 20  # four a finger
BONES = 22  # the forearm, the palm, and four a finger


def parents() -> list[int]:
    """The forearm carries the palm, the palm carries each finger's chain of four bones."""
    chains = [[1, 2 + 4 * f, 3 + 4 * f, 4 + 4 * f] for f in range(FINGERS)]
    return [-1, 0, *(bone for chain in chains for bone in chain)]


def angle_places() -> Array:
    """Where each bone's three Euler angles are found among 20 angles and a zero."""
    places = np.full((BONES, 3), ANGLES)
    for finger in range(FINGERS):
        first = 2 + 4 * finger
        places[first, :2] = 4 * finger, 4 * finger + 1  # bends and spreads
        places[first + 1, 0] = 4 * finger + 2
        places[first + 2, 0] = 4 * finger + 3
    return places.ravel()


def rotations(xp: Any, angles: Any) -> Any:
    """Matrices of Euler angles (bones, 3): around x, then y, then z."""
    c, s = xp.cos(angles), xp.sin(angles)
    cx, cy, cz = c[:, 0], c[:, 1], c[:, 2]
    sx, sy, sz = s[:, 0], s[:, 1], s[:, 2]
    entries = [
        cy * cz,
        sx * sy * cz - cx * sz,
        cx * sy * cz + sx * sz,
        cy * sz,
        sx * sy * sz + cx * cz,
        cx * sy * sz - sx * cz,
        -sy,
        sx * cy,
        cx * cy,
    ]
    return xp.stack(entries, axis=1).reshape((-1, 3, 3))


def pose(vertices: int, points: int) -> Problem:
    carriers = parents()

    def fn(xp: Any, params: Any, consts: Any) -> Any:
        (theta,) = params
        places, zero, shapes, shifts, rest, rest_shifts, model, weights, chosen, goals = consts
        angles = xp.concatenate([theta[6:], zero], axis=0)[places].reshape((BONES, 3))
        relative = shapes @ rotations(xp, angles)
        turns, moves = [relative[0]], [shifts[0]]
        for bone in range(1, BONES):
            carrier = carriers[bone]
            turns.append(turns[carrier] @ relative[bone])
            moves.append(turns[carrier] @ shifts[bone] + moves[carrier])
        turn, move = xp.stack(turns, axis=0), xp.stack(moves, axis=0)
        skin = (turn @ rest) @ model + (turn @ rest_shifts + move)
        posed = xp.sum(weights * skin, axis=0)
        placed = rotations(xp, theta[0:3].reshape((1, 3)))[0] @ posed + theta[3:6].reshape((3, 1))
        return (goals - placed[:, chosen]).reshape((-1,))

    rng = generator()
    weights = rng.uniform(size=(BONES, 1, vertices))
    consts = (
        angle_places(),
        np.zeros(1),
        np.linalg.qr(rng.normal(size=(BONES, 3, 3)))[0],
        rng.normal(size=(BONES, 3, 1)),
        np.linalg.qr(rng.normal(size=(BONES, 3, 3)))[0],
        rng.normal(size=(BONES, 3, 1)),
        rng.normal(size=(3, vertices)),
        weights / weights.sum(axis=0),
        rng.integers(vertices, size=points),
        rng.normal(size=(3, points)),
    )
    return Problem(fn, (rng.normal(size=6 + ANGLES) * 0.5,), consts)


WORKLOADS = (
    Workload(
        "hand",
        "pose of a hand: Jacobian 300 x 26",
        pose,
        {"vertices": 544, "points": 100},
        {"vertices": 7, "points": 4},
        task="jacobian",
        target=Target(0.5, 0.3),
    ),
)
