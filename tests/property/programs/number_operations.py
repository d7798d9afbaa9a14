"""What programs of numbers of all dtypes are made of: templates of statements, in NumPy.

``{r}`` is the name that a statement binds, ``{0}`` and ``{1}`` are values, ``{1}`` maybe a number.
A statement is exact if NumPy rounds each element in one way only: no elementary function, no sum.
"""

from __future__ import annotations

__all__ = ["EXACT", "INEXACT", "LOOPS", "NUMBERS", "WRITES"]

NUMBERS = ["2", "3", "-1", "0", "1", "0.5", "-2.0", "2.5", "True", "1j", "7", "-3", "1e10"]
NUMBERS += ["np.inf", "np.nan", "0.0", "-0.0", "t", "n", "t", "n", "np.float32(1.5)"]
NUMBERS += ["np.float64(0.25)", "np.int8(3)", "np.int64(-2)", "np.uint8(200)", "np.complex64(1-1j)"]

_DTYPES = "float64 float32 int8 int16 int32 int64 uint8 uint16 uint64 bool complex64 complex128"
"""Without uint32: what NumPy makes of numbers that it cannot hold depends on the array's length."""


def _each(template: str, names: str) -> list[str]:
    return [f"{{r}} = {template.replace('NAME', name)}" for name in names.split()]


def _expressions(text: str) -> list[str]:
    return [f"{{r}} = {line.strip()}" for line in text.strip().splitlines()]


_REDUCED = ("", "axis=0", "axis=-1", "axis=None", "axis=(0, 1)", "axis=0, keepdims=True")


def _reductions(names: str, options: tuple[str, ...]) -> list[str]:
    made = [f"{{r}} = np.{n}({{0}}, {o})" for n in names.split() for o in (*_REDUCED, *options)]
    return [text.replace(", )", ")") for text in made]


EXACT = [
    *_each(
        "np.NAME({0})",
        """absolute negative conjugate square floor ceil trunc rint sign positive invert logical_not
        isnan isinf isfinite signbit fabs real imag spacing ravel squeeze diagonal diag tril triu
        ascontiguousarray asfortranarray zeros_like ones_like unique flatnonzero nan_to_num fix
        atleast_2d sort transpose flip""",
    ),
    *_each(
        "np.NAME({0}, {1})",
        """add subtract multiply maximum minimum fmax fmin less less_equal greater greater_equal
        equal not_equal logical_and logical_or logical_xor copysign bitwise_and bitwise_or
        bitwise_xor left_shift right_shift floor_divide remainder fmod gcd lcm heaviside nextafter
        ldexp""",
    ),
    *_each("{0} NAME {1}", "+ - * // % & | ^ << >> < <= > >= == !="),
    *_each("{1} NAME {0}", "+ - * // % & | ^ << >> < >= =="),
    *_each("{0}.astype(np.NAME)", _DTYPES),
    *_reductions("max min all any", ("initial=1", "where={0} > 0, initial=2")),
    *_reductions("argmax argmin count_nonzero ptp nanmax nanmin", ()),
    *_expressions("""
        {0}[::-1]
        {0}[1:]
        {0}[::2]
        {0}[..., 0]
        {0}[0]
        {0}[-1]
        {0}[None]
        {0}[:, ::-1]
        {0}[:0]
        {0}[1:-1]
        {0}.T
        {0}.copy()
        {0}.reshape(-1)
        {0}.flatten()
        np.roll({0}, n)
        np.repeat({0}, 2, axis=0)
        np.broadcast_to({0}, (2, *np.shape({0})))
        np.where({0}, {1}, {0})
        np.where({0} > 0, {0}, {1})
        np.where(np.isnan({0}), {1}, 0)
        np.clip({0}, {1}, np.inf)
        np.clip({0}, -1, 2.5)
        np.clip({0}, None, n)
        np.clip({0}, np.nan, 1)
        np.clip({0}, None, None)
        {0}[[0, -1]]
        {0}[[1, 1, 0]]
        {0}[np.array([[0], [-1]])]
        {0}[n]
        {0}[{0} > 0]
        {0}[..., [0, 0]]
        {0}[[0, 1], [1, 0]]
        {0}[np.argmax({0})]
        {0}[np.argsort({0}, kind='stable')]
        np.take({0}, [0, 7, -9], mode='clip')
        np.take({0}, [0, 7, -9], mode='wrap')
        np.take_along_axis({0}, np.argsort({0}, axis=-1, kind='stable'), axis=-1)
        np.searchsorted(np.sort({0}), {1})
        np.digitize({0}, [-1, 0, 1])
        np.bincount({0} % 50)
        np.sort({0}, axis=0)
        np.argsort({0}, kind='stable')
        np.diff({0})
        np.choose({0} > 0, [{0}, {1}])
        np.select([{0} > 1, {0} < 0], [{0}, {1}], 2)
        np.isin({0}, [0, 1, 2])
        np.concatenate([{0}, {1}])
        np.stack([{0}, {0} * 2], axis=-1)
        np.hstack([{0}, {1}])
        np.array([{0}, {1}])
        np.pad({0}, (1, 2), constant_values=3)
        np.outer({0}, {1})
        np.divmod({0}, {1})[0]
        np.divmod({0}, {1})[1]
        np.full_like({0}, 2.7)
        np.maximum.accumulate({0})
        np.subtract.outer({0}, {1})
        np.add({0}, {1}, dtype=np.float64)
        np.arange({0}.size) * t
        np.sum({0} > 0)
        np.array({0}, dtype=np.float32)
        np.round({0})
        pb.relu({0})
        len({0}) * {0}
        float(n) * {0}
        int(n) + {0}
    """),
]

INEXACT = [
    *_each(
        "np.NAME({0})",
        """sin cos tan exp exp2 expm1 log log2 log10 log1p sqrt cbrt sinh cosh tanh arcsin arccos
        arctan arcsinh arccosh arctanh reciprocal deg2rad rad2deg sinc angle linalg.norm trace
        nansum nanmean median logaddexp.reduce""",
    ),
    *_each("np.NAME({0}, {1})", "divide power arctan2 hypot logaddexp logaddexp2 float_power"),
    *_each("{0} NAME {1}", "/ ** @"),
    *_each("{1} NAME {0}", "/ **"),
    *_reductions("sum prod", ("dtype=np.float32", "dtype=np.int64", "initial=2", "where={0} > 0")),
    *_reductions("mean", ("dtype=np.float64", "where={0} > 0")),
    *_reductions("var std", ("ddof=1", "axis=0, ddof=2", "axis=0, where={0} > 0")),
    *_reductions("cumsum cumprod", ("dtype=np.float64",)),
    *_expressions("""
        (+{0}) ** 2
        {0} ** 3
        {0} ** -1
        {0} ** 0
        {0} ** 0.5
        {0}.T @ {0}
        np.dot({0}, {0}.T)
        np.inner({0}, {0})
        np.vdot({0}, {0})
        np.einsum('i,i->', {0}, {0})
        np.einsum('ij,kj->ik', {0}, {0})
        np.einsum('...i,...i', {0}, {0})
        np.tensordot({0}, {0}, 1)
        np.matmul({0}[None], {0}.T)
        np.convolve({0}, {0})
        np.polyval([1.0, -2.0, 0.5], {0})
        np.round({0}, 1)
        np.mean({0} > 0)
        np.gradient({0})
        np.exp({0} - np.max({0}))
        np.array([row.sum() for row in {0}])
        sum(x * x for x in {0}.ravel())
    """),
]

LOOPS = [
    "{r} = {0}.copy()\nfor i in range(1, len({r})):\n    {r}[i] += {r}[i - 1]",
    "{r} = {0} * 0\nfor i in range(len({0})):\n    {r} = {r} + {0}[i]",
    "{r} = {0}.copy()\nfor i in range(len({r}) - 1, 0, -1):\n    {r}[i - 1] = {r}[i] - {r}[i - 1]",
    "{r} = {0} * 1\nfor i in range(9):\n    {r} = np.where({r} > i, {r} - {1}, {r} + 1)",
    "{r} = {0} * 1\nfor i in range(7):\n    {r} *= 2\n    {r} += {1}",
    "p, {r} = {0} * 1, {1} * 1\nfor i in range(8):\n    p, {r} = {r}, {r} + p",
    "{r} = {0} * 1\nfor i in range(6):\n    {r} = np.maximum({r}, {1} * i) % 7",
    "{r} = 0\nfor x in {0}:\n    {r} = {r} * 2 + x",
    "{r} = np.zeros(10, {0}.dtype)\nfor i in range(2, 10):\n"
    "    {r}[i] = {r}[i - 1] + {r}[i - 2] + {0}.flat[0]",
    "{r} = np.zeros((5, 5))\nfor i in range(5):\n    for j in range(i):\n"
    "        {r}[i, j] = {r}[i - 1, j] + t * j",
    "{r} = {0}.copy()\nfor i in range(len({r})):\n    {r}[i] = {r}[i] * {r}[-1 - i]",
    "{r} = {0}.copy()\nfor j in range({r}.shape[1]):\n    {r}[:, j] = {r}[:, j] + {r}[:, j - 1]",
    "{r} = n\nfor i in range(20):\n    {r} = ({r} * 3 + i) % 17\n{r} = {r} + {0}",
    "{r} = {0} > 0\nfor i in range(6):\n    {r} = {r} ^ ({0} > i - 2)",
    "{r} = {0}.astype(np.float32)\nfor i in range(9):\n    {r} = {r} * np.float32(0.5) + i",
    "{r} = {0} * 1\nfor i in range(10):\n    {r} = {r} // 2 + {1}",
    "{r} = {0}.copy()\nfor i in range(4):\n    {r}[1:] = {r}[:-1]\n    {r}[0] += 1",
    "{r} = {0} * 1.0\nfor i in range(300):\n    {r} = {r} * 0.99 + {0}[i % len({0})]",
]

WRITES = [
    f"{{r}} = {{0}}.copy()\n{line.strip()}"
    for line in """
        {r} += {1}
        {r} -= {1}
        {r} *= {1}
        {r} //= {1}
        {r} %= {1}
        {r} &= {1}
        {r} <<= 1
        {r}[...] = {1}
        {r}[1:] = {r}[:-1]
        {r}[:-1] = {r}[1:]
        {r}[::-1] = {r}
        {r}[0] = {1}
        {r}[::2] += {1}
        {r}[[0, 0]] += {1}
        {r}[[0, 0, -1]] = {1}
        np.add.at({r}, [0, 0, -1], {1})
        np.maximum.at({r}, [0, 0], {1})
        np.subtract.at({r}, [0, -1, 0], 2)
        {r}[{r} > 0] = {1}
        {r}[{r} > 0] *= 2
        np.add({r}, {1}, out={r})
        np.multiply({r}, {1}, out={r})
        np.copyto({r}, {1}, where={r} > 0)
        {r}.fill(2)
        {r}.sort()
        np.putmask({r}, {r} > 0, {1})
        np.put({r}, [0, -1], [5, 6])
        np.fill_diagonal({r}, 3)
        {r}[1:] += {r}[:-1]
        w = {r}[::-1]; w[0] = 4; w += {1}
        {r}.T[0] = {1}
        {r}.reshape(-1)[0] = 3
        {r}[0], {r}[-1] = {r}[-1], {r}[0]
        {r}[n] = 2.7
        {r}.real = 1
        {r}.flat[1] = 2
        {r}[...] = {r}.T
        {r} -= {r}[::-1]
        {r}[1:, 1:] += 1
        {r}[np.arange({r}.shape[0]), 0] = 9
        {r}[[1, 0]] = {r}[[0, 1]]
        {r}.clip(0, 2, out={r})
        np.negative({r}, out={r}, where={r} > 0)
    """.strip().splitlines()
]
