"""Attributes and calls of modules take slots of C++; every way to define them otherwise counts."""

import gc
import sys
import threading
import traceback
from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("scale", rl.ones(2))
        self.number = 3

    def forward(self, x, fail=False):
        if fail:
            raise LookupError("asked for")
        return self.layer(x) * self.scale


def frames_of_a_failing_call(net):
    try:
        net(rl.ones(1, 2), fail=True)
    except LookupError as error:
        return [f.name for f in traceback.extract_tb(error.__traceback__)]
    raise AssertionError("it did not fail")


def without_frames(net):
    return frames_of_a_failing_call(net) == ["frames_of_a_failing_call", "forward"]


def test_calls_have_no_frames_of_their_own():
    assert without_frames(Net())


class Mixin:
    def __getattr__(self, name):
        if name == "layer":
            return "mine"
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "other":
                return "no other"
            raise


def test_own_getattr_comes_first():
    class Own(Mixin, Net):
        pass

    class Below(Own):
        pass

    for net in (Own(), Below()):
        assert net.layer == "mine" and rl.equal(net.scale, rl.ones(2))
        assert net.other == "no other" and net.number == 3
        with pytest.raises(AttributeError, match="has no attribute 'another'"):
            _ = net.another


def test_own_getattribute_comes_first():
    class Own(Net):
        def __getattribute__(self, name):
            return "mine" if name == "layer" else super().__getattribute__(name)

    net = Own()
    assert net.layer == "mine" and rl.equal(net.scale, rl.ones(2))


def test_own_call_comes_first():
    class Own(Net):
        def __call__(self, *args):
            return "called", super().__call__(*args)

    x = rl.ones(1, 2)
    net = Own()
    told, y = net(x)
    assert told == "called" and rl.equal(y, net.forward(x))


def test_methods_given_later(monkeypatch):
    class Late(Net):
        pass

    net, other = Late(), Net()
    monkeypatch.setattr(Late, "__call__", lambda self, x: "late call")
    monkeypatch.setattr(Late, "__getattr__", lambda self, name: f"late {name}", raising=False)
    assert net(1) == "late call" and net.layer == "late layer"
    assert isinstance(other.layer, nn.Linear) and other(rl.ones(1, 2)).shape == (1, 2)
    monkeypatch.undo()
    assert isinstance(net.layer, nn.Linear) and net(rl.ones(1, 2)).shape == (1, 2)


def test_a_forward_of_one_object():
    net = Net()
    net.forward = lambda x: x + 1
    assert net(1) == 2
    del net.forward
    assert net(rl.ones(1, 2)).shape == (1, 2)


def test_module_itself_replaced_for_a_while(monkeypatch):
    net = Net()
    monkeypatch.setattr(nn.Module, "__call__", lambda self, *a, **k: "replaced")
    assert net(1) == "replaced"
    monkeypatch.undo()
    assert net(rl.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize("how", ["profiler", "fx"])
def test_tools_that_replace_methods_give_them_back(how):
    net, x = Net(), rl.ones(1, 2)
    if how == "profiler":
        with rl.profiler.profile(with_modules=True) as prof:
            net(x)
        assert any("layer" in e.name for e in prof.events())
    else:
        assert [n.op for n in rl.fx.symbolic_trace(net, {"fail": False}).graph.nodes]
    assert without_frames(net)


def test_groups_that_read_their_items_in_another_way():
    class Counting(OrderedDict):
        reads = 0

        def __getitem__(self, key):
            type(self).reads += 1
            return super().__getitem__(key)

    net = nn.Linear(2, 2)
    net._parameters = Counting(net._parameters)
    assert net.weight.shape == (2, 2) and Counting.reads > 0


def test_what_is_missing():
    class Unfinished(nn.Module):
        def __init__(self):
            self.width = 3

        @property
        def broken(self):
            return self.absent

    class Broken(Net):
        broken = Unfinished.broken

    with pytest.raises(AttributeError, match=r"'Net' object has no attribute 'layr'"):
        _ = Net().layr
    with pytest.raises(AttributeError, match=r"'Broken' object has no attribute 'absent'"):
        _ = Broken().broken
    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) first"):
        Unfinished()(1)
    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) first"):
        _ = Unfinished()._modules
    assert Unfinished().width == 3 and not hasattr(Net(), "none") and hasattr(Net(), "layer")


def notes(error):
    """What was added to an error; to its text, where Python has no notes."""
    if hasattr(error, "add_note"):
        return getattr(error, "__notes__", [])
    return [line.strip() for line in str(error).splitlines()[1:]]


def test_arguments_that_forward_does_not_take_are_the_callers_fault():
    net = nn.Sequential(Net())
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'wrong'") as caught:
        Net()(rl.ones(1, 2), wrong=1)
    assert notes(caught.value) == ["in module Net itself"]
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        net(rl.ones(1, 2), 1)


def test_an_error_that_was_caught_names_where_it_came_from():
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Net(), Net()

        def forward(self, x):
            try:
                self.first(x, fail=True)
            except LookupError as error:
                self.seen = error
            return self.second(x, fail=True)

    net = nn.Sequential(Tries())
    with pytest.raises(LookupError) as caught:
        net(rl.ones(1, 2))
    assert notes(caught.value) == ["in module 0.second (Net) of Sequential"]
    assert not notes(net[0].seen)


def test_references_are_balanced():
    net, x = Net(), rl.ones(1, 2)

    def use():
        for _ in range(50):
            _ = net.layer, net.scale, net.number
            net(x)
            for bad in (lambda: net.missing, lambda: net(x, fail=True), lambda: net()):
                with pytest.raises((AttributeError, LookupError, TypeError)):
                    bad()

    use()
    gc.collect()
    watched = (net, net.layer, net.scale, net._modules, Net, x, None)
    before = [sys.getrefcount(o) for o in watched]
    use()
    gc.collect()
    after = [sys.getrefcount(o) for o in watched]
    assert all(abs(a - b) < 25 for a, b in zip(after, before, strict=True)), (before, after)


@pytest.mark.threads
def test_threads():
    net, x = Net(), rl.ones(1, 2)
    wrong = []

    def use():
        for _ in range(300):
            try:
                net(x, fail=True)
            except LookupError as error:
                if notes(error) != ["in module Net itself"]:
                    wrong.append(notes(error))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_deep_recursion_ends_in_python():
    class Deep(nn.Module):
        def forward(self, x):
            return self(x)

    with pytest.raises(RecursionError):
        Deep()(1)
