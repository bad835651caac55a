"""compile(options={"recompute": ...}): what backward makes again has the bits that were there."""

import gc
import threading

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

ON = {"least_elements": 1, "recompute": 1}
OFF = {"least_elements": 1, "recompute": False}
pytestmark = [pytest.mark.native, pytest.mark.threads]


def bits(t):
    t = t.detach()
    if t.dtype in (rl.float16, rl.bfloat16):
        t = t.view(rl.int16)
    return (tuple(t.shape), t.contiguous().numpy().tobytes())


def leaves(*shapes, seed=0, dtype=rl.float32):
    rng = np.random.default_rng(seed)
    return [rl.tensor(rng.standard_normal(s)).to(dtype).requires_grad_() for s in shapes]


def ways(f):
    """f as it is, compiled without recomputation, and with it."""
    return [f, rl.compile(f, options=OFF), rl.compile(f, options=ON)]


def block(x, w, v, gain, bias):
    """The inputs of both products, and all that lies between them, are cheap to make again."""
    y = F.layer_norm(x, (16,), gain, bias)
    h = F.silu(y @ w) * 2 + 1
    return (F.gelu(h.exp().sigmoid()) @ v).tanh()


def block_leaves(seed=0):
    return leaves((8, 16), (16, 24), (24, 4), (16,), (16,), seed=seed)


def not_kept(f, *args):
    before = rl.compiler.stats()["not_kept"]
    out = f(*args)
    return out, rl.compiler.stats()["not_kept"] - before


def equal_gradients(f, make, between=lambda out, args: None, backward=None, takes_part=True):
    """The bits of all gradients, three ways; `between` runs between forward and backward."""
    seen = []
    for way in ways(f):
        rl.manual_seed(3)
        args = make()
        out, bytes_left = not_kept(way, *args)
        between(out, args)
        if backward:
            found = backward(out, args)
        else:
            out.backward(rl.ones_like(out))
            found = [a.grad for a in args if a.grad is not None]
        seen.append([bits(out), *map(bits, found)])
    assert seen[0] == seen[1]
    assert seen[0] == seen[2]
    assert (bytes_left > 0) == takes_part, bytes_left


class RandomProgram:
    """Products, norms, activations, casts, dropout, residual sums, values kept or let go."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.picks = rng.integers(0, 15, size=int(rng.integers(3, 18)))
        self.others = rng.integers(0, 1 << 20, size=len(self.picks))
        self.half = bool(rng.random() < 0.4)
        self.writes = rng.random(len(self.picks)) < 0.15

    def __call__(self, x, w, gain, image, filters):
        values, kept = [x], []
        for pick, other, writes in zip(self.picks, self.others, self.writes, strict=True):
            v, u = values[-1], values[other % len(values)]
            if pick == 0:
                v = v.to(w.dtype) @ w
            elif pick == 1:
                v = F.layer_norm(v.float(), (16,), gain.float())
            elif pick == 2:
                v = F.rms_norm(v, (16,))
            elif pick == 3:
                v = F.softmax(v, -1)
            elif pick == 4:
                v = F.silu(v)
            elif pick == 5:
                v = F.gelu(v)
            elif pick == 6:
                v = v.to(rl.bfloat16 if self.half else rl.float64)
            elif pick == 7:
                v = F.dropout(v, 0.3)
            elif pick == 8:
                v = v + u
            elif pick == 9:
                v = v * u.sigmoid()
            elif pick == 10:
                v = v.tanh() if writes else v.relu()
            elif pick == 11:
                v = rl.where(v > 0, v, u * 0.5)
            elif pick == 12:
                y = F.conv2d(F.silu(F.group_norm(image, 2)), filters, padding=1)
                v = v + y.float().mean() * 0.1
            elif pick == 13:
                v = v.exp().clamp(max=3.0)
                kept.append(v)
            else:
                v = (v - v.mean()) / 2
            if writes and pick in (0, 8, 9):
                v = v.mul_(1.5) if v is not x else v
            values.append(v)
            if len(values) > 3:
                values.pop(other % 2)
        return sum((v.float().sum() for v in [*kept, values[-1]]), rl.zeros(()))


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part):
    rl.compiler.reset()
    for seed in range(part * 25, (part + 1) * 25):
        program, seen = RandomProgram(seed), []
        for way in ways(program):
            rl.manual_seed(seed)
            args = leaves((6, 16), (16, 16), (16,), (2, 4, 5, 5), (4, 4, 3, 3), seed=seed)
            try:
                out = way(*args)
                out.backward()
                seen.append([bits(out)] + [bits(a.grad) for a in args if a.grad is not None])
            except RuntimeError as error:  # written to after it was saved: all ways say so
                seen.append(str(error).split(" at ")[0].split("(")[0])
        assert seen[0] == seen[1] == seen[2], seed
    assert rl.compiler.stats()["not_kept"] > 0


def test_images():
    def unit(x, w, v):
        y = F.conv2d(F.silu(F.group_norm(x, 2)), w, padding=1)
        return F.conv2d(F.silu(F.batch_norm(y, None, None, training=True)), v, padding=1) + x

    equal_gradients(unit, lambda: leaves((2, 8, 6, 6), (8, 8, 3, 3), (8, 8, 3, 3)))


def test_under_autocast():
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 4, 3))

    def f(x, *_):
        with rl.autocast("cpu", dtype=rl.bfloat16):
            return model(x)

    def make():
        model.zero_grad()
        return [*leaves((2, 4, 9, 9)), *model.parameters()]

    equal_gradients(f, make)


WRITES = {
    "an op in place": lambda x: x.detach().add_(1),
    "through data": lambda x: x.data.mul_(2),
    "a view": lambda x: x.detach()[2:5].zero_(),
    "out=": lambda x: rl.add(x.detach(), 1, out=x.data),
    "copy_": lambda x: x.detach().copy_(rl.ones(x.shape)),
    "random numbers": lambda x: x.detach().normal_(),
    "a list": lambda x: rl._foreach_add_([x.data], 1.0),
    "an address": lambda x: x.detach().numpy().fill(7),
    "a buffer": lambda x: np.asarray(memoryview(x.detach().numpy())).fill(3),
    "DLPack": lambda x: (
        np.from_dlpack(x.detach()).__setitem__(slice(None), 5)
        if np.from_dlpack(x.detach()).flags.writeable
        else x.data.fill_(5)
    ),
    "sharing": lambda x: x.detach().share_memory_().fill_(2),
    "other data": lambda x: setattr(x, "data", rl.zeros(x.shape)),
    "a smaller shape": lambda x: x.data.resize_(2, 3).fill_(4),
    "a step of SGD": lambda x: step_of(rl.optim.SGD, x),
    "a step of Adam": lambda x: step_of(rl.optim.Adam, x),
}


def step_of(kind, x):
    p = nn.Parameter(x.data)
    p.grad = rl.ones(x.shape)
    kind([p], lr=0.5).step()


class Unsaved(rl.autograd.Function):
    """x + y of which nothing is saved: what reads it is a recipe over x's and y's memory alone."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g, g


@pytest.mark.parametrize("how", WRITES)
def test_what_is_read_may_be_written_to_before_backward(how):
    # exp keeps its result, and nothing keeps x: eager lets x be written to.
    def f(x, w):
        return (x.double() + 1).exp().mul(2).sigmoid() @ w

    def make():
        return [*leaves((6, 8)), *leaves((8, 3), dtype=rl.float64)]

    equal_gradients(f, make, lambda out, args: WRITES[how](args[0]))


def test_a_parameter_of_a_norm_takes_a_step():
    def f(x, gain, w):
        return F.silu(F.layer_norm(x, (8,), gain)) @ w

    def make():
        return leaves((6, 8), (8,), (8, 3))

    def between(out, args):
        args[1].data.add_(1)
        step_of(rl.optim.SGD, args[1])

    # (gain is saved by the norm itself, as a leaf whose version `data` does not count)
    equal_gradients(f, make, between)


@pytest.mark.parametrize("inside", [False, True])
def test_a_saved_tensor_that_is_overwritten_raises_as_always(inside):
    def f(x, w):
        y = (x * 2).sigmoid()
        z = y @ w
        kept.append(y)
        if inside:
            y.add_(1)
        return z

    for way in ways(f):
        kept = []
        x, w = leaves((4, 8), (8, 3))
        z = way(x, w)
        if not inside:
            with rl.no_grad():
                kept[0].add_(1)
        with pytest.raises(RuntimeError, match="overwritten by add"):
            z.sum().backward()


def test_a_saved_tensor_that_is_written_to_through_data():
    """As without compile: whoever writes past the versions changes the gradients."""

    def f(x, w):
        y = (x * 2).sigmoid()
        kept.append(y)
        return (y.exp() @ w) + (y @ w)

    kept = []

    def write(out, args):
        kept[-1].data.mul_(3)

    equal_gradients(f, lambda: leaves((4, 8), (8, 3)), write)


def test_an_op_in_place_whose_operand_was_made_of_what_it_writes():
    """The operand is saved by the node of the op that overwrites what the recipe reads."""

    def computed(x, w):
        x = x * 1
        y = F.silu(x.double() + x.sum())
        z = y @ w
        return z.sum() + x.mul_(y.float()).double().mul_(y).sum()

    def waiting(x, w):
        x = (x * 1) @ rl.ones(8, 8)
        y = F.silu(x.double()).float()
        x.mul_(y)
        return (F.silu(y.double()) @ w).sum() + x.double().sum()

    def made_before(x, w):
        x = (x * 1) @ rl.ones(8, 8)
        y = F.silu(x.detach().double())
        rl.relu_(x)
        return (y @ w).sum() + x.double().sum()

    def made_after(x, w):
        x = (x * 1) @ rl.ones(8, 8)
        y = F.silu(x.detach().double())
        y.sum().item()
        x.detach().add_(1)
        return (y @ w).sum()

    for f in (computed, waiting, made_before, made_after):
        found = []
        for way in ways(f):
            x, w = *leaves((6, 8)), *leaves((8, 3), dtype=rl.float64)
            way(x, w).backward()
            found.append([bits(t.grad) for t in (x, w) if t.grad is not None])
        assert found[0] == found[1] == found[2], f.__name__


def test_what_the_program_holds_may_be_read():
    def f(x, w):
        y = (x * 2).sigmoid()
        return y, y @ w

    found = []
    for way in ways(f):
        x, w = leaves((4, 8), (8, 3))
        y, z = way(x, w)
        z.sum().backward()
        found.append([bits(y), bits(x.grad), bits(w.grad)])
    assert found[0] == found[1] == found[2]


def test_backward_twice():
    def twice(out, args):
        out.sum().backward(retain_graph=True)
        first = [a.grad.clone() for a in args]
        out.sum().backward()
        return first + [a.grad for a in args]

    equal_gradients(block, block_leaves, backward=twice)


def test_backward_a_third_time_raises():
    x, *rest = block_leaves()
    out = rl.compile(block, options=ON)(x, *rest).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        out.backward()


def test_double_backward():
    def second(out, args):
        first = rl.autograd.grad(out.sum(), args, create_graph=True)
        rl.stack([g.square().sum() for g in first]).sum().backward()
        return [*first, *(a.grad for a in args)]

    equal_gradients(block, block_leaves, backward=second)


def test_one_tensor_saved_by_several():
    def f(x, a, b, c):
        y = F.silu(x)
        return (y @ a).sin() + (y @ b).cos() * (y @ c)

    shapes = ((6, 8), (8, 4), (8, 4), (8, 4))
    equal_gradients(f, lambda: leaves(*shapes))


def test_hooks_on_saved_tensors():
    seen = []

    def pack(t):
        seen.append(tuple(t.shape))
        return t.clone()

    def f(*args):
        with rl.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            return block(*args)

    counts = []
    for way in ways(f):
        seen.clear()
        args = block_leaves()
        way(*args).sum().backward()
        counts.append(sorted(seen))
    assert counts[0] == counts[1] == counts[2] and counts[0]


def test_what_a_node_shows_is_what_it_saved():
    shown = []
    for way in ways(lambda x, w: F.silu(x * 2) @ w):
        x, w = leaves((6, 8), (8, 4))
        out = way(x, w)
        values = [getattr(out.grad_fn, n) for n in dir(out.grad_fn) if n.startswith("_saved_")]
        shown.append([bits(v) for v in values if isinstance(v, rl.Tensor)])
        raw = next(n for n in dir(out.grad_fn) if n.startswith("_raw_saved_"))
        getattr(out.grad_fn, raw).register_hooks(lambda t: t.numpy().copy(), rl.tensor)
        out.sum().backward()
        shown[-1] += [bits(x.grad), bits(w.grad)]
    assert len(shown[0]) > 2 and shown[0] == shown[1] == shown[2]


def test_a_hook_that_raises_leaves_the_rest():
    def once(grad):
        raise ValueError("not today")

    results = []
    for way in ways(block):
        args = block_leaves()
        out = way(*args).sum()
        handle = args[1].register_hook(once)
        with pytest.raises(ValueError, match="not today"):
            out.backward(retain_graph=True)
        handle.remove()
        for a in args:
            a.grad = None
        out.backward()
        results.append([bits(a.grad) for a in args])
    assert results[0] == results[1] == results[2]


def test_an_exception_inside_the_function():
    def f(x, w):
        y = F.silu(x * 2) @ w
        if len(tries) < 2:
            tries.append(y)
            raise KeyError("inside")
        return F.silu(y)

    results = []
    for way in ways(f):
        tries = []
        x, w = leaves((6, 8), (8, 4))
        for _ in range(2):
            with pytest.raises(KeyError):
                way(x, w)
        rl.stack([t.sum() for t in tries]).sum().backward()  # what was made until then is good
        way(x, w).sum().backward()
        results.append([bits(x.grad), bits(w.grad)])
    assert results[0] == results[1] == results[2]


def test_backward_on_another_thread():
    def elsewhere(out, args):
        t = threading.Thread(target=lambda: out.sum().backward())
        t.start()
        t.join()
        return [a.grad for a in args]

    equal_gradients(block, block_leaves, backward=elsewhere)


def test_threads_share_a_graph():
    args = block_leaves()
    want = rl.autograd.grad(block(*args).sum(), args)
    out = rl.compile(block, options=ON)(*args).sum()
    found, faults = [], []

    def go():
        try:
            for _ in range(20):
                found.append(rl.autograd.grad(out, args, retain_graph=True))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=go) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults
    for grads in found:
        assert [bits(g) for g in grads] == [bits(g) for g in want]


def test_checkpoint_and_custom_functions():
    from rushlight.utils.checkpoint import checkpoint

    def f(x, w, v, gain, bias):
        y = Unsaved.apply(x * 2, x.sigmoid())
        return checkpoint(block, F.silu(y), w, v, gain, bias, use_reentrant=False)

    equal_gradients(f, block_leaves, takes_part=False)  # (checkpoint's own hooks pack)


def test_func_and_vmap():
    def f(x, w):
        return (F.silu(x * 2) @ w).square().sum()

    x, w = (t.detach() for t in leaves((5, 6, 8), (8, 4)))
    per_sample = rl.func.vmap(rl.func.grad(f), in_dims=(0, None))
    assert bits(per_sample(x, w)) == bits(rl.compile(per_sample, options=ON)(x, w))


def test_nothing_is_left_without_gradients():
    x, w = leaves((6, 8), (8, 4))
    with rl.no_grad():
        assert not_kept(rl.compile(lambda x, w: F.silu(x) @ w, options=ON), x, w)[1] == 0


def test_it_is_off_on_the_cpu_and_by_the_option():
    x, w = leaves((600, 800), (800, 400))
    for options in (None, {"recompute": True}, {"recompute": False}, {"recompute": 1 << 30}):
        assert not_kept(rl.compile(lambda x, w: F.silu(x * 2) @ w, options=options), x, w)[1] == 0
    _, left = not_kept(
        rl.compile(lambda x, w: F.silu(x * 2) @ w, options={"recompute": 4096}), x, w
    )
    assert left == x.nbytes  # silu's result: nothing else would keep x


@pytest.mark.parametrize("given", [0, -1, "yes", 1.5, None])
def test_an_impossible_option(given):
    with pytest.raises(rl.ArgumentError, match="recompute must be"):
        rl.compile(lambda x: x, options={"recompute": given})


def test_explain_says_so():
    x, w = leaves((6, 8), (8, 4))
    told = rl.compiler.explain(lambda x, w: F.silu(x * 2) @ w, options=ON)(x, w)
    assert told.not_kept == x.nbytes
    assert "192 bytes saved for backward are not kept" in str(told)
    told = rl.compiler.explain(lambda x, w: F.silu(x * 2) @ w, options=OFF)(x, w)
    assert told.not_kept == 0 and "bytes saved for backward" not in str(told)


def test_what_would_keep_more_is_kept():
    """The sum of two large tensors that nothing else keeps is smaller than both."""

    def f(x, y, w):
        return (x * 2 + y.tanh().detach()) @ w

    x, y, w = leaves((64, 8), (64, 8), (8, 4))
    _, left = not_kept(rl.compile(lambda x, y, w: f(x.clone(), y.clone(), w), options=ON), x, y, w)
    assert left == 0


def test_memory_goes_with_the_graph():
    f = rl.compile(block, options=ON)
    f(*block_leaves()).sum().backward()
    gc.collect()
    before = rl._C._deferred_counters()[-1]
    for _ in range(5):
        args = block_leaves()
        out = f(*args)
        assert rl._C._deferred_counters()[-1] > before
        del out, args
        assert rl._C._deferred_counters()[-1] == before
        f(*block_leaves()).sum().backward()
        assert rl._C._deferred_counters()[-1] == before


def test_frozen_functions_take_no_part():
    def step(x, w):
        loss = (F.silu(x * 2) @ w).square().sum()
        loss.backward()
        return loss

    frozen = rl.compile(rl.compile(step, options=ON), mode="frozen")
    for seed in range(8):
        (x, w), (a, b) = leaves((6, 8), (8, 4), seed=seed), leaves((6, 8), (8, 4), seed=seed)
        assert bits(frozen(x, w)) == bits(step(a, b))
        assert [bits(x.grad), bits(w.grad)] == [bits(a.grad), bits(b.grad)]
