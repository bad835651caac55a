"""The rules of csrc/functors/optimizer.h over tensor ops: what a step is without fusion.

Used while ``rushlight.config.fused_optimizer`` is off, where a test holds both forms equal, and for
steps that are differentiated: nothing that an op keeps is written to. One parameter at a time,
each formula in the order of the fused one. ``o`` are the rule's options in the order of
csrc/ops/optim/optimizer_rules.cpp, ``s`` its 0-d states.
"""

import math

from rushlight import _C
from rushlight.autograd import enable_grad, no_grad


def _pull(p, g, maximize, decay):
    g = -g if maximize else g
    return g.add(p, alpha=decay) if decay != 0 else g


def _moments(g, mean, square, beta1, beta2):
    mean.lerp_(g, 1 - beta1)
    square.mul_(beta2).addcmul_(g, g, value=1 - beta2)


def _sgd(p, g, o, s, states):
    lr, momentum, dampening, decay, nesterov, maximize, first = o
    g = _pull(p, g, maximize, decay)
    if momentum != 0:
        (buffer,) = states
        if first:
            buffer.copy_(g)
        else:
            buffer.mul_(momentum).add_(g, alpha=1 - dampening)
        g = g.add(buffer, alpha=momentum) if nesterov else buffer
    p.add_(g, alpha=-lr)


def _adam(p, g, o, s, states):
    lr, beta1, beta2, eps, decay, amsgrad, maximize, decoupled = o
    step = s[0].add_(1).item()
    g = _pull(p, g, maximize, 0 if decoupled else decay)
    mean, square, *largest = states
    _moments(g, mean, square, beta1, beta2)
    if amsgrad:
        square = largest[0].copy_(_C.maximum(largest[0].clone(), square))
    if decoupled:
        p.mul_(1 - lr * decay)
    below = square.sqrt() / math.sqrt(1 - beta2**step) + eps
    p.addcdiv_(mean, below, value=-lr / (1 - beta1**step))


def _nadam(p, g, o, s, states):
    lr, beta1, beta2, eps, decay, momentum_decay, decoupled, maximize = o
    step = s[0].add_(1).item()
    mu = beta1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))
    after = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * momentum_decay))
    product = s[1].mul_(mu).item()
    g = _pull(p, g, maximize, 0 if decoupled else decay)
    mean, square = states
    _moments(g, mean, square, beta1, beta2)
    if decoupled:
        p.mul_(1 - lr * decay)
    below = (square / (1 - beta2**step)).sqrt() + eps
    p.addcdiv_(g, below, value=-lr * (1 - mu) / (1 - product))
    p.addcdiv_(mean, below, value=-lr * after / (1 - product * after))


def _radam(p, g, o, s, states):
    lr, beta1, beta2, eps, decay, decoupled, maximize = o
    step = s[0].add_(1).item()
    g = _pull(p, g, maximize, 0 if decoupled else decay)
    mean, square = states
    _moments(g, mean, square, beta1, beta2)
    if decoupled:
        p.mul_(1 - lr * decay)
    correction = 1 - beta2**step
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / correction
    rate = -lr / (1 - beta1**step)
    if length <= 5:
        p.add_(mean, alpha=rate)
        return
    share = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
    below = square.sqrt() + eps
    p.addcdiv_(mean, below, value=rate * math.sqrt(share) * math.sqrt(correction))


def _adamax(p, g, o, s, states):
    lr, beta1, beta2, eps, decay, maximize = o
    step = s[0].add_(1).item()
    g = _pull(p, g, maximize, decay)
    mean, norm = states
    mean.lerp_(g, 1 - beta1)
    norm.copy_(_C.maximum(norm * beta2, g.abs() + eps))
    p.addcdiv_(mean, norm, value=-lr / (1 - beta1**step))


def _adagrad(p, g, o, s, states):
    lr, lr_decay, decay, eps, maximize = o
    step = s[0].add_(1).item()
    g = _pull(p, g, maximize, decay)
    (total,) = states
    total.addcmul_(g, g)
    p.addcdiv_(g, total.sqrt() + eps, value=-lr / (1 + (step - 1) * lr_decay))


def _adadelta(p, g, o, s, states):
    lr, rho, eps, decay, maximize = o
    s[0].add_(1)
    g = _pull(p, g, maximize, decay)
    square, moved = states
    square.mul_(rho).addcmul_(g, g, value=1 - rho)
    delta = (moved + eps).sqrt() / (square + eps).sqrt() * g
    moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
    p.add_(delta, alpha=-lr)


def _rmsprop(p, g, o, s, states):
    lr, alpha, eps, decay, momentum, centered, maximize = o
    s[0].add_(1)
    g = _pull(p, g, maximize, decay)
    square, *more = states
    square.mul_(alpha).addcmul_(g, g, value=1 - alpha)
    if centered:
        mean = more[-1].lerp_(g, 1 - alpha)
        below = square.addcmul(mean, mean, value=-1).sqrt() + eps
    else:
        below = square.sqrt() + eps
    if momentum > 0:
        p.add_(more[0].mul_(momentum).addcdiv_(g, below), alpha=-lr)
    else:
        p.addcdiv_(g, below, value=-lr)


def _rprop(p, g, o, s, states):
    shrink, grow, least, most, maximize = o
    s[0].add_(1)
    g = -g if maximize else g
    previous, size = states
    agreement = g * previous
    factor = _C.ones_like(size).masked_fill_(agreement > 0, grow)
    size.mul_(factor.masked_fill_(agreement < 0, shrink)).clamp_(least, most)
    previous.copy_(g.masked_fill(agreement < 0, 0))
    p.addcmul_(previous.sign(), size, value=-1)


def _asgd(p, g, o, s, states):
    lr, lambd, alpha, t0, decay, maximize = o
    step, eta, mu = s[0].add_(1).item(), s[1].item(), s[2].item()
    g = _pull(p, g, maximize, decay)
    (average,) = states
    p.mul_(1 - lambd * eta).add_(g, alpha=-eta)
    if mu == 1:
        average.copy_(p)
    else:
        average.add_(p - average, alpha=mu)
    s[1].fill_(lr / (1 + lambd * lr * step) ** alpha)
    s[2].fill_(1 / max(1.0, step - t0))


_RULES = {
    "sgd": _sgd, "adam": _adam, "nadam": _nadam, "radam": _radam, "adamax": _adamax,
    "adagrad": _adagrad, "adadelta": _adadelta, "rmsprop": _rmsprop, "rprop": _rprop,
    "asgd": _asgd,
}  # fmt: skip


def step(rule, params, state, scalar_names, state_names, options):
    """As _C._optimizer_step: a step, or a list of the parameters whose states are missing."""
    with no_grad():
        return _step(rule, params, state, scalar_names, state_names, options, recorded=False)


def recorded_step(rule, params, state, scalar_names, state_names, options):
    """A step that gradients flow through (differentiable=True): parameters are not leaves, and
    states are new tensors after every step, since earlier ones are read by the backward pass."""
    with enable_grad():
        return _step(rule, params, state, scalar_names, state_names, options, recorded=True)


def _step(rule, params, state, scalar_names, state_names, options, recorded):
    with_grad = [p for p in params if p.grad is not None]
    needed = (*scalar_names, *state_names)
    missing = [p for p in with_grad if any(state.get(p, {}).get(k) is None for k in needed)]
    if missing:
        return missing
    options = [float(o) for o in options]
    for p in with_grad:
        own = state[p] if needed else {}
        if recorded:
            own.update({k: own[k].clone() for k in state_names})
            full = [p, p.grad]
        else:
            full = [p.detach(), p.grad.detach()]
        full += [own[k] for k in state_names]
        if p.is_complex():  # each part is a number of its own
            full = [_C.view_as_real(t) for t in full]
        _RULES[rule](full[0], full[1], options, [own[k] for k in scalar_names], full[2:])
    return None
