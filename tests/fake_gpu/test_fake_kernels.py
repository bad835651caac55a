"""Kernels of programs (cuda.compile_kernel): compiled by NVRTC, handed to a driver without GPU."""

import struct

SOURCE = '''
code = """
extern "C" __global__ void scale(float* x, float factor, int n) { x[n] *= factor; }
template <typename T> __global__ void twice(T* x, long long n) { x[n] *= T(2); }
"""
'''


def bits(kind, value):
    return format(int.from_bytes(struct.pack(kind, value), "little"), "x")


def test_arguments_take_the_bytes_of_their_parameters(run, tmp_path):
    """Floats, ints and addresses as the kernel declares them, not as Python has them."""
    log = tmp_path / "launches"
    told = {"FAKE_CUDA_PARAMETERS": "8,4,4", "FAKE_CUDA_LAUNCHES": log}
    printed = run(SOURCE + '''
import ctypes, os
import numpy as np
scale = cuda.compile_kernel(code, "scale")
x = rl.zeros(8, device="cuda")
open(os.environ["FAKE_CUDA_LAUNCHES"], "w").close()
scale(grid=(np.int64(2), 3), block=64, args=[x[2:], 1.5, -7], shared_mem=1024)
scale((1, 1, 1), (32, 1, 1), [x, ctypes.c_float(2.0), np.int32(5)])
print(hex(x.data_ptr())[2:], hex(x[2:].data_ptr())[2:])
def refused(*args, **kwargs):
    try:
        scale(*args, **kwargs)
    except Exception as error:
        print(type(error).__name__, error)
refused(args=[x, 1.0])
refused(args=[x, 1.0, 2**40])
refused(args=[x, ctypes.c_double(1.0), 3])
refused(args=[rl.zeros(3), 1.0, 3])
refused(args=[x, "1", 3])
refused(grid=(0,), args=[x, 1.0, 3])
refused(args=[x, 1.0, 3], shared_mem=-1)
refused(args=[x, 1.0, 3], shared_mem=1 << 30)
refused(args=[x, 1.0, 3], shared_mem=3_000_000_000)
refused(args=x)
refused(grid=None, args=[x, 1.0, 3])
refused(args=[x, 1.0, 3], stream=7)
''', **told)  # fmt: skip
    whole, part = printed[0].split()
    assert log.read_text().splitlines() == [
        f"scale 2x3x1 64x1x1 1024 {part} {bits('<f', 1.5)} {bits('<i', -7)}",
        f"scale 1x1x1 32x1x1 0 {whole} {bits('<f', 2.0)} 5",
    ]
    for line, words in zip(printed[1:], (
        "TypeError the kernel 'scale' has 3 parameters got 2", "OverflowError long long c_int64",
        "TypeError parameter 1 has 4 bytes has 8", "ValueError argument 0 is on cpu",
        "TypeError argument 1 is a str", "ValueError grid must be", "ValueError shared_mem",
        "RuntimeError 1073741824 bytes of shared memory", "ValueError shared_mem",
        "TypeError args must be a list", "ValueError grid must be", "TypeError stream must be",
    ), strict=True):  # fmt: skip
        assert all(word in line for word in words.split(" ")), (line, words)


def test_templates_and_what_the_compiler_refuses(run):
    printed = run(
        SOURCE
        + """
print(cuda.compile_kernel(code, "twice<double>"))
twice = cuda._compile_kernel(code, "twice<float>", "80", nvcc_options=["-DX=1"])
twice(args=[rl.ones(4, device="cuda"), 3])
try:
    cuda.compile_kernel("__global__ void f(float* x) { x[0] = y; }", "f")
except RuntimeError as error:
    print(error)
for wrong in ({"nvcc_options": "-DX=1"}, {"cuda_include_dirs": "/usr"}, {"nvcc_options": [1]}):
    try:
        cuda.compile_kernel(code, "scale", **wrong)
        print("taken")
    except TypeError as error:
        print(error)
"""
    )
    assert all("must be a list of strings" in line for line in printed[-3:])
    assert printed[0] == "CompiledKernel('twice<double>')"
    assert printed[1].startswith("compile_kernel: nvrtcCompileProgram failed")
    assert any("f.cu(1): error" in line and '"y"' in line for line in printed)


def test_stacks(run):
    """By the kernels of cat, with a dim more; the layout is that of the host."""
    out = run("""
x = rl.zeros(2, 4, 5, 6, device="cuda").contiguous(memory_format=rl.channels_last)
x.requires_grad_()
for dim in (0, 2, -1):
    y = rl.stack([x, x, x], dim)
    y.backward(y.detach())
    print(y.device, y.stride() == rl.stack([x.cpu()] * 3, dim).stride(), tuple(x.grad.shape))
""")
    assert out == ["cuda:0 True (2, 4, 5, 6)"] * 3
