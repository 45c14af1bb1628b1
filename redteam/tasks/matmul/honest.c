/* C = A B: a candidate that does what it should. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
