# Targets of this project: one static library a folder, each with its folder as the only header path it adds.

set(MOEFS_WARNINGS -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wpointer-arith
    -Wundef -Wvla -Wwrite-strings)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND MOEFS_WARNINGS -Wlogical-op -Wduplicated-cond)
endif()

function(moefs_settings target)
  target_compile_options(${target} PRIVATE ${MOEFS_WARNINGS})
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _XOPEN_SOURCE=700 _DEFAULT_SOURCE)
  if(MOEFS_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(MOEFS_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${MOEFS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${MOEFS_SANITIZE})
  endif()
  if(MOEFS_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# moefs_library(NAME FOLDER LIBS...): static library mf_NAME of FOLDER/*.c, or headers alone while it has no source.
function(moefs_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  if(sources)
    add_library(mf_${name} STATIC ${sources})
    target_include_directories(mf_${name} PUBLIC ${CMAKE_SOURCE_DIR}/${folder})
    target_link_libraries(mf_${name} PUBLIC ${ARGN})
    moefs_settings(mf_${name})
  else()
    add_library(mf_${name} INTERFACE)
    target_include_directories(mf_${name} INTERFACE ${CMAKE_SOURCE_DIR}/${folder})
    target_link_libraries(mf_${name} INTERFACE ${ARGN})
  endif()
endfunction()

function(moefs_program name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/${folder})
  target_link_libraries(${name} PRIVATE mf_tui mf_job mf_gpu mf_record mf_score mf_fit mf_search)
  moefs_settings(${name})
endfunction()

# Compiles configs/KIND/*.yaml into the target as mf_embedded_files[] (see core/plan/builtin.c).
function(moefs_embed_configs target)
  file(GLOB_RECURSE configs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/*.yaml)
  set(out ${CMAKE_BINARY_DIR}/embedded_configs.c)
  # A file that goes away must be embedded no more: its name is in what the command depends on.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/embedded_configs.txt CONTENT "${configs}\n")
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/configs -DOUT=${out} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${configs} ${CMAKE_BINARY_DIR}/embedded_configs.txt ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    target_sources(${target} PRIVATE ${out})
  endif()
endfunction()

# Compiles job/witness/*.py into the target as mf_witness_files[] (see job/real.c).
function(moefs_embed_witness target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/job/witness/*.py)
  set(out ${CMAKE_BINARY_DIR}/embedded_witness.c)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/job/witness -DOUT=${out}
      -P ${CMAKE_SOURCE_DIR}/cmake/embed_witness.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_witness.cmake)
  target_sources(${target} PRIVATE ${out})
endfunction()
