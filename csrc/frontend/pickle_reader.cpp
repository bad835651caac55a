// pickle_reader.cpp: reads what torch.save and rushlight.save write: a zip with data.pkl. The pickle
// is a program for a machine with a stack; this one knows the instructions that files of tensors
// use, and no functions but those that make tensors, dicts and storages.
#include <bit>
#include <cstring>
#include <unordered_map>

#include "core/modes.h"
#include "frontend/pickle.h"
#include "frontend/pickle_storages.h"
#include "jit/archive.h"
#include "ops/ops.h"

namespace rush::serialize {
namespace {

constexpr size_t kMostPickle = 256 << 20;
constexpr size_t kMostItems = 1 << 24;  // on the stack
constexpr size_t kDeepest = 64;         // lists in lists

// What the machine has on its stack: a value, a function, or a storage of a dtype.
struct Item {
  enum Kind : uint8_t { Value, Mark, Global, Storage } kind = Value;
  PickleValue value;
  std::string name;  // of a global
  Tensor storage;    // flat
};

class PickleReader {
 public:
  PickleReader(const jit::ArchiveReader& archive, std::string folder, std::string text)
      : archive_(archive), folder_(std::move(folder)), text_(std::move(text)) {}

  // A list may hold itself: whatever is not handed out is emptied.
  ~PickleReader() {
    if (is_whole_) return;
    for (const auto& list : lists_) list->clear();
    for (const auto& dict : dicts_) dict->clear();
  }

  PickleValue run() {
    for (;;) {
      const char code = take();
      if (code == '.') break;
      step(code);
      require(stack_.size() <= kMostItems, "has too many items");
    }
    require(stack_.size() == 1 && stack_[0].kind == Item::Value, "does not end with one value");
    check_depth(stack_[0].value, 0);
    is_whole_ = true;
    return std::move(stack_[0].value);
  }

 private:
  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    check(ok, ErrorKind::Runtime, "load", archive_.what(), ": the pickle ", parts...);
  }

  // Bytes of the pickle.
  char take() {
    require(at_ < text_.size(), "ends too early");
    return text_[at_++];
  }
  std::string_view take(size_t n) {
    require(n <= text_.size() - at_, "ends too early");
    at_ += n;
    return std::string_view(text_).substr(at_ - n, n);
  }
  template <class T>
  T number() {
    T v;
    std::memcpy(&v, take(sizeof v).data(), sizeof v);
    return v;
  }
  std::string line() {
    const size_t end = text_.find('\n', at_);
    require(end != std::string::npos, "ends too early");
    std::string v = text_.substr(at_, end - at_);
    at_ = end + 1;
    return v;
  }

  // The stack.
  void push(PickleValue v) { stack_.push_back({Item::Value, std::move(v), {}, {}}); }
  Item pop() {
    require(!stack_.empty() && stack_.back().kind != Item::Mark, "takes an item that is not there");
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }
  std::vector<Item> pop_to_mark() {
    size_t first = stack_.size();
    while (first > 0 && stack_[first - 1].kind != Item::Mark) --first;
    require(first > 0, "has no mark where one is needed");
    std::vector<Item> items(std::make_move_iterator(stack_.begin() + ptrdiff_t(first)),
                            std::make_move_iterator(stack_.end()));
    stack_.resize(first - 1);
    return items;
  }
  Item& top() {
    require(!stack_.empty() && stack_.back().kind != Item::Mark, "takes an item that is not there");
    return stack_.back();
  }

  // Lists keep what they hold alive, so storages and functions in tuples stay Items until used.
  PickleValue as_value(Item item) const {
    require(item.kind == Item::Value, "keeps '", item.name, "', which is no value");
    return std::move(item.value);
  }
  std::shared_ptr<PickleValue::List> new_list() {
    return lists_.emplace_back(std::make_shared<PickleValue::List>());
  }
  std::shared_ptr<PickleValue::Dict> new_dict() {
    return dicts_.emplace_back(std::make_shared<PickleValue::Dict>());
  }
  void push_list(std::vector<Item> items) {
    // A tuple with a function or a storage in it is an argument list, or names a storage.
    bool plain = true;
    for (const Item& item : items) plain = plain && item.kind == Item::Value;
    if (!plain) {
      arguments_.push_back(std::move(items));
      stack_.push_back({Item::Global, PickleValue(int64_t(arguments_.size() - 1)), "()", {}});
      return;
    }
    const auto list = new_list();
    for (Item& item : items) list->push_back(std::move(item.value));
    push(std::move(list));
  }
  std::vector<Item> pop_arguments() {
    Item item = pop();
    if (item.kind == Item::Global && item.name == "()") {
      return arguments_[size_t(*item.value.as<int64_t>())];
    }
    const PickleValue::List* list = item.value.list();
    require(item.kind == Item::Value && list, "calls a function without a tuple");
    std::vector<Item> items;
    for (const PickleValue& v : *list) items.push_back({Item::Value, v, {}, {}});
    return items;
  }

  const std::string& text_argument(const Item& item) const {
    const auto* v = item.value.as<std::string>();
    require(item.kind == Item::Value && v, "has no string where one is needed");
    return *v;
  }
  int64_t int_argument(const Item& item) const {
    const auto* v = item.value.as<int64_t>();
    require(item.kind == Item::Value && v, "has no integer where one is needed");
    return *v;
  }
  Dims ints_argument(const Item& item) const {
    const PickleValue::List* list = item.value.list();
    require(item.kind == Item::Value && list && list->size() <= kMaxDims,
            "has no sizes where they are needed");
    Dims out;
    for (const PickleValue& v : *list) {
      const auto* n = v.as<int64_t>();
      require(n, "has no integer where one is needed");
      out.push_back(*n);
    }
    return out;
  }

  // ("storage", class, key, device, number of elements)
  void push_storage() {
    const std::vector<Item> a = pop_arguments();
    require(a.size() == 5 && a[1].kind == Item::Global, "names a storage in an unknown way");
    const std::string_view global = a[1].name;
    require(global.starts_with("torch ") || global.starts_with("rushlight "),
            "has a storage of class '", global, "'");
    const auto dtype = dtype_of_storage(global.substr(global.find(' ') + 1));
    require(bool(dtype), "has a storage of class '", global, "', which is not known");
    const std::string name = folder_ + "data/" + text_argument(a[2]);
    Tensor& storage = storages_[name];
    if (!storage.defined()) {
      const jit::ArchiveEntry* entry = archive_.find(name);
      require(entry, "names '", name, "', which is not in the file");
      const int64_t n = int64_t(entry->size) / element_size(*dtype);
      require(n >= int_argument(a[4]), "asks for more elements than '", name, "' has");
      storage = make_tensor(Dims{n}, *dtype);
      const std::string bytes = archive_.read(*entry);
      std::memcpy(storage.data(), bytes.data(), size_t(storage.nbytes()));
    }
    require(storage.dtype() == *dtype, "reads '", name, "' as two types");
    stack_.push_back({Item::Storage, {}, {}, storage});
  }

  // (storage, offset, sizes, strides, requires_grad, hooks)
  void rebuild_tensor(const std::vector<Item>& a) {
    require(a.size() >= 6 && a[0].kind == Item::Storage, "makes a tensor of something else");
    const Tensor& storage = a[0].storage;
    const int64_t offset = int_argument(a[1]);
    const Dims sizes = ints_argument(a[2]), strides = ints_argument(a[3]);
    require(sizes.size() == strides.size() && offset >= 0, "has a tensor of no possible shape");
    __int128 last = offset, numel = 1;
    for (uint32_t d = 0; d < sizes.size(); ++d) {
      require(sizes[d] >= 0 && strides[d] >= 0, "has a tensor of no possible shape");
      numel *= sizes[d];
      last += __int128(sizes[d] - 1) * strides[d];
      require(numel <= INT64_MAX && last <= INT64_MAX, "has a tensor of no possible shape");
    }
    require(numel == 0 || last < storage.numel(), "has a tensor that reaches beyond its storage");
    push(make_tensor(storage.storage(), sizes, strides, offset, storage.dtype()));
  }

  void call() {
    const std::vector<Item> a = pop_arguments();
    const Item function = pop();
    require(function.kind == Item::Global, "calls something that is no function");
    const std::string& name = function.name;
    if (name == "collections OrderedDict") {
      require(a.empty(), "makes a dict from arguments");
      return push(new_dict());
    }
    if (name.ends_with("._utils _rebuild_tensor_v2")) return rebuild_tensor(a);
    if (name.ends_with("._utils _rebuild_parameter")) {
      require(!a.empty() && a[0].kind == Item::Value, "makes a parameter of something else");
      return push(a[0].value);
    }
    require(false, "calls '", name, "', which files of tensors do not need; nothing was run");
  }

  void set_items(const std::vector<Item>& items) {
    const auto* dict = top().value.as<std::shared_ptr<PickleValue::Dict>>();
    require(top().kind == Item::Value && dict && items.size() % 2 == 0, "fills no dict");
    for (size_t i = 0; i < items.size(); i += 2) {
      (*dict)->emplace_back(as_value(items[i]), as_value(items[i + 1]));
    }
  }
  void append(std::vector<Item> items) {
    const auto* list = top().value.as<std::shared_ptr<PickleValue::List>>();
    require(top().kind == Item::Value && list, "fills no list");
    for (Item& item : items) (*list)->push_back(as_value(std::move(item)));
  }
  void push_tuple(size_t n) {
    std::vector<Item> items(n);
    for (size_t i = n; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }
  void remember(uint32_t slot) {
    require(slot <= memo_.size() + 1024 && slot < kMostItems, "remembers at no possible place");
    if (slot >= memo_.size()) memo_.resize(slot + 1);
    memo_[slot] = top();
  }
  void recall(uint32_t slot) {
    require(slot < memo_.size(), "recalls what it never saw");
    stack_.push_back(memo_[slot]);
  }
  int64_t long_number() {
    const std::string_view bytes = take(uint8_t(take()));
    require(bytes.size() <= 8, "has an integer beyond 64 bits");
    uint64_t v = !bytes.empty() && bytes.back() < 0 ? ~uint64_t(0) : 0;
    for (size_t i = bytes.size(); i-- > 0;) v = v << 8 | uint8_t(bytes[i]);
    return int64_t(v);
  }
  double float_number() {
    uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | uint8_t(c);
    return std::bit_cast<double>(bits);
  }

  void step(char code) {
    switch (uint8_t(code)) {
      case 0x80:
        require(uint8_t(take()) <= 5, "is of an unknown protocol");
        return;
      case 0x95:
        take(8);
        return;  // a frame
      case '(':
        stack_.push_back({Item::Mark, {}, {}, {}});
        return;
      case ')':
        return push_list({});
      case ']':
        return push(new_list());
      case '}':
        return push(new_dict());
      case 't':
        return push_list(pop_to_mark());
      case 0x85:
        return push_tuple(1);
      case 0x86:
        return push_tuple(2);
      case 0x87:
        return push_tuple(3);
      case 'N':
        return push({});
      case 0x88:
        return push(true);
      case 0x89:
        return push(false);
      case 'J':
        return push(int64_t(number<int32_t>()));
      case 'K':
        return push(int64_t(uint8_t(take())));
      case 'M':
        return push(int64_t(number<uint16_t>()));
      case 0x8a:
        return push(long_number());
      case 'G':
        return push(float_number());
      case 'X':
        return push(std::string(take(number<uint32_t>())));
      case 0x8c:
        return push(std::string(take(uint8_t(take()))));
      case 'c': {
        std::string module = line();
        stack_.push_back({Item::Global, {}, module + " " + line(), {}});
        return;
      }
      case 'q':
        return remember(uint8_t(take()));
      case 'r':
        return remember(number<uint32_t>());
      case 0x94:
        return remember(uint32_t(memo_.size()));
      case 'h':
        return recall(uint8_t(take()));
      case 'j':
        return recall(number<uint32_t>());
      case 'R':
        return call();
      case 'Q':
        return push_storage();
      case 's': {
        std::vector<Item> items(2);
        items[1] = pop();
        items[0] = pop();
        return set_items(items);
      }
      case 'u':
        return set_items(pop_to_mark());
      case 'a': {
        std::vector<Item> items(1);
        items[0] = pop();
        return append(std::move(items));
      }
      case 'e':
        return append(pop_to_mark());
      case 'b':
        pop();
        return;  // a state dict's _metadata, which no tensor needs
      default:
        break;
    }
    require(false, "has the instruction ", int(uint8_t(code)),
            ", which files of tensors do not need");
  }

  // A list that holds itself, or one list twice at each depth, would never let go who walks it.
  void check_depth(const PickleValue& value, size_t depth) {
    require(depth < kDeepest && ++seen_ <= kMostItems, "has lists in lists beyond ", kDeepest);
    if (const auto* list = value.list()) {
      for (const PickleValue& v : *list) check_depth(v, depth + 1);
    } else if (const auto* dict = value.dict()) {
      for (const auto& [key, v] : *dict) {
        check_depth(key, depth + 1);
        check_depth(v, depth + 1);
      }
    }
  }

  const jit::ArchiveReader& archive_;
  std::string folder_;  // "archive/"
  std::string text_;
  size_t at_ = 0;
  std::vector<Item> stack_, memo_;
  std::vector<std::vector<Item>> arguments_;
  std::unordered_map<std::string, Tensor> storages_;
  std::vector<std::shared_ptr<PickleValue::List>> lists_;
  std::vector<std::shared_ptr<PickleValue::Dict>> dicts_;
  size_t seen_ = 0;
  bool is_whole_ = false;
};

PickleValue read(const jit::ByteSource& source, const std::string& what) {
  const jit::ArchiveReader archive(source, what);
  for (const jit::ArchiveEntry& entry : archive.entries()) {
    if (!entry.name.ends_with("/data.pkl")) continue;
    const std::string folder = entry.name.substr(0, entry.name.size() - std::strlen("data.pkl"));
    if (const jit::ArchiveEntry* order = archive.find(folder + "byteorder")) {
      check(order->size == 6 && archive.read(*order) == "little", ErrorKind::NotImplemented, "load",
            what, ": written with the bytes of numbers in another order");
    }
    check(entry.size <= kMostPickle, ErrorKind::Runtime, "load", what, ": the pickle has ",
          entry.size, " bytes; at most ", kMostPickle, " are read");
    return PickleReader(archive, folder, archive.read(entry)).run();
  }
  fail(ErrorKind::Runtime, "load", what,
       ": there is no data.pkl; rush::load reads what rush::save "
       "and Python's save have written");
}

}  // namespace

PickleValue read_file(const std::string& path) {
  const auto source = jit::ByteSource::file(path);
  return read(*source, concat("'", path, "'"));
}

PickleValue read_bytes(std::string_view bytes) {
  const auto source = jit::ByteSource::memory(bytes);
  return read(*source, "the bytes");
}

}  // namespace rush::serialize
