"""How ops reach a device: through the tables of csrc/device, whatever the device is."""

import pathlib
import re

import pytest

CSRC = pathlib.Path(__file__).resolve().parent.parent / "csrc"

# An op that asks which device it has, instead of what that device can do (device/runtime.h).
DEVICE_TEST = re.compile(r"\bis_cuda\(|\bDeviceType::(CPU|CUDA)\b|\.type\s*[=!]=")


def code(path):
    """The text without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.S)


def sources(*folders):
    found = (path for folder in folders for path in sorted((CSRC / folder).rglob("*")))
    return [path for path in found if path.suffix in (".h", ".cpp")]


def short(path):
    return str(path.relative_to(CSRC))


def device_tests(path):
    lines = code(path).splitlines()
    return [f"{i}: {line.strip()}" for i, line in enumerate(lines, 1) if DEVICE_TEST.search(line)]


@pytest.mark.parametrize("path", sources("ops"), ids=short)
def test_ops_do_not_ask_which_device_they_have(path):
    assert device_tests(path) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("if (x.is_cuda()) return f(x);", True),
        ("loops(DeviceType::CUDA).sort(x);", True),
        ("if (a.device().type == b.device().type) return;", True),
        ("if (device.type != other) return;", True),
        ("sort_loops(x).sort(x);", False),
        ("if (device_traits(x).asynchronous) return;", False),
        ("return Device{DeviceType::Meta};  // is_cuda() would be false", False),
        ("if (x.dtype() == DType::Bool) return;", False),
    ],
)
def test_device_tests_are_seen(line, found, tmp_path):
    path = tmp_path / "sample.cpp"
    path.write_text(line)
    assert bool(device_tests(path)) == found


@pytest.mark.parametrize("path", sources("cpu"), ids=short)
def test_loops_of_the_cpu_know_no_gpu(path):
    """So no function that is named after the CPU can reach the GPU's tables."""
    assert re.findall(r"\bis_cuda\(|\bDeviceType::CUDA\b|\bcuda_\w+\(", code(path)) == []


@pytest.mark.parametrize("path", sources("device", "cuda"), ids=short)
def test_neither_the_seam_nor_the_gpu_names_functions_of_the_cpu(path):
    assert re.findall(r"\b\w+_cpu\b", code(path)) == []


def test_every_table_is_defined_once_and_filled():
    declared = {}
    for path in sources("device"):
        for entry, table in re.findall(r"extern DeviceTable<(\w+)> (\w+);", code(path)):
            declared[table] = entry
    assert {"copy_loops", "pointwise_loops", "reduce_loops", "device_traits"} <= declared.keys()
    cpp = "\n".join(code(p) for p in sources("device") if p.suffix == ".cpp")
    assert set(re.findall(r"constinit DeviceTable<\w+> (\w+);", cpp)) == declared.keys()
    # The host is what traits say by default, and has no streams, no graphs and no clock of its own.
    of_gpus = {"device_traits", "device_runtime", "device_graphs", "activity_recorders"}
    for folder, exempt in (("cpu", of_gpus), ("cuda", set())):
        text = "\n".join(code(p) for p in sources(folder))
        filled = set(re.findall(rf"\b(\w+)\(DeviceType::{folder.upper()}\)", text))
        assert declared.keys() - exempt <= filled, folder


def test_there_is_one_way_to_fall_back_to_the_host():
    """Copies of a call's tensors on the host are made by HostCopies, for run_on_host."""
    users = {short(path) for path in sources("ops") if "HostCopies" in code(path)}
    assert users == {"ops/framework/host_run.h", "ops/framework/host_run.cpp"}
    # Whoever went another way would need the host's loops for tensors that are elsewhere.
    by_hand = re.compile(r"_loops\((Device\{\}|DeviceType::CPU)|\bby_host\b")
    assert [str(p) for p in sources("ops", "cuda") if by_hand.search(code(p))] == []
