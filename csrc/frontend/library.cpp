#include "frontend/library.h"

#include <algorithm>
#include <mutex>

#include "core/spin_lock.h"

namespace rush {
namespace {

// Guarded by a lock that is held for a few instructions; texts are made outside of it.
SpinLock g_lock;
std::string* g_errors = nullptr;

std::string kinds_text(const std::vector<ArgKind>& kinds) {
  std::string text;
  for (const ArgKind kind : kinds) {
    CustomParameter p;
    p.kind = kind;
    text += (text.empty() ? "" : ", ") + type_text(p);
  }
  return "(" + text + ")";
}

}  // namespace

namespace kernel {

void check_signature(const CustomSchema& schema, const std::vector<ArgKind>& arguments,
                     const std::vector<bool>& take_none, const std::vector<ArgKind>& results) {
  bool fits =
      arguments.size() == schema.parameters.size() && results.size() == schema.results.size();
  for (size_t i = 0; fits && i < arguments.size(); ++i) {
    const CustomParameter& p = schema.parameters[i];
    fits = arguments[i] == p.kind && (!p.optional || take_none[i]);
  }
  for (size_t i = 0; fits && i < results.size(); ++i) fits = results[i] == schema.results[i].kind;
  check(fits, ErrorKind::Runtime, schema.qualified(), "the C++ function takes ",
        kinds_text(arguments), " and returns ", kinds_text(results), ", but the schema is ",
        schema.text(),
        "; optional arguments are std::optional in C++, int is int64_t, float is "
        "double");
}

CustomSchema schema_of(std::string_view name, const std::vector<ArgKind>& arguments,
                       const std::vector<bool>& optional, const std::vector<ArgKind>& results) {
  CustomSchema schema;
  schema.name = name;
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
    schema.name = name.substr(0, dot);
    schema.overload = name.substr(dot + 1);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    CustomParameter p;
    p.name = concat("_", i);
    p.kind = arguments[i];
    p.optional = optional[i];
    schema.parameters.push_back(std::move(p));
  }
  for (const ArgKind kind : results) {
    CustomResult r;
    r.kind = kind;
    schema.results.push_back(std::move(r));
  }
  return schema;
}

}  // namespace kernel

Library::Library(Kind kind, std::string space, std::string key)
    : kind_(kind), space_(std::move(space)), key_(std::move(key)) {
  if (key_ == "CatchAll") key_ = "CompositeImplicitAutograd";
  check(parse_custom_key(key_).has_value(), ErrorKind::Runtime, "RUSH_LIBRARY_IMPL",
        "there is no dispatch key '", key_,
        "'; there are CPU, CUDA, Meta, Autograd, CompositeExplicitAutograd and "
        "CompositeImplicitAutograd");
}

Library& Library::def(std::string_view schema) & {
  define(CustomSchema::parse(schema));
  return *this;
}

void Library::define(CustomSchema schema) {
  check(kind_ != Kind::Impl, ErrorKind::Runtime, schema.name,
        "operators are defined in RUSH_LIBRARY or RUSH_LIBRARY_FRAGMENT");
  check(schema.space.empty() || schema.space == space_, ErrorKind::Runtime, schema.qualified(),
        "this block is about the namespace ", space_);
  schema.space = space_;
  define_custom_op(std::move(schema));
}

void Library::add(std::string_view name, std::string_view key,
                  std::unique_ptr<CustomKernel> kernel) {
  std::string qualified(name);
  if (qualified.find("::") == std::string::npos) qualified = space_ + "::" + qualified;
  set_kernel_when_defined(qualified, *parse_custom_key(key), std::move(kernel));
}

LibraryInit::LibraryInit(Library::Kind kind, const char* space, const char* key,
                         void (*block)(Library&), const char* file, int line) {
  std::string text;
  try {
    Library library(kind, space, key);
    block(library);
    return;
  } catch (const std::exception& e) {
    text = concat(e.what(), " (", file, ":", line, ")\n");
  } catch (...) {
    text = concat("an unknown C++ exception (", file, ":", line, ")\n");
  }
  auto all = std::make_unique<std::string>();
  {
    const std::lock_guard lock(g_lock);
    if (g_errors) all.reset(std::exchange(g_errors, nullptr));
  }
  *all += text;
  const std::lock_guard lock(g_lock);
  g_errors = all.release();
}

std::string take_library_errors() {
  std::unique_ptr<std::string> taken;
  {
    const std::lock_guard lock(g_lock);
    taken.reset(std::exchange(g_errors, nullptr));
  }
  if (!taken) return "";
  if (taken->ends_with('\n')) taken->pop_back();
  return *taken;
}

Dispatcher& Dispatcher::singleton() {
  static Dispatcher one;
  return one;
}

OperatorHandle Dispatcher::findSchemaOrThrow(const char* name, const char* overload) const {
  for (const OpEntry& entry : find_ops(name)) {
    if (std::string_view(entry.overload) == overload && entry.form != Form::Out)
      return OperatorHandle(entry);
  }
  fail(ErrorKind::Runtime, "", "Could not find schema for ", name, ".", overload);
}

}  // namespace rush
