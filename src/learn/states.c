/* states.c - rows of hidden states, a file per layer, and the manifest that says how far they reach.
 *
 * Row r of a file belongs to the one token that was drawn from tokens [r * stride, (r + 1) * stride), so its place
 * follows from the token alone: writing a row twice does no harm, and what lies beyond the manifest is never looked at.
 * The manifest is replaced whole after the rows are on disk. */
#include "states.h"

#include "../base/file.h"
#include "../base/file_fault.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../model/fingerprint.h"
#include "../number/half.h"
#include "bits.h"
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MANIFEST       "states"
#define MANIFEST_BYTES ((size_t)1 << 12)
#define LAYER_NAME     "layer-%u.states"
/* Rows are gathered to about this many bytes before they are written. */
#define BUFFER_BYTES ((size_t)1 << 20)

/* ------------------------------------------------------------------ rows */

/* A row: bits [words] (uint64), root mean square (float), the stream divided by it [d] (float16), padded to 8. */
typedef struct row_shape {
    uint32_t d, f;
    size_t words, bytes;
} row_shape;

static row_shape shape_of(const hearth_model *m)
{
    row_shape s = {m->hyper.embedding_length, m->hyper.neuron_count, bits_words(m->hyper.neuron_count), 0};
    size_t raw = s.words * sizeof(uint64_t) + sizeof(float) + (size_t)s.d * sizeof(uint16_t);
    s.bytes = (raw + 7) / 8 * 8;
    return s;
}

static void encode_row(const row_shape *s, const hearth_observation *seen, uint8_t *row)
{
    uint64_t *bits = (uint64_t *)(void *)row;
    float *size = (float *)(void *)(bits + s->words);
    uint16_t *stream = (uint16_t *)(void *)(size + 1);
    bits_pack(seen->activations, seen->neuron_count, 0, bits);
    double squares = 0;
    for (uint32_t i = 0; i < s->d; i++)
        squares += (double)seen->residual[i] * seen->residual[i];
    *size = (float)sqrt(squares / s->d);
    if (!isfinite(*size)) /* a broken model; its rows are zeros */
        *size = 0;
    for (uint32_t i = 0; i < s->d; i++)
        stream[i] = *size > 0 ? half_from_float(seen->residual[i] / *size) : 0;
}

/* ------------------------------------------------------------------ manifest */

typedef struct manifest {
    char fingerprint[FINGERPRINT_SIZE], digest[HASH_TEXT_SIZE];
    uint64_t corpus_tokens, stride; /* the corpus and of how many of its tokens one is kept */
    uint64_t tokens;                /* dealt with                                           */
    uint32_t layers, d, f;
} manifest;

/* Tokens are cut into groups of `stride`, the last of which may be smaller; one of each is kept. */
static uint64_t kept_of_group(const manifest *m, uint64_t group)
{
    uint64_t begin = group * m->stride, left = m->corpus_tokens - begin;
    hash128 h = hash_begin();
    hash_number(&h, group);
    return begin + (h.a >> 32) % (left < m->stride ? left : m->stride);
}

/* Rows that belong to the first `tokens` tokens. */
static uint64_t rows_before(const manifest *m, uint64_t tokens)
{
    if (tokens >= m->corpus_tokens)
        return (m->corpus_tokens + m->stride - 1) / m->stride;
    uint64_t group = tokens / m->stride;
    return group + (kept_of_group(m, group) < tokens);
}

static bool print_manifest(const manifest *m, buffer *text)
{
    char sum[HASH_TEXT_SIZE];
    if (!buffer_print(text, "hearth-states 1 %s %s %llu %llu %llu %u %u %u", m->fingerprint, m->digest,
                      (unsigned long long)m->corpus_tokens, (unsigned long long)m->stride,
                      (unsigned long long)m->tokens, m->layers, m->d, m->f))
        return false;
    hash128 h = hash_begin();
    hash_bytes(&h, text->data, text->size);
    hash_print(sum, &h);
    return buffer_print(text, " %s\n", sum);
}

/* Exactly what print_manifest makes, or it is damaged. */
static hearth_status parse_manifest(manifest *m, const char *text, size_t size)
{
    unsigned long long corpus_tokens, stride, tokens;
    buffer again = {0};
    *m = (manifest){0};
    if (sscanf(text, "hearth-states 1 %32s %32s %llu %llu %llu %u %u %u", m->fingerprint, m->digest, &corpus_tokens,
               &stride, &tokens, &m->layers, &m->d, &m->f) != 8)
        return HEARTH_FORMAT;
    m->corpus_tokens = corpus_tokens;
    m->stride = stride;
    m->tokens = tokens;
    bool printed = print_manifest(m, &again);
    bool same = printed && again.size == size && memcmp(again.data, text, size) == 0;
    buffer_free(&again);
    if (!printed)
        return HEARTH_NO_MEMORY;
    return same && stride > 0 && corpus_tokens > 0 && tokens <= corpus_tokens ? HEARTH_OK : HEARTH_FORMAT;
}

static hearth_status read_manifest(manifest *out, const char *folder, hearth_error *error)
{
    char *text = NULL, *path = file_join(folder, MANIFEST);
    size_t size;
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_read(&text, &size, path, MANIFEST_BYTES, error);
    hearth_status parsed = status == HEARTH_OK ? parse_manifest(out, text, size) : HEARTH_OK;
    if (parsed == HEARTH_FORMAT)
        status = fail(error, HEARTH_FORMAT, "%s: hidden states: the manifest is damaged", path);
    else if (parsed != HEARTH_OK)
        status = fail_memory(error, path, size);
    mem_free(text);
    mem_free(path);
    return status;
}

static hearth_status write_manifest(const manifest *m, const char *folder, hearth_error *error)
{
    buffer text = {0};
    file_writer *writer = NULL;
    char *path = file_join(folder, MANIFEST);
    hearth_status status = path && print_manifest(m, &text) ? file_writer_open(&writer, path, error)
                                                            : fail_memory(error, folder, MANIFEST_BYTES);
    if (status == HEARTH_OK) {
        status = file_writer_put(writer, text.data, text.size, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(writer, error);
        else
            file_writer_discard(writer);
    }
    buffer_free(&text);
    mem_free(path);
    return status;
}

static char *layer_path(const char *folder, uint32_t layer)
{
    char name[32];
    snprintf(name, sizeof name, LAYER_NAME, layer);
    return file_join(folder, name);
}

static void remove_named(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    if (path)
        (void)unlink(path);
    mem_free(path);
}

void states_remove(const char *folder)
{
    manifest m;
    uint32_t layers = read_manifest(&m, folder, NULL) == HEARTH_OK ? m.layers : 0;
    char name[32];
    remove_named(folder, MANIFEST); /* first: rows without it are nothing */
    for (uint32_t i = 0; i < layers; i++) {
        snprintf(name, sizeof name, LAYER_NAME, i);
        remove_named(folder, name);
    }
}

/* ------------------------------------------------------------------ writing */

struct states_writer {
    manifest m;
    row_shape shape;
    char *folder;
    int *files;    /* [layers]; -1: not open                          */
    uint8_t *rows; /* [room][shape.bytes] of one layer, not written yet */
    size_t room, held;
    uint32_t layer; /* to whom they belong ...                         */
    uint64_t first; /* ... and the number of the first                 */
    hearth_status failed;
    hearth_error why;
    char note[160];
};

/* The least stride for which all rows fit. */
static hearth_status choose_stride(states_writer *w, uint64_t disk_bytes, hearth_error *error)
{
    uint64_t one = (uint64_t)w->m.layers * w->shape.bytes;
    w->m.stride = 1;
    if (disk_bytes == 0)
        return HEARTH_OK;
    uint64_t rows = disk_bytes / one;
    if (rows == 0)
        return fail(error, HEARTH_INVALID,
                    "%s: hidden states: one row of every layer takes %llu bytes, only %llu are allowed", w->folder,
                    (unsigned long long)one, (unsigned long long)disk_bytes);
    w->m.stride = (w->m.corpus_tokens + rows - 1) / rows;
    w->m.stride = w->m.stride ? w->m.stride : 1;
    return HEARTH_OK;
}

/* Bytes that the files take on the disk already. */
static uint64_t bytes_there(const states_writer *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->m.layers; i++) {
        struct stat about;
        char *path = layer_path(w->folder, i);
        if (path && stat(path, &about) == 0)
            sum += (uint64_t)about.st_blocks * 512;
        mem_free(path);
    }
    return sum;
}

static hearth_status check_room(const states_writer *w, hearth_error *error)
{
    struct statvfs disk;
    uint64_t needed, there = bytes_there(w);
    if (__builtin_mul_overflow(states_writer_rows(w), (uint64_t)w->m.layers * w->shape.bytes, &needed))
        return fail(error, HEARTH_IO, "%s: hidden states: take more bytes than can be counted", w->folder);
    needed = needed > there ? needed - there : 0;
    if (file_must_fail(EIO) || statvfs(w->folder, &disk) != 0)
        return fail_errno(error, w->folder, "cannot tell the room on the disk");
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (needed > room)
        return fail(error, HEARTH_IO,
                    "%s: hidden states: take %llu bytes, the disk has room for %llu; allow fewer, or clear some",
                    w->folder, (unsigned long long)needed, (unsigned long long)room);
    return HEARTH_OK;
}

static hearth_status open_layer(states_writer *w, uint32_t layer, bool afresh, hearth_error *error)
{
    char *path = layer_path(w->folder, layer);
    if (!path)
        return fail_memory(error, w->folder, strlen(w->folder));
    if (!file_must_fail(EIO))
        w->files[layer] = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (afresh ? O_TRUNC : 0), 0666);
    hearth_status status = w->files[layer] >= 0 ? HEARTH_OK : fail_errno(error, path, "cannot open for writing");
    mem_free(path);
    return status;
}

/* Whether the files hold what the manifest says. Fails where that cannot be told. */
static hearth_status check_files(bool *whole, const states_writer *w, const manifest *there, hearth_error *error)
{
    *whole = true;
    for (uint32_t i = 0; *whole && i < w->m.layers; i++) {
        struct stat about;
        char *path = layer_path(w->folder, i);
        if (!path)
            return fail_memory(error, w->folder, strlen(w->folder));
        bool found = stat(path, &about) == 0;
        hearth_status status =
            found || errno == ENOENT ? HEARTH_OK : fail_errno(error, path, "hidden states: cannot be looked at");
        mem_free(path);
        TRY(status);
        *whole = found && (uint64_t)about.st_size / w->shape.bytes >= rows_before(there, there->tokens);
    }
    return HEARTH_OK;
}

/* Why what is there cannot be gone on with; NULL: it can. */
static hearth_status find_misfit(const char **why, const states_writer *w, const manifest *there, hearth_error *error)
{
    bool whole = there->layers == w->m.layers && there->d == w->m.d && there->f == w->m.f;
    *why = NULL;
    if (strcmp(there->fingerprint, w->m.fingerprint) != 0)
        *why = "were another model's";
    else if (strcmp(there->digest, w->m.digest) != 0)
        *why = "were of another corpus";
    else if (there->stride != w->m.stride || there->corpus_tokens != w->m.corpus_tokens)
        *why = "were of another size";
    else if (whole)
        TRY(check_files(&whole, w, there, error));
    if (!*why && !whole)
        *why = "were damaged";
    return HEARTH_OK;
}

/* What is there already: to go on with (*goes), or to be replaced. What only cannot be read now is neither. */
static hearth_status go_on(bool *goes, states_writer *w, hearth_error *error)
{
    manifest there;
    hearth_error damage;
    const char *why = "were damaged";
    char *path = file_join(w->folder, MANIFEST);
    *goes = false;
    if (!path)
        return fail_memory(error, w->folder, strlen(w->folder));
    bool any = file_exists(path);
    mem_free(path);
    if (!any)
        return HEARTH_OK;
    hearth_status status = read_manifest(&there, w->folder, &damage);
    if (status == HEARTH_OK)
        TRY(find_misfit(&why, w, &there, error));
    else if (status != HEARTH_FORMAT)
        return fail(error, status, "%s", damage.text);
    *goes = !why;
    if (why)
        snprintf(w->note, sizeof w->note, "hidden states of an earlier run %s and are replaced", why);
    else
        w->m.tokens = there.tokens;
    return HEARTH_OK;
}

static hearth_status open_files(states_writer *w, hearth_error *error)
{
    bool goes;
    TRY(go_on(&goes, w, error));
    if (!goes)
        states_remove(w->folder);
    TRY(check_room(w, error));
    for (uint32_t i = 0; i < w->m.layers; i++)
        TRY(open_layer(w, i, !goes, error));
    return HEARTH_OK;
}

static hearth_status prepare(states_writer *w, const char *folder, uint64_t disk_bytes, hearth_error *error)
{
    w->folder = mem_copy_text(folder, strlen(folder));
    w->files = mem_new_array(w->m.layers, sizeof *w->files);
    for (uint32_t i = 0; w->files && i < w->m.layers; i++)
        w->files[i] = -1;
    w->room = BUFFER_BYTES / w->shape.bytes;
    w->room = w->room ? w->room : 1;
    w->rows = mem_new_array(w->room, w->shape.bytes);
    if (!w->folder || !w->files || !w->rows)
        return fail_memory(error, "hidden states", w->room * w->shape.bytes);
    TRY(work_make(folder, error));
    TRY(choose_stride(w, disk_bytes, error));
    return open_files(w, error);
}

hearth_status states_writer_open(states_writer **out, const char *folder, const hearth_model *model,
                                 const corpus *texts, uint64_t disk_bytes, hearth_error *error)
{
    states_writer *w = mem_new(sizeof *w);
    if (!w)
        return fail_memory(error, "hidden states", sizeof *w);
    const hyperparameters *h = &model->hyper;
    w->shape = shape_of(model);
    w->m = (manifest){
        .corpus_tokens = texts->id_count, .layers = h->layer_count, .d = h->embedding_length, .f = h->neuron_count};
    model_fingerprint(w->m.fingerprint, model);
    memcpy(w->m.digest, texts->digest, sizeof w->m.digest);
    hearth_status status = prepare(w, folder, disk_bytes, error);
    if (status != HEARTH_OK) {
        states_writer_close(w);
        return status;
    }
    *out = w;
    return HEARTH_OK;
}

const char *states_writer_note(const states_writer *w)
{
    return w->note;
}

uint64_t states_writer_tokens(const states_writer *w)
{
    return w->m.tokens;
}

uint64_t states_writer_stride(const states_writer *w)
{
    return w->m.stride;
}

uint64_t states_writer_rows(const states_writer *w)
{
    return rows_before(&w->m, w->m.corpus_tokens);
}

bool states_writer_wants(const states_writer *w, uint64_t token)
{
    if (token < w->m.tokens || token >= w->m.corpus_tokens)
        return false;
    return w->m.stride == 1 || kept_of_group(&w->m, token / w->m.stride) == token;
}

static hearth_status write_all(int file, const uint8_t *data, size_t size, uint64_t at, const char *folder,
                               hearth_error *error)
{
    while (size > 0) {
        ssize_t written = file_must_fail(ENOSPC) ? -1 : pwrite(file, data, size, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(error, folder, "hidden states: cannot write");
        data += written;
        size -= (size_t)written;
        at += (uint64_t)written;
    }
    return HEARTH_OK;
}

/* Writes the rows that are held. After a failure nothing more is written: it is told by the next flush. */
static void write_rows(states_writer *w)
{
    if (w->held > 0 && w->failed == HEARTH_OK)
        w->failed = write_all(w->files[w->layer], w->rows, w->held * w->shape.bytes, w->first * w->shape.bytes,
                              w->folder, &w->why);
    w->held = 0;
}

void states_writer_add(states_writer *w, uint64_t token, const hearth_observation *seen)
{
    if (!states_writer_wants(w, token) || w->failed != HEARTH_OK)
        return;
    uint64_t row = token / w->m.stride;
    if (w->held == w->room || seen->layer != w->layer || row != w->first + w->held)
        write_rows(w);
    if (w->held == 0) {
        w->layer = seen->layer;
        w->first = row;
    }
    encode_row(&w->shape, seen, w->rows + w->held++ * w->shape.bytes);
}

hearth_status states_writer_flush(states_writer *w, uint64_t tokens, hearth_error *error)
{
    write_rows(w);
    if (w->failed != HEARTH_OK)
        return fail(error, w->failed, "%s", w->why.text);
    if (tokens <= w->m.tokens)
        return HEARTH_OK;
    for (uint32_t i = 0; i < w->m.layers; i++)
        if (file_must_fail(EIO) || fsync(w->files[i]) != 0)
            return fail_errno(error, w->folder, "hidden states: cannot sync");
    manifest next = w->m;
    next.tokens = tokens;
    TRY(write_manifest(&next, w->folder, error));
    w->m = next;
    return HEARTH_OK;
}

void states_writer_close(states_writer *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->files && i < w->m.layers; i++)
        if (w->files[i] >= 0)
            close(w->files[i]);
    mem_free(w->files);
    mem_free(w->rows);
    mem_free(w->folder);
    mem_free(w);
}

/* ------------------------------------------------------------------ reading */

struct states {
    row_shape shape;
    file_map map;
    size_t count;
    float epsilon;
    const float *weight; /* [d] of the norm; the model's */
};

static hearth_status map_layer(states *s, const char *folder, const hearth_model *model, uint32_t layer,
                               hearth_error *error)
{
    manifest m;
    char fingerprint[FINGERPRINT_SIZE];
    TRY(read_manifest(&m, folder, error));
    model_fingerprint(fingerprint, model);
    if (strcmp(m.fingerprint, fingerprint) != 0 || layer >= m.layers || m.d != s->shape.d || m.f != s->shape.f)
        return fail(error, HEARTH_FORMAT, "%s: hidden states: are another model's", folder);
    char *path = layer_path(folder, layer);
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_map_open(&s->map, path, error);
    uint64_t rows = rows_before(&m, m.tokens);
    if (status == HEARTH_OK && s->map.size_bytes / s->shape.bytes < rows)
        status = fail(error, HEARTH_FORMAT, "%s: hidden states: %llu rows are missing", path,
                      (unsigned long long)(rows - s->map.size_bytes / s->shape.bytes));
    mem_free(path);
    s->count = (size_t)rows;
    return status;
}

hearth_status states_open(states **out, const char *folder, const hearth_model *model, uint32_t layer,
                          hearth_error *error)
{
    states *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "hidden states", sizeof *s);
    s->shape = shape_of(model);
    s->epsilon = model->hyper.norm_epsilon;
    hearth_status status = map_layer(s, folder, model, layer, error);
    if (status != HEARTH_OK) {
        states_close(s);
        return status;
    }
    s->weight = model->layers[layer].ffn_norm;
    *out = s;
    return HEARTH_OK;
}

void states_close(states *s)
{
    if (!s)
        return;
    file_map_close(&s->map);
    mem_free(s);
}

size_t states_count(const states *s)
{
    return s->count;
}

size_t states_training_count(const states *s)
{
    return (size_t)states_training_of(s->count);
}

uint64_t states_training_of(uint64_t rows)
{
    uint64_t held_out = rows / 10;
    return rows - (held_out == 0 && rows > 1 ? 1 : held_out);
}

size_t states_words(const states *s)
{
    return s->shape.words;
}

static void decode_input(const states *s, const uint8_t *row, bool normed, float *input)
{
    float size;
    uint16_t stream;
    const uint8_t *at = row + s->shape.words * sizeof(uint64_t);
    memcpy(&size, at, sizeof size);
    at += sizeof size;
    float scale = normed ? (float)(size / sqrt((double)size * size + s->epsilon)) : size;
    for (uint32_t i = 0; i < s->shape.d; i++) {
        memcpy(&stream, at + i * sizeof stream, sizeof stream);
        input[i] = half_to_float(stream) * scale;
    }
    for (uint32_t i = 0; normed && i < s->shape.d; i++)
        input[i] *= s->weight[i];
}

void states_read(const states *s, const uint32_t *rows, size_t row_count, bool normed, float *inputs, uint64_t *fired)
{
    for (size_t i = 0; i < row_count; i++) {
        const uint8_t *row = s->map.data + rows[i] * s->shape.bytes;
        if (fired)
            memcpy(fired + i * s->shape.words, row, s->shape.words * sizeof *fired);
        if (inputs)
            decode_input(s, row, normed, inputs + i * s->shape.d);
    }
}
