# aarch64.cmake - the toolchain file for aarch64 on another Debian machine: Debian's cross compiler, the libraries of
# architecture arm64 that lie beside the machine's own (tools/install-packages cross), and qemu to run what was built.
# QEMU_CPU in the environment chooses what is emulated; without it qemu offers all instructions it knows.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

# pkg-config shall not offer the machine's own libraries in place of missing ones.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:/usr/share/pkgconfig)
