# cli_examples.sh - the library from outside: the example as built here, and built against an installed hearth.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

golden=$DATA/golden/real/stories-relu/golden.json
expected="Once upon a time$(value "$golden" prompts.0.greedy_text)"
example=$BUILD/example_generate
[ -x "$example" ] || skip "$example is not built"
is "example" "$("$example" "$DATA/models/stories-relu" "Once upon a time" 48)" "$expected"
"$example" "$scratch/missing" x 2>"$scratch/err" && fail "example: a missing model is no error" || pass
has "error of the example" "$(cat "$scratch/err")" missing

# Many texts at once are the texts one after the other.
printf '%s\n' "Once upon a time" "Lily and" "The sun was" "One day" "Tom had a" "In the park" "A cat" "She was" "He ran" \
    "It was a" >"$scratch/lines"
while read -r text; do
    "$example" "$DATA/models/stories-relu" "$text" 30 </dev/null
done <"$scratch/lines" | sort >"$scratch/apart"
is "batch" "$("$BUILD/example_batch" "$DATA/models/stories-relu" "$scratch/lines" 30 | sort)" "$(cat "$scratch/apart")"
"$BUILD/example_batch" "$DATA/models/stories-relu" "$scratch/none" 30 2>"$scratch/err" && fail "batch: no file is no error" || pass

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
int main()
{
    hearth_runtime *runtime = nullptr;
    hearth_runtime_options options = {};
    options.threads = 1;
    hearth_status status = hearth_runtime_create(&runtime, &options, nullptr);
    hearth_runtime_destroy(runtime);
    return status == HEARTH_OK && hearth_sampling_default().top_k == 40 ? 0 : 1;
}' >"$scratch/plus.cc"
    # shellcheck disable=SC2086
    c++ -std=c++17 -pedantic -Wall -Wextra -Werror "$scratch/plus.cc" $flags -o "$scratch/plus" &&
        LD_LIBRARY_PATH=$libdir "$scratch/plus" && pass || fail "hearth.h in C++"
fi
# The programs against what was installed; generate also as compiled by a header of older, smaller structs: without the
# last member of each (but not of hearth_answer_options, whose last one the example sets).
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra "$SOURCE/examples/batch.c" $flags -o "$scratch/batch"
is "installed batch" \
    "$(LD_LIBRARY_PATH=$libdir "$scratch/batch" "$DATA/models/stories-relu" "$scratch/lines" 30 | sort)" "$(cat "$scratch/apart")"
mkdir "$scratch/older"
awk -v RS='[*]/' -v ORS= '{ sub(/\/[*].*/, ""); print }' "$SOURCE/include/hearth.h" | # without comments
    awk '/^typedef struct hearth_(runtime_options|model_options|model_info|engine_options|session_options|result) {/ { inside = 1; held = ""; print; next }
        inside && /^}/ { inside = 0 }
        inside && NF { if (held != "") print held; held = $0; next }
        { print }' >"$scratch/older/hearth.h"
for struct in runtime_options model_options model_info engine_options session_options; do
    for folder in older ../include; do
        header=$scratch/older/hearth.h
        [ "$folder" = older ] || header=$SOURCE/include/hearth.h
        printf '#include "%s"\n#include <stdio.h>\nint main(void) { printf("%%zu", sizeof(hearth_%s)); }\n' "$header" "$struct" >"$scratch/size.c"
        cc -std=c11 "$scratch/size.c" -o "$scratch/size" && "$scratch/size" >"$scratch/size.${folder##*/}"
    done
    [ "$(cat "$scratch/size.older")" -lt "$(cat "$scratch/size.include")" ] && pass || fail "the older hearth_$struct is not smaller"
done
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -I"$scratch/older" "$SOURCE/examples/generate.c" $flags -o "$scratch/generate-older"
is "program of an older header" \
    "$(LD_LIBRARY_PATH=$libdir "$scratch/generate-older" "$DATA/models/stories-relu" "Once upon a time" 48)" "$expected"
if command -v python3 >/dev/null; then
    is "Python with the installed library" "$(HEARTH_LIBRARY=$libdir/libhearth.so.0 PYTHONPATH=$SOURCE/bindings/python PYTHONDONTWRITEBYTECODE=1 \
        python3 -c 'import sys, hearth
with hearth.Model(sys.argv[1]) as model:
    print("Once upon a time" + "".join(model.generate("Once upon a time", max_tokens=48, temperature=0)))' "$DATA/models/stories-relu")" "$expected"
fi

finish
