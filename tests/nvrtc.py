"""NVRTC through ctypes: compiles CUDA source to a cubin. Needs no GPU and no driver."""

import ctypes
import ctypes.util
import glob
import pathlib
import sysconfig
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"


@dataclass
class Compiled:
    size: int  # of the cubin, in bytes
    names: list  # the mangled names of the name expressions


class Nvrtc:
    def __init__(self, path):
        # It looks for its companion by name alone: one that is open already is found.
        for companion in sorted(pathlib.Path(path).parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(companion), ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(path)

    @classmethod
    def find(cls):
        """From NVIDIA's wheel, else from the system; None where there is neither."""
        for place in {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}:
            for path in sorted(glob.glob(f"{place}/nvidia/**/libnvrtc.so.*[0-9]", recursive=True)):
                return cls(path)
        name = ctypes.util.find_library("nvrtc")
        return cls(name) if name else None

    def check(self, code, what, log=""):
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        assert code == 0, f"{what}: {self.lib.nvrtcGetErrorString(code).decode()}\n{log[:6000]}"

    def log(self, program):
        size = ctypes.c_size_t()
        self.lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.lib.nvrtcGetProgramLog(program, text)
        return text.value.decode()

    def compile(self, source, file_name, names=(), arch="sm_90", options=(), include=CSRC):
        """Fails the test on an error, and on a warning too."""
        lib, program = self.lib, ctypes.c_void_p()
        create = lib.nvrtcCreateProgram
        self.check(
            create(ctypes.byref(program), source.encode(), file_name.encode(), 0, None, None),
            "nvrtcCreateProgram",
        )
        try:
            for name in names:
                self.check(lib.nvrtcAddNameExpression(program, name.encode()), name)
            flags = ["--std=c++20", f"--gpu-architecture={arch}", f"-I{include}", *options]
            # Whether x < 0 is pointless depends on the type that a template gets.
            flags.append("--diag-suppress=186")
            array = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
            code = lib.nvrtcCompileProgram(program, len(flags), array)
            log = self.log(program)
            self.check(code, f"{file_name} for {arch}", log)
            assert "warning" not in log, log[:6000]
            size = ctypes.c_size_t()
            self.check(lib.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
            return Compiled(size.value, [self.lowered(program, name) for name in names])
        finally:
            lib.nvrtcDestroyProgram(ctypes.byref(program))

    def lowered(self, program, name):
        mangled = ctypes.c_char_p()
        get = self.lib.nvrtcGetLoweredName
        self.check(get(program, name.encode(), ctypes.byref(mangled)), name)
        return mangled.value.decode()
