"""Where the names of operators are public, as far as that is said in Python.

Every operator of the table is a function of the package (`from rushlight._C import *`), unless it
is named here or begins with an underscore. linalg, fft, special and nn.functional take theirs from
the core one by one.
"""

# Operators that PyTorch has in nn.functional only.
NOT_AT_TOP = """elu elu_ gelu gelu_ hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_
leaky_relu leaky_relu_ linear log_sigmoid mish mish_ relu6 relu6_ scaled_dot_product_attention silu
silu_ softplus softshrink softsign tanhshrink""".split()

# Functions of nn.functional that PyTorch also has at the top, with the same arguments.
ALSO_AT_TOP = """channel_shuffle cosine_similarity layer_norm native_channel_shuffle
pairwise_distance pdist pixel_shuffle pixel_unshuffle rms_norm rrelu rrelu_""".split()
