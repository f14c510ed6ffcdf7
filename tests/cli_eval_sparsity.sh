# cli_eval_sparsity.sh - sweeps and the pictures of a profile: rows that hang together, files that are whole or not there.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

text=$DATA/golden/real/nll-text.txt
ln -s "$DATA/models/stories260K-relu" "$scratch/relu"
ln -s "$DATA/models/stories260K" "$scratch/silu"
quick="-t 2 -c 128 --no-speed"

# A column of the CSV by its name, of the line of a setting.
cell() { # cell FILE SETTING COLUMN
    awk -F, -v setting="$2" -v column="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i }
        $1 == setting { print $at }' "$1"
}

# Without a tune file: what needs none, and one line that says what is missing.
"$HEARTH" eval sparsity "$scratch/relu" "$text" -t 2 -c 64 --windows 2 -r 2 --csv "$scratch/two.csv" >"$scratch/table"
is "settings without a tune file" "$(cut -d, -f1 "$scratch/two.csv" | tr '\n' ' ')" "setting dense exact "
is "columns" "$(awk -F, '{ print NF }' "$scratch/two.csv" | sort -u)" 17
has "table" "$(cat "$scratch/table")" "exact            exact"
for column in tokens_per_second relative_speed density bytes_per_token quality same_top; do
    awk -v x="$(cell "$scratch/two.csv" exact $column)" 'BEGIN { exit !(x + 0 == x && x != "") }' && pass ||
        fail "$column of exact is not a number"
done
is "speed of dense" "$(cell "$scratch/two.csv" dense relative_speed)" 1
near "divergence of dense" "$(cell "$scratch/two.csv" dense quality)" 0 1e-5
near "divergence of exact" "$(cell "$scratch/two.csv" exact quality)" 0 1e-5
# The same bytes and density as `hearth eval kl` and bench would have: those of the one engine.
is "dense density" "$(cell "$scratch/two.csv" dense density)" 1
refused 1 "predict" "$HEARTH" eval sparsity "$scratch/relu" "$text" --settings predicted
refused 1 "tune" "$HEARTH" eval sparsity "$scratch/relu" "$text" --settings pruned
refused 1 "hearth profile" "$HEARTH" eval sparsity "$scratch/relu" "$text" --settings hot-only=0.5
refused 1 "mode exact" "$HEARTH" eval sparsity "$scratch/silu" "$text" --settings exact
refused 1 "hearth profile" "$HEARTH" inspect "$scratch/relu" --plot "$scratch/none.svg"
[ -e "$scratch/none.svg" ] && fail "a picture of nothing" || pass

# Wrong use.
refused 2 "TEXT: is missing" "$HEARTH" eval sparsity "$scratch/relu"
refused 2 "'frob' is none" "$HEARTH" eval sparsity "$scratch/relu" "$text" --settings dense,frob
refused 2 "needs the name of a file" "$HEARTH" eval sparsity "$scratch/relu" "$text" --svg -
refused 2 "needs --separator" "$HEARTH" eval sparsity "$scratch/relu" "$text" --task ppl --documents 3
refused 2 "limit: is not for this task; --documents is" "$HEARTH" eval sparsity "$scratch/relu" "$text" --task ppl --limit 3
refused 2 "limit: is not for this task; --windows is" "$HEARTH" eval sparsity "$scratch/relu" "$text" --limit 3
refused 2 "windows: is not for this task; --limit is" "$HEARTH" eval sparsity "$scratch/relu" "$text" --task humaneval --windows 3
refused 2 "problems need none" "$HEARTH" eval sparsity "$scratch/relu" "$text" --separator x --task humaneval
refused 2 "standard output already" "$HEARTH" eval sparsity "$scratch/relu" "$text" --json --csv -
refused 2 "is for --task humaneval" "$HEARTH" eval sparsity "$scratch/relu" "$text" --timeout 3
refused 2 "--csv: needs the name of a file" "$HEARTH" eval sparsity "$scratch/relu" "$text" --csv ""
refused 1 "No such file" "$HEARTH" eval sparsity "$scratch/relu" "$text" --csv "$scratch/none/x.csv"
refused 1 "No such file" "$HEARTH" eval sparsity "$scratch/relu" "$scratch/none.txt"
refused 1 "two windows" "$HEARTH" eval sparsity "$scratch/relu" "$text" -c 512 --settings dense
refused 1 "No such file" "$HEARTH" eval sparsity "$scratch/relu" "$text" -c 64 --predictors "$scratch/none.tune"
refused 2 "needs the name of a file" "$HEARTH" inspect "$scratch/relu" --plot -

# With a profile: the hotter, the better; bytes fall with density.
"$HEARTH" profile "$scratch/relu" --corpus "$text" -t 2 --probe-tokens 0 >/dev/null
# shellcheck disable=SC2086 # several options
"$HEARTH" eval sparsity "$scratch/relu" "$text" $quick --settings dense,exact,hot-only=0.25:1:0.25,cold-only=0.5 \
    --csv "$scratch/hot.csv" --svg "$scratch/a&b.svg" --json >"$scratch/hot.json"
is "rows" "$(wc -l <"$scratch/hot.csv")" 8
before=0 bytes=0
for share in 0.25 0.5 0.75 1; do
    now=$(cell "$scratch/hot.csv" hot-only=$share density)
    now_bytes=$(cell "$scratch/hot.csv" hot-only=$share bytes_per_token)
    awk -v a="$before" -v b="$now" -v c="$bytes" -v d="$now_bytes" 'BEGIN { exit !(b > a && d > c) }' && pass ||
        fail "hot-only=$share: density $now after $before, bytes $now_bytes after $bytes"
    near "let through of hot-only=$share" "$(cell "$scratch/hot.csv" hot-only=$share let_through)" $share 0.01
    before=$now bytes=$now_bytes
done
for column in quality density bytes_per_token perplexity; do
    is "$column of all neurons kept" "$(cell "$scratch/hot.csv" hot-only=1 $column)" "$(cell "$scratch/hot.csv" exact $column)"
done
awk -v h="$(cell "$scratch/hot.csv" hot-only=0.5 quality)" -v c="$(cell "$scratch/hot.csv" cold-only=0.5 quality)" \
    'BEGIN { exit !(h < c) }' && pass || fail "the cold half is worth more than the hot one"
near "the halves' densities" "$(awk -v h="$(cell "$scratch/hot.csv" hot-only=0.5 density)" \
    -v c="$(cell "$scratch/hot.csv" cold-only=0.5 density)" 'BEGIN { print h + c }')" \
    "$(cell "$scratch/hot.csv" exact density)" 0.05
is "JSON: rows" "$(value "$scratch/hot.json" rows.6.setting)" cold-only=0.5
is "JSON: guarantee" "$(value "$scratch/hot.json" rows.2.guarantee)" lossy
value "$scratch/hot.json" rows.7 >/dev/null && fail "an eighth row" || pass

# Perplexity is that of `hearth eval ppl`.
# shellcheck disable=SC2086
"$HEARTH" eval sparsity "$scratch/relu" "$text" $quick --task ppl --settings dense --csv - >"$scratch/ppl.csv"
"$HEARTH" eval ppl "$scratch/relu" "$text" -t 2 -c 128 --sparsity dense --json >"$scratch/ppl.json"
near "perplexity" "$(cell "$scratch/ppl.csv" dense quality)" "$(value "$scratch/ppl.json" perplexity)" 1e-6
is "tokens" "$(cell "$scratch/ppl.csv" dense scored)" "$(value "$scratch/ppl.json" tokens)"

# Pictures.
"$HEARTH" inspect "$scratch/relu" --plot "$scratch/relu.svg" >"$scratch/out"
is "inspect --plot says nothing" "$(cat "$scratch/out")" ""
"$HEARTH" profile "$scratch/silu" --corpus "$text" -t 2 --probe-tokens 0 >/dev/null
"$HEARTH" inspect "$scratch/silu" --plot "$scratch/silu.svg"
has "picture of a profile" "$(cat "$scratch/relu.svg")" ">Density by layer</text>"
has "picture of a profile: power law" "$(cat "$scratch/relu.svg")" "of neurons do 80 % of the work</text>"
has "picture of a SiLU model" "$(cat "$scratch/silu.svg")" ">How large activations are</text>"
has "picture of a sweep" "$(cat "$scratch/a&b.svg")" ">hot-only</text>"
has "picture of a sweep, in words" "$(cat "$scratch/a&b.svg")" "hot-only: 25 %, density"
if command -v xmllint >/dev/null; then
    for picture in "$scratch"/*.svg; do
        xmllint --noout "$picture" && pass || fail "${picture##*/} is not well-formed"
    done
fi
is "half-written files" "$(find "$scratch" -name '.*.svg*' -o -name '.*.csv*' | wc -l)" 0
TMPDIR=$scratch/none refused 1 "No such file" "$HEARTH" eval sparsity "$scratch/relu" "$text" -c 64 --settings dense

# Programs, of problems that are solved or not whatever the model writes: it goes into a string. One takes its time.
problem() { # problem NAME VALUE TEST
    printf '{"task_id":"%s","prompt":"def f():\\n  return %s\\n  \\"\\"\\"","entry_point":"f","test":"\\"\\"\\"\\n%s"}\n' "$@"
}
{
    problem right 1 'def check(f):\n  assert f() == 1\n'
    problem wrong 2 'def check(f):\n  assert f() == 1\n'
    problem slow 1 'import time\ndef check(f):\n  time.sleep(8)\n'
    problem right-too 1 'def check(f):\n  assert f() == 1\n'
} >"$scratch/problems"
programs() { # programs ARGUMENTS...: pass@1 of dense, and of how many; one line of what else was said
    # shellcheck disable=SC2086 # several options
    "$HEARTH" eval sparsity "$scratch/relu" "$scratch/problems" $quick --task humaneval --settings dense --csv \
        "$scratch/programs.csv" "$@" 2>"$scratch/err" >/dev/null || return
    echo "$(cell "$scratch/programs.csv" dense quality) of $(cell "$scratch/programs.csv" dense scored)"
}
refused 1 "sandbox: bwrap: is not installed" env PATH=/nowhere "$HEARTH" eval sparsity "$scratch/relu" \
    "$scratch/problems" --task humaneval
refused 1 "nll-text.txt: line 1: " "$HEARTH" eval sparsity "$scratch/relu" "$text" --task humaneval
if got=$(programs --limit 2 --settings dense,exact); then
    is "programs, the first two" "$got" "0.5 of 2"
    is "settings of programs" "$(cut -d, -f1 "$scratch/programs.csv" | tr '\n' ' ')" "setting dense exact "
    has "where they are run" "$(cat "$scratch/err")" "in a sandbox (bubblewrap"
    is "no perplexity of programs" "$(cell "$scratch/programs.csv" dense perplexity)" ""
    is "programs" "$(programs)" "0.75 of 4"
    has "how long they may take" "$(cat "$scratch/err")" "at most 10 s"
    is "programs in a hurry" "$(programs --timeout 5)" "0.5 of 4"
    has "how long they may take in a hurry" "$(cat "$scratch/err")" "at most 5 s"
    "$HEARTH" eval humaneval "$scratch/relu" --problems "$scratch/problems" -t 2 -c 128 --timeout 5 --sparsity dense \
        --json >"$scratch/programs.json"
    is "the same of eval humaneval" "$(value "$scratch/programs.json" pass_at_1)" 0.5
    programs --limit 1 --json >/dev/null
    is "with --json nothing else is said" "$(cat "$scratch/err")" ""
else
    echo "without programs: $(cat "$scratch/err")"
fi

finish
