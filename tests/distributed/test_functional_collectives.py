"""distributed._functional_collectives: new tensors, by groups, ranks and meshes."""

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed._functional_collectives as funcol
from rushlight.distributed.tensor import init_device_mesh

pytestmark = pytest.mark.threads

SIZE = 2


def test_collectives():
    def program(rank):
        mesh = init_device_mesh("cpu", (SIZE,), mesh_dim_names=("all",))
        x = rl.arange(8.0).view(4, 2) + 100 * rank
        before = x.clone()
        both = [np.arange(8.0).reshape(4, 2) + 100 * r for r in range(SIZE)]
        for group in (dist.group.WORLD, mesh, (mesh, 0), [0, 1]):
            np.testing.assert_array_equal(funcol.all_reduce(x, "sum", group).numpy(), sum(both))
        assert funcol.wait_tensor(x) is x
        found = {
            "max": (funcol.all_reduce(x, "MAX", mesh), both[1]),
            "many": (funcol.all_reduce_coalesced([x, x], "avg", mesh)[1], sum(both) / 2),
            "broadcast": (funcol.broadcast(x.t(), 1, mesh), both[1].T),
            "gather": (funcol.all_gather_tensor(x, 1, mesh), np.concatenate(both, 1)),
            "single": (funcol.all_gather_single(x, mesh), np.concatenate(both, 0)),
            "gathers": (funcol.all_gather_into_tensor_coalesced([x], mesh)[0],
                        np.concatenate(both, 0)),
            "scatter": (funcol.reduce_scatter_tensor(x, "sum", 0, mesh),
                        sum(both)[2 * rank : 2 * rank + 2]),
            "scatters": (funcol.reduce_scatter_tensor_coalesced([x], "sum", [1], mesh)[0],
                         sum(both)[:, rank : rank + 1]),
            "exchange": (funcol.all_to_all_single(x, None, None, mesh),
                         np.concatenate([b[2 * rank : 2 * rank + 2] for b in both])),
            "uneven": (funcol.all_to_all_single(x, [[1, 1], [3, 3]][rank], [1, 3], mesh),
                       np.concatenate([b[:1] if rank == 0 else b[1:] for b in both])),
            "permute": (funcol.permute_tensor(x, [1, 0], mesh), both[1 - rank]),
        }  # fmt: skip
        for name, (got, wanted) in found.items():
            np.testing.assert_array_equal(got.numpy(), wanted, err_msg=name)
        assert x.equal(before)
        with pytest.raises(ValueError, match="no reduction 'mean'"):
            funcol.all_reduce(x, "mean", mesh)
        with pytest.raises(ValueError, match="equal parts"):
            funcol.reduce_scatter_tensor(rl.ones(3), "sum", 0, mesh)
        with pytest.raises(ValueError, match="must stand in src_dst once"):
            funcol.permute_tensor(x, [0, 0], mesh)
        with pytest.raises(ValueError, match="name one of them"):
            funcol.all_reduce(x, "sum", init_device_mesh("cpu", (1, SIZE)))

    dist.simulate(SIZE, program)


def test_gradients():
    def program(rank):
        x = rl.full((2, 2), rank + 1.0, dtype=rl.float64, requires_grad=True)
        weights = rl.arange(1.0, 9.0, dtype=rl.float64).view(4, 2) * (rank + 1)
        (funcol.all_gather_tensor_autograd(x, 0, dist.group.WORLD) * weights).sum().backward()
        # All ranks' losses have this rank's rows: weights of both.
        want = 3 * np.arange(1.0, 9.0).reshape(4, 2)[2 * rank : 2 * rank + 2]
        np.testing.assert_array_equal(x.grad.numpy(), want)
        y = rl.ones(2, 2, dtype=rl.float64, requires_grad=True)
        out = funcol.reduce_scatter_tensor_autograd(y, "sum", 0, dist.group.WORLD)
        (out * (rank + 1)).sum().backward()
        np.testing.assert_array_equal(y.grad.numpy(), [[1, 1], [2, 2]])
        z = rl.ones(2, 2, dtype=rl.float64, requires_grad=True)
        out = funcol.all_to_all_single_autograd(z, None, None, dist.group.WORLD)
        (out * (rank + 1)).sum().backward()
        np.testing.assert_array_equal(z.grad.numpy(), [[1, 1], [2, 2]])
        assert not funcol.all_reduce(x, "sum", dist.group.WORLD).requires_grad

    dist.simulate(SIZE, program)
