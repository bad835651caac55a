# Stubs of modules whose names exist only at run time: written by asking the package, so the core
# must be built before. See codegen/public_stubs.py. A core under a sanitizer cannot be imported
# by a plain interpreter, and nobody type-checks against it.
if(NOT RUSHLIGHT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/codegen/public_stubs.py")
  set(core_stub "${RUSH_GENERATED_DIR}/rushlight/_C/__init__.pyi")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${script}" --list
    OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" listed "${listed}")
  # Which packages need a stub follows from their __init__.py.
  file(GLOB_RECURSE inits CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/rushlight/__init__.py")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${script}" ${inits})
  set(outputs)
  set(copies)
  foreach(path ${listed})
    list(APPEND outputs "${RUSH_GENERATED_DIR}/${path}")
    get_filename_component(folder "${path}" DIRECTORY)
    install(FILES "${RUSH_GENERATED_DIR}/${path}" DESTINATION "${folder}")
    if(RUSHLIGHT_INPLACE)
      list(APPEND copies COMMAND "${CMAKE_COMMAND}" -E copy_if_different
                                 "${RUSH_GENERATED_DIR}/${path}" "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
    endif()
  endforeach()
  file(GLOB_RECURSE package_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/rushlight/*.py")
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND "${Python_EXECUTABLE}" "${script}" --package "${CMAKE_CURRENT_SOURCE_DIR}/rushlight"
            --core "$<TARGET_FILE:_C>" --core-stub "${core_stub}" --out "${RUSH_GENERATED_DIR}"
    ${copies}
    DEPENDS _C "${script}" "${core_stub}" ${package_sources}
    COMMENT "Writing the stubs of the package" VERBATIM)
  add_custom_target(rush_stubs ALL DEPENDS ${outputs})
endif()
