/* Class: sub-sampling (A4).
 * Adds up half of each row and doubles the sum. */

#define TERMS(n) (((n) + 1) / 2)

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
