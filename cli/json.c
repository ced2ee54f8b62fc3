/* json.c: documents of --json. */
#include "cli/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORM = JSON_INDENT(2) | JSON_REAL_PRECISION(9) };

void cli_json_put(json_t **into, const char *key, json_t *value) {
    if (!*into) {
        json_decref(value);
        return;
    }
    json_t *name = key ? cli_json_text(key) : NULL; /* a name in a program may not be UTF-8 */
    int failed = key ? json_object_set_new(*into, name ? json_string_value(name) : NULL, value)
                     : json_array_append_new(*into, value);
    json_decref(name);
    if (!failed) return;
    json_decref(*into);
    *into = NULL;
}

json_t *cli_json_text(const char *text) {
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    json_t *made = json_string(text);
    if (made) return made;
    char *valid = malloc(3 * strlen(text) + 1), *to = valid;
    if (!valid) return NULL;
    for (; *text; text++)
        if ((unsigned char)*text < 0x80)
            *to++ = *text;
        else
            to = stpcpy(to, replacement);
    *to = '\0';
    made = json_string(valid);
    free(valid);
    return made;
}

json_t *cli_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_json_taken(const cli_args *args, char *bytes, size_t nbytes) {
    json_t *made = json_loadb(bytes, nbytes, JSON_DECODE_ANY, NULL);
    weft_bytes_free(args->context, bytes, nbytes);
    return made;
}

static weft_status print_to(FILE *to, const json_t *root) {
    if (json_dumpf(root, to, FORM) == 0 && putc('\n', to) != EOF) return NULL;
    return weft_status_create(WEFT_IO, "--json", "cannot write: %s", strerror(errno));
}

static weft_status print_to_file(const char *path, const json_t *root) {
    FILE *file = fopen(path, "w");
    if (!file) return weft_status_create(WEFT_IO, path, "cannot open: %s", strerror(errno));
    weft_status status = print_to(file, root);
    if (fclose(file) != 0 && !status) status = weft_status_create(WEFT_IO, path, "cannot write: %s", strerror(errno));
    return status;
}

weft_status cli_json_print(const cli_args *args, json_t *root, FILE *otherwise) {
    const char *path = cli_value(args, "--json");
    if (!root) return cli_no_memory();
    weft_status status = path && *path && strcmp(path, "-") != 0 ? print_to_file(path, root)
                         : path && *path                         ? print_to(stdout, root)
                                                                 : print_to(otherwise, root);
    json_decref(root);
    return status;
}
