# cli_eval_kl.sh - hearth eval kl: logits files both ways with a second implementation, and a model against itself.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

export PYTHONDONTWRITEBYTECODE=1
stories=$DATA/models/stories-relu
other=$DATA/models/stories260K # another model of the same vocabulary
golden=$DATA/golden/llama/model.gguf
text=$DATA/golden/real/nll-text.txt

"$HEARTH" eval kl "$stories" "$text" -c 64 --kv f32 --sparsity dense --write "$scratch/dense.kld" 2>"$scratch/err"
has "what wrote it" "$(cat "$scratch/err")" "mode dense"
has "what was written" "$(cat "$scratch/err")" "wrote $scratch/dense.kld: "
windows=$(sed -n 's/^wrote .*: \([0-9]*\) windows of 64, .*B$/\1/p' "$scratch/err")
is "its size" "$(stat -c %s "$scratch/dense.kld")" $((20 + windows * (64 * 4 + 31 * 2 * (512 + 4))))

# ------------------------------------------------------------------ itself

same() { # same WHAT ARGUMENTS...: no divergence, the same tokens
    "$HEARTH" eval kl "${@:2}" --json >"$scratch/kl.json"
    near "mean of $1" "$(value "$scratch/kl.json" mean_kl)" 0 1e-5
    near "same top of $1" "$(value "$scratch/kl.json" same_top)" 1 1e-3
    near "ratio of $1" "$(value "$scratch/kl.json" perplexity_ratio)" 1 1e-4
    printf '  %-44s %s\n' "$1" "$(value "$scratch/kl.json" mean_kl)"
}
same "a file against itself" "$stories" --base "$scratch/dense.kld" --kv f32 --sparsity dense
same "exact against dense" "$stories" --base "$scratch/dense.kld" --kv f32 --sparsity exact --no-guard
is "mode" "$(value "$scratch/kl.json" mode)" exact
same "in one step" "$stories" "$text" -c 64 --against dense --sparsity exact --no-guard
head -c 5000 "$SOURCE/models/stories-held.txt" >"$scratch/held"
same "of a SiLU model" "$other" "$scratch/held" --against dense
is "context where none is given" "$(value "$scratch/kl.json" context)" 512
same "llama.cpp's words" "$stories" --kl-divergence --kl-divergence-base "$scratch/dense.kld" --kv f32 --chunks 2
is "windows" "$(value "$scratch/kl.json" windows)" 2

# The perplexity is that of eval ppl, which reads the same windows.
"$HEARTH" eval ppl "$stories" "$text" -c 64 --kv f32 --protocol llama.cpp --json >"$scratch/ppl.json"
"$HEARTH" eval kl "$stories" --base "$scratch/dense.kld" --kv f32 --json >"$scratch/kl.json"
for field in tokens windows context; do
    is "$field" "$(value "$scratch/kl.json" $field)" "$(value "$scratch/ppl.json" $field)"
done
near "perplexity" "$(value "$scratch/kl.json" perplexity)" "$(value "$scratch/ppl.json" perplexity)" 1e-6
has "for people" "$("$HEARTH" eval kl "$stories" --base "$scratch/dense.kld" 2>/dev/null)" "KL divergence    "

# ------------------------------------------------------------------ a second implementation

# window_logits NAME MODEL N WINDOWS IDS: the logits of each window, read with BOS (1 in these models) in front
window_logits() {
    local ids at w
    IFS=, read -ra ids <<<"$5"
    for ((w = 0; w < $4; w++)); do
        at=$((w * $3 + 1))
        "$HEARTH" eval logits "$2" --ids "1,$(IFS=, && echo "${ids[*]:at:$3-1}")" --out "$scratch/$1.$w" --kv f32 \
            --sparsity dense 2>/dev/null
    done
}
closely() { # closely WHAT FIELD BOUND: hearth's figure (kl.json) and the other's (theirs.json)
    near "$2 of $1" "$(value "$scratch/kl.json" "$2")" "$(value "$scratch/theirs.json" "$2")" "$3"
}

# both_ways NAME BASE MODEL N IDS: hearth's file of BASE read there, theirs read by hearth, and MODEL against both.
# The second implementation computes as llama.cpp does, rounding included: 7e-5 of a row, less of their mean.
both_ways() {
    local n=$4 windows count vocabulary field
    windows=$(($(tr , '\n' <<<"$5" | grep -c .) / n))
    vocabulary=$(("$(stat -c %s "$scratch/v")" / 4))
    window_logits base "$2" "$n" "$windows" "$5"
    window_logits model "$3" "$n" "$windows" "$5"
    "$HEARTH" eval kl "$2" --ids "$5" -c "$n" --kv f32 --sparsity dense --write "$scratch/ours.kld" 2>/dev/null
    is "$1: head and tokens" "$(python3 "$SOURCE/tests/kl_file.py" ids "$scratch/ours.kld" | cut -d' ' -f1-$((3 + n * windows)))" \
        "$n $vocabulary $windows $(tr , ' ' <<<"$5" | cut -d' ' -f1-$((n * windows)))"
    count=$(python3 "$SOURCE/tests/kl_file.py" check "$scratch/ours.kld" "$scratch"/base.*) || count=failed
    is "$1: rows that are right" "$count" $((windows * (n - 1 - n / 2)))
    python3 "$SOURCE/tests/kl_file.py" write "$scratch/theirs.kld" "$n" "$vocabulary" "$5" "$scratch"/base.*
    for file in ours theirs; do
        python3 "$SOURCE/tests/kl_file.py" measure "$scratch/$file.kld" "$scratch"/model.* >"$scratch/theirs.json"
        "$HEARTH" eval kl "$3" --base "$scratch/$file.kld" --kv f32 --sparsity dense --json >"$scratch/kl.json"
        is "$1: tokens" "$(value "$scratch/kl.json" tokens)" "$count"
        closely "$1" mean_kl 2e-5
        for field in median_kl p90_kl most_kl; do
            closely "$1" $field 1e-4
        done
        for field in same_top right_token_mean right_token_rms; do
            closely "$1" $field 1e-5
        done
        for field in perplexity base_perplexity; do
            closely "$1" $field "$(awk -v p="$(value "$scratch/theirs.json" $field)" 'BEGIN { print 1e-5 * p }')"
        done
        printf '  %-44s %s (second implementation %s)\n' "$1, $file" "$(value "$scratch/kl.json" mean_kl)" \
            "$(value "$scratch/theirs.json" mean_kl)"
    done
    rm -f "$scratch"/base.* "$scratch"/model.*
}
if command -v python3 >/dev/null; then
    "$HEARTH" eval logits "$stories" --ids 1 --out "$scratch/v"
    ids=$("$HEARTH" tokenize "$stories" -f "$text" | tr ' ' , | cut -d, -f1-250)
    # 52 tokens, of which 25 are scored: at every level the head multiplies both numbers of rows in the same loops (FEW_OF_FLOATS),
    # so that the logits that are compared have the same bits.
    both_ways stories-relu "$stories" "$SOURCE/models/stories-relu-q8_0.gguf" 52 "$ids"
    "$HEARTH" eval logits "$golden" --ids 1 --out "$scratch/v"
    ids=$(value "$DATA/golden/llama/golden.json" ids),$(value "$DATA/golden/llama/golden.json" greedy)
    "$HEARTH" quantize "$golden" "$scratch/q8_0.gguf" q8_0 2>/dev/null
    both_ways "golden llama" "$golden" "$scratch/q8_0.gguf" 19 "$ids"
    both_ways "golden llama and itself" "$golden" "$golden" 10 "$ids"
else
    skip_part "there is no python3"
fi

# ------------------------------------------------------------------ what is refused

base=$scratch/dense.kld
refused 2 "one of --base FILE, --write FILE, --against MODE is wanted" "$HEARTH" eval kl "$stories"
refused 2 "one of --base FILE" "$HEARTH" eval kl "$stories" "$text" --write "$scratch/x" --against dense
refused 2 "the file of --base has its own text" "$HEARTH" eval kl "$stories" "$text" --base "$base"
refused 2 "the file of --base has its own text" "$HEARTH" eval kl "$stories" --ids 1,2 --base "$base"
refused 2 "--context: the file of --base has windows of its own" "$HEARTH" eval kl "$stories" --base "$base" -c 32
refused 2 "TEXT: is missing" "$HEARTH" eval kl "$stories" --write "$scratch/x"
refused 2 "--ids: there is " "$HEARTH" eval kl "$stories" "$text" --ids 1,2 --write "$scratch/x"
refused 2 "--against: " "$HEARTH" eval kl "$stories" "$text" --against nothing
refused 2 "--kl-divergence: measures" "$HEARTH" eval kl "$stories" "$text" --write "$scratch/x" --kl-divergence
refused 1 "vocabulary: has 512 tokens" "$HEARTH" eval kl "$golden" --base "$base"
refused 1 "--ids: text: has 3 tokens" "$HEARTH" eval kl "$stories" --ids 1,2,3 --write "$scratch/x"
echo "Once upon a time" >"$scratch/short"
refused 1 "$scratch/short: text: has " "$HEARTH" eval kl "$stories" "$scratch/short" --against dense
refused 2 "positions asked for" "$HEARTH" eval kl "$stories" "$text" -c 100000 --write "$scratch/x"
refused 2 "the vocabulary has 512" "$HEARTH" eval kl "$stories" --ids 1,2,3,4,5,6,7,512 -c 4 --write "$scratch/x"
refused 1 "absent.kld: cannot open" "$HEARTH" eval kl "$stories" --base "$scratch/absent.kld"
refused 1 "is not that of a logits file" "$HEARTH" eval kl "$stories" --base "$text"
head -c 5000 "$base" >"$scratch/cut.kld"
refused 1 "cut.kld: size: is 5000 bytes" "$HEARTH" eval kl "$stories" --base "$scratch/cut.kld"
refused 1 ": it was cut short" "$HEARTH" eval kl "$stories" --base "$scratch/cut.kld"
refused 1 "no/folder/x: cannot " "$HEARTH" eval kl "$stories" "$text" -c 64 --write "$scratch/no/folder/x"
[ ! -e /dev/full ] || refused 1 "No space left" "$HEARTH" eval kl "$stories" "$text" -c 64 --write /dev/full
# A row that goes far beyond what the format can say: its smallest logarithm would make any figure infinite.
cp "$base" "$scratch/wide.kld"
printf '\0\0\200\077\0\377\177\307' | # scale 1, min -65535
    dd of="$scratch/wide.kld" bs=1 seek=$((20 + windows * 64 * 4)) conv=notrunc 2>/dev/null
refused 1 "wide.kld: row 0 of window 0: spans 65535 nats" "$HEARTH" eval kl "$stories" --base "$scratch/wide.kld" --json
# A file of longer windows than a model's context: the golden llama has 128.
printf '_logits_\200\001\0\0\020\001\0\0\001\0\0\0' >"$scratch/long.kld" # 384 tokens, a vocabulary of 272, one window
head -c $((384 * 4 + 191 * 2 * (272 + 4))) /dev/zero >>"$scratch/long.kld"
refused 1 "windows: have 384 tokens, the context of " "$HEARTH" eval kl "$golden" --base "$scratch/long.kld"
is "nothing is left of what failed" "$(cd "$scratch" && ls -A | grep -c '^x$\|^\.x')" 0

# ------------------------------------------------------------------ documents

# Between separators stand texts of their own: their ids follow each other, each behind its BOS.
one="Once upon a time, there was a little girl named Lily." two="Tom had a red ball. He liked to play with it."
printf '%s\n' "$one" "<|endoftext|>" "$two" "<|endoftext|>" >"$scratch/both"
for part in "$one" "$two"; do
    printf '%s' "$part" >"$scratch/part"
    "$HEARTH" tokenize "$stories" -f "$scratch/part"
done >"$scratch/part.ids"
"$HEARTH" eval kl "$stories" "$scratch/both" --separator '<|endoftext|>' -c 8 --write "$scratch/parts.kld" 2>/dev/null
"$HEARTH" eval kl "$stories" --ids "@$scratch/part.ids" -c 8 --write "$scratch/ids.kld" 2>/dev/null
is "a text of two documents" "$(cmp "$scratch/parts.kld" "$scratch/ids.kld" && echo same)" same
refused 2 "separator: is empty" "$HEARTH" eval kl "$stories" "$scratch/both" --separator "" --against dense
refused 2 "separator: is for TEXT" "$HEARTH" eval kl "$stories" --base "$base" --separator x

# ------------------------------------------------------------------ nothing stays behind

export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
"$HEARTH" eval kl "$stories" "$text" -c 64 --against dense >/dev/null 2>&1
is "temporary files" "$(ls -A "$TMPDIR")" ""
refused 1 "no predictors" "$HEARTH" eval kl "$stories" "$text" -c 64 --against dense --sparsity predicted --tune none
is "temporary files of a failure" "$(ls -A "$TMPDIR")" ""
refused 1 "hearth-kl-" env TMPDIR="$scratch/absent" "$HEARTH" eval kl "$stories" "$text" -c 64 --against dense
for i in 1 2 3 4 5 6 7 8 9 10; do cat "$SOURCE/models/stories-held.txt"; done >"$scratch/long"
if command -v timeout >/dev/null; then
    for seconds in 0.4 1.2; do
        got=0
        timeout --foreground --preserve-status -s INT $seconds "$HEARTH" eval kl "$stories" "$scratch/long" --windows 400 --against \
            dense >/dev/null 2>"$scratch/err" </dev/null || got=$?
        is "exit status of an interrupt" "$got" 130
        has "message of an interrupt" "$(cat "$scratch/err")" "divergence: cancelled"
        is "temporary files of an interrupt" "$(ls -A "$TMPDIR")" ""
    done
fi

finish
