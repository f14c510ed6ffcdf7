/* json_value.c - one value of a JSON file, for shell tests.
 *
 *   json_value FILE|- PATH     PATH like prompts.0.ids
 *
 * Prints a text as it is, a number, true, false or null, an array of numbers with commas, and of an object its keys,
 * a line each. Exits 1 where there is no such value. */
#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *find(json_t *value, char *path)
{
    for (char *name = strtok(path, "."); name && value; name = strtok(NULL, "."))
        value = json_is_array(value) ? json_array_get(value, strtoul(name, NULL, 10)) : json_object_get(value, name);
    return value;
}

static void print_scalar(const json_t *value)
{
    if (json_is_string(value))
        fwrite(json_string_value(value), 1, json_string_length(value), stdout);
    else if (json_is_integer(value))
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        printf("%.12g", json_real_value(value));
    else
        fputs(json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null", stdout);
}

int main(int argc, char **argv)
{
    json_error_t error;
    if (argc < 3)
        return 2;
    json_t *file = strcmp(argv[1], "-") == 0 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &error)
                                             : json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error);
    if (!file) {
        fprintf(stderr, "%s: %s\n", argv[1], error.text);
        return 1;
    }
    char *path = argv[2];
    json_t *value = find(file, path), *item;
    if (!value) {
        json_decref(file);
        return 1;
    }
    size_t i;
    const char *key;
    if (json_is_object(value))
        json_object_foreach(value, key, item) puts(key);
    else if (json_is_array(value))
        json_array_foreach(value, i, item)
        {
            fputs(i ? "," : "", stdout);
            print_scalar(item);
        }
    else
        print_scalar(value);
    if (!json_is_object(value))
        putchar('\n');
    json_decref(file);
    return 0;
}
