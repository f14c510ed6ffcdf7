# The short way to everything; the build itself is CMakeLists.txt with its presets.
# On a fresh Debian 12 `make demo` needs nothing but make: it installs the packages that are missing, as `make test` does.

BUILD = build/release
PREFIX = /usr/local
# At a terminal ninja counts in one line; in a pipe it would print one for each file.
QUIET := $(shell [ -t 2 ] || echo "-- --quiet")

# Who only builds hearth is stopped neither by a warning of a compiler that is new nor by a missing test library.
STRICT = OFF
all:
	cmake --preset release -DCMAKE_COMPILE_WARNING_AS_ERROR=$(STRICT) -DHEARTH_TESTS=AUTO
	cmake --build $(BUILD) $(QUIET)

# Installs what is missing of the packages that building and testing need, as root or through sudo.
deps:
	tools/install-packages build test

demo: deps all
	tools/demo $(BUILD)

test: deps all
	ctest --test-dir $(BUILD) --output-on-failure -j2; status=$$?; tools/count-skips $(BUILD); exit $$status

lint: deps
	tools/install-packages lint
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

# A package of Debian, for the machine's own release: build/package/hearth_VERSION_ARCHITECTURE.deb.
deb:
	tools/install-packages build package
	cmake --preset package
	cmake --build build/package $(QUIET)
	cpack --config build/package/CPackConfig.cmake -B build/package

clean:
	rm -rf build

.NOTPARALLEL:

.PHONY: all deps demo test lint fuzz bench format install deb clean
