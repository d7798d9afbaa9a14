"""Binomial checkpointing: which states of a loop to keep, so that the fewest steps are repeated.

To run ``length`` steps backwards from one kept state, with room for ``slots`` states, go forward to
the best place, keep that state, and so on; run the last stretch backwards, which frees its slot,
then the one before. Griewank and Walther (2000) showed where the best places are: a stretch of up
to ``C(slots + r, slots)`` steps needs each step at most ``r`` times more.

The forward run of a loop goes past all places anyway, so keeping states then costs nothing. It
divides the loop into one stretch for each slot; the first is run backwards last, when all slots are
free. One more step costs as much as the repeats that its stretch then needs, and the cheapest
stretch gets it: so in the end all need ``r`` repeats, or some of them ``r + 1``.
"""

from __future__ import annotations

from math import comb

__all__ = ["best_split", "kept_places", "recomputations"]


def _reach(slots: int, repeats: int) -> int:
    """The number of steps that can be reversed if each is repeated at most `repeats` times."""
    return comb(slots + repeats, slots) if repeats >= 0 else 0


def _repeats(length: int, slots: int) -> int:
    repeats = 0
    while _reach(slots, repeats) < length:
        repeats += 1
    return repeats


def best_split(length: int, slots: int) -> int:
    """The number of steps before the next kept state, 1 to ``length - 1``, for ``length > 1``.

    >>> best_split(10, 3), best_split(10, 10), best_split(10, 1)
    (4, 1, 9)
    """
    repeats = _repeats(length, slots)
    return min(_reach(slots, repeats - 1), length - _reach(slots - 1, repeats - 1))


def kept_places(length: int, slots: int) -> list[int]:
    """The states that the forward run of a loop keeps, by the number of steps before them.

    >>> kept_places(10, 3), kept_places(3, 3)
    ([0, 5, 8], [0, 1, 2])
    """
    return [sum(_stretches(length, slots)[:n]) for n in range(slots)]


def recomputations(length: int, slots: int) -> int:
    """The number of additional forward steps.

    >>> recomputations(10, 3), recomputations(10, 10)
    (8, 0)
    """
    total = 0
    for room, stretch in zip(range(slots, 0, -1), _stretches(length, slots), strict=True):
        repeats = _repeats(stretch, room)
        total += repeats * stretch - _reach(room + 1, repeats - 1)
    return total


def _stretches(length: int, slots: int) -> list[int]:
    """The lengths of the stretches between kept states; at least as many steps as slots."""
    rooms = range(slots, 0, -1)
    repeats = 0
    while sum(_reach(room, repeats) for room in rooms) < length:
        repeats += 1
    stretches = [_reach(room, repeats - 1) for room in rooms]
    rest = length - sum(stretches)
    for place, room in enumerate(rooms):
        more = min(rest, _reach(room, repeats) - stretches[place])
        stretches[place] += more
        rest -= more
    return stretches
