"""Wrong uses of autograd: PyTorch's exception class, a text that says what to do, nothing lost."""

import warnings

import pytest

import rushlight as torch

F64 = torch.float64
grad, backward = torch.autograd.grad, torch.autograd.backward


def leaf(*shape):
    return torch.ones(*(shape or (3,)), dtype=F64, requires_grad=True)


def computed(*shape):
    return leaf(*shape) * 2


def twice(y):
    y.backward()
    y.backward()


def overwritten():
    y = leaf().exp()
    y.add_(1)
    y.sum().backward()


def with_no_grad(make):
    with torch.no_grad():
        return make()


def after(first, then):
    first()
    then()


X = leaf()
CASES = {
    # Where gradients start
    "no gradient for a non-scalar": (lambda: computed().backward(), RuntimeError, "shape \\[3\\]"),
    "no gradient for a non-scalar, grad": (lambda: grad(computed(), X), RuntimeError, "scalar"),
    "no gradient for a complex scalar": (
        lambda: torch.ones((), dtype=torch.complex64, requires_grad=True).backward(),
        RuntimeError,
        "complex",
    ),
    "gradient of another shape": (
        lambda: computed().backward(torch.ones(4, dtype=F64)),
        RuntimeError,
        "shape \\[4\\].*shape \\[3\\]",
    ),
    "gradient that would broadcast": (
        lambda: computed().backward(torch.ones((), dtype=F64)),
        RuntimeError,
        "shape",
    ),
    "complex gradient of a real tensor": (
        lambda: computed().backward(torch.ones(3, dtype=torch.complex128)),
        RuntimeError,
        "complex",
    ),
    "gradient that is a list": (lambda: computed().backward([1, 2, 3]), TypeError, "int"),
    "gradient that is a number": (lambda: computed().backward(1.0), TypeError, "float"),
    "gradient that is an array": (
        lambda: computed().backward(__import__("numpy").ones(3)),
        TypeError,
        "",
    ),
    "unknown keyword": (lambda: X.sum().backward(gradients=None), TypeError, "gradients"),
    "too many gradients": (
        lambda: backward([X.sum()], [torch.ones((), dtype=F64)] * 2),
        RuntimeError,
        "1 tensor.*2 gradients",
    ),
    "too few gradients": (
        lambda: grad([X.sum(), X.prod()], X, [torch.ones((), dtype=F64)]),
        RuntimeError,
        "2 tensors.*1 gradient",
    ),
    "root that is not a tensor": (lambda: backward([3.0]), (TypeError, AttributeError), ""),
    "root that is a leaf without grad": (
        lambda: torch.ones(()).backward(),
        RuntimeError,
        "requires_grad_",
    ),
    "root under no_grad": (
        lambda: with_no_grad(lambda: X.sum()).backward(),
        RuntimeError,
        "no_grad",
    ),
    "detached root": (lambda: X.sum().detach().backward(), RuntimeError, "detach"),
    "integer root": (lambda: X.long().sum().backward(), RuntimeError, "does not require grad"),
    "one root of two without grad": (
        lambda: backward([X.sum(), torch.ones(())]),
        RuntimeError,
        "element 1",
    ),
    # Where they end
    "no inputs": (lambda: X.sum().backward(inputs=[]), RuntimeError, "empty"),
    "input without grad": (
        lambda: grad(X.sum(), torch.ones(3)),
        RuntimeError,
        "does not require grad",
    ),
    "input that was not used": (lambda: grad(X.sum(), leaf()), RuntimeError, "allow_unused"),
    "input that is not a tensor": (lambda: grad(X.sum(), [3]), TypeError, ""),
    "allow_unused=False with materialize_grads": (
        lambda: grad(X.sum(), leaf(), allow_unused=False, materialize_grads=True),
        ValueError,
        "allow_unused",
    ),
    # Graphs that are gone, or overwritten
    "second backward": (lambda: twice((leaf() * leaf()).sum()), RuntimeError, "retain_graph=True"),
    "grad after backward": (
        lambda: (lambda y: after(y.backward, lambda: grad(y, X)))((X * X).sum()),
        RuntimeError,
        "retain_graph=True",
    ),
    "saved result overwritten": (overwritten, RuntimeError, "overwritten by add"),
    # Leaves and views in place
    "in-place on a leaf": (lambda: leaf().add_(1), RuntimeError, "leaf"),
    "augmented assignment of a leaf": (lambda: leaf().__imul__(2), RuntimeError, "leaf"),
    "in-place on a view of a leaf": (lambda: leaf()[0].zero_(), RuntimeError, "view of a leaf"),
    "assignment into a leaf": (lambda: leaf().__setitem__(0, 1.0), RuntimeError, "leaf"),
    "random fill of a leaf": (lambda: leaf().normal_(), RuntimeError, "leaf"),
    "in-place on an expanded tensor": (
        lambda: (leaf(1) * 2).expand(4).mul_(2),
        RuntimeError,
        "expand",
    ),
    "detach_ of a view": (lambda: computed()[0].detach_(), RuntimeError, "detach\\(\\)"),
    "resize_ of a computed tensor": (lambda: computed().resize_(2), RuntimeError, "requires grad"),
    "out= with an input that requires grad": (
        lambda: torch.add(X, 1, out=torch.empty(3, dtype=F64)),
        RuntimeError,
        "out",
    ),
    "out= that requires grad": (
        lambda: torch.add(torch.ones(3, dtype=F64), 1, out=leaf()),
        RuntimeError,
        "out",
    ),
    # Flags and attributes
    "requires_grad of an integer tensor": (
        lambda: torch.ones(2, dtype=torch.int64).requires_grad_(),
        RuntimeError,
        "int64",
    ),
    "requires_grad of a bool tensor": (
        lambda: setattr(torch.ones(2, dtype=torch.bool), "requires_grad", True),
        RuntimeError,
        "bool",
    ),
    "factory of integers that require grad": (
        lambda: torch.zeros(2, dtype=torch.int32, requires_grad=True),
        RuntimeError,
        "int32",
    ),
    "tensor() of integers that require grad": (
        lambda: torch.tensor([1, 2], requires_grad=True),
        RuntimeError,
        "int64",
    ),
    "requires_grad off for a computed tensor": (
        lambda: computed().requires_grad_(False),
        RuntimeError,
        "detach",
    ),
    "deleting requires_grad": (lambda: delattr(leaf(), "requires_grad"), Exception, ""),
    "grad of another shape": (
        lambda: setattr(leaf(), "grad", torch.ones(2, dtype=F64)),
        RuntimeError,
        "shape",
    ),
    "grad of another dtype": (
        lambda: setattr(leaf(), "grad", torch.ones(3)),
        RuntimeError,
        "float32",
    ),
    "grad that is not a tensor": (lambda: setattr(leaf(), "grad", 3), TypeError, "int"),
    "a tensor as its own grad": (
        lambda: (lambda x: setattr(x, "grad", x))(leaf()),
        RuntimeError,
        "own",
    ),
    "grad_fn is read-only": (lambda: setattr(leaf(), "grad_fn", None), Exception, ""),
    "data of integers": (
        lambda: setattr(leaf(), "data", torch.ones(3, dtype=torch.int64)),
        RuntimeError,
        "floating",
    ),
    "data that is not a tensor": (lambda: setattr(leaf(), "data", 3), TypeError, ""),
    "retain_grad without grad": (
        lambda: torch.ones(2).retain_grad(),
        RuntimeError,
        "does not require|gradient",
    ),
    "numpy of a tensor that requires grad": (lambda: X.numpy(), RuntimeError, "detach"),
    "set_grad_enabled without an argument": (lambda: torch.set_grad_enabled(), TypeError, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_raises(case):
    call, error, text = CASES[case]
    live = torch.memory_stats()["allocated"]
    with pytest.raises(error, match=text or None) as e:
        call()
    assert str(e.value).strip()
    assert "rush::" not in str(e.value) and "0x" not in str(e.value)  # no internals
    del e
    assert torch.is_grad_enabled()
    assert X.tolist() == [1, 1, 1] and X._version == 0
    assert torch.memory_stats()["allocated"] - live < 4096  # nothing of the failed call stays
    X.grad = None
    (X * X).sum().backward()  # and everything still works
    assert X.grad.tolist() == [2, 2, 2]
    X.grad = None


def test_at_least_forty():
    assert len(CASES) >= 40


def grad_warnings(read):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        read()
    assert all(issubclass(w.category, UserWarning) for w in seen)
    return [str(w.message) for w in seen]


def test_reading_the_grad_of_a_non_leaf_warns():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert "retain_grad()" in grad_warnings(lambda: y.grad)[0]
    assert len(grad_warnings(lambda: (y.grad, y.grad))) == 2  # the user's filters count them
    view = x[0]
    assert len(grad_warnings(lambda: view.grad)) == 1
    with pytest.raises(UserWarning), warnings.catch_warnings():
        warnings.simplefilter("error")
        y.grad  # noqa: B018 -- reading warns


def test_reading_other_grads_does_not_warn():
    x = torch.ones(2, requires_grad=True)
    kept = x * 2
    kept.retain_grad()
    assigned = x * 3
    assigned.grad = torch.ones(2)
    with torch.no_grad():
        outside = x * 2
    for t in (x, torch.ones(2), kept, assigned, outside, x.detach(), kept.detach()):
        assert grad_warnings(lambda t=t: t.grad) == []
    kept.sum().backward()
    assert grad_warnings(lambda: (x.grad, kept.grad)) == []
    assert grad_warnings(lambda: (repr(kept), repr(x * 2))) == []
