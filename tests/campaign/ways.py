"""Makes one planned call, in the way that its plan asks for: as it is, with backward, under a
transform, from several threads, in a forked child."""

import contextlib
import os
import threading

from ops.sample import leaves, lookup

import rushlight as rl

from .drawn import DEVICE, Alias, Drawn, built
from .names import place

CHECKED = "CAMPAIGN_CHECKED" in os.environ  # under compute-sanitizer, which follows no forks


class Finding(Exception):
    """Something that must not happen: its kind, and what was seen."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def target(plan, args):
    """What is called, and its arguments."""
    last = plan.name.split(".")[-1]
    if plan.form == "class":
        return place(plan.name), args
    if plan.form in ("method", "index", "assign"):
        return getattr(type(args[0]), last), args
    if plan.form == "inplace":
        at = plan.row.method_self if plan.row else 0
        args = list(args)
        own = args.pop(at)
        return getattr(own, last.removesuffix("_") + "_"), args
    function = lookup(plan.name)
    return (function, args) if function else (getattr(type(args[0]), last), args)


def prepared(plan, plain):
    seen = {}
    args = built(plan.args, plain, seen)
    kwargs = built(plan.kwargs, plain, seen)
    return args, kwargs, seen


def invoke(plan, args, kwargs, seen, right=None):
    """The call itself. `right` are the results that out= is shaped after."""
    if plan.form == "out":
        kwargs = {**kwargs, "out": out_of(plan, seen, right)}
    function, args = target(plan, args)
    found = function(*args, **kwargs)
    if plan.form == "assign":
        return args[0]
    if plan.form == "class":
        return used(found, plan, seen)
    return found


def used(made, plan, seen):
    """What an object of a class answers to the things that such objects are asked."""
    then = built(list(plan.then), False, seen)
    if isinstance(made, rl.nn.Module):
        return made(*then)
    if isinstance(made, rl.distributions.Distribution):
        return made.log_prob(then[0]), made.sample().shape
    if isinstance(made, rl.optim.Optimizer):
        for group in made.param_groups:
            for p in group["params"]:
                p.grad = rl.ones_like(p)
        made.step()
        return made.state_dict()
    if isinstance(made, rl.distributions.Transform):
        return made(then[0])
    if hasattr(made, "__len__"):
        n = len(made)
        return made[0] if n and hasattr(made, "__getitem__") else n
    return None


def out_of(plan, seen, right):
    if isinstance(plan.out, Alias | Drawn):
        return built(plan.out, False, seen)
    if not isinstance(plan.out, str) or right is None:
        return built(plan.out, False, seen)
    made = []
    for r in right:
        options = {"dtype": r.dtype, "device": "cpu" if DEVICE == "cpu" else "cuda"}
        if plan.out == "empty" or not r.ndim:
            made.append(rl.empty(0, **options))
        elif plan.out == "strided":
            made.append(rl.empty(*r.shape[:-1], 2 * r.shape[-1], **options)[..., ::2])
        else:
            made.append(rl.empty(r.shape, **options))
    return made[0] if len(made) == 1 else tuple(made)


# --- ways -----------------------------------------------------------------------------------------


def in_its_way(plan, args, kwargs, seen, right):
    way = plan.way

    def once():
        return invoke(plan, args, kwargs, seen, right)

    if way == "backward":
        shared = any(isinstance(t, Alias) for t in plan.tensors)  # its gradients are added up
        return once_and_back(once, seen, not shared)
    if way in ("vmap", "jvp", "trace"):
        return transformed(way, plan, args, kwargs, seen, right)
    if way == "autocast":
        with rl.autocast("cpu", dtype=rl.bfloat16), rl.autocast("cuda", dtype=rl.bfloat16):
            return once()
    if way == "inference":
        with rl.inference_mode():
            return once()
    if way == "deterministic":
        rl.use_deterministic_algorithms(True)
        try:
            return once()
        finally:
            rl.use_deterministic_algorithms(False)
    if way == "threads":
        return at_once(once)
    if way == "fork" and not CHECKED:
        return forked(once)
    return once()


def once_and_back(once, seen, kept=True):
    found = once()
    inputs = [t for t in seen.values() if isinstance(t, rl.Tensor) and t.requires_grad]
    results = [
        t
        for t in leaves(found)
        if isinstance(t, rl.Tensor) and t.requires_grad and t.device.type != "meta"
    ]
    if not inputs or not results or any(t.is_sparse for t in results):
        return found
    seeds = [rl.ones_like(r) for r in results]
    try:
        gradients = rl.autograd.grad(results, inputs, seeds, allow_unused=True)
    except NotImplementedError:  # said by backward: the call itself has ended, and may have written
        return found
    return (found, gradients) if kept else found


def transformed(way, plan, args, kwargs, seen, right):
    """vmap, jvp and trace of the call as a function of its first tensor."""
    if not args or not isinstance(args[0], rl.Tensor):
        return invoke(plan, args, kwargs, seen, right)

    def function(x):
        return invoke(plan, (x, *args[1:]), kwargs, seen, right)

    x = args[0]
    if way == "vmap":
        return rl.func.vmap(function, randomness="same")(rl.stack([x.detach()] * 2))
    if way == "jvp":
        return rl.func.jvp(function, (x.detach(),), (rl.ones_like(x),))
    return rl.jit.trace(function, (x.detach(),))(x.detach())


def at_once(once, count=4):
    """The call from several threads, over the same tensors: the first result, or error."""
    found, errors, start = [], [], threading.Barrier(count)

    def work():
        start.wait()
        try:
            found.append(once())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return found[0]


def forked(once):
    """The call in a forked child first, which has to end; then here."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            once()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise Finding("crash", f"the forked child ended with {status}")
    return once()
