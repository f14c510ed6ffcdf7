# cli_errors.sh - whatever is wrong, it is one line, an exit status, and no half file.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

folder=$DATA/models/stories260K-relu
model=$scratch/model.gguf
"$HEARTH" convert "$folder" -o "$model" 2>/dev/null
mkdir "$scratch/empty"

# Files that are not models, for every command that opens one.
printf 'GGUF' >"$scratch/short.gguf"
printf 'GGML\003\0\0\0' >"$scratch/magic.gguf"
: >"$scratch/nothing.gguf"
size=$(stat -c %s "$model")
head -c $((size / 2)) "$model" >"$scratch/half.gguf"
head -c 4000 "$model" >"$scratch/head.gguf"
echo x >"$scratch/x"
for file in missing.gguf short.gguf magic.gguf nothing.gguf half.gguf head.gguf empty; do
    refused 1 "$file" "$HEARTH" run "$scratch/$file" -p x
    refused 1 "$file" "$HEARTH" eval ppl "$scratch/$file" "$scratch/x"
    refused 1 "$file" "$HEARTH" eval logits "$scratch/$file" --ids 1 --out "$scratch/never"
    refused 1 "$file" "$HEARTH" bench "$scratch/$file"
    refused 1 "$file" "$HEARTH" inspect "$scratch/$file"
    refused 1 "$file" "$HEARTH" tokenize "$scratch/$file" x
    refused 1 "$file" "$HEARTH" convert "$scratch/$file" -o "$scratch/never"
    refused 1 "$file" "$HEARTH" quantize "$scratch/$file" "$scratch/never" q8_0
done
[ -e "$scratch/never" ] && fail "a failed command left its output" || pass

# Names of what can be pulled, and names that only look like it.
for name in some-owner/some-repo some-owner/some-repo:Q4_K_M some-owner/some-repo/a.gguf https://some.host/a.gguf; do
    refused 1 "$name: cannot open: No such file or directory; \`hearth pull\` gets models" "$HEARTH" run "$name" -p x
done
(
    cd "$scratch" || exit
    for name in missing.gguf ./missing.gguf ggufs-of-mine empty/missing.gguf; do
        "$HEARTH" run "$name" -p x || true
    done
) >"$scratch/out" 2>&1
is "names of files" "$(cat "$scratch/out")" "hearth: missing.gguf: cannot open: No such file or directory
hearth: ./missing.gguf: cannot open: No such file or directory
hearth: ggufs-of-mine: cannot open: No such file or directory
hearth: empty/missing.gguf: cannot open: No such file or directory"

# A vocabulary is not a model, and says so; a model without a vocabulary reads ids only.
if [ -e "$DATA/golden/tokenizers/llama-spm.gguf" ]; then
    refused 1 "has none, the file holds only a vocabulary" "$HEARTH" run "$DATA/golden/tokenizers/llama-spm.gguf" -p x
    has "inspect of a vocabulary" "$("$HEARTH" inspect "$DATA/golden/tokenizers/llama-spm.gguf")" "cannot run it"
    has "keys of a vocabulary" "$("$HEARTH" inspect "$DATA/golden/tokenizers/llama-spm.gguf" --keys)" \
        'tokenizer.ggml.model string = "llama"'
    mkdir -p "$scratch/golden-llama"
    cp "$DATA/golden/llama/config.json" "$DATA/golden/llama/model.safetensors" "$scratch/golden-llama"
    reason="golden-llama: tokenizer: the folder has no tokenizer.model, tokenizer.json, vocab.json, rwkv_vocab_v20230424.txt, or tiktoken.model"
    refused 1 "$reason" "$HEARTH" run "$scratch/golden-llama" -p x
    refused 1 "$reason" "$HEARTH" run "$scratch/golden-llama"
    refused 1 "$reason" "$HEARTH" eval ppl "$scratch/golden-llama" "$scratch/x"
    echo '{"model": {"type": "WordPiece"}}' >"$scratch/golden-llama/tokenizer.json"
    refused 1 "tokenizer.json: a vocabulary of type 'WordPiece' is not supported" "$HEARTH" run "$scratch/golden-llama" -p x
    echo '{}' >"$scratch/golden-llama/tokenizer.json"
    refused 1 "tokenizer.json: model: has no vocab" "$HEARTH" run "$scratch/golden-llama" -p x
    has "note on a missing tokenizer" "$("$HEARTH" convert "$DATA/golden/llama" -o "$scratch/mute.gguf" 2>&1)" "note:"
    # Families that hearth does not run yet are refused by name.
    sed -i 's/"model_type": "llama"/"model_type": "rwkv"/' "$scratch/golden-llama/config.json"
    refused 1 "model_type: rwkv is not supported" "$HEARTH" run "$scratch/golden-llama" -p x
fi

# The wrong one of the two kinds of MODEL: the error names the right one.
mkdir "$scratch/ggufs"
cp "$model" "$scratch/ggufs"
refused 1 "ggufs: config.json: is missing: not a model folder; name the GGUF file in it" "$HEARTH" inspect "$scratch/ggufs"
refused 1 "is a safetensors file; name its folder" "$HEARTH" inspect "$folder/model.safetensors"

# More than fits.
refused 1 context "$HEARTH" run "$model" -c 4 -p "One day, a little cat named Max found a red ball." --json
refused 1 context "$HEARTH" eval logits "$model" -c 2 --ids 1,2,3 --out "$scratch/never"
refused 2 context "$HEARTH" run "$model" -c 1000000 -p x --json
refused 2 context "$HEARTH" bench "$model" --contexts 1000000
refused 2 "token 512" "$HEARTH" eval logits "$model" --ids 1,512 --out "$scratch/never"
refused 1 "missing" "$HEARTH" eval ppl "$model" "$scratch/missing"
refused 1 "no tokens" "$HEARTH" eval ppl "$model" "$scratch/nothing.gguf"
refused 1 "two windows" "$HEARTH" eval ppl "$model" "$scratch/x" --protocol llama.cpp
refused 1 "there are none" "$HEARTH" bench "$model" --prompts "$scratch/nothing.gguf"
refused 1 "missing" "$HEARTH" run "$model" -f "$scratch/missing"
refused 1 "place" "$HEARTH" run "$model" -p x --place "$scratch/place.json"
echo '{' >"$scratch/place.json"
refused 1 "place.json" "$HEARTH" run "$model" -p x --place "$scratch/place.json"
refused 2 "cpu level" "$HEARTH" run "$model" -p x --cpu sse9
refused 2 "tensor-type" "$HEARTH" quantize "$model" "$scratch/never" q8_0 --tensor-type nonsense
refused 2 "cannot be written" "$HEARTH" quantize "$model" "$scratch/never" q8_0 --tensor-type a=q9_9

# More than the machine has, whatever it has: refused before any of it is taken, with what would fit.
mkdir "$scratch/endless"
cp "$folder"/* "$scratch/endless"
sed -E 's/("max_position_embeddings"): *[0-9]+/\1: 1073741824/' "$folder/config.json" >"$scratch/endless/config.json"
refused 2 "this machine has" "$HEARTH" run "$model" -p x --device host,memory=9999999G
got=0
"$HEARTH" run "$scratch/endless" -p x -c 1073741824 >"$scratch/out" 2>"$scratch/err" || got=$?
is "exit status of a context beyond memory" $got 1
largest=$(sed -n 's/^hearth: .*endless: a context of 1073741824: .* of main memory left; a context of \([0-9]*\) fits$/\1/p' "$scratch/err")
[ -n "$largest" ] && pass || fail "no largest context: $(cat "$scratch/err")"
refused 1 "a context of $largest fits" "$HEARTH" run "$scratch/endless" -p x --json -c $((largest + 1))
# Without -c it is taken, in steps of 256, and said.
"$HEARTH" run "$scratch/endless" -p x -n 1 >"$scratch/out" 2>"$scratch/err" && pass || fail "$(cat "$scratch/err")"
has "the context that is taken" "$(cat "$scratch/err")" \
    "$((largest - largest % 256)) of the model's context of 1073741824 tokens fit into memory"

# Numbers that are none: the tensor is named, nothing is printed, and it is no lack of memory. The file ends with the last
# block of a matrix of Q8_0, whose scale (float16, little-endian) becomes NaN; then all of its rows.
cp "$SOURCE/models/stories-relu-q8_0.gguf" "$scratch/nan.gguf"
size=$(stat -c %s "$scratch/nan.gguf")
for block in $(seq 1 4000); do
    printf '\x00\x7e' | dd of="$scratch/nan.gguf" bs=1 seek=$((size - 34 * block)) conv=notrunc status=none
done
printf 'A text to score.\n' >"$scratch/text"
for words in "run -p Once -n 5 --temp 0" "run -p Once -n 5 --json" "eval ppl $scratch/text" "eval ppl --json $scratch/text" \
    "eval logits --ids 1,2 --out $scratch/never" "run -p Once -n 5 --device host"; do
    # shellcheck disable=SC2086
    set -- $words
    command="$1"
    shift
    case $command in eval) command="eval $1" && shift ;; esac
    got=0
    # shellcheck disable=SC2086
    "$HEARTH" $command "$scratch/nan.gguf" "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    is "exit status without numbers: $words" $got 1
    has "the tensor that has none: $words" "$(tail -1 "$scratch/err")" "nan.gguf: tensor "
    has "the tensor that has none: $words" "$(tail -1 "$scratch/err")" ".weight: has values that are not finite numbers"
done

# Places that cannot be written.
refused 1 "/nowhere" "$HEARTH" convert "$folder" -o /nowhere/model.gguf
refused 1 "empty" "$HEARTH" convert "$folder" -o "$scratch/empty"
refused 1 "/nowhere" "$HEARTH" eval logits "$model" --ids 1 --out /nowhere/logits
if [ "$(id -u)" != 0 ]; then
    chmod a-w "$scratch/empty"
    refused 1 "ermission" "$HEARTH" convert "$folder" -o "$scratch/empty/model.gguf"
    chmod u+w "$scratch/empty"
fi

# Standard output that cannot be written: one line that begins with hearth:, exit status 1.
lost() { # lost WHAT STATUS WHY
    is "exit status: $1" "$2" 1
    is "hearth: lines: $1" "$(grep '^hearth: ' "$scratch/err")" "hearth: standard output: write: $3"
}
printf 'A text to score.\n' >"$scratch/text"
for words in "help" "--version" "run --json -p x -n 4 --temp 0 -m $model" "run -p x -n 40 --temp 0 -m $model" \
    "inspect $model" "tokenize $model x" "eval ppl $model $scratch/text" "devices" \
    "bench $model -r 1 -n 1 --prompt-lengths 1"; do
    got=0
    # shellcheck disable=SC2086
    "$HEARTH" $words >/dev/full 2>"$scratch/err" || got=$?
    lost "$words >/dev/full" "$got" "No space left on device"
    got=0
    # shellcheck disable=SC2086
    "$HEARTH" $words >&- 2>"$scratch/err" || got=$?
    lost "$words >&-" "$got" "Bad file descriptor"
done
set +o pipefail
{
    got=0
    "$HEARTH" run "$model" -p "Once upon a time" --ignore-eos -n 400 2>"$scratch/err" || got=$?
    echo "$got" >"$scratch/status"
} | true
set -o pipefail
lost "closed pipe" "$(cat "$scratch/status")" "Broken pipe"

# No room on the disk: the old file stays, nothing new is left beside it.
mkdir "$scratch/disk"
echo old >"$scratch/disk/model.gguf"
(
    failures=0
    ulimit -f 64
    refused 1 "model.gguf" "$HEARTH" quantize "$model" "$scratch/disk/model.gguf" f32
    refused 1 "logits" "$HEARTH" eval logits "$model" --ids "$(seq -s, 0 200)" --out "$scratch/disk/logits"
    [ "$failures" -eq 0 ]
) && pass || fail "file size limit"
is "after a full disk" "$(ls -A "$scratch/disk") $(cat "$scratch/disk/model.gguf")" "model.gguf old"

# No memory, more and more of it: an answer or an error, never a crash.
if (ulimit -v 400000 && "$HEARTH" --version) >/dev/null 2>&1; then
    answers=0 errors=0
    # Less than the program itself takes kills it in exec, before any of its code runs.
    least=$(($(stat -Lc %s "$HEARTH") / 1024 + 300))
    for kilobytes in $least $((least + 500)) $((least + 1000)) 16000 20000 26000 $(seq 34000 2000 48000) 50000 80000 120000 200000 400000; do
        got=0
        (ulimit -v $kilobytes && exec "$HEARTH" run "$model" -p "Once" -n 4 --temp 0 --json -t 2) \
            >"$scratch/out" 2>"$scratch/err" || got=$?
        case $got in
            0) answers=$((answers + 1)) ;;
            # Hearth's own lines: GnuTLS, which libcurl brings, may write one of its own when it is loaded.
            1) errors=$((errors + 1)) && is "lines with $kilobytes kB" "$(grep -vc '^Error in GnuTLS' "$scratch/err")" 1 ;;
            127) pass ;; # not even the program could be loaded
            *) fail "with $kilobytes kB: exit status $got" ;;
        esac
    done
    echo "  memory limits: $answers answers, $errors errors"
    [ "$answers" -gt 0 ] && [ "$errors" -gt 0 ] && pass || fail "memory limits decide nothing"

    # Memory is announced before it is taken: whoever has too little has seen how much it would have been.
    mkdir "$scratch/long"
    cp "$folder"/* "$scratch/long"
    sed -E 's/("max_position_embeddings"): *[0-9]+/\1: 1048576/' "$folder/config.json" >"$scratch/long/config.json"
    for input in "-p x" ""; do
        got=0
        # shellcheck disable=SC2086
        (ulimit -v 400000 && exec "$HEARTH" run "$scratch/long" $input) </dev/null >"$scratch/out" 2>"$scratch/err" || got=$?
        is "exit status without memory for the cache" $got 1
        has "memory announced" "$(head -1 "$scratch/err")" "memory: weights"
        has "memory wanted" "$(tail -1 "$scratch/err")" "out of memory"
    done
fi

# Hostile names and texts reach the terminal as \xNN. An unknown option is quoted without its control characters.
refused 2 "unknown option" "$HEARTH" run --$'a\e[31mb\nc'
case "$(cat "$scratch/err")" in
    *$'\e'*) fail "an escape character reached the terminal" ;;
    *) pass ;;
esac

# A model that another program cuts short while it is in use: one line, no crash.
cp "$SOURCE/models/stories-relu-q8_0.gguf" "$scratch/shrinks.gguf"
got=0
"$HEARTH" bench "$scratch/shrinks.gguf" -r 1000 >/dev/null 2>"$scratch/err" &
program=$!
for _ in $(seq 100); do grep -q shrinks "/proc/$program/maps" 2>/dev/null && break; sleep 0.1; done
sleep 0.5
truncate -s 4096 "$scratch/shrinks.gguf"
wait $program || got=$?
is "exit status where the model shrinks" "$got" 1
is "lines where the model shrinks" "$(grep -c '^hearth: ' "$scratch/err")" 1
has "the model that shrinks" "$(tail -1 "$scratch/err")" "shrinks.gguf: was cut short while it was in use"

finish
