"""Sparse tensors: tensors are dense here. The names can be found, and raise when called."""

from rushlight._missing import absent

absent(
    globals(),
    "tensors are dense: there is no sparse layout",
    classes="""BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor
    LongTensor ShortTensor SparseSemiStructuredTensor""",
    functions="""addmm as_sparse_gradcheck log_softmax mm sampled_addmm softmax spdiags spsolve sum
    to_sparse_semi_structured""",
)
