"""Quantization: not there. QuantStub and DeQuantStub do nothing in a float model, as in PyTorch."""

from rushlight._missing import absent
from rushlight.nn import Identity

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Identity):
    """Marks where a quantized model would quantize its input; in a float model, the identity."""

    def __init__(self, qconfig=None):
        super().__init__()


class DeQuantStub(QuantStub):
    """Marks where a quantized model would go back to floats."""


absent(
    globals(),
    "there is no quantization",
    classes="""FakeQuantize HistogramObserver MinMaxObserver MovingAverageMinMaxObserver
    PerChannelMinMaxObserver QConfig QConfigMapping QuantWrapper""",
    functions="""convert default_observer disable_observer enable_fake_quant enable_observer
    fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qconfig prepare prepare_qat
    propagate_qconfig_ quantize quantize_dynamic quantize_qat""",
)
