"""Colorings keep their promises, on random patterns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.sparse import color_hessian, color_jacobian

sparse = pytest.importorskip("scipy.sparse", reason="pip install scipy")


@st.composite
def patterns(draw, square=False):
    rows = draw(st.integers(1, 12))
    columns = rows if square else draw(st.integers(1, 12))
    chance = draw(st.sampled_from([0.1, 0.3, 0.6]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return rng.random((rows, columns)) < chance


@settings(max_examples=60, deadline=None)
@given(patterns(), st.sampled_from(["forward", "reverse"]))
def test_columns_or_rows_of_one_color_do_not_meet(pattern, mode):
    coloring = color_jacobian(sparse.csr_array(pattern), mode)
    lines = pattern.T if mode == "forward" else pattern
    assert len(coloring.colors) == len(lines)
    for first, second in itertools.combinations(range(len(lines)), 2):
        if coloring.colors[first] == coloring.colors[second]:
            assert not (lines[first] & lines[second]).any()


@settings(max_examples=100, deadline=None)
@given(patterns(square=True))
def test_star_colorings_have_no_path_of_two_colors(pattern):
    graph = pattern | pattern.T
    colors = color_hessian(sparse.csr_array(graph)).colors
    size = len(graph)
    edges = [(i, j) for i in range(size) for j in range(size) if i != j and graph[i, j]]
    for i, j in edges:
        assert colors[i] != colors[j]
    for (a, b), (c, d) in itertools.product(edges, edges):
        if len({a, b, c, d}) == 4 and graph[b, c]:
            assert len({colors[a], colors[b], colors[c], colors[d]}) > 2


def test_bands_take_as_many_colors_as_they_are_wide():
    size = 200
    for width in (1, 3, 5):
        offsets = range(-(width // 2), width // 2 + 1)
        band = sparse.diags_array(
            [np.ones(size)] * width, offsets=list(offsets), shape=(size, size)
        )
        pattern = sparse.csr_array(band).astype(bool)
        assert color_jacobian(pattern).passes == width
        assert color_hessian(pattern).passes <= width
