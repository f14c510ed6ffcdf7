# kernel_instructions.sh OBJECTS: what the compiler made of src/kernel holds no instruction that a file's suffix does not
# promise, so that a level whose CPU is not at hand runs where it says it does. OBJECTS: the folder of *.c.o.
set -eu
objects=${1:?the folder of object files}
command -v objdump >/dev/null || exit 77
objdump -f "$objects/kernel.c.o" | grep -q 'file format elf64-x86-64' || exit 77

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT

# Instructions by what they need beyond the suffix before, as objdump writes a line's mnemonic and operands.
vex='(^|[[:space:]])v[a-z]'
avx512='%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])'
vnni='(^|[[:space:]])vpdp(bus|wss)ds?[[:space:]]'
vbmi='(^|[[:space:]])vp(erm[it]2b|ermb|multishiftqb)[[:space:]]'
bf16='(^|[[:space:]])(vcvtne|vdpbf16)'
# What no level has: VBMI2, BITALG, VPOPCNTDQ, FP16, IFMA, GFNI, and AVX-512CD, ER of the odd CPU.
none='(^|[[:space:]])(vp(compress|expand)[bw]|vpsh[lr]d|vpopcnt|vpshufbitqmb|vpmadd52|v?gf2p8|vpconflict|vplzcnt|vexp2p|v(add|sub|mul|div|sqrt|max|min|fn?m(add|sub)[0-9]+)[ps]h[[:space:]])'

failed=0
# check FILE PATTERN WHAT: no line of FILE's code matches.
check() {
    objdump -d --no-show-raw-insn "$1" | cut -f2- >"$scratch"
    if grep -E "$2" "$scratch" | head -n 3 | grep .; then
        echo "$(basename "$1"): has instructions of $3" >&2
        failed=1
    fi
}

count=0
for object in "$objects"/*.o; do
    count=$((count + 1))
    case $object in
        *_avx512bf16.c.o) check "$object" "$none" "more than AVX-512, VNNI, VBMI and BF16" ;;
        *_avx512vbmi.c.o) check "$object" "$bf16|$none" "more than AVX-512, VNNI and VBMI" ;;
        *_avx512vnni.c.o) check "$object" "$vbmi|$bf16|$none" "more than AVX-512 and VNNI" ;;
        *_avx512.c.o) check "$object" "$vnni|$vbmi|$bf16|$none" "more than AVX-512 F BW DQ VL" ;;
        *_avxvnni.c.o) check "$object" "$avx512|$vbmi|$bf16|$none" "more than AVX2 and AVX-VNNI" ;;
        *_avx2.c.o) check "$object" "$avx512|$vnni|$vbmi|$bf16|$none" "more than AVX2" ;;
        *) check "$object" "$vex" "more than SSE2" ;;
    esac
done
echo "$count object files"
[ "$count" -gt 20 ] && exit $failed
