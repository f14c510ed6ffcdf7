# cli_interactive.sh - `hearth run` at a terminal: lines, words with a slash, Ctrl-C, Ctrl-D, history.
. "$SOURCE/tests/lib.sh"
need "$SHARED/models/stories-relu"
command -v script >/dev/null || skip "script is absent"

export XDG_STATE_HOME=$scratch/state TERM=dumb
model=$scratch/model.gguf
"$HEARTH" convert "$SHARED/models/stories-relu" -o "$model" 2>/dev/null

# typed PROGRAM-OPTIONS: standard input is what is typed, at a terminal of its own; prints what it showed.
typed() {
    script -qec "'$HEARTH' run '$model' --temp 0 $*" /dev/null | tr -d '\r'
}

shown=$({ sleep 1; printf '/help\n'; sleep 0.3; printf 'Once upon a time\n'; sleep 1; printf '/nonsense\n'; sleep 0.3
          printf '/quit\n'; sleep 0.5; } | typed -n 10) || fail "exit status of a dialogue: $?"
has "help" "$shown" "/reset starts a new text"
has "answer" "$shown" "there was a little girl"
has "report" "$shown" "tokens/s"
has "unknown word" "$shown" "/nonsense: is not known"
if [ -e "$scratch/state/hearth/history" ]; then # with libedit only
    has "history" "$(tr -d '\\' <"$scratch/state/hearth/history" | sed 's/040/ /g')" "Once upon a time"
fi

# Ctrl-C stops the answer, not the program; /reset starts a new text; Ctrl-D leaves.
shown=$({ sleep 1; printf 'Once upon a time\n'; sleep 0.05; printf '\003'; sleep 0.5; printf '/reset\n'; sleep 0.3
          printf 'Lily and Tom went to the park. They saw a big\n'; sleep 1.5; printf '\004'; sleep 0.5; } |
    typed -n 100 --ignore-eos) || fail "exit status after Ctrl-D: $?"
has "answer after a reset" "$shown" "tree with lots of flowers"

finish
