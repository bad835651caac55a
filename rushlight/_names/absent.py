"""Why names of PyTorch's are not here: reason, nearest alternative, and what releases will bring.

This is the part of the table that is small; absent_names.py lists the names that can be imported
all the same, with one of these reasons each.
"""

PLANNED = "planned for a later release"
NOT_PLANNED = "not planned"

# Reason, alternative ("" where there is none), and when to expect it.
REASONS = {
    "bottleneck": (
        "programs are not profiled from the command line",
        "use Python's cProfile, or rushlight.profiler",
        NOT_PLANNED,
    ),
    "compiled graphs": ("programs are not compiled into graphs", "", NOT_PLANNED),
    "compiler": (
        "compile() fuses ops while Python runs: there is no compiler with graphs to look into",
        "compile() and compiler.explain()",
        PLANNED,
    ),
    "CUDA interface": ("this part of the CUDA interface is not there", "", NOT_PLANNED),
    "CUDA's own handles": (
        "objects of CUDA's libraries are not handed out",
        "streams, events and graphs are in rushlight.cuda",
        NOT_PLANNED,
    ),
    "device reports": (
        "the driver's measurements are not read",
        "nvidia-smi shows them, cuda.mem_get_info the memory",
        NOT_PLANNED,
    ),
    "export": (
        "this part of PyTorch's exporter is not there",
        "export.export makes a program, ExportedProgram shows it",
        NOT_PLANNED,
    ),
    "extensions": (
        "extensions are C++ and CUDA files",
        "cpp_extension.load, CppExtension, or in Python library.custom_op",
        NOT_PLANNED,
    ),
    "fake tensors": (
        "programs are not traced",
        'tensors without memory have device="meta"',
        NOT_PLANNED,
    ),
    "files": (
        "the parts of files are not shown",
        "files are read and written by rushlight.load and rushlight.save",
        NOT_PLANNED,
    ),
    "fx": (
        "this part of fx is not there",
        "tracers, graphs, interpreters and replaced patterns are",
        NOT_PLANNED,
    ),
    "graphs": (
        "programs are not traced below the functions that they call",
        "use fx.symbolic_trace or jit.trace",
        NOT_PLANNED,
    ),
    "list of functions": (
        "there is no list of all functions",
        "a TorchFunctionMode sees them as they are called",
        NOT_PLANNED,
    ),
    "masked tensors": (
        "there are no masked tensors",
        "the functions of rushlight.masked take a mask, and where and masked_fill put values in",
        NOT_PLANNED,
    ),
    "mkldnn": ("its layout is not there", "operators choose oneDNN's layouts inside", NOT_PLANNED),
    "nccl": (
        "NCCL is not called by itself",
        'distributed.init_process_group("nccl") has its collectives',
        NOT_PLANNED,
    ),
    "new devices": (
        "kinds of devices cannot be added",
        'there are "cpu", "cuda" and "meta"',
        NOT_PLANNED,
    ),
    "distributed": (
        "this part of the distributed package is not there yet",
        "process groups, DistributedDataParallel, DTensor, fully_shard and pipelines are "
        "(docs/distributed.md)",
        PLANNED,
    ),
    "onnx": ("this part of PyTorch's exporter is not there", "use onnx.export", NOT_PLANNED),
    "packages": (
        "models are not packed with their code",
        "save and load keep a model, hub.load fetches code",
        NOT_PLANNED,
    ),
    "phones": ("models are not prepared for phones", "save and load keep a model", NOT_PLANNED),
    "quantization": (
        "quantization is there in eager mode only",
        "ao.quantization.prepare, convert and quantize_dynamic are (docs/quantization.md)",
        NOT_PLANNED,
    ),
    "selective checkpoints": (
        "a checkpoint keeps its inputs and nothing else",
        "put checkpoint() around smaller parts, or use autograd.graph.saved_tensors_hooks to say "
        "what happens to each tensor",
        NOT_PLANNED,
    ),
    "sharding": (
        "this way to split models over processes is not there yet",
        "distributed.fsdp.fully_shard and distributed.tensor.parallel are (docs/distributed.md)",
        PLANNED,
    ),
    "sharded tensors": (
        "ShardedTensor is PyTorch's older form of DTensor, with cuts and remote parts of its own",
        "distributed.tensor.DTensor; distributed.checkpoint loads what was saved from either",
        NOT_PLANNED,
    ),
    "sparse": (
        "two of four elements in a row (semi-structured) is no layout here",
        "rushlight.sparse has the layouts COO, CSR, CSC, BSR and BSC",
        NOT_PLANNED,
    ),
    "TorchScript": (
        "programs run as they are written, and keep no graph of what they ran",
        "the `code` of a program shows it",
        NOT_PLANNED,
    ),
}

# Whole areas, by the start of the dotted name; the longest fitting one is told.
AREAS = {
    "_dynamo": "compiler",
    "_inductor": "compiler",
    "_subclasses": "fake tensors",
    "ao": "quantization",
    "cuda": "CUDA interface",
    "distributed": "distributed",
    "distributed._composable": "sharding",
    "distributed._shard": "sharded tensors",
    "distributed._tensor": "sharding",
    "distributed.checkpoint": "sharding",
    "distributed.device_mesh": "sharding",
    "distributed.elastic": "sharding",
    "distributed.fsdp": "sharding",
    "distributed.pipelining": "sharding",
    "distributed.tensor": "sharding",
    "export": "export",
    "fx": "fx",
    "onnx": "onnx",
    "package": "packages",
    "quantization": "quantization",
    "sparse": "sparse",
    "utils.cpp_extension": "extensions",
}

# Modules that consist of absent names: they have no files, import_hook.py makes them.
MODULES = frozenset(
    """_subclasses _subclasses.fake_tensor cuda.nccl distributed._composable
    distributed._composable.fsdp distributed._shard
    distributed._shard.sharded_tensor distributed._tensor distributed._tensor.device_mesh
    distributed._tensor.experimental distributed._tensor.placement_types
    distributed.algorithms._checkpoint distributed.algorithms._checkpoint.checkpoint_wrapper
    distributed.constants
    fx.experimental.proxy_tensor mps mtia
    onnx.symbolic_opset10 onnx.symbolic_opset11 onnx.symbolic_opset12 onnx.symbolic_opset13
    onnx.symbolic_opset9 onnx.utils package utils.backend_registration
    utils.bottleneck utils.mobile_optimizer xpu""".split()
)

# Methods and attributes of Tensor; hasattr is false for them.
METHODS = {
    "mkldnn": "to_mkldnn",
}

# What PyTorch removed, and what to use. They are functions of the package and, but for
# matrix_rank, methods of Tensor.
REMOVED = {
    "eig": "linalg.eig or linalg.eigvals",
    "lstsq": "linalg.lstsq, whose arguments are the other way round",
    "matrix_rank": "linalg.matrix_rank",
    "solve": "linalg.solve, whose arguments are the other way round",
    "symeig": "linalg.eigh or linalg.eigvalsh",
}


def explained(reason):
    """A reason as text: why, what to use, and when to expect it."""
    why, instead, release = REASONS[reason]
    return "; ".join(part for part in (why, instead, release) if part)


def why_missing(dotted):
    """Why a name below the package (such as "sparse.mm") is not there, or ''."""
    while dotted:
        if dotted in AREAS:
            return explained(AREAS[dotted])
        dotted = dotted.rpartition(".")[0]
    return ""
