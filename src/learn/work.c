/* work.c - the work folder, its lock, and the key of a model file. */
#include "work.h"

#include "../base/memory.h"
#include "../base/text.h"
#include "../model/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void work_model_key(char out[HASH_TEXT_SIZE], const hearth_model *model)
{
    char fingerprint[FINGERPRINT_SIZE];
    hash128 h = hash_begin();
    model_fingerprint(fingerprint, model);
    hash_text(&h, fingerprint);
    hash_number(&h, model->weight_bytes);
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        const model_layer *l = &model->layers[i];
        const matrix *const all[] = {&l->gate, &l->up, &l->down, &l->down_t};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            hash_text(&h, all[k]->data ? number_formats[all[k]->format].name : "none");
    }
    hash_print(out, &h);
}

char *work_path(const char *tune_path)
{
    buffer path = {0};
    if (buffer_print(&path, "%s.work", tune_path) && buffer_put(&path, "", 1))
        return path.data;
    buffer_free(&path);
    return NULL;
}

hearth_status work_make(const char *path, hearth_error *error)
{
    struct stat about;
    if (mkdir(path, 0777) == 0)
        return HEARTH_OK;
    if (errno != EEXIST)
        return fail_errno(error, path, "cannot make the folder");
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return fail(error, HEARTH_IO, "%s: cannot make the folder: a file has its name", path);
    return HEARTH_OK;
}

hearth_status work_open(work_folder *out, const char *path, hearth_error *error)
{
    *out = (work_folder){.lock = -1};
    TRY(work_make(path, error));
    int lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return fail_errno(error, path, "cannot open the folder");
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(lock);
        return fail(error, HEARTH_IO, "%s: folder: another run of hearth works in it", path);
    }
    out->path = mem_copy_text(path, strlen(path)); /* the run goes on without a lock where the file system has none */
    if (!out->path) {
        close(lock);
        return fail_memory(error, "path", strlen(path));
    }
    out->lock = lock;
    return HEARTH_OK;
}

void work_close(work_folder *w)
{
    if (!w->path)
        return;
    (void)rmdir(w->path); /* fails while the folder is not empty, as intended */
    close(w->lock);
    mem_free(w->path);
    *w = (work_folder){0};
}
