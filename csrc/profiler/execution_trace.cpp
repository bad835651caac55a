#include "profiler/execution_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <tuple>

#include "autograd/node_name.h"

namespace rush::profiler {
namespace {

using Tag = Value::Tag;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

std::string real(double x) {
  if (!std::isfinite(x))
    return std::isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  std::string out(text, end);
  // A whole number is still a real one.
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

template <class Items, class Text>
std::string list_of(const Items& items, Text&& text) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ", ";
    out += text(item);
  }
  return out + "]";
}

std::string list_of(const Dims& sizes) {
  return list_of(sizes, [](int64_t n) { return std::to_string(n); });
}

std::string text_of(Device device) {
  std::string out(name(device.type));
  return device.index < 0 ? out : out + ":" + std::to_string(int(device.index));
}

// As PyTorch's traces spell element types: by their C++ types.
std::string_view element_name(DType t) {
  static const std::unordered_map<std::string_view, std::string_view> names{
      {"float32", "float"},
      {"float64", "double"},
      {"float16", "c10::Half"},
      {"bfloat16", "c10::BFloat16"},
      {"int8", "signed char"},
      {"int16", "short int"},
      {"int32", "int"},
      {"int64", "long int"},
      {"uint8", "unsigned char"},
      {"uint16", "unsigned short"},
      {"uint32", "unsigned int"},
      {"uint64", "unsigned long"},
      {"complex32", "c10::complex<c10::Half>"},
      {"complex64", "c10::complex<float>"},
      {"complex128", "c10::complex<double>"}};
  const auto at = names.find(name(t));
  return at == names.end() ? name(t) : at->second;
}

std::string type_of(const Tensor& t) {
  return t.defined() ? "Tensor(" + std::string(element_name(t.dtype())) + ")" : "None";
}

std::string generic_list(size_t n, auto&& item) {
  std::string out = "GenericList[";
  for (size_t i = 0; i < n; ++i) out += (i ? "," : "") + std::string(item(i));
  return out + "]";
}

const Storage* storage_of(const Tensor& t) {
  // Without laying it out: a tensor in an order of our own has its storage one further.
  const TensorImpl* impl = t.impl();
  while (!impl->storage.load() && impl->arranged) impl = impl->arranged.get();
  return impl->storage.load();
}

}  // namespace

// Four lists of the same length, an entry per value.
class ExecutionTrace::Columns {
 public:
  // Of arguments (`given`), or of results.
  Columns(ExecutionTrace& trace, Record& record, bool given)
      : trace_(trace), record_(record), given_(given) {}

  void add(const Value& v) {
    switch (v.tag()) {
      case Tag::Tensor:
        return add(value(v.tensor()), sizes(v.tensor()), type_of(v.tensor()), strides(v.tensor()));
      case Tag::Tensors: {
        const TensorList all = v.tensors();
        return add(list_of(all, [&](const Tensor& t) { return value(t); }),
                   list_of(all, [](const Tensor& t) { return sizes(t); }),
                   generic_list(all.size(), [&](size_t i) { return type_of(all[i]); }),
                   list_of(all, [](const Tensor& t) { return strides(t); }));
      }
      case Tag::Ints:
        return add_numbers(v.ints(), "Int", [](int64_t n) { return std::to_string(n); });
      case Tag::Floats:
        return add_numbers(v.floats(), "Double", real);
      case Tag::Scalar:
        return add_scalar(v.scalar());
      case Tag::Int:
        return add(std::to_string(v.integer()), "Int");
      case Tag::Float:
        return add(real(v.real()), "Double");
      case Tag::Bool:
        return add(v.boolean() ? "true" : "false", "Bool");
      case Tag::String:
        return add(quoted(v.string()), "String");
      case Tag::DType:
        return add(quoted(name(v.dtype())), "String");
      case Tag::Device:
        return add(quoted(text_of(v.device())), "Device");
      case Tag::Generator:
        return add("\"<Generator>\"", "Generator");
      case Tag::None:
        return add("\"<None>\"", "None");
      default:
        return add("\"\"", "String");
    }
  }

  std::string text() const {
    return "{\"values\": [" + values_ + "], \"shapes\": [" + shapes_ + "], \"types\": [" + types_ +
           "], \"strides\": [" + strides_ + "]}";
  }

 private:
  std::string value(const Tensor& t) {
    if (!t.defined()) return "\"<None>\"";
    const Storage* storage = storage_of(t);
    const uint64_t tensor = number(t.impl());
    return "[" + std::to_string(tensor) + ", " + std::to_string(storage ? number(storage) : 0) +
           ", " + std::to_string(t.offset()) + ", " + std::to_string(t.numel()) + ", " +
           std::to_string(t.element_size()) + ", " + quoted(text_of(t.device())) + "]";
  }
  uint64_t number(const void* object) { return trace_.number_of(object, record_, given_); }
  static std::string sizes(const Tensor& t) { return t.defined() ? list_of(t.sizes()) : "[]"; }
  static std::string strides(const Tensor& t) { return t.defined() ? list_of(t.strides()) : "[]"; }

  void add_scalar(const Scalar& s) {
    if (s.is_complex()) {
      const auto z = s.to<complex<double>>();
      return add("[" + real(z.re) + ", " + real(z.im) + "]", "ComplexDouble");
    }
    if (s.is_bool()) return add(s.to_int() ? "true" : "false", "Bool");
    if (s.is_floating()) return add(real(s.to_double()), "Double");
    add(std::to_string(s.to_int()), "Int");
  }
  void add_numbers(const auto& items, const char* type, auto&& text) {
    const std::string empty = list_of(items, [](auto) { return "[]"; });
    add(list_of(items, text), empty, generic_list(items.size(), [&](size_t) { return type; }),
        empty);
  }
  void add(std::string value, std::string_view type) {
    add(std::move(value), "[]", std::string(type), "[]");
  }
  void add(const std::string& value, const std::string& shape, const std::string& type,
           const std::string& stride) {
    const char* comma = types_.empty() ? "" : ", ";
    values_ += comma + value;
    shapes_ += comma + shape;
    types_ += comma + quoted(type);
    strides_ += comma + stride;
  }

  ExecutionTrace& trace_;
  Record& record_;
  const bool given_;
  std::string values_, shapes_, types_, strides_;
};

uint64_t ExecutionTrace::number_of(const void* object, Record& record, bool given) {
  uint64_t& known = objects_[object];
  const bool is_new =
      !given && known < record.id &&
      std::find(record.given.begin(), record.given.end(), object) == record.given.end();
  if (known == 0 || is_new) known = ++last_id_;
  if (given) record.given.push_back(object);
  return known;
}

ExecutionTrace::~ExecutionTrace() {
  for (const Thread& t : threads_)  // what was under way when it was last stopped
    for (const Record* open : t.open) delete open;
}

void* ExecutionTrace::enter_thread(uint32_t number) noexcept {
  const std::lock_guard lock(mutex_);
  for (Thread& t : threads_)
    if (t.number == number) {  // it was listened to before
      for (Record* open : t.open) delete open;
      t.open.clear();
      return &t;
    }
  Thread& made = threads_.emplace_back(Thread{number, ++last_id_, {}});
  Record root{};
  root.id = made.id;
  root.parent = 1;
  root.kind = Kind::Thread;
  root.thread = number;
  root.inputs = root.outputs = Columns(*this, root, true).text();
  done_.push_back(std::move(root));
  return &made;
}

void* ExecutionTrace::begin(void* thread, const StreamEvent& event) noexcept {
  const std::lock_guard lock(mutex_);
  Thread& t = *static_cast<Thread*>(thread);
  auto record = std::make_unique<Record>();
  record->id = ++last_id_;
  record->parent = t.open.empty() ? t.id : t.open.back()->id;
  record->thread = t.number;
  Columns inputs(*this, *record, true);
  if (event.kind == StreamKind::Op) {
    record->kind = Kind::Op;
    record->entry = event.entry;
    record->name = event.entry->name;
    record->overload = event.entry->overload;
    for (size_t i = 0; i < event.entry->args.size(); ++i) inputs.add(event.args[i]);
  } else if (event.kind == StreamKind::Node) {
    const bool apply = event.part == NodeObserver::Part::Apply;
    record->kind = apply ? Kind::Apply : Kind::Evaluate;
    record->name = node_name(*event.node);
    if (event.node->sequence() != kLeafSequence) record->sequence = int64_t(event.node->sequence());
    const auto op = recorded_.find(event.node);
    if (apply && op != recorded_.end())
      std::tie(record->forward, record->forward_thread) = op->second;
  } else {
    record->kind = Kind::Range;
    record->name = std::string(event.name);
  }
  record->inputs = inputs.text();
  t.open.push_back(record.get());
  return record.release();
}

void ExecutionTrace::end(void* thread, void* begun, const StreamEvent& event) noexcept {
  const std::lock_guard lock(mutex_);
  Thread& t = *static_cast<Thread*>(thread);
  const std::unique_ptr<Record> record(static_cast<Record*>(begun));
  std::erase(t.open, record.get());
  Columns outputs(*this, *record, false);
  if (event.kind == StreamKind::Op && !event.failed) {
    for (size_t i = 0; i < event.entry->num_results; ++i) outputs.add(event.results[i]);
    if (event.node && event.node->sequence() != kLeafSequence) {
      record->sequence = int64_t(event.node->sequence());
      recorded_[event.node] = {record->id, record->thread};
    }
  }
  record->outputs = outputs.text();
  record->failed = event.failed;
  done_.push_back(std::move(*record));
}

std::vector<ExecutionTrace::Record> ExecutionTrace::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

}  // namespace rush::profiler
