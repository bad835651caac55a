#include "frontend/serialize.h"

#include <iterator>

namespace rush {
namespace serialize {

void OutputArchive::write(const std::string& key, const Tensor& tensor, bool) {
  tensors_.insert(key, tensor);
}

void OutputArchive::write(const std::string& key, const OutputArchive& nested) {
  for (const auto& item : nested.tensors_) tensors_.insert(key + "." + item.key(), *item);
}

PickleValue OutputArchive::dict() const {
  auto dict = std::make_shared<PickleValue::Dict>();
  for (const auto& item : tensors_) dict->emplace_back(PickleValue(item.key()), PickleValue(*item));
  return dict;
}

void OutputArchive::save_to(const std::string& path) const { write_file(path, dict()); }
void OutputArchive::save_to(std::ostream& stream) const { stream << write_bytes(dict()); }

void InputArchive::load_from(const std::string& path) { take(read_file(path)); }
void InputArchive::load_from(std::istream& stream) { take(read_bytes(read_all(stream))); }

void InputArchive::take(const PickleValue& value) {
  const PickleValue::Dict* dict = value.dict();
  check(dict, ErrorKind::Runtime, "load",
        "the file does not hold names with tensors; save a state dict, not a module");
  tensors_.clear();
  for (const auto& [key, item] : *dict) {
    const auto* name = key.as<std::string>();
    const auto* tensor = item.as<Tensor>();
    if (name && tensor) tensors_.insert(*name, *tensor);
  }
}

bool InputArchive::try_read(const std::string& key, Tensor& tensor) const {
  const Tensor* found = tensors_.find(key);
  if (found) tensor = *found;
  return found != nullptr;
}

Tensor InputArchive::read(const std::string& key) const {
  const Tensor* found = tensors_.find(key);
  check(found, ErrorKind::Runtime, "load", "there is no '", key, "' in the file; it has ",
        tensors_.size(), " names", tensors_.is_empty() ? "" : ", the first of them '",
        tensors_.is_empty() ? "" : tensors_[0].key(), tensors_.is_empty() ? "" : "'");
  return *found;
}

std::string read_all(std::istream& stream) {
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

Tensor tensor_of(const PickleValue& value) {
  const auto* tensor = value.as<Tensor>();
  check(tensor, ErrorKind::Runtime, "load", "the file does not hold a tensor");
  return *tensor;
}

std::vector<Tensor> tensors_of(const PickleValue& value) {
  const PickleValue::List* list = value.list();
  check(list, ErrorKind::Runtime, "load", "the file does not hold a list of tensors");
  std::vector<Tensor> tensors;
  for (const PickleValue& item : *list) tensors.push_back(tensor_of(item));
  return tensors;
}

}  // namespace serialize

namespace {

serialize::PickleValue list_of(const std::vector<Tensor>& tensors) {
  return std::make_shared<serialize::PickleValue::List>(tensors.begin(), tensors.end());
}

}  // namespace

void save(const Tensor& tensor, const std::string& path) { serialize::write_file(path, tensor); }
void save(const Tensor& tensor, std::ostream& stream) { stream << serialize::write_bytes(tensor); }
void save(const std::vector<Tensor>& tensors, const std::string& path) {
  serialize::write_file(path, list_of(tensors));
}
void save(const std::vector<Tensor>& tensors, std::ostream& stream) {
  stream << serialize::write_bytes(list_of(tensors));
}

void load(Tensor& tensor, const std::string& path) {
  tensor = serialize::tensor_of(serialize::read_file(path));
}
void load(Tensor& tensor, std::istream& stream) {
  tensor = serialize::tensor_of(serialize::read_bytes(serialize::read_all(stream)));
}
void load(std::vector<Tensor>& tensors, const std::string& path) {
  tensors = serialize::tensors_of(serialize::read_file(path));
}
void load(std::vector<Tensor>& tensors, std::istream& stream) {
  tensors = serialize::tensors_of(serialize::read_bytes(serialize::read_all(stream)));
}

}  // namespace rush
