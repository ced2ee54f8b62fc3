/* declare.c: vars in the order in which ops name them.
 *
 * Paddle writes the vars of a block sorted by name, and a sweep over the ops of a large program would look for its vars
 * all over the memory. So a program of one block is read in another order: what its vars hold is noted first, and a var
 * is made when an op names it. Those that no op names come last. The block lists them in file order all the same.
 *
 * Until then the value of a name is the place of the note, marked as such. Blocks that share names are read in file
 * order, as are vars that stand behind ops. */
#include "program/grow.h"
#include "program/pdmodel/pdmodel.h"

/* In a name's value: what follows is the place of a note. */
#define NOTED ((uint32_t)1 << 31)
enum { NOT_MADE = UINT32_MAX };

weft_status pdmodel_begin_notes(pdmodel_reader *r, weft_block *b, size_t count) {
    if (!count) return NULL;
    TRY(form_charge(r->program, r->budget, count * sizeof *r->notes));
    TRY(block_reserve_vars(b, count));
    if (!(r->notes = base_alloc(r->allocator, count * sizeof *r->notes))) return base_out_of_memory();
    r->notes_capacity = count;
    r->noting = b;
    return NULL;
}

void pdmodel_free_notes(pdmodel_reader *r) {
    base_free(r->allocator, r->notes, r->notes_capacity * sizeof *r->notes);
    r->notes = NULL;
    r->notes_capacity = r->nnotes = 0;
    r->noting = NULL;
}

weft_status pdmodel_declare(pdmodel_reader *r, weft_block *b, const name *n, weft_var **out) {
    if (r->nnotes == r->notes_capacity) {
        TRY(pdmodel_end_notes(r));
        return block_add_var(b, n, out);
    }
    if (!n->value) name_set_value(n, NOTED | (uint32_t)r->nnotes); /* a second var of the name is nobody's */
    *out = &r->notes[r->nnotes++];
    **out = program_blank_var(r->program, n);
    (*out)->block = b;
    (*out)->id = NOT_MADE;
    return NULL;
}

static weft_status make(pdmodel_reader *r, weft_var *note, weft_var **out) {
    TRY(program_take_var(r->program, note, out));
    note->id = (*out)->id;
    if (note->name->value == (NOTED | (uint32_t)(note - r->notes))) name_set_value(note->name, note->id + 1);
    return NULL;
}

weft_status pdmodel_resolve(pdmodel_reader *r, weft_block *b, const name *n, weft_var **out) {
    return n->value & NOTED ? make(r, &r->notes[n->value & ~NOTED], out) : block_resolve(b, n, out);
}

const weft_var *pdmodel_glimpse(const pdmodel_reader *r, const name *n) {
    return n->value & NOTED ? &r->notes[n->value & ~NOTED] : program_declared(r->program, n);
}

weft_status pdmodel_end_notes(pdmodel_reader *r) {
    weft_block *b = r->noting;
    for (size_t i = 0; i < r->nnotes; i++) {
        weft_var *made;
        if (r->notes[i].id == NOT_MADE) TRY(make(r, &r->notes[i], &made));
        b->vars[b->nvars++] = r->notes[i].id;
    }
    pdmodel_free_notes(r);
    return NULL;
}
