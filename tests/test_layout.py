"""The layout that is the library's business: results of convolutions lie channels-last in memory,
flow so through the ops around them, and no program can tell.

`arranged(t)` looks behind the curtain: the strides of the hidden form, or None once the tensor has
memory of its own. Everything else here is what a user can write.
"""

import copy
import io
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

arranged = torch._C._arranged_strides
with_onednn = torch.backends.mkldnn.is_available()
pytestmark = pytest.mark.skipif(not with_onednn, reason="without oneDNN convolutions stay as is")


@pytest.fixture(autouse=True)
def switched_on():
    with torch.config.patch(automatic_layout=True):
        yield


def image(*sizes, seed=0):
    values = np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)
    return torch.from_numpy(values)


def convolved(grad=False, sizes=(2, 3, 6, 5), seed=0):
    """A fresh result of a convolution, arranged, and the same values as NumPy has them."""
    x, w = image(*sizes, seed=seed), image(4, sizes[1], 3, 3, seed=seed + 1)
    with torch.config.patch(automatic_layout=False):
        expected = F.conv2d(x, w, padding=1).numpy().copy()
    y = F.conv2d(x, w.requires_grad_(grad), padding=1)
    assert arranged(y) is not None
    return y, expected


def test_a_result_is_arranged_and_looks_contiguous():
    y, expected = convolved()
    assert arranged(y) == (120, 1, 20, 4)
    assert y.stride() == (120, 30, 5, 1)
    assert [y.stride(d) for d in range(4)] == [120, 30, 5, 1]
    assert y.is_contiguous()
    assert not y.is_contiguous(memory_format=torch.channels_last)
    assert y.contiguous() is y
    assert y.storage_offset() == 0
    assert arranged(y) is not None, "asking for the geometry moves nothing"
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert arranged(y) is None


def test_the_switch_turns_it_off():
    with torch.config.patch(automatic_layout=False):
        y = F.conv2d(image(2, 3, 6, 5), image(4, 3, 3, 3))
    assert arranged(y) is None


SIGHTS = {
    "numpy": lambda y: y.numpy(),
    "array": np.asarray,
    "dlpack": np.from_dlpack,
    "view": lambda y: y.view(2, -1).numpy(),
    "view_as": lambda y: y.view_as(torch.empty(8, 30)).numpy(),
    "reshape": lambda y: y.reshape(-1).numpy(),
    "flatten": lambda y: y.flatten(1).numpy(),
    "ravel": lambda y: y.ravel().numpy(),
    "unflatten": lambda y: y.unflatten(1, (2, 2)).numpy(),
    "permute": lambda y: y.permute(0, 2, 3, 1).numpy(),
    "transpose": lambda y: y.transpose(1, 3).numpy(),
    "movedim": lambda y: y.movedim(1, -1).numpy(),
    "index": lambda y: y[1].numpy(),
    "slice": lambda y: y[:, 1:3, ::2].numpy(),
    "mask": lambda y: y[y == y].numpy(),
    "newaxis": lambda y: y[:, None].numpy(),
    "select": lambda y: y.select(1, 2).numpy(),
    "narrow": lambda y: y.narrow(2, 1, 3).numpy(),
    "chunk": lambda y: y.chunk(2, 1)[1].numpy(),
    "split": lambda y: y.split([1, 3], 1)[1].numpy(),
    "unbind": lambda y: y.unbind(1)[3].numpy(),
    "unfold": lambda y: y.unfold(2, 3, 2).numpy(),
    "diagonal": lambda y: y.diagonal(0, 2, 3).numpy(),
    "expand": lambda y: y.expand(3, 2, 4, 6, 5).numpy(),
    "squeeze": lambda y: y.unsqueeze(0).squeeze(0).numpy(),
    "as_strided": lambda y: y.as_strided((5, 3), (30, 2), 4).numpy(),
    "detach": lambda y: y.detach().numpy(),
    "data": lambda y: y.data.numpy(),
    "view_dtype": lambda y: y.view(torch.int32).numpy(),
    "tolist": lambda y: np.array(y.tolist(), dtype=np.float32),
    "item": lambda y: np.float32(y[1, 2, 3, 4].item()),
    "iteration": lambda y: np.stack([row.numpy() for row in y]),
    "clone": lambda y: y.clone().numpy(),
    "contiguous clone": lambda y: y.clone(memory_format=torch.contiguous_format).numpy(),
    "channels last": lambda y: y.to(memory_format=torch.channels_last).numpy(),
    "to double": lambda y: y.double().numpy(),
    "deepcopy": lambda y: copy.deepcopy(y).numpy(),
    "pickle": lambda y: pickle.loads(pickle.dumps(y)).numpy(),
    "storage": lambda y: np.array(y.untyped_storage().tolist(), dtype=np.uint8),
    "bytes": lambda y: np.frombuffer(memoryview(y.numpy()), dtype=np.float32),
    "sort": lambda y: y.sort(1)[0].numpy(),
    "argmax": lambda y: y.argmax(1).numpy(),
    "cumsum": lambda y: y.cumsum(1).numpy(),
    "softmax": lambda y: y.softmax(1).numpy(),
    "matmul": lambda y: (y @ torch.ones(5, 2)).numpy(),
    "gather": lambda y: y.gather(1, torch.ones(2, 1, 6, 5, dtype=torch.int64)).numpy(),
    "pad": lambda y: F.pad(y, (1, 2, 0, 1)).numpy(),
    "roll": lambda y: y.roll(1, 1).numpy(),
    "flip": lambda y: y.flip(1).numpy(),
    "sum": lambda y: y.sum((0, 2, 3)).numpy(),
    "group norm": lambda y: F.group_norm(y, 2).numpy(),
    "layer norm": lambda y: F.layer_norm(y, (6, 5)).numpy(),
    "interpolate": lambda y: F.interpolate(y, scale_factor=2).numpy(),
    "pixel shuffle": lambda y: F.pixel_shuffle(y, 2).numpy(),
    "channel shuffle": lambda y: F.channel_shuffle(y, 2).numpy(),
    "repr": lambda y: np.array([ord(c) for c in repr(y)]),
}


@pytest.mark.parametrize("name", SIGHTS)
def test_programs_see_a_contiguous_tensor(name):
    y, expected = convolved()
    plain = torch.from_numpy(y.clone().numpy())  # the very bits, in plain memory
    np.testing.assert_allclose(plain.numpy(), expected, rtol=1e-4, atol=1e-5)
    seen, meant = SIGHTS[name](y), SIGHTS[name](plain)
    assert seen.shape == meant.shape
    if name in ("sum", "group norm", "layer norm", "softmax", "matmul"):
        np.testing.assert_allclose(seen, meant, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(seen, meant)
        assert seen.strides == meant.strides


@pytest.mark.parametrize("alias", ["view", "detach", "numpy", "index", "data", "storage"])
def test_an_alias_shares_memory_from_then_on(alias):
    y, _ = convolved()
    y.mul_(0)
    assert arranged(y) is not None, "pointwise ops write in place where it lies"
    if alias == "storage":
        assert y.untyped_storage().data_ptr() == y.data_ptr()
        return
    other = {
        "view": lambda: y.view(-1),
        "detach": lambda: y.detach().view(-1),
        "numpy": lambda: y.numpy().reshape(-1),
        "index": lambda: y[0].view(-1),
        "data": lambda: y.data.view(-1),
    }[alias]()
    other[7] = 5
    assert y.reshape(-1)[7].item() == 5
    y.fill_(3)
    assert float(other[7]) == 3
    assert F.relu(y).sum().item() == y.numel() * 3
    ptr = y.data_ptr()
    assert y.view(-1).data_ptr() == ptr == y.detach().data_ptr()


def test_addresses_stay():
    y, _ = convolved()
    ptr = y.data_ptr()
    assert F.relu(y) is not y
    y.relu_()
    assert y.data_ptr() == ptr


FLOW = {
    "relu": F.relu,
    "relu_": lambda y: y.relu_(),
    "gelu": F.gelu,
    "hardswish": F.hardswish,
    "add": lambda y: y + y,
    "add number": lambda y: y + 1,
    "add_": lambda y: y.add_(y),
    "add contiguous": lambda y: y + image(2, 4, 6, 5),
    "contiguous add": lambda y: image(2, 4, 6, 5) + y,
    "scale channels": lambda y: y * image(1, 4, 1, 1),
    "scale by images": lambda y: image(2, 1, 1, 1) * y,
    "where": lambda y: torch.where(y > 0, y, image(2, 4, 6, 5)),
    "clamp": lambda y: y.clamp(-0.5, 0.5),
    "cast": lambda y: y.to(torch.bfloat16).float(),
    "clone": torch.clone,
    "batch norm": lambda y: F.batch_norm(y, None, None, training=True),
    "batch norm eval": lambda y: F.batch_norm(y, torch.zeros(4), torch.ones(4)),
    "group norm": lambda y: F.group_norm(y, 2, torch.ones(4), torch.zeros(4)),
    "instance norm": lambda y: F.instance_norm(y),
    "instance norm, tracked": lambda y: F.instance_norm(y, torch.zeros(4), torch.ones(4)),
    "nearest": lambda y: F.interpolate(y, scale_factor=2.0),
    "bilinear": lambda y: F.interpolate(y, scale_factor=1.5, mode="bilinear"),
    "bicubic, smaller": lambda y: F.interpolate(y, (3, 4), mode="bicubic", antialias=True),
    "max pool": lambda y: F.max_pool2d(y, 2),
    "max pool indices": lambda y: F.max_pool2d(y, 2, return_indices=True)[1],
    "average pool": lambda y: F.avg_pool2d(y, 2),
    "adaptive average pool": lambda y: F.adaptive_avg_pool2d(y, 2),
    "adaptive max pool": lambda y: F.adaptive_max_pool2d(y, 2),
    "cat": lambda y: torch.cat([y, y * 2], 1),
    "dropout": lambda y: F.dropout(y, 0.0, training=True),
    "conv": lambda y: F.conv2d(y, image(4, 4, 3, 3)),
    "conv transpose": lambda y: F.conv_transpose2d(y, image(4, 4, 3, 3)),
    "masked_fill": lambda y: y.masked_fill(y > 0, 0.0),
    "binary op with a view": lambda y: y * image(4, 2, 6, 5).transpose(0, 1).contiguous(),
}


@pytest.mark.parametrize("name", FLOW)
def test_the_layout_flows(name):
    y, _ = convolved()
    plain = torch.from_numpy(y.clone().numpy())
    with torch.config.patch(automatic_layout=False):
        torch.manual_seed(0)
        meant = FLOW[name](plain)
    torch.manual_seed(0)
    z = FLOW[name](y)
    assert arranged(z) is not None
    assert z.stride() == meant.stride()
    np.testing.assert_allclose(z.numpy(), meant.numpy(), rtol=1e-5, atol=1e-5)


def test_what_programs_ask_for_is_what_they_see():
    last = {"memory_format": torch.channels_last}
    x, w = image(2, 3, 6, 5), image(4, 3, 3, 3)
    y = F.conv2d(x.contiguous(**last), w)
    assert arranged(y) is None and y.is_contiguous(**last)
    y = F.conv2d(x, w.contiguous(**last))
    assert arranged(y) is None and y.is_contiguous(**last)
    y, _ = convolved()
    seen_last = image(2, 4, 6, 5).contiguous(**last)
    assert (seen_last + y).is_contiguous(**last)
    assert (y + seen_last).is_contiguous()
    assert F.relu(y.contiguous(**last)).is_contiguous(**last)


def test_shapes_that_are_both_layouts():
    y = F.conv2d(image(2, 3, 5, 5), image(4, 3, 5, 5))
    assert arranged(y) is None and y.stride() == (4, 1, 1, 1)
    y = F.conv2d(image(2, 3, 5, 5), image(1, 3, 3, 3))
    assert arranged(y) is None and y.stride() == (9, 9, 3, 1)
    y = F.conv2d(image(0, 3, 5, 5), image(4, 3, 3, 3))
    assert y.shape == (0, 4, 3, 3) and y.stride() == (36, 9, 3, 1)


def test_single_images_are_views():
    y = F.conv2d(image(3, 6, 5), image(4, 3, 3, 3), padding=1)
    assert y.shape == (4, 6, 5) and y.stride() == (30, 5, 1)


@pytest.mark.parametrize("sizes", [(2, 3, 6, 5), (1, 1, 4, 4), (3, 8, 1, 7)])
def test_dims_of_size_one(sizes):
    x, w = image(*sizes), image(8, sizes[1], 1, 1)
    y = F.conv2d(x, w)
    z = F.relu(F.max_pool2d(y, (1, 2)))
    expected = np.einsum("nchw,kc->nkhw", x.numpy(), w.numpy()[:, :, 0, 0])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)
    with torch.config.patch(automatic_layout=False):
        meant = F.relu(F.max_pool2d(y, (1, 2)))
    assert z.stride() == meant.stride()
    np.testing.assert_array_equal(z.numpy(), meant.numpy())


@pytest.mark.parametrize("sizes", [(2, 64, 9, 9), (3, 80, 7, 7), (5, 64, 1, 1), (2, 100, 1, 6)])
def test_kernels_of_one_point(sizes):
    x = F.conv2d(image(*sizes), torch.eye(sizes[1]).view(sizes[1], sizes[1], 1, 1))
    w = image(70, sizes[1], 1, 1, seed=1).requires_grad_()
    x.requires_grad_()
    g = image(sizes[0], 70, *sizes[2:], seed=2)
    y = F.conv2d(x, w)
    y.backward(g)
    a, b, c = (t.detach().double().numpy() for t in (x, w[:, :, 0, 0], g))
    for seen, meant in (
        (y, np.einsum("nchw,kc->nkhw", a, b)),
        (x.grad, np.einsum("nkhw,kc->nchw", c, b)),
        (w.grad[:, :, 0, 0], np.einsum("nkhw,nchw->kc", c, a)),
    ):
        np.testing.assert_allclose(seen.detach().numpy(), meant, rtol=1e-4, atol=2e-4)


# --- gradients ----------------------------------------------------------------------------------


class Block(nn.Module):
    """What networks are made of: every op whose layout flows, and some that settle."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.wide = nn.Conv2d(8, 16, 1, stride=2)
        self.short = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(32, 8, 2, stride=2)
        self.group = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8 * 9, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        x = self.deep(x) + x
        x *= torch.sigmoid(F.adaptive_avg_pool2d(x, 1))
        a, b = self.wide(x), F.leaky_relu(self.short(x))
        a += b
        x = F.silu(self.up(torch.cat([a, b], 1)))
        x = F.avg_pool2d(self.group(x), 3, 1)
        x = F.dropout(x, 0.3)
        x = x[:, :, ::2, ::2] * 2
        return self.head(F.adaptive_avg_pool2d(x, 3).flatten(1))


def trained(on, dtype=torch.float32):
    with torch.config.patch(automatic_layout=on):
        torch.manual_seed(3)
        model = Block().to(dtype)
        x = image(4, 3, 16, 16).to(dtype).requires_grad_()
        loss = model(x).square().mean()
        loss.backward()
        grads = {name: p.grad for name, p in model.named_parameters()}
        return loss, x.grad, grads, dict(model.named_buffers())


def test_gradients_are_the_same_with_and_without():
    ours, plain = trained(True), trained(False)
    np.testing.assert_allclose(ours[0].item(), plain[0].item(), rtol=1e-5)
    assert ours[1].stride() == plain[1].stride()
    np.testing.assert_allclose(ours[1].numpy(), plain[1].numpy(), rtol=2e-3, atol=1e-6)
    for name, g in plain[2].items():
        assert ours[2][name].stride() == g.stride(), name
        np.testing.assert_allclose(ours[2][name].numpy(), g.numpy(), rtol=2e-3, atol=1e-5)
    for name, b in plain[3].items():
        np.testing.assert_allclose(ours[3][name].numpy(), b.numpy(), rtol=1e-4, atol=1e-6)


def test_the_layout_flows_backward():
    seen = []

    conv = nn.Conv2d(3, 4, 3, padding=1)
    x = image(2, 3, 6, 6).requires_grad_()
    y = F.relu(F.batch_norm(conv(x), None, None, training=True))
    y.register_hook(lambda g: seen.append(arranged(g)))
    z = F.conv2d(F.max_pool2d(y, 2), image(4, 4, 3, 3))
    z.sum().backward()
    assert seen == [(144, 1, 24, 4)]
    assert x.grad.stride() == (108, 36, 6, 1)
    assert conv.weight.grad.stride() == conv.weight.stride()


def test_pools_of_single_points_hand_the_layout_back():
    conv = nn.Conv2d(3, 4, 3, padding=1)
    grads = []
    y = F.relu(conv(image(2, 3, 6, 6)))
    y.register_hook(lambda g: grads.append(arranged(g)))
    F.adaptive_avg_pool2d(y, 1).flatten(1).sum().backward()
    assert grads == [(144, 1, 24, 4)]


@pytest.mark.parametrize("name", ["group norm", "instance norm", "nearest", "bilinear"])
def test_the_layout_flows_backward_through(name):
    grads = []
    y, _ = convolved(grad=True)
    y.register_hook(lambda g: grads.append(g))
    z = FLOW[name](y)
    seed = image(*z.shape, seed=3)
    F.conv2d(z, image(4, 4, 1, 1, seed=4)).backward(seed)
    assert arranged(grads[0]) == (120, 1, 20, 4)
    with torch.config.patch(automatic_layout=False):
        plain = torch.from_numpy(y.detach().clone().numpy()).requires_grad_()
        F.conv2d(FLOW[name](plain), image(4, 4, 1, 1, seed=4)).backward(seed)
    np.testing.assert_allclose(grads[0].numpy(), plain.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_second_derivatives():
    def curvature(on):
        with torch.config.patch(automatic_layout=on):
            x, w = image(1, 2, 5, 5).requires_grad_(), image(3, 2, 3, 3, seed=1).requires_grad_()
            y = F.max_pool2d(torch.tanh(F.conv2d(x, w)), 2).square().sum()
            gx, gw = torch.autograd.grad(y, (x, w), create_graph=True)
            (gx.square().sum() + gw.pow(3).sum()).backward()
            return x.grad, w.grad

    for a, b in zip(curvature(True), curvature(False), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)


def test_forward_mode_and_vmap():
    x, w, t = image(2, 3, 6, 6), image(4, 3, 3, 3, seed=1), image(2, 3, 6, 6, seed=2)

    def f(x):
        return F.max_pool2d(F.gelu(F.conv2d(x, w)), 2)

    def all_of():
        _, tangent = torch.func.jvp(f, (x,), (t,))
        stacked = torch.stack([x, t])
        return (tangent, torch.func.vmap(f)(stacked), torch.func.jacrev(f)(x[:1, :, :4, :4]),
                torch.func.grad(lambda v: f(v).sum())(x))  # fmt: skip

    ours = all_of()
    with torch.config.patch(automatic_layout=False):
        plain = all_of()
    for a, b in zip(ours, plain, strict=True):
        assert a.stride() == b.stride()
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_autocast():
    def run(on):
        with torch.config.patch(automatic_layout=on):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))  # fmt: skip
            with torch.autocast("cpu", torch.bfloat16):
                y = model(image(2, 3, 12, 12))
            assert y.dtype == torch.bfloat16
            assert (arranged(y) is not None) == on
            y.float().sum().backward()
            return y.float(), model[0].weight.grad

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0.05, atol=0.05)


def test_batch_norm_in_half_precision_keeps_its_gradient():
    x = image(2, 4, 5, 5).bfloat16().requires_grad_()
    norm = nn.BatchNorm2d(4)
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
    y.float().square().sum().backward()
    assert x.grad is not None and norm.weight.grad is not None


# --- versions and saved tensors -----------------------------------------------------------------


def test_saved_tensors_keep_their_values_when_the_tensor_settles():
    y, _ = convolved(grad=True)
    z = (y * y).sum()  # saves y
    flat = y.detach().view(-1)
    assert arranged(y) is None
    (gy,) = torch.autograd.grad(z, y)
    np.testing.assert_allclose(gy.numpy(), 2 * flat.view_as(y).numpy(), rtol=1e-6)


@pytest.mark.parametrize("settle", [False, True])
@pytest.mark.parametrize("how", ["in place", "through a view", "through detach"])
def test_writes_to_saved_tensors_are_found(settle, how):
    y, _ = convolved(grad=True)
    z = (y * y).sum()
    if settle:
        y.numel(), y.detach().numpy()
    version = y._version
    with torch.no_grad():
        if how == "in place":
            y.add_(1)
        elif how == "through a view":
            y.view(-1)[3] = 0
        else:
            y.detach().zero_()
    assert y._version > version
    with pytest.raises(RuntimeError, match="overwritten by"):
        z.backward()


def test_writes_that_do_no_harm():
    x, w = image(2, 3, 6, 6), image(4, 3, 3, 3).requires_grad_()
    y = F.conv2d(x, w)
    version = y._version
    z = F.relu(y, inplace=True)
    assert z is y and y._version == version + 1 and arranged(y) is not None
    y.sum().backward()
    plain = w.grad.clone()
    w.grad = None
    with torch.config.patch(automatic_layout=False):
        F.relu(F.conv2d(x, w)).sum().backward()
    np.testing.assert_allclose(plain.numpy(), w.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_settling_is_no_write():
    y, _ = convolved(grad=True)
    z = torch.exp(y)  # saves its result
    version = z._version
    z.detach().numpy()
    assert z._version == version
    z.sum().backward()


def test_writes_in_place_with_history():
    def run(on):
        with torch.config.patch(automatic_layout=on):
            w = image(4, 3, 3, 3).requires_grad_()
            y = F.conv2d(image(2, 3, 6, 6), w)
            y[:, 1] = 2 * y[:, 0]
            y.view(2, -1)[0].mul_(3)
            y.clamp_(min=0)
            y += y.flip(3)
            y.sum().backward()
            return y, w.grad

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-4)


def test_saved_tensor_hooks_see_plain_tensors():
    packed = []

    def pack(t):
        packed.append(t.stride())
        return t.numpy().copy() if t.dim() == 4 else t

    def unpack(t):
        return torch.from_numpy(t) if isinstance(t, np.ndarray) else t

    w = image(4, 3, 3, 3).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = torch.tanh(F.conv2d(image(2, 3, 6, 6), w))
    y.sum().backward()
    assert (64, 16, 4, 1) in packed
    given = w.grad.clone()
    w.grad = None
    torch.tanh(F.conv2d(image(2, 3, 6, 6), w)).sum().backward()
    np.testing.assert_allclose(given.numpy(), w.grad.numpy(), rtol=1e-5)


def test_custom_functions():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            assert x.is_contiguous()
            return torch.from_numpy(x.detach().numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(g.numpy() * np.where(x.detach().numpy() < 9e9, 2, 0))

    w = image(4, 3, 3, 3).requires_grad_()
    Twice.apply(F.conv2d(image(2, 3, 6, 6), w)).sum().backward()
    given = w.grad.clone()
    w.grad = None
    (F.conv2d(image(2, 3, 6, 6), w) * 2).sum().backward()
    np.testing.assert_allclose(given.numpy(), w.grad.numpy(), rtol=1e-5)


def test_out_arguments():
    y, expected = convolved()
    plain = torch.from_numpy(expected)
    out = torch.empty(2, 4, 6, 5)
    torch.add(y, 1, out=out)
    np.testing.assert_allclose(out.numpy(), expected + 1, rtol=1e-4, atol=1e-5)
    into, _ = convolved()
    torch.mul(plain, 2, out=into)
    np.testing.assert_allclose(into.numpy(), expected * 2, rtol=1e-4, atol=1e-5)
    own, _ = convolved()
    torch.exp(own, out=own)
    np.testing.assert_allclose(own.numpy(), np.exp(expected), rtol=1e-4, atol=1e-5)


def test_assignments_of_data_and_set():
    y, expected = convolved()
    p = torch.zeros(1)
    p.data = y
    np.testing.assert_allclose(p.numpy(), expected, rtol=1e-4, atol=1e-5)
    y, _ = convolved()
    y.data = torch.ones(3)
    assert y.tolist() == [1, 1, 1] and arranged(y) is None
    y, _ = convolved()
    y.resize_(3)
    assert y.shape == (3,)
    y, _ = convolved()
    y.unsqueeze_(0)
    assert y.shape == (1, 2, 4, 6, 5)
    np.testing.assert_allclose(y[0].numpy(), expected, rtol=1e-4, atol=1e-5)
    y, _ = convolved()
    y.requires_grad_()
    (y * 2).sum().backward()
    assert y.grad.numpy().tolist() == np.full(y.shape, 2.0).tolist()


def test_saving(tmp_path):
    y, expected = convolved()
    torch.save({"y": y, "part": y[0]}, tmp_path / "y.pt")
    loaded = torch.load(tmp_path / "y.pt")
    np.testing.assert_allclose(loaded["y"].numpy(), expected, rtol=1e-4, atol=1e-5)
    assert loaded["part"].data_ptr() == loaded["y"].data_ptr()
    assert y.data_ptr() == y[0].data_ptr()
    buffer = io.BytesIO()
    torch.save(convolved()[0], buffer)
    buffer.seek(0)
    np.testing.assert_allclose(torch.load(buffer).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_modules_with_hooks_and_inference():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    kept = []
    model[0].register_forward_hook(lambda m, args, y: kept.append(y.detach().flatten().sum()))
    with torch.inference_mode():
        y = model(image(2, 3, 8, 8))
        assert y.is_inference() and y.is_contiguous()
        flat = y.view(-1)
    assert flat.is_inference() and len(kept) == 1
    with pytest.raises(RuntimeError, match="inference"):
        y.requires_grad_()


def test_memory_goes_when_the_tensor_goes():
    def live():
        return torch.memory_stats()["allocated"]

    x, w = image(8, 16, 64, 64), image(16, 16, 3, 3)
    F.conv2d(x, w, padding=1)
    before = live()
    y = F.conv2d(x, w, padding=1)
    size = y.numel() * 4
    assert size <= live() - before < size * 1.1
    y.view(-1)
    assert size <= live() - before < size * 1.1, "settled: the form is gone"
    del y
    assert live() - before < size * 0.1


def test_threads_that_read_one_tensor():
    """Some settle it, some use the form, some keep it for backward, all at once."""
    for seed in range(8):
        y, expected = convolved(sizes=(4, 3, 24, 24), seed=seed)
        y.requires_grad_()
        start = threading.Barrier(6)
        results, faults = {}, []

        def work(i, y=y, start=start, results=results, faults=faults):
            try:
                start.wait()
                for _ in range(20):
                    if i % 3 == 0:
                        results[i] = (y * 2).detach().numpy() / 2
                    elif i % 3 == 1:
                        results[i] = y.detach().view(-1).numpy().reshape(y.shape)
                    else:
                        (g,) = torch.autograd.grad((y * y).sum(), y)
                        results[i] = g.numpy() / 2
            except Exception as fault:
                faults.append(fault)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not faults
        for i in range(6):
            np.testing.assert_allclose(results[i], expected, rtol=1e-4, atol=1e-4)
        assert y.data_ptr() == y.detach().data_ptr()


@pytest.mark.threads
def test_backward_beside_a_thread_that_looks():
    w = image(8, 3, 3, 3).requires_grad_()
    x = image(4, 3, 24, 24)
    y = F.conv2d(x, w)
    z = F.max_pool2d(torch.tanh(y), 2)
    loss = (z * z).sum()
    looks = []
    looker = threading.Thread(target=lambda: looks.append(y.detach().numpy().sum()))
    looker.start()
    loss.backward()
    looker.join()
    given = w.grad.clone()
    w.grad = None
    with torch.config.patch(automatic_layout=False):
        F.max_pool2d(torch.tanh(F.conv2d(x, w)), 2).square().sum().backward()
    np.testing.assert_allclose(given.numpy(), w.grad.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("isa", ["avx2", "native"])
def test_strided_points_read_only_their_own_memory(isa):
    """Weights' gradients of 1x1 kernels with a stride, while freed memory holds other numbers."""
    program = """
import rushlight as torch
from rushlight.nn import functional as F
for channels in (1, 2, 3, 5):
    x, w = torch.randn(2, channels, 8, 8), torch.randn(4, channels, 1, 1)
    seen = []
    for junk in (1e6, -3e5, 7e6):
        for size in (6, 16, 64, 128, 256, 512, 1024):
            torch.full((size,), junk)  # and freed
        leaf = w.clone().requires_grad_()
        F.conv2d(x, leaf, stride=2).square().sum().backward()
        seen.append(leaf.grad)
    exact = w.double().requires_grad_()
    F.conv2d(x.double(), exact, stride=2).square().sum().backward()
    for grad in seen:
        assert torch.allclose(grad.double(), exact.grad, rtol=1e-4, atol=1e-3), channels
"""
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "RUSHLIGHT_ISA": "avx2"} if isa == "avx2" else {}
    subprocess.run([sys.executable, "-c", program], env=os.environ | limits, check=True)
