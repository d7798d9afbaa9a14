from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from pullback.errors import SchemaError, message_of
from pullback.schema import parse_schema


def refuse(marked: str, message: str, dialect: Literal["strict", "loose"] = "strict") -> None:
    """``marked`` is a schema with a ``§`` before the character that the caret must point at.

    A tab or line break is shown as a blank, so that the caret stays below the fault.
    """
    text = marked.replace("§", "")
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, dialect=dialect)
    head, shown, caret = message_of(caught.value).split("\n")
    assert "Invalid function schema" in head
    assert message in head
    assert shown == "    " + text.replace("\t", " ").replace("\n", " ")
    assert caret == " " * (4 + marked.index("§")) + "^"


@pytest.fixture
def assert_refused() -> Callable[..., None]:
    """Checks that a schema is refused, with what message, and where the caret stands."""
    return refuse
