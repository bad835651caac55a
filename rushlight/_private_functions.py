"""Functions that PyTorch keeps behind an underscore and programs call all the same."""

from rushlight import _C
from rushlight._C import Tensor


def _shape_as_tensor(self):
    """The shape as a tensor of integers."""
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _reshape_from_tensor(self, shape):
    """reshape to the sizes in a tensor."""
    return self.reshape(shape.tolist())


def _dim_arange(like, dim):
    """0, 1, ... up to the size of a dim."""
    return _C.arange(like.shape[dim], device=like.device)


def _is_all_true(self):
    """Whether all elements are true, as a tensor."""
    return self.all()


def _is_any_true(self):
    """Whether any element is true, as a tensor."""
    return self.any()


def _is_zerotensor(self):
    """False: all tensors have memory."""
    return False


def _softmax(self, dim, half_to_float):
    """softmax, in float32 for float16 when asked."""
    return self.softmax(dim, dtype=_C.float32 if half_to_float else None)


def _log_softmax(self, dim, half_to_float):
    """log_softmax, in float32 for float16 when asked."""
    return self.log_softmax(dim, dtype=_C.float32 if half_to_float else None)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax, from its result."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax, from its result."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _safe_softmax(self, dim, dtype=None):
    """softmax that gives zeros, not nan, for rows of -inf."""
    found = self.softmax(dim, dtype=dtype)
    return found.masked_fill((self == -float("inf")).all(dim, keepdim=True), 0.0)


def _masked_softmax(self, mask, dim=None, mask_type=None):
    """softmax over the elements whose mask is false."""
    return self.masked_fill(mask, -float("inf")).softmax(-1 if dim is None else dim)


def _masked_scale(self, mask, scale):
    """self * mask * scale."""
    return self * mask * scale


def _sample_dirichlet(self, generator=None):
    """A draw from the Dirichlet distribution with these concentrations."""
    gamma = _C._standard_gamma(self, generator=generator)
    return gamma / gamma.sum(-1, keepdim=True)


def _euclidean_dist(x1, x2):
    """The distances of every two rows."""
    from rushlight.functional import cdist

    return cdist(x1, x2, 2.0, "use_mm_for_euclid_dist")


def _aminmax(self, dim=None, keepdim=False):
    """The smallest and the largest element."""
    return tuple(_C.aminmax(self, dim=dim, keepdim=keepdim))


def _unique(self, sorted=True, return_inverse=False):
    """The distinct elements, and which of them each element is."""
    values, inverse = _C.Tensor.unique(self, sorted=sorted, return_inverse=True)
    return values, inverse if return_inverse else inverse.new_empty(0)


def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    """The distinct elements, which of them each element is, and how many there are of each."""
    values, inverse, counts = _C.Tensor.unique(
        self, sorted=sorted, return_inverse=True, return_counts=True
    )
    empty = inverse.new_empty(0)
    return values, inverse if return_inverse else empty, counts if return_counts else empty


def _conj(self):
    """conj."""
    return self.conj()


def _conj_physical(self):
    """The conjugate in memory of its own."""
    return self.conj().resolve_conj()


def _neg_view(self):
    """-self."""
    return -self


def _weight_norm(v, g, dim=0):
    """v * (g / norm of v over all dims but one)."""
    from rushlight._rare import norm_except_dim

    return v * (g / norm_except_dim(v, 2, dim))


def _pack_padded_sequence(input, lengths, batch_first):
    """The data and the batch sizes of a packed sequence."""
    from rushlight.nn.utils.rnn import pack_padded_sequence

    packed = pack_padded_sequence(input, lengths, batch_first)
    return packed.data, packed.batch_sizes


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies gradients by inv_scale in place, and notes in found_inf (1 or 0) whether one of
    them was not finite."""
    scale = inv_scale.reshape(())
    for g in self:
        if not g.isfinite().all():
            found_inf.fill_(1.0)
        g.mul_(scale.to(g.device, g.dtype))


def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor,
                       growth_interval):  # fmt: skip
    """The step of a gradient scaler: down after a step that was not finite, up after
    growth_interval good ones."""
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.fill_(0)
        return self
    successful = growth_tracker.item() + 1
    if successful == growth_interval:
        grown = self * scale_growth_factor
        if grown.isfinite().all():
            self.copy_(grown)
        growth_tracker.fill_(0)
    else:
        growth_tracker.fill_(successful)
    return self


def _has_compatible_shallow_copy_type(input, from_):
    """Whether set_() could give one tensor the memory of the other."""
    return isinstance(input, Tensor) and isinstance(from_, Tensor)


def _resize_output_(self, size, device):
    """resize_, for a tensor on that device."""
    if self.device != _C.device(device):
        raise _C.DeviceError(f"_resize_output_: the tensor is on {self.device}, not on {device}")
    return self.resize_(size)


def _stack(tensors, dim=0):
    """stack."""
    return _C.stack(tensors, dim)


def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over sumdim of the product of three tensors, each with new dims first."""
    for dims, name in ((expand1, "i1"), (expand2, "i2"), (expand3, "i3")):
        for d in dims:
            if name == "i1":
                i1 = i1.unsqueeze(d)
            elif name == "i2":
                i2 = i2.unsqueeze(d)
            else:
                i3 = i3.unsqueeze(d)
    return (i1 * i2 * i3).sum(list(sumdim)) if len(sumdim) else i1 * i2 * i3


def _addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False):
    """relu, or gelu, of addmm."""
    result = _C.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return _C.gelu(result, approximate="tanh") if use_gelu else result.relu()


def _int_mm(self, mat2):
    """The product of int8 matrices in int32."""
    if self.dtype != _C.int8 or mat2.dtype != _C.int8:
        raise _C.DTypeError(f"_int_mm: needs int8 matrices, got {self.dtype} and {mat2.dtype}")
    return _C.mm(self.to(_C.int32), mat2.to(_C.int32))


def _debug_has_internal_overlap(self):
    """0: no two elements share memory; 1: some do; 2: hard to say."""
    if any(n > 1 and s == 0 for n, s in zip(self.shape, self.stride(), strict=True)):
        return 1
    dense = sorted((s, n) for n, s in zip(self.shape, self.stride(), strict=True) if n > 1)
    reach = 1
    for stride, size in dense:
        if stride < reach:
            return 2
        reach = stride * (size - 1) + reach
    return 0
