"""The lazy versions of convolutions. Loaded when first asked for, see nn/_uninitialized.py."""

from rushlight.nn._uninitialized import UninitializedParameter
from rushlight.nn.modules import conv
from rushlight.nn.modules.lazy import LazyModuleMixin

__all__ = """LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
LazyConvTranspose3d""".split()


class _LazyConv(LazyModuleMixin):
    def __init__(self, out_channels, kernel_size, *args, bias=True, device=None, dtype=None, **kw):
        # `bias` may also come by position, behind different arguments in the two kinds.
        names = self._positional
        kw.update(zip(names, args, strict=False))
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__}: at most {2 + len(names)} arguments by position")
        bias = kw.pop("bias", bias)
        super().__init__(0, 0, kernel_size, bias=False, **kw)
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**options)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        if not self.has_uninitialized_params():
            return
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"{type(self).__name__} takes an input of {self.dims + 1} or {self.dims + 2} dims, "
                f"got shape {list(input.shape)}"
            )
        self.in_channels = input.shape[-self.dims - 1]
        if self.in_channels % self.groups:
            raise ValueError(
                f"in_channels must be divisible by groups, got {self.in_channels} and {self.groups}"
            )
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


def _lazy(cls):
    positional = ("stride", "padding", "dilation", "groups", "bias", "padding_mode")
    if cls.transposed:
        positional = (
            "stride", "padding", "output_padding", "groups", "bias", "dilation", "padding_mode"
        )  # fmt: skip
    doc = f"{cls.__name__} that takes in_channels from its first input."
    members = {
        "cls_to_become": cls,
        "_positional": positional,
        "__module__": __name__,
        "__doc__": doc,
    }
    return type(f"Lazy{cls.__name__}", (_LazyConv, cls), members)


LazyConv1d = _lazy(conv.Conv1d)
LazyConv2d = _lazy(conv.Conv2d)
LazyConv3d = _lazy(conv.Conv3d)
LazyConvTranspose1d = _lazy(conv.ConvTranspose1d)
LazyConvTranspose2d = _lazy(conv.ConvTranspose2d)
LazyConvTranspose3d = _lazy(conv.ConvTranspose3d)
