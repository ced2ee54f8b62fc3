/* forms.c: programs in and out of files and memory: the form by extension, the sidecar by name. */
#include <stdio.h>

#include "program/form.h"

/* --- names of files ----------------------------------------------------------------------------------------------- */

typedef struct form_row {
    const char *extension;
    weft_form form;
} form_row;

static const form_row form_rows[] = {
    {".pdmodel", WEFT_FORM_PDMODEL}, {".yaml", WEFT_FORM_YAML}, {".fx.json", WEFT_FORM_FX}};

typedef weft_status (*print_fn)(const weft_program *p, buffer *out);

/* By weft_form. */
static const struct {
    weft_status (*parse)(weft_program *p, const void *bytes, size_t nbytes);
    print_fn print;
} forms[] = {[WEFT_FORM_PDMODEL] = {pdmodel_parse, pdmodel_print},
             [WEFT_FORM_YAML] = {yaml_parse, yaml_print},
             [WEFT_FORM_FX] = {fx_parse, fx_print}};

/* A graph of PyTorch is an object in JSON whose first member is its schema. YAML may begin with a brace too. */
static weft_form form_of_text(const char *bytes, size_t nbytes) {
    static const char mark[] = "{\"schema\"";
    size_t matched = 0;
    for (size_t i = 0; i < nbytes && matched < sizeof mark - 1; i++) {
        if (strchr(" \t\r\n", bytes[i]) && bytes[i]) continue;
        if (bytes[i] != mark[matched]) return WEFT_FORM_YAML;
        matched++;
    }
    return matched == sizeof mark - 1 ? WEFT_FORM_FX : WEFT_FORM_YAML;
}

static weft_status check_form(weft_form form, const char *place) {
    if ((size_t)form < sizeof forms / sizeof *forms) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, place, "expected a form of weft_form, found %d", (int)form);
}

static bool ends_with(const char *s, size_t n, const char *tail) {
    size_t m = strlen(tail);
    return n > m && memcmp(s + n - m, tail, m) == 0;
}

/* The form of a file by its name; *out_stem is the length without extensions. */
static weft_status form_of(const char *path, weft_form *out_form, size_t *out_stem) {
    size_t n = strlen(path);
    if (strcmp(path, "-") == 0) {
        *out_form = WEFT_FORM_TEXT;
        *out_stem = n;
        return NULL;
    }
    if (ends_with(path, n, ".gz")) n -= 3;
    for (size_t i = 0; i < sizeof form_rows / sizeof *form_rows; i++) {
        if (!ends_with(path, n, form_rows[i].extension)) continue;
        *out_form = form_rows[i].form;
        *out_stem = n - strlen(form_rows[i].extension);
        return NULL;
    }
    return weft_status_create(WEFT_INVALID_ARGUMENT, path,
                              "expected a name that ends in .pdmodel, .yaml or .fx.json (also with .gz), or \"-\"");
}

/* The file, or the file with .gz: NULL in *out_found if neither is there. */
static weft_status find_either(arena *a, const char *folder, int folder_n, const char *head, const char *stem,
                               size_t stem_n, const char *tail, const char **out_found) {
    char *path = arena_format(a, "%.*s%s%.*s%s.gz", folder_n, folder, head, (int)stem_n, stem, tail);
    if (!path) return base_out_of_memory();
    size_t n = strlen(path);
    *out_found = NULL;
    path[n - 3] = '\0';
    if (file_exists(path)) {
        *out_found = path;
        return NULL;
    }
    path[n - 3] = '.';
    if (file_exists(path)) *out_found = path;
    return NULL;
}

/* NAME.dist.json or dist.NAME.json, and the same with dotted tails of NAME dropped one by one. */
static weft_status find_sidecar(arena *a, const char *path, size_t stem_n, const char **out_found, bool *out_exact) {
    size_t folder_n = stem_n;
    while (folder_n > 0 && path[folder_n - 1] != '/') folder_n--;
    const char *stem = path + folder_n;
    size_t n = stem_n - folder_n;
    *out_exact = true;
    for (;;) {
        TRY(find_either(a, path, (int)folder_n, "", stem, n, ".dist.json", out_found));
        if (!*out_found) TRY(find_either(a, path, (int)folder_n, "dist.", stem, n, ".json", out_found));
        if (*out_found) return NULL;
        while (n > 0 && stem[n - 1] != '.') n--;
        if (n < 2) return NULL;
        n--;
        *out_exact = false;
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static weft_status parse_form(weft_context *context, weft_form form, const void *bytes, size_t nbytes,
                              const char *place, weft_program **out) {
    weft_program *p;
    if (form == WEFT_FORM_TEXT) form = form_of_text(bytes, nbytes);
    if (nbytes > UINT32_MAX) /* so that 32 bits count whatever a program has */
        return weft_status_create(WEFT_LIMIT, place, "expected at most %u bytes, found %zu", UINT32_MAX, nbytes);
    TRY(weft_program_create(context, &p));
    weft_status status = NULL;
    const char *copy = arena_string(&p->arena, place, strlen(place));
    if (!copy) {
        status = base_out_of_memory();
    } else {
        p->place = copy;
        status = forms[form].parse(p, bytes, nbytes);
    }
    if (status)
        weft_program_destroy(p);
    else
        *out = p;
    return status;
}

weft_status weft_program_parse(weft_context *context, weft_form form, const void *bytes, size_t nbytes,
                               const char *sidecar, size_t sidecar_nbytes, const char *place,
                               weft_program **out_program) {
    weft_program *p;
    if (!place || !*place) place = "program";
    if (form != WEFT_FORM_TEXT) TRY(check_form(form, place));
    TRY(parse_form(context, form, bytes, nbytes, place, &p));
    weft_status status = sidecar ? sidecar_parse(p, sidecar, sidecar_nbytes, "sidecar", true) : NULL;
    if (status)
        weft_program_destroy(p);
    else
        *out_program = p;
    return status;
}

static weft_status load_program(weft_context *context, weft_form form, const char *path, weft_program **out) {
    char *bytes;
    size_t nbytes;
    TRY(file_read(&context->allocator, path, context->max_file_nbytes, &bytes, &nbytes));
    weft_status status = parse_form(context, form, bytes, nbytes, strcmp(path, "-") == 0 ? "stdin" : path, out);
    base_free(&context->allocator, bytes, nbytes + 1);
    return status;
}

static weft_status load_sidecar(weft_program *p, const char *path, bool with_ops) {
    weft_context *context = p->context;
    char *bytes;
    size_t nbytes;
    TRY(file_read(&context->allocator, path, context->max_file_nbytes, &bytes, &nbytes));
    weft_status status = sidecar_parse(p, bytes, nbytes, path, with_ops);
    base_free(&context->allocator, bytes, nbytes + 1);
    return status;
}

static weft_status add_sidecar(weft_program *p, weft_form form, const char *path, size_t stem_n,
                               const char *dist_path) {
    if (dist_path) return load_sidecar(p, dist_path, true);
    if (form != WEFT_FORM_PDMODEL) return NULL;
    const char *found = NULL;
    bool exact = false;
    arena scratch;
    arena_init(&scratch, &p->context->allocator);
    weft_status status = find_sidecar(&scratch, path, stem_n, &found, &exact);
    if (!status && found) status = load_sidecar(p, found, exact);
    arena_fini(&scratch);
    return status;
}

weft_status weft_program_load(weft_context *context, const char *path, const char *dist_path,
                              weft_program **out_program) {
    weft_form form;
    size_t stem_n;
    weft_program *p = NULL;
    TRY(form_of(path, &form, &stem_n));
    TRY(load_program(context, form, path, &p));
    weft_status status = add_sidecar(p, form, path, stem_n, dist_path);
    if (status)
        weft_program_destroy(p);
    else
        *out_program = p;
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

weft_status weft_program_print(const weft_program *program, weft_form form, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    TRY(check_form(form, program->place));
    buffer_init(&out, &program->context->allocator);
    weft_status status = forms[form].print(program, &out);
    if (!status) status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}

weft_status weft_program_print_sidecar(const weft_program *program, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &program->context->allocator);
    weft_status status = sidecar_print(program, &out);
    if (!status) status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}

/* Without ever having all of the file in memory. */
static weft_status save(const weft_program *p, const char *path, print_fn print) {
    file_writer w;
    file_writer_init(&w, &p->context->allocator, path);
    return file_writer_end(&w, print(p, &w.out));
}

static weft_status save_sidecar(const weft_program *p, const char *path, size_t stem_n) {
    weft_status status = NULL;
    buffer target;
    buffer_init(&target, &p->context->allocator);
    buffer_append(&target, path, stem_n);
    buffer_append(&target, ".dist.json", sizeof ".dist.json"); /* its NUL too */
    TRY_DONE(buffer_status(&target));
    TRY_DONE(save(p, target.bytes, sidecar_print));
done:
    buffer_fini(&target);
    return status;
}

weft_status weft_program_save(const weft_program *program, const char *path) {
    weft_form form;
    size_t stem_n;
    TRY(form_of(path, &form, &stem_n));
    if (form == WEFT_FORM_TEXT) form = WEFT_FORM_YAML;
    if (form == WEFT_FORM_PDMODEL && program_has_dist(program)) TRY(save_sidecar(program, path, stem_n));
    return save(program, path, forms[form].print);
}
