/* devices.c - `hearth devices`: what this machine computes with. */
#include "command.h"

#include "../eval/bandwidth.h"
#include "../kernel/kernel.h"
#include "../kernel/topology.h"
#include "output.h"

#define MAX_MEASURED 16

typedef struct devices_values {
    bool json;
} devices_values;

static const option rows[] = {
    {OPTION_ROW(0, "json", FLAG, devices_values, json, NULL,
                "one object: cpu, cores, processors, memory_bytes, cache_bytes, levels, read_bandwidth")},
};

typedef struct machine {
    char cpu[256];
    unsigned cores, processors;
    size_t memory_bytes, cache_bytes;
    struct {
        unsigned threads;
        double bytes_per_second;
    } reads[MAX_MEASURED];
    size_t read_count;
} machine;

/* 1, 2, 3, 4, 6, 8, 12 ...: few enough to wait for, and always all processors. */
static unsigned next_threads(unsigned threads, unsigned most)
{
    unsigned next = threads < 4                      ? threads + 1
                    : (threads & (threads - 1)) == 0 ? threads + threads / 2
                                                     : threads * 4 / 3;
    return threads < most && next > most ? most : next;
}

static hearth_status measure(machine *m, hearth_error *error)
{
    topology_cpu_name(m->cpu, sizeof m->cpu);
    m->cores = topology_cores();
    m->processors = topology_processors();
    m->memory_bytes = topology_memory_bytes();
    m->cache_bytes = topology_cache_bytes();
    for (unsigned t = 1; t <= m->processors && m->read_count < MAX_MEASURED; t = next_threads(t, m->processors)) {
        bandwidth *b;
        TRY(bandwidth_create(&b, t, NULL, error));
        m->reads[m->read_count].threads = t;
        m->reads[m->read_count++].bytes_per_second = bandwidth_measure(b);
        bandwidth_destroy(b);
    }
    return HEARTH_OK;
}

static hearth_status print_json(const machine *m, hearth_error *error)
{
    json_t *levels = json_array(), *reads = json_array();
    for (size_t i = 0; i < kernel_level_count(); i++)
        json_array_append_new(levels, json_pack("{s:s, s:b, s:s}", "name", kernel_level_name(i), "present",
                                                kernel_level_present(i), "needs", kernel_level_needs(i)));
    for (size_t i = 0; i < m->read_count; i++)
        json_array_append_new(reads, json_pack("{s:i, s:f}", "threads", (int)m->reads[i].threads, "bytes_per_second",
                                               m->reads[i].bytes_per_second));
    return output_json(json_pack("{s:o, s:i, s:i, s:I, s:I, s:s, s:o, s:o}", "cpu", output_json_text(span_of(m->cpu)),
                                 "cores", (int)m->cores, "processors", (int)m->processors, "memory_bytes",
                                 (json_int_t)m->memory_bytes, "cache_bytes", (json_int_t)m->cache_bytes, "best_level",
                                 kernel_level_name(kernel_level_find(NULL)), "levels", levels, "read_bandwidth", reads),
                       JSON_INDENT(1), error);
}

static void print_table(const machine *m)
{
    char memory[16], cache[16];
    size_t best = kernel_level_find(NULL);
    printf("CPU      %s\n", m->cpu);
    printf("         %u cores, %u processors, cache %s, memory %s\n", m->cores, m->processors,
           output_size(cache, (double)m->cache_bytes), output_size(memory, (double)m->memory_bytes));
    for (size_t i = 0; i < kernel_level_count(); i++)
        printf("%s %-10s %s%s%s\n", i ? "        " : "levels  ", kernel_level_name(i),
               i == best                 ? "used"
               : kernel_level_present(i) ? "present"
                                         : "missing: needs ",
               kernel_level_present(i) ? "" : kernel_level_needs(i), "");
    for (size_t i = 0; i < m->read_count; i++)
        printf("%s %2u thread%s %.1f GB/s\n", i ? "        " : "reads   ", m->reads[i].threads,
               m->reads[i].threads == 1 ? " " : "s", m->reads[i].bytes_per_second * 1e-9);
    puts("no other devices in this version");
}

static hearth_status run(void *values, operands *rest, hearth_error *error)
{
    (void)rest;
    const devices_values *v = values;
    machine m = {0};
    TRY(measure(&m, error));
    if (v->json)
        return print_json(&m, error);
    print_table(&m);
    return HEARTH_OK;
}

const command command_devices = {
    .name = "devices",
    .path = "devices",
    .summary = "what this machine computes with, and how fast it reads",
    .usage = "[options]",
    .about = "Names the processor, the instruction sets that hearth has kernels for, and measures how fast main memory "
             "is read by how many threads: the limit of every decoded token.",
    .example = "  $ hearth devices\n"
               "  CPU      Intel(R) Xeon(R) Processor\n"
               "           2 cores, 2 processors, cache 110 MB, memory 25.2 GB\n"
               "  levels   scalar     present\n"
               "           avx2       present\n"
               "           avx512     used\n"
               "  reads     1 thread  18.1 GB/s\n"
               "            2 threads 35.4 GB/s",
    .tables = {OPTION_TABLE("options", rows, 0)},
    .values_size = sizeof(devices_values),
    .run = run,
};
