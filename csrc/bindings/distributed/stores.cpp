// stores.cpp: Store and the four kinds of it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>

#include "bindings/distributed/distributed.h"
#include "bindings/gil.h"
#include "distributed/file_store.h"
#include "distributed/hash_store.h"
#include "distributed/prefix_store.h"
#include "distributed/tcp_store.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::distributed;
using Unlocked = nb::call_guard<ReleaseGil>;

// Values are bytes; a str is taken as UTF-8.
std::string as_value(nb::handle o) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(o.ptr()))
    return {PyBytes_AS_STRING(o.ptr()), size_t(PyBytes_GET_SIZE(o.ptr()))};
  check(PyUnicode_Check(o.ptr()), ErrorKind::Type, "store", "a value must be str or bytes, got ",
        Py_TYPE(o.ptr())->tp_name);
  const char* text = PyUnicode_AsUTF8AndSize(o.ptr(), &size);
  if (!text) throw PythonError{};
  return {text, size_t(size)};
}

nb::bytes as_bytes(const std::string& value) { return nb::bytes(value.data(), value.size()); }

template <class F>
auto unlocked(F&& f) {
  const ReleaseGil released;
  return f();
}

void wait_for(Store& s, const Keys& keys, nb::handle timeout) {
  const Milliseconds limit = timeout.is_none() ? s.timeout() : as_milliseconds(timeout);
  unlocked([&] { s.wait(keys, limit); });
}

std::shared_ptr<TcpStore> tcp_store(const std::string& host, int port,
                                    std::optional<int> world_size, bool is_master,
                                    nb::handle timeout, bool wait_for_workers,
                                    bool /*multi_tenant*/, std::optional<int> listen_fd,
                                    bool /*use_libuv*/) {
  check(port >= 0 && port < 65536, ErrorKind::Value, "TCPStore", "not a port: ", port);
  if (world_size && *world_size < 0) world_size.reset();
  const char* token = std::getenv("RUSHLIGHT_STORE_TOKEN");
  TcpStoreOptions options{host,
                          uint16_t(port),
                          world_size,
                          is_master,
                          wait_for_workers,
                          as_milliseconds(timeout),
                          listen_fd.value_or(-1),
                          token ? token : ""};
  return unlocked([&] { return owned_here(new TcpStore(std::move(options))); });
}

}  // namespace

void add_stores(nb::module_& m) {
  nb::class_<Store>(m, "Store")
      .def(
          "set",
          [](Store& s, const std::string& key, nb::handle value) {
            const std::string bytes = as_value(value);
            unlocked([&] { s.set(key, bytes); });
          },
          nb::arg("key"), nb::arg("value"))
      .def(
          "get",
          [](Store& s, const std::string& key) {
            return as_bytes(unlocked([&] { return s.get(key, s.timeout()); }));
          },
          nb::arg("key"))
      .def(
          "append",
          [](Store& s, const std::string& key, nb::handle value) {
            const std::string bytes = as_value(value);
            unlocked([&] { s.append(key, bytes); });
          },
          nb::arg("key"), nb::arg("value"))
      .def("add", &Store::add, nb::arg("key"), nb::arg("amount"), Unlocked())
      .def(
          "compare_set",
          [](Store& s, const std::string& key, nb::handle expected, nb::handle desired) {
            const std::string before = as_value(expected), after = as_value(desired);
            return as_bytes(unlocked([&] { return s.compare_set(key, before, after); }));
          },
          nb::arg("key"), nb::arg("expected_value"), nb::arg("desired_value"))
      .def(
          "check", [](Store& s, const Keys& keys) { return s.check(keys); }, nb::arg("keys"),
          Unlocked())
      .def("delete_key", &Store::delete_key, nb::arg("key"), Unlocked())
      .def("num_keys", &Store::num_keys, Unlocked())
      .def("wait", wait_for, nb::arg("keys"), nb::arg("timeout") = nb::none())
      .def(
          "set_timeout",
          [](Store& s, nb::handle timeout) { s.set_timeout(as_milliseconds(timeout)); },
          nb::arg("timeout"))
      .def_prop_ro("timeout", [](const Store& s) {
        nb::object delta = nb::module_::import_("datetime").attr("timedelta");
        return delta(nb::arg("milliseconds") = s.timeout().count());
      });

  nb::class_<HashStore, Store>(m, "HashStore").def(nb::init<>());
  nb::class_<FileStore, Store>(m, "FileStore")
      .def(nb::init<std::string, int64_t>(), nb::arg("file_name"), nb::arg("world_size") = -1)
      .def_prop_ro("path", &FileStore::path);
  nb::class_<PrefixStore, Store>(m, "PrefixStore")
      .def(nb::init<std::string, std::shared_ptr<Store>>(), nb::arg("prefix"), nb::arg("store"))
      .def_prop_ro("underlying_store", &PrefixStore::underlying_store);
  nb::class_<TcpStore, Store>(m, "TCPStore")
      .def(nb::new_(&tcp_store), nb::arg("host_name"), nb::arg("port"),
           nb::arg("world_size") = nb::none(), nb::arg("is_master") = false,
           nb::arg("timeout") = 300, nb::arg("wait_for_workers") = true,
           nb::arg("multi_tenant") = false, nb::arg("master_listen_fd") = nb::none(),
           nb::arg("use_libuv") = true)
      .def_prop_ro("host", &TcpStore::host)
      .def_prop_ro("port", &TcpStore::port);
}

}  // namespace rush::py
