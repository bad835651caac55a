"""What PyTorch makes DataParallel of, as functions with gradients; over cuda.comm."""

from rushlight._utils import _as_device
from rushlight.autograd import Function
from rushlight.cuda import comm

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


def _index(device):
    device = _as_device(device)
    return -1 if device.type == "cpu" else device.index


class Broadcast(Function):
    """Broadcast.apply(devices, *tensors): all tensors on the first device, then on the second, ...;
    gradients are summed on the tensors' own device."""

    @staticmethod
    def forward(ctx, target_gpus, *inputs):
        for i, tensor in enumerate(inputs):
            if tensor.device.type == "cpu":
                raise AssertionError(f"Broadcast: tensors must be on a GPU, number {i} is not")
        ctx.target_gpus = [_as_device(gpu) for gpu in target_gpus]
        ctx.num_inputs = len(inputs)
        if not inputs:
            return ()
        ctx.input_device = inputs[0].get_device()
        copies = comm.broadcast_coalesced(inputs, ctx.target_gpus)
        constant = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if not needed]
        ctx.mark_non_differentiable(*(those[i] for those in copies for i in constant))
        return tuple(tensor for those in copies for tensor in those)

    @staticmethod
    def backward(ctx, *grad_outputs):
        return (None, *ReduceAddCoalesced.apply(ctx.input_device, ctx.num_inputs, *grad_outputs))


class ReduceAddCoalesced(Function):
    """ReduceAddCoalesced.apply(device, n, *tensors): sums of every n-th tensor, on one device."""

    @staticmethod
    def forward(ctx, destination, num_inputs, *grads):
        ctx.target_gpus = [grads[i].get_device() for i in range(0, len(grads), num_inputs)]
        groups = [grads[i : i + num_inputs] for i in range(0, len(grads), num_inputs)]
        return comm.reduce_add_coalesced(groups, destination)

    @staticmethod
    def backward(ctx, *grad_outputs):
        return (None, None, *Broadcast.apply(ctx.target_gpus, *grad_outputs))


class Gather(Function):
    """Gather.apply(device, dim, *tensors): the tensors joined along dim on one device."""

    @staticmethod
    def forward(ctx, target_device, dim, *inputs):
        for i, tensor in enumerate(inputs):
            if tensor.device.type == "cpu":
                raise AssertionError(f"Gather: tensors must be on a GPU, number {i} is not")
        ctx.dim = dim
        ctx.input_gpus = tuple(tensor.get_device() for tensor in inputs)
        ctx.unsqueezed_scalar = dim == 0 and all(tensor.dim() == 0 for tensor in inputs)
        if ctx.unsqueezed_scalar:  # numbers become a vector
            inputs = tuple(tensor.view(1) for tensor in inputs)
        ctx.input_sizes = [tensor.size(dim) for tensor in inputs]
        return comm.gather(inputs, dim, _as_device(target_device))

    @staticmethod
    def backward(ctx, grad_output):
        parts = Scatter.apply(ctx.input_gpus, ctx.input_sizes, ctx.dim, grad_output)
        return (None, None, *(part[0] if ctx.unsqueezed_scalar else part for part in parts))


class Scatter(Function):
    """Scatter.apply(devices, sizes, dim, tensor): the tensor cut along dim, a piece per device."""

    @staticmethod
    def forward(ctx, target_gpus, chunk_sizes, dim, input):
        ctx.dim = dim
        ctx.input_device = _index(input.device)
        return comm.scatter(input, [_as_device(gpu) for gpu in target_gpus], chunk_sizes, dim)

    @staticmethod
    def backward(ctx, *grad_output):
        if ctx.input_device == -1:
            from rushlight import _C

            return None, None, None, _C.cat([grad.cpu() for grad in grad_output], ctx.dim)
        return None, None, None, Gather.apply(ctx.input_device, ctx.dim, *grad_output)
