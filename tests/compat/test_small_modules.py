"""benchmark, profiler, futures, library, parallel: small modules that programs use."""

import json
import threading

import pytest

import rushlight as rl
from rushlight import nn


def test_timer_and_compare(capsys):
    from rushlight.utils import benchmark

    results = []
    for n in (1, 2):
        timer = benchmark.Timer(
            "x + x", setup="x = torch.ones(n)", globals={"n": n}, label="add", sub_label=str(n),
            description="ours",
        )  # fmt: skip
        measured = timer.timeit(10)
        assert measured.number_per_run == 10 and len(measured.times) == 1 and measured.median > 0
        results.append(timer.blocked_autorange(min_run_time=0.001))
        assert len(results[-1].raw_times) >= 1 and "add: " in repr(results[-1])
    before = rl.get_num_threads()
    benchmark.Timer("assert torch.get_num_threads() == 1").timeit(1)
    assert rl.get_num_threads() == before
    benchmark.Compare(results).print()
    out = capsys.readouterr().out
    assert "add" in out and "ours" in out and "Times are in" in out
    assert benchmark.Timer("pass").adaptive_autorange(max_run_time=0.01).iqr >= 0


def test_profiler(tmp_path):
    from rushlight.profiler import ProfilerAction, profile, record_function, schedule

    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    actions = [plan(i) for i in range(6)]
    A = ProfilerAction
    assert actions == [A.NONE, A.NONE, A.WARMUP, A.RECORD, A.RECORD_AND_SAVE, A.NONE]
    seen = []
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(p.events())) as prof:
        for i in range(6):
            with record_function(f"step {i}"):
                pass
            prof.step()
    names = {e.name for e in seen[0]}
    assert len(seen) == 1 and {"step 3", "step 4"} <= names and "step 2" not in names
    with profile() as prof:
        record_function("decorated")(lambda: None)()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "decorated" in {e["name"] for e in events}
    assert prof.key_averages().total_average().count >= 1


@pytest.mark.threads
def test_futures():
    from rushlight.futures import Future, collect_all, wait_all

    first, second = Future(), Future()
    after = first.then(lambda f: f.value() + 1)
    both = collect_all([first, second])
    threading.Thread(target=first.set_result, args=(1,)).start()
    assert after.wait() == 2 and not both.done()
    second.set_exception(ValueError("no"))
    assert both.wait()[0].value() == 1
    with pytest.raises(ValueError):
        wait_all([first, second])
    with pytest.raises(RuntimeError):
        first.set_result(2)


def test_custom_ops():
    library = rl.library

    @library.custom_op("test_lib::cube", mutates_args=())
    def cube(x: rl.Tensor) -> rl.Tensor:
        return x**3

    x = rl.tensor([2.0], requires_grad=True)
    assert cube(x).item() == 8
    library.register_autograd(
        "test_lib::cube",
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    cube(x).backward()
    assert x.grad.item() == 12
    cube.register_fake(lambda x: rl.empty_like(x))
    assert rl.ops.test_lib.cube(rl.ones(2, device="meta")).is_meta
    lib = library.Library("old_lib", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: 2 * x, "CPU")
    assert rl.ops.old_lib.twice(rl.ones(1)).item() == 2
    with pytest.raises(AttributeError, match=r"C\+\+ extension"):
        rl.ops.other_lib.op(1)


@pytest.mark.threads
def test_data_parallel():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    wrapped = nn.DataParallel(model)
    assert wrapped.module is model and rl.equal(wrapped(rl.ones(1, 2)), model(rl.ones(1, 2)))
    assert list(wrapped.state_dict()) == ["module.0.weight", "module.0.bias"]
    with pytest.raises(ValueError, match="process group has not been initialized"):
        nn.parallel.DistributedDataParallel(model)
    parts = nn.parallel.scatter((rl.ones(4, 2), {"a": rl.ones(2), "b": 3}), ["cpu", "cpu"])
    assert [p[0].shape for p in parts] == [(2, 2), (2, 2)]
    assert nn.parallel.gather([rl.ones(1, 2), rl.ones(1, 2)], "cpu").shape == (2, 2)


def test_compile_forms():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = rl.compile(model)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert set(compiled.parameters()) == set(model.parameters())
    compiled.eval()
    assert not model.training and not model[1].training
    compiled.train()
    assert model.training and len(compiled) == 2
    compiled.note = 3
    assert model.note == 3
    with pytest.raises(RuntimeError, match="mode and options"):
        rl.compile(model, mode="default", options={})
    with pytest.raises(TypeError):
        rl.compile(3)
    assert rl.compile(lambda x: x + 1, disable=True)(1) == 2

    @rl.compile(dynamic=True)
    def f(x, *, k=1):
        """Adds."""
        return x + k

    assert f(1, k=2) == 3 and f.__doc__ == "Adds."
    model.compile() if hasattr(model, "compile") else None


def test_flex_attention():
    from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

    rl.manual_seed(0)
    q, k, v = (rl.randn(2, 4, 8, 16, dtype=rl.float64, requires_grad=True) for _ in range(3))

    def causal(b, h, i, j):
        return i >= j

    mask = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=4)
    allowed = rl.ones(8, 8, dtype=rl.bool).tril()
    scores = (q @ k.mT / 4).masked_fill(~allowed, -rl.inf)
    assert flex_attention(q, k, v, block_mask=mask).allclose(scores.softmax(-1) @ v)
    assert mask.sparsity() == 25.0 and mask.to_dense().shape == (1, 1, 2, 2)
    slopes = rl.arange(4.0, dtype=rl.float64)

    def alibi(score, b, h, i, j):
        return score + slopes[h] * (j - i)

    distance = rl.arange(8)[None, :] - rl.arange(8)[:, None]
    expected = (q @ k.mT / 4 + slopes[:, None, None] * distance).softmax(-1) @ v
    out, lse = flex_attention(q, k, v, score_mod=alibi, return_lse=True)
    assert out.allclose(expected) and lse.shape == (2, 4, 8)
    out.sum().backward()
    assert q.grad is not None
    few = flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    assert few.shape == (2, 4, 8, 16)
    with pytest.raises(ValueError, match="enable_gqa"):
        flex_attention(q, k[:, :2], v[:, :2])
    nothing = create_block_mask(lambda b, h, i, j: i < 0, None, None, 8, 8)
    assert not flex_attention(q, k, v, block_mask=nothing).any()


def test_swap_tensors():
    a, b = nn.Parameter(rl.ones(2)), nn.Parameter(rl.zeros(3), requires_grad=False)
    a.note, keep = "a", [a, b]
    a.grad = rl.ones(2)
    rl.utils.swap_tensors(a, b)
    assert a.shape == (3,) and b.shape == (2,) and b.note == "a" and not hasattr(a, "note")
    assert keep[0] is a and not a.requires_grad and b.grad.tolist() == [1.0, 1.0] and a.grad is None


def test_pytree_paths():
    from rushlight.utils import _pytree as pytree

    tree = {"a": [1, (2, 3)], "b": 4}
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(p) for p, _ in pairs] == [
        "['a'][0]",
        "['a'][1][0]",
        "['a'][1][1]",
        "['b']",
    ]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pairs)
    doubled = pytree.tree_map_with_path(lambda path, x: x * len(path), tree)
    assert doubled == {"a": [2, (6, 9)], "b": 4} and spec.num_leaves == 4
