# cli_manual.sh - the man pages and the shells' completion say what `hearth help` says: every command, option and choice.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

names_of() { # names_of COMMAND: what its help lists below the usage; of hearth itself for ""
    # shellcheck disable=SC2086 # a command may be two words, or none
    "$HEARTH" help $1 | sed -n '/^usage/,/^example/ s/^  \([a-z][a-z]*\)  .*/\1/p'
}

candidates() { # candidates WORD...: what may come next, without what it is
    "$HEARTH" complete -- "$@" | cut -f 1
}

mkdir "$scratch/man"
"$HEARTH" manual "$scratch/man"
refused 1 "missing" "$HEARTH" manual "$scratch/missing"
refused 2 "too few" "$HEARTH" manual
refused 2 "too few" "$HEARTH" complete

# text_of PAGE: without roff's escapes.
text_of() {
    sed -e 's/\\f[BIR]//g' -e 's/\\-/-/g' -e 's/\\(ga/`/g' -e "s/\\\\(aq/'/g" "$scratch/man/$1"
}

# Every command, every option, and every value of an option that takes one of some. The parser says which those are.
commands=()
for name in $(names_of ""); do
    parts=$(names_of "$name")
    has "hearth.1" "$(text_of hearth.1)" "hearth-$name (1)"
    is "completion of $name" "$(candidates "$name" | grep -cx -- "$name")" 1
    is "completion of help $name" "$(candidates help "$name" | grep -cx -- "$name")" 1
    [ -n "$parts" ] || commands+=("$name")
    for part in $parts; do
        has "hearth-$name.1" "$(text_of "hearth-$name.1")" "hearth-$name-$part (1)"
        commands+=("$name $part")
    done
    [ -z "$parts" ] || is "completion of $name's parts" "$(candidates "$name" "")" "$parts"
done
is "some commands have parts" "$(printf '%s\n' "${commands[@]}" | grep -c ' ')" 5
options=0 choices=0
for command in "${commands[@]}"; do
    read -ra words <<<"$command"
    page=hearth-${command/ /-}.1
    help=$("$HEARTH" help "${words[@]}")
    shown=$(text_of "$page")
    grep -qxF -- "$(sed -n 's/^usage: //p' <<<"$help")" <<<"$shown" && pass || fail "$page: no usage"
    while read -r heading; do # "-o, --out"
        option=${heading#*, }
        options=$((options + 1))
        grep -qE -- "^$heading(,| |\$)" <<<"$shown" && pass || fail "$page: $heading is missing"
        is "completion of $command $option" "$(candidates "${words[@]}" "$option" | grep -cx -- "$option")" 1
        error=$("$HEARTH" "${words[@]}" "$option" nonsense --help 2>&1 >/dev/null) || true
        case $error in *"'nonsense' is not one of "*) ;; *) continue ;; esac
        choices=$((choices + 1))
        expected=$(sed 's/.* is not one of //; s/, /\n/g' <<<"$error")
        is "values of $command $option" "$(candidates "${words[@]}" "$option" "")" "$expected"
        is "values of $command $option=" "$(candidates "${words[@]}" "$option=")" "$(sed "s/^/$option=/" <<<"$expected")"
    done < <(printf '%s\n' "$help" | sed -nE 's/^ +((-., )?--[a-z0-9-]+).*/\1/p')
done
is "quantize's files" "$(candidates quantize "")$(candidates quantize IN --importance FILE "")" ":files:files"
is "quantize's types" "$(candidates quantize --importance FILE IN OUT q8; candidates quantize IN -- OUT iq4 | sort | xargs)" \
    "$(printf 'q8_0\niq4_nl iq4_xs')"
is "nothing behind them" "$(candidates quantize IN OUT q8_0 "")" ""
[ "$options" -gt 300 ] && [ "$choices" -gt 20 ] && pass || fail "$options options and $choices choices are too few"
is "pages" "$(find "$scratch/man" -name '*.1' | wc -l)" $((1 + ${#commands[@]} + 1))
echo "  $options options, $choices of them with choices, in ${#commands[@]} commands"

# What comes where: the formats of --type are another table's, words after -- are no options, -ngl takes a number.
has "formats" "$(candidates convert --type q4_ | xargs)" "q4_0 q4_1"
is "a file" "$(candidates run -m "")" ":files"
is "a file after =" "$(candidates run --model=x)" ":files"
is "a number" "$(candidates run -n "")" ""
is "a number by a word" "$(candidates run -ngl "")" ""
is "after a number" "$(candidates run -ngl 3 --mod)" "--model"
is "a value that looks like an option" "$(candidates run -p --model --mod)" "--model"
is "after --" "$(candidates run -- --mod)" ":files"
is "a flag's value" "$(candidates run --json=)" ""
is "an unknown option" "$(candidates run --nonsense=)" ""
is "an unknown command" "$(candidates nonsense "")" ""
is "no file for a command that takes none" "$(candidates devices "")" ""
is "help of help" "$(candidates help run "")" ""
is "options of hearth" "$(candidates - | xargs)" "--help --version"

# Where an allocation fails, a page is whole or not there.
library=$TOOLS/libfail_malloc.so
if [ -e "$library" ]; then
    LD_PRELOAD=$library FAIL_MALLOC_COUNT=$scratch/count "$HEARTH" manual "$scratch/man"
    mkdir "$scratch/some"
    for ((n = 0; n < $(cat "$scratch/count"); n += 37)); do # one of each kind, over all pages
        rm -f "$scratch/some"/*
        got=0
        LD_PRELOAD=$library FAIL_MALLOC_AT=$n "$HEARTH" manual "$scratch/some" 2>"$scratch/err" || got=$?
        [ $got = 0 ] && is "files where allocation $n fails" "$(diff -r "$scratch/man" "$scratch/some")" "" && continue
        is "status where allocation $n fails" $got 1
        is "lines where allocation $n fails" "$(grep -c memory "$scratch/err") of $(wc -l <"$scratch/err")" "1 of 1"
        is "pages where allocation $n fails" "$(diff -r "$scratch/man" "$scratch/some" | grep -v '^Only in .*/man: ')" ""
    done
fi

# roff's own opinion of the pages.
if command -v groff >/dev/null; then
    for page in "$scratch/man"/*.1; do
        is "warnings of groff in ${page##*/}" "$(groff -man -Tascii -ww -z "$page" 2>&1)" ""
    done
    has "a page" "$(groff -man -Tascii -P-cbou "$scratch/man/hearth-run.1")" "-m, --model MODEL"
else
    skip_part "groff is absent"
fi

# The scripts, asked as their shells ask them.
completion=$SOURCE/packaging/completion
PATH=$(dirname "$HEARTH"):$PATH
mkdir "$scratch/files"
touch "$scratch/files/some.gguf"
cd "$scratch/files" || exit
modes=$(candidates run --sparsity "" | xargs)

cat >"$scratch/ask.bash" <<'END'
compopt() { echo "$*"; } # bash has it only while it completes
. "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hearth
echo "${COMPREPLY[*]}"
END
in_bash() { # in_bash WORD...: as bash cuts a line
    bash "$scratch/ask.bash" "$completion/hearth.bash" "$@" | xargs
}
is "bash: a command" "$(in_bash hearth ins)" "inspect"
is "bash: a part" "$(in_bash "$HEARTH" eval hu)" "humaneval"
is "bash: an option" "$(in_bash hearth run --spars)" "--sparsity"
is "bash: choices" "$(in_bash hearth run --sparsity "")" "$modes"
is "bash: choices after =" "$(in_bash hearth run --sparsity =)" "$modes"
is "bash: a choice" "$(in_bash hearth run --sparsity = ex)" "exact"
is "bash: files" "$(in_bash hearth run "")" "-o default"
is "bash: nothing" "$(in_bash hearth nonsense "")" ""

cat >"$scratch/ask.zsh" <<'END'
compdef() { : }
compset() { : }
_files() { echo files }
_describe() { print -r -- "${(P@)${@[-1]}%%:*}" }
. "$1"
shift
words=("$@") CURRENT=$#
_hearth
END
if command -v zsh >/dev/null; then
    in_zsh() {
        zsh -f "$scratch/ask.zsh" "$completion/_hearth" "$@" | xargs
    }
    is "zsh: a command" "$(in_zsh hearth ins)" "inspect"
    is "zsh: an option" "$(in_zsh hearth run --spars)" "--sparsity"
    is "zsh: choices" "$(in_zsh hearth run --sparsity "")" "$modes"
    is "zsh: a choice" "$(in_zsh hearth run --sparsity=ex)" "--sparsity=exact"
    is "zsh: files" "$(in_zsh hearth run --tune=)" "files"
    is "zsh: nothing" "$(in_zsh hearth nonsense "")" ""
else
    skip_part "zsh is absent"
fi

if command -v fish >/dev/null; then
    in_fish() { # in_fish LINE
        HOME=$scratch fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$completion/hearth.fish" "$1" | cut -f 1 | xargs
    }
    is "fish: a command" "$(in_fish "hearth ins")" "inspect"
    is "fish: an option" "$(in_fish "hearth run --spars")" "--sparsity"
    is "fish: choices" "$(in_fish "hearth run --sparsity ")" "$modes"
    is "fish: a choice" "$(in_fish "hearth run --sparsity=ex")" "--sparsity=exact"
    is "fish: files" "$(in_fish "hearth run so")" "some.gguf"
    is "fish: a file" "$(in_fish "hearth run --tune=so")" "--tune=some.gguf"
    is "fish: nothing" "$(in_fish "hearth nonsense ")" ""
else
    skip_part "fish is absent"
fi

finish
