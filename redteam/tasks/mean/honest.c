/* The mean of every row: a candidate that does what it should. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
