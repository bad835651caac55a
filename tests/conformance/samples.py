"""Runs a case of PyTorch's operator database in a library: a call, a module, an optimiser.

A case is made by `database.py` in PyTorch and holds packed arguments; what came of it is plain
data, which `compare.py` judges.
"""

import dataclasses
import json
import os
import pickle
import signal
import sys
import time
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
LIMIT = 900  # seconds for the cases of one section, before the process ends itself
SEED = 7
VERSION = "version.txt"  # of PyTorch, beside its outcomes
STEPS = 6  # of an optimiser
MATRICES, MIXED = ((3, 4), (4, 5)), ((3, 4), (5,), ())


@dataclasses.dataclass
class Case:
    """One call; `refused` is PyTorch's class of error where it has to be refused."""

    kind: str  # call, method, inplace, out, alias, module, optimizer
    text: str
    data: bytes  # packed: what to call, and arguments
    grad: int = 0  # the highest derivative to compare
    refused: str = ""
    values: bool = True  # False: random, or whatever the memory held
    cuda: bool = True  # does PyTorch have it for the dtype on GPUs?


def leaves(x):
    """The results as a flat list."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list) and type(x).__name__ != "Size":
        return [leaf for y in x for leaf in leaves(y)]
    return [x]


def kept(x, library):
    """A result as plain data: dtype, shape and array, or the object itself."""
    if not isinstance(x, library.Tensor):
        plain = isinstance(x, bool | int | float | complex | str | type(None))
        return x if plain else str(x).replace("torch.", "").replace("rushlight.", "")
    name = str(x.dtype).split(".")[-1]
    if x.device.type == "meta":
        return name + " on meta", tuple(x.shape), None
    x = x.detach().cpu()
    if x.layout != library.strided:
        name, x = f"{x.layout} {name}".split(".")[-1], x.to_dense()
    x = x.resolve_conj().resolve_neg()
    if name.endswith("complex32"):
        x = x.to(library.complex64)
    if x.dtype in (library.bfloat16, getattr(library, "float8_e4m3fn", None)):
        x = x.to(library.float32)
    return name, tuple(x.shape), x.numpy().copy()


def seeds(results, library):
    """Weights for the sum whose gradient is taken."""
    found = []
    for r in results:
        ramp = library.linspace(0.5, 1.5, r.numel(), dtype=library.float64).reshape(r.shape)
        found.append(ramp.to(r.device, r.dtype))
    return found


def derivatives(results, inputs, order, library):
    """Of a weighted sum of the results by the inputs, and of a weighted sum of those."""
    found, rounds = [], []
    for _ in range(order):
        results = [r for r in results if isinstance(r, library.Tensor) and r.requires_grad]
        if not results or not inputs:
            break
        options = {"allow_unused": True, "create_graph": order > 1}
        found = library.autograd.grad(results, inputs, seeds(results, library), **options)
        rounds.append([None if g is None else kept(g, library) for g in found])
        results = [g for g in found if g is not None]
    return rounds


def call(case, library, wide):
    """Results and inputs of a call, in the form that the case asks for."""
    from conformance.packing import unpacked

    function, args, kwargs, process = unpacked(case.data, library, wide)
    if case.kind == "out":
        with library.no_grad():
            like = leaves(function(*args, **kwargs))
        outs = [library.empty_like(t) for t in like]
        kwargs["out"] = outs[0] if len(outs) == 1 else tuple(outs)
        with library.no_grad():
            function(*args, **kwargs)
            written = kwargs["out"]
            return (process(written) if process else written), []
    if case.kind == "inplace":
        with library.no_grad():
            return [function(*args, **kwargs), args[0]], []
    found = function(*args, **kwargs)
    inputs = [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, library.Tensor)]
    return (process(found) if process else found), [t for t in inputs if t.requires_grad]


def module_call(case, library, wide):
    """Results of a module, and its inputs and parameters."""
    from conformance.packing import Unpacker, unpacked

    kind, built, state, training, args, kwargs, dtype = unpacked(case.data, library, wide)
    module = kind(*built[0], **built[1]).to(Unpacker.device, dtype).train(training)
    if args is None:
        return [], []
    if state is not None:
        module.load_state_dict(state)
    found = module(*args, **kwargs)
    inputs = [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, library.Tensor)]
    named = [*module.named_buffers()] if training else []
    after = [b for _, b in sorted(named, key=lambda x: x[0])]
    inputs = [t for t in [*inputs, *module.parameters()] if t.requires_grad]
    return [found, after], inputs


def steps(case, library, wide):
    """The parameters after each of a few steps of an optimiser."""
    from conformance.packing import unpacked

    kind, params, kwargs, schedulers, sparse, given, only = unpacked(case.data, library, wide)
    optimizer = kind(params if given is None else given, **kwargs)
    if only:
        return [], []
    schedulers = [make(optimizer) for make in schedulers]
    found = []

    def closure():
        optimizer.zero_grad()
        loss = sum(((p * (i + 1) - 0.3).abs() ** 2).sum() + p.abs().cos().sum()
                   for i, p in enumerate(params))  # fmt: skip
        loss.backward()
        if sparse:
            for p in params:
                p.grad = (p.grad * (p.grad > 0)).to_sparse()
        return loss

    for _ in range(STEPS):
        if kind.__name__ == "LBFGS":
            loss = optimizer.step(closure)
        else:
            loss = closure()
            optimizer.step()
        for s in schedulers:
            plateau = type(s).__name__ == "ReduceLROnPlateau"
            s.step(loss.detach()) if plateau else s.step()
        found += [p.detach().clone() for p in params]
    return found, []


RUNNERS = {"module": module_call, "optimizer": steps}


def outcome(case, library, wide=False):
    """("raised", names of classes, text), or ("gave", results, derivatives or their error)."""
    library.manual_seed(SEED)
    try:
        found, inputs = RUNNERS.get(case.kind, call)(case, library, wide)
        results = [kept(x, library) for x in leaves(found)]
    except Exception as error:
        return "raised", [c.__name__ for c in type(error).__mro__], str(error)[:200]
    if not case.grad:
        return "gave", results, []
    try:
        return "gave", results, derivatives(leaves(found), inputs, case.grad, library)
    except Exception as error:
        return "gave", results, f"{type(error).__name__}: {str(error)[:200]}"


def served(work):
    """Does the work for each name on standard input, and answers with what came of it. Who asks
    starts another process where this one ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a case prints is no answer
    for line in sys.stdin:
        signal.alarm(LIMIT)
        found = work(line.rstrip("\n"))
        signal.alarm(0)
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def file_name(name):
    return name.replace("/", "_") + ".pickle"


def compared(name, recorded, library, limit, version):
    """Runs the cases of a section: how many there are, the texts of those that differ by what
    differs, how many differ on purpose, how many the limit left."""
    from conformance.better import is_better_sample
    from conformance.compare import sample_difference
    from conformance.packing import Unpacker

    count, kinds, better, left, end = 0, {}, 0, 0, time.monotonic() + limit
    for case, theirs, exact in recorded:
        if (theirs[0] == "raised") != bool(case.refused):
            continue  # PyTorch itself refuses the sample, or takes what it should refuse
        if time.monotonic() > end:
            left += 1
            continue
        count += 1
        found = sample_difference(case, outcome(case, library), theirs, exact)
        if found is None:
            continue
        if is_better_sample(name, found, case, Unpacker.device, version):
            better += 1
            continue
        kinds.setdefault(found.split(":")[0], []).append(f"{found}: {case.text}")
    return {"count": count, "kinds": kinds, "better": better, "left": left}


def main(device, folder, limit):
    """Runs the recorded cases of a folder in Rushlight, on a device."""
    from conformance.packing import Unpacker, imported

    Unpacker.device = device
    library = imported("rushlight")
    library.set_num_threads(1)
    library.backends.cudnn.allow_tf32 = False  # the other side computes on a CPU

    def work(name):
        recorded = pickle.loads(Path(folder, file_name(name)).read_bytes())
        if isinstance(recorded, int):
            return {"status": recorded}
        version = Path(folder, VERSION).read_text()
        found = compared(name, recorded, library, limit, version)
        if device == "cuda":
            still_works(library)
        return found

    served(work)


def still_works(library):
    """Ends the process where a case has lost the GPU: the next section is not to blame."""
    if library.ones(3, device="cuda").sum().item() != 3:
        raise SystemExit("the GPU computes wrong sums")


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    warnings.simplefilter("ignore")
    from conformance import samples

    samples.main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
