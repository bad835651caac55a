# Compile through ccache when it is there. Paths relative to the source tree let two checkouts
# share entries; the sloppiness is what ccache's manual asks for with precompiled headers.
find_program(RUSH_CCACHE ccache)
if(RUSH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      "CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      "${RUSH_CCACHE}")
endif()
