"""profile: what is recorded, how it nests, what each event knows."""

import gc
import threading
import time

import pytest

import rushlight as rl
from rushlight import _C, nn
from rushlight.profiler import ProfilerActivity, profile, record_function

EVALUATE = "autograd::engine::evaluate_function: "


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def train_step(model, optimizer):
    x, y = rl.randn(4, 8), rl.tensor([0, 1, 2, 3])
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def named(events, name):
    return [e for e in events if e.name == name]


def one(events, name):
    (found,) = named(events, name)
    return found


# ---- ops and nesting


def test_ops_are_recorded_in_order():
    a = rl.ones(3)
    with profile() as prof:
        b = a + 1
        b.mul_(2)
        rl.exp(b, out=rl.empty(3))
    assert [e.name for e in prof.events()] == [
        "aten::add",
        "aten::mul_",
        "aten::empty",
        "aten::exp",
    ]
    starts = [e.time_range.start for e in prof.events()]
    assert starts == sorted(starts)
    assert all(0 <= e.time_range.start <= e.time_range.end for e in prof.events())
    before = len(prof.events())
    a + 1
    assert len(prof.events()) == before and not rl.autograd._profiler_enabled()


def test_names_are_pytorchs():
    x = rl.eye(2)
    with profile() as prof:
        x.to(rl.float64)
        x[0, 1:]
        nn.functional.conv2d(rl.ones(1, 1, 4, 4), rl.ones(1, 1, 3, 3))
    names = [e.name for e in prof.events()]
    assert names == [
        "aten::to",
        "aten::_to_copy",
        "aten::select",
        "aten::slice",
        "aten::ones",
        "aten::ones",
        "aten::conv2d",
        "aten::convolution",
    ]


def test_ops_inside_ops():
    x, w, b = rl.randn(4, 8), rl.randn(16, 8), rl.randn(16)
    with profile() as prof, record_function("all"):
        rl.nn.functional.linear(x, w, b)
        rl.stack([b, b])
    outer = one(prof.events(), "all")
    assert [c.name for c in outer.cpu_children] == ["aten::linear", "aten::stack"]
    for event in prof.events():
        for child in event.cpu_children:
            assert child.cpu_parent is event
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end


def test_self_times_and_gaps_add_up():
    model = mlp()
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    train_step(model, optimizer)
    with profile(with_modules=True) as prof:
        for _ in range(5):
            train_step(model, optimizer)
            time.sleep(0.002)
    events = prof.events()
    top = [e for e in events if e.cpu_parent is None]
    ends = [0.0, *(e.time_range.end for e in top)]
    starts = [*(e.time_range.start for e in top), events.time_range.end]
    gaps = [start - end for end, start in zip(ends, starts, strict=True)]
    assert min(gaps) >= 0 and sum(gaps) > 5 * 2000
    assert all(e.self_cpu_time_total > -1e-6 for e in events)
    total = events.self_cpu_time_total + sum(gaps)
    assert total == pytest.approx(events.time_range.elapsed_us(), rel=0.01)


def test_what_is_observed_runs_as_it_does_alone():
    """Batch norm and max pooling have short cuts where nobody changes calls."""
    x = rl.randn(2, 3, 8, 8)
    norm = nn.BatchNorm2d(3)
    with profile() as prof:
        norm(x)
        nn.functional.max_pool2d(x, 2)
    names = [e.name for e in prof.events()]
    assert "aten::mean" not in names and "aten::var" not in names
    assert not [n for n in names if "indices" in n]


def test_interceptors_show_one_event_per_call():
    x = rl.randn(3, 4)
    with profile() as prof:
        rl.func.vmap(rl.sin)(x)
    assert len(named(prof.events(), "aten::sin")) == 1
    with profile() as prof, rl.autocast("cpu", dtype=rl.bfloat16):
        rl.exp(x)
        x @ x.T
    assert len(named(prof.events(), "aten::exp")) == 1
    product = named(prof.events(), "aten::matmul")[0]
    assert "aten::_to_copy" in {c.name for c in product.cpu_children}


# ---- backward


def test_backward_is_named_and_linked():
    w = rl.randn(3, requires_grad=True)
    with profile() as prof:
        y = (w * 2).exp()
        y.sum().backward()
    events = prof.events()
    evaluate = one(events, EVALUATE + "ExpBackward0")
    apply = one(events, "ExpBackward0")
    assert apply.cpu_parent is evaluate
    forward = one(events, "aten::exp")
    assert apply.forward is forward is evaluate.forward
    assert apply.sequence_nr == forward.sequence_nr >= 0
    assert apply.fwd_thread == forward.thread == apply.thread
    assert one(events, "MulBackward0").forward is named(events, "aten::mul")[0]
    leaf = one(events, "torch::autograd::AccumulateGrad")
    assert leaf.cpu_parent.name == EVALUATE + leaf.name and leaf.forward is None
    assert one(events, "MulBackward0").sequence_nr < apply.sequence_nr


def test_functions_and_hooks_run_inside_their_node():
    class Twice(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = rl.ones(3, requires_grad=True)
    y = Twice.apply(w)
    z = y.exp()
    z.grad_fn.register_hook(lambda inputs, outputs: (rl.cos(inputs[0]),))
    with profile() as prof:
        z.sum().backward()
    node = one(prof.events(), "TwiceBackward")
    assert "aten::mul" in {c.name for c in node.cpu_children}
    hook = one(prof.events(), "aten::cos")
    assert hook.cpu_parent.name == EVALUATE + "ExpBackward0"


def test_backward_on_the_engines_own_threads():
    """Passes nested more than 48 deep go on with another thread."""
    depth = 60
    w = rl.ones(1, requires_grad=True)

    class Nested(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.level = level
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            if ctx.level > 0:
                with rl.enable_grad():
                    Nested.apply(w, ctx.level - 1).sum().backward()
            return g, None

    with profile() as prof:
        Nested.apply(w, depth).sum().backward()
    nodes = named(prof.events(), "NestedBackward")
    assert len(nodes) == depth + 1
    assert len({e.thread for e in nodes}) > 1


# ---- what an event knows


def test_shapes_and_values():
    x, w = rl.randn(2, 3), rl.randn(3, 4)
    with profile(record_shapes=True) as prof:
        x @ w
        rl.add(x, x, alpha=3)
        rl.cat([x, x], 1)
        x.sum(dim=(0, 1), keepdim=True)
        nn.functional.linear(x, w.T, None)
    matmul = named(prof.events(), "aten::matmul")[0]
    assert matmul.input_shapes == [[2, 3], [3, 4]]
    assert matmul.structured_input_strides == [[3, 1], [4, 1]]
    assert matmul.input_dtypes == ["float", "float"]
    add = one(prof.events(), "aten::add")
    assert add.input_shapes == [[2, 3], [2, 3], []] and add.concrete_inputs[2] == 3
    cat = one(prof.events(), "aten::cat")
    assert cat.structured_input_shapes[0] == [[2, 3], [2, 3]] and cat.input_shapes[0] == []
    total = one(prof.events(), "aten::sum")
    assert total.concrete_inputs[1:3] == [[0, 1], True]
    linear = one(prof.events(), "aten::linear")
    assert linear.input_shapes == [[2, 3], [4, 3], []] and linear.input_dtypes[2] == ""
    with profile() as prof:
        x @ w
    assert prof.events()[0].input_shapes == []


def test_shapes_of_gradients():
    w = rl.randn(2, 3, requires_grad=True)
    with profile(record_shapes=True) as prof:
        w.exp().sum().backward()
    assert one(prof.events(), "ExpBackward0").input_shapes == [[2, 3]]


def test_flops_by_hand():
    a, b = rl.randn(5, 7), rl.randn(7, 11)
    x, k = rl.randn(2, 3, 10, 12), rl.randn(4, 3, 3, 3)
    with profile(with_flops=True) as prof:
        rl.mm(a, b)
        nn.functional.conv2d(x, k)
        a + a
    assert one(prof.events(), "aten::mm").flops == 2 * 5 * 7 * 11
    assert one(prof.events(), "aten::convolution").flops == 2 * (2 * 4 * 8 * 10) * (3 * 3 * 3)
    assert one(prof.events(), "aten::conv2d").flops == 0  # its parts count
    add = one(prof.events(), "aten::add")
    assert add.flops == 35 and add.bytes == 3 * 35 * 4


def test_flops_are_counted_once():
    model = mlp()
    x = rl.randn(4, 8)
    with profile(with_flops=True) as prof:
        model(x).sum().backward()
    model.zero_grad()
    costs = _C._op_costs(lambda: model(x).sum().backward())
    assert sum(e.flops for e in prof.events()) == sum(flops for _, _, flops, _ in costs) > 0


def test_memory_of_ops():
    x = rl.ones(1 << 16)
    with profile(profile_memory=True) as prof:
        y = x + 1
        del y
        z = rl.empty(1 << 18)
    add = one(prof.events(), "aten::add")
    room = 512  # blocks are rounded up
    assert 0 <= add.cpu_memory_usage - (1 << 16) * 4 <= room
    empty = one(prof.events(), "aten::empty")
    assert 0 <= empty.self_cpu_memory_usage - z.numel() * 4 <= room


def test_lines():
    x = rl.ones(1 << 17)  # so large that the GIL is released
    small = rl.ones(2)

    def inner():
        return x + 1, small.sin()

    with profile(with_stack=True) as prof:
        inner()
    for name in ("aten::add", "aten::sin"):
        event = one(prof.events(), name)
        assert "test_recording.py(" in event.source and event.source.endswith(": inner")
        assert event.stack[0] == event.source
        assert event.stack[1].endswith(": test_lines")
    with profile() as prof:
        inner()
    assert prof.events()[0].stack == [] and prof.events()[0].source.endswith(": inner")


def test_lines_in_backward():
    w = rl.ones(1 << 17, requires_grad=True)
    y = w.exp().sum()
    with profile(with_stack=True) as prof:
        y.backward()
    node = one(prof.events(), "ExpBackward0")
    assert node.stack[0].endswith(": test_lines_in_backward")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Tanh()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.proj(x).sin()


def test_modules():
    before = nn.Module.__call__
    model = nn.Sequential(Block(), Block())
    with profile(with_modules=True) as prof:
        model(rl.randn(2, 8)).sum().backward()
    assert nn.Module.__call__ is before
    events = prof.events()
    ranges = [e.name for e in events if e.is_python_function]
    assert ranges == [
        "nn.Module: Sequential",
        *(
            f"nn.Module: {i}{rest}"
            for i in "01"
            for rest in (" (Block)", ".layers.0 (Linear)", ".layers.1 (Tanh)", ".proj (Linear)")
        ),
    ]
    assert [e.module for e in named(events, "aten::tanh")] == ["0.layers.1", "1.layers.1"]
    assert [e.module for e in named(events, "aten::sin")] == ["0", "1"]
    assert [e.module for e in named(events, "SinBackward0")] == ["1", "0"]
    inside = [c for e in named(events, "TanhBackward0") for c in e.cpu_children]
    assert inside and {c.module for c in inside} == {"0.layers.1", "1.layers.1"}
    with profile() as prof:
        model(rl.randn(2, 8))
    assert not [e for e in prof.events() if e.is_python_function]


def test_a_module_that_fails_leaves_no_trace_behind():
    model = nn.Sequential(nn.Linear(8, 8))
    with profile(with_modules=True) as prof:
        with pytest.raises(ValueError, match="in module 0"):
            model(rl.randn(2, 9))
        model(rl.randn(2, 8))
    calls = [e for e in prof.events() if e.is_python_function]
    assert [e.failed for e in calls] == [True, True, False, False]
    assert [e.module for e in calls] == ["Sequential", "0"] * 2


# ---- ranges


def test_record_function_as_block_and_decorator():
    @record_function("decorated")
    def work(x):
        return x + 1

    with profile() as prof:
        with record_function("outer"), record_function("inner", "args"):
            work(rl.ones(2))
        assert work.__name__ == "work"
    inner, outer = one(prof.events(), "inner"), one(prof.events(), "outer")
    assert inner.cpu_parent is outer and inner.is_user_annotation
    assert one(prof.events(), "decorated").cpu_parent is inner
    assert one(prof.events(), "aten::add").cpu_parent.name == "decorated"
    with record_function("alone"):  # nobody listens
        pass


def test_ranges_that_overlap():
    a, b = record_function("a"), record_function("b")
    with profile() as prof:
        a.__enter__()
        b.__enter__()
        a.__exit__(None, None, None)
        rl.ones(1)
        b.__exit__(None, None, None)
    first, second = one(prof.events(), "a"), one(prof.events(), "b")
    assert second.cpu_parent is None and first.cpu_parent is None
    assert one(prof.events(), "aten::ones").cpu_parent is second
    assert first.time_range.end < second.time_range.end


def test_a_range_that_is_under_way_at_the_end():
    prof = profile()
    prof.start()
    with record_function("around"):
        rl.ones(2)
        prof.stop()
        rl.zeros(2)
    event = one(prof.events(), "around")
    assert not event.finished and event.time_range.end == prof.events().time_range.end
    assert not named(prof.events(), "aten::zeros")


def test_optimizers_and_loaders():
    model = mlp()
    optimizers = [
        rl.optim.SGD(model.parameters(), lr=0.1),
        rl.optim.AdamW(model.parameters(), lr=0.1),
    ]
    loader = rl.utils.data.DataLoader(rl.arange(4), batch_size=2)
    with profile() as prof:
        for _ in loader:
            pass
        for optimizer in optimizers:
            model(rl.ones(1, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    counts = {e.key: e.count for e in prof.key_averages()}
    assert counts["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3
    for name in ("SGD", "AdamW"):
        assert counts[f"Optimizer.step#{name}.step"] == 1
        assert counts[f"Optimizer.zero_grad#{name}.zero_grad"] == 1
    optimizers[0].step()  # and back to what it was
    assert not rl.optim.optimizer._step_ranges


# ---- errors


def test_an_op_that_fails():
    with profile(record_shapes=True, with_flops=True, profile_memory=True) as prof:
        with pytest.raises(ValueError):
            rl.ones(2, 3) @ rl.ones(2, 3)
        rl.ones(2) + 1
    failed = [e.name for e in prof.events() if e.failed]
    assert failed and failed[0] == "aten::matmul"
    add = one(prof.events(), "aten::add")
    assert not add.failed and add.flops == 2


def test_backward_that_fails():
    w = rl.ones(2, requires_grad=True)
    y = w.exp()
    y.register_hook(lambda g: 1 / 0)
    with profile() as prof:
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        w.sin()
    assert one(prof.events(), EVALUATE + "ExpBackward0").failed
    assert one(prof.events(), "aten::sin").cpu_parent is None


def test_an_error_leaves_the_block():
    prof = profile()
    with pytest.raises(KeyError), prof:
        rl.ones(2)
        raise KeyError("x")
    assert [e.name for e in prof.events()] == ["aten::ones"]
    assert not rl.autograd._profiler_enabled()


# ---- several profiles, several threads


def test_profiles_may_overlap():
    outer, inner = profile(), profile(record_shapes=True)
    outer.start()
    rl.ones(1)
    with record_function("range"):
        inner.start()
        rl.zeros(1)
        outer.stop()
        rl.full((1,), 2.0)
    inner.stop()
    assert [e.name for e in outer.events()] == ["aten::ones", "range", "aten::zeros"]
    assert [e.name for e in inner.events()] == ["aten::zeros", "aten::full"]


def test_too_many_profiles():
    profiles = [profile() for _ in range(5)]
    for prof in profiles[:4]:
        prof.start()
    with pytest.raises(RuntimeError, match="4"):
        profiles[4].start()
    for prof in profiles[:4]:
        prof.stop()
    with profiles[4]:
        rl.ones(1)
    assert profiles[4].events()


@pytest.mark.threads
def test_threads():
    """Those that begin while it records are seen, those that ran before are not."""
    go, done = threading.Event(), threading.Event()

    def work(name, wait=False):
        if wait:
            go.wait()
        with record_function(name):
            w = rl.ones(2, requires_grad=True)
            w.exp().sum().backward()
        done.set()

    old = threading.Thread(target=work, args=("old", True))
    old.start()
    before = threading.getprofile()
    with profile() as prof:
        go.set()
        new = [threading.Thread(target=work, args=(f"new {i}",)) for i in range(3)]
        for thread in new:
            thread.start()
        for thread in (old, *new):
            thread.join()
    assert threading.getprofile() is before
    ranges = [e for e in prof.events() if e.is_user_annotation]
    assert sorted(e.name for e in ranges) == ["new 0", "new 1", "new 2"]
    assert len({e.thread for e in ranges}) == len({e.system_thread for e in ranges}) == 3
    for event in ranges:
        inside = [e for e in prof.events() if e.thread == event.thread]
        assert "ExpBackward0" in {e.name for e in inside}
        assert [e for e in inside if e.cpu_parent is None] == [event]


@pytest.mark.threads
def test_threads_that_outlive_the_profile():
    begun, go = threading.Event(), threading.Event()
    seen = []

    def work():
        rl.ones(1)
        begun.set()
        go.wait()
        rl.zeros(1)
        seen.append(rl.autograd._profiler_enabled())

    thread = threading.Thread(target=work)
    with profile() as prof:
        thread.start()
        begun.wait()
    names = [e.name for e in prof.events()]
    live = _C._profiler_live_bytes()
    del prof
    gc.collect()
    assert _C._profiler_live_bytes() < live  # the sleeping thread holds nothing
    go.set()
    thread.join()
    assert names == ["aten::ones"] and seen == [False]


@pytest.mark.threads
def test_events_can_be_read_while_threads_write():
    ops = 3000

    def work():
        x = rl.ones(2)
        for _ in range(ops):
            x + 1

    with profile(record_shapes=True) as prof:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        counts = [len(prof.events()) for _ in range(5)]
        for thread in threads:
            thread.join()
    assert counts == sorted(counts)
    assert len(prof.events()) == 2 * (ops + 1)


def test_a_child_process_is_not_recorded(tmp_path):
    import os

    with profile() as prof:
        child = os.fork()
        if child == 0:
            rl.ones(2) + 1
            os._exit(1 if rl.autograd._profiler_enabled() else 0)
        assert os.waitpid(child, 0)[1] == 0
        rl.zeros(1)
    assert [e.name for e in prof.events()] == ["aten::zeros"]


# ---- life and cost


def test_nothing_is_left():
    gc.collect()
    before = _C._profiler_live_bytes()
    x = rl.ones(3, requires_grad=True)
    for _ in range(3):
        with profile(record_shapes=True, with_stack=True, with_modules=True) as prof:
            for _ in range(2000):
                x + 1
        assert _C._profiler_live_bytes() > before
        prof.events()
    del prof
    gc.collect()
    assert _C._profiler_live_bytes() == before


def test_a_profile_that_is_forgotten_ends():
    prof = profile()
    prof.start()
    prof._recording.close()
    del prof
    gc.collect()
    rl.ones(1)
    assert not rl.autograd._profiler_enabled()


def test_activities():
    with pytest.raises(ValueError, match="empty"):
        profile(activities=[])
    with pytest.raises(TypeError):
        profile(activities=["CPU"])
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        rl.ones(1)
    assert len(prof.events()) == 1


def test_the_older_profiler():
    from rushlight.autograd import DeviceType, profiler

    with profiler.profile(record_shapes=True, with_flops=True) as prof:
        rl.ones(2) + 1
    assert "aten::add" in prof.table() and "aten::add" in str(prof)
    event = prof.function_events[-1]
    assert event.device_type is DeviceType.CPU and event.flops == 2
    assert prof.self_cpu_time_total > 0 and prof.total_average().count == 2
    with profiler.profile(enabled=False) as prof:
        rl.ones(2)
    with pytest.raises(RuntimeError), prof, profiler.profile() as twice, twice:
        pass
    with profiler.emit_itt(enabled=False), profiler.emit_nvtx(enabled=False):
        pass


def test_collection_can_be_toggled():
    x = rl.ones(3)
    with profile() as prof:
        x.exp()
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        x.sin()
        with record_function("hidden"):
            x.cos()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU, ProfilerActivity.CUDA])
        x.sqrt()
    assert [e.name for e in prof.events()] == ["aten::exp", "aten::sqrt"]
    prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])  # nothing records any more
    assert len(prof.key_averages()) == 2
    with pytest.raises(ValueError, match="is not recorded"):
        prof.toggle_collection_dynamic(False, ["disk"])
