# What C++ programs need of the package: headers, and a file for find_package(rushlight). They lie
# in rushlight/include and rushlight/share/cmake; rushlight.utils.cmake_prefix_path names the latter.
include(CMakePackageConfigHelpers)

string(REGEX MATCH "^([0-9]+)\\.([0-9]+)\\.([0-9]+)" numbers "${RUSH_VERSION}")
set(RUSH_VERSION_MAJOR ${CMAKE_MATCH_1})
set(RUSH_VERSION_MINOR ${CMAKE_MATCH_2})
set(RUSH_VERSION_PATCH ${CMAKE_MATCH_3})
configure_file("${RUSH_CSRC}/frontend/version_macros.h.in"
               "${RUSH_GENERATED_DIR}/frontend/version_macros.h" @ONLY)

# Which headers those are follows from what frontend/rushlight.h includes.
set(script "${CMAKE_CURRENT_SOURCE_DIR}/codegen/public_headers.py")
file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${RUSH_CSRC}/*.h")
set(include_dir "${RUSH_PACKAGE_DIR}/include/rushlight")
add_custom_command(
  OUTPUT "${include_dir}/rushlight.h"
  COMMAND "${Python_EXECUTABLE}" "${script}" --csrc "${RUSH_CSRC}" --generated
          "${RUSH_GENERATED_DIR}" --out "${include_dir}"
  DEPENDS "${script}" ${headers} rush_codegen "${RUSH_GENERATED_DIR}/frontend/version_macros.h"
  COMMENT "Copying the headers for C++ programs" VERBATIM)
add_custom_target(rush_headers ALL DEPENDS "${include_dir}/rushlight.h")
install(DIRECTORY "${include_dir}" DESTINATION rushlight/include COMPONENT cpp)
install(FILES "${RUSH_CSRC}/frontend/c/rushlight.h" DESTINATION rushlight/include COMPONENT cpp)

# Headers and library must agree on what a debug build adds.
set(RUSH_INTERFACE_DEFINITIONS)
if(RUSHLIGHT_DEBUG)
  set(RUSH_INTERFACE_DEFINITIONS "RUSH_DEBUG=1;RUSH_DEBUG_POISON=1")
endif()
set(config_dir "${RUSH_PACKAGE_DIR}/share/cmake/rushlight")
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cmake/rushlight-config.cmake.in"
               "${config_dir}/rushlight-config.cmake" @ONLY)
write_basic_package_version_file("${config_dir}/rushlight-config-version.cmake"
                                 VERSION "${RUSH_VERSION}" COMPATIBILITY SameMinorVersion)
install(DIRECTORY "${config_dir}" DESTINATION rushlight/share/cmake COMPONENT cpp)
