// language.cpp: runs scripted programs from files, in one process without Python.
//
//   language FOLDER: for each line "NAME COUNT" on standard input, runs FOLDER/NAME.rush with what the methods
//   inputs0, inputs1, ... of FOLDER/NAME.inputs.rush give, and prints one line per result.
#include <rushlight/rushlight.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>

namespace {

using rush::jit::IValue;

std::string hex(uint64_t v) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(v));
  return text;
}

// As `dump` of tests/jit/language/running.py.
std::string dump(const IValue& v) {
  std::ostringstream os;
  switch (v.kind()) {
    case IValue::Kind::None:
      return "None";
    case IValue::Kind::Tensor: {
      const rush::Tensor t = rush::contiguous(v.toTensor());
      uint64_t sum = 0xcbf29ce484222325;
      const auto* bytes = t.data<unsigned char>();
      for (int64_t i = 0; i < t.nbytes(); ++i) sum = (sum ^ bytes[i]) * 0x100000001b3;
      os << "tensor " << t.dtype() << " [";
      for (uint32_t i = 0; i < t.sizes().size(); ++i) os << (i ? "," : "") << t.sizes()[i];
      os << "] " << hex(sum);
      return os.str();
    }
    case IValue::Kind::Bool:
      return v.toBool() ? "bool 1" : "bool 0";
    case IValue::Kind::Int:
      return "int " + std::to_string(v.toInt());
    case IValue::Kind::Double: {
      uint64_t bits;
      double d = v.toDouble();
      if (d != d) d = std::numeric_limits<double>::quiet_NaN();
      std::memcpy(&bits, &d, sizeof bits);
      return "float " + hex(bits);
    }
    case IValue::Kind::String: {
      std::string text = "str ";
      for (const unsigned char c : v.toStringRef()) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", c);
        text += two;
      }
      return text;
    }
    case IValue::Kind::Tuple:
    case IValue::Kind::List: {
      std::string text;
      for (const IValue& item : v.elements()) text += (text.empty() ? "" : "; ") + dump(item);
      return v.isTuple() ? "(" + text + ")" : "[" + text + "]";
    }
    case IValue::Kind::Dict: {
      std::string text;
      for (size_t i = 0; i < v.elements().size(); ++i)
        text += (i ? "; " : "") + dump(v.dict().keys[i]) + ": " + dump(v.elements()[i]);
      return "{" + text + "}";
    }
    case IValue::Kind::Object: {
      std::string text;
      for (const std::string& name : v.names()->fields)
        text += (text.empty() ? "" : "; ") + name + ": " + dump(v.at(name));
      return v.names()->name + "{" + text + "}";
    }
    default:
      os << "other " << rush::jit::shown(v).substr(rush::jit::shown(v).rfind('.') + 1);
      return os.str();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  std::string name;
  for (int count; std::cin >> name >> count;) {
    try {
      const rush::Program program = rush::jit::load(folder + "/" + name + ".rush");
      const rush::Program inputs = rush::jit::load(folder + "/" + name + ".inputs.rush");
      for (int i = 0; i < count; ++i) {
        rush::manual_seed(7);
        std::cout << dump(program(inputs.run_method("inputs" + std::to_string(i), {}).elements()))
                  << "\n";
      }
    } catch (const std::exception& error) {
      std::cout << "error in " << name << ": " << error.what() << "\n";
    }
  }
  return 0;
}
