/* states.c - hidden states on disk: the format of rows and of the manifest, writing them and mapping them.
 *
 * Row r of a layer's file belongs to the one token drawn from tokens [r * stride, (r + 1) * stride), so its place
 * follows from the token alone: writing a row twice does no harm, and nothing beyond the manifest's count is read. The
 * manifest is replaced whole after the rows are on disk. */
#include "states.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../model/fingerprint.h"
#include "../number/half.h"
#include "work.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MANIFEST_NAME "states"
/* More than the size of any manifest. */
#define MANIFEST_BYTES ((size_t)1 << 12)
#define LAYER_NAME     "layer-%u.states"
/* Rows are collected up to about this size before they are written. */
#define BUFFER_BYTES ((size_t)1 << 20)

/* Layout of a row: bits [words] (uint64), root mean square
 * (float), the stream divided by it [d] (float16), padded to 8. */
typedef struct row_shape {
    uint32_t d, f; /* f: of the widest layer */
    size_t words, bytes;
} row_shape;

typedef struct manifest {
    char fingerprint[FINGERPRINT_SIZE], digest[HASH_TEXT_SIZE];
    uint64_t corpus_tokens, stride; /* tokens of the corpus; one of `stride` is stored */
    uint64_t tokens;                /* tokens handled so far                         */
    uint32_t layers, d, f;
} manifest;

/* ------------------------------------------------------------------ rows */

static row_shape row_shape_of(const hearth_model *m)
{
    uint32_t f = model_largest(m).neurons;
    row_shape s = {m->hyper.embedding_length, f, bits_words(f), 0};
    size_t raw = s.words * sizeof(uint64_t) + sizeof(float) + (size_t)s.d * sizeof(uint16_t);
    s.bytes = (raw + 7) / 8 * 8;
    return s;
}

/* Encodes an observation. row [bytes], aligned to 8. */
static void row_encode(const row_shape *s, const hearth_observation *seen, uint8_t *row)
{
    uint64_t *bits = (uint64_t *)(void *)row;
    float *size = (float *)(void *)(bits + s->words);
    uint16_t *stream = (uint16_t *)(void *)(size + 1);
    bits_pack(seen->activations, seen->neuron_count, 0, bits);
    for (size_t w = bits_words(seen->neuron_count); w < s->words; w++)
        bits[w] = 0;
    double squares = 0;
    for (uint32_t i = 0; i < s->d; i++)
        squares += (double)seen->residual[i] * seen->residual[i];
    *size = (float)sqrt(squares / s->d);
    if (!isfinite(*size)) /* a broken model: its rows become zeros */
        *size = 0;
    for (uint32_t i = 0; i < s->d; i++)
        stream[i] = *size > 0 ? half_from_float(seen->residual[i] / *size) : 0;
}

/* Decodes the residual stream, divided by its size (the root mean square), which is returned. input [d] */
static float row_decode(const row_shape *s, const uint8_t *row, float *input)
{
    float size;
    uint16_t stream;
    const uint8_t *at = row + s->words * sizeof(uint64_t);
    memcpy(&size, at, sizeof size);
    at += sizeof size;
    for (uint32_t i = 0; i < s->d; i++) {
        memcpy(&stream, at + i * sizeof stream, sizeof stream);
        input[i] = half_to_float(stream);
    }
    return size;
}

/* ------------------------------------------------------------------ manifest */

/* Returns the token drawn from tokens [group * stride, (group + 1) * stride); the last group may be shorter. */
static uint64_t manifest_drawn_of(const manifest *m, uint64_t group)
{
    uint64_t begin = group * m->stride, left = m->corpus_tokens - begin;
    hash128 h = hash_begin();
    hash_number(&h, group);
    return begin + (h.a >> 32) % (left < m->stride ? left : m->stride);
}

/* Returns the rows that belong to the first `tokens` tokens. */
static uint64_t manifest_rows_before(const manifest *m, uint64_t tokens)
{
    if (tokens >= m->corpus_tokens)
        return (m->corpus_tokens + m->stride - 1) / m->stride;
    uint64_t group = tokens / m->stride;
    return group + (manifest_drawn_of(m, group) < tokens);
}

/* Prints the manifest as one line that ends with a hash of the rest. Returns false: no memory. */
static bool print(const manifest *m, buffer *text)
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

/* Parses a manifest. Text that differs in any byte from what print makes is damaged: HEARTH_FORMAT. */
static hearth_status parse(manifest *m, const char *text, size_t size)
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
    bool printed = print(m, &again);
    bool same = printed && again.size == size && memcmp(again.data, text, size) == 0;
    buffer_free(&again);
    if (!printed)
        return HEARTH_NO_MEMORY;
    return same && stride > 0 && corpus_tokens > 0 && tokens <= corpus_tokens ? HEARTH_OK : HEARTH_FORMAT;
}

/* Reads the manifest of a folder. HEARTH_FORMAT: it is damaged. HEARTH_IO: it cannot be read. */
static hearth_status manifest_read(manifest *out, const char *folder, hearth_error *error)
{
    char *text = NULL, *path = file_join(folder, MANIFEST_NAME);
    size_t size;
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_read(&text, &size, path, MANIFEST_BYTES, error);
    hearth_status parsed = status == HEARTH_OK ? parse(out, text, size) : HEARTH_OK;
    if (parsed == HEARTH_FORMAT)
        status = fail(error, HEARTH_FORMAT, "%s: hidden states: the manifest is damaged", path);
    else if (parsed != HEARTH_OK)
        status = fail_memory(error, path, size);
    mem_free(text);
    mem_free(path);
    return status;
}

static hearth_status manifest_write(const manifest *m, const char *folder, hearth_error *error)
{
    buffer text = {0};
    bool printed = print(m, &text);
    const work_piece all = {text.data, text.size};
    hearth_status status =
        printed ? work_write(folder, MANIFEST_NAME, &all, 1, error) : fail_memory(error, folder, MANIFEST_BYTES);
    buffer_free(&text);
    return status;
}

/* Returns the path of a layer's file; mem_free. NULL: no memory. */
static char *layer_path(const char *folder, uint32_t layer)
{
    char name[32];
    snprintf(name, sizeof name, LAYER_NAME, layer);
    return file_join(folder, name);
}

/* ------------------------------------------------------------------ removal */

static bool remove_layer(const char *folder, uint32_t layer)
{
    char *path = layer_path(folder, layer);
    bool removed = path && unlink(path) == 0;
    mem_free(path);
    return removed;
}

/* Returns whether a layer's file exists. */
static bool has_layer(const char *folder, uint32_t layer)
{
    char *path = layer_path(folder, layer);
    bool found = path && file_exists(path);
    mem_free(path);
    return found;
}

/* Removes the manifest first: without it the rows are meaningless. Layers are found by file name, since a damaged
 * manifest does not say how many there are. They are removed from the last on, so that a removal that was interrupted
 * can find the rest. */
void states_remove(const char *folder)
{
    uint32_t layers = 0;
    char *path = file_join(folder, MANIFEST_NAME);
    if (path)
        (void)unlink(path);
    mem_free(path);
    while (has_layer(folder, layers))
        layers++;
    while (layers > 0 && remove_layer(folder, layers - 1))
        layers--;
}

/* ------------------------------------------------------------------ reading */

struct states {
    row_shape shape;
    file_map map;
    size_t count;
    norm_kind kind; /* of the norm before the feed-forward network */
    float epsilon;
    norm_weights norm; /* owned by the model */
};

/* Checks the manifest against the model and maps the layer's file. */
static hearth_status map_layer(states *s, const char *folder, const hearth_model *model, uint32_t layer,
                               hearth_error *error)
{
    manifest m;
    char fingerprint[FINGERPRINT_SIZE];
    TRY(manifest_read(&m, folder, error));
    model_fingerprint(fingerprint, model);
    if (strcmp(m.fingerprint, fingerprint) != 0 || layer >= m.layers || m.d != s->shape.d || m.f != s->shape.f)
        return fail(error, HEARTH_FORMAT, "%s: hidden states: are another model's", folder);
    char *path = layer_path(folder, layer);
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_map_open(&s->map, path, error);
    uint64_t rows = manifest_rows_before(&m, m.tokens);
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
    s->shape = row_shape_of(model);
    s->kind = model->hyper.norm;
    s->epsilon = model->hyper.norm_epsilon;
    hearth_status status = map_layer(s, folder, model, layer, error);
    if (status != HEARTH_OK) {
        states_close(s);
        return status;
    }
    s->norm = model->layers[layer].ffn_norm;
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

/* Subtracts the mean of n values and returns what divides them then. */
static double centre(float *values, uint32_t n, double epsilon)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)values[i];
    for (uint32_t i = 0; i < n; i++) {
        values[i] -= (float)(sum / n);
        squares += (double)values[i] * (double)values[i];
    }
    return sqrt(squares / n + epsilon);
}

/* Decodes the residual stream or, if `normed`, the input of the feed-forward network. */
static void decode_input(const states *s, const uint8_t *row, bool normed, float *input)
{
    const norm_weights *w = &s->norm;
    uint32_t d = s->shape.d;
    double size = (double)row_decode(&s->shape, row, input);
    bool norms = normed && w->weight;
    double divisor = norms ? sqrt(size * size + (double)s->epsilon) : 1;
    if (norms && s->kind == NORM_LAYER && size > 0) /* the values were divided by `size`, and so is epsilon */
        divisor = size * centre(input, d, (double)s->epsilon / (size * size));
    float scale = (float)(size / divisor);
    for (uint32_t i = 0; i < d; i++)
        input[i] *= scale;
    for (uint32_t i = 0; norms && i < d; i++)
        input[i] = input[i] * w->weight[i] + (w->bias ? w->bias[i] : 0);
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

/* ------------------------------------------------------------------ opening a writer */

struct states_writer {
    const hearth_model *model;
    manifest m;
    row_shape shape;
    char *folder;
    int *files;    /* [layers]; -1: not open                                 */
    uint8_t *rows; /* [room][shape.bytes] rows of one layer, not written yet */
    size_t room, held;
    uint32_t networks;    /* layers that have one: the files of others stay empty */
    uint32_t layer;       /* layer of these rows ...                              */
    uint64_t first;       /* ... and number of the first one                      */
    hearth_status failed; /* first failure of a write; reported by the next flush */
    hearth_error why;
    char note[160];
};

/* Sets the least stride for which all rows fit. */
static hearth_status choose_stride(states_writer *w, uint64_t disk_bytes, hearth_error *error)
{
    uint64_t one = (uint64_t)w->networks * w->shape.bytes;
    w->m.stride = 1;
    if (disk_bytes == 0 || one == 0)
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

/* Returns the bytes that the files take on the disk already. */
static uint64_t stored_bytes(const states_writer *w)
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

/* Checks that the disk has room for all rows that are missing. */
static hearth_status check_room(const states_writer *w, hearth_error *error)
{
    struct statvfs disk;
    uint64_t needed, stored = stored_bytes(w);
    if (__builtin_mul_overflow(states_writer_rows(w), (uint64_t)w->networks * w->shape.bytes, &needed))
        return fail(error, HEARTH_IO, "%s: hidden states: take more bytes than can be counted", w->folder);
    needed = needed > stored ? needed - stored : 0;
    if (file_must_fail(EIO) || statvfs(w->folder, &disk) != 0)
        return fail_errno(error, w->folder, "cannot tell the room on the disk");
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (needed > room)
        return fail(error, HEARTH_IO,
                    "%s: hidden states: take %llu bytes, the disk has room for %llu; allow fewer, or clear some",
                    w->folder, (unsigned long long)needed, (unsigned long long)room);
    return HEARTH_OK;
}

/* Opens a layer's file. It does not follow links: whoever could place one would choose what is overwritten. */
static hearth_status open_layer(states_writer *w, uint32_t layer, bool afresh, hearth_error *error)
{
    char *path = layer_path(w->folder, layer);
    if (!path)
        return fail_memory(error, w->folder, strlen(w->folder));
    if (!file_must_fail(EIO))
        w->files[layer] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (afresh ? O_TRUNC : 0), 0666);
    hearth_status status = w->files[layer] >= 0 ? HEARTH_OK : fail_errno(error, path, "cannot open for writing");
    mem_free(path);
    return status;
}

/* Checks whether the files of layers with a network are as long as the manifest says. Fails where they cannot be examined. */
static hearth_status check_files(bool *whole, const states_writer *w, const manifest *found, hearth_error *error)
{
    *whole = true;
    for (uint32_t i = 0; *whole && i < w->m.layers; i++) {
        struct stat about;
        if (w->model->layers[i].ffn.neuron_count == 0)
            continue;
        char *path = layer_path(w->folder, i);
        if (!path)
            return fail_memory(error, w->folder, strlen(w->folder));
        bool exists = stat(path, &about) == 0;
        hearth_status status =
            exists || errno == ENOENT ? HEARTH_OK : fail_errno(error, path, "hidden states: cannot be looked at");
        mem_free(path);
        TRY(status);
        *whole = exists && (uint64_t)about.st_size / w->shape.bytes >= manifest_rows_before(found, found->tokens);
    }
    return HEARTH_OK;
}

/* Finds why existing rows cannot be continued; *why is NULL where they can. */
static hearth_status find_misfit(const char **why, const states_writer *w, const manifest *found, hearth_error *error)
{
    bool whole = found->layers == w->m.layers && found->d == w->m.d && found->f == w->m.f;
    *why = NULL;
    if (strcmp(found->fingerprint, w->m.fingerprint) != 0)
        *why = "were another model's";
    else if (strcmp(found->digest, w->m.digest) != 0)
        *why = "were of another corpus";
    else if (found->stride != w->m.stride || found->corpus_tokens != w->m.corpus_tokens)
        *why = "were of another size";
    else if (whole)
        TRY(check_files(&whole, w, found, error));
    if (!*why && !whole)
        *why = "were damaged";
    return HEARTH_OK;
}

/* Decides whether existing rows are continued (*goes) or replaced.
 * Rows that merely cannot be read now are neither: that is an error. */
static hearth_status go_on(bool *goes, states_writer *w, hearth_error *error)
{
    manifest found;
    hearth_error damage;
    const char *why = "were damaged";
    char *path = file_join(w->folder, MANIFEST_NAME);
    *goes = false;
    if (!path)
        return fail_memory(error, w->folder, strlen(w->folder));
    bool any = file_exists(path);
    mem_free(path);
    if (!any)
        return HEARTH_OK;
    hearth_status status = manifest_read(&found, w->folder, &damage);
    if (status == HEARTH_OK)
        TRY(find_misfit(&why, w, &found, error));
    else if (status != HEARTH_FORMAT)
        return fail(error, status, "%s", damage.text);
    *goes = !why;
    if (why)
        snprintf(w->note, sizeof w->note, "hidden states of an earlier run %s and are replaced", why);
    else
        w->m.tokens = found.tokens;
    return HEARTH_OK;
}

/* Opens the files of all layers, after removing rows that cannot be continued. */
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

/* Allocates the buffers and opens the files. On failure states_writer_close frees them. */
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
    w->model = model;
    w->shape = row_shape_of(model);
    for (uint32_t i = 0; i < h->layer_count; i++)
        w->networks += model->layers[i].ffn.neuron_count > 0;
    w->m = (manifest){
        .corpus_tokens = texts->id_count, .layers = h->layer_count, .d = h->embedding_length, .f = w->shape.f};
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

/* ------------------------------------------------------------------ which rows */

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
    return manifest_rows_before(&w->m, w->m.corpus_tokens);
}

bool states_writer_wants(const states_writer *w, uint64_t token)
{
    if (token < w->m.tokens || token >= w->m.corpus_tokens)
        return false;
    return w->m.stride == 1 || manifest_drawn_of(&w->m, token / w->m.stride) == token;
}

/* ------------------------------------------------------------------ writing rows */

/* Writes `size` bytes at offset `at`, in as many calls as needed. */
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

/* Writes the collected rows. After a failure nothing more is written; the next flush reports it. */
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
    row_encode(&w->shape, seen, w->rows + w->held++ * w->shape.bytes);
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
    TRY(manifest_write(&next, w->folder, error));
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
