"""NumPy's public array functions as templates of calls, for `call_programs.py`.

In a template ``{a}`` and ``{b}`` are arrays, ``{s}`` and ``{z}`` numbers, ``{x}`` an axis or some,
``{i}`` one axis, ``{k}`` options of reductions, ``{d}`` a dtype, ``{m}`` a mask, ``{n}`` a small
integer, and ``{u}`` options of a ufunc.
"""

from __future__ import annotations

__all__ = ["CALLS", "INEXACT_WORDS"]

_UNARY = """
    negative positive absolute fabs rint sign conjugate sqrt square cbrt reciprocal exp exp2 expm1
    log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    degrees radians deg2rad rad2deg invert logical_not isfinite isinf isnan signbit spacing floor
    ceil trunc bitwise_count isnat
"""
_BINARY = """
    add subtract multiply divide true_divide floor_divide remainder mod fmod power float_power
    maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 bitwise_and bitwise_or
    bitwise_xor left_shift right_shift greater greater_equal less less_equal not_equal equal
    logical_and logical_or logical_xor copysign nextafter heaviside gcd lcm ldexp pow
    bitwise_left_shift
"""
_REDUCTIONS = """
    sum prod max min all any mean var std nansum nanprod nanmean nanvar nanstd nanmax nanmin amax
    count_nonzero
"""
_OPERATORS = "+ - * / // % ** & | ^ << >> < <= > >= == != @"


def _each(names: str, *templates: str) -> list[str]:
    return [t.replace("NAME", name) for name in names.split() for t in templates]


_ELEMENTWISE = [
    *_each(_UNARY, "np.NAME({a}{u})", "np.NAME({s})"),
    *_each(_BINARY, "np.NAME({a}, {b}{u})", "np.NAME({a}, {s}{u})", "np.NAME({s}, {a})",
           "np.NAME({z}, {s})", "np.NAME.outer({a}, {s})", "np.NAME.outer({a}, {b})"),
    *_each("add multiply maximum minimum logical_and logical_or bitwise_and bitwise_or bitwise_xor "
           "fmax logaddexp subtract", "np.NAME.reduce({a}, axis={x})",
           "np.NAME.accumulate({a}, {i})",
           "np.NAME.reduceat({a}, [0, 1], axis={i})", "np.NAME.reduce({a}, {i}, dtype={d})"),
    *_each(_OPERATORS, "{a} NAME {b}", "{a} NAME {s}", "{s} NAME {a}", "{z} NAME {s}"),
    *_each("iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift",
           "write({a}, lambda y: operator.NAME(y, {s}))",
           "write({a}, lambda y: operator.NAME(y, {b}))"),
    *_each("- + ~ abs", "NAME({a})"),
]  # fmt: skip

_REDUCED = [
    *_each(_REDUCTIONS, "np.NAME({a}, axis={x}{k})", "np.NAME({a})"),
    *_each("sum prod max min all any mean var std", "{a}.NAME(axis={x}{k})", "{a}.NAME()"),
    *_each("argmax argmin nanargmax nanargmin", "np.NAME({a}, axis={i})", "np.NAME({a})",
           "np.NAME({a}, axis={i}, keepdims=True)"),
    *_each("cumsum cumprod nancumsum nancumprod", "np.NAME({a}, axis={i})", "np.NAME({a})",
           "np.NAME({a}, axis={i}, dtype={d})"),
    *_each("cumulative_sum cumulative_prod", "np.NAME({a}, axis={i})",
           "np.NAME({a}, axis={i}, include_initial=True)"),
    *_each("median nanmedian ptp", "np.NAME({a}, axis={x})", "np.NAME({a}, keepdims=True)"),
    *_each("percentile quantile nanquantile", "np.NAME({a}, 0.3, axis={x})",
           "np.NAME({a}, [0.1, 0.5], axis={i})", "np.NAME({a}, 0.5, method='nearest')",
           "np.NAME({a}, 1, method='higher')"),
    "np.average({a}, axis={x})",
    "np.average({a}, axis={i}, weights={a})",
    "np.trapezoid({a}, axis={i})",
    "np.trapezoid({a}, {a}, axis={i})",
    "np.sum({a}, axis={x}, dtype={d})",
    "np.mean({a}, axis={x}, dtype={d})",
    "np.prod({a}, dtype={d})",
    "np.var({a}, axis={x}, ddof={n})",
    "np.max({a}, axis={x}, initial={n}, where={m})",
    "np.sum({a}, axis={x}, initial={s}, where={m})",
    "np.mean({a}, axis={x}, where={m})",
    "np.sum({a}, out=np.zeros(()))",
    "np.max({a}, axis=0, out=np.zeros({a}.shape[1:], {d}))",
    "np.cumsum({a}, axis=0, out=np.zeros({a}.shape, {d}))",
]  # fmt: skip

_SHAPES = """
    np.reshape({a}, (-1,))
    np.reshape({a}, (-1, 1), order='F')
    {a}.reshape(-1, order='F')
    np.ravel({a}, order='F')
    {a}.ravel('A')
    {a}.flatten('F')
    np.transpose({a})
    {a}.T
    np.swapaxes({a}, 0, -1)
    np.moveaxis({a}, 0, -1)
    np.rollaxis({a}, -1)
    np.squeeze({a})
    np.expand_dims({a}, ({i}, 0))
    np.broadcast_to({a}, (2, *np.shape({a})))
    np.broadcast_arrays({a}, {b})[1]
    np.atleast_1d({a})
    np.atleast_2d({a})
    np.atleast_3d({a})
    np.concatenate([{a}, {b}], axis={i})
    np.concatenate([{a}, {b}], axis=None)
    np.concatenate([{a}, {b}], dtype={d})
    np.stack([{a}, {b}], axis={i})
    np.hstack([{a}, {b}])
    np.vstack([{a}, {b}])
    np.dstack([{a}, {b}])
    np.column_stack([{a}, {b}])
    np.block([{a}, {b}])
    np.block([[{a}], [{s}]])
    np.append({a}, {s})
    np.append({a}, {b}, axis={i})
    np.split({a}, [1], axis={i})[0]
    np.array_split({a}, 2)[1]
    np.hsplit({a}, [1])[1]
    np.tile({a}, 2)
    np.tile({a}, (2, 1))
    np.repeat({a}, 2)
    np.repeat({a}, 2, axis={i})
    np.repeat({a}, [1, 2, 0], axis={i})
    np.flip({a}, {x})
    np.fliplr({a})
    np.flipud({a})
    np.rot90({a})
    np.roll({a}, {n}, axis={i})
    np.roll({a}, 1)
    np.resize({a}, (2, 3))
    np.pad({a}, 1)
    np.pad({a}, (1, 0), constant_values={s})
    np.pad({a}, 1, mode='edge')
    np.pad({a}, 1, mode='reflect')
    np.pad({a}, 1, mode='wrap')
    np.pad({a}, 1, mode='linear_ramp')
    np.pad({a}, 1, mode='mean')
    np.pad({a}, 1, mode='maximum')
    np.diag({a})
    np.diag({a}, 1)
    np.diagonal({a})
    np.diagflat({a})
    np.tril({a})
    np.triu({a}, 1)
    np.vander({a})
    np.vander({a}, 3, increasing=True)
    np.meshgrid({a}, {b})[0]
    np.meshgrid({a}, {b}, indexing='ij')[1]
    np.ix_({a}, {a})[0]
    np.trim_zeros({a})
    np.unstack({a})[0]
    np.matrix_transpose({a})
    np.permute_dims({a})
    np.lib.stride_tricks.sliding_window_view({a}, 2, axis={i})
"""

_INDEXING = """
    {a}[0]
    {a}[-1]
    {a}[1:]
    {a}[::-1]
    {a}[..., None]
    {a}[..., ::2]
    {a}[:, 0]
    {a}[()]
    {a}[[0, -1]]
    {a}[[[0], [-1]]]
    {a}[np.array([], int)]
    {a}[[True, False, True]]
    {a}[{m}]
    {a}[np.array([1, 0], np.int8)]
    {a}[np.array([1, 0], np.uint8)]
    {a}[{n}]
    {a}[{n}:]
    {a}[..., {n}]
    {a}.item(0)
    {a}.tolist()
    np.take({a}, [0, 1])
    np.take({a}, [0, 1], axis={i})
    np.take({a}, [[0, -1]], axis={i}, mode='wrap')
    np.take({a}, 5, mode='clip')
    np.take_along_axis({a}, np.argsort({a}, axis={i}, kind='stable'), axis={i})
    np.choose([0, 1, 0], [{a}, {b}])
    np.choose([0, 1, 0], [{a}, {s}])
    np.choose([5, -1, 0], [{s}, {a}], mode='wrap')
    np.choose(np.array({n} > 1), [{z}, {a}])
    np.compress([True, False, True], {a}, axis={i})
    np.extract({m}, {a})
    np.where({m}, {a}, {b})
    np.where({m}, {a}, {s})
    np.where({m}, {s}, {z})
    np.where({a}, {s}, {b})
    np.where({a})[0]
    np.select([{m}, {a} > 0], [{a}, {b}])
    np.select([{m}, {a} > 0], [{a}, {s}], {z})
    np.select([{m}], [{s}], {a})
    np.piecewise({a}, [{m}], [{s}, {z}])
    np.piecewise({a}, [{m}], [lambda v: v * 2])
    np.nonzero({a})[0]
    np.argwhere({a})
    np.flatnonzero({a})
    np.delete({a}, 0)
    np.delete({a}, [0, 1], axis={i})
    np.delete({a}, slice(1), axis={i})
    np.insert({a}, 0, {s})
    np.insert({a}, [0, 1], {s}, axis={i})
    np.insert({a}, 1, {a}[0], axis=0)
    np.searchsorted(np.sort({a}), {b})
    np.searchsorted(np.sort({a}), {s}, side='right')
    np.searchsorted({a}, [1, 2])
    np.digitize({a}, [0, 1, 2])
    np.digitize({a}, [2, 1, 0], right=True)
    np.bincount({a} % 50)
    np.bincount({a} % 50, weights={b})
    np.bincount({a} % 50, minlength=5)
    np.histogram({a}, bins=3)[0]
    np.histogram({a}, bins=3)[1]
    np.histogram({a}, [0, 1, 2], density=True)[0]
    np.histogram({a}, bins=[0, 1.5, 2], weights={a})[0]
    np.histogram2d({a}, {a}, 2)[0]
    np.interp({a}, [0.0, 1.0, 2.0], [3, 1, 2])
    np.interp({s}, np.arange(3), {a})
    np.interp({b}, np.arange(len({a})), {a})
    np.interp({a}, [0, 1], [3.0, 1.0], left={s}, right=7)
    np.interp({a}, [0, 1], [3.0, 1.0], period=1.5)
    np.unique({a})
    np.unique({a}, return_counts=True)[1]
    np.unique({a}, return_inverse=True)[1]
    np.unique({a}, axis=0)
    np.unique_values({a})
    np.isin({a}, {b})
    np.isin({a}, [0, 1])
    np.intersect1d({a}, {b})
    np.union1d({a}, {b})
    np.setdiff1d({a}, {b})
    np.setxor1d({a}, {b})
    np.sort({a}, axis={i})
    np.sort({a}, axis=None)
    np.argsort({a}, axis={i}, kind='stable')
    np.partition({a}, 1, axis={i})[..., 1]
    np.lexsort(({a}, {b}))
    np.sort_complex({a})
    np.unravel_index({n}, (2, 3))[0]
    np.packbits({a})
    np.unpackbits({a})
    np.apply_along_axis(np.sum, {i}, {a})
    np.apply_over_axes(np.sum, {a}, {x})
    np.vectorize(lambda v: v * 2)({a})
    np.broadcast_to({s}, (2, 2))
"""

_NUMERIC = """
    np.clip({a}, {s}, {z})
    np.clip({a}, {s}, None)
    np.clip({a}, None, {b})
    np.clip({a}, {b}, {s})
    {a}.clip({s}, {z})
    {a}.clip(max={s})
    np.round({a})
    np.round({a}, 1)
    np.round({a}, -1)
    {a}.round(2)
    round({z})
    np.fix({a})
    np.nan_to_num({a})
    np.nan_to_num({a}, nan={s}, posinf=1, neginf=-1)
    np.real_if_close({a})
    np.i0({a})
    np.sinc({a})
    np.angle({a})
    np.angle({a}, deg=True)
    np.unwrap({a})
    np.real({a})
    np.imag({a})
    {a}.real
    {a}.imag
    {a}.conj()
    {a}.conjugate()
    np.isreal({a})
    np.iscomplex({a})
    np.isposinf({a})
    np.isneginf({a})
    np.isclose({a}, {b})
    np.isclose({a}, {s}, equal_nan=True)
    np.allclose({a}, {b})
    np.array_equal({a}, {b})
    np.array_equiv({a}, {s})
    np.diff({a}, axis={i})
    np.diff({a}, 2, prepend={s})
    np.ediff1d({a}, to_begin=0)
    np.gradient({a})[0]
    np.gradient({a}, 2, axis={i})
    np.gradient({a}, axis={i}, edge_order=2)
    np.convolve({a}, {b})
    np.convolve({a}, {b}, 'same')
    np.correlate({a}, {b}, 'full')
    np.cov({a})
    np.cov({a}, rowvar=False)
    np.cov({a}, {a})
    np.cov({a}, bias=True)
    np.corrcoef({a})
    np.cross({a}, {b})
    np.polyval([1, 2, 3], {a})
    np.polyval({a}, {s})
    np.polyfit([0.0, 1.0, 2.0], {a}, 1)
    np.polyadd({a}, [1, 2])
    np.polymul({a}, [1, 2])
    np.polyder({a})
    np.polyint({a})
    np.polydiv({a}, [1.0, 2.0])[0]
    np.poly({a})
    np.roots({a})
    np.modf({a})[0]
    np.modf({a})[1]
    np.frexp({a})[0]
    np.frexp({a})[1]
    np.divmod({a}, {s})[0]
    np.divmod({a}, {b})[1]
    divmod({a}, {s})[1]
    np.sqrt({a}) + {s}
    np.emath.sqrt({a})
    np.emath.log({a})
    np.emath.power({a}, {s})
    np.dot({a}, {b})
    np.dot({a}, {s})
    {a}.dot({b})
    np.vdot({a}, {b})
    np.inner({a}, {b})
    np.outer({a}, {b})
    np.matmul({a}, {b})
    np.matmul({a}.T, {a})
    {a} @ {a}.T
    np.vecdot({a}, {b})
    np.matvec({a}, {b})
    np.tensordot({a}, {b}, 1)
    np.tensordot({a}, {a}, ([0], [0]))
    np.einsum('i,i->', {a}, {b})
    np.einsum('ij->ji', {a})
    np.einsum('ii', {a})
    np.einsum('ij,j->i', {a}, {b})
    np.einsum('...i,...i->...', {a}, {b})
    np.einsum('i,j->ij', {a}, {b})
    np.kron({a}, {b})
    np.trace({a})
    np.trace({a}, dtype={d})
    np.linalg.norm({a})
    np.linalg.norm({a}, axis={i})
    np.linalg.norm({a}, 1)
    np.linalg.norm({a}, np.inf, axis={i})
    np.linalg.norm({a}, 0, axis={i}, keepdims=True)
    np.linalg.vector_norm({a}, axis={x})
    np.linalg.matrix_norm({a})
    np.linalg.inv({a})
    np.linalg.det({a})
    np.linalg.slogdet({a})[1]
    np.linalg.solve({a}, {b})
    np.linalg.pinv({a})
    np.linalg.matrix_power({a}, 2)
    np.linalg.matrix_power({a}, 0)
    np.linalg.multi_dot([{a}, {a}, {a}])
    np.linalg.eigvalsh({a} + {a}.T)
    np.linalg.svd({a})[1]
    np.linalg.svdvals({a})
    np.linalg.cond({a})
    np.linalg.trace({a})
    np.linalg.outer({a}, {b})
    np.linalg.cholesky({a} @ {a}.T + 9 * np.eye(len({a})))
    np.linalg.qr({a})[1]
    np.linalg.lstsq({a}, {a}, rcond=None)[0]
    np.fft.fft({a})
    np.fft.rfft({a})
    np.fft.ifft({a}, axis={i})
    np.fft.fftshift({a})
"""

_CREATION = """
    np.zeros_like({a})
    np.ones_like({a}, dtype={d})
    np.full_like({a}, {s})
    np.full_like({a}, {b})
    np.zeros({a}.shape, {d})
    np.full((2, 2), {s})
    np.full((2, 2), {s}, dtype={d})
    np.full((2,), {z})
    np.array({a})
    np.array({a}, dtype={d})
    np.array({a}, ndmin=2)
    np.array([{a}, {b}])
    np.array([{s}, {z}])
    np.array([{s}, {n}], dtype={d})
    np.array([{a}[0], {s}])
    np.asarray({s})
    np.asarray({a}, dtype={d})
    np.asanyarray({a})
    np.asfortranarray({a})
    np.ascontiguousarray({a})
    np.copy({a})
    {a}.copy()
    {a}.astype({d})
    {a}.astype({d}, copy=False)
    np.astype({a}, {d})
    np.eye({n}, dtype={d})
    np.eye(3)[{n}] * {s}
    np.arange({n})
    np.arange({n}, dtype={d})
    np.arange({s})
    np.arange(0, {n}, 0.5)
    np.arange(3) * {s}
    np.linspace(0, {s}, 4)
    np.linspace({a}, {b}, 3)
    np.linspace({z}, {s}, 3, dtype={d})
    np.logspace(0, {s}, 3)
    np.geomspace(1, 8, 4) * {s}
    np.tri(3, k={n}) * {a}
    np.identity(2, {d})
    np.fromiter((v for v in {a}), {d})
    np.result_type({a}, {s}).name
    np.size({a}) * {s}
    np.ndim({a}) + {s}
    np.asarray({a}.shape) * {s}
    np.float32({s}) * {a}
    np.float64({z}) * {a}
    np.int8({n}) + {a}
    np.uint64({n}) + {a}
    np.bool_({s}) + {a}
    np.complex64({s}) * {a}
    float({z}) * {a}
    int({n}) * {a}
    bool({n}) * {a}
    complex({s}) * {a}
    abs({z}) * {a}
    max({s}, {n}) * {a}
    sum([{s}, {z}]) + {a}
    {s} + {z}
    ({s} * {n}) ** 2 + {a}
"""

_WRITES = """
    write({a}, lambda y: y.fill({s}))
    write({a}, lambda y: y.__setitem__(0, {s}))
    write({a}, lambda y: y.__setitem__(..., {b}))
    write({a}, lambda y: y.__setitem__(slice(None, None, -1), {s}))
    write({a}, lambda y: y.__setitem__({m}, {s}))
    write({a}, lambda y: y.__setitem__([0, 0], {s}))
    write({a}, lambda y: y.conj().__setitem__(..., {s}))
    write({a}, lambda y: y.real.__setitem__(..., 2))
    write({a}, lambda y: y.T.__setitem__(0, {s}))
    write({a}, lambda y: y.ravel().__setitem__(0, {s}))
    write({a}, lambda y: y.reshape(-1).__setitem__(0, {s}))
    write(np.zeros_like({a}), lambda y: y.ravel().__setitem__(0, {s}))
    write(np.zeros_like({a}.T), lambda y: y.T.reshape(-1).__setitem__(0, {s}))
    write(np.array({a}), lambda y: y.T.ravel().__setitem__(0, {s}))
    write(np.array({a}, order='F'), lambda y: y.ravel().__setitem__(0, {s}))
    write(np.zeros((2, 3), order='F'), lambda y: y.ravel().__setitem__(0, {s}))
    write(np.sin({a}), lambda y: y.ravel().__setitem__(0, {s}))
    write({a} + {b}, lambda y: y.ravel().__setitem__(0, {s}))
    write(np.empty_like({a}), lambda y: (y.fill(1), y.ravel().__setitem__(0, {s})))
    write({a}, lambda y: np.copyto(y, {s}))
    write({a}, lambda y: np.copyto(y, {b}, casting='unsafe', where={m}))
    write({a}, lambda y: np.put(y, [0, 1], {s}))
    write({a}, lambda y: np.place(y, {m}, [1, 2]))
    write({a}, lambda y: np.putmask(y, {m}, {b}))
    write({a}, lambda y: np.fill_diagonal(y, {s}))
    write({a}, lambda y: np.put_along_axis(y, np.zeros((1,) * y.ndim, int), {s}, 0))
    write({a}, lambda y: np.add(y, {s}, out=y))
    write({a}, lambda y: np.add(y, {b}, out=y, casting='unsafe'))
    write({a}, lambda y: np.multiply(y, {s}, out=y, where={m}))
    write({a}, lambda y: np.sqrt(y, out=y))
    write({a}, lambda y: np.clip(y, 0, {s}, out=y))
    write({a}, lambda y: np.cumsum(y, axis=0, out=y))
    write({a}, lambda y: np.add.at(y, [0, 0], {s}))
    write({a}, lambda y: np.negative.at(y, [0, 0]))
    write({a}, lambda y: y.sort())
    write({a}, lambda y: y.flat.__setitem__(0, {s}))
    write({a}, lambda y: np.nan_to_num(y, copy=False))
    write({a}, lambda y: y[1:].__iadd__({s}))
    write({a}, lambda y: y[{m}].__iadd__({s}))
    write({a}, lambda y: y.setfield(1, y.dtype))
"""


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


CALLS = [
    _ELEMENTWISE,
    _REDUCED,
    *map(_lines, (_SHAPES, _INDEXING, _NUMERIC, _NUMERIC, _CREATION, _WRITES)),
]

# Functions whose results NumPy rounds in its own way: these are compared to some places.
_INEXACT = """
    sum prod mean var std nansum nanprod nanmean nanvar nanstd cumsum cumprod nancumsum nancumprod
    nanmedian average trapezoid median percentile quantile nanquantile sqrt cbrt exp exp2 expm1
    log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    power float_power pow arctan2 hypot logaddexp logaddexp2 i0 sinc angle unwrap gradient
    convolve correlate cov corrcoef cross polyval polyfit polymul polydiv polyint poly roots dot
    vdot inner matmul vecdot matvec tensordot einsum kron trace norm linalg fft linspace logspace
    geomspace interp histogram union1d intersect1d pad ipow itruediv divide true_divide reciprocal
    degrees radians deg2rad rad2deg add multiply reduce accumulate reduceat vander round
    cumulative_sum cumulative_prod apply_along_axis apply_over_axes polyder polyadd arange
"""
INEXACT_WORDS = frozenset(_INEXACT.split())
