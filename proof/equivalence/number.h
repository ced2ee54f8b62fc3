/* number.h: whole numbers of factors, which are odd where nothing else is said. Of all outputs *out may be an input. */
#ifndef PROOF_EQUIVALENCE_NUMBER_H
#define PROOF_EQUIVALENCE_NUMBER_H

#include "proof/equivalence/factor.h"

typedef factor_number number;

void number_make(uint64_t n, number *out); /* any */
void number_copy(const number *from, number *out);
bool number_is_one(const number *a);
int number_compare(const number *a, const number *b); /* any */
/* Any. False: too many limbs. */
bool number_multiply(const number *a, const number *b, number *out);
bool number_shift(const number *a, int nbits, number *out);
bool number_add(const number *a, const number *b, number *out);
/* a - b of a >= b; any. */
void number_subtract(const number *a, const number *b, number *out);
/* Makes it odd; how many bits went. Not of zero. */
int number_take_twos(number *a);
void number_gcd(const number *a, const number *b, number *out);
/* a / b, which divides a. */
void number_divide(const number *a, const number *b, number *out);
/* In [0.5, 1), times 2^*out_exponent; of zero 0. */
double number_value(const number *a, int *out_exponent);

#endif
