"""Functions that are written in Python, in one line of a script each: with numbers that stand in
the program, and with numbers that the program is given. The functions themselves are the judges."""

import importlib.util
import re

import pytest

import rushlight as rl

A = rl.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])  # positive definite
INPUTS = {
    "A": A,
    "AA": rl.stack([A, A + rl.eye(3)]),
    "B": rl.arange(6.0).reshape(3, 2) / 5,
    "v": rl.tensor([0.5, -1.0, 2.0]),
    "x": rl.arange(24.0).reshape(2, 3, 4) / 7 - 1.2,
    "w": rl.sin(rl.arange(40.0)),
    "L": rl.linalg.cholesky(A),
    "c": rl.complex(rl.arange(6.0).reshape(3, 2), rl.ones(3, 2)),
    "m": rl.arange(12.0).reshape(3, 1, 4) / 9,
    "P": rl.sin(rl.arange(48.0)).reshape(12, 4),
    "q": rl.cos(rl.arange(16.0)).reshape(4, 4),
}
NAMES = {"p": 3, "k": 1, "f": 0.25, "ss": "linear", "ks": [0, 1], "yes": True}  # given late
HEAD = """\
from typing import List
import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor
from rushlight.nn.functional import multi_head_attention_forward as attend
"""
CALLS = """
torch.linalg.solve(A, B)
torch.linalg.solve(AA, v)
torch.linalg.solve_ex(A, B)[0]
torch.linalg.tensorsolve(A, v)
torch.linalg.pinv(B)
torch.linalg.pinv(AA, rtol=v[:2].abs() / 100)
torch.pinverse(B)
B.pinverse()
torch.linalg.matrix_rank(A)
torch.linalg.lstsq(A, B)[0]
torch.linalg.matrix_norm(A, 'nuc')
torch.linalg.matrix_norm(A, 'fro', (-2, -1), True)
torch.linalg.matrix_norm(AA, 1)
torch.linalg.norm(A)
torch.linalg.norm(A, 2)
torch.linalg.norm(v, k)
torch.norm(A, 'nuc')
torch.linalg.matrix_power(A, p)
torch.linalg.matrix_power(A, -2)
torch.linalg.matrix_power(A, 0)
torch.linalg.multi_dot([v, A, A, B])
torch.linalg.householder_product(A, v)
torch.ormqr(A, v, B)
torch.matrix_exp(A / 9)
A.matrix_exp()
A.qr()[0]
A.svd()[1]
A.logdet()
A.geqrf()[0]
L.cholesky_inverse()
B.cholesky_solve(L)
B.triangular_solve(L, upper=False)[0]
B.lu_solve(*torch.linalg.lu_factor(A))
torch.cross(A, A.flip(1))
A.cross(A + 1)
torch.quantile(x, 0.3)
torch.quantile(x, f, dim=k, keepdim=yes)
x.nanquantile(v.abs() / 4, dim=1, interpolation='lower')
torch.stft(w, 8, return_complex=True).real
torch.istft(torch.stft(w, 8, return_complex=True), 8, length=40)
w.stft(8, 4, window=torch.hann_window(8), return_complex=True).imag
torch.fft.fftshift(x)
torch.fft.ifftshift(x, dim=ks)
torch.fft.fftshift(x, k)
torch.gradient(x)
torch.gradient(x, spacing=f, dim=k, edge_order=2)
torch.gradient(v, spacing=[v.cumsum(0).abs().cumsum(0)])
torch.meshgrid([v, v], indexing='xy')
torch.meshgrid(v, B[:, 0], indexing='ij')
torch.cartesian_prod(v, v)
torch.cartesian_prod(v)
torch.broadcast_shapes((5, 1), p)
x.sum_to_size(3, 1)
x.sum_to_size(())
torch.expand_copy(v, (p, 3))
torch.view_copy(x, (6, 4))
torch.alias_copy(x)
torch.narrow_copy(x, k, 0, 2)
torch.diagonal_copy(A, offset=k)
torch.unfold_copy(w, 0, p, 1)
torch.split_with_sizes_copy(x, (1, 2), 1)
torch.hash_tensor(x, dim=k, keepdim=True)
F.max_unpool1d(torch.ones(1, 1, 2), torch.tensor([[[1, 2]]]), k + 1)
attend(m, m, m, 4, 2, P, None, None, None, False, 0.0, q, None)
attend(m, m + 1, m, 4, 2, P, P[:, 0], None, None, yes, 0.0, q, q[0], need_weights=False)
attend(m[:, 0], m[:, 0], m[:, 0], 4, k, P, None, None, None, False, 0.0, q, None)[0]
attend(m, m, m, 4, 2, None, None, q[None, :1], q[None, 1:2], yes, 0.0, q, None, True, None, True, \
    None, True, q, q + 1, q)
Tensor.view(x, (4, 6))
"""
TYPES = {"p": "int", "k": "int", "f": "float", "ss": "str", "ks": "List[int]", "yes": "bool"}
REFUSED = {
    "x.to_sparse()": "dense tensors only",
    "x.untyped_storage()": "memory of tensors",
    "x.backward()": "what the program returns",
    "torch.as_strided_scatter(x, v, (3,), (1,))": "memory of tensors",
}


def used(call, names):
    return [n for n in names if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"=(])", call)]


def written(calls, path):
    text = HEAD
    for i, call in enumerate(calls):
        given = [*used(call, INPUTS), *(f"{n}: {TYPES[n]}" for n in used(call, NAMES))]
        text += f"\n\ndef f{i}({', '.join(given)}):\n    return {call}\n"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, f"f{i}") for i in range(len(calls))]


def same(a, b):
    if isinstance(a, rl.Tensor):
        return isinstance(b, rl.Tensor) and a.dtype == b.dtype and rl.equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_calls(tmp_path):
    calls = CALLS.strip().splitlines()
    failed = []
    for call, function in zip(calls, written(calls, tmp_path / "calls.py"), strict=True):
        arguments = [INPUTS[n] for n in used(call, INPUTS)] + [NAMES[n] for n in used(call, NAMES)]
        try:
            ours = rl.jit.script(function)(*arguments)
        except RuntimeError as error:
            failed.append(f"{call}: {error}")
            continue
        if not same(function(*arguments), ours):
            failed.append(f"{call}: {ours}")
    assert not failed, "\n".join(failed)


def test_gradients_of_a_few(tmp_path):
    calls = ["torch.linalg.solve(A, B)", "torch.linalg.pinv(B)", "torch.linalg.lstsq(A, B)[0]"]
    for call, function in zip(calls, written(calls, tmp_path / "gradients.py"), strict=True):
        found = []
        for f in (function, rl.jit.script(function)):
            arguments = [INPUTS[n].double().requires_grad_() for n in used(call, INPUTS)]
            f(*arguments).square().sum().backward()
            found.append([x.grad for x in arguments])
        assert all(map(rl.allclose, *found)), call


@pytest.mark.parametrize("call", REFUSED)
def test_refused_with_a_reason(call, tmp_path):
    (function,) = written([call], tmp_path / "refused.py")
    with pytest.raises(RuntimeError, match=REFUSED[call]):
        rl.jit.script(function)
