"""Products, sums and conversions of sparse matrices against PyTorch.

    TORCH_PYTHON=path/to/python python benchmarks/bench_sparse.py [--threads 2] [--only csr]
        [--check]

Graphs at random with the size of Cora's, and one with 10 million edges. Bar: at most 1.05 of
PyTorch's time for products. Without TORCH_PYTHON only our own times are shown.
"""

import sys

from peer import Case
from peer_table import run

GRAPHS = {"Cora's size": (2708, 10556), "10 M elements": (1_000_000, 10_000_000)}
SETUP = """
lib.manual_seed(0)
i = lib.randint(0, {nodes}, (2, {edges}))
v = lib.randn({edges})
coo = lib.sparse_coo_tensor(i, v, ({nodes}, {nodes})).coalesce()
csr = coo.to_sparse_csr()
x = lib.randn({nodes}, {columns})
y = x.clone().requires_grad_()
vector = x[:, 0].contiguous()
ones = lib.ones({nodes}, {columns})
values = coo.detach().clone().requires_grad_()
"""
PRODUCTS = {
    "CSR times {columns} columns": "csr @ x",
    "COO times {columns} columns": "coo @ x",
    "CSR times {columns} columns, and backward": "(csr @ y).backward(ones)",
    "COO times {columns} columns, and backward": "(coo @ y).backward(ones)",
}
OTHERS = {
    "CSR times a vector": "csr @ vector",
    "gradient of the values": "lib.sparse.mm(values, x).backward(ones)",
    "coalesce": "lib.sparse_coo_tensor(i, v, coo.shape).coalesce()",
    "COO to CSR": "coo.to_sparse_csr()",
    "softmax": "lib.sparse.softmax(coo, 1)",
    "sums of rows": "lib.sparse.sum(coo, 1)",
    "COO plus COO": "coo + coo",
}


def cases(quick: bool) -> list[Case]:
    found = []
    for graph, (nodes, edges) in GRAPHS.items():
        small = nodes < 10_000
        if quick and not small:
            continue
        for columns in (16, 1433) if small else (16,):
            setup = SETUP.format(nodes=nodes, edges=edges, columns=columns)
            for name, statement in PRODUCTS.items():
                title = f"{graph}: {name.format(columns=columns)}"
                found.append(Case(title, setup, statement, 1.05))
        setup = SETUP.format(nodes=nodes, edges=edges, columns=16)
        if not quick:
            found += [Case(f"{graph}: {n}", setup, s) for n, s in OTHERS.items()]
    return found


if __name__ == "__main__":
    sys.exit(run("sparse", __doc__, cases))
