// shared_memory.cpp: shared storages for rushlight.multiprocessing: made, described for a message,
// found again in the process that gets it.
#include "core/shared_memory.h"

#include <cstring>

#include "bindings/data/processes.h"
#include "bindings/handle.h"

namespace rush::py {
namespace {

Ref<Storage> storage_argument(const char* function, PyObject* o) {
  check(is_storage(o), ErrorKind::Type, function, "expected an UntypedStorage, got ", type_name(o));
  return storage_from_python(o);
}

PyObject* shared_empty(PyObject*, PyObject* o) {
  return guarded([&] {
    int64_t nbytes = 0;
    check(int_from_python(o, nbytes) && nbytes >= 0, ErrorKind::Value, "shared memory",
          "expected a number of bytes");
    return wrap(allocate_shared(size_t(nbytes)));
  });
}

PyObject* share_storage(PyObject*, PyObject* o) {
  return guarded([&] {
    const Ref<Storage> storage = storage_argument("share_memory_", o);
    {
      const ReleaseGil released;
      share(*storage);
    }
    return Py_NewRef(Py_None);
  });
}

Handle id_bytes(ArenaId id) {
  return Handle::steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&id), sizeof(id)));
}

ArenaId id_argument(PyObject* o) {
  ArenaId id;
  check(PyBytes_Check(o) && PyBytes_GET_SIZE(o) == Py_ssize_t(sizeof(id)), ErrorKind::Value,
        "shared memory", "expected the id of an arena");
  std::memcpy(&id, PyBytes_AS_STRING(o), sizeof(id));
  return id;
}

// (id, offset, nbytes, descriptor, name), with a hold for the message.
PyObject* shared_send(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* o;
    int by_name = 0;
    if (!PyArg_ParseTuple(args, "Op", &o, &by_name)) throw PythonError{};
    const Ref<Storage> storage = storage_argument("shared memory", o);
    check(storage->is_shared(), ErrorKind::Runtime, "shared memory", "the storage is not shared");
    const SharedPlace place = shared_place(*storage);
    const Handle id = id_bytes(place.arena->id());
    const std::string& name = place.arena->name();
    PyObject* out = Py_BuildValue(
        "OnniN", id.get(), Py_ssize_t(place.offset), Py_ssize_t(place.nbytes), place.arena->fd(),
        PyUnicode_FromStringAndSize(name.data(), Py_ssize_t(name.size())));
    if (!out) throw PythonError{};
    place.arena->hold(place.offset);
    if (by_name) place.arena->count_named_message(1);
    return out;
  });
}

// The message was not sent after all.
PyObject* shared_cancel(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* o;
    int by_name = 0;
    if (!PyArg_ParseTuple(args, "Op", &o, &by_name)) throw PythonError{};
    const SharedPlace place = shared_place(*storage_argument("shared memory", o));
    place.arena->let_go(place.offset, place.nbytes);
    if (by_name) place.arena->count_named_message(-1);
    return Py_NewRef(Py_None);
  });
}

PyObject* has_arena(PyObject*, PyObject* id) {
  return guarded([&] { return PyBool_FromLong(bool(find_arena(id_argument(id)))); });
}

// _shared_receive(id, offset, nbytes, descriptor or -1, name or "", by_name)
PyObject* shared_receive(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* id_object;
    Py_ssize_t offset, nbytes;
    int fd, by_name;
    const char* name;
    if (!PyArg_ParseTuple(args, "Onnisp", &id_object, &offset, &nbytes, &fd, &name, &by_name))
      throw PythonError{};
    const ArenaId id = id_argument(id_object);
    Ref<SharedArena> arena;
    if (fd >= 0) {
      arena = arena_from_descriptor(fd, name);
    } else {
      arena = find_arena(id);
      if (!arena && *name) arena = arena_from_name(name);
    }
    check(bool(arena) && arena->id() == id, ErrorKind::Runtime, "shared memory",
          "the memory of a received tensor cannot be reached");
    if (by_name) arena->count_named_message(-1);
    return wrap(attach_shared({arena, size_t(offset), size_t(nbytes)}));
  });
}

// How many storages and messages hold a block; 0 when that is not known because of a fork.
PyObject* shared_holders(PyObject*, PyObject* o) {
  return guarded([&] {
    const SharedPlace place = shared_place(*storage_argument("shared memory", o));
    return PyLong_FromLong(place.arena->forked() ? 0 : long(place.arena->holders(place.offset)));
  });
}

PyObject* named(PyObject*, PyObject* o) {
  return guarded([&] {
    if (o != Py_None) set_named_arenas(o == Py_True);
    return PyBool_FromLong(named_arenas());
  });
}

PyObject* stats(PyObject*, PyObject*) {
  return guarded([&] {
    const SharedMemoryStats s = shared_memory_stats();
    return Py_BuildValue("LL", static_cast<long long>(s.arenas),
                         static_cast<long long>(s.storages));
  });
}

PyObject* release(PyObject*, PyObject*) {
  release_shared_memory();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_shared_empty", shared_empty, METH_O, "A storage of zeros in shared memory."},
    {"_share_storage", share_storage, METH_O, "Moves a storage to shared memory."},
    {"_shared_send", shared_send, METH_VARARGS, "Where a shared storage is, for a message."},
    {"_shared_cancel", shared_cancel, METH_VARARGS, "Takes back what _shared_send counted."},
    {"_has_arena", has_arena, METH_O, "Is the arena of that id mapped here?"},
    {"_shared_receive", shared_receive, METH_VARARGS, "The storage that a message names."},
    {"_shared_holders", shared_holders, METH_O, "How many hold a block; 0: unknown."},
    {"_named_arenas", named, METH_O, "Are arenas files in /dev/shm? True or False sets it."},
    {"_shared_memory_stats", stats, METH_NOARGS, "The numbers of arenas and of storages."},
    {"_release_shared_memory", release, METH_NOARGS, "Lets go of what is only kept for later."},
    {},
};

}  // namespace

bool init_shared_memory(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace rush::py
