"""``python -m pullback error``: the tree of errors, and the cause and fix of each."""

from __future__ import annotations

import inspect

from pullback import errors
from pullback.codegen.load_yaml import nearest
from pullback.errors import OperatorNotFoundError, PullbackError, error_page

__all__ = ["describe_error", "error_classes", "error_tree"]


def error_classes() -> dict[str, type[PullbackError]]:
    """All errors by the name of their page."""
    classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    return {error_page(kind): kind for kind in classes}


def error_tree(kind: type[PullbackError] = PullbackError, depth: int = 0) -> str:
    """The classes below one, indented, with the first sentence of each."""
    doc = (inspect.getdoc(kind) or "").splitlines()[0]
    lines = [f"{'  ' * depth + kind.__name__:<34} {doc}"]
    classes = set(error_classes().values())
    below = [c for c in kind.__subclasses__() if c in classes]
    return "\n".join([*lines, *(error_tree(child, depth + 1) for child in below)])


def describe_error(name: str) -> str:
    """Cause, fix and an example of an error, by its class or page.

    >>> print(describe_error("saved-version").splitlines()[0])
    SavedVersionError (AutogradError, PullbackError, RuntimeError)
    """
    pages = error_classes()
    kind = pages.get(name) or {c.__name__: c for c in pages.values()}.get(name)
    if kind is None:
        raise OperatorNotFoundError(f"no error is called {name!r}{nearest(name, list(pages))}")
    skipped = ("Exception", "BaseException", "object")
    bases = [base.__name__ for base in kind.__mro__[1:] if base.__name__ not in skipped]
    head = f"{kind.__name__} ({', '.join(bases)})" if bases else kind.__name__
    return f"{head}\n\n{inspect.getdoc(kind)}"
