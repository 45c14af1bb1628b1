/* What candidates have to beat: the honest kernel itself, so that any win of a cheat is a false one. */

#include "task.h"

void baseline(PARAMETERS)
{
    honest(ARGUMENTS);
}
