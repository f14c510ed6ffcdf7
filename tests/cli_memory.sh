# cli_memory.sh - `hearth run` where the n-th allocation fails: the whole answer, or one line and status 1; never a shorter
# answer that looks like one.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
library=$TOOLS/libfail_malloc.so
[ -e "$library" ] || skip "$library is absent: sanitizers have a malloc of their own"
export HEARTH_NO_CACHE=1
model=$SOURCE/models/stories-relu-q8_0.gguf

# More tokens than the list of ids has room for at first, so that it grows in the middle of the answer.
run() { # run [NAME=VALUE]
    env "$@" LD_PRELOAD="$library" "$HEARTH" run "$model" -p "Once upon a time" --temp 0 -n 300 --ignore-eos --no-guard \
        -t 1 --json >"$scratch/out" 2>"$scratch/err"
}

run FAIL_MALLOC_COUNT="$scratch/count" && pass || fail "without a failure: $(cat "$scratch/err")"
whole=$(value "$scratch/out" ids)
count=$(cat "$scratch/count")
echo "  $count allocations"
[ "$count" -gt 50 ] && pass || fail "only $count allocations"

# Every one of the last, which are those of the answer and of what comes after it; of the others some.
answers=0 errors=0
for ((n = 0; n <= count; n += n + 60 < count ? 17 : 1)); do
    got=0
    run FAIL_MALLOC_AT="$n" || got=$?
    case $got in
        0) answers=$((answers + 1)) && is "the answer where allocation $n fails" "$(value "$scratch/out" ids)" "$whole" ;;
        1)
            errors=$((errors + 1))
            is "lines where allocation $n fails" "$(wc -l <"$scratch/err")" 1
            has "the line where allocation $n fails" "$(cat "$scratch/err")" "memory"
            ;;
        *) fail "allocation $n: exit status $got: $(cat "$scratch/err")" ;;
    esac
done
echo "  $answers answers, $errors errors"
[ "$errors" -gt 20 ] && pass || fail "only $errors errors"

# `hearth bench --simulate-vram`, which makes several engines with devices of their own: a table, or the same line. The
# machine is measured once.
ways() { # ways [NAME=VALUE]
    env -u HEARTH_NO_CACHE XDG_CACHE_HOME="$scratch/cache" "$@" LD_PRELOAD="$library" "$HEARTH" bench "$model" \
        --simulate-vram 2M --device host,threads=1 -t 1 --ids 5,6,7 --prompt-lengths 4 -n 2 -r 1 --sparsity exact --no-guard --json >"$scratch/out" 2>"$scratch/err"
}
ways && pass || fail "a first time: $(cat "$scratch/err")"
ways FAIL_MALLOC_COUNT="$scratch/count" && pass || fail "ways without a failure: $(cat "$scratch/err")"
count=$(cat "$scratch/count") tables=0 errors=0
echo "  $count allocations"
[ "$count" -gt 50 ] && pass || fail "only $count allocations of ways"
for ((n = 0; n <= count; n += 1 + count / 12)); do
    got=0
    ways FAIL_MALLOC_AT="$n" || got=$?
    case $got in
        0) tables=$((tables + 1)) ;;
        1)
            errors=$((errors + 1))
            is "lines where allocation $n of ways fails" "$(grep -c '^hearth: ' "$scratch/err")" 1
            ;;
        *) fail "allocation $n of ways: exit status $got: $(cat "$scratch/err")" ;;
    esac
done
echo "  $tables tables, $errors errors"
[ "$errors" -gt 3 ] && pass || fail "only $errors errors of ways"

finish
