// ivalue.h: a value of a program: what goes in, what comes out, and what its variables hold.
//
// Sixteen bytes: a kind and a number, a tensor or a counted object. Copies of a list, a dict or an
// object of a class are the same one, as in Python; tuples and strings never change.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace rush::jit {

class IValue;
struct DictObject;

// The names of a tuple that has some, or of the class and the attributes of an object.
struct TupleNames {
  std::string name;
  std::vector<std::string> fields;
};

// Names as in PyTorch's C++ interface.
class RUSH_API IValue {
 public:
  // Containers come last.
  enum class Kind : uint8_t {
    None,
    Tensor,
    Bool,
    Int,
    Double,
    String,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Tuple,
    List,
    Dict,
    Object
  };
  using Items = std::vector<IValue>;

  IValue() : i_(0) {}
  IValue(rush::Tensor t) : kind_(t.defined() ? Kind::Tensor : Kind::None) {
    tensor_ = std::move(t).detach_impl();
  }
  IValue(bool v) : i_(v), kind_(Kind::Bool) {}
  IValue(int64_t v) : i_(v), kind_(Kind::Int) {}
  IValue(int v) : IValue(int64_t{v}) {}
  IValue(double v) : d_(v), kind_(Kind::Double) {}
  IValue(std::string v);
  IValue(const char* v) : IValue(std::string(v)) {}
  IValue(rush::DType v) : i_(int64_t(v)), kind_(Kind::DType) {}
  IValue(rush::Device v) : i_(0), kind_(Kind::Device) { device_ = v; }
  IValue(rush::Layout v) : i_(int64_t(v)), kind_(Kind::Layout) {}
  IValue(rush::MemoryFormat v) : i_(int64_t(v)), kind_(Kind::MemoryFormat) {}
  static IValue tuple(Items items, std::shared_ptr<const TupleNames> names = nullptr);
  static IValue list(Items items);
  // An object of a class that the program defines; one item per attribute.
  static IValue object(Items items, std::shared_ptr<const TupleNames> names);
  // In the order given; one item per key. Of equal keys the last one's item stays.
  static IValue dict(Items keys, Items items);
  static IValue dict(std::vector<std::string> keys, Items items);
  static IValue number(const Scalar& s);

  IValue(const IValue& o) : i_(o.i_), kind_(o.kind_) { retain(); }
  IValue(IValue&& o) noexcept : i_(o.i_), kind_(std::exchange(o.kind_, Kind::None)) {}
  IValue& operator=(IValue o) noexcept {
    std::swap(i_, o.i_);
    std::swap(kind_, o.kind_);
    return *this;
  }
  ~IValue() {
    if (is_counted()) release();
  }

  Kind kind() const { return kind_; }
  bool isNone() const { return kind_ == Kind::None; }
  bool isTensor() const { return kind_ == Kind::Tensor; }
  bool isBool() const { return kind_ == Kind::Bool; }
  bool isInt() const { return kind_ == Kind::Int; }
  bool isDouble() const { return kind_ == Kind::Double; }
  bool isString() const { return kind_ == Kind::String; }
  bool isDevice() const { return kind_ == Kind::Device; }
  bool isTuple() const { return kind_ == Kind::Tuple; }
  bool isList() const { return kind_ == Kind::List; }
  bool isGenericDict() const { return kind_ == Kind::Dict; }
  bool isObject() const { return kind_ == Kind::Object; }
  bool is_number() const { return kind_ >= Kind::Bool && kind_ <= Kind::Double; }

  // Each raises when the value is something else.
  const rush::Tensor& toTensor() const;
  operator rush::Tensor() const { return toTensor(); }
  bool toBool() const;
  int64_t toInt() const;
  double toDouble() const;
  const std::string& toStringRef() const;
  rush::Device toDevice() const;
  rush::DType toDType() const;
  const Items& elements() const;          // of a tuple, a list, a dict, an object
  std::vector<std::string> keys() const;  // of a dict with strings as keys
  // By key of a dict, by field of a named tuple, by attribute of an object.
  const IValue& at(std::string_view key) const;

  // For those who know the kind.
  int64_t integer() const { return i_; }
  double real() const { return d_; }
  bool boolean() const { return i_ != 0; }
  rush::Device device() const { return device_; }
  const rush::Tensor& tensor() const { return reinterpret_cast<const rush::Tensor&>(tensor_); }
  const std::string& string() const;
  Items& items() const;  // of a tuple, a list or an object
  DictObject& dict() const;
  const TupleNames* names() const;  // of a tuple or an object; null: a tuple without
  Scalar scalar() const {
    return kind_ == Kind::Double ? Scalar(d_)
           : kind_ == Kind::Bool ? Scalar(boolean())
                                 : Scalar(i_);
  }
  // Are these the same object?
  bool is(const IValue& o) const { return kind_ == o.kind_ && i_ == o.i_; }
  // For one that holds nothing that is counted, now or before: nothing is freed.
  void put(int64_t v) { i_ = v, kind_ = Kind::Int; }
  void put(double v) { d_ = v, kind_ = Kind::Double; }
  void put(bool v) { i_ = v, kind_ = Kind::Bool; }
  void put_plain(const IValue& o) { i_ = o.i_, kind_ = o.kind_; }

  struct Object;

 private:
  IValue(Object* object, Kind kind) : object_(object), kind_(kind) {}
  bool is_counted() const {
    return kind_ == Kind::Tensor || kind_ == Kind::String || kind_ >= Kind::Tuple;
  }
  void retain() const {
    if (kind_ == Kind::Tensor)
      tensor_->retain();
    else if (is_counted())
      retain_object();
  }
  void retain_object() const;
  void release() noexcept;

  union {
    int64_t i_;
    double d_;
    TensorImpl* tensor_;
    Object* object_;
    rush::Device device_;
  };
  Kind kind_ = Kind::None;
};

struct IValue::Object : Counted<IValue::Object> {
  virtual ~Object() = default;
  static void destroy(Object* o) noexcept { delete o; }
};

// Numbers or strings to values, in the order of insertion.
struct RUSH_API DictObject final : IValue::Object {
  IValue::Items keys, items;

  size_t find(const IValue& key) const;  // keys.size() where there is none
  void set(const IValue& key, IValue item);
  void erase(size_t at);
  void clear();

 private:
  struct Hash {
    size_t operator()(const IValue& v) const;
  };
  struct Equal {
    bool operator()(const IValue& a, const IValue& b) const;
  };
  void index_all();
  std::unordered_map<IValue, size_t, Hash, Equal> index_;  // of larger ones
};

// By value; tensors are equal when they are the same one.
RUSH_API bool equal(const IValue& a, const IValue& b);
// What Python's str, or repr for what is in a container, makes of it.
RUSH_API std::string shown(const IValue& v, bool quoted = false);
RUSH_API const char* kind_name(IValue::Kind kind);  // "a tuple", for messages

}  // namespace rush::jit
