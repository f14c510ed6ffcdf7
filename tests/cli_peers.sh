# cli_peers.sh - bench/peers.py: what it computes, and a whole comparison of hearth with a program that is made up.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
command -v python3 >/dev/null || skip "there is no python3"

export PYTHONDONTWRITEBYTECODE=1
peers=$SOURCE/bench/peers.py
model=$DATA/models/stories-relu
is "self-test" "$(python3 "$peers" --self-test 2>&1)" ok
has "help" "$(python3 "$peers" --help)" "--other"

# A program that prints its figures as llama.cpp does, and one with a way of its own.
cat >"$scratch/usual" <<'END'
echo "llama_print_timings: prompt eval time = 100.0 ms / $3 tokens ( 1.0 ms per token, 800.00 tokens per second)"
echo "llama_print_timings:        eval time = 100.0 ms / $4 runs   ( 1.0 ms per token, 200.00 tokens per second)"
END
compare() {
    python3 "$peers" "$model" --hearth "$HEARTH" --no-llama -t 2 -r 2 -n 4 --prompt-length 8 --modes dense,exact \
        --out "$scratch/peers" "$@"
}
if compare --other usual "bash $scratch/usual {model} {threads} {prompt} {n}" \
    --other own "echo {threads} threads: 100.5 t/s" --pattern own ': (?P<decode>\S+) t/s' \
    >"$scratch/table" 2>"$scratch/messages"; then
    pass
else
    fail "peers.py: $(tail -n 1 "$scratch/messages")"
fi
is "the table is what was printed" "$(cat "$scratch/peers.md")" "$(cat "$scratch/table")"
is "the table can be had again" "$(python3 "$peers" --from "$scratch/peers.jsonl")" "$(cat "$scratch/table")"
for row in "| hearth dense |" "| hearth exact |" "| usual | 200.00 (200.00 .. 200.00) | 1.00 (1.00 .. 1.00) |" \
    "| own | 100.50 (100.50 .. 100.50) | 0.50 (0.50 .. 0.50) |" "| usual | 800.0 (800.0 .. 800.0) |" \
    "2 threads, 2 rounds" "bash usual stories-relu 2 8 4"; do
    has "table" "$(cat "$scratch/table")" "$row"
done
case "$(cat "$scratch/table" "$scratch/peers.jsonl")" in
    *"$scratch"*) fail "the report names a folder of this machine" ;;
    *) pass ;;
esac
# Each program in turn, round after round.
order=$(sed -n 's/.*"round": \([0-9]*\), "program": "\([^"]*\)".*/\1 \2/p' "$scratch/peers.jsonl" | tr '\n' ';')
is "turns" "$order" "0 hearth dense;0 usual;0 own;0 hearth exact;1 hearth dense;1 usual;1 own;1 hearth exact;"

failing() { # failing PATTERN ARGUMENTS...: one line on standard error, status 1
    local pattern=$1 got=0
    shift
    "$@" >/dev/null 2>"$scratch/messages" || got=$?
    is "status" "$got" 1
    is "lines" "$(wc -l <"$scratch/messages")" 1
    has "message" "$(cat "$scratch/messages")" "$pattern"
}
failing "no such file" python3 "$peers" "$scratch/absent" --hearth "$HEARTH" --no-llama
failing "no --other of that name" compare --pattern nobody x
failing "is not a log" python3 "$peers" --from /dev/null

finish
