"""The operations that NumPy programs are made of."""

from __future__ import annotations

from tests.property.programs.steps import Operation

AXIS = ("axis", ("0", "-1", "None"))
_ONE, _TWO = "{0}.ndim == 1 and {0}.size > 1", "{0}.ndim == 2"
_ROWS = "{0}.ndim > 0 and {0}.shape[0] > 1"
_REAL = "{0}.dtype.kind == 'f'"
_STACK = "({0}[..., :, None] * {0}[..., None, :] + 2.0 * np.eye({0}.shape[-1]))"
_SOME = "{0}.ndim > 0"


def _all(names: str, inputs: int = 1, only: str = "") -> list[Operation]:
    arguments = ", ".join(f"{{{place}}}" for place in range(inputs))
    return [
        Operation(name, f"np.{name}({arguments})", inputs=inputs, only=only)
        for name in names.split()
    ]


def _texts(texts: dict[str, str], inputs: int = 1, only: str = "") -> list[Operation]:
    return [Operation(n, t, inputs=inputs, only=only) for n, t in texts.items()]


UFUNCS = [
    *_all("sin cos tanh square negative positive arctan sinh expm1"),
    *_all("absolute conjugate real"),
    *_all("arcsinh cbrt fabs rint", only=_REAL),
    *_texts(
        {
            "exp": "np.exp({0} * 0.3)",
            "sqrt": "np.sqrt({0} * {0} + 2.5)",
            "log": "np.log({0} * {0} + 3.0)",
            "reciprocal": "np.reciprocal({0} + 3.0)",
            "power": "np.power({0}, 3)",
            "real power": "({0} * {0} + 0.5) ** 1.3",
            "arctan2": "np.arctan2(np.real({0}), np.real({0}) ** 2 + 1)",
            "astype": "{0}.astype({0}.dtype)",
            "logs": "np.log1p({0} * {0}) + np.log2({0} * {0} + 3)",
        }
    ),
    *_texts(
        {
            "log where": "np.log({0}, where={0} > 0.1, out=np.zeros_like({0}))",
            "clip": "np.clip({0}, -0.5, 0.5)",
            "heaviside": "np.heaviside({0}, 0.5) * {0}",
            "maximum of number": "np.maximum({0}, 0.2)",
            "nan_to_num": "np.nan_to_num({0})",
            "mod": "np.mod({0}, 0.7)",
            "copysign": "np.copysign({0}, -1.0)",
            "where": "np.where({0} > 0.2, {0} * 2, np.sin({0}))",
            "frexp": "np.ldexp({0}, 2)",
            "sinc": "np.sinc({0})",
            "modf": "np.modf({0})[0]",
            "unwrap": "np.unwrap({0} * 3)",
            "select": "np.select([{0} > 0.5, {0} > 0], [{0}, {0} * 2], 0.1)",
            "i0": "np.exp2({0}) - np.hypot({0}, 1.0)",
        },
        only=_REAL + " and {0}.ndim > 0",
    ),
]
BINARY = [
    *_all("add subtract multiply", inputs=2),
    *_all(
        "maximum minimum fmax fmin hypot logaddexp logaddexp2",
        inputs=2,
        only=f"{_REAL} and {{1}}.dtype.kind == 'f'",
    ),
    *_texts(
        {
            "divide": "{0} / ({1} * {1} + 2.5)",
            "matmul": "{0} @ {1}",
            "dot": "np.dot({0}, {1})",
            "outer": "np.outer({0}, {1})",
            "inner": "np.inner({0}, {1})",
            "kron": "np.kron({0}, {1})",
            "tensordot": "np.tensordot({0}, {1}, axes=1)",
            "vdot": "np.vdot({0}, {1})",
            "multiply.outer": "np.multiply.outer({0}, {1})",
            "stack": "np.stack([{0}, {1}], axis=-1)",
            "concatenate": "np.concatenate([{0}, {1}], axis=0)",
            "hstack": "np.hstack([{0}, {1}])",
            "vstack": "np.vstack([{0}, {1}])",
            "append": "np.append({0}, {1})",
            "power of two": "(np.abs({0}) + 0.5) ** np.real({1})",
            "einsum": "np.einsum('i,i->', {0}, {1})",
            "einsum rows": "np.einsum('ij,j->i', {0}, {1})",
            "einsum spread": "np.einsum('ij,ik->jk', {0}, {1})",
            "where": "np.where(np.real({0}) > np.real({1}), {0}, {1})",
            "lists": "np.array([{0}.sum(), {1}.sum(), 1.0])",
            "linear combination": "2 * {0} - {1} / 3",
            "true_divide": "np.true_divide({0}, 4.0) + {1}",
        },
        inputs=2,
    ),
    *_texts(
        {
            "convolve": "np.convolve({0}, {1})",
            "correlate": "np.correlate({0}, {1}, 'full')",
            "interp": "np.interp({0}, np.array([-1.0, 0.1, 1.0]), np.resize({1}, 3))",
            "polyval": "np.polyval({0}, {1})",
            "trapezoid": "np.trapezoid({0}, np.resize({1}, {0}.size))",
        },
        inputs=2,
        only="{0}.ndim == {1}.ndim == 1 and {0}.dtype.kind == {1}.dtype.kind == 'f'",
    ),
]
REDUCTIONS = [
    *[
        Operation(name, f"np.{name}({{0}}, axis={{axis}})", params=(AXIS,), only=_SOME)
        for name in ("sum", "mean", "prod", "nansum", "cumsum", "cumprod", "std", "var")
    ],
    *[
        Operation(
            name, f"np.{name}({{0}}, axis={{axis}})", params=(AXIS,), only=f"{_SOME} and {_REAL}"
        )
        for name in ("max", "min", "median", "ptp", "average", "amax", "nanmean", "nanmax")
    ],
    *_texts(
        {
            "sum keepdims": "np.sum({0}, axis=0, keepdims=True)",
            "method mean": "{0}.mean(axis=-1)",
            "add.reduce": "np.add.reduce({0})",
            "multiply.accumulate": "np.multiply.accumulate({0})",
            "add.reduceat": "np.add.reduceat({0}, [0, 1])",
            "norm": "np.linalg.norm({0} + 3.0)",
            "sum where": "np.sum({0}, where=np.real({0}) > 0)",
            "trace": "np.trace(np.outer({0}, {0}))",
            "norm axis": "np.linalg.norm({0} + 3.0, axis=-1)",
            "count": "np.size({0}) * {0}",
            "dtype": "np.sum({0}, dtype={0}.dtype)",
            "initial": "np.sum({0}, initial=2.0)",
        },
        only=_ROWS,
    ),
    *_texts(
        {
            "quantile": "np.quantile({0}, 0.3)",
            "percentile": "np.percentile({0}, [20, 70])",
            "sort": "np.sort({0})",
            "maximum.reduce": "np.maximum.reduce({0})",
            "diff": "np.diff({0})",
            "gradient": "np.gradient({0})",
            "logsumexp": "np.logaddexp.reduce({0})",
            "argmax": "{0}[np.argmax({0})]",
            "argsort": "{0}[np.argsort({0})]",
            "cov": "np.cov({0})",
            "partition": "np.sort(np.partition({0}, 1))",
            "ediff1d": "np.ediff1d({0})",
            "hypot.reduce": "np.hypot.reduce({0} + 2.0)",
        },
        only=f"{_ONE} and {_REAL}",
    ),
]
SHAPES = [
    *_texts(
        {
            "reshape": "{0}.reshape(-1)",
            "ravel": "np.ravel({0})",
            "transpose": "{0}.T",
            "expand": "{0}[..., None]",
            "squeeze": "np.squeeze({0})",
            "copy": "np.copy({0})",
            "atleast": "np.atleast_2d({0})",
            "tile": "np.tile({0}, 2)",
            "repeat": "np.repeat({0}, 2)",
            "broadcast_to": "np.broadcast_to({0}, (2,) + {0}.shape)",
            "zeros_like": "np.zeros_like({0})",
            "full_like": "np.full_like({0}, 0.5) * {0}",
            "flatten": "{0}.flatten()",
            "pad": "np.pad({0}, 1)",
            "pad edge": "np.pad({0}, 1, mode='edge')",
        }
    ),
    *_texts(
        {
            "row": "{0}[0]",
            "rows": "{0}[1:]",
            "every second": "{0}[::2]",
            "reversed": "{0}[::-1]",
            "flip": "np.flip({0}, 0)",
            "roll": "np.roll({0}, 1)",
            "fancy": "{0}[[0, 0, 1]]",
            "fancy array": "{0}[np.array([1, 0])]",
            "ellipsis": "{0}[..., -1]",
            "mask": "{0}[np.real({0}) > 0]",
            "take": "np.take({0}, [1, 0, 1], axis=0)",
            "split": "np.array_split({0}, 2)[0]",
            "repeat counts": "np.repeat({0}, np.arange({0}.shape[0]), axis=0)",
            "delete": "np.delete({0}, 0, axis=0)",
            "insert": "np.insert({0}, 1, 0.5)",
            "compress": "np.compress([True, False], {0}, axis=0)",
            "rotated": "np.moveaxis({0}, 0, -1)",
            "pad reflect": "np.pad({0}, 1, mode='reflect')",
            "swap": "np.swapaxes({0}, 0, -1)",
            "vander": "np.resize({0}, (2, 3))",
            "two rows": "{0}[:2] * {0}[-2:]",
            "none first": "{0}[None, 1:]",
            "r_": "np.r_[{0}, {0}[:1]]",
        },
        only=_ROWS,
    ),
    *_texts(
        {
            "tril": "np.tril({0})",
            "triu": "np.triu({0}, 1)",
            "diag": "np.diag({0})",
            "column": "{0}[:, 0]",
            "rot90": "np.rot90({0})",
            "ix": "{0}[np.ix_([0, 0], [1])]",
            "pairs": "{0}[[0, 1], [1, 0]]",
            "take_along": "np.take_along_axis({0}, np.array([[0], [1]]), axis=1)",
            "block": "np.block([[{0}, {0}]])",
            "diagonal": "{0}.diagonal()",
        },
        only=f"{_TWO} and min({{0}}.shape) > 1",
    ),
]
LINALG = [
    *_texts(
        {
            "inv": f"np.linalg.inv({_STACK})",
            "det": f"np.linalg.det({_STACK})",
            "slogdet": f"np.linalg.slogdet({_STACK})[1]",
            "cholesky": f"np.linalg.cholesky({_STACK})",
            "eigvalsh": f"np.linalg.eigvalsh({_STACK})",
            "matrix_power": f"np.linalg.matrix_power({_STACK}, 2)",
            "svd": f"np.linalg.svd({_STACK} * np.arange(1, {{0}}.shape[-1] + 1), compute_uv=False)",
            "pinv": f"np.linalg.pinv({_STACK})",
            "qr": f"np.abs(np.linalg.qr({_STACK})[1])",
            "eigh": f"np.linalg.eigh({_STACK} + np.diag(np.arange({{0}}.shape[-1]) * 1.0))[0]",
            "solve": f"np.linalg.solve({_STACK}, {{0}}[..., None])",
            "trace": f"np.trace({_STACK})",
            "matmul stack": f"{_STACK} @ {_STACK}",
            "multi_dot": "np.einsum('...i,...i->...', {0}, {0})",
            "norm stack": f"np.linalg.norm({_STACK}, axis=(-2, -1))",
        },
        only=f"0 < {{0}}.ndim < 3 and {_REAL} and {{0}}.shape[-1] < 4",
    ),
]
TRANSFORMS = _texts(
    {
        "fft": "np.fft.fft({0})",
        "ifft": "np.fft.ifft({0})",
        "fftshift": "np.fft.fftshift({0})",
        "fft padded": "np.fft.fft({0}, n=5, norm='ortho')",
        "power spectrum": "np.abs(np.fft.fft({0})) ** 2",
        "ihfft": "np.fft.irfft({0}, n=4)",
        "fftn": "np.fft.fftn({0})",
        "fft cut": "np.fft.fft({0}, n=2)",
    },
    only=_SOME,
) + _texts(
    {
        "rfft": "np.fft.rfft({0})",
        "round trip": "np.fft.irfft(np.fft.rfft({0}), n={0}.shape[-1])",
        "hfft": "np.fft.hfft({0})",
        "rfft real": "np.fft.rfft({0}, norm='forward').real",
    },
    only=f"{_SOME} and {_REAL} and {{0}}.shape[-1] > 1",
)
COMPLEX = _texts(
    {
        "imaginary unit": "{0} * 1j",
        "imag": "np.imag({0})",
        "method real": "{0}.real",
        "exp": "np.exp(1j * np.real({0}))",
        "angle": "np.angle({0} + 3.0)",
        "abs": "np.abs({0} + 3.0)",
        "conj": "{0}.conj() * {0}",
        "phase": "np.arctan2(np.imag({0}), np.real({0}) + 3.0)",
    }
)


def _writes(texts: dict[str, str], inputs: int = 1, only: str = "") -> list[Operation]:
    return [Operation(n, t, inputs=inputs, only=only, writes=True) for n, t in texts.items()]


WRITES = [
    *_writes(
        {
            "iadd": "{0} += {1}",
            "imul": "{0} *= {1}",
            "isub": "{0} -= {1} * 0.5",
            "fill all": "{0}[...] = {1}",
            "copyto": "np.copyto({0}, {1})",
            "add out": "np.add({0}, {1}, out={0})",
            "multiply out": "np.multiply({1}, {1}, out={0})",
        },
        inputs=2,
    ),
    *_writes(
        {
            "set row": "{0}[0] = {1}",
            "add rows": "{0}[1:] += {1}",
            "set reversed": "{0}[::-1] = {1}",
            "set fancy": "{0}[[1, 0]] = {1}",
            "set duplicates": "{0}[[0, 0]] = {1}",
            "add duplicates": "{0}[[0, 0, 1]] += {1}",
            "set mask": "{0}[np.real({0}) > 0.1] = {1}",
            "set column": "{0}[..., 0] = {1}",
            "add.at": "np.add.at({0}, [0, 0, 1], {1})",
            "scale every second": "{0}[::2] *= {1}",
        },
        inputs=2,
        only=_ROWS,
    ),
    *_writes(
        {
            "sin out": "np.sin({0}, out={0})",
            "double": "{0} *= 2",
            "square": "{0} **= 2",
            "set number": "{0}[...] = 0.5",
            "exp out": "np.exp({0} * 0.1, out={0})",
        }
    ),
    *_writes(
        {
            "set first": "{0}[0] = 0.3",
            "shift rows": "{0}[1:] = {0}[:-1]",
            "mask number": "{0}[np.real({0}) < 0] = 0.1",
            "scale mask": "{0}[np.real({0}) > 0] *= 0.5",
            "put": "np.put({0}, [0, 1], [0.2, 0.3])",
            "putmask": "np.putmask({0}, np.real({0}) > 0, 0.4)",
            "cumulate": "np.cumsum({0}, out={0}, axis=0)",
            "negate": "np.negative({0}[:1], out={0}[:1])",
            "swap rows": "{0}[[0, 1]] = {0}[[1, 0]]",
            "last of duplicates": "{0}[[0, 0]] = {0}[[0, 1]]",
            "view write": "({0}[1:])[0] = 0.7",
            "smooth": "{0}[1:] += 0.5 * {0}[:-1]",
        },
        only=_ROWS,
    ),
    *_writes(
        {
            "fill_diagonal": "np.fill_diagonal({0}, 0.5)",
            "pairs": "{0}[[0, 1], [1, 0]] = 0.2",
            "transpose write": "{0}.T[0] += 1.0",
            "flat": "{0}.reshape(-1)[0] = 0.1",
        },
        only=f"{_TWO} and min({{0}}.shape) > 1",
    ),
]
ELEMENT_WRITES = _writes(  # NumPy's scalars are copies
    {
        "swap elements": "{0}[0], {0}[1] = {0}[1], {0}[0]",
        "read, then write": "e = {0}[0]\n{0}[0] = 0.5\n{0}[1] += e",
        "unpack": "e, *_ = {0}\n{0}[0] = 2.0\n{0}[-1] = e",
        "accumulate": "e = {0}[0]\nd = e\ne += {0}[1]\n{0}[0] = e * d",
        "loop": "for i in range(1, len({0})):\n    {0}[i] += 0.5 * {0}[i - 1]",
        "sum into element": "{0}[0] = np.sum({0})",
    },
    only="{0}.ndim == 1 and {0}.size > 1",
)
CREATING = [
    Operation("zeros", "np.zeros({0}.shape, dtype={0}.dtype)"),
    Operation("ones", "np.ones(3) * {0}.sum()"),
    Operation("with integers", "{0} * np.arange({0}.size).reshape({0}.shape)"),
    Operation("integers first", "np.arange(1, {0}.size + 1).reshape({0}.shape) / ({0} + 3.0)"),
    Operation("meshgrid", "np.meshgrid({0}, {0})[1]", only="{0}.ndim == 1"),
    Operation("vectorize", "np.vectorize(lambda t: t * t + 1.0)({0})", only=_REAL),
    Operation("apply_along_axis", "np.apply_along_axis(lambda r: r * r.sum(), 0, {0})", only=_ROWS),
    Operation("outer sum", "np.add.outer({0}, {0}).sum(axis=0)", only="{0}.ndim == 1"),
    Operation("running", "np.array([np.sum({0}[: i + 1]) for i in range(len({0}))])", only=_ROWS),
    Operation("nested lists", "np.array([[{0}.sum(), 1.0], [0.0, {0}.mean()]])"),
    Operation("full shape", "np.full({0}.shape, 0.5) + {0}"),
    Operation("identity", "np.identity(2) @ np.resize({0}, (2, 2))", only="{0}.ndim > 0"),
    Operation("arange", "np.arange(3) * {0}.mean()"),
    Operation(
        "sliding", "np.lib.stride_tricks.sliding_window_view({0}, 2).sum(axis=-1)", only=_ONE
    ),
    Operation("histogram", "np.digitize(np.real({0}), [0.0, 0.5]) * {0}", only="{0}.ndim == 1"),
    Operation("searchsorted", "np.searchsorted([0.0, 0.5], np.real({0})) * {0}"),
    Operation(
        "bincount",
        "np.bincount([0, 1], weights=np.real({0})[:2])",
        only="{0}.ndim == 1 and {0}.size > 1",
    ),
    Operation("poly", "np.polyval([1.0, 2.0, 0.5], {0})"),
    Operation("nan functions", "np.nanprod({0}) + np.nanstd({0})", only="{0}.size > 1"),
    Operation("triangle", "{0}[np.tril_indices(2)]", only=f"{_TWO} and min({{0}}.shape) > 1"),
    Operation("cross", "np.cross({0}, {0}[::-1])", only="{0}.shape == (3,)"),
    Operation("dsplit", "np.column_stack([{0}, {0}])", only="{0}.ndim == 1"),
    Operation("full", "np.full(2, {0}.sum())"),
    Operation("eye", "np.eye(2) * {0}.sum()"),
    Operation("array", "np.array([{0}.sum(), 2.0 * {0}.sum()])"),
    Operation("array of rows", "np.array([row for row in {0}])", only=_ROWS),
    Operation("linspace", "np.linspace(0.0, 1.0, 3) * {0}.sum()"),
    Operation("empty", "np.empty_like({0}) * 0 + {0}"),
    Operation("python sum", "sum({0})", only=_ROWS),
    Operation("loop", "sum(e * e for e in {0}.ravel())"),
]
EVERY = UFUNCS * 2 + BINARY * 2 + REDUCTIONS + SHAPES + LINALG + CREATING
