/* probe_memory.c - stores the results of asking drivers between runs of hearth, in a small JSON file per driver.
 *
 *     {"hearth.driver": 1, "key": "...", "problem": "..."}
 *
 * There is one file per driver, whatever the key, so that old results do not pile up. A damaged or foreign file counts
 * as missing. A forged file can do little: either the driver is used without being asked in a child, or it is not
 * used. */
#include "probe.h"

#include "../base/file.h"
#include "../base/hash.h"
#include "../base/json.h"
#include "../base/memory.h"
#include "../kernel/topology.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Increased when drivers are asked in a different way, which makes stored results invalid. */
#define PROBE_VERSION 1
#define KIND          "hearth.driver"

extern char **environ;

/* ------------------------------------------------------------------ the key */

/* Adds whether a file exists and is accessible; of a regular file also its size and time. */
static void add_file(hash128 *h, const char *path)
{
    struct stat s;
    bool exists = stat(path, &s) == 0;
    hash_text(h, path);
    hash_number(h, exists);
    hash_number(h, exists && access(path, R_OK | W_OK) == 0);
    if (!exists || !S_ISREG(s.st_mode))
        return;
    hash_number(h, (uint64_t)s.st_mtim.tv_sec);
    hash_number(h, (uint64_t)s.st_mtim.tv_nsec);
    hash_number(h, (uint64_t)s.st_size);
}

/* Adds all files that match a pattern. */
static void add_files(hash128 *h, const char *pattern)
{
    glob_t found = {0};
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add_file(h, found.gl_pathv[i]);
    globfree(&found);
}

/* Adds the first 255 bytes of a file. */
static void add_content(hash128 *h, const char *path)
{
    char text[256] = "";
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = 0;
    hash_text(h, text);
}

/* Adds the files that match `name` in every folder of an environment variable, a list separated by colons. */
static void add_folders(hash128 *h, const char *variable, const char *name)
{
    const char *list = getenv(variable);
    for (size_t size; list && *list; list += size + (list[size] == ':')) {
        size = strcspn(list, ":");
        char path[512];
        snprintf(path, sizeof path, "%.*s/%s", (int)(size < 400 ? size : 400), list, name);
        add_files(h, path);
    }
}

/* Adds the variables that drivers and the dynamic loader read, in the order of the environment. */
static void add_environment(hash128 *h)
{
    static const char *const prefixes[] = {"LD_",      "OCL_",  "OPENCL_", "POCL_", "CUDA_", "NVIDIA_",
                                           "HSA_",     "ROCR_", "HIP_",    "GPU_",  "AMD_",  "MESA_",
                                           "RUSTICL_", "ZE_",   "ONEAPI_", "SYCL_", "FAKE_"};
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0)
                hash_text(h, *variable);
}

/* Adds the resource limits that can make a driver fail. */
static void add_limits(hash128 *h)
{
    static const int limits[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_NPROC, RLIMIT_NOFILE};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit = {0};
        getrlimit((__rlimit_resource_t)limits[i], &limit);
        hash_number(h, limit.rlim_cur);
    }
}

void probe_key(char out[PROBE_KEY_SIZE], const driver *d)
{
    hash128 h = hash_begin();
    char cpu[256];
    topology_cpu_name(cpu, sizeof cpu);
    hash_number(&h, PROBE_VERSION);
    hash_text(&h, HEARTH_VERSION);
    hash_text(&h, d->name);
    hash_text(&h, cpu);
    hash_number(&h, topology_processors());
    hash_number(&h, topology_memory_bytes());
    /* A driver's kernel module may be loaded or repaired at the next boot. */
    add_content(&h, "/proc/sys/kernel/random/boot_id");
    add_content(&h, "/proc/driver/nvidia/version");
    add_file(&h, "/etc/ld.so.cache"); /* rewritten when libraries are installed */
    add_files(&h, "/etc/OpenCL/vendors/*.icd");
    add_folders(&h, "OCL_ICD_VENDORS", "*.icd");
    add_folders(&h, "OPENCL_VENDOR_PATH", "*.icd");
    add_folders(&h, "LD_LIBRARY_PATH", d->library);
    static const char *const places[] = {"/sys/devices/system/cpu", "/dev/dri/*", "/dev/nvidia*", "/dev/kfd"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        add_files(&h, places[i]);
    add_environment(&h);
    add_limits(&h);
    hash_print(out, &h);
}

/* ------------------------------------------------------------------ the file */

/* Returns "FOLDER/driver-NAME.json"; NULL: no memory. */
static char *file_path(const driver *d, const char *folder)
{
    char name[64];
    snprintf(name, sizeof name, "driver-%s.json", d->name);
    return file_join(folder, name);
}

bool probe_recall(const driver *d, const char *folder, const char *key, char problem[PROBE_TEXT_SIZE])
{
    char *path = file_path(d, folder);
    json_t *root = json_recall(path, KIND, PROBE_VERSION, key);
    const char *told = json_string_value(json_object_get(root, "problem"));
    if (told && *told)
        snprintf(problem, PROBE_TEXT_SIZE, "%.200s (`hearth devices` asks again)", told);
    bool found = told != NULL;
    json_decref(root);
    mem_free(path);
    return found;
}

void probe_remember(const driver *d, const char *folder, const char *key, const char *problem)
{
    char *path = file_path(d, folder);
    json_t *members = json_pack("{s:s}", "problem", problem);
    json_remember(path, KIND, PROBE_VERSION, key, members);
    json_decref(members);
    mem_free(path);
}

void probe_forget(const driver *d, const char *cache_folder)
{
    char *path = file_path(d, cache_folder);
    if (path)
        (void)unlink(path);
    mem_free(path);
}
