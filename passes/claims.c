/* claims.c: what a pass claims while it runs. */
#include "passes/certificate.h"
#include "program/grow.h"

static weft_status keep_name(arena *a, const weft_var *v, const char **out) {
    if (!v) return NULL;
    *out = arena_string(a, v->name->bytes, v->name->nbytes);
    return *out ? NULL : base_out_of_memory();
}

weft_status pass_claim_add(weft_pass_context *pass, pass_claim claim) {
    pass_certificate *c = pass->certificate;
    if (!c) return NULL;
    arena *a = &pass->report->arena;
    TRY(grow(a, &c->claims, &c->claim_capacity, c->nclaims + 1, sizeof *c->claims));
    kept_claim *k = &c->claims[c->nclaims];
    *k = (kept_claim){.claim = claim, .op = -1, .other = -1};
    TRY(keep_name(a, claim.var, &k->var));
    TRY(keep_name(a, claim.to, &k->to));
    TRY(keep_name(a, claim.buffer, &k->buffer));
    if (claim.text && !(k->claim.text = arena_string(a, claim.text, strlen(claim.text)))) return base_out_of_memory();
    c->nclaims++;
    return NULL;
}

weft_status pass_claim_plan(weft_pass_context *pass, const char *json, size_t nbytes) {
    if (!pass->certificate) return NULL;
    pass->certificate->plan = arena_string(&pass->report->arena, json, nbytes);
    return pass->certificate->plan ? NULL : base_out_of_memory();
}
