"""Arguments of PyTorch's samples as plain bytes, which either library reads as its own objects.

Tensors keep their memory (shared where it was), strides, offset, dtype, conjugate and negative bits
and whether they require grad. Functions of the library go by their path; those that PyTorch's test
package defines travel as code, with the globals that they name, so both sides run the same Python
(of one version).
"""

import contextlib
import dataclasses
import dis
import functools
import importlib
import io
import marshal
import pickle
import sys
import types

WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64",
        "complex64": "complex128", "complex32": "complex128"}  # fmt: skip
PLACES = [
    "", "nn.functional", "linalg", "fft", "special", "Tensor", "nn", "nn.init", "optim", "masked",
    "optim.lr_scheduler", "sparse", "signal.windows", "nested", "functional", "nn.utils",
    "nn.utils.rnn", "_C._nn", "nn.attention", "return_types", "autograd", "random", "_lowrank",
]  # fmt: skip


def at(library, path):
    """What a dotted path names."""
    for part in filter(None, path.split(".")):
        library = getattr(library, part)
    return library


class Packer(pickle.Pickler):
    """Writes objects of PyTorch."""

    paths = None

    def __init__(self, file):
        super().__init__(file, protocol=5)
        self.memory = {}
        self.packing = []
        if Packer.paths is None:
            import torch

            Packer.paths = {}
            for place in PLACES:
                space = at(torch, place)
                for name in sorted(dir(space), key=lambda n: n.startswith("_")):
                    found = getattr(space, name, None)
                    if callable(found) and of_torch(found):
                        path = f"{place}.{name}".lstrip(".")
                        Packer.paths.setdefault(id(found), (path, found))

    def persistent_id(self, x):
        import torch

        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, torch.dtype):
            return "dtype", str(x).removeprefix("torch.")
        if isinstance(x, torch.layout | torch.memory_format):
            return "path", str(x).removeprefix("torch.")
        if isinstance(x, torch.device):
            return "device", str(x)
        if isinstance(x, torch.Size):
            return "size", tuple(x)
        if isinstance(x, torch.Generator):
            return "generator", x.initial_seed()
        if isinstance(x, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return "path", "ops." + str(x)
        if type(x).__module__.startswith("torch.testing") and hasattr(x, "full_name"):
            return "entry", x.name  # of the database: what its functions ask for
        if dataclasses.is_dataclass(x) and id(type(x)) in Packer.paths:
            fields = {f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
            return "made", Packer.paths[id(type(x))][0], fields
        if isinstance(x, types.ModuleType):
            return "module", x.__name__
        if (known := Packer.paths.get(id(x))) and known[1] is x:
            return "path", known[0]
        if getattr(x, "__name__", "") == "freeze_rng_state":
            return "path", "random.fork_rng"
        if isinstance(x, types.FunctionType) and x.__module__.startswith(("torch", "__main__")):
            return self.code(x)
        return None

    def tensor(self, x):
        import torch

        if x.layout != torch.strided:
            grad = x.requires_grad
            return "sparse", str(x.layout).removeprefix("torch."), *sparse_parts(x.detach()), grad
        kind = "parameter" if isinstance(x, torch.nn.Parameter) else "tensor"
        flags = x.requires_grad, x.is_conj(), x.is_neg()
        x = x.detach()
        if x.device.type == "meta":
            return "meta", str(x.dtype).removeprefix("torch."), tuple(x.shape), x.stride()
        x = x.conj() if flags[1] else x
        x = x._neg_view() if flags[2] else x
        key = x.untyped_storage().data_ptr()
        if key not in self.memory or not key:
            whole = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
            self.memory[key] = (len(self.memory), whole.numpy().tobytes()), x
        name = str(x.dtype).removeprefix("torch.")
        where = tuple(x.shape), x.stride(), x.storage_offset()
        return kind, name, self.memory[key][0], *where, *flags

    def code(self, f):
        if f in self.packing:
            return "nothing", f.__name__  # a name that only makes samples leads back here
        self.packing.append(f)
        named = {n: f.__globals__[n] for n in names_of(f.__code__) if n in f.__globals__}
        cells = tuple(c.cell_contents for c in f.__closure__ or ())
        body = marshal.dumps(f.__code__)
        rest = self.inside((f.__defaults__, f.__kwdefaults__, cells))
        globals_ = {}
        for name, value in named.items():
            # A name may be that of an attribute, and the global of that name not be wanted.
            with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError):
                globals_[name] = self.inside(value)
        self.packing.pop()
        return "code", f.__name__, body, rest, globals_

    def inside(self, x):
        file = io.BytesIO()
        packer = Packer(file)
        packer.packing = self.packing
        packer.dump(x)
        return file.getvalue()


def of_torch(x):
    return (getattr(x, "__module__", None) or "torch").startswith("torch")


def names_of(code):
    """The globals that a function, and those inside of it, may look up."""
    inside = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return {*own, *(n for c in inside for n in names_of(c))}


def sparse_parts(x):
    import torch

    if x.layout == torch.sparse_coo:
        return tuple(x.shape), x.is_coalesced(), (x._indices(), x._values())
    rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    parts = (x.crow_indices(), x.col_indices()) if rows else (x.ccol_indices(), x.row_indices())
    return tuple(x.shape), None, (*parts, x.values())


class Unpacker(pickle.Unpickler):
    """Reads them as objects of a library; `wide`, with float64 for narrower floating dtypes."""

    device = "cpu"  # where tensors go

    def __init__(self, file, library, wide=False):
        super().__init__(file)
        self.library, self.wide, self.memory, self.data = library, wide, {}, {}

    def dtype(self, name):
        return getattr(self.library, WIDE.get(name, name) if self.wide else name)

    def find_class(self, module, name):
        if module.split(".")[0] != "torch" or self.library.__name__ == "torch":
            return super().find_class(module, name)
        for place in (module.removeprefix("torch").lstrip("."), "nn", "optim", ""):
            try:
                return at(self.library, f"{place}.{name}")
            except AttributeError:
                continue
        raise AttributeError(f"{module}.{name}")

    def persistent_load(self, pid):
        return getattr(self, f"read_{pid[0]}")(*pid[1:])

    def read_path(self, path):
        return at(self.library, path)

    def read_made(self, path, fields):
        return at(self.library, path)(**fields)

    def read_entry(self, name):
        return types.SimpleNamespace(name=name)

    def read_nothing(self, name):
        return None

    def read_dtype(self, name):
        return self.dtype(name)

    def read_device(self, text):
        return self.library.device(self.device if text == "cpu" else text)

    def read_size(self, sizes):
        return self.library.Size(sizes)

    def read_generator(self, seed):
        return self.library.Generator(self.device).manual_seed(seed)

    def read_module(self, name):
        if name.split(".")[0] == "torch":
            return at(self.library, name.removeprefix("torch").lstrip("."))
        return importlib.import_module(name)

    def read_meta(self, name, shape, stride):
        options = {"dtype": self.dtype(name), "device": "meta"}
        return self.library.empty_strided(shape, stride, **options)

    def read_sparse(self, layout, shape, coalesced, parts, grad):
        if layout == "sparse_coo":
            found = self.library.sparse_coo_tensor(*parts, shape, is_coalesced=coalesced)
        else:
            found = getattr(self.library, layout + "_tensor")(*parts, shape)
        return found.requires_grad_(grad)

    def read_tensor(self, name, memory, shape, stride, offset, grad, conj, neg):
        rl = self.library
        number, content = memory
        if content:
            key = number, name
            if key not in self.memory:
                whole = self.data.setdefault(number, bytearray(content))
                dtype = getattr(rl, name)
                whole = rl.frombuffer(whole, dtype=dtype, count=len(whole) // dtype.itemsize)
                if self.wide and name in WIDE:
                    whole = whole.to(self.dtype(name))
                self.memory[key] = whole.to(self.device)
            found = self.memory[key].as_strided(shape, stride, offset).detach()
        else:
            found = rl.empty_strided(shape, stride, dtype=self.dtype(name), device=self.device)
        if conj:
            found = found.conj()
        if neg:
            found = found._neg_view()
        return found.requires_grad_() if grad else found

    def read_parameter(self, *parts):
        found = self.read_tensor(*parts[:-3], False, *parts[-2:])
        return self.library.nn.Parameter(found, requires_grad=parts[-3])

    def read_code(self, name, body, rest, globals_):
        defaults, kwdefaults, cells = unpacked(rest, self.library, self.wide)
        named = {}
        for key, value in globals_.items():
            with contextlib.suppress(AttributeError):
                named[key] = unpacked(value, self.library, self.wide)
        code = marshal.loads(body)
        cells = tuple(types.CellType(c) for c in cells)
        made = types.FunctionType(code, {"__builtins__": __builtins__, **named}, name, defaults,
                                  cells)  # fmt: skip
        made.__kwdefaults__ = kwdefaults
        return made


def packed(x):
    file = io.BytesIO()
    Packer(file).dump(x)
    return file.getvalue()


def unpacked(data, library, wide=False):
    return Unpacker(io.BytesIO(data), library, wide).load()


@functools.cache
def imported(name):
    """A library by its name, its parts included."""
    library = importlib.import_module(name)
    for part in ("nn", "optim", "linalg", "fft", "special", "masked", "sparse", "signal"):
        importlib.import_module(f"{name}.{part}")
    sys.setrecursionlimit(5000)
    return library
