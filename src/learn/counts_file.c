/* counts_file.c - the file of counters: a header, the block of counters as in memory, and a hash of both. */
#include "counts_file.h"

#include "../base/file.h"
#include "../base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Increment when the layout of the counters changes: files of another version count as another run's. */
#define KEPT_VERSION 1
static const char magic[16] = "hearth-profile\n";

/* Head of the file, hashed with its padding. */
typedef struct counts_header {
    char magic[16];
    uint32_t version, layers, neurons, reserved;
    uint64_t block_bytes;
    counts_state state;
} counts_header;

static hash128 hash_of(const counts_header *header, const void *block)
{
    hash128 h = hash_begin();
    hash_bytes(&h, header, sizeof *header);
    hash_bytes(&h, block, (size_t)header->block_bytes);
    return h;
}

static counts_header header_of(const counts_state *s, const tallies *t)
{
    counts_header h;
    memset(&h, 0, sizeof h); /* zeroes the padding too, since it is hashed */
    memcpy(h.magic, magic, sizeof magic);
    h.version = KEPT_VERSION;
    h.layers = t->layer_count;
    h.neurons = t->neuron_count;
    h.block_bytes = t->block_bytes;
    memcpy(h.state.key, s->key, sizeof s->key);
    h.state.windows = s->windows;
    h.state.tokens = s->tokens;
    h.state.measured = s->measured;
    h.state.seconds = s->seconds;
    return h;
}

static hearth_status put_all(file_writer *writer, const counts_header *h, const tallies *t, hearth_error *error)
{
    hash128 sum = hash_of(h, t->block);
    TRY(file_writer_put(writer, h, sizeof *h, error));
    TRY(file_writer_put(writer, t->block, t->block_bytes, error));
    return file_writer_put(writer, &sum, sizeof sum, error);
}

hearth_status counts_save(const char *folder, const counts_state *s, const tallies *t, hearth_error *error)
{
    counts_header h = header_of(s, t);
    file_writer *writer;
    char *path = file_join(folder, KEPT_NAME);
    if (!path)
        return fail_memory(error, folder, sizeof KEPT_NAME);
    hearth_status status = file_writer_open(&writer, path, error);
    if (status == HEARTH_OK) {
        status = put_all(writer, &h, t, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(writer, error);
        else
            file_writer_discard(writer);
    }
    mem_free(path);
    return status;
}

/* Returns what is wrong with the mapped file; NULL: it belongs to this run. */
static const char *examine(const file_map *map, const counts_state *s, const tallies *t)
{
    counts_header h;
    hash128 sum;
    if (map->size_bytes < sizeof h + sizeof sum)
        return "damaged";
    memcpy(&h, map->data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0)
        return "damaged";
    if (h.version != KEPT_VERSION)
        return "another version's";
    if (h.block_bytes != map->size_bytes - sizeof h - sizeof sum)
        return "damaged";
    hash128 seen = hash_of(&h, map->data + sizeof h);
    memcpy(&sum, map->data + map->size_bytes - sizeof sum, sizeof sum);
    if (memcmp(&seen, &sum, sizeof sum) != 0)
        return "damaged";
    if (memcmp(h.state.key, s->key, sizeof s->key) != 0 || h.layers != t->layer_count || h.neurons != t->neuron_count)
        return "another model's, or of another corpus";
    return h.block_bytes == t->block_bytes ? NULL : "damaged";
}

/* Copies state and counters from a file that examine() accepted. */
static void take_over(const file_map *map, counts_state *s, tallies *t)
{
    counts_header h;
    memcpy(&h, map->data, sizeof h);
    *s = h.state;
    memcpy(t->block, map->data + sizeof h, t->block_bytes);
}

/* Renames the counters of another run, which must not be lost. Returns the words for the note. */
static const char *set_aside(const char *folder, const char *path)
{
    char *old = file_join(folder, KEPT_OLD_NAME);
    bool moved = old && rename(path, old) == 0;
    mem_free(old);
    return moved ? " and were set aside as " KEPT_OLD_NAME : "";
}

/* Takes over the counters of a file. Returns why not; NULL: they were taken over. */
static const char *try_file(const char *path, counts_state *s, tallies *t)
{
    file_map map;
    if (file_map_open(&map, path, NULL) != HEARTH_OK)
        return "unreadable";
    const char *why = examine(&map, s, t);
    if (!why)
        take_over(&map, s, t);
    file_map_close(&map);
    return why;
}

hearth_status counts_load(const char *folder, counts_state *s, tallies *t, char *note, size_t note_size,
                          hearth_error *error)
{
    char *path = file_join(folder, KEPT_NAME);
    *note = 0;
    if (!path)
        return fail_memory(error, folder, sizeof KEPT_NAME);
    const char *why = file_exists(path) ? try_file(path, s, t) : NULL;
    if (why)
        snprintf(note, note_size, "counts of an earlier run are %s%s; counting begins afresh", why,
                 strncmp(why, "another", 7) == 0 ? set_aside(folder, path) : "");
    mem_free(path);
    return HEARTH_OK;
}
