"""Memory of others that is misaligned for its elements: it is shared, and every way in and out is
sound. The ops over it are in ops/test_misaligned.py."""

import struct

import numpy as np
import pytest
from ops.sample import misaligned

import rushlight as rl

pytestmark = pytest.mark.native
NUMBERS = ["int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def packed(name, n=6):
    """An array and a tensor over one odd address."""
    room = np.zeros(n * np.dtype(name).itemsize + 1, np.uint8)
    array = np.frombuffer(room, name, n, 1)
    array[:] = np.arange(n)
    return array, rl.frombuffer(room, dtype=getattr(rl, name), count=n, offset=1)


@pytest.mark.parametrize("name", NUMBERS)
def test_memory_is_shared_both_ways(name):
    array, t = packed(name)
    assert t.data_ptr() == array.ctypes.data and t.data_ptr() % 2 == 1
    array[1] = 7
    assert t.tolist() == array.tolist() and t[1].item() == 7
    t[2] = 9
    t[3:].mul_(2)
    t[::2].add_(1)
    t[::3] = 5
    assert array.tolist() == [5, 7, 10, 5, 9, 10]
    t.fill_(3)
    t[::2].fill_(4)
    assert array.tolist() == [4, 3, 4, 3, 4, 3]


def test_two_tensors_over_one_place():
    array, t = packed("float32")
    assert t.add_(t[:]) is t and array.tolist() == [0, 2, 4, 6, 8, 10]
    rl.mul(t[:], t[:], out=t)
    assert array.tolist() == [0, 4, 16, 36, 64, 100]
    t[:5].copy_(t[1:].clone())
    assert array.tolist() == [4, 16, 36, 64, 100, 100]
    with pytest.raises(RuntimeError):
        t[1:].add_(t[:-1])


@pytest.mark.parametrize("name", NUMBERS)
def test_ways_in(name):
    array, t = packed(name)
    assert not array.flags.aligned
    for u in (rl.from_numpy(array), rl.as_tensor(array), rl.from_dlpack(array)):
        assert u.data_ptr() == t.data_ptr() and (u + u).tolist() == (array + array).tolist()
    assert rl.tensor(array).tolist() == array.tolist()
    assert rl.equal(rl.frombuffer(array, dtype=t.dtype), t)
    assert rl.equal(rl.from_numpy(array.view(np.uint8)).view(t.dtype), t)


@pytest.mark.parametrize("name", NUMBERS)
def test_ways_out(name):
    array, t = packed(name)
    assert t.numpy().ctypes.data == array.ctypes.data and t.tolist() == array.tolist()
    assert np.from_dlpack(t).tolist() == array.tolist()
    assert str(t) == str(t.clone()) and [x.item() for x in t] == array.tolist()
    assert t.clone().data_ptr() % 64 == 0 and rl.equal(t.clone(), t)
    assert t.reshape(2, 3).t().contiguous().tolist() == array.reshape(2, 3).T.tolist()
    assert t.to(rl.complex128).tolist() == array.astype(complex).tolist()
    wide = rl.zeros(6, dtype=rl.float64).copy_(t.real if t.is_complex() else t)
    assert wide.tolist() == array.real.tolist()
    t.copy_(rl.ones(6, dtype=rl.float64))
    assert array.tolist() == [1] * 6


def test_fields_of_packed_records():
    """As programs read files of records: the fields lie one byte after the other."""
    records = np.zeros(4, np.dtype([("kind", "u1"), ("value", "<f4"), ("place", "<i2")]))
    records["value"], records["place"] = [1, 2, 3, 4], [3, 2, 1, 0]
    with pytest.raises(ValueError, match="stride"):  # 7 bytes are no number of floats
        rl.from_numpy(records["value"])
    data = bytearray(struct.pack("<3sH3f", b"abc", 2, 1.5, 2.5, 3.5))
    values = rl.frombuffer(data, dtype=rl.float32, offset=5)
    assert values.sum().item() == 7.5 and (values @ values).item() == 20.75
    values.sqrt_()
    assert struct.unpack_from("<3f", data, 5) == tuple(np.sqrt(np.float32([1.5, 2.5, 3.5])))


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("optimizer", [rl.optim.SGD, rl.optim.Adam, rl.optim.Adagrad])
def test_parameters_are_trained(optimizer, foreach):
    def trained(place):
        x, w = place(rl.linspace(-1, 1, 12).view(4, 3)), place(rl.linspace(0, 1, 6).view(3, 2))
        p = rl.nn.Parameter(w)
        o = optimizer([p], lr=0.1, foreach=foreach)
        for _ in range(3):
            o.zero_grad()
            rl.nn.functional.linear(x, p.t()).relu().square().mean().backward()
            p.grad = place(p.grad)
            rl.nn.utils.clip_grad_norm_([p], 0.5)
            o.step()
            for state in o.state[p].values():
                if isinstance(state, rl.Tensor):
                    state.set_(place(state))
        assert p.data_ptr() == w.data_ptr()
        return w

    assert rl.equal(trained(misaligned), trained(lambda t: t.clone()))


def test_running_statistics_are_moved():
    def moved(place):
        norm = rl.nn.BatchNorm1d(3)
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            norm.register_buffer(name, place(getattr(norm, name)))
        places = [b.data_ptr() for b in norm.buffers()]
        norm(place(rl.linspace(-1, 2, 12).view(4, 3)))
        assert [b.data_ptr() for b in norm.buffers()] == places
        return [b.tolist() for b in norm.buffers()]

    assert moved(misaligned) == moved(lambda t: t.clone())


def test_compiled_functions_read_and_write_it():
    @rl.compile
    def step(x, y):
        y.add_(x.exp() * 2 - x)
        return y.relu().sum() + x.mean()

    def run(place):
        x, y = place(rl.linspace(-1, 1, 40)), place(rl.linspace(1, -2, 40))
        results = [step(x, y).item() for _ in range(4)]
        return results, y.tolist()

    assert run(misaligned) == run(lambda t: t.clone())


def test_read_only_memory_is_read():
    with pytest.warns(UserWarning, match="not writable"):
        t = rl.frombuffer(b"." + struct.pack("<4f", 4, 3, 2, 1), dtype=rl.float32, offset=1)
    assert t.sort().values.tolist() == [1, 2, 3, 4] and t.cumsum(0)[-1].item() == 10
