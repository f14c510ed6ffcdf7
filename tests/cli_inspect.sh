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
# 15 (q8_K) or 200, which nobody knows; 96 bytes of them.
padding=$(printf '\\0%.0s' {1..120})
for type in '0f:q8_K' 'c8:number 200'; do
    tensor='\x01\0\0\0\0\0\0\0t\x01\0\0\0\0\x01\0\0\0\0\0\0\x'${type%:*}'\0\0\0\0\0\0\0\0\0\0\0'
    build strange.gguf 01 04 '\x01\0\0\0'"$tensor$padding"
    size=$(($(wc -c <"$scratch/strange.gguf") - 96)) # the head has 88 bytes, and data begins at a multiple of 32
    refused 1 "key general.architecture: is missing" "$HEARTH" run "$scratch/strange.gguf" -p x
    "$HEARTH" inspect "$scratch/strange.gguf" --json >"$scratch/strange.json" 2>"$scratch/err" ||
        fail "inspect of ${type#*:}: $(cat "$scratch/err")"
    is "format of ${type#*:}" "$(value "$scratch/strange.json" tensors.0.format)" "${type#*:}"
    is "shape of ${type#*:}" "$(value "$scratch/strange.json" tensors.0.shape.0)" 256
    is "bytes of ${type#*:}" "$(value "$scratch/strange.json" tensors.0.size_bytes)" "$size"
    is "keys of ${type#*:}" "$(value "$scratch/strange.json" keys.x.value)" 1
    text=$("$HEARTH" inspect "$scratch/strange.gguf")
    has "why it cannot be run" "$text" "hearth cannot run it: $scratch/strange.gguf: key general.architecture: is missing"
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

# Every family's layers are all there.
for file in "$DATA"/golden/*/model.gguf; do
    "$HEARTH" inspect "$file" --json >"$scratch/case.json"
    last=$(($(value "$scratch/case.json" model.layer_count) - 1))
    has "layers of ${file%/*}" " sequential parallel streams connected " " $(value "$scratch/case.json" layers.$last.wiring) "
done
is "wiring of connected streams" "$("$HEARTH" inspect "$DATA/golden/glm5-next" --json | "$TOOLS/json_value" - layers.0.wiring)" connected
has "a layer of nothing" "$("$HEARTH" inspect "$DATA/golden/deci")" "layer 3
  wiring    nothing"

# What layers compute, in words and as numbers: from what golden/README.md and the config.json beside it say.
described() { # described CASE: inspects the folder
    text=$("$HEARTH" inspect "$DATA/golden/$1")
    "$HEARTH" inspect "$DATA/golden/$1" --json >"$scratch/case.json"
    is "layers of $1" "$("$TOOLS/json_value" "$scratch/case.json" layers.0.words.wiring)" \
        "$(awk '/^  wiring/ { $1 = ""; print substr($0, 2); exit }' <<<"$text")"
}
layer_is() { # layer_is LAYER KEY VALUE
    is "$2 of layer $1" "$(value "$scratch/case.json" "layers.$1.$2")" "$3"
}
described llama
has "llama" "$text" "layers 0 to 2
  attention 4 heads of 16, 4 of keys and values; 8 of 8 pairs (neighbours) rotated, wavelengths up to 19900
  norms     RMS before attention and network
  wiring    attention, then network
  network   silu(gate) * up; 96 neurons"
layer_is 2 gating gated
layer_is 2 window 0

# Layers that are alike stand together. The window; wavelengths tell the two bases, 10000^(7/8) 2 pi and 1e6^(7/8) 2 pi.
described gemma3
has "windows" "$text" "layers 0 to 4
  attention 2 heads of 16, 1 of keys and values; 8 of 8 pairs (halves) rotated, wavelengths up to 19900; sees 16 positions"
has "no window" "$text" "layer 5
  attention 2 heads of 16, 1 of keys and values; 8 of 8 pairs (halves) rotated, wavelengths up to 1120000
"
has "norms" "$text" "RMS before attention and network, after attention and network; of queries and keys, each head"
layer_is 4 window 16
layer_is 5 window 0
described gemma2
has "every other layer" "$text" "layers 1, 3
  attention"
has "soft cap" "$text" "scores capped at"
described smollm3
has "layers that rotate" "$text" "layers 0 to 2, 4
  attention 6 heads of 12"
has "a layer that does not" "$text" "layer 3
  attention 6 heads of 12, 2 of keys and values; not rotated
"
layer_is 2 rotated_pairs 6
layer_is 3 rotated_pairs 0

described falcon-7b
has "one norm" "$text" "norms     layer norm with biases before both, the same one
  wiring    attention and network side by side
  network   gelu(up), no gate; 256 neurons"
layer_is 1 wiring parallel
layer_is 1 kv_head_count 1
described falcon-40b
has "two norms" "$text" "norms     layer norm with biases before attention and network
  wiring    attention and network side by side"
described opt
has "opt" "$text" "attention 4 heads of 16, 4 of keys and values; not rotated; biases
  norms     layer norm with biases before attention and network
  wiring    attention, then network
  network   relu(up), no gate; 128 neurons; biases"
layer_is 0 gating plain
layer_is 0 activation relu
described bamboo
has "two activations" "$text" "relu(gate) * relu(up); 128 neurons"
described olmo2
has "norms behind" "$text" "RMS after attention and network; of queries and keys, all heads together"
described bitnet
has "norms inside" "$text" "RMS before attention and network, inside attention and network"
described llama-fatrelu
has "threshold" "$text" "fatrelu(gate) * up, zero up to 0.25"

described smallthinker
has "an early router" "$text" "  experts   2 of 4, by sigmoid, shares of their sum; chosen by what enters the layer
  network   relu(gate) * up; 32 neurons"
layer_is 0 rotated_pairs 0
layer_is 1 expert_count 4
layer_is 1 experts_used 2
layer_is 1 expert_neurons 32
described glm4-moe
has "a dense layer" "$text" "layer 0
"
has "groups, correction, a shared expert" "$text" "by sigmoid with a correction, from 2 of 3 groups, shares of their sum, times"
has "shared" "$text" "; one shared of"
described gpt-oss
has "sinks" "$text" "; sinks; biases"
has "clamped" "$text" "swiglu_clamped(gate, up), limit 7; 32 neurons; biases"
described qwen3-5-moe
has "recurrent layers" "$text" "layers 0 to 1, 3
  recurrent gated delta net: 6 heads of 20, 3 keys of 20, convolution of 4 tokens; a state of 12.5 kB
  norms     RMS before recurrence and network
  wiring    recurrence, then network"
has "gated attention" "$text" "layer 2
  attention 6 heads of 32, 2 of keys and values; 4 of 16 pairs (halves) rotated, wavelengths up to 1120000; gated
"
has "a gated shared expert" "$text" "; one shared of 40 neurons, gated
"
layer_is 0 head_count 0
layer_is 2 head_count 6
described mixtral-drelu-predictor
has "masks" "$text" "relu(gate) * relu(up), where the model's own predictor lets through"

# What rows are made of is named, with the bytes that they become.
nvfp4=$DATA/golden/llama-nvfp4
has "NVFP4 and 8-bit floats" "$("$HEARTH" inspect "$nvfp4")" "
f32 of f8    12 tensors, 147 kB
f32 of nvfp4 9 tensors, 295 kB
"
has "blocks with factors" "$("$HEARTH" inspect "$nvfp4/model.gguf" --tensors)" "f32 of nvfp4 32.8 kB"
is "in JSON" "$("$HEARTH" inspect "$nvfp4" --json | grep -c '"format": "f32 of nvfp4"')" 9
bench() { "$HEARTH" bench "$1" -n 1 -r 1 --prompt-lengths 1 --contexts 0 --no-guard 2>&1 >/dev/null; }
has "what runs them says so" "$(bench "$nvfp4/model.gguf")" "note: rounded weights became float32 when they were read, 295 kB in place of 41.5 kB; \`hearth convert $nvfp4/model.gguf -o FILE.gguf --type q6_k\`"
"$HEARTH" convert "$nvfp4/model.gguf" -o "$scratch/small.gguf" --type q8_0 2>/dev/null
is "what was converted" "$(bench "$scratch/small.gguf" | grep -c "note: rounded")" 0

finish
