"""Names of torch.optim.optimizer that custom optimisers import."""

from rushlight._C import Tensor
from rushlight.optim.optimizer import ParamsT

_params_t = ParamsT
_foreach_doc = _fused_doc = _maximize_doc = _capturable_doc = _differentiable_doc = _params_doc = ""


def _use_grad_for_differentiable(func):
    """A step that records gradients only for optimisers that are differentiable."""
    import functools

    from rushlight.autograd import set_grad_enabled

    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with set_grad_enabled(self.defaults.get("differentiable", False)):
            return func(self, *args, **kwargs)

    return step


def _get_value(x):
    """A number, also when it lies in a tensor."""
    return x.item() if isinstance(x, Tensor) else x


def _dispatch_sqrt(x):
    """The root of a number or a tensor."""
    import math

    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)


def _stack_if_compiling(x):
    """x itself: nothing is compiled."""
    return x


def _to_scalar(x):
    """A tensor of one element without dimensions; other things as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach) for optimisers that do not say: neither."""
    return False, False


def _get_scalar_dtype(is_fused=None):
    """The dtype of step counters."""
    from rushlight import _C

    return _C.float64 if _C.get_default_dtype() == _C.float64 and not is_fused else _C.float32


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator that leaves the function as it is."""
    return lambda func: func


def _get_capturable_supported_devices(supports_xla=True):
    """The kinds of device on which a step can be captured."""
    return ["cuda"]


def _view_as_real(params, *state_and_grads):
    """Complex tensors in lists are replaced by real views of them."""
    from rushlight import _C

    for i, p in enumerate(params):
        if p.is_complex():
            params[i] = _C.view_as_real(p)
            for values in state_and_grads:
                values[i] = _C.view_as_real(values[i])
