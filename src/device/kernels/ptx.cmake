# ptx.cmake - cmake -DBY=nvcc|clang -DCOMPILER=... -DTARGET=75 [-DPTXAS=...] -DSOURCE=... -DOUT=... -P ptx.cmake: the
# kernels as PTX, which NVIDIA's driver turns into a device's own code. Neither CUDA's headers nor its libraries are
# needed.
#
# A driver refuses PTX of a newer version than its own, whatever is in it, and nvcc always writes its newest. So the
# version is lowered to what the kernels need, if the assembler, where there is one, finds nothing in them that is newer.
set(LEAST_VERSION 6.4)
if(${TARGET} GREATER_EQUAL 75) # TARGET alone is a word of if
  set(LEAST_VERSION 6.5) # products of matrices
endif()
string(REPLACE . "" feature "+ptx${LEAST_VERSION}")
if(BY STREQUAL nvcc)
  set(flags -ptx -arch=compute_${TARGET} -O3 -x cu)
else()
  set(flags -x cuda --cuda-device-only --cuda-gpu-arch=sm_${TARGET} -nocudainc -nocudalib -Xclang -target-feature
      -Xclang ${feature} -O3 -S -Wno-unknown-cuda-version -Wno-pass-failed)
endif()
execute_process(COMMAND ${COMPILER} ${flags} ${SOURCE} -o ${OUT} RESULT_VARIABLE result ERROR_VARIABLE complaint)
if(NOT result EQUAL 0)
  file(REMOVE ${OUT})
  message(FATAL_ERROR "${BY}: ${complaint}")
endif()
if(PTXAS)
  file(READ ${OUT} text)
  string(REGEX REPLACE "\n\\.version [0-9.]+" "\n.version ${LEAST_VERSION}" text "${text}")
  file(WRITE ${OUT}.low "${text}")
  execute_process(COMMAND ${PTXAS} -arch=sm_${TARGET} ${OUT}.low -o ${OUT}.cubin RESULT_VARIABLE result
                  OUTPUT_QUIET ERROR_QUIET)
  if(result EQUAL 0)
    file(RENAME ${OUT}.low ${OUT})
  endif()
  file(REMOVE ${OUT}.low ${OUT}.cubin)
endif()
