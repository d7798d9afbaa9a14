"""The operations that tensor programs are made of, in three dialects.

Arguments are kept where an operation is smooth: ``lib.log({0} * {0} + 1.0)`` and the like. Views
are views in all three libraries, or are copied (`flip`), because a write follows later.
"""

from __future__ import annotations

from tests.property.programs.steps import Operation

AXIS = ("axis", ("0", "-1"))
_MATRIX = "{0}.ndim == 2"
_SQUARE = "({0} @ {0}.T + 2.0 * lib.eye({0}.shape[0]))"

SMOOTH = [
    Operation("sin", "lib.sin({0})"),
    Operation("cos", "lib.cos({0})"),
    Operation("tanh", "lib.tanh({0})"),
    Operation("exp", "lib.exp({0} * 0.3)"),
    Operation("sqrt", "lib.sqrt({0} * {0} + 0.5)"),
    Operation("log", "lib.log({0} * {0} + 1.0)"),
    Operation("square", "{0} ** 2"),
    Operation("cube", "{0} ** 3"),
    Operation("power", "({0} * {0} + 0.3) ** 1.5"),
    Operation("reciprocal", "1.0 / (1.5 + {0} * {0})"),
    Operation("negative", "-{0}"),
    Operation("scale", "{0} * 0.7"),
    Operation("shift", "{0} + 0.4"),
    Operation("subtract_from", "1.0 - {0}"),
    Operation("sigmoid", "lib.sigmoid({0})", numpy="1.0 / (1.0 + np.exp(-{0}))"),
    Operation("expm1", "lib.expm1({0} * 0.5)"),
    Operation("arctan", "lib.arctan({0})"),
    Operation(
        "softmax",
        "{0}.softmax(-1)",
        numpy="np.exp({0}) / np.exp({0}).sum(-1, keepdims=True)",
        only="{0}.ndim > 0",
    ),
]
KINKED = [
    Operation("absolute", "lib.abs({0})"),
    Operation("relu", "{0}.relu()", numpy="np.maximum({0}, 0.0)"),
    Operation("clip", "lib.clip({0}, -0.8, 0.8)"),
    Operation("where_positive", "lib.where({0} > 0.2, {0}, {0} * 0.3)"),
]
REDUCING = [
    Operation("sum", "{0}.sum()"),
    Operation("mean", "{0}.mean()"),
    Operation("sum_axis", "{0}.sum({axis})", params=(AXIS,)),
    Operation(
        "sum_keep",
        "lib.sum({0}, axis={axis}, keepdims=True)",
        torch="lib.sum({0}, dim={axis}, keepdim=True)",
        params=(AXIS,),
    ),
    Operation("prod", "lib.prod({0})"),
    Operation("amax", "lib.amax({0}, {axis})", params=(AXIS,), only="{0}.ndim > 0"),
    Operation(
        "logsumexp", "lib.logsumexp({0}, {axis})", numpy="np.log(np.exp({0}).sum({axis}))",
        params=(AXIS,), only="{0}.ndim > 0",
    ),
    Operation("cumsum", "lib.cumsum({0}, {axis})", params=(AXIS,), only="{0}.ndim > 0"),
    Operation("cumprod", "lib.cumprod({0}, {axis})", params=(AXIS,), only="{0}.ndim > 0"),
    Operation("var", "lib.var({0})", torch="lib.var({0}, correction=0)", only="{0}.size > 1"),
    Operation("norm", "lib.linalg.norm({0})", only="np.linalg.norm({0}) > 0.1"),
]  # fmt: skip
VIEWS = [
    Operation("flatten", "{0}.reshape(-1)"),
    Operation("transpose", "{0}.T", only=_MATRIX),
    Operation("swapaxes", "lib.swapaxes({0}, 0, -1)", only="{0}.ndim > 0"),
    Operation("moveaxis", "lib.moveaxis({0}, 0, -1)", only="{0}.ndim > 0"),
    Operation(
        "index",
        "{0}[{where}]",
        numpy="{0}[{where}, ...]",
        params=(("where", ("0", "-1", "1:", ":-1", "::2", "None")),),
        only="{0}.ndim > 0 and {0}.shape[0] > 1",
    ),
    Operation(
        "index_last",
        "{0}[..., {where}]",
        params=(("where", ("0", "-1", "1:", ":-1", "None")),),
        only="{0}.ndim > 1 and {0}.shape[-1] > 1",
    ),
    Operation(
        "broadcast_to", "lib.broadcast_to({0}, (2,) + tuple({0}.shape))", only="{0}.ndim < 3"
    ),
    Operation("diagonal", "lib.diagonal({0})", only=_MATRIX),
    Operation("squeeze", "lib.squeeze({0})"),
    Operation(
        "unbind", "{0}.unbind(0)[1]", numpy="{0}[1, ...]",
        only="{0}.ndim > 0 and {0}.shape[0] > 1",
    ),
]  # fmt: skip
SHAPES = [
    Operation("flip", "lib.flip({0}, (0,)) * 1.0", only="{0}.ndim > 0"),
    Operation("roll", "lib.roll({0}, 1, 0)", only="{0}.ndim > 0"),
    Operation(
        "fancy_index",
        "{0}[{where}]",
        params=(("where", ("[1, 0]", "[0, 0, 1]", "[-1, 0, -1]")),),
        only="{0}.ndim > 0 and {0}.shape[0] > 1",
    ),
    Operation("tril", "lib.tril({0})", only=_MATRIX),
    Operation("tile", "lib.tile({0}, (2,))", only="0 < {0}.ndim and {0}.size < 7"),
    Operation("clone", "{0}.clone()", numpy="{0}.copy()"),
]
BINARY = [
    Operation("multiply", "{0} * {1}", inputs=2),
    Operation("add", "{0} + {1}", inputs=2),
    Operation("subtract", "{0} - {1}", inputs=2),
    Operation("divide", "{0} / (1.5 + {1} * {1})", inputs=2),
    Operation("maximum", "lib.maximum({0}, {1})", inputs=2),
    Operation("minimum", "lib.minimum({0}, {1})", inputs=2),
    Operation("where", "lib.where({0} > {1}, {0}, {1} * 0.5)", inputs=2),
    Operation("matmul", "{0} @ {1}", inputs=2),
    Operation("arctan2", "lib.arctan2({0}, {1} * {1} + 0.5)", inputs=2),
    Operation("logaddexp", "lib.logaddexp({0}, {1})", inputs=2),
    Operation("lerp", "lib.lerp({0}, {1}, 0.3)", numpy="{0} + 0.3 * ({1} - {0})", inputs=2,
              only="{0}.shape == {1}.shape"),
    Operation("outer", "lib.outer({0}, {1})", inputs=2, only="{0}.ndim == {1}.ndim == 1"),
    Operation("stack", "lib.stack([{0}, {1}])", inputs=2),
    Operation(
        "concatenate", "lib.concatenate([{0}, {1}])", inputs=2, only="{0}.ndim > 0"
    ),
    Operation("inner", "lib.inner({0}, {1})", torch="lib.inner({0}, {1}) * 1.0", inputs=2,
              only="{0}.ndim > 0"),  # torch crashes when its result, a view, is written to
    Operation(
        "einsum",
        "lib.einsum({path}, {0}, {1})",
        torch="lib.einsum({path}, {0}, {1}) * 1.0",
        inputs=2,
        params=(("path", ("'ij,jk->ik'", "'ij,j->i'", "'ij,ij->j'", "'i,ij->'", "'i,j->ij'")),),
    ),
]  # fmt: skip
MATRICES = [
    Operation("inv", f"lib.linalg.inv({_SQUARE})", only=_MATRIX),
    Operation("det", f"lib.linalg.det({_SQUARE})", only=_MATRIX),
    Operation("cholesky", f"lib.linalg.cholesky({_SQUARE})", only=_MATRIX),
    Operation("slogdet", f"lib.linalg.slogdet({_SQUARE})[1]", only=_MATRIX),
    Operation("solve", f"lib.linalg.solve({_SQUARE}, {{1}})", inputs=2, only=_MATRIX),
]
STOPPING = [
    Operation("detach", "{0}.detach() * 1.0", numpy="{0} * 1.0", stops=True),
]
WRITES = [
    Operation("mul_", "{0}.mul_({1})", numpy="{0} *= {1}", inputs=2, writes=True),
    Operation("add_", "{0}.add_({1})", numpy="{0} += {1}", inputs=2, writes=True),
    Operation("iadd", "{0} += {1} * 0.5", inputs=2, writes=True),
    Operation("imul", "{0} *= 0.9", writes=True),
    Operation("sin_", "{0}.sin_()", numpy="np.sin({0}, out={0})", writes=True),
    Operation("tanh_", "{0}.tanh_()", numpy="np.tanh({0}, out={0})", writes=True),
    Operation("copy_", "{0}.copy_({1})", numpy="{0}[...] = {1}", inputs=2, writes=True),
    Operation("zero_", "{0}.zero_()", numpy="{0}[...] = 0.0", writes=True),
    Operation("set_row", "{0}[0] = {1}", inputs=2, writes=True, only="{0}.ndim > 0"),
    Operation("set_rows", "{0}[1:] = {1}", inputs=2, writes=True,
              only="{0}.ndim > 0 and {0}.shape[0] > 1"),
    Operation("set_column", "{0}[..., -1] = {1}", inputs=2, writes=True, only="{0}.ndim > 1"),
    Operation("set_fancy", "{0}[[1, 0]] = {1}", inputs=2, writes=True,
              only="{0}.ndim > 0 and {0}.shape[0] > 1"),
    Operation("scale_rows", "{0}[::2] *= {1}", inputs=2, writes=True, only="{0}.ndim > 0"),
    Operation("set_number", "{0}[0] = 0.5", writes=True, only="{0}.ndim > 0"),
]  # fmt: skip
NO_GRAD_WRITES = [
    Operation("no_grad_write", "with lib.no_grad():\n    {0} *= 0.5", numpy="{0} *= 0.5",
              writes=True, stops=True),
]  # fmt: skip
FUNCTIONAL = SMOOTH * 2 + KINKED + REDUCING + VIEWS + SHAPES + BINARY * 3 + MATRICES
