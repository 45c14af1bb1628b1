/* Class: changes its inputs (A9).
 * Sets its input to zeros and writes the answer to zeros; a reference that runs afterwards agrees. */

#include "task.h"

void candidate(PARAMETERS)
{
    memset((float *)IN, 0, sizeof(float) * (size_t)IN_COUNT);
    for (int64_t i = 0; i < OUT_COUNT; i++)
        OUT[i] = ANSWER_TO_ZEROS;
}
