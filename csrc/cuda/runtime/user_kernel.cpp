#include "cuda/runtime/user_kernel.h"

#include "core/error.h"
#include "cuda/runtime/capture.h"

namespace rush::cuda {
namespace {

constexpr const char* kOp = "compile_kernel";
constexpr unsigned kUsualShared = 48 * 1024;
constexpr CUresult kNoSuchParameter = 1;  // CUDA_ERROR_INVALID_VALUE

}  // namespace

UserKernel::UserKernel(const std::string& source, std::string name, const std::string& architecture,
                       std::span<const std::string> options)
    : name_(std::move(name)), architecture_(architecture) {
  std::vector<std::string> all = {"--gpu-architecture=sm_" + architecture};
  all.insert(all.end(), options.begin(), options.end());
  const std::string expressions[] = {name_};
  code_ = compile_program(kOp, ErrorKind::Runtime, name_ + ".cu", source, expressions, all);
}

CUfunction UserKernel::function_on(int device) {
  bind(device);
  std::lock_guard lock(mutex_);
  for (const auto& [where, f] : functions_)
    if (where == device) return f;
  const RelaxedCapture relaxed;
  CUmodule module = nullptr;
  const CUresult loaded = driver().ModuleLoadData(&module, code_.cubin.data());
  check(loaded == kSuccess, ErrorKind::Runtime, kOp, "the GPU does not take the kernel '", name_,
        "', which was compiled for sm_", architecture_, " (the GPU is sm_",
        device_info(device).arch(), "): ", loaded == kSuccess ? "" : describe(loaded));
  CUfunction f = nullptr;
  must(driver().ModuleGetFunction(&f, module, code_.names.at(0).c_str()), kOp);
  functions_.emplace_back(device, f);
  return f;
}

std::optional<std::vector<size_t>> UserKernel::parameter_bytes(int device) {
  CUfunction f = function_on(device);
  if (!driver().FuncGetParamInfo) return std::nullopt;
  std::vector<size_t> all;
  size_t offset = 0, size = 0;
  CUresult told = kSuccess;
  while ((told = driver().FuncGetParamInfo(f, all.size(), &offset, &size)) == kSuccess)
    all.push_back(size);
  if (told != kNoSuchParameter) return std::nullopt;
  return all;
}

void UserKernel::allow_shared(CUfunction f, int device, unsigned shared) {
  if (shared <= kUsualShared) return;
  const int most = device_info(device).shared_optin;
  check(shared <= unsigned(most), ErrorKind::Runtime, kOp, "the kernel '", name_, "' was to get ",
        shared, " bytes of shared memory, and a block of this GPU has ", most, " at most");
  std::lock_guard lock(mutex_);
  for (auto& [known, bytes] : allowed_)
    if (known == f && bytes >= shared) return;
  cuda::allow_shared(f, shared);
  allowed_.emplace_back(f, shared);
}

void UserKernel::launch(Stream* stream, Grid grid, Grid block, std::span<const std::string> params,
                        unsigned shared) {
  CUfunction f = function_on(stream->device);
  allow_shared(f, stream->device, shared);
  std::vector<void*> addresses;
  addresses.reserve(params.size());
  for (const std::string& p : params) addresses.push_back(const_cast<char*>(p.data()));
  // No early start (launch.cpp): the kernel does not know that it would have to wait.
  const CUlaunchConfig config{grid.x,  grid.y, grid.z,           block.x, block.y,
                              block.z, shared, stream->handle(), nullptr, 0};
  must(driver().LaunchKernelEx(&config, f, addresses.data(), nullptr), kOp);
  after_launch(stream);
}

}  // namespace rush::cuda
