# cli_eval_humaneval.sh - programs that were right stay right, a wrong one is found out, a model is asked; wrong use.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit
problems=$DATA/corpora/HumanEval.jsonl.gz
unset HEARTH_HUMANEVAL

evaluate() { "$HEARTH" eval humaneval "$@"; }

# Wrong use, before anything is run.
refused 2 "MODEL: is missing" evaluate --problems "$problems"
refused 2 "--problems: is missing" evaluate model
refused 2 "nothing for a MODEL" evaluate model --completions x --problems "$problems"
refused 2 "a file already" evaluate --completions x --save y --problems "$problems"
for options in "-n 5" "--temp 1" "-s 1" "-t 2" "-c 64" "--sparsity exact" "--tune none"; do
    # shellcheck disable=SC2086 # an option and its value
    refused 2 "is for a model, --completions are there already" evaluate --completions x --problems "$problems" $options
done
refused 1 "No such file" evaluate model --problems "$scratch/none"
refused 1 "no/folder/x: cannot " evaluate model --problems "$problems" --save "$scratch/no/folder/x"
refused 2 "--save: needs the name of a file" evaluate model --problems "$problems" --save ""
echo '{"task_id": "a"' >"$scratch/broken"
refused 1 "broken: line 1: " evaluate model --problems "$scratch/broken"
# Without bubblewrap nothing is run.
refused 1 "sandbox: bwrap: is not installed" env PATH=/nowhere "$HEARTH" eval humaneval model --problems "$problems"

# The rest needs a sandbox and a Python in it.
cat >"$scratch/one" <<'EOF'
{"task_id":"t","prompt":"def f():\n","entry_point":"f","test":"def check(f):\n  assert f() == 1\n"}
EOF
echo '{"task_id":"t","completion":"  return 1\n"}' >"$scratch/right"
if ! evaluate --completions "$scratch/right" --problems "$scratch/one" >"$scratch/out" 2>"$scratch/err"; then
    [ "$failures" -eq 0 ] || finish
    skip "$(cat "$scratch/err")"
fi
has "report" "$(cat "$scratch/out")" "pass@1 1.0000, standard error 0.0000: 1 of 1 completions of 1 problem passed"
has "where it is run" "$(cat "$scratch/err")" "in a sandbox (bubblewrap"
is "problems of the environment" \
    "$(HEARTH_HUMANEVAL=$scratch/one evaluate --completions "$scratch/right" 2>/dev/null)" "$(cat "$scratch/out")"

# Interrupted while a program runs, which does not take its time to end.
echo '{"task_id":"t","completion":"  while True: pass\n"}' >"$scratch/endless"
status=0 after=1
sanitized && after=10
timeout --foreground --preserve-status -k 60 -s INT $after "$HEARTH" eval humaneval --completions "$scratch/endless" \
    --problems "$scratch/one" --timeout 600 >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
is "exit status when interrupted" "$status" 130
is "message when interrupted" "$(tail -n 1 "$scratch/err")" "hearth: sandbox: cancelled"

# All canonical solutions, cut out of the file as JSON has them.
gzip -dc "$problems" |
    sed -E 's/^(."task_id": "[^"]*", ).*"canonical_solution": ("([^"\\]|\\.)*").*/\1"completion": \2}/' \
        >"$scratch/canonical"
is "completions" "$(wc -l <"$scratch/canonical")" 164
evaluate --completions "$scratch/canonical" --problems "$problems" --timeout 60 --json >"$scratch/json" 2>"$scratch/err"
is "canonical solutions" "$(value "$scratch/json" solved) $(value "$scratch/json" pass_at_1)" "164 1"
is "with --json nothing else is said" "$(cat "$scratch/err")" ""

# Ten of them, one wrong.
{
    head -n 3 "$scratch/canonical"
    echo '{"task_id": "HumanEval/3", "completion": "    return True\n"}'
    sed -n 5,10p "$scratch/canonical"
} >"$scratch/nine"
is "ten right" "$(evaluate --completions "$scratch/canonical" --problems "$problems" --limit 10 2>/dev/null)" \
    "pass@1 1.0000, standard error 0.0000: 10 of 10 completions of 10 problems passed"
evaluate --completions "$scratch/nine" --problems "$problems" --limit 10 --each >"$scratch/out" 2>/dev/null
has "nine right" "$(cat "$scratch/out")" "pass@1 0.9000, standard error 0.1000: 9 of 10 completions"
has "the wrong one" "$(cat "$scratch/out")" "HumanEval/3: AssertionError"
is "lines" "$(grep -c ': passed$' "$scratch/out")" 9
refused 1 "nine: completions of $problems: HumanEval/10: there is none" \
    evaluate --completions "$scratch/nine" --problems "$problems"

# A model that has read stories: from end to end, the same again from its saved completions.
evaluate "$DATA/models/stories-relu" --problems "$problems" --limit 2 -n 32 --save "$scratch/saved" --json \
    >"$scratch/json"
is "a storyteller" "$(value "$scratch/json" pass_at_1) $(value "$scratch/json" tried)" "0 2"
is "tokens" "$(value "$scratch/json" tokens)" 64
is "saved" "$(wc -l <"$scratch/saved")" 2
evaluate --completions "$scratch/saved" --problems "$problems" --limit 2 --json >"$scratch/again"
for i in 0 1; do
    is "why $i" "$(value "$scratch/json" "by_problem.$i.why")" "$(value "$scratch/again" "by_problem.$i.why")"
    has "task $i" "$(value "$scratch/again" "by_problem.$i.task_id")" "HumanEval/$i"
done
finish
