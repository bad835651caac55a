"""Draws the samples of PyTorch's operator, module and optimiser databases, and what PyTorch makes
of them. Runs where PyTorch is."""

import functools
import itertools
import pickle
import random
import sys
import types
import unittest
import warnings
import zlib
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
FORMS = 3  # samples of a dtype that are called in other forms, too
SECOND = 6  # samples of float64 of which second derivatives are taken
UNSPECIFIED = ("empty", "resize_", "new_empty")


def stand_in_for_missing():
    """PyTorch's test package takes a base class of expecttest; the databases use nothing of it."""
    try:
        import expecttest  # noqa: F401
    except ModuleNotFoundError:
        module = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase
        sys.modules["expecttest"] = module


def sections():
    """name -> what makes its cases."""
    stand_in_for_missing()
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db

    found = {}
    for op in op_db:
        if not op.name.startswith("jiterator"):  # of CUDA alone
            found["op " + op.full_name] = op_cases, op
            if op.error_inputs_func is not None:
                found["error " + op.full_name] = op_errors, op
    for info in module_db:
        found["module " + info.name] = module_cases, info
        if info.module_error_inputs_func is not None:
            found["error " + info.name] = module_errors, info
    for info in optim_db:
        found["optimizer " + info.optim_cls.__name__] = optimizer_cases, info
        found["error optim." + info.optim_cls.__name__] = optimizer_errors, info
    return found


def short(x):
    """Arguments in a line."""
    import torch

    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided:
            return f"{x.layout} {str(x.dtype)[6:]}{list(x.shape)}"
        small = f"={x.tolist()}" if x.numel() <= 2 and x.device.type == "cpu" else ""
        strided = "" if x.is_contiguous() else f"/{list(x.stride())}"
        return f"{str(x.dtype)[6:]}{list(x.shape)}{strided}{small}"
    if isinstance(x, dict):
        return ", ".join(f"{k}={short(v)}" for k, v in x.items())
    if isinstance(x, list | tuple) and not isinstance(x, torch.Size):
        return "(" + ", ".join(map(short, x)) + ")"
    return repr(x)[:80]


def sample_case(kind, function, sample, grad=0, process=True, prefix=""):
    from conformance.packing import packed
    from conformance.samples import Case

    args = (sample.input, *sample.args)
    text = f"{prefix}{kind} {short(args)} {short(sample.kwargs)}"
    process = sample.output_process_fn_grad if process else None
    return Case(kind, text, packed((function, args, dict(sample.kwargs), process)), grad)


def op_cases(op, most):
    import torch

    for dtype in sorted(op.supported_dtypes("cpu"), key=str):
        grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        drawn = op.sample_inputs("cpu", dtype, requires_grad=grad)
        function = as_differentiated(op) if grad else op.op
        cuda = dtype in op.supported_dtypes("cuda")
        cuda = cuda and (not grad or dtype in op.supported_backward_dtypes("cuda"))
        for i, sample in enumerate(itertools.islice(drawn, most)):
            second = dtype == torch.float64 and i < SECOND and op.supports_gradgrad
            prefix = f"{str(dtype)[6:]} #{i} "
            order = 1 + second if grad else 0
            for case in all_forms(op, function, sample, order, prefix, i < FORMS):
                case.cuda = cuda
                yield case


def all_forms(op, function, sample, order, prefix, also):
    """A call, and also the other ways to make it."""
    yield sample_case("call", function, sample, order, prefix=prefix)
    if not also:
        return
    try:
        other = sample.noncontiguous()
    except RuntimeError:
        other = None
    if other is not None:
        yield sample_case("call", function, other, min(order, 1), prefix=prefix + "strided ")
    yield from form_cases(op, sample, prefix)


def as_differentiated(op):
    """The op of arguments that are as it takes them to be (Hermitian, triangular): the database
    says for which ops the gradient is defined for those alone."""
    if op.gradcheck_wrapper.__qualname__.startswith("OpInfo.<lambda>"):
        return op.op
    return functools.partial(op.gradcheck_wrapper, op.op)


def form_cases(op, sample, prefix):
    import torch

    if op.method_variant is not None and isinstance(sample.input, torch.Tensor):
        yield sample_case("method", op.method_variant, sample, prefix=prefix)
    if op.operator_variant is not None:
        yield sample_case("operator", op.operator_variant, sample, prefix=prefix)
    for alias in op.aliases:
        yield sample_case("alias", alias.op, sample, prefix=prefix + alias.name + " ")
    still = sample.transform(lambda t: t.detach() if isinstance(t, torch.Tensor) else t)
    if op.inplace_variant is not None and not sample.broadcasts_input:
        yield sample_case("inplace", op.inplace_variant, still, process=False, prefix=prefix)
    if op.supports_out and not op.name.startswith("nn.functional"):  # (those document none)
        yield sample_case("out", op.op, still, prefix=prefix)


def op_errors(op, most):
    for i, error in enumerate(op.error_inputs("cpu")):
        case = sample_case("call", op.op, error.sample_input, process=False, prefix=f"#{i} ")
        names = error.error_type
        names = names if isinstance(names, tuple) else (names,)
        case.refused = "|".join(n.__name__ for n in names)
        case.text += f" [{error.error_regex[:80]}]"
        yield case


def module_cases(info, most):
    import torch

    from conformance.packing import packed
    from conformance.samples import Case

    for dtype in info.dtypes:
        for training in (True, False):
            drawn = info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=True, training=training
            )
            for i, x in enumerate(itertools.islice(drawn, most)):
                built, given = x.constructor_input, x.forward_input
                module = info.module_cls(*built.args, **built.kwargs).to(dtype)
                state = None if info.is_lazy else dict(module.state_dict())
                args = (given.args, given.kwargs) if given else (None, None)
                whole = (info.module_cls, (built.args, built.kwargs), state, training, *args, dtype)
                text = f"{str(dtype)[6:]} #{i} {'train' if training else 'eval'} {x.desc}: "
                text += f"{short(built.args)} {short(built.kwargs)}: {short(args)}"
                second = 1 + (info.supports_gradgrad and dtype == torch.float64)
                yield Case("module", text, packed(whole), 0 if info.is_lazy else second)


def module_errors(info, most):
    import torch
    from torch.testing._internal.common_modules import ModuleErrorEnum

    from conformance.packing import packed
    from conformance.samples import Case

    drawn = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=True, training=True
    )
    for i, error in enumerate(drawn):
        x = error.module_error_input
        built, given = x.constructor_input, x.forward_input
        early = error.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR
        args = (None, None) if early else (given.args, given.kwargs)
        whole = (info.module_cls, (built.args, built.kwargs), None, True, *args, torch.float64)
        text = f"#{i}: {short(built.args)} {short(built.kwargs)}: {short(args)}"
        yield Case("module", text, packed(whole), refused=error.error_type.__name__)


def parameters(shapes, dtype):
    """Parameters around which the loss has its slope."""
    import torch

    made = [torch.linspace(-1.7, 2.3, max(torch.Size(s).numel(), 1)).reshape(s) for s in shapes]
    if dtype.is_complex:
        made = [m + 0.5j * m.flip(-1) if m.ndim else m + 0j for m in made]
    return [torch.nn.Parameter(m.to(dtype)) for m in made]


def optimizer_cases(info, most):
    import torch

    from conformance.samples import MATRICES, MIXED

    name = info.optim_cls.__name__
    shapes = MATRICES if name == "Muon" else MIXED
    impls = [{}, *({i: True} for i in ("foreach", "differentiable") if i in info.supported_impls)]
    if "cpu" in info.supports_fused_on:
        impls.append({"fused": True})
    dtypes = [torch.float32, torch.float64]
    dtypes += [torch.complex128] * (info.supports_complex and not info.only_supports_sparse_grads)
    for dtype in dtypes:
        for x in info.optim_inputs_func(device="cpu"):
            for impl in impls:
                if "differentiable" in impl:
                    continue  # steps outside of no_grad, which the loop does not do
                kwargs = {**x.kwargs, **impl}
                params = parameters(shapes, dtype)
                yield optimizer_case(
                    info, params, kwargs, [], info.only_supports_sparse_grads, text=f"{dtype}"
                )
        params = parameters(shapes, dtype)
        if info.supports_sparse and not info.only_supports_sparse_grads and not dtype.is_complex:
            kwargs = info.metadata_for_sparse[0]
            yield optimizer_case(info, params[:1], kwargs, [], True, text=f"{dtype}")
        for schedulers in info.scheduler_inputs:
            sparse = info.only_supports_sparse_grads
            kwargs = {"lr": 0.01}
            yield optimizer_case(info, params, kwargs, schedulers, sparse, text=f"{dtype} sched")


def optimizer_case(info, params, kwargs, schedulers, sparse, given=None, only=False, text=""):
    from conformance.packing import packed
    from conformance.samples import Case

    whole = (info.optim_cls, params, kwargs, list(schedulers), sparse, given, only)
    text += f" {short(kwargs)}{' sparse' if sparse else ''} {len(schedulers)} schedulers"
    return Case("optimizer", text + (f" {short(given)}" if only else ""), packed(whole))


def optimizer_errors(info, most):
    import torch
    from torch.testing._internal.common_optimizers import OptimizerErrorEnum

    from conformance.samples import MATRICES, MIXED

    for dtype in (torch.float32,):
        for error in info.optim_error_inputs_func(device="cpu", dtype=dtype):
            x = error.optimizer_error_input
            early = error.error_on == OptimizerErrorEnum.CONSTRUCTION_ERROR
            if not early:
                continue
            shapes = MATRICES if info.optim_cls.__name__ == "Muon" else MIXED
            params = parameters(shapes, dtype)
            case = optimizer_case(info, params, x.kwargs, [], False, x.params, True, x.desc)
            case.refused = error.error_type.__name__
            yield case


def recorded(name, most):
    """The cases of a section with PyTorch's outcomes: as they are, and in float64."""
    import numpy as np
    import torch

    from conformance.samples import SEED, outcome

    make, info = sections()[name]
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**31)
    found = []
    state = torch.get_rng_state()
    drawn = iter(make(info, most))
    start = torch.manual_seed(SEED).get_state()  # as a case finds it
    while True:
        torch.set_rng_state(state)
        case = next(drawn, None)
        state = torch.get_rng_state()
        if case is None:
            return found
        theirs = outcome(case, torch)
        if theirs[0] == "raised" or case.refused:
            found.append((case, theirs, None))
            continue
        case.values = not name.split()[1].startswith(UNSPECIFIED)
        drew = not torch.equal(torch.get_rng_state(), start)
        if case.values and (drew or b"manual_seed" in case.data):
            case.values = all(same(theirs, reseeded(case, by)) for by in range(1, 25))
        exact = None
        if case.values and case.text.startswith(("float32", "float16", "bfloat16", "complex64")):
            exact = outcome(case, torch, wide=True)
        found.append((case, theirs, exact))


def reseeded(case, by):
    """The outcome with other random numbers, also where a sample seeds them itself."""
    import torch

    from conformance.samples import outcome

    seed = torch.manual_seed
    torch.manual_seed = lambda x: seed(x + by)
    try:
        return outcome(case, torch)
    finally:
        torch.manual_seed = seed


def same(a, b):
    """Are two outcomes one and the same?"""
    return pickle.dumps(a) == pickle.dumps(b)


def main(folder, most):
    import torch

    from conformance.samples import VERSION, file_name, served

    torch.set_num_threads(1)
    Path(folder, VERSION).write_text(torch.__version__)

    def work(name):
        found = pickle.dumps(recorded(name, most))
        Path(folder, file_name(name)).write_bytes(found)
        return 0

    served(work)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    warnings.simplefilter("ignore")
    from conformance import database, packing

    if sys.argv[1] == "--list":
        print("\n".join(database.sections()))
    else:
        packing.imported("torch")
        database.main(sys.argv[1], int(sys.argv[2]))
