// process_groups.cpp: ProcessGroup and Work.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/distributed/distributed.h"
#include "bindings/handle.h"
#include "distributed/mpi/mpi_engine.h"
#include "distributed/pmi_server.h"
#include "distributed/process_group.h"
#include "jit/recorder.h"

namespace rush::py {
namespace {

namespace nb = nanobind;
using namespace rush::distributed;
using Unlocked = nb::call_guard<ReleaseGil>;

Tensor tensor_argument(const char* function, nb::handle o) {
  check(is_tensor(o.ptr()), ErrorKind::Type, function, "expected a tensor, got ",
        Py_TYPE(o.ptr())->tp_name);
  return unwrap(o.ptr());
}

// The ranks of one engine find each other through a store that is theirs.
std::shared_ptr<ProcessGroup> make_group(const std::shared_ptr<Store>& store,
                                         const std::vector<int>& ranks, int rank,
                                         const std::string& name, nb::handle timeout) {
  const Milliseconds limit = as_milliseconds(timeout);
  const ReleaseGil released;
  std::unique_ptr<Engine> engine;
  if (ranks.size() > 1) engine = mpi::make_engine(*store, ranks, limit);
  return owned_here(
      new ProcessGroup(store, std::move(engine), rank, int(ranks.size()), name, limit));
}

std::shared_ptr<Work> collective(ProcessGroup& group, int kind, nb::handle tensor, int reduce,
                                 int root, nb::handle outputs, nb::handle timeout, bool async) {
  jit::end_recording("a collective of several processes");
  Operation op;
  op.kind = Collective(kind);
  op.reduce = ReduceOp(reduce);
  op.root = root;
  if (!tensor.is_none()) op.tensor = tensor_argument(name_of(op.kind), tensor);
  if (!outputs.is_none())
    for (nb::handle o : nb::borrow<nb::list>(outputs))
      op.outputs.push_back(tensor_argument(name_of(op.kind), o));
  if (!timeout.is_none()) op.timeout = as_milliseconds(timeout);
  const SourcePoint where = source_here();
  {
    const ReleaseGil released;
    prepare(op, group.size());
  }
  const std::shared_ptr<Work> work = group.issue(std::move(op), where);
  const ReleaseGil released;
  group.run(work, async);
  return work;
}

bool wait(Work& work, nb::handle timeout) {
  Milliseconds limit = timeout.is_none() ? Milliseconds(0) : as_milliseconds(timeout);
  const bool limited = limit.count() > 0;
  if (!limited) limit = std::chrono::hours(24 * 365);  // the group's timeout ends it
  const ReleaseGil released;
  if (!work.wait(limit))
    throw BackendError(
        concat(name_of(work.operation().kind), ": wait timed out after ", limit.count(), " ms"));
  return true;
}

nb::object exception_of(const Work& work) {
  try {
    if (const std::exception_ptr failure = work.failure()) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return nb::str(e.what());
  } catch (...) {
    return nb::str("interrupted");
  }
  return nb::none();
}

nb::list recorded(const ProcessGroup& group) {
  nb::list out;
  for (const Entry& e : group.recorded()) out.append(nb::make_tuple(e.number, e.what, e.where));
  return out;
}

}  // namespace

void add_process_groups(nb::module_& m) {
  nb::class_<Work>(m, "Work")
      .def("wait", wait, nb::arg("timeout") = nb::none())
      .def("is_completed", &Work::is_completed)
      .def("is_success", [](const Work& w) { return w.is_completed() && !w.failure(); })
      .def("_failure", exception_of)
      .def("result", [](Work& w) {
        nb::list out;
        if (w.operation().tensor.defined()) out.append(nb::steal(wrap(w.operation().tensor)));
        return out;
      });
  nb::class_<ProcessGroup>(m, "ProcessGroup")
      .def("rank", &ProcessGroup::rank)
      .def("size", &ProcessGroup::size)
      .def_prop_ro("group_name", &ProcessGroup::name)
      .def("_collective", collective, nb::arg("kind"), nb::arg("tensor").none(), nb::arg("reduce"),
           nb::arg("root"), nb::arg("outputs").none(), nb::arg("timeout").none(),
           nb::arg("async_op"))
      .def("_set_timeout", [](ProcessGroup& g, nb::handle t) { g.set_timeout(as_milliseconds(t)); })
      .def("_say_raised", &ProcessGroup::say_raised, Unlocked())
      .def("_shut_down", &ProcessGroup::shut_down, Unlocked())
      .def("_is_healthy", &ProcessGroup::is_healthy)
      .def("_verdict", &ProcessGroup::verdict)
      .def("_recorded", recorded);
  m.def("mpi_constants", [] {
    nb::dict out;
    for (const auto& [name, value] : mpi::constants()) out[name.c_str()] = value;
    return out;
  });
  m.def("process_mapping",
        [](const std::vector<std::string>& hosts) { return process_mapping(hosts); });
  m.def("mpi_available", mpi::is_available);
  m.def("mpi_version", mpi::library_version);
  m.def("mpi_initialize",
        [](const std::shared_ptr<Store>& store, int rank, int size, nb::handle timeout) {
          const Milliseconds limit = as_milliseconds(timeout);
          const ReleaseGil released;
          mpi::initialize(store, rank, size, limit);
        });
  m.def("make_group", make_group);
}

}  // namespace rush::py
