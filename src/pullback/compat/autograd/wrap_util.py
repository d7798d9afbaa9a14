"""``autograd.wrap_util``: operators on functions of one argument as operators on any function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from pullback.errors import AutogradTypeError

__all__ = ["get_doc", "get_name", "unary_to_nary", "wrap_nary_f", "wraps"]

_Function = Callable[..., Any]
_NAME = "{op}_of_{fun}_wrt_argnum_{argnum}"
_DOC = """    {op} of function {fun} with respect to argument number {argnum}. Takes the
    arguments of {fun} and returns the {op}.
    """


def get_name(fun: Any) -> str:
    """The name of a function, or a text that says that it has none."""
    return getattr(fun, "__name__", "[unknown name]")


def get_doc(fun: Any) -> str:
    """The docstring of a function."""
    return getattr(fun, "__doc__", "") or ""


def wraps(
    fun: Any, namestr: str = "{fun}", docstr: str = "{doc}", **fields: Any
) -> Callable[[_Function], _Function]:
    """Decorator: gives a function a name and a docstring that are made from another's.

    >>> wraps(abs, "fast_{fun}")(lambda x: x).__name__
    'fast_abs'
    """

    def rename(wrapper: _Function) -> _Function:
        with contextlib.suppress(AttributeError, KeyError, ValueError):
            wrapper.__name__ = namestr.format(fun=get_name(fun), **fields)
            wrapper.__doc__ = docstr.format(fun=get_name(fun), doc=get_doc(fun), **fields)
        return wrapper

    return rename


def wrap_nary_f(fun: Any, op: Any, argnum: Any) -> Callable[[_Function], _Function]:
    """Decorator: names a function as the result of an operator, ``grad_of_f_wrt_argnum_0``."""
    return wraps(fun, _NAME, _DOC, op=get_name(op), argnum=argnum)


def unary_to_nary(unary_operator: Callable[..., Any]) -> Callable[..., _Function]:
    """An operator on functions of one argument, as one on functions of many.

    >>> at = unary_to_nary(lambda fun, x: (x, fun(x)))
    >>> at(lambda a, b: a - b, 1)(10, 3)
    (3, 7)
    """

    @wraps(unary_operator)
    def nary(fun: _Function, argnum: Any = 0, *options: Any, **named: Any) -> _Function:
        if not isinstance(argnum, int | tuple | list):
            raise AutogradTypeError(
                f"argnum must be a position or a tuple of positions, not {argnum!r}"
            )
        places = [argnum] if isinstance(argnum, int) else list(argnum)

        @wrap_nary_f(fun, unary_operator, argnum)
        def run(*args: Any, **kwargs: Any) -> Any:
            @wraps(fun)
            def unary(x: Any) -> Any:
                given = list(args)
                for place, value in zip(places, [x] if isinstance(argnum, int) else x, strict=True):
                    given[place] = value
                return fun(*given, **kwargs)

            chosen = tuple(args[place] for place in places)
            x = chosen[0] if isinstance(argnum, int) else chosen
            return unary_operator(unary, x, *options, **named)

        return run

    return nary
