"""Exchanging two tensors in place."""

from rushlight.autograd import no_grad


def swap_tensors(t1, t2):
    """Memory, gradient, class and attributes change places; both must be leaves of the graph."""
    for t in (t1, t2):
        if not t.is_leaf:
            raise RuntimeError("swap_tensors: only leaves of the graph can be swapped")
    with no_grad():
        data, grads = (t1.data, t2.data), (t1.grad, t2.grad)
        needs = t1.requires_grad, t2.requires_grad
        t1.grad = t2.grad = None
        t1.requires_grad_(False), t2.requires_grad_(False)
        t1.data, t2.data = data[1], data[0]
        if type(t1) is not type(t2):
            t1.__class__, t2.__class__ = type(t2), type(t1)
        for t, need, grad in ((t1, needs[1], grads[1]), (t2, needs[0], grads[0])):
            t.requires_grad_(need)
            t.grad = grad
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    t1.__dict__.clear(), t2.__dict__.clear()
    t1.__dict__.update(second), t2.__dict__.update(first)
