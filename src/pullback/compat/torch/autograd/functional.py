"""``torch.autograd.functional``: derivatives of functions of tensors."""

from __future__ import annotations

from pullback.autograd import functional as _functional
from pullback.compat.torch.tensor import user_code_first as _user_code_first

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

hessian = _user_code_first(_functional.hessian)
hvp = _user_code_first(_functional.hvp)
jacobian = _user_code_first(_functional.jacobian)
jvp = _user_code_first(_functional.jvp)
vhp = _user_code_first(_functional.vhp)
vjp = _user_code_first(_functional.vjp)
