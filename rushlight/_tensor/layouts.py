"""Methods about sparse and nested layouts, which are loaded when one of them is called."""

from rushlight._tensor import methods_of

_SPARSE = "rushlight.sparse._methods"
methods_of(_SPARSE, "_coalesced_ _indices _nnz _values", told_by=_SPARSE)
methods_of("rushlight.nested", "to_padded_tensor", told_by="rushlight.nested")

# What `help` says without loading them.
_TOLD = {
    "coalesce": """The tensor with its indices in order, and values of the same index added.

Example:
    >>> rl.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).coalesce().values()
    tensor([5.])
""",
    "is_coalesced": """Whether the indices are in order and each there once, as far as is known.

Example:
    >>> rl.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).is_coalesced()
    False
""",
    "indices": """The indices of a coalesced tensor: one row per sparse dim.

Example:
    >>> rl.eye(2).to_sparse().indices()
    tensor([[0, 1],
            [0, 1]])
""",
    "values": """The values of a sparse tensor; of a sparse_coo tensor once it is coalesced.

Example:
    >>> rl.tensor([0.0, 5.0]).to_sparse().values()
    tensor([5.])
""",
    "sparse_dim": """How many dims of a sparse tensor have indices.

Example:
    >>> rl.ones(2, 3).to_sparse(1).sparse_dim()
    1
""",
    "dense_dim": """How many dims each value of a sparse tensor has.

Example:
    >>> rl.ones(2, 3).to_sparse(1).dense_dim()
    1
""",
    "crow_indices": """Where each row begins and ends among the values (sparse_csr, sparse_bsr).

Example:
    >>> rl.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
""",
    "col_indices": """The column of each value (sparse_csr, sparse_bsr).

Example:
    >>> rl.eye(2).to_sparse_csr().col_indices()
    tensor([0, 1])
""",
    "ccol_indices": """Where each column begins and ends among the values (sparse_csc, sparse_bsc).

Example:
    >>> rl.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
""",
    "row_indices": """The row of each value (sparse_csc, sparse_bsc).

Example:
    >>> rl.eye(2).to_sparse_csc().row_indices()
    tensor([0, 1])
""",
    "to_sparse": """The tensor in a sparse layout, sparse_coo unless another one is named.

Arguments:
    `sparse_dim`: how many dims get indices (sparse_coo); the rest are parts of the values.
    `layout`: sparse_coo, sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.
    `blocksize`: rows and columns of a block, for the last two.
    `dense_dim`: how many last dims are parts of the values, for all but sparse_coo.

Example:
    >>> rl.tensor([[0.0, 7.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([7.]),
           size=(2, 2), nnz=1, layout=rushlight.sparse_coo)
""",
    "to_sparse_coo": """The tensor in layout sparse_coo.

Example:
    >>> rl.eye(2).to_sparse_csr().to_sparse_coo().layout
    rushlight.sparse_coo
""",
    "sparse_mask": """The elements at the places where a sparse tensor has some, in its layout.

Arguments:
    `mask`: the sparse tensor.

Example:
    >>> rl.arange(4.0).sparse_mask(rl.tensor([0.0, 1.0, 0.0, 1.0]).to_sparse()).values()
    tensor([1., 3.])
""",
    "smm": """The product of a sparse and a dense matrix, as a sparse one.

Arguments:
    `mat`: the dense matrix.

Example:
    >>> rl.eye(2).to_sparse().smm(rl.ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
""",
    "sspaddmm": """beta * self + alpha * (mat1 @ mat2) of sparse self and mat1, as a sparse one.

Arguments:
    `mat1`, `mat2`: the factors.
    `beta`, `alpha`: numbers.

Example:
    >>> x = rl.eye(2).to_sparse()
    >>> x.sspaddmm(x, rl.ones(2, 2), alpha=2).to_dense()
    tensor([[3., 2.],
            [2., 3.]])
""",
    "sparse_resize_": """Other sizes, in place; elements stay where they are.

Arguments:
    `size`: the new sizes.
    `sparse_dim`, `dense_dim`: how many of them have indices, and how many are in the values.

Example:
    >>> rl.sparse_coo_tensor([[1]], [2.0], (3,)).sparse_resize_((5,), 1, 0).to_dense()
    tensor([0., 2., 0., 0., 0.])
""",
    "sparse_resize_and_clear_": """Other sizes, in place, and no elements.

Arguments:
    `size`: the new sizes.
    `sparse_dim`, `dense_dim`: how many of them have indices, and how many are in the values.

Example:
    >>> rl.sparse_coo_tensor([[1]], [2.0], (3,)).sparse_resize_and_clear_((2,), 1, 0).to_dense()
    tensor([0., 0.])
""",
    "resize_as_sparse_": """The sizes of another sparse tensor, in place.

Arguments:
    `other`: that tensor.

Example:
    >>> x, y = rl.sparse_coo_tensor([[1]], [2.0], (3,)), rl.sparse_coo_tensor((4,))
    >>> x.resize_as_sparse_(y).shape
    rushlight.Size([4])
""",
}
_COMPRESSED = """The matrix in layout sparse_{0}.

Arguments:
{1}    `dense_dim`: how many last dims are parts of the values.

Example:
    >>> rl.eye(2).to_sparse_{0}({2}).layout
    rushlight.sparse_{0}
"""
_BLOCKS = "    `blocksize`: rows and columns of a block.\n"
for _name in ("csr", "csc"):
    _TOLD[f"to_sparse_{_name}"] = _COMPRESSED.format(_name, "", "")
for _name in ("bsr", "bsc"):
    _TOLD[f"to_sparse_{_name}"] = _COMPRESSED.format(_name, _BLOCKS, "(1, 2)")
methods_of(_SPARSE, _TOLD)
