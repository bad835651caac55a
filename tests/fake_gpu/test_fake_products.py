"""Products that wait for relu in a compiled function: what is launched, without a GPU."""

import os

import pytest

NAMES = """
from rushlight.profiler import ProfilerActivity, profile
nn, F = rl.nn, rl.nn.functional
def launched(f, *args):
    for _ in range(3):
        f(*args)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        f(*args)
    kernels = [e.name for e in seen.events() if e.activity == "kernel"]
    print(*(name.split("rush::", 1)[-1].split("<")[0] for name in kernels))
def compiled(f):
    return rl.compile(f, options={"wait_for_code": True})
x, w, b = (rl.zeros(*size, device="cuda") for size in ((256, 256), (256, 256), (256,)))
"""


@pytest.fixture
def run_both(cupti_folder, products_folder, run):
    """run, with a CUPTI and a cuBLASLt."""
    path = os.pathsep.join([str(cupti_folder), str(products_folder)])
    return lambda code, **env: run(NAMES + code, RUSHLIGHT_LIBRARY_PATH=path, **env)


RELU = "launched(compiled(lambda: F.relu(F.linear(x, w, b))))"


def test_relu_comes_with_the_product(run_both):
    assert run_both(RELU, FAKE_KEEPS_NAN=1) == ["product"]
    # A library that makes zero of nan does not get it.
    assert run_both(RELU) == ["product pointwise_flat"]
    assert run_both("launched(lambda: F.relu(F.linear(x, w, b)))", FAKE_KEEPS_NAN=1) == [
        "product pointwise_flat"
    ]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("nn.Sequential(layer, nn.ReLU(inplace=True))(x)", "product"),
        ("F.relu(layer(x)).exp().sin()", "product fused_flat"),
        # Somebody else wants the product, too, or something else follows it.
        ("(lambda y: (y, F.relu(y)))(layer(x))", "product pointwise_flat"),
        ("(lambda y: F.relu(y) + y)(layer(x))", "product fused_flat"),
        ("F.gelu(layer(x))", "product pointwise_flat"),
        # Nobody wants it, or only what is computed from its shape.
        ("layer(x).shape", ""),
        # In another type, relu is not taken in; nor of a result that is not a matrix's.
        ("F.relu(layer.half()(x.half()))", "copy_flat product pointwise_flat"),
        ("F.relu(F.linear(x, w))", "product pointwise_flat"),
    ],
)
def test_what_follows(run_both, body, names):
    layer = "layer = nn.Linear(256, 256).cuda().requires_grad_(False)\n"
    assert run_both(f"{layer}launched(compiled(lambda: {body}))", FAKE_KEEPS_NAN=1) == [names]


def test_training(run_both):
    code = """
layer = nn.Linear(256, 256).cuda()
def step():
    F.relu(layer(x)).sum().backward()
    layer.zero_grad()
launched(step)
launched(compiled(step))
"""
    eager, fused = (line.split() for line in run_both(code, FAKE_KEEPS_NAN=1))
    assert eager.count("product") == fused.count("product")
    assert len(fused) < len(eager)
    assert fused[0] == "product" and fused[1] != "pointwise_flat"


def test_it_is_done_before_anything_changes_what_it_reads(run_both):
    code = """
def f():
    y = F.linear(x, w, b)
    {}
    return F.relu(y)
launched(compiled(f))
"""
    for change in ("w.exp_()", "b.exp_()", "x.exp_()"):
        assert run_both(code.format(change), FAKE_KEEPS_NAN=1) == [
            "product pointwise_flat pointwise_flat"
        ]
    for change in ("rl.backends.cuda.matmul.allow_tf32 = True", "y.data_ptr()"):
        assert run_both(code.format(change), FAKE_KEEPS_NAN=1) == ["product pointwise_flat"]


def test_nobody_waits_where_that_is_forbidden(run_both):
    code = """
f = compiled(lambda: F.relu(F.linear(x, w, b)))
cuda.set_sync_debug_mode("error")
launched(f)
cuda.set_sync_debug_mode("default")
launched(f)
"""
    assert run_both(code, FAKE_KEEPS_NAN=1) == ["product pointwise_flat", "product"]
    code = """
f = compiled(lambda: F.relu(F.linear(x, w, b)))
F.linear(x, w, b)  # makes what the libraries need
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    y = f()
graph.replay()
launched(f)
"""
    assert run_both(code, FAKE_KEEPS_NAN=1) == ["product"]


def test_another_thread_computes_it(run_both):
    code = """
import threading
def f():
    y = F.linear(x, w, b)
    other = []
    thread = threading.Thread(target=lambda: other.append(y.cpu()))
    thread.start()
    thread.join()
    return F.relu(y)
compiled(f)()
print("done")
"""
    assert run_both(code, FAKE_KEEPS_NAN=1) == ["done"]


def test_convolutions(run_with_cudnn):
    code = (
        NAMES
        + """
layer = nn.Conv2d(64, 64, 3, padding=1).cuda().requires_grad_(False)
for size in 128, 32:
    x = rl.zeros(4, 64, size, size, device="cuda").to(memory_format=rl.channels_last)
    launched(compiled(lambda: F.relu(layer(x))))
    launched(compiled(lambda: layer(x).relu_()))
    launched(compiled(lambda: F.silu(layer(x))))
"""
    )
    large = run_with_cudnn(code, FAKE_KEEPS_NAN=1)
    found = [[n for n in line.split() if "cudnn" in n or "pointwise" in n] for line in large]
    joined = ["cudnn_with_bias_and_relu"]
    assert found[:3] == [joined, joined, ["cudnn_with_bias", "pointwise_flat"]]
    # Images that are too small for the call that does it all.
    assert found[3:] == [["cudnn_plan", "pointwise_rows", "pointwise_flat"]] * 3


LOOKUPS = """
tables = [rl.zeros(50, 128, device="cuda") for _ in range(2)]
index = rl.zeros(4096, dtype=rl.int64, device="cuda")
def rows():
    return [F.embedding(index, t) for t in tables]
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("rl.cat(rows(), 1)", "embedding_rows embedding_rows"),
        ("rl.cat([*rows(), x4], 1)", "embedding_rows embedding_rows copy_strided"),
        ("rl.cat(rows(), 1).exp()", "embedding_rows embedding_rows pointwise_flat"),
        # Along another dim, or of another type, they are copied.
        ("rl.cat(rows(), 0)", "embedding_rows embedding_rows cat"),
        ("rl.cat([rows()[0], x4.half()], 1)", "embedding_rows copy_flat copy_strided cat"),
        # Held on to: looked up once more where it is asked for.
        ("(lambda r: (rl.cat(r, 1), r[0]))(rows())", "embedding_rows " * 2 + "embedding_rows"),
        ("rows()[0] + 1", "embedding_rows pointwise_flat"),
        ("rows()[0].shape", ""),
    ],
)
def test_rows_that_are_looked_up_and_joined(run_both, body, names):
    code = LOOKUPS + "x4 = rl.zeros(4096, 128, device='cuda')\n"
    assert run_both(code + f"launched(compiled(lambda: {body}))") == [names]


def test_a_table_is_written_to_while_its_rows_wait(run_both):
    code = (
        LOOKUPS
        + """
def f():
    held = rows()
    joined = rl.cat(held, 1)
    tables[0].exp_()
    return joined, held
launched(compiled(f))
"""
    )
    expected = "embedding_rows embedding_rows embedding_rows embedding_rows pointwise_flat"
    assert run_both(code) == [expected]


def test_a_part_of_a_join_that_a_variable_holds(run_both):
    code = """
a, b, c = (rl.zeros(256, 128, device="cuda") for _ in range(3))
def f(later):
    part = a * b
    joined = rl.cat([part, c.exp()], 1)
    joined @ w
    return part if later else None
launched(compiled(f), False)
launched(compiled(f), True)
"""
    once, twice = run_both(code)
    assert once == "fused_nest product"
    # It is computed for itself when the function returns it.
    assert twice == "fused_nest product pointwise_flat"


def test_large_float32_products_are_split(run_both):
    """Which kernel a product goes to, by its size, layout, type and fp32_precision."""
    code = """
matmul = rl.backends.cuda.matmul
a, b = rl.zeros(2048, 1024, device="cuda"), rl.zeros(1024, 1024, device="cuda")
deep, bias = rl.zeros(128, 65536, device="cuda"), rl.zeros(1024, device="cuda")
halves = a.half(), b.half()
for precision in ("none", "ieee", "tf32"):
    matmul.fp32_precision = precision
    launched(lambda: a @ b)
matmul.fp32_precision = "none"
launched(lambda: F.linear(a, b, bias))
launched(lambda: deep @ deep.T)
launched(lambda: a[:, 1:] @ b[1:])
launched(lambda: halves[0] @ halves[1])
launched(lambda: x @ w)
"""
    split, library = "piece_product", "product"
    names = [line.split("(")[0] for line in run_both(code)]
    assert names == [split, library, library, split, f"{split} join_parts"] + 3 * [library]
