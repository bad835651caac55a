"""What the campaign found, each mended; and a share of the campaign itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

TESTS = Path(__file__).resolve().parents[1]


def in_a_process(*command, limit=600):
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=limit,
        env={**os.environ, "PYTHONPATH": path},
    )
    last = done.stdout.strip().splitlines()[-1:]
    assert done.returncode == 0, f"ended with {done.returncode} after {last}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_share_of_the_campaign(tmp_path):
    report = tmp_path / "report.jsonl"
    done = subprocess.run(
        [
            sys.executable,
            TESTS / "campaign" / "run.py",
            "--calls",
            "1500",
            "--files",
            "150",
            "--faults",
            "4",
            "--seed",
            "share",
            "--jobs",
            "1",
            "--report",
            report,
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not report.exists(), report.read_text()
    assert done.returncode == 0 and "0 findings" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_one_tensor_on_the_meta_device():
    """Kernels that read memory which is not there: all rows, one tensor in turn."""
    assert "done" in in_a_process("-m", "campaign.kinds", "0", "meta")


@pytest.mark.slow
def test_one_tensor_of_another_kind():
    assert "done" in in_a_process("-m", "campaign.kinds", limit=1800)


def test_the_guard_pages_hold(tmp_path):
    """A read behind a tensor ends the process, and so does one of memory that went back."""
    from campaign.run import guard_library

    library = guard_library(tmp_path)
    code = """
import ctypes, sys
from campaign.child import guard
import rushlight as rl
guard(sys.argv[1])
kept = [rl.ones(16) for _ in range(8)]  # one in four has its guard in front
address = [t.data_ptr() for t in kept]
if sys.argv[2] == "behind":
    [ctypes.c_char.from_address(a + 4096).value for a in address]
if sys.argv[2] == "freed":
    del kept
    ctypes.c_char.from_address(address[0]).value
if sys.argv[2] == "written":
    [a] = [a for a in address if a % 4096 > 2048][:1]
    ctypes.c_char.from_address(a - 65).value = b"x"  # in front of the storage's own words
    del kept
"""
    # Under AddressSanitizer the signals come through as well.
    sanitizer = f"{os.environ.get('ASAN_OPTIONS', '')}:handle_segv=0:handle_abort=0"
    for what, ends in (("nothing", 0), ("behind", -11), ("freed", -11), ("written", -6)):
        path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
        done = subprocess.run(
            [sys.executable, "-c", code, library, what],
            env={**os.environ, "PYTHONPATH": path, "ASAN_OPTIONS": sanitizer},
            capture_output=True,
            text=True,
        )
        assert done.returncode == ends, f"{what}: {done.stderr}"


@pytest.mark.parametrize(
    "call",
    [
        lambda x, m: x.put(rl.tensor([0]), m[:1]),
        lambda x, m: x.masked_scatter(x > 0, m),
        lambda x, m: rl.batch_norm(x.reshape(1, 4), None, None, m, None, True, 0.1, 1e-5, False),
        lambda x, m: rl.instance_norm(
            x.reshape(1, 4, 1), None, None, m, None, True, 0.1, 1e-5, False
        ),
        lambda x, m: x.sum().lerp_(m.sum(), 0.5),
        lambda x, m: x.sum().igamma_(m.sum()),
        lambda x, m: x.sum().add_(m.sum()),
    ],
)
def test_values_that_are_on_no_device(call):
    with pytest.raises(RuntimeError, match="is on meta|on cpu"):
        call(rl.ones(4), rl.ones(4, device="meta"))


@pytest.mark.parametrize("call", ["x[l]", "x[[l, 1]]", "x.__setitem__(l, 1)", "x + l", "x == l"])
@pytest.mark.parametrize("depth", [0, 100_000])
def test_lists_that_hold_themselves_or_are_deep(call, depth):
    code = f"""
import rushlight as rl
rl.quantize_per_tensor(rl.ones(2), 0.1, 0, rl.quint8)  # from now on arguments are looked into
l = []
for _ in range({depth}):
    l = [l]
if not {depth}:
    l.append(l)
x = rl.ones(3)
try:
    {call}
except (TypeError, ValueError, IndexError, RuntimeError):
    print("refused")
else:
    print("answered")
"""
    said = in_a_process("-c", code)
    assert said.strip() == "refused" or call == "x == l"


def test_devices_and_states_that_are_no_tuples():
    with pytest.raises(TypeError, match="tuple of two ints, not list"):
        rl.ones(2).__dlpack__(dl_device=[1, 0])
    with pytest.raises(TypeError, match="tuple of two ints"):
        rl.Generator().__setstate__([1, 2])

    class Producer:
        def __dlpack_device__(self):
            return [1, 0]

        def __dlpack__(self, **options):
            return rl.ones(2).__dlpack__()

    with pytest.raises(TypeError, match="tuple of two ints, not list"):
        rl.from_dlpack(Producer())


def test_several_results_do_not_go_into_the_rows_of_one_tensor():
    out = rl.zeros(2, 2)
    with pytest.raises(TypeError, match="tuple of tensors"):
        rl.linalg.slogdet(rl.eye(2), out=out)
    assert not out.any()


def test_a_number_has_one_largest_element():
    for k in (0, 1):
        values, indices = rl.topk(rl.tensor(2.5), k)
        assert values.item() == 2.5 and indices.item() == 0 and values.shape == ()


def test_quantized_tensors_by_keyword():
    q = rl.quantize_per_tensor(rl.ones(2), 0.1, 0, rl.quint8)
    assert rl.equal(input=q, other=q) and rl.eq(input=q, other=rl.ones(2)).all()


@pytest.mark.parametrize("call", ["x.le([q, q])", "x == [[q]]", "rl.equal(x, (q, None))"])
def test_quantized_tensors_in_lists(call):
    q = rl.quantize_per_tensor(rl.ones(2), 0.1, 0, rl.quint8)
    with pytest.raises((NotImplementedError, TypeError), match="quantized|argument"):
        eval(call, {"rl": rl, "x": rl.ones(2), "q": q})


def test_the_dtype_of_a_nested_tensor_by_keyword():
    nested = rl.nested.nested_tensor([rl.ones(2), rl.ones(3)], dtype=rl.float64)
    assert rl.ones(2).to(other=nested).dtype is rl.float64
    assert nested.float().to(other=nested).dtype is rl.float64


@pytest.mark.parametrize(("sizes", "strides"), [((2, 3), (1, 20)), ((2, 3), (1, 2))])
def test_as_strided_under_vmap_stays_within_its_memory(sizes, strides):
    x = rl.ones(2, 6) if strides[1] == 20 else rl.ones(2, 3, 0)
    with pytest.raises(RuntimeError, match="reaches element"):
        rl.func.vmap(lambda t: t.as_strided(sizes, strides))(x)
    right = rl.func.vmap(lambda t: t.as_strided((2, 3), (1, 2)))(rl.arange(12).view(2, 6))
    assert right.tolist() == [[[0, 2, 4], [1, 3, 5]], [[6, 8, 10], [7, 9, 11]]]


def test_vector_to_parameters_writes_all_or_nothing():
    first, second = rl.zeros(2), rl.zeros(3)
    with pytest.raises(RuntimeError, match="too short"):
        rl.nn.utils.vector_to_parameters(rl.ones(4), [first, second])
    assert not first.any()
    rl.nn.utils.vector_to_parameters(rl.ones(5), iter([first, second]))
    assert first.all() and second.all()


def test_layers_that_are_no_modules():
    for stack in (rl.nn.TransformerEncoder, rl.nn.TransformerDecoder):
        with pytest.raises(TypeError, match="expected a layer"):
            stack("layer", 2**62)


def test_legacy_files_whose_storage_is_no_tuple():
    import io
    import pickle

    head = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    data = b"".join(pickle.dumps(v, 2) for v in head) + b"NQ.N."
    with pytest.raises(pickle.UnpicklingError, match="no known storage"):
        rl.load(io.BytesIO(data))


@pytest.mark.parametrize(
    "line", [b"  x.y\n", b"  __parameters__ = 3\n", b"  __parameters__ = {[]: 1}\n"]
)
def test_torchscript_classes_with_odd_bodies(line):
    import io

    from jit.hostile import entries, zipped

    parts = entries((TESTS / "data" / "torchscript_linear.pt").read_bytes())
    code = [n for n in parts if n.endswith(".py") and b"class " in parts[n]]
    for name in code:
        before, found, rest = parts[name].partition(b":\n")
        parts[name] = before + found + line + rest
    try:
        rl.jit.load(io.BytesIO(zipped(parts.items())))
    except RuntimeError as error:
        assert "cannot be read" in str(error)


def test_onnx_files_that_cannot_be_parsed():
    pytest.importorskip("onnx")
    import io

    with pytest.raises(ValueError, match="not valid"):
        rl.onnx.load(io.BytesIO(b"\xff" * 40))


def test_indexing_agrees_with_numpy():
    """Expressions at random, where NumPy takes them too."""
    rng = np.random.RandomState(0)
    for _ in range(300):
        shape = [(5,), (2, 3), (2, 0, 3), (1, 2, 3, 4)][rng.randint(4)]
        a = np.arange(int(np.prod(shape))).reshape(shape)
        parts = []
        for _ in range(rng.randint(1, 4)):
            step = int(rng.randint(1, 4))
            parts.append(
                [
                    int(rng.randint(-2, 2)),
                    slice(None, None, step),
                    None,
                    Ellipsis,
                    [0, -1],
                    slice(int(rng.randint(-3, 3)), None),
                ][rng.randint(6)]
            )
        index = tuple(parts)
        try:
            want = a[index]
        except IndexError:
            continue
        got = rl.from_numpy(a)[index]
        assert tuple(got.shape) == want.shape and np.array_equal(got.numpy(), want), index


def test_tangents_of_views_that_reach_beyond_their_base():
    """as_strided of a part sees the whole storage, whose tangents are 0; expected as in PyTorch."""

    def tangents(f, x, t):
        return rl.func.jvp(f, (x,), (t,))[1]

    x, t = rl.arange(6.0)[2:4], rl.tensor([10.0, 20.0])
    whole = tangents(lambda a: rl.as_strided(a, (6,), (1,), 0), x, t)
    assert whole.tolist() == [0, 0, 10, 20, 0, 0]
    behind = tangents(lambda a: rl.as_strided(a, (2, 3), (1, 1)), x, t)
    assert behind.tolist() == [[10, 20, 0], [20, 0, 0]]
    z = rl.view_as_complex(rl.arange(8.0).reshape(4, 2))[1:2]
    real = tangents(lambda a: rl.as_strided(rl.view_as_real(a), (5,), (1,), 1), z, rl.ones_like(z))
    assert real.tolist() == [0, 1, 0, 0, 0]
    nothing = rl.arange(6.0)[1:1].unsqueeze(0).expand(2**40, 0)
    empty = tangents(lambda a: rl.as_strided(a, (1, 3), (1, 0)), nothing, rl.ones_like(nothing))
    assert empty.tolist() == [[0, 0, 0]]

    def written(a):
        b = rl.as_strided(a, (4,), (1,), 1)
        b.mul_(2.0)
        return a, b

    a, b = tangents(written, rl.arange(6.0)[2:4], t)
    assert a.tolist() == [20, 40] and b.tolist() == [0, 20, 40, 0]


@pytest.mark.parametrize("mode", ["constant", "replicate"])
@pytest.mark.parametrize(
    "pad", [(2**63 - 1, 2**63 - 1, 0, -2), (2**62, 2**62, 0, 0), (-(2**63), 2**63 - 1, 0, 0)]
)
def test_borders_that_are_too_wide_to_count(mode, pad):
    """Their sum was a small number, so elements were written behind the result."""
    with pytest.raises(RuntimeError, match="leave nothing|makes dimension 3.* too large"):
        rl.nn.functional.pad(rl.ones(1, 3, 5, 5), pad, mode=mode)


@pytest.mark.parametrize("op", [rl.tril_indices, rl.triu_indices])
def test_triangles_of_endless_matrices(op):
    assert op(2**40, 0, 1).shape == (2, 0)  # took as long as there are rows
    with pytest.raises(RuntimeError, match="more than can be addressed"):
        op(2**63 - 1, 2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize("offset", [2**63 - 1, -(2**63)])
def test_diagonals_that_are_too_far_away(offset):
    with pytest.raises(RuntimeError, match="too large to count"):
        rl.diag_embed(rl.ones(3), offset)


def test_gradients_of_arguments_that_have_none():
    """Only they required a gradient, so nothing was kept that backward could read."""
    for name in ("atol", "rtol"):
        with pytest.raises(RuntimeError, match=f"no gradient with respect to {name}"):
            rl.linalg.pinv(rl.ones(2, 3), **{name: rl.tensor(0.1, requires_grad=True)})
    tolerances = [rl.tensor(0.1, requires_grad=True) for _ in range(2)]
    inverse, _ = rl._C._pinv(rl.ones(2, 3), *tolerances, False)
    assert rl.autograd.grad(inverse.sum(), tolerances, allow_unused=True) == (None, None)


@pytest.mark.parametrize("value", [rl.tensor(1.5), rl.tensor([1.5])], ids=["0-d", "1-d"])
def test_formats_that_are_no_text(value):
    for spec in (3, None, rl.tensor(1)):
        with pytest.raises(TypeError, match="the format must be a str"):
            value.__format__(spec)


def test_sparse_tensors_where_to_wants_a_device():
    x, sparse = rl.ones(2, 3), rl.eye(3).to_sparse()
    for t in (x, sparse):
        with pytest.raises(NotImplementedError, match="to: not there for tensors of layout sparse"):
            t.to(device=sparse)
    assert x.to(other=sparse.double()).dtype == rl.float64


def test_findings_are_lines_of_json(capsys):
    from campaign.child import say

    say(finding=[1, "value", "text", "call"])
    assert json.loads(capsys.readouterr().out) == {"finding": [1, "value", "text", "call"]}
