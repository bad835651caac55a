"""Arguments of hostile calls, as plans: what is drawn can be built again and again.

A plan of a tensor knows its memory (a line of numbers) and how the tensor lies in it. `plain`
builds the same values in memory of their own, one after the other: what a call answers for those,
it has to answer for the others too.
"""

import os
from dataclasses import dataclass, field

import numpy as np

import rushlight as rl

# Where planned tensors are: cpu, cuda, or fake (its kernels do nothing). Copies are on the CPU.
DEVICE = os.environ.get("CAMPAIGN_DEVICE", "cpu")
FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTS = ("int64", "int32", "int16", "int8", "uint8")
RARE = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 1e30, -1e30, 2.0**31, 2.0**63)
SHAPES = (
    (),
    (0,),
    (1,),
    (3,),
    (2, 3),
    (3, 3),
    (0, 3),
    (2, 0),
    (1, 2, 4, 4),
    (2, 3, 4),
    (4, 4),
    (17,),
    (5, 1),
    (1, 1, 1, 1, 1),
    (2, 2, 2, 2, 2),
    (33, 3),
    (1, 3, 5, 5),
    (65,),
)
LAYOUTS = (
    "contiguous",
    "contiguous",
    "contiguous",
    "strided",
    "transposed",
    "expanded",
    "offset",
    "overlapping",
    "channels_last",
    "wide",
)
KINDS = (
    "sparse_coo",
    "sparse_csr",
    "quantized",
    "meta",
    "nested",
    "parameter",
    "conj",
    "negative",
    "inference",
    "zero_strides",
    "huge_empty",
)
HUGE = (2**31 - 1, 2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**31), 2**63, -(2**64))
TEXTS = (
    "",
    "sum",
    "mean",
    "none",
    "x" * 999,
    "\0",
    "é",
    "reflect",
    "replicate",
    "circular",
    "bilinear",
    "nearest",
    "linear",
    "ij",
    "xy",
    "floor",
    "trunc",
    "left",
    "right",
    "amax",
    "prod",
    "same",
    "valid",
    "tanh",
    "forward",
    "ortho",
    "U",
    "cpu",
    "meta",
    "cuda:99",
    "float32",
    "i,j->ij",
    "...i,ij->j",
    "ii",
    "fro",
    "nuc",
    "relu",
    "gelu",
)


@dataclass
class Drawn:
    """One tensor: numbers in memory, and how it lies in them."""

    base: np.ndarray
    shape: tuple
    strides: tuple
    offset: int
    dtype: str
    layout: str
    kind: str = ""
    grad: str = ""  # "", "leaf" or "inner"
    stays: bool = False  # on the CPU, where the others are on a GPU

    def values(self):
        if 0 in self.shape:
            return np.zeros(self.shape, self.base.dtype)
        at = self.base[self.offset :]
        strides = tuple(s * at.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(at, self.shape, strides)

    def build(self, plain=False):
        dtype = getattr(rl, self.dtype)
        if plain:
            values = np.array(self.values(), order="C", copy=True)
            t = guarded(values.reshape(-1), dtype).reshape(self.shape)
        else:
            t = guarded(self.base, dtype)
            if DEVICE != "cpu" and not self.stays:
                t = t.to("cuda")
            t = t.as_strided(self.shape, self.strides, self.offset)
        t = in_kind(t, self.kind, plain)
        if self.grad and (t.is_floating_point() or t.is_complex()):
            t = t.detach().requires_grad_()
            t = t * 1 if self.grad == "inner" else t
        return t

    def __repr__(self):
        text = f"{self.dtype}{list(self.shape)}"
        if self.layout != "contiguous":
            text += f" {self.layout} {list(self.strides)}+{self.offset}"
        if self.base.size <= 4 or (self.base.size < 99 and not np.isfinite(self.base).all()):
            text += f" ={self.values().tolist()}"
        return f"<{' '.join(p for p in (text, self.kind, self.grad) if p)}>"


def guarded(base, dtype):
    """The numbers in memory of the allocator under test."""
    t = rl.empty(len(base), dtype=dtype)
    if len(base):
        t.copy_(rl.from_numpy(base.copy()).to(dtype))
    return t


def in_kind(t, kind, plain):
    """The tensor as another sort of tensor."""
    if kind == "sparse_coo":
        return t.to_sparse()
    if kind == "sparse_csr":
        return t.to_sparse_csr() if t.ndim == 2 else t
    if kind == "quantized":
        return rl.quantize_per_tensor(t.float(), 0.1, 3, rl.quint8)
    if kind == "meta":
        return t.to("meta")
    if kind == "nested":
        return rl.nested.nested_tensor([t, t]) if t.ndim else t
    if kind == "parameter" and (t.is_floating_point() or t.is_complex()):
        return rl.nn.Parameter(t)
    if kind == "conj" and t.is_complex():
        return t.conj().resolve_conj() if plain else t.conj()
    if kind == "negative" and t.is_complex():
        return t.conj().imag.clone() if plain else t.conj().imag
    if kind == "inference":
        with rl.inference_mode():
            return t * 1 if t.dtype != rl.bool else t.clone()
    if kind == "zero_strides":
        return t.as_strided(t.shape, (0,) * t.ndim) if t.numel() and not plain else t
    if kind == "huge_empty":
        return t.reshape(-1)[:0].unsqueeze(0).expand(2**40, 0)
    return t


# Kinds whose plain form holds other values or none to compare.
UNLIKE = {"meta", "huge_empty", "zero_strides", "nested"}


@dataclass
class Alias:
    """Shares memory with an earlier tensor of the call: the same, its transpose, a step beside."""

    of: Drawn
    how: str

    def build(self, t, plain=False):
        found = t
        if self.how == "transposed" and t.ndim > 1:
            found = t.transpose(0, -1)
        elif self.how == "beside" and t.numel() > 1:
            found = t.reshape(-1)[1:] if self.of.layout == "contiguous" else t[:1]
        elif self.how == "flat":
            found = t.reshape(-1)
        elif self.how == "detached":
            found = t.detach()
        return found.detach().clone() if plain else found

    def __repr__(self):
        return f"<{self.how} {self.of!r}>"


@dataclass
class Named:
    """A value with a name: a dtype, a device, a generator, an odd object."""

    text: str
    make: object = field(repr=False)

    def __repr__(self):
        return self.text


class Odd:
    """Answers to everything, and means nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Odd()


class Lies:
    """A sequence whose length is wrong."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return 1


class Raises:
    def __index__(self):
        raise ValueError("no index")

    def __float__(self):
        raise ValueError("no float")

    def __len__(self):
        raise ValueError("no length")

    def __iter__(self):
        raise ValueError("no iterator")


def endless_list():
    found = []
    found.append(found)
    return found


ODD = (
    Named("None", lambda: None),
    Named("Odd()", Odd),
    Named("Lies()", Lies),
    Named("Raises()", Raises),
    Named("endless list", endless_list),
    Named("{}", dict),
    Named("object()", object),
    Named("lambda", lambda: lambda *a: 1),
    Named("b'bytes'", lambda: b"bytes"),
    Named("np.nan", lambda: np.float64("nan")),
    Named("np.int8(-1)", lambda: np.int8(-1)),
    Named("np array", lambda: np.arange(3.0)),
    Named("np empty", lambda: np.zeros((0, 2))),
    Named("np backwards", lambda: np.arange(4.0)[::-1]),
    Named("np objects", lambda: np.array([None, 1], dtype=object)),
    Named("range(3)", lambda: range(3)),
    Named("iter", lambda: iter([1, 2])),
    Named("int", lambda: int),
    Named("...", lambda: ...),
    Named("slice", lambda: slice(None, None, 2)),
    Named("Size", lambda: rl.Size([2, 3])),
    Named("Tensor", lambda: rl.Tensor),
    Named("float32", lambda: rl.float32),
    Named("quint8", lambda: rl.quint8),
    Named("device", lambda: rl.device("cpu")),
    Named("generator", rl.Generator),
    Named("10**30", lambda: 10**30),
    Named("1e400", lambda: float("inf")),
    Named("nan", lambda: float("nan")),
    Named("1j", lambda: 1j),
    Named("storage", lambda: rl.ones(3).untyped_storage()),
    Named("preserve", lambda: rl.preserve_format),
    Named("channels_last", lambda: rl.channels_last),
    Named("sparse", lambda: rl.sparse_coo),
)


def built(x, plain=False, seen=None):
    """Arguments with everything built; `seen` maps plans to their tensors, for aliases."""
    if isinstance(x, Alias):
        return x.build(seen[id(x.of)], plain)
    if isinstance(x, Drawn):
        found = x.build(plain)
        if seen is not None:
            seen[id(x)] = found
        return found
    if isinstance(x, Named):
        return x.make()
    if isinstance(x, dict):
        return {k: built(v, plain, seen) for k, v in x.items()}
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(built(y, plain, seen) for y in x)
    return x


def tensors_in(x):
    """The plans of tensors in nested arguments."""
    if isinstance(x, Drawn | Alias):
        yield x
    elif isinstance(x, dict):
        for y in x.values():
            yield from tensors_in(y)
    elif isinstance(x, list | tuple):
        for y in x:
            yield from tensors_in(y)


class Source:
    """Draws arguments: mostly what a call takes, sometimes anything."""

    def __init__(self, rng):
        self.rng = rng
        self.numbers = np.random.RandomState(rng.randrange(2**31))
        self.drawn = []

    def tensor(self, shape=None, dtype=None, values=None):
        rng = self.rng
        if values is None:
            if shape is None:
                earlier = [d for d in self.drawn if isinstance(d, Drawn)]
                shape = (
                    rng.choice(earlier).shape
                    if earlier and rng.random() < 0.6
                    else rng.choice(SHAPES)
                )
            dtype = dtype or self.dtype()
        if self.drawn and rng.random() < 0.06:
            found = Alias(
                rng.choice([d for d in self.drawn if isinstance(d, Drawn)]),
                rng.choice(("same", "transposed", "beside", "flat", "detached")),
            )
            self.drawn.append(found)
            return found
        found = self.laid_out(shape, dtype, values)
        if rng.random() < 0.06:
            found.kind = rng.choice(KINDS)
        found.stays = rng.random() < 0.05
        if rng.random() < 0.2:
            found.grad = rng.choice(("leaf", "leaf", "inner"))
        self.drawn.append(found)
        return found

    def dtype(self):
        r = self.rng.random()
        if r < 0.6:
            return self.rng.choice(FLOATS)
        if r < 0.8:
            return self.rng.choice(INTS)
        return self.rng.choice((*COMPLEX, "bool", "bool", *RARE))

    def laid_out(self, shape, dtype, values=None):
        """A tensor of these values (or random ones) somewhere in memory."""
        rng = self.rng
        layout = rng.choice(LAYOUTS)
        if values is not None:
            shape = values.shape
        plain = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        strides, offset = plain, 0
        if layout == "strided":
            strides, offset = tuple(2 * s for s in plain), 1
        elif layout == "transposed":
            strides = tuple(int(np.prod(shape[:i])) for i in range(len(shape)))
        elif layout == "expanded" and shape:
            at = rng.randrange(len(shape))
            strides = tuple(0 if i == at else s for i, s in enumerate(plain))
        elif layout == "offset":
            offset = rng.choice((1, 3, 16))
        elif layout == "overlapping":
            strides = (1,) * len(shape)
        elif layout == "channels_last" and len(shape) == 4:
            _, c, h, w = shape
            strides = (c * h * w, 1, w * c, c)
        elif layout == "wide" and shape:
            strides = tuple(s * 40 for s in plain)
        extent = 1 + offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n)
        if 0 in shape:
            extent = offset
        base = self.array((extent,), dtype)
        found = Drawn(base, tuple(shape), strides, offset, dtype, layout)
        if values is not None and values.size:
            line = np.zeros(extent, values.dtype)
            line[:] = values.reshape(-1)[0]
            if line.dtype.kind in "fciub":
                at = line[offset:]
                view = np.lib.stride_tricks.as_strided(
                    at, shape, tuple(s * at.itemsize for s in strides)
                )
                view[...] = values
                found.base = line
        return found

    def array(self, shape, dtype):
        if dtype == "bool":
            return self.numbers.random_sample(shape) > 0.5
        if "int" in dtype:
            low = 0 if dtype.startswith("u") else -3
            return self.numbers.randint(low, 9, shape).astype("int64")
        a = self.numbers.uniform(-3, 3, shape)
        if self.rng.random() < 0.1:
            where = self.numbers.random_sample(shape) < 0.3
            a[where] = self.numbers.choice(SPECIAL, int(where.sum()))
        if dtype.startswith("complex"):
            a = a + 1j * self.numbers.uniform(-3, 3, shape)
        return a

    def integer(self):
        r = self.rng.random()
        if r < 0.85:
            return self.rng.choice((-2, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 7))
        return self.rng.choice(HUGE)

    def integers(self):
        return [self.integer() for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3, 4)))]

    def number(self):
        r = self.rng.random()
        if r < 0.4:
            return self.integer()
        if r < 0.9:
            return self.rng.choice((0.0, 0.5, 1.0, -1.0, 2.5, 1e-8, 1e30, *SPECIAL))
        return self.rng.choice((True, 1j, 2 - 1j))

    def anything(self):
        """Something that probably does not belong here."""
        ways = (
            self.number,
            self.integers,
            self.tensor,
            lambda: self.rng.choice(TEXTS),
            lambda: self.rng.choice(ODD),
            lambda: [self.tensor(), self.tensor()],
            lambda: [self.rng.choice(ODD), 1],
            lambda: (self.tensor(), None),
        )
        return self.rng.choice(ways)()

    def of_kind(self, kind):
        """An argument of the op table's kind."""
        rng = self.rng
        if rng.random() < 0.08:
            return self.anything()
        if kind == "Tensor":
            return self.tensor()
        if kind == "Operand":
            return self.tensor() if rng.random() < 0.7 else self.number()
        if kind == "Tensors":
            return [self.tensor() for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        if kind == "Scalar":
            return self.number()
        if kind == "Int":
            return self.integer()
        if kind == "Ints":
            return self.integers() if rng.random() < 0.8 else self.integer()
        if kind in ("Float", "Floats"):
            many = [float(rng.choice((0, 0.5, 1, *SPECIAL))) for _ in range(3)]
            return many if kind == "Floats" else many[0]
        if kind == "Bool":
            return rng.random() < 0.5
        if kind == "String":
            return rng.choice(TEXTS)
        if kind == "DType":
            name = self.dtype()
            return Named(name, lambda: getattr(rl, name))
        if kind == "Device":
            return rng.choice(("cpu", "cpu", "meta", "cuda:7", "nowhere"))
        if kind == "Generator":
            return Named("generator", lambda: rl.Generator().manual_seed(1))
        return rng.choice(ODD)
