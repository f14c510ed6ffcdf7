# cli_examples.sh - the library from outside: the example as built here, and built against an installed hearth.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

golden=$DATA/golden/real/stories-relu/golden.json
expected="Once upon a time$(value "$golden" prompts.0.greedy_text)"
example=$BUILD/example_generate
[ -x "$example" ] || skip "$example is not built"
is "example" "$("$example" "$DATA/models/stories-relu" "Once upon a time" 48)" "$expected"
"$example" "$scratch/missing" x 2>"$scratch/err" && fail "example: a missing model is no error" || pass
has "error of the example" "$(cat "$scratch/err")" missing

# Only what hearth.h declares is visible.
library=$(find "$BUILD" -maxdepth 1 -name 'libhearth.so*' -type f | head -1)
if [ -n "$library" ] && command -v nm >/dev/null; then
    is "foreign symbols" "$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^hearth_' |
        grep -vE '^(_init|_fini|__.*|asan.*)$' | tr '\n' ' ')" ""
fi

# Sanitized libraries need their runtime in the program; the installed kind is the plain one.
if sanitized; then
    finish
    exit
fi
command -v pkg-config >/dev/null || skip "pkg-config is absent"
cmake --install "$BUILD" --prefix "$scratch/usr" >/dev/null
pc=$(dirname "$(find "$scratch/usr" -name hearth.pc)")
export PKG_CONFIG_PATH=$pc
# The prefix in the file is where CMake was told to install; here it lies elsewhere.
flags=$(pkg-config --define-variable=prefix="$scratch/usr" --cflags --libs hearth)
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra "$SOURCE/examples/generate.c" $flags -o "$scratch/generate"
libdir=$(pkg-config --define-variable=prefix="$scratch/usr" --variable=libdir hearth)
is "installed example" \
    "$(LD_LIBRARY_PATH=$libdir "$scratch/generate" "$DATA/models/stories-relu" "Once upon a time" 48)" "$expected"
is "installed program" "$("$scratch/usr/bin/hearth" --version)" "$("$HEARTH" --version)"
# Without MODEL it finds the one that was installed with it; $HEARTH_MODEL comes before that.
if [ -e "$SOURCE/models/stories-relu-q8_0.gguf" ]; then
    said=$(env -u HEARTH_MODEL "$scratch/usr/bin/hearth" run -p "Once upon a time" --temp 0 --stop " named" -v \
        2>"$scratch/err")
    is "installed model" "$said" "Once upon a time, there was a little girl"
    has "installed model's place" "$(cat "$scratch/err")" "share/hearth/stories-relu-q8_0.gguf"
fi
HEARTH_MODEL=$DATA/models/stories260K "$HEARTH" run -p x -n 1 -v >/dev/null 2>"$scratch/err"
has "HEARTH_MODEL" "$(cat "$scratch/err")" "models/stories260K"
# The header alone is enough for C++ too.
if command -v c++ >/dev/null; then
    echo '#include <hearth.h>
int main() { return hearth_status_text(HEARTH_OK) == nullptr; }' >"$scratch/plus.cc"
    # shellcheck disable=SC2086
    c++ "$scratch/plus.cc" $flags -o "$scratch/plus" && LD_LIBRARY_PATH=$libdir "$scratch/plus" && pass ||
        fail "hearth.h in C++"
fi

finish
