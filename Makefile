# The short way to everything; the build itself is CMakeLists.txt with its presets.
# On a fresh Debian 12 `make demo` needs nothing but make: missing packages are installed.

BUILD = build/release
PREFIX = /usr/local

all:
	tools/install-packages build test
	cmake --preset release
	cmake --build $(BUILD)

demo: all
	tools/demo $(BUILD)

test: all
	ctest --test-dir $(BUILD) --output-on-failure -j2

lint:
	tools/install-packages build test lint
	cmake --preset release
	tools/lint $(BUILD)

fuzz:
	tools/install-packages build fuzz
	tools/fuzz

bench: all
	bench/run.sh $(MODELS)

format:
	tools/install-packages lint
	find include src tests bench examples fuzz -name '*.[ch]' -print0 | xargs -0 clang-format -i

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build

.PHONY: all demo test lint fuzz bench format install clean
