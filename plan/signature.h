/* signature.h: what all members of a ring must agree on in one of its collectives. */
#ifndef PLAN_SIGNATURE_H
#define PLAN_SIGNATURE_H

#include "plan/plan.h"

/* 64 bits that follow from `seed` and `value`, spread well. */
uint64_t signature_mix(uint64_t seed, uint64_t value);

/* Of a collective: op type, element type, elements, root, reduction, conditions; with_bucket: and which gradients a
 * pass says that it reduces. Equal for members that agree. */
uint64_t signature_of(const weft_plan *plan, const plan_instr *instr, bool with_bucket);

/* An all_to_all may send every member another number of elements: what index `self` of `nranks` sends to index `peer`,
 * or takes from it. */
int64_t signature_sent(const weft_plan *plan, const plan_instr *instr, int nranks, int peer);
int64_t signature_taken(const weft_plan *plan, const plan_instr *instr, int nranks, int peer);
/* Adds up to 0 (mod 2^64) over the members of a ring if each takes what the others send; 0 of any other collective. */
uint64_t signature_balance(const weft_plan *plan, const plan_instr *instr, int self, int nranks);

/* Of a send or receive: element type, elements, conditions. Equal for both members. */
uint64_t signature_of_pair(const weft_plan *plan, const plan_instr *instr);
/* The number of what `from` sends to `to`, and `to` receives from it: what adds up to 0 over both. */
uint64_t signature_transfer(int64_t from, int64_t to, uint64_t what);

/* "runs c_broadcast #41 of 12 float32, root 1"; instr NULL: "runs none". */
void signature_text(const weft_plan *plan, const plan_instr *instr, char *out, size_t nbytes);

#endif
