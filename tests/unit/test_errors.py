"""Messages of errors end with the address of their page, wherever they are shown."""

from __future__ import annotations

import pickle
import re
import traceback

import pytest

import pullback as pb
from pullback.cli.explain_error import describe_error, error_classes
from pullback.errors import (
    SITE,
    AutogradError,
    CodegenError,
    MissingPackageError,
    ModuleInputError,
    PullbackError,
    SavedVersionError,
    error_page,
    message_of,
)

CLASSES = list(error_classes().values())
LINK = re.compile(rf"{re.escape(SITE)}/errors/([a-z-]+)\.html")


def links(text: str) -> list[str]:
    return LINK.findall(text)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_links_its_own_page(kind):
    page = error_page(kind)
    assert str(kind("f: wrong")) == (
        f"f: wrong\nSee {SITE}/errors/{page}.html or run: python -m pullback error {page}"
    )
    assert error_classes()[page] is kind
    assert describe_error(page).startswith(kind.__name__)
    assert len(set(map(error_page, CLASSES))) == len(CLASSES)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_page_has_a_cause_and_a_fix(kind):
    assert re.search(r"Cause:\s+\S.*Fix:\s+\S", kind.__doc__, re.DOTALL)


@pytest.mark.parametrize("kind", CLASSES)
def test_copies_and_pickles_have_one_link(kind):
    error = pickle.loads(pickle.dumps(kind("f: wrong")))
    assert type(error) is kind
    assert kind.__module__ == "pullback.errors"
    assert message_of(error) == "f: wrong"
    assert links(str(error)) == [error_page(kind)]


def test_tracebacks_show_the_link_of_each_error_of_a_chain():
    try:
        try:
            pb.func.grad(3)
        except PullbackError as error:
            raise SavedVersionError("of a user") from error
    except SavedVersionError as error:
        shown = "".join(traceback.format_exception(error))
    assert "pullback.errors.SavedVersionError: of a user\nSee https://" in shown
    assert links(shown) == ["autograd-type", "saved-version"]


def test_an_error_of_the_user_links_the_page_of_its_nearest_base():
    class OwnError(SavedVersionError, KeyError):
        pass

    class SilentError(AutogradError):
        def __str__(self) -> str:
            return "nothing"

    assert links(str(OwnError("key"))) == ["saved-version"]
    assert str(SilentError()) == "nothing"
    assert links(str(PullbackError())) == ["pullback"]
    assert "3" in str(PullbackError("f", 3))
    assert message_of(CodegenError("f: wrong", 3)) == "f: wrong"
    assert message_of(MissingPackageError("f: wrong", name="numpy")) == "f: wrong"


def test_an_error_that_quotes_another_has_one_link_at_its_end():
    quoted = AutogradError(f"g: {SavedVersionError('f: wrong')}")
    assert links(str(quoted)) == ["saved-version"]
    error = ModuleInputError("expected 3")
    error.set_path("inner")
    error.set_path("outer.inner")
    assert message_of(error) == "outer.inner: expected 3"


def test_internal_quotes_leave_the_link_out():
    @pb.library.custom_op("test_errors::f", mutates_args=())
    def f(x: pb.Tensor) -> pb.Tensor:
        return x.clone()

    calls = {
        "vmap": lambda: pb.func.vmap(lambda x, y: x, in_dims=((0, 0), 0))((1.0,), pb.ones(2)),
        "overloads": lambda: pb.ops.pullback.add("a", "b", "c", 4),
        "opcheck": lambda: pb.library.opcheck(f, (pb.ones(2, requires_grad=True),)),
    }
    try:
        for name, call in calls.items():
            with pytest.raises(PullbackError) as caught:
                call()
            text = str(caught.value)
            assert len(links(text)) == 1, name
            assert text.splitlines()[-1].startswith("See https://"), name
    finally:
        f._destroy()
