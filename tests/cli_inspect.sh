# cli_inspect.sh - what `hearth inspect` says of files that no other program would write.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

# build FILE TENSORS TYPE REST: a GGUF of one key x of a type, its value and what follows; bytes as printf's escapes.
build() {
    local zeros='\0\0\0\0\0\0\0'
    printf '%b' "GGUF\\x03\\0\\0\\0\\x$2$zeros\\x01$zeros\\x01${zeros}x\\x$3\\0\\0\\0$4" >"$scratch/$1"
}

# Numbers of 64 bits beyond what JSON programs hold become text, never negative.
build large.gguf 00 0a '\xff\xff\xff\xff\xff\xff\xff\xff'
build middle.gguf 00 0a '\xff\xff\xff\xff\xff\xff\xff\x7f'
build signed.gguf 00 0b '\xff\xff\xff\xff\xff\xff\xff\xff'
build array.gguf 00 09 '\x0a\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80'
"$HEARTH" inspect "$scratch/large.gguf" --json >"$scratch/large.json"
"$HEARTH" inspect "$scratch/array.gguf" --json >"$scratch/array.json"
has "2^64 - 1" "$(cat "$scratch/large.json")" '"value": "18446744073709551615"'
has "2^63 in an array" "$(cat "$scratch/array.json")" '"9223372036854775808"'
has "2^63 - 1" "$("$HEARTH" inspect "$scratch/middle.gguf" --json)" '"value": 9223372036854775807'
has "-1" "$("$HEARTH" inspect "$scratch/signed.gguf" --json)" '"value": -1'
has "2^64 - 1 for people" "$("$HEARTH" inspect "$scratch/large.gguf" --keys)" "18446744073709551615"

# A number format that hearth does not know: running is refused by the tensor's name, looking is not. 256 values of type
# 13 (q5_K) or 200, which nobody knows; 96 bytes of them.
padding=$(printf '\\0%.0s' {1..120})
for type in '0d:q5_K' 'c8:type 200'; do
    tensor='\x01\0\0\0\0\0\0\0t\x01\0\0\0\0\x01\0\0\0\0\0\0\x'${type%:*}'\0\0\0\0\0\0\0\0\0\0\0'
    build strange.gguf 01 04 '\x01\0\0\0'"$tensor$padding"
    size=$(($(wc -c <"$scratch/strange.gguf") - 96)) # the head has 88 bytes, and data begins at a multiple of 32
    refused 1 "tensor t: is of type " "$HEARTH" run "$scratch/strange.gguf" -p x
    "$HEARTH" inspect "$scratch/strange.gguf" --json >"$scratch/strange.json" 2>"$scratch/err" ||
        fail "inspect of ${type#*:}: $(cat "$scratch/err")"
    is "format of ${type#*:}" "$(value "$scratch/strange.json" tensors.0.format)" "${type#*:}"
    is "shape of ${type#*:}" "$(value "$scratch/strange.json" tensors.0.shape.0)" 256
    is "bytes of ${type#*:}" "$(value "$scratch/strange.json" tensors.0.size_bytes)" "$size"
    is "keys of ${type#*:}" "$(value "$scratch/strange.json" keys.x.value)" 1
    text=$("$HEARTH" inspect "$scratch/strange.gguf")
    has "why it cannot be run" "$text" "hearth cannot run it: $scratch/strange.gguf: tensor t: is of type "
    has "the tensor" "$text" " ${type#*:}"
done
refused 1 "is not a GGUF file" "$HEARTH" inspect "$0"

# A folder is opened once, and its rows stay where they lie.
[ "$failures" -eq 0 ] || finish # skipping must not hide what failed
"$HEARTH" inspect "$DATA/models/stories260K" --json >"$scratch/model.json"
is "layers" "$(value "$scratch/model.json" model.layer_count)" 5
if command -v strace >/dev/null && strace -o "$scratch/trace" true 2>/dev/null; then
    ASAN_OPTIONS=detect_leaks=0 strace -f -o "$scratch/trace" "$HEARTH" inspect "$DATA/models/stories260K" >/dev/null
    is "times that the weights are opened" "$(grep -c 'openat.*model.safetensors"' "$scratch/trace")" 1
fi

# Layout and predictors; sizes and thresholds as golden/pwri's README and cases.json give them.
pwri=$DATA/golden/pwri
[ "$failures" -eq 0 ] || finish
"$HEARTH" inspect "$pwri/bamboo/f32.gguf" --json >"$scratch/bamboo.json"
is "magic" "$(value "$scratch/bamboo.json" model.powerinfer)" true
is "layout" "$(value "$scratch/bamboo.json" model.neuron_major)" true
is "order" "$(value "$scratch/bamboo.json" model.ordered)" false
is "least rank" "$(value "$scratch/bamboo.json" model.predictors.rank_least)" 64
is "most rank" "$(value "$scratch/bamboo.json" model.predictors.rank_most)" 64
is "threshold" "$(value "$scratch/bamboo.json" model.predictors.threshold)" 0.25
text=$("$HEARTH" inspect "$pwri/bamboo/f32.gguf")
has "layout for people" "$text" "layout    PowerInfer's, neuron-major"
has "predictors for people" "$text" "predictor rank 64, threshold 0.25"
has "stock layout" "$("$HEARTH" inspect "$pwri/llama/plain-f16.gguf")" "layout    stock"
is "no predictors" "$("$HEARTH" inspect "$pwri/llama/plain-f16.gguf" --json | "$TOOLS/json_value" - model.predictors)" null
sed 's/falcon/falcox/g' "$pwri/falcon/f16.gguf" >"$scratch/falcox.gguf"
has "a family that hearth does not run" "$("$HEARTH" inspect "$scratch/falcox.gguf")" "falcox is not supported"

finish
