"""The small objects: dtype, device, Size, finfo, Generator, storages; tensors from Python data."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import rushlight as rl

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]  # fmt: skip
ALIASES = {"half": "float16", "float": "float32", "double": "float64", "short": "int16",
           "int": "int32", "long": "int64", "cfloat": "complex64",
           "cdouble": "complex128"}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_is_a_singleton(name):
    t = getattr(rl, name)
    assert repr(t) == f"rushlight.{name}" and hash(t) == hash(t)
    assert pickle.loads(pickle.dumps(t)) is t and copy.deepcopy(t) is t and copy.copy(t) is t
    assert t.is_complex == name.startswith("complex")
    assert t.is_floating_point == ("float" in name)
    assert t.is_signed == (not name.startswith("u") and name != "bool")
    if name != "bfloat16":
        assert t.itemsize == np.dtype(name).itemsize


def test_dtype_aliases_and_partners():
    for alias, name in ALIASES.items():
        assert getattr(rl, alias) is getattr(rl, name)
    assert rl.float64.to_complex() is rl.complex128 and rl.complex64.to_real() is rl.float32
    with pytest.raises(TypeError):
        rl.dtype()
    assert rl.zeros(1, dtype=float).dtype is rl.float64  # Python's own types will do


def test_default_dtype():
    assert rl.get_default_dtype() is rl.float32
    try:
        rl.set_default_dtype(rl.float64)
        assert rl.tensor(1.0).dtype is rl.float64 and rl.tensor(1j).dtype is rl.complex128
    finally:
        rl.set_default_dtype(rl.float32)
    with pytest.raises(TypeError):
        rl.set_default_dtype(rl.int32)


def test_device():
    cases = [rl.device("cuda:1"), rl.device("cuda", 1), rl.device(type="cuda", index=1),
             rl.device(1), rl.device(rl.device("cuda:1"))]  # fmt: skip
    for d in cases:
        assert d == cases[0] and hash(d) == hash(cases[0])
        assert (d.type, d.index) == ("cuda", 1)
        assert repr(d) == "device(type='cuda', index=1)" and str(d) == "cuda:1"
        assert pickle.loads(pickle.dumps(d)) == d
    cpu = rl.device("cpu")
    assert cpu.index is None and repr(cpu) == "device(type='cpu')" and cpu != "cpu"
    for bad in ["gpu", "cuda:x", "cuda:-1", ""]:
        with pytest.raises(RuntimeError):
            rl.device(bad)
    for bad in [1.5, None, [0]]:
        with pytest.raises(TypeError):
            rl.device(bad)


def test_default_device_is_a_stack():
    with rl.device("meta"):
        assert rl.tensor([1.0]).device.type == "meta"
        with rl.device("cpu"):
            assert rl.tensor([1.0]).device.type == "cpu"
        assert rl.get_default_device().type == "meta"
    assert rl.get_default_device().type == "cpu"


MAKERS = [
    lambda **k: rl.empty(2, **k),
    lambda **k: rl.zeros(2, **k),
    lambda **k: rl.ones(2, **k),
    lambda **k: rl.full((2,), 1.0, **k),
    lambda **k: rl.arange(3, **k),
    lambda **k: rl.linspace(0, 1, 3, **k),
    lambda **k: rl.eye(2, **k),
    lambda **k: rl.rand(2, **k),
    lambda **k: rl.randn(2, **k),
    lambda **k: rl.randint(3, (2,), **k),
    lambda **k: rl.tensor([1.0], **k),
    lambda **k: rl.nn.Linear(2, 3, **k).weight,
]


@pytest.mark.parametrize("make", MAKERS)
def test_new_tensors_go_to_the_default_device(make):
    with rl.device("meta"):
        assert make().device.type == "meta"
        assert make(device=None).device.type == "meta"
        assert make(device="cpu").device.type == "cpu"
    assert make().device.type == "cpu"


def test_tensors_made_after_others_stay_where_those_are():
    x = rl.ones(2)
    with rl.device("meta"):
        made = [rl.zeros_like(x), x.new_ones(3), x.to(rl.float64), rl.rand_like(x), x + 1]
    assert {t.device.type for t in made} == {"cpu"}


def test_size():
    s = rl.Size([2, 3])
    assert isinstance(s, tuple) and s == (2, 3) and s.numel() == 6
    assert repr(s) == "rushlight.Size([2, 3])"
    for made in [s[:1], s + s[:1], (4,) + s, s * 2, 2 * s, copy.deepcopy(s)]:  # noqa: RUF005
        assert type(made) is rl.Size
    assert s[0] == 2 and type(s[0]) is int
    again = pickle.loads(pickle.dumps(s))
    assert again == s and type(again) is rl.Size
    with pytest.raises(TypeError):
        rl.Size([1.5])


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo_is_numpys(name):
    ours, theirs = rl.finfo(getattr(rl, name)), np.finfo(name)
    for field in ["bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"]:
        assert getattr(ours, field) == pytest.approx(float(getattr(theirs, field)), rel=1e-3)
    assert ours.dtype == name and ours == rl.finfo(getattr(rl, name))


@pytest.mark.parametrize("name", [n for n in DTYPES if "int" in n])
def test_iinfo_is_numpys(name):
    ours, theirs = rl.iinfo(getattr(rl, name)), np.iinfo(name)
    assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)


def test_generator():
    g = rl.Generator().manual_seed(7)
    assert g.initial_seed() == 7 and g.device == rl.device("cpu")
    state = g.get_state()
    assert state.dtype is rl.uint8
    h = g.clone_state()
    assert h.get_state().tolist() == state.tolist()
    h.manual_seed(1)
    h.set_state(state)
    assert h.initial_seed() == 7
    assert pickle.loads(pickle.dumps(g)).get_state().tolist() == state.tolist()
    assert rl.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(ValueError):
        g.manual_seed(2**64)
    assert rl.manual_seed(3) is rl.default_generator and rl.initial_seed() == 3


LITERALS = [1, 1.5, True, 1j, [1, 2], [1, 2.5], [True, 2], [1j, 2], [], [[], []], (1, (2,))[1],
            range(3), [[1, 2], [3, 4]], [(1, 2), [3, 4]], np.float64(2), [np.float32(1), 2.0],
            [np.int8(1)], np.arange(3), [np.arange(2), [3, 4]], bytearray(b"ab")]  # fmt: skip


@pytest.mark.parametrize("data", LITERALS, ids=repr)
def test_values_of_literals(data):
    t = rl.tensor(data)
    want = np.array(data if not isinstance(data, bytearray) else list(data))
    assert tuple(t.shape) == want.shape and np.array_equal(t.tolist(), want.tolist())


def test_dtypes_of_literals():
    expected = {rl.float32: [1.0, [1, 2.0], [], [True, 1.0]], rl.int64: [1, [True, 2], range(2)],
                rl.bool: [True, [False]], rl.complex64: [1j, [1, 1j]],
                rl.float64: [np.float64(1), [np.float64(1)]],
                rl.int32: [[np.int32(1)]]}  # fmt: skip
    for dtype, literals in expected.items():
        for data in literals:
            assert rl.tensor(data).dtype is dtype, data


@pytest.mark.parametrize("data, kind, text", [
    ([[1, 2], [3]], ValueError, r"length 2 at dim 1, got length 1 \(item \[1\]\)"),
    ([[1, 2], 3], TypeError, r"item \[1\]"), ([1, [2]], TypeError, r"item \[1\]"),
    ("a", TypeError, "str"), (["a"], ValueError, "str"), (None, RuntimeError, "NoneType"),
    ({1: 2}, RuntimeError, "dict"), (2**63, ValueError, "9223372036854775808"),
])  # fmt: skip
def test_bad_literals(data, kind, text):
    with pytest.raises(kind, match=text):
        rl.tensor(data)


def test_conversion_of_literals():
    assert rl.tensor(1.7, dtype=rl.int64).item() == 1
    assert rl.tensor(-1, dtype=rl.uint8).item() == 255
    assert rl.tensor(2**63, dtype=rl.uint64).item() == 2**63
    assert rl.tensor(0.5, dtype=rl.bool).item() is True
    for value, dtype in [(300, rl.uint8), (float("nan"), rl.int64), (float("inf"), rl.int32)]:
        with pytest.raises(RuntimeError, match="overflow"):
            rl.tensor(value, dtype=dtype)
    with pytest.raises(TypeError):
        rl.tensor(1j, dtype=rl.float32)


def test_a_list_that_changes_while_it_is_read():
    data = []

    class Mean(float):
        def __float__(self):
            data.extend([1.0] * 100)
            return 0.0

    data += [Mean(1.0), 2.0]
    rl.tensor(data)  # whatever it says, it must not write past the end


def test_legacy_constructors():
    assert rl.Tensor().shape == (0,) and rl.Tensor(2, 3).shape == (2, 3)
    assert rl.Tensor([1, 2]).dtype is rl.float32 and rl.Tensor((2, 3)).tolist() == [2, 3]
    x = rl.LongTensor([1, 2])
    assert x.dtype is rl.int64 and isinstance(x, rl.LongTensor)
    assert not isinstance(x, rl.FloatTensor) and rl.BoolTensor([1, 0]).tolist() == [True, False]
    assert x.type() == "rushlight.LongTensor" and x.type(rl.FloatTensor).dtype is rl.float32


def test_frombuffer():
    data = bytearray(b"abcde")
    t = rl.frombuffer(data, dtype=rl.uint8)
    t[0] = 65
    assert data[0] == 65
    assert rl.frombuffer(data, dtype=rl.int16, count=1, offset=1).item() == int.from_bytes(
        data[1:3], "little"
    )
    for kwargs in [{}, {"offset": 9}, {"count": 5}]:
        with pytest.raises(ValueError):
            rl.frombuffer(data, dtype=rl.int16, **kwargs)
    with pytest.raises(ValueError):
        rl.frombuffer([1], dtype=rl.int8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rl.frombuffer(b"ab", dtype=rl.uint8)
    assert "not writable" in str(caught[0].message)


def test_memoryview_of_a_tensor():
    x = rl.arange(6, dtype=rl.int32).reshape(2, 3)
    m = memoryview(x)
    assert m.shape == (2, 3) and m.format == "i" and m.tolist() == x.tolist()
    assert memoryview(x.t()).strides == (4, 12)
    m[0, 0] = 9
    assert x[0, 0].item() == 9
    with pytest.raises(BufferError):
        memoryview(rl.ones(2, requires_grad=True))


def test_storages():
    x = rl.arange(4, dtype=rl.int16)
    s = x.untyped_storage()
    assert s.nbytes() == len(s) == 8 and s.data_ptr() == x.data_ptr()
    s[0] = 5
    assert x[0].item() == 5 and x.storage()[1] == 1 and len(x.storage()) == 4
    assert x[1:].untyped_storage()._cdata == s._cdata


@pytest.mark.parametrize("name", DTYPES)
def test_pickle_and_deepcopy(name):
    x = rl.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(rl, name)).t()
    for y in [pickle.loads(pickle.dumps(x)), copy.deepcopy(x)]:
        assert y.tolist() == x.tolist() and y.dtype is x.dtype and y.stride() == x.stride()
        assert y.data_ptr() != x.data_ptr()


def test_deepcopy_keeps_sharing_and_attributes():
    x = rl.zeros(4)
    x.note = [1]
    a, b = copy.deepcopy((x, x[1:]))
    b[0] = 7
    assert a[1].item() == 7 and x[1].item() == 0 and a.note == [1] and a.note is not x.note


def test_damaged_pickles_are_refused():
    make = rl._C._tensor_from_storage
    s = rl.UntypedStorage(16)
    for offset, size, stride in [(0, (5,), (1,)), (4, (1,), (1,)), (0, (2,), (2**62,)),
                                 (0, (2**62,), (1,)), (0, (2, 2), (1,))]:  # fmt: skip
        with pytest.raises((ValueError, RuntimeError)):
            make(s, rl.float32, offset, size, stride)


def test_a_storage_of_bytes_is_on_the_cpu():
    assert rl.UntypedStorage(b"ab", device="cpu").tolist() == [97, 98]
    with pytest.raises(ValueError, match="copied to the CPU, not to meta"):
        rl.UntypedStorage(b"ab", device="meta")


FOREIGN = (
    "mps xpu mtia hpu xla vulkan ipu hip ve fpga maia lazy mkldnn opengl opencl ideep privateuseone"
)


@pytest.mark.parametrize("name", FOREIGN.split())
def test_names_of_devices_that_are_not_here(name):
    """Programs compare with them; nothing can be on them."""
    device = rl.device(name)
    assert (device.type, device.index, str(device)) == (name, None, name)
    assert (
        repr(rl.device(name, 1))
        == f"device(type='{name}', index=1)"
        == repr(rl.device(f"{name}:1"))
    )
    assert device == rl.device(device) != rl.device("cpu") and len({device, rl.device(name)}) == 1
    assert pickle.loads(pickle.dumps(device)) == device
    for call in (rl.zeros(2).to, rl.set_default_device, lambda d: rl.ones(1, device=d)):
        for given in (device, name):
            with pytest.raises(RuntimeError, match=f"'{name}'.*'cpu', 'cuda'"):
                call(given)
    with pytest.raises(RuntimeError, match="no tensors"), device:
        pass
    assert rl.zeros(1).device == rl.device("cpu")


@pytest.mark.parametrize("make", [rl.asarray, rl.as_tensor, rl.tensor])
def test_a_storage_read_as_a_tensor(make):
    storage = rl.tensor([1, 2], dtype=rl.int32).untyped_storage()
    assert make(storage).tolist() == [1 + (2 << 32)] and make(storage).dtype == rl.int64
    bytes_ = make(storage, dtype=rl.uint8)
    assert bytes_.tolist() == [1, 0, 0, 0, 2, 0, 0, 0]
    assert bytes_.data_ptr() == storage.data_ptr()
    empty = make(storage[0:0], dtype=rl.int16)
    assert empty.shape == (0,) and empty.dtype == rl.int16
    assert make(storage[0:0]).dtype == rl.float32
    with pytest.raises(ValueError, match="a storage of 3 bytes"):
        make(storage[0:3], dtype=rl.int16)
