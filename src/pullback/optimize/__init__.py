"""SciPy's solvers with exact derivatives: Jacobians, Hessians and Hessian products by themselves.

>>> import numpy as np, pullback as pb
>>> result = pb.optimize.minimize(lambda x: ((x - 3.0) ** 2).sum(), [0, 0])
>>> np.round(result.x, 6).tolist()
[3.0, 3.0]
"""

from __future__ import annotations

from pullback.optimize.fits import curve_fit, least_squares
from pullback.optimize.minima import minimize
from pullback.optimize.roots import root

__all__ = ["curve_fit", "least_squares", "minimize", "root"]
