# lib.sh - what the shell tests share. Sourced; expects HEARTH (the program), TOOLS (compare_logits, json_value),
# DATA (reference data), SOURCE and BUILD, as tests/CMakeLists.txt sets them.
set -euo pipefail
: "${HEARTH:?}" "${TOOLS:?}" "${DATA:?}" "${SOURCE:?}" "${BUILD:?}"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/hearth-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache # what the guard remembers is no business of the user's own
failures=0
checks=0

skip() {
    echo "skipped: $*"
    exit 77
}

skip_part() { # for a test of which only a part cannot be run; tools/count-skips counts the line
    echo "skipped: $*"
}

# python_packages [IMPORTS LIST]: true if $python runs a Python that has the packages of tests/requirements.txt, and those of
# another list in tests/. They are installed once for the tests of all builds.
packages=$SOURCE/build/python
python=$packages/bin/python
python_packages() {
    mkdir -p "$SOURCE/build"
    (
        flock 9
        "$python" -c "import gguf, numpy, tokenizers, sentencepiece${1:+, $1}" 2>/dev/null && exit
        python3 -m venv "$packages" &&
            timeout 300 "$python" -m pip install --quiet --disable-pip-version-check -r "$SOURCE/tests/requirements.txt" \
                ${2:+-r "$SOURCE/tests/$2"}
    ) 9>"$packages.lock" >/dev/null 2>&1
}
no_python_packages="Python has not the packages of tests/requirements.txt, and pip cannot install them"

sanitized() { # the program was compiled with sanitizers, and is several times slower
    ! grep -q '^HEARTH_SANITIZE:STRING=$' "$BUILD/CMakeCache.txt"
}

pass() {
    checks=$((checks + 1))
}

fail() {
    checks=$((checks + 1))
    failures=$((failures + 1))
    echo "FAIL: $*"
}

# is WHAT GOT EXPECTED
is() {
    if [ "$2" = "$3" ]; then pass; else fail "$1: got '$2', expected '$3'"; fi
}

# has WHAT TEXT PATTERN: a shell pattern somewhere in the text
has() {
    case "$2" in
        *$3*) pass ;;
        *) fail "$1: '$2' lacks '$3'" ;;
    esac
}

# near WHAT GOT EXPECTED BOUND
near() {
    if awk -v a="$2" -v b="$3" -v e="$4" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= e) }'; then
        pass
    else
        fail "$1: got $2, expected $3 within $4"
    fi
}

# close WHAT FILE REFERENCE BOUND [FIRST]: relative distance of two files of logits
close() {
    local seen
    if seen=$("$TOOLS/compare_logits" "${@:2}" 2>&1); then
        pass
    else
        fail "$1: relative distance $seen, bound $4"
    fi
    printf '  %-44s %s\n' "$1" "$seen"
}

value() { # value FILE PATH
    "$TOOLS/json_value" "$1" "$2"
}

# refused STATUS PATTERN COMMAND...: exits so, with exactly one line "hearth: ..." on standard error
refused() {
    local want=$1 pattern=$2 got=0 lines
    shift 2
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
    lines=$(wc -l <"$scratch/err")
    is "exit status of: ${*##*/}" "$got" "$want"
    is "lines on standard error of: ${*##*/}" "$lines" 1
    has "message of: ${*##*/}" "$(cat "$scratch/err")" "$pattern"
    case "$(cat "$scratch/err")" in
        "hearth: "*) pass ;;
        *) fail "message of: ${*##*/}: does not begin with 'hearth: '" ;;
    esac
}

# Whether a program can be given a terminal of its own here.
has_terminal() {
    command -v script >/dev/null &&
        [ "$(script -qec 'echo yes' /dev/null </dev/null 2>/dev/null | tr -d '\r')" = yes ]
}

# open_terminal COMMAND: runs it at a terminal of its own; what is written to descriptor 3 is typed there.
open_terminal() {
    seen=1
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

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ]
}
