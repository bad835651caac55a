"""Functions of functions: gradients, Jacobians, vmap, ensembles of models."""

from collections.abc import Callable

import rushlight as torch
from rushlight import Tensor, nn
from rushlight.autograd.functional import hessian, jacobian
from rushlight.func import functional_call, grad, jacfwd, jacrev, stack_module_state, vmap

Params = dict[str, Tensor]


def per_sample_gradients(model: nn.Module, x: Tensor, y: Tensor) -> Params:
    params = {k: v.detach() for k, v in model.named_parameters()}
    buffers = {k: v.detach() for k, v in model.named_buffers()}

    def loss(params: Params, buffers: Params, sample: Tensor, target: Tensor) -> Tensor:
        out = functional_call(model, (params, buffers), (sample.unsqueeze(0),))
        return nn.functional.mse_loss(out, target.unsqueeze(0))

    return vmap(grad(loss), in_dims=(None, None, 0, 0))(params, buffers, x, y)


def ensemble(models: list[nn.Module], x: Tensor) -> Tensor:
    params, buffers = stack_module_state(models)

    def run(p: Params, b: Params, x: Tensor) -> Tensor:
        return functional_call(models[0], (p, b), (x,))

    return vmap(run, in_dims=(0, 0, None))(params, buffers, x)


def newton(f: Callable[[Tensor], Tensor], x: Tensor, steps: int = 20) -> Tensor:
    for _ in range(steps):
        x = x - torch.linalg.solve(hessian(f, x), grad(f)(x))
    return x


def maml_step(weight: Tensor, x: Tensor, y: Tensor, lr: float = 0.1) -> Tensor:
    inner = ((x @ weight - y) ** 2).mean()
    (g,) = torch.autograd.grad(inner, weight, create_graph=True)
    outer = ((x @ (weight - lr * g) - y) ** 2).mean()
    outer.backward()
    assert weight.grad is not None
    return weight.grad


def main() -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x, y = torch.randn(5, 3), torch.randn(5, 1)
    gradients = per_sample_gradients(model, x, y)
    assert gradients["0.weight"].shape == (5, 4, 3)
    out = ensemble([nn.Linear(3, 2) for _ in range(4)], x)
    assert out.shape == (4, 5, 2)
    a = jacobian(torch.sin, x[0])
    b, c = jacrev(torch.sin)(x[0]), jacfwd(torch.sin)(x[0])
    torch.testing.assert_close(a, b)
    torch.testing.assert_close(b, c)
    w = torch.randn(3, 1, requires_grad=True)
    maml_step(w, x, y)
    found = newton(lambda t: ((t - 2) ** 4 + (t - 2) ** 2).sum(), torch.zeros(2))
    return (found - 2).abs().max().item()


if __name__ == "__main__":
    main()
