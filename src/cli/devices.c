/* devices.c - `hearth devices`: lists what this machine can compute with. */
#include "common.h"

#include "../base/memory.h"
#include "../device/device.h"
#include "../device/measure.h"
#include "../kernel/cpu.h"
#include "../kernel/kernel.h"
#include "../kernel/topology.h"
#include "../plan/machine.h"
#include "output.h"

#include <string.h>

typedef struct devices_values {
    bool json;
    bool no_measure;
} devices_values;

static const option rows[] = {
    {OPTION_ROW(0, "json", FLAG, devices_values, json, NULL,
                "one object: cpu, cores, processors, memory_bytes, cache_bytes, levels, read_bandwidth, devices")},
    {OPTION_ROW(0, "no-measure", FLAG, devices_values, no_measure, NULL, "only say what there is")},
};

/* A device other than the CPU, and what was found out about it. */
typedef struct side {
    device_found found;
    device_info info; /* its texts are copied below */
    char kernels[64], exchange[64];
    bool opened, measured;
    device_figures figures;
} side;

/* What there is to compute with, also what cannot be used. */
typedef struct inventory {
    char cpu[256];
    size_t level; /* its instruction set level */
    unsigned cores, processors;
    size_t memory_bytes, cache_bytes;
    machine_reads reads[MACHINE_THREADS];
    size_t read_count;
    side *sides; /* [side_count] */
    size_t side_count;
} inventory;

/* ------------------------------------------------------------------ finding out */

/* Examines a device; a failure is recorded with the device and is not the command's. */
static void look_at(side *s, bool measures)
{
    device *d;
    hearth_error error = {0};
    if (!s->found.usable)
        return;
    hearth_status status = device_open(&d, s->found.spec, NULL, &error);
    if (status == HEARTH_OK) {
        device_describe(d, &s->info);
        snprintf(s->kernels, sizeof s->kernels, "%s", s->info.kernels ? s->info.kernels : "");
        snprintf(s->exchange, sizeof s->exchange, "%s", s->info.exchange ? s->info.exchange : "");
        s->opened = true;
        if (measures)
            status = device_measure(d, &s->figures, &error);
        s->measured = measures && status == HEARTH_OK;
        device_close(d);
    }
    if (status != HEARTH_OK)
        snprintf(s->found.problem, sizeof s->found.problem, "%.250s", error.text);
}

/* Lists the devices and examines each of them. */
static hearth_status find_sides(inventory *m, bool measures, arena *memory, hearth_error *error)
{
    device_found found[MAX_DEVICES];
    char *folder = common_cache_folder();
    if (folder)
        device_forget(folder); /* asks the drivers afresh instead of using cached answers */
    size_t count = device_list(found, MAX_DEVICES, folder);
    mem_free(folder);
    m->side_count = count < MAX_DEVICES ? count : MAX_DEVICES;
    m->sides = arena_new_array(memory, m->side_count + 1, sizeof *m->sides);
    if (!m->sides)
        return fail_memory(error, "devices", m->side_count * sizeof *m->sides);
    for (size_t i = 0; i < m->side_count; i++) {
        m->sides[i].found = found[i];
        look_at(&m->sides[i], measures);
    }
    return HEARTH_OK;
}

static hearth_status look_around(inventory *m, bool measures, arena *memory, hearth_error *error)
{
    TRY(kernel_level_choose(&m->level, NULL, error));
    topology_cpu_name(m->cpu, sizeof m->cpu);
    m->cores = topology_cores();
    m->processors = topology_processors();
    m->memory_bytes = topology_memory_bytes();
    m->cache_bytes = topology_cache_bytes();
    if (measures)
        TRY(machine_measure_reads(m->reads, &m->read_count, NULL, error));
    return find_sides(m, measures, memory, error);
}

/* ------------------------------------------------------------------ saying it */

static json_t *side_json(const side *s)
{
    const device_figures *f = &s->figures;
    json_t *o = json_pack("{s:s, s:o, s:b, s:b, s:I}", "spec", s->found.spec, "name", json_text(span_of(s->found.name)),
                          "usable", (int)s->found.usable, "gpu", (int)s->found.is_gpu, "memory_bytes",
                          (json_int_t)s->found.memory_bytes);
    if (s->found.problem[0])
        json_object_set_new(o, "problem", json_text(span_of(s->found.problem)));
    if (s->opened)
        json_object_update_new(
            o, json_pack("{s:o, s:I, s:i, s:i, s:s, s:s}", "free_bytes",
                         s->info.free_bytes ? json_integer((json_int_t)s->info.free_bytes) : json_null(),
                         "budget_bytes", (json_int_t)s->info.budget_bytes, "units", (int)s->info.units, "group",
                         (int)s->info.group, "kernels", s->kernels, "exchange", s->exchange));
    if (s->measured)
        json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "read_bandwidth", f->read_rate,
                                            "to_device_bandwidth", f->to_device_rate, "from_device_bandwidth",
                                            f->from_device_rate, "start_seconds", f->start_seconds, "exchange_seconds",
                                            f->exchange_seconds, "kernel_seconds", f->kernel_seconds));
    return o;
}

static json_t *levels_json(void)
{
    json_t *levels = json_array();
    char needs[CPU_NAMES_SIZE];
    for (size_t i = 0; i < kernel_level_count(); i++)
        json_array_append_new(levels, json_pack("{s:s, s:b, s:s}", "name", kernel_level_name(i), "present",
                                                kernel_level_present(i), "needs",
                                                cpu_feature_names(needs, kernel_level_features(i))));
    return levels;
}

static hearth_status print_json(const inventory *m, hearth_error *error)
{
    char features[CPU_NAMES_SIZE];
    json_t *reads = json_array();
    for (size_t i = 0; i < m->read_count; i++)
        json_array_append_new(reads, json_pack("{s:i, s:f}", "threads", (int)m->reads[i].threads, "bytes_per_second",
                                               m->reads[i].bytes_per_second));
    json_t *sides = json_array();
    for (size_t i = 0; i < m->side_count; i++)
        json_array_append_new(sides, side_json(&m->sides[i]));
    return output_json(json_pack("{s:o, s:i, s:i, s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:o}", "cpu",
                                 json_text(span_of(m->cpu)), "cores", (int)m->cores, "processors", (int)m->processors,
                                 "memory_bytes", (json_int_t)m->memory_bytes, "cache_bytes", (json_int_t)m->cache_bytes,
                                 "best_level", kernel_level_name(kernel_level_find(NULL)), "used_level",
                                 kernel_level_name(m->level), "features", cpu_feature_names(features, cpu_features()),
                                 "levels", levels_json(), "read_bandwidth", reads, "devices", sides),
                       JSON_INDENT(1), error);
}

static void print_side(const side *s)
{
    const device_figures *f = &s->figures;
    char memory[16], budget[16], free_now[16];
    printf("%-8s ", s->found.spec);
    output_safe(stdout, span_of(s->found.name), 100);
    if (s->found.memory_bytes)
        printf("%smemory %s", s->found.name[0] ? ", " : "", output_size(memory, (double)s->found.memory_bytes));
    if (s->found.name[0] || s->found.memory_bytes)
        putchar('\n');
    if (s->opened)
        printf("%9sbudget %s, free %s, %u unit%s, kernels %s, exchange by %s\n", "",
               output_size(budget, (double)s->info.budget_bytes),
               s->info.free_bytes ? output_size(free_now, (double)s->info.free_bytes) : "unknown", s->info.units,
               s->info.units == 1 ? "" : "s", s->kernels, s->exchange);
    if (s->measured)
        printf("%9sreads %.1f GB/s, copies %.1f GB/s there, %.1f GB/s back\n"
               "%9sexchange %.1f us, with a kernel %.1f us, start %.1f us\n",
               "", f->read_rate * 1e-9, f->to_device_rate * 1e-9, f->from_device_rate * 1e-9, "",
               f->exchange_seconds * 1e6, f->kernel_seconds * 1e6, f->start_seconds * 1e6);
    if (s->found.problem[0]) {
        if (s->found.name[0] || s->found.memory_bytes)
            printf("%9s", "");
        fputs(s->opened ? "failed: " : "not usable: ", stdout);
        output_safe(stdout, span_of(s->found.problem), 300);
        putchar('\n');
    }
}

static void print_table(const inventory *m)
{
    char memory[16], cache[16], names[CPU_NAMES_SIZE];
    printf("CPU      %s\n", m->cpu);
    printf("         %u cores, %u processors, cache %s, memory %s\n", m->cores, m->processors,
           output_size(cache, (double)m->cache_bytes), output_size(memory, (double)m->memory_bytes));
    printf("features %s\n", cpu_feature_names(names, cpu_features()));
    for (size_t i = 0; i < kernel_level_count(); i++)
        printf("%s %-12s %s%s\n", i ? "        " : "levels  ", kernel_level_name(i),
               i == m->level             ? "used"
               : kernel_level_present(i) ? "present"
                                         : "missing: needs ",
               kernel_level_present(i) ? "" : cpu_feature_names(names, kernel_level_features(i) & ~cpu_features()));
    for (size_t i = 0; i < m->read_count; i++)
        printf("%s %2u thread%s %.1f GB/s\n", i ? "        " : "reads   ", m->reads[i].threads,
               m->reads[i].threads == 1 ? " " : "s", m->reads[i].bytes_per_second * 1e-9);
    for (size_t i = 0; i < m->side_count; i++)
        print_side(&m->sides[i]);
}

static hearth_status run_devices(void *values, operands *rest, hearth_error *error)
{
    const devices_values *v = values;
    inventory m = {0};
    TRY(look_around(&m, !v->no_measure, rest->memory, error));
    if (v->json)
        return print_json(&m, error);
    print_table(&m);
    return HEARTH_OK;
}

const command command_devices = {
    .name = "devices",
    .path = "devices",
    .summary = "what this machine computes with, and how fast",
    .usage = "[options]",
    .about = "Names the processor, the instruction sets that hearth has kernels for, and measures how fast main memory "
             "is read by how many threads: the limit of every decoded token. Then every device that could work beside "
             "it (--device takes the word in front): how fast its kernels read its memory, how fast main memory is "
             "copied there and back; how long an exchange inside a layer takes (one side answers, the other goes on "
             "and says so), and starting a token. A device that cannot be used says why; drivers are asked anew, which "
             "other commands do once after the machine "
             "has started.",
    .example =
        "  $ hearth devices\n"
        "  CPU      Intel(R) Xeon(R) Processor\n"
        "           2 cores, 2 processors, cache 110 MB, memory 25.3 GB\n"
        "  features AVX2 FMA F16C, AVX-512 F BW DQ VL, AVX-512 VNNI, AVX-512 VBMI\n"
        "  levels   scalar       present\n"
        "           avx2         present\n"
        "           avx512-vbmi  used\n"
        "  reads     1 thread  16.1 GB/s\n"
        "            2 threads 31.5 GB/s\n"
        "  host     Intel(R) Xeon(R) Processor, memory 25.3 GB\n"
        "           budget 6.32 GB, free unknown, 1 unit, kernels AVX2, exchange by memory\n"
        "           reads 5.9 GB/s, copies 7.6 GB/s there, 8.0 GB/s back\n"
        "           exchange 0.5 us, with a kernel 0.8 us, start 0.8 us\n"
        "  opencl:0 Portable Computing Language: pthread-skylake-avx512-Intel(R) Xeon(R) Processor, memory 23.1 GB\n"
        "           budget 5.78 GB, free unknown, 2 units, kernels OpenCL C, exchange by events\n"
        "           reads 11.9 GB/s, copies 7.4 GB/s there, 7.3 GB/s back\n"
        "           exchange 21.5 us, with a kernel 24.0 us, start 19.4 us\n"
        "  cuda     not usable: no NVIDIA driver: libcuda.so.1: cannot open shared object file: No such file or "
        "directory",
    .tables = {OPTION_TABLE("options", rows, 0)},
    .values_size = sizeof(devices_values),
    .run = run_devices,
};
