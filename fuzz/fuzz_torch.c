/* fuzz_torch.c - any bytes as an archive of torch.save.
 *
 * Chance seldom makes a checksum right. So the input is either an archive as it is ('Z', then the bytes), or what
 * an archive is built of (anything else): parts of a byte that chooses the path, one that says what is wrong with the
 * part, two with the length, and the bytes.
 * Covers: src/file/torch_archive.c */
#include "touch.h"

#include "../src/file/torch_archive.h"
#include "../tests/zip_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WRONG_SUM = 1, COMPRESSED = 2, ENCRYPTED = 4, TOO_LONG = 8, SHARED = 16 };

static const char *const paths[] = {
    "x/data.pkl", "x/data/0", "x/data/1", "x/byteorder", "x/version", "y/data.pkl", "y/data/0", "../x", "x/.data/y", "",
};

/* The next part of the input; the size that is left of it. */
static size_t take_part(zip_part *part, const uint8_t *data, size_t size)
{
    size_t length = data[2] | (size_t)data[3] << 8;
    if (length > size - 4)
        length = size - 4;
    uint8_t wrong = data[1];
    *part = (zip_part){
        .path = paths[data[0] % (sizeof paths / sizeof *paths)],
        .data = data + 4,
        .size = length,
        .method = wrong & COMPRESSED ? 8 : 0,
        .flags = wrong & ENCRYPTED ? 1 : 0,
        .wrong_sum = wrong & WRONG_SUM ? 1 : 0,
        .claimed = wrong & TOO_LONG ? (uint32_t)length + 1000 : 0,
        .shared_with = wrong & SHARED ? paths[1] : NULL,
    };
    return size - 4 - length;
}

static void build(buffer *archive, const uint8_t *data, size_t size)
{
    zip_part parts[ZIP_PARTS];
    size_t count = 0;
    for (size_t left = size; left >= 4 && count < ZIP_PARTS; count++)
        left = take_part(&parts[count], data + (size - left), left);
    put_zip(archive, parts, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    buffer archive = {0};
    long before = mem_live();
    hearth_status status;
    if (size > 0 && data[0] == 'Z') {
        status = torch_parse(&c, data + 1, size - 1, "fuzz.pt", &error);
    } else {
        build(&archive, data, size);
        status = torch_parse(&c, (const uint8_t *)archive.data, archive.size, "fuzz.pt", &error);
    }
    buffer_free(&archive);
    if (status == HEARTH_OK) {
        touch_checkpoint(c);
        checkpoint_close(c);
    }
    check_end(status, &error, before);
    return 0;
}
