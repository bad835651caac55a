"""Names of PyTorch's that are not here: what programs read, and that importing them works."""

import copy
import importlib
import importlib.util
import inspect
import pickle
import pkgutil
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight._names import absent, absent_names

ROOT = importlib.util.find_spec("rushlight").submodule_search_locations[0]
RELEASES = ("planned for a later release", "not planned")


def module_of(dotted):
    return importlib.import_module(f"rushlight.{dotted}".rstrip("."))


def rows(kind):
    """(module, name, reason) of the absent classes or functions."""
    return [
        (row[0], name, row[1])
        for row in absent_names.ROWS
        for name in row[2 if kind == "class" else 3].split()
    ]


CLASSES, FUNCTIONS = rows("class"), rows("function")


def test_the_table_is_whole():
    assert len(CLASSES) + len(FUNCTIONS) > 150
    used = {row[1] for row in absent_names.ROWS} | {*absent.AREAS.values(), *absent.METHODS}
    used |= {"TorchScript"}
    assert used == {*absent.REASONS}
    for why, instead, release in absent.REASONS.values():
        assert why and instead.strip() == instead and release in RELEASES
    for dotted in absent.MODULES:
        parent = dotted.rpartition(".")[0]
        assert not parent or module_of(parent), dotted
    for error in absent_names.ERRORS:
        module, _, name = error.rpartition(".")
        assert (module, name) in [c[:2] for c in CLASSES]


def ids(rows):
    return [f"{module}.{name}".lstrip(".") for module, name, _ in rows]


@pytest.mark.parametrize(("module", "name", "reason"), CLASSES, ids=ids(CLASSES))
def test_classes(module, name, reason):
    """They can be named, derived from, asked isinstance of and pickled; not made."""
    cls = getattr(module_of(module), name)
    assert isinstance(cls, type) and cls.__name__ == name and cls.__unavailable__
    assert not isinstance(rl.ones(1), cls)
    assert getattr(module_of(module), name) is cls
    assert copy.deepcopy(cls) is cls
    if module != "_C":  # its module is the package's core
        assert pickle.loads(pickle.dumps(cls)) is cls

    class Derived(cls):
        pass

    with pytest.raises(NotImplementedError) as caught:
        Derived()
    text = str(caught.value)
    assert text.startswith("Derived: "), text
    check_text(text, reason)


def check_text(text, reason):
    why, instead, release = absent.REASONS[reason]
    assert why in text and instead in text and release in text and "docs/compatibility.md" in text


@pytest.mark.parametrize(("module", "name", "reason"), FUNCTIONS, ids=ids(FUNCTIONS))
def test_functions(module, name, reason):
    function = getattr(module_of(module), name)
    assert callable(function) and not isinstance(function, type)
    assert getattr(module_of(module), name) is function and function.__doc__
    if module == "cuda" and not rl.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            function()
        return
    with pytest.raises(NotImplementedError) as caught:
        function(1, two=2)
    text = str(caught.value)
    shown = f"{module}.{name}".lstrip(".").removeprefix("as_torch.")
    assert text.startswith(f"{shown}: "), text
    check_text(text, reason)


# Names that no table lists one by one: (module, name, words of the reason).
NOWHERE = [
    ("distributed", "no_such", "not there yet", "docs/distributed.md", "planned for"),
    ("distributed.fsdp", "no_such", "to split models over processes", "fully_shard", "planned for"),
    (
        "distributed.tensor.parallel",
        "no_such",
        "to split models",
        "docs/distributed",
        "planned for",
    ),
    ("sparse", "no_such", "semi-structured", "COO", "not planned"),
    ("onnx", "no_such", "PyTorch's exporter", "onnx.export", "not planned"),
    ("fx", "no_such", "part of fx", "replaced patterns", "not planned"),
    ("export", "no_such", "PyTorch's exporter", "export.export", "not planned"),
    ("_inductor", "no_such", "no compiler with graphs", "compile()", "planned for"),
    ("cuda", "no_such", "CUDA interface", "", "not planned"),
    ("utils.cpp_extension", "no_such", "C++ and CUDA files", "custom_op", "not planned"),
]


@pytest.mark.parametrize("case", NOWHERE, ids=lambda case: f"{case[0]}.{case[1]}")
def test_names_of_absent_areas(case):
    module, name, *words = case
    found = module_of(module)
    assert not hasattr(found, name) and getattr(found, name, 5) == 5
    with pytest.raises(AttributeError) as caught:
        getattr(found, name)
    text = str(caught.value)
    assert f"rushlight.{module}" in text and name in text and "docs/compatibility.md" in text
    assert all(word in text for word in words), text
    with pytest.raises(ImportError):
        exec(f"from rushlight.{module} import {name}")


@pytest.mark.parametrize("reason", absent.METHODS)
def test_methods(reason):
    for name in absent.METHODS[reason].split():
        assert not hasattr(rl.ones(2), name)
        with pytest.raises(AttributeError) as caught:
            getattr(rl.ones(2), name)
        assert name in str(caught.value)
        check_text(str(caught.value), reason)


def test_removed_names():
    for name, instead in absent.REMOVED.items():
        with pytest.raises(RuntimeError, match="PyTorch removed") as caught:
            getattr(rl, name)(rl.eye(2))
        assert name in str(caught.value) and instead in str(caught.value)


# ----- modules without files


@pytest.mark.parametrize("dotted", sorted(absent.MODULES))
def test_modules(dotted):
    path = f"rushlight.{dotted}"
    spec = importlib.util.find_spec(path)
    module = importlib.import_module(path)
    assert spec.name == path == module.__name__ and module.__spec__.name == path
    assert module.__doc__ and sys.modules[path] is module
    space = {}
    exec(f"from {path} import *", space)
    assert {*module.__all__} <= {*space} and {*module.__all__} <= {*dir(module)}
    assert (module.__spec__.submodule_search_locations is not None) == hasattr(module, "__path__")
    parent, _, last = path.rpartition(".")
    assert getattr(importlib.import_module(parent), last) is module
    assert not hasattr(module, "__wrapped__") and not hasattr(module, "_no_such_name")


def test_they_are_in_no_file():
    """A file in their place would be dead: the hook is asked first."""
    for dotted in absent.MODULES:
        assert importlib.machinery.PathFinder.find_spec(
            dotted.rpartition(".")[2],
            [f"{ROOT}/{dotted.rpartition('.')[0].replace('.', '/')}"],
        ) is None, dotted  # fmt: skip


def test_no_file_only_refuses():
    """Every module with a file has something that works."""
    for info in pkgutil.walk_packages([ROOT], "rushlight.", onerror=lambda name: None):
        needs_more = ("utils.tensorboard", "distributed.ray")  # tensorboard, Ray
        if info.name.endswith(("__main__", "_in_child", "warmup", *needs_more)):
            continue
        found = vars(importlib.import_module(info.name))
        own = [
            v
            for n, v in found.items()
            if not n.startswith("__") and getattr(v, "__module__", info.name) == info.name
            and n not in ("names_missing_from", "fill")
        ]  # fmt: skip
        refusals = [v for v in own if getattr(v, "__unavailable__", None)]
        assert not refusals or len(refusals) < len(own), info.name


def test_the_hook_answers_for_its_modules_only():
    from rushlight._names.import_hook import AbsentFinder, install

    for name in ("json", "rushlight", "rushlight.nn", "rushlight.no_such", "torch.sparse"):
        assert AbsentFinder.find_spec(name) is None
    before = list(sys.meta_path)
    install()
    assert sys.meta_path == before
    assert importlib.util.find_spec("rushlight.no_such") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("rushlight.sparse.no_such")


def test_walking_the_package():
    names = {m.name for m in pkgutil.iter_modules(rl.__path__)}
    assert "nn" in names and "distributed" in names
    assert pkgutil.resolve_name("rushlight.distributed.fsdp:ShardingStrategy").FULL_SHARD.value == 1


def test_what_scans_modules_finds_no_trap():
    """inspect and others ask every module for odd names."""
    for dotted in absent.MODULES:
        module = module_of(dotted)
        inspect.getmembers(module)
        assert inspect.getmodule(module) is module
        assert getattr(module, "__file__", None) is None
        assert inspect.unwrap(module) is module
    assert inspect.getmodule(rl.sparse.mm) is not None


def test_the_same_things_under_several_names():
    from rushlight.distributed import _tensor, device_mesh, fsdp, tensor
    from rushlight.distributed._composable.fsdp import fully_shard
    from rushlight.distributed.fsdp.api import ShardingStrategy
    from rushlight.fx.graph_module import GraphModule

    assert ShardingStrategy is fsdp.ShardingStrategy and fully_shard is fsdp.fully_shard
    assert GraphModule is rl.fx.GraphModule and _tensor.DTensor is tensor.DTensor
    assert device_mesh.DeviceMesh is rl.distributed.DeviceMesh
    assert rl.quantization.QuantStub is rl.ao.quantization.QuantStub


def test_questions_are_answered():
    assert not rl.distributed.is_initialized() and not rl.cuda.nccl.is_available()
    assert rl.cuda.nccl.version() == (0, 0, 0)
    assert rl._subclasses.fake_tensor.is_fake(rl.ones(1)) is False
    assert rl.fx.experimental.proxy_tensor.get_proxy_mode() is None
    for kind, title in absent_names.DEVICES.items():
        module = getattr(rl, kind)
        assert module.is_available() is False and module.device_count() == 0
        with pytest.raises(RuntimeError, match=title):
            module.current_device()


def test_absent_errors_can_be_caught():
    from rushlight.fx.proxy import TraceError

    with pytest.raises(ValueError):
        try:
            raise ValueError("another")
        except TraceError:
            pass


def test_in_a_new_process_and_as_torch():
    """Classes travel by their names; modules without files are there before anything else is."""
    sent = pickle.dumps([rl.distributed.fsdp.FullyShardedDataParallel, rl.sparse.mm])
    code = f"import pickle; print(pickle.loads({sent!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "FullyShardedDataParallel" in done.stdout, done.stderr
    code = (
        "import importlib.util, multiprocessing\n"
        "import torch, torch.distributed.fsdp.wrap as wrap\n"
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy\n"
        "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl\n"
        "assert importlib.util.find_spec('torch.distributed.fsdp') is not None\n"
        "assert importlib.util.find_spec('torch.no_such') is None\n"
        "assert torch.distributed.fsdp.FullyShardedDataParallel is FSDP\n"
        "assert not isinstance(torch.nn.Linear(1, 1), FSDP)\n"
        "assert not torch.distributed.is_initialized() and not hasattr(torch.distributed, 'no')\n"
        "try:\n"
        "    torch.sparse.no_such\n"
        "except AttributeError as error:\n"
        "    assert 'torch.sparse' in str(error) and 'not planned' in str(error)\n"
        "try:\n"
        "    import torch.distributed.no_such\n"
        "except ModuleNotFoundError as error:\n"
        "    assert 'not there yet' in str(error) and 'planned for' in str(error)\n"
        "with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "    assert pool.apply(issubclass, (FSDP, object))\n"
        "print('done')\n"
    )
    command = [sys.executable, "-m", "rushlight.as_torch", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr
