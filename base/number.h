/* number.h: reading decimal numbers by the C locale's rules, whatever locale the host has set. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include "base/base.h"

float number_strtof(const char *digits);
double number_strtod(const char *digits);

#endif
