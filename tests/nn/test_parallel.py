"""nn.parallel on the CPU: cutting, copies, threads, joining. Over GPUs: tests/fake_gpu."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import parallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.tied = nn.Linear(4, 3)
        self.tied.weight = self.first.weight
        self.gone = None

    def forward(self, x, scale=1.0):
        return self.norm(self.first(x)) * scale + self.tied(x)


def test_copies_learn_for_the_model():
    rl.manual_seed(0)
    net = Net().eval()
    x = rl.rand(6, 4)
    net(x).sum().backward()
    want = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    copies = parallel.replicate(net, ["cpu", "cpu"])
    assert copies[0] is not net and copies[0].tied.weight is copies[0].first.weight
    assert copies[1].norm.running_mean is net.norm.running_mean
    parts = parallel.scatter(x, ["cpu", "cpu"])
    out = parallel.gather(parallel.parallel_apply(copies, parts), "cpu")
    assert rl.allclose(out, net(x))
    out.sum().backward()
    for p, g in zip(net.parameters(), want, strict=True):
        assert rl.allclose(p.grad, g)
    for copy in parallel.replicate(net, ["cpu"], detach=True):
        assert not any(p.requires_grad for p in copy.parameters())


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(4, 3),
        lambda: nn.Sequential(nn.Conv1d(2, 2, 3)),
        lambda: nn.MultiheadAttention(4, 2),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    ],
)
def test_copies_of_all_kinds_of_modules(make):
    module = make().eval()
    copy = parallel.replicate(module, ["cpu", "cpu"])[1]
    x = rl.rand(5, 2, 4)
    args = (x, x, x) if isinstance(module, nn.MultiheadAttention) else (x,)
    got, want = copy(*args), module(*args)
    if isinstance(want, tuple):
        got, want = got[0], want[0]
    assert rl.equal(got, want)


def test_threads_inherit_what_they_need():
    def state(x):
        return rl.is_grad_enabled(), rl.is_autocast_enabled("cpu"), (x @ x).dtype

    x = rl.rand(2, 2)
    assert parallel.parallel_apply([state] * 2, [x, x]) == [(True, False, rl.float32)] * 2
    with rl.no_grad(), rl.autocast("cpu", dtype=rl.bfloat16):
        found = parallel.parallel_apply([state] * 3, [x] * 3)
    assert found == [(False, True, rl.bfloat16)] * 3


def test_what_a_copy_raises_is_raised_with_its_number():
    def fails(x):
        if x.sum() > 3:
            raise KeyError("lost")
        return x

    with pytest.raises(KeyError, match="replica 1 on device cpu"):
        parallel.parallel_apply([fails, fails], [rl.zeros(2), rl.ones(5)])
    with pytest.raises(ValueError, match="2 modules, but 1 inputs"):
        parallel.parallel_apply([fails, fails], [rl.zeros(2)])


def test_cutting_and_joining():
    cut = parallel.scatter({"x": rl.arange(5), "n": [rl.ones(4, 2), 7], "none": None}, ["cpu"] * 2)
    assert [c["x"].tolist() for c in cut] == [[0, 1, 2], [3, 4]]
    assert [c["n"][0].shape[0] for c in cut] == [2, 2] and cut[1]["n"][1] == 7
    assert cut[0]["none"] is None
    joined = parallel.gather([{"a": (rl.ones(1, 2),)}, {"a": (rl.zeros(2, 2),)}], "cpu")
    assert joined["a"][0].tolist() == [[1, 1], [0, 0], [0, 0]]
    with pytest.raises(ValueError, match="no outputs"):
        parallel.gather([], "cpu")
    with pytest.warns(UserWarning, match="become a vector"):
        assert parallel.gather([rl.tensor(1.0), rl.tensor(2.0)], "cpu").tolist() == [1, 2]


def test_without_a_gpu_the_module_is_called():
    if rl.cuda.is_available():
        pytest.skip("there is a GPU")
    net = Net()
    wrapped = nn.DataParallel(net, device_ids=[0, 1])
    assert wrapped.device_ids == [] and wrapped(rl.rand(2, 4), scale=2.0).shape == (2, 3)
    assert parallel.data_parallel(net, rl.rand(2, 4), module_kwargs={"scale": 1}).shape == (2, 3)
