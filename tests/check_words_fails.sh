# check-words must find words that were given up, wherever they stand, and nothing else.
subject=src/cli/run.c
. "$(dirname "$0")/check_fails.sh"
mkdir -p "$root/src/cli" "$root/docs"
touch "$root/README.md"

expect 0 "" <<'END'
hearth_mode mode = HEARTH_MODE_EXACT; /* the class of a Python program, units, a kept promise */
END
expect 1 'src/cli/run.c:2:hearth_rung r;   (now: mode)' <<'END'
int i;
hearth_rung r;
END
expect 1 "(now: guarantee)" <<'END'
puts("mode exact, class bitwise");
END
expect 1 "(now: loss, or cost)" <<'END'
{OPTION_ROW(0, "price", TEXT, pack_values, price, "FILE", "")}
END
expect 1 "(now: unknown option; is not a number)" <<'END'
fail(error, HEARTH_INVALID, "%s: is no option", text);
END
echo "what a rung is" >"$root/docs/use.md"
expect 1 "docs/use.md:1:what a rung is" </dev/null
