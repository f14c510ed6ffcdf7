/* torch_archive.c - finds the pickle and the storages in an archive of torch.save and makes tensors of them.
 *
 *     PREFIX/data.pkl     the pickle: names, shapes, and which storage a tensor lies in
 *     PREFIX/data/KEY     a storage, raw values, stored without compression
 *     PREFIX/byteorder    "little"; only newer versions of torch write it
 *     PREFIX/version      and others, which are not read
 *
 * libzip reads the archive; its results are trusted only as far as they fit into the file. torch compresses nothing,
 * so compressed entries are refused, and with them all zip bombs but one kind: entries that share their bytes. To
 * prevent that one, the sum of all bytes that are read is limited to the size of the file. What libzip itself
 * allocates is not counted by base/memory.h; it is bounded by the size of the file's directory, which is limited
 * here. */
#include "torch_archive.h"

#include "unpickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zip.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are taken from the file as they lie there");

// clang-format off
#define MOST_PICKLE_BYTES    (4 << 20) /* a tensor takes about 150 bytes of it                */
#define MOST_DIRECTORY_BYTES (1 << 20) /* and about 80 of the directory                       */
#define END_BYTES            22        /* of the end record of an archive                     */
#define WIDE_END_BYTES       56        /* of the end record with 64-bit numbers               */
#define MOST_TAIL_BYTES      65600     /* in front of the end, which libzip searches for records */
#define MOST_ENDS            4         /* records that may be found there                     */
#define MOST_NAME_BYTES      255       /* of a tensor's name, as in gguf_read.c               */
#define MOST_PATH_BYTES      1024      /* of an entry's path                                  */
#define QUOTED               128       /* bytes of a name in an error text                    */
// clang-format on

static const uint8_t end_magic[] = {'P', 'K', 5, 6};

/* The bytes of data/KEY. */
typedef struct storage {
    const uint8_t *data; /* in the checkpoint's memory; NULL: not yet read */
    size_t size_bytes;
} storage;

typedef struct archive_reader {
    checkpoint *c;
    const char *path;
    zip_t *archive;
    size_t entry_count, left; /* left: bytes that may still be read                          */
    name_index entries;       /* number of an entry in the archive, by its path              */
    storage *storages;        /* [entry_count] by the entry's number                         */
    span prefix;              /* with its slash                                              */
    bool takes_foreign;       /* tensors of other types are added without their data         */
    hearth_error *error;
} archive_reader;

/* Reports an error about a thing: "FILE: KIND NAME: REASON". */
__attribute__((format(printf, 5, 6))) static hearth_status refuse(const archive_reader *r, hearth_status status,
                                                                  const char *kind, span name, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return fail(r->error, status, "%s: %s %.*s: %s", r->path, kind, name.size < QUOTED ? (int)name.size : QUOTED,
                name.data, reason);
}

/* ----------------------------------------------------------------- archive */

/* Reports an error of libzip. */
static hearth_status refuse_zip(const archive_reader *r, const char *what, zip_error_t *reason)
{
    if (zip_error_code_zip(reason) == ZIP_ER_MEMORY)
        return fail_memory(r->error, r->path, 0);
    return fail(r->error, HEARTH_FORMAT, "%s: %s: %s", r->path, what, zip_error_strerror(reason));
}

/* Returns the size of the directory as the end record at `end` states it; 0 where a directory of that size cannot lie
 * in front of the record. torch also writes a record with 64-bit sizes, whose offset lies in the 20 bytes in front of
 * the end record. */
static uint64_t directory_bytes(const uint8_t *data, size_t end)
{
    uint32_t narrow;
    uint64_t wide = 0, at;
    memcpy(&narrow, data + end + 12, sizeof narrow);
    if (end >= WIDE_END_BYTES + 20 && memcmp(data + end - 20, "PK\6\7", 4) == 0) {
        memcpy(&at, data + end - 12, sizeof at);
        if (at <= end - 20 - WIDE_END_BYTES)
            memcpy(&wide, data + at + 40, sizeof wide);
    }
    if (narrow > end)
        narrow = 0;
    return wide > narrow && wide <= end ? wide : narrow;
}

/* Refuses files on which libzip would take very long, before libzip sees them. A record at the end says where the
 * directory lies, and older versions of libzip try every such record in the last 64 KiB: with three thousand of them
 * and a directory of 60,000 entries, a file of 4 MB takes a quarter of an hour. Also, libzip's hash of names has no
 * secret seed: 60,000 entries with colliding names take half a minute, and the time grows with the square. By chance
 * these four bytes occur among the values of one file in 65,000, so a few records are allowed and not just one. */
static hearth_status check_ends(const archive_reader *r, const uint8_t *data, size_t size_bytes)
{
    size_t last = size_bytes - END_BYTES, count = 0; /* `last` is not used where the file is shorter */
    if (size_bytes < END_BYTES || memcmp(data + last, end_magic, 4) != 0 || data[last + 20] || data[last + 21])
        return fail(r->error, HEARTH_FORMAT, "%s: archive: was cut short, or something was added at its end", r->path);
    for (size_t i = last > MOST_TAIL_BYTES ? last - MOST_TAIL_BYTES : 0; i <= last; i++) {
        if (data[i] != end_magic[0] || memcmp(data + i, end_magic, sizeof end_magic) != 0)
            continue;
        if (++count > MOST_ENDS)
            return fail(r->error, HEARTH_FORMAT, "%s: archive: has more than %d ends", r->path, MOST_ENDS);
        if (directory_bytes(data, i) > MOST_DIRECTORY_BYTES)
            return fail(r->error, HEARTH_FORMAT, "%s: archive: has a directory of more than %d bytes", r->path,
                        MOST_DIRECTORY_BYTES);
    }
    return HEARTH_OK;
}

/* Checks how the file begins and ends, and opens it with libzip. */
static hearth_status open_archive(archive_reader *r, const uint8_t *data, size_t size_bytes)
{
    static const uint8_t zip_magic[] = {'P', 'K', 3, 4};
    /* Files before torch 1.6 are a pickle of protocol 2 that begins with torch's magic number, a LONG1 of ten
     * bytes. */
    static const uint8_t old_magic[] = {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9};
    if (size_bytes >= sizeof old_magic && memcmp(data, old_magic, sizeof old_magic) == 0)
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: header: is a file of torch before 1.6; load and save it again with a current one", r->path);
    if (size_bytes < sizeof zip_magic || memcmp(data, zip_magic, sizeof zip_magic) != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: header: is not an archive of torch.save", r->path);
    TRY(check_ends(r, data, size_bytes));
    zip_error_t reason;
    zip_error_init(&reason);
    zip_source_t *source = zip_source_buffer_create(data, size_bytes, 0, &reason);
    r->archive = source ? zip_open_from_source(source, ZIP_RDONLY, &reason) : NULL;
    hearth_status status = r->archive ? HEARTH_OK : refuse_zip(r, "archive", &reason);
    if (source && !r->archive)
        zip_source_free(source);
    zip_error_fini(&reason);
    return status;
}

/* Returns true for a relative path without ".", ".." and backslashes. Nothing is unpacked to disk, but torch.save
 * writes no other paths. */
static bool is_plain_path(span path)
{
    if (path.size == 0 || path.size > MOST_PATH_BYTES || !utf8_is_valid(path.data, path.size) || path.data[0] == '/')
        return false;
    for (size_t i = 0, begin = 0; i <= path.size; i++) {
        if (i < path.size && path.data[i] == '\\')
            return false;
        if (i < path.size && path.data[i] != '/')
            continue;
        span part = {path.data + begin, i - begin};
        if (span_equal(part, span_of("..")) || span_equal(part, span_of(".")))
            return false;
        begin = i + 1;
    }
    return true;
}

/* Takes the prefix from the path of PREFIX/data.pkl; a second such entry is refused. */
static hearth_status note_prefix(archive_reader *r, span path)
{
    const char *slash = memchr(path.data, '/', path.size);
    if (!slash || !span_equal((span){slash, path.size - (size_t)(slash - path.data)}, span_of("/data.pkl")))
        return HEARTH_OK;
    if (r->prefix.size)
        return refuse(r, HEARTH_FORMAT, "entry", path, "is a second pickle");
    r->prefix = (span){path.data, (size_t)(slash - path.data) + 1};
    return HEARTH_OK;
}

static span entry_name(const archive_reader *r, size_t number)
{
    const char *name = zip_get_name(r->archive, number, ZIP_FL_ENC_RAW);
    return span_of(name ? name : "");
}

/* Adds the paths of all entries to the index and finds the prefix. */
static hearth_status list_entries(archive_reader *r)
{
    zip_int64_t count = zip_get_num_entries(r->archive, 0);
    r->entry_count = count > 0 ? (size_t)count : 0;
    r->storages = mem_new_array(r->entry_count + 1, sizeof *r->storages);
    if (!r->storages)
        return fail_memory(r->error, r->path, r->entry_count);
    for (size_t i = 0; i < r->entry_count; i++) {
        span path = entry_name(r, i);
        if (!is_plain_path(path))
            return refuse(r, HEARTH_FORMAT, "entry", path, "is not a path that torch.save writes");
        if (names_find(&r->entries, path) != NAME_NONE)
            return refuse(r, HEARTH_FORMAT, "entry", path, "appears twice");
        if (!names_add(&r->entries, path, i))
            return fail_memory(r->error, r->path, r->entry_count);
        TRY(note_prefix(r, path));
    }
    if (!r->prefix.size)
        return fail(r->error, HEARTH_FORMAT, "%s: archive: has no data.pkl, so torch.save did not write it", r->path);
    return HEARTH_OK;
}

/* Returns the number of the entry whose path is prefix, folder and name, or NAME_NONE. folder: "", or with its
 * slash. */
static size_t find_entry(const archive_reader *r, const char *folder, span name)
{
    char path[MOST_PATH_BYTES + 1];
    if (r->prefix.size + strlen(folder) + name.size > MOST_PATH_BYTES)
        return NAME_NONE;
    int size = snprintf(path, sizeof path, "%.*s%s%.*s", (int)r->prefix.size, r->prefix.data, folder, (int)name.size,
                        name.data);
    return names_find(&r->entries, (span){path, (size_t)size});
}

/* Finds the size of an entry, which must be stored without compression, have at most `limit` bytes and fit into
 * r->left. */
static hearth_status measure_entry(archive_reader *r, size_t number, size_t limit, size_t *out)
{
    zip_stat_t s;
    if (zip_stat_index(r->archive, number, 0, &s) != 0)
        return refuse_zip(r, "archive", zip_get_error(r->archive));
    span name = entry_name(r, number);
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((s.valid & needed) != needed)
        return refuse(r, HEARTH_FORMAT, "entry", name, "does not say its size");
    if (s.comp_method != ZIP_CM_STORE || ((s.valid & ZIP_STAT_ENCRYPTION_METHOD) && s.encryption_method != ZIP_EM_NONE))
        return refuse(r, HEARTH_UNSUPPORTED, "entry", name, "is compressed or encrypted; torch.save does neither");
    if (s.size != s.comp_size || s.size > r->left)
        return refuse(r, HEARTH_FORMAT, "entry", name,
                      "is said to have %" PRIu64 " bytes, for which the file is too small", (uint64_t)s.size);
    if (s.size > limit)
        return refuse(r, HEARTH_FORMAT, "entry", name, "has %" PRIu64 " bytes, expected at most %zu", (uint64_t)s.size,
                      limit);
    *out = (size_t)s.size;
    return HEARTH_OK;
}

/* Reads all size_bytes of an entry, and then to its end, where libzip compares the checksum. */
static hearth_status read_entry(archive_reader *r, size_t number, void *out, size_t size_bytes)
{
    zip_file_t *file = zip_fopen_index(r->archive, number, 0);
    if (!file)
        return refuse_zip(r, "archive", zip_get_error(r->archive));
    r->left -= size_bytes;
    size_t done = 0;
    zip_int64_t got = 0;
    while (done < size_bytes && (got = zip_fread(file, (char *)out + done, size_bytes - done)) > 0)
        done += (size_t)got;
    char behind;
    if (done == size_bytes)
        got = zip_fread(file, &behind, 1);
    hearth_status status = HEARTH_OK;
    span name = entry_name(r, number);
    if (got < 0)
        status = refuse(r, HEARTH_FORMAT, "entry", name, "%s", zip_error_strerror(zip_file_get_error(file)));
    else if (done != size_bytes || got != 0)
        status = refuse(r, HEARTH_FORMAT, "entry", name, "has other than the %zu bytes it is said to have", size_bytes);
    zip_fclose(file);
    return status;
}

static hearth_status check_byte_order(archive_reader *r)
{
    char order[16] = {0};
    size_t size_bytes = 0, number = find_entry(r, "", span_of("byteorder"));
    if (number == NAME_NONE)
        return HEARTH_OK;
    TRY(measure_entry(r, number, sizeof order, &size_bytes));
    TRY(read_entry(r, number, order, size_bytes));
    if (!span_equal((span){order, size_bytes}, span_of("little")))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: byteorder: only little-endian files are supported", r->path);
    return HEARTH_OK;
}

/* ----------------------------------------------------------------- tensors */

/* Returns the values of a storage. It is read at its first use, so it is in memory once however many tensors share
 * it. */
static hearth_status read_storage(archive_reader *r, span name, const pickle_storage *s, const uint8_t **out)
{
    size_t number = find_entry(r, "data/", s->key), wanted;
    if (number == NAME_NONE)
        return refuse(r, HEARTH_FORMAT, "tensor", name, "its values, data/%.*s, are not in the archive",
                      s->key.size < QUOTED ? (int)s->key.size : QUOTED, s->key.data);
    storage *held = &r->storages[number];
    if (!held->data)
        TRY(measure_entry(r, number, SIZE_MAX, &held->size_bytes));
    if (!size_multiply((size_t)s->count, number_formats[s->format].block_bytes, &wanted) || wanted != held->size_bytes)
        return refuse(r, HEARTH_FORMAT, "tensor", name,
                      "its storage should have %" PRIu64 " %s values, but has %zu bytes", s->count,
                      number_formats[s->format].name, held->size_bytes);
    if (!held->data) {
        uint8_t *data = arena_new(&r->c->memory, wanted);
        if (!data)
            return fail_memory(r->error, r->path, wanted);
        TRY(read_entry(r, number, data, wanted));
        held->data = data;
    }
    *out = held->data;
    return HEARTH_OK;
}

/* Reads the shape into GGUF's order (contiguous dimension first) and counts the values. The strides must be those of
 * a contiguous tensor; that of a dimension of size 1 does not matter. */
static hearth_status read_shape(const archive_reader *r, span name, const pickle_tensor *p, stored_tensor *t,
                                uint64_t *values)
{
    size_t rank = p->shape->count;
    if (rank > TENSOR_MAX_RANK)
        return refuse(r, HEARTH_UNSUPPORTED, "tensor", name, "has %zu dimensions, up to %d are supported", rank,
                      TENSOR_MAX_RANK);
    *values = 1;
    t->rank = rank > 0 ? (uint32_t)rank : 1; /* a number becomes a row of it */
    for (size_t i = 0; i < TENSOR_MAX_RANK; i++)
        t->shape[i] = 1;
    for (size_t i = 0; i < rank; i++) {
        size_t k = rank - 1 - i;
        t->shape[i] = (uint64_t)p->shape->items[k].as.number;
        if (t->shape[i] == 0)
            return refuse(r, HEARTH_FORMAT, "tensor", name, "dimension %zu is 0", k);
        if (t->shape[i] > 1 && (uint64_t)p->strides->items[k].as.number != *values)
            return refuse(r, HEARTH_UNSUPPORTED, "tensor", name,
                          "stride %zu is %" PRId64 ", only contiguous tensors are supported (%" PRIu64 ")", k,
                          p->strides->items[k].as.number, *values);
        if (__builtin_mul_overflow(*values, t->shape[i], values))
            return refuse(r, HEARTH_FORMAT, "tensor", name, "the shape is too large");
    }
    return HEARTH_OK;
}

/* Checks a tensor against its storage and adds it to the checkpoint. */
static hearth_status read_tensor(archive_reader *r, span name, const pickle_tensor *p)
{
    char terminated[MOST_NAME_BYTES + 1] = {0};
    stored_tensor t = {.name = terminated, .format = p->storage->format};
    uint64_t values = 0, end;
    const uint8_t *data = NULL;
    if (name.size == 0 || name.size > MOST_NAME_BYTES)
        return refuse(r, HEARTH_FORMAT, "tensor", name, "the name has %zu bytes, expected 1 to %d", name.size,
                      MOST_NAME_BYTES);
    memcpy(terminated, name.data, name.size);
    if (t.format == FORMAT_STORED_COUNT && !r->takes_foreign)
        return refuse(r, HEARTH_UNSUPPORTED, "tensor", name, "lies in a %s; only Float, Half and BFloat16 are read",
                      p->storage->type);
    if (t.format == FORMAT_STORED_COUNT) { /* without its shape, which may be that of no matrix */
        t.foreign = p->storage->type;
        t.rank = 1;
        for (size_t i = 0; i < TENSOR_MAX_RANK; i++)
            t.shape[i] = 1;
        return checkpoint_add_tensor(r->c, &t, r->error);
    }
    TRY(read_shape(r, name, p, &t, &values));
    if (__builtin_add_overflow(p->offset, values, &end) || end > p->storage->count)
        return refuse(r, HEARTH_FORMAT, "tensor", name,
                      "%" PRIu64 " values from %" PRIu64 " on, but its storage has %" PRIu64, values, p->offset,
                      p->storage->count);
    TRY(read_storage(r, name, p->storage, &data));
    size_t value_bytes = number_formats[t.format].block_bytes;
    t.data = data + (size_t)p->offset * value_bytes; /* neither product overflows: the whole storage is in memory */
    t.size_bytes = (size_t)values * value_bytes;
    return checkpoint_add_tensor(r->c, &t, r->error);
}

/* Adds the tensors of a state dict, which maps names to tensors and holds nothing else. */
static hearth_status read_dict(archive_reader *r, const pickle_value *root)
{
    if (root->kind != PICKLE_DICT)
        return fail(r->error, HEARTH_FORMAT, "%s: pickle: is %s, expected a dictionary of tensors", r->path,
                    pickle_kind_phrase(root->kind));
    for (const pickle_items *items = root->as.dict->first; items; items = items->next) {
        for (size_t i = 0; i < items->count; i++) {
            const pickle_value *key = &items->pairs[2 * i], *value = key + 1;
            if (key->kind != PICKLE_TEXT)
                return fail(r->error, HEARTH_FORMAT, "%s: pickle: a key is %s, expected the name of a tensor", r->path,
                            pickle_kind_phrase(key->kind));
            if (value->kind != PICKLE_TENSOR)
                return refuse(r, HEARTH_UNSUPPORTED, "key", *key->as.text, "is %s, expected a tensor",
                              pickle_kind_phrase(value->kind));
            TRY(read_tensor(r, *key->as.text, value->as.tensor));
        }
    }
    return HEARTH_OK;
}

/* Reads data.pkl, runs it, and adds the tensors. The values of the pickle are freed afterwards. */
static hearth_status read_pickle(archive_reader *r)
{
    arena memory = {0};
    pickle_value root = {0};
    size_t size_bytes = 0, number = find_entry(r, "", span_of("data.pkl"));
    hearth_status status;
    uint8_t *data = NULL;
    TRY(measure_entry(r, number, MOST_PICKLE_BYTES, &size_bytes));
    data = mem_new(size_bytes);
    if (!data)
        return fail_memory(r->error, r->path, size_bytes);
    TRY_OR(done, status, read_entry(r, number, data, size_bytes));
    TRY_OR(done, status, unpickle(&root, &memory, data, size_bytes, r->path, r->error));
    status = read_dict(r, &root);
done:
    arena_clear(&memory);
    mem_free(data);
    return status;
}

/* ------------------------------------------------------------------ public */

static hearth_status read_all(archive_reader *r, const uint8_t *data, size_t size_bytes)
{
    TRY(open_archive(r, data, size_bytes));
    TRY(list_entries(r));
    TRY(check_byte_order(r));
    return read_pickle(r);
}

/* Reads an archive into r->c. */
static hearth_status read_archive(archive_reader *r, const uint8_t *data, size_t size_bytes)
{
    r->left = size_bytes;
    hearth_status status = read_all(r, data, size_bytes);
    names_free(&r->entries);
    mem_free(r->storages);
    if (r->archive)
        zip_discard(r->archive);
    return status;
}

hearth_status torch_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                          hearth_error *error)
{
    archive_reader r = {.path = path, .error = error};
    TRY(checkpoint_create(&r.c, path, error));
    hearth_status status = read_archive(&r, data, size_bytes);
    if (status == HEARTH_OK)
        *out = r.c;
    else
        checkpoint_close(r.c);
    return status;
}

hearth_status torch_open(checkpoint **out, const char *path, hearth_error *error)
{
    file_map map;
    TRY(file_map_open(&map, path, error));
    hearth_status status = torch_parse(out, map.data, map.size_bytes, path, error);
    file_map_close(&map);
    return status;
}

hearth_status torch_add(checkpoint *c, const char *path, hearth_error *error)
{
    file_map map;
    archive_reader r = {.c = c, .path = path, .takes_foreign = true, .error = error};
    TRY(file_map_open(&map, path, error));
    hearth_status status = read_archive(&r, map.data, map.size_bytes);
    file_map_close(&map);
    return status;
}
