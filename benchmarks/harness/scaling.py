"""The size from which another library is quicker, from times of one workload at many sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.harness.measure import Outcome
from benchmarks.peers import REFERENCE

__all__ = ["crossover"]


def crossover(outcomes: Mapping[int, Outcome], peer: str) -> str:
    """In words, at which sizes Pullback is quicker than a peer; sizes are the keys.

    Where the ratio passes 1 is read off between two sizes, on logarithmic axes.

    >>> def outcome(ours, theirs):
    ...     return Outcome("", "", best={"pullback": ours, "torch": theirs})
    >>> crossover({10: outcome(1, 3), 100: outcome(2, 3), 1000: outcome(5, 4)}, "torch")
    'quicker than torch up to n = 100, slower from n = 1,000; as quick near n = 440'
    """
    ratios = {
        n: found.best[REFERENCE] / found.best[peer]
        for n, found in outcomes.items()
        if peer in found.best and REFERENCE in found.best
    }
    if not ratios:
        return f"{peer} was not measured"
    sizes = sorted(ratios)
    quicker = [n for n in sizes if ratios[n] < 1]
    if len(quicker) in (0, len(sizes)):
        word = "quicker" if quicker else "slower"
        return f"{word} than {peer} at every size"
    if _is_prefix(quicker, sizes):
        last, slower = quicker[-1], sizes[len(quicker)]
        even = _even(last, ratios[last], slower, ratios[slower])
        return (
            f"quicker than {peer} up to n = {last:,}, slower from n = {slower:,}; "
            f"as quick near n = {even:,}"
        )
    return f"quicker than {peer} at n = {', '.join(f'{n:,}' for n in quicker)}"


def _is_prefix(part: Sequence[int], whole: Sequence[int]) -> bool:
    return list(whole[: len(part)]) == list(part)


def _even(n: int, ratio: float, other_n: int, other_ratio: float) -> int:
    """The size of ratio 1 between two sizes, by a straight line through the logarithms."""
    part = math.log(ratio) / (math.log(ratio) - math.log(other_ratio))
    return int(float(f"{n * (other_n / n) ** part:.1e}"))
