# Each tests/cpp/test_*.cpp is a program of its own, linked to the library as a user's would be.
# It finds oneDNN and OpenBLAS in the environment of the Python that runs the build.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('purelib'))"
  OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(GLOB test_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp/test_*.cpp")
file(GLOB core_sources CONFIGURE_DEPENDS "${RUSH_CSRC}/core/*.cpp")
# These include CUDA sources, where `#pragma unroll` is no mistake.
file(GLOB cuda_tests CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp/test_cuda_*.cpp")
set_source_files_properties(${cuda_tests} PROPERTIES COMPILE_OPTIONS -Wno-unknown-pragmas)
if("thread" IN_LIST RUSHLIGHT_SANITIZE)
  # Kernels run in one thread with many stacks (cuda_on_cpu.h): there is no race to find, and the
  # sanitizer would take the switches of stacks for calls. Tests of threads around kernels say so in their names.
  set(cuda_tests_with_threads ${cuda_tests})
  list(FILTER cuda_tests_with_threads INCLUDE REGEX "_thread\\.cpp$")
  list(FILTER test_sources EXCLUDE REGEX "/test_cuda_")
  list(APPEND test_sources ${cuda_tests_with_threads})
endif()
# A driver without a GPU, see tests/fake_gpu/conftest.py.
add_library(fake_cuda SHARED "${CMAKE_CURRENT_SOURCE_DIR}/tests/fake_gpu/fake_driver.cpp")
target_include_directories(fake_cuda PRIVATE "${RUSH_CSRC}")
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda
                      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/fake_cuda")
foreach(source ${test_sources})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(${name} "${source}")
  rush_target(${name})
  if(name MATCHES "^test_(core_leaf|caching_pool)$")
    # They look into the allocator and the pool, which the library does not export.
    target_sources(${name} PRIVATE ${core_sources})
    target_link_libraries(${name} PRIVATE Threads::Threads OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS})
  elseif(name STREQUAL "test_mutex")
    # The checks of debug builds are tested in every build.
    target_sources(${name} PRIVATE "${RUSH_CSRC}/core/mutex.cpp" "${RUSH_CSRC}/core/fork_locks.cpp")
    target_compile_definitions(${name} PRIVATE RUSH_DEBUG=1)
    target_link_libraries(${name} PRIVATE Threads::Threads)
  else()
    target_link_libraries(${name} PRIVATE rushlight Threads::Threads)
  endif()
  if(name MATCHES "^test_cuda_(fused|fused_rows|joins|known)$")  # it compiles what the library writes, with headers from here
    target_compile_definitions(${name} PRIVATE
      RUSH_TESTS_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp")
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
                       ENVIRONMENT "RUSHLIGHT_LIBRARY_PATH=${site_packages}")
endforeach()
set_tests_properties(test_cuda_fused_thread PROPERTIES ENVIRONMENT
  "RUSHLIGHT_LIBRARY_PATH=${site_packages};LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/fake_cuda")
