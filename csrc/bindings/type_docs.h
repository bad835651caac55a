// type_docs.h: the docstrings of the types that are written in C++. The first line of those that
// can be called is the signature, as Python's own types have it; `help`, the stubs and the site
// show the rest, and the examples run in the tests.
#pragma once

namespace rush::py {

inline constexpr char kTensorDoc[] =
    R"(An array of numbers of one dtype, with any number of dims, on one device.

Tensors are made by functions: `rl.tensor` of data, `rl.zeros`, `rl.rand` and many others. Calling
the class itself is the old way: ints are sizes of memory that nobody has set, one sequence is data
that becomes the default dtype, and `device` is the only option.

A tensor is a view of a storage: slices, `view` and `transpose` share its memory. What is done
with one that has `requires_grad` is recorded, and `backward` fills `grad`.

Attributes:
    shape, dtype, device, layout: what it is; the shape is a Size.
    requires_grad (bool): record what is done with it.
    grad (Tensor, optional): what backward has added up here, for leaves.
    grad_fn (autograd.graph.Node, optional): what made it, where that was recorded.
    T, mT, H, mH: transposed; the last two dims of matrices; conjugated as well.
    real, imag: views of the parts.
    data: the same memory without a history.

Raises:
    TypeError: for data that is no numbers, and for options such as `dtype`, which `rl.tensor` has.

Example:
    >>> x = rl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward(); x.grad
    tensor([[2., 4.],
            [6., 8.]])
    >>> x.shape, x.dtype, x.device
    (rushlight.Size([2, 2]), rushlight.float32, device(type='cpu'))
    >>> rl.Tensor([1, 2])
    tensor([1., 2.]))";

inline constexpr char kGeneratorDoc[] = R"(Generator(device='cpu')
--

A source of random numbers with a seed of its own, apart from the default one.

Functions that draw numbers take it as `generator`. A seed gives the same numbers on every device
and with every number of threads: they are counted, not handed from one to the next, so that the
state is the seed and how many calls have been made.

Arguments:
    device (device, str or int, optional): the device that it is made for; a generator draws on any.

Raises:
    RuntimeError: for a device that is not known.

Differs from PyTorch: the numbers of a seed are others, and those of the CPU and of a GPU are
the same; a generator need not be of the device on which it draws.

Example:
    >>> g = rl.Generator(device="cpu").manual_seed(3)
    >>> a = rl.rand(2, generator=g)
    >>> rl.equal(a, rl.rand(2, generator=g.manual_seed(3))), g.initial_seed(), g.get_offset()
    (True, 3, 1))";

inline constexpr char kSizeDoc[] = R"(Size(sizes=())
--

What `shape` and `size()` give: a tuple of ints, whose slices and sums are Sizes too.

Arguments:
    sizes (iterable of ints): the sizes; 0-d tensors of integers and bools become ints.

Raises:
    TypeError: for an item that is no int.

Example:
    >>> size = rl.ones(2, 3, 4).shape
    >>> size[1:], size.numel(), size == (2, 3, 4)
    (rushlight.Size([3, 4]), 24, True)
    >>> rl.Size([5]) + size
    rushlight.Size([5, 2, 3, 4]))";

inline constexpr char kStorageDoc[] = R"(UntypedStorage(data=0, *, device='cpu')
--

The bytes under one tensor or several, without a dtype.

`Tensor.untyped_storage` gives that of a tensor. Bytes can be read and set by index and by slice,
and Python's `memoryview` sees them.

Arguments:
    data (int or bytes-like): how many bytes, which are not set; or what to copy.
    device (device, str or int): where the bytes lie; copies of data lie on the CPU.

Raises:
    TypeError: for data that is neither.
    ValueError: for a negative size, and for data that is to lie elsewhere than on the CPU.

Example:
    >>> storage = rl.UntypedStorage(b"\x01\x02\x03", device="cpu")
    >>> storage[1], len(storage), storage.tolist()
    (2, 3, [1, 2, 3])
    >>> x = rl.ones(4)
    >>> len(x.untyped_storage()), x[1:].untyped_storage().data_ptr() == x.data_ptr()
    (16, True))";

inline constexpr char kDeviceDoc[] = R"(device(type, index=None)
--

Where a tensor's bytes lie. In a with statement: where new tensors go.

Every `device` argument takes one of these, or its text.

Arguments:
    type (str, int or device): "cpu", "cuda", "cuda:1", "meta" (shapes alone, no bytes), or the
        number of a GPU. Names such as "mps" are known for comparisons, and have no tensors.
    index (int, optional): the number of the GPU, where `type` does not say it; None is the
        current one.

Raises:
    RuntimeError: for a name that is not known, and for an index that is given twice or is not 0
        to 127.
    TypeError: for a type that is none of these.

Example:
    >>> rl.device("cuda:1") == rl.device("cuda", index=1)
    True
    >>> with rl.device("meta"):
    ...     x = rl.zeros(1000, 1000)
    >>> x.device.type, x.shape
    ('meta', rushlight.Size([1000, 1000])))";

inline constexpr char kDtypeDoc[] =
    R"(The type of a tensor's elements: `rl.float32`, `rl.int64`, `rl.bool` and so on.

There is one object per dtype, and no others can be made. Python's `float`, `int`, `bool` and
`complex` stand for float64, int64, bool and complex128 in arguments.

Attributes:
    itemsize (int): bytes of one element.
    is_floating_point, is_complex, is_signed (bool): which numbers it holds.

Raises:
    TypeError: when it is called.

Example:
    >>> x = rl.ones(2, dtype=rl.float16)
    >>> x.dtype, x.dtype.itemsize, isinstance(x.dtype, rl.dtype)
    (rushlight.float16, 2, True)
    >>> (x + rl.ones(2)).dtype, rl.complex64.to_real()
    (rushlight.float32, rushlight.float32))";

inline constexpr char kFinfoDoc[] = R"(finfo(type=None)
--

The limits of a floating dtype: what it can hold, and how finely.

Arguments:
    type (dtype, optional): a floating dtype, or a complex one, which is described by its parts;
        None is the default dtype.

Attributes:
    max, min (float): the largest number, and -max.
    eps (float): from 1 to the next number.
    tiny, smallest_normal (float): the smallest positive number of full precision.
    resolution (float): 10 to the power of -(decimal digits that can be relied on).
    bits (int): of one number.
    dtype (str): its name.

Raises:
    TypeError: for a dtype that is not floating.

Example:
    >>> rl.finfo(rl.float16).max, rl.finfo(rl.bfloat16).eps
    (65504.0, 0.0078125)
    >>> rl.tensor(float("inf")).clamp(max=rl.finfo().max)
    tensor(3.4028e+38))";

inline constexpr char kIinfoDoc[] = R"(iinfo(type)
--

The limits of an integer dtype: the smallest and the largest number that it can hold.

Arguments:
    type (dtype): an integer dtype.

Attributes:
    min, max (int): the limits.
    bits (int): of one number.
    dtype (str): its name.

Raises:
    TypeError: for a dtype that is not of integers; bool is not.

Example:
    >>> rl.iinfo(rl.int8).min, rl.iinfo(rl.int8).max
    (-128, 127)
    >>> rl.iinfo(rl.int64).max == 2**63 - 1
    True)";

inline constexpr char kLayoutDoc[] =
    R"(How a tensor's elements are stored: all of them (`rl.strided`), or those that are not zero.

There is one object per layout, and no others can be made: `rl.strided`, `rl.sparse_coo`,
`rl.sparse_csr`, `rl.sparse_csc`, `rl.sparse_bsr`, `rl.sparse_bsc` and `rl.jagged`, of nested
tensors.

Raises:
    TypeError: when it is called.

Example:
    >>> x = rl.tensor([[0.0, 2.0], [0.0, 0.0]])
    >>> x.layout, x.to_sparse().layout, isinstance(x.layout, rl.layout)
    (rushlight.strided, rushlight.sparse_coo, True))";

inline constexpr char kMemoryFormatDoc[] =
    R"(The order in which a tensor's dims lie in memory; its shape says nothing about it.

`rl.contiguous_format` has the last dim's elements side by side, `rl.channels_last` (4 dims) and
`rl.channels_last_3d` (5 dims) the channels of a pixel. `rl.preserve_format` keeps what the source
has. Convolutions keep channels_last, and many are faster on it.

Raises:
    TypeError: when it is called.

Example:
    >>> picture = rl.ones(1, 3, 4, 5).contiguous(memory_format=rl.channels_last)
    >>> picture.shape, picture.stride()
    (rushlight.Size([1, 3, 4, 5]), (60, 1, 15, 3))
    >>> picture.is_contiguous(memory_format=rl.channels_last)
    True
    >>> isinstance(rl.channels_last, rl.memory_format)
    True)";

inline constexpr char kNodeDoc[] =
    R"(A node of the graph that backward walks: one operation that was recorded.

`grad_fn` of a tensor gives it; its class is named after the operation. What the operation saved for
backward is there as attributes that begin with `_saved_`.

Attributes:
    next_functions: the nodes of the operation's inputs, as pairs (node or None, which of its
        results).
    variable (Tensor): of nodes that add to a leaf's `grad`: the leaf.
    metadata (dict): for whatever you want to keep here.

Raises:
    TypeError: when it is called: operations make nodes.

Example:
    >>> x = rl.ones(2, requires_grad=True)
    >>> node = (x * 2).grad_fn
    >>> node.name(), isinstance(node, rl.autograd.graph.Node)
    ('MulBackward0', True)
    >>> node.next_functions[0][0].variable is x
    True)";

}  // namespace rush::py
