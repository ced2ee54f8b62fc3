/* judge.c: see judge.h. */
#include "tests/support/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/must.h"

static weft_findings *find(weft_context *context, const char *const *texts, size_t n, const weft_verify_options *o) {
    weft_program *programs[2] = {NULL};
    weft_findings *found;
    for (size_t i = 0; i < n; i++)
        must(weft_program_parse(context, WEFT_FORM_YAML, texts[i], strlen(texts[i]), NULL, 0, "judged.yaml",
                                &programs[i]));
    must(weft_verify((const weft_program *const *)programs, n, o, &found));
    for (size_t i = 0; i < n; i++) weft_program_destroy(programs[i]);
    return found;
}

static char *say(const char *rank0, const char *rank1, const weft_verify_options *o, bool message) {
    weft_context *context;
    must(weft_context_create(NULL, &context));
    weft_findings *found = find(context, (const char *const[]){rank0, rank1}, rank1 ? 2 : 1, o);
    size_t n = weft_findings_count(found), nbytes;
    char *out = NULL;
    FILE *to = open_memstream(&out, &nbytes);
    for (size_t i = 0; i < n && !message; i++)
        fprintf(to, "%s%s", i ? " " : "", weft_verdict_name(weft_finding_at(found, i)->verdict));
    if (n && message) fputs(weft_finding_at(found, 0)->message, to);
    if (!n && !message) fputs("safe", to);
    fclose(to);
    weft_findings_destroy(found);
    weft_context_destroy(context);
    return out;
}

char *judge(const char *rank0, const char *rank1, const weft_verify_options *options) {
    return say(rank0, rank1, options, false);
}

char *judge_message(const char *rank0, const char *rank1, const weft_verify_options *options) {
    return say(rank0, rank1, options, true);
}
