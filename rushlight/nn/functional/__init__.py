"""Functions of neural networks."""

from rushlight._functions.products import grouped_mm
from rushlight._names.missing import names_missing_from
from rushlight.nn.functional import _reduction as _Reduction
from rushlight.nn.functional.activation import *
from rushlight.nn.functional.attention import *
from rushlight.nn.functional.convolution import *
from rushlight.nn.functional.dropout import *
from rushlight.nn.functional.linear import *
from rushlight.nn.functional.loss_classification import *
from rushlight.nn.functional.loss_margin import *
from rushlight.nn.functional.loss_regression import *
from rushlight.nn.functional.norm import *
from rushlight.nn.functional.padding import pad
from rushlight.nn.functional.pooling import *
from rushlight.nn.functional.scaled import *
from rushlight.nn.functional.shuffle import *
from rushlight.nn.functional.vision import *

# isort: split
# The ops come last: `linear` is the name of a file above, too.
from rushlight._places.nn_functional import *

__getattr__ = names_missing_from(__name__)
