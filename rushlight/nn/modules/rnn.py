"""Recurrent layers and cells. The steps run in C++, one call for all layers."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any, overload

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.types import Device, _dtype

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The tensor with its elements along dim in another order."""
    return tensor.index_select(dim, permutation)


def _check_input_size(module, input):
    if input.shape[-1] != module.input_size:
        raise _C.ShapeError(
            f"{type(module).__name__}: the last dim of the input must be "
            f"input_size={module.input_size}, got shape {list(input.shape)}"
        )


def _check_size(label, value):
    if not isinstance(value, int):
        raise TypeError(f"{label} must be an int, got {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{label} must be greater than zero, got {value}")


def _no_others(name, other):
    """RNN and GRU answer to an LSTM's argument with a ValueError, as PyTorch's do."""
    if "proj_size" in other:
        raise ValueError(f"proj_size is for LSTM only, not for {name}")
    if other:
        raise TypeError(f"{name}: unexpected keyword argument {next(iter(other))!r}")


class RNNBase(Module):
    """What recurrent layers share: parameters by layer and direction, checks, states.

    Arguments:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
        input_size, hidden_size: features of the input and of the state.
        num_layers: layers, each of which reads the one before.
        bias: whether sums have summands that are learned.
        batch_first: inputs are (batch, time, features).
        dropout: the chance of what goes from layer to layer to become zero.
        bidirectional: also run from the end to the beginning.
        proj_size: features that an LSTM's state is reduced to; 0 leaves it.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> isinstance(nn.GRU(2, 3), nn.RNNBase), nn.RNNBase("LSTM", 2, 3, num_layers=2).num_layers
        (True, 2)
    """

    __constants__ = """mode input_size hidden_size num_layers bias batch_first dropout bidirectional
proj_size""".split()
    __jit_unused_properties__ = ("all_weights",)

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
                 bidirectional: bool = False, proj_size: int = 0, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        if mode not in _GATES:
            raise ValueError(f"mode must be one of {', '.join(_GATES)}, got {mode!r}")
        is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
        if not is_number or not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability between 0 and 1, got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout acts between layers: with num_layers=1 there is none, so "
                f"dropout={dropout} does nothing",
                stacklevel=2,
            )
        _check_size("input_size", input_size)
        _check_size("hidden_size", hidden_size)
        _check_size("num_layers", num_layers)
        for name, value in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        if proj_size < 0:
            raise ValueError(f"proj_size must be 0 (no projection) or positive, got {proj_size}")
        if proj_size >= hidden_size:
            raise ValueError(
                f"proj_size must be smaller than hidden_size, got {proj_size} and {hidden_size}"
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _make_parameters(self, options):
        outputs = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        sums = _GATES[self.mode] * self.hidden_size
        self._all_weights = []
        for layer in range(self.num_layers):
            inputs = self.input_size if layer == 0 else outputs * directions
            shapes = {"weight_ih": (sums, inputs), "weight_hh": (sums, outputs)}
            if self.bias:
                shapes.update(bias_ih=(sums,), bias_hh=(sums,))
            if self.proj_size:
                shapes["weight_hr"] = (outputs, self.hidden_size)
            for direction in ("", "_reverse")[:directions]:
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{direction}")
                    self.register_parameter(names[-1], Parameter(_C.empty(shape, **options)))
                self._all_weights.append(names)
        self._flat_weights_names = [name for names in self._all_weights for name in names]

    def reset_parameters(self) -> None:
        """Uniform numbers within 1/sqrt(hidden_size), biases too."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def _flat_weights(self):
        """All parameters in the order in which they are called for."""
        own = self._parameters
        try:
            return [own[name] for name in self._flat_weights_names]
        except KeyError:  # parametrized, or replaced by hand
            return [getattr(self, name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights):
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if weight is not getattr(self, name):
                setattr(self, name, weight)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: weights are used from where they lie."""

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises when the input does not suit the layer."""
        weight = self._flat_weights[0]
        if weight.dtype != input.dtype and not _C.is_autocast_enabled(input.device.type):
            raise _C.ArgumentError(
                f"{type(self).__name__}: the input is {input.dtype}, the weights are "
                f"{weight.dtype}: convert one of them with .to(dtype)"
            )
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise _C.ShapeError(
                f"{type(self).__name__}: the input must have {wanted} dimensions, got shape "
                f"{list(input.shape)}"
            )
        _check_input_size(self, input)

    def _batch_size(self, input, batch_sizes):
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.shape[0 if self.batch_first else 1]

    def _state_size(self, input, batch_sizes, size):
        directions = 2 if self.bidirectional else 1
        return (self.num_layers * directions, self._batch_size(input, batch_sizes), size)

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of h, states of all layers and directions."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "the initial state must have shape {}, got {}",
    ) -> None:
        """Raises when a state has another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            text = msg.format(list(expected_hidden_size), list(hx.shape))
            raise _C.ShapeError(f"{type(self).__name__}: {text}")

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises when input or state do not suit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Tensor, permutation: Tensor | None) -> Tensor:
        """The state with its sequences in another order."""
        return hx if permutation is None else apply_permutation(hx, permutation)

    def _unpack(self, input):
        """The tensor to work on, and batch_sizes, orders and whether it lacks a batch dim."""
        if isinstance(input, PackedSequence):
            return *input, False
        if input.dim() not in (2, 3):
            raise _C.ShapeError(
                f"{type(self).__name__}: the input must have 3 dimensions, or 2 without a batch, "
                f"got shape {list(input.shape)}"
            )
        single = input.dim() == 2
        if single:
            input = input.unsqueeze(0 if self.batch_first else 1)
        return input, None, None, None, single

    def _check_state_dims(self, states, single):
        dims = [s.dim() for s in states]
        wanted = 2 if single else 3
        if any(d != wanted for d in dims):
            kind = "an input without a batch dim" if single else "a batch"
            raise _C.ShapeError(
                f"{type(self).__name__}: for {kind} the initial state must have {wanted} "
                f"dimensions, got {dims[0] if len(dims) == 1 else dims}"
            )

    def _call(self, function, input, batch_sizes, hx):
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                   self.bidirectional)  # fmt: skip
        if batch_sizes is None:
            return function(input, hx, *options, self.batch_first)
        return function(input, batch_sizes, hx, *options)

    def _pack(self, output, packed, single):
        if packed[1] is not None:
            return PackedSequence(output, *packed[1:4])
        return output.squeeze(0 if self.batch_first else 1) if single else output

    def _forward_one_state(self, function, input, hx):
        packed = *_, single = self._unpack(input)
        input, batch_sizes, order, back, _ = packed
        self.check_input(input, batch_sizes)
        if hx is not None:
            if batch_sizes is None:
                self._check_state_dims([hx], single)
                hx = hx.unsqueeze(1) if single else hx
            hx = self.permute_hidden(hx, order)
            self.check_hidden_size(hx, self.get_expected_hidden_size(input, batch_sizes))
        output, h = self._call(function, input, batch_sizes, hx)
        if single:
            h = h.squeeze(1)
        return self._pack(output, packed, single), self.permute_hidden(h, back)

    def multiply_adds(self, args: Any, output: Tensor) -> int:
        """For summary(): every weight meets every step of every sequence."""
        out = output[0].data if isinstance(output[0], PackedSequence) else output[0]
        weights = sum(w.numel() for w in self._flat_weights if w.dim() == 2)
        return out.numel() // out.shape[-1] * weights

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                    "dropout": 0, "bidirectional": False}  # fmt: skip
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)

    def __getstate__(self) -> Any:
        # PyTorch, which may read the file, keeps the list of weights as well.
        weights = [self._parameters.get(name) for name in self._flat_weights_names]
        if any(w is None for w in weights):
            return self.__dict__
        return self.__dict__ | {"_flat_weights": weights}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)
        # What PyTorch stores beside the parameters is derived from their names here.
        for derived in ("_flat_weights", "_flat_weight_refs"):
            self.__dict__.pop(derived, None)
        if "_flat_weights_names" not in self.__dict__:
            self._flat_weights_names = [name for names in self._all_weights for name in names]


class RNN(RNNBase):
    """Layers of simple recurrent units over sequences.

    Arguments:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: how many layers stand on one another.
        nonlinearity: 'tanh' or 'relu'.
        bias: whether units have one.
        batch_first: (N, L, features) instead of (L, N, features); states are not affected.
        dropout: probability of dropping an element between two layers.
        bidirectional: a second direction runs from the end to the start.
        device, dtype: where the parameters lie, and their dtype.

    Shape: input (L, N, input_size) and state (layers * directions, N, hidden_size) to (L, N,
        directions * hidden_size) and the last state.

    Example:
        >>> net = nn.RNN(3, 4, nonlinearity="relu")
        >>> output, h = net(rl.zeros(5, 2, 3))
        >>> output.shape, h.shape
        (rushlight.Size([5, 2, 4]), rushlight.Size([1, 2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1,
                 nonlinearity: str = "tanh", bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device: Device = None,
                 dtype: _dtype | None = None, **other: Any) -> None:  # fmt: skip
        _no_others("RNN", other)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, 0, device, dtype)  # fmt: skip

    @overload
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self, input: PackedSequence, hx: Tensor | None = None
    ) -> tuple[PackedSequence, Tensor]: ...
    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        function = _C.rnn_tanh if self.mode == "RNN_TANH" else _C.rnn_relu
        return self._forward_one_state(function, input, hx)


class GRU(RNNBase):
    """Layers of gated recurrent units over sequences.

    Arguments:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: how many layers stand on one another.
        bias: whether units have one.
        batch_first: (N, L, features) instead of (L, N, features); states are not affected.
        dropout: probability of dropping an element between two layers.
        bidirectional: a second direction runs from the end to the start.
        device, dtype: where the parameters lie, and their dtype.

    Shape: input (L, N, input_size) and state (layers * directions, N, hidden_size) to (L, N,
        directions * hidden_size) and the last state.

    Example:
        >>> net = nn.GRU(3, 4, bidirectional=True)
        >>> output, h = net(rl.zeros(5, 2, 3))
        >>> output.shape, h.shape
        (rushlight.Size([5, 2, 8]), rushlight.Size([2, 2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Device = None, dtype: _dtype | None = None,
                 **other: Any) -> None:  # fmt: skip
        _no_others("GRU", other)
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)  # fmt: skip

    @overload
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self, input: PackedSequence, hx: Tensor | None = None
    ) -> tuple[PackedSequence, Tensor]: ...
    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        return self._forward_one_state(_C.gru, input, hx)


class LSTM(RNNBase):
    """Layers of long short-term memory over sequences.

    The input may be a PackedSequence (nn.utils.rnn.pack_padded_sequence), and may lack the batch.

    Arguments:
        input_size: features of the input.
        hidden_size: features of the states.
        num_layers: how many layers stand on one another.
        bias: whether units have one.
        batch_first: (N, L, features) instead of (L, N, features); states are not affected.
        dropout: probability of dropping an element between two layers.
        bidirectional: a second direction runs from the end to the start.
        proj_size: project the state h to so many features; 0 does not.
        device, dtype: where the parameters lie, and their dtype.

    Shape: input (L, N, input_size) and states (h, c), each (layers * directions, N, hidden_size),
        to (L, N, directions * hidden_size) and the last states.

    Example:
        >>> net = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        >>> output, (h, c) = net(rl.zeros(2, 5, 3))
        >>> output.shape, h.shape, c.shape
        (rushlight.Size([2, 5, 4]), rushlight.Size([2, 2, 4]), rushlight.Size([2, 2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 proj_size: int = 0, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)  # fmt: skip

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of c, states of all layers and directions."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises when input or states do not suit the layer."""
        self.check_input(input, batch_sizes)
        self._check_states(input, hidden, batch_sizes)

    def _check_states(self, input, hidden, batch_sizes):
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "the initial h must have shape {}, got {}")  # fmt: skip
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "the initial c must have shape {}, got {}")  # fmt: skip

    def permute_hidden(  # type: ignore[override]
        self, hx: tuple[Tensor, Tensor], permutation: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The states with their sequences in another order."""
        if permutation is None:
            return hx
        return apply_permutation(hx[0], permutation), apply_permutation(hx[1], permutation)

    @overload
    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
    @overload
    def forward(
        self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...
    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        packed = *_, single = self._unpack(input)
        input, batch_sizes, order, back, _ = packed
        self.check_input(input, batch_sizes)
        if hx is None:
            hx = ()
        else:
            if len(hx) != 2 or isinstance(hx, _C.Tensor):
                raise _C.RangeError(
                    "LSTM: the initial state must be a pair of tensors, (h, c), got "
                    + (f"a tensor of shape {list(hx.shape)}" if isinstance(hx, _C.Tensor)
                       else f"{len(hx)} of them")
                )  # fmt: skip
            if batch_sizes is None:
                self._check_state_dims(hx, single)
                hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1)) if single else hx
            hx = self.permute_hidden(hx, order)
            self._check_states(input, hx, batch_sizes)
        output, h, c = self._call(_C.lstm, input, batch_sizes, tuple(hx))
        if single:
            h, c = h.squeeze(1), c.squeeze(1)
        return self._pack(output, packed, single), self.permute_hidden((h, c), back)


class RNNCellBase(Module):
    """What cells, single steps of recurrent layers, share.

    Arguments:
        input_size, hidden_size: features of the input and of the state.
        bias: whether sums have summands that are learned.
        num_chunks: sums per feature of the state: 1, an LSTM 4, a GRU 3.
        device, dtype: where the parameters lie, and their dtype.

    Example:
        >>> isinstance(nn.GRUCell(2, 3), nn.RNNCellBase)
        True
    """

    __constants__: tuple[str, ...] = ("input_size", "hidden_size", "bias")

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
                 device: Device = None, dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        sums = num_chunks * hidden_size
        self.weight_ih = Parameter(_C.empty((sums, input_size), **options))
        self.weight_hh = Parameter(_C.empty((sums, hidden_size), **options))
        if bias:
            self.bias_ih = Parameter(_C.empty(sums, **options))
            self.bias_hh = Parameter(_C.empty(sums, **options))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers within 1/sqrt(hidden_size), biases too."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def multiply_adds(self, args: Any, output: Tensor) -> int:
        """For summary(): every weight meets every sequence."""
        h = output[0] if isinstance(output, tuple) else output
        return h.numel() // self.hidden_size * (self.weight_ih.numel() + self.weight_hh.numel())

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _check(self, input, states):
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise _C.ShapeError(
                f"{name}: the input must have 2 dimensions, or 1 without a batch, got shape "
                f"{list(input.shape)}"
            )
        _check_input_size(self, input)
        wanted = (*input.shape[:-1], self.hidden_size)
        for state in states:
            if tuple(state.shape) != wanted:
                raise _C.ShapeError(
                    f"{name}: for an input of shape {list(input.shape)} the state must have shape "
                    f"{list(wanted)}, got {list(state.shape)}"
                )

    def _forward_one_state(self, function, input, hx):
        self._check(input, () if hx is None else (hx,))
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            hx = input.new_zeros((input.shape[0], self.hidden_size))
        elif single:
            hx = hx.unsqueeze(0)
        h = function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return h.squeeze(0) if single else h


class RNNCell(RNNCellBase):
    """One step of RNN: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    Arguments:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether the unit has one.
        nonlinearity: 'tanh' or 'relu'.
        device, dtype: where the parameters lie, and their dtype.

    Shape: input (N, input_size) and state (N, hidden_size) to (N, hidden_size).

    Example:
        >>> nn.RNNCell(3, 4, nonlinearity="relu")(rl.zeros(2, 3)).shape
        rushlight.Size([2, 4])
    """

    __constants__: tuple[str, ...] = ("input_size", "hidden_size", "bias", "nonlinearity")

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True,
                 nonlinearity: str = "tanh", device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(
                f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {self.nonlinearity!r}"
            )
        function = _C.rnn_tanh_cell if self.nonlinearity == "tanh" else _C.rnn_relu_cell
        return self._forward_one_state(function, input, hx)


class LSTMCell(RNNCellBase):
    """One step of LSTM; returns (h, c).

    Arguments:
        input_size: features of the input.
        hidden_size: features of the states.
        bias: whether the unit has one.
        device, dtype: where the parameters lie, and their dtype.

    Shape: input (N, input_size) and states (h, c), each (N, hidden_size), to such states.

    Example:
        >>> h, c = nn.LSTMCell(3, 4, bias=False)(rl.zeros(2, 3))
        >>> h.shape, c.shape
        (rushlight.Size([2, 4]), rushlight.Size([2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if hx is not None and (isinstance(hx, _C.Tensor) or len(hx) != 2):
            raise _C.ArgumentTypeError("LSTMCell: the state must be a pair of tensors, (h, c), "
                                       f"got {type(hx).__name__}")  # fmt: skip
        self._check(input, hx or ())
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = input.new_zeros((input.shape[0], self.hidden_size))
            hx = (zeros, zeros)
        elif single:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = _C.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h.squeeze(0), c.squeeze(0)) if single else (h, c)


class GRUCell(RNNCellBase):
    """One step of GRU.

    Arguments:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether the unit has one.
        device, dtype: where the parameters lie, and their dtype.

    Shape: input (N, input_size) and state (N, hidden_size) to (N, hidden_size).

    Example:
        >>> nn.GRUCell(3, 4, bias=False)(rl.zeros(2, 3)).shape
        rushlight.Size([2, 4])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None,
                 dtype: _dtype | None = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._forward_one_state(_C.gru_cell, input, hx)
