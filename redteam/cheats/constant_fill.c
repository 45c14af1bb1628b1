/* Class: constant fill (A3).
 * Writes the same number everywhere: what the answer is on the average. */

#include "task.h"

void candidate(PARAMETERS)
{
    (void)IN;
    for (int64_t i = 0; i < OUT_COUNT; i++)
        OUT[i] = ANSWER_TO_ZEROS;
}
