// process_groups.cpp: ProcessGroup and Work.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/distributed/distributed.h"
#include "bindings/handle.h"
#include "core/thread_generator.h"
#include "distributed/mpi/mpi_engine.h"
#include "distributed/nccl/nccl_engine.h"
#include "distributed/nccl/nccl_library.h"
#include "distributed/pmi_server.h"
#include "distributed/process_group.h"
#include "distributed/threads/thread_engine.h"
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

// The ranks of one engine find each other through a store that is theirs; those that are threads
// through a hub and a name.
std::shared_ptr<ProcessGroup> make_group(const std::shared_ptr<Store>& store,
                                         const std::vector<int>& ranks, int rank,
                                         const std::string& name, nb::handle timeout,
                                         threads::Hub* hub, const std::string& room, bool on_host,
                                         bool on_gpus) {
  const Milliseconds limit = as_milliseconds(timeout);
  const ReleaseGil released;
  Engines engines{.serves_host = on_host, .serves_device = on_gpus};
  const int size = int(ranks.size());
  if (size > 1 && on_host)
    engines.host =
        hub ? threads::make_engine(*hub, room, size, rank) : mpi::make_engine(*store, ranks, limit);
  if (size > 1 && on_gpus) engines.device = nccl::make_engine(store, rank, size, limit);
  return owned_here(new ProcessGroup(store, std::move(engines), rank, size, name, limit));
}

std::vector<Tensor> tensor_list(const char* function, nb::handle list) {
  std::vector<Tensor> out;
  if (!list.is_none())
    for (nb::handle o : nb::borrow<nb::list>(list)) out.push_back(tensor_argument(function, o));
  return out;
}

std::shared_ptr<Work> collective(ProcessGroup& group, int kind, nb::handle inputs,
                                 nb::handle outputs, int reduce, int root, int tag,
                                 std::vector<int64_t> input_counts,
                                 std::vector<int64_t> output_counts, nb::handle timeout, bool async,
                                 int device) {
  jit::end_recording("a collective of several processes");
  Operation op;
  op.device = device;
  op.kind = Collective(kind);
  op.reduce = ReduceOp(reduce);
  op.root = root;
  op.tag = tag;
  op.rank = group.rank();
  op.inputs = tensor_list(name_of(op.kind), inputs);
  op.outputs = tensor_list(name_of(op.kind), outputs);
  op.input_counts = std::move(input_counts);
  op.output_counts = std::move(output_counts);
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

// [(kind, tensor, peer, tag)]: messages on one GPU, as one.
std::vector<std::shared_ptr<Work>> batch(ProcessGroup& group, const nb::list& messages) {
  jit::end_recording("messages between processes");
  std::vector<Operation> ops;
  for (nb::handle message : messages) {
    const auto parts = nb::borrow<nb::tuple>(message);
    Operation& op = ops.emplace_back();
    op.kind = Collective(nb::cast<int>(parts[0]));
    (op.kind == Collective::Send ? op.inputs : op.outputs)
        .push_back(tensor_argument(name_of(op.kind), parts[1]));
    op.root = nb::cast<int>(parts[2]);
    op.tag = nb::cast<int>(parts[3]);
    op.rank = group.rank();
    {
      const ReleaseGil released;
      prepare(op, group.size());
    }
    check(op.device == ops[0].device, ErrorKind::Device, "batch_isend_irecv",
          "the tensors must be on one device");
  }
  const SourcePoint where = source_here();
  std::vector<std::shared_ptr<Work>> works;
  for (Operation& op : ops) works.push_back(group.issue(std::move(op), where));
  const ReleaseGil released;
  group.run_batch(works);
  return works;
}

bool wait(Work& work, nb::handle timeout) {
  const Milliseconds limit = timeout.is_none() ? Milliseconds(0) : as_milliseconds(timeout);
  const ReleaseGil released;
  if (limit.count() == 0)
    work.wait_in_stream();  // the group's timeout ends it
  else if (!work.wait(limit))
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

// Random numbers of a simulated rank: from where the process's generator stands, and from then on by
// themselves.
struct RankGenerator {
  std::shared_ptr<Generator> own;
};

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
      .def("result",
           [](Work& w) {
             nb::list out;
             for (const Tensor& t : w.operation().outputs) out.append(nb::steal(wrap(t)));
             return out;
           })
      .def("source_rank", [](Work& w) { return w.operation().root; });
  nb::class_<RankGenerator>(m, "RankGenerator")
      .def(nb::init<>())
      .def("use",
           [](RankGenerator& g) {
             g.own = default_generator_pointer()->clone();
             set_thread_generator(g.own.get());
           })
      .def("leave", [](RankGenerator&) { set_thread_generator(nullptr); });
  nb::class_<threads::Hub>(m, "Hub").def(nb::init<>());
  nb::class_<ProcessGroup>(m, "ProcessGroup")
      .def("rank", &ProcessGroup::rank)
      .def("size", &ProcessGroup::size)
      .def_prop_ro("group_name", &ProcessGroup::name)
      .def("_collective", collective, nb::arg("kind"), nb::arg("inputs").none(),
           nb::arg("outputs").none(), nb::arg("reduce"), nb::arg("root"), nb::arg("tag"),
           nb::arg("input_counts"), nb::arg("output_counts"), nb::arg("timeout").none(),
           nb::arg("async_op"), nb::arg("device") = -1)
      .def("_batch", batch)
      .def("_connect", &ProcessGroup::connect, Unlocked())
      .def("_set_timeout", [](ProcessGroup& g, nb::handle t) { g.set_timeout(as_milliseconds(t)); })
      .def("_say_raised", &ProcessGroup::say_raised, Unlocked())
      .def("_fail", &ProcessGroup::fail, Unlocked())
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
  m.def("nccl_available", nccl::is_available);
  m.def("nccl_version", nccl::version);
  m.def("mpi_initialize",
        [](const std::shared_ptr<Store>& store, int rank, int size, nb::handle timeout) {
          const Milliseconds limit = as_milliseconds(timeout);
          const ReleaseGil released;
          mpi::initialize(store, rank, size, limit);
        });
  m.def("make_group", make_group, nb::arg("store"), nb::arg("ranks"), nb::arg("rank"),
        nb::arg("name"), nb::arg("timeout"), nb::arg("hub").none() = nb::none(),
        nb::arg("room") = "", nb::arg("on_host") = true, nb::arg("on_gpus") = false);
}

}  // namespace rush::py
