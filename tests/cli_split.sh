# cli_split.sh - models that the gguf package split over several files: shown, run, converted, refused.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

python_packages || skip "$no_python_packages"
whole=$DATA/golden/llama-gqa/model.gguf
"$python" "$SOURCE/tests/split_gguf.py" "$whole" "$scratch/m" 8 >/dev/null
part=$scratch/m-00002-of-00003.gguf
is "parts" "$(cd "$scratch" && echo m-*)" "m-00001-of-00003.gguf m-00002-of-00003.gguf m-00003-of-00003.gguf"

"$HEARTH" inspect "$part" >"$scratch/text"
has "how many parts" "$(cat "$scratch/text")" "parts     3 files"
"$HEARTH" inspect "$part" --json >"$scratch/parts.json"
"$HEARTH" inspect "$whole" --json >"$scratch/whole.json"
is "parts of a split file" "$(value "$scratch/parts.json" parts)" 3
is "parts of a whole file" "$(value "$scratch/whole.json" parts)" 1
for what in fingerprint parameter_count weight_bytes; do
    is "$what" "$(value "$scratch/parts.json" "model.$what")" "$(value "$scratch/whole.json" "model.$what")"
done

ids=$(value "$DATA/golden/llama-gqa/golden.json" ids)
for model in "$whole" "$part"; do
    "$HEARTH" eval logits "$model" --ids "$ids" --kv f32 --out "$scratch/${model##*/}.f32" 2>/dev/null
done
cmp -s "$scratch/model.gguf.f32" "$scratch/${part##*/}.f32" && pass || fail "other logits"

# Into one file, which no longer says that it was split; and never over a part.
"$HEARTH" convert "$part" -o "$scratch/one.gguf" 2>/dev/null >&2
"$HEARTH" inspect "$scratch/one.gguf" --keys >"$scratch/keys"
if grep -q '^split\.' "$scratch/keys"; then fail "the keys of the split were written"; else pass; fi
is "identity of the joined file" "$("$HEARTH" inspect "$scratch/one.gguf" --json >"$scratch/one.json" &&
    value "$scratch/one.json" model.fingerprint)" "$(value "$scratch/whole.json" model.fingerprint)"
refused 2 "m-00001-of-00003.gguf: is what would be read" "$HEARTH" convert "$part" -o "$scratch/m-00001-of-00003.gguf"

rm "$scratch/m-00003-of-00003.gguf"
refused 1 "m-00003-of-00003.gguf: is missing: the model has 3 parts" "$HEARTH" inspect "$part"
finish
