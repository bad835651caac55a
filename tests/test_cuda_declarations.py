"""Our declarations of NVIDIA's libraries agree with NVIDIA's own headers, where these are at hand.

The build needs none of them: csrc/cuda declares what it calls. Here g++ compares both: every
parameter must be the same kind of thing, and every constant the same number.
"""

import glob
import pathlib
import shutil
import subprocess
import sysconfig

import pytest
from nvrtc import CSRC

COMPARE = r"""
#include <type_traits>
template <class T> concept Complete = requires { sizeof(T); };
template <class A, class B> constexpr bool fits() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using X = std::remove_pointer_t<A>;
    using Y = std::remove_pointer_t<B>;
    using Bare = std::remove_cv_t<X>;
    using Other = std::remove_cv_t<Y>;
    if constexpr (std::is_const_v<X> != std::is_const_v<Y>) return false;
    else if constexpr (std::is_void_v<X> || std::is_void_v<Y>) return std::is_same_v<Bare, Other>;
    else if constexpr (!Complete<X> || !Complete<Y>)
      return std::is_class_v<X> && std::is_class_v<Y>;
    else return fits<Bare, Other>();
  } else if constexpr (std::is_floating_point_v<A> || std::is_floating_point_v<B>) {
    return std::is_same_v<A, B>;
  } else if constexpr (std::is_class_v<A> || std::is_class_v<B>) {
    return std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B);
  } else if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return false;
  } else {
    return sizeof(A) == sizeof(B);
  }
}
template <class R, class... A, class S, class... B>
constexpr bool agree(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) return false;
  else return fits<R, S>() && (fits<std::remove_cv_t<A>, std::remove_cv_t<B>>() && ...);
}
"""

CUDNN = """
kFloat CUDNN_DATA_FLOAT | kDouble CUDNN_DATA_DOUBLE | kHalf CUDNN_DATA_HALF
kBFloat16 CUDNN_DATA_BFLOAT16 | kContiguous CUDNN_TENSOR_NCHW | kChannelsLast CUDNN_TENSOR_NHWC
kDefaultMath CUDNN_DEFAULT_MATH | kTensorOp CUDNN_TENSOR_OP_MATH | kFma CUDNN_FMA_MATH
kTensorOpConverting CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
kCrossCorrelation CUDNN_CROSS_CORRELATION
"""
CUDNN_RNN = """
kStandardRnn CUDNN_RNN_ALGO_STANDARD | kPersistDynamic CUDNN_RNN_ALGO_PERSIST_DYNAMIC
kRnnRelu CUDNN_RNN_RELU | kRnnTanh CUDNN_RNN_TANH | kLstm CUDNN_LSTM | kGru CUDNN_GRU
kNoBias CUDNN_RNN_NO_BIAS | kDoubleBias CUDNN_RNN_DOUBLE_BIAS
kOneWay CUDNN_UNIDIRECTIONAL | kBothWays CUDNN_BIDIRECTIONAL | kLinearInput CUDNN_LINEAR_INPUT
kTimeFirst CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
kPackedRows CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
kInference CUDNN_FWD_MODE_INFERENCE | kTraining CUDNN_FWD_MODE_TRAINING
kAddGrads CUDNN_WGRAD_MODE_ADD | kPaddedRows CUDNN_RNN_PADDED_IO_ENABLED
"""
CUBLASLT = """
kR32F CUDA_R_32F | kR64F CUDA_R_64F | kR16F CUDA_R_16F | kC32F CUDA_C_32F | kC64F CUDA_C_64F
kR16BF CUDA_R_16BF | k32F CUBLAS_COMPUTE_32F | k64F CUBLAS_COMPUTE_64F
k32FFastTF32 CUBLAS_COMPUTE_32F_FAST_TF32 | kNone CUBLAS_OP_N | kTranspose CUBLAS_OP_T
kTransA CUBLASLT_MATMUL_DESC_TRANSA | kTransB CUBLASLT_MATMUL_DESC_TRANSB
kEpilogue CUBLASLT_MATMUL_DESC_EPILOGUE | kBiasPointer CUBLASLT_MATMUL_DESC_BIAS_POINTER
kBatchCount CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
kBatchStride CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
kWorkspaceBytes CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
kAlignmentA CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
kAlignmentB CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES
kAlignmentC CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES
kAlignmentD CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
kDefaultEpilogue CUBLASLT_EPILOGUE_DEFAULT | kBiasEpilogue CUBLASLT_EPILOGUE_BIAS
kReluBiasEpilogue CUBLASLT_EPILOGUE_RELU_BIAS
"""
CUFFT = """
kR32F CUDA_R_32F | kR64F CUDA_R_64F | kC32F CUDA_C_32F | kC64F CUDA_C_64F
kForward CUFFT_FORWARD | kInverse CUFFT_INVERSE
"""
SOLVER = """
kR32F CUDA_R_32F | kR64F CUDA_R_64F | kC32F CUDA_C_32F | kC64F CUDA_C_64F
kLeft CUBLAS_SIDE_LEFT | kRight CUBLAS_SIDE_RIGHT | kLower CUBLAS_FILL_MODE_LOWER
kUpper CUBLAS_FILL_MODE_UPPER | kNone CUBLAS_OP_N | kTranspose CUBLAS_OP_T
kAdjoint CUBLAS_OP_C | kNonUnit CUBLAS_DIAG_NON_UNIT | kUnit CUBLAS_DIAG_UNIT
kNoVectors CUSOLVER_EIG_MODE_NOVECTOR | kWithVectors CUSOLVER_EIG_MODE_VECTOR
"""
DRIVER = """
kSuccess CUDA_SUCCESS | kNotReady CUDA_ERROR_NOT_READY
kAttributeMajor CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
kAttributeMinor CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
kAttributeProcessors CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
kAttributeSharedPerBlock CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK
kAttributeSharedOptin CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
kAttributeWarpSize CU_DEVICE_ATTRIBUTE_WARP_SIZE
kAttributeThreadsPerProcessor CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
kAttributeL2Bytes CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE | kAttributeClock CU_DEVICE_ATTRIBUTE_CLOCK_RATE
kAttributeIntegrated CU_DEVICE_ATTRIBUTE_INTEGRATED |
kAttributePciBus CU_DEVICE_ATTRIBUTE_PCI_BUS_ID
kAttributePciDevice CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID
kAttributePciDomain CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID | kStreamNonBlocking CU_STREAM_NON_BLOCKING
kLaunchCooperative CU_LAUNCH_ATTRIBUTE_COOPERATIVE
kLaunchProgrammatic CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
kEventNoTiming CU_EVENT_DISABLE_TIMING | kEventInterprocess CU_EVENT_INTERPROCESS
kHostAllocPortable CU_MEMHOSTALLOC_PORTABLE
"""

# NVIDIA's header, ours, our namespace, the list of functions, the struct holding them, constants.
LIBRARIES = {
    "driver": ("cuda.h", "runtime/driver.h", "rush::cuda", "RUSH_CUDA_DRIVER", "Driver", DRIVER),
    "nvrtc": ("nvrtc.h", "runtime/nvrtc_api.h", "rush::cuda", "RUSH_NVRTC", "Nvrtc", ""),
    "cublasLt": (
        "cublasLt.h", "vendor/cublas.h", "rush::cuda::lt", "RUSH_CUBLASLT", "Library", CUBLASLT
    ),
    "cudnn": ("cudnn.h", "vendor/cudnn.h", "rush::cuda::dnn", "RUSH_CUDNN", "Library", CUDNN),
    "cudnn rnn": (
        "cudnn.h", "vendor/cudnn_rnn.h", "rush::cuda::dnn", "RUSH_CUDNN_RNN", "RnnLibrary",
        CUDNN_RNN,
    ),
    "cufft": ("cufftXt.h", "vendor/cufft.h", "rush::cuda::fft", "RUSH_CUFFT", "Library", CUFFT),
    **{
        name: (
            "cusolverDn.h", "vendor/solver_api.h", "rush::cuda::solver", functions, holder, SOLVER
        )
        for name, functions, holder in (
            ("cublas", "RUSH_CUBLAS", "BlasLibrary"),
            ("cusolver", "RUSH_CUSOLVER", "Library"),
            ("new cusolver", "RUSH_CUSOLVER_NEW", "Library"),
            ("cublas float", "RUSH_CUBLAS_S", "Typed<float>"),
            ("cublas double", "RUSH_CUBLAS_D", "Typed<double>"),
            ("cublas complex", "RUSH_CUBLAS_C", "Typed<rush::complex<float>>"),
            ("cublas double complex", "RUSH_CUBLAS_Z", "Typed<rush::complex<double>>"),
            ("cusolver float", "RUSH_CUSOLVER_S", "Typed<float>"),
            ("cusolver double", "RUSH_CUSOLVER_D", "Typed<double>"),
            ("cusolver complex", "RUSH_CUSOLVER_C", "Typed<rush::complex<float>>"),
            ("cusolver double complex", "RUSH_CUSOLVER_Z", "Typed<rush::complex<double>>"),
        )
    },
}  # fmt: skip


def include_folders():
    site = {sysconfig.get_paths()[k] for k in ("purelib", "platlib")}
    wheels = [f for s in site for f in glob.glob(f"{s}/nvidia/**/include", recursive=True)]
    system = ["/usr/local/cuda/include", "/opt/cuda/include", "/usr/include/x86_64-linux-gnu"]
    return [f for f in [*sorted(wheels), *system, "/usr/include"] if pathlib.Path(f).is_dir()]


def compile_against(tmp_path, header, text):
    """g++'s complaints, or None when the headers are not there."""
    folders = include_folders()
    if not any((pathlib.Path(f) / header).is_file() for f in folders):
        return None
    source = tmp_path / "declarations.cpp"
    source.write_text(text)
    options = [f"-isystem{f}" for f in folders if f != "/usr/include"]
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{CSRC}", *options, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_declarations(tmp_path, library):
    header, own, space, functions, holder, constants = LIBRARIES[library]
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    if compile_against(tmp_path, header, f"#include <{header}>") != "":
        pytest.skip(f"no usable {header}: NVIDIA's headers are not installed")
    named = "(symbol, params)" if library == "nvrtc" else "(symbol, name, params)"
    member = "symbol" if library == "nvrtc" else "name"
    checks = [
        f'static_assert(int({space}::{ours}) == int({theirs}), "{ours} is not {theirs}");'
        for ours, theirs in (
            p.split() for p in constants.replace("\n", "|").split("|") if p.split()
        )
    ]
    text = "\n".join(
        [
            # Old versions of functions stay in the driver under their first names; with this the
            # header does not rename them to the newest.
            "#define __CUDA_API_VERSION_INTERNAL",
            "#include <cublas_v2.h>" if "cublas" in library and "Lt" not in library else "",
            f"#include <{header}>",
            f'#include "{CSRC}/cuda/{own}"',
            COMPARE,
            f"using Holder = {space}::{holder};",
            f"#define CHECK{named} \\",
            f"  static_assert(agree(decltype(Holder::{member}){{}}, decltype(&::symbol){{}}),"
            " #symbol);",
            f"{functions}(CHECK)",
            *checks,
        ]
    )
    errors = compile_against(tmp_path, header, text)
    assert "error" not in errors, errors[:4000]


def test_a_wrong_declaration_is_found(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    right = "int (*)(void*, const float*, int)"
    for wrong in ("int (*)(void*, float*, int)", "int (*)(void*, const float*, long)",
                  "int (*)(void*, const double*, int)",
                  "int (*)(void*, const float*)"):  # fmt: skip
        source = tmp_path / "wrong.cpp"
        source.write_text(
            f"{COMPARE}\nusing A = {right}; using B = {wrong};\n"
            "static_assert(agree(A{}, A{}) && !agree(A{}, B{}));"
        )
        subprocess.run(["g++", "-std=c++20", "-fsyntax-only", str(source)], check=True)


CUPTI = """
kOk CUPTI_SUCCESS | kOtherSubscriber CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
kNoMoreRecords CUPTI_ERROR_MAX_LIMIT_REACHED | kDriverDomain CUPTI_CB_DOMAIN_DRIVER_API
kRuntimeDomain CUPTI_CB_DOMAIN_RUNTIME_API | kSystemThreads CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
kForcedFlush CUPTI_ACTIVITY_FLAG_FLUSH_FORCED | kCopy CUPTI_ACTIVITY_KIND_MEMCPY
kFill CUPTI_ACTIVITY_KIND_MEMSET | kDriverCall CUPTI_ACTIVITY_KIND_DRIVER
kRuntimeCall CUPTI_ACTIVITY_KIND_RUNTIME | kKernel CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
kPeerCopy CUPTI_ACTIVITY_KIND_MEMCPY2
"""
# Our record, NVIDIA's, and fields: ours and theirs.
CUPTI_RECORDS = """
KernelRecord CUpti_ActivityKernel9 registers registersPerThread start start end end device deviceId
  stream streamId grid gridX block blockX static_shared staticSharedMemory
  dynamic_shared dynamicSharedMemory correlation correlationId name name graph graphId
CopyRecord CUpti_ActivityMemcpy6 copy_kind copyKind from_kind srcKind to_kind dstKind bytes bytes
  start start end end device deviceId stream streamId correlation correlationId
PeerCopyRecord CUpti_ActivityMemcpyPtoP4 copy_kind copyKind bytes bytes start start end end
  device deviceId stream streamId correlation correlationId
FillRecord CUpti_ActivityMemset4 bytes bytes start start end end device deviceId stream streamId
  correlation correlationId memory_kind memoryKind
CallRecord CUpti_ActivityAPI id cbid start start end end thread threadId correlation correlationId
"""


def test_records_of_cupti(tmp_path):
    """Fields lie where CUPTI writes them, and calls have its numbers."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    headers = "#include <cstddef>\n#include <cuda.h>\n#include <cupti.h>"
    if compile_against(tmp_path, "cupti.h", headers) != "":
        pytest.skip("no usable cupti.h: NVIDIA's headers are not installed")
    checks = [
        f"static_assert(int(ours::{ours}) == int({theirs}));"
        for ours, theirs in (p.split() for p in CUPTI.replace("\n", "|").split("|") if p.split())
    ]
    for row in CUPTI_RECORDS.strip().replace("\n  ", " ").splitlines():
        record, theirs, *fields = row.split()
        checks += [
            f"static_assert(offsetof(ours::{record}, {a}) == offsetof({theirs}, {b}));"
            for a, b in zip(fields[::2], fields[1::2], strict=True)
        ]
    text = "\n".join([
        headers,
        f'#include "{CSRC}/cuda/runtime/cupti_api.h"',
        "namespace ours = rush::cuda::cupti;",
        "#define DRIVER(name, id) static_assert(CUPTI_DRIVER_TRACE_CBID_##name == id);",
        "RUSH_CUPTI_DRIVER_CALLS(DRIVER)",
        "#define RUNTIME(name, id) static_assert(CUPTI_RUNTIME_TRACE_CBID_##name == id);",
        "RUSH_CUPTI_RUNTIME_CALLS(RUNTIME)",
        "#define EXISTS(symbol, name, params) static_assert(sizeof(&::symbol) == sizeof(void*));",
        "RUSH_CUPTI(EXISTS)",
        *checks,
    ])  # fmt: skip
    errors = compile_against(tmp_path, "cupti.h", text)
    assert "error" not in errors, errors[:3000]
