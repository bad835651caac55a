"""Settings of PyTorch's tracer: kept, without effect."""

from rushlight._names.settings import make_settings

cache_size_limit = 8
recompile_limit = 8
accumulated_cache_size_limit = 256
suppress_errors = False
verbose = False
disable = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
automatic_dynamic_shapes = True
assume_static_by_default = True
optimize_ddp = True

make_settings(__name__)
