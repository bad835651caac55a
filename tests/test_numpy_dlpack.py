"""NumPy and DLPack without copies: one memory, two owners, either of which may go first."""

import gc
import warnings

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "complex64", "complex128"]  # fmt: skip


def pointer(a):
    return a.__array_interface__["data"][0]


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_both_ways(name):
    a = np.array([[0, 1, 1], [1, 0, 1]], dtype=name)
    t = rl.from_numpy(a)
    assert t.dtype == getattr(rl, name) and t.data_ptr() == pointer(a)
    b = t.numpy()
    assert b.dtype == a.dtype and pointer(b) == pointer(a)
    assert b.strides == a.strides and (b == a).all()


@pytest.mark.parametrize("make", [
    lambda a: a, lambda a: a.T, lambda a: a[::2], lambda a: a[:, 1:], lambda a: a[1, 2],
    lambda a: a.reshape(2, 6, 2), lambda a: a[:0], lambda a: np.asfortranarray(a),
])  # fmt: skip
def test_strides_and_offsets(make):
    a = make(np.arange(24.0).reshape(4, 6))
    if a.ndim == 0:
        a = np.array(a)
    t = rl.from_numpy(a)
    assert (tuple(t.shape) == a.shape and t.data_ptr() == pointer(a)) or a.size == 0
    assert t.tolist() == a.tolist()
    if a.size:
        assert tuple(s * 8 for s in t.stride()) == a.strides
        t.fill_(5)
        assert (a == 5).all()


def test_writes_are_seen_on_both_sides():
    a = np.zeros(3)
    t = rl.from_numpy(a)
    a[0] = 1
    t[1] = 2
    assert a.tolist() == t.tolist() == [1, 2, 0]
    v = t[1:].numpy()
    v[1] = 7
    assert t[2].item() == 7


def test_either_side_may_die_first():
    a = np.arange(1000.0)
    t = rl.from_numpy(a)
    del a
    gc.collect()
    junk = [np.ones(1000) for _ in range(20)]
    assert t.sum().item() == 499500
    b = rl.arange(1000.0).numpy()
    gc.collect()
    junk += [rl.ones(1000) for _ in range(20)]
    assert b.sum() == 499500
    c = np.from_dlpack(rl.arange(1000.0))
    d = rl.from_dlpack(np.arange(1000.0))
    gc.collect()
    junk += [rl.ones(1000) for _ in range(20)]
    assert c.sum() == d.sum().item() == 499500


def test_round_trips_keep_the_reference_count():
    import sys

    a = np.zeros(4)
    before = sys.getrefcount(a)
    for _ in range(100):
        rl.from_numpy(a).numpy()
        rl.from_dlpack(a)
        rl.as_tensor(a)
    gc.collect()
    assert sys.getrefcount(a) == before


def test_refused_arrays():
    with pytest.raises(ValueError):
        rl.from_numpy(np.arange(4)[::-1])
    for bad in (np.array(["a"]), np.array([object()]), np.zeros(2, "datetime64[s]"),
                np.zeros(2, [("a", "f4")])):  # fmt: skip
        with pytest.raises(TypeError):
            rl.from_numpy(bad)
    with pytest.raises((TypeError, ValueError)):
        rl.from_numpy(np.zeros(2, ">f4"))


def test_read_only_arrays_warn():
    a = np.zeros(3)
    a.flags.writeable = False
    with pytest.warns(UserWarning, match="writable"):
        t = rl.from_numpy(a)
    assert t.tolist() == [0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rl.tensor(np.zeros(2)).tolist() == [0, 0]


def test_tensor_copies_and_as_tensor_shares():
    a = np.zeros(3, "f4")
    assert rl.tensor(a).data_ptr() != pointer(a)
    assert rl.as_tensor(a).data_ptr() == pointer(a)
    assert rl.as_tensor(a, dtype=rl.float64).data_ptr() != pointer(a)
    assert rl.asarray(a).data_ptr() == pointer(a)
    assert rl.asarray(a, copy=True).data_ptr() != pointer(a)
    t = rl.zeros(2)
    assert rl.as_tensor(t) is t
    assert rl.tensor([np.float32(1.5), np.float32(2)]).dtype == rl.float32
    assert rl.tensor(np.float64(1.5)).dtype == rl.float64


def test_numpy_of_special_tensors():
    x = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError):
        x.numpy()
    assert x.detach().numpy().tolist() == x.numpy(force=True).tolist() == [1, 1]
    with pytest.raises(TypeError):
        rl.ones(2, device="meta").numpy()
    assert rl.tensor(3.0).numpy().shape == ()
    assert rl.zeros(0, 3).numpy().shape == (0, 3)
    z = rl.tensor([1 + 2j])
    assert z.conj().resolve_conj().numpy().tolist() == [1 - 2j]


def test_array_protocol():
    t = rl.arange(6).reshape(2, 3)
    assert pointer(np.asarray(t)) == t.data_ptr()
    assert np.asarray(t, dtype="f4").dtype == np.float32
    assert np.array(t).ctypes.data != t.data_ptr()
    assert np.sum(np.asarray(t)) == 15 and np.asarray([rl.tensor(1), rl.tensor(2)]).tolist() == [
        1,
        2,
    ]
    assert isinstance(rl.tensor([1.0, 2.0]) * np.float64(2), rl.Tensor)
    assert isinstance(np.exp(rl.tensor([1.0])), (np.ndarray, rl.Tensor))


def test_frombuffer():
    data = bytearray(np.arange(4, dtype="i4").tobytes())
    t = rl.frombuffer(data, dtype=rl.int32)
    assert t.tolist() == [0, 1, 2, 3]
    t[0] = 9
    assert data[0] == 9
    assert rl.frombuffer(data, dtype=rl.int32, count=2, offset=4).tolist() == [1, 2]
    with pytest.raises(ValueError):
        rl.frombuffer(data, dtype=rl.int32, offset=17)


# --- DLPack ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_dlpack_with_numpy(name):
    t = rl.tensor([[0, 1], [1, 1]]).to(getattr(rl, name))
    a = np.from_dlpack(t)
    assert pointer(a) == t.data_ptr() and a.dtype == name and a.tolist() == t.tolist()
    back = rl.from_dlpack(np.array([1, 0], dtype=name))
    assert back.dtype == getattr(rl, name) and back.tolist() == [1, 0]


def test_dlpack_strides_and_offset():
    t = rl.arange(12.0).reshape(3, 4).t()[1:, ::2]
    u = rl.from_dlpack(t)
    assert u.data_ptr() == t.data_ptr() and u.stride() == t.stride() and rl.equal(u, t)
    u.zero_()
    assert t.sum().item() == 0
    assert rl.from_dlpack(rl.zeros(0, 2)).shape == (0, 2)
    assert rl.from_dlpack(rl.tensor(3.0)).item() == 3


def test_dlpack_device():
    assert tuple(rl.ones(2).__dlpack_device__()) == (1, 0)


def test_dlpack_capsule_is_used_once():
    capsule = rl.ones(2).__dlpack__()
    assert "dltensor" in repr(capsule)
    t = rl.from_dlpack(capsule)
    assert t.tolist() == [1, 1] and "used" in repr(capsule)
    with pytest.raises((RuntimeError, ValueError)):
        rl.from_dlpack(capsule)
    del capsule
    gc.collect()
    assert t.tolist() == [1, 1]


def test_dlpack_versions_and_flags():
    t = rl.ones(2)
    assert "versioned" in repr(t.__dlpack__(max_version=(1, 0)))
    assert "versioned" not in repr(t.__dlpack__())
    copied = rl.from_dlpack(t, copy=True)
    assert copied.data_ptr() != t.data_ptr() and copied.tolist() == [1, 1]
    assert rl.from_dlpack(t, copy=False).data_ptr() == t.data_ptr()


def test_dlpack_read_only_arrays():
    a = np.zeros(3)
    a.flags.writeable = False
    try:
        t = rl.from_dlpack(a)
    except (BufferError, RuntimeError, ValueError, TypeError):
        return
    assert t.tolist() == [0, 0, 0]


def test_dlpack_refuses_gradients():
    with pytest.raises((BufferError, RuntimeError)):
        rl.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        rl.ones(2, device="meta").__dlpack__()


def test_unused_capsules_leak_nothing():
    t = rl.ones(2)
    for _ in range(100):
        t.__dlpack__()
        t.__dlpack__(max_version=(1, 0))
    assert t.tolist() == [1, 1]


def test_bfloat16_through_ml_dtypes():
    ml = pytest.importorskip("ml_dtypes")
    t = rl.tensor([1.5, -2.0]).to(rl.bfloat16)
    try:
        a = t.numpy()
    except TypeError:
        assert rl.__name__ == "torch"  # PyTorch does not know ml_dtypes
        return
    assert a.dtype == ml.bfloat16 and pointer(a) == t.data_ptr()
    b = np.array([1.5, 2.5], dtype=ml.bfloat16)
    assert rl.from_numpy(b).dtype == rl.bfloat16
