# oneDNN: headers only, the library is opened at first use. Absence is a folder of its own
# (csrc/cpu/vendor/no_onednn), so that no source needs an #ifdef around a call.
set(RUSH_HAVE_ONEDNN OFF)
if(NOT RUSHLIGHT_ONEDNN STREQUAL "OFF")
  # The wheel puts its headers under the environment's prefix. With pip's build isolation that is
  # the overlay which also holds nanobind, not the interpreter's own prefix; it is another one
  # each time, so the answer is not cached.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import pathlib, sys, nanobind\nprint(sys.prefix, *list(pathlib.Path(nanobind.__file__).parents)[:6], sep=';')"
    OUTPUT_VARIABLE prefixes OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  find_path(RUSH_ONEDNN_INCLUDE oneapi/dnnl/dnnl.h HINTS ${prefixes} PATH_SUFFIXES include
            NO_CACHE)
  if(RUSH_ONEDNN_INCLUDE)
    set(RUSH_HAVE_ONEDNN ON)
  elseif(RUSHLIGHT_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "RUSHLIGHT_ONEDNN=ON, but oneapi/dnnl/dnnl.h was not found")
  endif()
endif()

if(RUSH_HAVE_ONEDNN)
  message(STATUS "oneDNN headers: ${RUSH_ONEDNN_INCLUDE}")
  file(GLOB RUSH_ONEDNN_SOURCES CONFIGURE_DEPENDS "${RUSH_CSRC}/cpu/vendor/onednn/*.cpp")
  set_source_files_properties(${RUSH_ONEDNN_SOURCES} PROPERTIES
                              INCLUDE_DIRECTORIES "${RUSH_ONEDNN_INCLUDE}")
else()
  message(STATUS "oneDNN: off, the portable CPU path will do all the work")
  file(GLOB RUSH_ONEDNN_SOURCES CONFIGURE_DEPENDS "${RUSH_CSRC}/cpu/vendor/no_onednn/*.cpp")
endif()
