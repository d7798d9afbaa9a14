"""User functions inside mapped functions: ``Function.vmap`` and ``generate_vmap_rule``.

Forward, setup and backward of a user function are made of operators, which take many samples as
they take one. Whether that is meant, and nothing is hidden in NumPy code, only the author knows; so
the class has to say it, or bring a rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pullback.batching import apply_rule
from pullback.errors import AutogradError
from pullback.tensor.batched import levels_of
from pullback.tensor.tensor import Tensor

__all__ = ["forward_of_samples", "varies"]


def varies(args: tuple[Any, ...]) -> bool:
    """Whether an argument is different for each sample of a mapped function."""
    return any(isinstance(a, Tensor) and levels_of(a) for a in args)


def forward_of_samples(cls: Any, has_rule: bool) -> Callable[..., Any]:
    """What computes the results of a user function for all samples."""
    name = cls.__name__
    if has_rule and cls.generate_vmap_rule:
        raise AutogradError(
            f"{name} has both generate_vmap_rule=True and a vmap staticmethod; keep one of them: "
            f"the rule is either made or given"
        )
    if has_rule:
        return partial(apply_rule, cls.vmap, cls.forward)
    if cls.generate_vmap_rule:
        return lambda args, kwargs: cls.forward(*args, **kwargs)
    raise AutogradError(
        f"You tried to vmap over {name}, but it does not have vmap support. Set "
        f"generate_vmap_rule = True on the class if its methods are made of operators, or give it "
        f"a vmap staticmethod: vmap(info, in_dims, *args) -> (outputs, out_dims)."
    )
