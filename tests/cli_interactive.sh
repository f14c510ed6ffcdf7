# cli_interactive.sh - `hearth run` at a terminal: lines, words with a slash, Ctrl-C, Ctrl-D, history; the progress line.
. "$SOURCE/tests/lib.sh"
need "$SHARED/models/stories-relu"
command -v script >/dev/null || skip "script is absent"

export XDG_STATE_HOME=$scratch/state TERM=dumb
model=$scratch/model.gguf
"$HEARTH" convert "$SHARED/models/stories-relu" -o "$model" 2>/dev/null

# A new text is new in everything: what was drawn and said before has no say in it.
said=$(echo "Once upon a time" | "$HEARTH" run "$model" --seed 7 --temp 1 --repeat-penalty 1.3 -n 12 2>/dev/null)
is "after a reset" "$(printf 'Once upon a time\n/reset\nOnce upon a time\n' |
    "$HEARTH" run "$model" --seed 7 --temp 1 --repeat-penalty 1.3 -n 12 2>/dev/null)" "$said"$'\n'"$said"

# open_terminal COMMAND: runs it at a terminal of its own; what is written to descriptor 3 is typed there.
open_terminal() {
    mkfifo "$scratch/keys"
    : >"$scratch/shown"
    script -qefc "$1" "$scratch/shown" <"$scratch/keys" >/dev/null &
    program=$!
    exec 3>"$scratch/keys"
}

# await WHAT PATTERN: until it is shown; what was shown up to there is forgotten.
await() {
    local i at
    for i in $(seq 600); do
        at=$(tail -c +"$seen" "$scratch/shown" | grep -obaF -- "$2" | head -1 | cut -d: -f1) || true
        if [ -n "$at" ]; then
            seen=$((seen + at + ${#2}))
            pass
            return
        fi
        sleep 0.05
    done
    fail "$1: '$2' does not come; shown: $(tail -c +"$seen" "$scratch/shown")"
}

close_terminal() { # close_terminal WHAT
    local got=0
    exec 3>&-
    wait $program || got=$?
    is "exit status of $1" $got 0
    rm "$scratch/keys"
}

seen=1
open_terminal "'$HEARTH' run '$model' --temp 0 -n 10"
await "greeting" "/reset starts a new text"
await "prompt" "> "
printf 'Once upon a time\n' >&3
await "answer" "there was a little girl"
await "report" "stopped by length"
printf '/nonsense\n' >&3
await "unknown word" "/nonsense: is not known"
printf '/help\n' >&3
await "help" "Ctrl-C stops an answer"
printf '/quit\n' >&3
close_terminal "a dialogue"
if [ -e "$scratch/state/hearth/history" ]; then # with libedit only
    has "history" "$(sed 's/\\040/ /g' "$scratch/state/hearth/history")" "Once upon a time"
fi

# Ctrl-C stops the answer, not the program; /reset starts a new text; Ctrl-D leaves.
seen=1
open_terminal "'$HEARTH' run '$model' --temp 0 -n 480 --ignore-eos -t 1 --cpu scalar"
await "prompt" "> "
printf 'Once upon a time\n' >&3
await "answer" "there was"
printf '\003' >&3
await "stop" "stopped by cancelled"
await "prompt after Ctrl-C" "> "
printf '/reset\n' >&3
await "prompt after a reset" "> "
printf 'Lily and Tom went to the park. They saw a big\n' >&3
await "answer after a reset" "tree with lots of flowers"
printf '\003' >&3
await "prompt after an answer" "> "
printf '\004' >&3
close_terminal "Ctrl-D"

finish
