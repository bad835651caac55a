# csrc/cpu/kernels/*.cpp, and those that codegen.cmake lists, are compiled once per instruction set,
# into a namespace named by RUSH_ISA; the CPU at hand decides at run time which one is called.
#   *_portable.cpp  the baseline only      *_exact.cpp  without fused multiply-add contraction
#                   (and without contraction, where the baseline has it: GCC contracts complex numbers
#                   otherwise in the last elements of a loop than in its vectors)
#   *_narrow.cpp    not for AVX-512, where it would gain little for the time it takes to compile
#
# Note [Kernel objects are linked from plain to fancy]
# An inline function of a shared header may be compiled into several of these objects, and the
# linker keeps the first copy it meets. It must meet the plainest first, or a machine without
# AVX-512 would run into AVX-512 code in, say, std::vector.
rush_known_flags(RUSH_KERNEL_FLAGS
  -fno-math-errno -fno-trapping-math -fopenmp-simd -ffp-contract=fast)

set(RUSH_ISA_FLAGS_baseline)
set(RUSH_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(RUSH_ISA_FLAGS_avx512 ${RUSH_ISA_FLAGS_avx2} -mavx512f -mavx512dq -mavx512bw -mavx512vl
    -mavx512cd -mprefer-vector-width=512)

set(isas baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT RUSHLIGHT_BASELINE)
  list(APPEND isas avx2 avx512)
endif()

file(GLOB kernels CONFIGURE_DEPENDS "${RUSH_CSRC}/cpu/kernels/*.cpp")
list(APPEND kernels ${RUSH_GENERATED_KERNELS})
set(exact_kernels ${kernels})
list(FILTER exact_kernels INCLUDE REGEX "_exact\\.cpp$")
set_source_files_properties(${exact_kernels} PROPERTIES COMPILE_OPTIONS -ffp-contract=off
                            COMPILE_DEFINITIONS RUSH_EXACT_MATH=1)

set(portable_kernels ${kernels})
list(FILTER portable_kernels INCLUDE REGEX "_portable\\.cpp$")
set_source_files_properties(${portable_kernels} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

set(RUSH_KERNEL_OBJECTS)
foreach(isa ${isas})
  set(sources ${kernels})
  if(NOT isa STREQUAL "baseline")
    list(FILTER sources EXCLUDE REGEX "_portable\\.cpp$")
  endif()
  if(isa STREQUAL "avx512")
    list(FILTER sources EXCLUDE REGEX "_narrow\\.cpp$")
  endif()
  if(NOT sources)
    continue()
  endif()
  add_library(kernels_${isa} OBJECT ${sources})
  rush_target(kernels_${isa})
  # Where there is something faster, hardly a machine runs the baseline: it is not worth the time
  # that -O3 takes to compile it.
  set(level -O3)
  if("undefined" IN_LIST RUSHLIGHT_SANITIZE)  # -O3 would take UBSan's checks three times as long
    set(level -O1)
  elseif(isa STREQUAL "baseline" AND NOT isas STREQUAL "baseline")
    set(level -O2)
  endif()
  target_compile_options(kernels_${isa} PRIVATE
    ${level} ${RUSH_KERNEL_FLAGS} ${RUSH_ISA_FLAGS_${isa}})
  target_compile_definitions(kernels_${isa} PRIVATE RUSH_ISA=${isa})
  target_link_libraries(kernels_${isa} PRIVATE OpenMP::OpenMP_CXX)
  list(APPEND RUSH_KERNEL_OBJECTS $<TARGET_OBJECTS:kernels_${isa}>)
endforeach()
string(TOUPPER "${isas}" isas)
message(STATUS "CPU kernels for: ${isas}")
