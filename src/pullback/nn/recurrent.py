"""Recurrent networks: `RNN`, `LSTM`, `GRU`, and their cells.

The gates of a step are one linear map of the input and one of the state. The map of the inputs is
computed for all steps at once.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pullback._generated.functions_pointwise import _where as where
from pullback._generated.public import concatenate, flip, stack, tanh
from pullback.errors import ModuleInputError
from pullback.nn import functional as F  # noqa: N812 - PyTorch's convention
from pullback.nn import init
from pullback.nn.linear import new_parameter, require_last
from pullback.nn.module import Module
from pullback.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from pullback.operators.creation.functions import zeros

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


def _step_rnn(gates: Any, hidden: Any, recurrent: Any, activation: Any) -> Any:
    """The next state of a plain network: the activation of the sum of both maps."""
    return activation(gates + recurrent(hidden))


def _step_lstm(gates: Any, state: Any, recurrent: Any) -> tuple[Any, Any]:
    """The next output and cell of an LSTM; gates are input, forget, cell, output."""
    hidden, cell = state
    i, f, g, o = (gates + recurrent(hidden)).chunk(4, -1)
    cell = F.sigmoid(f) * cell + F.sigmoid(i) * tanh(g)
    return F.sigmoid(o) * tanh(cell), cell


def _step_gru(gates: Any, hidden: Any, recurrent: Any) -> Any:
    """The next state of a GRU; gates are reset, update, new."""
    r, z, n = gates.chunk(3, -1)
    hr, hz, hn = recurrent(hidden).chunk(3, -1)
    r, z = F.sigmoid(r + hr), F.sigmoid(z + hz)
    new = tanh(n + r * hn)
    return new + z * (hidden - new)


class _Recurrent(Module):
    """Base of networks of several layers and two directions."""

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        if not isinstance(hidden_size, int) or hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1]")
        if not 0 <= proj_size < hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.input_size, self.hidden_size, self.proj_size = input_size, hidden_size, proj_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        directions = ("", "_reverse") if bidirectional else ("",)
        self._suffixes = [[f"l{n}{d}" for d in directions] for n in range(num_layers)]
        out = proj_size or hidden_size
        for layer, suffixes in enumerate(self._suffixes):
            inputs = input_size if layer == 0 else out * len(directions)
            for suffix in suffixes:
                self._add_weights(suffix, inputs, out, dtype)
        self.reset_parameters()

    def _add_weights(self, suffix: str, inputs: int, out: int, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        setattr(self, f"weight_ih_{suffix}", new_parameter((rows, inputs), dtype))
        setattr(self, f"weight_hh_{suffix}", new_parameter((rows, out), dtype))
        if self.bias:
            setattr(self, f"bias_ih_{suffix}", new_parameter((rows,), dtype))
            setattr(self, f"bias_hh_{suffix}", new_parameter((rows,), dtype))
        if self.proj_size:
            shape = (self.proj_size, self.hidden_size)
            setattr(self, f"weight_hr_{suffix}", new_parameter(shape, dtype))

    def reset_parameters(self) -> None:
        """Draws new parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _weights(self, suffix: str) -> tuple[Any, Any, Any, Any]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        # getattr, and not the registry: a parametrized weight is a property of the class.
        w, u, b, c = (getattr(self, f"{name}_{suffix}", None) for name in names)
        return w, u, b, c

    def _run_step(self, gates: Any, state: Any, recurrent: Any, suffix: str) -> Any:
        raise NotImplementedError

    def _output_of(self, state: Any) -> Any:
        return state

    def _first_state(self, hx: Any, batch: int, dtype: Any) -> list[Any]:
        """The first state of each layer and direction."""
        count = self.num_layers * len(self._suffixes[0])
        shape = (count, batch, self.proj_size or self.hidden_size)
        if hx is None:
            return list(zeros(shape, dtype=dtype).unbind(0))
        if tuple(hx.shape) != shape:
            raise ModuleInputError(f"expected hidden size {shape}, got {tuple(hx.shape)}")
        return list(hx.unbind(0))

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer for all steps, and the last states of all layers.

        Args:
            input: of shape (steps, batch, features), or (batch, steps, features) with
                `batch_first`, or (steps, features) without a batch, or a packed sequence.
            hx: the first states, zero by default.
        """
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        require_last(input, self.input_size)
        if input.ndim not in (2, 3):
            raise ModuleInputError(f"expected 2 or 3 dimensions, got shape {tuple(input.shape)}")
        if not input.shape[1 if self.batch_first and input.ndim == 3 else 0]:
            raise ModuleInputError(f"expected one step or more, got shape {tuple(input.shape)}")
        is_single = input.ndim == 2
        if is_single:
            input, hx = input[:, None], _map_state(lambda s: s[:, None], hx)
        elif self.batch_first:
            input = input.swapaxes(0, 1)
        input, last = self._run_layers(input, hx)
        if is_single:
            return input[:, 0], _map_state(lambda s: s[:, 0], last)
        return (input.swapaxes(0, 1) if self.batch_first else input), last

    def _run_packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """Runs sequences of different lengths: a state stays as it is where one has no step."""
        require_last(packed.data, self.input_size)
        order, back = packed.sorted_indices, packed.unsorted_indices
        if order is not None:
            hx = _map_state(lambda s: s[:, order], hx)
        padded, lengths = pad_packed_sequence(packed._replace(unsorted_indices=None))
        is_step = np.arange(len(padded))[:, None, None] < lengths.numpy()[:, None]
        outputs, last = self._run_layers(padded, hx, is_step)
        if back is not None:
            last = _map_state(lambda s: s[:, back], last)
        data = pack_padded_sequence(outputs, lengths).data
        return packed._replace(data=data), last

    def _run_layers(self, input: Any, hx: Any, is_step: Any = None) -> tuple[Any, Any]:
        """The outputs for an input of shape (steps, batch, features), and the last states.

        Args:
            input: the padded sequences.
            hx: the first states.
            is_step: of shape (steps, batch, 1), whether a sequence has a step; None: all have.
        """
        states = self._first_state(hx, input.shape[1], input.dtype)
        lasts = []
        for layer, suffixes in enumerate(self._suffixes):
            outputs = []
            for direction, suffix in enumerate(suffixes):
                state = states[layer * len(suffixes) + direction]
                steps, last = self._run_direction(input, state, suffix, is_step)
                outputs.append(steps)
                lasts.append(last)
            input = outputs[0] if len(outputs) == 1 else concatenate(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                input = F.dropout(input, self.dropout, self.training)
        return input, self._join(lasts)

    def _run_direction(self, input: Any, state: Any, suffix: str, is_step: Any) -> tuple[Any, Any]:
        w, u, b, c = self._weights(suffix)
        is_reverse = suffix.endswith("_reverse")
        gates = F.linear(input, w, b)
        outputs = []
        order = reversed(range(len(input))) if is_reverse else range(len(input))
        for step in order:
            new = self._run_step(gates[step], state, lambda h: F.linear(h, u, c), suffix)
            state = new if is_step is None else _choose(is_step[step], new, state)
            outputs.append(self._output_of(state))
        joined = stack(outputs, 0)
        return (flip(joined, 0) if is_reverse else joined), state

    def _join(self, lasts: list[Any]) -> Any:
        return stack(lasts, 0)

    def extra_repr(self) -> str:
        """Sizes, and the options that are not the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        changed = ((n, getattr(self, n)) for n, d in defaults.items() if getattr(self, n) != d)
        return ", ".join([text, *(f"{name}={value}" for name, value in changed)])


def _choose(is_step: Any, new: Any, old: Any) -> Any:
    """The new state of the sequences that have a step, and the old one of the others."""
    if isinstance(new, tuple):
        return tuple(where(is_step, n, o) for n, o in zip(new, old, strict=True))
    return where(is_step, new, old)


def _map_state(function: Any, state: Any) -> Any:
    if state is None:
        return None
    return tuple(map(function, state)) if isinstance(state, tuple) else function(state)


_ACTIVATIONS = {"tanh": tanh, "relu": F.relu}


class RNN(_Recurrent):
    """A recurrent network with tanh or relu.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers, each on the outputs of the last.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias: whether there are biases.
        batch_first: the batch is the first axis, and not the second.
        dropout: probability of dropout between layers.
        bidirectional: adds a network that runs backwards, whose outputs are appended.
        device: ignored; all data is in the machine's memory.
        dtype: of the parameters, float64 by default.

    >>> import pullback as pb
    >>> outputs, last = pb.nn.RNN(3, 4)(pb.ones((5, 2, 3)))
    >>> outputs.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        if nonlinearity not in _ACTIVATIONS:
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def _run_step(self, gates: Any, state: Any, recurrent: Any, suffix: str) -> Any:  # noqa: ARG002
        return _step_rnn(gates, state, recurrent, _ACTIVATIONS[self.nonlinearity])


class GRU(_Recurrent):
    """A network of gated recurrent units; the arguments are those of `RNN`, without a nonlinearity.

    >>> import pullback as pb
    >>> outputs, last = pb.nn.GRU(3, 4, num_layers=2)(pb.ones((5, 2, 3)))
    >>> outputs.shape, last.shape
    ((5, 2, 4), (2, 2, 4))
    """

    gates = 3

    def __init__(self, *args: Any, **kwargs: Any):
        if kwargs.get("proj_size") or len(args) > 7:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(*args, **kwargs)

    def _run_step(self, gates: Any, state: Any, recurrent: Any, suffix: str) -> Any:  # noqa: ARG002
        return _step_gru(gates, state, recurrent)


class LSTM(_Recurrent):
    """A network with long short-term memory; the arguments are those of `GRU` and `proj_size`.

    Its state is a pair: outputs and cells. `proj_size` maps the outputs to that many features.

    >>> import pullback as pb
    >>> outputs, (last, cell) = pb.nn.LSTM(3, 4)(pb.ones((5, 2, 3)))
    >>> outputs.shape, last.shape, cell.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    """

    gates = 4

    def _first_state(self, hx: Any, batch: int, dtype: Any) -> list[Any]:
        if hx is not None and not isinstance(hx, tuple | list):
            raise ModuleInputError(f"expected hx as a pair of tensors, got {type(hx).__name__}")
        hidden, cell = (None, None) if hx is None else hx
        count = self.num_layers * len(self._suffixes[0])
        shape = (count, batch, self.hidden_size)
        if cell is None:
            cell = zeros(shape, dtype=dtype)
        elif tuple(cell.shape) != shape:
            raise ModuleInputError(f"expected cell size {shape}, got {tuple(cell.shape)}")
        return list(zip(super()._first_state(hidden, batch, dtype), cell.unbind(0), strict=True))

    def _run_step(self, gates: Any, state: Any, recurrent: Any, suffix: str) -> Any:
        hidden, cell = _step_lstm(gates, state, recurrent)
        projection = getattr(self, f"weight_hr_{suffix}") if self.proj_size else None
        return (hidden if projection is None else F.linear(hidden, projection)), cell

    def _output_of(self, state: Any) -> Any:
        return state[0]

    def _join(self, lasts: list[Any]) -> Any:
        return tuple(stack(part, 0) for part in zip(*lasts, strict=True))


class _Cell(Module):
    """Base of cells: one step of one layer."""

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,  # noqa: ARG002 - PyTorch's argument
        dtype: Any = None,
    ):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        self.weight_ih = new_parameter((rows, input_size), dtype)
        self.weight_hh = new_parameter((rows, hidden_size), dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter((rows,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _gates(self, input: Any) -> Any:
        return F.linear(input, self.weight_ih, self.bias_ih)

    def _recurrent(self, hidden: Any) -> Any:
        return F.linear(hidden, self.weight_hh, self.bias_hh)

    def _state(self, input: Any, given: Any, name: str = "hx") -> Any:
        """The given state, whose shape must fit the input, or zeros."""
        require_last(input, self.input_size)
        shape = (*input.shape[:-1], self.hidden_size)
        if given is None:
            return zeros(shape, dtype=input.dtype)
        if tuple(given.shape) != shape:
            raise ModuleInputError(f"expected {name} of shape {shape}, got {tuple(given.shape)}")
        return given

    def extra_repr(self) -> str:
        """Sizes."""
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias else ", bias=False"
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else f"{text}, nonlinearity={kind}"


class RNNCell(_Cell):
    """One step of an `RNN`.

    >>> import pullback as pb
    >>> pb.nn.RNNCell(3, 4)(pb.ones((2, 3))).shape
    (2, 4)
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(input_size, hidden_size, bias, device, dtype)
        if nonlinearity not in _ACTIVATIONS:
            raise ValueError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state."""
        hidden = self._state(input, hx)
        activation = _ACTIVATIONS[self.nonlinearity]
        return _step_rnn(self._gates(input), hidden, self._recurrent, activation)


class GRUCell(_Cell):
    """One step of a `GRU`.

    >>> import pullback as pb
    >>> pb.nn.GRUCell(3, 4)(pb.ones((2, 3))).shape
    (2, 4)
    """

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state."""
        hidden = self._state(input, hx)
        return _step_gru(self._gates(input), hidden, self._recurrent)


class LSTMCell(_Cell):
    """One step of an `LSTM`; its state is a pair of outputs and cells.

    >>> import pullback as pb
    >>> hidden, cell = pb.nn.LSTMCell(3, 4)(pb.ones((2, 3)))
    >>> hidden.shape, cell.shape
    ((2, 4), (2, 4))
    """

    gates = 4

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state."""
        hidden, cell = (None, None) if hx is None else hx
        state = self._state(input, hidden, "hx[0]"), self._state(input, cell, "hx[1]")
        return _step_lstm(self._gates(input), state, self._recurrent)
