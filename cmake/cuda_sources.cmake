# What NVRTC compiles at run time travels as text beside the library: lib/csrc/functors and
# lib/csrc/cuda/kernels, in the layout of csrc, so that #include "functors/math.h" means the same.
set(copies)
foreach(folder functors cuda/kernels)
  file(GLOB found CONFIGURE_DEPENDS "${RUSH_CSRC}/${folder}/*.h" "${RUSH_CSRC}/${folder}/*.cu")
  install(FILES ${found} DESTINATION "rushlight/lib/csrc/${folder}" COMPONENT cpp)
  set(target "${RUSH_PACKAGE_DIR}/lib/csrc/${folder}")
  set(outputs)
  foreach(source ${found})
    get_filename_component(name "${source}" NAME)
    list(APPEND outputs "${target}/${name}")
  endforeach()
  # The folder is made anew, or a source that is gone would stay.
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${target}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${target}"
    COMMAND "${CMAKE_COMMAND}" -E copy ${found} "${target}"
    DEPENDS ${found} COMMENT "Copying ${folder} for NVRTC" VERBATIM)
  list(APPEND copies ${outputs})
endforeach()
add_custom_target(rush_cuda_sources ALL DEPENDS ${copies})
