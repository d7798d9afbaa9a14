"""Writes docs/scipy_special.md: every universal function of scipy.special, and its derivatives.

python scripts/scipy_special.py            writes the page
python scripts/scipy_special.py --check    says whether it is up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy

from pullback.interop.scipy_status import by_functions, special_functions, special_status

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scipy_special.md"
HEAD = """# SciPy's special functions on tensors

Written by `scripts/scipy_special.py` from the table
`src/pullback/operators/scipy_special/table.yaml`; a test compares it with the installed SciPy
(this page: SciPy {version}).

`scipy.special.gammaln(x)` on a tensor is SciPy's own computation with a derivative added: backward,
forward, of higher order, and inside `vmap`. `import pullback` never imports SciPy: the operators
are registered when a tensor first meets one of SciPy's functions.

An argument under *refused* may be a number, an array, or a tensor without a gradient. Where it
carries one, the backward pass (and the call itself in forward mode) raises, and names the
function and the argument; *all* says that the call raises at once. Whole-number arguments have no
derivative, and are listed as refused too.

Derivatives by orders, degrees and shape parameters (`v` of `kv`, `a` of `gammainc`, `a`, `b`, `c`
of `hyp2f1`) are those of the polynomial through SciPy's values at 14 Chebyshev nodes around the
parameter; of a distribution function, those of its smaller tail. Compared with mpmath at 1,200
random points, also with arguments down to 1e-40, their largest error was 1e-10 of the derivative,
or of a thousandth of the function where that is larger (`tests/interop/scipy_parameters.py` has
some of the points). Second derivatives have about 1e-7, and third ones exist. `hyperu` is
refused: SciPy's own values have too few digits. So are functions of two outputs (`pbdv`, Mathieu
and spheroidal functions) and distributions that are not central.

Where a derivative is known for real numbers only (`airye`, `ive`, `jve`, `psi`, `yve`), complex
ones are refused. The derivatives of `*_cv` hold for characteristic values, as the functions do.
Second derivatives of `elliprd` and `elliprj` are NaN where the last argument equals another one.
Those of `smirnov` and `smirnovi` are refused. At poles, and at the end of a domain, a derivative
may be infinite or NaN where a limit exists (`binom`, `poch`, `beta` at whole numbers). Compared
with finite differences at 300 random points a function and argument, no finite number was wrong,
except where SciPy's own values have few digits (`itairy`, `ncfdtrinc`, `obl_rad2`).

{counts}
"""


def _row(name: str, ufunc: np.ufunc) -> str:
    status = special_status(ufunc)
    known, refused = ((), ("all",)) if status is None else status
    quoted = ", ".join(f"`{argument}`" for argument in known)
    return f"| `{name}` | {quoted or '-'} | {', '.join(refused)} |"


def page() -> str:
    """The text of the page."""
    public, hidden = special_functions(), by_functions()
    able = [name for name, ufunc in public.items() if any((special_status(ufunc) or [()])[0])]
    counts = f"{len(public)} names: {len(able)} differentiable, {len(public) - len(able)} refused."
    version = ".".join(scipy.__version__.split(".")[:2])
    head = "| function | differentiable in | refused |\n|---|---|---|"
    parts = [HEAD.format(version=version, counts=counts), "## Universal functions\n", head]
    parts += [_row(name, ufunc) for name, ufunc in public.items()]
    parts += [
        "\n## Under other functions\n",
        "`lambertw` and `zeta` are Python functions that hand tensors on to a hidden one of these.",
        "The spherical Bessel functions convert their arguments first, so they need",
        "`pullback.numpy_mode()`; with `derivative=True` they are the functions `*_d`.\n",
        head,
    ]
    parts += [_row(name, ufunc) for name, ufunc in sorted(hidden.items())]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Writes or checks the page."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.name} is out of date; run python scripts/scipy_special.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
