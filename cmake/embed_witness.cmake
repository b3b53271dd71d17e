# Writes OUT: the witness's Python files of ROOT as C byte arrays, in the table mf_witness_files[] (see job/real.c). The
# order is that of loading: a file stands behind those it imports.
set(text "/* Generated from job/witness/. */\n#include \"real_internal.h\"\n\n")
set(table "const mf_witness_file mf_witness_files[] = {\n")
foreach(name standins worker witness_megatron witness_sglang)
  file(READ ${ROOT}/${name}.py hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND text "static const unsigned char ${name}[] = {${hex}0};\n")
  string(APPEND table "\t{\"${name}\", (const char *)${name}},\n")
endforeach()
string(APPEND table "\t{0, 0},\n};\n")
file(WRITE ${OUT} "${text}${table}")
