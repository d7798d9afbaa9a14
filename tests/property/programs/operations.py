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
    Operation("lerp", "lib.lerp({0}, {1}, 0.3)",
              torch="lib.lerp({0}, {1}, lib.tensor(0.3, dtype=lib.float64))",
              numpy="{0} + 0.3 * ({1} - {0})", inputs=2, only="{0}.shape == {1}.shape"),
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
MORE_WRITES = [
    Operation("sub_", "{0}.sub_({1})", numpy="{0} -= {1}", inputs=2, writes=True),
    Operation("div_", "{0}.div_({1} * {1} + 1.5)", numpy="{0} /= {1} * {1} + 1.5", inputs=2,
              writes=True),
    Operation("lerp_", "{0}.lerp_({1}, 0.3)",
              torch="{0}.lerp_({1}, lib.tensor(0.3, dtype=lib.float64))",
              numpy="{0} += 0.3 * ({1} - {0})", inputs=2, writes=True,
              only="{0}.shape == {1}.shape"),
    Operation("pow_", "{0}.pow_(2)", numpy="{0} **= 2", writes=True),
    Operation("abs_", "{0}.abs_()", numpy="np.abs({0}, out={0})", writes=True),
    Operation("neg_", "{0}.neg_()", numpy="np.negative({0}, out={0})", writes=True),
    Operation("exp_", "{0}.exp_()", numpy="np.exp({0}, out={0})", writes=True),
    Operation("sigmoid_", "{0}.sigmoid_()", numpy="{0}[...] = 1 / (1 + np.exp(-{0}))",
              writes=True),
    Operation("clamp_", "{0}.clamp_(-0.5, 0.5)", numpy="np.clip({0}, -0.5, 0.5, out={0})",
              writes=True),
    Operation("relu_", "{0}.relu_()", numpy="np.maximum({0}, 0.0, out={0})", writes=True),
    Operation("masked_fill_", "{0}.masked_fill_({0} > 0.2, 0.3)",
              numpy="{0}[{0} > 0.2] = 0.3", writes=True),
    Operation("set_masked", "{0}[{0} > 0.1] = 0.7", writes=True, only="{0}.ndim > 0"),
    Operation("set_masked_values", "{0}[{1} > 0.1] = {0}[{1} > 0.1] * 2.0", inputs=2, writes=True,
              only="{0}.shape == {1}.shape and {0}.ndim > 0"),
    Operation("fill_diagonal_", "{0}.fill_diagonal_(0.5)", numpy="np.fill_diagonal({0}, 0.5)",
              writes=True, only=_MATRIX),
    Operation("index_add_", "{0}.index_add_(0, lib.asarray(np.array([0])), {1})",
              numpy="{0}[[0]] += {1}", inputs=2, writes=True,
              only="{0}.ndim > 0 and {1}.shape == (1,) + {0}.shape[1:]"),
    Operation("view_write", "{0}.reshape(-1)[1:].mul_(0.5)", numpy="{0}.reshape(-1)[1:] *= 0.5",
              writes=True, only="{0}.flags.c_contiguous and {0}.size > 1"),
    Operation("transposed_write", "{0}.T[0] = {1}", inputs=2, writes=True, only=_MATRIX),
    Operation("row_of_rows", "{0}[0][1:] = {1}", inputs=2, writes=True,
              only="{0}.ndim == 2 and {0}.shape[1] > 1"),
]  # fmt: skip
RESHAPING_WRITES = [
    Operation("t_", "{0}.t_()", numpy="{0} = {0}.T", writes=True, only=_MATRIX),
    Operation("unsqueeze_", "{0}.unsqueeze_(0)", numpy="{0} = {0}[None]", writes=True,
              only="{0}.ndim < 3"),
    Operation("squeeze_", "{0}.squeeze_()", numpy="{0} = np.squeeze({0})", writes=True),
    Operation("transpose_", "{0}.transpose_(0, -1)", numpy="{0} = np.swapaxes({0}, 0, -1)",
              writes=True, only="{0}.ndim > 1"),
    Operation("detach_", "{0}.detach_()", numpy="pass", writes=True, stops=True),
]  # fmt: skip
MORE = [
    Operation("erf", "lib.erf({0})", numpy="np.vectorize(__import__('math').erf)({0}) + 0.0"),
    Operation("log_softmax", "{0}.log_softmax(0)", only="{0}.ndim > 0",
              numpy="{0} - np.log(np.exp({0}).sum(0, keepdims=True))"),
    Operation("sort", "lib.sort({0})", torch="lib.sort({0})[0]", only="{0}.ndim > 0"),
    Operation("diff", "lib.diff({0})", only="{0}.ndim > 0 and {0}.shape[-1] > 1"),
    Operation("gather", "{0}.gather(0, lib.asarray(np.array([1, 0, 1])))",
              numpy="{0}[[1, 0, 1]]", only="{0}.ndim == 1 and {0}.size > 1"),
    Operation("index_select", "{0}.index_select(0, lib.asarray(np.array([1, 0])))",
              numpy="{0}[[1, 0]]", only="{0}.ndim > 0 and {0}.shape[0] > 1"),
    Operation("narrow", "{0}.narrow(0, 1, 1)", numpy="{0}[1:2]",
              only="{0}.ndim > 0 and {0}.shape[0] > 1"),
    Operation("expand", "{0}.expand(2, *{0}.shape)", only="{0}.ndim < 3",
              numpy="np.broadcast_to({0}, (2,) + {0}.shape)"),
    Operation("chunk", "{0}.chunk(2)[0]", numpy="np.array_split({0}, 2)[0]",
              only="{0}.ndim > 0 and {0}.shape[0] > 1"),
    Operation("zeros_like", "lib.zeros_like({0})", stops=True),
    Operation("zeros", "lib.zeros(tuple({0}.shape), dtype=lib.float64)", stops=True),
    Operation("ones_like", "lib.ones_like({0}) * {0}"),
    Operation("masked_fill", "{0}.masked_fill({0} > 0.3, 0.1)",
              numpy="np.where({0} > 0.3, 0.1, {0})"),
    Operation("tensor power", "lib.pow(lib.abs({0}) + 0.5, {1})", inputs=2,
              numpy="np.power(np.abs({0}) + 0.5, {1})"),
    Operation("hypot", "lib.hypot({0}, {1} + 3.0)", inputs=2),
    Operation("xlogy", "lib.xlogy({0}, {1} * {1} + 0.5)", inputs=2,
              numpy="{0} * np.log({1} * {1} + 0.5)"),
    Operation("kron", "lib.kron({0}, {1})", inputs=2, only="{0}.ndim == {1}.ndim == 1"),
    Operation("trace", "lib.trace({0})", only=_MATRIX),
    Operation("std", "lib.std({0})", torch="lib.std({0}, correction=0)",
              only="{0}.size > 1 and {0}.std() > 0.1"),
    Operation("prod_axis", "lib.prod({0}, axis=0)", torch="lib.prod({0}, dim=0)",
              only="{0}.ndim > 0"),
    Operation("round trip", "lib.fft.irfft(lib.fft.rfft({0}), n={0}.shape[-1])",
              only="{0}.ndim > 0 and {0}.shape[-1] > 1"),
    Operation("power spectrum", "lib.abs(lib.fft.fft({0} + 2.0)) ** 2", only="{0}.ndim > 0"),
    Operation("real part", "lib.real(lib.exp(1j * {0}) * {1})", inputs=2),
    Operation("eigvalsh", f"lib.linalg.eigvalsh({_SQUARE} * lib.diag(lib.ones({{0}}.shape[0])))",
              only="{0}.ndim == 2 and {0}.shape[0] == 1"),
    Operation("item write", "lib.stack([{0}.sum(), {0}.mean()])"),
]  # fmt: skip
NUMPY_CALLS = [  # NumPy's functions on our tensors
    Operation(f"np.{name}", f"np.{name}({{0}})", torch=f"torch.{name}({{0}})")
    for name in ("sin", "exp", "tanh", "square", "sum", "ravel")
] + [
    Operation("np.multiply", "np.multiply({0}, {1})", torch="{0} * {1}", inputs=2),
    Operation("np.where", "np.where({0} > 0.1, {0}, {1})",
              torch="torch.where({0} > 0.1, {0}, {1})", inputs=2),
    Operation("np.zeros_like", "np.zeros_like({0})", torch="torch.zeros_like({0})"),
]  # fmt: skip
NO_GRAD_WRITES = [
    Operation("no_grad_write", "with lib.no_grad():\n    {0} *= 0.5", numpy="{0} *= 0.5",
              writes=True, stops=True),
]  # fmt: skip
FUNCTIONAL = SMOOTH * 2 + KINKED + REDUCING + VIEWS + SHAPES + BINARY * 3 + MATRICES + MORE
