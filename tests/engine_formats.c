/* engine_formats.c - the tables in docs/formats.md: number formats, vocabularies, pre-tokenizers, and what the interpreter of
 * chat templates knows; made from the tables that the program itself runs by. */
#include "../src/chat/builtins.h"
#include "../src/chat/named.h"
#include "../src/chat/node.h"
#include "../src/device/kernels/kernels.h"
#include "../src/kernel/kernel.h"
#include "../src/number/format.h"
#include "../src/text/pre_tokenizers.h"

#include "made_page.h"

/* ------------------------------------------------------------------ numbers */

static const void *function_at(size_t level, number_format f, bool products)
{
    kernels k;
    kernels_for(level, &k);
    return products ? (const void *)k.product[f] : (const void *)k.accumulate[f];
}

/* Prints the levels that have a kernel of their own for the format, by one of its functions. */
static void print_levels(FILE *out, number_format f, bool products)
{
    size_t count = 0;
    for (size_t level = 1; level < kernel_level_count(); level++) {
        size_t first = 0; /* level that has this function: avx2-vnni is not one that avx512 builds upon */
        while (function_at(first, f, products) != function_at(level, f, products))
            first++;
        if (first == level)
            fprintf(out, "%s%s", count++ ? ", " : "", kernel_level_name(level));
    }
    fputs(count ? "" : "scalar", out);
}

static bool has_device_kernels(number_format f)
{
    static const number_format formats[] = {
#define FORMAT_OF(id, ...) FORMAT_##id,
        DEVICE_FORMATS(FORMAT_OF)
#undef FORMAT_OF
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i] == f)
            return true;
    return false;
}

/* What kbench measured, by --op product --csv: lines "level,format,cache,read,memory,share,listed,many". */
#define MEASURED "bench/results/kbench-products-amd-epyc-zen4-2026-11-25.csv"

/* Prints the share of the memory's bandwidth that products of the format reached at a level. */
static void print_share(FILE *out, const char *measured, const char *level, const char *format)
{
    char begin[64];
    double share = 0;
    snprintf(begin, sizeof begin, "\n%s,%s,", level, format);
    const char *line = strstr(measured, begin);
    if (!line || sscanf(line + strlen(begin), "%*f,%*f,%*f,%lf", &share) != 1)
        fail_msg("%s: has no line of %s and %s", MEASURED, level, format);
    fprintf(out, "%.2f", share);
}

static void print_numbers(FILE *out)
{
    char *measured;
    size_t size;
    if (file_read(&measured, &size, HEARTH_MODELS "/../" MEASURED, 1 << 20, NULL) != HEARTH_OK)
        fail_msg("cannot read %s", MEASURED);
    fputs(
        "| format | bits per weight | weights per block | written | products by | of the bandwidth | sums of rows by | "
        "devices |\n|---|---|---|---|---|---|---|---|\n",
        out);
    for (number_format f = 0; f < FORMAT_COUNT; f++) {
        const number_traits *t = &number_formats[f];
        if (!number_is_in_files(f))
            continue;
        fprintf(out, "| %s | %.4g | %u | %s | ", t->name, 8.0 * t->block_bytes / t->block_values, t->block_values,
                number_is_written(f) ? "yes" : "-");
        print_levels(out, f, true);
        fputs(" | ", out);
        print_share(out, measured, "avx2", t->name);
        fputs(", ", out);
        print_share(out, measured, "avx512-vbmi", t->name);
        fputs(" | ", out);
        print_levels(out, f, false);
        fprintf(out, " | %s |\n", has_device_kernels(f) ? "yes" : "-");
    }
    mem_free(measured);
}

/* ------------------------------------------------------------------ words */

static void print_pre_tokenizers(FILE *out)
{
    const pre_tokenizer *row;
    fputs("| `tokenizer.ggml.pre` | expressions |\n|---|---|\n", out);
    for (size_t i = 0; (row = pre_tokenizer_at(i)); i++) {
        size_t count = 0;
        while (count < PRE_TOKENIZER_RULES && row->expressions[count])
            count++;
        fputs("| ", out);
        for (const char *name = row->names; *name;) {
            size_t size = strcspn(name, " ");
            fprintf(out, "%s`%.*s`", name == row->names ? "" : " ", (int)size, name);
            name += size + strspn(name + size, " ");
        }
        fprintf(out, " | %zu |\n", count);
    }
}

/* ------------------------------------------------------------------ templates */

static void print_functions(FILE *out, const char *title, const function *(*at)(size_t index))
{
    const function *f;
    fprintf(out, "| %s |", title);
    for (size_t i = 0; (f = at(i)); i++)
        fprintf(out, " `%s`", f->name);
    fputs(" |\n", out);
}

static void print_methods(FILE *out, const char *title, value_kind wanted)
{
    const function *f;
    value_kind kind;
    fprintf(out, "| %s |", title);
    for (size_t i = 0; (f = method_at(i, &kind)); i++)
        if (kind == wanted)
            fprintf(out, " `%s`", f->name);
    fputs(" |\n", out);
}

static void print_statements(FILE *out, const char *title, bool supported)
{
    const char *name;
    bool is_supported;
    fprintf(out, "| %s |", title);
    for (size_t i = 0; (name = statement_at(i, &is_supported)); i++)
        if (is_supported == supported)
            fprintf(out, " `%s`", name);
    fputs(" |\n", out);
}

static void print_templates(FILE *out)
{
    const char *name;
    fputs("| of a template | |\n|---|---|\n", out);
    print_statements(out, "statements", true);
    print_statements(out, "statements that are refused", false);
    print_functions(out, "filters", filter_at);
    print_functions(out, "tests", test_at);
    print_functions(out, "functions", global_at);
    print_methods(out, "methods of texts", VALUE_TEXT);
    print_methods(out, "methods of dicts", VALUE_DICT);
    print_methods(out, "methods of lists", VALUE_LIST);
    print_methods(out, "methods of `loop`", VALUE_LOOP);
    fputs("| templates by name |", out);
    for (size_t i = 0; (name = named_template_at(i)); i++)
        fprintf(out, " `%s`", name);
    fputs(" |\n", out);
}

/* ------------------------------------------------------------------ the page */

static void the_page_is_what_the_tables_say(void **state)
{
    (void)state;
    check_page("formats.md", "engine_formats", "pre-tokenizers", print_pre_tokenizers);
    check_page("formats.md", "engine_formats", "templates", print_templates);
    if (kernel_level_find("avx512-vbmi") < kernel_level_count()) /* the page names the levels of x86-64 */
        check_page("formats.md", "engine_formats", "numbers", print_numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_is_what_the_tables_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
