"""Rules 16.9 to 16.12: checks attached to a test suite."""

from __future__ import annotations

import json
import unittest

import pytest

import pullback as pb
from pullback.errors import OpCheckError
from pullback.library import custom_op
from pullback.library.checks.run import ALL_TESTS
from pullback.testing.optests import dontGenerateOpCheckTests, generate_opcheck_tests

UTILS = ["test_schema", "test_gradients"]


@pytest.fixture
def suite(ns, cube):
    """A class with tests that call a right and a wrong operator."""
    wrong = custom_op(
        f"{ns}::wrong",
        lambda x: pb.asarray(x.numpy() ** 2),
        mutates_args=(),
        schema="(Tensor x) -> Tensor",
    )
    wrong.register_autograd(lambda ctx, g: -g)

    class Suite(unittest.TestCase):
        def test_right(self):
            cube(pb.sin(pb.tensor([0.5, 1.0], requires_grad=True)) * 2)

        def test_wrong(self):
            y = wrong(pb.tensor([0.5, 1.0], requires_grad=True))
            assert y.tolist() == [0.25, 1.0]

        @dontGenerateOpCheckTests("not needed")
        def test_left_out(self):
            raise AssertionError

    return Suite


def run(suite, name):
    getattr(suite(name), name)()


def test_one_test_is_made_per_check_and_method(suite, ns):
    """Rule 16.9."""
    generate_opcheck_tests(suite, [ns], test_utils=UTILS)
    names = {n for n in vars(suite) if "__test" in n}
    assert names == {f"{u}__{m}" for u in UTILS for m in ("test_right", "test_wrong")}
    run(suite, "test_schema__test_right")
    run(suite, "test_gradients__test_right")
    run(suite, "test_schema__test_wrong")
    with pytest.raises(OpCheckError, match=rf"failed on operators \['{ns}::wrong'\]") as error:
        run(suite, "test_gradients__test_wrong")
    assert "To run it by itself" in str(error.value)
    with pytest.raises(OpCheckError, match="already has method named"):
        generate_opcheck_tests(suite, [ns], test_utils=UTILS)


def test_every_check_passes_on_a_right_operator(suite, ns, cube):
    """Rule 16.9."""
    cube.register_fake(pb.empty_like)
    generate_opcheck_tests(suite, [ns])
    for util in ALL_TESTS:
        run(suite, f"{util}__test_right")


def test_other_namespaces_are_left_alone(suite):
    """Rule 16.9."""
    generate_opcheck_tests(suite, ["elsewhere"], test_utils=UTILS)
    run(suite, "test_gradients__test_wrong")


def test_additional_decorators_are_applied(suite, ns):
    """Rule 16.9."""
    seen = []
    generate_opcheck_tests(
        suite,
        [ns],
        test_utils=UTILS,
        additional_decorators={"test_schema__test_right": lambda fn: seen.append(fn) or fn},
    )
    assert len(seen) == 1


def test_plain_classes_work_too(ns, cube):
    """Rule 16.9."""

    class TestPlain:
        def test_it(self):
            cube(pb.tensor([1.0]))

    generate_opcheck_tests(TestPlain, [ns], test_utils=["test_schema"])
    TestPlain().test_schema__test_it()


def listing(path, ns, status, op="wrong", test="Suite.test_gradients__test_wrong", **more):
    data = {f"{ns}::{op}": {test: {"comment": "", "status": status, **more}}}
    content = {"_description": "known", "_version": 1, "data": data}
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    return path


@pytest.mark.parametrize("status", ["xfail", "skip"])
def test_known_failures_pass(suite, ns, tmp_path, status):
    """Rule 16.10."""
    path = listing(tmp_path / "failures.json", ns, status)
    generate_opcheck_tests(suite, [ns], path, test_utils=UTILS)
    run(suite, "test_gradients__test_wrong")


def test_an_unexpected_success(suite, ns, tmp_path):
    """Rule 16.10."""
    path = listing(tmp_path / "f.json", ns, "xfail", "cube", "Suite.test_schema__test_right")
    generate_opcheck_tests(suite, [ns], path, test_utils=UTILS)
    with pytest.raises(OpCheckError, match="Unexpected success"):
        run(suite, "test_schema__test_right")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"status": "maybe"}, "expected one of xfail, skip, xsuccess"),
        ({"status": "xfail", "more": ""}, "keys 'comment' and 'status'"),
        ({"status": "xfail", "test": "Suite.test_this__test_wrong"}, "should start with a test"),
        ({"status": "xfail", "test": "Suite.test_schema__test_no"}, "which Suite does not have"),
    ],
)
def test_structural_errors(suite, ns, tmp_path, entry, words):
    """Rule 16.10."""
    path = listing(tmp_path / "f.json", ns, **entry)
    with pytest.raises(OpCheckError, match=words):
        generate_opcheck_tests(suite, [ns], path, test_utils=UTILS)


def test_entries_of_other_classes_are_ignored(suite, ns, tmp_path):
    """Rule 16.10."""
    path = listing(tmp_path / "f.json", ns, "xfail", test="Other.test_schema__test_no")
    generate_opcheck_tests(suite, [ns], path, test_utils=UTILS)


def test_missing_empty_and_badly_formatted_files(suite, ns, tmp_path):
    """Rule 16.10."""
    path = tmp_path / "f.json"
    generate_opcheck_tests(suite, [ns], path, test_utils=["test_schema"])
    path.write_text("")
    generate_opcheck_tests(suite, [ns], path, test_utils=["test_gradients"])
    path.write_text('{"_version": 1, "data": {}}')
    with pytest.raises(OpCheckError, match=r"(?s)not formatted as expected.*\+\+\+ should be"):
        generate_opcheck_tests(suite, [ns], path, test_utils=["test_threads"])


def test_a_compliant_operator_has_no_known_failures(suite, ns, tmp_path, lib):
    """Rule 16.11."""
    path = listing(tmp_path / "f.json", ns, "xfail")
    generate_opcheck_tests(suite, [ns], path, test_utils=UTILS)
    with pytest.raises(OpCheckError, match="says that it passes every check"):
        run(suite, f"test_pt2_compliant_tag_{ns}_wrong")
    lib.define("untagged(Tensor x) -> Tensor")
    for op, raises in (("untagged", None), ("gone", unittest.SkipTest)):
        other = type("Suite", (unittest.TestCase,), {"test_wrong": suite.test_wrong})
        path = listing(tmp_path / f"{op}.json", ns, "xfail", op)
        generate_opcheck_tests(other, [ns], path, test_utils=UTILS)
        test = getattr(other(), f"test_pt2_compliant_tag_{ns}_{op}")
        if raises is None:
            test()
        else:
            with pytest.raises(raises):
                test()


def test_accept_mode_writes_the_file(suite, ns, tmp_path, monkeypatch):
    """Rule 16.12."""
    path = tmp_path / "made" / "failures.json"
    generate_opcheck_tests(suite, [ns], path, test_utils=UTILS)
    monkeypatch.setenv("PULLBACK_OPCHECK_ACCEPT", "1")
    run(suite, "test_gradients__test_wrong")
    run(suite, "test_gradients__test_right")
    data = json.loads(path.read_text())["data"]
    assert data == {
        f"{ns}::wrong": {"Suite.test_gradients__test_wrong": {"comment": "", "status": "xfail"}}
    }
    monkeypatch.delenv("PULLBACK_OPCHECK_ACCEPT")
    again = type("Suite", (unittest.TestCase,), {"test_wrong": suite.test_wrong})
    generate_opcheck_tests(again, [ns], path, test_utils=UTILS)
    run(again, "test_gradients__test_wrong")
