# Glue generated from csrc/ops/**/*.yaml. `generate.py --list` names its outputs, relative to the
# output folder, and what becomes of one follows from its path:
#   bindings/*.cpp    -> the Python module   rushlight/* -> the Python package (stubs, public places)
#   cpu/kernels/*.cpp -> kernels.cmake       *.h, *.inc  -> included as "<path>"
#   other *.cpp       -> the library
set(RUSH_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
set(RUSH_GENERATED_LIBRARY)
set(RUSH_GENERATED_KERNELS)
set(RUSH_GENERATED_BINDINGS)
set(generator "${CMAKE_CURRENT_SOURCE_DIR}/codegen/generate.py")
file(MAKE_DIRECTORY "${RUSH_GENERATED_DIR}")

if(EXISTS "${generator}")
  file(GLOB tables CONFIGURE_DEPENDS "${RUSH_CSRC}/ops/*/*.yaml")
  file(GLOB generator_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/codegen/*.py"
                                                "${CMAKE_CURRENT_SOURCE_DIR}/codegen/*.pyi")
  # It runs after the build, see stubs.cmake.
  list(FILTER generator_sources EXCLUDE REGEX "public_stubs.py$")
  # Rows name functions written in Python, and the generator looks where these are (emit_places.py).
  file(GLOB functions CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/rushlight/fft/_*.py"
                                        "${CMAKE_CURRENT_SOURCE_DIR}/rushlight/linalg/_*.py"
                                        "${CMAKE_CURRENT_SOURCE_DIR}/rushlight/special/_*.py")
  set(generate "${Python_EXECUTABLE}" "${generator}" --table ${tables} --out "${RUSH_GENERATED_DIR}")
  execute_process(
    COMMAND ${generate} --list
    OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" listed "${listed}")

  set(outputs)
  set(copies)
  foreach(path ${listed})
    set(output "${RUSH_GENERATED_DIR}/${path}")
    list(APPEND outputs "${output}")
    if(path MATCHES "^rushlight/")
      get_filename_component(folder "${path}" DIRECTORY)
      install(FILES "${output}" DESTINATION "${folder}")
      if(RUSHLIGHT_INPLACE)
        set(folder "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
        list(APPEND copies COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
                           COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${output}" "${folder}")
      endif()
    elseif(path MATCHES "^bindings/.*\\.cpp$")
      list(APPEND RUSH_GENERATED_BINDINGS "${output}")
    elseif(path MATCHES "^cpu/kernels/.*\\.cpp$")
      list(APPEND RUSH_GENERATED_KERNELS "${output}")
    elseif(path MATCHES "\\.cpp$")
      list(APPEND RUSH_GENERATED_LIBRARY "${output}")
    endif()
  endforeach()

  # The generator leaves an output alone when its text has not changed; `restat` lets ninja notice.
  # The list of outputs may change with the table, hence the configure dependency.
  add_custom_command(
    OUTPUT ${outputs} COMMAND ${generate} ${copies} DEPENDS ${tables} ${generator_sources} ${functions}
    COMMENT "Generating glue from the op table" VERBATIM)
  add_custom_target(rush_codegen DEPENDS ${outputs})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tables} ${generator_sources})
endif()
