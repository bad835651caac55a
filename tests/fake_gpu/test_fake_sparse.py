"""The host's side of sparse tensors on a GPU: where parts lie, which kernels are launched."""


def test_products_and_gradients_stay_on_the_gpu(run):
    out = run("""
from rushlight.sparse import _products
parts = rl.tensor([0, 1, 2]), rl.tensor([0, 1]), rl.tensor([1.0, 2.0])
s = rl.sparse_csr_tensor(*parts, (2, 2)).cuda()
print(s.device, s.crow_indices().device, s.values().device, s.layout)
# Kernels do nothing here, so what was checked on the host is told to be right.
x = rl.ones(2, 3, device="cuda", requires_grad=True)
rows = _products.Rows(s.crow_indices(), s.col_indices(), None, (2, 2))
rows._turned = _products.Rows(s.crow_indices(), s.col_indices(), s.col_indices(), (2, 2))
values = s.values().clone().requires_grad_()
out = _products.product(values, x, rows)
out.backward(rl.ones(2, 3, device="cuda"))
print(out.shape, out.device, x.grad.device, values.grad.shape)
e = rl.nn.Embedding(4, 3, sparse=True, device="cuda")
e(rl.tensor([1, 2], device="cuda")).backward(rl.ones(2, 3, device="cuda"))
print(e.weight.grad.layout, e.weight.grad.device, e.weight.grad._nnz(), e.weight.grad.cpu().device)
""")
    assert out == [
        "cuda:0 cuda:0 cuda:0 rushlight.sparse_csr",
        "rushlight.Size([2, 3]) cuda:0 cuda:0 rushlight.Size([2])",
        "rushlight.sparse_coo cuda:0 2 cpu",
    ]
