"""What save wrote, load gives back; and how both treat files, places and classes."""

import collections
import io
import os
import pickle
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.serialization import add_safe_globals, clear_safe_globals, safe_globals
from serialization.checkpoints import CONTENTS, DTYPES, values
from serialization.same import assert_same


def there_and_back(obj, zipped=True, **how):
    file = io.BytesIO()
    rl.save(obj, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return rl.load(file, **how)


class Config:
    def __init__(self, rate):
        self.rate = rate

    class Inner:
        pass


class Slotted:
    __slots__ = ("a", "b")


class Named(collections.namedtuple("Named", "x y")):
    pass


class Marked(rl.Tensor):
    pass


class Counting(dict):
    pass


class WithKeywords:
    def __new__(cls, *, size):
        self = super().__new__(cls)
        self.size = size
        return self

    def __getnewargs_ex__(self):
        return (), {"size": self.size}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", CONTENTS)
def test_round_trip(name, weights_only, zipped):
    expected = CONTENTS[name](rl)
    if name == "tensors":
        expected["non_leaf"] = expected["non_leaf"].detach().requires_grad_()
    got = there_and_back(CONTENTS[name](rl), zipped, weights_only=weights_only)
    assert_same(got, expected)


def test_each_record_is_aligned_and_checked_by_zip_tools(tmp_path):
    path = tmp_path / "a.pt"
    rl.save(CONTENTS["dtypes"](rl), path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        for info in file.infolist():
            name, extra = data[info.header_offset + 26 :][:2], data[info.header_offset + 28 :][:2]
            start = (
                info.header_offset + 30 + sum(int.from_bytes(n, "little") for n in (name, extra))
            )
            assert start % 64 == 0 and info.compress_type == zipfile.ZIP_STORED
        assert file.read("archive/byteorder") == sys.byteorder.encode()


def test_the_same_object_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        rl.save(CONTENTS["state_dict"](rl), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# Storages.


def test_a_slice_brings_its_own_bytes_only():
    base = rl.arange(1_000_000.0)
    file = io.BytesIO()
    rl.save(base[500_000:500_010], file)
    assert len(file.getvalue()) < 2000
    got = there_and_back(base[500_000:500_010])
    assert got.tolist() == [500_000.0 + i for i in range(10)]
    assert got.untyped_storage().nbytes() == 40


def test_parts_of_one_storage_stay_parts_of_one():
    base = rl.arange(1000)
    got = there_and_back({"a": base[10:20], "b": base[15:30:5], "c": [base[29]]})
    assert got["a"].tolist() == list(range(10, 20)) and got["b"].tolist() == [15, 20, 25]
    assert got["a"].untyped_storage().nbytes() == 20 * 8
    got["a"][5] = -1
    assert got["b"][0] == -1 and got["c"][0] == 29
    assert got["c"][0].untyped_storage().data_ptr() == got["a"].untyped_storage().data_ptr()


def test_one_tensor_in_two_places_stays_one():
    x = rl.ones(3)
    got = there_and_back([x, {"again": x}])
    assert got[0] is got[1]["again"]


@pytest.mark.parametrize("first", [0, 1])
def test_views_of_other_dtypes_share(first):
    z = rl.tensor([1 + 2j, 3 + 4j, 5 + 6j])
    pair = [z[1:], rl.view_as_real(z)]
    got = there_and_back(pair if first == 0 else pair[::-1])
    got = got if first == 0 else got[::-1]
    assert got[0].tolist() == [3 + 4j, 5 + 6j] and got[1].tolist() == [[1, 2], [3, 4], [5, 6]]
    got[1][1, 0] = 10
    assert got[0][0] == 10 + 4j


def test_a_view_in_the_middle_of_larger_elements():
    wide = rl.arange(6, dtype=rl.float64)
    narrow = wide.view(rl.float32)[3:7]
    got = there_and_back([narrow, wide[2:4]])
    assert got[0].tolist() == narrow.tolist() and got[1].tolist() == [2.0, 3.0]
    assert_same(there_and_back(narrow), narrow)


def test_storages_themselves():
    typed = rl.arange(3.0).storage()
    got = there_and_back({"typed": typed, "bytes": rl.ones(2, dtype=rl.uint8).untyped_storage()})
    assert got["typed"].tolist() == [0.0, 1.0, 2.0] and got["typed"].dtype == rl.float32
    assert got["bytes"].tolist() == [1, 1]
    x = rl.arange(3.0)
    got = there_and_back([x[1:], x.storage()])
    assert got[0].storage_offset() == 1 and len(got[1]) == 3
    with pytest.raises(RuntimeError, match="two dtypes"):
        rl.save([x, x.untyped_storage()], io.BytesIO())


@pytest.mark.parametrize("dtype", DTYPES)
def test_mapped_tensors(dtype, tmp_path):
    expected = values(rl, dtype)
    rl.save([expected, expected.t()], tmp_path / "a.pt")
    got = rl.load(tmp_path / "a.pt", mmap=True)
    assert_same(got, [expected, expected.t()])
    assert got[0].data_ptr() % 64 == 0
    (tmp_path / "a.pt").unlink()
    assert_same(got[0], expected)


def test_shared_mapping_writes_to_the_file(tmp_path):
    import mmap

    rl.save(rl.zeros(3), tmp_path / "a.pt")
    with rl.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        rl.load(tmp_path / "a.pt", mmap=True).fill_(2)
    assert rl.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(RuntimeError, match="checksum"):
        rl.load(tmp_path / "a.pt")
    rl.serialization.set_crc32_options(False)
    try:
        assert rl.load(tmp_path / "a.pt").tolist() == [2.0, 2.0, 2.0]
    finally:
        rl.serialization.set_crc32_options(True)


def test_mmap_needs_a_path_and_a_zip_file(tmp_path):
    with pytest.raises(ValueError, match="path"):
        rl.load(io.BytesIO(), mmap=True)
    rl.save(rl.ones(1), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap=True needs"):
        rl.load(tmp_path / "old.pt", mmap=True)


def test_skip_data():
    file = io.BytesIO()
    with rl.serialization.skip_data():
        rl.save(rl.arange(5.0), file)
    file.seek(0)
    assert rl.load(file).tolist() == [0.0] * 5
    file.seek(0)
    with rl.serialization.skip_data():
        assert rl.load(file).shape == (5,)


# Places.


@pytest.mark.parametrize("zipped", [True, False])
def test_map_location(zipped):
    x = rl.arange(4.0)
    seen = []

    def look(storage, location):
        seen.append((type(storage), location, storage.nbytes()))

    for place in ("cpu", rl.device("cpu"), {"cuda:0": "cpu"}, look, lambda s, where: s.clone()):
        assert there_and_back(x, zipped, map_location=place).tolist() == x.tolist()
    assert seen == [(rl.UntypedStorage, "cpu", 16)]
    for place in ("meta", rl.device("meta"), {"cpu": "meta"}):
        got = there_and_back([x, x.view(2, 2)], zipped, map_location=place)
        assert got[0].device.type == "meta" and got[1].shape == (2, 2)
    for wrong in (3, [1]):
        with pytest.raises(TypeError, match="map_location"):
            there_and_back(x, zipped, map_location=wrong)
    with pytest.raises(TypeError, match="must return a storage"):
        there_and_back(x, zipped, map_location=lambda s, where: "cpu")
    with pytest.raises(RuntimeError, match="no device for the location 'mars:1'"):
        there_and_back(x, zipped, map_location="mars:1")


def test_registered_packages():
    from rushlight.serialization import _devices

    before = list(_devices._packages)
    try:
        rl.serialization.register_package(
            5,
            lambda s: "lab:0" if s.nbytes() == 20 else None,
            lambda s, where: s if where.startswith("lab") else None,
        )
        file = io.BytesIO()
        rl.save(rl.arange(5.0), file)
        assert b"lab:0" in file.getvalue()
        file.seek(0)
        assert rl.load(file).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert rl.serialization.location_tag(rl.ones(5).untyped_storage()) == "lab:0"
    finally:
        _devices._packages[:] = before


def test_byte_order_of_files_that_do_not_say():
    from rushlight.serialization import LoadEndianness, set_default_load_endianness

    file = io.BytesIO()
    rl.save(rl.tensor([1, 256], dtype=rl.int16), file, _disable_byteorder_record=True)
    try:
        for order, expected in ((LoadEndianness.LITTLE, [1, 256]), (LoadEndianness.BIG, [256, 1])):
            set_default_load_endianness(order)
            file.seek(0)
            assert rl.load(file).tolist() == expected
    finally:
        set_default_load_endianness(None)
    with pytest.raises(TypeError, match="LoadEndianness"):
        set_default_load_endianness("big")


# Objects.


@pytest.fixture
def no_additions():
    clear_safe_globals()
    yield
    clear_safe_globals()


def test_an_unknown_class_is_refused_with_the_way_out(no_additions):
    with pytest.raises(pickle.UnpicklingError) as error:
        there_and_back({"c": Config(0.1)})
    text = str(error.value)
    assert f"{__name__}.Config" in text and "add_safe_globals([Config])" in text
    assert "weights_only=False" in text
    assert there_and_back(Config(0.1), weights_only=False).rate == 0.1


def test_allowed_classes(no_additions):
    slotted = Slotted()
    slotted.a, slotted.b = 1, rl.ones(2)
    with safe_globals([Config, Slotted, Named, Counting, WithKeywords]):
        assert there_and_back(Config(0.5)).rate == 0.5
        assert there_and_back(slotted).b.tolist() == [1.0, 1.0]
        assert there_and_back(Named(1, 2)) == Named(1, 2)
        assert there_and_back(Counting(a=1)) == {"a": 1}
        assert there_and_back(WithKeywords(size=4)).size == 4
        with pytest.raises(pickle.UnpicklingError, match=r"Config\.Inner"):
            there_and_back(Config.Inner())
    assert rl.serialization.get_safe_globals() == []
    add_safe_globals([Config, Config.Inner])
    assert set(rl.serialization.get_safe_globals()) == {Config, Config.Inner}
    assert type(there_and_back(Config.Inner())) is Config.Inner


def test_a_class_under_another_name(no_additions):
    file = io.BytesIO()
    rl.save(Config(3), file)
    renamed = io.BytesIO(file.getvalue())
    with safe_globals([(Counting, f"{__name__}.Config")]):
        assert type(rl.load(renamed)) is Counting
    with pytest.raises(ValueError, match="tuple"):
        add_safe_globals([(Config,)])
    with pytest.raises(TypeError, match="str"):
        add_safe_globals([(Config, Config)])


def test_names_that_load_would_refuse(no_additions):
    file = io.BytesIO()
    rl.save({"a": Config(1), "b": rl.ones(2), "c": sys.exit}, file)
    names = rl.serialization.get_unsafe_globals_in_checkpoint
    file.seek(0)
    assert names(file) == [f"{__name__}.Config", "sys.exit"]
    with safe_globals([Config]):
        file.seek(0)
        assert names(file) == ["sys.exit"]
    with pytest.raises(ValueError, match="zip format"):
        names(io.BytesIO(b"abc"))


def test_numpy_arrays_can_be_allowed(no_additions):
    np = pytest.importorskip("numpy")
    array = np.arange(6.0).reshape(2, 3)
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        there_and_back(array)
    assert (there_and_back(array, weights_only=False) == array).all()
    reconstruct = array.__reduce__()[0]
    with safe_globals([reconstruct, np.ndarray, np.dtype]):
        assert (there_and_back(array) == array).all()


def test_subclasses_of_tensor(no_additions):
    x = rl.arange(3.0).as_subclass(Marked) if hasattr(rl.Tensor, "as_subclass") else (
        rl.Tensor._make_subclass(Marked, rl.arange(3.0)))  # fmt: skip
    x.note = "mine"
    with pytest.raises(pickle.UnpicklingError, match="Marked"):
        there_and_back(x)
    with safe_globals([Marked]):
        got = there_and_back(x)
    assert type(got) is Marked and got.note == "mine" and got.tolist() == [0.0, 1.0, 2.0]
    assert type(there_and_back(x, weights_only=False)) is Marked


@pytest.mark.skipif(not hasattr(rl.nn, "Parameter"), reason="there is no Parameter yet")
@pytest.mark.parametrize("weights_only", [True, False])
def test_parameters(weights_only):
    p = rl.nn.Parameter(rl.arange(6.0).view(2, 3)[1], requires_grad=False)
    q = rl.nn.Parameter(rl.ones(2))
    q.note = [1]
    got = there_and_back([p, q, p], weights_only=weights_only)
    assert type(got[0]) is rl.nn.Parameter and not got[0].requires_grad and got[2] is got[0]
    assert got[0].tolist() == [3.0, 4.0, 5.0] and got[0].untyped_storage().nbytes() == 12
    assert type(got[1]) is rl.nn.Parameter and got[1].requires_grad and got[1].note == [1]


@pytest.mark.parametrize("weights_only", [True, False])
def test_objects_that_hold_themselves(weights_only):
    loop, pair = [1], ([],)
    loop.append(loop)
    pair[0].append(pair)
    table = collections.OrderedDict()
    table["me"] = table
    got = there_and_back([loop, pair, table], weights_only=weights_only)
    assert got[0][1] is got[0] and got[1][0][0] is got[1] and got[2]["me"] is got[2]


def test_what_python_pickles_comes_back():
    import datetime
    import decimal
    import enum
    import functools

    objects = [
        frozenset([1, (2, 3)]), range(3), slice(1, None), decimal.Decimal("1.5"), Ellipsis,
        datetime.datetime(2020, 1, 2), functools.partial(max, 3), len, os.path.join, int,
        type(None), collections.defaultdict(list, a=[1]), collections.deque([1, 2], 5),
        Path("a/b"), ValueError("x"), bytearray(b"\xff"), 2**5000, -(2**2040), "\ud800",
        rl.channels_last, rl.FloatTensor, enum.Flag,
    ]  # fmt: skip
    for obj in objects:
        got = there_and_back(obj, weights_only=False)
        assert type(got) is type(obj) and repr(got) == repr(obj)
    # and Python's own unpickler agrees about everything that has no tensors
    for obj in objects[:16]:
        file = io.BytesIO()
        rl.save(obj, file)
        data = zipfile.ZipFile(file).read("archive/data.pkl")
        assert repr(pickle.loads(data)) == repr(obj)


def test_long_containers_and_many_names():
    obj = {"list": list(range(2500)), "dict": {f"key{i}": i for i in range(2500)}}
    assert there_and_back(obj) == obj
    tensors = {f"layer{i}.weight": rl.full((2,), float(i)) for i in range(700)}
    assert_same(there_and_back(tensors), tensors)


def test_what_cannot_be_found_again_is_not_saved(tmp_path):
    class Local:
        pass

    path = tmp_path / "a.pt"
    rl.save(1, path)
    for obj in (Local(), lambda: 1, (i for i in ())):
        with pytest.raises((pickle.PicklingError, TypeError)):
            rl.save(obj, path)
    assert rl.load(path) == 1
    with pytest.raises(RuntimeError, match="meta device has no bytes"):
        rl.save(rl.empty(2, device="meta").untyped_storage(), path)


# Arguments.


def test_arguments():
    with pytest.raises(AttributeError, match="write"):
        rl.save(1, 3)
    with pytest.raises(AttributeError, match="read"):
        rl.load(3)
    with pytest.raises(ValueError, match="pickle_protocol"):
        rl.save(1, io.BytesIO(), pickle_protocol=1)
    with pytest.raises(RuntimeError, match="weights_only=False"):
        rl.load(io.BytesIO(), pickle_module=pickle, weights_only=True)
    with pytest.raises(TypeError, match="fix_imports"):
        rl.load(io.BytesIO(), fix_imports=True)
    with pytest.raises(FileNotFoundError):
        rl.load("/no/such/file.pt")
    file = io.BytesIO()
    rl.save({"x": rl.ones(2)}, file, pickle_protocol=5)
    file.seek(0)
    assert rl.load(file, pickle_module=pickle, weights_only=False)["x"].tolist() == [1.0, 1.0]
    file.seek(0)
    assert rl.load(file, pickle_module=pickle)["x"].tolist() == [1.0, 1.0]  # as in PyTorch


def test_a_file_object_is_read_from_where_it_stands():
    file = io.BytesIO()
    file.write(b"header")
    rl.save(rl.arange(3.0), file)
    file.seek(6)
    assert rl.load(file).tolist() == [0.0, 1.0, 2.0]


def test_file_objects_of_every_kind(tmp_path):
    class Reader:
        """No readinto, and short reads."""

        def __init__(self, data):
            self._file = io.BytesIO(data)
            self.seek, self.tell = self._file.seek, self._file.tell

        def read(self, n=-1):
            return self._file.read(min(n, 7) if n > 0 else n)

    file = io.BytesIO()
    rl.save(rl.arange(50), file)
    assert rl.load(Reader(file.getvalue())).tolist() == list(range(50))

    class Pipe:
        def read(self, n=-1):
            return b""

        def seek(self, *args):
            raise io.UnsupportedOperation("no")

        tell = seek

    with pytest.raises(io.UnsupportedOperation, match="BytesIO"):
        rl.load(Pipe())
    with pytest.raises(TypeError, match="binary"):
        rl.load(io.StringIO("text"))
    with open(tmp_path / "a.pt", "wb", buffering=0) as raw:
        rl.save(rl.arange(50), raw)
    with open(tmp_path / "a.pt", "rb", buffering=0) as raw:
        assert rl.load(raw).tolist() == list(range(50))


def test_checksums_can_be_left_out(tmp_path):
    rl.serialization.set_crc32_options(False)
    try:
        assert rl.serialization.get_crc32_options() is False
        rl.save(rl.arange(3.0), tmp_path / "a.pt")
    finally:
        rl.serialization.set_crc32_options(True)
    assert rl.load(tmp_path / "a.pt").tolist() == [0.0, 1.0, 2.0]
    with zipfile.ZipFile(tmp_path / "a.pt") as file:
        assert {info.CRC for info in file.infolist()} == {0}
