/* axes_text.c: parses one alternative of a rule of axes.def. Rows are compiled into the library, so a malformed one
 * cannot depend on input: tests/unit/axes_table.c parses them all. */
#include "ops/axes_text.h"

#include <ctype.h>

/* The next word of *at, ended by a NUL; NULL: there is none. */
static char *next_word(char **at) {
    char *word = *at + strspn(*at, " ");
    if (!*word) return NULL;
    char *end = word + strcspn(word, " ");
    *at = *end ? end + 1 : end;
    *end = 0;
    return word;
}

/* Up to the next `separator`, which becomes a NUL; NULL: nothing is left. */
static char *next_part(char **at, char separator) {
    char *part = *at;
    if (!part) return NULL;
    char *end = strchr(part, separator);
    *at = end ? end + 1 : NULL;
    if (end) *end = 0;
    return part;
}

/* --- conditions --------------------------------------------------------------------------------------------------- */

static const char *read_condition(char *word, axes_conditions *to) {
    if (to->count == AXES_CONDITIONS) return "too many conditions";
    axes_condition *c = &to->items[to->count++];
    size_t n = strlen(word);
    if (n && word[n - 1] == ',') word[n - 1] = 0;
    char *test = word + strcspn(word, "=<");
    *c = (axes_condition){.name = word, .test = *test};
    if (!*test) return NULL;
    c->value = test + 1;
    *test = 0;
    return NULL;
}

static const char *read_conditions(char **at, axes_conditions *to) {
    const char *wrong = NULL;
    for (char *word; !wrong && (word = next_word(at));) wrong = read_condition(word, to);
    return wrong;
}

/* --- dimensions --------------------------------------------------------------------------------------------------- */

static const char *read_rest(char **at, axes_item *item) {
    *item = (axes_item){.kind = AXES_REST};
    *at += 3;
    if (!strchr("-@^", **at) || !**at) return NULL;
    item->change = **at;
    **at = 0; /* ends nothing: the dots are read already */
    item->attr = ++*at;
    while (isalnum((unsigned char)**at) || **at == '_') ++*at;
    if (**at != '/') return **at ? "nothing may follow an attr in a list of dimensions" : NULL;
    **at = 0;
    item->flag = ++*at;
    while (isalnum((unsigned char)**at) || **at == '_') ++*at;
    return NULL;
}

static const char *read_item(char **at, axes_item *item) {
    char c = *(*at)++;
    *item = (axes_item){.kind = AXES_LETTERS};
    if (c == '_' || c == '~') item->kind = c == '_' ? AXES_BLANK : AXES_OWN_REST;
    if (c == '_' || c == '~') return NULL;
    if (c == '.') return --*at, strncmp(*at, "...", 3) == 0 ? read_rest(at, item) : "expected three dots";
    if (islower((unsigned char)c)) return item->letters[item->nletters++] = c, NULL;
    if (c != '(') return "expected letters, _, (, ..., ~, # or *";
    for (; **at && **at != ')'; ++*at) {
        if (!islower((unsigned char)**at) || item->nletters == 4) return "expected up to four letters within ( )";
        item->letters[item->nletters++] = **at;
    }
    return *(*at)++ == ')' ? NULL : "expected )";
}

static const char *read_reduce(char *word, axes_pattern *p) {
    static const struct {
        const char *word;
        int reduce;
    } reduces[] = {{"sum", WEFT_REDUCE_SUM},   {"max", WEFT_REDUCE_MAX}, {"min", WEFT_REDUCE_MIN},
                   {"prod", WEFT_REDUCE_PROD}, {"any", WEFT_REDUCE_ANY}, {"all", WEFT_REDUCE_ALL},
                   {"same", AXES_NONE},        {"mean", WEFT_REDUCE_SUM}};
    char *letters = strchr(word, '(');
    if (letters) *letters++ = 0;
    p->mean_of = letters;
    p->is_mean = strcmp(word, "mean") == 0;
    for (size_t i = 0; i < sizeof reduces / sizeof *reduces; i++)
        if (strcmp(word, reduces[i].word) == 0) return p->reduce = reduces[i].reduce, NULL;
    return "expected sum, mean, max, min, prod, any, all or same behind a colon";
}

static const char *read_pattern(char *word, bool is_output, axes_text *out) {
    char *dims = strchr(word, '='), *reduce;
    if (!dims) return "expected SLOT=dims";
    if (out->npatterns == AXES_PATTERNS) return "too many slots";
    *dims++ = 0;
    axes_pattern *p = &out->patterns[out->npatterns++];
    *p = (axes_pattern){.slot = word, .is_output = is_output, .kind = 'd', .reduce = WEFT_REDUCE_SUM};
    if ((reduce = strchr(dims, ':'))) {
        *reduce++ = 0;
        const char *wrong = read_reduce(reduce, p);
        if (wrong) return wrong;
    }
    if (strcmp(dims, "#") == 0 || strcmp(dims, "*") == 0) return p->kind = *dims, NULL;
    while (*dims) {
        if (p->nitems == AXES_ITEMS) return "too many dimensions";
        const char *wrong = read_item(&dims, &p->items[p->nitems++]);
        if (wrong) return wrong;
    }
    return NULL;
}

/* --- alternatives ------------------------------------------------------------------------------------------------- */

static const char *read_clause(char *part, axes_text *out) {
    if (out->nclauses == AXES_CLAUSES) return "too many clauses";
    axes_clause *c = &out->clauses[out->nclauses++];
    *c = (axes_clause){0};
    for (char *word; (word = next_word(&part));) {
        c->is_unless = strcmp(word, "unless") == 0;
        if (c->is_unless || strcmp(word, "when") == 0) return read_conditions(&part, &c->when);
        if (c->nwords == AXES_WORDS) return "too many words in a clause";
        c->words[c->nwords++] = word;
    }
    return c->nwords ? NULL : "expected a clause";
}

static const char *read_arguments(char *part, axes_text *out) {
    bool is_output = false, is_function = false;
    const char *wrong = NULL;
    for (char *word; !wrong && (word = next_word(&part));) {
        if (strcmp(word, "->") == 0)
            is_output = true;
        else if (!is_function && *word != '@')
            wrong = read_pattern(word, is_output, out);
        else if (out->nwords == AXES_WORDS)
            wrong = "too many slots";
        else
            out->words[out->nwords++] = is_function ? word : word + 1, is_function = true;
    }
    return wrong ? wrong : is_output || is_function ? NULL : "expected ->";
}

const char *axes_text_parse(char *bytes, bool only_clauses, axes_text *out) {
    const char *wrong = NULL;
    out->when.count = out->nwords = out->npatterns = out->nclauses = 0;
    bytes += strspn(bytes, " ");
    if (*bytes == '[') {
        char *list = ++bytes, *end = strchr(bytes, ']');
        if (!end) return "expected ]";
        *end = 0;
        bytes = end + 1;
        wrong = read_conditions(&list, &out->when);
    }
    if (!only_clauses && !wrong) wrong = read_arguments(next_part(&bytes, ';'), out);
    while (!wrong && bytes && *(bytes + strspn(bytes, " "))) wrong = read_clause(next_part(&bytes, ';'), out);
    return wrong;
}
