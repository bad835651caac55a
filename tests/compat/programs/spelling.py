"""Spellings, switches and devices that programs use."""

import torch

x = torch.arange(12, dtype=torch.float).reshape(3, 4)
assert x.sum(axis=1).shape == (3,) and x.mean(axis=0, keepdims=True).shape == (1, 4)
assert torch.sum(x, axis=-1, keepdims=True).shape == (3, 1) and x.max(axis=1).values.shape == (3,)
assert torch.cat([x, x], axis=1).shape == (3, 8) and torch.stack([x, x], axis=0).shape == (2, 3, 4)
assert torch.zeros(size=(2, 3)).shape == torch.randn(size=(2, 3)).shape == (2, 3)
assert torch.randint(0, 5, size=(4,)).shape == (4,) and torch.rand(*[2, 2]).shape == (2, 2)
assert torch.concat([x, x]).shape == (6, 4) and torch.concatenate([x, x], axis=0).shape == (6, 4)
assert x.clip(min=1).min() == 1 and x.absolute().equal(x.abs()) and x.view(-1, 2).shape == (6, 2)
assert torch.softmax(x, axis=1).shape == x.softmax(dim=-1).shape and x.numpy().shape == (3, 4)
assert x.argmax(axis=1).tolist() == [3, 3, 3] and x.T.shape == (4, 3) and x.mT.shape == (4, 3)
assert x.nelement() == x.numel() == 12 and x.ndimension() == x.ndim == 2 and x.dim() == 2
assert torch.concat((x, x), dim=-1).size(1) == 8 and x.size(dim=0) == 3
assert torch.finfo(torch.float16).max == 65504 and torch.iinfo(torch.int8).min == -128
assert torch.finfo(torch.float8_e4m3fn).max == 448
assert torch.pi > 3 and torch.inf > 0 and torch.nan != torch.nan
assert x.data_ptr() == x.untyped_storage().data_ptr() and x.storage().size() == 12
assert not (x.is_cuda or x.is_sparse or x.is_quantized or x.is_mps or x.is_xpu or x.is_meta)
with torch.device("meta"):
    layer = torch.nn.Linear(1000, 1000)
assert layer.weight.is_meta and layer.to_empty(device="cpu").weight.device.type == "cpu"
torch.set_default_device("cpu")
assert torch.get_default_device() == torch.device("cpu")
torch.use_deterministic_algorithms(True, warn_only=True)
assert torch.are_deterministic_algorithms_enabled()
torch.set_num_threads(torch.get_num_threads())
assert torch.device("cuda:1").index == 1 and str(torch.device("cuda", 0)) == "cuda:0"
for kind in (torch.cuda, torch.xpu, torch.mps, torch.mtia, torch.backends.mps, torch.accelerator):
    assert not kind.is_available()
assert torch.accelerator.current_accelerator() is None and torch.cuda.device_count() == 0
assert torch.version.cuda is None and torch.version.hip is None
assert tuple(int(v) for v in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 0)
assert torch.__version__ >= "1.13" and torch.__version__ >= (2, 1) and torch.__version__ < "9"
assert not hasattr(torch, "npu") and not hasattr(torch.nn, "NoSuchLayer")
assert getattr(torch, "musa", None) is None
try:
    torch.npu.is_available()
except AttributeError as error:
    assert "compatibility.md" in str(error) and "Rushlight" in str(error)
try:
    torch.nn.Lineer
except AttributeError as error:
    assert "'Linear'" in str(error), error
try:
    import torch.no_such_module
except ImportError as error:
    assert "compatibility.md" in str(error)
try:
    import torchvision_that_is_not_there
except ModuleNotFoundError as error:
    assert error.name == "torchvision_that_is_not_there"
p = torch.nn.Parameter(torch.ones(2))
p.grad = torch.ones(2)
p.grad = None
p.data = torch.zeros(3)
p.requires_grad = False
assert p.shape == (3,) and not p.requires_grad
del p.grad
torch._assert(True, "fine")
torch._check(True, lambda: "fine")
params = [torch.ones(2), torch.ones(3)]
torch._foreach_mul_(params, 0.5)
assert [t.sum().item() for t in params] == [1.0, 1.5]
flat = torch._utils._flatten_dense_tensors(params)
assert [t.shape for t in torch._utils._unflatten_dense_tensors(flat, params)] == [(2,), (3,)]
print(x)
print("ok")
