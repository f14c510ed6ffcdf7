# cli_draw_trace.sh - tools/draw-trace: a picture of a trace, and one line about whatever is not a trace.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
command -v python3 >/dev/null || skip "python3 is absent"
draw=$SOURCE/tools/draw-trace

# complains WHAT PATTERN ARGUMENTS...: exits with 1, nothing on standard output, one line on standard error, no picture.
complains() {
    local got=0
    rm -f "$scratch/out.svg"
    python3 "$draw" "${@:3}" >"$scratch/out" 2>"$scratch/err" || got=$?
    is "$1: exit status" "$got" 1
    is "$1: lines on standard error" "$(wc -l <"$scratch/err")" 1
    is "$1: standard output" "$(cat "$scratch/out")" ""
    has "$1: message" "$(cat "$scratch/err")" "draw-trace: $2"
    [ -e "$scratch/out.svg" ] && fail "$1: left a picture" || pass
}

cat >"$scratch/good.json" <<'END'
[{"ph": "M", "name": "thread_name", "tid": 0, "args": {"name": "cpu"}},
 {"ph": "X", "name": "attention", "tid": 0, "ts": 0, "dur": 3, "args": {"layer": 0}},
 {"ph": "X", "name": "neurons", "tid": 0, "ts": 3, "dur": 5, "args": {"layer": 0}}]
END
if python3 "$draw" "$scratch/good.json" "$scratch/good.svg" 2>"$scratch/err"; then
    is "boxes of neurons" "$(grep -c 'class="neurons".*<title>' "$scratch/good.svg")" 1
else
    fail "a good trace: $(cat "$scratch/err")"
fi

echo '{"traceEvents": [' >"$scratch/cut.json"
echo '[1, 2]' >"$scratch/numbers.json"
echo '{"events": []}' >"$scratch/other.json"
echo '[{"ph": "X"}]' >"$scratch/keys.json"
sed 's/"dur": [0-9]*/"dur": 0/; s/"ts": [0-9]*/"ts": 0/' "$scratch/good.json" >"$scratch/still.json"
sed 's/"ts": 3/"ts": "soon"/' "$scratch/good.json" >"$scratch/text.json"
echo '[]' >"$scratch/empty.json"
printf '"\xff"' >"$scratch/bytes.json"
head -c 200000 /dev/zero | tr '\0' '[' >"$scratch/deep.json"
complains "no file" "$scratch/none.json: No such file" "$scratch/none.json" "$scratch/out.svg"
complains "a folder" "$scratch: Is a directory" "$scratch" "$scratch/out.svg"
complains "cut short" "$scratch/cut.json: not JSON" "$scratch/cut.json" "$scratch/out.svg"
complains "not UTF-8" "$scratch/bytes.json: not JSON" "$scratch/bytes.json" "$scratch/out.svg"
complains "too deep" "$scratch/deep.json: not" "$scratch/deep.json" "$scratch/out.svg"
complains "numbers" "$scratch/numbers.json: not a trace" "$scratch/numbers.json" "$scratch/out.svg"
complains "another object" "$scratch/other.json: not a trace" "$scratch/other.json" "$scratch/out.svg"
complains "events without keys" "$scratch/keys.json: not a trace" "$scratch/keys.json" "$scratch/out.svg"
complains "times that are text" "$scratch/text.json: not a trace" "$scratch/text.json" "$scratch/out.svg"
complains "no time" "$scratch/still.json: the step takes no time" "$scratch/still.json" "$scratch/out.svg"
complains "no events" "$scratch/empty.json: holds no spans" "$scratch/empty.json" "$scratch/out.svg"
complains "no such layers" "--layers 5-6: the step has no such" "$scratch/good.json" "$scratch/out.svg" --layers 5-6
complains "nowhere to write" "$scratch/none/out.svg: No such file" "$scratch/good.json" "$scratch/none/out.svg"

finish
