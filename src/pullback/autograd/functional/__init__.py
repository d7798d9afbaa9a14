"""Derivatives of functions of one or several tensors; ``torch.autograd.functional``.

Older than ``pullback.func`` and less general: inputs and outputs are tensors or tuples of them. The
function runs on inputs of its own that require grad, so nothing outside is changed; with
`create_graph` these are connected to the given ones, and the results can be differentiated.
"""

from __future__ import annotations

from pullback.autograd.functional.jacobians import hessian, jacobian
from pullback.autograd.functional.products import hvp, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
