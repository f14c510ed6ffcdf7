# embed.cmake - cmake -DFOLDER=... -DOUT=... -P embed.cmake: kernels.cl with its includes put in place, as the numbers
# of a C array that kernels_source.c includes. The parts and their order are read from kernels.cl.
file(STRINGS ${FOLDER}/kernels.cl includes REGEX "^#include \"")
set(text "")
foreach(include ${includes})
  string(REGEX REPLACE "^#include \"(.*)\"$" "\\1" part "${include}")
  string(HEX "#line 1 \"${part}\"\n" line)
  file(READ ${FOLDER}/${part} content HEX)
  string(APPEND text ${line} ${content})
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" text "${text}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," text "${text}")
file(WRITE ${OUT} "${text}\n")
