"""`LinearOperator`: a Jacobian or Hessian that is never made, for SciPy's iterative solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg as theirs

from pullback.errors import DerivativeMissingError
from pullback.func.forward import jvp
from pullback.func.reverse import grad, vjp
from pullback.interop.arguments import as_tensor, carries_gradient
from pullback.tensor.tensor import Tensor, constant_tensor

__all__ = ["LinearOperator"]


class LinearOperator(theirs.LinearOperator):  # type: ignore[misc] # SciPy has no types
    """The Jacobian of a function at a point: products by ``jvp``, transposed ones by ``vjp``.

    Input and result are flattened. `hessian` makes the operator of a second derivative.

    >>> import numpy as np, pullback as pb
    >>> from scipy.sparse.linalg import gmres
    >>> jacobian = LinearOperator(lambda x: x**3 + x, np.array([1.0, 2.0]))
    >>> (jacobian @ np.array([1.0, 1.0])).tolist()
    [4.0, 13.0]
    >>> gmres(jacobian, np.array([4.0, 26.0]))[0].round(6).tolist()
    [1.0, 2.0]
    """

    def __init__(self, function: Callable[..., Any], x: Any):
        point = as_tensor(x)
        value, self._pull = vjp(function, point.detach())
        if carries_gradient(point) or carries_gradient(value):
            raise DerivativeMissingError(
                "LinearOperator: its products are constants, and the point or what the function "
                "captures carries a gradient, which would be lost. Detach them, or use "
                "pb.implicit.custom_linear_solve."
            )
        point = point.detach()
        self._function, self._point, self._shape = function, point, value.shape
        dtype = np.result_type(point.dtype, value.dtype)
        super().__init__(dtype, (int(value.size), int(point.size)))

    @classmethod
    def hessian(cls, function: Callable[..., Any], x: Any) -> LinearOperator:
        """The operator of the second derivative of a function with one result.

        >>> import numpy as np
        >>> curvature = LinearOperator.hessian(lambda x: (x**3).sum(), np.array([1.0, 2.0]))
        >>> (curvature @ np.array([1.0, 1.0])).tolist()
        [6.0, 12.0]
        """
        return cls(grad(function), x)

    def _matvec(self, x: Any) -> NDArray[Any]:
        _, tangent = jvp(self._function, (self._point,), (_shaped(x, self._point.shape),))
        return np.ravel(tangent.detach().numpy())

    def _rmatvec(self, x: Any) -> NDArray[Any]:
        (cotangent,) = self._pull(_shaped(x, self._shape))
        return np.ravel(cotangent.detach().numpy())


def _shaped(vector: Any, shape: tuple[int, ...]) -> Tensor:
    return constant_tensor(np.array(vector).reshape(shape))
