"""Every call of every op row, with one of its tensors of another kind: on the meta device, sparse,
quantised, float8, empty, of another dtype, an inference tensor, expanded beyond all memory.

    python -m campaign.kinds [first row] [kind]

The row, call, place and kind are written before each call. Errors are fine, and so are answers.
"""

import signal
import sys
import warnings

from ops import rows
from ops.sample import Inputs, collected, main_dtype, method, run, tensor_leaves
from ops.sharing import put_in_place_of

import rushlight as rl
from campaign.judging import judge_error

SECONDS = 30


def inference(t):
    with rl.inference_mode():
        return t.clone()


KINDS = {
    "meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.to_sparse(),
    "sparse_csr": lambda t: t.to_sparse_csr() if t.ndim == 2 else t.to_sparse(),
    "quantized": lambda t: rl.quantize_per_tensor(t.float(), 0.1, 3, rl.quint8),
    "float8": lambda t: t.to(rl.float8_e4m3fn),
    "empty": lambda t: t.reshape(-1)[:0],
    "complex": lambda t: t.to(rl.complex64),
    "wide": lambda t: t.to(rl.uint64),
    "bool": lambda t: t.bool(),
    "scalar": lambda t: t.reshape(-1)[0] if t.numel() else t,
    "deep": lambda t: t.reshape(*t.shape, *(1,) * 9),
    "inference": inference,
    "number": lambda t: 3,
    "nothing": lambda t: None,
    "text": lambda t: "x",
    "list": lambda t: [t, t],
}


def sweep(first=0, only=None):
    for number, row in enumerate(collected(rows.ROWS)):
        if number < first:
            continue
        for i in range(len(row.calls)):
            try:
                count = len(tensor_leaves(*Inputs(row, i, main_dtype(row)).tensors()))
            except Exception:
                continue
            for k in range(count):
                for kind in KINDS if only is None else (only,):
                    yield number, row, i, k, kind


def one(row, i, k, kind, in_place):
    args, kwargs = Inputs(row, i, main_dtype(row)).tensors()
    old = tensor_leaves(args, kwargs)[k]
    new = KINDS[kind](old)
    args = put_in_place_of(args, old, new)
    kwargs = {n: put_in_place_of(v, old, new) for n, v in kwargs.items()}
    return method(row, args, kwargs, "_") if in_place else run(row, args, kwargs)


def main(first=0, only=None):
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    calls = 0
    for number, row, i, k, kind in sweep(int(first), only):
        print(number, row.name, "call", i, "tensor", k, kind, flush=True)
        signal.alarm(SECONDS)
        for in_place in (False, True):
            calls += 1
            try:
                one(row, i, k, kind, in_place)
            except Exception as error:
                judge_error(error)
    signal.alarm(0)
    print("done", calls)


if __name__ == "__main__":
    main(*sys.argv[1:])
