// serialize.h: files of tensors, modules and optimisers that Python's load reads, and the reverse.
//
// A module is saved as its state dict: {"conv1.weight": tensor, ...}. So
// `module.load_state_dict(rushlight.load("net.pt"))` reads it in Python, and rush::load(module, ...)
// reads what `rushlight.save(module.state_dict(), "net.pt")` has written.
#pragma once

#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "frontend/nn/module.h"
#include "frontend/ordered_dict.h"
#include "frontend/pickle.h"

namespace rush {
namespace optim {
class Optimizer;
}

namespace serialize {

// Tensors by names with dots.
class RUSH_API OutputArchive {
 public:
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, const OutputArchive& nested);
  void save_to(const std::string& path) const;
  void save_to(std::ostream& stream) const;

 private:
  PickleValue dict() const;
  OrderedDict<std::string, Tensor> tensors_;
};

class RUSH_API InputArchive {
 public:
  void load_from(const std::string& path);
  void load_from(std::istream& stream);
  Tensor read(const std::string& key) const;                    // raises where there is none
  bool try_read(const std::string& key, Tensor& tensor) const;  // false where there is none
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false) const {
    (void)is_buffer;
    tensor = read(key);
  }
  std::vector<std::string> keys() const { return tensors_.keys(); }

 private:
  void take(const PickleValue& value);
  OrderedDict<std::string, Tensor> tensors_;
};

RUSH_API std::string read_all(std::istream& stream);
RUSH_API Tensor tensor_of(const PickleValue& value);
RUSH_API std::vector<Tensor> tensors_of(const PickleValue& value);

}  // namespace serialize

RUSH_API void save(const Tensor& tensor, const std::string& path);
RUSH_API void save(const Tensor& tensor, std::ostream& stream);
RUSH_API void save(const std::vector<Tensor>& tensors, const std::string& path);
RUSH_API void save(const std::vector<Tensor>& tensors, std::ostream& stream);
RUSH_API void load(Tensor& tensor, const std::string& path);
RUSH_API void load(Tensor& tensor, std::istream& stream);
RUSH_API void load(std::vector<Tensor>& tensors, const std::string& path);
RUSH_API void load(std::vector<Tensor>& tensors, std::istream& stream);

// Modules, their holders, optimisers: whatever has save(OutputArchive&) and load(InputArchive&).
template <class T>
concept Archived = requires(T& value, serialize::OutputArchive& out, serialize::InputArchive& in) {
  value.save(out);
  value.load(in);
};

template <Archived T, class Target>
void save(const T& value, Target&& target) {
  serialize::OutputArchive archive;
  value.save(archive);
  archive.save_to(std::forward<Target>(target));
}
template <Archived T, class Source>
void load(T& value, Source&& source) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<Source>(source));
  value.load(archive);
}
// Pointers to them, and holders.
template <class P, class Target>
  requires requires(P p) { requires Archived<std::remove_reference_t<decltype(*p)>>; }
void save(const P& value, Target&& target) {
  save(*value, std::forward<Target>(target));
}
template <class P, class Source>
  requires requires(P p) { requires Archived<std::remove_reference_t<decltype(*p)>>; }
void load(const P& value, Source&& source) {
  load(*value, std::forward<Source>(source));
}

}  // namespace rush
