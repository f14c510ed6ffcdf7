# cli_profile.sh - `hearth profile`: figures, the tune file, going on after Ctrl-C, bad texts; and `pack`, which uses it.
. "${SOURCE:?is set by ctest: ctest --test-dir BUILD -R NAME}/tests/lib.sh" || exit

model=$scratch/stories
ln -s "$(realpath "$DATA/models/stories-relu")" "$model"
text=$SOURCE/models/stories-held.txt
said=$scratch/said
mark='<|endoftext|>'
size=54000 # long enough for figures
sanitized && size=16000
head -c $size "$text" >"$scratch/a"
tail -c 6000 "$text" >"$scratch/b"  # for all that does not depend on the length

# ------------------------------------------------------------------ figures
"$HEARTH" profile "$model" --corpus "$scratch/a" "$scratch/b" --separator "$mark" --json >"$said" 2>"$scratch/err"
is "standard error" "$(cat "$scratch/err")" ""
# The model's own README: density 0.1345, layer by layer 0.1202 ... 0.1793 on held-out stories.
sanitized || {
    near "density" "$(value "$said" density)" 0.1345 0.004
    near "density of layer 0" "$(value "$said" layers.0.density)" 0.1202 0.004
    near "density of layer 3" "$(value "$said" layers.3.density)" 0.0137 0.002
    near "median of layer 5" "$(value "$said" layers.5.median_density)" 0.180 0.006
}
is "union of one" "$(value "$said" layers.2.union_density.0)" "$(value "$said" layers.2.density)"
is "corpus" "$(value "$said" corpus.0) $(value "$said" corpus.1)" "$scratch/a $scratch/b"
is "bytes" "$(value "$said" corpus_bytes)" $((size + 6000))
is "tune file" "$(value "$said" tune)" "$model.tune"
is "probed" "$(value "$said" hot_only.top1.0.share) $(value "$said" hot_only.top1.2.share)" "0.2 0.6"
near "hottest 60 %" "$(value "$said" hot_only.top1.2.agreement)" 0.95 0.05
[ -e "$model.tune.work" ] && fail "the work folder is left" || pass
tokens=$(value "$said" tokens)

# The tune file is there and is read.
"$HEARTH" inspect "$model" --json >"$said" 2>/dev/null
is "tokens in the tune file" "$(value "$said" tune.tokens)" "$tokens"
"$HEARTH" run "$model" -p "Once upon a time" -n 4 --temp 0 >"$said" 2>"$scratch/err" || fail "run with a tune file"

# For people; another text replaces the counts.
"$HEARTH" profile "$model" --corpus "$scratch/b" --separator "$mark" >"$said" 2>"$scratch/err"
has "summary" "$(cat "$said")" "written to $model.tune"
has "hot only" "$(cat "$said")" "which were counted too"
has "published" "$(cat "$said")" "OPT-30B"
"$HEARTH" inspect "$model" --json >"$said.2" 2>/dev/null
is "replaced" "$(value "$said.2" tune.tokens)" "$(sed -n '1s/.*: \([0-9]*\) tokens in .*/\1/p' "$said")"

# ------------------------------------------------------------------ what is written, and where
rm "$model.tune"
"$HEARTH" profile "$model" --corpus "$scratch/b" --no-save --json --probe-tokens 0 >"$said"
[ -e "$model.tune" ] || [ -e "$model.tune.work" ] && fail "--no-save saved" || pass
is "not probed" "$(value "$said" hot_only)" null
is "not saved" "$(value "$said" tune)" null
"$HEARTH" profile "$model" --corpus "$scratch/b" --out "$scratch/other" --probe-tokens 0 >/dev/null
[ -e "$scratch/other" ] && [ ! -e "$model.tune" ] && pass || fail "--out FILE"
"$HEARTH" inspect "$model" --tune "$scratch/other" --json >"$said" 2>/dev/null && pass || fail "inspect --tune"

# What is needed to cite it, in the object and in the picture.
ln -s "$DATA/golden/nemotron-h-moe/model.gguf" "$scratch/tiny model.gguf"
"$HEARTH" profile "$scratch/tiny model.gguf" --corpus "$scratch/b" --no-save --probe-tokens 0 --plot "$scratch/p.svg" --json >"$said"
is "command" "$(value "$said" command)" \
    "hearth profile '$scratch/tiny model.gguf' --corpus $scratch/b --no-save --probe-tokens 0 --plot $scratch/p.svg --json"
is "family" "$(value "$said" model.family)" nemotron_h_moe
is "a layer without a network" "$(value "$said" layers.0)" null
near "tokens of the first expert" "$(value "$said" layers.1.experts.tokens.0)" 500 500
near "density of the last expert" "$(value "$said" layers.7.experts.density.8)" 0.3 0.1
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$scratch/p.svg" && pass || fail "the picture is no XML"
has "what was read" "$(cat "$scratch/p.svg")" "$(value "$said" tokens) tokens of b (digest"
refused 1 "No such file" "$HEARTH" profile "$model" --corpus "$scratch/b" --plot "$scratch/none/p.svg"

# Threads change nothing but the seconds.
for t in 1 3; do
    "$HEARTH" profile "$model" --corpus "$scratch/b" -t $t --json --no-save | sed 's/"seconds":[^,]*,//; s/"command":"[^"]*"//' >"$said.$t"
done
cmp -s "$said.1" "$said.3" && pass || fail "one thread and three differ"

# Ids in place of a text: the same tokens, the same counts.
"$HEARTH" tokenize "$model" -f "$scratch/b" --no-special | cut -d' ' -f1-400 >"$scratch/ids"
"$HEARTH" profile "$model" --ids "$scratch/ids" --json --no-save --probe-tokens 0 >"$said.1"
"$HEARTH" profile "$model" --ids "@$scratch/ids" --json --no-save --probe-tokens 0 >"$said.2"
is "ids" "$(value "$said.1" tokens) $(value "$said.1" density)" "400 $(value "$said.2" density)"

# What `tune` has put into the file stays, but for the counts; with --anew all of it is replaced.
head -c 10000 "$text" >"$scratch/c"
"$HEARTH" tune "$model" --corpus "$scratch/c" --epochs 1 >/dev/null 2>"$scratch/err" || fail "tune: $(cat "$scratch/err")"
"$HEARTH" inspect "$model" --json >"$said.1"
"$HEARTH" profile "$model" --corpus "$scratch/b" --probe-tokens 0 >/dev/null
"$HEARTH" inspect "$model" --json >"$said.2"
for part in predictors predictor_bytes prune_levels.4 layers.3.predictor.kind layers.3.prune.5 report.corpus_digest; do
    is "$part stays" "$(value "$said.2" tune.$part)" "$(value "$said.1" tune.$part)"
done
[ "$(value "$said.2" tune.tokens)" != "$(value "$said.1" tune.tokens)" ] && pass || fail "the counts stayed"
"$HEARTH" profile "$model" --corpus "$scratch/c" --probe-tokens 0 --anew >/dev/null
"$HEARTH" inspect "$model" --json >"$said"
value "$said" tune.report.corpus_digest >/dev/null 2>&1 && fail "--anew kept something" || pass
rm -r "$model.tune" "$model.tune.work" 2>/dev/null || true

# ------------------------------------------------------------------ --importance
importance() { # importance FILE OPTIONS...
    "$HEARTH" profile "$model" --corpus "$scratch/b" --separator "$mark" --probe-tokens 0 --importance "$@"
}
importance "$scratch/imatrix.1" -t 1 >"$said" 2>"$scratch/err"
is "standard error" "$(cat "$scratch/err")" ""
has "importance" "$(cat "$said")" "importance of the columns of 42 tensors written to $scratch/imatrix.1"
[ -e "$model.tune" ] && pass || fail "no tune file beside the importance matrix"
rm "$model.tune"
importance "$scratch/imatrix.3" -t 3 --no-save --json >"$said"
is "importance" "$(value "$said" importance)" "$scratch/imatrix.3"
[ -e "$model.tune" ] && fail "--no-save saved" || pass
cmp -s "$scratch/imatrix.1" "$scratch/imatrix.3" && pass || fail "one thread and three differ"
"$HEARTH" quantize "$model" "$scratch/weighed.gguf" iq4_nl --importance "$scratch/imatrix.1" 2>"$scratch/err"
has "quantize reads it" "$(cat "$scratch/err")" "importance: 42 of 56 tensors"

# ------------------------------------------------------------------ Ctrl-C, and going on
# Interrupted as soon as it counts, in windows so short that there is always a whole one behind it.
interrupted() { # interrupted ARGUMENTS...
    local got=0 i
    env --default-signal=INT "$HEARTH" profile "$model" --window 8 -t 1 --cpu scalar "$@" >"$said" 2>"$scratch/err" &
    for ((i = 0; i < 600; i++)); do
        [ -e "$model.tune.work" ] && break
        sleep 0.05
    done
    sleep 0.3
    kill -INT $! || true
    wait $! || got=$?
    is "exit status when interrupted" $got 130
    has "message when interrupted" "$(tail -n 1 "$scratch/err")" "profile: cancelled after "
    [ -e "$model.tune" ] && fail "half a profile was saved" || pass
    [ -e "$model.tune.work/profile" ] && pass || fail "nothing is kept"
}
"$HEARTH" tokenize "$model" -f "$scratch/a" --no-special | cut -d' ' -f1-6000 >"$scratch/long"
interrupted --ids "$scratch/long"
# A corpus of another kind does not go on from it.
"$HEARTH" profile "$model" --corpus "$scratch/b" --json --probe-tokens 0 >"$said" 2>"$scratch/err"
has "set aside" "$(cat "$scratch/err")" "of another corpus and were set aside as profile.old; counting begins afresh"
"$HEARTH" profile "$model" --corpus "$scratch/b" --no-save --json --probe-tokens 0 >"$said.2"
is "counted afresh" "$(value "$said" density)" "$(value "$said.2" density)"
rm -r "$model.tune" "$model.tune.work"
interrupted --ids "$scratch/long"
again=(profile "$model" --window 8 --ids "$scratch/long" --json --probe-tokens 0)
"$HEARTH" "${again[@]}" >"$said" 2>"$scratch/err"
has "going on" "$(cat "$scratch/err")" "tokens that were counted before"
"$HEARTH" "${again[@]}" --no-save >"$said.2" 2>"$scratch/err"
is "the same tokens in two goes" "$(value "$said" tokens)" "$(value "$said.2" tokens)"
near "the same density in two goes" "$(value "$said" density)" "$(value "$said.2" density)" 1e-4 # scalar, then not
[ -e "$model.tune.work" ] && fail "the work folder is left" || pass

# ------------------------------------------------------------------ pack takes the counts from the tune file
rm -f "$model.tune"
"$HEARTH" profile "$model" --corpus "$scratch/b" --probe-tokens 0 >/dev/null
"$HEARTH" pack "$model" "$scratch/packed.gguf" --order hotness --json >"$said" 2>/dev/null
is "whose profile" "$(value "$said" profile_of)" "tune file"
"$HEARTH" pack "$model" "$scratch/packed2.gguf" --order hotness --profile "$scratch/b" --json >"$said.2" 2>/dev/null
is "whose profile with --profile" "$(value "$said.2" profile_of)" "this run"
is "the same order" "$(value "$said.2" hotter_half_share)" "$(value "$said" hotter_half_share)"
cmp -s "$scratch/packed.gguf" "$scratch/packed2.gguf" && pass || fail "the tune file's order is not the text's"

# ------------------------------------------------------------------ never zero
silu=$DATA/models/stories260K
"$HEARTH" profile "$silu" --corpus "$scratch/b" --no-save --separator "$mark" --json --probe-tokens 0 >"$said"
near "density of the largest quarter" "$(value "$said" density)" 0.25 0.01
is "no activation is zero" "$(value "$said" layers.0.gate_density)" 1

# ------------------------------------------------------------------ wrong use, bad data
: >"$scratch/empty"
printf 'a\0b' >"$scratch/binary"
printf 'caf\351' >"$scratch/latin"
echo "A cat." >"$scratch/short"
echo "1 2 3 512" >"$scratch/range"
echo "1 2 cat" >"$scratch/words"
refused 2 "--importance: $scratch/b is another file of this run" \
    "$HEARTH" profile "$model" --corpus "$scratch/b" --importance "$scratch/b"
refused 2 "standard output" "$HEARTH" profile "$model" --corpus "$scratch/b" --importance -
refused 2 "is another file of this run" "$HEARTH" profile "$model" --corpus "$scratch/b" --importance "$model.tune"
refused 1 "no/such" "$HEARTH" profile "$model" --corpus "$scratch/b" --no-save --importance "$scratch/no/such"
refused 2 "profile: MODEL: is missing" "$HEARTH" profile
refused 2 "profile: --corpus: is missing" "$HEARTH" profile "$model"
refused 2 "is one argument too many; texts are named by --corpus" "$HEARTH" profile "$model" "$text"
refused 2 "--ids: take the place of --corpus" "$HEARTH" profile "$model" --corpus "$text" --ids 1,2,3
refused 2 "--separator: is for texts" "$HEARTH" profile "$model" --ids 1,2,3 --separator x
refused 2 "--out: with --no-save" "$HEARTH" profile "$model" --corpus "$text" --no-save --out "$scratch/other"
refused 2 "--anew: with --no-save" "$HEARTH" profile "$model" --corpus "$text" --no-save --anew
refused 2 "--separator: is empty" "$HEARTH" profile "$model" --corpus "$text" --separator ""
refused 1 "empty: text: is empty" "$HEARTH" profile "$model" --corpus "$scratch/a" "$scratch/empty"
refused 1 "binary: text: is binary, byte 1 is zero" "$HEARTH" profile "$model" --corpus "$scratch/binary"
refused 1 "latin: text: is not UTF-8, byte 3" "$HEARTH" profile "$model" --corpus "$scratch/latin"
refused 1 "short: corpus: has only 7 tokens" "$HEARTH" profile "$model" --corpus "$scratch/short"
refused 1 "missing: cannot open" "$HEARTH" profile "$model" --corpus "$scratch/missing"
refused 1 "id 512 (number 3 of the corpus): is not one of the vocabulary's 512" \
    "$HEARTH" profile "$model" --ids "$scratch/range"
refused 2 "--ids" "$HEARTH" profile "$model" --ids "$scratch/words"
refused 1 "missing: cannot open" "$HEARTH" profile "$model" --ids "$scratch/missing"
echo nonsense >"$scratch/bad"
refused 1 "bad" "$HEARTH" profile "$model" --corpus "$scratch/b" --out "$scratch/bad"
refused 1 "cannot make the folder" "$HEARTH" profile "$model" --corpus "$scratch/b" --out "$scratch/no/such/file"
refused 1 "llama-256: tokenizer" "$HEARTH" profile "$DATA/golden/llama-256" --corpus "$scratch/b" --no-save
finish
