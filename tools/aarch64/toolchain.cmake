# Builds for aarch64 Linux with Debian's cross compiler; programs of the build run under qemu-user.
# RUSHLIGHT_AARCH64_ROOT is a Debian system for that processor, see try.sh beside this file.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-cpu;cortex-a72;-L;$ENV{RUSHLIGHT_AARCH64_ROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Last: Python's pyconfig.h of that processor is there, and everything else is the compiler's.
set(CMAKE_CXX_FLAGS_INIT "-idirafter $ENV{RUSHLIGHT_AARCH64_ROOT}/usr/include")
