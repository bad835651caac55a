"""Irreducible representations, spherical harmonics, tensor products (scripted inside), equivariance, a small network"""

import torch
from e3nn import io, math, nn, o3, util
from same import Statistic, descend, fill, gradients, normal, use

PACKAGES = ["e3nn"]


def about(values):
    """e3nn scales activations by a moment that it estimates from random numbers."""
    return [Statistic(float(value), 0.01) for value in values.detach().reshape(-1)]


@use
def representations(folder):
    irreps = o3.Irreps("4x0e + 3x1o + 2x2e")
    yield "irreps", [str(irreps), irreps.dim, str(irreps.simplify()), irreps.lmax]
    rotation = o3.matrix_z(torch.tensor(0.3)) @ o3.matrix_y(torch.tensor(0.7))
    yield "matrix", irreps.D_from_matrix(rotation)
    for degree in range(4):
        yield (
            f"harmonics {degree}",
            o3.spherical_harmonics(degree, normal(5, 3), True, normalization="component"),
        )
    yield "wigner", o3.wigner_3j(2, 1, 1)
    yield (
        "angles",
        [o3.matrix_to_angles(rotation), o3.angles_to_quaternion(*o3.matrix_to_angles(rotation))],
    )
    yield (
        "embedding",
        math.soft_one_hot_linspace(
            normal(6).abs(), 0.0, 3.0, 5, basis="smooth_finite", cutoff=True
        ),
    )
    grid = o3.ToS2Grid(2, (6, 5))
    yield "grid", grid(normal(1, 9))


@use
def products(folder):
    a, b, out = (
        o3.Irreps("4x0e + 2x1o"),
        o3.Irreps("1x0e + 1x1o + 1x2e"),
        o3.Irreps("3x0e + 2x1o + 1x2e"),
    )
    x, y = normal(6, a.dim).requires_grad_(), normal(6, b.dim, key=1)
    for name, made in {
        "full": o3.FullyConnectedTensorProduct(a, b, out), "linear": o3.Linear(a, out), "norm": o3.Norm(a),
        "elementwise": o3.ElementwiseTensorProduct(a, a), "gate": None, "full tensor": o3.FullTensorProduct(a, b),
    }.items():  # fmt: skip
        if made is None:
            made = nn.Gate("2x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
            value = made(normal(3, made.irreps_in.dim))
        elif name in ("linear", "norm"):
            value = fill(made)(x)
        else:
            value = fill(made)(x, x if name == "elementwise" else y)
        yield name, about(value) if name == "gate" else value
        if value.requires_grad:
            yield f"{name} gradient", torch.autograd.grad(value.square().sum(), x)[0]
    product = fill(o3.FullyConnectedTensorProduct(a, b, out))
    turn = o3.rand_matrix()
    left = product(x @ a.D_from_matrix(turn).T, y @ b.D_from_matrix(turn).T)
    right = product(x, y) @ out.D_from_matrix(turn).T
    yield "equivariant", bool(torch.allclose(left, right, atol=1e-4))
    yield "symmetric", io.CartesianTensor("ij=ji").from_cartesian(torch.eye(3) + 0.5)
    yield "scripted", util.jit.script(product)(x, y)


@use
def network(folder):
    inside, shape = o3.Irreps("8x0e + 4x1o"), o3.Irreps("1x0e + 1x1o + 1x2e")

    class Convolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.product = o3.FullyConnectedTensorProduct(
                inside, shape, "4x0e", shared_weights=False
            )
            self.weights = nn.FullyConnectedNet(
                [5, 12, self.product.weight_numel], torch.nn.functional.silu
            )
            self.norm = nn.BatchNorm("4x0e")

        def forward(self, x, edges, vectors):
            harmonics = o3.spherical_harmonics(shape, vectors, True, "component")
            lengths = math.soft_one_hot_linspace(
                vectors.norm(dim=1), 0.0, 3.0, 5, "gaussian", False
            )
            messages = self.product(x[edges[0]], harmonics, self.weights(lengths))
            return self.norm(torch.zeros(6, 4).index_add(0, edges[1], messages))

    net = fill(Convolution())
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    x, vectors = normal(6, inside.dim), normal(8, 3)
    losses = descend(net, lambda step: (net(x, edges, vectors) - 1).square().mean(), 4)
    yield "losses", about(losses)
    yield "gradients", about(gradients(net))
