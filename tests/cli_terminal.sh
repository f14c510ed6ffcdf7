# cli_terminal.sh - what a run says beside its answer (one line, more with -v, nothing with -q), and colour at a terminal.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$SOURCE/models/stories-relu-q8_0.gguf
escape=$(printf '\033')
lines() { # lines WHAT COUNT: of standard error
    is "lines of $1 ($(cat "$scratch/err"))" "$(wc -l <"$scratch/err")" "$2"
}
run() { # run OPTIONS...
    "$HEARTH" run "$model" -p "Once upon a time" -n 20 "$@" >"$scratch/out" 2>"$scratch/err" ||
        fail "run $*: $(cat "$scratch/err")"
}

# ------------------------------------------------------------------ how much is said

run --temp 0 --no-guard
lines "a plain run" 1
status="20 tokens, * tokens/s; mode exact, guarantee bitwise; 87 % of neurons skipped, 91? kB of 1.64 MB read per token"
has "status" "$(cat "$scratch/err")" "$status"
is "status wider than 120 columns" "$(awk 'length > 120' "$scratch/err" | wc -l)" 0
cp "$scratch/out" "$scratch/plain"
run --temp 0
lines "a run with a guard" 1
run --temp 0 -v
cmp -s "$scratch/out" "$scratch/plain" && pass || fail "-v changes the answer"
for line in "model: $model (llama, relu)" "memory: weights 1.64 MB, KV cache 786 kB, scratch " "computing: " " thread" \
    "same answer as dense" "guard: " "prompt: 5 tokens, " "stopped by length, density 0.13"; do
    has "verbose" "$(cat "$scratch/err")" "$line"
done
has "the last line of verbose" "$(tail -n 1 "$scratch/err")" "20 tokens, * tokens/s; mode "
run --temp 0 -q
lines "a quiet run" 0
is "a quiet answer" "Once upon a time$(cat "$scratch/out")" "$(cat "$scratch/plain")"
run --temp 0 --json
lines "a run with --json" 0
for command in "run -p x" "bench $model" "eval humaneval --problems x --completions x"; do
    # shellcheck disable=SC2086
    refused 2 "-q and -v exclude each other" "$HEARTH" $command -v -q
done

# What is lossy says so, a random answer names its seed, and an end that nobody asked for its reason.
run --temp 0 --sparsity pruned --threshold 0.1
lines "a lossy run" 1
has "a lossy run" "$(cat "$scratch/err")" "mode pruned, guarantee lossy; "
run --seed 7
has "seed" "$(cat "$scratch/err")" "per token; seed 7"
run --temp 0 -c 12
has "a full context" "$(cat "$scratch/err")" "8 tokens, * tokens/s, stopped by context; mode "
run --temp 0 --sparsity dense
has "dense" "$(cat "$scratch/err")" "mode dense, guarantee bitwise; no neurons skipped, 1.64 MB read per token"
run --temp 0 --device host -ngl 3
has "a device" "$(cat "$scratch/err")" " read per token; 3 of 6 layers (50 % of neurons) on host"

# Every line of a dialogue has a status. Warnings are no status: they come before the answer.
printf 'Once\n\n' | "$HEARTH" run "$model" -n 4 --temp 0 >/dev/null 2>"$scratch/err"
lines "two answers" 2
cp "$model" "$scratch/odd.gguf"
echo "no tune file" >"$scratch/odd.gguf.tune"
"$HEARTH" run "$scratch/odd.gguf" -p Once -n 4 --temp 0 >/dev/null 2>"$scratch/err"
lines "a run with a warning" 2
has "warning" "$(head -n 1 "$scratch/err")" "warning: "
"$HEARTH" run "$scratch/odd.gguf" -p Once -n 4 --temp 0 -q >/dev/null 2>"$scratch/err"
lines "a quiet run with a warning" 0

# The commands that measure have a line of status, too.
head -c 300 "$SOURCE/models/stories-held.txt" >"$scratch/text"
for options in "eval ppl $model $scratch/text" "eval kl $model $scratch/text --against dense -c 16" \
    "eval logits $model --ids 1,2 --out $scratch/logits" "bench $model -r 1 -n 2 --prompt-lengths 4"; do
    # shellcheck disable=SC2086
    "$HEARTH" $options --no-guard >/dev/null 2>"$scratch/err" || fail "$options"
    is "$options" "$(cat "$scratch/err")" "mode exact, guarantee bitwise"
    # shellcheck disable=SC2086
    "$HEARTH" $options --no-guard --device host -ngl 99 -v >/dev/null 2>"$scratch/err" || fail "$options -v"
    has "$options -v" "$(cat "$scratch/err")" "mode exact, guarantee exact: only zeros are skipped; *device0: host, "
    # shellcheck disable=SC2086
    "$HEARTH" $options --no-guard -q >/dev/null 2>"$scratch/err" || fail "$options -q"
    lines "$options -q" 0
done

# ------------------------------------------------------------------ colour

run --temp 0 -v
grep -q "$escape" "$scratch/out" "$scratch/err" && fail "an escape sequence in a pipe" || pass
if ! has_terminal; then
    skip_part "there are no pseudo-terminals"
    finish
    exit
fi

# at_terminal COMMAND: prints what it shows at a terminal.
at_terminal() {
    script -qec "$1" /dev/null </dev/null
}
say="'$HEARTH' run '$model' -p 'Once upon a time' -n 4 --temp 0"
unset NO_COLOR
export TERM=xterm
has "colour of prompt and status" "$(at_terminal "$say")" "$escape\[1mOnce upon a time$escape\[0m, *$escape\[2m4 tokens, "
has "an empty NO_COLOR" "$(NO_COLOR='' at_terminal "$say")" "$escape\[1mOnce upon a time$escape\[0m, "
has "colour of an error" "$(at_terminal "'$HEARTH' frobnicate" || true)" "$escape\[31mhearth:$escape\[0m frobnicate: "
has "colour of a warning" "$(at_terminal "'$HEARTH' run '$scratch/odd.gguf' -p x -n 1")" "$escape\[33mwarning:$escape\[0m "
for setting in NO_COLOR=1 TERM=dumb TERM=; do
    shown=$(export "${setting?}" && at_terminal "$say")
    has "$setting" "$shown" "Once upon a time, "
    case "$shown" in *"$escape"*) fail "$setting: an escape sequence" ;; *) pass ;; esac
done
# Each stream is looked at by itself.
has "only standard error at a terminal" "$(at_terminal "$say >'$scratch/out'")" "$escape\[2m4 tokens, "
grep -q "$escape" "$scratch/out" && fail "an escape sequence in a file" || pass
shown=$(at_terminal "$say 2>'$scratch/err'")
has "only standard output at a terminal" "$shown" "$escape\[1mOnce upon a time$escape\[0m, "
grep -q "$escape" "$scratch/err" && fail "an escape sequence in a file" || pass

finish
