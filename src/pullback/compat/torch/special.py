"""``torch.special``: special functions under PyTorch's names; some need SciPy."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.torch import pointwise, reductions
from pullback.compat.torch.spelling import spell

__all__ = [
    "NAMES",
    "gammainc",
    "gammaincc",
    "log_softmax",
    "logsumexp",
    "polygamma",
    "round",
    "softmax",
]

# PyTorch's name -> that of ``pullback`` or ``pullback.special``.
NAMES = {
    name: name
    for name in (
        "digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr "
        "logit multigammaln ndtr ndtri psi sinc xlog1py xlogy zeta"
    ).split()
} | {
    "bessel_j0": "j0",
    "bessel_j1": "j1",
    "bessel_y0": "y0",
    "bessel_y1": "y1",
    "modified_bessel_i0": "i0",
    "modified_bessel_i1": "i1",
    "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
}
polygamma = pb.polygamma
gammainc = spell(lambda input, other: pb.special.gammainc(input, other), first=("input", "other"))
gammaincc = spell(lambda input, other: pb.special.gammaincc(input, other), first=("input", "other"))
logsumexp, softmax, log_softmax = reductions.logsumexp, pointwise.softmax, pointwise.log_softmax
round = pointwise.round


def __getattr__(name: str) -> Any:
    own = NAMES.get(name)
    if own is None:
        raise AttributeError(f"torch.special.{name} is not part of pullback.compat.torch")
    found = getattr(pb, own, None) or getattr(pb.special, own)
    spelled = spell(found, first=("input", "other"))
    globals()[name] = spelled
    return spelled


def __dir__() -> list[str]:
    return sorted({*__all__, *NAMES})
