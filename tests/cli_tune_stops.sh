# cli_tune_stops.sh - `hearth tune` that is killed goes on to the same file; one that lacks memory or disk, or is given bad
# input, says so in one line and leaves nothing behind.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$DATA/models/stories-relu
text=$scratch/text.txt
size=14000
sanitized && size=5000
head -c $size "$SOURCE/models/stories-held.txt" >"$text"
export HEARTH_NO_CACHE=1

tune() { # tune OUT OPTION...: a small tuning whose result is no matter of clocks
    "$HEARTH" tune "$model" --corpus "$text" --out "$1" --choose bytes --recall 0.98 --epochs 2 "${@:2}"
}

# ------------------------------------------------------------------ killed and gone on with
command -v timeout >/dev/null || skip "timeout is absent"
whole=$scratch/whole.tune # without a stop
tune "$whole" >/dev/null 2>&1
for signal in KILL INT; do
    out=$scratch/killed-$signal.tune
    stops=0
    patience=0.05
    status=1
    while [ $status -ne 0 ] && [ $stops -lt 60 ]; do
        status=0
        timeout --foreground --preserve-status -s $signal $patience "$HEARTH" tune "$model" --corpus "$text" --out "$out" \
            --choose bytes --recall 0.98 --epochs 2 >/dev/null 2>"$scratch/err" || status=$?
        # between the file and the tidying up there is a moment too
        { [ ! -e "$out" ] || cmp -s "$out" "$whole"; } && pass || fail "half a file after SIG$signal"
        [ $status -eq 0 ] && break
        stops=$((stops + 1))
        if [ $signal = INT ]; then
            is "exit status after SIGINT" $status 130
            # a process so young that it has no handler yet ends without a word; then there is no folder either
            lines=$(wc -l <"$scratch/err")
            [ "$lines" = 0 ] && [ ! -e "$out.work" ] && pass || is "lines after SIGINT" "$lines" 1
            # before there is a folder nothing lies in it: then the corpus was still being read
            [ ! -e "$out.work" ] || has "where the work lies" "$(cat "$scratch/err")" \
                "$model: tuning was interrupted; its work lies in $out.work, and the same command goes on from there"
        fi
        patience=$(awk -v p=$patience 'BEGIN { print p * 1.3 + 0.05 }')
    done
    echo "  stopped $stops times by SIG$signal"
    [ $stops -gt 0 ] && pass || fail "SIG$signal came too late"
    cmp -s "$out" "$whole" && pass || fail "going on after SIG$signal gave another file"
    [ ! -e "$out.work" ] && pass || fail "the work folder of SIG$signal is still there"
done

# With little memory it ends, one way or the other, and by itself: training once tried for ever to get some.
if (ulimit -v 130000 && "$HEARTH" --version) >/dev/null 2>&1; then
    status=0
    (ulimit -v 130000 && timeout --foreground -s KILL 120 "$HEARTH" tune "$model" --corpus "$text" --choose bytes --epochs 1 \
        --out "$scratch/tight.tune") >/dev/null 2>"$scratch/err" || status=$?
    case $status:$(wc -l <"$scratch/err") in
        0:*) [ -s "$scratch/tight.tune" ] && pass || fail "no file with little memory" ;;
        1:1) has "with little memory" "$(cat "$scratch/err")" "memory" ;;
        *) fail "with little memory: exit status $status, $(cat "$scratch/err")" ;;
    esac
fi

# ------------------------------------------------------------------ refused
none() { # none WHAT: nothing was left beside x.tune
    [ ! -e "$scratch/x.tune" ] && [ -z "$(ls -A "$scratch/x.tune.work" 2>/dev/null)" ] && pass || fail "$1 left something"
}
: >"$scratch/empty.txt"
head -c 3000 "$model/model.safetensors" >"$scratch/binary.txt"
refused 1 empty.txt "$HEARTH" tune "$model" --corpus "$scratch/empty.txt" --out "$scratch/x.tune"
none "an empty text"
refused 1 binary.txt "$HEARTH" tune "$model" --corpus "$scratch/binary.txt" --out "$scratch/x.tune"
none "a binary text"
refused 1 absent.txt "$HEARTH" tune "$model" --corpus "$text" "$scratch/absent.txt" --out "$scratch/x.tune"
refused 2 "--corpus" "$HEARTH" tune "$model" --out "$scratch/x.tune"
refused 2 "--corpus" "$HEARTH" tune "$model" --corpus "$text" --ids "$scratch/ids"
refused 2 "--separator: is for texts" "$HEARTH" tune "$model" --ids "$scratch/ids" --separator x
refused 1 "allowed" "$HEARTH" tune "$model" --corpus "$text" --out "$scratch/small.tune" --disk 1K
refused 2 "--budget" "$HEARTH" tune "$model" --corpus "$text" --budget 7x
refused 2 "--disk" "$HEARTH" tune "$model" --corpus "$text" --disk lots
refused 2 "--disk" "$HEARTH" tune "$model" --corpus "$text" --disk -4G
refused 1 "another model" "$HEARTH" run "$DATA/models/stories260K-relu" --tune "$whole" -p a -n 1
refused 1 "tune" "$HEARTH" tune "$model" --corpus "$text" --out "$scratch/nowhere/x.tune"

# A full disk, in the middle of whatever it meets first.
full() (
    ulimit -f "$1"
    exec "$HEARTH" tune "$model" --corpus "$text" --out "$scratch/x.tune" --choose bytes --epochs 1
)
for blocks in 1 20 200; do # of 1024 bytes
    refused 1 "File too large" full $blocks
    [ ! -e "$scratch/x.tune" ] && pass || fail "a full disk left half a tune file"
done
"$HEARTH" tune "$model" --corpus "$text" --out "$scratch/x.tune" --choose bytes --epochs 1 >/dev/null && pass ||
    fail "going on after a full disk"

finish
