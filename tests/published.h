/* published.h - goldens' folders with another config, and other tensors: what engine_published*.c change to the form in which folders
 * were published. */
#ifndef TESTS_PUBLISHED_H
#define TESTS_PUBLISHED_H

#include "../src/file/weights.h"
#include "../src/model/huggingface.h"
#include "../src/model/hyper.h"

#include "golden.h"

/* Opens a golden's folder with another config, and maybe another tensor for each that `replace` takes. */
typedef bool replace_tensor(checkpoint *to, const checkpoint *from, const stored_tensor *t);

static inline hearth_status open_as(hearth_model **out, const char *name, const json_t *config, replace_tensor *replace,
                                    hearth_error *error)
{
    char folder[600];
    checkpoint *stored, *changed, *c;
    golden_path(folder, sizeof folder, name, "");
    stack_check(checkpoint_create(&stored, folder, error), error);
    stack_check(weights_add_folder(stored, folder, error), error);
    stack_check(checkpoint_create(&changed, folder, error), error);
    for (size_t i = 0; i < stored->tensor_count; i++)
        if (!replace || !replace(changed, stored, &stored->tensors[i]))
            stack_check(checkpoint_add_tensor(changed, &stored->tensors[i], error), error);
    stack_check(checkpoint_create(&c, folder, error), error);
    hearth_status status = huggingface_understand(c, changed, config, "config.json", error);
    if (status == HEARTH_OK) {
        stack_check(checkpoint_take_data(c, stored, error), error);
        stack_check(checkpoint_take_data(c, changed, error), error);
    }
    checkpoint_close(stored);
    checkpoint_close(changed);
    if (status != HEARTH_OK) {
        checkpoint_close(c);
        return status;
    }
    return model_bind(out, c, NULL, error);
}

static inline json_t *config_of(const char *name)
{
    char path[600];
    json_t *config;
    hearth_error error;
    stack_check(json_parse_file(&config, golden_path(path, sizeof path, name, "config.json"), &error), &error);
    return config;
}

static inline void expect_same(const char *name, json_t *config, replace_tensor *replace)
{
    hearth_model *m;
    hearth_error error;
    stack_check(open_as(&m, name, config, replace, &error), &error);
    json_decref(config);
    golden_expect_of(m, name);
}

static inline void expect_refused(const char *name, json_t *config, const char *reason)
{
    hearth_model *m;
    hearth_error error;
    assert_int_equal(open_as(&m, name, config, NULL, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, reason));
    json_decref(config);
}

/* What is done to one tensor of a folder: it is lost, or one shorter in the dimension of neighbours, or has other values. */
typedef enum change_kind { LOST, SHORTER, REPLACED } change_kind;

typedef struct tensor_change {
    const char *name;
    change_kind kind;
    const void *data; /* REPLACED: as many bytes as the tensor has */
} tensor_change;

static tensor_change changed;

static inline bool change_tensor(checkpoint *to, const checkpoint *from, const stored_tensor *t)
{
    (void)from;
    if (strcmp(t->name, changed.name) != 0)
        return false;
    stored_tensor other = *t;
    if (changed.kind == SHORTER) {
        other.shape[0] -= 1;
        other.size_bytes = other.size_bytes / (size_t)t->shape[0] * (size_t)other.shape[0];
    }
    if (changed.kind == REPLACED)
        other.data = changed.data;
    if (changed.kind != LOST)
        assert_int_equal(checkpoint_add_tensor(to, &other, NULL), HEARTH_OK);
    return true;
}

/* Opens a golden's folder with one tensor changed, which is to be refused for this reason. */
static inline void expect_refused_with(const char *name, tensor_change change, const char *reason)
{
    hearth_model *m;
    hearth_error error = {0};
    json_t *config = config_of(name);
    changed = change;
    if (open_as(&m, name, config, change_tensor, &error) != HEARTH_FORMAT || !strstr(error.text, reason))
        fail_msg("%s, %s: %s", name, change.name, error.text);
    json_decref(config);
}

static inline void delete_all(json_t *config, const char *const *keys)
{
    for (; *keys; keys++)
        assert_int_equal(json_object_del(config, *keys), 0);
}

#endif
