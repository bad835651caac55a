// dlpack.h: DLPack's structs, and tensors as such. Who owns a struct, and when it is given back, is
// the business of those who exchange it: Python's capsules (bindings/exchange), C (frontend/c).
#pragma once

#include <algorithm>

#include "core/tensor.h"

namespace rush {

// The structs of DLPack's C ABI, as its specification lays them out.
namespace dl {
struct Device {
  int32_t type, id;
};
enum : int32_t { kCPU = 1, kCUDA = 2, kCUDAHost = 3, kCUDAManaged = 13 };
struct Type {
  uint8_t code, bits;
  uint16_t lanes;
};
enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
enum : uint8_t {
  kFloat8E4M3FN = 10,
  kFloat8E4M3FNUZ = 11,
  kFloat8E5M2 = 12,
  kFloat8E5M2FNUZ = 13,
  kFloat8E8M0FNU = 14,
};
struct Array {
  void* data;
  Device device;
  int32_t ndim;
  Type dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major without gaps
  uint64_t byte_offset;
};
struct Managed {
  static constexpr const char* name = "dltensor";
  static constexpr const char* used = "used_dltensor";
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct Versioned {
  static constexpr const char* name = "dltensor_versioned";
  static constexpr const char* used = "used_dltensor_versioned";
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Array array;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;

RUSH_API Type dl_type(DType t);
RUSH_API DType dtype_from(Type type);
RUSH_API Device dl_device(rush::Device d);
RUSH_API rush::Device device_from(Device d);

// A tensor over an array's memory, which the deleter gives back.
RUSH_API Tensor tensor_over(const Array& array, Storage::Deleter deleter, void* context,
                            bool read_only);

// What an exported tensor keeps alive, in one block with its managed struct.
template <class M>
struct Export {
  M managed{};
  Tensor tensor;
  Dims sizes, strides;
};

template <class M>
void delete_export(M* managed) {
  delete static_cast<Export<M>*>(managed->context);
}

template <class M>
M* fill_export(Export<M>* e, const Tensor& t) {
  e->tensor = t;
  e->sizes = t.sizes();
  e->strides = t.strides();
  // The stride of a dimension with one element means nothing; some consumers want it to be 1.
  for (uint32_t i = 0; i < e->sizes.size(); ++i) {
    if (e->sizes[i] < 2) e->strides[i] = 1;
  }
  t.storage()->expose();
  e->managed.context = e;
  e->managed.deleter = delete_export<M>;
  e->managed.array = {t.data(),
                      dl_device(t.device()),
                      int32_t(t.dim()),
                      dl_type(t.dtype()),
                      e->sizes.data(),
                      e->strides.data(),
                      0};
  return &e->managed;
}

}  // namespace dl

}  // namespace rush
