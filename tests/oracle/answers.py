"""Calls at the edges of what functions take: expressions over `rl`, `F` and a few tensors, whose
results (dtype, shape, numbers, and whether they require grad) or refusals PyTorch recorded."""


def names(rl):
    """What the expressions use."""
    return {
        "rl": rl,
        "F": rl.nn.functional,
        "x": rl.arange(6.0).reshape(2, 3).requires_grad_(),
        "z": rl.tensor([[1 + 9j, -2j, 3.0], [0.5j, -40.0, 2 + 7j]], dtype=rl.complex128),
        "n": rl.arange(6).reshape(2, 3),
        "s": rl.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=rl.float64).requires_grad_(),
    }


def graded(expression):
    """The gradient of the sum of what an expression gives, by x."""
    return f"rl.autograd.grad(({expression}).abs().sum(), x, allow_unused=True)[0]"


EXPRESSIONS = [
    # draws by tensors that require grad
    *(
        graded(f"rl.{e}")
        for e in (
            "bernoulli(x / 6)", "normal(x, 1.0)", "normal(0.0, x)", "normal(x, x)",
            "bernoulli(x, 0.5)",
            "poisson(x)",
        )
    ),
    # gradients that are zero rather than cut off
    graded("rl.combinations(x[0, :1], 2)"),
    graded("rl.linalg.matrix_power(x[:, :2], 0)"),
    graded("rl.linalg.householder_product(x[:0, :0], x[0, :0])"),
    graded("rl.linalg.lstsq(x[:, :2], x).residuals"),
    graded("rl.linalg.lstsq(x.T, x.T[:, :1] * x.T[:, :1], driver='gels').residuals"),
    # phases of running sums
    "rl.logcumsumexp(z, 1)", "rl.logcumsumexp(z, 0)", "rl.logcumsumexp(z[0, 0], 0)",
    # whole numbers
    "rl.arange(0, 5, 1.5, dtype=rl.int64)", "rl.arange(0, 5, 1.5, dtype=rl.int32)",
    "rl.arange(0.0, -8.000001, -4.0, dtype=rl.int64)", "rl.arange(0.9, 5, 1, dtype=rl.int64)",
    "rl.arange(0, 5, 0.5, dtype=rl.int64)", "rl.linspace(0.5, 7.9, 5, dtype=rl.int64)",
    "rl.linspace(-3.7, 3.7, 5, dtype=rl.int32)", "rl.linspace(4.3, 0, 7, dtype=rl.uint8)",
    "rl.logspace(0, 4, 5, base=2.7, dtype=rl.int64)",
    "rl.logspace(-1.5, 2, 4, base=2, dtype=rl.int32)",
    "rl.range(0, 5, 1.5, dtype=rl.int64)",
    # scales of products of whole numbers
    "rl.addmm(n[:, :2], n[:, :2], n[:, :2], beta=1.7, alpha=2.9)",
    "rl.addmv(n[0], n.T, n[:, 0], beta=0.2, alpha=0.6)",
    "rl.baddbmm(n[None, :, :2], n[None, :, :2], n[None, :, :2], beta=-0.5, alpha=2.9)",
    "rl.addbmm(n[:, :2], n[None, :, :2], n[None, :, :2], beta=1.7, alpha=1)",
    "rl.addr(n, n[:, 0], n[0], beta=1.7)", "rl.addmm(n, n[:, :2], n, beta=1j)",
    # dtypes
    "rl.cov(x.bfloat16(), aweights=x[0].detach() + 1)", "rl.cov(n)",
    "rl.cov(x, fweights=n[1], aweights=x[1].detach())",
    "rl.cov(x, fweights=x[0])", "rl.cov(x, fweights=n)", "rl.cov(x, fweights=n[:, 0])",
    "rl.cov(x, aweights=-x[1].detach())", "rl.cov(x, aweights=n[0])",
    "rl.tensor(3, dtype=rl.int32).sum_to_size(())", "n.int().sum_to_size((3,))",
    "rl.unravel_index(rl.tensor([5, 1], dtype=rl.uint8), (4, 5))[0]",
    "rl.einsum('...ik,...j->ij', n.int()[None], n[0].int())",
    "rl.tensordot(n[:1, :1].int(), n.int(), dims=[[0, 1], [0, 1]])",
    *(
        f"rl.masked.{f}({t}, {dim}mask=n > 1)"
        for f, dim in (("cumsum", "1, "), ("cumprod", "1, "), ("logsumexp", ""), ("var", ""),
                       ("std", "1, "))
        for t in ("n.int()", "x.bfloat16()", "z")
        if not (f == "logsumexp" and t == "z")
    ),
    # empty ones
    "F.pixel_shuffle(rl.ones(1, 0, 1, 1), 1)", "F.pixel_unshuffle(rl.ones(1, 0, 1, 1), 1)",
    "rl.gather(x, 1, rl.empty(0, 3, dtype=rl.uint8))", "rl.gather(x, 1, n.byte())",
    "rl.native_group_norm(rl.ones(0, 2), None, None, 0, 2, 1, 1, 1e-5)[1]",
    "F.batch_norm(rl.ones(0), rl.ones(0), rl.ones(0), training=True)",
    "rl.diff(x, n=0, prepend=x)", "F.adaptive_avg_pool2d(rl.ones(1, 2, 3, 4), ())",
    # tensors that say where to split
    "rl.tensor_split(n, rl.tensor([1, 2]), 1)", "rl.tensor_split(n, rl.tensor(2), 1)",
    "rl.tensor_split(n, rl.tensor([1.0]))", "rl.tensor_split(n, rl.tensor([[1]]))",
    # degrees between -1 and 0
    *(
        f"rl.special.{p}(x.detach() / 4, rl.tensor([-0.5, -1.0, 2.5]))"
        for p in (
            "chebyshev_polynomial_t", "chebyshev_polynomial_u", "hermite_polynomial_h",
            "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
        )
    ),
    # broadcasts of losses
    "F.gaussian_nll_loss(x, x * 2, rl.ones(1, 3))", "F.gaussian_nll_loss(x, x * 2, rl.ones(2, 1))",
    "F.gaussian_nll_loss(x, x * 2, rl.ones(1, 1))", "F.gaussian_nll_loss(x, x * 2, rl.ones(2))",
    "F.local_response_norm(n[None, None] + 5, 2, alpha=3e-05, beta=0.5, k=1.25)",
    # names
    "rl.hash_tensor(x)", "rl.hash_tensor(n, 1, keepdim=True)", "rl.hash_tensor(n, (0, 1))",
    "rl.hash_tensor(x > 2, 0)", "rl.hash_tensor(x, mode=1)", "rl.hash_tensor(x[:0])",
    "rl._chunk_cat([x, x[:, :2]], 1, 2)",
    "rl._unsafe_masked_index(n, n[0] > 0, [rl.tensor([9, 0, 1]), n[0]], -1)",
    "rl._unsafe_masked_index_put_accumulate(n, n[0] > 0, [rl.tensor([9, 0, 0]), n[0]], n[1])",
    "rl.roll(rl.tensor(1), 1, 0)", "rl.narrow_copy(n, 3, 0, 1)",
    # memory between elements, rows behind the last piece, scales beside sizes
    "rl.as_strided_scatter(x.detach()[:, 1], -n[0, :2], (2,), (1,), 0)",
    "rl.as_strided_scatter(x.detach()[:, 1], -n[0, :2], (2,), (3,), 4)",
    "rl.as_strided_scatter(x.detach()[1], -n[0, :2], (2,), (1,))",
    "rl.segment_reduce(x[0], 'sum', lengths=rl.tensor([2, 0]), unsafe=True)",
    "rl.segment_reduce(x[0], 'sum', lengths=rl.tensor([2, 0]))",
    "rl.segment_reduce(x, 'sum', lengths=rl.tensor([[2, 1], [0, 3]]), axis=1)",
    "rl.segment_reduce(x, 'max', offsets=rl.tensor([[0, 1, 3], [0, 2, 3]]), axis=1)",
    "rl.segment_reduce(x, 'sum', lengths=rl.tensor([2, 1]), axis=1)",
    "rl.nn.GRU(3, 5, bias=1)", "rl.nn.LSTM(3, 5, batch_first='False')",
    "rl.optim.SparseAdam([rl.zeros(2, dtype=rl.complex64)])",
    "rl.ops.aten._upsample_bilinear2d_aa(x[None, None], [2, 2], False, 1.7, 0.9)",
    "F.batch_norm(x, None, None, training=True, eps=0.0)",
    "rl.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)",
    "rl.native_batch_norm(x.detach(), None, None, None, None, True, 0.1, 1.0, "
    "out=[rl.zeros(2, 3), rl.zeros(3), rl.zeros(3)])",
    "F.multilabel_margin_loss(x[:, :0], n[:, :0])", "F.multilabel_margin_loss(x[0, :0], n[0, :0])",
    # results that lie end to end, however the input lies: programs call view() on them
    *(
        f"rl.tensor(({e}).stride())"
        for e in (
            "F.softmax(x.T, 0)", "F.log_softmax(x.T, 1)", "x.T.softmax(0, dtype=rl.float64)",
            "F.softmin(x.T, 0)", "x.T.masked_fill(n.T > 1, 0.0)",
            "x.T.masked_scatter(n.T > 1, rl.ones(6))", "F.logsigmoid(x.T)",
            "rl.bernoulli(x.T / 6)", "rl.renorm(x.T, 2, 0, 1.0)",
        )
    ),
    # None for all dims, other integers
    "rl.amax(x.detach(), None)", "x.detach().amin(dim=None, keepdim=True)", "rl.roll(n, 1, None)",
    "rl.tensor([3, 65535], dtype=rl.uint16) * 2", "rl.tensor([2**63], dtype=rl.uint64) * 3",
    "rl.tensor([3], dtype=rl.uint32).isclose(rl.tensor([3], dtype=rl.uint32))",
    "rl.sparse.sum(n.int().to_sparse(), 0).to_dense()",
    "rl.sparse.sum((n > 1).to_sparse(), 1).to_dense()",
    # losses of mixed dtypes, and of infinite variances
    "F.huber_loss(x, x.double() + 1)", "F.huber_loss(x.double(), x + 1)", "F.huber_loss(n, x)",
    "F.soft_margin_loss(x, x.detach().double())", "F.soft_margin_loss(n, x)",
    "F.soft_margin_loss(n, n)",
    "F.mse_loss(n, x)", "F.mse_loss(n, n)",
    "F.gaussian_nll_loss(x, x, rl.full((2, 3), float('inf')), reduction='none')",
    "F.dropout(n, 0.0)", "F.alpha_dropout(n, 0.0, True)",
    # numbers that are none of the tensor's
    "rl.linspace(1j, 2, 3, dtype=rl.int64)", "rl.logspace(0, 1j, 3, dtype=rl.float64)",
    "rl.addmm(n, n[:, :2], n, alpha=float('inf'))",
    "rl.addmv(n[0], n.T, n[:, 0], beta=float('nan'))",
    "rl.linalg.cond(rl.tensor([[float('inf')]]), 1)", "rl.linalg.cond(rl.zeros(1, 1), 'fro')",
    "rl.linalg.norm(rl.ones(2, 2, 2), 2)", "rl.linalg.norm(rl.ones(()), 2)",
    "rl.renorm(x.detach(), 2, 2, 1.0)", "rl.renorm(x.detach(), 2, -3, 1.0)",
    # complex32
    "rl.ones(2, dtype=rl.float16) * 1j", "rl.complex(x.half(), x.half())", "z.chalf()",
    "rl.view_as_complex(x.half().reshape(3, 2))", "z.chalf().abs()", "z.chalf() * z.chalf()",
    "z.chalf() - 2.5", "z.chalf().conj().imag", "z.chalf().sgn()", "z.chalf() == z.chalf()",
    "z.chalf() + z.cfloat()", "z.chalf() + x.double().detach()",
    "z.chalf() * x.bfloat16().detach()",
    "z.chalf().half()", "z.chalf().bool()", "z.chalf().norm()", "z.chalf().view(rl.int32)",
    "rl.cat([z.chalf(), z.chalf()]).sum(dtype=rl.complex64)", "rl.where(n > 2, z.chalf(), 1j)",
    "z.chalf().index_add(0, n[0, :2], z.chalf())", "z.chalf().masked_fill(n > 2, 1j)",
    "z.chalf().tril()", "z.chalf()[0].diag_embed()", "z.chalf().var()", "z.chalf().any()",
    "rl.full((2,), 1 - 2j, dtype=rl.complex32)", "rl.fft.fft(z.chalf())",
    graded("(x.half() * (1 + 2j)).abs()"),
]  # fmt: skip


def answer(rl, expression):
    """[class of the error], or the results as [dtype, shape, requires grad, numbers]."""
    try:
        found = eval(expression, names(rl))
    except Exception as error:
        return (
            [type(error).__name__]
            if rl.__name__ == "torch"
            else [c.__name__ for c in type(error).__mro__]
        )
    several = found if isinstance(found, list | tuple) else [found]
    return [None if t is None else _shown(rl, t) for t in several]


def _shown(rl, t):
    plain = t.detach()
    if plain.is_complex():
        plain = rl.view_as_real(plain)
    wide = plain.double() if plain.is_floating_point() else plain
    return [str(t.dtype).split(".")[-1], list(t.shape), t.requires_grad, wide.tolist()]
