"""Kernels that users write: compiled while the program runs, and Triton's."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import cuda, library
from rushlight.utils import cpp_extension

AXPY = """
extern "C" __global__ void axpy(const float* x, float* y, float a, long long n) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] += a * x[i];
}
template <typename T> __global__ void reversed(const T* x, T* y, int n) {
  extern __shared__ char room[];
  T* kept = reinterpret_cast<T*>(room);
  for (int i = threadIdx.x; i < n; i += blockDim.x) kept[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = kept[n - 1 - i];
}
"""


def test_compiled_kernels():
    axpy = cuda.compile_kernel(AXPY, "axpy")
    x, y = rl.randn(10000, device="cuda"), rl.randn(10000, device="cuda")
    right = y + 0.5 * x
    axpy(grid=(8,), block=(256,), args=[x, y, 0.5, x.numel()])
    rl.testing.assert_close(y, right)
    with pytest.raises(TypeError, match="4 parameters"):
        axpy(args=[x, y])
    with pytest.raises(TypeError, match="has 4 bytes"):
        axpy(args=[x, y, ctypes.c_double(1), 1])
    n = 20000  # 80 KB of shared memory, more than kernels have by themselves
    backwards = cuda.compile_kernel(AXPY, "reversed<float>")
    x, y = rl.randn(n, device="cuda"), rl.empty(n, device="cuda")
    stream = cuda.Stream()
    stream.wait_stream(cuda.current_stream())
    backwards(block=1024, args=[x, y, n], shared_mem=4 * n, stream=stream)
    stream.synchronize()
    assert rl.equal(y, x.flip(0))


def test_as_an_operator_in_a_graph():
    """A compiled kernel inside of a custom operator: gradients, and capture into a CUDA graph."""
    axpy = cuda.compile_kernel(AXPY, "axpy")

    @library.custom_op("tests::axpy_kernel", mutates_args=())
    def plus_half(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        out = y.clone()
        axpy((32,), (256,), [x.contiguous(), out, 0.5, x.numel()])
        return out

    plus_half.register_autograd(lambda ctx, g: (0.5 * g, g))
    x = rl.randn(1000, device="cuda", requires_grad=True)
    y = rl.randn(1000, device="cuda", requires_grad=True)
    plus_half(x, y).sum().backward()
    assert (x.grad == 0.5).all() and (y.grad == 1).all()
    with rl.no_grad():
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            out = plus_half(x, y)
        x.fill_(2.0)
        graph.replay()
        rl.testing.assert_close(out, y + 1)


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    """tests/library/cpp/scaled.cu, as it would be written for PyTorch."""
    if shutil.which("nvcc") is None and cpp_extension.CUDA_HOME is None:
        pytest.skip("no nvcc")
    pytest.importorskip("pybind11")
    source = Path(__file__).parents[1] / "library" / "cpp" / "scaled.cu"
    folder = tmp_path_factory.mktemp("extension")
    return cpp_extension.load("tests_scaled", [str(source)], build_directory=str(folder))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.float16, rl.bfloat16])
def test_extensions_that_nvcc_compiles(extension, dtype):
    x = rl.randn(1000, device="cuda").to(dtype)
    right = (x.double() * 1.5).to(dtype)
    rl.testing.assert_close(extension.scaled(x, 1.5), right)
    rl.testing.assert_close(rl.ops.tests_scaled.scaled(x, 1.5), right)
    stream = cuda.Stream()
    with cuda.stream(stream):  # the extension asks for the current stream
        y = rl.full((1 << 22,), 2.0, device="cuda", dtype=dtype)
        assert (extension.scaled(y, 2.0) == 4).all()


def test_packed_accessors(extension):
    x = rl.randn(40, 70, device="cuda").t()
    rl.testing.assert_close(extension.row_sums(x), x.sum(1), rtol=1e-4, atol=1e-4)


REFUSED = """
import importlib.util, sys
import rushlight as rl
spec = importlib.util.spec_from_file_location("tests_scaled", sys.argv[1])
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
x = rl.randn(4, 7, device="cuda")
for call in (lambda: extension.scaled(rl.ones(3), 2.0), lambda: extension.row_sums(x[0]),
             lambda: extension.row_sums(x.long()), lambda: print(extension.row_sums(x).shape)):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_errors_of_extensions(extension):
    """In a process of its own: what goes wrong here may end it."""
    root = str(Path(rl.__file__).parents[1])
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", REFUSED, extension.__file__],
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": root})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.splitlines()
    assert "expected a CUDA tensor" in shown[0] and "expected 2 dimensions" in shown[1]
    assert shown[2].startswith("DTypeError") and shown[3] == "rushlight.Size([4])"


TRITON = """
import sys
if "as_torch" in sys.argv:
    import rushlight.as_torch
    rushlight.as_torch.install()
import rushlight as rl
import triton
import triton.language as tl

@triton.jit
def scaled_sum(x, y, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside) * factor + tl.load(y + at, mask=inside)
    tl.store(out + at, value, mask=inside)

for dtype in (rl.float32, rl.bfloat16):
    x, y = (rl.randn(1000, device="cuda").to(dtype) for _ in range(2))
    out = rl.empty_like(x)
    scaled_sum[(triton.cdiv(1000, 256),)](x, y, out, 1000, 3.0, BLOCK=256)
    rl.testing.assert_close(out, (x.float() * 3 + y.float()).to(dtype), rtol=1e-2, atol=1e-2)

stream = rl.cuda.Stream()  # with as_torch Triton asks for our stream
with rl.cuda.stream(stream):
    a = rl.full((1 << 24,), 2.0, device="cuda")
    out = rl.empty_like(a)
    if "as_torch" not in sys.argv:
        stream.synchronize()
    scaled_sum[(triton.cdiv(1 << 24, 1024),)](a, a, out, 1 << 24, 3.0, BLOCK=1024)
    if "as_torch" not in sys.argv:
        rl.cuda.synchronize()
    assert (out == 8).all()
print("well")
"""


@pytest.mark.parametrize("how", ["as_torch", "plain"])
def test_triton_kernels(how, tmp_path):
    pytest.importorskip("triton")
    script = tmp_path / "kernel.py"  # Triton reads the source of its functions
    script.write_text(TRITON)
    root = Path(rl.__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); sys.argv = ['kernel.py', {how!r}]; "
    code += f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "well" in done.stdout, done.stderr
