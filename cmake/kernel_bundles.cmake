# Kernels that are compiled as the package is built, so that programs need not: what the list in
# rushlight/cuda/warmup_kernels.txt names. See csrc/cuda/runtime/kernel_bundle.h. A checkout is built
# for the GPUs of its machine, often none; a wheel for two, each of which serves the later ones of its
# major version: an architecture is 1.7 MB of the wheel's 15, from 10.0 on 2.6.
set(RUSHLIGHT_KERNEL_ARCHS "auto" CACHE STRING
    "GPU architectures to compile kernels for, with commas between (80,90), or auto")
if(NOT RUSHLIGHT_KERNEL_ARCHS STREQUAL "auto")
  string(REPLACE "," ";" archs "${RUSHLIGHT_KERNEL_ARCHS}")
elseif(RUSHLIGHT_INPLACE)
  set(archs here)
else()
  set(archs 80 90)
endif()

set(bundles "${RUSH_PACKAGE_DIR}/lib/kernels")
if(archs AND NOT RUSHLIGHT_SANITIZE)
  add_executable(pack_kernels "${CMAKE_CURRENT_SOURCE_DIR}/tools/pack_kernels.cpp")
  rush_target(pack_kernels)
  target_link_libraries(pack_kernels PRIVATE rushlight Threads::Threads)
  set(list "${CMAKE_CURRENT_SOURCE_DIR}/rushlight/cuda/warmup_kernels.txt")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/tools/site_folders.py"
    OUTPUT_VARIABLE site_folders OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB kernel_sources CONFIGURE_DEPENDS "${RUSH_CSRC}/functors/*.h" "${RUSH_CSRC}/cuda/kernels/*")
  set(stamp "${CMAKE_BINARY_DIR}/kernel_bundles.stamp")
  # The compiler's flags are not among the sources: they stand in nvrtc.cpp.
  add_custom_command(
    OUTPUT "${stamp}"
    COMMAND "${CMAKE_COMMAND}" -E env "RUSHLIGHT_LIBRARY_PATH=${site_folders}"
            "RUSHLIGHT_KERNEL_CACHE=${CMAKE_BINARY_DIR}/kernels" "$<TARGET_FILE:pack_kernels>"
            "${list}" "${bundles}" ${archs}
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS pack_kernels rush_cuda_sources "${list}" ${kernel_sources} "${RUSH_CSRC}/cuda/runtime/nvrtc.cpp"
    COMMENT "Compiling kernels for GPUs" VERBATIM)
  add_custom_target(rush_kernel_bundles ALL DEPENDS "${stamp}")
  install(DIRECTORY "${bundles}" DESTINATION rushlight/lib COMPONENT cpp OPTIONAL)
else()
  add_custom_target(rush_kernel_bundles)
endif()
