# Flags of every target of ours; nanobind's own sources keep theirs.
include(CheckCXXCompilerFlag)

set(RUSH_CSRC "${CMAKE_CURRENT_SOURCE_DIR}/csrc")

# Sets `out` to those of the given flags that the compiler knows.
function(rush_known_flags out)
  set(known)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "RUSH_HAS${flag}" name)
    check_cxx_compiler_flag("${flag}" ${name})
    if(${name})
      list(APPEND known "${flag}")
    endif()
  endforeach()
  set(${out} "${known}" PARENT_SCOPE)
endfunction()

# Without -ffp-contract=off the result of a * b + c would depend on who inlined what; kernels
# switch contraction back on for themselves. Thread-locals are read on every call: initial-exec
# makes that one instruction, and costs a share of the loader's small static block.
rush_known_flags(RUSH_FLAGS
  -fno-semantic-interposition -fvisibility-inlines-hidden -ftls-model=initial-exec
  -ffp-contract=off)
list(APPEND RUSH_FLAGS -Wall -Wextra)
if(RUSHLIGHT_WERROR)
  list(APPEND RUSH_FLAGS -Werror)
endif()
if(RUSH_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND RUSH_FLAGS -fpch-preprocess)
endif()

set(RUSH_SANITIZE_FLAGS)
if(RUSHLIGHT_SANITIZE)
  string(REPLACE ";" "," sanitizers "${RUSHLIGHT_SANITIZE}")
  # GCC's maybe-uninitialized reports falsely on instrumented code.
  set(RUSH_SANITIZE_FLAGS "-fsanitize=${sanitizers}" -fno-omit-frame-pointer -g1
      -Wno-maybe-uninitialized)
  if("undefined" IN_LIST RUSHLIGHT_SANITIZE)
    list(APPEND RUSH_SANITIZE_FLAGS -fno-sanitize-recover=undefined)
  endif()
endif()

function(rush_target target)
  target_include_directories(${target} PRIVATE "${RUSH_CSRC}" "${RUSH_GENERATED_DIR}")
  target_compile_options(${target} PRIVATE ${RUSH_FLAGS} ${RUSH_SANITIZE_FLAGS})
  target_link_options(${target} PRIVATE ${RUSH_SANITIZE_FLAGS})
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_compile_definitions(${target} PRIVATE
    RUSH_VERSION="${RUSH_VERSION}"
    $<$<BOOL:${RUSHLIGHT_DEBUG}>:RUSH_DEBUG=1;RUSH_DEBUG_POISON=1>
    $<$<BOOL:${RUSHLIGHT_SANITIZE}>:RUSH_SANITIZE=1>
    $<$<BOOL:${RUSH_HAVE_ONEDNN}>:RUSH_HAVE_ONEDNN=1>)
  if(TARGET rush_codegen)
    add_dependencies(${target} rush_codegen)
  endif()
endfunction()

# Exports only what the version script names, so that two libraries in one process cannot bind to
# each other's symbols. ld64 has no such scripts; there, hidden visibility has to do.
function(rush_exports target script)
  if(NOT APPLE)
    target_link_options(${target} PRIVATE "LINKER:--version-script=${script}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  endif()
endfunction()

# The one place that holds the version is pyproject.toml.
file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/pyproject.toml" line REGEX "^version = ")
string(REGEX REPLACE "version = \"(.*)\"" "\\1" RUSH_VERSION "${line}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${CMAKE_CURRENT_SOURCE_DIR}/pyproject.toml")
