"""Callbacks at the end of a pass of backward, and what a hook can ask about the pass."""

import threading

import pytest

import rushlight as rl

ENGINE = rl.autograd.Variable._execution_engine


def hooked(x, hook):
    y = x * 2
    y.register_hook(hook)
    return y.sum()


def test_callbacks_run_when_all_gradients_are_there():
    x, seen = rl.ones(2, requires_grad=True), []
    hooked(x, lambda g: ENGINE.queue_callback(lambda: seen.append(x.grad.tolist()))).backward()
    assert seen == [[2, 2]]
    rl.autograd.backward(hooked(x, lambda g: None))
    assert seen == [[2, 2]], "it runs once"


def test_callbacks_may_queue_callbacks():
    x, seen = rl.ones(1, requires_grad=True), []

    def first():
        seen.append("first")
        ENGINE.queue_callback(lambda: seen.append("second"))

    def hook(g):
        ENGINE.queue_callback(first)
        ENGINE.queue_callback(lambda: seen.append("third"))

    rl.autograd.grad(hooked(x, hook), x)
    assert seen == ["first", "third", "second"]


def test_each_pass_has_its_own():
    x, seen = rl.ones(1, requires_grad=True), []

    def outer(g):
        ENGINE.queue_callback(lambda: seen.append("outer"))
        inner = rl.ones(1, requires_grad=True)
        with rl.enable_grad():
            last = hooked(inner, lambda g: ENGINE.queue_callback(lambda: seen.append("inner")))
        last.backward()
        seen.append("between")

    hooked(x, outer).backward()
    assert seen == ["inner", "between", "outer"]


def test_errors_reach_the_caller():
    def fail():
        raise KeyError("mine")

    x = rl.ones(1, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        hooked(x, lambda g: ENGINE.queue_callback(fail)).backward()
    with pytest.raises(RuntimeError, match="while backward runs"):
        ENGINE.queue_callback(fail)
    with pytest.raises(TypeError):
        hooked(x, lambda g: ENGINE.queue_callback(3)).backward()


def test_passes_have_numbers_and_nodes():
    x, seen = rl.ones(1, requires_grad=True), []

    def hook(g):
        seen.append((rl._C._current_graph_task_id(), rl._C._current_autograd_node()))

    for _ in range(2):
        hooked(x, hook).backward()
    (first, node), (second, _) = seen
    assert 0 <= first < second and type(node).__name__ == "MulBackward0"
    assert rl._C._current_graph_task_id() == -1 and rl._C._current_autograd_node() is None


@pytest.mark.threads
def test_threads_do_not_mix():
    results = {}

    def work(i):
        x = rl.ones(1, requires_grad=True)
        mine = []
        for _ in range(50):
            hooked(x, lambda g: ENGINE.queue_callback(lambda: mine.append(i))).backward()
        results[i] = mine

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {i: [i] * 50 for i in range(4)}
