"""What libraries use of functorch and of torch._C._functorch."""

import functorch
import torch
from functorch import grad, jacfwd, jacrev, make_functional, make_functional_with_buffers, vmap
from torch import nn
from torch._C._functorch import (
    _add_batch_dim,
    _remove_batch_dim,
    get_unwrapped,
    is_batchedtensor,
    maybe_get_level,
    peek_interpreter_stack,
)

x = torch.rand(5, 2)
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
f, params = make_functional(model)
assert torch.equal(f(params, x), model(x))
assert all(p is not q and torch.equal(p, q) for p, q in zip(params, model.parameters()))
assert params[0].requires_grad and params[0].is_leaf
assert not make_functional(model, disable_autograd_tracking=True)[1][0].requires_grad


def loss(params, sample):
    return f(params, sample.unsqueeze(0)).sum()


per_sample = vmap(grad(loss), (None, 0))(params, x)
whole = torch.autograd.grad(model(x).sum(), list(model.parameters()))
assert all(torch.allclose(p.sum(0), w, atol=1e-5) for p, w in zip(per_sample, whole))
assert torch.allclose(jacrev(torch.sin)(x[0]), jacfwd(torch.sin)(x[0]))

norm = nn.BatchNorm1d(2)
try:
    make_functional(norm)
except RuntimeError as error:
    assert "make_functional_with_buffers" in str(error)
f, params, buffers = make_functional_with_buffers(norm)
assert torch.equal(f(params, buffers, x), nn.BatchNorm1d(2)(x))
assert norm.num_batches_tracked == 0

models = [nn.Linear(2, 3) for _ in range(4)]
f, params, buffers = functorch.combine_state_for_ensemble(models)
out = vmap(f, (0, 0, None))(params, buffers, x)
assert all(torch.allclose(out[i], m(x)) for i, m in enumerate(models))

assert not is_batchedtensor(x) and maybe_get_level(x) == -1 and peek_interpreter_stack() is None
try:
    get_unwrapped(x)
except RuntimeError:
    pass
else:
    raise AssertionError


def inside(sample):
    assert is_batchedtensor(sample) and maybe_get_level(sample) == 1
    assert get_unwrapped(sample).shape == (5, 2)
    top = peek_interpreter_stack()
    assert top.level() == 1 and top.key() == torch._C._functorch.TransformType.Vmap
    other = _add_batch_dim(torch.ones(3, 5), 1, 1)
    assert other.shape == (3,) and _remove_batch_dim(other, 1, 5, 0).shape == (5, 3)
    return sample + other[:2]


assert torch.equal(torch.vmap(inside)(x), x + 1)
level = torch._C._functorch._vmap_increment_nesting(5, "error")
assert level == 1 and is_batchedtensor(_add_batch_dim(x, 0, level))
assert torch._C._functorch._vmap_decrement_nesting() == 1
for name in ("functorch.compile", "torch._C._functorch.nothing"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert name in str(error)
    else:
        raise AssertionError
print("ok")
