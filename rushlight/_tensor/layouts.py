"""Methods about sparse and nested layouts, which are loaded when one of them is called."""

from rushlight._tensor import methods_of

methods_of(
    "rushlight.sparse._methods",
    """ccol_indices coalesce col_indices crow_indices dense_dim indices is_coalesced
    resize_as_sparse_ row_indices smm sparse_dim sparse_mask sparse_resize_
    sparse_resize_and_clear_ sspaddmm to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo
    to_sparse_csc to_sparse_csr values _coalesced_ _indices _nnz _values""",
    told_by="rushlight.sparse._methods",
)
methods_of("rushlight.nested", "to_padded_tensor", told_by="rushlight.nested")
