"""What an argument means in all ops that have one of that name, unless a row's `args:` says so.

A line is a name, for some the kind of argument (a value of row.ARG_KINDS), and the text; lines that
are indented go on with the one before.
"""

TEXT = """
self Tensor: the tensor to work on.
self Operand: the left operand; it broadcasts.
self Scalar: a number in place of the left tensor.
input: the tensor to work on.
other Tensor: the second tensor; it broadcasts with the first.
other Operand: the right operand; it broadcasts with the left one.
dim Int: the dim to work along; negative numbers count from the last one.
dim Ints: the dim or dims to work along; negative numbers count from the last one.
keepdim: keep each reduced dim with size 1, so that the result broadcasts with the input.
dtype: dtype of the result; None leaves the choice to the op.
device: where the result lies; None is the default device, or that of the tensor given.
layout: only `rushlight.strided` here, which is the default.
pin_memory: put the result into page-locked memory, from which copies to a GPU are faster.
requires_grad: record what is done with the result for backward.
memory_format: order of dims in memory: `contiguous_format`, `channels_last` or `preserve_format`.
generator: where the random numbers come from; None is the device's own generator.
out Tensor: a tensor to write the result into; it is resized where needed.
out Tensors: tensors to write the results into, in the order of the results.
size Int: length of a window.
size Ints: the shape, as a sequence or as one argument per dim.
weight: the weights of the layer, or a factor per element.
bias: one number per output channel that is added; None adds nothing.
stride: how far a window moves per step, one number for all dims or one per dim.
padding: how many elements are added on both sides of a dim.
output_padding: how many elements are added on one side of the result.
dilation: distance between the elements of a kernel.
groups: the channels are cut into so many groups that do not see each other.
kernel_size: length of the window, one number for all dims or one per dim.
ceil_mode: keep a last window that hangs over the border.
index Tensor: int64 positions along `dim`.
index Int: the position along `dim`.
indices: int64 positions.
src: the values to write.
source: the values to write.
value: the number to use.
fill_value: the number that every element gets.
mask: a bool tensor that broadcasts with the first.
condition: a bool tensor; it broadcasts with both others.
alpha: factor for the second operand.
beta: factor for the first operand; with 0 its nan and inf are ignored.
offset: which diagonal: 0 the main one, above it positive, below it negative.
diagonal: which diagonal: 0 the main one, above it positive, below it negative.
dim0: the first of the two dims.
dim1: the first of the two dims that span the matrices.
dim2: the second of the two dims that span the matrices.
axis0: the first of the two dims.
axis1: the second of the two dims.
dims: the dims.
tensors: the tensors to join, at least one.
start: the first number.
end: the end of the range.
step: distance between neighbours.
steps: how many numbers.
eps: a small number that is added to the variance, so that nothing is divided by zero.
p: the probability of a one, or the order of a norm.
mean: the mean of the distribution.
std: the standard deviation of the distribution.
low: the smallest integer that is drawn.
high: one above the largest integer that is drawn.
unbiased: divide by n - 1 instead of n (the same as `correction=1` and `correction=0`).
correction: the variance divides by n - correction; None is 1.
non_blocking: let copies from pinned memory to a GPU run beside the program.
copy: copy even when nothing changes.
accumulate: add to what is there instead of replacing it; a position may then occur twice.
include_self: let the old values of the tensor take part.
rtol: tolerance relative to `other`.
atol: absolute tolerance.
equal_nan: let nan equal nan.
descending: largest first.
stable: keep the order of equal elements.
right: which side of an equal element: False before it, True after it.
out_int32: positions as int32 instead of int64.
sections: how many pieces.
normalized_shape: the sizes of the last dims, over which is normalised.
momentum: how much of the new statistics goes into the running ones.
running_mean: means per channel, updated in training; None keeps none.
running_var: variances per channel, updated in training; None keeps none.
cudnn_enabled: accepted for PyTorch's sake; changes nothing.
cudnn_enable: accepted for PyTorch's sake; changes nothing.
mat1: the left matrix.
mat2: the right matrix, or batch of matrices.
mat: the matrix.
vec: the vector.
vec1: the left vector.
vec2: the right vector.
batch1: the left matrices, (B, N, M).
batch2: the right matrices, (B, M, P).
tensor1: the first factor.
tensor2: the second factor, or the divisor.
exponent: the exponent; it broadcasts.
hx: the state to begin with; None is zeros.
params: the weights of all layers and directions, in the order of `nn.RNN`'s parameters.
has_biases: whether `params` holds biases.
num_layers: how many layers stand on one another.
dropout: probability of dropping an element between two layers.
train: whether dropout is active.
bidirectional: a second direction runs from the end to the start.
batch_first: the batch comes before time in the input and the output.
data: the elements of a packed batch.
batch_sizes: how many sequences still run, for each time step.
w_ih: weights from the input, (G * hidden, input).
w_hh: weights from the state, (G * hidden, hidden).
b_ih: bias beside `w_ih`.
b_hh: bias beside `w_hh`.
min: lower bound; None is no bound.
max: upper bound; None is no bound.
lambd: the threshold, or the rate.
k: how many, or which.
n: how many.
bins Int: how many bins.
bins Tensor: the edges of the bins, ascending.
split_size Int: length of a piece.
split_size Ints: the lengths of the pieces.
row: rows of the matrix.
col: columns of the matrix.
reduce: how values that meet are combined.
repeats: how often each element is repeated.
storage_offset: where the first element lies in the storage; None keeps it.
output_size: the size of the result.
sparse_grad: accepted; gradients are dense here.
implicit: accepted for PyTorch's sake; changes nothing.
"""


def read(text):
    """(name, kind) -> what it means; the kind is empty where all have the same."""
    found = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        head, _, meaning = line.partition(": ")
        name, _, kind = head.partition(" ")
        found[name, kind] = meaning
    return found


TEXTS = read(TEXT)
