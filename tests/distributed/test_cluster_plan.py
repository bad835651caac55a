"""distributed.plan: predictions that can be worked out by hand, and a fit of known links."""

import pytest

import rushlight as rl
from rushlight.distributed import Cluster, Link, _network, fit_network, plan, simulate
from rushlight.distributed._network import Ring, fit_line

FAST, SLOW = Link(1e-6, 1e11), Link(1e-5, 1e9)


def model(layers=4, width=64):
    return rl.nn.Sequential(*(rl.nn.Linear(width, width, bias=False) for _ in range(layers)))


def planned(cluster, **options):
    return plan(model(), rl.randn(8, 64), cluster, **options)


def split(found, data, sharded=False, tensor=1, pipeline=1):
    wanted = (data, sharded, tensor, pipeline)
    (one,) = [s for s in found.splits if (s.data, s.sharded, s.tensor, s.pipeline) == wanted]
    return one


def test_fit_finds_the_link():
    sizes = [1 << k for k in range(10, 25, 2)]
    for ranks in (2, 4, 8):
        times = [2 * (ranks - 1) * (2e-5 + size / ranks / 3e9) for size in sizes]
        found = fit_line(ranks, sizes, times)
        assert found.latency == pytest.approx(2e-5) and found.bandwidth == pytest.approx(3e9)
        assert found.measured and found.error < 1e-9
        assert Ring(found, found, ranks, 1).all_reduce(sizes[3]).seconds == pytest.approx(times[3])


def fit_with_clock(monkeypatch, seconds_of):
    """What two ranks fit that really reduce, by a clock of the test, as machines may be busy."""
    measure = _network._median_seconds

    def measured(size, group, turns):
        assert measure(size, group, turns) > 0
        return seconds_of(size)

    monkeypatch.setattr(_network, "_median_seconds", measured)

    def outcome(rank):
        try:
            return fit_network(sizes=(1 << 12, 1 << 22), turns=3)
        except RuntimeError as error:
            return str(error)

    return simulate(2, outcome)


@pytest.mark.threads
def test_fit_on_ranks(monkeypatch):
    links = fit_with_clock(monkeypatch, lambda size: 2 * (1e-5 + size / 2 / 1e9))
    assert links[0] == links[1] and links[0].measured
    assert links[0].bandwidth == pytest.approx(1e9) and links[0].latency == pytest.approx(1e-5)


def test_all_ranks_hear_that_nothing_fits(monkeypatch):
    told = fit_with_clock(monkeypatch, lambda size: 1e-3)
    assert all("no bandwidth can be told" in text for text in told)


def test_traffic_of_rings():
    two_nodes = Ring(FAST, SLOW, 4, 2).all_reduce(1e6)
    assert two_nodes.inside == pytest.approx(2 * 1e6 * 3 / 4)
    assert two_nodes.between == pytest.approx(2 * 1e6 / 2)
    assert two_nodes.seconds == pytest.approx(
        2 * (3 * (1e-6 + 1e6 / 4 / 1e11) + (1e-5 + 1e6 / 2 / 1e9))
    )


def test_figures_follow_from_the_model():
    parameters = 4 * 64 * 64 * 4  # bytes
    found = planned(Cluster(1, 4, 1e9, FAST, SLOW, flops=1e9))
    alone = planned(Cluster(1, 1, 1e9, FAST, SLOW, flops=1e9))
    assert [s.name for s in alone.splits] == ["one GPU"]
    assert alone.best.efficiency == pytest.approx(1)
    # forward: 2 operations per weight and sample; backward twice that, but for the inputs' gradient
    forward, backward = 2 * 4 * 64 * 64 * 8 / 1e9, 2 * (2 * 4 - 1) * 64 * 64 * 8 / 1e9
    assert alone.one_gpu.value == pytest.approx(forward + backward, rel=2e-3)  # and a sum
    assert alone.one_gpu.kind == "predicted"
    data = split(found, 4)
    assert data.inside_bytes.value == pytest.approx(2 * parameters * 3 / 4)
    assert data.seconds.value >= alone.one_gpu.value
    sharded = split(found, 4, True)
    assert sharded.inside_bytes.value == pytest.approx(3 * parameters * 3 / 4)
    assert sharded.memory.value < data.memory.value
    tensor = split(found, 1, tensor=4)
    assert tensor.inside_bytes.value == pytest.approx(4 * 4 * 2 * (8 * 64 * 4) * 3 / 4)
    pipeline = split(found, 1, pipeline=4)  # 8 micro-batches: a batch has 8 samples
    assert pipeline.seconds.value > alone.one_gpu.value / 4 * (8 + 3) / 8


def test_measured_and_predicted_are_told_apart():
    found = planned(Cluster(1, 2, 1e9, FAST, SLOW), optimizer=rl.optim.Adam, turns=2)
    assert found.one_gpu.kind == "measured"
    assert {s.seconds.kind for s in found.splits} == {"predicted"}
    assert "measured" in str(found) and "predicted" in str(found)
    with_state, without = found, planned(Cluster(1, 2, 1e9, FAST, SLOW), turns=1)
    grown = split(with_state, 2).memory.value - split(without, 2).memory.value
    assert grown == pytest.approx(2 * 4 * 64 * 64 * 4, rel=0.05)  # Adam's two moments


def test_what_does_not_fit_comes_last():
    found = planned(Cluster(2, 2, 1, FAST, SLOW, flops=1e9))
    assert found.best is None and "does not fit" in str(found)
    with pytest.raises(ValueError, match="bandwidth"):
        Link(1e-6, 0)
