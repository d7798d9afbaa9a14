"""Second names: where NumPy has two names for one function, so have we; the same object.

The first name is the Array API's, or NumPy's own where that has none. This is the only list.
"""

from __future__ import annotations

from pullback._generated.functions_pointwise import abs as absolute
from pullback._generated.functions_pointwise import acos as arccos
from pullback._generated.functions_pointwise import acosh as arccosh
from pullback._generated.functions_pointwise import asin as arcsin
from pullback._generated.functions_pointwise import asinh as arcsinh
from pullback._generated.functions_pointwise import atan as arctan
from pullback._generated.functions_pointwise import atan2 as arctan2
from pullback._generated.functions_pointwise import atanh as arctanh
from pullback._generated.functions_pointwise import bitwise_invert as bitwise_not
from pullback._generated.functions_pointwise import bitwise_invert as invert
from pullback._generated.functions_pointwise import bitwise_left_shift as left_shift
from pullback._generated.functions_pointwise import bitwise_right_shift as right_shift
from pullback._generated.functions_pointwise import conj as conjugate
from pullback._generated.functions_pointwise import deg2rad as radians
from pullback._generated.functions_pointwise import divide as true_divide
from pullback._generated.functions_pointwise import power as pow
from pullback._generated.functions_pointwise import rad2deg as degrees
from pullback._generated.functions_pointwise import remainder as mod
from pullback._generated.functions_pointwise import round as around
from pullback._generated.functions_reduction import max as amax
from pullback._generated.functions_reduction import min as amin
from pullback._generated.functions_shape import concatenate as concat
from pullback._generated.functions_shape import permute_dims as transpose

__all__ = [
    "absolute",
    "amax",
    "amin",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "bitwise_not",
    "concat",
    "conjugate",
    "degrees",
    "invert",
    "left_shift",
    "mod",
    "pow",
    "radians",
    "right_shift",
    "transpose",
    "true_divide",
]
