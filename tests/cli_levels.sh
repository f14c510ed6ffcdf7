# cli_levels.sh - every level of the CPU that is there: forced by --cpu and by HEARTH_CPU in each command that computes,
# with the same files and the same answer; unknown and absent levels are one line that says what there is.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
unset HEARTH_CPU

devices=$("$HEARTH" devices --no-measure --json)
names() { # names PRESENT
    tr -d ' \n' <<<"$devices" | grep -o "\"name\":\"[a-z0-9-]*\",\"present\":$1" | cut -d'"' -f4
}
levels=$(names true)
is "levels of the table" "$("$HEARTH" devices --no-measure | grep -cE ' (used|present)$')" "$(grep -c . <<<"$levels")"
has "scalar is there" "$levels" scalar
best=$(tail -n 1 <<<"$levels")
echo "$devices" >"$scratch/devices.json"
is "level without a word" "$(value "$scratch/devices.json" used_level)" "$best"

# ------------------------------------------------------------------ the same files and answers
story=$SOURCE/models/stories-relu-q8_0.gguf
for level in $levels; do
    "$HEARTH" pack "$DATA/golden/llama-256" "$scratch/$level.gguf" --cpu "$level" 2>/dev/null >&2
    "$HEARTH" quantize "$DATA/golden/llama-256" "$scratch/$level.q4.gguf" q4_0 --cpu "$level" 2>/dev/null
    HEARTH_CPU=$level "$HEARTH" pack "$scratch/$level.q4.gguf" "$scratch/$level.q4p.gguf" 2>/dev/null >&2
    for file in gguf q4.gguf q4p.gguf; do
        cmp -s "$scratch/$level.$file" "$scratch/scalar.$file" && pass || fail "$file of $level differs from scalar's"
    done
    HEARTH_CPU=$level "$HEARTH" bench "$story" --json --prompt-lengths 16 -n 4 -r 1 2>/dev/null >"$scratch/bench.json"
    is "HEARTH_CPU in bench" "$(value "$scratch/bench.json" cpu_level)" "$level"
    HEARTH_CPU=scalar "$HEARTH" bench "$story" --cpu "$level" --json --prompt-lengths 16 -n 4 -r 1 2>/dev/null >"$scratch/bench.json"
    is "--cpu counts more than HEARTH_CPU" "$(value "$scratch/bench.json" cpu_level)" "$level"
    HEARTH_CPU=$level "$HEARTH" devices --no-measure --json >"$scratch/devices.json"
    is "HEARTH_CPU in devices" "$(value "$scratch/devices.json" used_level)" "$level"
    is "best in devices" "$(value "$scratch/devices.json" best_level)" "$best"
    "$HEARTH" run "$story" --cpu "$level" -p "Once upon a time" -n 24 --temp 0 --activations f32 --kv f32 2>/dev/null >"$scratch/$level.text"
    cmp -s "$scratch/$level.text" "$scratch/scalar.text" && pass || fail "the text of $level differs from scalar's"
done
HEARTH_CPU= "$HEARTH" devices --no-measure --json >"$scratch/devices.json"
is "an empty HEARTH_CPU" "$(value "$scratch/devices.json" used_level)" "$best"

# ------------------------------------------------------------------ levels that are not there
there="this machine has $(tr '\n' ',' <<<"$levels" | sed 's/,$//; s/,/, /g')"
for command in "run $story -p x" "bench $story" "eval ppl $story $0" "eval logits $story --ids 1 --out $scratch/x" \
    "eval kl $story $0 --against dense" "profile $story --corpus $0" "tune $story --corpus $0" "pack $story $scratch/x" "quantize $story $scratch/x q4_0" \
    "convert $DATA/golden/llama-256 -o $scratch/x"; do
    # shellcheck disable=SC2086 # words
    refused 2 "cpu level abacus: is not known; $there" "$HEARTH" $command --cpu abacus
    # shellcheck disable=SC2086
    HEARTH_CPU=abacus refused 2 "cpu level abacus (HEARTH_CPU): is not known; $there" "$HEARTH" $command
done
HEARTH_CPU=abacus refused 2 "cpu level abacus (HEARTH_CPU)" "$HEARTH" devices
for level in $(names false); do
    refused 2 "cpu level $level: this CPU lacks " "$HEARTH" run "$story" -p x --cpu "$level"
done
[ -e "$scratch/x" ] && fail "an error left a file" || pass

finish
