// pickle_writer.cpp: writes a zip with data.pkl, which names its tensors' bytes data/0, data/1, ...
#include <bit>
#include <cstring>
#include <unordered_map>

#include "core/modes.h"
#include "frontend/pickle.h"
#include "frontend/pickle_storages.h"
#include "jit/archive.h"
#include "jit/file_sink.h"
#include "ops/ops.h"

namespace rush::serialize {
namespace {

class PickleWriter {
 public:
  std::string text(const PickleValue& value) {
    out_ = "\x80\x02";  // protocol 2
    write(value);
    return std::move(out_) + '.';
  }
  const std::vector<Tensor>& storages() const { return storages_; }

 private:
  template <class T>
  void put(T v) {
    static_assert(std::endian::native == std::endian::little);
    out_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void op(char code) { out_ += code; }
  void global(std::string_view module, std::string_view name) {
    op('c');
    out_.append(module).append("\n").append(name).append("\n");
  }
  void write(const std::string& v) {
    op('X');
    put(uint32_t(v.size()));
    out_ += v;
  }
  void write(int64_t v) {
    if (v >= INT32_MIN && v <= INT32_MAX) {
      op('J');
      put(int32_t(v));
    } else {
      out_ += "\x8a\x08";  // a long of eight bytes
      put(v);
    }
  }
  void write(bool v) { op(v ? '\x88' : '\x89'); }
  void write(double v) {
    op('G');
    uint64_t bits = std::bit_cast<uint64_t>(v);
    for (int shift = 56; shift >= 0; shift -= 8) op(char(bits >> shift));
  }
  void write_tuple(const Dims& v) {
    op('(');
    for (const int64_t n : v) write(n);
    op('t');
  }

  // Views of one storage share its bytes in the file, as they do in memory.
  size_t storage_number(const Tensor& t) {
    const auto [found, is_new] = numbers_.try_emplace(t.storage().get(), storages_.size());
    if (is_new) {
      const int64_t n = int64_t(t.storage()->nbytes()) / t.element_size();
      storages_.push_back(make_tensor(t.storage(), Dims{n}, Dims{1}, 0, t.dtype()));
      kept_.push_back(t);
    }
    return found->second;
  }

  void write(const Tensor& given) {
    const NoGradGuard no_grad;
    const Tensor t = given.is_cpu() ? given : rush::to(detach(given), Device{});
    check(!storage_class(t.dtype()).empty(), ErrorKind::NotImplemented, "save", "tensors of dtype ",
          t.dtype(), " cannot be saved from C++; save them as int64");
    const size_t number = storage_number(t);
    const int64_t numel = storages_[number].numel();
    global("torch._utils", "_rebuild_tensor_v2");
    op('(');
    op('(');
    write(std::string("storage"));
    global("torch", storage_class(t.dtype()));
    write(std::to_string(number));
    write(std::string("cpu"));
    write(numel);
    op('t');
    op('Q');  // the storage, by that tuple
    write(t.offset());
    write_tuple(t.sizes());
    write_tuple(t.strides());
    write(false);  // requires_grad
    global("collections", "OrderedDict");
    op(')');
    op('R');
    op('t');
    op('R');
  }

  void write(const PickleValue& value) {
    if (const auto* v = value.as<bool>()) return write(*v);
    if (const auto* v = value.as<int64_t>()) return write(*v);
    if (const auto* v = value.as<double>()) return write(*v);
    if (const auto* v = value.as<std::string>()) return write(*v);
    if (const auto* v = value.as<Tensor>()) return v->defined() ? write(*v) : op('N');
    if (const auto* list = value.list()) {
      out_ += "](";
      for (const PickleValue& item : *list) write(item);
      return op('e');
    }
    if (const auto* dict = value.dict()) {
      global("collections", "OrderedDict");
      out_ += ")R(";
      for (const auto& [key, item] : *dict) {
        write(key);
        write(item);
      }
      return op('u');
    }
    op('N');
  }

  std::string out_;
  std::vector<Tensor> storages_;  // flat
  std::vector<Tensor> kept_;      // copies from GPUs live until all is written
  std::unordered_map<const Storage*, size_t> numbers_;
};

void write(jit::ByteSink& sink, const PickleValue& value) {
  PickleWriter pickle;
  const std::string text = pickle.text(value);
  jit::ArchiveWriter archive(sink);
  const auto add = [&](const std::string& name, std::span<const char> bytes) {
    const std::span<const char> parts[] = {bytes};
    archive.add("archive/" + name, parts);
  };
  add("data.pkl", text);
  add("byteorder", std::string_view("little"));
  for (size_t i = 0; i < pickle.storages().size(); ++i) {
    const Tensor& t = pickle.storages()[i];
    add("data/" + std::to_string(i), {static_cast<const char*>(t.data()), size_t(t.nbytes())});
  }
  add("version", std::string_view("3\n"));
  archive.finish();
}

class MemorySink final : public jit::ByteSink {
 public:
  void write(std::span<const char> bytes) override { text.append(bytes.data(), bytes.size()); }
  std::string text;
};

}  // namespace

void write_file(const std::string& path, const PickleValue& value) {
  jit::FileSink sink(path);
  write(sink, value);
  sink.place();
}

std::string write_bytes(const PickleValue& value) {
  MemorySink sink;
  write(sink, value);
  return std::move(sink.text);
}

}  // namespace rush::serialize
